// Every noun that crosses a stage: plain aggregates with units in the field names and no behaviour.
// The verbs are in stages.h. The words are fixed; harness/README.md lists them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace stepbench {

// ---------------------------------------------------------------------------------------------
// Verdicts

/// What the harness says of a candidate. Closed list, persistent: never reorder or rename.
enum class Verdict : uint8_t {
  kPassed,
  kBadCandidate,  ///< plan or limits
  kCompileError,
  kRefused,      ///< admission: hidden state, forbidden import
  kLaunchError,  ///< launch refused, trap, misaligned access
  kOutOfBounds,  ///< access outside what the plan grants, writes to inputs included
  kUninitializedRead,
  kRace,
  kBarrierDivergence,
  kWrongResult,
  kDrift,
  kNondeterministic,
  kDivergedTraining,
  kTimeout,
  kImpossibleTime,
  kUnsupported,   ///< the VM does not implement something the candidate uses; not evidence
  kHarnessError,  ///< ours or the machine's fault; never charged to the candidate, never scored
};
inline constexpr int kVerdictCount = 17;

/// Where and how a candidate failed. Everything a person needs to find it again.
struct Failure {
  Verdict verdict = Verdict::kHarnessError;
  std::string message;  ///< one sentence
  std::string place;    ///< file:line of the author's source, or JSON pointer into the plan
  std::string check;  ///< "plan", "compile", "admission", "load", "edges", "families", "determinism", "drift", "large",
                      ///< "timing", "traffic"
  std::string case_name;   ///< CaseSpec::name; empty before any case ran
  uint64_t seed = 0;       ///< seed of the case's data (already salted)
  int64_t step = -1;       ///< optimizer step `t`; -1 when no step ran
  std::string buffer;      ///< buffer name; empty when not about one
  int64_t tensor = -1;     ///< index in the list; -1 when not about one
  int64_t element = -1;    ///< index in the tensor; -1 when not about one
  double expected = 0;     ///< oracle's value (valid when element >= 0)
  double got = 0;          ///< candidate's value (valid when element >= 0)
  double error_ratio = 0;  ///< |got - expected| in units of the limit; > 1 fails; may be inf or NaN
  std::string detail;      ///< more lines: compiler log, fault report; may be empty
};

/// What a stage that judges a candidate returns: its product, or the reason the candidate stops here.
/// Exactly one of the two is set.
template <class T>
struct Judged {
  std::optional<T> value;
  std::optional<Failure> failure;
  Judged() = default;
  Judged(T v) : value(std::move(v)) {}          // NOLINT: implicit by design
  Judged(Failure f) : failure(std::move(f)) {}  // NOLINT: implicit by design
  bool ok() const { return value.has_value(); }
};

// ---------------------------------------------------------------------------------------------
// Task

enum class DType : uint8_t { kF32, kBf16, kF16, kU8, kI32, kI16 };
enum class Role : uint8_t { kIn, kInOut };
enum class HyperType : uint8_t { kF32, kI32 };

/// How an update's result becomes the stored value of a buffer, where the task fixes that.
enum class Rounding : uint8_t {
  kNone,        ///< it is stored as computed, in the buffer's own precision
  kNearest,     ///< computed in fp32, then rounded to the nearest value of a narrower format or to the nearest code
  kStochastic,  ///< computed in fp32, then to one of the two neighbours, by chance and without bias
};

/// Limits of one buffer. An element passes one step when
///   |got - expected| <= step_scale_ratio * scale + step_ulp * ulp(expected)
/// where `scale` is the oracle's sum of the magnitudes that enter the element's movement
/// (tasks/oracle.h) and ulp is that of the buffer's dtype. There is no bare absolute limit.
/// With a rounding, `expected` is the exact value before it, ulp that of fp32, and |got - expected| is counted from the
/// edge of what rounds to `got`: a stored value is right where some number within the limit may be rounded to it.
struct Tolerance {
  double step_scale_ratio = 0;
  double step_ulp = 0;
  double drift_ratio = 0;  ///< RMS(got - oracle) / RMS(oracle's total movement) at a checkpoint
};

