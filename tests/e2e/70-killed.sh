#!/usr/bin/env bash
# SIGKILL while a run goes on: the file opens with no repair step and holds what was sealed. Few moments here, many with --full.
. "$(dirname "$0")/lib.sh"
trials=${KILL_TRIALS:-12}

opened=0 whole=0 begun=0 filled=0
for trial in $(seq 1 "$trials"); do
    rm -f killed.nc .killed.nc* killed.nc.*
    "$afflux" synth --points 500 --steps 100000 --variables 3 --ranks 3 --window 10 --step-seconds 0.0005 --out killed.nc \
        >/dev/null 2>&1 </dev/null &
    process=$!
    # From 50 ms to about 1.2 s: creation, the first columns, steady flushes.
    sleep "$(awk -v trial="$trial" -v trials="$trials" 'BEGIN { srand(trial); print 0.05 + (trial - rand()) / trials * 1.15 }')"
    kill -KILL "$process" 2>/dev/null
    wait "$process" 2>/dev/null
    # Killed before the file had its name: then there is none, which is right.
    [ -e killed.nc ] || continue
    begun=$((begun + 1))
    if ncdump -v step killed.nc >dump.txt 2>&1 && h5dump -d /time -o /dev/null killed.nc >/dev/null 2>&1; then
        opened=$((opened + 1))
    else
        cp killed.nc "unreadable-$trial.nc"
    fi
    if timeout 60 "$afflux" verify killed.nc --synth >verify.txt 2>&1; then
        whole=$((whole + 1))
        grep -qE '^[1-9][0-9,]* values compared' verify.txt && filled=$((filled + 1))
    else
        head -5 verify.txt
    fi
done
[ "$begun" -gt 0 ] && ok "$begun of $trials runs had begun their file" || not_ok "no run had begun its file"
[ "$opened" -eq "$begun" ] && ok "ncdump and h5dump open every one" || not_ok "ncdump and h5dump open $opened of $begun"
[ "$whole" -eq "$begun" ] && ok "every sealed value is right" || not_ok "every sealed value is right in $whole of $begun"
# Files without a row prove little: late kills must have found some.
[ $((filled * 2)) -ge "$begun" ] && ok "$filled of them have sealed rows" || not_ok "only $filled of $begun have sealed rows"
finish
