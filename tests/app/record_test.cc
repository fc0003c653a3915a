// Records as text: what goes out comes back, every field, every kind of number; what is not a record is refused with
// the place of the fault; the documented example is a record.
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>

#include "harness/record.h"
#include "harness/stages.h"
#include "tests/app/program.h"

namespace stepbench {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

PlanLaunch sample_launch() {
  PlanLaunch launch;
  launch.each = LaunchFor::kTensor;
  launch.pointer = "/launches/0";
  launch.kernel = "adamw_step<4>";
  launch.grid = {"ceil_div(n, VEC*BLOCK)", "2", "3"};
  launch.block = {"BLOCK", "4", "5"};
  launch.cluster = {"2", "6", "7"};
  launch.shared_bytes = "4*BLOCK";
  launch.args = {"param", "hyper", "1.5"};
  launch.library = "gemm";
  launch.gemm = {.m = "rows",
                 .n = "cols",
                 .k = "rows + 1",
                 .transpose_a = "1",
                 .transpose_b = "rows > cols",
                 .batch = "count",
                 .stride_a = "3",
                 .stride_b = "4",
                 .stride_c = "5",
                 .stride_d = "6",
                 .a = "scratch.a",
                 .b = "scratch.b",
                 .c = "scratch.c",
                 .d = "scratch.d + 8",
                 .inputs = DType::kBf16,
                 .output = DType::kF16,
                 .alpha = 0.1,
                 .beta = -4.775};
  launch.repeat = "1";
  return launch;
}

/// Every field differs from its default and from its neighbours, so that a swap or a loss shows.
EvalRecord sample_record() {
  EvalRecord record;
  record.id = "0123456789abcdef";
  record.created_utc = "2025-01-02T03:04:05Z";
  record.task = "adamw";
  record.task_version = 7;
  record.suite = "standard";
  record.salt = "00000000000000ff";
  record.candidate.path = "dir/a \"b\"\\c.cu";
  record.candidate.task = "adamw2";
  record.candidate.note = "n\xC3\xB6te";
  record.candidate.source = "line 1\n\tline 2\x01\n";
  record.candidate.is_ptx = true;
  record.candidate.sha256 = "abc";
  record.candidate.default_plan = true;
  record.candidate.plan_line = 3;
  record.candidate.plan_text = "{}";
  record.candidate.plan.defines = {{"VEC", "4"}, {"A", "2"}};
  record.candidate.plan.tunables = {{"BLOCK", {"128", "256"}}};
  record.candidate.plan.options = {"--use_fast_math"};
  record.candidate.plan.scratch = {{"z", "4"}, {"y", "8*n"}};
  PlanLaunch group;
  group.each = LaunchFor::kShape;
  group.pointer = "/launches/1";
  group.repeat = "5";
  group.launches = {sample_launch()};
  record.candidate.plan.launches = {sample_launch(), group};
  record.environment = {"0.1.0", "vm", "detail", "NVRTC 13.0", "cpu", "Linux", "580.1", "GPU-1", 1980, 700, 41.5, 3};
  record.verdict = Verdict::kWrongResult;
  record.failure =
      Failure{Verdict::kWrongResult, "message", "a.cu:3", "families", "case/1", 0xFFFFFFFFFFFFFFFEull, 12, "param", 2,
              int64_t{1} << 40,      0.1,       kNan,     kInf,       "detail"};
  record.replay_command = "stepbench replay 0123456789abcdef";
  record.cases = {{"edges", "c1", Verdict::kPassed, 10, 0.25, "m", 1.5},
                  {"families", "c2", Verdict::kWrongResult, 11, -kInf, "v", 2.5}};
  record.drift = {{"d", "param", {{1, 1e-310, -0.0, 3.0}, {1000, 1.0 / 3.0, -1e300, kInf, 0.1}}, 0.5, 0.125}};
  record.resources = {{"entry", 32, 1, 2, 3, 4, 5}};
  record.compile_log = "warning";
  record.notes = {"note 1", "note 2"};
  record.counters = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, std::numeric_limits<uint64_t>::max()};
  record.traffic_params = 65536;
  record.modelled_bytes_per_param = 28.125;
  record.ideal_bytes_per_param = 28;
  record.wall_ms = 1234.5;
  record.stage_ms = {{"compile", 1.25}, {"families", 2.5}};
  TimingReport timing;
  timing.list = "[4]";
  timing.hidden = true;
  timing.tensors = 1;
  timing.params = 4;
  timing.baseline = "float4.cu";
  timing.baseline_sha256 = "def";
  timing.method = "events";
  timing.baseline_ns = 100;
  timing.candidate_ns = 50;
  timing.speedup = 2;
  timing.speedup_low = 1.9;
  timing.speedup_high = 2.1;
  timing.word = SpeedWord::kFaster;
  timing.floor_ns = 40;
  timing.floor_by = FloorBy::kTensor;
  timing.gate_ns = 39;
  timing.floor_ratio = 0.8;
  timing.verified_steps = 5;
  timing.verified_elements = 20;
  timing.pairs = {{100, 50, 101, 51, 1980, 1979, true, ""}, {102, 52, 103, 53, 1978, 900, false, "clock"}};
  record.timing = {timing};
  record.calibration =
      Calibration{"GPU-1", "2025-01-01T00:00:00Z", 4.5e12, 4.2e12, 1500, 62914560, 6e13, 1755, 7.5e14, 1410, 1980};
  record.submission = Submission{"name", "model", "note", 3, 1000, 2000, 0.25};
  return record;
}

