#!/usr/bin/env bash
# `stepbench submit --engine slurm` on a real Slurm of one node, set up here as root in one temporary folder, without
# systemd and without a GPU: munged, slurmctld and slurmd with a configuration of their own. 64 candidates; one task is
# killed, slurmd is killed and started again, the controller is restarted, a task is requeued, all while tasks run; then
# a second run is cancelled and resumed. Nothing may be lost and nothing may be there twice.
#
#   tests/slurm/run_one_node.sh [PATH_OF_STEPBENCH]      needs slurm-wlm and munge; takes some minutes
#
# Exit codes: 0 all as it must be, 1 something is not, 77 skipped: no Slurm here, or not root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
stepbench=$(realpath "${1:-build/release/stepbench}")

say() { printf 'slurm: %s\n' "$*"; }
fail() { say "FAILED: $*"; exit 1; }
skip() { say "skipped: $*"; exit 77; }

[ -x "$stepbench" ] || fail "no program at $stepbench"
for program in munged slurmctld slurmd sbatch squeue scancel sinfo; do
  command -v "$program" >/dev/null || skip "$program is not installed"
done
[ "$(id -u)" -eq 0 ] || skip "slurmd needs root"

base=$(mktemp -d /tmp/stepbench_slurm.XXXXXX)
daemon_pid() { cat "$base/run/$1.pid" 2>/dev/null || true; }
stop() {  # by the number that the daemon wrote down, never by name
  local pid
  pid=$(daemon_pid "$1")
  [ -z "$pid" ] || kill "-${2:-TERM}" "$pid" 2>/dev/null || true
  while [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
}
clean_up() {
  [ -z "${SLURM_CONF:-}" ] || scancel --quiet --user=root 2>/dev/null || true
  stop slurmd; stop slurmctld; stop munged
  rm -rf "$base"
}
trap clean_up EXIT

# -------------------------------------------------------------------------------------------- one node
chmod 755 "$base"
mkdir -p "$base"/{run,state,spool,work}
(umask 077; head -c 1024 /dev/urandom > "$base/munge.key")
node=$(hostname -s)
cat > "$base/slurm.conf" <<EOF
ClusterName=onenode
SlurmctldHost=$node(127.0.0.1)
SlurmctldPort=16817
SlurmdPort=16818
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$base/run/munge.socket
CredType=cred/munge
StateSaveLocation=$base/state
SlurmdSpoolDir=$base/spool
SlurmctldPidFile=$base/run/slurmctld.pid
SlurmdPidFile=$base/run/slurmd.pid
SlurmctldLogFile=$base/slurmctld.log
SlurmdLogFile=$base/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=2
SlurmdTimeout=60
NodeName=$node NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
EOF
export SLURM_CONF=$base/slurm.conf
start_controller() { slurmctld; }
# A daemon that was killed may leave the controller with a task that runs and should not: Slurm then drains the node, at
# the time that it finds out.
undrain() {
  if sinfo --noheader --format=%T | grep -q drain; then
    say "the node is drained: $(sinfo --noheader --format=%E); taking it back"
    scontrol update NodeName="$node" State=RESUME
  fi
}
start_node() { slurmd; }
wait_for() {  # what it is, seconds, command...
  local what=$1 limit=$2
  shift 2
  for ((i = 0; i < limit * 5; ++i)); do
    if "$@" >/dev/null 2>&1; then return 0; fi
    if [ "$what" != "the controller" ]; then undrain; fi
    sleep 0.2
  done
  for log in "$base"/slurm*.log; do tail -n 20 "$log"; done
  fail "waited ${limit} s for $what"
}
munged --force --key-file="$base/munge.key" --socket="$base/run/munge.socket" --pid-file="$base/run/munged.pid" \
  --log-file="$base/munged.log" --seed-file="$base/munge.seed"
start_controller
wait_for "the controller" 30 scontrol ping
start_node
node_is_up() { sinfo --noheader --format=%T | grep -Eq '^(idle|mixed|allocated)$'; }
wait_for "the node" 30 node_is_up
say "one node is up: $(sinfo --version)"

# -------------------------------------------------------------------------------------------- what is checked
candidates=64
mkdir "$base/kernels"
for ((i = 0; i < candidates; ++i)); do  # each its own text, so that each has its own hash; two of them wrong
  sed "s/\"note\": \"[^\"]*\"/\"note\": \"copy $i\"/" reference_kernels/adamw/naive.cu \
    > "$base/kernels/copy$(printf %02d "$i").cu"
done
grep -q 'copy 63' "$base/kernels/copy63.cu" || fail "the candidates are not what this script makes of naive.cu"
cat tests/attacks/eps_inside_root.cu > "$base/kernels/copy07.cu"
cat tests/attacks/writes_past_end.cu > "$base/kernels/copy40.cu"

records() { find "$1/records" -name '[0-9]*.jsonl' | wc -l; }
queued() { squeue --noheader --array --format=%i | wc -l; }
queue_is_empty() { [ "$(queued)" -eq 0 ]; }
has_records() { [ "$(records "$1")" -ge "$2" ]; }
running_task() { squeue --noheader --array --states=RUNNING --format=%i | sed -n "${1:-1}p"; }
some_task_runs() { [ -n "$(running_task)" ]; }
check_whole() {  # folder: every candidate once, whole, under its own index, and nothing half-written
  local folder=$1
  [ "$(records "$folder")" -eq "$candidates" ] || fail "$(records "$folder") records of $candidates"
  [ "$(find "$folder/records" -type f | wc -l)" -eq "$candidates" ] || fail "other files among the records"
  [ "$(cat "$folder"/records/*.jsonl | wc -l)" -eq "$candidates" ] || fail "a record is not one line"
  rm -f "$base/store.db"
  "$stepbench" store import "$folder/records" --store "$base/store.db"
  "$stepbench" store export --store "$base/store.db" --out "$base/all.jsonl"
  [ "$(wc -l < "$base/all.jsonl")" -eq "$candidates" ] || fail "the store has $(wc -l < "$base/all.jsonl") records"
  [ "$(grep -o '"path":"[^"]*"' "$base/all.jsonl" | sort -u | wc -l)" -eq "$candidates" ] || fail "a candidate is there twice"
  [ "$(grep -o '"id":"[0-9a-f]*"' "$base/all.jsonl" | sort -u | wc -l)" -eq "$candidates" ] || fail "an id is there twice"
  local i
  for ((i = 0; i < candidates; ++i)); do
    grep -q "copy$(printf %02d "$i").cu" "$folder/records/$(printf %06d "$i").jsonl" || fail "index $i holds another candidate"
  done
  grep -q '"verdict":"wrong_result"' "$folder/records/000007.jsonl" || fail "the wrong kernel passed"
  grep -q '"verdict":"out_of_bounds"' "$folder/records/000040.jsonl" || fail "the kernel that writes past the end passed"
  "$stepbench" store list --limit 0 --store "$base/store.db" > "$base/list.txt"
  [ "$(grep -c '  passed  ' "$base/list.txt")" -eq $((candidates - 2)) ] || { cat "$base/list.txt"; fail "right kernels failed"; }
}
submit() {
  "$stepbench" submit "$base/kernels" --as test --engine slurm --folder "$1" --device vm --suite smoke \
    --partition main --time 00:20:00 "${@:2}"
}

# -------------------------------------------------------------------------------------------- faults
run=$base/work/faults
submit "$run" --dry-run > "$base/dry.txt"
grep -q -- '--array=0-63' "$base/dry.txt" || fail "the dry run shows no array"
[ ! -e "$run" ] || fail "the dry run wrote something"
submit "$run"

# A task that was about to end may write its record before it dies: then another one.
killed=
while [ -z "$killed" ]; do
  wait_for "running tasks" 60 some_task_runs
  task=$(running_task 2)
  [ -n "$task" ] || continue
  scancel --quiet --signal=KILL --full "$task" || continue
  is_gone() { [ -z "$(squeue --noheader --array --jobs="$task" --states=RUNNING,COMPLETING --format=%i 2>/dev/null)" ]; }
  wait_for "the end of task $task" 60 is_gone
  index=$(printf %06d "${task#*_}")
  [ -e "$run/records/$index.jsonl" ] || killed=$index
done
say "killed the task of index $killed"

wait_for "some records" 120 has_records "$run" 8
say "killing slurmd while tasks run ($(records "$run") records)"
stop slurmd KILL
sleep 1
start_node
wait_for "slurmd" 30 node_is_up

wait_for "more records" 120 has_records "$run" 20
say "stopping the controller while tasks run ($(records "$run") records)"
stop slurmctld  # killed without a chance to save its state, Slurm 22.05 itself loses or repeats tasks for minutes
"$stepbench" slurm resume "$run" 2>"$base/down.txt" && fail "resume without a controller"
grep -q 'squeue' "$base/down.txt" || fail "the refusal does not say who does not answer"
sleep 2  # tasks go on meanwhile
start_controller
wait_for "the controller" 60 scontrol ping
before=$(records "$run")
wait_for "records after the restart" 120 has_records "$run" $((before + 4))

again=$(running_task)  # Slurm stops it and starts it once more, as after the failure of a node
scontrol requeue "$again" && say "requeued task $again"

if submit "$run" 2>"$base/again.txt"; then fail "the folder was taken for a second run"; fi
grep -q 'holds a run already' "$base/again.txt" || fail "the refusal says nothing"
# While other tasks are in the queue: the killed one is submitted again, and none of the others.
"$stepbench" slurm status "$run" --all > "$base/status.txt"
grep -Eq "^ *$((10#$killed))  no record" "$base/status.txt" || fail "the status does not show the killed task"
"$stepbench" slurm resume "$run" > "$base/resume.txt"
cat "$base/resume.txt"
grep -q ': 1 submitted again' "$base/resume.txt" || fail "resume did not submit the killed task alone"
grep -q -- "--array=$((10#$killed))\$" "$run/scripts/0-1.sh" || fail "resume submitted another index"
wait_for "the end of the queue" 600 queue_is_empty
"$stepbench" slurm status "$run"
"$stepbench" slurm resume "$run"
wait_for "the end of the queue" 300 queue_is_empty
check_whole "$run"
jobs=$(find "$run/scripts" -name '*.sh' | wc -l)
"$stepbench" slurm resume "$run" | grep -q ': 0 submitted again, 0 in the queue, 64 finished' || fail "a finished run was resumed"
[ "$(find "$run/scripts" -name '*.sh' | wc -l)" -eq "$jobs" ] || fail "a finished run got another job"
before=$(sha256sum "$run"/records/*.jsonl | sha256sum)
"$stepbench" slurm task "$run" 5 | grep -q 'finished before' || fail "a finished candidate was evaluated again"
[ "$(sha256sum "$run"/records/*.jsonl | sha256sum)" = "$before" ] || fail "a record was replaced"
"$stepbench" store import "$run/records" --store "$base/store.db" > "$base/import.txt"
grep -q "^0 records added, $candidates already there" "$base/import.txt" || fail "importing again added something"
say "faults: all $candidates candidates are there once"

# -------------------------------------------------------------------------------------------- cancel and resume
run=$base/work/cancelled
submit "$run" --at-once 3 --salt 2a
wait_for "some records" 120 has_records "$run" 5
[ "$(squeue --noheader --array --states=RUNNING --format=%i | wc -l)" -le 3 ] || fail "more than three tasks run"
"$stepbench" slurm cancel "$run"
wait_for "the end of the queue" 60 queue_is_empty
kept=$(records "$run")
if [ "$kept" -lt 5 ] || [ "$kept" -ge "$candidates" ]; then fail "$kept records after cancelling"; fi
before=$(cd "$run/records" && sha256sum [0-9]*.jsonl)
"$stepbench" slurm status "$run" | grep -q 'next: stepbench slurm resume' || fail "the status does not say what is next"
"$stepbench" slurm resume "$run" --dry-run 2>/dev/null | grep -q -- '#SBATCH --array=' || fail "resume --dry-run shows no array"
"$stepbench" slurm resume "$run"
wait_for "the end of the queue" 600 queue_is_empty
(cd "$run/records" && printf '%s\n' "$before" | sha256sum --check --quiet) || fail "a finished record was made again"
check_whole "$run"
say "cancelled after $kept records and resumed: all $candidates candidates are there once"
say "all as it must be"
