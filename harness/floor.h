// What a step must at least do, how long this very GPU takes for it, and which time no right kernel can be under. Pure
// functions of a task, a list and measured rates; nothing is run here.
//
// Two times, because they answer two questions. The *floor* is what a perfect kernel takes: required bytes at the copy
// rate, required arithmetic at the measured rates, whichever takes longest (they overlap). The *gate* is a verdict:
// below it a time is impossible, so everything that anybody could save or anything that could run faster than it did
// when it was calibrated is on the candidate's side (GateRule).
#pragma once

#include <span>
#include <string>

#include "harness/model.h"
#include "harness/result.h"

namespace stepbench {

/// Value of one of FlopsSpec's formulas for one tensor. kInvalidTask: unknown name, no finite value.
Result<double> evaluate_work(const std::string& formula, const TensorShape& shape);

/// What one step over a list must at least do. Empty tensors need nothing.
struct Work {
  double bytes = 0;          ///< TaskSpec::bytes_per_param of all parameters
  double written_bytes = 0;  ///< size of what is written
  double fp32_flops = 0;
  double tensor_flops = 0, tensor_gate_flops = 0;  ///< passes at the rate of bf16; FlopsSpec
};
Result<Work> work_of(const TaskSpec& task, std::span<const TensorShape> tensors);

struct GateRule {
  /// Memory, and the fp32 units at the same clock, faster than calibrated by this are impossible.
  double rate_ratio = 1.03;
  /// Tensor cores faster than cuBLASLt by this are impossible, and so are those faster by the second at the same clock,
  /// whichever allows more. On an H200 its product of 8192^3 in bf16 runs at 750 TFLOP/s. 132 multiprocessors do 4,096
  /// operations in a cycle (989 TFLOP/s at 1,830 MHz, NVIDIA's H100 white paper), 1,070 TFLOP/s at 1,980 MHz: 1.43
  /// times as much, whatever the clock did in between.
  double tensor_ratio = 1.5, tensor_clock_ratio = 1.2;
  /// Multiplications that two levels of Strassen's algorithm leave of a product, (7/8)^2. Each level costs digits and
  /// additions on slower units; on GPUs two levels gain some ten percent of large square products (Huang, Yu and van de
  /// Geijn, "Strassen's algorithm reloaded on GPUs", ACM TOMS 46, 2020).
  double fewest_products_ratio = 49.0 / 64;
};

struct Floor {
  double floor_ns = 0;
  FloorBy floor_by = FloorBy::kMemory;
  double gate_ns = 0;
  FloorBy gate_by = FloorBy::kMemory;
  std::string gate_reason;  ///< "this GPU cannot ...": why a time below the gate is impossible
  std::string left_out;     ///< arithmetic that the task has and this GPU no rate for, in words; empty: none
};
/// Arithmetic without a rate decides nothing. Arithmetic whose clocks are unknown decides the floor, not the gate.
Result<Floor> floor_of(const TaskSpec& task, std::span<const TensorShape> tensors, const Calibration& calibration,
                       const GateRule& rule);

}  // namespace stepbench
