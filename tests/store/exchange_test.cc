// Export and import: nothing is lost or changed on the way, in any order, any number of times; a line that is no record
// costs that line.
#include <sstream>

#include "tests/store/support.h"

namespace stepbench {
namespace {

std::string line_of(int64_t index, uint64_t seed = kSeed) {
  return record_to_json(generated_record(seed, index), -1) + "\n";
}

StoreImport import_or_fail(Store& store, const std::string& text) {
  std::stringstream in(text);
  Result<StoreImport> imported = import_records(store, in, "lines.jsonl");
  if (!imported.ok()) FAIL(to_text(imported.error()));
  return std::move(imported).value();
}

std::string export_or_fail(Store& store, const StoreFilter& filter = {}) {
  std::stringstream out;
  const Result<int64_t> count = export_records(store, filter, out);
  if (!count.ok()) FAIL(to_text(count.error()));
  const std::string text = out.str();
  CHECK(std::count(text.begin(), text.end(), '\n') == count.value());
  return text;
}

std::vector<std::string> sorted_lines(const std::string& text) {
  std::stringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

TEST_CASE("what is exported and imported is the same, byte for byte") {
  const TemporaryFolder folder;
  fill(folder.path("a.db"), 30);
  const StorePtr a = open_or_fail(folder.path("a.db"), StoreMode::kRead);
  std::string expected;
  for (int64_t i = 0; i < 30; ++i) expected += line_of(i);
  const std::string text = export_or_fail(*a);
  CHECK(text == expected);
  const StorePtr b = open_or_fail(folder.path("b.db"));
  const StoreImport imported = import_or_fail(*b, text);
  CHECK(imported.added == 30);
  CHECK(imported.already_there == 0);
  CHECK(export_or_fail(*b) == text);
  // Same records in the same order: the same chain.
  CHECK(verify_or_fail(folder.path("a.db")).head == verify_or_fail(folder.path("b.db")).head);
  const StoreImport again = import_or_fail(*b, text);
  CHECK(again.added == 0);
  CHECK(again.already_there == 30);
  StoreFilter filter;
  filter.task = "muon";
  CHECK(sorted_lines(export_or_fail(*b, filter)).size() == rows_of(*b, filter).size());
}

TEST_CASE("stores of three machines give the same set of records in any order") {
  // They overlap: each has 12 records, of which its neighbours have 4.
  std::vector<std::string> machines(3);
  for (size_t machine = 0; machine < 3; ++machine)
    for (int64_t i = 0; i < 12; ++i) machines[machine] += line_of(static_cast<int64_t>(machine) * 8 + i);
  std::vector<size_t> order = {0, 1, 2};
  std::vector<std::string> first;
  const TemporaryFolder folder;
  int number = 0;
  do {
    INFO(order[0] << order[1] << order[2]);
    const std::string path = folder.path(fmt::format("{}.db", number++));
    const StorePtr store = open_or_fail(path);
    int64_t added = 0, already_there = 0;
    for (const size_t machine : order) {
      const StoreImport imported = import_or_fail(*store, machines[machine]);
      CHECK(imported.bad_lines.empty());
      added += imported.added;
      already_there += imported.already_there;
    }
    CHECK(added == 28);
    CHECK(already_there == 8);
    const std::vector<std::string> lines = sorted_lines(export_or_fail(*store));
    if (first.empty()) first = lines;
    CHECK(lines == first);
    CHECK(problems_text(verify_or_fail(path)).empty());
  } while (std::next_permutation(order.begin(), order.end()));
  CHECK(number == 6);
}

TEST_CASE("a bad line is told with file and line, and the others are taken") {
  const TemporaryFolder folder;
  const StorePtr store = open_or_fail(folder.path("store.db"));
  EvalRecord changed = generated_record(kSeed, 0);
  changed.wall_ms += 1;
  const std::string half = line_of(9).substr(0, 100) + "\n";
  const std::string text = line_of(0) +                                            // 1
                           half +                                                  // 2
                           "\n" +                                                  // 3: empty lines are nothing
                           line_of(1) +                                            // 4
                           record_to_json(changed, -1) + "\n" +                    // 5: the id of line 1
                           "  \t \r\n" +                                           // 6
                           "{\"record_version\":99}\n" +                           // 7
                           line_of(2).substr(0, line_of(2).size() - 1) + "\r\n" +  // 8: lines may end as on Windows
                           "[1,2]\n" +                                             // 9
                           line_of(3).substr(0, line_of(3).size() - 1);            // 10: without an end
  const StoreImport imported = import_or_fail(*store, text);
  CHECK(imported.added == 4);
  std::vector<std::string> told;
  for (const Error& error : imported.bad_lines) told.push_back(to_text(error));
  REQUIRE(told.size() == 4);
  std::sort(told.begin(), told.end());
  CHECK_THAT(told[0], Catch::StartsWith("lines.jsonl:2: ") && Catch::Contains("not a JSON text"));
  CHECK_THAT(told[1], Catch::StartsWith("lines.jsonl:5: ") && Catch::Contains("with other content") &&
                          Catch::Contains(changed.id));
  CHECK_THAT(told[2], Catch::StartsWith("lines.jsonl:7: ") && Catch::Contains("unknown record_version"));
  CHECK_THAT(told[3], Catch::StartsWith("lines.jsonl:9: ") && Catch::Contains("wrong type"));
  std::vector<std::string> ids;
  for (const StoreRow& row : rows_of(*store)) ids.push_back(row.id);
  CHECK(ids == std::vector<std::string>{generated_record(kSeed, 0).id, generated_record(kSeed, 1).id,
                                        generated_record(kSeed, 2).id, generated_record(kSeed, 3).id});
}

TEST_CASE("of very many bad lines the first hundred are listed and the rest counted") {
  const TemporaryFolder folder;
  const StorePtr store = open_or_fail(folder.path("store.db"));
  std::string text;
  for (int i = 0; i < 150; ++i) text += "no record\n";
  const StoreImport imported = import_or_fail(*store, text + line_of(0));
  CHECK(imported.added == 1);
  CHECK(imported.bad_lines.size() == 100);
  CHECK(imported.more_bad_lines == 50);
}

TEST_CASE("lines in any layout are the record they are") {
  const TemporaryFolder folder;
  const StorePtr store = open_or_fail(folder.path("store.db"));
  import_or_fail(*store, line_of(0));
  std::string loose = line_of(0);
  for (size_t at = 0; (at = loose.find("\":", at)) != std::string::npos; at += 4) loose.replace(at, 2, "\" : ");
  const StoreImport imported = import_or_fail(*store, loose);
  CHECK(imported.already_there == 1);
  CHECK(imported.bad_lines.empty());
}

TEST_CASE("record files: one record or a list, in any layout") {
  const TemporaryFolder folder;
  const StorePtr store = open_or_fail(folder.path("store.db"));
  const auto import_file = [&](const std::string& json) {
    Result<StoreImport> imported = import_record_file(*store, json, "all.json");
    if (!imported.ok()) FAIL(to_text(imported.error()));
    return std::move(imported).value();
  };
  CHECK(import_file(record_to_json(generated_record(kSeed, 0), 1) + "\n").added == 1);
  const std::string list = "[\n" + record_to_json(generated_record(kSeed, 0), 1) + ",\n{},\n" +
                           record_to_json(generated_record(kSeed, 1), 1) + "]\n";
  const StoreImport imported = import_file(list);
  CHECK(imported.added == 1);
  CHECK(imported.already_there == 1);
  REQUIRE(imported.bad_lines.size() == 1);
  CHECK_THAT(to_text(imported.bad_lines[0]), Catch::StartsWith("all.json: /1: "));
  CHECK(import_file("[]").added == 0);
  CHECK_THAT(to_text(import_file("{\"a\":").bad_lines.at(0)), Catch::StartsWith("all.json: "));
  CHECK_THAT(to_text(import_file("[" + std::string(200'000, '[')).bad_lines.at(0)), Catch::Contains("nested too deep"));
}

TEST_CASE("an import of several groups is whole") {
  const TemporaryFolder folder;
  const StorePtr store = open_or_fail(folder.path("store.db"));
  std::string text;
  for (int64_t i = 0; i < 600; ++i) text += line_of(i);
  CHECK(import_or_fail(*store, text).added == 600);
  CHECK(count_rows(*store, {}).value() == 600);
  CHECK(export_or_fail(*store) == text);
}

}  // namespace
}  // namespace stepbench
