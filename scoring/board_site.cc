// The site as a whole: what has a page, where it lies, the frame around it, and the order in which files are made.
#include "scoring/board_site.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "harness/stages.h"
#include "scoring/board_findings.h"
#include "scoring/board_plots.h"
#include "scoring/board_text.h"
#include "scoring/board_units.h"
#include "scoring/drift_error.h"
#include "scoring/score.h"

namespace stepbench {
namespace {

constexpr size_t kMenuTasks = 8;
constexpr size_t kNameLength = 60;

Template load_template(const char* file) { return Template(file, board_asset(file)); }

/// The best of each ranking, those that were the best when they came, and the newest of each task.
std::vector<bool> choose_pages(const Site& site) {
  std::vector<bool> chosen(site.input.rows.size());
  std::unordered_map<std::string, size_t> newest;
  for (const size_t row : site.newest_first)
    if (newest[site.row(row).task]++ < site.options.pages) chosen[row] = true;
  for (const BoardTask& task : site.tasks) {
    for (const BoardRanking& ranking : task.rankings) {
      for (size_t i = 0; i < std::min(ranking.entries.size(), site.options.pages); ++i)
        chosen[ranking.entries[i].row] = true;
      const size_t shown = std::min(ranking.history.size(), site.options.pages);
      for (size_t i = ranking.history.size() - shown; i < ranking.history.size(); ++i)
        chosen[ranking.entries[ranking.history[i]].row] = true;
    }
  }
  return chosen;
}

std::string footer_text(const Site& site) {
  if (site.newest_first.empty())
    return fmt::format("StepBench {}. Rules of scores: version {}.", site.options.stepbench_version, kScoreVersion);
  return fmt::format("StepBench {}, from {} up to {}. Rules of scores: version {}.", site.options.stepbench_version,
                     number_of(static_cast<int64_t>(site.input.rows.size()), "record"),
                     minute_text(shortened(site.row(site.newest_first.front()).created_utc, 40)), kScoreVersion);
}

/// Writes files and counts them.
class Writer {
 public:
  Writer(const BoardSink& sink, const BoardProgress& progress, int64_t total)
      : sink_(sink), progress_(progress), total_(total) {}

  Result<void> write(const std::string& path, std::string_view bytes) {
    if (Result<void> written = sink_(path, bytes); !written.ok()) return written;
    ++files_;
    if (progress_) progress_(files_, total_);
    return {};
  }
  Result<void> write(const SitePage& page) { return write(page.path, page.html); }
  int64_t files() const { return files_; }

