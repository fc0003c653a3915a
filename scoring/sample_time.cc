// A batch that reads 0 has taken less than one step: that step is the bound, and no rate is computed from 0.
#include "scoring/sample_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace stepbench {
namespace {

constexpr int64_t kMaxGrowth = 10;
constexpr double kMargin = 1.2;  ///< aims a little above the limit, so that the next batch is not a hair too short

Error wrong(const char* what, const char* expected, const std::string& found) {
  return {ErrorCode::kInvalidInput, fmt::format("{} is unusable", what), "", expected, found};
}

bool positive(double value) { return std::isfinite(value) && value > 0; }

Result<void> check(double batch_ns, int64_t launches, const SampleRule& rule) {
  if (!std::isfinite(batch_ns) || batch_ns < 0)
    return wrong("the time of a batch", "finite and not negative", fmt::format("{} ns", batch_ns));
  if (launches < 1) return wrong("the number of launches", "at least 1", fmt::format("{}", launches));
  if (!positive(rule.timer_step_ns))
    return wrong("the timer's step", "finite and above 0", fmt::format("{} ns", rule.timer_step_ns));
  if (!positive(rule.min_batch_ns) || !positive(rule.step_share) || rule.max_launches < 1)
    return wrong("the rule for samples", "positive limits",
                 fmt::format("{} ns, {}, {}", rule.min_batch_ns, rule.step_share, rule.max_launches));
  return {};
}

}  // namespace

Result<int64_t> launches_for_sample(double batch_ns, int64_t launches, const SampleRule& rule) {
  const Result<void> usable = check(batch_ns, launches, rule);
  if (!usable.ok()) return usable.error();
  const double wanted_ns = std::max(rule.min_batch_ns, rule.timer_step_ns / rule.step_share);
  if (batch_ns >= wanted_ns || launches >= rule.max_launches) return launches;
  const double growth = batch_ns > 0 ? kMargin * wanted_ns / batch_ns : static_cast<double>(kMaxGrowth);
  const double next = std::ceil(static_cast<double>(launches) * std::min(growth, static_cast<double>(kMaxGrowth)));
  return std::clamp(static_cast<int64_t>(std::min(next, static_cast<double>(rule.max_launches))), launches + 1,
                    rule.max_launches);
}

Result<LaunchTime> time_of_launch(double batch_ns, int64_t launches, const SampleRule& rule) {
  const Result<void> usable = check(batch_ns, launches, rule);
  if (!usable.ok()) return usable.error();
  LaunchTime time;
  time.launches = launches;
  time.resolution_ns = rule.timer_step_ns / static_cast<double>(launches);
  time.is_upper_bound = batch_ns < rule.timer_step_ns;
  time.time_ns = time.is_upper_bound ? time.resolution_ns : batch_ns / static_cast<double>(launches);
  return time;
}

}  // namespace stepbench
