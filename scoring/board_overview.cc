// The overview: one line per ranking, and the matrix of who computes what.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "harness/stages.h"
#include "scoring/board_findings.h"
#include "scoring/board_site.h"
#include "scoring/board_text.h"
#include "scoring/board_units.h"

namespace stepbench {
namespace {

constexpr size_t kMaxRankings = 100;  // lines of the first table; index.html stays below 2 MB
constexpr size_t kMaxColumns = 16;
constexpr size_t kMatrixRows = 200;  // of one page

/// One line of the matrix: who, on which device. Who is the author as submitted, else the file's name.
struct LineKey {
  std::string who, model, device;
  bool is_author = false;
  auto operator<=>(const LineKey&) const = default;
};

/// The most that can be said of one line and one task; smaller is better.
struct Cell {
  enum Kind { kRanked, kUntimed, kFailed, kUnjudged, kNothing } kind = kNothing;
  size_t row = 0;
  int64_t rank = 0;
};

struct Line {
  LineKey key;
  std::map<size_t, Cell> cells;  // by task
  std::set<size_t> tasks;
  int64_t records = 0;
  std::string newest;
  int64_t ranked = 0, rank_sum = 0;
};

LineKey key_of(const BoardRow& row) {
  if (!row.author.empty()) return {row.author, row.model, row.device, true};
  return {std::string(base_name(row.path)), row.model, row.device, false};
}

std::vector<Line> make_lines(const Site& site) {
  std::map<LineKey, Line> lines;
  for (const BoardRow& row : site.input.rows) {
    Line& line = lines[key_of(row)];
    ++line.records;
    line.newest = std::max(line.newest, row.created_utc);
  }
  for (size_t t = 0; t < site.tasks.size(); ++t) {
    const auto offer = [&](Cell::Kind kind, size_t row, int64_t rank) {
      Line& line = lines[key_of(site.row(row))];
      line.tasks.insert(t);
      Cell& cell = line.cells[t];
      // Lists are newest first and rankings best first, so that the first offer of a kind is the one to keep.
      if (kind < cell.kind) cell = {kind, row, rank};
    };
    const BoardTask& task = site.tasks[t];
    for (const BoardRanking& ranking : task.rankings)
      for (const BoardEntry& entry : ranking.entries) offer(Cell::kRanked, entry.row, entry.rank);
    for (const size_t row : task.untimed) offer(Cell::kUntimed, row, 0);
    for (const size_t row : task.failed) offer(Cell::kFailed, row, 0);
    for (const size_t row : task.unjudged) offer(Cell::kUnjudged, row, 0);
  }
  std::vector<Line> sorted;
  for (auto& [key, line] : lines) {
    line.key = key;
    for (const auto& [task, cell] : line.cells) {
      if (cell.kind != Cell::kRanked) continue;
      ++line.ranked;
      line.rank_sum += cell.rank;
    }
    sorted.push_back(std::move(line));
  }
  const auto passed = [](const Line& line) {
    return std::count_if(line.cells.begin(), line.cells.end(),
                         [](const auto& cell) { return cell.second.kind <= Cell::kUntimed; });
  };
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Line& a, const Line& b) {
    const auto key = [&](const Line& line) { return std::tuple(-line.ranked, line.rank_sum, -passed(line)); };
    return key(a) < key(b);  // and then by name, the order of the map
  });
  return sorted;
}

/// Tasks in columns: those with most records, in order of name.
std::vector<size_t> matrix_columns(const Site& site) {
  std::vector<size_t> tasks(site.tasks.size());
  for (size_t i = 0; i < tasks.size(); ++i) tasks[i] = i;
  std::stable_sort(tasks.begin(), tasks.end(),
                   [&](size_t a, size_t b) { return site.tasks[a].records > site.tasks[b].records; });
  tasks.resize(std::min(tasks.size(), kMaxColumns));
  std::sort(tasks.begin(), tasks.end());
  return tasks;
}

View cell_view(const Site& site, const Cell* cell) {
  View view;
  if (!cell) return view.flag("is_set", false).flag("ranked", false).flag("chip", false).text("key", "");
  const BoardRow& row = site.row(cell->row);
  view.flag("is_set", true)
      .flag("ranked", cell->kind == Cell::kRanked)
      .flag("chip", cell->kind != Cell::kRanked)
      .flag("untimed", cell->kind == Cell::kUntimed)
      .text("href", record_path(site, cell->row))
      .text("rank", fmt::format("{}", cell->rank))
      .text("speedup", speedup_text(row.speedup))
      .text("interval", interval_text(row.low, row.high))
      .text("verdict", std::string(to_text(row.verdict)))
      .text("class", verdict_class(row.verdict));
  // Sorting a column: ranks, then what passed, what failed, what was not judged.
  constexpr int64_t kAfterRanks = 1'000'000'000;
  view.text("key", fmt::format("{}", cell->kind == Cell::kRanked ? cell->rank : kAfterRanks + cell->kind));
  return view;
}

View line_view(const Site& site, const Line& line, const std::vector<size_t>& columns) {
  std::vector<View> cells;
  for (const size_t task : columns) {
    const auto found = line.cells.find(task);
    cells.push_back(cell_view(site, found == line.cells.end() ? nullptr : &found->second));
  }
  std::string tasks;
  for (const size_t task : line.tasks) {
    if (!tasks.empty()) tasks += ' ';
    tasks += page_name(site.tasks[task].task);
  }
  return View()
      .text("who", line.key.who.empty() ? "(no name)" : shortened(line.key.who, 60))
      .text("author", line.key.is_author ? shortened(line.key.who, 60) : "")
      .text("model", shortened(line.key.model, 60))
      .flag("has_model", !line.key.model.empty())
      .text("device", shortened(line.key.device, 60))
      .text("tasks", tasks)
      .text("records", count_text(line.records))
      .text("date", day_text(shortened(line.newest, 30)))
      .list("cells", std::move(cells));
}

