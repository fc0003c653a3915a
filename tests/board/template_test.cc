// Templates: what is filled in is escaped, what is missing stops the program, and the shipped ones keep the rules that
// the content security policy and screen readers need.
#include "scoring/board_template.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <functional>
#include <regex>
#include <set>

#include "tests/app/program.h"

namespace stepbench {
namespace {

/// Whether this stops the program by an assertion.
bool stops(const std::function<void()>& function) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    for (const int signal : {SIGABRT, SIGSEGV}) std::signal(signal, SIG_DFL);  // not the test program's handlers
    if (!std::freopen("/dev/null", "w", stderr)) ::_exit(2);
    function();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

TEST_CASE("text is escaped, markup is not") {
  const Template page("t", "<p title=\"{{a}}\">{{a}}</p>{{{b}}}");
  CHECK(page.render(View().text("a", "<\"&").markup("b", "<i>x</i>")) ==
        "<p title=\"&lt;&quot;&amp;\">&lt;&quot;&amp;</p><i>x</i>");
}

TEST_CASE("lists, flags and their opposites") {
  const Template page("t", "{{#rows}}[{{n}}{{#last}}!{{/last}}{{outer}}]{{/rows}}{{^rows}}none{{/rows}}");
  const auto row = [](const char* n, bool last) { return View().text("n", n).flag("last", last); };
  CHECK(page.render(View().list("rows", {row("1", false), row("2", true)}).text("outer", "o")) == "[1o][2!o]");
  CHECK(page.render(View().list("rows", {}).text("outer", "o")) == "none");
}

TEST_CASE("what is filled in is never read as a template") {
  const Template page("t", "{{a}}{{#rows}}{{n}}{{/rows}}{{{m}}}");
  const std::string trick = "{{b}}{{{b}}}{{#b}}{{/b}}{{>b}}{{=<% %>=}}";
  const std::string out = page.render(
      View().text("a", trick).list("rows", {View().text("n", trick)}).markup("m", trick).text("b", "WRONG"));
  CHECK(out.find("WRONG") == std::string::npos);
  CHECK(out.find("{{b}}{{{b}}}{{#b}}{{/b}}") == 0);
}

TEST_CASE("mistakes in templates stop the program") {
  const Template page("t", "{{a}}{{{b}}}{{#c}}x{{/c}}");
  const View right = View().text("a", "1").markup("b", "2").flag("c", true);
  CHECK_FALSE(stops([&] { page.render(right); }));
  CHECK(stops([&] { page.render(View().text("a", "1").markup("b", "2")); }));                    // c is missing
  CHECK(stops([&] { page.render(View().text("a", "1").text("b", "2").flag("c", true)); }));      // text as markup
  CHECK(stops([&] { page.render(View().markup("a", "1").markup("b", "2").flag("c", true)); }));  // markup as text
  CHECK(stops([] { Template("t", "{{#a}} never closed"); }));
  CHECK(stops([] { board_asset("no_such_file.html"); }));
}

std::vector<std::filesystem::path> shipped() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(STEPBENCH_TEST_FOLDER).parent_path() / "scoring/board"))
    files.push_back(entry.path());
  return files;
}

TEST_CASE("the program holds the files of scoring/board as they are") {
  size_t count = 0;
  for (const auto& file : shipped()) {
    INFO(file);
    CHECK(board_asset(file.filename().string()) == read_text(file.string()));
    ++count;
  }
  CHECK(count == 9);
}

TEST_CASE("only known places take markup, and no template has a script or a style") {
  const std::set<std::string> known = {"body", "svg", "table", "bar", "share_bar", "source"};
  std::set<std::string> used;
  for (const auto& file : shipped()) {
    if (file.extension() != ".html") continue;
    INFO(file);
    const std::string text = read_text(file.string());
    const std::regex triple("\\{\\{\\{([^}]*)\\}\\}\\}|\\{\\{&");
    for (std::sregex_iterator match(text.begin(), text.end(), triple), end; match != end; ++match)
      used.insert((*match)[1]);
    for (const char* pattern : {"<script(?! src=\"\\{\\{root\\}\\}board\\.js\" defer></script>)", "<style",
                                " style=", " on[a-z]+=", "javascript:", "https?:", "<base", "<iframe", "<object",
                                "<form(?! class=\"filters\")"})
      CHECK_FALSE(std::regex_search(text, std::regex(pattern)));
    // Every attribute's value stands in double quotes, which html_text escapes.
    CHECK_FALSE(std::regex_search(text, std::regex("=\\{\\{|='")));
  }
  CHECK(used == known);
}

TEST_CASE("the script takes no text as markup and calls nothing out") {
  const std::string script(board_asset("board.js"));
  for (const char* word : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval", "Function(",
                           "fetch", "XMLHttpRequest", "WebSocket", "import(", "localStorage", "cookie"}) {
    INFO(word);
    CHECK(script.find(word) == std::string::npos);
  }
  CHECK(script.find("use strict") != std::string::npos);
}

}  // namespace
}  // namespace stepbench
