// The analysis behind admission: reachability, then a points-to fixpoint over registers and parameters with one set of
// variables each. Addresses in memory are not followed but reported when they get there.
#include "harness/address_flow.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace stepbench {

namespace {

using ptx::Function;
using ptx::Instruction;
using ptx::Module;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Space;
using ptx::Variable;

// A hostile text could make sets and edges multiply; real kernels stay below a thousandth of this.
constexpr size_t kMaxFacts = 4u << 20;
constexpr size_t kMaxVisits = 64u << 20;
constexpr size_t kMaxEdges = 16u << 20;
constexpr size_t kMaxSet = 4096;

bool has_modifier(const Instruction& instruction, std::string_view name) {
  return std::find(instruction.modifiers.begin(), instruction.modifiers.end(), name) != instruction.modifiers.end();
}

/// Does the instruction only read through its operand number `index`? Whatever is not known to read counts as a write.
bool only_reads(const Instruction& instruction, size_t index) {
  const std::string& opcode = instruction.opcode;
  if (opcode == "ld" || opcode == "ldu" || opcode == "ldmatrix" || opcode == "prefetch" || opcode == "prefetchu" ||
      opcode == "applypriority")
    return true;
  if (opcode == "wmma") return has_modifier(instruction, "load");
  if (opcode == "cp") return index == 1;  // cp.async and cp.async.bulk: target, source, then barriers
  return false;
}

bool is_load(const Instruction& instruction) { return instruction.opcode == "ld" || instruction.opcode == "ldu"; }

class Analysis {
 public:
  explicit Analysis(const Module& module) : module_(module) {
    for (size_t i = 0; i < module.variables.size(); ++i) variable_index_[module.variables[i].name] = i;
    for (size_t i = 0; i < module.functions.size(); ++i) function_index_[module.functions[i].name] = i;
  }

  AddressFlow run() {
    reach();
    for (const size_t index : flow_.functions) number_nodes(index);
    for (const size_t index : flow_.functions) add_edges(index);
    if (propagate()) find_writes();
    std::stable_sort(flow_.writes.begin(), flow_.writes.end(), [](const VariableWrite& a, const VariableWrite& b) {
      return a.instruction->place.ptx_line < b.instruction->place.ptx_line;
    });
    return std::move(flow_);
  }

 private:
  struct Names {
    std::unordered_map<std::string_view, int32_t> parameter_node;  ///< .param variables, parameters and returns
    std::unordered_set<std::string_view> others;                   ///< .shared and .local of the function
    int32_t first_register = 0;
  };

  struct Edge {
    int32_t from = 0, to = 0;
    bool is_load = false;  ///< `to` receives what is in memory at `from`
  };

  void add_edge(Edge edge) {
    if (edges_.size() >= kMaxEdges) flow_.is_complete = false;
    if (flow_.is_complete) edges_.push_back(edge);
  }

  // ---- reachability
  void reach() {
    std::vector<char> seen_function(module_.functions.size(), 0), seen_variable(module_.variables.size(), 0);
    std::vector<size_t> todo;
    std::vector<Mention> variables;
    for (size_t i = 0; i < module_.functions.size(); ++i)
      if (module_.functions[i].is_entry && !module_.functions[i].is_declaration) {
        seen_function[i] = 1;
        todo.push_back(i);
      }
    const auto mention = [&](std::string_view name, const Instruction* instruction) {
      if (const auto found = variable_index_.find(name); found != variable_index_.end()) {
        if (std::exchange(seen_variable[found->second], 1) == 0) variables.push_back({found->second, instruction});
      } else if (const auto callee = function_index_.find(name); callee != function_index_.end()) {
        if (std::exchange(seen_function[callee->second], 1) != 0) return;
        if (module_.functions[callee->second].is_declaration)
          flow_.undefined_functions.push_back({callee->second, instruction});
        else
          todo.push_back(callee->second);
      }
    };
    size_t variables_done = 0;
    while (!todo.empty() || variables_done < variables.size()) {
      if (variables_done < variables.size()) {
        const Mention next = variables[variables_done++];
        for (const auto& address : module_.variables[next.index].addresses) mention(address.symbol, next.instruction);
        continue;
      }
      const size_t index = todo.back();
      todo.pop_back();
      flow_.functions.push_back(index);
      const Function& function = module_.functions[index];
      std::unordered_set<std::string_view> own;  // names of the function hide those of the module
      for (const auto* list : {&function.parameters, &function.returns, &function.variables})
        for (const Variable& variable : *list) own.insert(variable.name);
      for (const Instruction& instruction : function.body) {
        const auto visit = [&](const Operand& operand) {
          if ((operand.kind == OperandKind::kSymbol || operand.kind == OperandKind::kMemory) && !operand.name.empty() &&
              own.count(operand.name) == 0)
            mention(operand.name, &instruction);
        };
        for (const auto* list : {&instruction.operands, &instruction.call_returns, &instruction.call_arguments})
          for (const Operand& operand : *list) {
            visit(operand);
            for (const Operand& element : operand.elements) {
              visit(element);
              for (const Operand& inner : element.elements) visit(inner);
            }
          }
      }
      for (const auto& [label, targets] : function.call_targets)
        for (const std::string& target : targets) mention(target, nullptr);
    }
    std::sort(flow_.functions.begin(), flow_.functions.end(), [this](size_t a, size_t b) {
      return module_.functions[a].place.ptx_line < module_.functions[b].place.ptx_line;
    });
    flow_.variables = std::move(variables);
  }

