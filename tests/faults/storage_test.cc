// A30, A31, A33, A35, A36: public faults in number formats, rounding and quantised states, as real kernels on the VM.
// Each shows the end value of the right and of the broken kernel and the verdict on both.
#include "tests/faults/kernels.h"

using namespace stepbench;
using namespace stepbench::testing;

namespace {

/// A shipped baseline with one piece of its text replaced.
std::string edited(const std::string& path_from_root, const std::string& find, const std::string& replace) {
  std::ifstream file(std::string(STEPBENCH_SOURCE_ROOT) + "/" + path_from_root);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t at = text.find(find);
  if (at == std::string::npos) FAIL(path_from_root << " does not hold: " << find);
  return text.replace(at, find.size(), replace);
}

Bytes repeated(DType dtype, double value, int64_t n) {
  BufferSpec buffer;
  buffer.dtype = dtype;
  Bytes bytes(static_cast<size_t>(n) * dtype_bytes(dtype));
  const auto number = static_cast<float>(value);
  const auto pattern = std::bit_cast<uint32_t>(number);
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    const auto half = static_cast<uint16_t>(pattern >> 16);
    const auto code = static_cast<uint8_t>(value);
    if (dtype == DType::kF32) std::memcpy(bytes.data() + 4 * i, &number, 4);
    if (dtype == DType::kBf16) std::memcpy(bytes.data() + 2 * i, &half, 2);
    if (dtype == DType::kU8) std::memcpy(bytes.data() + i, &code, 1);
  }
  return bytes;
}

using Start = std::map<std::string, double>;

/// One tensor whose elements are all alike, stepped with the same gradient.
Scenario uniform_run(const TaskSpec& task, int64_t n, const Start& start, double grad, int64_t steps,
                     const Overrides& hyper) {
  Scenario scenario;
  scenario.tensors = {make_shape({n})};
  for (const BufferSpec& buffer : task.buffers) {
    const auto found = start.find(buffer.name);
    const double value = buffer.name == "grad" ? grad : found != start.end() ? found->second : 0;
    scenario.initial.push_back({repeated(buffer.dtype, value, buffer_elements(buffer, scenario.tensors[0]))});
  }
  for (int64_t t = 1; t <= steps; ++t) {
    const Result<HyperValues> values = hyper_from_defaults(task, t, hyper);
    REQUIRE(values.ok());
    scenario.steps.push_back({values.value(), {}});
  }
  return scenario;
}

std::vector<double> end_values(const Compiled& kernel, const Scenario& scenario, const std::string& buffer) {
  const ScenarioResult result = run(kernel, scenario, "vm");
  if (result.failure) FAIL(result.failure->message);
  const size_t b = buffer_index(kernel.task, buffer);
  return to_double(kernel.task.buffers[b].dtype, result.final_buffers[b][0]);
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

const std::string kSr = "reference_kernels/adamw_bf16_sr/naive.cu";
const std::string kSrOwn = "reference_kernels/adamw_bf16_sr_own/naive.cu";
const std::string kRound = "param[i] = (uint16_t)((__float_as_uint(x) + draw) >> 16);";
const std::string kNearest = "param[i] = __bfloat16_as_ushort(__float2bfloat16_rn(x));";

}  // namespace

TEST_CASE("A30: updates under half a unit are lost by nearest rounding, not by chance (OneTrainer#996)") {
  if (!can_compile()) return;
  constexpr int64_t kCount = 1 << 14;
  const TaskSpec task = real_task("adamw_bf16_sr");
  const Compiled good = compiled(task, shipped(kSr, task.id));
  const Compiled nearest = compiled(task, edited(kSr, kRound, kNearest));
  // A hundred steps of 6e-4 from 1.
  const Scenario updates = uniform_run(task, kCount, {{"param", 1}}, 1, 100,
                                       {{"lr", 6e-4}, {"weight_decay", 0}, {"grad_scale", 1}, {"seed", 11}});
  CHECK(mean(end_values(good, updates, "param")) == Approx(0.9400).margin(4 * 0.0141 / 128));
  CHECK(mean(end_values(nearest, updates, "param")) == 1);
  // A hundred steps of decay by 1e-4.
  const Scenario decay = uniform_run(task, kCount, {{"param", 1}}, 0, 100,
                                     {{"lr", 1e-3}, {"weight_decay", 0.1}, {"grad_scale", 1}, {"seed", 12}});
  CHECK(mean(end_values(good, decay, "param")) == Approx(0.99005).margin(4 * 0.0062 / 128));
  CHECK(mean(end_values(nearest, decay, "param")) == 1);
  check_passed(evaluated(task, good.candidate));
  check_failure(evaluated(task, nearest.candidate), Verdict::kWrongResult);
  const TaskSpec own = real_task("adamw_bf16_sr_own");
  check_failure(evaluated(own, candidate_of(edited(kSrOwn, kRound, kNearest), own.id)), Verdict::kWrongResult);
}

