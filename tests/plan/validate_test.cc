// validate_plan: every kind of argument, every scope rule, with the JSON pointer of what is wrong.
#include "tests/plan/fixtures.h"

namespace stepbench {
namespace {

using testing::candidate_of;
using testing::one_launch;
using testing::small_task;
using testing::text_of;

TEST_CASE("arguments by scope") {
  struct Row {
    const char* argument;
    const char* step;  ///< empty: allowed; otherwise part of the message
    const char* tensor;
    const char* shape;
  };
  const Row rows[] = {
      {R"("param")", "use `param[]` or \"for\": \"tensor\"", "", "use `param[]`"},
      {R"("grad + 4 * n")", "use `grad[]`", "", "use `grad[]`"},
      {R"("param[]")", "", "", ""},
      {R"("param[] + 8")", "", "", ""},
      {R"("param[] + index * 8")", "`index` needs", "", ""},
      {R"("n")", "`n` needs \"for\": \"tensor\"", "", ""},
      {R"("rows")", "`rows` needs", "", ""},
      {R"("cols")", "`cols` needs", "", ""},
      {R"("index")", "`index` needs", "", ""},
      {R"("count")", "`count` needs \"for\": \"shape\"", "`count` needs", ""},
      {R"("tensors")", "", "", ""},
      {R"("total")", "", "", ""},
      {R"("max_n")", "", "", ""},
      {R"("sms")", "", "", ""},
      {R"("iteration")", "", "", ""},
      {R"("n[]")", "", "", ""},
      {R"("rows[]")", "", "", ""},
      {R"("cols[]")", "", "", ""},
      {R"("offset[]")", "", "", ""},
      {R"("lr")", "", "", ""},
      {R"("step")", "", "", ""},
      {R"("hyper")", "", "", ""},
      {R"("hyper + 4")", "", "", ""},
      {R"("hyper.value")", "", "", ""},
      {R"("scratch.tmp")", "", "", ""},
      {R"("scratch.tmp + (iteration % 2) * rows*cols*2")", "`rows` needs", "", ""},
      {R"x("scratch.tmp+prefix(n * 4)")x", "`prefix` needs", "", ""},
      {R"x("scratch.tmp + sum(n)")x", "", "", ""},
      {R"("rows * cols")", "`rows` needs", "", ""},
      {R"("VEC")", "", "", ""},
      {R"("2 * VEC")", "", "", ""},
      {R"(3)", "", "", ""},
      {R"(-3)", "", "", ""},
      {R"(1.5)", "", "", ""},
      {R"("1.5f")", "", "", ""},
      {R"("-1e-3")", "", "", ""},
      {R"("0x10")", "", "", ""},
      {R"(true)", "", "", ""},
      {R"("false")", "", "", ""},
      {R"("tensor_map{\"of\": \"param\", \"dims\": \"n\", \"box\": 64}")", "use \"for\": \"tensor\"", "",
       "use \"for\": \"tensor\""},
      {R"({"tensor_map": {"of": "param", "dims": "n", "box": 64}})",
       "is of one tensor and the launch is for the whole step", "",
       "is of one tensor and the launch is for all tensors of a shape"},
      {R"({"tensor_map": {"of": "scratch.tmp", "dtype": "f32", "dims": "total", "box": 64}})", "", "", ""},
      // wrong in every scope
      {R"("")", "empty", "empty", "empty"},
      {R"("parm")", "did you mean `param`?", "did you mean `param`?", "did you mean `param`?"},
      {R"("zebra")", "unknown argument `zebra`", "unknown argument", "unknown argument"},
      {R"("parm[]")", "did you mean `param[]`?", "did you mean", "did you mean"},
      {R"("index[]")", "unknown table `index[]`", "unknown table", "unknown table"},
      {R"("hyper.lr")", "write `lr` for the value", "write `lr`", "write `lr`"},
      {R"("hyper.vale")", "known: hyper, hyper.value", "known: hyper", "known: hyper"},
      {R"("scratch.tpm")", "did you mean `scratch.tmp`?", "did you mean", "did you mean"},
      {R"("scratch.zebra")", "not defined in \"scratch\"", "not defined", "not defined"},
      {R"("scratch.tmp - 4")", "only `+ bytes` may follow", "only `+ bytes`", "only `+ bytes`"},
      {R"("scratch.tmp +")", "empty", "empty", "empty"},
      {R"("scratch.tmp + 1.5")", "column 2 of the offset in `scratch.tmp + 1.5`: `1.5` is not an integer",
       "not an integer", "not an integer"},
      {R"("scratch.tmp + zebra")", "unknown name `zebra`", "unknown name", "unknown name"},
      {R"("lr * 2")", "`lr` stands alone", "`lr` stands alone", "`lr` stands alone"},
      {R"("foo.bar")", "unknown argument `foo.bar`", "unknown argument", "unknown argument"},
      {R"("tensor_map{")", "not closed", "not closed", "not closed"},
      {R"("1.5.2")", "not an integer", "not an integer", "not an integer"},
  };
  for (const Row& row : rows) {
    const std::pair<const char*, const char*> scopes[] = {
        {"step", row.step}, {"tensor", row.tensor}, {"shape", row.shape}};
    for (const auto& [scope, message] : scopes) {
      INFO(row.argument << " for " << scope);
      const std::string json = one_launch(scope, std::string("3, ").append(row.argument), "",
                                          R"("defines": {"VEC": 4}, "scratch": {"tmp": "total * 4"}, )");
      const std::optional<Failure> failure = validate_plan(candidate_of(json), small_task());
      INFO(text_of(failure));
      CHECK(failure.has_value() == (message[0] != '\0'));
      if (!failure) continue;
      CHECK(failure->verdict == Verdict::kBadCandidate);
      CHECK(failure->check == "plan");
      CHECK(failure->place == "toy.cu: /launches/0/args/1");
      CHECK_THAT(failure->message, Catch::Contains(message));
    }
  }
}

TEST_CASE("expressions, names and nesting") {
  const auto launch = [](const std::string& more) { return R"({"kernel": "k", "block": 32, "args": [])" + more + "}"; };
  struct Row {
    const char* name;
    std::string json;
    const char* place;  ///< empty: valid
    const char* message;
  };
  const Row rows[] = {
      {"grid", R"({"task": "toy", "launches": [)" + launch(R"x(, "for": "tensor", "grid": "ceil_div(n, 256)")x") + "]}",
       "", ""},
      {"n in a step grid", R"({"task": "toy", "launches": [)" + launch(R"x(, "grid": "ceil_div(n, 256)")x") + "]}",
       "toy.cu: /launches/0/grid", "`n` needs"},
      {"second of the grid", R"({"task": "toy", "launches": [)" + launch(R"(, "grid": [1, "x"])") + "]}",
       "toy.cu: /launches/0/grid/1", "column 1 of `x`: unknown name `x`"},
      {"cluster", R"({"task": "toy", "launches": [)" + launch(R"(, "cluster": "2 +")") + "]}",
       "toy.cu: /launches/0/cluster", "ends where a value"},
      {"shared", R"({"task": "toy", "launches": [)" + launch(R"(, "shared_bytes": "4 * BLOK")") + "]}",
       "toy.cu: /launches/0/shared_bytes", "column 5 of `4 * BLOK`: unknown name `BLOK`"},
      {"repeat", R"({"task": "toy", "launches": [{"repeat": "n", "launches": [)" + launch("") + "]}]}",
       "toy.cu: /launches/0/repeat", "`n` needs"},
      {"repeat for a tensor",
       R"({"task": "toy", "launches": [{"for": "tensor", "repeat": "n", "launches": [)" + launch("") + "]}]}", "", ""},
      {"group gives the scope",
       R"({"task": "toy", "launches": [{"for": "shape", "launches": [)" + launch(R"(, "grid": "count * rows")") +
           "]}]}",
       "", ""},
      {"tensor in a shape",
       R"({"task": "toy", "launches": [{"for": "shape", "launches": [)" + launch(R"(, "for": "tensor", "grid": "n")") +
           "]}]}",
       "", ""},
      {"count of a tensor in a shape",
       R"({"task": "toy", "launches": [{"for": "shape", "launches": [)" +
           launch(R"(, "for": "tensor", "grid": "count")") + "]}]}",
       "toy.cu: /launches/0/launches/0/grid", "`count` needs"},
      {"shape in a tensor",
       R"({"task": "toy", "launches": [{"for": "tensor", "launches": [)" + launch(R"(, "for": "shape")") + "]}]}",
       "toy.cu: /launches/0/launches/0/for", "inside a group for each tensor"},
      {"tensor in a tensor",
       R"({"task": "toy", "launches": [{"for": "tensor", "launches": [)" + launch(R"(, "for": "tensor")") + "]}]}",
       "toy.cu: /launches/0/launches/0/for", "leave it out to run once per tensor"},
      {"shape in a shape",
       R"({"task": "toy", "launches": [{"for": "shape", "launches": [)" + launch(R"(, "for": "shape")") + "]}]}",
       "toy.cu: /launches/0/launches/0/for", "inside a group for each shape"},
      {"scratch of sums",
       R"x({"task": "toy", "scratch": {"a": "sum(n) * 4 + max(rows)"}, "launches": [)x" + launch("") + "]}", "", ""},
      {"scratch of one tensor", R"({"task": "toy", "scratch": {"a": "n * 4"}, "launches": [)" + launch("") + "]}",
       "toy.cu: /scratch/a", "`n` needs"},
      {"define named n", R"({"task": "toy", "defines": {"n": 4}, "launches": [)" + launch("") + "]}",
       "toy.cu: /defines/n", "word of the plan language"},
      {"define named sum", R"({"task": "toy", "defines": {"sum": 4}, "launches": [)" + launch("") + "]}",
       "toy.cu: /defines/sum", "word of the plan language"},
      {"a define that is not an integer may stand",
       R"({"task": "toy", "defines": {"T": "float"}, "launches": [)" + launch("") + "]}", "", ""},
      {"but not in an expression",
       R"({"task": "toy", "defines": {"T": "float"}, "launches": [)" + launch(R"(, "grid": "T")") + "]}",
       "toy.cu: /launches/0/grid", "define `T`: unknown name `float`"},
  };  // namespace
  for (const Row& row : rows) {
    INFO(row.name);
    const std::optional<Failure> failure = validate_plan(candidate_of(row.json), small_task());
    INFO(text_of(failure));
    CHECK(failure.has_value() == (row.place[0] != '\0'));
    if (!failure) continue;
    CHECK(failure->place == row.place);
    CHECK_THAT(failure->message, Catch::Contains(row.message));
  }
}  // namespace stepbench

TEST_CASE("a default plan has nothing to validate") {
  const Result<Judged<Candidate>> parsed = parse_candidate("toy.cu", "__global__ void k() {}", "", false, "toy");
  CHECK_FALSE(validate_plan(*parsed.value().value, small_task()));
}

// The spirit of mutation: no byte edit of a valid plan may crash or give anything but a plan or one sentence with a
// place.
TEST_CASE("mutated plans are answered, never crash") {
  const std::string source = R"x(/*stepbench
{ "task": "toy", "note": "\u00e9 four", "defines": {"VEC": 4, "TILE": "VEC * 256"}, "tunables": {"VEC": [1, 2]},
  "scratch": {"tmp": "align(sum(n * 4), 256)"},
  "launches": [
    {"for": "tensor", "kernel": "k", "grid": "ceil_div(n, TILE)", "block": ["256", 1], "args": ["param", "grad", "n", 1.5, "hyper",
      {"tensor_map": {"of": "grad", "dims": ["cols", "rows"], "box": [8, "VEC"], "or_null": true}}]},
    {"for": "shape", "repeat": 5, "launches": [
      {"kernel": "k", "grid": "max(1, rows / 2 > 3 ? 4 : 5)", "block": 1, "args": ["param[]", "scratch.tmp + prefix(n * 4)", "count"]}]}
  ] }
*/
__global__ void k() {}
)x";
  const TaskSpec task = small_task();
  const std::vector<TensorShape> list = testing::shapes({{4, 4}, {3}, {0}});
  uint64_t state = 12345;  // Knuth's MMIX generator
  const auto next = [&](size_t bound) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<size_t>((state >> 33) % bound);
  };
  const std::string alphabet = "{}[]\",:+-*/%()?<>=!&|0159.eEntrue_ \n\\/$\x01\xC3\xA9";
  int parsed_count = 0;
  int valid_count = 0;
  constexpr int kRounds = 6000;
  for (int round = 0; round < kRounds; ++round) {
    std::string text = source;
    const size_t edits = 1 + next(3);
    for (size_t e = 0; e < edits; ++e) {
      const size_t at = next(text.size());
      switch (next(4)) {
        case 0: text.erase(at, 1 + next(4)); break;
        case 1: text = text.substr(0, at).append(alphabet, next(alphabet.size()), 1).append(text.substr(at)); break;
        case 2: text[at] = alphabet[next(alphabet.size())]; break;
        default: text = text.substr(0, at).append(text, next(text.size()), next(12)).append(text.substr(at)); break;
      }
      if (text.empty()) text = " ";
    }
    const Result<Judged<Candidate>> parsed = parse_candidate("toy.cu", text, "", false, "");
    if (!parsed.ok()) continue;  // not UTF-8
    if (!parsed.value().ok()) {
      REQUIRE_FALSE(parsed.value().failure->message.empty());
      REQUIRE(parsed.value().failure->place.rfind("toy.cu", 0) == 0);
      REQUIRE(parsed.value().failure->message.find('\n') == std::string::npos);
      continue;
    }
    ++parsed_count;
    const std::optional<Failure> failure = validate_plan(*parsed.value().value, task);
    if (failure) {
      REQUIRE(failure->place.rfind("toy.cu: /", 0) == 0);
      continue;
    }
    ++valid_count;
    testing::FakeDevice device;
    device.add_kernel("k", {"ptr", "ptr", "i64", "f32", "ptr", "map"});
    REQUIRE(open_session(device, ModuleId{1}, {}, *parsed.value().value, task, list, {}).ok());
  }
  CHECK(parsed_count > kRounds / 20);
  CHECK(valid_count > kRounds / 40);
  CHECK(valid_count < parsed_count);
}

}  // namespace
}  // namespace stepbench