struct BufferSpec {
  std::string name;
  DType dtype = DType::kF32;
  Role role = Role::kInOut;
  std::string shape = "n";  ///< elements per tensor: "n", "rows", "cols", "rows*rows", "cols*cols", "1" or "n/256" (one
                            ///< per 256 of n, rounded up)
  std::string initial;      ///< value family of a valid state: "parameter", "gradient", ... (inputs.h)
  Tolerance tolerance;      ///< unused for Role::kIn
  Rounding rounding = Rounding::kNone;
};

/// One field of the device-resident Hyper struct, in declaration order (4 bytes each).
struct HyperField {
  std::string name;
  HyperType type = HyperType::kF32;
  std::string meaning;  ///< one line for README and `stepbench show`
  double default_value = 0;
  double min = 0, max = 0;  ///< range of draws (inclusive)
  /// "log", "log_to_one" (1 - value is log-uniform), "linear", "choice" (of `choices`), "step", "first_step",
  /// "found_inf", "derived", "derived_product" (product of the formula's values over all steps so far)
  std::string draw;
  std::vector<double> choices;
  std::string derived;     ///< formula in the other fields, double precision; only for the two derived draws
  bool scheduled = false;  ///< changes every step (learning-rate schedule); baked-in values must fail
  std::string condition;   ///< formula in the other drawn fields; where it is 0 the draw is 0; empty = always drawn
};

/// Sizes of one tensor: n elements; rows = first dimension, cols = product of the rest (1-D: cols = 1).
struct TensorShape {
  std::vector<int64_t> dims;
  int64_t n = 0, rows = 0, cols = 0;
};

/// Sizes + hyperparameters + step range + input family.
struct CaseSpec {
  std::string name;  ///< unique in its check: "gpt2_124m_div32/tiny/t1000"
  std::string list;  ///< name of the tensor list
  std::vector<TensorShape> tensors;
  std::string family;                    ///< input family of gradients and states
  int64_t first_step = 1;                ///< t of the first step run
  int32_t steps = 1;                     ///< consecutive steps to run
  std::vector<int32_t> offset_elements;  ///< per buffer: pointer offset from 256-byte alignment; empty = 0
  bool with_found_inf = false;           ///< some steps carry inf/NaN gradients and found_inf = 1
};

/// A named group of cases: every list x family x first step.
struct CaseGroup {
  std::vector<std::string> lists;  ///< names in tasks/shapes.json, optionally "name/divisor", or literal sizes "[7,0]"
  std::vector<std::string> families;
  std::vector<int64_t> first_steps;  ///< cycled over the cases, not multiplied
  int32_t steps = 2;
  std::vector<std::vector<int32_t>> offsets;  ///< pointer offsets per buffer, multiplied; empty = aligned only
  bool with_found_inf = false;                ///< CaseSpec::with_found_inf of every case
};

struct DriftSpec {
  std::string list;
  std::vector<std::string> families;
  int64_t steps = 1000;
  int32_t hidden_checkpoints = 8;  ///< drawn per run, plus the last step
};

/// A list of tensors too large to be kept in double: data are made where they are used, and the oracle runs over parts
/// (check_large.cc).
struct LargeSpec {
  std::string list{};
  int32_t steps = 3;
};

/// A list that is timed and scored.
struct TimingSpec {
  std::string list{};
  bool hidden = false;  ///< every dimension is varied by up to 10 % from the run's salt
};

struct Suite {
  std::vector<CaseGroup> edges;
  std::vector<CaseGroup> families;
  std::vector<CaseGroup> determinism;
  std::vector<DriftSpec> drift;
  std::vector<LargeSpec> large;    ///< on devices with memory for them; may be empty
  std::vector<TimingSpec> timing;  ///< on devices with a clock; may be empty
};

/// Something that every right result has, whatever the order of its operations (orthogonality, symmetry, the residual
/// of a root). The task's oracle measures it on what the candidate stored; more than `limit`, or NaN, is wrong.
struct PropertySpec {
  std::string name;
  std::string buffer;  ///< named by the failure
  double limit = 0;
  std::string meaning;  ///< what is measured, in one line, with its unit
};

/// Least arithmetic of one step, summed over the tensors of a list: formulas (formula.h) in `rows`, `cols` and `n` of
/// one tensor. A multiplication with its addition counts as two. Empty: nothing that could be counted.
struct FlopsSpec {
  std::string fp32;    ///< on the fp32 units
  std::string tensor;  ///< of products, in passes at the rate of bf16, for a kernel that does the same for all data
  /// The same, such that no right kernel of that kind can do with less in any format and any order: a time below it is
  /// impossible. Empty: `tensor`.
  std::string tensor_gate;
};

