// Appending and reading: what goes in comes out, once, in order, by every condition; what is no record stays out.
#include <cmath>
#include <limits>
#include <set>

#include "tests/store/support.h"

namespace stepbench {
namespace {

TEST_CASE("a record comes back as it went in, and its small facts are those of the record") {
  const TemporaryFolder folder;
  const StorePtr store = open_or_fail(folder.path("a/b/store.db"));  // folders are made
  for (int64_t i = 0; i < 20; ++i) {
    const EvalRecord record = generated_record(kSeed, i);
    const Appended appended = append_or_fail(*store, record);
    CHECK(appended.added);
    CHECK(appended.sequence == i + 1);
    const Result<EvalRecord> loaded = load_record(*store, record.id);
    REQUIRE(loaded.ok());
    CHECK(record_to_json(loaded.value(), 1) == record_to_json(record, 1));
  }
  const std::vector<StoreRow> rows = rows_of(*store);
  REQUIRE(rows.size() == 20);
  int passed = 0, failed = 0, timed = 0;
  for (int64_t i = 0; i < 20; ++i) {
    const EvalRecord record = generated_record(kSeed, i);
    const StoreRow& row = rows[static_cast<size_t>(i)];
    INFO(i);
    CHECK(row.sequence == i + 1);
    CHECK(row.id == record.id);
    CHECK(row.created_utc == record.created_utc);
    CHECK(row.task == record.task);
    CHECK(row.task_version == record.task_version);
    CHECK(row.suite == record.suite);
    CHECK(row.salt == record.salt);
    CHECK(row.verdict == record.verdict);
    CHECK(row.candidate_sha256 == record.candidate.sha256);
    CHECK(row.path == record.candidate.path);
    CHECK(row.submission == record.submission->name);
    CHECK(row.model == record.submission->model);
    CHECK(row.round == record.submission->round);
    CHECK(row.prompt_tokens == record.submission->prompt_tokens);
    CHECK(row.completion_tokens == record.submission->completion_tokens);
    CHECK(row.cost_usd == record.submission->cost_usd);
    CHECK(row.stepbench_version == record.environment.stepbench_version);
    CHECK(row.device == record.environment.device);
    CHECK(row.gpu_uuid == record.environment.gpu_uuid);
    CHECK(row.driver == record.environment.driver);
    CHECK(row.compiler == record.environment.compiler);
    CHECK(row.wall_ms == record.wall_ms);
    CHECK(row.registers == record.resources[0].registers);
    CHECK(row.modelled_bytes_per_param == record.modelled_bytes_per_param);
    CHECK(row.ideal_bytes_per_param == 28);
    CHECK(row.whole);
    if (record.verdict != Verdict::kPassed) {
      ++failed;
      CHECK(row.failed_in == record.failure->check + " " + record.failure->case_name);
      CHECK(row.score.lists == 0);
      CHECK(row.score.speedup == 0);
      continue;
    }
    ++passed;
    CHECK(row.failed_in.empty());
    if (record.timing.empty()) continue;
    ++timed;
    REQUIRE(record.timing.size() == 2);
    CHECK(row.baseline == "float4.cu");
    CHECK(row.method == "generated");
    CHECK(row.score.lists > 0);
    CHECK(row.score.low > 0);
    CHECK(row.score.low <= row.score.speedup);
    CHECK(row.score.speedup <= row.score.high);
  }
  CHECK(passed > 0);
  CHECK(failed > 0);
  CHECK(timed > 0);
}

TEST_CASE("the same record again changes nothing, in whatever layout; other content under its id is refused") {
  const TemporaryFolder folder;
  const StorePtr store = open_or_fail(folder.path("store.db"));
  const EvalRecord record = generated_record(kSeed, 0);
  append_or_fail(*store, generated_record(kSeed, 1));
  CHECK(append_or_fail(*store, record).sequence == 2);
  for (const int indent : {-1, 0, 1, 4}) {
    const Result<Appended> again = append_record_json(*store, record_to_json(record, indent));
    REQUIRE(again.ok());
    CHECK_FALSE(again.value().added);
    CHECK(again.value().sequence == 2);
  }
  EvalRecord other = record;
  other.wall_ms += 1;
  const Result<Appended> refused = append_record(*store, other);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::kInvalidRecord);
  CHECK_THAT(to_text(refused.error()), Catch::Contains(record.id) && Catch::Contains("row 2") &&
                                           Catch::Contains(sha256_hex(record_to_json(record, -1))) &&
                                           Catch::Contains(sha256_hex(record_to_json(other, -1))));
  CHECK(rows_of(*store).size() == 2);
  CHECK(problems_text(verify_or_fail(folder.path("store.db"))).empty());
}

TEST_CASE("fields of a later version are kept; records of version 1 are taken") {
  const TemporaryFolder folder;
  const StorePtr store = open_or_fail(folder.path("store.db"));
  const std::string text = record_to_json(generated_record(kSeed, 0), -1);
  const std::string more = "{\"from_the_future\":{\"a\":[1,2.5,\"x\"]}," + text.substr(1);
  REQUIRE(append_record_json(*store, more).ok());
  const Result<std::string> kept = load_record_json(*store, generated_record(kSeed, 0).id);
  REQUIRE(kept.ok());
  CHECK(kept.value() == more);

  EvalRecord old = generated_record(kSeed, 1);
  old.record_version = 1;
  old.submission.reset();
  old.timing.clear();
  old.calibration.reset();
  append_or_fail(*store, old);
  const std::vector<StoreRow> rows = rows_of(*store);
  REQUIRE(rows.size() == 2);
  CHECK(rows[1].submission.empty());
}

TEST_CASE("what is no record stays out") {
  const TemporaryFolder folder;
  const StorePtr store = open_or_fail(folder.path("store.db"));
  const std::string good = record_to_json(generated_record(kSeed, 0), -1);
  const auto with_id = [&](const std::string& id) {
    EvalRecord record = generated_record(kSeed, 0);
    record.id = id;
    return record_to_json(record, -1);
  };
  const struct {
    const char* name;
    std::string text;
    const char* says;
  } rows[] = {
      {"nothing", "", "not a JSON text"},
      {"half", good.substr(0, good.size() / 2), "not a JSON text"},
      {"a list", "[" + good + "]", "wrong type"},
      {"another object", "{\"a\":1}", "record_version"},
      {"later version", "{\"record_version\":99}", "unknown record_version"},
      {"id of wrong length", with_id("abc"), "not a record's id"},
      {"id in capitals", with_id("ABCDEF0123456789"), "not a record's id"},
      {"id with a quote", with_id("abcdef012345678'"), "not a record's id"},
      {"nested without end", std::string(1'000'000, '['), "nested too deep"},
      {"nested in an unknown field",
       "{\"x\":" + std::string(100'000, '[') + std::string(100'000, ']') + "," + good.substr(1), "nested too deep"},
      {"not UTF-8", "{\"x\":\"\xff\"," + good.substr(1), "not a JSON text"},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    const Result<Appended> refused = append_record_json(*store, row.text);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kInvalidRecord);
    CHECK_THAT(to_text(refused.error()), Catch::Contains(row.says));
  }
  CHECK(rows_of(*store).empty());
  CHECK(append_record_json(*store, good).ok());  // the control
}

TEST_CASE("text and numbers of every kind survive") {
  const TemporaryFolder folder;
  const StorePtr store = open_or_fail(folder.path("store.db"));
  EvalRecord record = generated_record(kSeed, 0);
  record.candidate.path = "a'; DROP TABLE records; --\n\"\\ \xC3\xB6 \xF0\x9F\x98\x80";
  record.submission->name = std::string("nul\0inside", 10);
  record.submission->cost_usd = std::numeric_limits<double>::quiet_NaN();
  record.wall_ms = std::numeric_limits<double>::infinity();
  record.modelled_bytes_per_param = 5e-324;
  record.submission->prompt_tokens = std::numeric_limits<int64_t>::max();
  append_or_fail(*store, record);
  const std::vector<StoreRow> rows = rows_of(*store);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].path == record.candidate.path);
  CHECK(rows[0].submission == record.submission->name);
  CHECK(std::isnan(rows[0].cost_usd));
  CHECK(std::isinf(rows[0].wall_ms));
  CHECK(rows[0].modelled_bytes_per_param == 5e-324);
  CHECK(rows[0].prompt_tokens == std::numeric_limits<int64_t>::max());
  StoreFilter filter;
  filter.submission = record.submission->name;
  CHECK(rows_of(*store, filter).size() == 1);
  CHECK(problems_text(verify_or_fail(folder.path("store.db"))).empty());
}

