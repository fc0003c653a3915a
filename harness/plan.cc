// Plans: names, scopes and expressions checked once, then expanded into concrete launches for a list of tensors. Both
// walk the same entries in the same order and stay together, hence the length.
#include "harness/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "harness/plan_gemm.h"
#include "harness/plan_json.h"
#include "harness/plan_messages.h"

namespace stepbench {

namespace {

/// "column 4 of `text`: message".
std::string expression_message(const Error& error, const std::string& text) {
  return fmt::format("{} of `{}`: {}", error.place, shortened(text), error.message);
}

/// Reads the plan's entries; the first failure stops everything.
class Preparation {
 public:
  Preparation(PreparedPlan& prepared, const Plan& plan, const TaskSpec& task)
      : prepared_(prepared), plan_(plan), task_(task) {}
  std::optional<Failure> failure;

  void run() {
    if (!names()) return;
    for (const auto& [name, text] : plan_.scratch) {
      prepared_.scratch.push_back(compile(text, "/scratch/" + name, LaunchFor::kStep));
      if (failure) return;
    }
    prepared_.launches = list(plan_.launches, LaunchFor::kStep);
  }

 private:
  void wrong(const std::string& pointer, std::string message) {
    if (!failure) failure = plan_failure(prepared_.path, pointer, std::move(message));
  }

  /// Defines and scratch are identifiers, unique, and do not take words of the plan language.
  bool names() {
    std::set<std::string> seen;
    const std::span<const std::string> reserved = expression_names();
    for (const auto& [name, value] : plan_.defines) {
      const std::string pointer = fmt::format("/defines/{}", shortened(name));
      if (!is_identifier(name))
        wrong(pointer, fmt::format("the define name `{}` is not an identifier", shortened(name)));
      if (std::find(reserved.begin(), reserved.end(), name) != reserved.end())
        wrong(pointer, fmt::format("`{}` is a word of the plan language and cannot be a define", name));
      if (!seen.insert(name).second) wrong(pointer, fmt::format("the define `{}` appears twice", name));
    }
    seen.clear();
    for (const auto& [name, value] : plan_.scratch) {
      const std::string pointer = fmt::format("/scratch/{}", shortened(name));
      if (!is_identifier(name))
        wrong(pointer, fmt::format("the scratch name `{}` is not an identifier", shortened(name)));
      if (!seen.insert(name).second) wrong(pointer, fmt::format("the scratch `{}` appears twice", name));
    }
    return !failure;
  }

  int compile(const std::string& text, const std::string& pointer, LaunchFor scope) {
    const Result<int> handle = prepared_.expressions.add(text);
    if (!handle.ok()) {
      wrong(pointer, expression_message(handle.error(), text));
      return -1;
    }
    if (const std::optional<Error> error = prepared_.expressions.check(handle.value(), scope))
      wrong(pointer, expression_message(*error, text));
    return handle.value();
  }

  void triple(const std::array<std::string, 3>& texts, std::array<int, 3>& handles, const std::string& pointer,
              LaunchFor scope) {
    for (size_t i = 0; i < 3 && !failure; ++i)
      handles[i] = compile(texts[i], i == 0 ? pointer : fmt::format("{}/{}", pointer, i), scope);
  }

  std::vector<PreparedLaunch> list(const std::vector<PlanLaunch>& launches, LaunchFor scope) {
    std::vector<PreparedLaunch> result;
    for (const PlanLaunch& launch : launches) {
      result.push_back(entry(launch, scope));
      if (failure) break;
    }
    return result;
  }

