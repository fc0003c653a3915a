// A10, A29, A43: public faults that no shipped task can have, because its buffers are contiguous, wider than fp16 and
// no counters. Shipped tasks with other buffers: rows with padding, moments in fp16, a step counter on the device. Each
// fault as real kernels on the VM, with the reported numbers and the verdict on the right and on the broken one.
#include <algorithm>
#include <cstring>

#include "tests/faults/kernels.h"

using namespace stepbench;
using namespace stepbench::testing;

namespace {

BufferSpec buffer_of(const std::string& name, DType dtype, Role role, const std::string& shape) {
  BufferSpec buffer;
  buffer.name = name;
  buffer.dtype = dtype;
  buffer.role = role;
  buffer.shape = shape;
  buffer.initial = role == Role::kIn ? "gradient" : "parameter";
  if (role == Role::kInOut) buffer.tolerance = {1e-6, 3, 1e-3};
  return buffer;
}

/// One launch of `kernel` for each tensor.
std::string plan_of(const std::string& task, const std::string& grid, const std::string& args,
                    const std::string& more = "") {
  return "/*stepbench\n{\"task\": \"" + task + "\"" + more +
         ", \"launches\": [{\"for\": \"tensor\", \"kernel\": \"step\", \"grid\": \"" + grid +
         "\", \"block\": \"256\", \"args\": [" + args + "]}]}\n*/\n#include <stepbench.cuh>\n";
}

std::vector<HyperValues> steps_of(const TaskSpec& task, int64_t steps, const Overrides& hyper) {
  std::vector<HyperValues> values;
  for (int64_t t = 1; t <= steps; ++t) values.push_back(hyper_from_defaults(task, t, hyper).value());
  return values;
}

// ------------------------------------------------------------------------------------------------------- A10
constexpr int64_t kRows = 64, kUsed = 48, kStride = 64;
constexpr float kPadding = -123.25f;

/// Plain descent on a matrix of 64 x 48 whose rows are 64 apart: a tensor of 48 x 64 has 48 * 64 gradients, one beside
/// the other, and "cols*cols" = 64 * 64 places for parameters.
TaskSpec padded_task() {
  TaskSpec task = real_task("sgd_momentum");
  task.buffers = {buffer_of("param", DType::kF32, Role::kInOut, "cols*cols"),
                  buffer_of("grad", DType::kF32, Role::kIn, "n")};
  return task;
}

std::string descent(const std::string& body, const std::string& more = "") {
  return plan_of("sgd_momentum", "12",
                 more.empty() ? "\"param\", \"grad\", \"hyper\"" : "\"param\", \"grad\", \"hyper\", \"scratch.copy\"",
                 more) +
         "extern \"C\" __global__ void step(float* p, const float* g, const Hyper* hyper" +
         (more.empty() ? "" : ", float* copy") +
         ") {\n  const int i = blockIdx.x * 256 + threadIdx.x;  // of 64 * 48\n"
         "  const int place = i / 48 * 64 + i % 48;\n  " +
         body + "\n}\n";
}

struct Padded {
  Scenario scenario;
  std::vector<double> right;  ///< parameters after one step, exactly
  std::vector<double> moved;  ///< how far each moved: the scale of its limit
};
Padded padded_run(const TaskSpec& task) {
  Padded made;
  std::vector<float> param(kRows * kStride, kPadding), grad(kRows * kUsed);
  made.right.assign(param.size(), kPadding);
  made.moved.assign(param.size(), 0);
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < kUsed; ++c) {
      const auto at = static_cast<size_t>(r * kStride + c), dense = static_cast<size_t>(r * kUsed + c);
      param[at] = static_cast<float>(r) + static_cast<float>(c) / 64;
      grad[dense] = static_cast<float>(dense % 17) - 8.5f;
      made.moved[at] = std::fabs(0.125 * static_cast<double>(grad[dense]));
      made.right[at] = static_cast<double>(param[at]) - 0.125 * static_cast<double>(grad[dense]);
    }
  }
  made.scenario.tensors = {make_shape({kUsed, kStride})};
  made.scenario.initial = {{bytes_of(param)}, {bytes_of(grad)}};
  for (const HyperValues& values : steps_of(task, 1, {{"lr", 0.125}, {"weight_decay", 0}, {"grad_scale", 1}}))
    made.scenario.steps.push_back({values, {}});
  return made;
}

}  // namespace