TEST_CASE("A31: decisions that repeat from tensor to tensor or element to element (llm.c#597)") {
  if (!can_compile()) return;
  const TaskSpec task = with_edges(real_task("adamw_bf16_sr_own"), {group({"[140001,140001]"}, {"gaussian"}, {5}, 1)});
  const std::string draw = "const unsigned draw = random16(h, index, i);";
  const struct {
    const char *name, *replace, *what;
  } rows[] = {
      {"tensors", "const unsigned draw = random16(h, 0, i);", "one tensor and the next"},
      {"256 apart", "const unsigned draw = random16(h, index, i % 256);", "256 apart"},
      {"65536 apart", "const unsigned draw = random16(h, index, i % 65536);", "65536 apart"},
  };
  check_passed(evaluated(task, shipped(kSrOwn, task.id)));
  for (const auto& row : rows) {
    INFO(row.name);
    const EvalRecord record = evaluated(task, candidate_of(edited(kSrOwn, draw, row.replace), task.id));
    check_failure(record, Verdict::kWrongResult);
    CHECK_THAT(record.failure->message, Catch::Contains(row.what));
    CHECK(record.failure->buffer == "param");
  }
}

TEST_CASE("A33: the second moment stops growing in bf16, and only a long run shows it (whitecircle/halo#30)") {
  if (!can_compile()) return;
  const TaskSpec half = real_task("adamw_bf16_states"), whole = real_task("adamw");
  const Compiled kernel = compiled(half, shipped("reference_kernels/adamw_bf16_states/naive.cu", half.id));
  const Compiled control = compiled(whole, shipped("reference_kernels/adamw/naive.cu", whole.id));
  const struct {
    int64_t steps;
    double stored, exact;
  } rows[] = {{100, 0.0952, 0.0952}, {500, 0.25, 0.3936}, {2000, 0.25, 0.8648}};
  for (const auto& row : rows) {
    INFO(row.steps);
    const Scenario in_half = uniform_run(half, 1, {}, 1, row.steps, {{"grad_scale", 1}});
    const Scenario in_whole = uniform_run(whole, 1, {}, 1, row.steps, {{"grad_scale", 1}});
    CHECK(end_values(kernel, in_half, "exp_avg_sq")[0] == Approx(row.stored).epsilon(0.03));
    CHECK(end_values(control, in_whole, "exp_avg_sq")[0] == Approx(row.exact).epsilon(1e-3));
  }
}

TEST_CASE("A35: a code book of the wrong bits (bitsandbytes#262)") {
  if (!can_compile()) return;
  const TaskSpec task = real_task("adamw_8bit");
  const std::string naive = "reference_kernels/adamw_8bit/naive.cu";
  check_passed(evaluated(task, shipped(naive, task.id)));
  const EvalRecord record = evaluated(
      task, candidate_of(edited(naive, "positive_value(code + 1, 1);", "positive_value((code + 1) / 2, 0);"), task.id));
  check_failure(record, Verdict::kWrongResult);
}

TEST_CASE("A36: weights without a gradient stay where they are beside others (unsloth-zoo#962)") {
  if (!can_compile()) return;
  const TaskSpec task = real_task("adamw_8bit");
  const std::string naive = "reference_kernels/adamw_8bit/naive.cu";
  const Compiled good = compiled(task, shipped(naive, task.id));
  // A code that does not decode to exactly zero: the residue is divided by eps.
  const Compiled affine =
      compiled(task, edited(naive, "if (code == 127) return 0.0f;", "if (code == 127) return 1e-7f;"));
  Scenario scenario = uniform_run(task, 256, {{"exp_avg", 127}}, 1, 500, {{"weight_decay", 0}, {"grad_scale", 1}});
  Bytes& grad = scenario.initial[buffer_index(task, "grad")][0];
  std::fill(grad.begin() + 256, grad.end(), std::byte{0});  // elements 128 .. 255
  const std::vector<double> right = end_values(good, scenario, "param"), wrong = end_values(affine, scenario, "param");
  for (size_t i = 128; i < 256; ++i) CHECK(right[i] == 0);
  CHECK(right[0] == Approx(-0.5).epsilon(0.02));
  CHECK(std::fabs(wrong[200]) > 0.1);
  check_failure(evaluated(task, affine.candidate), Verdict::kWrongResult);
}
