// One evaluation in a process of its own, so that a crash or a hang costs one record and nothing else.
//
// The parent writes one JSON request to the worker's standard input. The worker answers on descriptor 3, one line each:
//   <nonce> progress {...}      any number of times
//   <nonce> record {...}        once, last; or
//   <nonce> error {...}         once, last: the world is wrong, not the candidate
// The nonce is new for every worker. What the worker or anything in it prints to stdout or stderr is text for people
// and never read as an answer. An answer counts only when it is whole, alone, and the worker then exits with 0.
#include "harness/worker.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <nlohmann/json.hpp>

#include "harness/child_process.h"
#include "harness/record.h"

namespace stepbench {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kMaxRequestBytes = 64ull << 20;
constexpr auto kProgressInterval = std::chrono::milliseconds(100);

constexpr uint64_t kWorkerMemoryBytes = 8ull << 30;  // run_child lifts it under the address sanitizer

constexpr const char* kCuda = "cuda";

/// What a worker may know of this process's environment: where things lie, nothing else.
constexpr const char* kPassedOn[] = {"HOME",
                                     "PATH",
                                     "TMPDIR",
                                     "XDG_CACHE_HOME",
                                     "CUDA_HOME",
                                     "CUDA_PATH",
                                     "CUDA_VISIBLE_DEVICES",
                                     "LD_LIBRARY_PATH",
                                     "STEPBENCH_ROOT",
                                     "STEPBENCH_LOCKS",
                                     "STEPBENCH_BINARY",
                                     "STEPBENCH_NVRTC",
                                     "STEPBENCH_CUBLASLT",
                                     "STEPBENCH_CUDA_INCLUDE",
                                     "ASAN_OPTIONS",
                                     "UBSAN_OPTIONS"};

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

uint64_t random_u64() {
  uint64_t value = 0;
  // 8 bytes are never split or interrupted (getrandom(2)); a failure means a kernel without it.
  SB_ASSERT(::getrandom(&value, sizeof(value), 0) == static_cast<ssize_t>(sizeof(value)));
  return value;
}

// ---------------------------------------------------------------------------------------------- request

struct Request {
  std::string nonce;
  std::string task;
  int32_t task_version = 0;
  EvalOptions options;
  Candidate candidate;
};

std::string request_to_json(const Request& request) {
  const EvalOptions& options = request.options;
  const CompileOptions& compile = options.compile;
  return dump({{"nonce", request.nonce},
               {"task", request.task},
               {"task_version", request.task_version},
               {"candidate", candidate_to_json(request.candidate)},
               {"options",
                {{"device", options.device},
                 {"suite", options.suite},
                 {"salt", hex16(options.salt)},
                 {"threads", options.threads},
                 {"only_check", options.only_check},
                 {"only_case", options.only_case},
                 {"vm_first", options.vm_first},
                 {"to_the_end", options.to_the_end},
                 {"baseline", options.baseline}}},
               {"compile",
                {{"arch", compile.arch},
                 {"cache_folder", compile.cache_folder},
                 {"use_cache", compile.use_cache},
                 {"cpu_limit_s", compile.cpu_limit_s},
                 {"wall_limit_s", compile.wall_limit_s},
                 {"memory_limit_bytes", compile.memory_limit_bytes},
                 {"output_limit_bytes", compile.output_limit_bytes}}}});
}

Result<Request> request_from_json(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    Request request;
    request.nonce = json.at("nonce").get<std::string>();
    request.task = json.at("task").get<std::string>();
    request.task_version = json.at("task_version").get<int32_t>();
    Result<Candidate> candidate = candidate_from_json(json.at("candidate").get<std::string>());
    if (!candidate.ok()) return candidate.error();
    request.candidate = std::move(candidate).value();
    const Json& options = json.at("options");
    request.options.device = options.at("device").get<std::string>();
    request.options.suite = options.at("suite").get<std::string>();
    const Result<uint64_t> salt = parse_hex(options.at("salt").get<std::string>());
    if (!salt.ok()) return salt.error();
    request.options.salt = salt.value();
    request.options.threads = options.at("threads").get<int>();
    request.options.only_check = options.at("only_check").get<std::string>();
    request.options.only_case = options.at("only_case").get<std::string>();
    request.options.vm_first = options.at("vm_first").get<bool>();
    request.options.to_the_end = options.at("to_the_end").get<bool>();
    request.options.baseline = options.at("baseline").get<std::string>();
    const Json& compile = json.at("compile");
    request.options.compile.arch = compile.at("arch").get<std::string>();
    request.options.compile.cache_folder = compile.at("cache_folder").get<std::string>();
    request.options.compile.use_cache = compile.at("use_cache").get<bool>();
    request.options.compile.cpu_limit_s = compile.at("cpu_limit_s").get<double>();
    request.options.compile.wall_limit_s = compile.at("wall_limit_s").get<double>();
    request.options.compile.memory_limit_bytes = compile.at("memory_limit_bytes").get<uint64_t>();
    request.options.compile.output_limit_bytes = compile.at("output_limit_bytes").get<uint64_t>();
    return request;
  } catch (const Json::exception& error) {
    return Error{ErrorCode::kInternal, error.what(), "worker request", "", ""};
  }
}

