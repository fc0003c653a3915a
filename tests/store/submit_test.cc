// `submit`, `store` and `replay --store` as programs: what is kept, what is not done twice, what the exit codes are.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>

#include "harness/candidate_files.h"
#include "harness/record.h"
#include "harness/record_folder.h"
#include "harness/stages.h"
#include "tests/store/support.h"

namespace stepbench {
namespace {

/// A plan that launches a kernel over a buffer that does not exist: judged at once, and without a compiler.
std::string bad_candidate(const std::string& mark) {
  return "/*stepbench\n{ \"task\": \"adamw\", \"note\": \"" + mark +
         "\",\n  \"launches\": [{\"for\": \"tensor\", \"kernel\": \"k\", \"grid\": \"1\", \"block\": \"32\", \"args\": "
         "[\"nothing\"]}] }\n*/\nextern \"C\" __global__ void k(float* p) {}\n";
}

std::string default_store(const TemporaryFolder& folder) { return folder.path("home/.local/share/stepbench/store.db"); }

ChildResult submit(const TemporaryFolder& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "submit");
  return run_program(folder, arguments);
}

std::vector<StoreRow> stored(const std::string& path) { return rows_of(*open_or_fail(path, StoreMode::kRead)); }

TEST_CASE("submit keeps each record under its name, and does not do again what is there") {
  const TemporaryFolder folder;
  const std::string a = folder.write("a.cu", bad_candidate("a")), b = folder.write("b.cu", bad_candidate("b"));
  const std::string broken = folder.write("broken.cu", "/*stepbench\n{ \"task\": \n*/\n");
  const std::string store = default_store(folder);
  const ChildResult first = submit(folder, {a, b, broken, folder.path("missing.cu"), "--as", "ada", "--salt", "2a"});
  INFO(first.out << first.err);
  CHECK(first.exit_code == 2);  // of a failed candidate and a missing file the higher one
  CHECK_THAT(first.out, Catch::Contains("[1/4] " + a) && Catch::Contains("[3/4] " + broken));
  CHECK_THAT(first.out, Catch::Contains("3 new, 0 finished before; 0 passed, 3 failed, 1 not read; store " + store));
  CHECK_THAT(first.err, Catch::Contains("missing.cu"));
  REQUIRE(stored(store).size() == 3);
  for (const StoreRow& row : stored(store)) {
    CHECK(row.submission == "ada");
    CHECK(row.model.empty());
    CHECK(row.suite == "standard");
    CHECK(row.verdict == Verdict::kBadCandidate);
    CHECK(row.salt == "000000000000002a");
  }
  const struct {
    const char* name;
    std::vector<std::string> arguments;
    int64_t added;
  } rows[] = {
      {"the same again", {a, b, broken, "--as", "ada", "--salt", "2a"}, 0},
      {"any salt", {a, b, broken, "--as", "ada"}, 0},
      {"another salt", {a, "--as", "ada", "--salt", "2b"}, 1},
      {"that salt again", {a, "--as", "ada", "--salt", "2b"}, 0},
      {"another name", {a, b, "--as", "bo"}, 2},
      {"a model", {a, "--as", "ada", "--model", "m1"}, 1},
      {"a round", {a, "--as", "ada", "--model", "m1", "--round", "2"}, 1},
      {"that round again", {a, "--as", "ada", "--model", "m1", "--round", "2", "--note", "other"}, 0},
      {"another suite", {a, "--as", "ada", "--suite", "smoke"}, 1},
      {"by force", {a, "--as", "ada", "--again"}, 1},
      {"the same text elsewhere", {folder.write("c.cu", bad_candidate("a")), "--as", "ada"}, 0},
      {"a changed text", {folder.write("a2.cu", bad_candidate("a2")), "--as", "ada"}, 1},
      {"twice in one run",
       {folder.write("d.cu", bad_candidate("d")), folder.write("e.cu", bad_candidate("d")), "--as", "ada"},
       1},
  };
  size_t count = 3;
  for (const auto& row : rows) {
    INFO(row.name);
    const ChildResult again = submit(folder, row.arguments);
    INFO(again.out << again.err);
    CHECK(again.exit_code == 1);
    count += static_cast<size_t>(row.added);
    CHECK(stored(store).size() == count);
    CHECK_THAT(again.out, Catch::Contains(fmt::format("{} new", row.added)));
    if (row.added == 0) CHECK_THAT(again.out, Catch::Contains("finished before, record "));
  }
  CHECK(problems_text(verify_or_fail(store)).empty());
}

TEST_CASE("who made it, with what effort") {
  const TemporaryFolder folder;
  const std::string a = folder.write("a.cu", bad_candidate("a")), store = folder.path("x/mine.db");
  const ChildResult done =
      submit(folder, {a, "--as", "b\xC3\xB6t", "--model", "m 1", "--note", "tries \"again\"", "--round", "7",
                      "--tokens-prompt", "5200", "--tokens-completion", "900", "--cost", "0.125", "--store", store});
  INFO(done.out << done.err);
  CHECK(done.exit_code == 1);
  const StorePtr opened = open_or_fail(store, StoreMode::kRead);
  const std::vector<StoreRow> rows = rows_of(*opened);
  REQUIRE(rows.size() == 1);
  const Result<EvalRecord> record = load_record(*opened, rows[0].id);
  REQUIRE(record.ok());
  REQUIRE(record.value().submission);
  const Submission& made = *record.value().submission;
  CHECK(made.name == "b\xC3\xB6t");
  CHECK(made.model == "m 1");
  CHECK(made.note == "tries \"again\"");
  CHECK(made.round == 7);
  CHECK(made.prompt_tokens == 5200);
  CHECK(made.completion_tokens == 900);
  CHECK(made.cost_usd == 0.125);
  // The command that is printed finds the record; the one that is kept names no place of this machine.
  CHECK_THAT(done.out, Catch::Contains("stepbench replay " + rows[0].id + " --store " + store));
  CHECK(record.value().replay_command == "stepbench replay " + rows[0].id);
  CHECK_FALSE(std::filesystem::exists(default_store(folder)));
}

TEST_CASE("wrong usage of submit changes nothing") {
  const TemporaryFolder folder;
  const std::string a = folder.write("a.cu", bad_candidate("a")), b = folder.write("b.cu", bad_candidate("b"));
  std::filesystem::create_directory(folder.path("none"));
  const struct {
    const char* name;
    std::vector<std::string> arguments;
    const char* says;
  } rows[] = {
      {"no name", {a}, "--as"},
      {"empty name", {a, "--as", ""}, "--as"},
      {"two lines", {a, "--as", "x\ny"}, "not a name"},
      {"spaces around", {a, "--as", " x"}, "not a name"},
      {"escape sequence", {a, "--as", "x\033[31m"}, "not a name"},
      {"too long", {a, "--as", std::string(101, 'x')}, "not a name"},
      {"not UTF-8", {a, "--as", "x\xff"}, "not a name"},
      {"model of two lines", {a, "--as", "x", "--model", "a\nb"}, "--model"},
      {"round 0", {a, "--as", "x", "--round", "0"}, "--round"},
      {"negative tokens", {a, "--as", "x", "--tokens-prompt", "-1"}, "--tokens-prompt"},
      {"cost that is no number", {a, "--as", "x", "--cost", "nan"}, "--cost"},
      {"tokens of two", {a, b, "--as", "x", "--tokens-prompt", "5"}, "those of one candidate"},
      {"unknown suite", {a, "--as", "x", "--suite", "scored"}, "unknown suite"},
      {"unknown task", {a, "--as", "x", "--task", "nothing"}, "nothing"},
      {"empty folder", {folder.path("none"), "--as", "x"}, "no candidates in this folder"},
      {"pattern without matches", {folder.path("q*.cu"), "--as", "x"}, "nothing matches"},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    const ChildResult refused = submit(folder, row.arguments);
    INFO(refused.out << refused.err);
    CHECK(refused.exit_code == 2);
    CHECK_THAT(refused.err, Catch::Contains(row.says));
    CHECK_FALSE(std::filesystem::exists(default_store(folder)));
  }
}

TEST_CASE("folders, patterns and files") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path("k/deep/.hidden"));
  for (const char* name :
       {"k/b.cu", "k/a.cu", "k/deep/c.ptx", "k/deep/.hidden/d.cu", "k/.e.cu", "k/notes.txt", "k/[x].cu"})
    folder.write(name, "x");
  const auto names = [&](const std::vector<std::string>& paths) {
    std::vector<std::string> full;
    for (const std::string& path : paths) full.push_back(folder.path(path));
    const Result<std::vector<std::string>> files = candidate_files(full);
    std::string text;
    if (!files.ok()) return to_text(files.error());
    for (const std::string& file : files.value())
      text += fmt::format("{}{}", text.empty() ? "" : " ", file.substr(folder.path("").size()));
    return text;
  };
  CHECK(names({"k"}) == "k/[x].cu k/a.cu k/b.cu k/deep/c.ptx");
  CHECK(names({"k/b.cu", "k/a.cu", "k/b.cu"}) == "k/b.cu k/a.cu");
  CHECK(names({"k/?.cu"}) == "k/a.cu k/b.cu");
  CHECK(names({"k/b.cu", "k/*"}) == "k/b.cu k/[x].cu k/a.cu k/deep/c.ptx k/notes.txt");
  CHECK(names({"k/[x].cu"}) == "k/[x].cu");  // there is a file of this name
  CHECK(names({"missing.cu"}) == "missing.cu");
  CHECK_THAT(names({"z*"}), Catch::Contains("nothing matches"));
}