TEST_CASE("A10: rows with padding between them (bitsandbytes#1185, axolotl#3785)") {
  if (!can_compile()) return;
  const TaskSpec task = padded_task();
  const Padded padded = padded_run(task);
  const struct {
    const char* name;
    std::string text;
    bool right, padding_kept;
  } rows[] = {
      {"right", descent("p[place] -= hyper->lr * g[i];"), true, true},
      {"right, by rows", descent("const int r = i % 64, c = i / 64;\n  p[r * 64 + c] -= hyper->lr * g[r * 48 + c];"),
       true, true},
      {"indexed as if it were dense", descent("p[i] -= hyper->lr * g[i];"), false, false},
      {"a contiguous copy is updated and lost",
       descent("copy[i] = p[place];\n  copy[i] -= hyper->lr * g[i];", ", \"scratch\": {\"copy\": \"64 * 48 * 4\"}"),
       false, true},
      {"the control of that one: the copy comes back",
       descent("copy[i] = p[place];\n  copy[i] -= hyper->lr * g[i];\n  p[place] = copy[i];",
               ", \"scratch\": {\"copy\": \"64 * 48 * 4\"}"),
       true, true},
      {"padding overwritten with itself plus zero",
       descent("p[place] -= hyper->lr * g[i];\n"
               "  if (i % 48 < 16) p[place + 48] += 1e-6f;"),
       true, true},  // -123.25 + 1e-6 is -123.25 in fp32
      {"padding overwritten", descent("p[place] -= hyper->lr * g[i];\n  if (i % 48 < 16) p[place + 48] = 0;"), false,
       false},
  };
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.name) {
      const Compiled kernel = compiled(task, row.text);
      const ScenarioResult result = run(kernel, padded.scenario);
      if (result.failure) FAIL(result.failure->message);
      const std::vector<double> got = to_double(DType::kF32, result.final_buffers[0][0]);
      REQUIRE(got.size() == padded.right.size());
      const CompareResult compared =
          compare(padded.right, got, padded.moved, task.buffers[0].tolerance, task.buffers[0].dtype);
      CHECK(compared.elements_checked == kRows * kStride);
      CHECK((compared.first_bad_element < 0) == row.right);
      bool kept = true;
      for (size_t i = 0; i < got.size(); ++i)
        if (i % kStride >= kUsed) kept = kept && got[i] == static_cast<double>(kPadding);
      CHECK(kept == row.padding_kept);
      // Nothing but the inputs' own bytes came back for the gradient.
      CHECK(result.final_buffers[1][0] == padded.scenario.initial[1][0]);
    }
  }
}

