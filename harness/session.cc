// Session: the buffers of one list of tensors on one device, and the launches of one step over them.
//
// Everything that does not change between steps is done once, when the session opens: expansion of the plan,
// allocation, tables, parameter bytes (one class holds what these share, hence the length). A step poisons scratch,
// writes the Hyper struct, patches hyperparameters passed by value and launches.
#include <fmt/format.h>

#include <cstring>
#include <map>
#include <tuple>

#include "harness/plan.h"
#include "harness/plan_gemm.h"
#include "harness/plan_messages.h"
#include "harness/stages.h"

namespace stepbench {

namespace {

constexpr uint64_t kMaxParameterArenaBytes = uint64_t{256} << 20;  ///< of all launches of a step together

/// SplitMix64 (Steele, Lea, Flood 2014): one poison seed per buffer from the step's.
uint64_t mixed(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

void add(Counters& sum, const Counters& one) {
  sum.launches += one.launches;
  sum.warp_instructions += one.warp_instructions;
  sum.lane_instructions += one.lane_instructions;
  sum.global_load_bytes += one.global_load_bytes;
  sum.global_store_bytes += one.global_store_bytes;
  sum.global_load_sectors += one.global_load_sectors;
  sum.global_store_sectors += one.global_store_sectors;
  sum.shared_wavefronts += one.shared_wavefronts;
  sum.divergent_branches += one.divergent_branches;
  sum.barriers += one.barriers;
  sum.atomics += one.atomics;
  sum.local_bytes += one.local_bytes;
}

std::string base_name(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

/// A hyperparameter passed by value: rewritten in every launch of its leaf at every step.
struct HyperPatch {
  Argument argument;
  KernelParameter parameter;
  HyperType type = HyperType::kF32;
};

}  // namespace

class Session {
 public:
  Session(Device& device, ModuleId module, const Candidate& candidate, const TaskSpec& task,
          std::span<const TensorShape> tensors)
      : device_(device),
        module_(module),
        candidate_path_(candidate.path),
        is_ptx_(candidate.is_ptx),
        task_(task),
        tensors_(tensors.begin(), tensors.end()) {}
  ~Session() {
    for (const BufferId buffer : owned_) device_.release(buffer);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// `shares`: a session over the same list on the same device, whose buffers are used instead of own ones.
  Result<std::optional<Failure>> open(const CompiledModule& compiled, const Candidate& candidate,
                                      std::span<const int32_t> offset_elements, const Session* shares);
  Result<StepReport> step(const HyperValues& hyper, uint64_t poison_seed);
  Result<TimedStepReport> timed_step(const HyperValues& hyper, uint64_t poison_seed);
  /// Damage between buffers that shows only after a step.
  Result<std::optional<Failure>> check_memory();

  Device& device() { return device_; }
  BufferId buffer(int buffer, int64_t tensor) const {
    SB_ASSERT(buffer >= 0 && static_cast<size_t>(buffer) < buffers_.size());
    SB_ASSERT(tensor >= 0 && static_cast<size_t>(tensor) < tensors_.size());
    return buffers_[static_cast<size_t>(buffer)][static_cast<size_t>(tensor)];
  }
  uint64_t bytes_of(int buffer, int64_t tensor) const {
    const BufferSpec& spec = task_.buffers[static_cast<size_t>(buffer)];
    return static_cast<uint64_t>(buffer_elements(spec, tensors_[static_cast<size_t>(tensor)])) *
           dtype_bytes(spec.dtype);
  }

 private:
  using TableKey = std::tuple<ArgumentKind, int32_t, int64_t>;  ///< kind, buffer or size, group (-1: whole list)

  std::optional<Failure> choose_plan(const CompiledModule& compiled, const Candidate& candidate);
  Result<std::optional<Failure>> find_kernels(const CompiledModule& compiled);
  std::optional<Failure> check_arguments() const;
  Result<void> allocate_buffers(std::span<const int32_t> offset_elements);
  Result<void> allocate_own();
  Result<BufferId> allocate(const AllocationSpec& spec);
  Result<uint64_t> table(const Argument& argument, int64_t group);
  std::optional<Failure> marshal_values();
  Result<std::optional<Failure>> marshal_addresses();
  std::optional<Failure> marshal_launch_values(const ConcreteLaunch& launch, const PreparedLaunch& leaf,
                                               std::span<std::byte> bytes) const;
  Result<std::optional<Failure>> marshal_launch_addresses(const ConcreteLaunch& launch, const PreparedLaunch& leaf,
                                                          std::span<std::byte> bytes);
  uint64_t map_room_bytes(const ConcreteLaunch& launch, const Argument& argument) const;
  std::optional<TensorMapComplaint> check_map(const ConcreteLaunch& launch, const Argument& argument,
                                              std::span<const int64_t> numbers) const;
  Failure map_failure(const ConcreteLaunch& launch, const PreparedLaunch& leaf, size_t argument,
                      const TensorMapComplaint& complaint) const;
  Result<Judged<TensorMapBytes>> make_map(const ConcreteLaunch& launch, const PreparedLaunch& leaf, size_t argument,
                                          std::span<const int64_t> numbers);
  Judged<GemmSpec> place_gemm(const ConcreteLaunch& launch, const PreparedLaunch& leaf) const;
  Failure argument_failure(const ConcreteLaunch& launch, const PreparedLaunch& leaf, size_t argument,
                           std::string message) const;
  std::span<std::byte> parameter_bytes(size_t launch);
  Result<void> prepare_step(const HyperValues& hyper, uint64_t poison_seed);
  Failure fault_failure(const Fault& fault, const ConcreteLaunch& launch) const;
  Failure late_failure(const Fault& fault) const;
  void name_buffer(const Fault& fault, Failure& failure) const;

  Device& device_;
  ModuleId module_;
  std::string candidate_path_;
  bool is_ptx_ = false;
  std::string plan_path_;
  TaskSpec task_;
  std::vector<TensorShape> tensors_;
  Plan plan_;
  std::optional<PreparedPlan> prepared_;
  std::vector<LeafKernel> kernels_;  ///< one row per leaf
  ExpandedPlan expanded_;
  std::vector<BufferId> owned_;
  std::vector<std::vector<BufferId>> buffers_;  ///< [buffer][tensor]
  std::vector<std::vector<uint64_t>> addresses_;
  std::vector<BufferId> scratch_;
  std::map<TableKey, uint64_t> tables_;
  BufferId hyper_;
  std::vector<std::byte> parameters_;    ///< of all launches
  std::vector<size_t> parameter_begin_;  ///< per launch
  std::vector<LaunchSpec> specs_;
  std::vector<std::vector<HyperPatch>> patches_;  ///< per leaf
  bool has_patches_ = false;
};

void SessionDeleter::operator()(Session* session) const { delete session; }

Result<BufferId> Session::allocate(const AllocationSpec& spec) {
  Result<BufferId> buffer = device_.allocate(spec);
  if (buffer.ok()) owned_.push_back(buffer.value());
  return buffer;
}

/// The candidate's plan, or the default one with the only kernel there is.
std::optional<Failure> Session::choose_plan(const CompiledModule& compiled, const Candidate& candidate) {
  plan_path_ = plan_path(candidate);
  plan_ = candidate.plan;
  if (!candidate.default_plan || !plan_.launches.empty()) return std::nullopt;
  std::vector<std::string> names;
  for (const auto& [name, entry] : compiled.entries) names.push_back(entry);
  if (names.empty())
    for (const KernelResources& kernel : compiled.resources) names.push_back(kernel.entry);
  if (names.size() != 1)
    return plan_failure(
        candidate.path, "",
        fmt::format("without launches in the plan the file must have exactly one kernel, found {}", names.size()));
  plan_ = default_plan(candidate.plan, task_, names.front());
  plan_path_ += " (default plan)";
  return std::nullopt;
}

Result<std::optional<Failure>> Session::find_kernels(const CompiledModule& compiled) {
  std::map<std::string, LeafKernel> known;
  for (const PreparedLaunch* leaf : prepared_->leaves) {
    const PlanLaunch& launch = *leaf->launch;
    if (!launch.library.empty()) {
      kernels_.push_back({launch.library, {}, -1});
      continue;
    }
    if (const auto found = known.find(launch.kernel); found != known.end()) {
      kernels_.push_back(found->second);
      continue;
    }
    LeafKernel kernel;
    const auto entry = compiled.entries.find(launch.kernel);
    kernel.entry = entry == compiled.entries.end() ? launch.kernel : entry->second;
    const Result<KernelInfo> info = device_.kernel(module_, kernel.entry);
    if (!info.ok() && info.error().code != ErrorCode::kNotFound) return info.error();
    if (!info.ok()) {
      std::vector<std::string> names;
      for (const auto& [name, value] : compiled.entries) names.push_back(name);
      return std::optional<Failure>(plan_failure(
          plan_path_, launch.pointer + "/kernel",
          fmt::format("there is no kernel `{}`{}", shortened(launch.kernel), did_you_mean(launch.kernel, names))));
    }
    kernel.info = info.value();
    for (const KernelResources& resources : compiled.resources)
      if (resources.entry == kernel.entry) kernel.registers = resources.registers;
    known.emplace(launch.kernel, kernel);
    kernels_.push_back(std::move(kernel));
  }
  return std::optional<Failure>();
}

std::optional<Failure> Session::check_arguments() const {
  for (const PreparedLaunch* leaf : prepared_->leaves) {
    if (!leaf->gemm.empty()) continue;
    const LeafKernel& kernel = kernels_[static_cast<size_t>(leaf->leaf)];
    const std::vector<KernelParameter>& parameters = kernel.info.parameters;
    const std::string& pointer = leaf->launch->pointer;
    if (leaf->arguments.size() != parameters.size())
      return plan_failure(plan_path_, pointer + "/args",
                          fmt::format("kernel `{}` has {} parameters, the plan gives {} arguments",
                                      leaf->launch->kernel, parameters.size(), leaf->arguments.size()));
    const int32_t limit = device_.info().max_parameter_bytes;
    if (kernel.info.parameter_bytes > static_cast<uint32_t>(std::max(limit, 0)))
      return plan_failure(plan_path_, pointer + "/args",
                          fmt::format("kernel `{}` has {} bytes of parameters, more than the limit {}",
                                      leaf->launch->kernel, kernel.info.parameter_bytes, limit));
    for (size_t i = 0; i < parameters.size(); ++i)
      if (const std::optional<Error> error =
              check_parameter(leaf->arguments[i], parameters[i], i + 1, leaf->launch->kernel, task_))
        return plan_failure(plan_path_, fmt::format("{}/args/{}", pointer, i), error->message);
  }
  return std::nullopt;
}

Result<void> Session::allocate_buffers(std::span<const int32_t> offset_elements) {
  SB_ASSERT(offset_elements.empty() || offset_elements.size() == task_.buffers.size());
  for (size_t b = 0; b < task_.buffers.size(); ++b) {
    const BufferSpec& spec = task_.buffers[b];
    const int32_t offset = offset_elements.empty() ? 0 : offset_elements[b];
    SB_ASSERT(offset >= 0);
    std::vector<BufferId>& row = buffers_.emplace_back();
    std::vector<uint64_t>& addresses = addresses_.emplace_back();
    for (size_t t = 0; t < tensors_.size(); ++t) {
      AllocationSpec allocation;
      allocation.bytes = bytes_of(static_cast<int>(b), static_cast<int64_t>(t));
      allocation.offset_bytes = static_cast<uint32_t>(offset) * dtype_bytes(spec.dtype);
      allocation.read_only = spec.role == Role::kIn;
      allocation.label = fmt::format("{}[{}]", spec.name, t);
      const Result<BufferId> buffer = allocate(allocation);
      if (!buffer.ok()) return buffer.error();
      if (const Result<void> done = device_.poison(buffer.value(), mixed(b, t)); !done.ok()) return done.error();
      row.push_back(buffer.value());
      addresses.push_back(device_.address(buffer.value()));
    }
  }
  const Result<BufferId> hyper = allocate({4 * task_.hyper.size(), 0, true, "hyper"});
  if (!hyper.ok()) return hyper.error();
  hyper_ = hyper.value();
  return {};
}

/// What no other session sees.
Result<void> Session::allocate_own() {
  for (size_t i = 0; i < expanded_.scratch_bytes.size(); ++i) {
    const Result<BufferId> buffer =
        allocate({expanded_.scratch_bytes[i], 0, false, "scratch." + plan_.scratch[i].first});
    if (!buffer.ok()) return buffer.error();
    if (const Result<void> done = device_.poison(buffer.value(), mixed(~uint64_t{0}, i)); !done.ok())
      return done.error();
    scratch_.push_back(buffer.value());
  }
  return {};
}

/// Address of a device table, made at its first use: 8 bytes per tensor of the list or of one shape group.
Result<uint64_t> Session::table(const Argument& argument, int64_t group) {
  const TableKey key{argument.kind, argument.index, group};
  if (const auto found = tables_.find(key); found != tables_.end()) return found->second;
  std::vector<uint64_t> values;
  int64_t before = 0;
  const auto add_tensor = [&](size_t t) {
    const TensorShape& shape = tensors_[t];
    if (argument.kind == ArgumentKind::kBufferTable) {
      values.push_back(addresses_[static_cast<size_t>(argument.index)][t]);
      return;
    }
    switch (static_cast<SizeTable>(argument.index)) {
      case SizeTable::kN: values.push_back(static_cast<uint64_t>(shape.n)); return;
      case SizeTable::kRows: values.push_back(static_cast<uint64_t>(shape.rows)); return;
      case SizeTable::kCols: values.push_back(static_cast<uint64_t>(shape.cols)); return;
      case SizeTable::kOffset:
        values.push_back(static_cast<uint64_t>(before));
        before += shape.n;
        return;
    }
  };
  if (group >= 0) {
    for (const int64_t t : expanded_.groups[static_cast<size_t>(group)].tensors) add_tensor(static_cast<size_t>(t));
  } else {
    for (size_t t = 0; t < tensors_.size(); ++t) add_tensor(t);
  }
  static constexpr const char* kSizes[] = {"n", "rows", "cols", "offset"};
  const size_t index = static_cast<size_t>(argument.index);
  std::string label =
      (argument.kind == ArgumentKind::kBufferTable ? task_.buffers[index].name : kSizes[index]) + std::string("[]");
  if (group >= 0) label += fmt::format(" of shape {}", group);
  const Result<BufferId> buffer = allocate({8 * values.size(), 0, true, label});
  if (!buffer.ok()) return buffer.error();
  if (const Result<void> done = device_.write(buffer.value(), 0, std::as_bytes(std::span(values))); !done.ok())
    return done.error();
  const uint64_t address = device_.address(buffer.value());
  tables_.emplace(key, address);
  return address;
}

Failure Session::argument_failure(const ConcreteLaunch& launch, const PreparedLaunch& leaf, size_t argument,
                                  std::string message) const {
  if (launch.tensor >= 0) message += fmt::format(" (tensor {})", launch.tensor);
  Failure failure =
      plan_failure(plan_path_, fmt::format("{}/args/{}", leaf.launch->pointer, argument), std::move(message));
  failure.tensor = launch.tensor;
  return failure;
}

uint64_t Session::map_room_bytes(const ConcreteLaunch& launch, const Argument& argument) const {
  return argument.map_of_scratch ? expanded_.scratch_bytes[static_cast<size_t>(argument.index)]
                                 : bytes_of(argument.index, launch.tensor);
}

std::optional<TensorMapComplaint> Session::check_map(const ConcreteLaunch& launch, const Argument& argument,
                                                     std::span<const int64_t> numbers) const {
  return check_tensor_map(*argument.map, *argument.map->dtype, numbers, map_room_bytes(launch, argument),
                          device_.info().max_shared_bytes);
}

Failure Session::map_failure(const ConcreteLaunch& launch, const PreparedLaunch& leaf, size_t argument,
                             const TensorMapComplaint& complaint) const {
  const PlanTensorMap& map = *leaf.arguments[argument].map;
  std::string message = fmt::format("argument {}, the tensor map of `{}`: ", argument + 1, map.of);
  if (complaint.expression < 0) {
    message += complaint.message;
  } else {
    const TensorMapExpression expression =
        tensor_map_expressions(map, *map.dtype)[static_cast<size_t>(complaint.expression)];
    message += fmt::format("{} {} (expression `{}`)", expression.name, complaint.message, shortened(expression.text));
  }
  if (complaint.of_tensor) message += "; with \"or_null\": true the kernel gets a null map there";
  return argument_failure(launch, leaf, argument, std::move(message));
}

/// A tensor map's descriptor, or 128 zero bytes where the tensor cannot carry one and the plan says so.
Result<Judged<TensorMapBytes>> Session::make_map(const ConcreteLaunch& launch, const PreparedLaunch& leaf,
                                                 size_t argument, std::span<const int64_t> numbers) {
  const Argument& given = leaf.arguments[argument];
  const auto index = static_cast<size_t>(given.index);
  // The numbers alone have passed already, unless they make a null map.
  if (check_map(launch, given, numbers)) return Judged<TensorMapBytes>(TensorMapBytes{});
  uint64_t at_bytes = 0;
  TensorMapSpec spec = make_tensor_map(*given.map, *given.map->dtype, numbers, at_bytes);
  spec.address = at_bytes + (given.map_of_scratch ? device_.address(scratch_[index])
                                                  : addresses_[index][static_cast<size_t>(launch.tensor)]);
  if (const uint64_t beyond = spec.address % kTensorMapAlign; beyond != 0) {
    if (given.map->or_null) return Judged<TensorMapBytes>(TensorMapBytes{});
    return Judged<TensorMapBytes>(
        map_failure(launch, leaf, argument,
                    {-1,
                     fmt::format("its address must be a multiple of {}, found one that is {} bytes beyond",
                                 kTensorMapAlign, beyond),
                     true}));
  }
  Result<TensorMapBytes> encoded = device_.encode_tensor_map(spec);
  if (encoded.ok()) return Judged<TensorMapBytes>(encoded.value());
  if (encoded.error().code != ErrorCode::kInvalidInput) return encoded.error();
  return Judged<TensorMapBytes>(map_failure(launch, leaf, argument, {-1, encoded.error().message, false}));
}

/// Integers and literals of one launch. Hyperparameters by value are patched at every step.
std::optional<Failure> Session::marshal_launch_values(const ConcreteLaunch& launch, const PreparedLaunch& leaf,
                                                      std::span<std::byte> bytes) const {
  const std::vector<KernelParameter>& parameters = kernels_[static_cast<size_t>(launch.leaf)].info.parameters;
  size_t next_value = launch.first_value;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Argument& argument = leaf.arguments[i];
    const int64_t value = leaf.argument_expressions[i] >= 0 ? expanded_.values[next_value++] : argument.integer;
    if (argument.map) {
      const auto numbers = std::span(expanded_.values).subspan(next_value, leaf.map_expressions[i].size());
      if (const std::optional<TensorMapComplaint> complaint = check_map(launch, argument, numbers);
          complaint && !(complaint->of_tensor && argument.map->or_null))
        return map_failure(launch, leaf, i, *complaint);
      next_value += numbers.size();
    }
    const bool is_integer = argument.kind == ArgumentKind::kInteger || argument.kind == ArgumentKind::kIntegerLiteral;
    if (is_integer && parameters[i].kind == ScalarKind::kInteger) {
      if (const std::optional<Error> error = put_integer(argument, parameters[i], i + 1, value, bytes))
        return argument_failure(launch, leaf, i, error->message);
    } else if (is_integer || argument.kind == ArgumentKind::kFloatLiteral) {
      put_literal(argument, parameters[i], bytes);
    }
  }
  return std::nullopt;
}

/// Pointers of one launch, after the buffers are allocated.
Result<std::optional<Failure>> Session::marshal_launch_addresses(const ConcreteLaunch& launch,
                                                                 const PreparedLaunch& leaf,
                                                                 std::span<std::byte> bytes) {
  const std::vector<KernelParameter>& parameters = kernels_[static_cast<size_t>(launch.leaf)].info.parameters;
  size_t next_value = launch.first_value;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Argument& argument = leaf.arguments[i];
    const int64_t offset = leaf.argument_expressions[i] >= 0 ? expanded_.values[next_value++] : 0;
    if (argument.map) {
      const auto numbers = std::span(expanded_.values).subspan(next_value, leaf.map_expressions[i].size());
      next_value += numbers.size();
      const Result<Judged<TensorMapBytes>> map = make_map(launch, leaf, i, numbers);
      if (!map.ok()) return map.error();
      if (!map.value().ok()) return map.value().failure;
      put_tensor_map(parameters[i], *map.value().value, bytes);
    }
    if (!is_pointer(argument.kind)) continue;
    const auto index = static_cast<size_t>(std::max(argument.index, 0));
    uint64_t address = 0;
    uint64_t limit = 0;  // bytes an offset may skip; the end itself is allowed, for empty tensors
    if (argument.kind == ArgumentKind::kBuffer) {
      address = addresses_[index][static_cast<size_t>(launch.tensor)];
      limit = bytes_of(argument.index, launch.tensor);
    } else if (argument.kind == ArgumentKind::kHyperPointer) {
      address = device_.address(hyper_);
      limit = 4 * task_.hyper.size();
    } else if (argument.kind == ArgumentKind::kScratch) {
      address = device_.address(scratch_[index]);
      limit = expanded_.scratch_bytes[index];
    } else {
      const Result<uint64_t> made = table(argument, launch.group);
      if (!made.ok()) return made.error();
      address = made.value();
      limit = 8 * (launch.group >= 0 ? expanded_.groups[static_cast<size_t>(launch.group)].tensors.size()
                                     : tensors_.size());
    }
    if (offset < 0 || static_cast<uint64_t>(offset) > limit)
      return std::optional<Failure>(
          argument_failure(launch, leaf, i,
                           fmt::format("argument {} (`{}`) points {} bytes into a buffer of {} bytes", i + 1,
                                       shortened(argument.text), offset, limit)));
    put_address(parameters[i], address + static_cast<uint64_t>(offset), bytes);
  }
  return std::optional<Failure>();
}

/// Addresses of one product's matrices. A device need not find out what is wrong with them: bounds, inputs and overlaps
/// are known here, and the same on every device.
Judged<GemmSpec> Session::place_gemm(const ConcreteLaunch& launch, const PreparedLaunch& leaf) const {
  const auto numbers = std::span(expanded_.values).subspan(launch.first_number, kGemmNumbers);
  GemmSpec spec = make_gemm(leaf.launch->gemm, numbers);
  const auto wrong = [&](size_t operand, Verdict verdict, std::string message) {
    if (launch.tensor >= 0) message += fmt::format(" (tensor {})", launch.tensor);
    Failure failure = plan_failure(plan_path_, fmt::format("{}/{}", leaf.launch->pointer, kGemmOperands[operand]),
                                   std::move(message));
    failure.verdict = verdict;
    failure.tensor = launch.tensor;
    return failure;
  };
  size_t next_value = launch.first_value;
  for (size_t i = 0; i < leaf.arguments.size(); ++i) {
    const Argument& argument = leaf.arguments[i];
    const int64_t offset = leaf.argument_expressions[i] >= 0 ? expanded_.values[next_value++] : 0;
    const auto index = static_cast<size_t>(argument.index);
    const bool scratch = argument.kind == ArgumentKind::kScratch;
    const uint64_t base =
        scratch ? device_.address(scratch_[index]) : addresses_[index][static_cast<size_t>(launch.tensor)];
    const uint64_t room = scratch ? expanded_.scratch_bytes[index] : bytes_of(argument.index, launch.tensor);
    const uint64_t bytes = gemm_operand_bytes(spec, i);
    if (offset < 0 || static_cast<uint64_t>(offset) > room || bytes > room - static_cast<uint64_t>(offset))
      return wrong(i, Verdict::kOutOfBounds,
                   fmt::format("`{}` needs {} bytes from byte {} on, in a buffer of {}", shortened(argument.text),
                               bytes, offset, room));
    const uint64_t address = base + static_cast<uint64_t>(offset);
    const uint32_t element = dtype_bytes(i < 2 ? spec.inputs : spec.output);
    if (address % element != 0)
      return wrong(
          i, Verdict::kLaunchError,
          fmt::format("`{}` is not a multiple of the {} bytes of an element", shortened(argument.text), element));
    if (i == 2 && !scratch && task_.buffers[index].role == Role::kIn)
      return wrong(i, Verdict::kOutOfBounds,
                   fmt::format("the gemm would write to the input `{}`", task_.buffers[index].name));
    gemm_operand(spec, i).address = address;
  }
  const uint64_t begin = spec.d.address;
  const uint64_t end = begin + gemm_operand_bytes(spec, 2);
  for (size_t i = 0; i < leaf.arguments.size(); ++i) {
    const GemmOperand& operand = gemm_operand(spec, i);
    const bool in_place = i == 3 && operand.address == begin && operand.stride == spec.d.stride;
    if (i == 2 || in_place) continue;
    if (operand.address < end && begin < operand.address + gemm_operand_bytes(spec, i))
      return wrong(2, Verdict::kBadCandidate,
                   fmt::format("the result d overlaps {}: only c may be the result itself", kGemmOperands[i]));
  }
  return spec;
}

std::span<std::byte> Session::parameter_bytes(size_t launch) {
  const auto leaf = static_cast<size_t>(expanded_.launches[launch].leaf);
  return std::span(parameters_).subspan(parameter_begin_[launch], kernels_[leaf].info.parameter_bytes);
}

std::optional<Failure> Session::marshal_values() {
  uint64_t total = 0;
  parameter_begin_.reserve(expanded_.launches.size());
  for (const ConcreteLaunch& launch : expanded_.launches) {
    parameter_begin_.push_back(total);
    total += (kernels_[static_cast<size_t>(launch.leaf)].info.parameter_bytes + 15u) / 16u * 16u;
  }
  if (total > kMaxParameterArenaBytes)
    return plan_failure(plan_path_, "/launches",
                        fmt::format("the arguments of all launches of a step are {} bytes, more than the limit {}",
                                    total, kMaxParameterArenaBytes));
  parameters_.resize(total);
  for (size_t i = 0; i < expanded_.launches.size(); ++i) {
    const ConcreteLaunch& launch = expanded_.launches[i];
    const PreparedLaunch& leaf = *prepared_->leaves[static_cast<size_t>(launch.leaf)];
    if (std::optional<Failure> failure = marshal_launch_values(launch, leaf, parameter_bytes(i))) return failure;
  }
  return std::nullopt;
}

Result<std::optional<Failure>> Session::marshal_addresses() {
  specs_.reserve(expanded_.launches.size());
  for (size_t i = 0; i < expanded_.launches.size(); ++i) {
    const ConcreteLaunch& launch = expanded_.launches[i];
    const PreparedLaunch& leaf = *prepared_->leaves[static_cast<size_t>(launch.leaf)];
    LaunchSpec spec;
    if (!leaf.gemm.empty()) {
      Judged<GemmSpec> gemm = place_gemm(launch, leaf);
      if (!gemm.ok()) return std::optional<Failure>(std::move(gemm.failure));
      spec.entry = leaf.launch->library;
      spec.gemm = *gemm.value;
      specs_.push_back(std::move(spec));
      continue;
    }
    Result<std::optional<Failure>> done = marshal_launch_addresses(launch, leaf, parameter_bytes(i));
    if (!done.ok() || done.value()) return done;
    spec.module = module_;
    spec.entry = kernels_[static_cast<size_t>(launch.leaf)].entry;
    spec.grid = launch.grid;
    spec.block = launch.block;
    spec.cluster = launch.cluster;
    spec.shared_bytes = launch.shared_bytes;
    spec.parameters = parameter_bytes(i);
    specs_.push_back(std::move(spec));
  }
  for (const PreparedLaunch* leaf : prepared_->leaves) {
    std::vector<HyperPatch>& patches = patches_.emplace_back();
    if (!leaf->gemm.empty()) continue;
    for (size_t i = 0; i < leaf->arguments.size(); ++i) {
      const Argument& argument = leaf->arguments[i];
      if (argument.kind != ArgumentKind::kHyperValue && argument.kind != ArgumentKind::kHyperStruct) continue;
      const HyperType type = argument.kind == ArgumentKind::kHyperValue
                                 ? task_.hyper[static_cast<size_t>(argument.index)].type
                                 : HyperType::kF32;
      patches.push_back({argument, kernels_[static_cast<size_t>(leaf->leaf)].info.parameters[i], type});
      has_patches_ = true;
    }
  }
  return std::optional<Failure>();
}

Result<std::optional<Failure>> Session::open(const CompiledModule& compiled, const Candidate& candidate,
                                             std::span<const int32_t> offset_elements, const Session* shares) {
  if (std::optional<Failure> failure = choose_plan(compiled, candidate)) return failure;
  Judged<PreparedPlan> prepared = prepare_plan(plan_path_, plan_, task_);
  if (!prepared.ok()) return prepared.failure;
  prepared_ = std::move(prepared.value);
  Result<std::optional<Failure>> done = find_kernels(compiled);
  if (!done.ok() || done.value()) return done;
  if (std::optional<Failure> failure = check_arguments()) return failure;
  Judged<ExpandedPlan> expanded = expand_plan(*prepared_, plan_, tensors_, kernels_, device_.info());
  if (!expanded.ok()) return expanded.failure;
  expanded_ = std::move(*expanded.value);
  // What can be refused without memory is refused before any is taken.
  if (std::optional<Failure> failure = marshal_values()) return failure;
  if (shares != nullptr) {
    SB_ASSERT(&shares->device_ == &device_ && shares->buffers_.size() == task_.buffers.size());
    buffers_ = shares->buffers_;
    addresses_ = shares->addresses_;
    tables_ = shares->tables_;
    hyper_ = shares->hyper_;
  } else if (const Result<void> allocated = allocate_buffers(offset_elements); !allocated.ok()) {
    return allocated.error();
  }
  if (const Result<void> allocated = allocate_own(); !allocated.ok()) return allocated.error();
  return marshal_addresses();
}

/// Buffer, tensor and element from the label of the allocation: "param[3]", "scratch.partial".
void Session::name_buffer(const Fault& fault, Failure& failure) const {
  failure.buffer = fault.buffer;
  const size_t bracket = fault.buffer.find('[');
  if (bracket == std::string::npos || fault.buffer.back() != ']') return;
  const std::string name = fault.buffer.substr(0, bracket);
  const std::string digits = fault.buffer.substr(bracket + 1, fault.buffer.size() - bracket - 2);
  if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos) return;
  for (const BufferSpec& spec : task_.buffers) {
    if (spec.name != name) continue;
    failure.buffer = name;
    failure.tensor = std::stoll(digits);
    if (fault.byte_offset >= 0) failure.element = fault.byte_offset / dtype_bytes(spec.dtype);
  }
}

Failure Session::fault_failure(const Fault& fault, const ConcreteLaunch& launch) const {
  const PlanLaunch& entry = *prepared_->leaves[static_cast<size_t>(launch.leaf)]->launch;
  Failure failure;
  failure.verdict = verdict_of(fault.kind);
  failure.message = fault.message;
  // The author's line: of the PTX where that is what the author gave (its .loc then points into some other file).
  const int32_t line = is_ptx_ ? fault.ptx_line : fault.source_line;
  failure.place = line > 0 ? fmt::format("{}:{}", base_name(candidate_path_), line)
                           : fmt::format("{}: {}", base_name(plan_path_), entry.pointer);
  failure.tensor = launch.tensor;
  name_buffer(fault, failure);
  failure.detail = entry.library.empty() ? fmt::format("kernel {}", entry.kernel) : "library call " + entry.library;
  if (fault.thread_known)
    failure.detail += fmt::format(", block ({}, {}, {}), thread ({}, {}, {})", fault.block[0], fault.block[1],
                                  fault.block[2], fault.thread[0], fault.thread[1], fault.thread[2]);
  if (fault.ptx_line > 0) failure.detail += fmt::format(", PTX line {}", fault.ptx_line);
  failure.detail += fmt::format("\nlaunch {} of the plan", entry.pointer);
  if (launch.tensor >= 0) failure.detail += fmt::format(", tensor {}", launch.tensor);
  if (launch.group >= 0) failure.detail += fmt::format(", shape {}", launch.group);
  if (launch.iteration > 0) failure.detail += fmt::format(", iteration {}", launch.iteration);
  return failure;
}

/// A fault found after all launches: which of them it was is known only when there was one kind.
Failure Session::late_failure(const Fault& fault) const {
  Failure failure = fault_failure(fault, expanded_.launches.back());
  if (expanded_.launches.size() == 1) return failure;
  failure.place = plan_path_;
  failure.tensor = -1;
  name_buffer(fault, failure);
  failure.detail = fmt::format("found after the {} launches of the step", expanded_.launches.size());
  return failure;
}

/// Everything before the launches.
Result<void> Session::prepare_step(const HyperValues& hyper, uint64_t poison_seed) {
  SB_ASSERT(hyper.values.size() == task_.hyper.size());
  for (size_t i = 0; i < scratch_.size(); ++i)
    if (const Result<void> done = device_.poison(scratch_[i], mixed(poison_seed, i)); !done.ok()) return done;
  const std::vector<std::byte> packed = pack_hyper(task_, hyper);
  if (const Result<void> done = device_.write(hyper_, 0, packed); !done.ok()) return done;
  if (has_patches_) {
    for (size_t i = 0; i < specs_.size(); ++i)
      for (const HyperPatch& patch : patches_[static_cast<size_t>(expanded_.launches[i].leaf)])
        put_hyper(patch.argument, patch.parameter, patch.type, packed, parameter_bytes(i));
  }
  return {};
}

Result<StepReport> Session::step(const HyperValues& hyper, uint64_t poison_seed) {
  if (const Result<void> prepared = prepare_step(hyper, poison_seed); !prepared.ok()) return prepared.error();
  StepReport report;
  for (size_t i = 0; i < specs_.size(); ++i) {
    Result<LaunchReport> launched = device_.launch(specs_[i]);
    if (!launched.ok()) return launched.error();
    add(report.counters, launched.value().counters);
    if (!launched.value().fault) continue;
    report.failure = fault_failure(*launched.value().fault, expanded_.launches[i]);
    return report;
  }
  Result<std::optional<Failure>> late = check_memory();
  if (!late.ok()) return late.error();
  report.failure = std::move(late.value());
  return report;
}

Result<TimedStepReport> Session::timed_step(const HyperValues& hyper, uint64_t poison_seed) {
  if (const Result<void> prepared = prepare_step(hyper, poison_seed); !prepared.ok()) return prepared.error();
  Result<TimedReport> timed = device_.time_step(specs_);
  if (!timed.ok()) return timed.error();
  TimedStepReport report;
  report.timed = std::move(timed.value());
  if (report.timed.fault) {
    report.failure = specs_.size() == 1 ? fault_failure(*report.timed.fault, expanded_.launches[0])
                                        : late_failure(*report.timed.fault);
  }
  return report;
}

Result<std::optional<Failure>> Session::check_memory() {
  Result<std::optional<Fault>> late = device_.end_of_step();
  if (!late.ok()) return late.error();
  if (!late.value() || specs_.empty()) return std::optional<Failure>();
  return std::optional<Failure>(late_failure(*late.value()));
}

Result<Judged<SessionPtr>> open_session(Device& device, ModuleId module, const CompiledModule& compiled,
                                        const Candidate& candidate, const TaskSpec& task,
                                        std::span<const TensorShape> tensors,
                                        std::span<const int32_t> offset_elements) {
  SessionPtr session(new Session(device, module, candidate, task, tensors));
  Result<std::optional<Failure>> opened = session->open(compiled, candidate, offset_elements, nullptr);
  if (!opened.ok()) return opened.error();
  if (opened.value()) return Judged<SessionPtr>(*opened.value());
  return Judged<SessionPtr>(std::move(session));
}

Result<Judged<SessionPtr>> open_session_over(const Session& other, Device& device, ModuleId module,
                                             const CompiledModule& compiled, const Candidate& candidate,
                                             const TaskSpec& task, std::span<const TensorShape> tensors) {
  SessionPtr session(new Session(device, module, candidate, task, tensors));
  Result<std::optional<Failure>> opened = session->open(compiled, candidate, {}, &other);
  if (!opened.ok()) return opened.error();
  if (opened.value()) return Judged<SessionPtr>(*opened.value());
  return Judged<SessionPtr>(std::move(session));
}

Result<void> write_tensor(Session& session, int buffer, int64_t tensor, std::span<const std::byte> bytes) {
  SB_ASSERT(bytes.size() == session.bytes_of(buffer, tensor));
  return session.device().write(session.buffer(buffer, tensor), 0, bytes);
}

Result<void> read_tensor(Session& session, int buffer, int64_t tensor, std::span<std::byte> bytes) {
  SB_ASSERT(bytes.size() == session.bytes_of(buffer, tensor));
  return session.device().read(session.buffer(buffer, tensor), 0, bytes);
}

Result<void> write_tensors(Session& session, std::span<const TensorBytes<const std::byte>> tensors) {
  std::vector<WriteRequest> requests;
  requests.reserve(tensors.size());
  for (const TensorBytes<const std::byte>& one : tensors) {
    SB_ASSERT(one.bytes.size() == session.bytes_of(one.buffer, one.tensor));
    requests.push_back({session.buffer(one.buffer, one.tensor), 0, one.bytes});
  }
  return session.device().write_all(requests);
}

Result<void> read_tensors(Session& session, std::span<const TensorBytes<std::byte>> tensors) {
  std::vector<ReadRequest> requests;
  requests.reserve(tensors.size());
  for (const TensorBytes<std::byte>& one : tensors) {
    SB_ASSERT(one.bytes.size() == session.bytes_of(one.buffer, one.tensor));
    requests.push_back({session.buffer(one.buffer, one.tensor), 0, one.bytes});
  }
  return session.device().read_all(requests);
}

Result<StepReport> run_step(Session& session, const HyperValues& hyper, uint64_t poison_seed) {
  return session.step(hyper, poison_seed);
}

Result<TimedStepReport> time_step(Session& session, const HyperValues& hyper, uint64_t poison_seed) {
  return session.timed_step(hyper, poison_seed);
}

Result<std::optional<Failure>> check_memory(Session& session) { return session.check_memory(); }

BufferId tensor_buffer(Session& session, int buffer, int64_t tensor) { return session.buffer(buffer, tensor); }

}  // namespace stepbench