TEST_CASE("a record that the store does not take is kept in the folder of records") {
  const TemporaryFolder folder;
  const std::string store = folder.path("s.db"), a = folder.write("a.cu", bad_candidate("a"));
  fill(store, 1);
  {
    Sql(store).run(
        "DROP TRIGGER state_follows; CREATE TRIGGER state_follows BEFORE INSERT ON facts BEGIN SELECT "
        "RAISE(ABORT, 'no more'); END");
  }
  const ChildResult done = submit(folder, {a, "--as", "ada", "--store", store});
  INFO(done.out << done.err);
  CHECK(done.exit_code == 2);
  CHECK_THAT(done.err, Catch::Contains("no more") && Catch::Contains("`stepbench store import` takes it from there"));
  CHECK(stored(store).size() == 1);
  const ChildResult imported =
      run_program(folder, {"store", "import", folder.path("records"), "--store", folder.path("t.db")});
  INFO(imported.out << imported.err);
  CHECK(imported.exit_code == 0);
  const std::vector<StoreRow> rows = stored(folder.path("t.db"));
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].submission == "ada");
}

/// Starts the program with its standard output on a pipe, which is given back.
pid_t start_submit(const TemporaryFolder& folder, const std::vector<std::string>& arguments, int& output) {
  std::vector<std::string> words = {STEPBENCH_BINARY, "submit"}, environment = program_environment(folder);
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& entry : environment) envp.push_back(entry.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    if (::dup2(ends[1], STDOUT_FILENO) < 0) ::_exit(126);
    ::close(ends[0]);
    ::close(ends[1]);
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  output = ends[0];
  return pid;
}