 private:
  const BoardSink& sink_;
  const BoardProgress& progress_;
  int64_t total_;
  int64_t files_ = 0;
};

/// Pages of records come first: what the other pages say of drift stands in the records alone.
Result<void> write_records(Site& site, Writer& writer, BoardSummary& summary) {
  for (const size_t index : site.newest_first) {
    if (!site.has_page[index]) continue;
    const BoardRow& row = site.row(index);
    const Result<EvalRecord> record = site.input.load(row.id);
    if (!record.ok()) {
      if (summary.unreadable++ == 0) summary.first_unreadable = fmt::format("{}: {}", row.id, to_text(record.error()));
      site.has_page[index] = false;
      continue;
    }
    if (const std::optional<double> drift = worst_drift_error_ratio(record.value())) site.drift[index] = *drift;
  }
  for (const size_t index : site.newest_first) {
    if (!site.has_page[index]) continue;
    const Result<EvalRecord> record = site.input.load(site.row(index).id);
    if (!record.ok()) return record.error();  // it was there a moment ago
    const std::string json = record_to_json(record.value(), 1) + "\n";
    if (Result<void> done = writer.write(record_json_path(site.row(index)), json); !done.ok()) return done;
    const SitePage page = candidate_page(site, index, record.value(), json.size());
    if (Result<void> done = writer.write(page); !done.ok()) return done;
    ++summary.record_pages;
  }
  return {};
}

Result<void> write_tasks(const Site& site, Writer& writer) {
  for (size_t task = 0; task < site.tasks.size(); ++task) {
    if (Result<void> done = writer.write(task_page(site, task)); !done.ok()) return done;
    for (size_t ranking = 0; ranking < site.tasks[task].rankings.size(); ++ranking) {
      const size_t count = ranking_page_count(site, site.tasks[task].rankings[ranking]);
      for (size_t page = 1; page <= count; ++page)
        if (Result<void> done = writer.write(ranking_page(site, task, ranking, page)); !done.ok()) return done;
    }
  }
  return {};
}

Result<void> write_lists(const Site& site, Writer& writer) {
  for (size_t page = 1; page <= list_page_count(site); ++page)
    if (Result<void> done = writer.write(list_page(site, page)); !done.ok()) return done;
  for (const SitePage& page : overview_pages(site))
    if (Result<void> done = writer.write(page); !done.ok()) return done;
  if (Result<void> done = writer.write(about_page(site)); !done.ok()) return done;
  for (const char* file : {"board.css", "board.js"})
    if (Result<void> done = writer.write(file, board_asset(file)); !done.ok()) return done;
  return {};
}

}  // namespace

SiteTemplates::SiteTemplates()
    : layout(load_template("layout.html")),
      overview(load_template("overview.html")),
      task(load_template("task.html")),
      ranking(load_template("ranking.html")),
      list(load_template("list.html")),
      candidate(load_template("candidate.html")),
      about(load_template("about.html")) {}

Site make_site(const BoardInput& input, const BoardOptions& options) {
  SB_ASSERT(options.pages >= 1 && options.list_rows >= 1);
  Site site{input, options, make_standings(input.rows), {}, {}, {}, {}, {}, {}, {}};
  const std::vector<BoardRow>& rows = input.rows;
  site.newest_first.resize(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) site.newest_first[i] = i;
  std::sort(site.newest_first.begin(), site.newest_first.end(), [&](size_t a, size_t b) {
    return std::tie(rows[b].created_utc, rows[b].sequence) < std::tie(rows[a].created_utc, rows[a].sequence);
  });
  site.list_place.resize(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) site.list_place[site.newest_first[i]] = i;
  for (const size_t row : site.newest_first) site.same_candidate[rows[row].candidate_sha256].push_back(row);
  for (size_t task = 0; task < site.tasks.size(); ++task) {
    for (size_t ranking = 0; ranking < site.tasks[task].rankings.size(); ++ranking) {
      const std::vector<BoardEntry>& entries = site.tasks[task].rankings[ranking].entries;
      for (const BoardEntry& entry : entries)
        site.ranks.try_emplace(entry.row, RowRank{task, ranking, entry.rank, static_cast<int64_t>(entries.size())});
    }
  }
  site.has_page = choose_pages(site);
  return site;
}

// ---------------------------------------------------------------------------------------------- paths

std::string task_path(const std::string& task) { return fmt::format("tasks/{}.html", page_name(task)); }

std::string ranking_path(const BoardTask& task, size_t ranking, size_t page) {
  return fmt::format("tasks/{}.ranking-{}-{}.html", page_name(task.task), ranking + 1, page);
}

std::string list_path(size_t page) { return page == 1 ? "records.html" : fmt::format("records-{}.html", page); }

std::string overview_path(size_t page) { return page == 1 ? "index.html" : fmt::format("overview-{}.html", page); }

std::string record_json_path(const BoardRow& row) { return fmt::format("records/{}.json", page_name(row.id)); }

std::string record_path(const Site& site, size_t row) {
  const std::string name = page_name(site.row(row).id);
  if (site.has_page[row]) return fmt::format("records/{}.html", name);
  return fmt::format("{}#r-{}", list_path(site.list_place[row] / site.options.list_rows + 1), name);
}

std::string root_of(const std::string& path) { return path.find('/') == std::string::npos ? "" : "../"; }

std::string finish_page(const Site& site, const std::string& path, const std::string& title, std::string body) {
  std::vector<View> menu;
  for (const BoardTask& task : site.tasks) {
    if (menu.size() == kMenuTasks) break;
    const std::string href = task_path(task.task);
    menu.push_back(View().text("href", href).text("name", task_name(task.task)).flag("here", href == path));
  }
  View view;
  view.text("title", title)
      .text("root", root_of(path))
      .list("tasks", std::move(menu))
      .flag("records_here", path.starts_with("records.html") || path.starts_with("records-"))
      .flag("about_here", path == "about.html")
      .markup("body", std::move(body))
      .text("footer", footer_text(site));
  return site.templates.layout.render(view);
}

// ---------------------------------------------------------------------------------------------- words

std::string task_name(const std::string& task) { return task.empty() ? "(no task)" : shortened(task, kNameLength); }

std::string candidate_name(const BoardRow& row) {
  return row.path.empty() ? "(no name)" : shortened(base_name(row.path), kNameLength);
}

std::string author_text(const BoardRow& row) {
  std::string text = shortened(row.author, kNameLength);
  if (!row.model.empty()) text += (text.empty() ? "" : " · ") + shortened(row.model, kNameLength);
  if (!text.empty() && row.round > 0) text += fmt::format(", round {}", row.round);
  return text;
}

const char* verdict_class(Verdict verdict) {
  if (verdict == Verdict::kPassed) return "good";
  return verdict == Verdict::kUnsupported || verdict == Verdict::kHarnessError ? "open" : "bad";
}

std::string verdict_meaning(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPassed: return "Every check passed.";
    case Verdict::kBadCandidate: return "The launch plan is wrong, or asks for more than the limits allow.";
    case Verdict::kCompileError: return "The source does not compile.";
    case Verdict::kRefused: return "Refused before it ran: it keeps state between launches or uses what is forbidden.";
    case Verdict::kLaunchError: return "A launch was refused, trapped, or accessed memory at a misaligned address.";
    case Verdict::kOutOfBounds: return "It accessed memory that its plan does not grant, or wrote to an input.";
    case Verdict::kUninitializedRead: return "It read memory that nothing had written.";
    case Verdict::kRace: return "Two threads accessed the same memory without an order, one of them writing.";
    case Verdict::kBarrierDivergence: return "Threads of a block did not all reach the same barrier.";
    case Verdict::kWrongResult: return "A value differs from the oracle by more than its limit.";
    case Verdict::kDrift: return "Single steps pass, but over many steps the error leaves its limit.";
    case Verdict::kNondeterministic: return "The same input gave two different results.";
    case Verdict::kDivergedTraining: return "Training with it ends at another loss than training with the oracle.";
    case Verdict::kTimeout: return "It did not end within its budget.";
    case Verdict::kImpossibleTime: return "It took less time than the required bytes or operations need on this GPU.";
    case Verdict::kUnsupported: return "The virtual machine lacks something that it uses. This is not evidence.";
    case Verdict::kHarnessError: return "StepBench or the machine was at fault. Never charged to the candidate.";
  }
  SB_ASSERT(false);
  return "";
}

