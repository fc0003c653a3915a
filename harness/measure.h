// The stage `timing`: a candidate against a baseline on one list, on a device with a clock. Nothing is timed that has
// not passed; what is timed is checked again.
//
// Both take turns on the same buffers, along one trajectory with fresh gradients and a changing Hyper: where memory
// lies makes a difference of some tenths of a percent, which would be charged to one of them otherwise (seen on an
// H200: 0.5 % between two sets of buffers). What one leaves is the next one's input, never its answer. Samples come in
// blocks of four, ABBA or BAAB by the salt, and make two pairs. Their number is fixed by the baseline, unless
// the candidate is several times slower. At random steps,
// which nothing announces, the trajectory is stopped before and after a timed step and the step is judged against the
// oracle.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/checks.h"
#include "harness/floor.h"

namespace stepbench {

struct MeasureRule {
  double target_ms = 900;  ///< of all samples of one list, as far as the numbers of pairs allow
  int min_pairs = 100, max_pairs = 1000;
  int warm_ups = 4;           ///< steps before the samples, each with data of its own
  int selection_samples = 9;  ///< of every baseline, to find the fastest
  /// After so many runs of each, a baseline whose fastest is slower than the best one's fastest by this is out: naive
  /// ones of matrix tasks take seconds for a step.
  int least_runs = 2;
  double hopeless_ratio = 2;
  /// A candidate that is slower than the baseline by this in the best of its first runs gets as many pairs as target_ms
  /// allows at its own pace, but no fewer than slow_pairs.
  double slow_ratio = 4;
  int slow_pairs = 12;
  int verified_steps = 4;                     ///< of each side, beside its first and its last
  int64_t audit_elements = int64_t{1} << 20;  ///< of a verified step
  int64_t full_first_step_limit = int64_t{1}
                                  << 27;  ///< lists up to so many parameters: every element of the first step
  double clock_ratio = 0.01;              ///< pairs whose SM clocks differ by more are dropped
  double counter_ratio = 0.02;            ///< samples whose two clocks differ by more than this ...
  double counter_slack_ns = 10'000;       ///< ... and this, which holds two launches, drop their pair
  double dropped_ratio = 0.25;            ///< with more pairs dropped, nothing is said
  GateRule gate;                          ///< which times are impossible
};

/// A kernel to be timed: compiled, and a source of devices that know the harness's own kernels.
struct TimedKernel {
  std::string name;
  CheckContext context;
};

struct MeasureOutcome {
  std::optional<TimingReport> report;
  std::optional<Failure> failure;  ///< of the candidate; check and case are filled
  std::vector<std::string> notes;
};

/// The list's tensors; `hidden` varies every dimension by up to 10 %, equal ones alike.
Result<std::vector<TensorShape>> timed_tensors(const TimingSpec& spec, uint64_t salt);

/// Error when a baseline fails: that is never the candidate's fault.
Result<MeasureOutcome> measure(const TimedKernel& candidate, std::span<const TimedKernel> baselines,
                               const TimingSpec& spec, const Calibration& calibration, const MeasureRule& rule,
                               const DeviceInfo& info);

}  // namespace stepbench
