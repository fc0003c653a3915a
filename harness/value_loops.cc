// Chooses the instruction-set level of the loops over values (value_loops_level.cc).
#include "harness/value_loops.h"

namespace stepbench {

namespace {
// The features that cmake/components.cmake compiles the levels for.
bool cpu_has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool cpu_has_avx512() {
  return cpu_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
}  // namespace

std::vector<ValueLoops> value_loops_levels() {
  std::vector<ValueLoops> levels{isa_base::value_loops()};
  if (cpu_has_avx2()) levels.push_back(isa_avx2::value_loops());
  if (cpu_has_avx512()) levels.push_back(isa_avx512::value_loops());
  return levels;
}

const ValueLoops& value_loops() {
  static const ValueLoops best = value_loops_levels().back();
  return best;
}

}  // namespace stepbench