TEST_CASE("A10: (2, 1, 100) with strides (100, 1, 1) and (100, 100, 1) is one layout (pytorch#106951)") {
  if (!can_compile()) return;
  TaskSpec task = real_task("sgd_momentum");
  task.buffers = {buffer_of("param", DType::kF32, Role::kInOut, "n"), buffer_of("grad", DType::kF32, Role::kIn, "n")};
  const TensorShape shape = make_shape({2, 1, 100});
  CHECK((shape.n == 200 && shape.rows == 2 && shape.cols == 100));
  std::vector<float> param(200), grad(200);
  std::vector<double> right(200), moved(200);
  for (size_t i = 0; i < 200; ++i) {
    param[i] = static_cast<float>(i);
    grad[i] = static_cast<float>(i % 7) - 3.25f;
    right[i] = static_cast<double>(param[i]) - 0.5 * static_cast<double>(grad[i]);
    moved[i] = std::fabs(0.5 * static_cast<double>(grad[i]));
  }
  const auto stepped = [&](const std::string& middle_stride, const TensorShape& tensor) {
    const Compiled kernel =
        compiled(task, plan_of(task.id, "1", "\"param\", \"grad\", \"hyper\"") +
                           "extern \"C\" __global__ void step(float* p, const float* g, const Hyper* hyper) {\n"
                           "  if (threadIdx.x >= 200) return;\n"
                           "  const int i = threadIdx.x / 100, j = 0, k = threadIdx.x % 100;\n"
                           "  const int place = i * 100 + j * " +
                           middle_stride + " + k;\n  p[place] -= hyper->lr * g[place];\n}\n");
    Scenario scenario;
    scenario.tensors = {tensor};
    scenario.initial = {{bytes_of(param)}, {bytes_of(grad)}};
    for (const HyperValues& values : steps_of(task, 1, {{"lr", 0.5}, {"weight_decay", 0}, {"grad_scale", 1}}))
      scenario.steps.push_back({values, {}});
    const ScenarioResult result = run(kernel, scenario);
    if (result.failure) FAIL(result.failure->message);
    return result.final_buffers[0][0];
  };
  const Bytes ones = stepped("1", shape), hundreds = stepped("100", shape), flat = stepped("100", make_shape({2, 100}));
  CHECK(ones == hundreds);
  CHECK(ones == flat);
  const CompareResult compared =
      compare(right, to_double(DType::kF32, ones), moved, task.buffers[0].tolerance, DType::kF32);
  CHECK(compared.elements_checked == 200);
  CHECK(compared.first_bad_element < 0);
}

// ------------------------------------------------------------------------------------------------------- A29
namespace {

/// AdamW with everything in fp16, and an eps that fp16 does not have: its least number is 2^-24 = 5.96e-8.
TaskSpec half_task() {
  TaskSpec task = real_task("adamw");
  for (BufferSpec& buffer : task.buffers) {
    buffer.dtype = DType::kF16;
    if (buffer.role == Role::kInOut) buffer.tolerance = {1e-3, 1, 0.5};
  }
  for (HyperField& field : task.hyper) {
    if (field.name != "eps") continue;
    field.min = 1e-9;
    field.max = 2e-8;
  }
  return task;
}

std::string half_adamw(const std::string& denominator) {
  return plan_of("adamw", "ceil_div(n, 256)", "\"param\", \"grad\", \"exp_avg\", \"exp_avg_sq\", \"n\", \"hyper\"") +
         "extern \"C\" __global__ void step(__half* p, const __half* g, __half* m, __half* v, long long n,\n"
         "                                const Hyper* hyper) {\n"
         "  const Hyper h = *hyper;\n"
         "  const long long i = (long long)blockIdx.x * 256 + threadIdx.x;\n"
         "  if (i >= n || h.found_inf != 0) return;\n"
         "  const float x = __half2float(g[i]) / h.grad_scale;\n"
         "  const float mi = h.beta1 * __half2float(m[i]) + (1.0f - h.beta1) * x;\n"
         "  const float vi = h.beta2 * __half2float(v[i]) + (1.0f - h.beta2) * x * x;\n"
         "  const float numerator = mi / h.bias_correction1, root = sqrtf(vi / h.bias_correction2);\n"
         "  " +
         denominator +
         "\n  p[i] = __float2half(__half2float(p[i]) * (1.0f - h.lr * h.weight_decay) - h.lr * numerator / "
         "denominator);\n"
         "  m[i] = __float2half(mi);\n  v[i] = __float2half(vi);\n}\n";
}

Bytes halves(const std::vector<uint16_t>& patterns) {
  Bytes bytes(2 * patterns.size());
  std::memcpy(bytes.data(), patterns.data(), bytes.size());
  return bytes;
}

}  // namespace

