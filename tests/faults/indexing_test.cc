// A01, A03, A04, A06, A08: sizes, alignment and lists. The part of A01 that needs 2^31 elements in memory is the GPU's;
// here every number that the harness computes from such a size is looked at, without the memory.
#include <algorithm>

#include "tests/fakes.h"

#include "tests/faults/kernels.h"

using namespace stepbench;
using namespace stepbench::testing;

namespace {

/// The element that a wrong vector loop leaves out first.
int64_t first_of_tail(int64_t n) { return n / 4 * 4; }

/// AdamW with one thread per four elements.
std::string by_four(const std::string& bound, const std::string& loop) {
  return "/*stepbench\n"
         "{\"task\": \"adamw\", \"launches\": [{\"for\": \"tensor\", \"kernel\": \"step\", \"grid\": \"ceil_div(n, "
         "512)\",\n"
         "  \"block\": \"128\", \"args\": [\"param\", \"grad\", \"exp_avg\", \"exp_avg_sq\", \"n\", \"hyper\"]}]}\n"
         "*/\n"
         "#include <stepbench.cuh>\n"
         "__device__ __forceinline__ void update(float& p, float g, float& m, float& v, const Hyper& h) {\n"
         "  g = g / h.grad_scale;\n"
         "  m = h.beta1 * m + (1.0f - h.beta1) * g;\n"
         "  v = h.beta2 * v + (1.0f - h.beta2) * g * g;\n"
         "  p -= h.lr * (m / h.bias_correction1 / (sqrtf(v / h.bias_correction2) + h.eps) + h.weight_decay * p);\n"
         "}\n"
         "extern \"C\" __global__ void step(float* p, const float* g, float* m, float* v, long long n,\n"
         "                                const Hyper* hyper) {\n"
         "  const Hyper h = *hyper;\n"
         "  const long long i = 4 * ((long long)blockIdx.x * blockDim.x + threadIdx.x);\n"
         "  if (h.found_inf != 0 || " +
         bound + ") return;\n" + loop + "}\n";
}

const char* const kVectorLoop =
    "  float4 pp = *(float4*)(p + i), mm = *(float4*)(m + i), vv = *(float4*)(v + i);\n"
    "  const float4 gg = *(const float4*)(g + i);\n"
    "  update(pp.x, gg.x, mm.x, vv.x, h);\n  update(pp.y, gg.y, mm.y, vv.y, h);\n"
    "  update(pp.z, gg.z, mm.z, vv.z, h);\n  update(pp.w, gg.w, mm.w, vv.w, h);\n"
    "  *(float4*)(p + i) = pp;\n  *(float4*)(m + i) = mm;\n  *(float4*)(v + i) = vv;\n";
const char* const kScalarLoop =
    "  for (long long k = i; k < i + 4 && k < n; ++k) {\n"
    "    float pp = p[k], mm = m[k], vv = v[k];\n"
    "    update(pp, g[k], mm, vv, h);\n    p[k] = pp; m[k] = mm; v[k] = vv;\n  }\n";

/// Some numbers without pattern, the same in every run.
std::vector<float> numbers(int64_t n, float scale, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = scale * (static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f);
  }
  return values;
}

BufferBytes adamw_numbers(const std::vector<TensorShape>& tensors) {
  BufferBytes bytes(4);
  uint32_t seed = 1;
  for (const TensorShape& shape : tensors) {
    bytes[0].push_back(bytes_of(numbers(shape.n, 1, seed++)));
    bytes[1].push_back(bytes_of(numbers(shape.n, 0.1f, seed++)));
    bytes[2].push_back(bytes_of(numbers(shape.n, 0.01f, seed++)));
    std::vector<float> squares = numbers(shape.n, 0.01f, seed++);
    for (float& value : squares) value *= value;
    bytes[3].push_back(bytes_of(squares));
  }
  return bytes;
}

