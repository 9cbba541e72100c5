#!/usr/bin/env bash
# 'The file is byte-identical for every rank count, under threads, Open MPI and MPICH.'
# 'Another window leaves every dataset and attribute outside the group afflux identical.'
. "$(dirname "$0")/lib.sh"

run=(synth --points 60 --steps 130 --variables 3 --window 50)
works "one rank" "$afflux" "${run[@]}" --ranks 1 --out one.nc
works "its values" "$afflux" verify one.nc --synth
for ranks in 2 3 4 7; do
    works "$ranks thread ranks" "$afflux" "${run[@]}" --ranks "$ranks" --out "threads-$ranks.nc"
    same_bytes "$ranks thread ranks: same bytes" one.nc "threads-$ranks.nc"
done
for mpi in $(mpis); do
    for ranks in 1 2 3 4 7; do
        on_mpi "$mpi" "$ranks"
        works "$mpi, $ranks ranks" "${afflux_on_mpi[@]}" "${run[@]}" --out "$mpi-$ranks.nc"
        same_bytes "$mpi, $ranks ranks: same bytes" one.nc "$mpi-$ranks.nc"
    done
done
for window in 1 7 100; do
    works "window $window" "$afflux" synth --points 60 --steps 130 --variables 3 --window "$window" --ranks 3 --out "window-$window.nc"
    works "window $window: no difference outside afflux" h5diff --exclude-path /afflux one.nc "window-$window.nc"
    works "window $window: values" "$afflux" verify "window-$window.nc" --synth
done

# Many points, few of them on each of many ranks; ranks without any.
works "64 ranks for 60 points" "$afflux" "${run[@]}" --ranks 64 --out many.nc
same_bytes "64 ranks for 60 points: same bytes" one.nc many.nc

# The paper's largest run, on thread ranks: every value.
works "1,536 thread ranks" "$afflux" synth --points 8192 --steps 350 --variables 4 --ranks 1536 --window 100 --out largest.nc
works "1,536 thread ranks: values" "$afflux" verify largest.nc --synth
says "1,536 thread ranks: all of them" '^11,468,800 values compared .* all right'
works "8,192 points on one rank" "$afflux" synth --points 8192 --steps 350 --variables 4 --ranks 1 --window 100 --out alone.nc
same_bytes "1,536 thread ranks: same bytes" alone.nc largest.nc

# M8: several sets with a cadence of their own, no value in another's place.
works "three sets" "$afflux" synth --points 40 --steps 61 --variables 2 --sets 3 --cadence 4 --ranks 5 --window 10 --out sets.nc
works "three sets: values" "$afflux" verify sets.nc --synth

# sizes NAME POINTS STEPS VARIABLES: the file is at most 1.1 times its payload, where the rows are 32 bytes and many.
sizes() {
    local name=$1 payload=$(($2 * $3 * $4 * 8)) bytes
    works "$name" "$afflux" synth --points "$2" --steps "$3" --variables "$4" --ranks 3 --out sizes.nc --replace
    bytes=$(stat -c %s sizes.nc)
    [ $((bytes * 10)) -le $((payload * 11)) ] && ok "M9: $name: $bytes bytes for $payload" || not_ok "M9: $name: $bytes bytes for $payload"
}
sizes "1,024 points, 350 steps" 1024 350 4
sizes "1,024 points, 1,000 steps" 1024 1000 4
sizes "8,192 points, 350 steps" 8192 350 4
sizes "40,000 points, 100 steps" 40000 100 4

objects() { h5dump -n "$1" | grep -cE '^ (group|dataset)'; }
works "4 points" "$afflux" synth --points 4 --steps 5 --variables 3 --out few.nc
works "40,000 points" "$afflux" synth --points 40000 --steps 5 --variables 3 --ranks 4 --out lots.nc
few=$(objects few.nc)
[ "$few" -gt 0 ] && [ "$few" = "$(objects lots.nc)" ] && ok "M1: as many HDF5 objects for 4 points as for 40,000" ||
    not_ok "M1: $(objects few.nc) objects for 4 points, $(objects lots.nc) for 40,000"
finish
