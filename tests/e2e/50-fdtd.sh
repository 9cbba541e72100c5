#!/usr/bin/env bash
# The solver through the command: same file for any ranks, sampling off. Its physics is checked in
# apps/fdtd/tests (physics_from_file.rs reads the samples from the file).
. "$(dirname "$0")/lib.sh"

# The cavity, for fewer steps than its spectrum needs.
model=cavity.toml
sed 's/^steps = 6000$/steps = 700/' "$source/apps/fdtd/models/cavity.toml" >"$model"
grep -q '^steps = 700$' "$model" && ok "the model is made shorter" || not_ok "the model is made shorter"
works "cavity on 1 rank" "$afflux" fdtd "$model" --out one.nc --ranks 1
works "cavity on 3 ranks" "$afflux" fdtd "$model" --out three.nc --ranks 3
same_bytes "same bytes" one.nc three.nc
for ranks in 2 4 7; do
    works "cavity on $ranks ranks" "$afflux" fdtd "$model" --out "threads-$ranks.nc" --ranks "$ranks"
    same_bytes "$ranks ranks: same bytes" one.nc "threads-$ranks.nc"
done
for mpi in $(mpis); do
    for ranks in 1 2 3 4 7; do
        on_mpi "$mpi" "$ranks"
        works "$mpi: cavity on $ranks ranks" "${afflux_on_mpi[@]}" fdtd "$model" --out "$mpi-$ranks.nc"
        same_bytes "$mpi, $ranks ranks: same bytes" one.nc "$mpi-$ranks.nc"
    done
done
for window in 1 7 100; do
    works "window $window" "$afflux" fdtd "$model" --out "window-$window.nc" --ranks 3 --window "$window"
    works "window $window: no difference outside afflux" h5diff --exclude-path /afflux one.nc "window-$window.nc"
done
works "without sampling" "$afflux" fdtd "$model" --out none.nc --ranks 2 --no-sampling
[ -e none.nc ] && not_ok "and without a file" || ok "and without a file"
works "verify" "$afflux" verify three.nc
finish
