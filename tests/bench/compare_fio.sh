#!/usr/bin/env bash
# `bench storage` against fio (Debian's package `fio`) in the same run, in turns: the best of each within 10 %.
#
#   compare_fio.sh [DIR] [OPTIONS OF bench storage]      AFFLUX names the command
#
# Compared are the smallest times, since other work on a machine only ever adds; on a busy one more repetitions help.
set -euo pipefail
afflux=${AFFLUX:?AFFLUX names the command}
directory=${1:-.}
[ $# -eq 0 ] || shift
command -v fio >/dev/null || { echo "compare_fio: fio is missing; on Debian: apt-get install fio" >&2; exit 1; }
tests=sequential-write,sequential-write-fsync,sequential-write-direct,sequential-read-cached,sequential-read-cold
tests=$tests,sequential-read-direct,random-read,random-read-direct,random-write-direct
# fio tells milliseconds: a run must last some hundred of them.
"$afflux" bench storage --fio --tests $tests --size 1g --operations 10000 --repetitions 15 --seconds-max 60 --json "$@" "$directory" |
    python3 -c '
import json, sys
best = {}
for line in sys.stdin:
    row = json.loads(line)
    if "missing" not in row:
        best.setdefault(row["test"], {})[row["tool"]] = row["seconds_min"]
wrong = 0
for test, tools in best.items():
    ours, theirs = tools["afflux"], tools["fio"]
    ratio = ours / theirs
    wrong += not 0.9 <= ratio <= 1.1
    print(f"{test:28} afflux {ours:8.3f} s  fio {theirs:8.3f} s  ratio {ratio:.3f}")
print("all within 10 %" if best and not wrong else f"{wrong} of {len(best)} differ by more than 10 %")
sys.exit(bool(wrong) or not best)'