TEST_CASE("a killed run loses nothing that was finished, and the next one does the rest") {
  if (!find_compiler().ok()) {
    WARN("not run: no compiler");
    return;
  }
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path("k"));
  constexpr size_t kFiles = 8;
  for (size_t i = 0; i < kFiles; ++i)
    folder.write(fmt::format("k/{}.cu", i), adamw_candidate(fmt::format("if (n > 0) return;  // item {}", i)));
  const std::vector<std::string> arguments = {folder.path("k"), "--as", "ada", "--suite", "smoke", "--jobs", "2"};
  int output = -1;
  const pid_t program = start_submit(folder, arguments, output);
  std::string text;
  char block[256];
  // Killed when three have been told, with others in work.
  while (std::count(text.begin(), text.end(), '\n') < 3) {
    const ssize_t count = ::read(output, block, sizeof(block));
    REQUIRE(count > 0);
    text.append(block, static_cast<size_t>(count));
  }
  REQUIRE(::kill(program, SIGKILL) == 0);
  int status = 0;
  REQUIRE(::waitpid(program, &status, 0) == program);
  for (ssize_t count = 0; (count = ::read(output, block, sizeof(block))) > 0;)
    text.append(block, static_cast<size_t>(count));
  ::close(output);

  std::map<std::string, std::string> before;  // candidate -> record
  for (const StoreRow& row : stored(default_store(folder))) before[row.candidate_sha256] = row.id;
  CHECK(before.size() >= 3);
  CHECK(before.size() <= kFiles);
  const ChildResult rest = submit(folder, {folder.path("k"), "--as", "ada", "--suite", "smoke"});
  INFO(text << rest.out << rest.err);
  CHECK(rest.exit_code == 1);
  CHECK_THAT(rest.out,
             Catch::Contains(fmt::format("{} new, {} finished before", kFiles - before.size(), before.size())));
  const std::vector<StoreRow> rows = stored(default_store(folder));
  CHECK(rows.size() == kFiles);
  std::map<std::string, std::string> after;
  for (const StoreRow& row : rows) {
    CHECK(row.verdict == Verdict::kWrongResult);
    after[row.candidate_sha256] = row.id;
  }
  CHECK(after.size() == kFiles);
  for (const auto& [candidate, id] : before) CHECK(after[candidate] == id);
  CHECK(problems_text(verify_or_fail(default_store(folder))).empty());

  // A record of the store replays without its file, by the default store and by name.
  const std::string id = rows[0].id;
  std::filesystem::remove_all(folder.path("k"));
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--store", default_store(folder)}}) {
    std::vector<std::string> words = {"replay", id.substr(0, 12)};
    words.insert(words.end(), more.begin(), more.end());
    const ChildResult replayed = run_program(folder, words);
    INFO(replayed.out << replayed.err);
    CHECK(replayed.exit_code == 1);
    CHECK_THAT(replayed.out, Catch::Contains("identical to the record"));
  }
}