/// One step of `kernel` over one tensor with the buffers at these offsets.
struct Stepped {
  std::optional<Failure> failure;
  BufferBytes end;
};
Stepped step_at(const Compiled& kernel, int64_t n, const std::vector<int32_t>& offsets) {
  const std::vector<TensorShape> tensors = {make_shape({n})};
  const CheckContext context = kernel.context();
  Result<Judged<Rig>> opened = open_rig(context, tensors, offsets);
  REQUIRE(opened.ok());
  REQUIRE(opened.value().ok());
  Rig rig = std::move(*opened.value().value);
  const BufferBytes start = adamw_numbers(tensors);
  REQUIRE(write_buffers(rig, kernel.task, Role::kIn, start).ok());
  REQUIRE(write_buffers(rig, kernel.task, Role::kInOut, start).ok());
  const Result<HyperValues> hyper = hyper_from_defaults(kernel.task, 5, Overrides{});
  REQUIRE(hyper.ok());
  Result<StepReport> report = run_step(*rig.session, hyper.value(), 1);
  REQUIRE(report.ok());
  Stepped stepped;
  stepped.failure = report.value().failure;
  if (!stepped.failure) REQUIRE(read_buffers(rig, kernel.task, tensors, Role::kInOut, stepped.end).ok());
  return stepped;
}

/// A device whose memory is a row of sizes: takes any size, keeps nothing, runs nothing.
class SizesOnly : public Device {
 public:
  struct Launched {
    std::array<int64_t, 3> grid{};
    std::vector<std::byte> parameters;
  };
  std::vector<AllocationSpec> allocations;
  std::vector<Launched> launched;
  std::vector<std::string> parameter_words{"ptr", "ptr", "ptr", "i64", "ptr"};

  DeviceInfo info() const override { return {}; }
  Result<Judged<ModuleId>> load(const CompiledModule&) override { return Judged<ModuleId>(ModuleId{1}); }
  void unload(ModuleId) override {}
  Result<KernelInfo> kernel(ModuleId, const std::string& entry) override {
    KernelInfo known;
    known.entry = entry;
    known.parameters = parameters_of(parameter_words);
    known.parameter_bytes = known.parameters.back().offset_bytes + known.parameters.back().bytes;
    return known;
  }
  Result<BufferId> allocate(const AllocationSpec& spec) override {
    allocations.push_back(spec);
    return BufferId{static_cast<uint32_t>(allocations.size())};
  }
  void release(BufferId) override {}
  uint64_t address(BufferId buffer) const override { return uint64_t{buffer.value} << 40; }
  Result<void> write(BufferId buffer, uint64_t offset_bytes, std::span<const std::byte> bytes) override {
    REQUIRE(offset_bytes + bytes.size() <= allocations.at(buffer.value - 1).bytes);
    written[buffer.value].assign(bytes.begin(), bytes.end());
    return {};
  }
  Result<void> read(BufferId, uint64_t, std::span<std::byte>) override { return {}; }
  Result<void> poison(BufferId, uint64_t) override { return {}; }
  Result<LaunchReport> launch(const LaunchSpec& spec) override {
    launched.push_back({spec.grid, {spec.parameters.begin(), spec.parameters.end()}});
    return LaunchReport{};
  }
  void set_budget(uint64_t units) override { budget = units; }

  uint64_t budget = 0;
  std::map<uint32_t, std::vector<std::byte>> written;
};

constexpr int64_t kHuge = (int64_t{1} << 31) + 5;

Candidate sgd_candidate(const std::string& launches, const std::string& more = "") {
  return candidate_of("/*stepbench\n{\"task\": \"sgd_momentum\", " + more + "\"launches\": [" + launches +
                          "]}\n*/\nextern \"C\" __global__ void k() {}\n",
                      "sgd_momentum");
}

}  // namespace

