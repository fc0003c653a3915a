// Device calls of the VM: modules, buffers, launches and their validation. The work is in decode.cc, memory.cc and
// execute.cc.
#include "harness/ptx_vm/vm_device.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "harness/ptx_vm/arithmetic.h"
#include "harness/ptx_vm/decode.h"
#include "harness/ptx_vm/execute.h"
#include "harness/ptx_vm/gemm.h"
#include "harness/ptx_vm/memory.h"
#include "harness/ptx_vm/ptx.h"
#include "harness/ptx_vm/tensor_map.h"

namespace stepbench::vm {
namespace {

constexpr uint64_t kDefaultBudget = uint64_t{1} << 36;
constexpr uint64_t kMaxConstBytes = 64 * 1024;  // PTX ISA section 5.1.3
constexpr uint64_t kMaxVariableBytes = 256ull << 20;

struct Module {
  std::map<std::string, Program> programs;
  std::vector<uint32_t> allocations;  // of module variables
};

Failure unsupported(std::string message, std::string place) {
  Failure failure;
  failure.verdict = Verdict::kUnsupported;
  failure.check = "load";
  failure.message = std::move(message);
  failure.place = std::move(place);
  return failure;
}

// Module variables in device memory, made when first referred to.
class Variables {
 public:
  Variables(const ptx::Module& module, AddressSpace& memory, uint64_t& next_const, std::vector<uint32_t>& allocations)
      : module_(module), memory_(memory), next_const_(next_const), allocations_(allocations) {}

  std::optional<uint64_t> address(const ptx::Variable& variable) {
    const auto found = addresses_.find(variable.name);
    if (found != addresses_.end()) return found->second;
    const bool constant = variable.space == ptx::Space::kConst;
    if (variable.bytes > kMaxVariableBytes) return std::nullopt;
    if (constant && (const_bytes_ += variable.bytes) > kMaxConstBytes) return std::nullopt;
    AllocationSpec spec;
    spec.bytes = variable.bytes;
    // Read-only also for .global: admission refuses every candidate that it sees write one, and this stops the rest.
    spec.read_only = true;
    spec.label = fmt::format("variable {}", variable.name);
    Result<uint32_t> id = constant ? memory_.allocate_at(next_const_, spec) : memory_.allocate(spec);
    if (!id.ok()) return std::nullopt;
    if (constant) next_const_ += (variable.bytes + 4096 + 255) / 256 * 256;
    allocations_.push_back(id.value());
    Allocation& allocation = memory_.get(id.value());
    addresses_[variable.name] = allocation.lo;
    // Without an initialiser variables start as zero (PTX ISA 5.4.4).
    std::memset(allocation.host, 0, variable.bytes);
    if (!variable.initial.empty()) {
      std::memcpy(allocation.host, variable.initial.data(), std::min<size_t>(variable.initial.size(), variable.bytes));
    }
    set_bits(allocation.initialised.data(), 0, variable.bytes);
    for (const ptx::InitializerAddress& entry : variable.addresses) {
      const auto target = std::find_if(module_.variables.begin(), module_.variables.end(),
                                       [&](const ptx::Variable& other) { return other.name == entry.symbol; });
      if (target == module_.variables.end() || target->space == ptx::Space::kShared) return std::nullopt;
      const std::optional<uint64_t> base = address(*target);
      if (!base.has_value() || entry.offset_bytes + 8 > variable.bytes) return std::nullopt;
      const uint64_t value = *base + static_cast<uint64_t>(entry.addend);
      std::memcpy(memory_.get(id.value()).host + entry.offset_bytes, &value, 8);
    }
    return allocation.lo;
  }

 private:
  const ptx::Module& module_;
  AddressSpace& memory_;
  uint64_t& next_const_;
  std::vector<uint32_t>& allocations_;
  std::map<std::string, uint64_t> addresses_;
  uint64_t const_bytes_ = 0;
};

class VmDevice final : public Device {
 public:
  explicit VmDevice(const VmOptions& options)
      : options_(options), machine_(make_machine(memory_, options.check_races)) {}

  DeviceInfo info() const override {
    DeviceInfo info;
    info.name = "vm";
    info.detail =
        fmt::format("PTX virtual machine, {}{}", arithmetic_level(), options_.check_races ? ", race check" : "");
    return info;
  }

