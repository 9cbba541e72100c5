#!/usr/bin/env bash
# `profile`: user and system time as GNU time has them, bytes as /proc/PID/io has them, and a profile of a job that ran out of
# memory. What needs root or a tool that is absent is skipped and counted.
. "$(dirname "$0")/lib.sh"

# field FILE EXPRESSION: an expression of python over the profile p.
field() { python3 -c 'import json, sys; p = json.loads(open(sys.argv[1]).readline()); print(eval(sys.argv[2]))' "$1" "$2"; }

works "a job is measured" "$afflux" profile -o one.json -- sh -c 'head -c 30000000 /dev/zero >a.dat; cat a.dat >b.dat'
report=$(field one.json '60e6 <= p["io"]["written_bytes"] < 60.1e6 and 60e6 <= p["io"]["read_bytes"] < 60.5e6') || report=failed
[ "$report" = True ] && ok "bytes of a tree" || not_ok "bytes of a tree" "$(cat one.json)"

# The process's own counters at its end, as the kernel tells it itself.
# shellcheck disable=SC2016  # expanded by the inner shell
works "a job tells its own counters" "$afflux" profile -o own.json -- python3 -c '
import os
data = os.urandom(1 << 20)
with open("c.dat", "wb", buffering=0) as file:
    for _ in range(64): file.write(data)
with open("c.dat", "rb", buffering=0) as file:
    while file.read(1 << 20): pass
open("counters.txt", "w").write(open("/proc/self/io").read())'
report=$(python3 - 2>&1 <<'PYTHON'
import json
told = dict(line.split(": ") for line in open("counters.txt"))
io = json.load(open("own.json"))["io"]
# Beyond what the program told stand its own last writes and the interpreter's start through a shell, where there is one.
for ours, theirs in [("read_bytes", "rchar"), ("written_bytes", "wchar"), ("device_written_bytes", "write_bytes")]:
    assert int(told[theirs]) <= io[ours] <= int(told[theirs]) * 1.02 + 5_000_000, (ours, io[ours], told[theirs])
    print(ours, io[ours], "and", theirs, told[theirs].strip(), end="; ")
PYTHON
) && ok "bytes agree with /proc/PID/io: ${report%; }" || not_ok "bytes agree with /proc/PID/io" "$report"

if [ -x /usr/bin/time ]; then
    # shellcheck disable=SC2016
    works "GNU time inside" "$afflux" profile -o time.json -- /usr/bin/time -v -o time.txt sh -c \
        'i=0; while [ $i -lt 1500000 ]; do i=$((i+1)); done; head -c 1500000000 /dev/zero >/dev/null'
    user=$(awk -F': ' '/User time/ { print $2 }' time.txt)
    system=$(awk -F': ' '/System time/ { print $2 }' time.txt)
    report=$(field time.json "abs(p['cpu_seconds'] - ($user + $system)) <= 0.02 * ($user + $system) + 0.02") || report=failed
    [ "$report" = True ] && ok "user + system within 2 % of GNU time: $(field time.json "round(p['cpu_seconds'], 2)") and $user + $system s" || not_ok "user + system: $user + $system" "$(cat time.json)"
else
    skip "user and system against GNU time" "no /usr/bin/time"
fi

# A memory limit of 64 MB, in either version of control groups.
group='' limit=''
for candidate in /sys/fs/cgroup/memory /sys/fs/cgroup; do
    [ -w "$candidate/cgroup.procs" ] || continue
    mkdir "$candidate/afflux-e2e-$$" 2>/dev/null || continue
    for limit in memory.limit_in_bytes memory.max; do
        if echo 67108864 >"$candidate/afflux-e2e-$$/$limit" 2>/dev/null; then
            group=$candidate/afflux-e2e-$$
            break 2
        fi
    done
    rmdir "$candidate/afflux-e2e-$$"
done
if [ -n "$group" ]; then
    trap 'rmdir "$group" 2>/dev/null; rm -rf "$directory"' EXIT
    # shellcheck disable=SC2016
    exits 137 "out of memory" sh -c 'echo $$ >"$1/cgroup.procs"; exec "$2" profile -o memory.json -- python3 -Sc "x = bytearray(200_000_000)"' \
        _ "$group" "$afflux"
    report=$(field memory.json 'p["killed"] and p["ended"]["out_of_memory_kills"] >= 1 and p["ended"]["signal"] == "SIGKILL"') || report=failed
    [ "$report" = True ] && ok "the profile says that memory ran out" || not_ok "the profile says that memory ran out" "$(cat memory.json)"
else
    skip "a job out of memory" "no memory control group may be made here"
fi

leftover=$(find /sys/fs/cgroup -maxdepth 6 -name 'afflux-profile-*' 2>/dev/null | head -1)
[ -z "$leftover" ] && ok "no control group is left" || not_ok "no control group is left" "$leftover"
finish