  PreparedLaunch entry(const PlanLaunch& launch, LaunchFor outer) {
    PreparedLaunch result;
    result.launch = &launch;
    result.scope = launch.each == LaunchFor::kStep ? outer : launch.each;
    const bool nests = launch.each == LaunchFor::kStep || outer == LaunchFor::kStep ||
                       (outer == LaunchFor::kShape && launch.each == LaunchFor::kTensor);
    if (!nests)
      wrong(launch.pointer + "/for",
            fmt::format("\"for\": \"{}\" inside a group for each {}; leave it out to run once per {}",
                        launch.each == LaunchFor::kTensor ? "tensor" : "shape",
                        outer == LaunchFor::kTensor ? "tensor" : "shape",
                        outer == LaunchFor::kTensor ? "tensor" : "shape"));
    if (failure) return result;
    if (!launch.launches.empty()) {
      result.repeat = compile(launch.repeat, launch.pointer + "/repeat", result.scope);
      if (!failure) result.launches = list(launch.launches, result.scope);
      return result;
    }
    if (!launch.library.empty()) {
      library_call(launch, result);
      return result;
    }
    triple(launch.grid, result.grid, launch.pointer + "/grid", result.scope);
    triple(launch.block, result.block, launch.pointer + "/block", result.scope);
    triple(launch.cluster, result.cluster, launch.pointer + "/cluster", result.scope);
    if (!failure) result.shared_bytes = compile(launch.shared_bytes, launch.pointer + "/shared_bytes", result.scope);
    for (size_t i = 0; i < launch.args.size() && !failure; ++i)
      argument(launch.args[i], fmt::format("{}/args/{}", launch.pointer, i), result);
    return result;
  }

  void library_call(const PlanLaunch& launch, PreparedLaunch& result) {
    if (std::find(task_.allows.begin(), task_.allows.end(), launch.library) == task_.allows.end())
      wrong(launch.pointer + "/library",
            fmt::format("task {} does not allow the library call \"{}\": its plans launch kernels only", task_.id,
                        launch.library));
    for (const GemmExpression& expression : gemm_expressions(launch.gemm)) {
      if (failure) return;
      result.gemm.push_back(
          compile(expression.text, fmt::format("{}/{}", launch.pointer, expression.key), result.scope));
    }
    const std::vector<std::string> operands = gemm_arguments(launch.gemm);
    for (size_t i = 0; i < operands.size() && !failure; ++i) {
      const std::string pointer = fmt::format("{}/{}", launch.pointer, kGemmOperands[i]);
      argument(operands[i], pointer, result);
      if (failure) return;
      const Argument& argument = result.arguments.back();
      if (argument.kind != ArgumentKind::kBuffer && argument.kind != ArgumentKind::kScratch)
        return wrong(pointer, fmt::format("a matrix lies in a buffer of the tensor or in scratch, found `{}`",
                                          shortened(argument.text)));
      const DType type = i < 2 ? launch.gemm.inputs : launch.gemm.output;
      if (argument.kind != ArgumentKind::kBuffer) continue;
      if (const BufferSpec& buffer = task_.buffers[static_cast<size_t>(argument.index)]; buffer.dtype != type)
        wrong(pointer, fmt::format("buffer `{}` holds {}, the gemm takes {} there", buffer.name, to_text(buffer.dtype),
                                   to_text(type)));
    }
  }

  void argument(const std::string& text, const std::string& pointer, PreparedLaunch& result) {
    Result<Argument> parsed = parse_argument(text, task_, plan_);
    if (!parsed.ok()) return wrong(pointer, parsed.error().message);
    Argument argument = std::move(parsed).value();
    if (const std::optional<Error> error = check_argument_scope(argument, result.scope))
      return wrong(pointer, error->message);
    int handle = -1;
    if (argument.kind == ArgumentKind::kInteger || argument.expression_column > 1) {
      const Result<int> added = prepared_.expressions.add(argument.expression);
      std::optional<Error> error;
      if (!added.ok())
        error = added.error();
      else
        error = prepared_.expressions.check(added.value(), result.scope);
      if (error) {
        const char* where = argument.expression_column > 1 ? "of the offset in" : "of";
        return wrong(pointer,
                     fmt::format("{} {} `{}`: {}", error->place, where, shortened(argument.text), error->message));
      }
      handle = added.value();
    }
    std::vector<int> map;
    if (argument.map) {
      for (const TensorMapExpression& expression : tensor_map_expressions(*argument.map, *argument.map->dtype)) {
        const Result<int> added = prepared_.expressions.add(expression.text);
        std::optional<Error> error;
        if (!added.ok())
          error = added.error();
        else
          error = prepared_.expressions.check(added.value(), result.scope);
        if (error)
          return wrong(pointer, fmt::format("{} of the tensor map of `{}`: {}", expression.name, argument.map->of,
                                            expression_message(*error, expression.text)));
        map.push_back(added.value());
      }
    }
    result.map_expressions.push_back(std::move(map));
    result.arguments.push_back(std::move(argument));
    result.argument_expressions.push_back(handle);
  }