bool same_bits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) || (std::isnan(a) && std::isnan(b));
}

/// RFC 3629, written out: lengths, continuation bytes, no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(const std::string& text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = [&](size_t k) { return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0u; };
    const auto in = [&](size_t k, unsigned low, unsigned high) { return byte(k) >= low && byte(k) <= high; };
    if (in(0, 0, 0x7F))
      i += 1;
    else if (in(0, 0xC2, 0xDF) && in(1, 0x80, 0xBF))
      i += 2;
    else if (in(0, 0xE0, 0xEF) && in(1, byte(0) == 0xE0 ? 0xA0 : 0x80, byte(0) == 0xED ? 0x9F : 0xBF) &&
             in(2, 0x80, 0xBF))
      i += 3;
    else if (in(0, 0xF0, 0xF4) && in(1, byte(0) == 0xF0 ? 0x90 : 0x80, byte(0) == 0xF4 ? 0x8F : 0xBF) &&
             in(2, 0x80, 0xBF) && in(3, 0x80, 0xBF))
      i += 4;
    else
      return false;
  }
  return true;
}

TEST_CASE("a record of version 1 is read, with nothing where that version says nothing") {
  EvalRecord before = sample_record();
  before.timing.clear();
  before.calibration.reset();
  before.submission.reset();
  std::string text = record_to_json(before, -1);
  const auto cut = [&](const std::string& piece, const std::string& by) {
    const size_t at = text.find(piece);
    INFO(piece);
    REQUIRE(at != std::string::npos);
    text.replace(at, piece.size(), by);
  };
  cut(R"("record_version":3)", R"("record_version":1)");
  cut(R"("submission":null,"calibration":null,"timing":[],)", "");
  cut(R"(,"driver":"580.1","gpu_uuid":"GPU-1","sm_clock_mhz":1980.0,"power_limit_w":700.0,"temperature_c":41.5,"other_processes":3)",
      "");
  const Result<EvalRecord> parsed = record_from_json(text);
  REQUIRE(parsed.ok());
  CHECK(parsed.value().record_version == 1);
  CHECK(parsed.value().environment.driver.empty());
  CHECK(parsed.value().environment.other_processes == -1);
  CHECK(parsed.value().timing.empty());
  CHECK_FALSE(parsed.value().submission.has_value());
  CHECK(record_to_json(parsed.value(), -1).find(R"("record_version":1)") != std::string::npos);
}

