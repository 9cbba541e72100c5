#!/usr/bin/env bash
# 'With no flush due or in flight `append` makes no system call.' (That it allocates nothing: crates/afflux-series/tests.)
. "$(dirname "$0")/lib.sh"

if ! strace -f -o trace.txt true 2>/dev/null; then
    skip "system calls of append" "strace is not installed, or may not trace"
    finish
    exit
fi
# calls STEPS WINDOW: system calls of a run on one rank, all threads.
calls() {
    strace -f -qq -o trace.txt "$afflux" synth --points 10 --steps "$1" --variables 1 --ranks 1 --window "$2" --out run.nc --replace \
        >/dev/null 2>&1 </dev/null || echo failed >>trace.txt
    grep -c '' trace.txt
}
# One flush, at the end: what more steps add are rows alone. More bytes take a few more calls of the flush itself (memory of
# the transposition, a second column of the file), but not one for twenty rows.
few=$(calls 100 5000) many=$(calls 1000 5000)
[ "$few" -gt 100 ] && ok "a run of 100 steps makes $few system calls" || not_ok "a run of 100 steps makes $few system calls"
[ $((many - few)) -le 45 ] && ok "900 more rows add $((many - few))" || not_ok "900 more rows add $((many - few))"
# The canary: a flush every 10 steps must show, or this counts nothing.
often=$(calls 1000 10)
[ $((often - many)) -ge 99 ] && ok "99 more flushes add $((often - many))" || not_ok "99 more flushes add only $((often - many))"

# Between two flushes, seen directly: the calls that write come in bursts, as many as there are flushes, and each of the 300
# steps takes 5 ms in which the thread sleeps, once, and does nothing else.
strace -f -qq -o trace.txt "$afflux" synth --points 10 --steps 300 --variables 1 --ranks 1 --window 100 --step-seconds 0.005 --out paced.nc \
    >/dev/null 2>&1 </dev/null && ok "a run of 3 windows at a pace" || not_ok "a run of 3 windows at a pace"
report=$(python3 - 2>&1 <<'PYTHON'
import re
calls = [re.match(r"(\d+) +(?:<\.\.\. )?(\w+)", line) for line in open("trace.txt")]
calls = [(match[1], match[2]) for match in calls if match]
sleepers = [thread for thread, call in calls if call.endswith("nanosleep")]
appending = max(set(sleepers), key=sleepers.count)
# What the appending thread does between one sleep and the next: nothing, but where a window is full.
between, quiet = [], 0
own = [call for thread, call in calls if thread == appending]
first = next(place for place, call in enumerate(own) if call.endswith("nanosleep"))
gaps = [[]]
for call in own[first:]:
    if call.endswith("nanosleep"):
        gaps.append([])
    else:
        gaps[-1].append(call)
gaps = gaps[1:-1]  # after the last sleep the file is closed
busy = [gap for gap in gaps if gap]
assert len(gaps) >= 297, f"{len(gaps)} gaps between sleeps"
assert 2 <= len(busy) <= 3, f"{len(busy)} of {len(gaps)} steps make system calls: {busy[:5]}"
assert all(any(call.startswith("pwrite") for call in gap) for gap in busy), f"no flush: {busy}"
PYTHON
) && ok "the appending thread is silent but for its flushes" || not_ok "the appending thread is silent but for its flushes" "$report"
finish