  PreparedPlan& prepared_;
  const Plan& plan_;
  const TaskSpec& task_;
};

void collect_leaves(std::vector<PreparedLaunch>& launches, std::vector<PreparedLaunch*>& leaves) {
  for (PreparedLaunch& launch : launches) {
    if (!launch.launch->launches.empty()) {
      collect_leaves(launch.launches, leaves);
      continue;
    }
    launch.leaf = static_cast<int>(leaves.size());
    leaves.push_back(&launch);
  }
}

/// Expansion in plan order.
class Expansion {
 public:
  Expansion(PreparedPlan& prepared, const Plan& plan, std::span<const TensorShape> tensors,
            std::span<const LeafKernel> kernels, const DeviceInfo& device)
      : prepared_(prepared), plan_(plan), tensors_(tensors), kernels_(kernels), device_(device) {
    result_.groups = group_by_shape(tensors);
    prepared_.expressions.bind(tensors, result_.groups, device.sms);
  }
  std::optional<Failure> failure;

  ExpandedPlan run() {
    scratch();
    if (!failure) list(prepared_.launches, ExpressionPoint{});
    return std::move(result_);
  }

 private:
  void wrong(const std::string& pointer, const ExpressionPoint& point, std::string message) {
    if (failure) return;
    failure = plan_failure(prepared_.path, pointer, std::move(message));
    failure->tensor = point.tensor;
  }

  /// " for tensor 3" or "".
  static std::string at(const ExpressionPoint& point) {
    return point.tensor < 0 ? "" : fmt::format(" for tensor {}", point.tensor);
  }

  /// Value of an expression; 0 after a failure.
  int64_t value(int handle, const std::string& pointer, const ExpressionPoint& point) {
    const Result<int64_t> got = prepared_.expressions.evaluate(handle, point);
    if (got.ok()) return got.value();
    wrong(pointer, point, expression_message(got.error(), prepared_.expressions.text(handle)) + at(point));
    return 0;
  }

  /// Refuses a value outside [least, most], naming expression, value and limit.
  void bounded(int64_t got, int64_t least, int64_t most, const char* what, int handle, const std::string& pointer,
               const ExpressionPoint& point) {
    if (got >= least && got <= most) return;
    wrong(pointer, point,
          fmt::format("{} is {}{}, {} (expression `{}`)", what, got, at(point),
                      got < least ? fmt::format("less than {}", least) : fmt::format("more than the limit {}", most),
                      shortened(prepared_.expressions.text(handle))));
  }

  void scratch() {
    int64_t total = 0;
    for (size_t i = 0; i < prepared_.scratch.size() && !failure; ++i) {
      const int handle = prepared_.scratch[i];
      const std::string pointer = "/scratch/" + plan_.scratch[i].first;
      const ExpressionPoint point;
      const int64_t bytes = value(handle, pointer, point);
      bounded(bytes, 0, kMaxScratchBytes, "scratch in bytes", handle, pointer, point);
      if (failure) return;
      total += bytes;
      if (total > kMaxScratchBytes)
        wrong(pointer, point,
              fmt::format("all scratch together is {} bytes, more than the limit {}", total, kMaxScratchBytes));
      result_.scratch_bytes.push_back(static_cast<uint64_t>(bytes));
    }
  }

  void list(const std::vector<PreparedLaunch>& launches, const ExpressionPoint& point) {
    for (const PreparedLaunch& launch : launches) {
      if (failure) return;
      each(launch, point);
    }
  }

