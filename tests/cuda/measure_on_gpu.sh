#!/bin/sh
# Everything that is measured on a GPU, in one go: A/A and planted differences, a second opinion, whole evaluations with
# where their time goes, and AdamW beside torch and optax.
# usage: tests/cuda/measure_on_gpu.sh BUILD OUT [RUNS]   (BUILD as for run_on_gpu.sh, with stepbench_bench)
# Leaves records and tables in OUT. Needs python3 with cupy, torch, jax and optax for the parts that compare.
set -u
build=$(cd "${1:?BUILD}" && pwd) || exit 2
out=${2:?OUT}
runs=${3:-20}
root=$(cd "$(dirname "$0")/../.." && pwd)
export STEPBENCH_ROOT="$root"
[ -d "$build/lib" ] && export LD_LIBRARY_PATH="$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
mkdir -p "$out" || exit 2
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME="${XDG_CACHE_HOME:-$work/cache}" STEPBENCH_RECORDS="$work/records"
cd "$root" || exit 2

plain=reference_kernels/adamw/float4.cu
slower=tests/cuda/timing/slower_by_extra_reads.cu
sed 's/"EXTRA": 40/"EXTRA": 20/' $slower > "$work/slower_by_one_percent.cu"
timed() {  # record name, lists, candidate
  "$build/stepbench" eval --device cuda --suite full --quiet --only "timing/$2" --baseline $plain \
    --json "$work/$1.json" "$3" >/dev/null || echo "failed: $1"
}
nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem,power.limit --format=csv,noheader
"$build/stepbench" doctor --calibrate | grep -E "calibration|GPU|NVRTC"
i=0
while [ $i -lt "$runs" ]; do
  timed "same.$i" "[1048576]+[4194304]+[16777216]+[268435456]+gpt2_124m" $plain
  timed "two_percent.$i" "[16777216]+[268435456]" $slower
  timed "one_percent.$i" "[268435456]" "$work/slower_by_one_percent.cu"
  i=$((i + 1))
done
python3 tests/cuda/summarize_timing.py "$work" > "$out/repeats.md"
echo "== cold timing by another program"
python3 tests/cuda/compare_cold.py $plain 1048576 4194304 16777216 268435456 | tee "$out/cold.txt"
echo "== whole evaluations"
whole() {  # baseline, suite
  "$build/stepbench" eval --device cuda --suite "$2" --profile --json "$out/adamw_$1_$2.json" \
    "reference_kernels/adamw/$1.cu" > "$out/adamw_$1_$2.txt" || echo "failed: $1 $2"
}
whole float4 standard
whole multi_tensor standard
whole float4 full
echo "== a hung kernel and the next candidate"
"$build/stepbench" eval --device cuda --quiet tests/attacks/endless_loop.cu tests/attacks/trap.cu $plain | tail -4
echo "== side by side"
"$build/stepbench_bench" --benchmark_filter='gpu/adamw/.*/(.268435456.|gpt2_124m|resnet50|llama32_1b)' \
  --benchmark_out="$out/bench.json" --benchmark_out_format=json >/dev/null 2>&1
python3 tests/cuda/side_by_side.py "$out/bench.json" > "$out/side_by_side.md"
cat "$out/side_by_side.md"
