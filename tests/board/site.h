// A site in memory, made of records in memory, and what tests ask of every page.
#pragma once

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "harness/stages.h"
#include "scoring/board.h"
#include "tests/board/html.h"

namespace stepbench {

/// As the command makes them of the store's rows; written again here, so that neither is tested against itself.
inline BoardRow row_of(const EvalRecord& record, int64_t sequence) {
  BoardRow row;
  row.sequence = sequence;
  row.id = record.id;
  row.created_utc = record.created_utc;
  row.task = record.task;
  row.task_version = record.task_version;
  row.suite = record.suite;
  row.verdict = record.verdict;
  if (record.failure) {
    row.failed_in = record.failure->check;
    if (!record.failure->case_name.empty()) row.failed_in += " " + record.failure->case_name;
  }
  row.whole = true;
  row.candidate_sha256 = record.candidate.sha256;
  row.path = record.candidate.path;
  if (record.submission) {
    row.author = record.submission->name;
    row.model = record.submission->model;
    row.round = record.submission->round;
  }
  row.device = record.environment.device;
  if (!record.resources.empty()) row.registers = record.resources[0].registers;
  row.modelled_bytes_per_param = record.modelled_bytes_per_param;
  row.ideal_bytes_per_param = record.ideal_bytes_per_param;
  if (!record.timing.empty()) {
    row.baseline = record.timing[0].baseline;
    row.method = record.timing[0].method;
  }
  const Score score = score_of(record);
  if (score.speedup) {
    row.speedup = *score.speedup;
    row.low = *score.low;
    row.high = *score.high;
    row.floor_ratio = score.floor_ratio.value_or(0);
  }
  return row;
}

struct BuiltSite {
  std::map<std::string, std::string> files;
  BoardSummary summary;

  const std::string& at(const std::string& path) const {
    INFO(path);
    REQUIRE(files.count(path) == 1);
    return files.at(path);
  }
};

inline BuiltSite build_site(const std::vector<EvalRecord>& records, BoardOptions options = {}) {
  BuiltSite site;
  BoardInput input;
  std::map<std::string, const EvalRecord*> by_id;
  for (const EvalRecord& record : records) {
    by_id[record.id] = &record;
    input.rows.push_back(row_of(record, static_cast<int64_t>(input.rows.size()) + 1));
  }
  input.load = [&](const std::string& id) -> Result<EvalRecord> { return *by_id.at(id); };
  options.stepbench_version = "0.1.0";
  const Result<BoardSummary> summary =
      render_site(input, options,
                  [&](const std::string& path, std::string_view bytes) -> Result<void> {
                    INFO(path);
                    CHECK(site.files.emplace(path, bytes).second);  // no file twice
                    return {};
                  },
                  {});
  REQUIRE(summary.ok());
  site.summary = summary.value();
  return site;
}

inline bool is_page(const std::string& path) { return path.ends_with(".html"); }

/// The file that a link on the page leads to; and the place in it.
inline std::pair<std::string, std::string> target_of(const std::string& page, std::string href) {
  std::string anchor;
  if (const size_t hash = href.find('#'); hash != std::string::npos) {
    anchor = href.substr(hash + 1);
    href.resize(hash);
  }
  if (href.empty()) return {page, anchor};
  const size_t slash = page.find('/');
  if (slash == std::string::npos) return {href, anchor};
  if (href.starts_with("../")) return {href.substr(3), anchor};
  return {page.substr(0, slash + 1) + href, anchor};
}

/// What holds for every page whatever its records say: strict HTML, no script but the one file, every link leads to a
/// file and a place that exist, and what a screen reader needs.
inline void check_pages(const BuiltSite& site) {
  std::map<std::string, html::Page> pages;
  for (const auto& [path, text] : site.files) {
    if (!is_page(path)) continue;
    INFO(path);
    REQUIRE_NOTHROW(pages[path] = html::read(text));
  }
  for (const auto& [path, page] : pages) {
    INFO(path);
    const std::string root = path.find('/') == std::string::npos ? "" : "../";
    const auto scripts = page.all("script");
    REQUIRE(scripts.size() == 1);
    CHECK(scripts[0]->attributes.at("src") == root + "board.js");
    CHECK(scripts[0]->text.empty());
    CHECK(page.all("style").empty());
    CHECK(page.all("main").size() == 1);
    CHECK(page.all("h1").size() == 1);
    CHECK(page.all("title")[0]->text.size() > 12);
    bool has_policy = false;
    std::set<std::string> ids;
    int level = 1;
    for (const html::Element& element : page.elements) {
      INFO(element.tag << ": " << element.text.substr(0, 80));
      for (const auto& [name, value] : element.attributes) {
        CHECK_FALSE(name.starts_with("on"));
        CHECK(name != "style");
        if (name == "id") CHECK(ids.insert(value).second);
        if (name == "http-equiv") has_policy = value == "Content-Security-Policy";
        if (name == "src") CHECK(element.tag == "script");
      }
      if (element.tag == "a" || element.tag == "link") {
        const auto [file, anchor] = target_of(path, element.attributes.at("href"));
        INFO(element.attributes.at("href"));
        CHECK(site.files.count(file) == 1);
        if (!anchor.empty() && is_page(file)) CHECK(pages.at(file).by_id(anchor) != nullptr);
      }
      if (element.tag.size() == 2 && element.tag[0] == 'h' && element.tag[1] >= '1' && element.tag[1] <= '6') {
        CHECK(element.tag[1] - '0' <= level + 1);
        level = element.tag[1] - '0';
        CHECK_FALSE(element.text.empty());
      }
      if (element.tag == "th") CHECK(element.attributes.count("scope") == 1);
      if (element.tag == "svg" && !element.attributes.count("aria-hidden"))
        CHECK(element.attributes.at("role") == "img");
    }
    CHECK(has_policy);
    CHECK(page.all("table").size() == page.all("caption").size());
  }
}

}  // namespace stepbench
