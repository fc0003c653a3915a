// The board as Markdown, CSV and JSON: read back, the same facts come out, and no text becomes structure.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/board/sample.h"
#include "tests/board/site.h"

namespace stepbench {
namespace {

using namespace std::string_literals;

std::vector<BoardRow> sample_rows() {
  std::vector<BoardRow> rows;
  for (const EvalRecord& record : sample::records())
    rows.push_back(row_of(record, static_cast<int64_t>(rows.size()) + 1));
  return rows;
}

/// Every text of a row is a trick for one of the formats.
std::vector<BoardRow> hostile_rows() {
  std::vector<BoardRow> rows = sample_rows();
  const std::string tricks[] = {"=1+1",          "a,b",     "a\"b",   "a\nb\r\nc", "|",  "\\|x",
                                "<b>x</b>",      "\u202Ex", "-2+3",   "@x",        "",   "`a`",
                                "[a](http://x)", "\0\x01"s, "a\xFF"s, "\tx",       "a;b"};
  size_t next = 0;
  for (BoardRow& row : rows)
    for (std::string* text : {&row.task, &row.suite, &row.device, &row.baseline, &row.method, &row.author, &row.model,
                              &row.path, &row.failed_in, &row.id, &row.candidate_sha256, &row.created_utc})
      *text = tricks[next++ % std::size(tricks)] + fmt::format(" {}", next);
  return rows;
}

/// RFC 4180, strictly: records end with CRLF, quotes are doubled, nothing stands behind a closing quote.
std::vector<std::vector<std::string>> read_csv(const std::string& text) {
  std::vector<std::vector<std::string>> lines(1, std::vector<std::string>(1));
  size_t at = 0;
  const auto next_is = [&](const char* what) { return text.compare(at, std::strlen(what), what) == 0; };
  while (at < text.size()) {
    std::string& field = lines.back().back();
    if (text[at] == '"') {
      REQUIRE(field.empty());
      for (++at;; ++at) {
        REQUIRE(at < text.size());
        if (next_is("\"\"")) {
          ++at;
        } else if (text[at] == '"') {
          break;
        }
        field += text[at];
      }
      ++at;
      REQUIRE((next_is(",") || next_is("\r\n")));
    } else if (text[at] == ',') {
      lines.back().emplace_back();
      ++at;
    } else if (next_is("\r\n")) {
      at += 2;
      if (at < text.size()) lines.emplace_back(1);
    } else {
      REQUIRE(text[at] != '\n');
      REQUIRE(text[at] != '\r');
      field += text[at++];
    }
  }
  return lines;
}

TEST_CASE("CSV reads back") {
  const std::vector<BoardRow> rows = sample_rows();
  const auto lines = read_csv(render_board_csv(rows));
  REQUIRE(lines.size() == 1 + rows.size());  // every record is of another candidate or device
  std::map<std::string, size_t> column;
  for (size_t i = 0; i < lines[0].size(); ++i) column[lines[0][i]] = i;
  CHECK(lines[0].size() == 24);
  std::map<std::string, const BoardRow*> by_id;
  for (const BoardRow& row : rows) by_id[row.id] = &row;
  int ranked = 0;
  for (size_t i = 1; i < lines.size(); ++i) {
    REQUIRE(lines[i].size() == lines[0].size());
    const auto field = [&](const char* name) { return lines[i][column.at(name)]; };
    REQUIRE(by_id.count(field("record")));
    const BoardRow& row = *by_id.at(field("record"));
    CHECK(field("task") == row.task);
    CHECK(field("author") == row.author);
    CHECK(field("verdict") == to_text(row.verdict));
    CHECK(field("failed_in") == row.failed_in);
    CHECK("kernels/" + field("candidate") == row.path);
    if (field("group") != "ranked") {
      CHECK(field("speedup").empty());
      CHECK(field("rank").empty());
      continue;
    }
    ++ranked;
    CHECK(std::stod(field("speedup")) == row.speedup);  // exactly
    CHECK(std::stod(field("speedup_low")) == row.low);
    CHECK(std::stod(field("floor_ratio")) == row.floor_ratio);
  }
  CHECK(ranked == 13);
}

TEST_CASE("no field of CSV is a formula") {
  const auto lines = read_csv(render_board_csv(hostile_rows()));
  REQUIRE(lines.size() > 10);
  const std::set<std::string> numbers = {"speedup", "speedup_low", "speedup_high"};
  for (size_t i = 1; i < lines.size(); ++i) {
    REQUIRE(lines[i].size() == lines[0].size());
    for (size_t column = 0; column < lines[i].size(); ++column) {
      const std::string& field = lines[i][column];
      INFO(lines[0][column] << ": " << field);
      if (!field.empty()) CHECK(std::string("=+-@\t\r\n").find(field[0]) == std::string::npos);
      for (const char c : field) CHECK((static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t'));
    }
  }
}

TEST_CASE("JSON reads back") {
  const std::vector<BoardRow> rows = sample_rows();
  const nlohmann::json board = nlohmann::json::parse(render_board_json(rows));
  CHECK(board["board_version"] == 1);
  CHECK(board["score_version"] == kScoreVersion);
  CHECK(board["records"] == rows.size());
  REQUIRE(board["tasks"].size() == 3);
  const nlohmann::json& adamw = board["tasks"][0];
  CHECK(adamw["task"] == "adamw");
  REQUIRE(adamw["rankings"].size() == 2);
  const nlohmann::json& best = adamw["rankings"][0]["entries"][0];
  CHECK(best["rank"] == 1);
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const BoardRow& r) { return r.id == best["record"]; });
  REQUIRE(row != rows.end());
  CHECK(best["speedup"].get<double>() == row->speedup);
  CHECK(best["author"] == row->author);
  for (const nlohmann::json& failed : adamw["failed"]) CHECK(failed["speedup"].is_null());
  CHECK(adamw["untimed"].size() == 1);
  CHECK(nlohmann::json::parse(render_board_json(hostile_rows()))["records"] == rows.size());
  CHECK(nlohmann::json::parse(render_board_json({}))["tasks"].empty());
}

TEST_CASE("numbers of JSON that are none are null") {
  std::vector<BoardRow> rows = sample_rows();
  rows[0].modelled_bytes_per_param = std::numeric_limits<double>::quiet_NaN();
  rows[1].floor_ratio = std::numeric_limits<double>::infinity();
  CHECK_NOTHROW(nlohmann::json::parse(render_board_json(rows)));
}

TEST_CASE("tables of Markdown keep their columns") {
  for (const std::vector<BoardRow>& rows : {sample_rows(), hostile_rows()}) {
    std::stringstream lines(render_board_markdown(rows));
    std::string line;
    size_t columns = 0, tables = 0;
    while (std::getline(lines, line)) {
      INFO(line);
      CHECK(line.find('<') == std::string::npos);
      if (line.empty() || line[0] != '|') {
        columns = 0;
        continue;
      }
      size_t bars = 0;
      for (size_t i = 0; i < line.size(); ++i) {
        if (line[i] == '\\')
          ++i;
        else if (line[i] == '|')
          ++bars;
      }
      if (columns == 0) {
        columns = bars;
        ++tables;
      }
      CHECK(bars == columns);
    }
    CHECK(tables >= 5);
  }
  const std::string text = render_board_markdown(sample_rows());
  CHECK(text.find("| 1 | ana\\_vec8.cu | ana | 1.161×") != std::string::npos);
  CHECK(render_board_markdown({}).find("There are no records yet.") != std::string::npos);
}

}  // namespace
}  // namespace stepbench