  void each(const PreparedLaunch& launch, const ExpressionPoint& outer) {
    ExpressionPoint point = outer;
    switch (launch.launch->each) {
      case LaunchFor::kStep: once(launch, point); return;
      case LaunchFor::kTensor:
        point.group = -1;
        point.count = 1;
        if (outer.group >= 0) {
          for (const int64_t tensor : result_.groups[static_cast<size_t>(outer.group)].tensors) {
            point.tensor = tensor;
            once(launch, point);
            if (failure) return;
          }
          return;
        }
        for (size_t i = 0; i < tensors_.size() && !failure; ++i) {
          point.tensor = static_cast<int64_t>(i);
          once(launch, point);
        }
        return;
      case LaunchFor::kShape:
        for (size_t i = 0; i < result_.groups.size() && !failure; ++i) {
          point.group = static_cast<int64_t>(i);
          point.tensor = result_.groups[i].tensors.front();
          point.count = static_cast<int64_t>(result_.groups[i].tensors.size());
          once(launch, point);
        }
        return;
    }
  }

  bool visit(const PreparedLaunch& launch, const ExpressionPoint& point) {
    if (++visits_ > kMaxVisits)
      wrong(launch.launch->pointer, point,
            fmt::format("the plan looks at more than {} launches in one step, empty ones included", kMaxVisits));
    return !failure;
  }

  void once(const PreparedLaunch& launch, ExpressionPoint point) {
    if (!visit(launch, point)) return;
    if (launch.leaf >= 0) return leaf(launch, point);
    const std::string pointer = launch.launch->pointer + "/repeat";
    const int64_t repeat = value(launch.repeat, pointer, point);
    bounded(repeat, 0, kMaxLaunches, "the number of repetitions", launch.repeat, pointer, point);
    // A group that does not repeat leaves `iteration` to the enclosing one.
    const bool counts = launch.launch->repeat != "1";
    for (int64_t i = 0; i < repeat && !failure; ++i) {
      if (counts) point.iteration = i;
      list(launch.launches, point);
    }
  }

  void leaf(const PreparedLaunch& launch, const ExpressionPoint& point) {
    const std::string& pointer = launch.launch->pointer;
    if (!launch.gemm.empty()) return library_call(launch, point);
    const LeafKernel& kernel = kernels_[static_cast<size_t>(launch.leaf)];
    ConcreteLaunch concrete;
    concrete.leaf = launch.leaf;
    concrete.iteration = point.iteration;
    concrete.group = point.group;
    concrete.tensor = point.group >= 0 ? -1 : point.tensor;
    bool empty = false;
    static constexpr const char* kGridNames[] = {"grid x", "grid y", "grid z"};
    static constexpr const char* kBlockNames[] = {"block x", "block y", "block z"};
    static constexpr const char* kClusterNames[] = {"cluster x", "cluster y", "cluster z"};
    const auto at_dimension = [](const std::string& base, size_t i) {
      return i == 0 ? base : fmt::format("{}/{}", base, i);
    };
    for (size_t i = 0; i < 3 && !failure; ++i) {
      const int64_t got = concrete.grid[i] = value(launch.grid[i], at_dimension(pointer + "/grid", i), point);
      if (got < 0 || got > device_.max_grid[i])
        bounded(got, 0, device_.max_grid[i], kGridNames[i], launch.grid[i], at_dimension(pointer + "/grid", i), point);
      empty = empty || got == 0;
    }
    if (failure || empty) return;  // an empty grid is no work
    int64_t threads = 1;
    for (size_t i = 0; i < 3 && !failure; ++i) {
      const int64_t got = concrete.block[i] = value(launch.block[i], at_dimension(pointer + "/block", i), point);
      if (got < 1 || got > device_.max_block[i])
        bounded(got, 1, device_.max_block[i], kBlockNames[i], launch.block[i], at_dimension(pointer + "/block", i),
                point);
      threads *= got;
    }
    if (!failure) block_limits(launch, kernel, threads, point);
    int64_t cluster_blocks = 1;
    for (size_t i = 0; i < 3 && !failure; ++i) {
      const std::string where = at_dimension(pointer + "/cluster", i);
      const int64_t got = concrete.cluster[i] = value(launch.cluster[i], where, point);
      if (got < 1 || got > kMaxClusterBlocks)
        bounded(got, 1, kMaxClusterBlocks, kClusterNames[i], launch.cluster[i], where, point);
      cluster_blocks *= got;
      if (!failure && concrete.grid[i] % got != 0)
        wrong(where, point,
              fmt::format("{} is {}, which does not divide the grid of {}{}", kClusterNames[i], got, concrete.grid[i],
                          at(point)));
    }
    if (!failure && cluster_blocks > kMaxClusterBlocks)
      wrong(pointer + "/cluster", point,
            fmt::format("the cluster has {} blocks{}, more than the limit {}", cluster_blocks, at(point),
                        kMaxClusterBlocks));
    if (!failure) shared_limit(launch, kernel, concrete, point);
    concrete.first_value = result_.values.size();
    for (size_t i = 0; i < launch.argument_expressions.size() && !failure; ++i) {
      const std::string at = fmt::format("{}/args/{}", pointer, i);
      if (launch.argument_expressions[i] >= 0)
        result_.values.push_back(value(launch.argument_expressions[i], at, point));
      for (const int handle : launch.map_expressions[i]) result_.values.push_back(value(handle, at, point));
    }
    if (!failure) add(concrete, pointer, point);
  }

