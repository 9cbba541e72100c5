#!/usr/bin/env bash
# Restarts (R1, R2, R4-R8) and a run that is told to end (C2), each by its name in the list of cases: a run that goes on with the file of another ends with the
# datasets of one that was never interrupted.
. "$(dirname "$0")/lib.sh"

# rows FILE: how many are sealed in its first set.
rows() { "$afflux" info --json "$1" | sed -E 's/.*"rows":([0-9]+),.*/\1/'; }

made_up=(synth --points 60 --variables 2 --sets 2)

works "R1 one run of 200 steps, every 10" "$afflux" "${made_up[@]}" --cadence 10 --steps 200 --ranks 3 --window 40 --out r1.nc
works "R2 one run of 100 steps" "$afflux" "${made_up[@]}" --steps 100 --ranks 3 --window 20 --out r2.nc
for backend in threads $(mpis); do
    on_backend "$backend" 4
    works "R1 $backend: to step 142" "${command[@]}" "${made_up[@]}" --cadence 10 --steps 142 --window 40 "${on_ranks[@]}" --out "r1-$backend.nc"
    # Another number of ranks, other owners, another window: R7 besides.
    on_backend "$backend" 3
    works "R1 R7 $backend: again from step 100, on 3 ranks" "${command[@]}" "${made_up[@]}" --cadence 10 --start-step 100 --steps 100 --window 30 \
        "${on_ranks[@]}" --rebalance-every 25 --out "r1-$backend.nc" --resume
    as_uninterrupted "R1 R7 $backend: the datasets of one run" r1.nc "r1-$backend.nc"

    on_backend "$backend" 4
    works "R2 $backend: to step 60" "${command[@]}" "${made_up[@]}" --steps 60 --checkpoint-every 50 --window 1000 "${on_ranks[@]}" --out "r2-$backend.nc"
    cp "r2-$backend.nc" before.nc
    on_backend "$backend" 2
    works "R2 $backend: from 50 to 60 again" "${command[@]}" "${made_up[@]}" --start-step 50 --steps 10 "${on_ranks[@]}" --out "r2-$backend.nc" --resume
    as_uninterrupted "R2 $backend: nothing is written again" before.nc "r2-$backend.nc"
    works "R2 $backend: from 50 on, compared" "${command[@]}" "${made_up[@]}" --start-step 50 --steps 50 "${on_ranks[@]}" --out "r2-$backend.nc" --resume compare
    as_uninterrupted "R2 $backend: the datasets of one run" r2.nc "r2-$backend.nc"
done

# R4: a file that is there is refused, and stays as it was.
cp r2.nc r4.nc
exits 1 "R4 a file that exists is refused" "$afflux" "${made_up[@]}" --steps 5 --out r4.nc
same_bytes "R4 and stays as it was" r2.nc r4.nc

# R5: steps that are counted from 0 again.
works "R5 the first 60 steps" "$afflux" "${made_up[@]}" --steps 60 --out r5.nc
works "R5 counted from 0 again, with the offset" "$afflux" "${made_up[@]}" --steps 40 --step-offset 60 --out r5.nc --resume
as_uninterrupted "R5 the datasets of one run" r2.nc r5.nc
exits 1 "R5 a run that begins behind a hole is refused" "$afflux" "${made_up[@]}" --start-step 103 --steps 7 --out r5.nc --resume
says "R5 the missing step is named" '100'
as_uninterrupted "R5 and nothing is changed" r2.nc r5.nc

# R6: a window of 2, 7 steps, then 7 more.
works "R6 14 steps at once" "$afflux" "${made_up[@]}" --steps 14 --out r6-whole.nc
works "R6 7 steps" "$afflux" "${made_up[@]}" --steps 7 --window 2 --out r6.nc
works "R6 7 more" "$afflux" "${made_up[@]}" --start-step 7 --steps 7 --window 2 --out r6.nc --resume
as_uninterrupted "R6 no hole" r6-whole.nc r6.nc
works "R6 verify" "$afflux" verify r6.nc --synth

# R8: a tail that is cut off, a block that is damaged.
truncate -s -3000 r6.nc
exits 3 "R8 a tail that is cut off is noticed" "$afflux" "${made_up[@]}" --start-step 14 --steps 7 --out r6.nc --resume
works "R8 a file to damage" "$afflux" synth --points 60 --variables 1 --steps 100 --out r8.nc
# The values of synth are in [0, 1): their high bytes are 3f, which nothing else has so often; one byte amid them is changed.
python3 - r8.nc <<'PY'
import re, sys
data = bytearray(open(sys.argv[1], "rb").read())
blocks = list(re.finditer(rb"(?:.{7}\x3f){40}", bytes(data), re.S))
data[blocks[-1].start()] ^= 0x10
open(sys.argv[1], "wb").write(data)
PY
cp r8.nc r8-damaged.nc
exits 3 "R8 a damaged block is noticed" "$afflux" synth --points 60 --variables 1 --start-step 100 --steps 20 --out r8.nc --resume
says "R8 and named, with what to do" 'damaged.*--resume rewrite'
works "R8 rewriting from the first step redoes it" "$afflux" synth --points 60 --variables 1 --steps 120 --out r8.nc --resume rewrite
works "R8 one run" "$afflux" synth --points 60 --variables 1 --steps 120 --out r8-whole.nc
as_uninterrupted "R8 the datasets of one run" r8-whole.nc r8.nc
works "R8 verify" "$afflux" verify r8.nc --synth

# C2: with the signal first, everything up to it.
"$afflux" synth --points 60 --variables 2 --steps 100000 --window 5000 --step-seconds 0.001 --seal-on-signal --out c2.nc >c2.txt 2>&1 &
run=$!
for _ in $(seq 100); do [ -e c2.nc ] && break; sleep 0.05; done
sleep 1
kill -TERM "$run"
wait "$run" && ok "C2 the run ends well" || not_ok "C2 the run ends well" "$(cat c2.txt)"
[ "$(rows c2.nc)" -gt 0 ] && ok "C2 $(rows c2.nc) rows before the signal are sealed" || not_ok "C2 no row is sealed"
works "C2 verify" "$afflux" verify c2.nc --synth
finish