TEST_CASE("A01: sizes above 2^31 stay exact from the shape to the launch") {
  const TaskSpec task = real_task("sgd_momentum");
  const std::vector<TensorShape> tensors = {make_shape({3}), make_shape({kHuge}), make_shape({2, kHuge / 3})};
  CHECK(tensors[1].n == 2147483653);
  CHECK(tensors[2].n == 2 * (kHuge / 3));
  CHECK(buffer_elements(task.buffers[0], tensors[1]) == kHuge);
  CHECK(total_elements(tensors) == 3 + kHuge + 2 * (kHuge / 3));

  const Candidate candidate = sgd_candidate(
      "{\"for\": \"tensor\", \"kernel\": \"k\", \"grid\": \"ceil_div(n, 256)\", \"block\": \"256\", "
      "\"args\": [\"param\", \"grad\", \"momentum_buffer\", \"n\", \"hyper\"]}",
      "\"scratch\": {\"flags\": \"total / 64\"}, ");
  CompiledModule module;
  module.entries = {{"k", "k"}};
  SizesOnly device;
  Result<Judged<SessionPtr>> opened = open_session(device, ModuleId{1}, module, candidate, task, tensors, {});
  REQUIRE(opened.ok());
  INFO((opened.value().failure ? opened.value().failure->message : ""));
  REQUIRE(opened.value().ok());
  uint64_t huge_buffers = 0;
  bool has_scratch = false;
  for (const AllocationSpec& spec : device.allocations) {
    if (spec.bytes == 8589934612) ++huge_buffers;  // 4 * (2^31 + 5)
    has_scratch |= spec.bytes == static_cast<uint64_t>(total_elements(tensors) / 64);
  }
  CHECK(huge_buffers == 3);
  CHECK(has_scratch);

  const Result<HyperValues> hyper = hyper_from_defaults(task, 1, Overrides{});
  REQUIRE(hyper.ok());
  REQUIRE(run_step(**opened.value().value, hyper.value(), 1).ok());
  REQUIRE(device.launched.size() == 3);
  CHECK(device.launched[1].grid[0] == 8388609);  // ceil(2^31 + 5 over 256)
  int64_t passed = 0;
  std::memcpy(&passed, device.launched[1].parameters.data() + 24, sizeof(passed));
  CHECK(passed == kHuge);
}

TEST_CASE("A01: offsets and sizes of a list are 64-bit numbers, and a 32-bit parameter is refused") {
  const TaskSpec task = real_task("sgd_momentum");
  const std::vector<TensorShape> tensors = {make_shape({kHuge}), make_shape({7})};
  CompiledModule module;
  module.entries = {{"k", "k"}};
  const Candidate list = sgd_candidate(
      "{\"for\": \"step\", \"kernel\": \"k\", \"grid\": \"ceil_div(total, 4096)\", \"block\": \"256\", "
      "\"args\": [\"param[]\", \"offset[]\", \"n[]\", \"total\", \"hyper\"]}");
  SizesOnly device;
  Result<Judged<SessionPtr>> opened = open_session(device, ModuleId{1}, module, list, task, tensors, {});
  REQUIRE(opened.ok());
  REQUIRE(opened.value().ok());
  const std::vector<int64_t> offsets = {0, kHuge}, sizes = {kHuge, 7};
  const auto is_written = [&](const std::vector<int64_t>& table) {
    return std::any_of(device.written.begin(), device.written.end(), [&](const auto& written) {
      return written.second.size() == table.size() * 8 &&
             std::memcmp(written.second.data(), table.data(), table.size() * 8) == 0;
    });
  };
  CHECK(is_written(offsets));
  CHECK(is_written(sizes));

  SizesOnly narrow;
  narrow.parameter_words = {"ptr", "ptr", "ptr", "i32", "ptr"};
  Result<Judged<SessionPtr>> refused = open_session(narrow, ModuleId{1}, module, list, task, tensors, {});
  REQUIRE(refused.ok());
  REQUIRE_FALSE(refused.value().ok());
  CHECK(refused.value().failure->verdict == Verdict::kBadCandidate);
  CHECK(refused.value().failure->message.find("2147483660") != std::string::npos);
  const std::vector<TensorShape> small = {make_shape({7})};
  Result<Judged<SessionPtr>> fits = open_session(narrow, ModuleId{1}, module, list, task, small, {});
  REQUIRE(fits.ok());
  CHECK(fits.value().ok());
}

