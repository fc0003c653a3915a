// A candidate on a device of its own: opening it, moving buffers, and running a hand-made trajectory. Judges nothing
// but what the device reports as a fault.
#include <utility>

#include "harness/checks.h"

namespace stepbench {
namespace {

// In warp instructions. The base leaves room for a grid of fixed size that mostly finds nothing to do: 2,112 blocks of
// 1,024 threads with 60 instructions each are 4 million. A loop over registers uses it up in 0.1 s on the VM, one that
// spins on memory under the race check, the slowest of all, in some seconds.
constexpr uint64_t kBaseBudget = 8'000'000;
constexpr uint64_t kBudgetPer32Elements = 4000;  // a fused element-wise step needs less than 100
constexpr uint64_t kBudgetPerTensor = 10'000;    // a block of its own for each, of 1,024 threads with a sum or two

void add(Counters& sum, const Counters& one) {
  sum.launches += one.launches;
  sum.warp_instructions += one.warp_instructions;
  sum.lane_instructions += one.lane_instructions;
  sum.global_load_bytes += one.global_load_bytes;
  sum.global_store_bytes += one.global_store_bytes;
  sum.global_load_sectors += one.global_load_sectors;
  sum.global_store_sectors += one.global_store_sectors;
  sum.shared_wavefronts += one.shared_wavefronts;
  sum.divergent_branches += one.divergent_branches;
  sum.barriers += one.barriers;
  sum.atomics += one.atomics;
  sum.local_bytes += one.local_bytes;
}

}  // namespace

uint64_t launch_budget(std::span<const TensorShape> tensors) {
  const uint64_t elements = static_cast<uint64_t>(total_elements(tensors));
  return kBaseBudget + kBudgetPerTensor * tensors.size() + kBudgetPer32Elements * ((elements + 31) / 32);
}

Result<Judged<Rig>> open_rig(const CheckContext& context, std::span<const TensorShape> tensors,
                             std::span<const int32_t> offset_elements) {
  Result<std::unique_ptr<Device>> device = context.open();
  if (!device.ok()) return device.error();
  Rig rig;
  rig.device = std::move(device.value());
  Result<Judged<ModuleId>> module = rig.device->load(context.compiled);
  if (!module.ok()) return module.error();
  if (!module.value().ok()) return Judged<Rig>(*module.value().failure);
  rig.device->set_budget(launch_budget(tensors));
  Result<Judged<SessionPtr>> session = open_session(*rig.device, *module.value().value, context.compiled,
                                                    context.candidate, context.task, tensors, offset_elements);
  if (!session.ok()) return session.error();
  if (!session.value().ok()) return Judged<Rig>(*session.value().failure);
  rig.session = std::move(*session.value().value);
  return Judged<Rig>(std::move(rig));
}

Result<void> write_buffers(Rig& rig, const TaskSpec& task, Role role, const BufferBytes& bytes) {
  SB_ASSERT(bytes.size() == task.buffers.size());
  std::vector<TensorBytes<const std::byte>> tensors;
  for (size_t b = 0; b < bytes.size(); ++b) {
    if (task.buffers[b].role != role) continue;
    for (size_t i = 0; i < bytes[b].size(); ++i)
      tensors.push_back({static_cast<int>(b), static_cast<int64_t>(i), bytes[b][i]});
  }
  return write_tensors(*rig.session, tensors);
}

Result<void> read_buffers(Rig& rig, const TaskSpec& task, std::span<const TensorShape> tensors, Role role,
                          BufferBytes& bytes) {
  std::vector<TensorBytes<std::byte>> wanted;
  bytes.resize(task.buffers.size());
  for (size_t b = 0; b < bytes.size(); ++b) {
    const BufferSpec& buffer = task.buffers[b];
    if (buffer.role != role) continue;
    bytes[b].resize(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      const int64_t elements = buffer_elements(buffer, tensors[i]);
      bytes[b][i].resize(static_cast<size_t>(elements) * dtype_bytes(buffer.dtype));
      wanted.push_back({static_cast<int>(b), static_cast<int64_t>(i), bytes[b][i]});
    }
  }
  return read_tensors(*rig.session, wanted);
}

Result<ScenarioResult> run_scenario(const CheckContext& context, const Scenario& scenario) {
  ScenarioResult result;
  Result<Judged<Rig>> opened = open_rig(context, scenario.tensors, {});
  if (!opened.ok()) return opened.error();
  if (!opened.value().ok()) {
    result.failure = opened.value().failure;
    return result;
  }
  Rig rig = std::move(*opened.value().value);
  for (const Role role : {Role::kIn, Role::kInOut}) {
    const Result<void> written = write_buffers(rig, context.task, role, scenario.initial);
    if (!written.ok()) return written.error();
  }
  uint64_t index = 0;
  for (const ScenarioStep& step : scenario.steps) {
    if (!step.inputs.empty()) {
      const Result<void> written = write_buffers(rig, context.task, Role::kIn, step.inputs);
      if (!written.ok()) return written.error();
    }
    Result<StepReport> report = run_step(*rig.session, step.hyper, derive_seed(context.salt, "scenario", index++));
    if (!report.ok()) return report.error();
    add(result.counters, report.value().counters);
    if (report.value().failure) {
      result.failure = std::move(report.value().failure);
      return result;
    }
  }
  for (const Role role : {Role::kIn, Role::kInOut}) {
    const Result<void> read = read_buffers(rig, context.task, scenario.tensors, role, result.final_buffers);
    if (!read.ok()) return read.error();
  }
  return result;
}

}  // namespace stepbench
