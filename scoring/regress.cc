// What changed between two records of one candidate, aspect by aspect. stages.h is included for the verdicts' words.
#include "scoring/regress.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "harness/stages.h"
#include "scoring/drift_error.h"
#include "scoring/regress_match.h"
#include "scoring/score.h"

namespace stepbench {
namespace {

constexpr std::string_view kAspectNames[] = {"verdict", "errors", "drift", "speed", "resources"};
constexpr std::string_view kChangeNames[] = {"same", "better", "worse", "noted", "not_compared"};

bool says_nothing(Verdict verdict) { return verdict == Verdict::kUnsupported || verdict == Verdict::kHarnessError; }

std::string percent(double ratio) { return fmt::format("{:+.2f} %", 100 * (ratio - 1)); }

/// "1 case", "2 cases"
std::string counted(size_t count, const char* one) { return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s"); }

/// "edges n1/gaussian/t2"
std::string where_of(const Failure& failure) {
  return failure.case_name.empty() ? failure.check : failure.check + " " + failure.case_name;
}

/// Both sides, the rule, and the findings so far.
struct Comparison {
  const EvalRecord& before;
  const EvalRecord& after;
  const RegressRule& rule;
  std::vector<RegressFinding>& findings;

  RegressFinding& add(Aspect aspect, Change change, std::string subject, std::string message) const {
    RegressFinding finding;
    finding.aspect = aspect;
    finding.change = change;
    finding.subject = std::move(subject);
    finding.message = std::move(message);
    findings.push_back(std::move(finding));
    return findings.back();
  }
};

// ---------------------------------------------------------------------------------------------- verdict

/// Why no verdict can be compared; empty: it can.
std::string why_no_verdict(const Comparison& c) {
  if (c.before.task_version != c.after.task_version)
    return fmt::format("the task's version went from {} to {}", c.before.task_version, c.after.task_version);
  if (c.before.suite != c.after.suite) return fmt::format("the suite was {} and is {}", c.before.suite, c.after.suite);
  for (const EvalRecord* record : {&c.after, &c.before})
    if (says_nothing(record->verdict))
      return fmt::format("the {} record is {}{}", record == &c.after ? "new" : "old", to_text(record->verdict),
                         record->failure ? ": " + record->failure->message : "");
  const bool other_device = c.before.environment.device != c.after.environment.device;
  const bool about_time = c.after.verdict == Verdict::kTimeout || c.after.verdict == Verdict::kImpossibleTime;
  if (other_device && about_time)
    return fmt::format("{} on another device ({}, was {})", to_text(c.after.verdict), c.after.environment.device,
                       c.before.environment.device);
  return "";
}

void compare_verdicts(const Comparison& c) {
  const std::string now(to_text(c.after.verdict)), then(to_text(c.before.verdict));
  const bool passed = c.before.verdict == Verdict::kPassed, passes = c.after.verdict == Verdict::kPassed;
  const std::string subject = c.after.failure ? where_of(*c.after.failure) : "";
  if (passed && !passes) {
    std::string message = fmt::format("{} now, passed before", now);
    if (c.after.failure) message += ": " + c.after.failure->message;
    if (c.before.environment.device != c.after.environment.device)
      message += fmt::format(" (on {}, before on {})", c.after.environment.device, c.before.environment.device);
    c.add(Aspect::kVerdict, Change::kWorse, subject, std::move(message));
  } else if (!passed && passes) {
    c.add(Aspect::kVerdict, Change::kBetter, "", fmt::format("passes now, was {}", then));
  } else if (passes || (now == then && c.before.failure && c.after.failure &&
                        c.before.failure->check == c.after.failure->check)) {
    c.add(Aspect::kVerdict, Change::kSame, subject, fmt::format("{}, as before", now));
  } else {
    std::string message = fmt::format("fails otherwise: {}, was {}", now, then);
    if (c.after.failure) message += ": " + c.after.failure->message;
    c.add(Aspect::kVerdict, Change::kNoted, subject, std::move(message));
  }
}

// ---------------------------------------------------------------------------------------------- errors and drift

/// `after` and `before` in units of the limit.
Change change_of_error(double before, double after, const RegressRule& rule) {
  if (std::max(before, after) < rule.noticeable_share) return Change::kSame;
  if (after > rule.error_factor * before) return Change::kWorse;
  if (before > rule.error_factor * after) return Change::kBetter;
  return Change::kSame;
}

void add_error(const Comparison& c, Aspect aspect, const std::string& subject, double before, double after) {
  const Change change = change_of_error(before, after, c.rule);
  if (change == Change::kSame) return;
  const std::string what = aspect == Aspect::kErrors ? "worst error" : "RMS drift";
  RegressFinding& finding =
      c.add(aspect, change, subject, fmt::format("{} went from {:.3g} to {:.3g} of the limit", what, before, after));
  finding.before = before;
  finding.after = after;
}

/// One line when nothing was found, so that "same" is said and not merely silence.
void add_same(const Comparison& c, Aspect aspect, size_t findings_before, std::string message) {
  if (c.findings.size() == findings_before) c.add(aspect, Change::kSame, "", std::move(message));
}

void compare_errors(const Comparison& c) {
  const bool case_by_case = c.before.salt == c.after.salt;
  std::map<std::string, double> worst_before, worst_after;
  const auto collect = [&](const EvalRecord& record, std::map<std::string, double>& worst) {
    for (const CaseReport& report : record.cases) {
      double& value = worst[case_by_case ? report.check + " " + report.case_name : report.check];
      value = std::max(value, report.worst_error_ratio);
    }
  };
  collect(c.before, worst_before);
  collect(c.after, worst_after);
  const size_t start = c.findings.size();
  size_t compared = 0;
  for (const auto& [subject, after] : worst_after) {
    const auto before = worst_before.find(subject);
    if (before == worst_before.end()) continue;
    ++compared;
    add_error(c, Aspect::kErrors, subject, before->second, after);
  }
  if (compared > 0)
    add_same(
        c, Aspect::kErrors, start,
        fmt::format("no error has changed by more than {:g} times ({})", c.rule.error_factor,
                    case_by_case ? counted(compared, "case") : counted(compared, "check") + ", other random numbers"));
}

void compare_drift(const Comparison& c) {
  const size_t start = c.findings.size();
  size_t compared = 0;
  for (const DriftCurve& after : c.after.drift) {
    const auto before = std::find_if(c.before.drift.begin(), c.before.drift.end(), [&](const DriftCurve& curve) {
      return curve.case_name == after.case_name && curve.buffer == after.buffer;
    });
    if (before == c.before.drift.end() || !(after.limit_ratio > 0) || before->limit_ratio != after.limit_ratio)
      continue;
    double worst_before = 0, worst_after = 0;  // at the common step whose drift grew most
    bool common = false;
    for (const DriftPoint& point : after.points)
      for (const DriftPoint& earlier : before->points) {
        if (point.step != earlier.step) continue;
        const double was = *drift_error_ratio(c.before, *before, earlier);
        const double is = *drift_error_ratio(c.after, after, point);
        if (!common || is - was > worst_after - worst_before) {
          worst_before = was;
          worst_after = is;
        }
        common = true;
      }
    if (!common) continue;
    ++compared;
    if (c.before.salt != c.after.salt && std::max(worst_before, worst_after) < c.rule.other_salt_share) continue;
    add_error(c, Aspect::kDrift, after.case_name + " " + after.buffer, worst_before, worst_after);
  }
  if (compared > 0)
    add_same(c, Aspect::kDrift, start,
             fmt::format("no curve has changed by more than {:g} times ({})", c.rule.error_factor,
                         counted(compared, "curve")));
}

// ---------------------------------------------------------------------------------------------- speed

/// Why the times of one list cannot be compared; empty: they can.
std::string why_no_speed(const TimingReport& before, const TimingReport& after) {
  if (before.method != after.method)
    return fmt::format("measured by another method: {}, was {}", after.method, before.method);
  if (before.baseline_sha256 != after.baseline_sha256)
    return fmt::format("another baseline: {}, was {}{}", after.baseline, before.baseline,
                       after.baseline == before.baseline ? " with another text" : "");
  return "";
}

void compare_list(const Comparison& c, const TimingReport& before, const TimingReport& after) {
  if (const std::string why = why_no_speed(before, after); !why.empty()) {
    c.add(Aspect::kSpeed, Change::kNotCompared, after.list, why);
    return;
  }
  const Result<Speedup> old_speedup = speedup_of(used_pairs(before)), new_speedup = speedup_of(used_pairs(after));
  if (!old_speedup.ok() || !new_speedup.ok()) {
    c.add(Aspect::kSpeed, Change::kNotCompared, after.list,
          fmt::format("{} record: {}", old_speedup.ok() ? "new" : "old",
                      to_text(old_speedup.ok() ? new_speedup.error() : old_speedup.error())));
    return;
  }
  const Speedup ratio = ratio_of(new_speedup.value(), old_speedup.value(), c.rule.tolerance_ratio);
  const Change change = ratio.word == SpeedWord::kSlower   ? Change::kWorse
                        : ratio.word == SpeedWord::kFaster ? Change::kBetter
                        : ratio.word == SpeedWord::kSame   ? Change::kSame
                                                           : Change::kNoted;
  RegressFinding& finding =
      c.add(Aspect::kSpeed, change, after.list,
            fmt::format("{}: {} ({} to {}); {:.4g} times the baseline's speed, was {:.4g}", to_text(ratio.word),
                        percent(ratio.speedup), percent(ratio.low), percent(ratio.high), new_speedup.value().speedup,
                        old_speedup.value().speedup));
  finding.before = old_speedup.value().speedup;
  finding.after = new_speedup.value().speedup;
  finding.low = ratio.low;
  finding.high = ratio.high;
}

void compare_speed(const Comparison& c) {
  if (c.before.timing.empty() && c.after.timing.empty()) return;
  if (c.before.environment.device != c.after.environment.device) {
    c.add(Aspect::kSpeed, Change::kNotCompared, "",
          fmt::format("other devices: {}, was {}", c.after.environment.device, c.before.environment.device));
    return;
  }
  bool hidden_skipped = false;
  for (const TimingReport& after : c.after.timing) {
    if (after.hidden && c.before.salt != c.after.salt) {
      hidden_skipped = true;
      continue;
    }
    const auto before = std::find_if(c.before.timing.begin(), c.before.timing.end(),
                                     [&](const TimingReport& report) { return report.list == after.list; });
    if (before == c.before.timing.end())
      c.add(Aspect::kSpeed, Change::kNotCompared, after.list, "not timed in the old record");
    else
      compare_list(c, *before, after);
  }
  for (const TimingReport& before : c.before.timing)
    if (!before.hidden && std::none_of(c.after.timing.begin(), c.after.timing.end(),
                                       [&](const TimingReport& report) { return report.list == before.list; }))
      c.add(Aspect::kSpeed, Change::kNotCompared, before.list, "not timed in the new record");
  if (hidden_skipped)
    c.add(Aspect::kSpeed, Change::kNotCompared, "hidden lists", "their shapes come from the salt, which differs");
}

// ---------------------------------------------------------------------------------------------- resources

/// -1 when either is unknown.
int64_t spilled_bytes(const KernelResources& kernel) {
  if (kernel.spill_store_bytes < 0 || kernel.spill_load_bytes < 0) return -1;
  return int64_t{kernel.spill_store_bytes} + kernel.spill_load_bytes;
}

Change change_of_amount(double before, double after, double tolerance_ratio) {
  if (after > before * (1 + tolerance_ratio)) return Change::kWorse;
  if (before > after * (1 + tolerance_ratio)) return Change::kBetter;
  return Change::kSame;
}

void add_amount(const Comparison& c, const std::string& subject, const char* what, double before, double after) {
  const Change change = change_of_amount(before, after, c.rule.tolerance_ratio);
  if (change == Change::kSame) return;
  RegressFinding& finding =
      c.add(Aspect::kResources, change, subject, fmt::format("{} went from {:g} to {:g}", what, before, after));
  finding.before = before;
  finding.after = after;
}

void compare_resources(const Comparison& c) {
  if (c.before.environment.compiler != c.after.environment.compiler) {
    c.add(Aspect::kResources, Change::kNotCompared, "",
          fmt::format("other compilers: {}, was {}", c.after.environment.compiler, c.before.environment.compiler));
    return;
  }
  const size_t start = c.findings.size();
  size_t compared = 0;
  for (const KernelResources& after : c.after.resources) {
    const auto before = std::find_if(c.before.resources.begin(), c.before.resources.end(),
                                     [&](const KernelResources& kernel) { return kernel.entry == after.entry; });
    if (before == c.before.resources.end()) {
      c.add(Aspect::kResources, Change::kNoted, after.entry, "a kernel that was not there before");
      continue;
    }
    ++compared;
    if (spilled_bytes(*before) >= 0 && spilled_bytes(after) >= 0)
      add_amount(c, after.entry, "bytes spilled per thread", static_cast<double>(spilled_bytes(*before)),
                 static_cast<double>(spilled_bytes(after)));
    if (before->registers >= 0 && after.registers >= 0 && before->registers != after.registers) {
      RegressFinding& finding = c.add(Aspect::kResources, Change::kNoted, after.entry,
                                      fmt::format("registers went from {} to {}", before->registers, after.registers));
      finding.before = before->registers;
      finding.after = after.registers;
    }
  }
  if (c.before.modelled_bytes_per_param > 0 && c.after.modelled_bytes_per_param > 0) {
    if (c.before.traffic_params != c.after.traffic_params) {
      c.add(Aspect::kResources, Change::kNotCompared, "",
            fmt::format("modelled bytes of another case: {} parameters, was {}", c.after.traffic_params,
                        c.before.traffic_params));
    } else {
      ++compared;
      add_amount(c, "", "modelled bytes per parameter", c.before.modelled_bytes_per_param,
                 c.after.modelled_bytes_per_param);
    }
  }
  if (compared > 0) add_same(c, Aspect::kResources, start, "registers, spills and modelled bytes are as before");
}

// ---------------------------------------------------------------------------------------------- environment

using Differences = std::map<std::tuple<int, std::string, std::string>, size_t>;

struct EnvironmentField {
  const char* name;
  std::string (*value)(const EvalRecord&);
  const char* consequence;
};

const EnvironmentField kEnvironmentFields[] = {
    {"task version", [](const EvalRecord& r) { return fmt::format("{}", r.task_version); }, "nothing is compared"},
    {"suite", [](const EvalRecord& r) { return r.suite; }, "nothing is compared"},
    {"device", [](const EvalRecord& r) { return r.environment.device; }, "speed is not compared"},
    {"GPU", [](const EvalRecord& r) { return r.environment.gpu_uuid; }, ""},
    {"driver", [](const EvalRecord& r) { return r.environment.driver; }, ""},
    {"compiler", [](const EvalRecord& r) { return r.environment.compiler; }, "resources are not compared"},
    {"StepBench", [](const EvalRecord& r) { return r.environment.stepbench_version; }, ""},
    {"operating system", [](const EvalRecord& r) { return r.environment.os; }, ""},
    {"host", [](const EvalRecord& r) { return r.environment.host; }, ""},
};

void note_environment(const EvalRecord& before, const EvalRecord& after, Differences& differences) {
  for (int i = 0; i < static_cast<int>(std::size(kEnvironmentFields)); ++i) {
    std::string was = kEnvironmentFields[i].value(before), is = kEnvironmentFields[i].value(after);
    // A record that stopped early does not say all of it; a machine without a driver has a difference of device.
    if (was != is && !was.empty() && !is.empty()) ++differences[{i, std::move(was), std::move(is)}];
  }
}

// ---------------------------------------------------------------------------------------------- one candidate

/// Line of "FILE:LINE" when FILE is the candidate's file, by its last part; 0 when the place is none.
int32_t line_of(const std::string& place, const std::string& path) {
  const size_t colon = place.find_last_of(':');
  if (colon == std::string::npos) return 0;
  const auto last_part = [](std::string_view text) { return text.substr(text.find_last_of('/') + 1); };
  if (last_part(std::string_view(place).substr(0, colon)) != last_part(path)) return 0;
  int32_t line = 0;
  const char* end = place.data() + place.size();
  const auto [rest, error] = std::from_chars(place.data() + colon + 1, end, line);
  return error == std::errc() && rest == end && line > 0 ? line : 0;
}

void compare_pair(const Comparison& c) {
  if (const std::string why = why_no_verdict(c); !why.empty()) {
    c.add(Aspect::kVerdict, Change::kNotCompared, "", why);
    return;
  }
  compare_verdicts(c);
  if (c.before.verdict != Verdict::kPassed || c.after.verdict != Verdict::kPassed) return;
  compare_errors(c);
  compare_drift(c);
  compare_speed(c);
  compare_resources(c);
}

CandidateComparison describe(const RecordPair& pair) {
  const EvalRecord& record = pair.after ? *pair.after : *pair.before;
  CandidateComparison comparison;
  comparison.task = record.task;
  comparison.name = candidate_name(record);
  comparison.path = record.candidate.path;
  comparison.line = std::max(1, record.candidate.plan_line);
  if (pair.before) {
    comparison.old_id = pair.before->id;
    comparison.old_verdict = pair.before->verdict;
  }
  if (pair.after) {
    comparison.new_id = pair.after->id;
    comparison.new_verdict = pair.after->verdict;
    comparison.replay_command = pair.after->replay_command;
    if (pair.after->failure)
      if (const int32_t line = line_of(pair.after->failure->place, comparison.path); line > 0) comparison.line = line;
  }
  if (pair.before && pair.after)
    comparison.source_changed = pair.before->candidate.sha256 != pair.after->candidate.sha256;
  return comparison;
}

}  // namespace

std::string_view to_text(Aspect aspect) { return kAspectNames[static_cast<size_t>(aspect)]; }
std::string_view to_text(Change change) { return kChangeNames[static_cast<size_t>(change)]; }

Speedup ratio_of(const Speedup& new_speedup, const Speedup& old_speedup, double tolerance_ratio) {
  const auto part = [](double a, double b) { return std::log(a) - std::log(b); };
  const double middle = part(new_speedup.speedup, old_speedup.speedup);
  const double below =
      std::hypot(part(new_speedup.speedup, new_speedup.low), part(old_speedup.high, old_speedup.speedup));
  const double above =
      std::hypot(part(new_speedup.high, new_speedup.speedup), part(old_speedup.speedup, old_speedup.low));
  SpeedRule rule;
  rule.same_ratio = rule.change_ratio = tolerance_ratio;
  Speedup ratio;
  ratio.speedup = std::exp(middle);
  ratio.low = std::exp(middle - below);
  ratio.high = std::exp(middle + above);
  ratio.word = speed_word(ratio.low, ratio.high, rule);
  ratio.pairs = new_speedup.pairs + old_speedup.pairs;
  return ratio;
}

RegressReport compare_records(std::span<const EvalRecord> old_records, std::span<const EvalRecord> new_records,
                              const RegressRule& rule) {
  RegressReport report;
  report.rule = rule;
  Differences differences;
  for (const RecordPair& pair : match_records(old_records, new_records)) {
    CandidateComparison comparison = describe(pair);
    RegressFinding alone;
    if (!pair.after) {
      ++report.missing;
      comparison.presence = Presence::kMissing;
      alone.change = rule.require_all ? Change::kWorse : Change::kNoted;
      alone.message = fmt::format("not among the new records; was {}", to_text(pair.before->verdict));
      comparison.findings.push_back(std::move(alone));
    } else if (!pair.before) {
      ++report.added;
      comparison.presence = Presence::kAdded;
      alone.change = Change::kNoted;
      alone.message = fmt::format("not among the old records; {}{}", to_text(pair.after->verdict),
                                  pair.after->failure ? ": " + pair.after->failure->message : "");
      comparison.findings.push_back(std::move(alone));
    } else {
      ++report.matched;
      note_environment(*pair.before, *pair.after, differences);
      compare_pair({*pair.before, *pair.after, rule, comparison.findings});
    }
    if (pair.after && pair.after->verdict == Verdict::kHarnessError) ++report.not_judged;
    for (const RegressFinding& finding : comparison.findings) ++report.counts[static_cast<size_t>(finding.change)];
    report.candidates.push_back(std::move(comparison));
  }
  for (const auto& [difference, candidates] : differences) {
    const auto& [field, before, after] = difference;
    report.environment.push_back(
        {kEnvironmentFields[field].name, before, after, candidates, kEnvironmentFields[field].consequence});
  }
  return report;
}

}  // namespace stepbench
