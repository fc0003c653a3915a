// Least time of a step (see floor.h).
//
// The gate and the clock. Memory has a clock of its own that does not move. Arithmetic goes with the SM clock, and that
// is no constant: a long row of large products, which is what the calibration measures, draws the board to its power
// limit, where the clock falls by a quarter and more, while a step of some microseconds on a cool GPU runs at the
// highest clock. So the gate takes the measured rate to the highest clock that the GPU allows. The floor does not: it
// is what this GPU was seen to do.
//
// The gate and the format. 8-bit formats multiply twice as fast as bf16. What they are good for is a matter of the
// task's limits, and stands in its formulas, which count passes at the rate of bf16 (the README of each task has the
// derivation). In short: Newton-Schulz may be off by four times what bf16 is off by. FP8 has 3 bits of mantissa where
// bf16 has 7, 16 times the error, so a whole sequence of products in FP8 fails; but a single one, the last above all,
// may be as coarse as that and pass. Nobody has sorted them out, so the gate counts half of every product. Products
// that must be as good as fp32 are sums of several coarser ones, and their passes are counted. FP4 is off by ten
// percent and more in a single product and is good for none of the limits.
#include "harness/floor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "harness/formula.h"
#include "harness/stages.h"

namespace stepbench {
namespace {

/// One kind of unit: its work for the floor and for the gate, and the rates to divide it by; a rate of 0 is unknown.
struct Share {
  FloorBy by = FloorBy::kMemory;
  double floor_work = 0, floor_rate = 0;
  double gate_work = 0, gate_rate = 0;
  std::string reason;
};

Share memory_share(const TaskSpec& task, const Work& work, const Calibration& rates, const GateRule& rule) {
  Share share;
  share.by = FloorBy::kMemory;
  share.floor_work = work.bytes;
  share.floor_rate = rates.copy_bytes_per_s;
  // Up to an L2 cache full of what is written may still be there when the clock stops; reading is faster than copying.
  share.gate_work = std::max(0.0, work.bytes - std::min(work.written_bytes, static_cast<double>(rates.l2_bytes)));
  share.gate_rate = rates.read_bytes_per_s * rule.rate_ratio;
  share.reason = fmt::format(
      "this GPU cannot move what the update must read and write ({:.4g} bytes per parameter; {:.4g} GB/s when only "
      "reading)",
      task.bytes_per_param, rates.read_bytes_per_s / 1e9);
  return share;
}

/// Highest clock over the clock of the measurement; 0 unknown.
double clock_ratio(double highest_mhz, double measured_mhz) {
  if (!(highest_mhz > 0) || !(measured_mhz > 0)) return 0;
  return std::max(1.0, highest_mhz / measured_mhz);
}

Share fp32_share(const Work& work, const Calibration& rates, const GateRule& rule) {
  Share share;
  share.by = FloorBy::kFp32;
  share.floor_work = share.gate_work = work.fp32_flops;
  share.floor_rate = rates.fp32_flops_per_s;
  share.gate_rate = rates.fp32_flops_per_s * rule.rate_ratio * clock_ratio(rates.highest_sm_mhz, rates.fp32_sm_mhz);
  share.reason = fmt::format(
      "this GPU cannot do the arithmetic of the update ({:.4g} operations in fp32; {:.4g} TFLOP/s measured at {:.4g} "
      "MHz)",
      share.gate_work, rates.fp32_flops_per_s / 1e12, rates.fp32_sm_mhz);
  return share;
}

Share tensor_share(const Work& work, const Calibration& rates, const GateRule& rule) {
  Share share;
  share.by = FloorBy::kTensor;
  share.floor_work = work.tensor_flops;
  share.floor_rate = rates.tensor_flops_per_s;
  share.gate_work = work.tensor_gate_flops * rule.fewest_products_ratio;
  const double clocks = clock_ratio(rates.highest_sm_mhz, rates.tensor_sm_mhz);
  if (clocks > 0)
    share.gate_rate = rates.tensor_flops_per_s * std::max(rule.tensor_ratio, rule.tensor_clock_ratio * clocks);
  share.reason = fmt::format(
      "this GPU cannot do the products of the update ({:.4g} operations at least; {:.4g} TFLOP/s in bf16 measured at "
      "{:.4g} MHz)",
      share.gate_work, rates.tensor_flops_per_s / 1e12, rates.tensor_sm_mhz);
  return share;
}

}  // namespace

Result<double> evaluate_work(const std::string& formula, const TensorShape& shape) {
  const std::array<std::pair<std::string, double>, 3> sizes{{{"rows", static_cast<double>(shape.rows)},
                                                             {"cols", static_cast<double>(shape.cols)},
                                                             {"n", static_cast<double>(shape.n)}}};
  return evaluate_formula(formula, sizes);
}

Result<Work> work_of(const TaskSpec& task, std::span<const TensorShape> tensors) {
  Work work;
  const FlopsSpec& flops = task.flops;
  const std::pair<const std::string&, double&> sums[] = {
      {flops.fp32, work.fp32_flops},
      {flops.tensor, work.tensor_flops},
      {flops.tensor_gate.empty() ? flops.tensor : flops.tensor_gate, work.tensor_gate_flops}};
  for (const TensorShape& shape : tensors) {
    work.bytes += task.bytes_per_param * static_cast<double>(shape.n);
    for (const BufferSpec& buffer : task.buffers)
      if (buffer.role == Role::kInOut)
        work.written_bytes += static_cast<double>(buffer_elements(buffer, shape)) * dtype_bytes(buffer.dtype);
    if (shape.n == 0) continue;
    for (const auto& [formula, sum] : sums) {
      if (formula.empty()) continue;
      const Result<double> value = evaluate_work(formula, shape);
      if (!value.ok()) return value.error();
      sum += value.value();
    }
  }
  return work;
}

Result<Floor> floor_of(const TaskSpec& task, std::span<const TensorShape> tensors, const Calibration& calibration,
                       const GateRule& rule) {
  SB_ASSERT(calibration.copy_bytes_per_s > 0 && calibration.read_bytes_per_s > 0);
  const Result<Work> work = work_of(task, tensors);
  if (!work.ok()) return work.error();
  const Share shares[] = {memory_share(task, work.value(), calibration, rule),
                          fp32_share(work.value(), calibration, rule), tensor_share(work.value(), calibration, rule)};
  Floor floor;
  for (const Share& share : shares) {
    if (share.floor_rate > 0) {
      const double ns = share.floor_work / share.floor_rate * 1e9;
      if (ns > floor.floor_ns) {
        floor.floor_ns = ns;
        floor.floor_by = share.by;
      }
    } else if (share.floor_work > 0) {
      floor.left_out += fmt::format("{}{}", floor.left_out.empty() ? "" : " and ",
                                    share.by == FloorBy::kTensor ? "products (tensor cores)" : "fp32 arithmetic");
    }
    if (!(share.gate_rate > 0)) continue;
    const double ns = share.gate_work / share.gate_rate * 1e9;
    if (ns > floor.gate_ns || floor.gate_reason.empty()) {
      floor.gate_ns = ns;
      floor.gate_by = share.by;
      floor.gate_reason = share.reason;
    }
  }
  return floor;
}

}  // namespace stepbench
