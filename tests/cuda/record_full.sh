#!/bin/sh
# Records of `eval --suite full` for every baseline that has none yet, naive ones last.
# usage: tests/cuda/record_full.sh BUILD OUT SECONDS [GPU [MOST]]   (BUILD as in run_on_gpu.sh; GPU: first part of the records' names, h200 unless
# given; MOST: seconds that one kernel may take, 240 unless given)
# Writes OUT/GPU_TASK_KERNEL_full.json.gz for what passed and OUT/TASK_KERNEL.log for all; starts nothing when fewer than 40 of SECONDS are left. Ends with 1
# when a baseline did not pass or took longer than MOST.
set -u
[ $# -ge 3 ] || { sed -n '2,7s/^# //p' "$0" >&2; exit 2; }
build=$(cd "$1" && pwd) || exit 2
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$2" && out=$(cd "$2" && pwd) || exit 2
limit=$3 gpu=${4:-h200} most=${5:-240} start=$(date +%s)
export STEPBENCH_ROOT="$root"
[ -d "$build/lib" ] && export LD_LIBRARY_PATH="$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cd "$root" || exit 2

left() { echo $((limit - $(date +%s) + start)); }
failed=0 missing=0
# The naive kernels last: what they show is the least.
for file in $(ls reference_kernels/*/*.cu | grep -v /naive.cu; ls reference_kernels/*/naive.cu); do
  task=$(basename "$(dirname "$file")") kernel=$(basename "$file" .cu)
  name="${gpu}_${task}_${kernel}_full.json.gz"
  [ -e "reference_kernels/measured/records/$name" ] || [ -e "$out/$name" ] && continue
  if [ "$(left)" -lt 40 ]; then
    missing=$((missing + 1))
    continue
  fi
  rm -rf "$work/records"
  seconds=$(left)
  [ "$seconds" -gt "$most" ] && seconds=$most
  timeout "$seconds" "$build/stepbench" eval --device cuda --suite full --profile --records "$work/records" "$file" > "$out/${task}_$kernel.log" 2>&1
  code=$?
  if [ $code -eq 0 ]; then
    gzip -n -9 -c "$work"/records/*.json > "$out/$name"
    echo "$file: passed, $(left) s left"
  elif [ $code -eq 124 ]; then
    missing=$((missing + 1))
    if [ "$(left)" -gt 0 ]; then
      failed=1
      echo "$file: stopped after $seconds s"
    else
      echo "$file: stopped, no time left"
    fi
  else
    failed=1
    echo "$file: exit code $code"
    tail -5 "$out/${task}_$kernel.log"
  fi
done
echo "without a record: $missing"
exit $failed