TEST_CASE("A29: eps = 1e-8 is zero in fp16, and a zero gradient gives NaN (optax#1754, chainer#6299)") {
  if (!can_compile()) return;
  const TaskSpec task = half_task();
  const std::string good = half_adamw("const float denominator = root + h.eps;");
  const std::string broken =
      half_adamw("const float denominator = __half2float(__float2half(root)) + __half2float(__float2half(h.eps));");
  // eps as it should be added in fp16: no less than the least number of the format.
  const std::string clamped = half_adamw(
      "const float denominator = __half2float(__float2half(root)) + fmaxf(__half2float(__float2half(h.eps)), "
      "5.9604645e-8f);");
  constexpr uint16_t kOne = 0x3C00;
  Scenario scenario;
  scenario.tensors = {make_shape({33})};
  for (const BufferSpec& buffer : task.buffers)
    scenario.initial.push_back({halves(std::vector<uint16_t>(33, buffer.name == "param" ? kOne : 0))});
  for (const HyperValues& values : steps_of(task, 3, plain_adam())) scenario.steps.push_back({values, {}});
  const struct {
    const char* name;
    const std::string& text;
    bool right;
  } rows[] = {{"in fp32", good, true}, {"clamped", clamped, true}, {"in fp16", broken, false}};
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.name) {
      const Compiled kernel = compiled(task, row.text);
      const ScenarioResult result = run(kernel, scenario);
      if (result.failure) FAIL(result.failure->message);
      const std::vector<double> param = to_double(DType::kF16, result.final_buffers[0][0]);
      REQUIRE(param.size() == 33);
      for (const double value : param) CHECK((row.right ? value == 1 : std::isnan(value)));
      const std::vector<double> one(33, 1), nothing(33, 0);
      const CompareResult compared = compare(one, param, nothing, task.buffers[0].tolerance, DType::kF16);
      CHECK((compared.first_bad_element < 0) == row.right);
      if (!row.right) CHECK(std::isinf(compared.first_bad_ratio));
    }
  }
  // The same through a whole evaluation: compiled, admitted and judged by the task's oracle.
  const TaskSpec cases = with_edges(task, {group({"[33,300]"}, {"zero"}, {1, 10}, 2)});
  check_passed(evaluated(cases, candidate_of(good)));
  check_passed(evaluated(cases, candidate_of(clamped)));
  const EvalRecord record = evaluated(cases, candidate_of(broken));
  check_failure(record, Verdict::kWrongResult);
  CHECK(record.failure->buffer == "param");
  CHECK(std::isnan(record.failure->got));
}

// ------------------------------------------------------------------------------------------------------- A43
namespace {

/// AdamW that counts its own steps: `counter` is a state of one number.
TaskSpec counting_task() {
  TaskSpec task = real_task("adamw");
  task.buffers.push_back(buffer_of("counter", DType::kI32, Role::kInOut, "1"));
  task.buffers.back().tolerance = {0, 0, 0};
  return task;
}

/// `advance` stands at the end of a kernel of one thread per element; `after` are further launches.
std::string counting(const std::string& advance, const std::string& after = "", const std::string& kernels = "") {
  return "/*stepbench\n{\"task\": \"adamw\", \"launches\": [{\"for\": \"tensor\", \"kernel\": \"step\",\n"
         "  \"grid\": \"ceil_div(n, 256)\", \"block\": \"256\",\n"
         "  \"args\": [\"param\", \"grad\", \"exp_avg\", \"counter\", \"n\", \"hyper\"]}" +
         after + "]}\n*/\n#include <stepbench.cuh>\n" + kernels +
         "extern \"C\" __global__ void step(float* p, const float* g, float* m, int* counter, long long n,\n"
         "                                const Hyper* hyper) {\n"
         "  const long long i = (long long)blockIdx.x * 256 + threadIdx.x;\n"
         "  if (i < n) {\n"
         "    m[i] = hyper->beta1 * m[i] + (1.0f - hyper->beta1) * g[i];\n"
         "    p[i] -= hyper->lr * m[i];\n"
         "  }\n  " +
         advance + "\n}\n";
}

}  // namespace

