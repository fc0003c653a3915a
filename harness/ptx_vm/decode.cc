// Lowers PTX to operations on values, one opcode family per function. Over 500 lines because it is the one place that
// knows what each non-arithmetic opcode of PTX means; slot assignment and emission are in registers.cc. References are
// to the PTX ISA manual (CUDA 13.0), section 9.7 "Instructions".
#include "harness/ptx_vm/decode.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <initializer_list>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "harness/ptx_vm/arithmetic.h"
#include "harness/ptx_vm/atomics.h"
#include "harness/ptx_vm/bulk_copy.h"
#include "harness/ptx_vm/cross_lane.h"
#include "harness/ptx_vm/kernel_info.h"
#include "harness/ptx_vm/lowering.h"
#include "harness/ptx_vm/memory.h"

namespace stepbench::vm {
namespace {

// Never leaves this file: decode() turns it into a Failure.
struct Refusal {
  ptx::Place place;
  std::string message;
};

constexpr uint64_t kMaxLocalBytes = 512 * 1024;

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// Bytes of a fundamental type, 0 if `text` is none (PTX ISA 5.2).
uint8_t type_bytes(std::string_view text) {
  if (is_one_of(text, {"b8", "u8", "s8"})) return 1;
  if (is_one_of(text, {"b16", "u16", "s16", "f16", "bf16"})) return 2;
  if (is_one_of(text, {"b32", "u32", "s32", "f32", "f16x2", "bf16x2", "pred"})) return 4;
  if (is_one_of(text, {"b64", "u64", "s64", "f64"})) return 8;
  return 0;
}

uint8_t register_bytes(std::string_view type) { return std::max<uint8_t>(type_bytes(type), 2); }

bool is_signed(std::string_view type) { return !type.empty() && type[0] == 's'; }
bool is_float(std::string_view type) { return is_one_of(type, {"f32", "f64"}); }

int width_index(uint8_t bytes) { return bytes == 2 ? 0 : bytes == 4 ? 1 : 2; }

struct SpecialName {
  std::string_view name;
  Special special;
};
constexpr SpecialName kSpecials[] = {
    {"%tid.x", Special::kTidX},
    {"%tid.y", Special::kTidY},
    {"%tid.z", Special::kTidZ},
    {"%tid", Special::kTidX},
    {"%ntid.x", Special::kNtidX},
    {"%ntid.y", Special::kNtidY},
    {"%ntid.z", Special::kNtidZ},
    {"%ntid", Special::kNtidX},
    {"%ctaid.x", Special::kCtaidX},
    {"%ctaid.y", Special::kCtaidY},
    {"%ctaid.z", Special::kCtaidZ},
    {"%ctaid", Special::kCtaidX},
    {"%nctaid.x", Special::kNctaidX},
    {"%nctaid.y", Special::kNctaidY},
    {"%nctaid.z", Special::kNctaidZ},
    {"%nctaid", Special::kNctaidX},
    {"%laneid", Special::kLaneid},
    {"%warpid", Special::kWarpid},
    {"%nwarpid", Special::kNwarpid},
    {"%lanemask_eq", Special::kLanemaskEq},
    {"%lanemask_lt", Special::kLanemaskLt},
    {"%lanemask_le", Special::kLanemaskLe},
    {"%lanemask_gt", Special::kLanemaskGt},
    {"%lanemask_ge", Special::kLanemaskGe},
    {"%smid", Special::kSmid},
    {"%dynamic_smem_size", Special::kDynamicShared},
    {"%total_smem_size", Special::kTotalShared},
    // A launch without clusters is one of 1 x 1 x 1 clusters.
    {"%clusterid.x", Special::kCtaidX},
    {"%clusterid.y", Special::kCtaidY},
    {"%clusterid.z", Special::kCtaidZ},
    {"%nclusterid.x", Special::kNctaidX},
    {"%nclusterid.y", Special::kNctaidY},
    {"%nclusterid.z", Special::kNctaidZ},
};
struct FixedName {
  std::string_view name;
  uint64_t value;
};
constexpr FixedName kFixed[] = {
    {"%nsmid", 132},         {"%gridid", 0},           {"%cluster_ctaid.x", 0},     {"%cluster_ctaid.y", 0},
    {"%cluster_ctaid.z", 0}, {"%cluster_nctaid.x", 1}, {"%cluster_nctaid.y", 1},    {"%cluster_nctaid.z", 1},
    {"%cluster_ctarank", 0}, {"%cluster_nctarank", 1}, {"%is_explicit_cluster", 0}, {"WARP_SZ", 32},
};
bool is_clock(std::string_view name) {
  return is_one_of(name, {"%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"});
}

// %clock and its kin count issued warp instructions; the high words are handler flag 1.
void read_clock(LaneState& lanes, const Decoded& instruction) {
  ExecState& state = static_cast<ExecState&>(lanes);
  const uint64_t value = (instruction.flags & 1) != 0 ? state.clock >> 32 : state.clock;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (state.active[lane] == 0) continue;
    if ((instruction.flags & 2) != 0) {
      slot<uint64_t>(state, instruction.d)[lane] = value;
    } else {
      slot<uint32_t>(state, instruction.d)[lane] = static_cast<uint32_t>(value);
    }
  }
}

// Where a variable of a function's frame or of shared memory lies.
struct LocalSymbol {
  MemorySpace space = MemorySpace::kLocal;
  uint32_t address = 0;
  bool dynamic_shared = false;
};

class Lowering {
 public:
  Lowering(const ptx::Module& module, const ptx::Function& entry, const VariableAddress& variable_address,
           const DecodeOptions& options)
      : module_(module),
        variable_address_(variable_address),
        options_(options),
        ops_table_(std::string_view(arithmetic_level()) == "x86-64-v3" ? isa_v3::memory_ops() : isa_v2::memory_ops()) {
    functions_.push_back(&entry);
  }

  Program run() {
    collect_functions();
    lay_out_parameters();
    lay_out_frames();
    out_.functions.resize(functions_.size());
    for (size_t f = 0; f < functions_.size(); ++f) out_.functions[f].callers = callers_[f];
    for (size_t f = 0; f < functions_.size(); ++f) lower_function(static_cast<int32_t>(f));
    finish_calls();
    finish_shared();
    program_.local_bytes = local_end_ - kLocalBase;
    program_.max_threads = functions_[0]->max_threads;
    program_.required_threads = functions_[0]->required_threads;
    assign_registers(out_, program_);
    return std::move(program_);
  }

 private:
  using Operand = ptx::Operand;
  using OperandKind = ptx::OperandKind;

  [[noreturn]] void refuse(const std::string& why) const {
    throw Refusal{in_ != nullptr ? in_->place : functions_[static_cast<size_t>(f_)]->place,
                  in_ != nullptr ? fmt::format("{}: \"{}\"", why, in_->text) : why};
  }

  // ---------------------------------------------------------------------------------------------- functions and frames

  const ptx::Function* find_function(const std::string& name) const {
    const ptx::Function* declaration = nullptr;
    for (const ptx::Function& function : module_.functions) {
      if (function.name != name) continue;
      if (!function.is_declaration) return &function;
      declaration = &function;
    }
    return declaration;
  }

  // All functions the entry reaches, callers before callees. Recursion is refused.
  void collect_functions() {
    std::vector<const ptx::Function*> finished, open;
    visit(functions_[0], open, finished);
    std::reverse(finished.begin(), finished.end());
    functions_ = finished;
    for (size_t f = 0; f < functions_.size(); ++f) index_[functions_[f]] = static_cast<int32_t>(f);
    callers_.resize(functions_.size());
    for (size_t f = 0; f < functions_.size(); ++f) {
      for (const ptx::Instruction& instruction : functions_[f]->body) {
        if (instruction.opcode != "call") continue;
        const int32_t callee = index_.at(find_function(instruction.operands[0].name));
        callers_[static_cast<size_t>(callee)].push_back(static_cast<int32_t>(f));
      }
    }
  }

