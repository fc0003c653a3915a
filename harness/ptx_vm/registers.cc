// From operations on values to a dense program: copies of constants disappear, work that depends on nothing but
// launch or block constants moves into prologues, and registers share slots by liveness. Makes no decision about PTX.
//
// Slot sharing is a linear scan over live ranges of one thread. It holds for diverged lanes as well, because each lane
// owns its element of a slot and masked handlers leave the others alone.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "harness/ptx_vm/lowering.h"
#include "harness/result.h"

namespace stepbench::vm {
namespace {

int32_t resolved(const std::vector<Value>& values, int32_t value) {
  while (value >= 0 && values[static_cast<size_t>(value)].alias >= 0) value = values[static_cast<size_t>(value)].alias;
  return value;
}

template <class F>
void for_each_use(const Operation& op, F f) {
  for (const int32_t value : {op.a, op.b, op.c, op.e, op.predicate}) {
    if (value >= 0) f(value);
  }
  if (op.role == VectorRole::kSources) {
    for (int k = 0; k < op.vector_count; ++k) f(op.v[k]);
  }
}

template <class F>
void for_each_definition(const Operation& op, F f) {
  if (op.d >= 0) f(op.d);
  if (op.d2 >= 0) f(op.d2);
  if (op.role == VectorRole::kDestinations) {
    for (int k = 0; k < op.vector_count; ++k) f(op.v[k]);
  }
}

bool ends_block(Kind kind) {
  switch (kind) {
    case Kind::kBranch:
    case Kind::kBranchIndexed:
    case Kind::kCall:
    case Kind::kReturn:
    case Kind::kExit:
    case Kind::kTrap: return true;
    case Kind::kLaneWise:
    case Kind::kGuarded:
    case Kind::kMemory:
    case Kind::kPoll:
    case Kind::kNothing:
    case Kind::kConverge:
    case Kind::kBarrier:
    case Kind::kClock:
    case Kind::kYield: return false;
  }
  return false;
}

void fold(Lowered& lowered) {
  std::vector<Value>& values = lowered.values;
  for (const Operation& op : lowered.operations) {
    for_each_definition(op, [&](int32_t value) { ++values[static_cast<size_t>(value)].definitions; });
  }
  for (Operation& op : lowered.operations) {
    if (op.kind != Kind::kLaneWise || !op.pure || op.predicate >= 0 || op.d < 0 || op.d2 >= 0) continue;
    Value& d = values[static_cast<size_t>(op.d)];
    if (d.definitions != 1 || d.level != Level::kRegister) continue;
    Level level = Level::kLaunch;
    for_each_use(op, [&](int32_t value) {
      level = std::max(level, values[static_cast<size_t>(resolved(values, value))].level);
    });
    if (level == Level::kRegister) continue;
    if (op.is_move && values[static_cast<size_t>(resolved(values, op.a))].bytes == d.bytes) {
      d.alias = resolved(values, op.a);
      op.dropped = true;
    } else if (level <= Level::kBlock) {
      d.level = level;
      op.hoisted = level;
      op.dropped = true;
    }
  }
}

// Operations that a jump may enter or that follow a control operation.
std::vector<bool> block_leaders(const Lowered& lowered) {
  std::vector<bool> leader(lowered.operations.size() + 1, false);
  for (const FunctionRange& function : lowered.functions) leader[static_cast<size_t>(function.first)] = true;
  for (size_t i = 0; i < lowered.operations.size(); ++i) {
    const Operation& op = lowered.operations[i];
    if (op.target >= 0) leader[static_cast<size_t>(op.target)] = true;
    if (ends_block(op.kind)) leader[i + 1] = true;
  }
  for (const auto& table : lowered.branch_tables) {
    for (const int32_t target : table) leader[static_cast<size_t>(target)] = true;
  }
  return leader;
}

// Gives the weight of dropped operations to a neighbour in the same block, so that counts stay exact.
void move_weights(Lowered& lowered, const std::vector<bool>& leader) {
  std::vector<Operation>& ops = lowered.operations;
  size_t start = 0;
  while (start < ops.size()) {
    size_t end = start + 1;
    while (end < ops.size() && !leader[end]) ++end;
    uint32_t carried = 0;
    Operation* last_kept = nullptr;
    for (size_t i = start; i < end; ++i) {
      if (ops[i].dropped) {
        carried += ops[i].weight;
      } else {
        ops[i].weight += carried;
        carried = 0;
        last_kept = &ops[i];
      }
    }
    if (carried > 0 && last_kept != nullptr) {
      last_kept->weight += carried;
    } else if (carried > 0) {
      // The whole block folded away; its prologue part, if any, stays where it is and a counter remains here.
      Operation counter;
      counter.kind = Kind::kNothing;
      counter.weight = carried;
      counter.site = ops[end - 1].site;
      if (ops[end - 1].hoisted == Level::kRegister) {
        ops[end - 1] = counter;
      } else {
        // Keep the hoisted operation and append nothing: the counter takes the place of a plain copy if there is one.
        size_t place = end;
        for (size_t i = start; i < end; ++i) {
          if (ops[i].hoisted == Level::kRegister) place = i;
        }
        if (place < end) {
          ops[place] = counter;
        } else {
          ops[end - 1].dropped = false;  // run it where it stands as well: harmless, and counted
          ops[end - 1].weight = carried;
        }
      }
    }
    start = end;
  }
}

struct Interval {
  int32_t value = 0;
  int64_t start = INT64_MAX, end = -1;
};

using Bits = std::vector<uint64_t>;

// Live ranges of one function's registers. `entry_live` receives the values that may be read before they are written.
std::vector<Interval> live_ranges(const Lowered& lowered, const FunctionRange& function, int32_t function_index,
                                  const std::vector<bool>& leader, std::vector<int32_t>& entry_live) {
  const std::vector<Operation>& ops = lowered.operations;
  std::vector<int32_t> local(lowered.values.size(), -1);
  std::vector<Interval> ranges;
  const auto index_of = [&](int32_t value) -> int32_t {
    const int32_t real = resolved(lowered.values, value);
    const Value& v = lowered.values[static_cast<size_t>(real)];
    if (v.level != Level::kRegister || v.function != function_index) return -1;
    int32_t& index = local[static_cast<size_t>(real)];
    if (index < 0) {
      index = static_cast<int32_t>(ranges.size());
      ranges.push_back({real, INT64_MAX, -1});
    }
    return index;
  };
  struct Block {
    int32_t first = 0, end = 0;
    std::vector<int32_t> next;
    Bits in, out, use, kill;
  };
  std::vector<Block> blocks;
  std::vector<int32_t> block_of(static_cast<size_t>(function.end - function.first) + 1, -1);
  for (int32_t i = function.first; i < function.end; ++i) {
    if (i == function.first || leader[static_cast<size_t>(i)]) {
      Block block;
      block.first = i;
      blocks.push_back(block);
    }
    block_of[static_cast<size_t>(i - function.first)] = static_cast<int32_t>(blocks.size()) - 1;
    blocks.back().end = i + 1;
    if (!ops[static_cast<size_t>(i)].dropped) {
      for_each_use(ops[static_cast<size_t>(i)], [&](int32_t value) { index_of(value); });
      for_each_definition(ops[static_cast<size_t>(i)], [&](int32_t value) { index_of(value); });
    }
  }
  const size_t words = (ranges.size() + 63) / 64;
  const auto test = [](const Bits& bits, int32_t i) {
    return (bits[static_cast<size_t>(i) / 64] >> (i % 64) & 1) != 0;
  };
  const auto set = [](Bits& bits, int32_t i) { bits[static_cast<size_t>(i) / 64] |= uint64_t{1} << (i % 64); };
  // A guarded write may leave the old value: it is a use as well, except for the decoder's own temporaries.
  const auto keeps_old = [&](const Operation& op, int32_t value) {
    return op.predicate >= 0 && !lowered.values[static_cast<size_t>(value)].temporary;
  };
  for (Block& block : blocks) {
    block.in.assign(words, 0);
    block.out.assign(words, 0);
    block.use.assign(words, 0);
    block.kill.assign(words, 0);
    for (int32_t i = block.first; i < block.end; ++i) {
      const Operation& op = ops[static_cast<size_t>(i)];
      if (op.dropped) continue;
      const auto use = [&](int32_t value) {
        const int32_t index = index_of(value);
        if (index >= 0 && !test(block.kill, index)) set(block.use, index);
      };
      for_each_use(op, use);
      for_each_definition(op, [&](int32_t value) {
        if (keeps_old(op, value)) use(value);
      });
      for_each_definition(op, [&](int32_t value) {
        const int32_t index = index_of(value);
        if (index >= 0) set(block.kill, index);
      });
    }
    const Operation& last = ops[static_cast<size_t>(block.end - 1)];
    const auto add = [&](int32_t target) {
      if (target >= function.first && target < function.end) {
        block.next.push_back(block_of[static_cast<size_t>(target - function.first)]);
      }
    };
    if (last.kind == Kind::kBranch) add(last.target);
    if (last.kind == Kind::kBranchIndexed) {
      for (const int32_t target : lowered.branch_tables[static_cast<size_t>(last.immediate)]) add(target);
    }
    const bool falls = last.dropped || !ends_block(last.kind) || last.kind == Kind::kCall || last.predicate >= 0;
    if (falls) add(block.end);
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t k = blocks.size(); k-- > 0;) {
      Block& block = blocks[k];
      for (size_t w = 0; w < words; ++w) {
        uint64_t out = 0;
        for (const int32_t next : block.next) out |= blocks[static_cast<size_t>(next)].in[w];
        const uint64_t in = block.use[w] | (out & ~block.kill[w]);
        changed = changed || in != block.in[w] || out != block.out[w];
        block.in[w] = in;
        block.out[w] = out;
      }
    }
  }
  // Positions: uses of operation i at 2i, its definitions at 2i + 1.
  const auto extend = [&](int32_t index, int64_t position) {
    Interval& range = ranges[static_cast<size_t>(index)];
    range.start = std::min(range.start, position);
    range.end = std::max(range.end, position);
  };
  for (const Block& block : blocks) {
    for (size_t w = 0; w < words; ++w) {
      for (uint64_t bits = block.in[w]; bits != 0; bits &= bits - 1) {
        extend(static_cast<int32_t>(w * 64) + std::countr_zero(bits), int64_t{2} * block.first);
      }
      for (uint64_t bits = block.out[w]; bits != 0; bits &= bits - 1) {
        extend(static_cast<int32_t>(w * 64) + std::countr_zero(bits), int64_t{2} * block.end - 1);
      }
    }
    for (int32_t i = block.first; i < block.end; ++i) {
      const Operation& op = ops[static_cast<size_t>(i)];
      if (op.dropped) continue;
      // Element-wise handlers with one destination may write over a source that dies here; others may not.
      const bool elementwise = (op.kind == Kind::kLaneWise || op.kind == Kind::kGuarded) && op.d2 < 0 && op.pure;
      for_each_use(op, [&](int32_t value) {
        const int32_t index = index_of(value);
        if (index >= 0) extend(index, int64_t{2} * i + (elementwise ? 0 : 1));
      });
      for_each_definition(op, [&](int32_t value) {
        const int32_t index = index_of(value);
        if (index < 0) return;
        extend(index, int64_t{2} * i + 1);
        if (keeps_old(op, value)) extend(index, int64_t{2} * i);
      });
    }
  }
  for (size_t k = 0; k < ranges.size(); ++k) {
    if (!blocks.empty() && test(blocks[0].in, static_cast<int32_t>(k))) entry_live.push_back(ranges[k].value);
  }
  return ranges;
}

uint32_t slot_bytes(uint8_t bytes) { return static_cast<uint32_t>(bytes) * kLanes; }

// Linear scan; returns the end of the region.
uint32_t place_registers(Lowered& lowered, std::vector<Interval>& ranges, uint32_t base) {
  std::sort(ranges.begin(), ranges.end(), [](const Interval& x, const Interval& y) {
    return x.start != y.start ? x.start < y.start : x.value < y.value;
  });
  std::array<std::vector<uint32_t>, 9> free_slots;  // by bytes per lane
  std::vector<Interval> active;
  uint32_t cursor = base;
  for (const Interval& range : ranges) {
    std::erase_if(active, [&](const Interval& other) {
      if (other.end >= range.start) return false;
      const Value& value = lowered.values[static_cast<size_t>(other.value)];
      free_slots[value.bytes].push_back(value.slot);
      return true;
    });
    Value& value = lowered.values[static_cast<size_t>(range.value)];
    auto& pool = free_slots[value.bytes];
    if (!pool.empty()) {
      value.slot = pool.back();
      pool.pop_back();
    } else {
      value.slot = cursor;
      cursor += slot_bytes(value.bytes);
    }
    active.push_back(range);
  }
  return cursor;
}

Decoded emit(const Lowered& lowered, const Operation& op) {
  const auto place = [&](int32_t value, uint32_t absent) {
    return value < 0 ? absent : lowered.values[static_cast<size_t>(resolved(lowered.values, value))].slot;
  };
  Decoded out;
  out.full = op.full;
  out.masked = op.masked;
  // Absent operands: memory, cross-lane and barrier operations ask for kNoSlot; element-wise handlers may touch any
  // slot.
  const uint32_t absent = op.kind == Kind::kLaneWise ? 0 : kNoSlot;
  out.d = place(op.d, absent);
  out.d2 = place(op.d2, absent);
  out.a = place(op.a, absent);
  out.b = place(op.b, absent);
  out.c = place(op.c, absent);
  out.e = place(op.e, absent);
  out.immediate = op.immediate;
  out.predicate = place(op.predicate, kNoSlot);
  out.predicate_negated = op.predicate_negated;
  const bool guarded = op.kind == Kind::kLaneWise && op.predicate >= 0;
  out.kind = static_cast<uint8_t>(guarded ? Kind::kGuarded : op.kind);
  out.flags = op.flags;
  for (int k = 0; k < 8; ++k) {
    const bool is_value = op.role == VectorRole::kSources || op.role == VectorRole::kDestinations;
    out.v[k] = is_value ? (k < op.vector_count ? place(op.v[k], kNoSlot) : kNoSlot) : op.raw[k];
  }
  return out;
}

Level fill_level(Special special) {
  if (special >= Special::kTidX) return Level::kWarp;
  if (special >= Special::kCtaidX) return Level::kBlock;
  return Level::kLaunch;
}

}  // namespace

