// Files that are no candidates, and odd ones that are: what the program says of each before any plan is read.
#include <sys/stat.h>
#include <unistd.h>

#include "tests/bad_input/support.h"

namespace stepbench::bad_input {
namespace {

TEST_CASE("files that cannot be read as a candidate") {
  const Workplace workplace;
  const std::string good = right_candidate();
  const size_t free_line = good.find("// here");
  workplace.write("empty.cu", "");
  workplace.write("blank.cu", " \r\n\t\n");
  workplace.write("large.cu", std::string(10 << 20, ' '));
  workplace.write("bytes.cu", edited(good, {{"// here", "// \xC3\x28"}}));
  workplace.write("cut.cu", good + "// \xE2\x82");
  workplace.write("surrogate.cu", "// \xED\xA0\x80\n" + good);
  workplace.write("nul.cu", edited(good, {{"// here", std::string("// \0x", 5)}}));
  std::filesystem::create_directory(workplace.file("folder.cu"));
  std::filesystem::create_symlink("loop.cu", workplace.file("loop.cu"));
  std::filesystem::create_symlink("nowhere.cu", workplace.file("dangling.cu"));
  REQUIRE(::mkfifo(workplace.file("pipe.cu").c_str(), 0600) == 0);
  workplace.write("plain.cu", good);
  workplace.write("secret.cu", good);
  REQUIRE(::chmod(workplace.file("secret.cu").c_str(), 0) == 0);

  const struct {
    const char* name;
    std::string file;
    std::vector<std::string> says;
  } rows[] = {
      {"missing", workplace.file("missing.cu"), {"missing.cu", "no such file"}},
      {"missing folder", workplace.file("missing/a.cu"), {"missing/a.cu", "no such file"}},
      {"below a file", workplace.file("plain.cu/a.cu"), {"plain.cu/a.cu", "no such file"}},
      {"name too long", workplace.file(std::string(300, 'x') + ".cu"), {"xxx.cu", "name too long"}},
      {"empty name", "", {"no such file", "\"\""}},
      {"standard input", "-", {"-: ", "no such file", "standard input is not read"}},
      {"directory", workplace.file("folder.cu"), {"folder.cu", "expected a source file", "found a directory"}},
      {"empty", workplace.file("empty.cu"), {"empty.cu", "empty"}},
      {"white space", workplace.file("blank.cu"), {"blank.cu", "empty"}},
      {"10 MB", workplace.file("large.cu"), {"large.cu", "1 MiB", "found 10485760 bytes"}},
      {"not UTF-8",
       workplace.file("bytes.cu"),
       {"bytes.cu:20: ", "not UTF-8", "byte " + std::to_string(free_line + 3), "found 0xC3"}},
      {"UTF-8 cut off at the end",
       workplace.file("cut.cu"),
       {"cut.cu:29: ", "not UTF-8", "byte " + std::to_string(good.size() + 3), "found 0xE2"}},
      {"UTF-8 of a surrogate", workplace.file("surrogate.cu"), {"surrogate.cu:1: ", "byte 3 ", "found 0xED"}},
      {"NUL byte", workplace.file("nul.cu"), {"nul.cu:20: ", "NUL", "byte " + std::to_string(free_line + 3)}},
      {"symbolic link to itself", workplace.file("loop.cu"), {"loop.cu", "symbolic links"}},
      {"symbolic link to nothing", workplace.file("dangling.cu"), {"dangling.cu", "no such file"}},
      {"named pipe", workplace.file("pipe.cu"), {"pipe.cu", "expected a source file", "found a named pipe"}},
      {"/dev/null", "/dev/null", {"/dev/null", "expected a source file", "found a device"}},
      {"/dev/zero", "/dev/zero", {"/dev/zero", "expected a source file", "found a device"}},
      {"terminal", "/dev/tty", {"/dev/tty"}},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    check_error(workplace, {"eval", row.file}, 2, row.says);
    // `--json -` promises JSON on standard output and must not be given anything else.
  }
  if (::geteuid() != 0) {  // nothing is secret from root
    INFO("unreadable");
    check_error(workplace, {"eval", workplace.file("secret.cu")}, 2, {"secret.cu", "ermission denied"});
  }
}

TEST_CASE("odd files that are candidates") {
  const Workplace workplace;
  const std::string good = right_candidate();
  std::string dos = good;
  for (size_t at = dos.find('\n'); at != std::string::npos; at = dos.find('\n', at + 2)) dos.replace(at, 1, "\r\n");
  std::string lines;
  for (int i = 0; i < 100'000; ++i) lines += "// line\n";
  std::filesystem::create_directory(workplace.file("a folder, \xC3\xA4\xE6\x97\xA5 'x' $HOME"));
  workplace.write("target.cu", good);
  std::filesystem::create_symlink("target.cu", workplace.file("link.cu"));

  const struct {
    const char* name;
    const char* file;
    std::string text;
    std::vector<std::string> more;
  } rows[] = {
      {"unedited", "good.cu", good, {}},
      {"no plan, one kernel", "bare.cu", good.substr(good.find("#include")), {"--task", "adamw"}},
      {"CRLF", "dos.cu", dos, {}},
      {"byte order mark", "mark.cu", "\xEF\xBB\xBF" + good, {}},
      {"byte order mark and CRLF", "both.cu", "\xEF\xBB\xBF" + dos, {}},
      {"100,000 lines", "lines.cu", edited(good, {{"// here\n", lines}}), {}},
      {"a line of 900,000 characters", "long.cu", edited(good, {{"// here", "// " + std::string(900'000, 'x')}}), {}},
      {"spaces, quotes and unicode in the path",
       "a folder, \xC3\xA4\xE6\x97\xA5 'x' $HOME/my \"best\" k\xC3\xB6rnel.cu",
       good,
       {}},
      {"no suffix", "kernel", good, {}},
      {"symbolic link", "link.cu", good, {}},
      {"unicode in comments", "text.cu", edited(good, {{"// here", "// \xE2\x82\xAC \xF0\x9F\x98\x80"}}), {}},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    std::vector<std::string> arguments = {workplace.write(row.file, row.text)};
    arguments.insert(arguments.end(), row.more.begin(), row.more.end());
    check_passes(workplace, arguments);
  }

  // Places are still the author's in what the compiler and the virtual machine say.
  const struct {
    const char* name;
    const char* file;
    std::string text;
    const char* verdict;
    const char* place;
  } wrong[] = {
      {"CRLF, plan", "plan.cu", edited(dos, {{"\"grid\"", "\"gird\""}}), "bad_candidate", "plan.cu: /launches/0/gird"},
      {"CRLF, JSON", "json.cu", edited(dos, {{"\"note\":", "\"note\""}}), "bad_candidate", "json.cu:3:10"},
      {"CRLF, compiler", "compiler.cu", edited(dos, {{"// here", "bad;"}}), "compile_error", "compiler.cu:20"},
      {"CRLF, fault", "fault.cu", edited(dos, {{"// here", "grad[i + n];"}, {"param[i] = p", "param[i + n] = p"}}),
       "out_of_bounds", "fault.cu:27"},
      {"byte order mark", "mark2.cu", "\xEF\xBB\xBF" + edited(good, {{"// here", "bad;"}}), "compile_error",
       "mark2.cu:20"},
      {"unicode in the path", "k\xC3\xB6rnel \"1\".cu", edited(good, {{"// here", "bad;"}}), "compile_error", ".cu:20"},
      {"100,001 lines", "lines2.cu", edited(good, {{"// here\n", lines + "bad;\n"}}), "compile_error",
       "lines2.cu:100020"},
  };
  for (const auto& row : wrong) {
    INFO(row.name);
    check_verdict(workplace, {workplace.write(row.file, row.text)}, row.verdict, row.place, {});
  }
}

TEST_CASE("several files: a bad one does not keep a good one from its verdict") {
  const Workplace workplace;
  const std::string good = workplace.write("good.cu", right_candidate());
  const std::string bad = workplace.write("bad.cu", edited(right_candidate(), {{"+ hyper->eps", "+ 1.0f"}}));
  const std::string wrong_plan = workplace.write("plan.cu", edited(right_candidate(), {{"\"grid\"", "\"gird\""}}));
  const std::string missing = workplace.file("missing.cu");
  const struct {
    const char* name;
    std::vector<std::string> files;
    int exit_code;
    size_t errors;
    std::vector<std::string> verdicts;
  } rows[] = {
      {"bad, good", {bad, good}, 1, 0, {"wrong_result", "passed"}},
      {"missing, good", {missing, good}, 2, 1, {"passed"}},
      {"wrong plan, good, directory", {wrong_plan, good, workplace.file("")}, 2, 1, {"bad_candidate", "passed"}},
      {"good twice", {good, good}, 0, 0, {"passed", "passed"}},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    std::vector<std::string> arguments = {"eval", "--quiet", "--json", "-", "--only", kOneCase};
    arguments.insert(arguments.end(), row.files.begin(), row.files.end());
    const ChildResult result = workplace.run(arguments);
    INFO(result.err);
    CHECK(result.exit_code == row.exit_code);
    CHECK(count_of(result.err, "stepbench: ") == row.errors);
    std::vector<std::string> verdicts;  // in the order of the files
    for (size_t at = 0;;) {
      at = result.out.find("\n \"verdict\": \"", at);
      if (at == std::string::npos) break;
      at += 14;
      verdicts.push_back(result.out.substr(at, result.out.find('"', at) - at));
    }
    CHECK(verdicts == row.verdicts);
  }
}

}  // namespace
}  // namespace stepbench::bad_input