TEST_CASE("a record of 5 MB") {
  const TemporaryFolder folder;
  const StorePtr store = open_or_fail(folder.path("store.db"));
  EvalRecord record = generated_record(kSeed, 0);
  for (int i = 0; record.compile_log.size() < 5'000'000; ++i)
    record.compile_log += fmt::format("a.cu({}): warning\n", i);
  append_or_fail(*store, record);
  const Result<EvalRecord> loaded = load_record(*store, record.id);
  REQUIRE(loaded.ok());
  CHECK(loaded.value().compile_log == record.compile_log);
  CHECK(rows_of(*store).size() == 1);
}

TEST_CASE("every condition selects what a search by hand selects") {
  const TemporaryFolder folder;
  fill(folder.path("store.db"), 300);
  const StorePtr store = open_or_fail(folder.path("store.db"), StoreMode::kRead);
  std::vector<EvalRecord> records;
  for (int64_t i = 0; i < 300; ++i) records.push_back(generated_record(kSeed, i));
  const auto with = [](auto set) {
    StoreFilter filter;
    set(filter);
    return filter;
  };
  const std::string sha = records[17].candidate.sha256, time = records[100].created_utc;
  using Test = std::function<bool(const EvalRecord&, int64_t)>;
  const struct {
    const char* name;
    StoreFilter filter;
    Test matches;
  } rows[] = {
      {"none", {}, [](const EvalRecord&, int64_t) { return true; }},
      {"task", with([](StoreFilter& f) { f.task = "lion"; }),
       [](const EvalRecord& r, int64_t) { return r.task == "lion"; }},
      {"task version", with([](StoreFilter& f) { f.task_version = 1; }),
       [](const EvalRecord&, int64_t) { return true; }},
      {"other task version", with([](StoreFilter& f) { f.task_version = 2; }),
       [](const EvalRecord&, int64_t) { return false; }},
      {"suite", with([](StoreFilter& f) { f.suite = "full"; }),
       [](const EvalRecord& r, int64_t) { return r.suite == "full"; }},
      {"verdict", with([](StoreFilter& f) { f.verdict = Verdict::kWrongResult; }),
       [](const EvalRecord& r, int64_t) { return r.verdict == Verdict::kWrongResult; }},
      {"device", with([](StoreFilter& f) { f.device = "vm"; }),
       [](const EvalRecord& r, int64_t) { return r.environment.device == "vm"; }},
      {"GPU", with([](StoreFilter& f) { f.gpu_uuid = "GPU-0001"; }),
       [](const EvalRecord& r, int64_t) { return r.environment.gpu_uuid == "GPU-0001"; }},
      {"candidate", with([&](StoreFilter& f) { f.candidate_sha256 = sha; }),
       [&](const EvalRecord& r, int64_t) { return r.candidate.sha256 == sha; }},
      {"name", with([](StoreFilter& f) { f.submission = "ada"; }),
       [](const EvalRecord& r, int64_t) { return r.submission->name == "ada"; }},
      {"model", with([](StoreFilter& f) { f.model = "model-b"; }),
       [](const EvalRecord& r, int64_t) { return r.submission->model == "model-b"; }},
      {"timed", with([](StoreFilter& f) { f.only_timed = true; }),
       [](const EvalRecord& r, int64_t) { return r.verdict == Verdict::kPassed && !r.timing.empty(); }},
      {"submitted", with([](StoreFilter& f) { f.only_submitted = true; }),
       [](const EvalRecord&, int64_t) { return true; }},
      {"from", with([&](StoreFilter& f) { f.created_from = time; }),
       [](const EvalRecord&, int64_t i) { return i >= 100; }},
      {"before", with([&](StoreFilter& f) { f.created_before = time; }),
       [](const EvalRecord&, int64_t i) { return i < 100; }},
      {"after", with([](StoreFilter& f) { f.after_sequence = 290; }),
       [](const EvalRecord&, int64_t i) { return i + 1 > 290; }},
      {"all at once", with([&](StoreFilter& f) {
         f.task = "adamw";
         f.task_version = 1;
         f.suite = "standard";
         f.verdict = Verdict::kPassed;
         f.device = "NVIDIA H200";
         f.created_from = time;
         f.after_sequence = 120;
         f.only_timed = true;
       }),
       [](const EvalRecord& r, int64_t i) {
         return r.task == "adamw" && r.suite == "standard" && r.verdict == Verdict::kPassed &&
                r.environment.device == "NVIDIA H200" && i + 1 > 120;
       }},
      {"case counts", with([](StoreFilter& f) { f.task = "LION"; }), [](const EvalRecord&, int64_t) { return false; }},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    std::vector<std::string> expected;
    for (int64_t i = 0; i < 300; ++i)
      if (row.matches(records[static_cast<size_t>(i)], i)) expected.push_back(records[static_cast<size_t>(i)].id);
    const auto ids = [&](const StoreFilter& filter) {
      std::vector<std::string> found;
      for (const StoreRow& found_row : rows_of(*store, filter)) found.push_back(found_row.id);
      return found;
    };
    CHECK(ids(row.filter) == expected);
    CHECK(count_rows(*store, row.filter).value() == static_cast<int64_t>(expected.size()));
    StoreFilter last = row.filter;
    last.newest_first = true;
    last.limit = 3;
    std::vector<std::string> newest(expected.rbegin(), expected.rbegin() + std::min<long>(3, std::ssize(expected)));
    CHECK(ids(last) == newest);
    CHECK(count_rows(*store, last).value() == static_cast<int64_t>(newest.size()));
  }
}

