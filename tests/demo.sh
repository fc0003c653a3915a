#!/usr/bin/env bash
# Evaluates five shipped candidates and compares their verdicts with what they must be. Usage: tests/demo.sh STEPBENCH
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# candidate and the verdict it must get
readonly expected="\
reference_kernels/adamw/float4.cu passed
tasks/adamw/variants/torch_order.cu passed
tests/attacks/eps_inside_root.cu wrong_result
tests/attacks/writes_past_end.cu out_of_bounds
tests/attacks/hidden_state.cu refused"

mapfile -t files < <(cut -d ' ' -f 1 <<< "$expected")
printf 'Two right AdamW kernels and three wrong ones, evaluated on an emulated GPU:\n\n'
table=$(mktemp)
trap 'rm -f "$table"' EXIT
# Exit code 1 is right here: some of the candidates must fail.
code=0
"$program" eval "${files[@]}" --quiet --jobs "$(nproc)" > "$table" || code=$?
cat "$table"
[ "$code" -eq 1 ] || { echo "demo: exit code $code instead of 1" >&2; exit 1; }

wrong=0
while read -r file verdict; do
  # The first two words of a row are the candidate and its verdict.
  found=$(awk -v file="$file" '$1 == file {print $2}' "$table")
  [ "$found" = "$verdict" ] || { echo "demo: $file is ${found:-missing}, expected $verdict" >&2; wrong=1; }
done <<< "$expected"
[ "$wrong" -eq 0 ] || exit 1

short=$(realpath --relative-to=. "$program")
replay=$(awk '$2 == "wrong_result" {print $NF; exit}' "$table")
cat <<TEXT

All five verdicts are as they must be. Bytes per parameter are modelled on the emulated GPU, not measured.
Try next:
  $short replay $replay          the failing case again, with the numbers
  $short eval reference_kernels/adamw/float4.cu   the full report of a candidate that passed
  $short show adamw                         what an author needs to know, with a candidate to start from
  $short --help
TEXT
