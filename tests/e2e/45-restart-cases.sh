#!/usr/bin/env bash
# What 42-restart.sh leaves of the cases of restart and identity, each by its name: the solver with its own fields (R1, R2), times that decide
# nothing (R3), points and ranks that change (R7), damage that is redone (R8), points on borders and outside (R9), names (R10), kills
# between flushes (C2), memory (M4).
. "$(dirname "$0")/lib.sh"

# model STEPS PROBES FILE
model() {
    printf 'steps = %s\ngrid = { cells = [12, 10, 8], cell_size = 0.01 }\nboundaries = { x_min = "cpml" }\ncpml = { thickness = 2 }\n' "$1"
    printf '[[sources]]\nposition = [0.045, 0.035, 0.025]\naxis = "y"\nwaveform = { kind = "ricker", frequency = 5e9 }\n'
    printf '[output]\nwindow_steps = 25\n%s\n' "$2"
}
probes='[[probes]]
grid = "3x2x3"
fields = ["Ex", "Ey", "Hz"]
every = 10
[[probes]]
name = "slow"
points = [{ name = "here", x = 0.05, y = 0.05, z = 0.06 }]
fields = ["Ey"]'
model 200 "$probes" >whole.toml
model 142 "$probes" >to-142.toml
model 60 "$probes" >to-60.toml
works "R1 the solver, uninterrupted" "$afflux" fdtd whole.toml --ranks 3 --out whole.nc
for backend in threads $(mpis); do
    on_backend "$backend" 4
    works "R1 $backend: the solver to step 142, its fields saved at 100" "${command[@]}" fdtd to-142.toml "${on_ranks[@]}" --out r1.nc --checkpoint-every 100
    on_backend "$backend" 3
    works "R1 R7 $backend: restarted from 100 on 3 ranks, borders moving" "${command[@]}" fdtd whole.toml "${on_ranks[@]}" --out r1.nc --resume compare \
        --restart-from r1.nc.checkpoint --rebalance-every 17
    as_uninterrupted "R1 R7 $backend: every dataset is that of one run" whole.nc r1.nc
    on_backend "$backend" 2
    works "R2 $backend: the solver to 60, its fields saved at 50" "${command[@]}" fdtd to-60.toml "${on_ranks[@]}" --out r2.nc --checkpoint-every 50
    works "R2 $backend: restarted from 50" "${command[@]}" fdtd whole.toml "${on_ranks[@]}" --out r2.nc --resume --restart-from r2.nc.checkpoint --json
    says "R2 $backend: nothing is written again" '"rewritten_bytes": ?0\b'
    as_uninterrupted "R2 $backend: every dataset is that of one run" whole.nc r2.nc
    rm -f r1.nc* r2.nc*
done

# R3: a solver whose steps are shorter comes again from the beginning: its times are no multiple of those in the file and lie before them.
sed 's/cell_size = 0.01/cell_size = 0.01, courant = 0.71/' whole.toml >shorter.toml
works "R3 the solver to 142" "$afflux" fdtd to-142.toml --ranks 2 --out r3.nc
works "R3 again from 0, with shorter steps" "$afflux" fdtd shorter.toml --ranks 3 --out r3.nc --resume --json
says "R3 what is there stays" '"rewritten_bytes": ?0\b'
for steps in /step /slow/step; do
    # (h5diff would compare what the dataset refers to as well, which is the times.)
    for file in whole r3; do h5dump -y -w 1 -d "$steps" "$file.nc" | sed -n '/DATA {/,/}/p' >"$file.txt"; done
    same_bytes "R3 the integer step decides, each is there once: $steps" whole.txt r3.txt
    [ "$(grep -c '[0-9]' whole.txt)" -ge 20 ] && ok "R3 $steps has steps" || not_ok "R3 $steps has steps"
done
works "R7 a file" "$afflux" synth --points 20 --variables 1 --steps 60 --window 20 --out r7.nc

# R7: other points, variables or cadences are another file.
for other in "--points 21 --variables 1" "--points 20 --variables 2" "--points 20 --variables 1 --cadence 2" "--points 20 --variables 1 --type f32"; do
    # shellcheck disable=SC2086
    exits "1 3" "R7 refused: $other" "$afflux" synth $other --start-step 60 --steps 10 --out r7.nc --resume
done

# R8: a tail that is cut off gets its length back by repair, and is given again by a run that begins early enough.
works "R8 a file to cut" "$afflux" synth --points 60 --variables 1 --steps 100 --out r8.nc
truncate -s -3000 r8.nc
exits 3 "R8 noticed" "$afflux" synth --points 60 --variables 1 --start-step 100 --steps 20 --out r8.nc --resume
says "R8 named, with what to do" 'tail is cut off.*afflux repair'
works "R8 repair" "$afflux" repair r8.nc
says "R8 repair says that samples are missing" 'samples are missing'
exits 3 "R8 verify names what is missing" "$afflux" verify r8.nc
exits 3 "R8 not skipped as done" "$afflux" synth --points 60 --variables 1 --start-step 100 --steps 20 --out r8.nc --resume
works "R8 redone" "$afflux" synth --points 60 --variables 1 --steps 120 --out r8.nc --resume rewrite
works "R8 one run" "$afflux" synth --points 60 --variables 1 --steps 120 --out r8-whole.nc
as_uninterrupted "R8 every dataset is that of one run" r8-whole.nc r8.nc