struct TaskSpec {
  std::string id;  ///< folder name
  int32_t version = 1;
  std::string title;
  std::string family;  ///< "elementwise", "storage", "norm", "matrix"
  std::string folder;  ///< absolute path
  std::vector<BufferSpec> buffers;
  std::vector<HyperField> hyper;
  std::vector<std::string> default_args;  ///< arguments of the default plan ("for": "tensor")
  std::map<std::string, Suite> suites;    ///< "smoke", "standard", "full"
  std::vector<std::string> input_families;
  double bytes_per_param = 0;  ///< least DRAM bytes per parameter and step
  FlopsSpec flops;
  std::vector<std::string> allows{};                             ///< library calls that plans may make: "gemm"
  std::vector<PropertySpec> properties;                          ///< in the order of the oracle's values; may be empty
  std::vector<std::pair<std::string, std::string>> conventions;  ///< decision -> what this task fixes
  bool bitwise_deterministic = true;
};

/// Values of the Hyper struct for one step, in TaskSpec::hyper order. Each is exactly representable in
/// its field's type, so that the oracle and the device see the same number.
struct HyperValues {
  std::vector<double> values;
};

// ---------------------------------------------------------------------------------------------
// Candidate

enum class LaunchFor : uint8_t { kStep, kTensor, kShape };

/// A product that the harness computes: d = alpha * op(a) op(b) + beta * c, `batch` times, all matrices row-major
/// without gaps. op(a) is m x k, op(b) k x n, c and d m x n.
struct PlanGemm {
  std::string m, n, k;                                 ///< expressions, as all that follow up to the strides
  std::string transpose_a = "0", transpose_b = "0";    ///< 1: the matrix is stored transposed
  std::string batch = "1";                             ///< products
  std::string stride_a, stride_b, stride_c, stride_d;  ///< elements from one matrix to the next; empty: its size
  std::string a, b, c, d;                              ///< pointers, written as kernel arguments; c may be empty
  DType inputs = DType::kF32;                          ///< of a and b: f32, bf16 or f16
  DType output = DType::kF32;                          ///< of c and d: f32, or as the inputs
  double alpha = 1, beta = 0;                          ///< used as fp32, as the sums are
};

/// One launch, or a group of launches when `launches` is not empty. Expressions are kept as text and
/// evaluated per tensor or shape; `pointer` is the JSON pointer of the entry for messages.
struct PlanLaunch {
  LaunchFor each = LaunchFor::kStep;
  std::string pointer;
  // a launch
  std::string kernel;  ///< as written: extern "C" name or C++ name expression
  std::array<std::string, 3> grid{"1", "1", "1"};
  std::array<std::string, 3> block{"1", "1", "1"};
  std::array<std::string, 3> cluster{"1", "1", "1"};
  std::string shared_bytes = "0";
  std::vector<std::string> args;  ///< raw text of each argument; numbers as their literal
  std::string library;            ///< "gemm": not a kernel but `gemm`
  PlanGemm gemm;
  // a group
  std::string repeat = "1";
  std::vector<PlanLaunch> launches;
};

struct Plan {
  std::vector<std::pair<std::string, std::string>> defines;  ///< name -> replacement text, in order
  std::map<std::string, std::vector<std::string>> tunables;
  std::vector<std::string> options;                          ///< compile options, allow-listed
  std::vector<std::pair<std::string, std::string>> scratch;  ///< name -> byte expression
  std::vector<PlanLaunch> launches;
};

struct Candidate {
  std::string path;  ///< as given by the user; used in messages
  std::string task;  ///< task id
  std::string note;
  std::string source;   ///< whole file, valid UTF-8
  bool is_ptx = false;  ///< .ptx with a .json plan beside it
  std::string sha256;   ///< of source plus plan text, hex
  Plan plan;
  bool default_plan = false;  ///< no plan in the file: kernel name filled in after compilation
  int32_t plan_line = 1;      ///< first line of the plan's JSON in the file
  std::string plan_text;      ///< the .json beside a .ptx, as read; empty for .cu, whose plan is in `source`
};

// ---------------------------------------------------------------------------------------------
// Compiled code