TEST_CASE("replay says where it looked") {
  const TemporaryFolder folder;
  const ChildResult nothing = run_program(folder, {"replay", "abcd"});
  CHECK(nothing.exit_code == 2);
  CHECK_THAT(nothing.err, Catch::Contains("no record with this id"));
  fill(default_store(folder), 2);
  const ChildResult neither = run_program(folder, {"replay", "0000000000000000"});
  CHECK(neither.exit_code == 2);
  CHECK_THAT(neither.err, Catch::Contains(folder.path("records")) && Catch::Contains(default_store(folder)));
  const ChildResult missing = run_program(folder, {"replay", "abcd", "--store", folder.path("none.db")});
  CHECK(missing.exit_code == 2);
  CHECK_THAT(missing.err, Catch::Contains("no store here"));
}

TEST_CASE("the store's commands and their exit codes") {
  const TemporaryFolder folder;
  const std::string path = folder.path("s.db"), lines = folder.path("all.jsonl"), other = folder.path("t.db");
  fill(path, 60);
  const std::string id = generated_record(kSeed, 3).id;
  folder.write("bad.jsonl", record_to_json(generated_record(kSeed, 0), -1) + "\nno record\n");
  folder.write("text.db", std::string(1000, 'x'));
  fill(folder.path("old.db"), 1);
  { Sql(folder.path("old.db")).run("UPDATE state SET facts_version = 1"); }
  fill(folder.path("touched.db"), 4);
  {
    Sql sql(folder.path("touched.db"));
    sql.drop_triggers();
    sql.run("UPDATE records SET json = json || ' ' WHERE sequence = 2");
  }
  const std::string head = verify_or_fail(path).head;
  const struct {
    const char* name;
    std::vector<std::string> arguments;
    int exit_code;
    const char* out = "";
    std::string err = "";
  } rows[] = {
      {"list", {"list"}, 0, "the newest 50 of 60 records"},
      {"list of one task", {"list", "--task", "muon", "--limit", "0"}, 0, "muon"},
      {"list of nothing", {"list", "--task", "nothing"}, 0, "no records"},
      {"list as JSON", {"list", "--limit", "1", "--json"}, 0, "{\"sequence\":60,\"id\":\""},
      {"list, unknown verdict", {"list", "--verdict", "fine"}, 2, "", "unknown verdict"},
      {"show", {"show", id}, 0, "submitted as "},
      {"show by beginning", {"show", id.substr(0, 6), "--json"}, 0, "{\"record_version\":"},
      {"show the source", {"show", id, "--source"}, 0, "// number 3\n"},
      {"show, unknown", {"show", "ffffffffffff"}, 2, "", "no record with this id"},
      {"show, no id", {"show", "%"}, 2, "", "not a record id"},
      {"export", {"export", "--task", "lion"}, 0, "{\"record_version\":"},
      {"export to a file", {"export", "--out", lines}, 0, "60 records written to "},
      {"export to nowhere", {"export", "--out", folder.path("no/such/f")}, 3, "", "cannot create file"},
      {"import", {"import", lines, "--store", other}, 0, "60 records added, 0 already there, 0 not taken"},
      {"import again", {"import", lines, path, "--store", other}, 0, "0 records added, 120 already there"},
      {"import with a bad line",
       {"import", folder.path("bad.jsonl"), "--store", other},
       2,
       "1 already there, 1 not taken",
       folder.path("bad.jsonl") + ":2: "},
      {"import of a missing file and a good one",
       {"import", folder.path("none.jsonl"), lines, "--store", other},
       2,
       "60 already there",
       "no such file"},
      {"import of no store", {"import", folder.path("text.db"), "--store", other}, 2, "1 not taken", "text.db:1: "},
      {"import of a changed store",
       {"import", folder.path("touched.db"), "--store", folder.path("u.db")},
       2,
       "3 records added, 0 already there, 1 not taken",
       "touched.db: row 2: the stored record was changed"},
      {"verify", {"verify"}, 0, "60 records are in the store, as they were written; head "},
      {"verify a head", {"verify", "--head", head}, 0, "as they were written"},
      {"verify another head", {"verify", "--head", std::string(64, 'a')}, 1, "no row has the noted head"},
      {"verify no head", {"verify", "--head", "abc"}, 2, "", "not a hash"},
      {"verify a changed store", {"verify", "--store", folder.path("touched.db")}, 1, "row 2 (record "},
      {"verify no store", {"verify", "--store", folder.path("text.db")}, 2, "", "not a SQLite file"},
      {"verify a missing store", {"verify", "--store", folder.path("none.db")}, 2, "", "no store here"},
      {"list an old store", {"list", "--store", folder.path("old.db")}, 3, "", "stepbench store upgrade"},
      {"upgrade it", {"upgrade", "--store", folder.path("old.db")}, 0, "is up to date"},
      {"list it now", {"list", "--store", folder.path("old.db")}, 0, "row"},
      {"upgrade a missing store", {"upgrade", "--store", folder.path("none.db")}, 2, "", "no store here"},
      {"nothing to do", {}, 2, "", "subcommand is required"},
      {"unknown part", {"drop"}, 2, "", "see `stepbench store --help`"},
      {"help", {"verify", "--help"}, 0, "Usage: stepbench store verify"},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    std::vector<std::string> words = {"store"};
    words.insert(words.end(), row.arguments.begin(), row.arguments.end());
    const bool names_store =
        std::find(words.begin(), words.end(), "--store") != words.end() || words.size() == 1 || words[1] == "drop";
    if (!names_store) words.insert(words.end(), {"--store", path});
    const ChildResult result = run_program(folder, words);
    INFO(result.out << result.err);
    CHECK(result.exit_code == row.exit_code);
    CHECK_THAT(result.out, Catch::Contains(row.out));
    CHECK_THAT(result.err, Catch::Contains(row.err));
    if (row.exit_code == 0) CHECK(result.err.empty());
  }
  CHECK(read_text(lines) == run_program(folder, {"store", "export", "--store", path}).out);
  CHECK_FALSE(std::filesystem::exists(folder.path("none.db")));
}

}  // namespace
}  // namespace stepbench