// ---------------------------------------------------------------------------------------------- answer

std::string error_to_json(const Error& error) {
  return dump({{"code", static_cast<int>(error.code)},
               {"message", error.message},
               {"place", error.place},
               {"expected", error.expected},
               {"found", error.found}});
}

/// Empty when the text is not an error as written above.
std::optional<Error> error_from_json(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    const int code = json.at("code").get<int>();
    if (code < 0 || code > static_cast<int>(ErrorCode::kInternal)) return std::nullopt;
    return Error{static_cast<ErrorCode>(code), json.at("message").get<std::string>(),
                 json.at("place").get<std::string>(), json.at("expected").get<std::string>(),
                 json.at("found").get<std::string>()};
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::optional<Progress> progress_from_json(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    return Progress{json.at("stage").get<std::string>(), json.at("done").get<int64_t>(),
                    json.at("total").get<int64_t>()};
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

/// One line of the private channel, without its nonce.
struct AnswerLine {
  std::string_view kind;
  std::string_view json;
};

std::optional<AnswerLine> parse_line(std::string_view line, std::string_view nonce) {
  if (!line.starts_with(nonce) || line.size() <= nonce.size() || line[nonce.size()] != ' ') return std::nullopt;
  line.remove_prefix(nonce.size() + 1);
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  return AnswerLine{line.substr(0, space), line.substr(space + 1)};
}

/// The whole answer: the record or the error, or in words why it does not count.
struct Answer {
  std::optional<EvalRecord> record;
  std::optional<Error> error;
  std::string reason;
};

Answer parse_answer(std::string_view text, std::string_view nonce) {
  Answer answer;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return {{}, {}, "the worker's answer ends in the middle of a line"};
    const std::optional<AnswerLine> line = parse_line(text.substr(0, end), nonce);
    text.remove_prefix(end + 1);
    if (!line) return {{}, {}, "a line of the worker's answer does not carry this run's nonce"};
    if (answer.record || answer.error) return {{}, {}, "the worker's answer goes on after its result"};
    if (line->kind == "progress") continue;
    if (line->kind == "error") {
      answer.error = error_from_json(line->json);
      if (!answer.error) return {{}, {}, "the worker's error cannot be read"};
    } else if (line->kind == "record") {
      Result<EvalRecord> record = record_from_json(line->json);
      if (!record.ok()) return {{}, {}, "the worker's record cannot be read: " + to_text(record.error())};
      answer.record = std::move(record).value();
    } else {
      return {{}, {}, "a line of the worker's answer is of an unknown kind"};
    }
  }
  if (!answer.record && !answer.error) answer.reason = "the worker ended without a result";
  return answer;
}

// ---------------------------------------------------------------------------------------------- parent

std::vector<std::string> worker_environment() {
  std::vector<std::string> environment;
  for (const char* name : kPassedOn)
    if (const char* value = std::getenv(name)) environment.push_back(std::string(name) + "=" + value);
  return environment;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

std::string ending_text(const ChildResult& child) {
  if (child.ending == ChildEnding::kSignalled) {
    const char* name = ::sigabbrev_np(child.signal);
    return fmt::format("the worker was ended by signal {} (SIG{})", child.signal, name ? name : "?");
  }
  if (child.ending == ChildEnding::kAnswerLimit) return "the worker's answer is larger than its limit";
  if (child.ending == ChildEnding::kCpuLimit) return "the worker used up its processor time";
  return fmt::format("the worker ended with exit code {}", child.exit_code);
}

std::string last_lines(const std::string& text, size_t limit_bytes) {
  return text.size() <= limit_bytes ? text : "...\n" + text.substr(text.size() - limit_bytes);
}

}  // namespace

EvalRecord make_stopped_record(const Candidate& candidate, const TaskSpec& task, const EvalOptions& options,
                               const Failure& failure) {
  EvalRecord record;
  record.created_utc = utc_now();
  record.task = task.id;
  record.task_version = task.version;
  record.suite = options.suite;
  record.salt = hex16(options.salt);
  record.candidate = candidate;
  if (record.candidate.sha256.empty()) record.candidate.sha256 = sha256_hex(candidate.source + candidate.plan_text);
  const int64_t now_ns = std::chrono::system_clock::now().time_since_epoch().count();
  record.id =
      sha256_hex(fmt::format("{} {} {} {} {}", record.candidate.sha256, task.id, task.version, record.salt, now_ns))
          .substr(0, 16);
  record.environment.stepbench_version = STEPBENCH_VERSION;
  record.environment.device = options.device;
  utsname system{};
  if (::uname(&system) == 0)
    record.environment.os = fmt::format("{} {} {}", system.sysname, system.release, system.machine);
  record.verdict = failure.verdict;
  record.failure = failure;
  record.replay_command = "stepbench replay " + record.id;
  record.ideal_bytes_per_param = task.bytes_per_param;
  return record;
}

Result<EvalRecord> evaluate_isolated(const Candidate& candidate, const TaskSpec& task, const EvalOptions& options,
                                     double wall_limit_s, const ProgressFn& progress) {
  const std::string nonce = hex16(random_u64()) + hex16(random_u64());
  std::string stage = "start";  // the last one the worker told of

  ChildSpec spec;
  spec.argv = {own_binary(), "__worker"};
  spec.input = request_to_json({nonce, task.id, task.version, options, candidate});
  spec.wall_limit_s = wall_limit_s;
  // The driver reserves addresses for all the memory of host and GPU, far beyond any limit on them.
  spec.memory_limit_bytes = options.device == kCuda ? 0 : kWorkerMemoryBytes;
  spec.environment = worker_environment();
  spec.on_answer_line = [&](std::string_view line) {
    if (line.ends_with('\n')) line.remove_suffix(1);
    const std::optional<AnswerLine> answer = parse_line(line, nonce);
    if (!answer || answer->kind != "progress") return;
    const std::optional<Progress> report = progress_from_json(answer->json);
    if (!report) return;
    stage = report->stage;
    if (progress) progress(*report);
  };

  const Result<ChildResult> started = run_child(spec);
  if (!started.ok()) return started.error();
  const ChildResult& child = started.value();

  const auto stopped = [&](Verdict verdict, std::string message) {
    Failure failure;
    failure.verdict = verdict;
    failure.message = std::move(message);
    failure.place = candidate.path;
    failure.check = stage;
    failure.detail = replace_invalid_utf8(last_lines(child.err, 4000));
    EvalRecord record = make_stopped_record(candidate, task, options, failure);
    record.wall_ms = child.wall_ms;
    return record;
  };
  if (child.ending == ChildEnding::kWallLimit && stage == kWaitStage)
    return Error{ErrorCode::kTimeout, "another evaluation kept the GPU for the whole time limit", candidate.path, "",
                 fmt::format("{} s", wall_limit_s)};
  if (child.ending == ChildEnding::kWallLimit)
    return stopped(Verdict::kTimeout,
                   fmt::format("the evaluation took longer than {} s, last seen in stage {}", wall_limit_s, stage));
  if (child.ending != ChildEnding::kExited || child.exit_code != 0)
    return stopped(Verdict::kHarnessError, fmt::format("{} in stage {}", ending_text(child), stage));

  Answer answer = parse_answer(child.answer, nonce);
  if (answer.error) return *answer.error;
  if (!answer.record)
    return stopped(Verdict::kHarnessError, fmt::format("{}, last seen in stage {}", answer.reason, stage));

  EvalRecord record = std::move(*answer.record);
  if (record.verdict != Verdict::kPassed) record.replay_command = "stepbench replay " + record.id;
  return record;
}

// ---------------------------------------------------------------------------------------------- child

namespace {

/// The request, or empty when it is too long or cannot be read.
std::string read_request() {
  std::string text;
  char block[65536];
  while (true) {
    const ssize_t count = ::read(STDIN_FILENO, block, sizeof(block));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return "";
    if (count == 0) return text;
    text.append(block, static_cast<size_t>(count));
    if (text.size() > kMaxRequestBytes) return "";
  }
}

Result<EvalRecord> run_request(const Request& request, const ProgressFn& progress) {
  const Result<TaskSpec> task = load_task(request.task);
  if (!task.ok()) return task.error();
  if (task.value().version != request.task_version)
    return Error{ErrorCode::kInvalidTask, "the task changed while the evaluation was starting", request.task,
                 fmt::format("version {}", request.task_version), fmt::format("version {}", task.value().version)};
  return evaluate(request.candidate, task.value(), request.options, progress);
}

}  // namespace

int worker_main() {
  become_child();
  const Result<Request> parsed = request_from_json(read_request());
  if (!parsed.ok()) {
    fmt::print(stderr, "stepbench: {}\n", to_text(parsed.error()));
    return 3;
  }
  const Request& request = parsed.value();

  const auto answer = [&](std::string_view kind, const std::string& json) {
    return write_answer(fmt::format("{} {} {}\n", request.nonce, kind, json));
  };
  std::string last_stage;
  Clock::time_point last_time;
  const ProgressFn progress = [&](const Progress& report) {
    const Clock::time_point now = Clock::now();
    if (report.stage == last_stage && now - last_time < kProgressInterval) return;
    last_stage = report.stage;
    last_time = now;
    answer("progress", dump({{"stage", report.stage}, {"done", report.done}, {"total", report.total}}));
  };

  try {
    const Result<EvalRecord> record = run_request(request, progress);
    const bool written = record.ok() ? answer("record", record_to_json(record.value(), -1))
                                     : answer("error", error_to_json(record.error()));
    const int exit_code = written ? 0 : 3;
    // A kernel may still run that will never end, and the driver's own cleaning up at exit would wait for it.
    if (request.options.device == kCuda) ::_exit(exit_code);
    return exit_code;
  } catch (const std::exception& exception) {  // std::bad_alloc above all: the parent makes a record of it
    fmt::print(stderr, "stepbench: {} in the worker\n", exception.what());
    return 3;
  }
}

}  // namespace stepbench
