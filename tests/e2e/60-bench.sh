#!/usr/bin/env bash
# `bench sampling --json`: one object a line, with the keys that docs/BENCHMARKING.md names; every method runs.
. "$(dirname "$0")/lib.sh"

status=0
timeout 300 "$afflux" bench sampling --json --points 4,64 --ranks 2 --steps 60 --window 20 --dir . \
    >lines.jsonl 2>errors.txt </dev/null || status=$?
[ "$status" -eq 0 ] && ok "bench runs" || not_ok "bench runs: exit code $status" "$(cat errors.txt)"
report=$(python3 - 2>&1 <<'PYTHON'
import json
with open("lines.jsonl") as file:
    lines = [json.loads(line) for line in file if line.strip()]
keys = "method points ranks backend steps window bytes seconds_median seconds_min repetitions".split()
for line in lines:
    for key in keys:
        assert key in line, f"{key} is missing in {line}"
    assert line["seconds_median"] >= line["seconds_min"] > 0, line
    assert line["bytes"] == line["points"] * line["steps"] * 32, line
methods = {line["method"] for line in lines}
wanted = "afflux direct-open-append-close direct-kept-open direct-two-level-directories gather limit".split()
assert methods >= set(wanted), f"methods {sorted(methods)}"
PYTHON
) && ok "keys, methods and sums" || not_ok "keys, methods and sums" "$report"
finish
