// The page of a task: its rankings with their charts, and the candidates that take no rank.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/stages.h"
#include "scoring/board_findings.h"
#include "scoring/board_site.h"
#include "scoring/board_svg.h"
#include "scoring/board_text.h"
#include "scoring/board_units.h"
#include "scoring/score.h"

namespace stepbench {
namespace {

constexpr size_t kMaxRankings = 8;     // sections of one page
constexpr size_t kFirstEntries = 100;  // lines of a ranking on the task's page
constexpr size_t kMaxGroup = 50;       // candidates of one kind that take no rank
constexpr size_t kMaxPoints = 400;     // of one chart

/// Speedup against drift: whoever is fast because he is careless stands at the upper right.
std::optional<Plot> scatter_plot(const Site& site, const BoardRanking& ranking, const std::string& id) {
  PlotSeries series{"candidate, with its 95 % interval", SeriesForm::kPoints, 0, {}};
  for (const BoardEntry& entry : ranking.entries) {
    const auto drift = site.drift.find(entry.row);
    if (drift == site.drift.end() || series.points.size() == kMaxPoints) continue;
    const BoardRow& row = site.row(entry.row);
    series.points.push_back({.x = drift->second,
                             .y = row.speedup,
                             .y_low = row.low,
                             .y_high = row.high,
                             .tip = fmt::format("#{} {}: {}, drift {}", entry.rank, candidate_name(row),
                                                speedup_text(row.speedup), limit_text(drift->second)),
                             .label = fmt::format("#{}", entry.rank)});
  }
  if (series.points.size() < 2) return {};
  Plot plot;
  plot.id = id + "-scatter";
  plot.title = "Speed against drift";
  plot.description = fmt::format(
      "Speedup over the baseline against the largest drift error in units of its limit, for {} candidates. Up is "
      "faster, left is more accurate.",
      series.points.size());
  plot.x = {"largest drift error / limit", AxisScale::kLog, number_text, {1}};
  plot.y = {"speedup over the baseline", AxisScale::kLinear, short_speedup_text, {1}};
  plot.series = {std::move(series)};
  plot.rules = {{"as fast as the baseline", 1, false}, {"limit of the drift", 1, true}};
  return plot;
}

std::optional<Plot> history_plot(const Site& site, const BoardRanking& ranking, const std::string& id) {
  PlotSeries others{"other candidates", SeriesForm::kPoints, 5, {}};
  PlotSeries best{"best when it came", SeriesForm::kSteps, 0, {}};
  const auto point_of = [&](const BoardEntry& entry) -> std::optional<PlotPoint> {
    const std::optional<double> when = seconds_of_utc(entry.first_utc);
    if (!when) return {};
    const BoardRow& row = site.row(entry.row);
    return PlotPoint{.x = *when,
                     .y = row.speedup,
                     .tip = fmt::format("{}: {} ({}), {}", candidate_name(row), speedup_text(row.speedup),
                                        interval_text(row.low, row.high), day_text(entry.first_utc))};
  };
  for (const size_t index : ranking.history) {
    std::optional<PlotPoint> point = point_of(ranking.entries[index]);
    if (!point) continue;
    point->y_low = site.row(ranking.entries[index].row).low;
    point->y_high = site.row(ranking.entries[index].row).high;
    best.points.push_back(std::move(*point));
  }
  for (size_t i = 0; i < ranking.entries.size() && others.points.size() < kMaxPoints; ++i) {
    if (std::find(ranking.history.begin(), ranking.history.end(), i) != ranking.history.end()) continue;
    if (std::optional<PlotPoint> point = point_of(ranking.entries[i])) others.points.push_back(std::move(*point));
  }
  if (best.points.size() + others.points.size() < 2) return {};
  Plot plot;
  plot.id = id + "-history-plot";
  plot.title = "The best over time";
  plot.description =
      fmt::format("Speedup of each candidate at the time of its first score. {} of them were the best when they came.",
                  best.points.size());
  plot.x = {"first score (UTC)", AxisScale::kTime, nullptr, {}};
  plot.y = {"speedup over the baseline", AxisScale::kLinear, short_speedup_text, {1}};
  if (!others.points.empty()) plot.series.push_back(std::move(others));
  plot.series.push_back(std::move(best));
  plot.rules = {{"as fast as the baseline", 1, false}};
  return plot;
}

/// fast_p over all judged candidates of the task, those that failed included.
Plot fast_plot(const Site& site, const BoardTask& task, const BoardRanking& ranking, const std::string& id) {
  std::vector<Score> scores;
  double fastest = 2;
  const auto add = [&](size_t index, bool with_speed) {
    Score score;
    score.verdict = site.row(index).verdict;
    if (with_speed) score.speedup = site.row(index).speedup;
    scores.push_back(std::move(score));
  };
  for (const BoardEntry& entry : ranking.entries) {
    add(entry.row, true);
    fastest = std::max(fastest, site.row(entry.row).speedup);
  }
  for (const size_t row : task.failed) add(row, false);
  std::vector<double> thresholds;
  constexpr int kSteps = 60;
  for (int i = 0; i <= kSteps; ++i) thresholds.push_back(fastest * 1.05 * i / kSteps);
  const FastCurve curve = fast_curve(scores, thresholds);
  PlotSeries series{"share that is correct and at least p × as fast", SeriesForm::kBareSteps, 2, {}};
  for (const FastPoint& point : curve.points)
    if (point.share) series.points.push_back({.x = point.threshold, .y = *point.share});
  const std::vector<double> one{1};
  const FastCurve at_one = fast_curve(scores, one);
  Plot plot;
  plot.id = id + "-fast";
  plot.title = "How many are how fast";
  plot.description = fmt::format(
      "Share of the {} judged candidates that are correct and at least p times as fast as "
      "the baseline, over p. At p = 1 it is {}.",
      curve.judged, percent_text(at_one.points[0].share.value_or(0)));
  plot.x = {"p: speedup over the baseline", AxisScale::kLinear, short_speedup_text, {}, 0, {}};
  plot.y = {"share of judged candidates (fast_p)", AxisScale::kLinear, short_percent_text, {}, 0, 1};
  plot.series = {std::move(series)};
  plot.rules = {{"p = 1", 1, true}};
  return plot;
}

View plot_view(const Plot& plot, const std::string& words) {
  return View()
      .text("title", plot.title)
      .markup("svg", render_plot(plot).svg)
      .flag("has_words", !words.empty())
      .text("words", words);
}

std::vector<View> history_views(const Site& site, const BoardRanking& ranking) {
  std::vector<View> views;
  for (auto index = ranking.history.rbegin(); index != ranking.history.rend() && views.size() < kMaxPoints; ++index) {
    const BoardEntry& entry = ranking.entries[*index];
    const BoardRow& row = site.row(entry.row);
    views.push_back(View()
                        .text("date", day_text(shortened(entry.first_utc, 30)))
                        .text("href", "../" + record_path(site, entry.row))
                        .text("name", candidate_name(row))
                        .text("author", author_text(row))
                        .text("speedup", speedup_text(row.speedup))
                        .text("interval", interval_text(row.low, row.high)));
  }
  return views;
}

std::string ranking_table(const Site& site, const BoardRanking& ranking, size_t first, size_t last,
                          const std::string& id, const std::string& root) {
  View view;
  view.text("id", id)
      .text("caption", fmt::format("{}: ranks {} to {} of {}, by the lower end of the interval. The dashed line of the "
                                   "bars is 1×, as fast as the baseline.",
                                   ranking_title(ranking.key), first + 1, last,
                                   count_text(static_cast<int64_t>(ranking.entries.size()))))
      .list("entries", ranking_views(site, ranking, first, last, root));
  return site.templates.ranking.render(view);
}

View ranking_view(const Site& site, size_t task_index, size_t index) {
  const BoardTask& task = site.tasks[task_index];
  const BoardRanking& ranking = task.rankings[index];
  const std::string id = fmt::format("ranking-{}", index + 1);
  const size_t shown = std::min(ranking.entries.size(), kFirstEntries);
  std::vector<View> plots;
  if (const std::optional<Plot> plot = scatter_plot(site, ranking, id)) plots.push_back(plot_view(*plot, ""));
  if (const std::optional<Plot> plot = history_plot(site, ranking, id)) plots.push_back(plot_view(*plot, ""));
  plots.push_back(plot_view(fast_plot(site, task, ranking, id),
                            "Failed candidates count as not fast at any p; what was not timed is in no share."));
  std::vector<View> history = history_views(site, ranking);
  View view;
  view.text("id", id)
      .text("title", ranking_title(ranking.key))
      .text("words",
            fmt::format("{}. Method: {}.", number_of(static_cast<int64_t>(ranking.entries.size()), "candidate"),
                        ranking.key.method.empty() ? "not said" : shortened(ranking.key.method, 200)))
      .markup("table", ranking_table(site, ranking, 0, shown, id, "../"))
      .flag("has_more", shown < ranking.entries.size())
      .text("more_href", ranking_path(task, index, 1))
      .text("more",
            fmt::format("All {} candidates of this ranking", count_text(static_cast<int64_t>(ranking.entries.size()))))
      .list("plots", std::move(plots))
      .flag("has_history", !history.empty())
      .text("history_count", fmt::format("{}", history.size()))
      .list("history", std::move(history));
  return view;
}

struct GroupText {
  const char *id, *title, *words;
  bool with_where, with_traffic;
};

void add_group(const Site& site, const std::vector<size_t>& rows, const GroupText& text, std::vector<View>& groups) {
  if (rows.empty()) return;
  std::vector<View> views;
  for (size_t i = 0; i < std::min(rows.size(), kMaxGroup); ++i) {
    const BoardRow& row = site.row(rows[i]);
    const bool has_traffic = row.modelled_bytes_per_param > 0;
    View view = record_view(site, rows[i], "../");
    view.flag("has_row", true)
        .text("traffic", has_traffic ? fmt::format("{:.2f} B / parameter", row.modelled_bytes_per_param) : "–")
        .text("traffic_key", has_traffic ? fmt::format("{}", row.modelled_bytes_per_param) : "")
        .text("registers", row.registers >= 0 ? fmt::format("{}", row.registers) : "–")
        .text("registers_key", row.registers >= 0 ? fmt::format("{}", row.registers) : "");
    views.push_back(std::move(view));
  }
  const auto count = static_cast<int64_t>(rows.size());
  View view;
  view.text("id", text.id)
      .text("title", fmt::format("{} ({})", text.title, count_text(count)))
      .text("words", text.words)
      .text("caption", rows.size() > kMaxGroup ? fmt::format("{}: the newest {}.", text.title, kMaxGroup)
                                               : fmt::format("{}, newest first.", text.title))
      .flag("with_where", text.with_where)
      .flag("with_traffic", text.with_traffic)
      .list("rows", std::move(views))
      .flag("has_more", rows.size() > kMaxGroup)
      .text("more",
            fmt::format("{} older ones are not shown here.", count_text(count - static_cast<int64_t>(kMaxGroup))));
  groups.push_back(std::move(view));
}

std::string lede(const BoardTask& task) {
  std::string text = fmt::format("Version {} of the task; {}.", task.version, number_of(task.records, "record"));
  if (task.older_records > 0)
    text += fmt::format(" Of older versions {} listed, but not ranked.",
                        task.older_records == 1 ? "1 record is" : number_of(task.older_records, "record") + " are");
  return text;
}

std::string why_no_ranking(const BoardTask& task) {
  if (!task.untimed.empty())
    return "Candidates passed, but none has a score: the virtual machine has no clock, so that speed needs an "
           "evaluation "
           "on a GPU.";
  if (!task.failed.empty()) return "No candidate has passed yet.";
  return "No candidate has been judged yet.";
}

}  // namespace

std::string ranking_condition(const RankingKey& key) {
  const std::string suite = shortened(key.suite, 30);
  if (key.baseline.empty()) return fmt::format("suite {}, against the fastest baseline", suite);
  return fmt::format("suite {}, against {}", suite, shortened(key.baseline, 60));
}

std::string ranking_title(const RankingKey& key) {
  return fmt::format("{}, {}", key.device.empty() ? "unknown device" : shortened(key.device, 60),
                     ranking_condition(key));
}

std::vector<View> ranking_views(const Site& site, const BoardRanking& ranking, size_t first, size_t last,
                                const std::string& root) {
  std::vector<double> ends{1};
  for (size_t i = first; i < last; ++i) {
    ends.push_back(site.row(ranking.entries[i].row).low);
    ends.push_back(site.row(ranking.entries[i].row).high);
  }
  const PlotRange range = plot_range(ends, AxisScale::kLinear);
  std::vector<View> views;
  for (size_t i = first; i < last; ++i) {
    const BoardEntry& entry = ranking.entries[i];
    const BoardRow& row = site.row(entry.row);
    const auto drift = site.drift.find(entry.row);
    const bool has_drift = drift != site.drift.end();
    const bool has_share = row.floor_ratio > 0;
    View view = record_view(site, entry.row, root);
    view.text("rank", fmt::format("{}", entry.rank))
        .text("low_key", fmt::format("{}", row.low))
        .text("interval", interval_text(row.low, row.high))
        .markup("bar", interval_bar(row.low, row.speedup, row.high, range, 1))
        .text("share", has_share ? percent_text(row.floor_ratio) : "–")
        .text("share_key", has_share ? fmt::format("{}", row.floor_ratio) : "")
        .markup("share_bar", has_share ? share_bar(row.floor_ratio) : "")
        .text("drift", has_drift ? number_text(drift->second) : "–")
        .text("drift_key", has_drift && std::isfinite(drift->second) ? fmt::format("{}", drift->second) : "")
        .text("registers", row.registers >= 0 ? fmt::format("{}", row.registers) : "–")
        .text("registers_key", row.registers >= 0 ? fmt::format("{}", row.registers) : "");
    views.push_back(std::move(view));
  }
  return views;
}

SitePage task_page(const Site& site, size_t task_index) {
  const BoardTask& task = site.tasks[task_index];
  const std::string path = task_path(task.task);
  std::vector<View> rankings, groups;
  size_t hidden_candidates = 0;
  for (size_t i = 0; i < task.rankings.size(); ++i) {
    if (i < kMaxRankings)
      rankings.push_back(ranking_view(site, task_index, i));
    else
      hidden_candidates += task.rankings[i].entries.size();
  }
  add_group(
      site, task.untimed,
      {"untimed", "Passed, not timed",
       "These passed every check. They take no rank, because no usable time was measured. The modelled traffic is "
       "counted on the virtual machine, not measured.",
       false, true},
      groups);
  add_group(site, task.failed,
            {"failed", "Failed", "One failed record is enough. Each says why, and how to see it again.", true, false},
            groups);
  add_group(
      site, task.unjudged,
      {"unjudged", "Not judged",
       "Nothing was found out about these: the virtual machine lacks something, the harness or the machine was at "
       "fault, or only a part was run.",
       true, false},
      groups);
  View view;
  view.text("task", task_name(task.task))
      .text("lede", lede(task))
      .flag("has_rankings", !task.rankings.empty())
      .text("why_no_ranking", why_no_ranking(task))
      .list("rankings", std::move(rankings))
      .flag("more_rankings", task.rankings.size() > kMaxRankings)
      .text("more_rankings_words",
            fmt::format("{} smaller rankings with {} candidates are not shown here; their records are listed.",
                        task.rankings.size() - std::min(task.rankings.size(), kMaxRankings), hidden_candidates))
      .list("groups", std::move(groups));
  return {path, finish_page(site, path, task_name(task.task), site.templates.task.render(view))};
}

size_t ranking_page_count(const Site& site, const BoardRanking& ranking) {
  if (ranking.entries.size() <= kFirstEntries) return 0;
  return (ranking.entries.size() + site.options.list_rows - 1) / site.options.list_rows;
}

SitePage ranking_page(const Site& site, size_t task_index, size_t index, size_t page) {
  const BoardTask& task = site.tasks[task_index];
  const BoardRanking& ranking = task.rankings[index];
  const size_t count = ranking_page_count(site, ranking);
  const size_t first = (page - 1) * site.options.list_rows;
  const size_t last = std::min(ranking.entries.size(), first + site.options.list_rows);
  const std::string path = ranking_path(task, index, page);
  const std::string title = fmt::format("{}: {}, page {}", task_name(task.task), ranking_title(ranking.key), page);
  View view;
  view.text("root", "../")
      .flag("has_task", true)
      .text("task", task_name(task.task))
      .text("task_href", task_path(task.task))
      .text("crumb", fmt::format("ranking, page {}", page))
      .text("title", title)
      .text("lede", lede(task))
      .flag("ranking", true)
      .flag("records", false)
      .markup("table", ranking_table(site, ranking, first, last, "ranking", "../"))
      .flag("has_pages", count > 1)
      .list("pages", page_links(count, page, path, [&](size_t p) { return ranking_path(task, index, p); }));
  return {path, finish_page(site, path, title, site.templates.list.render(view))};
}

}  // namespace stepbench
