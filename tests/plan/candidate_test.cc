// Candidate files and the JSON of plans: what is read, and the exact place of every complaint.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "tests/plan/fixtures.h"

namespace stepbench {
namespace {

/// A folder that is removed with its files.
struct TemporaryFolder {
  std::string path;
  std::vector<std::string> files;
  TemporaryFolder() {
    char name[] = "/tmp/stepbench_plan_XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    path = name;
  }
  ~TemporaryFolder() {
    for (const std::string& file : files) std::remove(file.c_str());
    rmdir(path.c_str());
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string write(const std::string& name, const std::string& text) {
    files.push_back(path + "/" + name);
    std::ofstream(files.back(), std::ios::binary) << text;
    return files.back();
  }
};

const std::string kKernel = "\nextern \"C\" __global__ void k(float* p) {}\n";
const std::string kPlan =
    R"(/*stepbench {"task": "toy", "launches": [{"kernel": "k", "grid": 1, "block": 32, "args": ["param[]"]}]} */)";

Result<Judged<Candidate>> parse(const std::string& source, const std::string& task = "") {
  return parse_candidate("toy.cu", source, "", false, task);
}

TEST_CASE("a file with a plan") {
  TemporaryFolder folder;
  const std::string source = R"x(/*stepbench
{ "task": "toy", "note": "four each",
  "defines": {"VEC": 4, "HALF": 0.5, "TYPE": "float4"},
  "tunables": {"VEC": [1, 2, "4"]},
  "options": ["--maxrregcount=64"],
  "scratch": {"partial": "4 * 1024", "flag": 4},
  "launches": [
    {"for": "tensor", "kernel": "k<VEC>", "grid": ["ceil_div(n, VEC)", 2], "block": "256", "cluster": [1, 1, 1],
     "shared_bytes": 1024, "args": ["param", 3, 1.50, true, "1.5f", "scratch.partial"]},
    {"for": "shape", "repeat": 5, "launches": [
      {"kernel": "k", "block": 1, "args": []}, {"repeat": "2", "launches": [
        {"library": "gemm", "m": "rows", "n": 2, "k": "cols", "a": "scratch.partial", "b": "scratch.partial",
         "d": "scratch.partial + 64", "c": "scratch.partial + 64", "inputs": "bf16", "output": "f32", "alpha": 2.5,
         "beta": -1, "transpose_b": true, "batch": "count", "stride_d": "rows * 2"}]}]}
  ] }
*/)x" + kKernel;
  const std::string path = folder.write("toy.cu", source);
  const Result<Judged<Candidate>> loaded = load_candidate(path, "");
  REQUIRE(loaded.ok());
  INFO(testing::text_of(loaded.value().failure));
  REQUIRE(loaded.value().ok());
  const Candidate& candidate = *loaded.value().value;
  CHECK(candidate.path == path);
  CHECK(candidate.task == "toy");
  CHECK(candidate.note == "four each");
  CHECK(candidate.source == source);
  CHECK(candidate.sha256 == sha256_hex(source));
  CHECK_FALSE(candidate.default_plan);
  CHECK_FALSE(candidate.is_ptx);
  CHECK(candidate.plan_line == 2);
  const Plan& plan = candidate.plan;
  CHECK(plan.defines ==
        std::vector<std::pair<std::string, std::string>>{{"VEC", "4"}, {"HALF", "0.5"}, {"TYPE", "float4"}});
  CHECK(plan.tunables.at("VEC") == std::vector<std::string>{"1", "2", "4"});
  CHECK(plan.options == std::vector<std::string>{"--maxrregcount=64"});
  CHECK(plan.scratch == std::vector<std::pair<std::string, std::string>>{{"partial", "4 * 1024"}, {"flag", "4"}});
  REQUIRE(plan.launches.size() == 2);
  const PlanLaunch& first = plan.launches[0];
  CHECK(first.each == LaunchFor::kTensor);
  CHECK(first.pointer == "/launches/0");
  CHECK(first.kernel == "k<VEC>");
  CHECK(first.grid == std::array<std::string, 3>{"ceil_div(n, VEC)", "2", "1"});
  CHECK(first.block == std::array<std::string, 3>{"256", "1", "1"});
  CHECK(first.shared_bytes == "1024");
  CHECK(first.args == std::vector<std::string>{"param", "3", "1.50", "true", "1.5f", "scratch.partial"});
  const PlanLaunch& group = plan.launches[1];
  CHECK(group.each == LaunchFor::kShape);
  CHECK(group.repeat == "5");
  REQUIRE(group.launches.size() == 2);
  CHECK(group.launches[0].each == LaunchFor::kStep);
  CHECK(group.launches[1].launches[0].library == "gemm");
  const PlanGemm& gemm = group.launches[1].launches[0].gemm;
  CHECK((gemm.m == "rows" && gemm.n == "2" && gemm.k == "cols" && gemm.batch == "count"));
  CHECK((gemm.a == "scratch.partial" && gemm.b == "scratch.partial"));
  CHECK((gemm.c == "scratch.partial + 64" && gemm.d == "scratch.partial + 64"));
  CHECK((gemm.transpose_a == "0" && gemm.transpose_b == "1"));
  CHECK((gemm.stride_a.empty() && gemm.stride_d == "rows * 2"));
  CHECK((gemm.inputs == DType::kBf16 && gemm.output == DType::kF32 && gemm.alpha == 2.5 && gemm.beta == -1));
  CHECK(group.launches[1].launches[0].pointer == "/launches/1/launches/1/launches/0");
}

TEST_CASE("files that are no candidates") {
  TemporaryFolder folder;
  const auto load = [&](const std::string& path) {
    const Result<Judged<Candidate>> loaded = load_candidate(path, "toy");
    REQUIRE_FALSE(loaded.ok());
    INFO(to_text(loaded.error()));
    CHECK(loaded.error().message.find('\n') == std::string::npos);
    return loaded.error();
  };
  CHECK(load(folder.path + "/none.cu").code == ErrorCode::kNotFound);
  CHECK(load(folder.path).code == ErrorCode::kInvalidInput);
  CHECK_THAT(load(folder.path).message, Catch::Contains("directory"));
  CHECK_THAT(load(folder.write("empty.cu", "")).message, Catch::Contains("empty"));
  CHECK_THAT(load(folder.write("blank.cu", " \n\r\n\t")).message, Catch::Contains("empty"));
  CHECK_THAT(load(folder.write("bom.cu", "\xEF\xBB\xBF")).message, Catch::Contains("empty"));
  CHECK_THAT(load(folder.write("big.cu", std::string((1 << 20) + 1, ' ') + "x")).message, Catch::Contains("1 MiB"));
  const Error byte = load(folder.write("byte.cu", "// a\n// b \xFF\n"));
  CHECK(byte.code == ErrorCode::kInvalidInput);
  CHECK_THAT(byte.message, Catch::Contains("not UTF-8: byte 10 in line 2"));
  CHECK_THAT(load(folder.write("quotes.cu", "// \x93quoted\x94\n")).message, Catch::Contains("byte 3 in line 1"));
  CHECK_THAT(load(folder.write("nul.cu", std::string("int a;\n\0int b;", 14))).message,
             Catch::Contains("NUL byte: byte 7 in line 2"));
  const std::string pipe = folder.path + "/pipe.cu";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  folder.files.push_back(pipe);
  CHECK_THAT(load(pipe).message, Catch::Contains("regular file"));
  // control: exactly 1 MiB is taken
  std::string largest = "/*x*/" + std::string((1 << 20) - 5, ' ');
  CHECK(load_candidate(folder.write("largest.cu", largest), "toy").ok());
}

TEST_CASE("UTF-8 by its definition") {
  struct Row {
    const char* name;
    const char* bytes;
    bool valid;
  };
  const Row rows[] = {{"two bytes", "\xC3\xA9", true},
                      {"three bytes", "\xE2\x82\xAC", true},
                      {"four bytes", "\xF0\x9F\x98\x80", true},
                      {"last code point", "\xF4\x8F\xBF\xBF", true},
                      {"before surrogates", "\xED\x9F\xBF", true},
                      {"long two", "\xC0\xAF", false},
                      {"long three", "\xE0\x80\xAF", false},
                      {"long four", "\xF0\x80\x80\xAF", false},
                      {"surrogate", "\xED\xA0\x80", false},
                      {"beyond", "\xF4\x90\x80\x80", false},
                      {"lone continuation", "\x80", false},
                      {"cut short", "\xE2\x82", false},
                      {"five bytes", "\xF8\x88\x80\x80\x80", false}};
  for (const Row& row : rows) {
    INFO(row.name);
    CHECK(parse(std::string("// ") + row.bytes + "\n", "toy").ok() == row.valid);
    CHECK(parse(std::string("// ") + row.bytes, "toy").ok() == row.valid);
  }
}

TEST_CASE("byte order mark and CRLF keep the lines") {
  const std::string body = "/*stepbench\r\n{\"task\": \"toy\",\r\n \"lunches\": []}\r\n*/" + kKernel;
  for (const std::string& source : {body, "\xEF\xBB\xBF" + body}) {
    const Result<Judged<Candidate>> parsed = parse(source);
    REQUIRE(parsed.ok());
    REQUIRE(parsed.value().failure);
    CHECK(parsed.value().failure->place == "toy.cu: /lunches");
    CHECK_THAT(parsed.value().failure->message, Catch::Contains("did you mean `launches`?"));
  }
  const Result<Judged<Candidate>> good = parse("\xEF\xBB\xBF\r\n" + kPlan + kKernel);
  REQUIRE(good.ok());
  REQUIRE(good.value().ok());
  CHECK(good.value().value->plan_line == 2);
  CHECK(good.value().value->source[0] == '\r');
  const Result<Judged<Candidate>> syntax = parse("\xEF\xBB\xBF/*stepbench {]} */");
  REQUIRE(syntax.value().failure);
  CHECK(syntax.value().failure->place == "toy.cu:1:14");
}

TEST_CASE("JSON syntax errors carry the file's line and column") {
  struct Row {
    const char* name;
    const char* comment;
    const char* place;
    const char* message;
  };
  const Row rows[] = {
      {"nothing", "/*stepbench */", "toy.cu:1:13", "end of input"},
      {"not JSON", "/*stepbench hello */", "toy.cu:1:13", "invalid literal"},
      {"unclosed", "/*stepbench {\"task\": \"toy\" */", "toy.cu:1:28", "expected '}'"},
      {"trailing comma", "/*stepbench\n{\"task\": \"toy\",}*/", "toy.cu:2:16",
       "unexpected '}'; expected string literal"},
      {"missing comma", "/*stepbench\n{\"task\": \"toy\"\n  \"note\": \"x\"}*/", "toy.cu:3:3",
       "unexpected string literal"},
      {"missing colon", "/*stepbench\n{\"task\" \"toy\"}*/", "toy.cu:2:9", "expected ':'"},
      {"single quotes", "/*stepbench\n{'task': 1}*/", "toy.cu:2:2", "invalid literal"},
      {"wrong bracket", "/*stepbench\n\n{\"launches\": [}*/", "toy.cu:3:15", "unexpected '}'"},
      {"after the end", "/*stepbench {} {}*/", "toy.cu:1:16", "expected end of input"},
      {"after letters of two bytes", "/*stepbench {\"\xC3\xA9\": ]}*/", "toy.cu:1:19", "unexpected ']'"},
      {"line break in a string", "/*stepbench {\"a\": \"x\ny\"}*/", "toy.cu:1:21", "control character"},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    const Result<Judged<Candidate>> parsed = parse(row.comment + kKernel, "toy");
    REQUIRE(parsed.ok());
    REQUIRE(parsed.value().failure);
    const Failure& failure = *parsed.value().failure;
    INFO(failure.message);
    CHECK(failure.verdict == Verdict::kBadCandidate);
    CHECK(failure.check == "plan");
    CHECK(failure.place == row.place);
    CHECK_THAT(failure.message, Catch::Contains(row.message));
  }
}

TEST_CASE("plans that contradict the format carry a JSON pointer") {
  struct Row {
    const char* name;
    const char* json;
    const char* place;
    const char* message;
  };
  const Row rows[] = {
      {"a list", "[]", "toy.cu:1", "must be an object, found a list"},
      {"a number", "3", "toy.cu:1", "must be an object"},
      {"unknown key", R"({"tusk": "toy"})", "toy.cu: /tusk", "did you mean `task`?"},
      {"unknown key, nothing near", R"({"zebra": 1})", "toy.cu: /zebra", "unknown key `zebra`"},
      {"pointer is escaped", R"({"a/b~c": 1})", "toy.cu: /a~1b~0c", "unknown key"},
      {"task's type", R"({"task": 3})", "toy.cu: /task", "a string is expected, found an integer"},
      {"task's letters", R"({"task": "../adamw"})", "toy.cu: /task", "not a task id"},
      {"note's type", R"({"note": []})", "toy.cu: /note", "a string is expected, found a list"},
      {"twice", R"({"task": "toy", "note": "a", "note": "b"})", "toy.cu: /note", "the key `note` appears twice"},
      {"twice, deep", R"({"launches": [{"kernel": "k"}, {"block": 1, "block": 2}]})", "toy.cu: /launches/1/block",
       "appears twice"},
      {"define's name", R"({"defines": {"2x": 1}})", "toy.cu: /defines/2x", "not an identifier"},
      {"define's type", R"({"defines": {"A": true}})", "toy.cu: /defines/A",
       "a number or a string is expected, found a boolean"},
      {"define of two lines", R"({"defines": {"A": "1\n#include <x>"}})", "toy.cu: /defines/A", "one line"},
      {"define with a backslash", R"({"defines": {"A": "1\\"}})", "toy.cu: /defines/A", "backslash"},
      {"defines' type", R"({"defines": ["A"]})", "toy.cu: /defines", "an object is expected"},
      {"tunable without default", R"({"tunables": {"A": [1]}})", "toy.cu: /tunables/A", "needs a default"},
      {"tunable without values", R"({"defines": {"A": 1}, "tunables": {"A": []}})", "toy.cu: /tunables/A", "empty"},
      {"tunable's type", R"({"defines": {"A": 1}, "tunables": {"A": 3}})", "toy.cu: /tunables/A", "a list is expected"},
      {"option's type", R"({"options": ["-x", 3]})", "toy.cu: /options/1", "a string is expected"},
      {"scratch's name", R"({"scratch": {"a b": 4}})", "toy.cu: /scratch/a b", "not an identifier"},
      {"scratch's type", R"({"scratch": {"a": 1.5}})", "toy.cu: /scratch/a", "found a number with a fraction"},
      {"launches' type", R"({"launches": {}})", "toy.cu: /launches", "a list is expected, found an object"},
      {"no launches", R"({"launches": []})", "toy.cu: /launches", "empty"},
      {"launch's type", R"({"launches": ["k"]})", "toy.cu: /launches/0", "an object is expected"},
      {"launch's key", R"({"launches": [{"kernel": "k", "block": 1, "args": [], "gird": 1}]})",
       "toy.cu: /launches/0/gird", "did you mean `grid`?"},
      {"no kernel", R"({"launches": [{"block": 1, "args": []}]})", "toy.cu: /launches/0", "no \"kernel\""},
      {"no block", R"({"launches": [{"kernel": "k", "args": []}]})", "toy.cu: /launches/0", "no \"block\""},
      {"no args", R"({"launches": [{"kernel": "k", "block": 1}]})", "toy.cu: /launches/0", "no \"args\""},
      {"kernel's type", R"({"launches": [{"kernel": 3, "block": 1, "args": []}]})", "toy.cu: /launches/0/kernel",
       "a string"},
      {"empty kernel", R"({"launches": [{"kernel": " ", "block": 1, "args": []}]})", "toy.cu: /launches/0/kernel",
       "empty"},
      {"for", R"({"launches": [{"for": "tensors", "kernel": "k", "block": 1, "args": []}]})", "toy.cu: /launches/0/for",
       "did you mean `tensor`?"},
      {"grid's type", R"({"launches": [{"kernel": "k", "grid": null, "block": 1, "args": []}]})",
       "toy.cu: /launches/0/grid", "found null"},
      {"grid of a fraction", R"({"launches": [{"kernel": "k", "grid": 1.5, "block": 1, "args": []}]})",
       "toy.cu: /launches/0/grid", "an integer or a string"},
      {"grid of four", R"({"launches": [{"kernel": "k", "grid": [1, 1, 1, 1], "block": 1, "args": []}]})",
       "toy.cu: /launches/0/grid", "one to three"},
      {"grid of none", R"({"launches": [{"kernel": "k", "grid": [], "block": 1, "args": []}]})",
       "toy.cu: /launches/0/grid", "one to three"},
      {"in the grid", R"({"launches": [{"kernel": "k", "grid": [1, {}], "block": 1, "args": []}]})",
       "toy.cu: /launches/0/grid/1", "found an object"},
      {"argument's type", R"({"launches": [{"kernel": "k", "block": 1, "args": ["n", null]}]})",
       "toy.cu: /launches/0/args/1", "found null"},
      {"repeat of a launch", R"({"launches": [{"kernel": "k", "block": 1, "args": [], "repeat": 2}]})",
       "toy.cu: /launches/0/repeat", "only a group repeats"},
      {"kernel of a group", R"({"launches": [{"kernel": "k", "launches": []}]})", "toy.cu: /launches/0/kernel",
       "a group has"},
      {"key of a group", R"({"launches": [{"for": "shape", "reapeat": 2, "launches": []}]})",
       "toy.cu: /launches/0/reapeat", "did you mean `repeat`?"},
      {"empty group", R"({"launches": [{"launches": []}]})", "toy.cu: /launches/0/launches", "empty"},
      {"library", R"({"launches": [{"library": "gemv"}]})", "toy.cu: /launches/0/library",
       "unknown library call `gemv`"},
      {"integer beyond", R"({"defines": {"A": 9007199254740993}})", "toy.cu: /defines/A", "beyond 2^53"},
      {"negative beyond", R"({"defines": {"A": -9007199254740993}})", "toy.cu: /defines/A", "beyond 2^53"},
      {"integer beyond 64 bits", R"({"defines": {"A": 99999999999999999999}})", "toy.cu: /defines/A", "beyond 2^53"},
      {"no task", R"({"note": "x"})", "toy.cu: /task", "names no task"},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    const Result<Judged<Candidate>> parsed = parse("/*stepbench " + std::string(row.json) + "*/" + kKernel);
    REQUIRE(parsed.ok());
    REQUIRE(parsed.value().failure);
    INFO(testing::text_of(parsed.value().failure));
    CHECK(parsed.value().failure->place == row.place);
    CHECK_THAT(parsed.value().failure->message, Catch::Contains(row.message));
  }
  // control
  REQUIRE(parse(kPlan + kKernel).ok());
  CHECK(parse(kPlan + kKernel).value().ok());
}

TEST_CASE("nesting and sizes of the JSON are bounded") {
  const auto nested = [](size_t depth) {
    return "/*stepbench {\"task\": \"toy\", \"note\": " + std::string(depth, '[') + std::string(depth, ']') + "}*/";
  };
  CHECK_THAT(testing::text_of(parse(nested(62)).value().failure), Catch::Contains("/note: a string is expected"));
  CHECK_THAT(testing::text_of(parse(nested(70)).value().failure), Catch::Contains("nested more than 64"));
  CHECK_THAT(testing::text_of(parse(nested(100'000)).value().failure), Catch::Contains("nested more than 64"));
  std::string many = "/*stepbench {\"task\": \"toy\", \"launches\": [";
  for (int i = 0; i < 1001; ++i) many += std::string(i == 0 ? "" : ",") + R"({"kernel": "k", "block": 1, "args": []})";
  CHECK_THAT(testing::text_of(parse(many + "]}*/").value().failure), Catch::Contains("more than 1000 launches"));
}

TEST_CASE("where the plan may stand") {
  struct Row {
    const char* name;
    std::string source;
    const char* place;  ///< empty: parses
    const char* message;
  };
  const Row rows[] = {
      {"first", kPlan + kKernel, "", ""},
      {"after code without comments", "#include <stepbench.cuh>\n\n" + kPlan + kKernel, "", ""},
      {"other comments behind", kPlan + "\n// more\n/* and more */" + kKernel, "", ""},
      {"a mark in a string", kPlan + "\nconst char* s = \"/*stepbench\";" + kKernel, "", ""},
      {"a mark in a raw string", kPlan + "\nconst char* s = R\"x(\" /*stepbench )x\";" + kKernel, "", ""},
      {"a mark in a line comment", kPlan + "\n// /*stepbench {} */\n" + kKernel, "", ""},
      {"a quote as a character", kPlan + "\nchar c = '\"'; int i = 1'000'000;\n/* x */" + kKernel, "", ""},
      {"second comment", "// first\n\n" + kPlan + kKernel, "toy.cu:3", "first comment"},
      {"two plans", kPlan + "\n" + kPlan, "toy.cu:2", "second plan, the first is in line 1"},
      {"not closed", "\n/*stepbench {\"task\": \"toy\"}", "toy.cu:2", "not closed"},
      {"another word", "/*stepbenchmark {} */" + kKernel, "toy.cu", "no plan and no task"},
      {"no plan", kKernel, "toy.cu", "--task"},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    const Result<Judged<Candidate>> parsed = parse(row.source);
    REQUIRE(parsed.ok());
    INFO(testing::text_of(parsed.value().failure));
    CHECK(parsed.value().ok() == (row.place[0] == '\0'));
    if (!parsed.value().failure) continue;
    CHECK(parsed.value().failure->place == row.place);
    CHECK_THAT(parsed.value().failure->message, Catch::Contains(row.message));
  }
}

TEST_CASE("default plan") {
  const Result<Judged<Candidate>> without = parse(kKernel, "toy");
  REQUIRE(without.ok());
  REQUIRE(without.value().ok());
  CHECK(without.value().value->default_plan);
  CHECK(without.value().value->task == "toy");
  CHECK(without.value().value->plan.launches.empty());
  // A plan without launches gives task and defines to the default launch.
  const Result<Judged<Candidate>> partly =
      parse("/*stepbench {\"task\": \"toy\", \"defines\": {\"A\": 1}} */" + kKernel);
  REQUIRE(partly.value().ok());
  CHECK(partly.value().value->default_plan);
  CHECK(partly.value().value->plan.defines.size() == 1);
}

TEST_CASE("task of the plan and of the command line") {
  const std::string open_plan = R"(/*stepbench {"note": "x"} */)";
  CHECK(parse(kPlan, "toy").value().ok());
  CHECK(parse(open_plan, "toy").value().value->task == "toy");
  const Result<Judged<Candidate>> other = parse(kPlan, "adamw");
  REQUIRE(other.value().failure);
  CHECK(other.value().failure->place == "toy.cu: /task");
  CHECK_THAT(other.value().failure->message, Catch::Contains("`toy`") && Catch::Contains("`adamw`"));
  REQUIRE_FALSE(parse(kPlan, "../x").ok());
  CHECK(parse(kPlan, "../x").error().code == ErrorCode::kUsage);
}

TEST_CASE("PTX with its plan beside it") {
  TemporaryFolder folder;
  const std::string ptx = ".version 8.0\n.target sm_90a\n.address_size 64\n";
  const std::string json = "{\"task\": \"toy\",\n \"launches\": [{\"kernel\": \"k\", \"block\": 1, \"args\": []}]}";
  const std::string path = folder.write("toy.ptx", ptx);
  const Result<Judged<Candidate>> alone = load_candidate(path, "");
  REQUIRE_FALSE(alone.ok());
  CHECK(alone.error().code == ErrorCode::kNotFound);
  CHECK_THAT(to_text(alone.error()), Catch::Contains("toy.json"));
  CHECK(load_candidate(path, "toy").value().value->default_plan);
  folder.write("toy.json", json);
  const Result<Judged<Candidate>> both = load_candidate(path, "");
  REQUIRE(both.ok());
  REQUIRE(both.value().ok());
  const Candidate& candidate = *both.value().value;
  CHECK(candidate.is_ptx);
  CHECK(candidate.source == ptx);
  CHECK(candidate.plan.launches.size() == 1);
  CHECK(candidate.sha256 != sha256_hex(ptx));
  folder.write("toy.json", "{\"task\": \"toy\",\n  }");
  const Result<Judged<Candidate>> broken = load_candidate(path, "");
  REQUIRE(broken.value().failure);
  CHECK(broken.value().failure->place == folder.path + "/toy.json:2:3");
  folder.write("toy.json", "");
  CHECK_FALSE(load_candidate(path, "").ok());
}

TEST_CASE("hash changes with source and plan") {
  const std::string one = parse(kPlan + kKernel).value().value->sha256;
  CHECK(one.size() == 64);
  CHECK(one == parse(kPlan + kKernel).value().value->sha256);
  CHECK(one != parse(kPlan + kKernel + " ").value().value->sha256);
}

}  // namespace
}  // namespace stepbench
