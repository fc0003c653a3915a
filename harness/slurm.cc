// Scripts and answers as text. Formats of squeue and sacct: their manual pages of Slurm 22.05.
#include "harness/slurm.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "harness/record.h"

namespace stepbench {
namespace {

bool is_word(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-.,:=+/@&|[]()*").find(c) != std::string_view::npos;
  });
}

/// For a POSIX shell: what stands between single quotes means itself.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

int64_t block_count(const SlurmManifest& manifest) {
  return (static_cast<int64_t>(manifest.candidates.size()) + kSlurmBlock - 1) / kSlurmBlock;
}

/// Index of a task of the job of this name; nothing when either is not of this run.
std::optional<int64_t> index_of(const SlurmManifest& manifest, std::string_view job_name, std::string_view task) {
  const std::string start = fmt::format("stepbench-{}-", manifest.run);
  if (!job_name.starts_with(start)) return std::nullopt;
  const std::optional<int64_t> block = number(job_name.substr(start.size())), in_block = number(task);
  if (!block || !in_block || *block >= block_count(manifest) || *in_block >= kSlurmBlock) return std::nullopt;
  const int64_t index = *block * kSlurmBlock + *in_block;
  if (index >= static_cast<int64_t>(manifest.candidates.size())) return std::nullopt;
  return index;
}

}  // namespace

Result<void> check_slurm_request(const SlurmRequest& request, const std::string& folder) {
  const struct {
    const char* option;
    const std::string& value;
  } rows[] = {{"--account", request.account}, {"--partition", request.partition}, {"--time", request.time},
              {"--qos", request.qos},         {"--gres", request.gres},           {"--constraint", request.constraint},
              {"--mem", request.memory}};
  for (const auto& row : rows)
    if (!is_word(row.value))
      return Error{ErrorCode::kUsage, "not a value for Slurm", row.option, "letters, digits and _-.,:=+/@&|[]()*",
                   replace_invalid_utf8(row.value)};
  // A per cent sign would begin one of Slurm's patterns, and the others of the list mean something to a shell.
  if (folder.find_first_of("&|[]()*:,") != std::string::npos || !is_word(folder) || folder.empty())
    return Error{ErrorCode::kUsage, "not a folder for a Slurm run", "--folder", "a path of letters, digits and _-.=+/@",
                 replace_invalid_utf8(folder)};
  return {};
}

std::string array_text(const std::set<int64_t>& tasks) {
  SB_ASSERT(!tasks.empty());
  std::string text;
  for (auto task = tasks.begin(); task != tasks.end();) {
    const int64_t first = *task;
    int64_t last = first;
    for (++task; task != tasks.end() && *task == last + 1; ++task) last = *task;
    if (!text.empty()) text += ',';
    text += first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
  }
  return text;
}

std::string slurm_job_name(const SlurmManifest& manifest, int64_t block) {
  return fmt::format("stepbench-{}-{}", manifest.run, block);
}

std::string slurm_job_names(const SlurmManifest& manifest) {
  std::string names;
  for (int64_t block = 0; block < block_count(manifest); ++block) {
    if (block > 0) names += ',';
    names += slurm_job_name(manifest, block);
  }
  return names;
}

std::map<int64_t, std::set<int64_t>> slurm_blocks(std::span<const int64_t> indices) {
  std::map<int64_t, std::set<int64_t>> blocks;
  for (const int64_t index : indices) blocks[index / kSlurmBlock].insert(index);
  return blocks;
}

std::string slurm_script(const SlurmManifest& manifest, const std::string& folder, int64_t block,
                         const std::set<int64_t>& indices) {
  const SlurmRequest& request = manifest.request;
  std::set<int64_t> tasks;
  for (const int64_t index : indices) {
    SB_ASSERT(index / kSlurmBlock == block);
    tasks.insert(index % kSlurmBlock);
  }
  std::string array = array_text(tasks);
  if (request.at_once > 0) array += fmt::format("%{}", request.at_once);
  std::string text = "#!/bin/sh\n";
  const auto option = [&](const char* name, const std::string& value) {
    if (!value.empty()) text += fmt::format("#SBATCH --{}={}\n", name, value);
  };
  option("job-name", slurm_job_name(manifest, block));
  option("array", array);
  option("output", folder + "/logs/%A_%a.txt");
  text += "#SBATCH --open-mode=append\n#SBATCH --requeue\n#SBATCH --ntasks=1\n";
  option("account", request.account);
  option("partition", request.partition);
  option("time", request.time);
  option("qos", request.qos);
  option("gres", request.gres);
  option("constraint", request.constraint);
  option("mem", request.memory);
  if (request.cpus > 0) option("cpus-per-task", fmt::format("{}", request.cpus));
  // A task that ran before, on a node that failed, finds its record and does nothing.
  text += fmt::format("\nexec {} slurm task {} \"$(({} + SLURM_ARRAY_TASK_ID))\"\n", quoted(manifest.program),
                      quoted(folder), block * kSlurmBlock);
  return text;
}

std::map<int64_t, std::string> parse_squeue(const SlurmManifest& manifest, std::string_view text) {
  std::map<int64_t, std::string> states;
  for (const std::string_view line : split(text, '\n')) {
    const std::vector<std::string_view> fields = split(line, '|');
    if (fields.size() != 3) continue;
    if (const std::optional<int64_t> index = index_of(manifest, fields[0], fields[1]))
      // The same index may be in two jobs for a moment; one that runs is what matters.
      if (std::string& state = states[*index]; state != "RUNNING") state = std::string(fields[2]);
  }
  return states;
}

std::map<int64_t, std::string> parse_sacct(const SlurmManifest& manifest, std::string_view text) {
  std::map<int64_t, std::pair<int64_t, std::string>> newest;  // job number and state
  for (const std::string_view line : split(text, '\n')) {
    const std::vector<std::string_view> fields = split(line, '|');
    if (fields.size() != 4) continue;
    const size_t underscore = fields[1].find('_');
    if (underscore == std::string_view::npos) continue;
    const std::optional<int64_t> job = number(fields[1].substr(0, underscore));
    const std::optional<int64_t> index = index_of(manifest, fields[0], fields[1].substr(underscore + 1));
    if (!job || !index) continue;
    auto& [known_job, state] = newest[*index];
    if (*job < known_job) continue;
    known_job = *job;
    state = std::string(fields[2]);
    if (fields[3] != "0:0") state += fmt::format(" ({})", fields[3]);
  }
  std::map<int64_t, std::string> states;
  for (auto& [index, job] : newest) states[index] = std::move(job.second);
  return states;
}

std::string slurm_record_name(int64_t index) { return fmt::format("{:06}.jsonl", index); }

}  // namespace stepbench