std::vector<View> options_of(const std::set<std::string>& values) {
  std::vector<View> options;
  for (const std::string& value : values)
    if (!value.empty()) options.push_back(View().text("value", value));
  return options;
}

/// One line per ranking; tasks without one have a line too.
std::vector<View> ranking_lines(const Site& site) {
  std::vector<View> lines;
  for (const BoardTask& task : site.tasks) {
    const auto start = [&] {
      return View()
          .text("task", task_name(task.task))
          .text("task_href", task_path(task.task))
          .text("untimed", count_text(static_cast<int64_t>(task.untimed.size())))
          .text("failed", count_text(static_cast<int64_t>(task.failed.size())));
    };
    if (task.rankings.empty())
      lines.push_back(start().flag("has_best", false).text("device", "–").text("condition", "").text("ranked", "0"));
    for (const BoardRanking& ranking : task.rankings) {
      const size_t best = ranking.entries.front().row;
      const BoardRow& row = site.row(best);
      lines.push_back(start()
                          .flag("has_best", true)
                          .text("device", shortened(row.device, 60))
                          .text("condition", ranking_condition(ranking.key))
                          .text("best", candidate_name(row))
                          .text("best_href", record_path(site, best))
                          .text("author", author_text(row))
                          .text("speedup", speedup_text(row.speedup))
                          .text("speedup_key", fmt::format("{}", row.speedup))
                          .text("interval", interval_text(row.low, row.high))
                          .text("share", row.floor_ratio > 0 ? percent_text(row.floor_ratio) : "–")
                          .text("share_key", row.floor_ratio > 0 ? fmt::format("{}", row.floor_ratio) : "")
                          .text("ranked", count_text(static_cast<int64_t>(ranking.entries.size()))));
    }
  }
  return lines;
}

std::string lede(const Site& site) {
  int64_t passed = 0;
  for (const BoardRow& row : site.input.rows) passed += row.verdict == Verdict::kPassed ? 1 : 0;
  return fmt::format("{} of {} on {}; {} passed every check.",
                     number_of(static_cast<int64_t>(site.input.rows.size()), "record"),
                     number_of(static_cast<int64_t>(site.same_candidate.size()), "candidate"),
                     number_of(static_cast<int64_t>(site.tasks.size()), "task"), count_text(passed));
}

}  // namespace

size_t overview_page_count(const Site& site) {
  std::set<LineKey> keys;
  for (const BoardRow& row : site.input.rows) keys.insert(key_of(row));
  return std::max<size_t>(1, (keys.size() + kMatrixRows - 1) / kMatrixRows);
}

std::vector<SitePage> overview_pages(const Site& site) {
  const std::vector<Line> lines = make_lines(site);
  const std::vector<size_t> columns = matrix_columns(site);
  std::vector<View> rankings = ranking_lines(site);
  const size_t all_rankings = rankings.size();
  if (rankings.size() > kMaxRankings) rankings.resize(kMaxRankings);

  const size_t page_count = overview_page_count(site);
  SB_ASSERT(page_count == std::max<size_t>(1, (lines.size() + kMatrixRows - 1) / kMatrixRows));
  std::vector<SitePage> pages;
  for (size_t page = 1; page <= page_count; ++page) {
    const std::string path = overview_path(page);
    std::vector<View> rows, column_views, task_options;
    std::set<std::string> devices, authors, models;
    for (size_t i = (page - 1) * kMatrixRows; i < std::min(lines.size(), page * kMatrixRows); ++i) {
      rows.push_back(line_view(site, lines[i], columns));
      devices.insert(shortened(lines[i].key.device, 60));
      models.insert(shortened(lines[i].key.model, 60));
      if (lines[i].key.is_author) authors.insert(shortened(lines[i].key.who, 60));
    }
    for (const size_t task : columns) {
      const std::string& name = site.tasks[task].task;
      column_views.push_back(View().text("task", task_name(name)).text("key", page_name(name)));
      task_options.push_back(View().text("value", page_name(name)).text("label", task_name(name)));
    }
    std::string caption =
        "One line per author and device, or per file where nobody was named. A cell shows the best of its candidates: "
        "its rank with speedup and 95 % interval, or its verdict.";
    if (columns.size() < site.tasks.size())
      caption += fmt::format(" The {} tasks with most records have a column.", columns.size());
    View view;
    view.flag("first", page == 1)
        .flag("nothing", site.input.rows.empty())
        .text("page", fmt::format("{}", page))
        .text("lede", lede(site))
        .flag("more_tasks", all_rankings > rankings.size())
        .text("more_tasks_words", fmt::format("{} more rankings are not shown here.", all_rankings - rankings.size()))
        .list("rankings", page == 1 ? rankings : std::vector<View>())
        .text("matrix_caption", caption)
        .list("columns", std::move(column_views))
        .list("task_options", std::move(task_options))
        .list("device_options", options_of(devices))
        .list("author_options", options_of(authors))
        .list("model_options", options_of(models))
        .list("rows", std::move(rows))
        .flag("has_pages", page_count > 1)
        .list("pages", page_links(page_count, page, path, overview_path));
    const std::string title = page == 1 ? "Overview" : fmt::format("Overview, page {}", page);
    pages.push_back({path, finish_page(site, path, title, site.templates.overview.render(view))});
  }
  return pages;
}

}  // namespace stepbench
