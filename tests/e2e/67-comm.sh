#!/usr/bin/env bash
# `bench comm`: every mechanism runs, its JSON has the keys of docs/MEASURING.md, bad input is refused, and nothing is left behind,
# also when the command is killed.
. "$(dirname "$0")/lib.sh"

# A copy, so that its processes are told from those of others.
cp "$afflux" "$directory/afflux" && afflux=$directory/afflux
export TMPDIR=$directory
# left NAME: no process of a benchmark, no directory and no System V queue of ours has stayed.
queues_before=$(ipcs -q | grep -c '^0x')
left() {
    local found='' _
    # What the janitor does, it may still be doing.
    for _ in $(seq 100); do
        found=$(pgrep -af "$afflux bench worker"; ls -d "$directory"/afflux-bench-* /dev/mqueue/*afflux-bench-* 2>/dev/null)
        [ -n "$found" ] || break
        sleep 0.1
    done
    if [ -z "$found" ] && [ "$(ipcs -q | grep -c '^0x')" -le "$queues_before" ]; then ok "$1"; else not_ok "$1" "$found $(ipcs -q)"; fi
}

status=0
timeout 300 "$afflux" bench comm --json --placements one-processor,free --sizes 1,4096,300000 --round-trips 500 --repetitions 2 \
    --sample-ms 2 --html page.html --pictures . >lines.jsonl 2>errors.txt </dev/null || status=$?
[ "$status" -eq 0 ] && ok "bench comm runs" || not_ok "bench comm runs: exit code $status" "$(cat errors.txt)"
report=$(python3 - 2>&1 <<'PYTHON'
import json
lines = [json.loads(line) for line in open("lines.jsonl")]
common = "benchmark mechanism placement reading source_case processors hosts measure host command".split()
keys = {
    "round-trip": "bytes round_trips round_trip_seconds_median round_trip_seconds_min round_trip_seconds_p95 one_way_seconds_median "
                  "round_trip_samples_seconds repetitions single_round_trips",
    "stream": "bytes messages one_way_bytes_per_second_median one_way_bytes_per_second_max one_way_bytes_per_second_p5 "
              "one_way_seconds_per_message_median repetitions fraction_of_link fraction_of_memory_copy",
    "log-gp": "latency_seconds overhead_seconds gap_seconds gap_seconds_per_byte residual_relative_rms residual_relative_max",
    "absent": "reason", "failed": "reason"}
for line in lines:
    missing = [key for key in common + keys[line["measure"]].split() if key not in line]
    assert not missing, (missing, line)
    assert line["benchmark"] == "comm"
must = {"pipe", "fifo", "unix-stream", "unix-datagram", "tcp", "tcp-nagle", "sysv-queue", "posix-queue", "shared-spin", "shared-futex",
        "vm-read", "onc-rpc", "thread-ranks", "memory-copy"}
for placement in ("one-processor", "free"):
    for measure, sizes in (("round-trip", {1, 4096, 300000}), ("stream", {1, 4096, 300000})):
        for mechanism in must:
            rows = [l for l in lines if (l["placement"], l["mechanism"], l["measure"]) == (placement, mechanism, measure)]
            assert {row["bytes"] for row in rows} == sizes, (placement, mechanism, measure, rows)
# Debian's MPICH 4.0.2 refuses to spawn: that is a row too.
def refused(line):
    return line["mechanism"] == "mpi-spawned" and line["mpi"].startswith("MPICH") and "MPI_Comm_spawn" in line["reason"]
failed = [line for line in lines if line["measure"] == "failed" and not refused(line)]
assert not failed, failed
PYTHON
) && ok "keys, mechanisms and sizes" || not_ok "keys, mechanisms and sizes" "$report"
for mpi in $(mpis); do
    case $mpi in openmpi) name='Open MPI' ;; mpich) name=MPICH ;; esac
    count=$(grep -c "\"mechanism\":\"mpi-shared\",\"mpi\":\"$name.*\"measure\":\"round-trip\"" lines.jsonl)
    [ "$count" -ge 6 ] && ok "$name is measured" || not_ok "$name is measured" "$(grep "$name" lines.jsonl | cut -c1-300)"
done
grep -q '</html>' page.html && [ -s comm-latency.svg ] && [ -s comm-bandwidth-free.svg ] && ok "page and pictures" || not_ok "page and pictures" "$(ls)"
works "results are shown again" "$afflux" bench comm --from lines.jsonl --tables
says "as the source's tables" 'Table 1'
left "nothing is left"

# Killed in the middle of a burst in which both sides are busy.
for signal in INT TERM KILL; do
    # By way of Python, since what a shell starts in the background ignores SIGINT.
    python3 -c 'import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])' \
        "$afflux" bench comm --placements free --mechanisms shared-spin,sysv-queue,posix-queue,fifo --sizes 1 --round-trips 100000000 \
        >/dev/null 2>&1 </dev/null &
    sleep 1
    kill -$signal $!
    wait $! 2>/dev/null
    left "nothing is left after SIG$signal"
done
# Even without the janitor, agents end with the command.
"$afflux" bench comm --placements free --mechanisms shared-spin --sizes 1 --round-trips 100000000 >/dev/null 2>&1 </dev/null &
sleep 1
pkill -KILL -P $! -f 'bench worker janitor'
kill -KILL $!
wait $! 2>/dev/null
sleep 0.5
found=$(pgrep -af "$afflux bench worker")
[ -z "$found" ] && ok "agents end with the command" || not_ok "agents end with the command" "$found"
rm -rf "$directory"/afflux-bench-*

if [ -n "${AFFLUX_OPENMPI:-}" ]; then
    on_mpi openmpi 3
    works "the ranks of a launcher are the two processes" "${afflux_on_mpi[@]}" bench comm --mechanisms pipe,mpi --sizes 1 --repetitions 2 --json
    for mechanism in pipe mpi; do
        count=$(grep -c "\"mechanism\":\"$mechanism\".*\"measure\":\"round-trip\"" <<<"$output")
        [ "$count" -eq 1 ] && ok "$mechanism is measured once" || not_ok "$mechanism is measured $count times" "$output"
    done
    on_every_rank 2 "hosts are the launcher's" openmpi 2 bench comm --host elsewhere
fi
exits 2 "no such mechanism" "$afflux" bench comm --mechanisms smoke
exits 2 "no such placement" "$afflux" bench comm --placements moon
exits 2 "a message of nothing" "$afflux" bench comm --sizes 0
exits 2 "no round trips" "$afflux" bench comm --round-trips 0
exits 2 "no time" "$afflux" bench comm --timeout 0
exits 2 "JSON and tables" "$afflux" bench comm --json --tables
exits 1 "results that are not there" "$afflux" bench comm --from missing.jsonl
echo nonsense >nonsense.jsonl
exits 1 "results that are none" "$afflux" bench comm --from nonsense.jsonl
says "the line is named" 'nonsense.jsonl:1'
works "a host that is not there is a row" "$afflux" bench comm --host nowhere.invalid --launcher 'false {host} {}' --mechanisms tcp --sizes 1
says "with its reason" 'has ended|needed'
finish