  void visit(const ptx::Function* function, std::vector<const ptx::Function*>& open,
             std::vector<const ptx::Function*>& finished) {
    if (std::find(finished.begin(), finished.end(), function) != finished.end()) return;
    open.push_back(function);
    if (open.size() > 64) throw Refusal{function->place, "calls nest more than 64 deep"};
    for (const ptx::Instruction& instruction : function->body) {
      if (instruction.opcode != "call") continue;
      in_ = &instruction;
      if (instruction.operands.empty() || instruction.operands[0].kind != OperandKind::kSymbol) {
        refuse("indirect calls are not supported");
      }
      const ptx::Function* callee = find_function(instruction.operands[0].name);
      if (callee == nullptr || callee->is_declaration) {
        refuse(fmt::format("call of \"{}\", which has no body here, is not supported", instruction.operands[0].name));
      }
      if (callee->is_entry) refuse("call of a kernel is not supported");
      if (std::find(open.begin(), open.end(), callee) != open.end()) refuse("recursive calls are not supported");
      visit(callee, open, finished);
    }
    in_ = nullptr;
    open.pop_back();
    finished.push_back(function);
  }

  void lay_out_parameters() {
    const ptx::Function& entry = *functions_[0];
    for (const ptx::Variable& parameter : entry.parameters) {
      if (parameter.space != ptx::Space::kParam)
        throw Refusal{parameter.place, "register parameters of a kernel are not supported"};
    }
    program_.info = ptx::kernel_info(entry);
    const std::array<int32_t, 3>& cluster = entry.required_cluster;
    if (cluster[0] > 0 && cluster[0] * std::max(cluster[1], 1) * std::max(cluster[2], 1) > 1) {
      throw Refusal{entry.place,
                    fmt::format("kernel \"{}\" needs thread block clusters, which are not supported", entry.name)};
    }
  }

  // Static places of .local and .param variables: a callee's frame lies behind those of all its callers.
  void lay_out_frames() {
    frames_.resize(functions_.size());
    frame_range_.resize(functions_.size());
    uint64_t end_of_all = kLocalBase;
    for (size_t f = 0; f < functions_.size(); ++f) {
      uint64_t cursor = kLocalBase;
      for (const int32_t caller : callers_[f])
        cursor = std::max<uint64_t>(cursor, frame_range_[static_cast<size_t>(caller)].second);
      cursor = (cursor + 15) / 16 * 16;
      const uint64_t begin = cursor;
      const auto add = [&](const ptx::Variable& variable) {
        if (variable.space != ptx::Space::kParam && variable.space != ptx::Space::kLocal) return;
        const uint64_t align = std::max(variable.align_bytes, 1u);
        cursor = (cursor + align - 1) / align * align;
        frames_[f][variable.name] = {MemorySpace::kLocal, static_cast<uint32_t>(cursor), false};
        cursor += variable.bytes;
        if (cursor > kMaxLocalBytes) {
          throw Refusal{variable.place, fmt::format("more than {} bytes of local memory per thread", kMaxLocalBytes)};
        }
      };
      if (f != 0) {
        for (const ptx::Variable& variable : functions_[f]->parameters) {
          if (variable.space != ptx::Space::kParam)
            throw Refusal{variable.place, "register parameters of functions are not supported"};
          add(variable);
        }
        for (const ptx::Variable& variable : functions_[f]->returns) {
          if (variable.space != ptx::Space::kParam)
            throw Refusal{variable.place, "register results of functions are not supported"};
          add(variable);
        }
      }
      for (const ptx::Variable& variable : functions_[f]->variables) add(variable);
      frame_range_[f] = {begin, cursor};
      end_of_all = std::max(end_of_all, cursor);
    }
    local_end_ = static_cast<uint32_t>((end_of_all + 15) / 16 * 16);
  }

  // Shared memory: statics in the order of their first use, the dynamic array behind them.
  LocalSymbol shared_symbol(const ptx::Variable& variable) {
    const auto found = shared_.find(&variable);
    if (found != shared_.end()) return found->second;
    const uint32_t align = std::max(variable.align_bytes, 1u);
    LocalSymbol symbol{MemorySpace::kShared, 0, false};
    if (variable.bytes == 0) {
      symbol.dynamic_shared = true;
      dynamic_align_ = std::max({dynamic_align_, align, 16u});
    } else {
      shared_end_ = (shared_end_ + align - 1) / align * align;
      symbol.address = kSharedBase + static_cast<uint32_t>(shared_end_);
      shared_end_ += variable.bytes;
      if (shared_end_ > (uint64_t{1} << 24)) refuse("more than 16 MiB of static shared memory");
    }
    shared_[&variable] = symbol;
    return symbol;
  }

  void finish_shared() {
    program_.static_shared_bytes = static_cast<uint32_t>(shared_end_);
    program_.info.static_shared_bytes = program_.static_shared_bytes;
    const uint64_t offset = (shared_end_ + dynamic_align_ - 1) / dynamic_align_ * dynamic_align_;
    program_.dynamic_shared_offset = static_cast<uint32_t>(offset);
    for (const int32_t filled : dynamic_constants_)
      out_.filled[static_cast<size_t>(filled)].bits += kSharedBase + offset;
  }

  // ---------------------------------------------------------------------------------------------- values

  int32_t new_value(const Value& value) {
    out_.values.push_back(value);
    return static_cast<int32_t>(out_.values.size()) - 1;
  }

  int32_t temporary(uint8_t bytes) {
    Value value;
    value.bytes = bytes;
    value.function = f_;
    value.temporary = true;
    return new_value(value);
  }

  int32_t filled_value(const FilledSlot& filled) {
    out_.filled.push_back(filled);
    Value value;
    value.bytes = filled.bytes;
    value.filled = static_cast<int32_t>(out_.filled.size()) - 1;
    return new_value(value);
  }

  int32_t constant(uint64_t bits, uint8_t bytes) {
    if (bytes < 8) bits &= (uint64_t{1} << (8 * bytes)) - 1;
    const auto key = std::make_tuple(bits, bytes);
    const auto found = constants_.find(key);
    if (found != constants_.end()) return found->second;
    FilledSlot filled;
    filled.bytes = bytes;
    filled.bits = bits;
    return constants_[key] = filled_value(filled);
  }

  int32_t dynamic_shared_constant(uint64_t addend, uint8_t bytes) {
    FilledSlot filled;
    filled.bytes = bytes;
    filled.bits = addend;
    const int32_t value = filled_value(filled);
    dynamic_constants_.push_back(out_.values[static_cast<size_t>(value)].filled);
    return value;
  }

  int32_t special_value(Special special) {
    const auto found = specials_.find(special);
    if (found != specials_.end()) return found->second;
    FilledSlot filled;
    filled.special = special;
    return specials_[special] = filled_value(filled);
  }

  int32_t parameter_value(uint32_t offset, uint8_t bytes, bool sign, uint8_t slot_bytes) {
    const auto key = std::make_tuple(offset, bytes, sign, slot_bytes);
    const auto found = parameters_.find(key);
    if (found != parameters_.end()) return found->second;
    FilledSlot filled;
    filled.special = Special::kParameter;
    filled.bytes = slot_bytes;
    filled.parameter_offset = offset;
    filled.parameter_bytes = bytes;
    filled.sign_extend = sign;
    return parameters_[key] = filled_value(filled);
  }

  uint8_t bytes_of(int32_t value) const { return out_.values[static_cast<size_t>(value)].bytes; }
  int32_t register_value(int32_t reg) const { return register_base_ + reg; }

  // ---------------------------------------------------------------------------------------------- operations

  Operation operation(Kind kind) const {
    Operation op;
    op.kind = kind;
    op.site = site_;
    return op;
  }

  // The main operation of the current instruction: guarded and counted.
  Operation main_operation(Kind kind) const {
    Operation op = operation(kind);
    op.weight = 1;
    if (in_ != nullptr && in_->predicate >= 0) {
      op.predicate = register_value(in_->predicate);
      op.predicate_negated = in_->predicate_negated;
    }
    return op;
  }

  void push(const Operation& op) { out_.operations.push_back(op); }

  void push_handlers(Operation op, const Handler (&pair)[2]) {
    op.full = pair[0];
    op.masked = pair[1];
    push(op);
  }