  Result<Judged<ModuleId>> load(const CompiledModule& compiled) override {
    Result<ptx::Module> parsed = ptx::parse(compiled.ptx);
    if (!parsed.ok()) {
      const Error& error = parsed.error();
      if (error.code != ErrorCode::kInvalidInput) return error;
      return Judged<ModuleId>(unsupported("the PTX cannot be parsed: " + to_text(error), error.place));
    }
    const ptx::Module& module = parsed.value();
    if (module.address_bits != 64) return Judged<ModuleId>(unsupported("only 64-bit addresses are supported", ""));
    std::set<std::string> wanted;
    for (const auto& [plan_name, entry] : compiled.entries) wanted.insert(entry);
    if (wanted.empty()) {
      for (const ptx::Function& function : module.functions) {
        if (function.is_entry) wanted.insert(function.name);
      }
    }
    auto loaded = std::make_unique<Module>();
    Variables variables(module, memory_, next_const_, loaded->allocations);
    const VariableAddress address = [&](const ptx::Variable& variable) { return variables.address(variable); };
    std::optional<Failure> failure;
    for (const std::string& name : wanted) {
      const auto entry =
          std::find_if(module.functions.begin(), module.functions.end(), [&](const ptx::Function& function) {
            return function.name == name && function.is_entry && !function.is_declaration;
          });
      if (entry == module.functions.end()) {
        release_all(*loaded);
        return Error{ErrorCode::kNotFound, "the PTX has no such kernel", "load", name, kernel_list(module)};
      }
      DecodeOptions decode_options;
      decode_options.check_races = options_.check_races;
      Judged<Program> program = decode(module, *entry, address, decode_options);
      if (!program.ok()) {
        failure = std::move(program.failure);
        break;
      }
      loaded->programs.emplace(name, std::move(*program.value));
    }
    if (failure.has_value()) {
      release_all(*loaded);
      return Judged<ModuleId>(std::move(*failure));
    }
    const ModuleId id{next_module_++};
    modules_[id.value] = std::move(loaded);
    return Judged<ModuleId>(id);
  }

  void unload(ModuleId id) override {
    const auto found = modules_.find(id.value);
    SB_ASSERT(found != modules_.end());
    release_all(*found->second);
    modules_.erase(found);
  }

  Result<KernelInfo> kernel(ModuleId id, const std::string& entry) override {
    const Program* program = find_program(id, entry);
    if (program == nullptr) return Error{ErrorCode::kNotFound, "the module has no such kernel", "kernel", entry, ""};
    return program->info;
  }

  Result<BufferId> allocate(const AllocationSpec& spec) override {
    Result<uint32_t> id = memory_.allocate(spec);
    if (!id.ok()) return id.error();
    return BufferId{id.value()};
  }

  void release(BufferId buffer) override { memory_.release(buffer.value); }

  uint64_t address(BufferId buffer) const override { return memory_.get(buffer.value).lo; }

  Result<void> write(BufferId buffer, uint64_t offset_bytes, std::span<const std::byte> bytes) override {
    Allocation& allocation = memory_.get(buffer.value);
    SB_ASSERT(offset_bytes <= allocation.bytes && bytes.size() <= allocation.bytes - offset_bytes);
    if (bytes.empty()) return {};
    std::memcpy(allocation.host + offset_bytes, bytes.data(), bytes.size());
    set_bits(allocation.initialised.data(), allocation.lo - allocation.bit_base + offset_bytes, bytes.size());
    return {};
  }

  Result<void> read(BufferId buffer, uint64_t offset_bytes, std::span<std::byte> bytes) override {
    const Allocation& allocation = memory_.get(buffer.value);
    SB_ASSERT(offset_bytes <= allocation.bytes && bytes.size() <= allocation.bytes - offset_bytes);
    if (!bytes.empty()) std::memcpy(bytes.data(), allocation.host + offset_bytes, bytes.size());
    return {};
  }

  Result<void> poison(BufferId buffer, uint64_t seed) override {
    vm::poison(memory_.get(buffer.value), seed);
    return {};
  }

  Result<TensorMapBytes> encode_tensor_map(const TensorMapSpec& spec) override { return vm::encode_tensor_map(spec); }

  Result<LaunchReport> launch(const LaunchSpec& spec) override {
    if (spec.gemm) return run_gemm(memory_, *spec.gemm, budget_);
    const Program* program = find_program(spec.module, spec.entry);
    if (program == nullptr)
      return Error{ErrorCode::kNotFound, "the module has no such kernel", "launch", spec.entry, ""};
    if (std::optional<Fault> refused = validate(*program, spec)) {
      refused->kernel = spec.entry;
      LaunchReport report;
      report.fault = std::move(refused);
      return report;
    }
    return run_launch(*machine_, *program, spec, budget_);
  }

  void set_budget(uint64_t units) override { budget_ = units; }

 private:
  static std::string kernel_list(const ptx::Module& module) {
    std::string list;
    for (const ptx::Function& function : module.functions) {
      if (function.is_entry) list += (list.empty() ? "" : ", ") + function.name;
    }
    return list.empty() ? "no kernel" : list;
  }

