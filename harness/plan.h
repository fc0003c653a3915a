// Plan + task -> prepared plan (names, scopes and expressions checked), and prepared plan + tensors -> concrete
// launches. Host only: no device is touched.
//
// Scopes. A top-level launch is for the step, every tensor or every distinct shape. Inside a group "for": "step" (the
// default) means once, in the group's scope. A shape group may hold launches for each of its tensors; other nestings of
// "for" are refused. With "for" and "repeat" in one group, all repetitions of one tensor or shape run before the next.
// `iteration` counts the innermost repeating group, 0 outside of one.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "harness/arguments.h"
#include "harness/device.h"
#include "harness/expression.h"
#include "harness/model.h"
#include "harness/stages.h"

namespace stepbench {

/// File that holds the candidate's plan, for messages: the source, or the .json beside a .ptx.
std::string plan_path(const Candidate& candidate);

/// The launch of a candidate without a plan: one thread per element of each tensor, blocks of 256, the task's default
/// arguments.
Plan default_plan(const Plan& written, const TaskSpec& task, const std::string& kernel);

/// A launch or group with its expressions compiled. Handles belong to PreparedPlan::expressions.
struct PreparedLaunch {
  const PlanLaunch* launch = nullptr;  ///< in the plan given to prepare_plan, which must outlive this
  LaunchFor scope = LaunchFor::kStep;  ///< after the enclosing groups' scopes are applied
  std::array<int, 3> grid{}, block{}, cluster{};
  int shared_bytes = -1;
  int repeat = -1;  ///< groups only
  std::vector<Argument> arguments;
  std::vector<int> argument_expressions;          ///< -1 for arguments without one
  std::vector<std::vector<int>> map_expressions;  ///< per argument; those of tensor maps, as tensor_map_expressions
  std::vector<int> gemm;                          ///< library calls only: expressions in the order of GemmNumber
  int leaf = -1;                                  ///< index in PreparedPlan::leaves; -1 for groups
  std::vector<PreparedLaunch> launches;
};

struct PreparedPlan {
  PreparedPlan(std::string plan_file, std::span<const std::pair<std::string, std::string>> defines)
      : path(std::move(plan_file)), expressions(defines) {}
  std::string path;  ///< for messages
  Expressions expressions;
  std::vector<int> scratch;  ///< expressions of the sizes
  std::vector<PreparedLaunch> launches;
  std::vector<PreparedLaunch*> leaves;  ///< launches in plan order, into `launches`
};

/// Failure `bad_candidate` for unknown names, names without meaning in their scope, and expressions that do not parse.
Judged<PreparedPlan> prepare_plan(const std::string& path, const Plan& plan, const TaskSpec& task);

/// What the compiler knows of a leaf's kernel.
struct LeafKernel {
  std::string entry;
  KernelInfo info;
  int32_t registers = -1;  ///< per thread; -1 unknown
};

struct ConcreteLaunch {
  int leaf = 0;
  std::array<int64_t, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
  uint32_t shared_bytes = 0;
  int64_t tensor = -1;  ///< of a tensor launch
  int64_t group = -1;   ///< of a shape launch
  int64_t iteration = 0;
  size_t first_value = 0;   ///< of the leaf's argument and map expressions, in order, in ExpandedPlan::values
  size_t first_number = 0;  ///< the same for the kGemmNumbers numbers of a library call
};

struct ExpandedPlan {
  std::vector<ShapeGroup> groups;
  std::vector<uint64_t> scratch_bytes;
  std::vector<ConcreteLaunch> launches;  ///< in order; empty grids and products without elements are left out
  std::vector<int64_t> values;
};

inline constexpr int64_t kMaxLaunches = 100'000;  ///< of one step
inline constexpr int64_t kMaxVisits = 1'000'000;  ///< entries looked at while expanding, empty ones included
inline constexpr int64_t kMaxScratchBytes = int64_t{1} << 30;  ///< of all scratch together
inline constexpr int64_t kMaxClusterBlocks = 8;                ///< portable limit of compute capability 9.0
inline constexpr int64_t kRegistersPerBlock = 65536;           ///< compute capability 9.0

/// Expands for one list. `kernels` has one row per leaf. Failure `bad_candidate` for expressions that cannot be
/// computed and values beyond a limit, with the expression, the value and the limit.
Judged<ExpandedPlan> expand_plan(PreparedPlan& prepared, const Plan& plan, std::span<const TensorShape> tensors,
                                 std::span<const LeafKernel> kernels, const DeviceInfo& device);

/// A second candidate over the buffers of the first: same list, same device, which both outlive it. Only scratch is its
/// own; Hyper and the tables are the same memory too, so that both kernels meet the same latencies.
Result<Judged<SessionPtr>> open_session_over(const Session& other, Device& device, ModuleId module,
                                             const CompiledModule& compiled, const Candidate& candidate,
                                             const TaskSpec& task, std::span<const TensorShape> tensors);

}  // namespace stepbench