  // ---- nodes: every register, every .param variable, every parameter and return value
  void number_nodes(size_t index) {
    const Function& function = module_.functions[index];
    Names& names = names_[index];
    names.first_register = nodes_;
    nodes_ += static_cast<int32_t>(function.registers.size());
    std::unordered_map<std::string_view, int32_t> register_node;
    for (const auto* list : {&function.parameters, &function.returns})
      for (const Variable& variable : *list)
        if (variable.space == Space::kReg) register_node[variable.name] = -1;
    if (!register_node.empty())
      for (size_t i = 0; i < function.registers.size(); ++i)
        if (const auto found = register_node.find(function.registers[i].name); found != register_node.end())
          found->second = names.first_register + static_cast<int32_t>(i);
    for (const auto* list : {&function.parameters, &function.returns, &function.variables})
      for (const Variable& variable : *list) {
        if (variable.space == Space::kReg)
          names.parameter_node[variable.name] = register_node[variable.name];
        else if (variable.space == Space::kParam)
          names.parameter_node[variable.name] = nodes_++;
        else
          names.others.insert(variable.name);
      }
  }

  int32_t parameter_node(const Names& names, std::string_view name) const {
    const auto found = names.parameter_node.find(name);
    return found == names.parameter_node.end() ? -1 : found->second;
  }

  /// Index of the module's .global variable that `name` means in this function, -1 when it means something else.
  int32_t variable_of(const Names& names, std::string_view name) const {
    if (name.empty() || names.parameter_node.count(name) > 0 || names.others.count(name) > 0) return -1;
    const auto found = variable_index_.find(name);
    return found == variable_index_.end() ? -1 : static_cast<int32_t>(found->second);
  }

  void copy_edge(int32_t from, int32_t to) {
    if (from >= 0 && to >= 0 && from != to) add_edge({from, to, false});
  }

  template <class Visit>
  static void each_register(const Operand& operand, const Visit& visit) {
    if (operand.kind == OperandKind::kRegister) visit(operand.reg);
    for (const Operand& element : operand.elements)
      if (element.kind == OperandKind::kRegister) visit(element.reg);
  }

  template <class Visit>
  static void each_symbol(const Operand& operand, const Visit& visit) {
    if (operand.kind == OperandKind::kSymbol) visit(std::string_view(operand.name));
    for (const Operand& element : operand.elements)
      if (element.kind == OperandKind::kSymbol) visit(std::string_view(element.name));
  }

