// libFuzzer target: a candidate's text -> plan -> checks -> expansion. Anything but a plan or a complaint is a crash.
#include <cstdint>

#include "harness/plan.h"
#include "harness/stages.h"

using namespace stepbench;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  // The first byte chooses between CUDA source and PTX with a plan beside it.
  const bool is_ptx = (data[0] & 1) != 0;
  std::string text(data + 1, data + size);
  const Result<Judged<Candidate>> parsed = is_ptx ? parse_candidate("fuzz.ptx", ".version 8.0\n", text, true, "toy")
                                                  : parse_candidate("fuzz.cu", text, "", false, "toy");
  if (!parsed.ok() || !parsed.value().ok()) return 0;
  TaskSpec task;
  task.id = "toy";
  task.buffers.resize(2);
  task.buffers[0].name = "param";
  task.buffers[1].name = "grad";
  task.hyper.resize(1);
  task.hyper[0].name = "lr";
  const Candidate& candidate = *parsed.value().value;
  Judged<PreparedPlan> prepared = prepare_plan(plan_path(candidate), candidate.plan, task);
  if (!prepared.ok()) return 0;
  const std::vector<TensorShape> tensors = {make_shape({4, 6}), make_shape({0}), make_shape({4, 6}), make_shape({7})};
  const std::vector<LeafKernel> kernels(prepared.value->leaves.size());
  const Judged<ExpandedPlan> expanded = expand_plan(*prepared.value, candidate.plan, tensors, kernels, DeviceInfo{});
  SB_ASSERT(expanded.ok() != expanded.failure.has_value());
  return 0;
}
