// What the pages of the site share. Internal to scoring/board_*.cc; the interface is board.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "scoring/board.h"
#include "scoring/board_template.h"

namespace stepbench {

struct SiteTemplates {
  Template layout, overview, task, ranking, list, candidate, about;
  SiteTemplates();
};

/// Where a row stands in a ranking.
struct RowRank {
  size_t task = 0, ranking = 0;
  int64_t rank = 0, entries = 0;
};

struct Site {
  const BoardInput& input;
  const BoardOptions& options;
  std::vector<BoardTask> tasks;
  std::vector<size_t> newest_first;                                     ///< all rows
  std::vector<size_t> list_place;                                       ///< of each row in `newest_first`
  std::vector<bool> has_page;                                           ///< of each row
  std::unordered_map<size_t, RowRank> ranks;                            ///< by row; the first ranking that holds it
  std::unordered_map<std::string, std::vector<size_t>> same_candidate;  ///< rows by candidate_sha256, newest first
  std::unordered_map<size_t, double> drift;  ///< worst drift of the rows whose record was loaded
  SiteTemplates templates;

  const BoardRow& row(size_t index) const { return input.rows[index]; }
};

/// Decides which records get a page of their own (BoardOptions::pages) and where everything is.
Site make_site(const BoardInput& input, const BoardOptions& options);

// Paths relative to the site's folder.
std::string task_path(const std::string& task);
std::string ranking_path(const BoardTask& task, size_t ranking, size_t page);  ///< page from 1
std::string list_path(size_t page);
std::string overview_path(size_t page);
/// A record's page, else its line in the list.
std::string record_path(const Site& site, size_t row);
std::string record_json_path(const BoardRow& row);

/// A whole page: `body` in the frame of all pages. `path` is its own, for relative links and the menu.
std::string finish_page(const Site& site, const std::string& path, const std::string& title, std::string body);
/// "../" for a page in a folder, "" for one beside the index.
std::string root_of(const std::string& path);

// Words and small pieces.
std::string task_name(const std::string& task);   ///< "(no task)" for none
std::string candidate_name(const BoardRow& row);  ///< last part of the path, shortened
std::string author_text(const BoardRow& row);     ///< "ana · some-model, round 3"; empty when not submitted
const char* verdict_class(Verdict verdict);       ///< CSS class: good, bad, open
std::string verdict_meaning(Verdict verdict);     ///< one sentence
std::string interval_text(double low, double high);
/// Why a row has no speed, as a sentence.
std::string why_no_speed(const BoardRow& row);
/// Links to pages 1 .. count as a list for {{#pages}}: label, href, here.
std::vector<View> page_links(size_t count, size_t here, const std::string& from,
                             const std::function<std::string(size_t)>& path_of);
/// A row of a table of records: the fields that lists share.
View record_view(const Site& site, size_t row, const std::string& root);

// Pages: path and content.
struct SitePage {
  std::string path, html;
};
size_t overview_page_count(const Site& site);
std::vector<SitePage> overview_pages(const Site& site);
SitePage task_page(const Site& site, size_t task);
/// Pages of its own; 0 where all of it stands on the task's page.
size_t ranking_page_count(const Site& site, const BoardRanking& ranking);
SitePage ranking_page(const Site& site, size_t task, size_t ranking, size_t page);
size_t list_page_count(const Site& site);
SitePage list_page(const Site& site, size_t page);
SitePage candidate_page(const Site& site, size_t row, const EvalRecord& record, size_t json_bytes);
SitePage about_page(const Site& site);

/// Rows of a ranking's table, [first, last).
std::vector<View> ranking_views(const Site& site, const BoardRanking& ranking, size_t first, size_t last,
                                const std::string& root);
/// "suite standard, against the fastest baseline"; and with the device in front.
std::string ranking_condition(const RankingKey& key);
std::string ranking_title(const RankingKey& key);

}  // namespace stepbench