struct KernelResources {
  std::string entry;       ///< name in the PTX
  int32_t registers = -1;  ///< -1 unknown (PTX input, no ptxas)
  int32_t spill_store_bytes = -1, spill_load_bytes = -1, stack_bytes = -1;
  int32_t shared_bytes = -1, constant_bytes = -1;
};

struct CompiledModule {
  std::string ptx;
  std::vector<std::byte> cubin;                ///< empty for PTX input
  std::string arch;                            ///< "sm_90a"
  std::string compiler;                        ///< "NVRTC 13.0"; "none" for PTX input
  std::string log;                             ///< sanitised diagnostics, warnings included
  std::map<std::string, std::string> entries;  ///< kernel as written in the plan -> PTX entry name
  std::vector<KernelResources> resources;
  std::string key;  ///< content address in the cache, hex
  bool from_cache = false;
  double compile_ms = 0;
};

// ---------------------------------------------------------------------------------------------
// Outcome of an evaluation

/// Exact counts of work; the VM fills all of them, a GPU none but `launches`.
struct Counters {
  uint64_t launches = 0;
  uint64_t warp_instructions = 0;
  uint64_t lane_instructions = 0;
  uint64_t global_load_bytes = 0, global_store_bytes = 0;      ///< asked for by active lanes
  uint64_t global_load_sectors = 0, global_store_sectors = 0;  ///< 32-byte sectors per request, summed
  uint64_t shared_wavefronts = 0;                              ///< bank-conflict free = one per request
  uint64_t divergent_branches = 0;
  uint64_t barriers = 0;
  uint64_t atomics = 0;
  uint64_t local_bytes = 0;
};

/// One point of the drift curve of one buffer.
struct DriftPoint {
  int64_t step = 0;
  double rms_ratio = 0;   ///< RMS(got - oracle) / RMS(oracle movement since the start)
  double bias_ratio = 0;  ///< mean(signed error along the movement) / RMS movement
  double bias_sigma = 0;  ///< |mean| in standard errors
  /// RMS error in units of the limit, with its share for roundings that nobody can avoid (1 = at the limit). Nothing
  /// where drift is not judged, and in records that were written before there was this number.
  std::optional<double> error_ratio = std::nullopt;
};

struct DriftCurve {
  std::string case_name;
  std::string buffer;
  std::vector<DriftPoint> points;
  double growth_exponent = 0;  ///< slope of log(rms error) over log(step), least squares
  double limit_ratio = 0;      ///< of the movement, without the share of roundings; 0 where drift is not judged
};

/// What one case of one check found. `worst_error_ratio` is in units of the limit (1 = at the limit).
struct CaseReport {
  std::string check;
  std::string case_name;
  Verdict verdict = Verdict::kPassed;
  int64_t elements_checked = 0;
  double worst_error_ratio = 0;
  std::string worst_buffer;
  double wall_ms = 0;
};

struct Environment {
  std::string stepbench_version;
  std::string device;  ///< "vm" or the GPU's name
  std::string device_detail;
  std::string compiler;
  std::string host;  ///< CPU model
  std::string os;
  std::string driver;            ///< version of the NVIDIA driver; empty on the VM
  std::string gpu_uuid;          ///< "GPU-..."; empty on the VM
  double sm_clock_mhz = 0;       ///< highest the GPU allows; 0 unknown
  double power_limit_w = 0;      ///< 0 unknown
  double temperature_c = 0;      ///< when the evaluation ended; 0 unknown
  int32_t other_processes = -1;  ///< other programs on the GPU during timing; -1 unknown
};

/// Rates of one GPU, measured on it (`stepbench doctor --calibrate`). A time is judged against these and no data sheet.
/// Arithmetic counts a multiplication with its addition as two operations. Clocks: 0 unknown.
struct Calibration {
  std::string gpu_uuid;
  std::string measured_utc;
  double read_bytes_per_s = 0;  ///< reading alone, the fastest that memory goes
  double copy_bytes_per_s = 0;  ///< bytes read + bytes written
  double launch_ns = 0;         ///< an empty kernel between two events, work queued ahead
  uint64_t l2_bytes = 0;
  double fp32_flops_per_s = 0;    ///< fma on the fp32 units; 0 unknown
  double fp32_sm_mhz = 0;         ///< SM clock while that was measured
  double tensor_flops_per_s = 0;  ///< products in bf16, sums in fp32, by cuBLASLt; 0 unknown: no cuBLASLt here
  double tensor_sm_mhz = 0;       ///< SM clock while that was measured
  double highest_sm_mhz = 0;      ///< highest SM clock that the GPU allows
};