TEST_CASE("a record of version 2 is read: its floors are by memory, and no rate of arithmetic is known") {
  std::string text = record_to_json(sample_record(), -1);
  const auto cut = [&](const std::string& piece, const std::string& by) {
    const size_t at = text.find(piece);
    INFO(piece);
    REQUIRE(at != std::string::npos);
    text.replace(at, piece.size(), by);
  };
  cut(R"("record_version":3)", R"("record_version":2)");
  cut(R"("floor_by":"tensor",)", "");
  cut(R"(,"fp32_flops_per_s":60000000000000.0,"fp32_sm_mhz":1755.0,"tensor_flops_per_s":750000000000000.0,"tensor_sm_mhz":1410.0,"highest_sm_mhz":1980.0)",
      "");
  const Result<EvalRecord> parsed = record_from_json(text);
  REQUIRE(parsed.ok());
  CHECK(parsed.value().record_version == 2);
  CHECK(parsed.value().timing.at(0).floor_by == FloorBy::kMemory);
  CHECK(parsed.value().timing.at(0).floor_ns == 40);
  CHECK(parsed.value().calibration->copy_bytes_per_s == 4.2e12);
  CHECK(parsed.value().calibration->fp32_flops_per_s == 0);
  CHECK(parsed.value().calibration->tensor_flops_per_s == 0);
  CHECK(parsed.value().calibration->highest_sm_mhz == 0);
}

TEST_CASE("a record survives the way through JSON") {
  const EvalRecord before = sample_record();
  for (const int indent : {-1, 0, 1, 2}) {
    const std::string text = record_to_json(before, indent);
    const Result<EvalRecord> parsed = record_from_json(text);
    INFO(text);
    REQUIRE(parsed.ok());
    const EvalRecord& after = parsed.value();
    // Same text again: no field is lost. The fields below: none is read into another's place.
    REQUIRE(record_to_json(after, indent) == text);
    REQUIRE(after.timing.size() == 1);
    CHECK(after.timing[0].word == SpeedWord::kFaster);
    CHECK(after.timing[0].speedup_high == 2.1);
    REQUIRE(after.timing[0].pairs.size() == 2);
    CHECK(after.timing[0].pairs[0].candidate_first);
    CHECK(after.timing[0].pairs[1].candidate_sm_mhz == 900);
    CHECK(after.timing[0].pairs[1].dropped == "clock");
    CHECK(after.timing[0].floor_by == FloorBy::kTensor);
    CHECK(after.calibration->copy_bytes_per_s == 4.2e12);
    CHECK(after.calibration->fp32_flops_per_s == 6e13);
    CHECK(after.calibration->fp32_sm_mhz == 1755);
    CHECK(after.calibration->tensor_flops_per_s == 7.5e14);
    CHECK(after.calibration->tensor_sm_mhz == 1410);
    CHECK(after.calibration->highest_sm_mhz == 1980);
    CHECK(after.submission->completion_tokens == 2000);
    CHECK(after.environment.gpu_uuid == "GPU-1");
    CHECK(after.id == before.id);
    CHECK(after.created_utc == before.created_utc);
    CHECK(after.task == before.task);
    CHECK(after.task_version == 7);
    CHECK(after.suite == before.suite);
    CHECK(after.salt == before.salt);
    CHECK(after.candidate.source == before.candidate.source);
    CHECK(after.candidate.path == before.candidate.path);
    CHECK(after.candidate.note == before.candidate.note);
    CHECK(after.candidate.is_ptx);
    CHECK(after.candidate.default_plan);
    CHECK(after.candidate.plan.defines == before.candidate.plan.defines);
    CHECK(after.candidate.plan.scratch == before.candidate.plan.scratch);
    CHECK(after.candidate.plan.tunables == before.candidate.plan.tunables);
    REQUIRE(after.candidate.plan.launches.size() == 2);
    CHECK(after.candidate.plan.launches[0].each == LaunchFor::kTensor);
    CHECK(after.candidate.plan.launches[0].block[2] == "5");
    const PlanGemm& gemm = after.candidate.plan.launches[0].gemm;
    CHECK((gemm.m == "rows" && gemm.n == "cols" && gemm.k == "rows + 1" && gemm.batch == "count"));
    CHECK((gemm.transpose_a == "1" && gemm.transpose_b == "rows > cols"));
    CHECK((gemm.a == "scratch.a" && gemm.b == "scratch.b" && gemm.c == "scratch.c" && gemm.d == "scratch.d + 8"));
    CHECK((gemm.stride_a == "3" && gemm.stride_b == "4" && gemm.stride_c == "5" && gemm.stride_d == "6"));
    CHECK((gemm.inputs == DType::kBf16 && gemm.output == DType::kF16 && gemm.alpha == 0.1 && gemm.beta == -4.775));
    CHECK(after.candidate.plan.launches[1].each == LaunchFor::kShape);
    REQUIRE(after.candidate.plan.launches[1].launches.size() == 1);
    CHECK(after.candidate.plan.launches[1].launches[0].args == before.candidate.plan.launches[0].args);
    REQUIRE(after.failure.has_value());
    CHECK(after.failure->seed == 0xFFFFFFFFFFFFFFFEull);
    CHECK(after.failure->element == int64_t{1} << 40);
    CHECK(same_bits(after.failure->expected, 0.1));
    CHECK(std::isnan(after.failure->got));
    CHECK(same_bits(after.failure->error_ratio, kInf));
    REQUIRE(after.cases.size() == 2);
    CHECK(same_bits(after.cases[1].worst_error_ratio, -kInf));
    REQUIRE(after.drift.size() == 1);
    CHECK(same_bits(after.drift[0].points[0].rms_ratio, 1e-310));
    CHECK(same_bits(after.drift[0].points[0].bias_ratio, -0.0));
    CHECK(same_bits(after.drift[0].points[1].rms_ratio, 1.0 / 3.0));
    CHECK_FALSE(after.drift[0].points[0].error_ratio);
    REQUIRE(after.drift[0].points[1].error_ratio);
    CHECK(same_bits(*after.drift[0].points[1].error_ratio, 0.1));
    CHECK(after.counters.local_bytes == std::numeric_limits<uint64_t>::max());
    CHECK(after.counters.launches == 1);
    CHECK(after.resources[0].constant_bytes == 5);
    CHECK(after.stage_ms == before.stage_ms);
  }
}

