// Internal contract between the checks (check_*.cc), evaluate.cc and their tests: one candidate on a device of its own
// (Rig), data of one case, the teacher-forced judgement of one step, and the pool that runs the cases of a check.
// It does not know how a candidate was compiled or where a device comes from: the caller passes both in.
#pragma once

#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/check_stochastic.h"
#include "harness/stages.h"

namespace stepbench {

/// Gives a fresh device each time. Must be callable from several threads at once.
using OpenDevice = std::function<Result<std::unique_ptr<Device>>()>;

/// What every check needs. The references outlive the checks.
struct CheckContext {
  const TaskSpec& task;
  const Candidate& candidate;
  const CompiledModule& compiled;
  OpenDevice open;
  uint64_t salt = 0;
  int threads = 1;
  std::string only_case;          ///< run this case only; empty = all
  ProgressFn progress;            ///< may be empty
  bool one_at_a_time = false;     ///< one case after the other, each with all threads: the devices are one GPU
  int64_t max_case_elements = 0;  ///< edges and families: leave out cases of more elements; 0 = none
  int64_t max_case_tensors = 0;   ///< edges and families: leave out cases of more tensors; 0 = none
  int64_t max_cases = 0;          ///< edges and families: only the first so many of what is left; 0 = all
  bool to_the_end = false;        ///< EvalOptions::to_the_end
};

// --------------------------------------------------------------------------------------------- scenario
// (check_scenario.cc)
using Bytes = std::vector<std::byte>;
/// Raw storage of one list: [buffer][tensor].
using BufferBytes = std::vector<std::vector<Bytes>>;
/// The same, or parts of it, where somebody else keeps the bytes.
using BufferViews = std::vector<std::vector<std::span<const std::byte>>>;
BufferViews views_of(const BufferBytes& bytes);
/// Of `count` tensors from `first` on, in buffers that have any.
BufferViews views_of(const BufferBytes& bytes, size_t first, size_t count);

/// A candidate loaded on a device of its own, with buffers for one list of tensors.
struct Rig {
  std::unique_ptr<Device> device;
  SessionPtr session;  ///< after `device`: released before it
};
Result<Judged<Rig>> open_rig(const CheckContext& context, std::span<const TensorShape> tensors,
                             std::span<const int32_t> offset_elements);

/// Instructions (VM) that one launch may use: far above any honest kernel, and soon used up by an endless loop over the
/// short lists that come first.
uint64_t launch_budget(std::span<const TensorShape> tensors);

/// Writes or reads the buffers of one role. `read_buffers` resizes `bytes` where needed.
Result<void> write_buffers(Rig& rig, const TaskSpec& task, Role role, const BufferBytes& bytes);
Result<void> read_buffers(Rig& rig, const TaskSpec& task, std::span<const TensorShape> tensors, Role role,
                          BufferBytes& bytes);

/// Hand-made trajectory: for tests of single public faults, and for anything that is not drawn from a seed.
struct ScenarioStep {
  HyperValues hyper;
  BufferBytes inputs;  ///< [buffer][tensor]; empty = the inputs stay as they are
};
struct Scenario {
  std::vector<TensorShape> tensors;
  BufferBytes initial;  ///< every buffer, inputs included
  std::vector<ScenarioStep> steps;
};
struct ScenarioResult {
  std::optional<Failure> failure;  ///< from the plan, the load or a fault
  BufferBytes final_buffers;       ///< as read back after the last step; empty after a failure
  Counters counters;
};
/// Runs all steps freely, one after the other, and reads every buffer back. Nothing is judged but faults.
Result<ScenarioResult> run_scenario(const CheckContext& context, const Scenario& scenario);

// --------------------------------------------------------------------------------------------- data of a case
// (check_data.cc)
/// Seed and streams of one case. `streams[i]` numbers the random stream of tensor i, so that a tensor that is run alone
/// still gets the numbers it had in its list.
struct CaseData {
  uint64_t seed = 0;
  std::vector<int64_t> streams;
};
CaseData case_data(const CheckContext& context, const std::string& check, const CaseSpec& spec);

/// The buffer whose random stream the states of `buffer` come from: another one for shares of one value (inputs.h).
size_t source_buffer(const TaskSpec& task, size_t buffer);
bool has_draw(const TaskSpec& task, const std::string& draw);  ///< some Hyper field is drawn this way
/// Fills the `inout` buffers of `bytes`; `zero_moments`: everything that is not a parameter starts at zero.
void fill_states(const TaskSpec& task, std::span<const TensorShape> tensors, const std::string& family,
                 const CaseData& data, bool zero_moments, BufferBytes& bytes);
/// Fills the `in` buffers for the `draw`-th step of the case.
void fill_inputs(const TaskSpec& task, std::span<const TensorShape> tensors, const std::string& family,
                 const CaseData& data, int64_t draw, BufferBytes& bytes);
/// Storage -> double for the buffers of one role, on up to `threads` threads.
void to_host(const TaskSpec& task, Role role, const BufferBytes& bytes, HostState& host);
void to_host(const TaskSpec& task, Role role, const BufferViews& bytes, HostState& host, int threads = 1);
int64_t total_elements(std::span<const TensorShape> tensors);

// --------------------------------------------------------------------------------------------- judgement of one step
// (check_step.cc)
/// NaN counts as the worst ratio of all.
inline bool worse(double ratio, double than) { return std::isnan(ratio) ? !std::isnan(than) : ratio > than; }
/// What the comparison of one step with the oracle found.
struct StepJudgement {
  std::optional<Failure> failure;  ///< verdict, message, buffer, tensor, element, expected, got, ratio, detail
  int64_t elements_checked = 0;
  double worst_ratio = 0;
  std::string worst_buffer;
};
/// Memory that is used again from step to step.
struct JudgeSpace {
  HostState state, scale, exact, stored;
  std::vector<std::vector<double>> work;  ///< OracleTensor::work
  /// Per buffer with stochastic rounding: decisions of the step judged before, for correlations from step to step.
  std::map<size_t, RoundingDecisions> decisions;
};
/// Those of judgements that run at the same time, kept from step to step: the doubles of a large tensor, taken from the
/// system anew, cost several times what its judgement does.
struct JudgeSpaces {
  struct Free {
    int64_t elements = 0;  ///< of the largest tensor that was judged in it
    std::unique_ptr<JudgeSpace> space;
  };
  std::mutex mutex;
  std::vector<Free> free;
  int64_t held = 0;  ///< elements of all spaces, in use or free
};
/// What judgements that run at the same time may hold together, in elements of the tensors; more where one tensor alone
/// has more.
inline constexpr int64_t kMostHeldElements = int64_t{1} << 28;  // about 20 GB
/// The smallest free space in which a tensor of so many elements fits without wasting most of it; else a new one, or,
/// where that would hold too much, the largest.
JudgeSpaces::Free take_space(JudgeSpaces& spaces, int64_t elements);
void return_space(JudgeSpaces& spaces, JudgeSpaces::Free&& taken);
/// Part of one tensor: elements [first, first + count).
struct Window {
  int64_t tensor = 0, first = 0, count = 0;
};
/// Which part of a longer list is judged: all data are those of the windows, one after the other, and `tensors[i]` has
/// the shape of `windows[i]`.
struct JudgePart {
  std::span<const Window> windows{};  ///< empty: the list is judged as it is
  std::span<const double> totals{};   ///< oracle_totals() of the whole list, for tasks that have them
  bool continues = false;  ///< windows[0] goes on where the part before it ended; they are one run of elements
};
/// Oracle step from exactly `before` (states and inputs), compared with `after`, every element of every `inout` buffer.
/// With `part`, failures name the place in the longer list. Parts of tensors are for tasks with judged_in_parts().
Result<StepJudgement> judge_step(const TaskSpec& task, std::span<const TensorShape> tensors, const HyperValues& hyper,
                                 const BufferViews& before, const BufferViews& after, int threads, JudgeSpace& space,
                                 const JudgePart& part = {});
Result<StepJudgement> judge_step(const TaskSpec& task, std::span<const TensorShape> tensors, const HyperValues& hyper,
                                 const BufferBytes& before, const BufferBytes& after, int threads, JudgeSpace& space);

/// Where an element lies in the candidate's list.
struct ElementPlace {
  int64_t tensor = -1, element = -1;
  bool operator==(const ElementPlace&) const = default;
};
/// All that one buffer's comparison found.
struct BufferFinding {
  ElementPlace bad_place{};  ///< of the first bad element, by tensors and then by elements; tensor -1: none
  CompareResult bad{};       ///< of the part that it lies in
  ElementPlace worst_place{};
  CompareResult worst{};
  double worst_ratio = 0;
};
/// What was found in a step whose parts are judged one after the other, in order, to be concluded as one.
struct StepFindings {
  std::vector<BufferFinding> buffers;
  int64_t elements_checked = 0;
  std::map<size_t, RoundingDecisions> decisions;  ///< per buffer with stochastic rounding
};
/// judge_step in two: adds one part to `findings`; and the verdict on all of them. `previous`: decisions of the step
/// before, for correlations from step to step; null where only parts of the list were judged. Without properties.
Result<void> compare_step(const TaskSpec& task, std::span<const TensorShape> tensors, const HyperValues& hyper,
                          const BufferViews& before, const BufferViews& after, int threads, JudgeSpace& space,
                          const JudgePart& part, StepFindings& findings);
StepJudgement conclude_step(const TaskSpec& task, const StepFindings& findings,
                            const std::map<size_t, RoundingDecisions>* previous);
/// First difference in the buffers of one role, bit by bit.
struct BitDifference {
  size_t buffer = 0, tensor = 0;
  int64_t element = 0;
  double first = 0, second = 0;
};
std::optional<BitDifference> first_difference(const TaskSpec& task, Role role, const BufferBytes& first,
                                              const BufferBytes& second);
/// Failure with the place of the difference filled in.
Failure difference_failure(const TaskSpec& task, const BitDifference& difference, Verdict verdict, std::string message);

// --------------------------------------------------------------------------------------------- pool (check_pool.cc)
/// True once a case that comes earlier in the list has failed: this one's outcome no longer matters.
class CancelFlag {
 public:
  CancelFlag(const std::atomic<size_t>& first_bad, size_t index) : first_bad_(&first_bad), index_(index) {}
  bool now() const { return first_bad_->load(std::memory_order_relaxed) < index_; }

