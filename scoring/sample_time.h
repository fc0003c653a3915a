// How many launches make one sample, and the time of one launch from a batch, for a timer that advances in steps. Pure
// functions: the caller owns the timer and the launches.
#pragma once

#include <cstdint>

#include "harness/result.h"

namespace stepbench {

struct SampleRule {
  double timer_step_ns = 1;        ///< resolution of the timer
  double min_batch_ns = 20'000;    ///< shorter launches are batched up to at least this
  double step_share = 0.01;        ///< one timer step is at most this share of a batch
  int64_t max_launches = 1 << 20;  ///< of one sample
};

/// How many launches the next batch needs, after a batch of `launches` took `batch_ns` on the timer: `launches` itself
/// when it was long enough (or is at the rule's limit), else more, ten times as many at most. Start with 1 and repeat.
/// kInvalidInput for a time that is negative or not finite, a count below 1, a rule that is not positive.
Result<int64_t> launches_for_sample(double batch_ns, int64_t launches, const SampleRule& rule);

struct LaunchTime {
  double time_ns = 0;           ///< of one launch; always positive and finite
  double resolution_ns = 0;     ///< the timer's step as seen by one launch
  bool is_upper_bound = false;  ///< the batch was shorter than a timer step: the launch takes this long or less
  int64_t launches = 0;
};

/// kInvalidInput as above.
Result<LaunchTime> time_of_launch(double batch_ns, int64_t launches, const SampleRule& rule);

}  // namespace stepbench