TEST_CASE("doubles come back to the last bit") {
  EvalRecord record = sample_record();
  uint64_t state = 0x9E3779B97F4A7C15ull;  // xorshift64, so that the same numbers are tried everywhere
  for (int i = 0; i < 2000; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const double value = std::bit_cast<double>(state);
    record.wall_ms = value;
    const Result<EvalRecord> parsed = record_from_json(record_to_json(record, -1));
    REQUIRE(parsed.ok());
    INFO(hex16(state));
    REQUIRE(same_bits(parsed.value().wall_ms, value));
  }
}

TEST_CASE("a passed record has no failure") {
  EvalRecord record = sample_record();
  record.verdict = Verdict::kPassed;
  record.failure.reset();
  const Result<EvalRecord> parsed = record_from_json(record_to_json(record, -1));
  REQUIRE(parsed.ok());
  CHECK_FALSE(parsed.value().failure.has_value());
}

TEST_CASE("every record is valid UTF-8") {
  const struct {
    const char* name;
    std::string text;
  } rows[] = {
      {"byte that never occurs", "a\xFFz"},
      {"cut sequence", "a\xE2\x82"},
      {"Windows-1252 quotes", "\x93quoted\x94"},
      {"overlong slash", "\xC0\xAF"},
      {"surrogate", "\xED\xA0\x80"},
      {"byte order mark", "\xEF\xBB\xBFtext"},
      {"NUL and controls", std::string("a\0b\x1b[31m", 8)},
      {"control: plain UTF-8", "h\xC3\xA9llo \xF0\x9F\x98\x80"},
  };
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.name) {
      EvalRecord record = sample_record();
      record.compile_log = row.text;
      record.candidate.source = row.text;
      record.failure->detail = row.text;
      record.notes = {row.text};
      record.stage_ms = {{row.text, 1.0}};
      const std::string text = record_to_json(record, 1);
      REQUIRE(is_utf8(text));
      const Result<EvalRecord> parsed = record_from_json(text);
      REQUIRE(parsed.ok());
      CHECK(is_utf8(parsed.value().compile_log));
      CHECK(parsed.value().compile_log == replace_invalid_utf8(row.text));
      if (is_utf8(row.text))
        CHECK(parsed.value().compile_log == row.text);
      else
        CHECK(parsed.value().compile_log.find("\xEF\xBF\xBD") != std::string::npos);
    }
  }
}