std::string interval_text(double low, double high) {
  return fmt::format("{} – {}", speedup_text(low), speedup_text(high));
}

std::string why_no_speed(const BoardRow& row) {
  if (row.verdict != Verdict::kPassed)
    return fmt::format("The verdict is {}, and only what passed every check is timed and scored.",
                       to_text(row.verdict));
  if (row.device == "vm")
    return "The virtual machine has no clock. It says whether a kernel is right, not how fast it is; speed needs an "
           "evaluation on a GPU.";
  if (row.baseline.empty()) return "Nothing was timed: the suite times no list, or the GPU's clock could not be used.";
  return "The samples give no score: too few pairs of times could be used.";
}

std::vector<View> page_links(size_t count, size_t here, const std::string& from,
                             const std::function<std::string(size_t)>& path_of) {
  constexpr size_t kAround = 3;  // and the first and the last
  std::vector<View> links;
  for (size_t page = 1; page <= count; ++page) {
    const bool is_near = page + kAround >= here && page <= here + kAround;
    if (!is_near && page != 1 && page != count) continue;
    links.push_back(View()
                        .text("label", fmt::format("{}", page))
                        .text("href", root_of(from) + path_of(page))
                        .flag("here", page == here));
  }
  return links;
}

View record_view(const Site& site, size_t index, const std::string& root) {
  const BoardRow& row = site.row(index);
  View view;
  view.text("id", shortened(row.id, 40))
      .text("anchor", page_name(row.id))
      .text("href", root + record_path(site, index))
      .flag("has_page", site.has_page[index])
      .text("name", candidate_name(row))
      .text("author", author_text(row))
      .text("task", task_name(row.task))
      .text("verdict", std::string(to_text(row.verdict)))
      .text("class", verdict_class(row.verdict))
      .text("where", shortened(row.failed_in, 80))
      .text("speedup", row.speedup > 0 ? speedup_text(row.speedup) : "–")
      .text("speedup_key", row.speedup > 0 ? fmt::format("{}", row.speedup) : "")
      .text("suite", shortened(row.suite, 40))
      .text("device", shortened(row.device, 60))
      .text("date", day_text(shortened(row.created_utc, 30)));
  return view;
}

// ---------------------------------------------------------------------------------------------- all of it

Result<BoardSummary> render_site(const BoardInput& input, const BoardOptions& options, const BoardSink& sink,
                                 const BoardProgress& progress) {
  Site site = make_site(input, options);
  BoardSummary summary;
  summary.records = static_cast<int64_t>(input.rows.size());
  constexpr size_t kSingleFiles = 3;  // about.html, the style sheet, the script
  size_t total = 2 * static_cast<size_t>(std::count(site.has_page.begin(), site.has_page.end(), true)) +
                 site.tasks.size() + list_page_count(site) + overview_page_count(site) + kSingleFiles;
  for (const BoardTask& task : site.tasks)
    for (const BoardRanking& ranking : task.rankings) total += ranking_page_count(site, ranking);
  Writer writer(sink, progress, static_cast<int64_t>(total));
  if (Result<void> done = write_records(site, writer, summary); !done.ok()) return done.error();
  if (Result<void> done = write_tasks(site, writer); !done.ok()) return done.error();
  if (Result<void> done = write_lists(site, writer); !done.ok()) return done.error();
  summary.files = writer.files();
  return summary;
}

}  // namespace stepbench