TEST_CASE("A43: a step counter on the device grows by one, whatever the grid (Paddle#48297)") {
  if (!can_compile()) return;
  const TaskSpec task = counting_task();
  const std::string own_launch =
      ",\n  {\"for\": \"tensor\", \"kernel\": \"count\", \"grid\": \"1\", \"block\": \"32\", \"args\": [\"counter\"]}";
  const struct {
    const char* name;
    std::string text;
    int growth_256, growth_2_20;  ///< in two steps
  } rows[] = {
      {"by one thread of one block", counting("if (i == 0) *counter += 1;"), 2, 2},
      {"by a launch of its own",
       counting("", own_launch,
                "extern \"C\" __global__ void count(int* counter) { if (threadIdx.x == 0) *counter += 1; }\n"),
       2, 2},
      {"by every block", counting("if (threadIdx.x == 0) atomicAdd(counter, 1);"), 2, 2 * 4096},
      {"by 32 lanes of a launch of its own",
       counting("", own_launch, "extern \"C\" __global__ void count(int* counter) { atomicAdd(counter, 1); }\n"), 64,
       64},
  };
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.name) {
      const Compiled kernel = compiled(task, row.text);
      for (const int64_t n : {int64_t{256}, int64_t{1} << 20}) {
        INFO("n = " << n);
        const int growth = n == 256 ? row.growth_256 : row.growth_2_20;
        Scenario scenario;
        scenario.tensors = {make_shape({n})};
        constexpr int32_t kBefore = 41;
        for (const BufferSpec& buffer : task.buffers) {
          Bytes bytes(static_cast<size_t>(buffer_elements(buffer, scenario.tensors[0])) * 4);
          if (buffer.name == "counter") std::memcpy(bytes.data(), &kBefore, 4);
          scenario.initial.push_back({std::move(bytes)});
        }
        for (const HyperValues& values : steps_of(task, 2, plain_adam())) scenario.steps.push_back({values, {}});
        const ScenarioResult result = run(kernel, scenario, "vm");
        if (result.failure) FAIL(result.failure->message);
        const size_t counter = buffer_index(task, "counter");
        const std::vector<double> got = to_double(DType::kI32, result.final_buffers[counter][0]);
        REQUIRE(got.size() == 1);
        CHECK(got[0] == kBefore + growth);
        const std::vector<double> right = {kBefore + 2}, nothing = {0};
        const CompareResult compared = compare(right, got, nothing, task.buffers[counter].tolerance, DType::kI32);
        CHECK((compared.first_bad_element < 0) == (growth == 2));
      }
    }
  }
  // Without an atomic it is a race as well; one block alone has none, and the right form never.
  const std::string plain = counting("if (threadIdx.x == 0) *counter += 1;");
  const struct {
    const char* name;
    std::string text;
    int64_t n;
    bool races;
  } races[] = {{"every block", plain, 1024, true},
               {"one block", plain, 256, false},
               {"one thread of one block", counting("if (i == 0) *counter += 1;"), 1024, false}};
  for (const auto& row : races) {
    DYNAMIC_SECTION("race: " << row.name) {
      const Compiled kernel = compiled(task, row.text);
      Scenario scenario;
      scenario.tensors = {make_shape({row.n})};
      for (const BufferSpec& buffer : task.buffers)
        scenario.initial.push_back({Bytes(static_cast<size_t>(buffer_elements(buffer, scenario.tensors[0])) * 4)});
      scenario.steps.push_back({hyper_from_defaults(task, 1, plain_adam()).value(), {}});
      const ScenarioResult result = run(kernel, scenario, "vm:check");
      REQUIRE(result.failure.has_value() == row.races);
      if (!row.races) continue;
      CHECK(result.failure->verdict == Verdict::kRace);
      CHECK_THAT(result.failure->message + result.failure->detail, Catch::Contains("counter"));
    }
  }
}