TEST_CASE("what is not a record is refused with its place") {
  const struct {
    const char* name;
    const char* find;  // in the text of the sample record
    const char* replace;
    const char* place;    // JSON pointer
    const char* message;  // part of the error's text
  } rows[] = {
      {"missing version", R"("record_version":3,)", "", "/record_version", "missing"},
      {"newer version", R"("record_version":3)", R"("record_version":4)", "/record_version",
       "expected 1 to 3, found 4"},
      {"unknown floor", R"("floor_by":"tensor")", R"("floor_by":"bf16")", "/timing/0/floor_by",
       "memory, fp32 or tensor"},
      {"version as text", R"("record_version":3)", R"("record_version":"1")", "/record_version",
       "unknown record_version"},
      {"missing id", R"("id":"0123456789abcdef",)", "", "/id", "missing"},
      {"number for a string", R"("suite":"standard")", R"("suite":4)", "/suite", "a string"},
      {"null for a string", R"("suite":"standard")", R"("suite":null)", "/suite", "found null"},
      {"string for an integer", R"("task_version":7)", R"("task_version":"7")", "/task_version", "an integer"},
      {"fraction for an integer", R"("task_version":7)", R"("task_version":7.5)", "/task_version", "an integer"},
      {"integer too large", R"("task_version":7)", R"("task_version":2147483648)", "/task_version", "32-bit"},
      {"integer too small", R"("task_version":7)", R"("task_version":-2147483649)", "/task_version", "32-bit"},
      {"negative count", R"("launches":1,)", R"("launches":-1,)", "/counters/launches", "not negative"},
      {"unknown verdict", R"("verdict":"wrong_result","failure")", R"("verdict":"great","failure")", "/verdict",
       "a verdict"},
      {"two verdicts", R"("verdict":"wrong_result","failure")", R"("verdict":"race","failure")", "/failure/verdict",
       "two verdicts"},
      {"passed with a failure", R"("verdict":"wrong_result","failure")", R"("verdict":"passed","failure")", "/failure",
       "passed"},
      {"word for a number", R"("got":"nan")", R"("got":"NaN")", "/failure/got", "a number"},
      {"null for a number", R"("got":"nan")", R"("got":null)", "/failure/got", "a number"},
      {"short seed", R"("seed":"fffffffffffffffe")", R"("seed":"ff")", "/failure/seed", "16 hex digits"},
      {"seed that is no number", R"("seed":"fffffffffffffffe")", R"("seed":"xfffffffffffffff")", "/failure/seed",
       "hex"},
      {"object for a list", R"("notes":["note 1","note 2"])", R"("notes":{})", "/notes", "a list"},
      {"wrong entry of a list", R"("notes":["note 1","note 2"])", R"("notes":["note 1",2])", "/notes/1", "a string"},
      {"two of three grid sizes", R"x("grid":["ceil_div(n, VEC*BLOCK)","2","3"])x", R"("grid":["1","1"])",
       "/candidate/plan/launches/0/grid", "a list of 3"},
      {"unknown launch kind", R"("for":"tensor")", R"("for":"warp")", "/candidate/plan/launches/0/for",
       "step, tensor or shape"},
      {"define without a value", R"(["VEC","4"])", R"(["VEC"])", "/candidate/plan/defines/0", "a name and a text"},
      {"number for a truth value", R"("is_ptx":true)", R"("is_ptx":1)", "/candidate/is_ptx", "true or false"},
      {"list for an object", R"("stage_ms":{"compile":1.25,"families":2.5})", R"("stage_ms":[])", "/stage_ms",
       "an object"},
      {"missing field deep inside", R"("worst_buffer":"v",)", "", "/cases/1/worst_buffer", "missing"},
  };
  const std::string good = record_to_json(sample_record(), -1);
  REQUIRE(record_from_json(good).ok());
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.name) {
      std::string text = good;
      const size_t at = text.find(row.find);
      REQUIRE(at != std::string::npos);
      text.replace(at, std::string(row.find).size(), row.replace);
      const Result<EvalRecord> parsed = record_from_json(text);
      REQUIRE_FALSE(parsed.ok());
      CHECK(parsed.error().code == ErrorCode::kInvalidRecord);
      CHECK(parsed.error().place == row.place);
      CHECK_THAT(to_text(parsed.error()), Catch::Contains(row.message));
    }
  }
}

