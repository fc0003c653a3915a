// Loads the known-wrong and known-good kernels of a task. See mutants.h.
#include "harness/mutants.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "harness/json_reader.h"
#include "harness/stages.h"

namespace stepbench {

namespace {

namespace fs = std::filesystem;

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

Verdict read_verdict(const JsonReader& json) {
  const std::string word = json.text();
  const std::optional<Verdict> verdict = verdict_from_text(word);
  if (!verdict.has_value()) json.fail("unknown verdict", "a verdict word such as \"wrong_result\"", "\"" + word + "\"");
  if (*verdict == Verdict::kPassed || *verdict == Verdict::kHarnessError || *verdict == Verdict::kUnsupported)
    json.fail("a mutant must be caught, and this verdict does not say so", "a verdict against the candidate",
              "\"" + word + "\"");
  return *verdict;
}

/// Text of a kernel named in mutants.json, relative to the top of the tree; `path` receives where it lies.
std::string read_kernel(const JsonReader& json, const TaskSpec& task, std::string& path) {
  const std::string relative = json.text();
  const fs::path top = fs::path(task.folder).parent_path().parent_path();
  const fs::path whole = (top / relative).lexically_normal();
  const auto [differs, rest] = std::mismatch(top.begin(), top.end(), whole.begin(), whole.end());
  if (differs != top.end() || fs::path(relative).is_absolute())
    json.fail("a kernel lies outside the tree", "a path relative to its top", "\"" + relative + "\"");
  path = whole.string();
  const Result<std::string> text = read_text_file(path);
  if (!text.ok()) json.fail(text.error().message, "a file of the tree", "\"" + relative + "\"");
  return text.value();
}

Mutant read_mutant(const JsonReader& json, const TaskSpec& task) {
  json.only_keys({"name", "why", "base", "find", "replace", "file", "verdict", "buffer"});
  Mutant mutant;
  mutant.name = json.at("name").text();
  mutant.why = json.at("why").text();
  if (json.has("file")) {
    for (const char* const key : {"base", "find", "replace"}) {
      if (json.has(key)) json.at(key).fail("a mutant is either a file or an edit of a base", "\"file\" alone");
    }
    mutant.source = read_kernel(json.at("file"), task, mutant.path);
  } else {
    mutant.source = read_kernel(json.at("base"), task, mutant.path);
    mutant.find = json.at("find").text();
    mutant.replace = json.at("replace").text();
    if (mutant.find.empty()) json.at("find").fail("there is nothing to find", "a piece of the base");
    if (mutant.find == mutant.replace) json.at("replace").fail("the edit changes nothing");
    const size_t count = count_of(mutant.source, mutant.find);
    if (count != 1)
      json.at("find").fail("the text to replace must stand exactly once in the base", "1", std::to_string(count));
    mutant.source.replace(mutant.source.find(mutant.find), mutant.find.size(), mutant.replace);
  }
  const JsonReader verdict = json.at("verdict");
  if (verdict.is_array()) {
    for (const JsonReader& item : verdict.items()) mutant.verdicts.push_back(read_verdict(item));
  } else {
    mutant.verdicts.push_back(read_verdict(verdict));
  }
  if (mutant.verdicts.empty()) verdict.fail("no verdict is allowed", "at least one");
  if (json.has("buffer")) {
    mutant.buffer = json.at("buffer").text();
    const bool known = std::any_of(task.buffers.begin(), task.buffers.end(),
                                   [&](const BufferSpec& buffer) { return buffer.name == mutant.buffer; });
    if (!mutant.buffer.empty() && !known)
      json.at("buffer").fail("the task has no such buffer", "", "\"" + mutant.buffer + "\"");
  }
  return mutant;
}

Result<void> add_kernels(const fs::path& folder, bool is_baseline, std::vector<Variant>& out) {
  std::error_code problem;
  if (!fs::exists(folder, problem)) return {};
  std::vector<Variant> found;
  for (fs::directory_iterator it(folder, problem), end; !problem && it != end; it.increment(problem)) {
    const fs::path& path = it->path();
    if (path.extension() != ".cu" && path.extension() != ".ptx") continue;
    found.push_back({.name = (is_baseline ? "reference_kernels/" : "variants/") + path.stem().string(),
                     .path = path.string(),
                     .is_baseline = is_baseline});
  }
  if (problem) {
    return Error{.code = ErrorCode::kIo,
                 .message = "a folder cannot be listed: " + problem.message(),
                 .place = folder.string(),
                 .expected = "",
                 .found = ""};
  }
  std::sort(found.begin(), found.end(), [](const Variant& a, const Variant& b) { return a.name < b.name; });
  out.insert(out.end(), found.begin(), found.end());
  return {};
}

}  // namespace

Result<std::vector<Mutant>> load_mutants(const TaskSpec& task) {
  const std::string path = task.folder + "/mutants.json";
  const Result<std::string> text = read_text_file(path);
  if (!text.ok()) return text.error();
  try {
    const auto json = parse_json(path, text.value());
    std::vector<Mutant> mutants;
    std::set<std::string> names;
    for (const JsonReader& entry : JsonReader(json, path, "").items()) {
      mutants.push_back(read_mutant(entry, task));
      if (!names.insert(mutants.back().name).second)
        entry.at("name").fail("a name is used twice", "a name of its own", "\"" + mutants.back().name + "\"");
    }
    return mutants;
  } catch (JsonProblem& problem) {
    return std::move(problem.error);
  }
}

Result<std::vector<Variant>> load_variants(const TaskSpec& task) {
  std::vector<Variant> variants;
  const fs::path top = fs::path(task.folder).parent_path().parent_path();
  Result<void> added = add_kernels(top / "reference_kernels" / task.id, true, variants);
  if (added.ok()) added = add_kernels(fs::path(task.folder) / "variants", false, variants);
  if (!added.ok()) return added.error();
  if (variants.empty()) {
    return Error{.code = ErrorCode::kInvalidTask,
                 .message = "the task has no kernel that is known to be right",
                 .place = task.folder,
                 .expected = "reference_kernels/" + task.id + "/*.cu or variants/*.cu",
                 .found = ""};
  }
  return variants;
}

}  // namespace stepbench
