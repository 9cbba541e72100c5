#!/usr/bin/env bash
# 'groups(n) writes n files, and a master that reads as the one file there would be without.'
. "$(dirname "$0")/lib.sh"

run=(synth --points 60 --steps 70 --variables 2 --sets 2 --cadence 2)
works "one shared file" "$afflux" "${run[@]}" --ranks 1 --out one.nc
ncdump one.nc | sed -e 1d -e '/^group: afflux/,$d' >one.txt

# like_one NAME FILE: the master holds what the one file does, for every reader.
like_one() {
    works "$1: checksums and values" "$afflux" verify "$2" --synth
    works "$1: no difference outside afflux" h5diff --exclude-path /afflux one.nc "$2"
    ncdump "$2" | sed -e 1d -e '/^group: afflux/,$d' >master.txt
    same_bytes "$1: ncdump says the same" one.txt master.txt
}

for groups in 2 3 4; do
    works "4 thread ranks, $groups groups" "$afflux" "${run[@]}" --ranks 4 --groups "$groups" --out "threads-$groups.nc"
    like_one "4 thread ranks, $groups groups" "threads-$groups.nc"
done
for mpi in $(mpis); do
    on_mpi "$mpi" 4
    works "$mpi, 2 groups" "${afflux_on_mpi[@]}" "${run[@]}" --groups 2 --out "$mpi.nc"
    like_one "$mpi, 2 groups" "$mpi.nc"
    same_bytes "$mpi: the file of a group is that of threads" threads-2.group-1.nc "$mpi.group-1.nc"
done

mkdir moved && mv threads-3*.nc moved/
like_one "moved to another folder" moved/threads-3.nc
works "info" "$afflux" info moved/threads-3.nc
says "info names the groups" '^group .*threads-3.group-2.nc: .* points, up to step 68'
if python3 -c 'import h5py, xarray, netCDF4, h5netcdf' 2>/dev/null; then
    cat >read.py <<'PYTHON'
import h5py, numpy, xarray
one, master = h5py.File("one.nc"), h5py.File("moved/threads-3.nc")
assert master["s0/v0"].is_virtual and numpy.array_equal(one["s0/v0"], master["s0/v0"])
for engine in ("netcdf4", "h5netcdf"):
    left, right = (xarray.open_dataset(f, engine=engine, group="s1").load() for f in ("one.nc", "moved/threads-3.nc"))
    assert left.identical(right), engine
PYTHON
    works "h5py and both engines of xarray" python3 read.py
else
    skip "h5py and xarray" "not installed"
fi

# Killed, resumed on other ranks.
"$afflux" "${run[@]}" --ranks 4 --groups 2 --step-seconds 0.02 --checkpoint-every 10 --out killed.nc >/dev/null 2>&1 </dev/null &
process=$!
sleep 0.7
kill -KILL "$process"
wait "$process" 2>/dev/null
works "killed: it opens" "$afflux" verify killed.nc --synth
works "killed: ncdump opens it" ncdump -h killed.nc
works "killed, resumed on 2 ranks" "$afflux" "${run[@]}" --ranks 2 --groups 2 --resume compare --out killed.nc
like_one "killed and resumed" killed.nc

exits "1 2" "another number of groups" "$afflux" "${run[@]}" --ranks 4 --groups 4 --resume --out killed.nc
says "it says which number" 'has 2 groups, not 4'
mv killed.group-1.nc away.nc
exits "1 2 3" "the file of a group is missing" "$afflux" verify killed.nc
says "it is named" 'killed\.group-1\.nc'
finish
