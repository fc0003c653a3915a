// Two sets of records -> what changed between them, and whether it is worse. A pure function: no file, no clock, no
// device. How it is shown: regress_render.h.
//
// Which records belong together. Records of one candidate share task, submission's name (empty when not submitted) and
// path; the newest of them counts on the new side, and on the old side the newest that was made like it (task version,
// suite, device), else the newest. Candidates of the two sides are matched in three rounds, each among what is left:
// same task, name and path; same task, name and file name, where both sides have one such; same task and file name,
// where both sides have one such. What is left then is `missing` (old only) or `added` (new only). The text of a
// candidate may change in between: that is the point.
//
// What counts as worse, per candidate:
//   verdict    it passed and does not pass now, judged on the same version of the task and the same suite;
//   errors     both pass, and a check's worst error has grown by more than error_factor and to noticeable_share of its
//              limit; case by case when both used the same salt, else by the worst case of each check, because other
//              random numbers give other errors;
//   drift      the same of a drift curve's error, at the steps that both curves have (the last one always). With
//              another salt the hyperparameters are others too, and right kernels were seen at 0.008 and at 0.18 of
//              the limit: then it counts from other_salt_share on;
//   speed      both pass, and the interval of new speedup / old speedup lies below 1 / (1 + tolerance) as a whole.
//              Both speedups are against the same baseline (by hash) on the same kind of GPU by the same method, or
//              nothing is compared. The two measurements are independent; their intervals join in log space as for a
//              difference (Zou and Donner 2008, as in score.h);
//   resources  both pass and were compiled by the same compiler, and more bytes are spilled, or the modelled bytes per
//              parameter have grown, by more than the tolerance. Other registers are noted only: they cost nothing as
//              long as occupancy holds.
// `unsupported` and `harness_error` say nothing of a candidate: named, and not counted in either direction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/model.h"
#include "scoring/speedup.h"

namespace stepbench {

struct RegressRule {
  double tolerance_ratio = 0.01;  ///< changes of speed, spills and bytes up to this share are none
  double error_factor = 2;        ///< errors and drift count from this growth on ...
  double noticeable_share = 0.1;  ///< ... once they reach this share of their limit
  double other_salt_share = 0.5;  ///< the same of drift between records of different salts
  bool require_all = false;       ///< a candidate that the new side lacks is a regression
};

enum class Aspect : uint8_t { kVerdict, kErrors, kDrift, kSpeed, kResources };
inline constexpr int kAspectCount = 5;

enum class Change : uint8_t {
  kSame,
  kBetter,
  kWorse,        ///< a regression
  kNoted,        ///< different or undecided; decides nothing
  kNotCompared,  ///< cannot be compared; `message` says why
};
inline constexpr int kChangeCount = 5;

std::string_view to_text(Aspect aspect);  ///< "verdict", "errors", "drift", "speed", "resources"
std::string_view to_text(Change change);  ///< "same", "better", "worse", "noted", "not_compared"

/// One statement about one candidate.
struct RegressFinding {
  Aspect aspect = Aspect::kVerdict;
  Change change = Change::kSame;
  std::string subject;  ///< check and case, buffer, list or kernel; may be empty
  std::string message;  ///< one sentence
  std::optional<double> before, after;
  std::optional<double> low, high;  ///< 95 % interval of after / before, for speed
};

enum class Presence : uint8_t { kBoth, kMissing, kAdded };

struct CandidateComparison {
  std::string task;
  std::string name;  ///< path; "NAME: path" of a submission
  std::string path;  ///< of the new record, else of the old one
  int32_t line = 1;  ///< of the failure in that file, else of the plan
  Presence presence = Presence::kBoth;
  std::string old_id, new_id;  ///< records
  std::optional<Verdict> old_verdict, new_verdict;
  bool source_changed = false;           ///< the texts differ
  std::string replay_command;            ///< of a failure in the new record
  std::vector<RegressFinding> findings;  ///< by aspect; at least one
};

/// What the two sides were made with, where it differs.
struct EnvironmentDifference {
  std::string field;  ///< "gpu", "driver", "compiler", "task version" ...
  std::string before, after;
  size_t candidates = 0;    ///< matched pairs with this difference
  std::string consequence;  ///< what is not compared because of it; empty: everything is
};

struct RegressReport {
  RegressRule rule;
  std::vector<EnvironmentDifference> environment;
  std::vector<CandidateComparison> candidates;  ///< by task, then name
  size_t counts[kChangeCount] = {};             ///< findings by Change
  size_t matched = 0, missing = 0, added = 0;
  size_t not_judged = 0;  ///< candidates whose new record is a harness_error
  size_t count(Change change) const { return counts[static_cast<size_t>(change)]; }
};

RegressReport compare_records(std::span<const EvalRecord> old_records, std::span<const EvalRecord> new_records,
                              const RegressRule& rule);

/// new / old with its interval, for two independent measurements; the word by `tolerance_ratio` on either side.
Speedup ratio_of(const Speedup& new_speedup, const Speedup& old_speedup, double tolerance_ratio);

}  // namespace stepbench