TEST_CASE("A01: expressions are exact far above 2^31") {
  const std::vector<TensorShape> tensors = {make_shape({kHuge}), make_shape({kHuge})};
  ExpressionScope scope;
  scope.tensors = tensors;
  scope.tensor = 1;
  const struct {
    const char* text;
    int64_t value;
  } rows[] = {{"n", kHuge},
              {"4 * n", 4 * kHuge},
              {"sum(n)", 2 * kHuge},
              {"prefix(n * 4)", 4 * kHuge},
              {"ceil_div(total, 1024)", (2 * kHuge + 1023) / 1024},
              {"align(n, 256)", (kHuge + 255) / 256 * 256},
              {"max_n - 2147483648", 5}};
  for (const auto& row : rows) {
    INFO(row.text);
    const Result<int64_t> value = evaluate_expression(row.text, scope);
    REQUIRE(value.ok());
    CHECK(value.value() == row.value);
  }
}

#if !defined(__SANITIZE_ADDRESS__)  // which ends the program on such a size
TEST_CASE("A01: memory that this machine does not have is an error of the machine") {
  Result<std::unique_ptr<Device>> device = open_device("vm");
  REQUIRE(device.ok());
  AllocationSpec spec;
  spec.bytes = uint64_t{1} << 50;
  spec.label = "param[0]";
  const Result<BufferId> huge = device.value()->allocate(spec);
  REQUIRE_FALSE(huge.ok());
  CHECK(huge.error().code == ErrorCode::kResource);
  spec.bytes = 16;
  CHECK(device.value()->allocate(spec).ok());
}
#endif

TEST_CASE("A03: wide accesses need an aligned address, and the next candidate is none the worse") {
  if (!can_compile()) return;
  const TaskSpec task = real_task("adamw");
  const Compiled broken = compiled(task, by_four("i + 4 > n", kVectorLoop));
  const Compiled good = compiled(task, shipped("reference_kernels/adamw/float4.cu", "adamw"));
  const Stepped aligned = step_at(good, 4096, {0, 0, 0, 0});
  REQUIRE(!aligned.failure);
  CHECK(!step_at(broken, 4096, {0, 0, 0, 0}).failure);
  for (const std::vector<int32_t>& offsets : std::vector<std::vector<int32_t>>{{1, 1, 1, 1}, {0, 1, 0, 0}}) {
    const Stepped shifted = step_at(broken, 4096, offsets);
    REQUIRE(shifted.failure);
    CHECK(shifted.failure->verdict == Verdict::kLaunchError);
    CHECK(shifted.failure->message.find("multiple of 16") != std::string::npos);
    CHECK(shifted.failure->place == "kernel.cu:" + std::string(offsets[0] == 1 ? "17" : "18"));
    const Stepped fallback = step_at(good, 4096, offsets);
    REQUIRE(!fallback.failure);
    CHECK(fallback.end == aligned.end);  // to the last bit
  }
  check_failure(evaluated(task, candidate_of(by_four("i >= n", std::string("  if (i + 4 <= n) {\n") + kVectorLoop +
                                                                   "  return;\n  }\n" + kScalarLoop))),
                Verdict::kLaunchError);
  check_passed(evaluated(task, candidate_of(by_four("i >= n", kScalarLoop))));
}

TEST_CASE("A04: a forgotten tail is wrong for every size that has one, from its first element on") {
  if (!can_compile()) return;
  const TaskSpec shipped_task = real_task("adamw");
  const Candidate broken = candidate_of(by_four("i + 4 > n", kScalarLoop));
  const Candidate good = candidate_of(by_four("i >= n", kScalarLoop));
  for (const int64_t n : {1, 2, 3, 5, 7, 9, 1023, 1025, 4097, 8, 1024}) {
    INFO(n);
    const TaskSpec task = with_edges(shipped_task, {group({"[" + std::to_string(n) + "]"}, {"gaussian"}, {3}, 2)});
    const EvalRecord record = evaluated(task, broken, only("edges"));
    if (n % 4 == 0) {
      check_passed(record);
    } else {
      check_failure(record, Verdict::kWrongResult);
      CHECK(record.failure->element == first_of_tail(n));
    }
    check_passed(evaluated(task, good, only("edges")));
  }
  for (const std::string& id : task_ids()) {
    const TaskSpec task = real_task(id);
    if (task.family == "matrix") continue;  // their sizes are those of rows and columns
    for (const auto& [name, suite] : task.suites) {
      INFO(id << " " << name);
      const Result<std::vector<CaseSpec>> cases = expand_cases(task, suite.edges);
      REQUIRE(cases.ok());
      for (const int64_t n : {1023, 4097}) {
        CHECK(std::any_of(cases.value().begin(), cases.value().end(),
                          [&](const CaseSpec& spec) { return spec.tensors.size() == 1 && spec.tensors[0].n == n; }));
      }
    }
  }
}

