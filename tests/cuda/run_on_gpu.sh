#!/bin/sh
# What a machine with a GPU runs: the GPU tests, then the program itself on good and bad candidates.
# usage: tests/cuda/run_on_gpu.sh BUILD   (a folder with stepbench and test_cuda; libraries of theirs in BUILD/lib)
# Ends with 77 where there is no GPU, 1 when anything differs from what is expected.
set -u
build=$(cd "${1:-build/release}" && pwd) || exit 2
root=$(cd "$(dirname "$0")/../.." && pwd)
export STEPBENCH_ROOT="$root"
[ -d "$build/lib" ] && export LD_LIBRARY_PATH="$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME="$work/cache" STEPBENCH_RECORDS="$work/records"

"$build/stepbench" doctor
"$build/test_cuda" --durations yes
tests=$?
[ $tests -eq 77 ] && exit 77

failed=0
expect() {  # expected exit code, arguments of stepbench eval
  want=$1
  shift
  "$build/stepbench" eval --device cuda --records "$work/records" "$@"
  got=$?
  [ $got -eq "$want" ] || { echo "expected exit code $want, got $got: eval $*"; failed=1; }
}
cd "$root" || exit 2
expect 0 --profile reference_kernels/adamw/float4.cu
expect 1 tests/attacks/writes_past_end.cu
expect 1 --quiet --jobs 4 tests/attacks/endless_loop.cu tests/attacks/trap.cu reference_kernels/adamw/naive.cu \
  reference_kernels/sgd_momentum/float4.cu
expect 0 tests/cuda/tensor_map/sgd_tiles.cu tests/cuda/tensor_map/adamw_rows.cu
expect 1 tests/attacks/map_of_the_neighbour.cu
expect 0 --suite standard --profile reference_kernels/adamw/multi_tensor.cu
[ $tests -eq 0 ] && [ $failed -eq 0 ]