  // Pushes the main operation and then moves temporaries to the registers they stand for, under the same guard.
  void finish(const Operation& op) {
    push(op);
    for (const auto& [from, to, sign] : pending_) {
      Operation move = main_operation(Kind::kLaneWise);
      move.weight = 0;
      move.pure = true;
      move.a = from;
      move.d = to;
      push_handlers(move, ops_table_.convert[width_index(bytes_of(from))][width_index(bytes_of(to))][sign ? 1 : 0]);
    }
    pending_.clear();
  }

  int32_t adapt(int32_t value, uint8_t bytes, bool sign = false) {
    const uint8_t from = bytes_of(value);
    if (from == bytes) return value;
    const int32_t filled = out_.values[static_cast<size_t>(value)].filled;
    const bool dynamic =
        std::find(dynamic_constants_.begin(), dynamic_constants_.end(), filled) != dynamic_constants_.end();
    if (filled >= 0 && !sign && !dynamic && out_.filled[static_cast<size_t>(filled)].special == Special::kBits) {
      return constant(out_.filled[static_cast<size_t>(filled)].bits, bytes);
    }
    Operation op = operation(Kind::kLaneWise);
    op.pure = true;
    op.a = value;
    op.d = temporary(bytes);
    const int32_t result = op.d;
    push_handlers(op, ops_table_.convert[width_index(from)][width_index(bytes)][sign ? 1 : 0]);
    return result;
  }

  // Address of a symbol: value, width as asked; for shared and local the state-space offset or the generic address.
  int32_t symbol_value(const std::string& name, int64_t addend, uint8_t bytes, bool generic) {
    MemorySpace space = MemorySpace::kGlobal;
    return symbol_value(name, addend, bytes, generic, space);
  }

  int32_t symbol_value(const std::string& name, int64_t addend, uint8_t bytes, bool generic, MemorySpace& space) {
    const uint64_t plus = static_cast<uint64_t>(addend);
    const auto& frame = frames_[static_cast<size_t>(f_)];
    if (const auto found = frame.find(name); found != frame.end()) {
      space = MemorySpace::kLocal;
      return constant(found->second.address + plus + (generic ? kLocalWindow : 0), bytes);
    }
    const ptx::Function& function = *functions_[static_cast<size_t>(f_)];
    if (f_ == 0) {
      for (size_t k = 0; k < function.parameters.size(); ++k) {
        if (function.parameters[k].name != name) continue;
        space = MemorySpace::kParam;
        program_.uses_parameter_window = true;
        return constant(kParameterBase + program_.info.parameters[k].offset_bytes + plus, bytes);
      }
    }
    const ptx::Variable* variable = nullptr;
    for (const ptx::Variable& candidate : function.variables) {
      if (candidate.name == name) variable = &candidate;
    }
    if (variable == nullptr) {
      for (const ptx::Variable& candidate : module_.variables) {
        if (candidate.name == name && (variable == nullptr || variable->is_extern)) variable = &candidate;
      }
    }
    if (variable == nullptr) {
      refuse(find_function(name) != nullptr ? fmt::format("the address of function \"{}\" is not supported", name)
                                            : fmt::format("unknown symbol \"{}\"", name));
    }
    if (variable->space == ptx::Space::kShared) {
      space = MemorySpace::kShared;
      const LocalSymbol symbol = shared_symbol(*variable);
      const uint64_t window = generic ? kSharedWindow : 0;
      if (symbol.dynamic_shared) return dynamic_shared_constant(plus + window, bytes);
      return constant(symbol.address + plus + window, bytes);
    }
    if (variable->is_extern) refuse(fmt::format("variable \"{}\" is declared here but defined nowhere", name));
    const std::optional<uint64_t> address = variable_address_(*variable);
    if (!address.has_value())
      refuse(fmt::format("variable \"{}\" does not fit: .const variables have 64 KiB in all, any other 256 MiB", name));
    space = variable->space == ptx::Space::kConst ? MemorySpace::kConst : MemorySpace::kGlobal;
    return constant(*address + plus, bytes);
  }

  int32_t special_operand(const std::string& name) {
    for (const SpecialName& row : kSpecials) {
      if (row.name == name) return special_value(row.special);
    }
    for (const FixedName& row : kFixed) {
      if (row.name == name) return constant(row.value, name == "%gridid" ? 8 : 4);
    }
    if (is_clock(name)) {
      const bool wide = name == "%clock64" || name == "%globaltimer";
      Operation op = operation(Kind::kClock);
      op.full = op.masked = read_clock;
      op.d = temporary(wide ? 8 : 4);
      op.flags = static_cast<uint16_t>((name.ends_with("_hi") ? 1 : 0) | (wide ? 2 : 0));
      const int32_t result = op.d;
      push(op);
      return result;
    }
    refuse(fmt::format("special register {} is not supported", name));
  }

  // A source operand as a value of `bytes` bytes. `as_float`: literals are numbers of that width.
  int32_t source(const Operand& operand, uint8_t bytes, bool as_float = false, bool sign = false) {
    switch (operand.kind) {
      case OperandKind::kRegister: {
        int32_t value = register_value(operand.reg);
        if (operand.negated) {
          Operation op = operation(Kind::kLaneWise);
          op.pure = true;
          op.a = value;
          op.d = temporary(4);
          value = op.d;
          push_handlers(op, ops_table_.not_predicate);
        }
        return adapt(value, bytes, sign);
      }
      case OperandKind::kInteger:
        if (as_float && bytes >= 4) refuse("an integer literal where a floating-point one belongs is not supported");
        return constant(static_cast<uint64_t>(operand.integer), bytes);
      case OperandKind::kFloat: {
        if (operand.float_is_double && bytes == 4) {
          const float narrow = static_cast<float>(std::bit_cast<double>(operand.float_bits));
          return constant(std::bit_cast<uint32_t>(narrow), 4);
        }
        if (!operand.float_is_double && bytes == 8) {
          const double wide = std::bit_cast<float>(static_cast<uint32_t>(operand.float_bits));
          return constant(std::bit_cast<uint64_t>(wide), 8);
        }
        if (bytes == 2) refuse("a 16-bit floating-point literal is not supported");
        return constant(operand.float_bits, bytes);
      }
      case OperandKind::kSpecial: return adapt(special_operand(operand.name), bytes);
      case OperandKind::kSymbol: return symbol_value(operand.name, operand.displacement, bytes, false);
      case OperandKind::kMemory:
      case OperandKind::kVector:
      case OperandKind::kPair:
      case OperandKind::kSink:
      case OperandKind::kLabel: break;
    }
    refuse("an operand of this kind is not supported here");
  }

  // A destination of `bytes` bytes; a register of another width is filled through a temporary.
  int32_t destination(const Operand& operand, uint8_t bytes, bool sign = false) {
    if (operand.kind == OperandKind::kSink) return temporary(bytes);
    if (operand.kind != OperandKind::kRegister) refuse("a destination of this kind is not supported");
    const int32_t value = register_value(operand.reg);
    if (bytes_of(value) == bytes) return value;
    const int32_t stand_in = temporary(bytes);
    pending_.emplace_back(stand_in, value, sign);
    return stand_in;
  }

  const Operand& operand(size_t index) const {
    if (index >= in_->operands.size()) refuse("too few operands");
    return in_->operands[index];
  }

  bool has(std::string_view modifier) const {
    return std::find(in_->modifiers.begin(), in_->modifiers.end(), modifier) != in_->modifiers.end();
  }

  std::string last_modifier() const { return in_->modifiers.empty() ? std::string() : in_->modifiers.back(); }

  // ---------------------------------------------------------------------------------------------- memory

  struct AccessForm {
    MemorySpace space = MemorySpace::kGeneric;
    std::string type;
    uint8_t element_bytes = 0;
    uint8_t elements = 1;
    bool strong = false;
  };

