// `stepbench submit --engine slurm` and `stepbench slurm`: many candidates on a cluster, one array task each. This file
// writes the run's folder and calls Slurm's commands; scripts and answers are slurm.cc's.
//
// What keeps a candidate from being lost or evaluated twice: it is finished when its record is in the folder, and only
// then; a record is never replaced; `resume` submits what has no record and is not in the queue, and asks the queue
// first, so that a task that ends in between is seen in one place or the other.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "harness/child_process.h"
#include "harness/commands.h"
#include "harness/evaluate_files.h"
#include "harness/record.h"
#include "harness/record_folder.h"
#include "harness/slurm.h"
#include "harness/stages.h"

namespace stepbench {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxCandidateBytes = 1ull << 20;
constexpr uint64_t kMaxManifestBytes = 256ull << 20;
constexpr double kSlurmLimitS = 120;  // a controller that is starting up lets its clients wait

Error io_error(const std::string& what, const std::string& path, int code) {
  return {ErrorCode::kIo, what + ": " + std::strerror(code), path, "", ""};
}

// ---------------------------------------------------------------------------------------------- Slurm's commands

std::string counted(size_t candidates) {
  return fmt::format("{} {}", candidates, candidates == 1 ? "candidate" : "candidates");
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Standard output of one of Slurm's commands, looked for on the PATH.
Result<std::string> run_slurm_command(const std::vector<std::string>& command) {
  ChildSpec spec;
  spec.argv = {"/usr/bin/env"};
  spec.argv.insert(spec.argv.end(), command.begin(), command.end());
  for (char** entry = ::environ; *entry; ++entry) spec.environment.emplace_back(*entry);
  spec.wall_limit_s = kSlurmLimitS;
  spec.text_limit_bytes = 256ull << 20;
  const Result<ChildResult> result = run_child(spec);
  if (!result.ok()) return result.error();
  const ChildResult& child = result.value();
  if (child.ending == ChildEnding::kWallLimit)
    return Error{ErrorCode::kTimeout, "Slurm does not answer", command[0], fmt::format("{} s", kSlurmLimitS), ""};
  if (child.ending == ChildEnding::kExited && child.exit_code == 127)
    return Error{ErrorCode::kUnavailable, "not on this machine", command[0], "Slurm's commands on the PATH", ""};
  if (child.ending != ChildEnding::kExited || child.exit_code != 0)
    return Error{ErrorCode::kUnavailable, "Slurm refuses: " + replace_invalid_utf8(first_line(child.err)), command[0],
                 "", ""};
  return child.out;
}

// ---------------------------------------------------------------------------------------------- the run's folder

/// Held while jobs are submitted: two `resume` at the same time would submit everything twice.
class FolderLock {
 public:
  FolderLock() = default;
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock() {
    if (file_ >= 0) ::close(file_);
  }
  Result<void> take(const std::string& folder) {
    const std::string path = folder + "/.lock";
    file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (file_ < 0) return io_error("cannot open the lock", path, errno);
    if (::flock(file_, LOCK_EX | LOCK_NB) == 0) return {};
    if (errno != EWOULDBLOCK) return io_error("cannot lock", path, errno);
    return Error{ErrorCode::kResource, "another command is submitting jobs of this run", folder, "", ""};
  }

 private:
  int file_ = -1;
};

Result<SlurmManifest> load_manifest(const std::string& folder) {
  const std::string path = folder + "/manifest.json";
  const Result<std::string> text = read_file(path, kMaxManifestBytes);
  if (!text.ok()) return text.error();
  return manifest_from_json(path, text.value());
}

/// Hash of what is evaluated: the file, and the plan beside a .ptx.
Result<std::string> hash_of(const std::string& path) {
  Result<std::string> text = read_file(path, kMaxCandidateBytes);
  if (!text.ok()) return text.error();
  if (path.ends_with(".ptx")) {
    const Result<std::string> plan = read_file(path.substr(0, path.size() - 4) + ".json", kMaxCandidateBytes);
    if (plan.ok()) text.value() += plan.value();
  }
  return sha256_hex(text.value());
}

Result<std::vector<bool>> finished_candidates(const SlurmManifest& manifest, const std::string& folder) {
  std::vector<bool> finished(manifest.candidates.size(), false);
  std::error_code status;
  const std::string records = folder + "/records";
  for (fs::directory_iterator entry(records, status); !status && entry != fs::directory_iterator();
       entry.increment(status)) {
    const std::string name = entry->path().filename().string();
    const int64_t index = name.size() >= 7 && name[0] != '.' ? std::atoll(name.c_str()) : -1;
    if (index >= 0 && index < static_cast<int64_t>(finished.size()) && name == slurm_record_name(index))
      finished[static_cast<size_t>(index)] = true;
  }
  if (status) return Error{ErrorCode::kIo, "cannot list the records: " + status.message(), records, "", ""};
  return finished;
}

/// Gives `content` its name unless there is a file of that name. True when it did.
Result<bool> publish_once(const std::string& folder, const std::string& name, const std::string& content) {
  char host[256] = "";
  ::gethostname(host, sizeof(host) - 1);
  const std::string temporary = fmt::format("{}/.{}.{}.{}", folder, name, host, ::getpid());
  if (const Result<void> written = write_file_atomically(temporary, content); !written.ok()) return written.error();
  const std::string path = folder + "/" + name;
  const int linked = ::link(temporary.c_str(), path.c_str()) == 0 ? 0 : errno;
  ::unlink(temporary.c_str());
  if (linked == 0) return true;
  if (linked == EEXIST) return false;
  return io_error("cannot name file", path, linked);
}

// ---------------------------------------------------------------------------------------------- submitting

/// Writes the script under a name not used before and hands it to sbatch. Prints the job.
Result<void> submit_block(const SlurmManifest& manifest, const std::string& folder, int64_t block,
                          const std::set<int64_t>& indices) {
  std::string path;
  std::error_code status;
  for (int number = 0; path.empty() || fs::exists(path, status); ++number)
    path = fmt::format("{}/scripts/{}-{}.sh", folder, block, number);
  const Result<void> written = write_file_atomically(path, slurm_script(manifest, folder, block, indices));
  if (!written.ok()) return written;
  const Result<std::string> job = run_slurm_command({"sbatch", "--parsable", path});
  if (!job.ok()) return job.error();
  fmt::print("job {}: {}, {}\n", first_line(job.value()), counted(indices.size()), path);
  return {};
}

Result<void> submit_all(const SlurmManifest& manifest, const std::string& folder, std::span<const int64_t> indices) {
  for (const auto& [block, in_block] : slurm_blocks(indices))
    if (Result<void> submitted = submit_block(manifest, folder, block, in_block); !submitted.ok()) return submitted;
  return {};
}

void print_scripts(const SlurmManifest& manifest, const std::string& folder, std::span<const int64_t> indices) {
  for (const auto& [block, in_block] : slurm_blocks(indices)) {
    fmt::print("# ---- block {}: ", block);
    for (const int64_t index : in_block)
      if (index == *in_block.begin() || index == *in_block.rbegin())
        fmt::print("{}{} {}", index == *in_block.begin() ? "" : " .. ", index,
                   manifest.candidates[static_cast<size_t>(index)].path);
    fmt::print("\n{}", slurm_script(manifest, folder, block, in_block));
  }
}

Result<SlurmManifest> make_manifest(const SubmitArguments& arguments) {
  EvalArguments checked = arguments.eval;
  const std::string& device = arguments.eval.device;
  if (device != "auto" && device != "vm" && device != "cuda")
    return Error{ErrorCode::kUsage, "unknown device", "--device", "auto, vm or cuda", replace_invalid_utf8(device)};
  checked.device = "vm";  // whether the nodes have a GPU does not show here
  if (const Result<EvalOptions> options = make_eval_options(checked); !options.ok()) return options.error();

  SlurmManifest manifest;
  uint32_t run = 0;
  if (::getrandom(&run, sizeof(run), 0) != static_cast<ssize_t>(sizeof(run)))
    return Error{ErrorCode::kUnavailable, "the operating system gives no random numbers", "getrandom", "", ""};
  manifest.run = fmt::format("{:08x}", run);
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  manifest.created_utc = text;

  std::error_code status;
  manifest.program = fs::canonical(own_binary(), status).string();
  if (status) return Error{ErrorCode::kIo, "cannot find this program: " + status.message(), own_binary(), "", ""};
  manifest.request = arguments.request;
  manifest.eval = arguments.eval;
  if (!manifest.eval.baseline.empty()) manifest.eval.baseline = fs::absolute(manifest.eval.baseline).string();
  manifest.submission = arguments.submission;
  for (const std::string& file : arguments.eval.files) {
    const std::string path = fs::absolute(file).lexically_normal().string();
    if (path != replace_invalid_utf8(path))
      return Error{ErrorCode::kUsage, "a path is not UTF-8", replace_invalid_utf8(path), "", ""};
    Result<std::string> hash = hash_of(path);
    if (!hash.ok()) return hash.error();
    manifest.candidates.push_back({path, std::move(hash.value())});
  }
  return manifest;
}

Result<void> make_folders(const std::string& folder) {
  std::error_code status;
  if (fs::exists(folder + "/manifest.json", status))
    return Error{ErrorCode::kUsage, "the folder holds a run already", folder,
                 "a new folder, or `stepbench slurm resume`", ""};
  for (const char* part : {"records", "not_judged", "logs", "scripts"}) {
    fs::create_directories(folder + "/" + part, status);
    if (status) return Error{ErrorCode::kIo, "cannot create the folder: " + status.message(), folder, "", ""};
  }
  return {};
}

// ---------------------------------------------------------------------------------------------- status, cancel, resume

struct RunState {
  std::vector<bool> finished;
  std::map<int64_t, std::string> queued;  ///< by index, without the finished ones
  std::vector<int64_t> open;              ///< neither finished nor queued
};

/// The queue first, then the records.
Result<RunState> state_of(const SlurmManifest& manifest, const std::string& folder) {
  const Result<std::string> queue =
      run_slurm_command({"squeue", "--noheader", "--array", "--name=" + slurm_job_names(manifest),
                         std::string("--format=") + kSqueueFormat});
  if (!queue.ok()) return queue.error();
  Result<std::vector<bool>> finished = finished_candidates(manifest, folder);
  if (!finished.ok()) return finished.error();
  RunState state;
  state.finished = std::move(finished.value());
  state.queued = parse_squeue(manifest, queue.value());
  for (size_t i = 0; i < state.finished.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    if (state.finished[i])
      state.queued.erase(index);
    else if (!state.queued.contains(index))
      state.open.push_back(index);
  }
  return state;
}

/// Why tasks ended without a record, where Slurm keeps accounts; empty elsewhere.
std::map<int64_t, std::string> ends_of(const SlurmManifest& manifest) {
  const Result<std::string> accounts = run_slurm_command(
      {"sacct", "--allocations", "--array", "--noheader", "--parsable2", "--name=" + slurm_job_names(manifest),
       // Local time there, UTC here: the day is asked for from its start, and one day is more than any time zone.
       "--starttime=" + manifest.created_utc.substr(0, 10), std::string("--format=") + kSacctFormat});
  if (!accounts.ok()) return {};
  return parse_sacct(manifest, accounts.value());
}

int show_status(const SlurmManifest& manifest, const std::string& folder, bool all) {
  const Result<RunState> state = state_of(manifest, folder);
  if (!state.ok()) return report_error(state.error());
  const std::map<int64_t, std::string> ends =
      state.value().open.empty() ? std::map<int64_t, std::string>() : ends_of(manifest);
  std::map<std::string, size_t> counts;
  for (size_t i = 0; i < manifest.candidates.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    std::string word = "finished";
    if (!state.value().finished[i]) {
      const auto queued = state.value().queued.find(index);
      const auto end = ends.find(index);
      word = queued != state.value().queued.end() ? queued->second
             : end != ends.end()                  ? "no record, " + end->second
                                                  : "no record, not in the queue";
    }
    ++counts[word];
    if (all) fmt::print("{:6}  {:<28}  {}\n", index, word, manifest.candidates[i].path);
  }
  fmt::print("run {} in {}: {}\n", manifest.run, folder, counted(manifest.candidates.size()));
  for (const auto& [word, count] : counts) fmt::print("  {:<28}  {}\n", word, count);
  if (!state.value().open.empty()) fmt::print("next: stepbench slurm resume {}\n", folder);
  if (counts.contains("finished")) fmt::print("take what is finished: stepbench store import {}/records\n", folder);
  return kExitDone;
}

int cancel_run(const SlurmManifest& manifest) {
  const int64_t last = (static_cast<int64_t>(manifest.candidates.size()) - 1) / kSlurmBlock;
  for (int64_t block = 0; block <= last; ++block) {
    const Result<std::string> cancelled =
        run_slurm_command({"scancel", "--quiet", "--name=" + slurm_job_name(manifest, block)});
    if (!cancelled.ok()) return report_error(cancelled.error());
  }
  fmt::print("run {}: its jobs are cancelled; finished records stay\n", manifest.run);
  return kExitDone;
}

int resume_run(const SlurmManifest& manifest, const std::string& folder, bool dry_run) {
  FolderLock lock;
  if (const Result<void> locked = lock.take(folder); !locked.ok()) return report_error(locked.error());
  const Result<RunState> state = state_of(manifest, folder);
  if (!state.ok()) return report_error(state.error());
  const std::vector<int64_t>& open = state.value().open;
  if (dry_run) {
    print_scripts(manifest, folder, open);
  } else if (const Result<void> submitted = submit_all(manifest, folder, open); !submitted.ok()) {
    return report_error(submitted.error());
  }
  fmt::print(dry_run ? stderr : stdout, "run {}: {} submitted again, {} in the queue, {} finished\n", manifest.run,
             dry_run ? 0 : open.size(), state.value().queued.size(),
             manifest.candidates.size() - open.size() - state.value().queued.size());
  return kExitDone;
}

// ---------------------------------------------------------------------------------------------- one task

int keep_record(const std::string& folder, int64_t index, const EvalRecord& record) {
  const std::string name = slurm_record_name(index), line = record_to_json(record, -1) + "\n";
  if (record.verdict == Verdict::kHarnessError) {  // nothing is said of the candidate; `resume` tries it again
    const Result<void> written = write_file_atomically(folder + "/not_judged/" + name, line);
    if (!written.ok()) return report_error(written.error());
    fmt::print("{}  {}\n", to_text(record.verdict), record.candidate.path);
    return kExitEnvironment;
  }
  const Result<bool> published = publish_once(folder + "/records", name, line);
  if (!published.ok()) return report_error(published.error());
  fmt::print("{}  {}{}\n", to_text(record.verdict), record.candidate.path,
             published.value() ? "" : "  (another task was first; its record stays)");
  return kExitDone;
}

int run_task(const SlurmManifest& manifest, const std::string& folder, int64_t index) {
  if (index < 0 || index >= static_cast<int64_t>(manifest.candidates.size()))
    return report_error({ErrorCode::kUsage, "no such candidate", folder,
                         fmt::format("an index below {}", manifest.candidates.size()), fmt::format("{}", index)});
  const SlurmCandidate& candidate = manifest.candidates[static_cast<size_t>(index)];
  std::error_code status;
  if (fs::exists(folder + "/records/" + slurm_record_name(index), status)) {
    fmt::print("finished before  {}\n", candidate.path);
    return kExitDone;
  }
  const Result<std::string> hash = hash_of(candidate.path);
  if (!hash.ok()) return report_error(hash.error());
  if (hash.value() != candidate.sha256)
    return report_error({ErrorCode::kInvalidInput, "the file has changed since the run was submitted", candidate.path,
                         candidate.sha256, hash.value()});
  EvalArguments eval = manifest.eval;
  eval.files = {candidate.path};
  eval.jobs = 1;
  eval.quiet = true;
  const Result<EvalOptions> options = make_eval_options(eval);
  if (!options.ok()) return report_error(options.error());
  int exit_code = kExitEnvironment;
  EvaluateHooks hooks;
  hooks.take = [&](size_t, EvaluatedFile outcome) {
    if (outcome.error) exit_code = report_error(*outcome.error);
    if (!outcome.record) return;
    if (!manifest.submission.name.empty()) outcome.record->submission = manifest.submission;
    exit_code = keep_record(folder, index, *outcome.record);
  };
  evaluate_each(eval, options.value(), hooks);
  return exit_code;
}

}  // namespace

int start_slurm(const SubmitArguments& arguments) {
  if (arguments.folder.empty())
    return report_error({ErrorCode::kUsage, "a run on Slurm needs a folder", "--folder",
                         "a new folder on a file system that all nodes share", "none"});
  const std::string folder = fs::absolute(arguments.folder).lexically_normal().string();
  if (const Result<void> checked = check_slurm_request(arguments.request, folder); !checked.ok())
    return report_error(checked.error());
  const Result<SlurmManifest> manifest = make_manifest(arguments);
  if (!manifest.ok()) return report_error(manifest.error());
  std::vector<int64_t> indices(manifest.value().candidates.size());
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i);
  if (arguments.dry_run) {
    print_scripts(manifest.value(), folder, indices);
    return kExitDone;
  }
  if (const Result<void> made = make_folders(folder); !made.ok()) return report_error(made.error());
  FolderLock lock;
  if (const Result<void> locked = lock.take(folder); !locked.ok()) return report_error(locked.error());
  const Result<void> written = write_file_atomically(folder + "/manifest.json", manifest_to_json(manifest.value()));
  if (!written.ok()) return report_error(written.error());
  if (const Result<void> submitted = submit_all(manifest.value(), folder, indices); !submitted.ok()) {
    const int exit_code = report_error(submitted.error());
    fmt::print(stderr, "stepbench: the run is written down; `stepbench slurm resume {}` submits what is missing\n",
               folder);
    return exit_code;
  }
  fmt::print("run {}: {}; `stepbench slurm status {}` says how far it is\n", manifest.value().run,
             counted(indices.size()), folder);
  return kExitDone;
}

int run_slurm(const SlurmArguments& arguments) {
  const std::string folder = fs::absolute(arguments.folder).lexically_normal().string();
  const Result<SlurmManifest> manifest = load_manifest(folder);
  if (!manifest.ok()) return report_error(manifest.error());
  switch (arguments.action) {
    case SlurmAction::kStatus: return show_status(manifest.value(), folder, arguments.all);
    case SlurmAction::kCancel: return cancel_run(manifest.value());
    case SlurmAction::kResume: return resume_run(manifest.value(), folder, arguments.dry_run);
    case SlurmAction::kTask: return run_task(manifest.value(), folder, arguments.index);
  }
  SB_ASSERT(false);
  return kExitEnvironment;
}

}  // namespace stepbench