TEST_CASE("text that is not JSON is refused") {
  const std::string good = record_to_json(sample_record(), -1);
  const std::string rows[] = {"",
                              " ",
                              "null",
                              "[]",
                              "1",
                              "\"record\"",
                              "{",
                              good.substr(0, good.size() / 2),
                              good.substr(0, good.size() - 1),
                              good + good,
                              good + "x",
                              "\xFF\xFE",
                              std::string(1, '\0')};
  for (const std::string& text : rows) {
    INFO(text.substr(0, 60));
    const Result<EvalRecord> parsed = record_from_json(text);
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.error().code == ErrorCode::kInvalidRecord);
  }
}

TEST_CASE("nesting has an end") {
  EvalRecord record = sample_record();
  const auto nest = [&](int depth) {
    PlanLaunch launch = sample_launch();
    for (int i = 1; i < depth; ++i) {
      PlanLaunch group;
      group.launches = {launch};
      launch = group;
    }
    record.candidate.plan.launches = {launch};
    return record_from_json(record_to_json(record, -1)).ok();
  };
  CHECK(nest(16));
  CHECK_FALSE(nest(17));
  CHECK_FALSE(record_from_json(std::string(100000, '[')).ok());
}

TEST_CASE("unknown fields are accepted") {
  std::string text = record_to_json(sample_record(), -1);
  text.insert(1, R"("later":{"a":[1,2]},)");
  text.insert(text.find(R"("entry")"), R"("warps":4,)");
  const Result<EvalRecord> parsed = record_from_json(text);
  REQUIRE(parsed.ok());
  CHECK(record_to_json(parsed.value(), -1) == record_to_json(sample_record(), -1));
}

TEST_CASE("the documented example is a record") {
  const std::string document = read_text(std::string(STEPBENCH_TEST_FOLDER) + "/../harness/README.md");
  const std::string fence = "```json\n";
  const size_t begin = document.find(fence);
  REQUIRE(begin != std::string::npos);
  const size_t end = document.find("```", begin + fence.size());
  REQUIRE(end != std::string::npos);
  const Result<EvalRecord> record = record_from_json(document.substr(begin + fence.size(), end - begin - fence.size()));
  INFO((record.ok() ? std::string() : to_text(record.error())));
  REQUIRE(record.ok());
  CHECK(record.value().candidate.plan.launches[0].kernel == "adamw_step");
  CHECK(std::isnan(record.value().failure->got));
  // Every field that is written is documented.
  const std::string text = record_to_json(sample_record(), 0);
  for (size_t at = text.find("\n\""); at != std::string::npos; at = text.find("\n\"", at + 1)) {
    const std::string name = text.substr(at + 2, text.find('"', at + 2) - at - 2);
    if (text.compare(at + 3 + name.size(), 1, ":") != 0) continue;  // an entry of a list
    INFO(name);
    CHECK((document.find("`" + name + "`") != std::string::npos ||
           document.find("`" + name + "[]`") != std::string::npos ||
           document.find("\"" + name + "\"") != std::string::npos));
  }
}

TEST_CASE("hex numbers") {
  const struct {
    const char* text;
    bool ok;
    uint64_t value;
  } rows[] = {{"0", true, 0},
              {"2a", true, 42},
              {"2A", true, 42},
              {"ffffffffffffffff", true, ~0ull},
              {"", false, 0},
              {"g", false, 0},
              {"0x2a", false, 0},
              {"-1", false, 0},
              {"+1", false, 0},
              {" 1", false, 0},
              {"1 ", false, 0},
              {"10000000000000000", false, 0},
              {"00000000000000001", false, 0}};
  for (const auto& row : rows) {
    INFO(row.text);
    const Result<uint64_t> parsed = parse_hex(row.text);
    REQUIRE(parsed.ok() == row.ok);
    if (row.ok) CHECK(parsed.value() == row.value);
  }
  CHECK(hex16(42) == "000000000000002a");
}

}  // namespace
}  // namespace stepbench