void assign_registers(Lowered& lowered, Program& program) {
  for (Value& value : lowered.values) {
    if (value.filled >= 0) value.level = fill_level(lowered.filled[static_cast<size_t>(value.filled)].special);
  }
  fold(lowered);
  const std::vector<bool> leader = block_leaders(lowered);
  move_weights(lowered, leader);

  std::vector<Operation>& ops = lowered.operations;
  std::vector<Value>& values = lowered.values;
  const auto mark = [&](int32_t value) { values[static_cast<size_t>(resolved(values, value))].used = true; };
  for (const Operation& op : ops) {
    if (op.dropped && op.hoisted == Level::kRegister) continue;
    for_each_use(op, mark);
    for_each_definition(op, mark);
  }

  // Areas of the register block: launch, block, warp, registers.
  uint32_t cursor = 0;
  for (const Level level : {Level::kLaunch, Level::kBlock, Level::kWarp}) {
    for (Value& value : values) {
      if (value.level != level || value.alias >= 0 || !value.used) continue;
      value.slot = cursor;
      cursor += slot_bytes(value.bytes);
      if (value.filled < 0) continue;
      FilledSlot filled = lowered.filled[static_cast<size_t>(value.filled)];
      filled.slot = value.slot;
      filled.bytes = value.bytes;
      (level == Level::kLaunch  ? program.launch_slots
       : level == Level::kBlock ? program.block_slots
                                : program.warp_slots)
          .push_back(filled);
    }
    if (level == Level::kLaunch) program.image_bytes = cursor;
  }
  std::vector<uint32_t> region_end(lowered.functions.size(), cursor);
  uint32_t block_bytes = cursor;
  for (size_t f = 0; f < lowered.functions.size(); ++f) {
    uint32_t base = cursor;
    for (const int32_t caller : lowered.functions[f].callers)
      base = std::max(base, region_end[static_cast<size_t>(caller)]);
    std::vector<int32_t> entry_live;
    std::vector<Interval> ranges =
        live_ranges(lowered, lowered.functions[f], static_cast<int32_t>(f), leader, entry_live);
    region_end[f] = place_registers(lowered, ranges, base);
    block_bytes = std::max(block_bytes, region_end[f]);
    for (const int32_t value : entry_live) {
      const Value& v = values[static_cast<size_t>(value)];
      program.zeroed.push_back({v.slot, slot_bytes(v.bytes)});
    }
  }
  program.block_bytes = block_bytes;

  // Code, with targets moved over what was dropped.
  std::vector<int32_t> position(ops.size() + 1, 0);
  int32_t kept = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    position[i] = kept;
    if (!ops[i].dropped) ++kept;
  }
  position[ops.size()] = kept;
  program.weight_sum.assign(1, 0);
  for (const Operation& op : ops) {
    if (op.hoisted != Level::kRegister) {
      (op.hoisted == Level::kLaunch ? program.launch_prologue : program.block_prologue).push_back(emit(lowered, op));
    }
    if (op.dropped) continue;
    Decoded decoded = emit(lowered, op);
    if (op.target >= 0) decoded.target = position[static_cast<size_t>(op.target)];
    decoded.site = static_cast<uint32_t>(program.code.size());
    program.code.push_back(decoded);
    program.sites.push_back(op.site);
    program.weight_sum.push_back(program.weight_sum.back() + op.weight);
  }
  for (const auto& table : lowered.branch_tables) {
    std::vector<int32_t> moved;
    for (const int32_t target : table) moved.push_back(position[static_cast<size_t>(target)]);
    program.branch_tables.push_back(std::move(moved));
  }
}

}  // namespace stepbench::vm
