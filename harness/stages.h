// Every verb: the stages of an evaluation in order, as free functions with their contracts. Nouns: model.h.
//
//   load_task -> load_candidate -> compile -> admit -> open_session/run_step -> checks -> evaluate -> record
//
// Thread-safety: all functions may be called from several threads at once on distinct arguments.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/device.h"
#include "harness/model.h"
#include "harness/result.h"

namespace stepbench {

// --------------------------------------------------------------------------------------------- words
std::string_view to_text(Verdict verdict);  ///< "passed", "wrong_result", ...
std::optional<Verdict> verdict_from_text(std::string_view text);
std::string_view to_text(SpeedWord word);  ///< "faster", "slower", "same", "undecided"
std::optional<SpeedWord> speed_word_from_text(std::string_view text);
std::string_view to_text(FloorBy by);  ///< "memory", "fp32", "tensor"
std::optional<FloorBy> floor_by_from_text(std::string_view text);
std::string_view to_text(DType dtype);  ///< "f32"
uint32_t dtype_bytes(DType dtype);
Verdict verdict_of(FaultKind kind);  ///< the one mapping from faults to verdicts

// --------------------------------------------------------------------------------------------- task (task.cc,
// shapes.cc)
/// Where tasks/ lies: $STEPBENCH_ROOT, else beside the binary's install or source tree. kNotFound.
Result<std::string> tasks_folder();
/// Ids of all tasks, sorted.
Result<std::vector<std::string>> list_tasks();
/// Reads and validates tasks/<id>/task.json. kNotFound lists the known ids; kInvalidTask carries file and JSON pointer.
Result<TaskSpec> load_task(const std::string& id);
/// Tensor list by name: "gpt2_124m", "gpt2_124m/32" (every dimension ceil-divided), literal sizes "[7,0,5]" or shapes
/// "[[64,48],[5]]". kNotFound names the known lists.
Result<std::vector<TensorShape>> tensor_list(const std::string& name);
TensorShape make_shape(std::vector<int64_t> dims);
/// Elements of `buffer` for a tensor of this shape.
int64_t buffer_elements(const BufferSpec& buffer, const TensorShape& shape);
/// Expands case groups to cases, in a fixed order with unique names.
Result<std::vector<CaseSpec>> expand_cases(const TaskSpec& task, std::span<const CaseGroup> groups);

// --------------------------------------------------------------------------------------------- data (inputs.cc,
// hyper.cc)
/// Seed of one stream of random numbers: every part of the evaluation gets its own. Same arguments, same seed,
/// on every machine.
uint64_t derive_seed(uint64_t salt, std::string_view purpose, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0);

/// Values for one buffer of one tensor in storage dtype, as raw bytes. `family` is one of the task's input
/// families; BufferSpec::initial says what a valid state looks like (second moments are never negative).
std::vector<std::byte> make_values(const BufferSpec& buffer, const TensorShape& shape, std::string_view family,
                                   uint64_t seed);

/// Draws the primary hyperparameters of a trajectory (distinct, non-zero, in range), then gives the values of any
/// step: scheduled fields change every step, derived fields are computed in double and rounded once.
struct HyperTrajectory {
  const TaskSpec* task = nullptr;
  uint64_t seed = 0;
  std::vector<double> primary;  ///< per field; NaN for derived and per-step fields
};
Result<HyperTrajectory> draw_hyper(const TaskSpec& task, std::string_view family, uint64_t seed);
/// Values at optimizer step t. `is_first` sets first_step fields, `found_inf` the overflow flag.
Result<HyperValues> hyper_at(const HyperTrajectory& trajectory, int64_t step, bool is_first, bool found_inf);
/// The task's defaults with the given overrides by name, at step t: for tests and hand-made scenarios.
Result<HyperValues> hyper_from_defaults(const TaskSpec& task, int64_t step,
                                        std::span<const std::pair<std::string, double>> overrides);
/// The Hyper struct's bytes (4 per field, little endian).
std::vector<std::byte> pack_hyper(const TaskSpec& task, const HyperValues& values);

// --------------------------------------------------------------------------------------------- candidate
// (candidate.cc)
/// Reads a candidate from a file (with a .json beside it for .ptx). Error kNotFound / kInvalidInput for what is not a
/// source file at all (directory, empty, > 1 MiB, not UTF-8); Failure `bad_candidate` with file, line and column or
/// JSON pointer for a plan that is wrong. `task_override` is needed when there is no plan, and must agree with the
/// plan's "task" when there is one.
Result<Judged<Candidate>> load_candidate(const std::string& path, const std::string& task_override);
/// The same from text; `path` is only for messages. `plan_json` empty unless `is_ptx`.
Result<Judged<Candidate>> parse_candidate(const std::string& path, std::string source, std::string plan_json,
                                          bool is_ptx, const std::string& task_override);
/// Checks the plan's names against the task (buffers, hyperparameters, scratch, expressions) without running it.
std::optional<Failure> validate_plan(const Candidate& candidate, const TaskSpec& task);

// --------------------------------------------------------------------------------------------- compile (compile.cc,
// nvrtc.cc, admission.cc)
struct CompileOptions {
  std::string arch = "sm_90a";
  std::string cache_folder;  ///< empty: $XDG_CACHE_HOME/stepbench or ~/.cache/stepbench
  bool use_cache = true;
  double cpu_limit_s = 20;  ///< of the compile child
  double wall_limit_s = 30;
  uint64_t memory_limit_bytes = 4ull << 30;
  uint64_t output_limit_bytes = 64ull << 20;
};
/// The header <stepbench.cuh> for this task: Hyper, buffer types, fixed-width integers.
std::string task_header(const TaskSpec& task);
/// Source -> PTX + cubin + resources, in a child process with CPU, memory and output limits and no network; or from the
/// cache. PTX candidates pass through. Failure: compile_error with the author's lines, timeout, bad_candidate (option
/// not on the list, kernel not found: lists the kernels present). Error kUnavailable when there is no NVRTC on this
/// machine (says how to get it), kIo when the child cannot be started.
Result<Judged<CompiledModule>> compile(const Candidate& candidate, const TaskSpec& task, const CompileOptions& options);

struct Admission {
  std::vector<std::string> notes;  ///< remarks that do not refuse: reads a clock, constant tables ...
};
/// Looks at the PTX before anything runs. Failure `refused` with the source line for writable module-scope variables,
/// device malloc, printf, assert, dynamic parallelism; `unsupported` when the PTX cannot be parsed.
Judged<Admission> admit(const CompiledModule& module, const Candidate& candidate);

/// Version and place of NVRTC for `doctor`. kUnavailable with advice.
struct CompilerInfo {
  std::string version;
  std::string library;
  std::string include_folder;
};
Result<CompilerInfo> find_compiler();

// --------------------------------------------------------------------------------------------- session (plan.cc,
// session.cc)
/// Buffers of one list of tensors on one device, and the launches of one step over them.
class Session;
struct SessionDeleter {
  void operator()(Session* session) const;
};
using SessionPtr = std::unique_ptr<Session, SessionDeleter>;

/// Allocates the task's buffers (per tensor, inputs read-only), tables and scratch, expands the plan into launches and
/// checks them against the device's limits. `offset_elements` per buffer (empty = aligned). Failure `bad_candidate`
/// with the plan's JSON pointer for expressions, sizes and limits that are wrong. Buffers start poisoned.
Result<Judged<SessionPtr>> open_session(Device& device, ModuleId module, const CompiledModule& compiled,
                                        const Candidate& candidate, const TaskSpec& task,
                                        std::span<const TensorShape> tensors, std::span<const int32_t> offset_elements);
Result<void> write_tensor(Session& session, int buffer, int64_t tensor, std::span<const std::byte> bytes);
Result<void> read_tensor(Session& session, int buffer, int64_t tensor, std::span<std::byte> bytes);
/// A tensor's bytes on the host, all of them.
template <class Byte>
struct TensorBytes {
  int buffer = 0;
  int64_t tensor = 0;
  std::span<Byte> bytes;
};
/// Many tensors at one go (Device::write_all, read_all).
Result<void> write_tensors(Session& session, std::span<const TensorBytes<const std::byte>> tensors);
Result<void> read_tensors(Session& session, std::span<const TensorBytes<std::byte>> tensors);

struct StepReport {
  std::optional<Failure> failure;  ///< from a fault; check, case, seed are filled by the caller
  Counters counters;
};
/// Poisons scratch (seeded), writes Hyper, runs all launches of one step in order. Launches with an empty grid are
/// skipped.
Result<StepReport> run_step(Session& session, const HyperValues& hyper, uint64_t poison_seed);
struct TimedStepReport {
  std::optional<Failure> failure;  ///< as in StepReport
  TimedReport timed;
};
/// The same as one timed piece of work (Device::time_step). Damage between buffers is not looked for: that is
/// `check_memory`, for the caller to ask where it takes no time from anything.
Result<TimedStepReport> time_step(Session& session, const HyperValues& hyper, uint64_t poison_seed);
Result<std::optional<Failure>> check_memory(Session& session);
/// For data that are made on the device.
BufferId tensor_buffer(Session& session, int buffer, int64_t tensor);

/// Integer expressions of the plan: sizes, defines, `sms`, `max_n`; ceil_div min max align sum max prefix.
struct ExpressionScope {
  std::span<const TensorShape> tensors;  ///< for sum(), max(), prefix(), `tensors`, `total`, `max_n`
  int64_t tensor = -1;                   ///< index for n, rows, cols, index, prefix(); -1 in a step launch
  int64_t count = 1;                     ///< tensors in this launch's shape group
  int64_t iteration = 0;
  int64_t sms = 132;
  std::span<const std::pair<std::string, std::string>> defines;
};
/// Value of an integer expression. kInvalidInput: unknown name, not an integer, division by zero, beyond 2^53; `place`
/// is "column N".
Result<int64_t> evaluate_expression(const std::string& text, const ExpressionScope& scope);

// --------------------------------------------------------------------------------------------- oracle and comparison
// (oracle.cc, compare.cc)
/// Host state of one list in double: values[buffer][tensor][element].
struct HostState {
  std::vector<std::vector<std::vector<double>>> values;
};
/// Where a tensor given to the oracle lies in the candidate's list: `tensors` may be parts of a longer one.
struct OraclePlace {
  int64_t tensor = 0;
  int64_t first = 0;  ///< its first element; a multiple of 256
};
/// What a judgement of a candidate's step needs beside the oracle's own values, see OracleTensor.
struct OracleDetail {
  HostState* exact = nullptr;             ///< filled for buffers with a rounding, empty for the others
  const HostState* stored = nullptr;      ///< what the candidate stored
  std::span<const OraclePlace> places{};  ///< one per tensor; empty: the tensors are the list
  std::span<const double> totals{};       ///< oracle_totals() of the whole list, where the tensors are not all of it
  /// One per tensor, filled for the task's properties (OracleTensor::work).
  std::vector<std::vector<double>>* work = nullptr;
};
/// The oracle may be given any part of a tensor: elements do not depend on one another, or only through sums over the
/// list (oracle_totals).
bool judged_in_parts(const TaskSpec& task);
/// The task's sums over `tensors` (OracleReduce), from the inputs in `state`; none for a task without. Sums of parts of
/// a list add up to those of the list. kInvalidTask for an unknown task, or sums in a family that has none.
Result<std::vector<double>> oracle_totals(const TaskSpec& task, std::span<const TensorShape> tensors,
                                          const HyperValues& hyper, HostState& state, int threads);
/// One oracle step in place. `scale`, when given, receives OracleTensor::scale in the same layout. On up to `threads`
/// threads, over elements, or over tensors that the oracle gets whole, or within these where there are few of them.
Result<void> oracle_step(const TaskSpec& task, std::span<const TensorShape> tensors, const HyperValues& hyper,
                         HostState& state, HostState* scale, int threads, const OracleDetail& detail = {});
/// Storage bytes <-> double, exactly.
std::vector<double> to_double(DType dtype, std::span<const std::byte> bytes);
/// The same into memory that is used again; a span has the length already.
void to_double(DType dtype, std::span<const std::byte> bytes, std::vector<double>& out);
void to_double(DType dtype, std::span<const std::byte> bytes, std::span<double> out);
double ulp_of(DType dtype, double value);

struct CompareResult {
  int64_t elements_checked = 0;  ///< must equal the number of elements
  double worst_ratio = 0;        ///< error in units of the limit; infinite for a non-finite mismatch
  int64_t worst_element = -1;
  double worst_expected = 0, worst_got = 0;
  int64_t first_bad_element = -1;  ///< -1 when all pass
  double first_bad_ratio = 0, first_bad_expected = 0, first_bad_got = 0;
};
/// The one predicate, symmetric in its arguments' signs: NaN and infinity pass only where the oracle has the same class
/// and sign. With a rounding, `expected` is OracleTensor::exact.
CompareResult compare(std::span<const double> expected, std::span<const double> got, std::span<const double> scale,
                      const Tolerance& tolerance, DType dtype, Rounding rounding = Rounding::kNone);

// --------------------------------------------------------------------------------------------- checks and evaluation
// (check_*.cc, evaluate.cc)
struct Progress {
  std::string stage;  ///< "compile", "edges", ...
  int64_t done = 0, total = 0;
};
using ProgressFn = std::function<void(const Progress&)>;
/// Stage while another process holds the GPU: time spent there is nobody's fault.
inline constexpr const char* kWaitStage = "wait for the GPU";

struct EvalOptions {
  std::string device = "vm";  ///< "vm" or "cuda"
  std::string suite = "smoke";
  uint64_t salt = 0;
  int threads = 2;
  std::string only_check;  ///< replay: run this check only ...
  std::string only_case;   ///< ... and this case only; empty = all
  bool vm_first = true;    ///< before a GPU: run on the VM what it supports
  std::string baseline;    ///< file to time against; empty: the fastest of reference_kernels/<task>/
  /// Go on after a wrong value, to see how far every case is from its limit. The verdict is that of the first failure;
  /// any other kind of failure ends the evaluation as always, and nothing is timed after one.
  bool to_the_end = false;
  CompileOptions compile;
};

/// The whole evaluation of one candidate in this process: all stages in order, stopping at the first failure. A wrong
/// candidate gives a record with a verdict; Error only for what is not the candidate's fault.
Result<EvalRecord> evaluate(const Candidate& candidate, const TaskSpec& task, const EvalOptions& options,
                            const ProgressFn& progress);

/// The same in a worker process: a crash gives `harness_error`, a hang `timeout`, and this process survives. Worker and
/// its children die when this process dies.
Result<EvalRecord> evaluate_isolated(const Candidate& candidate, const TaskSpec& task, const EvalOptions& options,
                                     double wall_limit_s, const ProgressFn& progress);

// --------------------------------------------------------------------------------------------- record (record.cc)
/// Record <-> JSON text, version 3 (versions 1 and 2 are read too). Non-finite numbers are the strings "nan", "inf",
/// "-inf".
std::string record_to_json(const EvalRecord& record, int indent);
Result<EvalRecord> record_from_json(std::string_view text);

/// SHA-256, hex.
std::string sha256_hex(std::string_view bytes);

}  // namespace stepbench
