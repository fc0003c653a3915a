// The standings as Markdown, CSV and JSON: one line or object per candidate and ranking, and those that take no rank.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/stages.h"
#include "scoring/board.h"
#include "scoring/board_findings.h"
#include "scoring/board_text.h"
#include "scoring/board_units.h"
#include "scoring/score.h"

namespace stepbench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kBoardVersion = 1;  // of the JSON form

std::string name_of(const BoardRow& row) { return std::string(base_name(row.path)); }

/// What a candidate without a rank is called in the formats: the member of BoardTask that it stands in.
struct Unranked {
  const char* group;
  const std::vector<size_t>& rows;
};

std::vector<Unranked> unranked_of(const BoardTask& task) {
  return {{"untimed", task.untimed}, {"failed", task.failed}, {"unjudged", task.unjudged}};
}

// ---------------------------------------------------------------------------------------------- Markdown

std::string markdown_line(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += " " + cell + " |";
  return line + "\n";
}

std::string author_cell(const BoardRow& row) {
  std::string text = row.author;
  if (!row.model.empty()) text += (text.empty() ? "" : ", ") + row.model;
  return markdown_cell(shortened(text, 60));
}

std::string markdown_ranking(const std::vector<BoardRow>& rows, const BoardRanking& ranking) {
  const std::string baseline =
      ranking.key.baseline.empty() ? "the fastest baseline" : markdown_cell(shortened(ranking.key.baseline, 60));
  std::string text = fmt::format("\n### {}, suite {}, against {}\n\n", markdown_cell(shortened(ranking.key.device, 60)),
                                 markdown_cell(shortened(ranking.key.suite, 30)), baseline);
  text += markdown_line({"Rank", "Candidate", "Author", "Speedup", "95 % interval", "Share of the floor", "Record"});
  text += markdown_line({"---:", "---", "---", "---:", "---", "---:", "---"});
  for (const BoardEntry& entry : ranking.entries) {
    const BoardRow& row = rows[entry.row];
    text += markdown_line(
        {fmt::format("{}", entry.rank), markdown_cell(shortened(name_of(row), 60)), author_cell(row),
         speedup_text(row.speedup), fmt::format("{} – {}", speedup_text(row.low), speedup_text(row.high)),
         row.floor_ratio > 0 ? percent_text(row.floor_ratio) : "–", markdown_cell(shortened(row.id, 40))});
  }
  return text;
}

std::string markdown_unranked(const std::vector<BoardRow>& rows, const BoardTask& task) {
  if (task.untimed.empty() && task.failed.empty() && task.unjudged.empty()) return "";
  std::string text = "\n### Without a rank\n\n";
  text += markdown_line({"Candidate", "Author", "Verdict", "Failed in", "Device", "Record"});
  text += markdown_line({"---", "---", "---", "---", "---", "---"});
  for (const Unranked& group : unranked_of(task)) {
    for (const size_t index : group.rows) {
      const BoardRow& row = rows[index];
      const bool passed = row.verdict == Verdict::kPassed;
      text += markdown_line({markdown_cell(shortened(name_of(row), 60)), author_cell(row),
                             markdown_cell(to_text(row.verdict)) + (passed ? ", not timed" : ""),
                             markdown_cell(shortened(row.failed_in, 80)), markdown_cell(shortened(row.device, 60)),
                             markdown_cell(shortened(row.id, 40))});
    }
  }
  return text;
}

// ---------------------------------------------------------------------------------------------- CSV

/// Shortest text that reads back as the same number; empty for 0, which stands for "unknown" here.
std::string csv_number(double value) { return value == 0 || !std::isfinite(value) ? "" : fmt::format("{}", value); }

std::string csv_line(const BoardTask& task, const BoardRow& row, const std::string& group, const std::string& rank) {
  const bool scored = row.speedup > 0 && row.verdict == Verdict::kPassed;
  const std::string cells[] = {csv_field(task.task),
                               fmt::format("{}", row.task_version),
                               csv_field(row.device),
                               csv_field(row.suite),
                               csv_field(row.baseline),
                               csv_field(row.method),
                               group,
                               rank,
                               csv_field(name_of(row)),
                               csv_field(row.author),
                               csv_field(row.model),
                               row.round > 0 ? fmt::format("{}", row.round) : "",
                               std::string(to_text(row.verdict)),
                               csv_field(row.failed_in),
                               scored ? csv_number(row.speedup) : "",
                               scored ? csv_number(row.low) : "",
                               scored ? csv_number(row.high) : "",
                               scored ? csv_number(row.floor_ratio) : "",
                               row.registers >= 0 ? fmt::format("{}", row.registers) : "",
                               csv_number(row.modelled_bytes_per_param),
                               csv_number(row.ideal_bytes_per_param),
                               csv_field(row.candidate_sha256),
                               csv_field(row.id),
                               csv_field(row.created_utc)};
  std::string line;
  for (const std::string& cell : cells) line += (&cell == cells ? "" : ",") + cell;
  return line + "\r\n";
}