# R9: points on the borders of the boxes, wherever those are and move to; two in one cell; outside.
corners=""
for x in 0 0.04 0.06 0.12; do for y in 0 0.05 0.1; do for z in 0 0.04 0.08; do
    corners="$corners{ name = \"p$x-$y-$z\", x = $x, y = $y, z = $z }, "
done; done; done
borders="[[probes]]
points = [$corners{ name = \"a\", x = 0.051, y = 0.051, z = 0.051 }, { name = \"b\", x = 0.052, y = 0.052, z = 0.052 }]
fields = [\"Ey\", \"Hx\"]"
model 40 "$borders" >borders.toml
works "R9 points on faces, edges, corners; two in a cell" "$afflux" fdtd borders.toml --ranks 1 --out r9.nc
for backend in threads $(mpis); do
    for ranks in 2 4; do
        on_backend "$backend" "$ranks"
        works "R9 $backend: on $ranks ranks, moving" "${command[@]}" fdtd borders.toml "${on_ranks[@]}" --rebalance-every 5 --out "r9-$backend-$ranks.nc"
        as_uninterrupted "R9 $backend: on $ranks ranks the same points in the same order" r9.nc "r9-$backend-$ranks.nc"
    done
done
outside='[[probes]]
points = [{ name = "in", x = 0.05, y = 0.05, z = 0.05 }, { name = "far", x = 5.0, y = 0.05, z = 0.05 }]
fields = ["Ey"]'
model 10 "$outside" >outside.toml
exits 1 "R9 a point outside is refused" "$afflux" fdtd outside.toml --out outside.nc
says "R9 and named" 'far'
model 10 "$outside
outside = \"warn\"" >warned.toml
works "R9 or left out, if asked" "$afflux" fdtd warned.toml --out outside.nc
says "R9 and named again" 'far'

# R10
model 10 "$outside
[[probes]]
name = \"a\"
grid = \"2x2x2\"
fields = [\"Ey\"]
[[probes]]
name = \"a\"
grid = \"2x2x2\"
fields = [\"Ex\"]" | sed '/far/s/, { name = "far".*}/ /' >twice.toml
exits 1 "R10 two sets of one name are refused" "$afflux" fdtd twice.toml --out twice.nc
[ -e twice.nc ] && not_ok "R10 and no file is begun" || ok "R10 and no file is begun"

# C2: killed without a word between two flushes: everything up to the last seal, and the rest on the next run.
works "C2 one run" "$afflux" synth --points 40 --variables 2 --steps 3000 --out c2-whole.nc
for backend in threads $(mpis); do
    on_backend "$backend" 3
    setsid "${command[@]}" synth --points 40 --variables 2 --steps 3000 --window 100 --step-seconds 0.001 "${on_ranks[@]}" --out "$PWD/c2-$backend.nc" >/dev/null 2>&1 &
    run=$!
    for _ in $(seq 200); do
        rows=$("$afflux" info --json "c2-$backend.nc" 2>/dev/null | sed -E 's/.*"rows":([0-9]+),.*/\1/')
        [ "${rows:-0}" -ge 300 ] && break
        sleep 0.05
    done
    # Launcher and ranks, which may be in sessions of their own: all at once, and gone before the next writer comes.
    while pkill -KILL -f -- "--out $PWD/c2-$backend\.nc"; do sleep 0.02; done
    wait "$run" 2>/dev/null
    works "C2 $backend: killed behind row ${rows:-0}, what is sealed is right" "$afflux" verify "c2-$backend.nc" --synth
    [ "${rows:-0}" -ge 300 ] && ok "C2 $backend: something is sealed" || not_ok "C2 $backend: only ${rows:-0} rows are sealed"
    on_backend "$backend" 2
    works "C2 $backend: resumed from 200" "${command[@]}" synth --points 40 --variables 2 --start-step 200 --steps 2800 "${on_ranks[@]}" --out "c2-$backend.nc" --resume compare
    as_uninterrupted "C2 $backend: every dataset is that of one run" c2-whole.nc "c2-$backend.nc"
done

# M4, in short: 3,969 points, 6 variables; ten times the windows take no more memory.
peak_kib() {
    "$@" >/dev/null 2>&1 </dev/null &
    local process=$! peak=0 now
    while now=$(awk '/^VmHWM/ { print $2 }' "/proc/$process/status" 2>/dev/null) && [ -n "$now" ]; do
        peak=$now
        sleep 0.02
    done
    wait "$process" || { echo failed && return; }
    echo "$peak"
}
made_up=(synth --points 3969 --variables 6 --window 10 --ranks 2)
short=$(peak_kib "$afflux" "${made_up[@]}" --steps 200 --out m4.nc)
long=$(peak_kib "$afflux" "${made_up[@]}" --steps 1000 --out m4.nc --replace)
if [ "$short" != failed ] && [ "$long" != failed ] && [ "$short" -gt 0 ] && [ "$long" -le $((short + short / 10 + 4096)) ]; then
    ok "M4 memory is flat: $short KiB for 200 steps, $long KiB for 1,000"
else
    not_ok "M4 memory grows: $short KiB for 200 steps, $long KiB for 1,000"
fi
finish