/// One optimizer step of the baseline and one of the candidate, timed next to each other.
struct TimingPair {
  double baseline_ns = 0, candidate_ns = 0;  ///< between two events
  /// The same by the GPU's own nanosecond counter, read by a kernel before and one after: two launches longer.
  double baseline_counter_ns = 0, candidate_counter_ns = 0;
  double baseline_sm_mhz = 0, candidate_sm_mhz = 0;  ///< SM clock right after the sample; 0 unknown
  bool candidate_first = false;
  std::string dropped;  ///< why the pair is not used; empty: it is
};

/// What the times of a pair of kernels say.
enum class SpeedWord : uint8_t { kFaster, kSlower, kSame, kUndecided };

/// What decides how fast a perfect kernel is: moving the required bytes, or the arithmetic of one kind of unit.
enum class FloorBy : uint8_t { kMemory, kFp32, kTensor };

/// Candidate against baseline on one list of tensors. Raw samples included, so that anyone can compute it again.
struct TimingReport {
  std::string list;
  bool hidden = false;
  int64_t tensors = 0, params = 0;
  std::string baseline;  ///< file name in reference_kernels/<task>/, or the path given
  std::string baseline_sha256;
  std::string method;                        ///< how it was measured, in words that tell two methods apart
  double baseline_ns = 0, candidate_ns = 0;  ///< medians of the pairs used
  double speedup = 0;  ///< exp(median log(baseline / candidate)); above 1: the candidate is faster
  double speedup_low = 0, speedup_high = 0;  ///< 95 % interval of it, by order statistics
  SpeedWord word = SpeedWord::kUndecided;
  double floor_ns = 0;  ///< required bytes or required arithmetic at the measured rates: a perfect kernel's time
  FloorBy floor_by = FloorBy::kMemory;  ///< which of them takes longest
  double gate_ns = 0;                   ///< a median below this is `impossible_time`
  double floor_ratio = 0;               ///< floor_ns / candidate_ns
  int64_t verified_steps = 0;           ///< timed steps whose results were compared with the oracle
  int64_t verified_elements = 0;        ///< elements compared in them
  std::vector<TimingPair> pairs;
};

/// Who made a candidate, as said when it was submitted.
struct Submission {
  std::string name;   ///< of the person or agent
  std::string model;  ///< of an agent; empty for a person
  std::string note;
  int32_t round = 0;  ///< of an agent's dialogue; 0 unknown
  int64_t prompt_tokens = 0, completion_tokens = 0;
  double cost_usd = 0;
};

/// Everything one evaluation produced. The JSON form is record_version 3 (harness/README.md). Version 2 knows of no
/// rates of arithmetic: its floors are by memory alone. Version 1 lacks `submission`, `timing`, `calibration` and the
/// environment's fields about a GPU.
struct EvalRecord {
  int32_t record_version = 3;
  std::string id;           ///< first 16 hex digits of a hash over candidate, task, salt and time
  std::string created_utc;  ///< ISO 8601
  std::string task;
  int32_t task_version = 1;
  std::string suite;
  std::string salt;  ///< 16 hex digits
  Candidate candidate;
  Environment environment;
  Verdict verdict = Verdict::kHarnessError;
  std::optional<Failure> failure;  ///< set unless passed
  std::string replay_command;      ///< empty when passed
  std::vector<CaseReport> cases;
  std::vector<DriftCurve> drift;
  std::vector<KernelResources> resources;
  std::string compile_log;
  std::vector<std::string> notes;          ///< admission remarks, switched-off checks, in words
  Counters counters;                       ///< of one step on the traffic case
  int64_t traffic_params = 0;              ///< parameters of that case
  double modelled_bytes_per_param = 0;     ///< sectors * 32 / parameters; VM only; a model
  double ideal_bytes_per_param = 0;        ///< the task's floor
  double wall_ms = 0;                      ///< of the whole evaluation on the host; not a performance figure
  std::map<std::string, double> stage_ms;  ///< where the evaluation's time went
  std::vector<TimingReport> timing;        ///< empty on a device without a clock
  std::optional<Calibration> calibration;  ///< what the times were judged against
  std::optional<Submission> submission;
};

}  // namespace stepbench
