// The measured part of a record's page: times, checks, drift, work.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "harness/stages.h"
#include "scoring/board_candidate.h"
#include "scoring/board_findings.h"
#include "scoring/board_plots.h"
#include "scoring/board_text.h"
#include "scoring/board_units.h"
#include "scoring/drift_error.h"

namespace stepbench {
namespace {

constexpr size_t kMaxCases = 400;
constexpr size_t kMaxCurves = 200;

/// For data-key of a sortable cell: empty where there is no number to sort by.
std::string key_text(double value) {
  if (std::isinf(value)) return value > 0 ? "1e308" : "-1e308";
  return std::isnan(value) ? "" : fmt::format("{}", value);
}

// ---------------------------------------------------------------------------------------------- speed

std::string dropped_text(const EvalRecord& record) {
  std::map<std::string, int64_t> reasons;
  int64_t dropped = 0, pairs = 0;
  for (const TimingReport& report : record.timing) {
    for (const TimingPair& pair : report.pairs) {
      ++pairs;
      if (pair.dropped.empty()) continue;
      ++dropped;
      ++reasons[shortened(pair.dropped, 80)];
    }
  }
  if (dropped == 0) return fmt::format("All {} pairs of times are used.", count_text(pairs));
  std::string text = fmt::format("{} of {} pairs of times are not used:", count_text(dropped), count_text(pairs));
  for (const auto& [reason, count] : reasons) text += fmt::format(" {} ({});", reason, count_text(count));
  text.back() = '.';
  return text;
}

std::string floor_by_text(FloorBy by) {
  switch (by) {
    case FloorBy::kMemory: return "of memory";
    case FloorBy::kFp32: return "of arithmetic in fp32";
    case FloorBy::kTensor: return "of products";
  }
  SB_ASSERT(false);
  return "";
}

View timing_view(const TimingReport& report, const ListScore& list, const PlotRange& range) {
  const bool has_speed = list.speedup.has_value();
  const double share = list.floor_ratio.value_or(0);
  View view;
  view.text("list", shortened(report.list, 80))
      .flag("hidden", report.hidden)
      .text("params", size_text(static_cast<double>(report.params)))
      .text("tensors", number_of(report.tensors, "tensor"))
      .text("candidate_time", list.candidate_ns ? time_text(*list.candidate_ns) : "–")
      .text("candidate_key", list.candidate_ns ? key_text(*list.candidate_ns) : "")
      .text("baseline_time", list.baseline_ns ? time_text(*list.baseline_ns) : "–")
      .text("baseline", shortened(base_name(report.baseline), 40))
      .text("baseline_key", list.baseline_ns ? key_text(*list.baseline_ns) : "")
      .text("speedup", has_speed ? speedup_text(list.speedup->speedup) : "–")
      .text("speedup_key", has_speed ? key_text(list.speedup->speedup) : "")
      .text("interval", has_speed ? interval_text(list.speedup->low, list.speedup->high)
                                  : shortened("no speedup: " + list.why_not, 200))
      .markup("bar",
              has_speed ? interval_bar(list.speedup->low, list.speedup->speedup, list.speedup->high, range, 1) : "")
      .text("word", has_speed ? std::string(to_text(list.speedup->word)) : "–")
      .text("floor", report.floor_ns > 0 ? time_text(report.floor_ns) : "unknown")
      .text("floor_by", report.floor_ns > 0 ? floor_by_text(report.floor_by) : "")
      .text("floor_key", report.floor_ns > 0 ? key_text(report.floor_ns) : "")
      .text("share", share > 0 ? percent_text(share) : "–")
      .text("share_key", share > 0 ? key_text(share) : "")
      .markup("share_bar", share > 0 ? share_bar(share) : "")
      .text("pairs", fmt::format("{} of {}", report.pairs.size() - list.dropped, report.pairs.size()))
      .text("used_key", fmt::format("{}", report.pairs.size() - list.dropped))
      .text("verified", number_of(report.verified_steps, "step"));
  return view;
}

std::string speed_words(const Score& score) {
  if (!score.speedup) return fmt::format("There is no score: {}.", shortened(score.why_not, 300));
  std::string text = fmt::format("{} than the baseline over all scored lists: {}, 95 % interval {}.",
                                 *score.word == SpeedWord::kFaster   ? "Faster"
                                 : *score.word == SpeedWord::kSlower ? "Slower"
                                                                     : "Not told apart in speed",
                                 speedup_text(*score.speedup), interval_text(*score.low, *score.high));
  if (*score.word == SpeedWord::kSame)
    text = fmt::format("As fast as the baseline over all scored lists: {}, 95 % interval {}.",
                       speedup_text(*score.speedup), interval_text(*score.low, *score.high));
  if (*score.word == SpeedWord::kUndecided)
    text = fmt::format("Undecided: over all scored lists {}, 95 % interval {}.", speedup_text(*score.speedup),
                       interval_text(*score.low, *score.high));
  return text;
}

}  // namespace

void add_speed(View& view, const BoardRow& row, const EvalRecord& record, const Score& score) {
  const bool timed = record.verdict == Verdict::kPassed && !record.timing.empty();
  std::vector<View> timings, plots, contradicting;
  std::set<std::string> baselines, methods;
  std::vector<double> ends{1};
  for (const ListScore& list : score.lists)
    if (list.speedup) ends.insert(ends.end(), {list.speedup->low, list.speedup->high});
  const PlotRange range = plot_range(ends, AxisScale::kLinear);
  for (size_t i = 0; timed && i < record.timing.size(); ++i) {
    timings.push_back(timing_view(record.timing[i], score.lists[i], range));
    baselines.insert(std::string(base_name(record.timing[i].baseline)));
    methods.insert(record.timing[i].method);
  }
  const auto joined = [](const std::set<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += fmt::format("{}{}", text.empty() ? "" : " · ", shortened(word, 200));
    return text;
  };
  if (timed) {
    for (const Plot& plot : speed_plots(record))
      plots.push_back(View().text("title", plot.title).markup("svg", render_plot(plot).svg));
    for (const std::string& sentence : contradictions(record))
      contradicting.push_back(View().text("text", shortened(sentence, 300)));
  }
  view.flag("timed", timed)
      .text("why_untimed", why_no_speed(row))
      .text("speed_words", speed_words(score))
      .list("timings", std::move(timings))
      .text("baselines", joined(baselines))
      .text("method", joined(methods))
      .text("dropped", dropped_text(record))
      .list("speed_plots", std::move(plots))
      .flag("contradicts", !contradicting.empty())
      .list("contradictions", std::move(contradicting));
}

namespace {

// ---------------------------------------------------------------------------------------------- checks

struct CheckSummary {
  std::string check;
  Verdict verdict = Verdict::kPassed;
  int64_t cases = 0, elements = 0;
  double wall_ms = 0;
  const CaseReport* worst = nullptr;
};

std::vector<CheckSummary> summarize_checks(const EvalRecord& record) {
  std::vector<CheckSummary> checks;  // in the order they ran
  for (const CaseReport& report : record.cases) {
    auto check = std::find_if(checks.begin(), checks.end(), [&](const auto& c) { return c.check == report.check; });
    if (check == checks.end()) check = checks.insert(checks.end(), CheckSummary{report.check});
    ++check->cases;
    check->elements += report.elements_checked;
    check->wall_ms += report.wall_ms;
    if (report.verdict != Verdict::kPassed) check->verdict = report.verdict;
    if (!check->worst || is_worse(report.worst_error_ratio, check->worst->worst_error_ratio)) check->worst = &report;
  }
  return checks;
}

}  // namespace

void add_checks(View& view, const EvalRecord& record) {
  std::vector<View> checks, cases;
  for (const CheckSummary& check : summarize_checks(record))
    checks.push_back(View()
                         .text("check", shortened(check.check, 40))
                         .text("verdict", std::string(to_text(check.verdict)))
                         .text("class", verdict_class(check.verdict))
                         .text("cases", count_text(check.cases))
                         .text("elements", count_text(check.elements))
                         .text("worst", check.elements > 0 ? number_text(check.worst->worst_error_ratio) : "–")
                         .text("buffer", shortened(check.worst->worst_buffer, 40))
                         .text("worst_case", shortened(check.worst->case_name, 80))
                         .text("wall", wall_text(check.wall_ms)));
  // Failed cases first: they are what one opens this table for.
  std::vector<const CaseReport*> reports;
  for (const CaseReport& report : record.cases) reports.push_back(&report);
  std::stable_partition(reports.begin(), reports.end(),
                        [](const CaseReport* report) { return report->verdict != Verdict::kPassed; });
  for (size_t i = 0; i < std::min(reports.size(), kMaxCases); ++i) {
    const CaseReport& report = *reports[i];
    cases.push_back(View()
                        .text("check", shortened(report.check, 40))
                        .text("case", shortened(report.case_name, 120))
                        .text("verdict", std::string(to_text(report.verdict)))
                        .text("class", verdict_class(report.verdict))
                        .text("elements", count_text(report.elements_checked))
                        .text("elements_key", fmt::format("{}", report.elements_checked))
                        .text("worst", report.elements_checked > 0 ? number_text(report.worst_error_ratio) : "–")
                        .text("worst_key", report.elements_checked > 0 ? key_text(report.worst_error_ratio) : "")
                        .text("buffer", shortened(report.worst_buffer, 40)));
  }
  view.flag("has_cases", !record.cases.empty())
      .text("stopped_at", record.failure ? shortened(record.failure->check, 40) : "")
      .list("checks", std::move(checks))
      .text("case_count", count_text(static_cast<int64_t>(record.cases.size())))
      .text("cases_caption",
            reports.size() > kMaxCases
                ? fmt::format("The first {} cases, failed ones first; the record has all of them.", kMaxCases)
                : "In the order they ran, failed ones first. Errors are in units of the limit.")
      .list("cases", std::move(cases));
}

namespace {

// ---------------------------------------------------------------------------------------------- drift

}  // namespace

void add_drift(View& view, const EvalRecord& record) {
  std::vector<View> plots, curves;
  for (const Plot& plot : drift_plots(record))
    plots.push_back(View().text("title", plot.title).markup("svg", render_plot(plot).svg));
  for (const DriftCurve& curve : record.drift) {
    if (curve.points.empty() || curves.size() == kMaxCurves) continue;
    const DriftPoint& last = curve.points.back();
    const std::optional<double> ratio = drift_error_ratio(record, curve, last);
    curves.push_back(View()
                         .text("case", shortened(curve.case_name, 80))
                         .text("buffer", shortened(curve.buffer, 40))
                         .text("step", count_text(last.step))
                         .text("step_key", fmt::format("{}", last.step))
                         .text("rms", number_text(last.rms_ratio))
                         .text("rms_key", key_text(last.rms_ratio))
                         .text("limit", ratio ? number_text(curve.limit_ratio) : "not judged")
                         .text("limit_key", ratio ? key_text(curve.limit_ratio) : "")
                         .text("ratio", ratio ? number_text(*ratio) : "–")
                         .text("ratio_key", ratio ? key_text(*ratio) : "")
                         .text("growth", std::isfinite(curve.growth_exponent)
                                             ? fmt::format("{:.2f}", curve.growth_exponent)
                                             : number_text(curve.growth_exponent))
                         .text("growth_key", key_text(curve.growth_exponent))
                         .text("bias", number_text(last.bias_ratio))
                         .text("bias_key", key_text(last.bias_ratio))
                         .text("sigma", std::isfinite(last.bias_sigma) ? fmt::format("{:.1f} σ", last.bias_sigma)
                                                                       : "the same in every element")
                         .text("sigma_key", key_text(last.bias_sigma)));
  }
  view.flag("has_drift", !curves.empty())
      .text("why_no_drift",
            record.failure ? "the candidate stopped before that check." : "the suite has no such check.")
      .list("drift_plots", std::move(plots))
      .list("curves", std::move(curves));
}

namespace {

// ---------------------------------------------------------------------------------------------- work

std::string known_bytes(int32_t bytes) { return bytes < 0 ? "unknown" : bytes_text(bytes); }

}  // namespace

void add_work(View& view, const EvalRecord& record) {
  std::vector<View> resources, counters;
  for (const KernelResources& kernel : record.resources)
    resources.push_back(View()
                            .text("entry", shortened(kernel.entry, 120))
                            .text("registers", kernel.registers < 0 ? "unknown" : fmt::format("{}", kernel.registers))
                            .text("stores", known_bytes(kernel.spill_store_bytes))
                            .text("loads", known_bytes(kernel.spill_load_bytes))
                            .text("stack", known_bytes(kernel.stack_bytes))
                            .text("shared", known_bytes(kernel.shared_bytes))
                            .text("constant", known_bytes(kernel.constant_bytes)));
  const Counters& c = record.counters;
  const struct {
    const char* what;
    uint64_t count;
    bool is_bytes;
    bool per_param = true;
  } rows[] = {{"launches", c.launches, false, false},
              {"warp instructions", c.warp_instructions, false},
              {"lane instructions", c.lane_instructions, false},
              {"global bytes loaded", c.global_load_bytes, true},
              {"global bytes stored", c.global_store_bytes, true},
              {"global sectors loaded (32 B)", c.global_load_sectors, false},
              {"global sectors stored (32 B)", c.global_store_sectors, false},
              {"shared-memory wavefronts", c.shared_wavefronts, false},
              {"divergent branches", c.divergent_branches, false, false},
              {"barriers", c.barriers, false, false},
              {"atomics", c.atomics, false},
              {"local bytes", c.local_bytes, true}};
  const bool counted = c.warp_instructions > 0;  // a GPU fills in the launches alone
  for (const auto& row : rows) {
    if (!counted) break;
    counters.push_back(
        View()
            .text("what", row.what)
            .text("count", row.is_bytes ? bytes_text(static_cast<double>(row.count))
                                        : count_text(static_cast<int64_t>(std::min<uint64_t>(row.count, INT64_MAX))))
            .text("per_param",
                  row.per_param && record.traffic_params > 0
                      ? number_text(static_cast<double>(row.count) / static_cast<double>(record.traffic_params)) +
                            (row.is_bytes ? " B" : "")
                      : "–"));
  }
  const bool has_traffic = record.modelled_bytes_per_param > 0;
  std::string traffic;
  if (has_traffic) {
    traffic = fmt::format("Modelled DRAM traffic: {:.2f} B per parameter", record.modelled_bytes_per_param);
    if (record.ideal_bytes_per_param > 0)
      traffic +=
          fmt::format(", {:.2f} times the floor of {:.2f} B",
                      record.modelled_bytes_per_param / record.ideal_bytes_per_param, record.ideal_bytes_per_param);
    traffic += ". Counted on the virtual machine in sectors of 32 bytes: a model, not a measurement.";
  }
  view.flag("has_work", has_traffic || !resources.empty() || !counters.empty())
      .flag("has_traffic", has_traffic)
      .text("traffic", traffic)
      .flag("has_resources", !resources.empty())
      .list("resources", std::move(resources))
      .flag("has_counters", !counters.empty())
      .text("counters_caption",
            fmt::format("Exact counts of one optimizer step over {} parameters, on the virtual machine.",
                        count_text(record.traffic_params)))
      .list("counters", std::move(counters));
}

}  // namespace stepbench
