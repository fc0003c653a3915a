// Products in plans: which calls an entry becomes, and every way in which an entry can be wrong.
#include "tests/plan/fixtures.h"

namespace stepbench {
namespace {

using testing::candidate_of;
using testing::FakeDevice;
using testing::open_plan;
using testing::Opened;
using testing::shapes;
using testing::small_task;
using testing::text_of;

const HyperValues kHyper{{0.5, 7, 0.25}};

TaskSpec matrix_task() {
  TaskSpec task = small_task();
  task.allows = {"gemm"};
  return task;
}

/// A plan of one product with these members after "library".
std::string product(const std::string& each, const std::string& members) {
  return R"x({"task": "toy", "scratch": {"x": "sum(n * 4)", "y": "sum(n * 4)"}, "launches": [{"for": ")x" + each +
         R"x(", "library": "gemm", )x" + members + "}]}";
}

/// The Gram matrix of a tensor in its own precision.
const std::string kGram =
    R"("m": "rows", "n": "rows", "k": "cols", "a": "grad", "b": "grad", "transpose_b": true, "d": "scratch.x",
       "inputs": "f32", "output": "f32")";

/// One step; the session must outlive what is asked about its buffers.
SessionPtr run_plan(FakeDevice& device, const std::string& json, const std::vector<TensorShape>& list) {
  Opened opened = open_plan(device, json, list, matrix_task());
  INFO(text_of(opened.failure));
  REQUIRE(opened.session);
  const Result<StepReport> report = run_step(*opened.session, kHyper, 1);
  REQUIRE(report.ok());
  REQUIRE_FALSE(report.value().failure);
  return std::move(opened.session);
}

TEST_CASE("a product for every tensor") {
  FakeDevice device;
  const SessionPtr session = run_plan(device, product("tensor", kGram), shapes({{3, 5}, {0}, {2, 8}}));
  const std::vector<FakeDevice::Recorded>& launches = device.launches;
  REQUIRE(launches.size() == 2);  // nothing to do for the empty tensor
  for (size_t i = 0; i < 2; ++i) {
    REQUIRE(launches[i].gemm);
    const GemmSpec& gemm = *launches[i].gemm;
    const int64_t rows = i == 0 ? 3 : 2, cols = i == 0 ? 5 : 8;
    CHECK((gemm.m == rows && gemm.n == rows && gemm.k == cols && gemm.batch == 1));
    CHECK((!gemm.transpose_a && gemm.transpose_b));
    CHECK((gemm.inputs == DType::kF32 && gemm.output == DType::kF32));
    CHECK((gemm.alpha == 1 && gemm.beta == 0));
    const uint64_t grad = device.address_of(i == 0 ? "grad[0]" : "grad[2]");
    CHECK((gemm.a.address == grad && gemm.b.address == grad));
    CHECK(gemm.d.address == device.address_of("scratch.x"));
  }
}

TEST_CASE("a batch for every shape, sums onto itself") {
  FakeDevice device;
  const SessionPtr session = run_plan(
      device,
      product("shape", R"x("m": "rows", "n": "cols", "k": "cols", "a": "scratch.x + prefix(n * 2)", "b": "scratch.y",
                          "c": "scratch.x + sum(n * 2)", "d": "scratch.x + sum(n * 2)", "inputs": "bf16",
                          "output": "bf16", "alpha": 0.1, "beta": -3, "batch": "count", "stride_b": 0,
                          "transpose_a": "rows > cols")x"),
      shapes({{4, 4}, {6, 2}, {4, 4}}));
  const std::vector<FakeDevice::Recorded>& launches = device.launches;
  REQUIRE(launches.size() == 2);
  const uint64_t x = device.address_of("scratch.x"), y = device.address_of("scratch.y");
  const GemmSpec& first = *launches[0].gemm;
  CHECK((first.m == 4 && first.n == 4 && first.k == 4 && first.batch == 2));
  CHECK((first.a.stride == 16 && first.b.stride == 0 && first.c.stride == 16 && first.d.stride == 16));
  CHECK((first.a.address == x && first.b.address == y && first.c.address == x + 88 && first.d.address == x + 88));
  CHECK((!first.transpose_a && first.alpha == 0.1f && first.beta == -3));
  const GemmSpec& second = *launches[1].gemm;
  CHECK((second.m == 6 && second.n == 2 && second.k == 2 && second.batch == 1));
  CHECK((second.transpose_a && second.a.address == x + 64));
}