TEST_CASE("a visit may stop, and may read other things meanwhile") {
  const TemporaryFolder folder;
  fill(folder.path("store.db"), 10);
  const StorePtr store = open_or_fail(folder.path("store.db"), StoreMode::kRead);
  std::vector<std::string> loaded;
  const Result<int64_t> visited = for_each_row(*store, {}, [&](const StoreRow& row) {
    loaded.push_back(load_record(*store, row.id).value().id);
    return row.sequence < 4;
  });
  REQUIRE(visited.ok());
  CHECK(visited.value() == 4);
  CHECK(loaded.size() == 4);
  CHECK(loaded[3] == generated_record(kSeed, 3).id);
}

TEST_CASE("rows come from one moment, whatever is appended meanwhile") {
  const TemporaryFolder folder;
  const std::string path = folder.path("store.db");
  fill(path, 5);
  const StorePtr writer = open_or_fail(path);
  const StorePtr reader = open_or_fail(path, StoreMode::kRead);
  int64_t visited = 0;
  REQUIRE(for_each_row(*reader, {}, [&](const StoreRow&) {
            CHECK(append_or_fail(*writer, generated_record(kSeed, 5 + visited)).added);
            ++visited;
            return true;
          }).ok());
  CHECK(visited == 5);
  CHECK(rows_of(*reader).size() == 10);
}