  void add(const ConcreteLaunch& concrete, const std::string& pointer, const ExpressionPoint& point) {
    if (static_cast<int64_t>(result_.launches.size()) >= kMaxLaunches)
      wrong(pointer, point, fmt::format("the plan has more than {} launches in one step", kMaxLaunches));
    result_.launches.push_back(concrete);
  }

  void library_call(const PreparedLaunch& launch, const ExpressionPoint& point) {
    const std::string& pointer = launch.launch->pointer;
    const std::array<GemmExpression, kGemmNumbers> expressions = gemm_expressions(launch.launch->gemm);
    const std::vector<std::string> operands = gemm_arguments(launch.launch->gemm);
    ConcreteLaunch concrete;
    concrete.leaf = launch.leaf;
    concrete.iteration = point.iteration;
    concrete.group = point.group;
    concrete.tensor = point.group >= 0 ? -1 : point.tensor;
    std::array<int64_t, kGemmNumbers> numbers{};
    for (size_t i = 0; i < kGemmNumbers && !failure; ++i)
      numbers[i] = value(launch.gemm[i], fmt::format("{}/{}", pointer, expressions[i].key), point);
    if (failure) return;
    if (const std::optional<GemmComplaint> complaint = check_gemm_numbers(numbers)) {
      const GemmExpression& expression = expressions[static_cast<size_t>(complaint->number)];
      return wrong(fmt::format("{}/{}", pointer, expression.key), point,
                   fmt::format("{} {}{} (expression `{}`)", expression.key, complaint->message, at(point),
                               shortened(expression.text)));
    }
    if (is_empty_gemm(numbers)) return;
    concrete.first_value = result_.values.size();
    for (size_t i = 0; i < launch.argument_expressions.size() && !failure; ++i) {
      if (launch.argument_expressions[i] < 0) continue;
      result_.values.push_back(
          value(launch.argument_expressions[i], fmt::format("{}/{}", pointer, kGemmOperands[i]), point));
    }
    concrete.first_number = result_.values.size();
    result_.values.insert(result_.values.end(), numbers.begin(), numbers.end());
    if (!failure) add(concrete, pointer, point);
  }