  void release_all(Module& module) {
    for (const uint32_t id : module.allocations) memory_.release(id);
    module.allocations.clear();
  }

  const Program* find_program(ModuleId id, const std::string& entry) const {
    const auto module = modules_.find(id.value);
    if (module == modules_.end()) return nullptr;
    const auto program = module->second->programs.find(entry);
    return program == module->second->programs.end() ? nullptr : &program->second;
  }

  static Fault invalid(const std::string& what, const std::string& expected, const std::string& found) {
    Fault fault;
    fault.kind = FaultKind::kInvalidLaunch;
    fault.message = fmt::format("invalid launch: {} must be {}, found {}", what, expected, found);
    return fault;
  }

  // What a driver refuses (CUDA driver API, cuLaunchKernelEx).
  std::optional<Fault> validate(const Program& program, const LaunchSpec& spec) const {
    const DeviceInfo limits = info();
    const char* const axes[3] = {"x", "y", "z"};
    for (size_t k = 0; k < 3; ++k) {
      if (spec.grid[k] < 1 || spec.grid[k] > limits.max_grid[k]) {
        return invalid(fmt::format("grid.{}", axes[k]), fmt::format("1 to {}", limits.max_grid[k]),
                       fmt::format("{}", spec.grid[k]));
      }
      if (spec.block[k] < 1 || spec.block[k] > limits.max_block[k]) {
        return invalid(fmt::format("block.{}", axes[k]), fmt::format("1 to {}", limits.max_block[k]),
                       fmt::format("{}", spec.block[k]));
      }
    }
    const int64_t threads = spec.block[0] * spec.block[1] * spec.block[2];
    if (threads > limits.max_threads_per_block) {
      return invalid("threads per block", fmt::format("at most {}", limits.max_threads_per_block),
                     fmt::format("{}", threads));
    }
    if (program.info.exact_threads) {
      for (size_t k = 0; k < 3; ++k) {
        const int64_t required = std::max(program.required_threads[k], 1);
        if (spec.block[k] != required) {
          return invalid(fmt::format("block.{} (.reqntid of the kernel)", axes[k]), fmt::format("{}", required),
                         fmt::format("{}", spec.block[k]));
        }
      }
    } else if (threads > program.info.max_threads) {
      return invalid("threads per block (.maxntid of the kernel)", fmt::format("at most {}", program.info.max_threads),
                     fmt::format("{}", threads));
    }
    if (program.static_shared_bytes > static_cast<uint32_t>(limits.max_static_shared_bytes)) {
      return invalid("static shared memory in bytes", fmt::format("at most {}", limits.max_static_shared_bytes),
                     fmt::format("{}", program.static_shared_bytes));
    }
    const uint64_t shared = spec.shared_bytes > 0 ? uint64_t{program.dynamic_shared_offset} + spec.shared_bytes
                                                  : program.static_shared_bytes;
    if (shared > static_cast<uint64_t>(limits.max_shared_bytes)) {
      return invalid("static and dynamic shared memory in bytes", fmt::format("at most {}", limits.max_shared_bytes),
                     fmt::format("{}", shared));
    }
    if (program.info.parameter_bytes > static_cast<uint32_t>(limits.max_parameter_bytes)) {
      return invalid("size of the parameters in bytes", fmt::format("at most {}", limits.max_parameter_bytes),
                     fmt::format("{}", program.info.parameter_bytes));
    }
    if (spec.parameters.size() != program.info.parameter_bytes) {
      return invalid("size of the parameters in bytes", fmt::format("{}", program.info.parameter_bytes),
                     fmt::format("{}", spec.parameters.size()));
    }
    for (size_t k = 0; k < 3; ++k) {
      if (spec.cluster[k] == 1) continue;
      Fault fault = invalid(fmt::format("cluster.{}", axes[k]), "1 (clusters are not supported by the VM)",
                            fmt::format("{}", spec.cluster[k]));
      if (spec.cluster[k] > 1) fault.kind = FaultKind::kUnsupported;
      return fault;
    }
    return std::nullopt;
  }

  const VmOptions options_;
  AddressSpace memory_;
  MachinePtr machine_;
  std::map<uint32_t, std::unique_ptr<Module>> modules_;
  uint32_t next_module_ = 1;
  uint64_t next_const_ = kConstBase + 256;
  uint64_t budget_ = kDefaultBudget;
};

}  // namespace

std::unique_ptr<Device> open_vm(const VmOptions& options) { return std::make_unique<VmDevice>(options); }

}  // namespace stepbench::vm
