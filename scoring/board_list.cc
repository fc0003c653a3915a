// All records, newest first, in pages; and the page that explains the board.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "harness/stages.h"
#include "scoring/board_site.h"
#include "scoring/board_text.h"
#include "scoring/board_units.h"

namespace stepbench {

size_t list_page_count(const Site& site) {
  return std::max<size_t>(1, (site.input.rows.size() + site.options.list_rows - 1) / site.options.list_rows);
}

SitePage list_page(const Site& site, size_t page) {
  const std::string path = list_path(page);
  const size_t first = (page - 1) * site.options.list_rows;
  const size_t last = std::min(site.newest_first.size(), first + site.options.list_rows);
  std::vector<View> rows, verdicts;
  std::set<Verdict> present;
  for (size_t i = first; i < last; ++i) {
    rows.push_back(record_view(site, site.newest_first[i], ""));
    present.insert(site.row(site.newest_first[i]).verdict);
  }
  for (const Verdict verdict : present) verdicts.push_back(View().text("value", std::string(to_text(verdict))));
  const size_t count = list_page_count(site);
  const std::string title = count == 1 ? "All records" : fmt::format("All records, page {} of {}", page, count);
  View view;
  view.text("root", "")
      .flag("has_task", false)
      .text("crumb", "all records")
      .text("title", title)
      .text("lede", site.newest_first.empty() ? "There are none."
                                              : fmt::format("Records {} to {} of {}.", first + 1, last,
                                                            count_text(static_cast<int64_t>(site.newest_first.size()))))
      .flag("ranking", false)
      .flag("records", !rows.empty())
      .list("verdict_options", std::move(verdicts))
      .list("rows", std::move(rows))
      .flag("has_pages", count > 1)
      .list("pages", page_links(count, page, path, list_path));
  return {path, finish_page(site, path, title, site.templates.list.render(view))};
}

SitePage about_page(const Site& site) {
  std::array<int64_t, kVerdictCount> counts{};
  for (const BoardRow& row : site.input.rows) ++counts[static_cast<size_t>(row.verdict)];
  std::vector<View> verdicts;
  for (int i = 0; i < kVerdictCount; ++i) {
    const auto verdict = static_cast<Verdict>(i);
    verdicts.push_back(View()
                           .text("verdict", std::string(to_text(verdict)))
                           .text("class", verdict_class(verdict))
                           .text("meaning", verdict_meaning(verdict))
                           .text("count", count_text(counts[static_cast<size_t>(i)])));
  }
  View view;
  view.text(
          "pages_rule",
          fmt::format("Every record stands in the list “All records”. A page of its own, with source, curves and "
                      "samples, have the {} best of each ranking, those that were the best when they came, and the {} "
                      "newest of each task.",
                      site.options.pages, site.options.pages))
      .list("verdicts", std::move(verdicts));
  return {"about.html", finish_page(site, "about.html", "How to read", site.templates.about.render(view))};
}

}  // namespace stepbench