namespace {

/// One block walks the list and works on two tensors at a time, or on what is left behind the last one.
std::string batched(const std::string& skip_empty) {
  return "/*stepbench\n"
         "{\"task\": \"adamw\", \"launches\": [{\"for\": \"step\", \"kernel\": \"step\", \"grid\": \"1\", \"block\": "
         "\"64\",\n"
         "  \"args\": [\"param[]\", \"grad[]\", \"exp_avg[]\", \"exp_avg_sq[]\", \"n[]\", \"tensors\", \"hyper\"]}]}\n"
         "*/\n"
         "#include <stepbench.cuh>\n"
         "extern \"C\" __global__ void step(float* const* p, const float* const* g, float* const* m, float* const* v,\n"
         "                                const long long* n, long long tensors, const Hyper* hyper) {\n"
         "  const Hyper h = *hyper;\n"
         "  if (h.found_inf != 0) return;\n"
         "  long long pending[2];\n"
         "  int waiting = 0;\n"
         "  for (long long t = 0; t < tensors; ++t) {\n"
         "    " +
         skip_empty +
         "\n"
         "    pending[waiting++] = t;\n"
         "    if (waiting < 2 && t + 1 < tensors) continue;\n"
         "    for (int w = 0; w < waiting; ++w) {\n"
         "      const long long one = pending[w];\n"
         "      for (long long i = threadIdx.x; i < n[one]; i += blockDim.x) {\n"
         "        const float x = g[one][i] / h.grad_scale, pp = p[one][i];\n"
         "        const float mi = h.beta1 * m[one][i] + (1.0f - h.beta1) * x;\n"
         "        const float vi = h.beta2 * v[one][i] + (1.0f - h.beta2) * x * x;\n"
         "        p[one][i] = pp - h.lr * (mi / h.bias_correction1 / (sqrtf(vi / h.bias_correction2) + h.eps) +\n"
         "                                 h.weight_decay * pp);\n"
         "        m[one][i] = mi; v[one][i] = vi;\n"
         "      }\n"
         "    }\n"
         "    waiting = 0;\n"
         "  }\n"
         "}\n";
}

}  // namespace

TEST_CASE("A06: an empty tensor at the end must not keep the others from their update") {
  if (!can_compile()) return;
  const TaskSpec shipped_task = real_task("adamw");
  const Compiled broken = compiled(shipped_task, batched("if (n[t] == 0) continue;"));
  const Compiled good = compiled(shipped_task, batched(""));
  const struct {
    const char* list;
    std::vector<int64_t> sizes;
    bool broken_is_wrong;
  } rows[] = {{"[7,0]", {7, 0}, true}, {"[0,7]", {0, 7}, false}, {"[0]", {0}, false}, {"[7,0,5]", {7, 0, 5}, false}};
  for (const auto& row : rows) {
    INFO(row.list);
    Scenario scenario;
    for (const int64_t n : row.sizes) scenario.tensors.push_back(make_shape({n}));
    scenario.initial = adamw_numbers(scenario.tensors);
    const Result<HyperValues> hyper = hyper_from_defaults(shipped_task, 3, Overrides{});
    REQUIRE(hyper.ok());
    scenario.steps = {{hyper.value(), {}}};
    const ScenarioResult right = run(good, scenario), wrong = run(broken, scenario);
    REQUIRE(!right.failure);
    REQUIRE(!wrong.failure);
    CHECK((wrong.final_buffers == scenario.initial) == (row.broken_is_wrong || row.sizes == std::vector<int64_t>{0}));
    CHECK((right.final_buffers == wrong.final_buffers) == !row.broken_is_wrong);

    const TaskSpec task = with_edges(shipped_task, {group({row.list}, {"gaussian"}, {3}, 2)});
    const EvalRecord record = evaluated(task, broken.candidate, only("edges"));
    if (row.broken_is_wrong)
      check_failure(record, Verdict::kWrongResult);
    else
      check_passed(record);
    check_passed(evaluated(task, good.candidate, only("edges")));
  }
  check_failure(evaluated(shipped_task, broken.candidate), Verdict::kWrongResult);
}

