#!/usr/bin/env bash
# The solver through the command: same file for any ranks, sampling off, physics checked elsewhere (apps/fdtd/tests).
. "$(dirname "$0")/lib.sh"

model=$(find "$OLDPWD/apps/fdtd/models" -name '*cavity*.toml' | head -1)
if [ -z "$model" ]; then
    not_ok "the cavity model is there"
    finish
    exit
fi
works "cavity on 1 rank" "$afflux" fdtd "$model" --out one.nc --ranks 1
works "cavity on 3 ranks" "$afflux" fdtd "$model" --out three.nc --ranks 3
same_bytes "same bytes" one.nc three.nc
for mpi in $(mpis); do
    on_mpi "$mpi" 2
    works "$mpi: cavity on 2 ranks" "${afflux_on_mpi[@]}" fdtd "$model" --out "$mpi.nc"
    same_bytes "$mpi: same bytes" one.nc "$mpi.nc"
done
works "without sampling" "$afflux" fdtd "$model" --out none.nc --ranks 2 --no-sampling
works "verify" "$afflux" verify three.nc
finish