  void add_edges(size_t index) {
    const Function& function = module_.functions[index];
    const Names& names = names_[index];
    const auto node_of = [&](int32_t reg) {
      const bool is_predicate = function.registers[static_cast<size_t>(reg)].type == "pred";
      return is_predicate ? -1 : names.first_register + reg;
    };
    for (const Instruction& instruction : function.body) {
      if (instruction.opcode == "call") {
        add_call(names, instruction, node_of);
        continue;
      }
      const auto& operands = instruction.operands;
      if (operands.empty()) continue;
      // st.param [p], value: into the parameter's node
      if (operands[0].kind == OperandKind::kMemory) {
        const int32_t target = parameter_node(names, operands[0].name);
        if (target < 0) continue;
        for (size_t i = 1; i < operands.size(); ++i) {
          each_register(operands[i], [&](int32_t reg) { copy_edge(node_of(reg), target); });
          each_symbol(operands[i], [&](std::string_view name) {
            if (const int32_t variable = variable_of(names, name); variable >= 0) add(target, variable);
          });
        }
        continue;
      }
      std::vector<int32_t> targets;
      each_register(operands[0], [&](int32_t reg) {
        if (const int32_t node = node_of(reg); node >= 0) targets.push_back(node);
      });
      for (size_t i = 1; i < operands.size(); ++i) {
        const Operand& source = operands[i];
        for (const int32_t target : targets) {
          if (source.kind == OperandKind::kMemory) {
            // What a load gives: a parameter's value, or the addresses in a pointer table.
            if (const int32_t node = parameter_node(names, source.name); node >= 0) copy_edge(node, target);
            if (const int32_t variable = variable_of(names, source.name); variable >= 0)
              seed_contents(target, variable);
            if (source.reg >= 0 && node_of(source.reg) >= 0) add_edge({node_of(source.reg), target, true});
            continue;
          }
          each_register(source, [&](int32_t reg) { copy_edge(node_of(reg), target); });
          each_symbol(source, [&](std::string_view name) {
            if (const int32_t variable = variable_of(names, name); variable >= 0) add(target, variable);
          });
        }
      }
    }
  }

  template <class NodeOf>
  void add_call(const Names& names, const Instruction& instruction, const NodeOf& node_of) {
    const Operand& callee = instruction.operands[0];
    const auto found = callee.kind == OperandKind::kSymbol ? function_index_.find(callee.name) : function_index_.end();
    if (found == function_index_.end() || module_.functions[found->second].is_declaration) return;  // find_writes looks
    const Function& function = module_.functions[found->second];
    const Names& inner = names_[found->second];
    const auto outer_node = [&](const Operand& operand) {
      if (operand.kind == OperandKind::kRegister) return node_of(operand.reg);
      return operand.kind == OperandKind::kSymbol ? parameter_node(names, operand.name) : -1;
    };
    for (size_t i = 0; i < instruction.call_arguments.size() && i < function.parameters.size(); ++i) {
      const int32_t to = parameter_node(inner, function.parameters[i].name);
      copy_edge(outer_node(instruction.call_arguments[i]), to);
      each_symbol(instruction.call_arguments[i], [&](std::string_view name) {
        if (const int32_t variable = variable_of(names, name); variable >= 0 && to >= 0) add(to, variable);
      });
    }
    for (size_t i = 0; i < instruction.call_returns.size() && i < function.returns.size(); ++i)
      copy_edge(parameter_node(inner, function.returns[i].name), outer_node(instruction.call_returns[i]));
  }

  // ---- fixpoint
  void add(int32_t node, int32_t variable) {
    if (points_to_.size() < static_cast<size_t>(nodes_)) points_to_.resize(static_cast<size_t>(nodes_));
    std::vector<int32_t>& set = points_to_[static_cast<size_t>(node)];
    const auto at = std::lower_bound(set.begin(), set.end(), variable);
    if (at != set.end() && *at == variable) return;
    if (++facts_ > kMaxFacts || set.size() >= kMaxSet) {
      flow_.is_complete = false;
      return;
    }
    set.insert(at, variable);
    todo_.emplace_back(node, variable);
  }

  void seed_contents(int32_t node, int32_t variable) {
    for (const auto& address : module_.variables[static_cast<size_t>(variable)].addresses) {
      if (++visits_ > kMaxVisits) flow_.is_complete = false;
      if (!flow_.is_complete) return;
      if (const auto found = variable_index_.find(address.symbol); found != variable_index_.end())
        add(node, static_cast<int32_t>(found->second));
    }
  }