TEST_CASE("A06: a tensor without elements is a grid of nothing, and nobody's fault") {
  if (!can_compile()) return;
  const TaskSpec task = real_task("adamw");
  const Compiled kernel = compiled(task, adamw_text({}));
  Scenario scenario;
  scenario.tensors = {make_shape({0})};
  scenario.initial = adamw_numbers(scenario.tensors);
  const Result<HyperValues> hyper = hyper_from_defaults(task, 1, Overrides{});
  REQUIRE(hyper.ok());
  scenario.steps = {{hyper.value(), {}}};
  const ScenarioResult result = run(kernel, scenario);
  CHECK(!result.failure);
  CHECK(result.counters.launches == 0);
  check_passed(evaluated(with_edges(task, {group({"[0]"}, {"gaussian"}, {1}, 2)}), kernel.candidate, only("edges")));
}

TEST_CASE("A08: every one of thousands of tensors is updated and compared") {
  if (!can_compile()) return;
  const TaskSpec task = real_task("sgd_momentum");
  constexpr int64_t kTensors = 8194;
  Scenario scenario;
  scenario.tensors.assign(kTensors - 1, make_shape({1}));
  scenario.tensors.push_back(make_shape({3}));
  scenario.initial.resize(3);
  for (const TensorShape& shape : scenario.tensors) {
    const std::vector<float> ones(static_cast<size_t>(shape.n), 1.0f);
    scenario.initial[0].push_back(bytes_of(ones));
    scenario.initial[1].push_back(bytes_of(ones));
    scenario.initial[2].push_back(bytes_of(std::vector<float>(ones.size(), 0.0f)));
  }
  const Result<HyperValues> hyper =
      hyper_from_defaults(task, 1, Overrides{{"lr", 0.5}, {"momentum", 0}, {"is_first_step", 1}, {"grad_scale", 1}});
  REQUIRE(hyper.ok());
  scenario.steps = {{hyper.value(), {}}};
  const auto halves = [&](const Compiled& kernel) {
    const ScenarioResult result = run(kernel, scenario, "vm");
    REQUIRE(!result.failure);
    int64_t count = 0;
    for (const Bytes& bytes : result.final_buffers[0])
      for (const double value : to_double(DType::kF32, bytes)) count += value == 0.5;
    return count;
  };
  const Compiled loop = compiled(task, sgd_text(kRightMomentum));
  CHECK(halves(loop) == kTensors + 2);
  const Compiled list = compiled(task, shipped("reference_kernels/sgd_momentum/multi_tensor.cu", "sgd_momentum"));
  CHECK(halves(list) == kTensors + 2);

  // "first 64 tensors only" is one of the task's mutants; the same edit here.
  Candidate first_64 = list.candidate;
  const std::string loop_head = "for (long long start = (long long)blockIdx.x * CHUNK; start < total;";
  const size_t at = first_64.source.find(loop_head);
  REQUIRE(at != std::string::npos);
  first_64.source.insert(at, "if (tensors > 64) { total = offset[64]; tensors = 64; }\n  ");
  const Compiled broken = compiled(task, candidate_of(first_64.source, "sgd_momentum"));
  CHECK(halves(broken) == 64);

  std::string sizes = "[";
  for (int64_t i = 0; i + 1 < kTensors; ++i) sizes += "1,";
  const TaskSpec many = with_edges(task, {group({sizes + "3]"}, {"gaussian"}, {2}, 1)});
  const EvalRecord record = evaluated(many, broken.candidate, only("edges"));
  check_failure(record, Verdict::kWrongResult);
  CHECK(record.failure->tensor == 64);
  check_passed(evaluated(many, list.candidate, only("edges")));
}
