#!/usr/bin/env bash
# `bench storage` against fio (Debian's package `fio`) in one run, in turns: within 10 % of each other.
#
#   AFFLUX=target/release/afflux compare_fio.sh [DIR] [MIB OF THE FILE] [ROUNDS]
#
# The same for both: one process, pread and pwrite (fio's engine psync) of 1 MiB, or of 4 KiB at random offsets, one at a time; O_DIRECT
# and fsync where the test's name says so; files dropped from the page cache before cold reads; no advice to the kernel about
# what follows (fio's own doubles read-ahead), and no new bytes for each block. Compared are medians of the ratios of neighbouring runs,
# since a disk that others use changes from second to second; exits with 1 if one is not within 10 %.
set -euo pipefail
afflux=${AFFLUX:?AFFLUX names the command}
directory=${1:-.} size_mib=${2:-1024} rounds=${3:-15}
command -v fio >/dev/null || { echo "compare_fio: fio is missing; on Debian: apt-get install fio" >&2; exit 1; }
tests=sequential-write,sequential-write-fsync,sequential-write-direct,sequential-read-cached,sequential-read-cold
tests=$tests,sequential-read-direct,random-read,random-read-direct,random-write-direct
priority=()
[ "$(id -u)" -ne 0 ] || priority=(nice -n -20)
# fio tells milliseconds: a run must last some hundred of them.
"${priority[@]}" "$afflux" bench storage --fio --tests $tests --size "${size_mib}m" --operations 10000 --repetitions "$rounds" \
    --seconds-max 60 --json "$directory" |
    python3 -c '
import json, statistics, sys
rows = {}
for line in sys.stdin:
    row = json.loads(line)
    if "missing" not in row:
        rows.setdefault(row["test"], {})[row["tool"]] = row["samples_seconds"]
wrong = 0
print("test                         afflux (s)    fio (s)  afflux/fio  (from    to)  rounds")
for test, tools in rows.items():
    ours, theirs = tools["afflux"], tools["fio"]
    ratios = sorted(a / b for a, b in zip(ours, theirs))
    ratio = statistics.median(ratios)
    agrees = 0.9 <= ratio <= 1.1
    wrong += not agrees
    print(f"{test:28} {statistics.median(ours):10.3f} {statistics.median(theirs):10.3f} {ratio:11.3f} {ratios[0]:7.2f} {ratios[-1]:6.2f}"
          f"  {len(ratios)}" + ("" if agrees else "  differs"))
print("all within 10 %" if rows and not wrong else f"{wrong} of {len(rows)} differ by more than 10 %")
sys.exit(bool(wrong) or not rows)'