  bool propagate() {
    points_to_.resize(static_cast<size_t>(nodes_));
    std::sort(edges_.begin(), edges_.end(), [](const Edge& a, const Edge& b) { return a.from < b.from; });
    std::vector<size_t> first(static_cast<size_t>(nodes_) + 1, 0);
    for (const Edge& edge : edges_) ++first[static_cast<size_t>(edge.from) + 1];
    for (size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
    while (!todo_.empty() && flow_.is_complete) {
      const auto [node, variable] = todo_.back();
      todo_.pop_back();
      for (size_t i = first[static_cast<size_t>(node)]; i < first[static_cast<size_t>(node) + 1]; ++i) {
        if (++visits_ > kMaxVisits) flow_.is_complete = false;
        if (!flow_.is_complete) break;
        if (edges_[i].is_load)
          seed_contents(edges_[i].to, variable);
        else
          add(edges_[i].to, variable);
      }
    }
    return flow_.is_complete;
  }

  // ---- what happens to addresses
  void report(int32_t variable, AddressUse use, const Instruction& instruction) {
    const auto index = static_cast<size_t>(variable);
    if (module_.variables[index].space != Space::kGlobal)
      return;  // .const cannot be written, .shared ends with the block
    if (!reported_.insert(index).second) return;
    flow_.writes.push_back({index, use, &instruction});
  }

  void find_writes() {
    for (const size_t index : flow_.functions) {
      const Function& function = module_.functions[index];
      const Names& names = names_[index];
      // Each variable that the operand's value may be an address of.
      const auto addresses = [&](const Operand& operand, const auto& visit) {
        each_register(operand, [&](int32_t reg) {
          for (const int32_t variable : points_to_[static_cast<size_t>(names.first_register + reg)]) visit(variable);
        });
        each_symbol(operand, [&](std::string_view name) {
          if (const int32_t variable = variable_of(names, name); variable >= 0) visit(variable);
          if (const int32_t node = parameter_node(names, name); node >= 0)
            for (const int32_t variable : points_to_[static_cast<size_t>(node)]) visit(variable);
        });
      };
      for (const Instruction& instruction : function.body) {
        if (instruction.opcode == "call") {
          const Operand& callee = instruction.operands[0];
          const auto found =
              callee.kind == OperandKind::kSymbol ? function_index_.find(callee.name) : function_index_.end();
          if (found != function_index_.end() && !module_.functions[found->second].is_declaration) continue;
          for (const Operand& argument : instruction.call_arguments)
            addresses(argument, [&](int32_t variable) { report(variable, AddressUse::kPassed, instruction); });
          continue;
        }
        find_writes(names, instruction, addresses);
      }
    }
  }

  template <class Addresses>
  void find_writes(const Names& names, const Instruction& instruction, const Addresses& addresses) {
    bool writes_memory = false;
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      const Operand& operand = instruction.operands[i];
      if (operand.kind != OperandKind::kMemory) {
        // The address of a parameter that holds an address: what is read through it is not followed.
        each_symbol(operand, [&](std::string_view name) {
          if (const int32_t node = parameter_node(names, name); node >= 0)
            for (const int32_t variable : points_to_[static_cast<size_t>(node)])
              report(variable, AddressUse::kStored, instruction);
        });
        continue;
      }
      if (parameter_node(names, operand.name) >= 0) continue;
      const bool reads = only_reads(instruction, i);
      writes_memory |= !reads;
      const auto visit = [&](int32_t variable) {
        if (!reads) return report(variable, AddressUse::kWritten, instruction);
        if (is_load(instruction)) return;
        for (const auto& address : module_.variables[static_cast<size_t>(variable)].addresses)  // copied elsewhere
          if (const auto found = variable_index_.find(address.symbol); found != variable_index_.end())
            report(static_cast<int32_t>(found->second), AddressUse::kStored, instruction);
      };
      if (const int32_t variable = variable_of(names, operand.name); variable >= 0) visit(variable);
      if (operand.reg >= 0)
        for (const int32_t variable : points_to_[static_cast<size_t>(names.first_register + operand.reg)])
          visit(variable);
    }
    if (!writes_memory) return;
    for (const Operand& operand : instruction.operands)
      if (operand.kind != OperandKind::kMemory)
        addresses(operand, [&](int32_t variable) { report(variable, AddressUse::kStored, instruction); });
  }

  const Module& module_;
  AddressFlow flow_;
  std::unordered_map<std::string_view, size_t> variable_index_, function_index_;
  std::unordered_map<size_t, Names> names_;
  int32_t nodes_ = 0;
  std::vector<Edge> edges_;
  std::vector<std::vector<int32_t>> points_to_;
  std::vector<std::pair<int32_t, int32_t>> todo_;
  std::unordered_set<size_t> reported_;
  size_t facts_ = 0, visits_ = 0;
};

}  // namespace

AddressFlow follow_addresses(const Module& module) { return Analysis(module).run(); }

}  // namespace stepbench