// ---------------------------------------------------------------------------------------------- JSON

Json json_row(const BoardRow& row) {
  Json json;
  json["candidate"] = name_of(row);
  json["candidate_sha256"] = row.candidate_sha256;
  json["author"] = row.author;
  json["model"] = row.model;
  json["round"] = row.round;
  json["device"] = row.device;
  json["suite"] = row.suite;
  json["verdict"] = to_text(row.verdict);
  json["failed_in"] = row.failed_in;
  json["record"] = row.id;
  json["created_utc"] = row.created_utc;
  const auto number = [](double value, bool known) { return known && std::isfinite(value) ? Json(value) : Json(); };
  const bool scored = row.speedup > 0 && row.verdict == Verdict::kPassed;
  json["speedup"] = number(row.speedup, scored);
  json["speedup_low"] = number(row.low, scored);
  json["speedup_high"] = number(row.high, scored);
  json["floor_ratio"] = number(row.floor_ratio, scored && row.floor_ratio > 0);
  json["registers"] = row.registers >= 0 ? Json(row.registers) : Json();
  json["modelled_bytes_per_param"] = number(row.modelled_bytes_per_param, row.modelled_bytes_per_param > 0);
  json["ideal_bytes_per_param"] = number(row.ideal_bytes_per_param, row.ideal_bytes_per_param > 0);
  return json;
}

Json json_ranking(const std::vector<BoardRow>& rows, const BoardRanking& ranking) {
  Json json;
  json["device"] = ranking.key.device;
  json["suite"] = ranking.key.suite;
  json["baseline"] = ranking.key.baseline.empty() ? "fastest" : ranking.key.baseline;
  json["method"] = ranking.key.method;
  json["entries"] = Json::array();
  for (const BoardEntry& entry : ranking.entries) {
    Json item;
    item["rank"] = entry.rank;
    item["first_utc"] = entry.first_utc;
    item.update(json_row(rows[entry.row]));
    json["entries"].push_back(std::move(item));
  }
  return json;
}

}  // namespace

std::string render_board_markdown(const std::vector<BoardRow>& rows) {
  std::string text = "# StepBench board\n";
  if (rows.empty()) return text + "\nThere are no records yet.\n";
  for (const BoardTask& task : make_standings(rows)) {
    text += fmt::format("\n## {}\n\nVersion {}, {}.\n",
                        task.task.empty() ? "(no task)" : markdown_cell(shortened(task.task, 60)), task.version,
                        number_of(task.records, "record"));
    for (const BoardRanking& ranking : task.rankings) text += markdown_ranking(rows, ranking);
    text += markdown_unranked(rows, task);
  }
  return text;
}

std::string render_board_csv(const std::vector<BoardRow>& rows) {
  std::string text =
      "task,task_version,device,suite,baseline,method,group,rank,candidate,author,model,round,verdict,failed_in,"
      "speedup,speedup_low,speedup_high,floor_ratio,registers,modelled_bytes_per_param,ideal_bytes_per_param,"
      "candidate_sha256,record,created_utc\r\n";
  for (const BoardTask& task : make_standings(rows)) {
    for (const BoardRanking& ranking : task.rankings)
      for (const BoardEntry& entry : ranking.entries)
        text += csv_line(task, rows[entry.row], "ranked", fmt::format("{}", entry.rank));
    for (const Unranked& group : unranked_of(task))
      for (const size_t row : group.rows) text += csv_line(task, rows[row], group.group, "");
  }
  return text;
}

std::string render_board_json(const std::vector<BoardRow>& rows) {
  Json board;
  board["board_version"] = kBoardVersion;
  board["score_version"] = kScoreVersion;
  board["records"] = rows.size();
  board["tasks"] = Json::array();
  for (const BoardTask& task : make_standings(rows)) {
    Json json;
    json["task"] = task.task;
    json["task_version"] = task.version;
    json["records"] = task.records;
    json["older_records"] = task.older_records;
    json["rankings"] = Json::array();
    for (const BoardRanking& ranking : task.rankings) json["rankings"].push_back(json_ranking(rows, ranking));
    for (const Unranked& group : unranked_of(task)) {
      json[group.group] = Json::array();
      for (const size_t row : group.rows) json[group.group].push_back(json_row(rows[row]));
    }
    board["tasks"].push_back(std::move(json));
  }
  return board.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace stepbench