struct Row {
  const char* name;
  std::string json;
  Verdict verdict;
  const char* place;
  const char* message;
};

TEST_CASE("what is wrong with a product") {
  const std::string operands = R"("a": "grad", "b": "grad", "d": "scratch.x", "inputs": "f32", "output": "f32")";
  const std::string square = R"("m": "rows", "n": "rows", "k": "cols", "transpose_b": true, )";
  const std::string scratch = R"("a": "scratch.x", "b": "scratch.x", "inputs": "f32", "output": "f32", )";
  constexpr Verdict kBad = Verdict::kBadCandidate;
  const Row rows[] = {
      {"control", product("tensor", kGram), Verdict::kPassed, "", ""},
      {"unknown name", product("tensor", R"("m": "row", "n": 2, "k": 2, )" + operands), kBad, "/launches/0/m",
       "unknown name `row`"},
      {"sizes of a tensor in a step", product("step", square + operands), kBad, "/launches/0/m", "rows"},
      {"pointer of a tensor in a step", product("step", R"("m": 2, "n": 2, "k": 2, )" + operands), kBad,
       "/launches/0/a", "one tensor's pointer"},
      {"a table is no matrix",
       product("tensor", square + R"("a": "grad[]", "b": "grad", "d": "scratch.x", "inputs": "f32", "output": "f32")"),
       kBad, "/launches/0/a", "a matrix lies in a buffer of the tensor or in scratch"},
      {"a number is no matrix",
       product("tensor", square + R"("a": "grad", "b": "rows", "d": "scratch.x", "inputs": "f32", "output": "f32")"),
       kBad, "/launches/0/b", "a matrix lies in a buffer of the tensor or in scratch"},
      {"type of a buffer",
       product("tensor", square + R"("a": "grad", "b": "grad", "d": "scratch.x", "inputs": "bf16", "output": "f32")"),
       kBad, "/launches/0/a", "buffer `grad` holds f32, the gemm takes bf16 there"},
      {"type of the result",
       product("tensor", square + R"("a": "scratch.x", "b": "scratch.x", "d": "row_state", "inputs": "bf16",
                                     "output": "f32")"),
       kBad, "/launches/0/d", "buffer `row_state` holds bf16, the gemm takes f32 there"},
      {"result wider than fp32 sums",
       product("tensor",
               square + scratch.substr(0, scratch.find("\"output\"")) + R"("output": "f16", "d": "scratch.y")"),
       kBad, "/launches/0/output", "the result is f32 or has the type of the inputs"},
      {"unknown type", product("tensor", square + R"("a": "grad", "b": "grad", "d": "scratch.x", "inputs": "tf32",
                                                     "output": "f32")"),
       kBad, "/launches/0/inputs", "`tf32` is not one of f32, bf16, f16"},
      {"nothing to add", product("tensor", kGram + R"(, "beta": 1)"), kBad, "/launches/0/beta", "there is no \"c\""},
      {"c without beta", product("tensor", kGram + R"(, "c": "scratch.y")"), kBad, "/launches/0/c",
       "c is not used where beta is 0"},
      {"a factor that fp32 does not hold", product("tensor", kGram + R"(, "alpha": 1e39)"), kBad, "/launches/0/alpha",
       "beyond fp32"},
      {"a factor in words", product("tensor", kGram + R"(, "alpha": "lr")"), kBad, "/launches/0/alpha",
       "a number is expected, found a string"},
      {"unknown key", product("tensor", kGram + R"(, "lda": 4)"), kBad, "/launches/0/lda", "unknown key `lda`"},
      {"misspelt key", product("tensor", kGram + R"(, "strid_a": 4)"), kBad, "/launches/0/strid_a",
       "did you mean `stride_a`?"},
      {"negative size", product("tensor", R"("m": "rows - 9", "n": 2, "k": 2, )" + operands), kBad, "/launches/0/m",
       "m is -6, less than 0 for tensor 0"},
      {"transposition that is neither",
       product("tensor", R"("m": 2, "n": 2, "k": 2, "transpose_a": "rows", )" + operands), kBad,
       "/launches/0/transpose_a", "transpose_a is 3, more than 1"},
      {"results on top of each other", product("tensor", kGram + R"(, "batch": 2, "stride_d": 8)"), kBad,
       "/launches/0/stride_d", "less than the 9 elements of one result"},
      {"reads past the end", product("tensor", kGram + R"(, "batch": 2)"), Verdict::kOutOfBounds, "/launches/0/a",
       "needs 120 bytes from byte 0 on, in a buffer of 60"},
      {"an offset too far",
       product("tensor", square + R"("a": "grad + 4", "b": "grad", "d": "scratch.x", "inputs": "f32",
                                     "output": "f32")"),
       Verdict::kOutOfBounds, "/launches/0/a", "needs 60 bytes from byte 4 on, in a buffer of 60"},
      {"the result past the end", product("tensor", R"("m": 4, "n": 4, "k": 3, )" + operands), Verdict::kOutOfBounds,
       "/launches/0/d", "needs 64 bytes"},
      {"writes an input",
       product("tensor", R"("m": 2, "n": 2, "k": 2, "d": "grad", )" + scratch.substr(0, scratch.size() - 2)),
       Verdict::kOutOfBounds, "/launches/0/d", "would write to the input `grad`"},
      {"half an element",
       product("tensor", R"("m": 2, "n": 2, "k": 2, "a": "scratch.x + 2", "b": "scratch.x", "d": "scratch.y",
                            "inputs": "f32", "output": "f32")"),
       Verdict::kLaunchError, "/launches/0/a", "not a multiple of the 4 bytes"},
      {"the result over an operand",
       product("tensor", R"("m": 2, "n": 2, "k": 2, "d": "scratch.x + 8", )" + scratch.substr(0, scratch.size() - 2)),
       kBad, "/launches/0/d", "the result d overlaps a"},
      {"the result half over c",
       product("tensor", R"("m": 2, "n": 2, "k": 2, "beta": 1, "c": "scratch.y", "d": "scratch.y + 4", )" +
                             scratch.substr(0, scratch.size() - 2)),
       kBad, "/launches/0/d", "the result d overlaps c"},
      {"control: c is the result",
       product("tensor", R"("m": 2, "n": 2, "k": 2, "beta": 1, "c": "scratch.y", "d": "scratch.y", )" +
                             scratch.substr(0, scratch.size() - 2)),
       Verdict::kPassed, "", ""},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    // Some are wrong already as JSON, some only for a list of tensors.
    const Result<Judged<Candidate>> parsed =
        parse_candidate("toy.cu", "/*stepbench " + row.json + " */\n__global__ void k() {}\n", "", false, "");
    REQUIRE(parsed.ok());
    std::optional<Failure> failure = parsed.value().failure;
    if (!failure) {
      FakeDevice device;
      // Scratch is 60 bytes each: one tensor of 3 x 5.
      failure = open_plan(device, row.json, shapes({{3, 5}}), matrix_task()).failure;
    }
    INFO(text_of(failure));
    REQUIRE(failure.has_value() == (row.verdict != Verdict::kPassed));
    if (!failure) continue;
    CHECK(failure->verdict == row.verdict);
    CHECK_THAT(failure->place, Catch::EndsWith(row.place));
    CHECK_THAT(failure->message, Catch::Contains(row.message));
  }
}

TEST_CASE("a task that does not allow products refuses them") {
  const Candidate candidate = candidate_of(product("tensor", kGram));
  const std::optional<Failure> failure = validate_plan(candidate, small_task());
  REQUIRE(failure);
  CHECK(failure->verdict == Verdict::kBadCandidate);
  CHECK(
      text_of(failure) ==
      "toy.cu: /launches/0/library: task toy does not allow the library call \"gemm\": its plans launch kernels only");
  CHECK_FALSE(validate_plan(candidate, matrix_task()));
}

}  // namespace
}  // namespace stepbench