TEST_CASE("records are found by any unique beginning of their id") {
  const TemporaryFolder folder;
  const StorePtr store = open_or_fail(folder.path("store.db"));
  for (const char* id : {"abcd000000000001", "abcd000000000002", "abce000000000000"}) {
    EvalRecord record = generated_record(kSeed, 0);
    record.id = id;
    append_or_fail(*store, record);
  }
  const struct {
    const char* name;
    std::string id;
    std::string found;  ///< empty: an error ...
    ErrorCode code = ErrorCode::kInternal;
    const char* says = "";
  } rows[] = {
      {"whole", "abcd000000000002", "abcd000000000002"},
      {"beginning", "abce", "abce000000000000"},
      {"capitals", "ABCE0", "abce000000000000"},
      {"two begin so", "abcd", "", ErrorCode::kUsage, "2 matches for abcd"},
      {"unknown", "abcf", "", ErrorCode::kNotFound, "no record with this id"},
      {"too short", "abc", "", ErrorCode::kUsage, "4 to 16 hex digits"},
      {"no digits", "wxyz", "", ErrorCode::kUsage, "4 to 16 hex digits"},
      {"a pattern", "ab%d", "", ErrorCode::kUsage, "4 to 16 hex digits"},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    const Result<EvalRecord> record = load_record(*store, row.id);
    REQUIRE(record.ok() == !row.found.empty());
    if (record.ok()) {
      CHECK(record.value().id == row.found);
    } else {
      CHECK(record.error().code == row.code);
      CHECK_THAT(to_text(record.error()), Catch::Contains(row.says));
    }
  }
}

TEST_CASE("where the store lies") {
  const struct {
    const char* name;
    const char* given;
    const char* store;
    const char* data;
    const char* home;
    const char* path;
  } rows[] = {
      {"as given", "x.db", "/s.db", "/d", "/h", "x.db"},
      {"named", "", "/s.db", "/d", "/h", "/s.db"},
      {"data folder", "", nullptr, "/d", "/h", "/d/stepbench/store.db"},
      {"home", "", nullptr, nullptr, "/h", "/h/.local/share/stepbench/store.db"},
      {"nowhere", "", nullptr, nullptr, nullptr, nullptr},
  };
  const char* names[] = {"STEPBENCH_STORE", "XDG_DATA_HOME", "HOME"};
  std::vector<std::optional<std::string>> before;
  for (const char* name : names)
    before.push_back(std::getenv(name) ? std::optional<std::string>(std::getenv(name)) : std::nullopt);
  const auto set = [](const char* name, const char* value) { value ? ::setenv(name, value, 1) : ::unsetenv(name); };
  for (const auto& row : rows) {
    INFO(row.name);
    set(names[0], row.store);
    set(names[1], row.data);
    set(names[2], row.home);
    const Result<std::string> path = store_path(row.given);
    REQUIRE(path.ok() == (row.path != nullptr));
    if (row.path) CHECK(path.value() == row.path);
  }
  for (size_t i = 0; i < 3; ++i) set(names[i], before[i] ? before[i]->c_str() : nullptr);
}

}  // namespace
}  // namespace stepbench