  void block_limits(const PreparedLaunch& launch, const LeafKernel& kernel, int64_t threads,
                    const ExpressionPoint& point) {
    const std::string pointer = launch.launch->pointer + "/block";
    const auto text = [&] {
      std::string joined = launch.launch->block[0];
      for (size_t i = 1; i < 3; ++i)
        if (launch.launch->block[i] != "1") joined += ", " + launch.launch->block[i];
      return shortened(joined);
    };
    if (threads > device_.max_threads_per_block)
      return wrong(pointer, point,
                   fmt::format("the block has {} threads{}, more than the limit {} (expression `{}`)", threads,
                               at(point), device_.max_threads_per_block, text()));
    if (threads > kernel.info.max_threads)
      return wrong(
          pointer, point,
          fmt::format("the block has {} threads{}, more than the {} that kernel `{}` is compiled for (expression `{}`)",
                      threads, at(point), kernel.info.max_threads, launch.launch->kernel, text()));
    if (kernel.info.exact_threads && threads != kernel.info.max_threads)
      return wrong(pointer, point,
                   fmt::format("the block has {} threads{}, kernel `{}` requires exactly {} (expression `{}`)", threads,
                               at(point), launch.launch->kernel, kernel.info.max_threads, text()));
    // Registers are given to warps in units of 256 (CUDA programming guide, compute capability 9.0).
    const int64_t warps = (threads + 31) / 32;
    const int64_t per_warp = (std::max<int64_t>(kernel.registers, 0) * 32 + 255) / 256 * 256;
    if (warps * per_warp > kRegistersPerBlock)
      wrong(pointer, point,
            fmt::format(
                "the block needs {} registers{} ({} threads with {} each), more than the limit {} (expression `{}`)",
                warps * per_warp, at(point), threads, kernel.registers, kRegistersPerBlock, text()));
  }

  void shared_limit(const PreparedLaunch& launch, const LeafKernel& kernel, ConcreteLaunch& concrete,
                    const ExpressionPoint& point) {
    const std::string pointer = launch.launch->pointer + "/shared_bytes";
    const int64_t bytes = value(launch.shared_bytes, pointer, point);
    const int64_t limit = device_.max_shared_bytes - static_cast<int64_t>(kernel.info.static_shared_bytes);
    if (bytes >= 0 && bytes > limit && kernel.info.static_shared_bytes > 0)
      return wrong(
          pointer, point,
          fmt::format(
              "dynamic shared memory of {} bytes{} and static of {} are more than the limit {} (expression `{}`)",
              bytes, at(point), kernel.info.static_shared_bytes, device_.max_shared_bytes,
              shortened(prepared_.expressions.text(launch.shared_bytes))));
    bounded(bytes, 0, limit, "shared memory in bytes", launch.shared_bytes, pointer, point);
    if (!failure) concrete.shared_bytes = static_cast<uint32_t>(bytes);
  }

  PreparedPlan& prepared_;
  const Plan& plan_;
  std::span<const TensorShape> tensors_;
  std::span<const LeafKernel> kernels_;
  const DeviceInfo& device_;
  ExpandedPlan result_;
  int64_t visits_ = 0;
};

}  // namespace

std::string plan_path(const Candidate& candidate) {
  if (!candidate.is_ptx || candidate.path.size() <= 4) return candidate.path;
  if (candidate.path.substr(candidate.path.size() - 4) != ".ptx") return candidate.path + ".json";
  return candidate.path.substr(0, candidate.path.size() - 4) + ".json";
}

Plan default_plan(const Plan& written, const TaskSpec& task, const std::string& kernel) {
  Plan plan = written;
  PlanLaunch launch;
  launch.each = LaunchFor::kTensor;
  launch.pointer = "/launches/0";
  launch.kernel = kernel;
  launch.grid[0] = "ceil_div(n, 256)";
  launch.block[0] = "256";
  launch.args = task.default_args;
  plan.launches = {std::move(launch)};
  return plan;
}

Judged<PreparedPlan> prepare_plan(const std::string& path, const Plan& plan, const TaskSpec& task) {
  PreparedPlan prepared(path, plan.defines);
  Preparation preparation(prepared, plan, task);
  preparation.run();
  if (preparation.failure) return *preparation.failure;
  Judged<PreparedPlan> judged(std::move(prepared));
  collect_leaves(judged.value->launches, judged.value->leaves);
  return judged;
}

Judged<ExpandedPlan> expand_plan(PreparedPlan& prepared, const Plan& plan, std::span<const TensorShape> tensors,
                                 std::span<const LeafKernel> kernels, const DeviceInfo& device) {
  SB_ASSERT(kernels.size() == prepared.leaves.size());
  Expansion expansion(prepared, plan, tensors, kernels, device);
  ExpandedPlan expanded = expansion.run();
  if (expansion.failure) return *expansion.failure;
  return expanded;
}

}  // namespace stepbench
