#!/usr/bin/env bash
# `bench storage --json`: one object a line with the keys that docs/MEASURING.md names; the page; the source's model.
. "$(dirname "$0")/lib.sh"

status=0
timeout 300 "$afflux" bench storage --json --size 4m --scratch-size 4m --passes 3 --operations 100 --fsync-operations 5 --repetitions 2 \
    --labels here --html page.html . >lines.jsonl 2>errors.txt </dev/null || status=$?
[ "$status" -eq 0 ] && ok "bench storage runs" || not_ok "bench storage runs: exit code $status" "$(cat errors.txt)"
report=$(python3 - 2>&1 <<'PYTHON'
import json
lines = [json.loads(line) for line in open("lines.jsonl")]
keys = "test tool directory label file_system free_bytes bytes seconds_median seconds_min user_seconds system_seconds idle_seconds repetitions".split()
for line in lines:
    if "missing" in line:
        assert "direct" in line["test"], line
        continue
    for key in keys:
        assert key in line, f"{key} is missing in {line}"
    assert line["seconds_median"] >= line["seconds_min"] > 0 and line["label"] == "here", line
names = [line["test"] for line in lines]
assert len(names) == len(set(names)) == 14, names
scratch = next(line for line in lines if line["test"] == "scratch")
assert scratch["bytes"] == 4 * (4 << 20) and scratch["passes"] == 3, scratch
PYTHON
) && ok "keys and tests" || not_ok "keys and tests" "$report"
[ "$(find . -name '.afflux-bench*' | wc -l)" -eq 0 ] && ok "nothing is left" || not_ok "nothing is left" "$(ls -a)"
grep -q '</html>' page.html && ok "the page is complete" || not_ok "the page is complete"

for signal in INT TERM KILL; do
    # By way of Python, since what a shell starts in the background ignores SIGINT.
    python3 -c 'import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])' \
        "$afflux" bench storage --tests scratch --scratch-size 64m --compute 1000 . >/dev/null 2>&1 </dev/null &
    sleep 0.7
    [ -d .afflux-bench-storage-$! ] || not_ok "a benchmark to kill" "$(ls -a)"
    kill -$signal $!
    wait $! 2>/dev/null
    for _ in $(seq 100); do [ -d .afflux-bench-storage-$! ] || break; sleep 0.1; done
    [ -d .afflux-bench-storage-$! ] && not_ok "nothing is left after SIG$signal" "$(ls -a)" || ok "nothing is left after SIG$signal"
done

works "the source's model" "$afflux" bench storage --source-model
says "its passes" '606 GB / bandwidth, 15\.1 passes'
exits 2 "no such directory" "$afflux" bench storage missing
exits 1 "no room" "$afflux" bench storage --tests scratch --scratch-size 100000t .
exits 2 "an odd block" "$afflux" bench storage --block 1000 .
if command -v fio >/dev/null; then
    works "fio takes turns" "$afflux" bench storage --fio --tests sequential-write-direct,random-read --size 8m --operations 500 --repetitions 1 .
    says "fio has rows" '^random-read +.* fio '
else
    skip "fio" "not installed"
fi
finish
