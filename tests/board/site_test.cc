// Pages of made-up boards: they say what they must, their links lead somewhere, they are cut into pages, and records
// full of tricks change nothing but the words.
#include <algorithm>
#include <catch2/catch.hpp>

#include "scoring/board_plots.h"
#include "scoring/drift_error.h"
#include "tests/board/sample.h"
#include "tests/board/site.h"
#include "tests/store/generated.h"

namespace stepbench {
namespace {

using namespace std::string_literals;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const EvalRecord& record_of(const std::vector<EvalRecord>& records, const std::string& file,
                            const std::string& device) {
  for (const EvalRecord& record : records)
    if (record.candidate.path == "kernels/" + file && record.environment.device == device) return record;
  FAIL("no such record: " << file);
  return records[0];
}

std::string page_of(const BuiltSite& site, const EvalRecord& record) {
  return site.at("records/" + record.id + ".html");
}

TEST_CASE("every page of a board is strict, linked and named") {
  const std::vector<EvalRecord> records = sample::records();
  const BuiltSite site = build_site(records);
  check_pages(site);
  CHECK(site.summary.records == static_cast<int64_t>(records.size()));
  CHECK(site.summary.record_pages == static_cast<int64_t>(records.size()));
  CHECK(site.summary.unreadable == 0);
  CHECK(site.files.count("board.css") == 1);
  CHECK(site.files.count("board.js") == 1);
}

TEST_CASE("the page of a timed candidate has its numbers") {
  const std::vector<EvalRecord> records = sample::records();
  const EvalRecord& record = record_of(records, "ana_vec8.cu", "NVIDIA H200");
  const html::Page page = html::read(page_of(build_site(records), record));
  const Score score = score_of(record);
  std::string all;
  for (const html::Element* main : page.all("main")) all += main->text;
  for (const std::string& text :
       {fmt::format("{:.3f}×", *score.speedup), fmt::format("{:.3f}× – {:.3f}×", *score.low, *score.high),
        fmt::format("{:.1f} %", *score.floor_ratio * 100), "#1"s, "gpt2_124m"s, "multi_tensor.cu"s,
        "cuda events, cold L2, ABBA pairs"s, "4 of 160 pairs"s, "SM clocks differ by more than 1 % (4)"s, "48"s,
        "GPU-11111111-2222-3333-4444-555555555555"s, "4.05 TB/s"s, record.candidate.sha256, record.salt,
        "hidden: its sizes are drawn per run"s, "eight elements per thread"s, "29.12 B"s,
        "a model, not a measurement"s}) {
    INFO(text);
    CHECK(has(all, text));
  }
  CHECK_FALSE(has(all, "No speed is shown"));
  CHECK_FALSE(has(all, "contradicts"));
  const auto plots = page.all("svg");
  CHECK(std::count_if(plots.begin(), plots.end(), [](const auto* svg) { return svg->attributes.count("role"); }) == 4);
}

TEST_CASE("the page says whether memory or products make the floor") {
  EvalRecord record = record_of(sample::records(), "ana_vec8.cu", "NVIDIA H200");
  const auto main_of = [](const EvalRecord& shown) {
    return html::read(page_of(build_site({shown}), shown)).all("main")[0]->text;
  };
  const std::string before = main_of(record);
  CHECK(has(before, "of memory"));
  CHECK_FALSE(has(before, "of products"));
  CHECK_FALSE(has(before, "Measured products"));
  record.timing[0].floor_by = FloorBy::kTensor;
  record.calibration->fp32_flops_per_s = 61.25e12;
  record.calibration->tensor_flops_per_s = 752.4e12;
  const std::string after = main_of(record);
  CHECK(has(after, "of products"));
  CHECK(has(after, "of memory"));  // the other lists
  CHECK(has(after, "752 TFLOP/s"));
  CHECK(has(after, "61.2 TFLOP/s"));
}

TEST_CASE("a record without times shows no speed and says why") {
  const std::vector<EvalRecord> records = sample::records();
  const struct {
    const char *file, *device, *why;
  } rows[] = {{"first_kernel.cu", "vm", "The virtual machine has no clock"},
              {"eps_inside.cu", "vm", "The verdict is wrong_result"},
              {"too_good.cu", "NVIDIA H200", "The verdict is impossible_time"}};
  const BuiltSite site = build_site(records);
  for (const auto& row : rows) {
    INFO(row.file);
    const html::Page page = html::read(page_of(site, record_of(records, row.file, row.device)));
    const std::string main = page.all("main")[0]->text;
    CHECK(has(main, "No speed is shown."));
    CHECK(has(main, row.why));
    CHECK_FALSE(has(main, "×\n"));
    CHECK_FALSE(has(main, "speedup, 95 % interval"));
    CHECK_FALSE(has(main, "of the floor"));
  }
}

TEST_CASE("a passed record on a GPU whose times were made up of nothing shows none") {
  std::vector<EvalRecord> records = sample::records();
  EvalRecord record = record_of(records, "ana_vec8.cu", "NVIDIA H200");
  record.timing[1].pairs.resize(2);  // too few for an interval
  const std::string main = html::read(page_of(build_site({record}), record)).all("main")[0]->text;
  CHECK(has(main, "There is no score"));
  CHECK(has(main, "no speedup:"));
}

TEST_CASE("stored figures that the samples contradict are said, and not shown") {
  std::vector<EvalRecord> records = sample::records();
  EvalRecord record = record_of(records, "ana_vec8.cu", "NVIDIA H200");
  record.timing[1].speedup = 77.125;
  const std::string main = html::read(page_of(build_site({record}), record)).all("main")[0]->text;
  CHECK(has(main, "The record contradicts itself."));
  CHECK(has(main, "speedup 77.125 is stored"));
  CHECK_FALSE(has(main, "77.125×"));
}

TEST_CASE("a failed candidate explains itself") {
  const std::vector<EvalRecord> records = sample::records();
  const BuiltSite site = build_site(records);
  const struct {
    const char* file;
    std::vector<std::string> texts;
  } rows[] = {
      {"eps_inside.cu",
       {"Why it failed", "wrong_result", "A value differs from the oracle by more than its limit.", "families",
        "n257/tiny/t100", "9e3779b97f4a7c15", "-0.0340412698", "-0.0340412445", "9.22 × the limit",
        "smallest failing shape found: one tensor of 1 element", "--only families/n257/tiny/t100"}},
      {"tail_forgotten.cu",
       {"out_of_bounds", "load of 4 bytes at grad[0]+1028", "tail_forgotten.cu:14", "Line 14 of the source",
        "thread (64, 0, 0)"}},
      {"bf16_moment.cu", {"drift", "step 680", "1.31 × the limit", "exp_avg_sq", "4,711"}},
      {"typo.cu", {"compile_error", "identifier \"hyperr\" is undefined", "What the compiler said"}},
      {"tma.cu", {"unsupported", "Why it was not judged", "This is not evidence"}},
  };
  for (const auto& row : rows) {
    const EvalRecord& record = record_of(records, row.file, "vm");
    const std::string main = html::read(page_of(site, record)).all("main")[0]->text;
    for (const std::string& text : row.texts) {
      INFO(row.file << ": " << text);
      CHECK(has(main, text));
    }
    CHECK(has(main, "stepbench replay " + record.id + ".json"));
    CHECK(has(main, record.replay_command));
    CHECK(has(site.at("tasks/adamw.html"), record.id));
  }
}

TEST_CASE("findings stand at their lines") {
  const std::vector<EvalRecord> records = sample::records();
  const BuiltSite site = build_site(records);
  const html::Page page = html::read(page_of(site, record_of(records, "tail_forgotten.cu", "vm")));
  const html::Element* line = page.by_id("L14");
  REQUIRE(line);
  CHECK(line->attributes.at("class") == "hit");
  CHECK(has(line->text, "const float g = grad[i]"));
  CHECK(has(line->text, "Fault: load of 4 bytes at grad[0]+1028"));
  CHECK(page.by_id("L13")->attributes.count("class") == 0);
  CHECK(page.by_id("L22"));
  CHECK_FALSE(page.by_id("L99"));
}

TEST_CASE("the record on the page is the record") {
  const std::vector<EvalRecord> records = sample::records();
  const BuiltSite site = build_site(records);
  for (const EvalRecord& record : records) {
    const Result<EvalRecord> read = record_from_json(site.at("records/" + record.id + ".json"));
    REQUIRE(read.ok());
    CHECK(record_to_json(read.value(), -1) == record_to_json(record, -1));
  }
}

TEST_CASE("the overview has a line per author and device, with data for the filters") {
  const BuiltSite site = build_site(sample::records());
  const html::Page page = html::read(site.at("index.html"));
  const html::Element* table = page.by_id("matrix-table");
  REQUIRE(table);
  std::map<std::string, const html::Element*> lines;
  for (const html::Element* row : page.all("tr"))
    if (row->attributes.count("data-author"))
      lines[row->attributes.at("data-author") + "/" + row->attributes.at("data-model") + "/" +
            row->attributes.at("data-device")] = row;
  REQUIRE(lines.count("ana//NVIDIA H200"));
  CHECK(lines.at("ana//NVIDIA H200")->attributes.at("data-tasks") == "adamw sgd_momentum");
  CHECK(lines.at("ana//NVIDIA H200")->attributes.at("data-date") == "2026-06-09");
  CHECK(has(lines.at("ana//NVIDIA H200")->text, "#1"));
  CHECK(lines.count("opt-agent/model-l/NVIDIA H200"));
  CHECK(lines.count("opt-agent/model-s/NVIDIA H200"));
  CHECK(has(lines.at("emil//vm")->text, "not timed"));
  std::set<std::string> options;
  for (const html::Element* option : page.all("option")) options.insert(option->attributes.at("value"));
  for (const char* value : {"adamw", "lion", "sgd_momentum", "NVIDIA H200", "NVIDIA L40S", "vm", "ana", "model-l"})
    CHECK(options.count(value) == 1);
}

TEST_CASE("an empty board, one record, only failures") {
  const std::vector<EvalRecord> all = sample::records();
  const BuiltSite empty = build_site({});
  check_pages(empty);
  CHECK(has(empty.at("index.html"), "There are no records yet."));
  CHECK(has(empty.at("records.html"), "There are none."));

  const BuiltSite one = build_site({record_of(all, "grid_stride.cu", "NVIDIA H200")});
  check_pages(one);
  CHECK(has(one.at("index.html"), "1 record of 1 candidate on 1 task; 1 passed every check."));
  CHECK(has(one.at("tasks/adamw.html"), "ranks 1 to 1 of 1"));

  const BuiltSite failures =
      build_site({record_of(all, "eps_inside.cu", "vm"), record_of(all, "tail_forgotten.cu", "vm")});
  check_pages(failures);
  CHECK(has(failures.at("tasks/adamw.html"), "Nothing is ranked."));
  CHECK(has(failures.at("tasks/adamw.html"), "No candidate has passed yet."));
  CHECK(has(failures.at("tasks/adamw.html"), "Failed (2)"));
  CHECK_FALSE(has(failures.at("tasks/adamw.html"), "1.000×"));
}

TEST_CASE("very many authors and tasks: the overview is cut into pages too, and stays small") {
  const EvalRecord first = record_of(sample::records(), "grid_stride.cu", "NVIDIA H200");
  BoardInput input;
  for (int i = 0; i < 2000; ++i) {
    BoardRow row = row_of(first, i + 1);
    row.id = sha256_hex(fmt::format("{}", i)).substr(0, 16);
    row.candidate_sha256 = row.id;
    row.author = fmt::format("author number {} with a rather long name that goes on and on", i);
    row.task = fmt::format("task{}", i % 150);
    input.rows.push_back(row);
  }
  input.load = [&](const std::string&) -> Result<EvalRecord> { return first; };
  BoardOptions options;
  options.pages = 1;
  BuiltSite site;
  const Result<BoardSummary> summary =
      render_site(input, options,
                  [&](const std::string& path, std::string_view bytes) -> Result<void> {
                    site.files.emplace(path, bytes);
                    return {};
                  },
                  {});
  REQUIRE(summary.ok());
  check_pages(site);
  CHECK(site.at("index.html").size() < 2'000'000);
  CHECK(site.files.count("overview-10.html") == 1);
  CHECK(site.files.count("overview-11.html") == 0);
  CHECK(has(site.at("index.html"), "50 more rankings are not shown here."));
  CHECK(has(site.at("index.html"), "The 16 tasks with most records have a column."));
}

TEST_CASE("the same records give the same bytes") {
  const std::vector<EvalRecord> records = sample::records();
  CHECK(build_site(records).files == build_site(records).files);
}

TEST_CASE("long lists are cut into pages, and every record is reached") {
  std::vector<EvalRecord> records;
  for (int i = 0; i < 700; ++i) records.push_back(generated_record(7, i));
  BoardOptions options;
  options.pages = 5;
  options.list_rows = 50;
  const BuiltSite site = build_site(records, options);
  check_pages(site);
  // 6 tasks: the newest 5 of each, 5 of each ranking, and the former best ones.
  CHECK(site.summary.record_pages >= 30);
  CHECK(site.summary.record_pages < 300);
  CHECK(site.files.count("records-14.html") == 1);
  CHECK(site.files.count("records-15.html") == 0);
  std::set<std::string> listed;
  for (int page = 1; page <= 14; ++page) {
    const std::string path = page == 1 ? "records.html" : fmt::format("records-{}.html", page);
    const html::Page list = html::read(site.at(path));
    for (const html::Element* row : list.all("tr"))
      if (row->attributes.count("id")) listed.insert(row->attributes.at("id"));
  }
  CHECK(listed.size() == records.size());
  for (const EvalRecord& record : records) CHECK(listed.count("r-" + record.id) == 1);
  // The newest record of all has a page; one of the oldest that failed has none.
  CHECK(site.files.count("records/" + records.back().id + ".html") == 1);
  const auto failed = std::find_if(records.begin(), records.end(),
                                   [](const EvalRecord& record) { return record.verdict != Verdict::kPassed; });
  CHECK(site.files.count("records/" + failed->id + ".html") == 0);
}

TEST_CASE("a ranking longer than its first page goes on") {
  const EvalRecord first = record_of(sample::records(), "grid_stride.cu", "NVIDIA H200");
  BoardInput input;
  for (int i = 0; i < 250; ++i) {
    BoardRow row = row_of(first, i + 1);
    row.id = sha256_hex(fmt::format("{}", i)).substr(0, 16);
    row.candidate_sha256 = row.id;
    row.speedup = 1 + i * 0.01;
    row.low = row.speedup - 0.001;
    row.high = row.speedup + 0.001;
    input.rows.push_back(row);
  }
  input.load = [&](const std::string&) -> Result<EvalRecord> { return first; };
  BoardOptions options;
  options.pages = 3;
  options.list_rows = 120;
  BuiltSite site;
  const Result<BoardSummary> summary =
      render_site(input, options,
                  [&](const std::string& path, std::string_view bytes) -> Result<void> {
                    site.files.emplace(path, bytes);
                    return {};
                  },
                  {});
  REQUIRE(summary.ok());
  check_pages(site);
  CHECK(has(site.at("tasks/adamw.html"), "All 250 candidates of this ranking"));
  CHECK(has(site.at("tasks/adamw.ranking-1-1.html"), "ranks 1 to 120 of 250"));
  CHECK(has(site.at("tasks/adamw.ranking-1-3.html"), "ranks 241 to 250 of 250"));
  CHECK(site.files.count("tasks/adamw.ranking-1-4.html") == 0);
}

TEST_CASE("a record that cannot be read is listed without a page") {
  const std::vector<EvalRecord> records = sample::records();
  BoardInput input;
  for (const EvalRecord& record : records) input.rows.push_back(row_of(record, 1));
  input.load = [&](const std::string& id) -> Result<EvalRecord> {
    for (const EvalRecord& record : records)
      if (record.id == id && id != records[1].id) return record;
    return Error{ErrorCode::kInvalidRecord, "damaged", id, "", ""};
  };
  BuiltSite site;
  const Result<BoardSummary> summary =
      render_site(input, {},
                  [&](const std::string& path, std::string_view bytes) -> Result<void> {
                    site.files.emplace(path, bytes);
                    return {};
                  },
                  {});
  REQUIRE(summary.ok());
  check_pages(site);
  CHECK(summary.value().unreadable == 1);
  CHECK(has(summary.value().first_unreadable, records[1].id));
  CHECK(site.files.count("records/" + records[1].id + ".html") == 0);
  CHECK(has(site.at("records.html"), "r-" + records[1].id));
}

TEST_CASE("an error of the sink ends it") {
  BoardInput input;
  int files = 0;
  const Result<BoardSummary> summary = render_site(input, {},
                                                   [&](const std::string&, std::string_view) -> Result<void> {
                                                     if (++files < 2) return {};
                                                     return Error{ErrorCode::kIo, "disk full", "", "", ""};
                                                   },
                                                   {});
  REQUIRE_FALSE(summary.ok());
  CHECK(summary.error().message == "disk full");
  CHECK(files == 2);
}

// ---------------------------------------------------------------------------------------------- hostile records

TEST_CASE("records full of tricks change the words of pages and nothing else") {
  std::vector<EvalRecord> records;
  int number = 0;
  for (const EvalRecord& record : sample::records()) records.push_back(sample::hostile(record, number++));
  const BuiltSite site = build_site(records);
  check_pages(site);  // strict reading, one script, no handlers, all links lead to files of the site
  const std::set<std::string> tags = {
      "html",   "head",    "meta",  "title",  "link", "script", "body",    "a",       "header", "nav",    "ul",
      "li",     "bdi",     "main",  "footer", "p",    "div",    "h1",      "h2",      "h3",     "strong", "span",
      "table",  "caption", "thead", "tbody",  "tr",   "th",     "td",      "form",    "label",  "input",  "select",
      "option", "button",  "svg",   "g",      "path", "rect",   "circle",  "text",    "desc",   "figure", "figcaption",
      "dl",     "dt",      "dd",    "pre",    "code", "b",      "section", "details", "summary"};
  for (const auto& [path, text] : site.files) {
    if (!is_page(path)) continue;
    INFO(path);
    for (const html::Element& element : html::read(text).elements) {
      INFO(element.tag);
      CHECK(tags.count(element.tag) == 1);
    }
    CHECK_FALSE(has(text, "<img"));
    for (const char* raw : {"\u202E", "\u2066", "\u200B", "\x01", "\x1b", "\r", "\xFF"}) CHECK_FALSE(has(text, raw));
  }
  CHECK(site.at("index.html").size() < 2'000'000);
}

TEST_CASE("hostile names of tasks and ids stay inside the site's folder") {
  EvalRecord record = record_of(sample::records(), "eps_inside.cu", "vm");
  std::vector<EvalRecord> records;
  int number = 0;
  for (const char* name :
       {"../../etc/passwd", "/etc/passwd", "..", ".", "", "con", "A", "a", "a b", "%2e%2e", "a#b?c", "index"}) {
    record.task = name;
    record.id = number % 2 ? fmt::format("../{}", name) : fmt::format("{}{}", name, number);
    record.candidate.sha256 = sha256_hex(fmt::format("{}", number++));
    records.push_back(record);
  }
  const BuiltSite site = build_site(records);
  check_pages(site);
  for (const auto& [path, text] : site.files) {
    INFO(path);
    CHECK(path.find("..") == std::string::npos);
    CHECK(path[0] != '/');
    CHECK(std::count(path.begin(), path.end(), '/') <= 1);
  }
}

TEST_CASE("drift stands in units of the whole limit, and not where it is not judged") {
  EvalRecord record = record_of(sample::records(), "bf16_moment.cu", "vm");
  record.verdict = Verdict::kPassed;
  record.failure.reset();
  record.cases.clear();
  for (DriftCurve& curve : record.drift) curve.limit_ratio = 0;
  CHECK_FALSE(worst_drift_error_ratio(record));
  CHECK(drift_plots(record).empty());
  const std::string unjudged = page_of(build_site({record}), record);
  CHECK(has(unjudged, "not judged"));
  CHECK_FALSE(has(unjudged, "infinite"));
  CHECK_FALSE(has(unjudged, "worst drift, 1 is at the limit"));

  // 500 times the share of the movement, but roundings are most of the limit.
  DriftCurve& curve = record.drift[0];
  curve.limit_ratio = 2e-4;
  for (DriftPoint& point : curve.points) point.rms_ratio = 0.1;
  CHECK(*worst_drift_error_ratio(record) == Approx(500));  // nothing says so in this record
  record.cases.push_back({"drift", curve.case_name, Verdict::kPassed, 1, 0.25, "param", 1});
  CHECK(*worst_drift_error_ratio(record) == 0.25);
  for (DriftPoint& point : curve.points) point.error_ratio = 0.125;
  CHECK(*worst_drift_error_ratio(record) == 0.125);
  REQUIRE(drift_plots(record).size() == 1);
  CHECK(drift_plots(record)[0].series.size() == 1);
  CHECK(drift_plots(record)[0].series[0].points.back().y == 0.125);
  CHECK(has(page_of(build_site({record}), record), "worst drift, 1 is at the limit"));
}

TEST_CASE("numbers that are none are words") {
  EvalRecord record = record_of(sample::records(), "bf16_moment.cu", "vm");
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  record.failure->got = nan;
  record.failure->error_ratio = infinity;
  record.cases[0].worst_error_ratio = nan;
  record.drift[0].points[3].rms_ratio = nan;
  record.drift[0].points.back().rms_ratio = infinity;
  record.drift[0].points.back().bias_sigma = infinity;
  record.drift[1].limit_ratio = 0;
  record.drift[2].growth_exponent = nan;
  record.modelled_bytes_per_param = nan;
  record.wall_ms = infinity;
  const BuiltSite site = build_site({record});
  check_pages(site);
  const std::string text = page_of(site, record);
  const std::string main = html::read(text).all("main")[0]->text;
  CHECK(has(main, "not a number"));
  CHECK(has(main, "infinite"));
  CHECK(has(main, "the same in every element"));
  for (const char* raw : {">nan<", ">inf<", "-nan", "=\"nan", "=\"inf"}) {
    INFO(raw);
    CHECK_FALSE(has(text, raw));
  }
}

}  // namespace
}  // namespace stepbench
