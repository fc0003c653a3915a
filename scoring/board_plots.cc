// See board_plots.h.
#include "scoring/board_plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "scoring/board_text.h"
#include "scoring/board_units.h"
#include "scoring/drift_error.h"

namespace stepbench {
namespace {

constexpr size_t kMaxPlots = 12;
constexpr size_t kMaxSeries = 6;  // as many as there are colours

std::string words_of_growth(double exponent) {
  if (!std::isfinite(exponent)) return "";
  return fmt::format(", growing as step^{:.2f}", exponent);
}

}  // namespace

std::vector<Plot> drift_plots(const EvalRecord& record) {
  std::vector<Plot> plots;
  for (const DriftCurve& curve : record.drift) {
    if (curve.points.empty() || !(curve.limit_ratio > 0)) continue;
    const auto in_limits = [&](const DriftPoint& point) { return *drift_error_ratio(record, curve, point); };
    auto plot = std::find_if(plots.begin(), plots.end(), [&](const Plot& p) { return p.title == curve.case_name; });
    if (plot == plots.end()) {
      if (plots.size() == kMaxPlots) continue;
      Plot fresh;
      fresh.id = fmt::format("drift-{}", plots.size() + 1);
      fresh.title = curve.case_name;
      fresh.description = "Error of each buffer in units of its limit over the optimizer step, both on log scales.";
      fresh.x = {"optimizer step", AxisScale::kLog, short_size_text, {}};
      fresh.y = {"RMS error / limit", AxisScale::kLog, number_text, {1}};
      fresh.rules = {{"limit", 1, false}};
      plots.push_back(std::move(fresh));
      plot = plots.end() - 1;
    }
    if (plot->series.size() == kMaxSeries) continue;
    PlotSeries series{curve.buffer, SeriesForm::kLine, static_cast<int>(plot->series.size()), {}};
    for (const DriftPoint& point : curve.points)
      series.points.push_back(
          {.x = static_cast<double>(point.step),
           .y = in_limits(point),
           .tip = fmt::format("{}, step {}: {} (RMS error {} of the movement)", curve.buffer, point.step,
                              limit_text(in_limits(point)), number_text(point.rms_ratio))});
    plot->description += fmt::format(" {}: {} at step {}{}.", curve.buffer, limit_text(in_limits(curve.points.back())),
                                     curve.points.back().step, words_of_growth(curve.growth_exponent));
    plot->series.push_back(std::move(series));
  }
  for (Plot& plot : plots) plot.title = "Drift: " + shortened(plot.title, 80);
  return plots;
}

std::vector<Plot> speed_plots(const EvalRecord& record) {
  if (record.timing.empty()) return {};
  std::vector<const TimingReport*> reports;
  for (const TimingReport& report : record.timing) reports.push_back(&report);
  std::stable_sort(reports.begin(), reports.end(),
                   [](const TimingReport* a, const TimingReport* b) { return a->params < b->params; });
  PlotSeries candidate{"candidate", SeriesForm::kPoints, 0, {}}, baseline{"baseline", SeriesForm::kPoints, 1, {}},
      floor{"floor", SeriesForm::kBareLine, 5, {}};
  PlotSeries candidate_share = candidate, baseline_share = baseline;
  for (const TimingReport* report : reports) {
    const auto add = [&](PlotSeries& series, double y, const std::string& text) {
      series.points.push_back({.x = static_cast<double>(report->params),
                               .y = y,
                               .tip = fmt::format("{}, {}: {}", series.name, shortened(report->list, 60), text)});
    };
    add(floor, report->floor_ns, time_text(report->floor_ns));
    for (const auto& [times, shares, ns] : {std::tuple(&baseline, &baseline_share, report->baseline_ns),
                                            std::tuple(&candidate, &candidate_share, report->candidate_ns)}) {
      add(*times, ns, time_text(ns));
      if (report->floor_ns > 0) add(*shares, report->floor_ns / ns, percent_text(report->floor_ns / ns));
    }
  }
  Plot time;
  time.id = "time";
  time.title = "Time of a step over its size";
  time.description =
      "Median time of one optimizer step over the number of parameters, both on log scales: candidate, baseline and "
      "the floor, which is what the required bytes or the required arithmetic take at the measured rates.";
  time.x = {"parameters", AxisScale::kLog, short_size_text, {}};
  time.y = {"time of a step", AxisScale::kLog, short_time_text, {}};
  time.series = {std::move(floor), std::move(baseline), std::move(candidate)};
  if (record.calibration && record.calibration->launch_ns > 0)
    time.rules = {{fmt::format("an empty launch, {}", time_text(record.calibration->launch_ns)),
                   record.calibration->launch_ns, false}};
  Plot share;
  share.id = "share";
  share.title = "Share of the floor over the size";
  share.description =
      "Floor divided by the median time, over the number of parameters on a log scale. 100 % is as fast as the "
      "measured rates of memory and arithmetic allow.";
  share.x = {"parameters", AxisScale::kLog, short_size_text, {}};
  share.y = {"floor / time of a step", AxisScale::kLinear, short_percent_text, {}, 0, 1};
  share.series = {std::move(baseline_share), std::move(candidate_share)};
  share.rules = {{"the floor", 1, false}};
  return {std::move(time), std::move(share)};
}

}  // namespace stepbench