  // Modifiers of ld, st, atom and red that change nothing here: caching, scope, order (one thread runs everything).
  static bool changes_nothing(std::string_view m) {
    return is_one_of(
               m, {"weak", "nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "cta", "cluster", "gpu", "sys", "noftz"}) ||
           m.starts_with("L1::") || m.starts_with("L2::") || m.starts_with("level::");
  }
  static bool is_strong(std::string_view m) {
    return is_one_of(m, {"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"});
  }

  std::optional<MemorySpace> space_of(std::string_view m) const {
    if (m == "global") return MemorySpace::kGlobal;
    if (m == "shared" || m == "shared::cta") return MemorySpace::kShared;
    if (m == "local") return MemorySpace::kLocal;
    if (m == "const") return MemorySpace::kConst;
    if (m == "param" || m == "param::entry" || m == "param::func") return MemorySpace::kParam;
    return std::nullopt;
  }

  AccessForm access_form() const {
    AccessForm form;
    for (const std::string& m : in_->modifiers) {
      if (const auto space = space_of(m)) {
        form.space = *space;
      } else if (is_strong(m)) {
        form.strong = true;
      } else if (m == "v2") {
        form.elements = 2;
      } else if (m == "v4") {
        form.elements = 4;
      } else if (type_bytes(m) != 0 && m != "pred") {
        form.type = m;
        form.element_bytes = type_bytes(m);
      } else if (!changes_nothing(m)) {
        refuse(fmt::format("modifier .{} is not supported", m));
      }
    }
    if (form.element_bytes == 0) refuse("the access has no supported type");
    if (form.element_bytes * form.elements > 16) refuse("accesses of more than 16 bytes are not supported");
    return form;
  }

  // Base of a memory operand for `space` (a register, symbol or number) and the space really meant.
  int32_t address(const Operand& memory, MemorySpace& space, int64_t& displacement) {
    if (memory.kind != OperandKind::kMemory) refuse("an address was expected");
    displacement = memory.displacement;
    if (memory.reg >= 0) {
      const bool narrow = space == MemorySpace::kShared || space == MemorySpace::kLocal;
      if (space == MemorySpace::kParam) {
        if (f_ != 0) {
          // An address of a function's parameter is one in local memory.
          space = MemorySpace::kLocal;
          return adapt(register_value(memory.reg), 4);
        }
        program_.uses_parameter_window = true;
      }
      return adapt(register_value(memory.reg), narrow ? 4 : 8);
    }
    displacement = 0;
    if (memory.name.empty()) {
      const bool narrow = space == MemorySpace::kShared || space == MemorySpace::kLocal;
      return constant(static_cast<uint64_t>(memory.displacement), narrow ? 4 : 8);
    }
    if (space == MemorySpace::kGeneric) return symbol_value(memory.name, memory.displacement, 8, true);
    MemorySpace found = space;
    const int32_t wide = symbol_value(memory.name, memory.displacement, 8, false, found);
    if (space == MemorySpace::kParam) space = found;
    const bool narrow = space == MemorySpace::kShared || space == MemorySpace::kLocal;
    return adapt(wide, narrow ? 4 : 8);
  }

  void set_access(Operation& op, const AccessForm& form, MemorySpace space, bool store) const {
    const int size = form.element_bytes == 1 ? 0 : form.element_bytes == 2 ? 1 : form.element_bytes == 4 ? 2 : 3;
    const int vector = form.elements == 1 ? 0 : form.elements == 2 ? 1 : 2;
    const bool sign = is_signed(form.type);
    op.flags = static_cast<uint16_t>(size | vector << 2 | (sign ? kAccessSigned : 0) | (store ? kAccessStore : 0) |
                                     static_cast<int>(space) << kAccessSpaceShift | (form.strong ? kAccessStrong : 0));
    op.kind = form.strong ? Kind::kPoll : Kind::kMemory;
    op.full = op.masked = slow_access;
    if (space == MemorySpace::kLocal || options_.check_races) return;
    const int element = size == 0 ? (sign ? 1 : 0) : size + 1;
    const bool shared = space == MemorySpace::kShared;
    const auto& table = store ? (shared ? ops_table_.store_shared : ops_table_.store_global)
                              : (shared ? ops_table_.load_shared : ops_table_.load_global);
    op.full = table[element][vector][0];
    op.masked = table[element][vector][1];
  }

  std::vector<const Operand*> elements_of(const Operand& operand, uint8_t count) const {
    std::vector<const Operand*> list;
    if (operand.kind == OperandKind::kVector) {
      for (const Operand& element : operand.elements) list.push_back(&element);
    } else {
      list.push_back(&operand);
    }
    if (list.size() != count) refuse(fmt::format("{} elements expected, {} found", count, list.size()));
    return list;
  }

  // Offset of an entry parameter named by a memory operand.
  std::optional<uint32_t> entry_parameter(const Operand& memory) const {
    if (f_ != 0 || memory.kind != OperandKind::kMemory || memory.reg >= 0) return std::nullopt;
    const auto& parameters = functions_[0]->parameters;
    for (size_t k = 0; k < parameters.size(); ++k) {
      if (parameters[k].name == memory.name) return program_.info.parameters[k].offset_bytes;
    }
    return std::nullopt;
  }

  void lower_load() {
    const AccessForm form = access_form();
    const auto targets = elements_of(operand(0), form.elements);
    const bool sign = is_signed(form.type);
    const uint8_t element_slot = std::max<uint8_t>(form.element_bytes, 2);
    if (const auto offset = entry_parameter(operand(1)); offset.has_value() && form.space == MemorySpace::kParam) {
      const int64_t first = static_cast<int64_t>(*offset) + operand(1).displacement;
      const int64_t last = first + int64_t{form.element_bytes} * form.elements;
      if (first < 0 || last > static_cast<int64_t>(program_.info.parameter_bytes))
        refuse("reads beyond the kernel's parameters");
      if (first % (form.element_bytes * form.elements) != 0) refuse("misaligned read of a kernel parameter");
      for (size_t k = 0; k < targets.size(); ++k) {
        if (targets[k]->kind == OperandKind::kSink) continue;
        if (targets[k]->kind != OperandKind::kRegister) refuse("a destination of this kind is not supported");
        Operation op = main_operation(Kind::kLaneWise);
        op.weight = k == 0 ? 1 : 0;
        op.pure = op.is_move = true;
        op.d = register_value(targets[k]->reg);
        const uint8_t bytes = bytes_of(op.d);
        op.a = parameter_value(static_cast<uint32_t>(first + static_cast<int64_t>(k) * form.element_bytes),
                               form.element_bytes, sign, bytes);
        push_handlers(op, ops_table_.move[width_index(bytes)]);
      }
      return;
    }
    Operation op = main_operation(Kind::kMemory);
    MemorySpace space = form.space;
    op.a = address(operand(1), space, op.immediate);
    set_access(op, form, space, false);
    op.role = VectorRole::kDestinations;
    op.vector_count = form.elements;
    for (size_t k = 0; k < targets.size(); ++k) op.v[k] = destination(*targets[k], element_slot, sign);
    finish(op);
  }

  void lower_store() {
    const AccessForm form = access_form();
    Operation op = main_operation(Kind::kMemory);
    MemorySpace space = form.space;
    if (space == MemorySpace::kConst) refuse("a store to constant memory is not possible");
    op.a = address(operand(0), space, op.immediate);
    set_access(op, form, space, true);
    op.role = VectorRole::kSources;
    op.vector_count = form.elements;
    const auto sources = elements_of(operand(1), form.elements);
    for (size_t k = 0; k < sources.size(); ++k) {
      op.v[k] = source(*sources[k], std::max<uint8_t>(form.element_bytes, 2), is_float(form.type));
    }
    finish(op);
  }

  void lower_atomic(bool returns) {
    MemorySpace space = MemorySpace::kGeneric;
    std::optional<AtomicOp> what;
    std::optional<AtomicType> type;
    for (const std::string& m : in_->modifiers) {
      if (const auto s = space_of(m)) {
        space = *s;
      } else if (const auto o = atomic_op_from_text(m)) {
        what = o;
      } else if (const auto t = atomic_type_from_text(m)) {
        type = t;
      } else if (!changes_nothing(m) && !is_strong(m)) {
        refuse(fmt::format("modifier .{} is not supported", m));
      }
    }
    if (!what.has_value() || !type.has_value() || !atomic_form_exists(*what, *type))
      refuse("this atomic form is not supported");
    if (space != MemorySpace::kGeneric && space != MemorySpace::kGlobal && space != MemorySpace::kShared) {
      refuse("atomics work on global and shared memory only");
    }
    const uint8_t bytes = atomic_bytes(*type);
    const bool as_float = *type == AtomicType::kF32 || *type == AtomicType::kF64;
    size_t next = 0;
    Operation op = main_operation(Kind::kPoll);
    if (returns) op.d = destination(operand(next++), bytes);
    op.a = address(operand(next++), space, op.immediate);
    op.b = source(operand(next++), bytes, as_float);
    if (*what == AtomicOp::kCas) op.c = source(operand(next++), bytes);
    op.flags = atomic_flags(*what, *type, space);
    op.full = op.masked = atomic_access;
    finish(op);
  }

  // ---------------------------------------------------------------------------------------------- bulk copies

  // Modifiers of bulk copies and mbarriers that change nothing here; the cluster of a launch is its block alone.
  static bool says_scope_or_cache(std::string_view m) {
    return is_one_of(m, {"release", "acquire", "relaxed", "cta", "cluster", "b64"}) || m.starts_with("L2::");
  }

  // Address of a memory operand with its displacement, in a space of 4- or 8-byte addresses.
  int32_t whole_address(const Operand& memory, MemorySpace space) {
    int64_t displacement = 0;
    const uint8_t bytes = space == MemorySpace::kShared ? 4 : 8;
    const int32_t base = address(memory, space, displacement);
    if (displacement == 0) return base;
    Operation op = operation(Kind::kLaneWise);
    op.pure = true;
    op.a = adapt(base, 8);
    op.d = temporary(8);
    op.immediate = displacement;
    const int32_t result = op.d;
    push_handlers(op, ops_table_.add_constant);
    return adapt(result, bytes);
  }

  // PTX ISA 9.7.13 "mbarrier".
  void lower_mbarrier() {
    std::optional<MbarrierOp> what;
    MemorySpace space = MemorySpace::kGeneric;
    bool parity = false, waits = false;
    for (const std::string& m : in_->modifiers) {
      if (m == "init")
        what = MbarrierOp::kInit;
      else if (m == "inval")
        what = MbarrierOp::kInval;
      else if (m == "arrive")
        what = MbarrierOp::kArrive;
      else if (m == "expect_tx")
        what = what == MbarrierOp::kArrive ? MbarrierOp::kArriveExpect : MbarrierOp::kExpect;
      else if (m == "test_wait" || m == "try_wait")
        what = MbarrierOp::kTest, waits = true;
      else if (m == "parity")
        parity = true;
      else if (m == "shared" || m == "shared::cta" || m == "shared::cluster")
        space = MemorySpace::kShared;
      else if (!says_scope_or_cache(m))
        refuse(fmt::format("modifier .{} is not supported", m));
    }
    if (!what) refuse("this form of mbarrier is not supported");
    Operation op = main_operation(waits ? Kind::kPoll : Kind::kMemory);
    op.full = op.masked = mbarrier_access;
    const bool arrives = *what == MbarrierOp::kArrive || *what == MbarrierOp::kArriveExpect;
    size_t next = arrives || waits ? 1 : 0;
    // "arrive" may leave out its state, as it must in .shared::cluster.
    if (arrives && operand(0).kind == OperandKind::kMemory) next = 0;
    const bool has_state = arrives && next == 1;
    op.a = address(operand(next++), space, op.immediate);
    uint16_t flags = static_cast<uint16_t>(static_cast<unsigned>(*what) | (parity ? kMbarrierParity : 0) |
                                           static_cast<unsigned>(space) << kBulkSpaceShift);
    if (*what == MbarrierOp::kArrive && next < in_->operands.size()) flags |= kMbarrierHasCount;
    if (waits) {
      op.b = source(operand(next), parity ? 4 : 8);
      op.d = destination(operand(0), 4);
    } else if (*what != MbarrierOp::kInval && (*what != MbarrierOp::kArrive || (flags & kMbarrierHasCount) != 0)) {
      op.b = source(operand(next), 4);
    }
    if (has_state) op.d = destination(operand(0), 8);
    op.flags = flags;
    finish(op);
  }

  // PTX ISA 9.7.9.25 "cp.async.bulk", "cp.async.bulk.tensor", and their groups.
  void lower_bulk_copy() {
    if (has("prefetch")) return lower_plain(Kind::kNothing);
    if (has("commit_group") || has("wait_group")) {
      Operation op = main_operation(Kind::kMemory);
      op.full = op.masked = has("commit_group") ? commit_group : wait_group;
      if (has("wait_group")) {
        if (operand(0).kind != OperandKind::kInteger || operand(0).integer < 0)
          refuse("a number of groups was expected");
        op.immediate = operand(0).integer;
      }
      return push(op);
    }
    const std::vector<std::string>& all = in_->modifiers;  // async, bulk, [tensor, 2d,] to, from, ...
    const bool tensor = has("tensor");
    const size_t direction = tensor ? 4 : 2;
    if (all.size() < direction + 2) refuse("this form of bulk copy is not supported");
    const std::string& to = all[direction];
    const std::string& from = all[direction + 1];
    const bool load = (to == "shared::cluster" || to == "shared::cta") && from == "global";
    if (!load && !(to == "global" && from == "shared::cta")) refuse("this direction of a bulk copy is not supported");
    for (size_t i = direction + 2; i < all.size(); ++i) {
      const bool known = (tensor && all[i] == "tile") ||
                         all[i] == (load ? "mbarrier::complete_tx::bytes" : "bulk_group") || all[i].starts_with("L2::");
      if (!known) refuse(fmt::format("modifier .{} is not supported", all[i]));
    }
    if (!has(load ? "mbarrier::complete_tx::bytes" : "bulk_group")) refuse("the bulk copy names no way of completion");
    Operation op = main_operation(Kind::kMemory);
    const Operand& shared = operand(load ? 0 : 1);
    const Operand& global = operand(load ? 1 : 0);
    MemorySpace space = MemorySpace::kShared;
    op.b = whole_address(global, tensor ? MemorySpace::kGeneric : MemorySpace::kGlobal);
    if (load) op.c = whole_address(operand(tensor ? 2 : 3), MemorySpace::kShared);
    op.a = address(shared, space, op.immediate);
    if (!tensor) {
      op.full = op.masked = load ? plain_load : plain_store;
      op.e = source(operand(2), 4);
      return finish(op);
    }
    const std::string& dimensions = all[3];
    const int rank = dimensions.size() == 2 && dimensions[1] == 'd' ? dimensions[0] - '0' : 0;
    if (rank < 1 || rank > static_cast<int>(TensorMapSpec::kMaxRank)) refuse("dimensions .1d to .5d were expected");
    if (global.elements.size() != 1 || global.elements[0].kind != OperandKind::kVector ||
        global.elements[0].elements.size() != static_cast<size_t>(rank))
      refuse(fmt::format("{} coordinates were expected", rank));
    op.full = op.masked = load ? tensor_load : tensor_store;
    op.flags = static_cast<uint16_t>(rank);
    op.role = VectorRole::kSources;
    op.vector_count = static_cast<uint8_t>(rank);
    for (int k = 0; k < rank; ++k) op.v[k] = source(global.elements[0].elements[static_cast<size_t>(k)], 4);
    finish(op);
  }

  // ---------------------------------------------------------------------------------------------- moves

  void lower_move() {
    const std::string type = last_modifier();
    const uint8_t bytes = type_bytes(type);
    if (bytes < 2) refuse("this type of mov is not supported");
    if (operand(1).kind == OperandKind::kVector) return lower_pack(bytes);
    if (operand(0).kind == OperandKind::kVector) return lower_unpack(bytes);
    Operation op = main_operation(Kind::kLaneWise);
    op.pure = op.is_move = true;
    op.a = source(operand(1), bytes, is_float(type));
    op.d = destination(operand(0), bytes);
    op.full = ops_table_.move[width_index(bytes)][0];
    op.masked = ops_table_.move[width_index(bytes)][1];
    finish(op);
  }

  void lower_pack(uint8_t bytes) {
    const auto& elements = operand(1).elements;
    const size_t count = elements.size();
    if (bytes == count) return lower_bytes(elements);
    if ((count != 2 && count != 4) || bytes / count < 2) refuse("this packing is not supported");
    const uint8_t part = static_cast<uint8_t>(bytes / count);
    const int to = width_index(bytes), from = width_index(part);
    int32_t whole = adapt(source(elements[0], part), bytes);
    for (size_t k = 1; k < count; ++k) {
      const int32_t piece = source(elements[k], part);
      Operation op = k + 1 == count ? main_operation(Kind::kLaneWise) : operation(Kind::kLaneWise);
      op.pure = true;
      op.a = whole;
      op.b = piece;
      op.immediate = static_cast<int64_t>(k) * part * 8;
      op.full = ops_table_.insert[from][to][0];
      op.masked = ops_table_.insert[from][to][1];
      op.d = k + 1 == count ? destination(operand(0), bytes) : temporary(bytes);
      whole = op.d;
      if (k + 1 == count) {
        finish(op);
      } else {
        push(op);
      }
    }
  }

  void lower_unpack(uint8_t bytes) {
    const auto& elements = operand(0).elements;
    const size_t count = elements.size();
    if (bytes == count) return lower_bytes(elements);
    if ((count != 2 && count != 4) || bytes / count < 2) refuse("this unpacking is not supported");
    const uint8_t part = static_cast<uint8_t>(bytes / count);
    const int32_t whole = source(operand(1), bytes);
    for (size_t k = 0; k < count; ++k) {
      Operation op = main_operation(Kind::kLaneWise);
      op.weight = k == 0 ? 1 : 0;
      op.pure = true;
      op.a = whole;
      op.d = destination(elements[k], part);
      op.immediate = static_cast<int64_t>(k) * part * 8;
      op.full = ops_table_.extract[width_index(bytes)][width_index(part)][0];
      op.masked = ops_table_.extract[width_index(bytes)][width_index(part)][1];
      finish(op);
    }
  }

  /// Packing or unpacking of 8-bit parts, as __bfloat162char_rz and its kin do: the arithmetic's own forms, since an
  /// 8-bit register fills a 2-byte slot.
  void lower_bytes(const std::vector<Operand>& elements) {
    const std::optional<ArithmeticForm> form = select_arithmetic(*in_);
    if (!form.has_value()) refuse("this packing is not supported");
    Operation op = main_operation(Kind::kLaneWise);
    op.full = form->full;
    op.masked = form->masked;
    op.pure = true;
    if (operand(1).kind == OperandKind::kVector) {
      int32_t* const sources[4] = {&op.a, &op.b, &op.c, &op.e};
      for (size_t k = 0; k < elements.size(); ++k) *sources[k] = source(elements[k], form->source_bytes[k]);
      op.d = destination(operand(0), form->destination_bytes[0]);
    } else {
      op.a = source(operand(1), form->source_bytes[0]);
      if (elements.size() == 2) {
        op.d = destination(elements[0], form->destination_bytes[0]);
        op.d2 = destination(elements[1], form->destination_bytes[1]);
      } else {
        op.pure = false;  // a pure operation may be moved, which destinations in `v` do not support
        op.role = VectorRole::kDestinations;
        op.vector_count = static_cast<uint8_t>(elements.size());
        for (size_t k = 0; k < elements.size(); ++k) op.v[k] = destination(elements[k], form->destination_bytes[0]);
      }
    }
    finish(op);
  }

  void lower_cvta() {
    if (last_modifier() != "u64") refuse("32-bit generic addresses are not supported");
    const bool to_space = has("to");
    std::optional<MemorySpace> space;
    for (const std::string& m : in_->modifiers) {
      if (const auto s = space_of(m)) space = s;
      if (!space_of(m) && m != "to" && m != "u64") refuse(fmt::format("modifier .{} is not supported", m));
    }
    if (!space.has_value()) refuse("cvta names no state space");
    uint64_t window = *space == MemorySpace::kShared ? kSharedWindow : *space == MemorySpace::kLocal ? kLocalWindow : 0;
    if (*space == MemorySpace::kParam && f_ != 0) window = kLocalWindow;
    Operation op = main_operation(Kind::kLaneWise);
    op.pure = true;
    op.is_move = window == 0;
    op.a = source(operand(1), 8);
    op.d = destination(operand(0), 8);
    op.immediate = static_cast<int64_t>(to_space ? uint64_t{0} - window : window);
    op.full = window == 0 ? ops_table_.move[2][0] : ops_table_.add_constant[0];
    op.masked = window == 0 ? ops_table_.move[2][1] : ops_table_.add_constant[1];
    finish(op);
  }

  void lower_isspacep() {
    const auto space = space_of(last_modifier());
    if (!space.has_value()) refuse("this state space is not supported");
    uint64_t lo = kGlobalBase, hi = ~uint64_t{0};
    if (*space == MemorySpace::kShared) lo = kSharedWindow, hi = kSharedWindow + kWindowBytes;
    if (*space == MemorySpace::kLocal) lo = kLocalWindow, hi = kLocalWindow + kWindowBytes;
    if (*space == MemorySpace::kConst) lo = kConstBase, hi = kConstEnd;
    if (*space == MemorySpace::kParam) lo = kParameterBase, hi = kConstBase;
    Operation op = main_operation(Kind::kLaneWise);
    op.pure = true;
    op.a = source(operand(1), 8);
    op.d = destination(operand(0), 4);
    op.immediate = static_cast<int64_t>(lo);
    op.role = VectorRole::kRaw;
    op.raw[0] = static_cast<uint32_t>(hi);
    op.raw[1] = static_cast<uint32_t>(hi >> 32);
    op.full = ops_table_.in_range[0];
    op.masked = ops_table_.in_range[1];
    finish(op);
  }

  // ---------------------------------------------------------------------------------------------- control flow

  int32_t label_index(const std::string& name) const {
    const auto& labels = functions_[static_cast<size_t>(f_)]->labels;
    const auto found = labels.find(name);
    if (found == labels.end()) refuse(fmt::format("unknown label \"{}\"", name));
    return found->second;
  }

  void lower_branch() {
    for (const std::string& m : in_->modifiers) {
      if (m != "uni") refuse(fmt::format("modifier .{} is not supported", m));
    }
    Operation op = main_operation(Kind::kBranch);
    op.target = label_index(operand(0).name);
    jumps_.push_back(out_.operations.size());
    push(op);
  }

  void lower_indexed_branch() {
    if (!has("idx")) refuse("this form of brx is not supported");
    const auto& tables = functions_[static_cast<size_t>(f_)]->branch_targets;
    const auto found = tables.find(operand(1).name);
    if (found == tables.end()) refuse("unknown list of branch targets");
    std::vector<int32_t> table;
    for (const std::string& label : found->second) table.push_back(label_index(label));
    if (table.empty()) refuse("an empty list of branch targets");
    Operation op = main_operation(Kind::kBranchIndexed);
    op.a = source(operand(0), 4);
    op.immediate = static_cast<int64_t>(out_.branch_tables.size());
    out_.branch_tables.push_back(std::move(table));
    push(op);
  }

  // Moves `bytes` bytes of every active lane's frame.
  void push_local_copy(uint32_t to, uint32_t from, uint64_t bytes) {
    Operation op = main_operation(Kind::kMemory);
    op.weight = 0;
    op.full = op.masked = copy_local;
    op.immediate = to;
    op.role = VectorRole::kRaw;
    op.raw[0] = from;
    op.raw[1] = static_cast<uint32_t>(bytes);
    push(op);
  }

  // Register or literal <-> a scalar parameter in a frame.
  void push_local_scalar(const Operand& scalar, const ptx::Variable& formal, uint32_t frame_address, bool store) {
    AccessForm form;
    form.type = formal.type;
    form.element_bytes = type_bytes(formal.type);
    if (form.element_bytes == 0 || form.element_bytes != formal.bytes) refuse("this argument is not supported");
    Operation op = main_operation(Kind::kMemory);
    op.weight = 0;
    op.a = constant(frame_address, 4);
    set_access(op, form, MemorySpace::kLocal, store);
    op.role = store ? VectorRole::kSources : VectorRole::kDestinations;
    op.vector_count = 1;
    const uint8_t slot_size = std::max<uint8_t>(form.element_bytes, 2);
    op.v[0] =
        store ? source(scalar, slot_size, is_float(form.type)) : destination(scalar, slot_size, is_signed(form.type));
    finish(op);
  }

  void lower_call() {
    for (const std::string& m : in_->modifiers) {
      if (m != "uni") refuse(fmt::format("modifier .{} is not supported", m));
    }
    const ptx::Function* callee = find_function(in_->operands[0].name);
    const int32_t callee_index = index_.at(callee);
    const auto& callee_frame = frames_[static_cast<size_t>(callee_index)];
    const auto& frame = frames_[static_cast<size_t>(f_)];
    if (in_->call_arguments.size() != callee->parameters.size() || in_->call_returns.size() != callee->returns.size()) {
      refuse("the call does not match the function's parameters");
    }
    const auto [begin, end] = frame_range_[static_cast<size_t>(callee_index)];
    if (end > begin) {
      Operation clear = main_operation(Kind::kMemory);
      clear.weight = 0;
      clear.full = clear.masked = clear_local;
      clear.role = VectorRole::kRaw;
      clear.raw[0] = static_cast<uint32_t>(begin);
      clear.raw[1] = static_cast<uint32_t>(end);
      push(clear);
    }
    for (size_t k = 0; k < callee->parameters.size(); ++k) {
      const ptx::Variable& formal = callee->parameters[k];
      const uint32_t to = callee_frame.at(formal.name).address;
      const auto found = frame.find(in_->call_arguments[k].name);
      if (in_->call_arguments[k].kind == OperandKind::kSymbol && found != frame.end()) {
        push_local_copy(to, found->second.address, formal.bytes);
      } else {
        push_local_scalar(in_->call_arguments[k], formal, to, true);
      }
    }
    Operation op = main_operation(Kind::kCall);
    calls_.emplace_back(out_.operations.size(), callee_index);
    push(op);
    for (size_t k = 0; k < callee->returns.size(); ++k) {
      const ptx::Variable& formal = callee->returns[k];
      const uint32_t from = callee_frame.at(formal.name).address;
      const auto found = frame.find(in_->call_returns[k].name);
      if (in_->call_returns[k].kind == OperandKind::kSymbol && found != frame.end()) {
        push_local_copy(found->second.address, from, formal.bytes);
      } else {
        push_local_scalar(in_->call_returns[k], formal, from, false);
      }
    }
  }

  void finish_calls() {
    for (const auto& [index, callee] : calls_)
      out_.operations[index].target = out_.functions[static_cast<size_t>(callee)].first;
  }

  void lower_plain(Kind kind) { push(main_operation(kind)); }

  // ---------------------------------------------------------------------------------------------- barriers and lanes

  void lower_barrier() {
    if (has("warp")) {
      Operation op = main_operation(Kind::kConverge);
      op.e = source(operand(0), 4);
      op.full = op.masked = no_exchange;
      push(op);
      return;
    }
    const bool arrive = has("arrive"), reduce = has("red");
    if (!arrive && !reduce && !has("sync")) refuse("this form of barrier is not supported");
    for (const std::string& m : in_->modifiers) {
      if (!is_one_of(m, {"cta", "sync", "arrive", "red", "aligned", "and", "or", "popc", "pred", "u32"})) {
        refuse(fmt::format("modifier .{} is not supported", m));
      }
    }
    Operation op = main_operation(Kind::kBarrier);
    // "bar" is "barrier" with .aligned.
    op.flags = static_cast<uint16_t>((arrive ? kBarrierArrive : 0) | (reduce ? kBarrierReduce : 0) |
                                     (in_->opcode == "bar" || has("aligned") ? kBarrierAligned : 0) |
                                     (has("and") ? kBarrierAnd : 0) | (has("or") ? kBarrierOr : 0));
    size_t next = reduce ? 1 : 0;
    op.a = source(operand(next++), 4);
    const size_t left = in_->operands.size() - next;
    if (left == (reduce ? 2u : 1u)) {
      op.b = source(operand(next++), 4);
    } else if (left != (reduce ? 1u : 0u)) {
      refuse("too many operands");
    }
    program_.partial_barriers = program_.partial_barriers || op.b >= 0;
    if (arrive && op.b < 0) refuse("barrier.arrive needs a thread count");
    if (reduce) {
      op.c = source(operand(next), 4);
      op.d = destination(operand(0), 4);
    }
    finish(op);
  }

  // d or d|p.
  void set_pair(Operation& op, const Operand& pair) {
    if (pair.kind != OperandKind::kPair) {
      op.d = destination(pair, 4);
      return;
    }
    if (pair.elements.size() != 2) refuse("a pair of destinations was expected");
    op.d = destination(pair.elements[0], 4);
    if (pair.elements[1].kind != OperandKind::kSink) op.d2 = destination(pair.elements[1], 4);
  }

  void need_modifiers(std::initializer_list<std::string_view> known) const {
    for (const std::string& m : in_->modifiers) {
      if (!is_one_of(m, known)) refuse(fmt::format("modifier .{} is not supported", m));
    }
    if (!has("sync")) refuse("only the .sync form is supported");
  }

  void lower_shuffle() {
    need_modifiers({"sync", "up", "down", "bfly", "idx", "b32"});
    Operation op = main_operation(Kind::kConverge);
    op.full = op.masked = shuffle;
    op.flags = static_cast<uint16_t>(has("up")     ? ShuffleMode::kUp
                                     : has("down") ? ShuffleMode::kDown
                                     : has("bfly") ? ShuffleMode::kButterfly
                                                   : ShuffleMode::kIndex);
    op.a = source(operand(1), 4);
    op.b = source(operand(2), 4);
    op.c = source(operand(3), 4);
    op.e = source(operand(4), 4);
    set_pair(op, operand(0));
    finish(op);
  }

  void lower_vote() {
    need_modifiers({"sync", "all", "any", "uni", "ballot", "pred", "b32"});
    Operation op = main_operation(Kind::kConverge);
    op.full = op.masked = vote;
    op.flags = static_cast<uint16_t>(has("all")   ? VoteMode::kAll
                                     : has("any") ? VoteMode::kAny
                                     : has("uni") ? VoteMode::kUniform
                                                  : VoteMode::kBallot);
    op.a = source(operand(1), 4);
    op.e = source(operand(2), 4);
    op.d = destination(operand(0), 4);
    finish(op);
  }

  void lower_match() {
    need_modifiers({"sync", "any", "all", "b32", "b64"});
    Operation op = main_operation(Kind::kConverge);
    op.full = op.masked = match;
    op.flags = static_cast<uint16_t>((has("all") ? 1 : 0) | (has("b64") ? 2 : 0));
    op.a = source(operand(1), has("b64") ? 8 : 4);
    op.e = source(operand(2), 4);
    set_pair(op, operand(0));
    finish(op);
  }

  void lower_redux() {
    need_modifiers({"sync", "add", "min", "max", "and", "or", "xor", "u32", "s32", "b32"});
    const bool sign = last_modifier() == "s32";
    Operation op = main_operation(Kind::kConverge);
    op.full = op.masked = redux;
    op.flags = static_cast<uint16_t>(has("add")   ? ReduxMode::kAdd
                                     : has("min") ? (sign ? ReduxMode::kMinSigned : ReduxMode::kMinUnsigned)
                                     : has("max") ? (sign ? ReduxMode::kMaxSigned : ReduxMode::kMaxUnsigned)
                                     : has("and") ? ReduxMode::kAnd
                                     : has("or")  ? ReduxMode::kOr
                                                  : ReduxMode::kXor);
    op.a = source(operand(1), 4);
    op.e = source(operand(2), 4);
    op.d = destination(operand(0), 4);
    finish(op);
  }

  void lower_elect() {
    need_modifiers({"sync"});
    Operation op = main_operation(Kind::kConverge);
    op.full = op.masked = elect;
    op.e = source(operand(1), 4);
    set_pair(op, operand(0));
    finish(op);
  }

  void lower_activemask() {
    Operation op = main_operation(Kind::kLaneWise);
    op.full = op.masked = activemask;
    op.d = destination(operand(0), 4);
    finish(op);
  }

  // ---------------------------------------------------------------------------------------------- arithmetic

  void lower_arithmetic() {
    const std::optional<ArithmeticForm> form = select_arithmetic(*in_);
    if (!form.has_value()) refuse("the instruction is not supported");
    if (in_->operands.size() != static_cast<size_t>(form->sources) + 1) refuse("an unexpected number of operands");
    Operation op = main_operation(Kind::kLaneWise);
    op.full = form->full;
    op.masked = form->masked;
    op.pure = !has("cc") && !is_one_of(in_->opcode, {"addc", "subc", "madc"});
    int32_t* const sources[4] = {&op.a, &op.b, &op.c, &op.e};
    for (size_t k = 0; k < form->sources; ++k) {
      *sources[k] = source(operand(k + 1), form->source_bytes[k], form->source_float[k]);
    }
    const Operand& to = operand(0);
    if (form->destinations == 2) {
      if (to.kind != OperandKind::kPair || to.elements.size() != 2) refuse("a pair of destinations was expected");
      op.d = destination(to.elements[0], form->destination_bytes[0], form->destination_signed);
      op.d2 = destination(to.elements[1], form->destination_bytes[1], form->destination_signed);
    } else {
      op.d = destination(to, form->destination_bytes[0], form->destination_signed);
    }
    finish(op);
  }

  void lower_instruction() {
    const std::string& opcode = in_->opcode;
    if (opcode == "ld" || opcode == "ldu") return lower_load();
    if (opcode == "st") return lower_store();
    if (opcode == "atom") return lower_atomic(true);
    if (opcode == "red" && !has("async")) return lower_atomic(false);
    if (opcode == "mbarrier") return lower_mbarrier();
    if (opcode == "cp" && has("async") && has("bulk") && !has("reduce")) return lower_bulk_copy();
    if (opcode == "mov") return lower_move();
    if (opcode == "cvta") return lower_cvta();
    if (opcode == "isspacep") return lower_isspacep();
    if (opcode == "bra") return lower_branch();
    if (opcode == "brx") return lower_indexed_branch();
    if (opcode == "call") return lower_call();
    if (opcode == "ret") return lower_plain(f_ == 0 ? Kind::kExit : Kind::kReturn);
    if (opcode == "exit") return lower_plain(Kind::kExit);
    if (opcode == "trap") return lower_plain(Kind::kTrap);
    if ((opcode == "bar" || opcode == "barrier") && !has("cluster")) return lower_barrier();
    if (opcode == "shfl") return lower_shuffle();
    if (opcode == "vote") return lower_vote();
    if (opcode == "match") return lower_match();
    if (opcode == "redux") return lower_redux();
    if (opcode == "elect") return lower_elect();
    if (opcode == "activemask") return lower_activemask();
    if (opcode == "nanosleep") return lower_plain(Kind::kYield);
    if (opcode == "createpolicy") {
      Operation op = main_operation(Kind::kLaneWise);
      op.pure = op.is_move = true;
      op.a = constant(0, 8);
      op.d = destination(operand(0), 8);
      op.full = ops_table_.move[2][0];
      op.masked = ops_table_.move[2][1];
      return finish(op);
    }
    // Order, caching and hints: nothing to do where one thread runs everything in program order.
    if (is_one_of(opcode, {"membar", "fence", "prefetch", "prefetchu", "griddepcontrol", "pmevent", "discard",
                           "applypriority", "setmaxnreg"})) {
      return lower_plain(Kind::kNothing);
    }
    lower_arithmetic();
  }

  void lower_function(int32_t index) {
    f_ = index;
    in_ = nullptr;
    const ptx::Function& function = *functions_[static_cast<size_t>(index)];
    FunctionRange& range = out_.functions[static_cast<size_t>(index)];
    range.first = static_cast<int32_t>(out_.operations.size());
    register_base_ = static_cast<int32_t>(out_.values.size());
    for (const ptx::Register& reg : function.registers) {
      Value value;
      if (reg.type == "b128") throw Refusal{function.place, "128-bit registers are not supported"};
      value.bytes = register_bytes(reg.type);
      value.function = index;
      new_value(value);
    }
    jumps_.clear();
    const size_t first_table = out_.branch_tables.size();
    std::vector<int32_t> start;
    for (const ptx::Instruction& instruction : function.body) {
      in_ = &instruction;
      start.push_back(static_cast<int32_t>(out_.operations.size()));
      site_.ptx_line = instruction.place.ptx_line;
      site_.source_line = instruction.place.author_line;
      site_.text = static_cast<uint32_t>(program_.texts.size());
      program_.texts.push_back(instruction.text);
      lower_instruction();
    }
    in_ = nullptr;
    start.push_back(static_cast<int32_t>(out_.operations.size()));
    push(operation(index == 0 ? Kind::kExit : Kind::kReturn));  // falling off the end
    range.end = static_cast<int32_t>(out_.operations.size());
    for (const size_t jump : jumps_) {
      int32_t& target = out_.operations[jump].target;
      target = start[static_cast<size_t>(target)];
    }
    for (size_t t = first_table; t < out_.branch_tables.size(); ++t) {
      for (int32_t& target : out_.branch_tables[t]) target = start[static_cast<size_t>(target)];
    }
  }

  const ptx::Module& module_;
  const VariableAddress& variable_address_;
  const DecodeOptions options_;
  const MemoryOps& ops_table_;
  std::vector<const ptx::Function*> functions_;
  std::map<const ptx::Function*, int32_t> index_;
  std::vector<std::vector<int32_t>> callers_;
  std::vector<std::map<std::string, LocalSymbol>> frames_;
  std::vector<std::pair<uint64_t, uint64_t>> frame_range_;
  uint32_t local_end_ = kLocalBase;
  std::map<const ptx::Variable*, LocalSymbol> shared_;
  uint64_t shared_end_ = 0;
  uint32_t dynamic_align_ = 16;

  Lowered out_;
  Program program_;
  std::map<std::tuple<uint64_t, uint8_t>, int32_t> constants_;
  std::map<Special, int32_t> specials_;
  std::map<std::tuple<uint32_t, uint8_t, bool, uint8_t>, int32_t> parameters_;
  std::vector<int32_t> dynamic_constants_;  // filled slots that get the dynamic array's address

  int32_t f_ = 0;                         // function being lowered
  const ptx::Instruction* in_ = nullptr;  // instruction being lowered
  int32_t register_base_ = 0;
  Site site_;
  std::vector<std::tuple<int32_t, int32_t, bool>> pending_;  // temporary -> register, sign
  std::vector<size_t> jumps_;
  std::vector<std::pair<size_t, int32_t>> calls_;  // operation -> function
};

}  // namespace

Judged<Program> decode(const ptx::Module& module, const ptx::Function& entry, const VariableAddress& variable_address,
                       const DecodeOptions& options) {
  try {
    return Lowering(module, entry, variable_address, options).run();
  } catch (const Refusal& refusal) {
    Failure failure;
    failure.verdict = Verdict::kUnsupported;
    failure.check = "load";
    failure.message =
        fmt::format("{} (PTX line {}{})", refusal.message, refusal.place.ptx_line,
                    refusal.place.author_line > 0 ? fmt::format(", source line {}", refusal.place.author_line) : "");
    const auto file = module.files.find(refusal.place.author_file);
    if (refusal.place.author_line > 0) {
      failure.place =
          fmt::format("{}:{}", file != module.files.end() ? file->second : "source", refusal.place.author_line);
    } else {
      failure.place = fmt::format("ptx:{}", refusal.place.ptx_line);
    }
    return failure;
  }
}

}  // namespace stepbench::vm
