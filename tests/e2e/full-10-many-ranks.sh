#!/usr/bin/env bash
# The paper's largest run on thread ranks: 1,536 ranks, 8,192 points, every value verified.
. "$(dirname "$0")/lib.sh"

exits_within() {
    local name=$1 seconds=$2 status=0
    shift 2
    output=$(timeout "$seconds" "$@" 2>&1 </dev/null) || status=$?
    [ "$status" -eq 0 ] && ok "$name" || not_ok "$name: exit code $status" "$output"
}
exits_within "1,536 thread ranks" 1500 "$afflux" synth --points 8192 --steps 350 --variables 4 --ranks 1536 --window 100 --out many.nc
exits_within "every value" 600 "$afflux" verify many.nc --synth
exits_within "one rank" 600 "$afflux" synth --points 8192 --steps 350 --variables 4 --ranks 1 --window 100 --out one.nc
same_bytes "same bytes as one rank" one.nc many.nc
finish
