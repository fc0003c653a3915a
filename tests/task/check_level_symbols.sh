#!/usr/bin/env bash
# A linker keeps one of each weak symbol, from whichever object comes first. Code that was compiled for AVX-512 must not
# be the one that a machine without it runs: what an object of harness/value_loops_level.cc or
# tasks/linear_algebra_level.cc defines for others to see has the level in its name.
#   check_level_symbols.sh NM LEVEL OBJECT [LEVEL OBJECT]..
set -euo pipefail
readonly nm=$1
shift
status=0
while [ $# -gt 1 ]; do
  level=$1 object=$2
  shift 2
  symbols=$("$nm" --demangle --defined-only --extern-only "$object")
  own=$(grep -cE "eigen_$level|isa_$level" <<<"$symbols" || true)
  [ "$own" -gt 0 ] || { printf '%s: no symbol of level %s\n' "$object" "$level"; status=1; }
  # DW.ref.*: addresses for the unwinder, the same in every object.
  others=$(grep -vE "eigen_$level|isa_$level| V DW\.ref\." <<<"$symbols" || true)
  [ -z "$others" ] || { printf '%s: shared with other levels:\n%s\n' "$object" "$others"; status=1; }
done
exit $status