 private:
  const std::atomic<size_t>* first_bad_;
  size_t index_;
};

struct CaseOutcome {
  CaseReport report;
  std::optional<Failure> failure;
  std::vector<DriftCurve> drift;
};
struct CheckOutcome {
  std::vector<CaseReport> reports;
  std::vector<DriftCurve> drift;
  std::optional<Failure> failure;
  std::vector<std::string> notes;
  std::optional<size_t> failed_case;  ///< index of the failure's case in the list given to run_cases
};
using CaseRunner = std::function<Result<CaseOutcome>(size_t index, const CancelFlag& cancel, int threads)>;
/// A wrong number, as opposed to a fault or a stop: the cases after it can still be judged.
bool is_wrong_value(Verdict verdict);

/// Runs cases 0..count-1 on up to context.threads threads and returns those up to the first failure in case order,
/// whatever order they ended in. The runner gets the threads it may use itself.
Result<CheckOutcome> run_cases(const CheckContext& context, const std::string& check, size_t count,
                               const CaseRunner& runner);
/// Drops all but context.only_case. kNotFound when the check has no such case.
Result<void> select_case(const CheckContext& context, const std::string& check, std::vector<CaseSpec>& cases);
/// Fills check, case and seed of a failure.
Failure in_case(Failure failure, const std::string& check, const std::string& case_name, uint64_t seed, int64_t step);

// --------------------------------------------------------------------------------------------- lists of real size
// (check_window.cc)
/// Values that only the host can make, for lists that are judged in parts: of every buffer so many chunks of
/// kWindowElements, made when they are first needed. The chunks of all tensors are copies of these; what the device can
/// make differs everywhere, so that no two elements of a list have the same data throughout.
struct HostChunks {
  static constexpr size_t kKinds = 64;
  std::mutex mutex;
  std::map<std::array<int64_t, 3>, std::shared_future<std::vector<std::byte>>> chunks;  ///< by buffer, draw, kind
};
/// Seed of the data of a list that is too large to be kept on the host: every value can be made again where it is
/// needed.
struct LargeData {
  uint64_t seed = 0;
  std::shared_ptr<HostChunks> host = std::make_shared<HostChunks>();
};
/// The whole list in windows of at most kWindowElements; every window starts at a multiple of it.
inline constexpr int64_t kWindowElements = int64_t{1} << 18;
std::vector<Window> all_windows(std::span<const TensorShape> tensors);
/// First and last elements of every tensor, and random windows until `elements` are covered (or all).
inline constexpr int64_t kAuditWindow = 4096;
std::vector<Window> audit_windows(std::span<const TensorShape> tensors, int64_t elements, uint64_t seed);
/// One window for each tensor: for tasks that cannot be cut.
std::vector<Window> whole_tensors(std::span<const TensorShape> tensors);
std::vector<TensorShape> window_shapes(std::span<const Window> windows);
/// Fills the buffers of one role on the device: states as before step 0, inputs as of step `draw`. Steps come in order,
/// from 0 on: inputs that only the host can make are made anew in every sixteenth and lie there in between.
Result<void> generate_buffers(Rig& rig, const TaskSpec& task, std::span<const TensorShape> tensors, Role role,
                              const LargeData& data, int64_t draw, int threads);
/// The same values on the host, for some windows.
void generate_windows(const TaskSpec& task, std::span<const TensorShape> tensors, Role role,
                      std::span<const Window> windows, const LargeData& data, int64_t draw, int threads,
                      BufferBytes& bytes);
Result<void> read_windows(Rig& rig, const TaskSpec& task, std::span<const TensorShape> tensors, Role role,
                          std::span<const Window> windows, BufferBytes& bytes);
/// oracle_totals() of the whole list with the inputs of step `draw`, a few windows at a time.
Result<std::vector<double>> list_totals(const TaskSpec& task, std::span<const TensorShape> tensors,
                                        const HyperValues& hyper, const LargeData& data, int64_t draw, int threads);
/// judge_step over windows, shared among threads; `totals` are list_totals() of that step. Large tensors that are
/// judged whole get more than one thread; no bit of the judgement depends on how many.
Result<StepJudgement> judge_windows(const TaskSpec& task, std::span<const TensorShape> tensors,
                                    std::span<const Window> windows, const HyperValues& hyper,
                                    std::span<const double> totals, const BufferBytes& before, const BufferBytes& after,
                                    int threads, JudgeSpaces& spaces);
/// The same for one step alone.
Result<StepJudgement> judge_windows(const TaskSpec& task, std::span<const TensorShape> tensors,
                                    std::span<const Window> windows, const HyperValues& hyper,
                                    std::span<const double> totals, const BufferBytes& before, const BufferBytes& after,
                                    int threads);
/// Judges every element of the first step after generate_buffers(Role::kInOut), in parts.
Result<StepJudgement> judge_first_step(Rig& rig, const TaskSpec& task, std::span<const TensorShape> tensors,
                                       const HyperValues& hyper, const LargeData& data, int threads,
                                       JudgeSpaces& spaces);

/// Which steps of a large list are judged in full. Up to `every_element_limit` parameters: every step. Above: every
/// element of the first step, and in every later step an audit of `audit_elements` elements and all ends of tensors.
struct LargeRule {
  int64_t every_element_limit = int64_t{1} << 25;
  int64_t audit_elements = int64_t{1} << 20;
};
/// Lists of real models and beyond 2^31 elements (check_large.cc). Lists that the device has no memory for are left out
/// with a note.
Result<CheckOutcome> check_large(const CheckContext& context, std::span<const LargeSpec> specs, const LargeRule& rule,
                                 const DeviceInfo& info);

// --------------------------------------------------------------------------------------------- the checks
/// One teacher-forced case: every step starts from the candidate's own state before it (check_teacher.cc).
Result<CaseOutcome> run_teacher_case(const CheckContext& context, const std::string& check, const CaseSpec& spec,
                                     const CaseData& data, const CancelFlag& cancel, int threads);
/// Edges and families: teacher-forced cases, and a smaller shape for the first failure (check_edges.cc).
Result<CheckOutcome> check_teacher_forced(const CheckContext& context, const std::string& check,
                                          std::span<const CaseGroup> groups);
/// One line about the smallest shape that still fails; empty when nothing smaller was found (check_shrink.cc).
Result<std::string> shrink_case(const CheckContext& context, const std::string& check, const CaseSpec& spec,
                                const CaseData& data, const Failure& failure);
/// Same input twice, bit by bit (check_determinism.cc).
Result<CheckOutcome> check_determinism(const CheckContext& context, std::span<const CaseGroup> groups);
/// Long free-running trajectories beside the oracle's own (check_drift.cc).
Result<CheckOutcome> check_drift(const CheckContext& context, std::span<const DriftSpec> specs);
/// Hidden steps of one drift case, ascending: one in each of `hidden` log-spaced strata, one beyond step 829 and the
/// last one.
std::vector<int64_t> draw_checkpoints(int64_t steps, int32_t hidden, uint64_t seed);
/// Least-squares slope of log(rms error) over log(step); 0 with fewer than two usable points.
double growth_exponent(std::span<const int64_t> steps, std::span<const double> rms_errors);

/// One step over one aligned tensor: exact counts of work (check_traffic.cc).
struct TrafficOutcome {
  std::optional<Failure> failure;
  Counters counters;
  int64_t params = 0;
};
inline constexpr int64_t kTrafficElements = 65536;
Result<TrafficOutcome> measure_traffic(const CheckContext& context);

/// evaluate() from the device load on, for code compiled elsewhere and devices from elsewhere (evaluate.cc).
Result<EvalRecord> evaluate_compiled(const Candidate& candidate, const TaskSpec& task, const CompiledModule& compiled,
                                     const OpenDevice& open, const EvalOptions& options, const ProgressFn& progress);

}  // namespace stepbench
