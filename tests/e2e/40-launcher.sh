#!/usr/bin/env bash
# A program of one MPI under the launcher of the other: each process would believe to be alone and write the same file.
. "$(dirname "$0")/lib.sh"

if [ -z "${AFFLUX_OPENMPI:-}" ] || [ -z "${AFFLUX_MPICH:-}" ]; then
    skip "the other MPI's launcher" "needs both MPIs"
    finish
    exit
fi
# crossed NAME LAUNCHER PROGRAM
crossed() {
    local status=0
    output=$(timeout --kill-after=5 60 "$2" -n 3 "$3" synth --points 9 --steps 20 --variables 1 --out "$1.nc" 2>&1 </dev/null) || status=$?
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ] && ok "$1 is refused" || not_ok "$1 is refused: exit code $status" "$output"
    says "$1: says why" 'would believe to be alone'
    never_says "$1: no panic" 'panicked at'
    [ -e "$1.nc" ] && not_ok "$1: no file" || ok "$1: no file"
}
crossed open-mpi-program-by-mpich "$MPIRUN_MPICH" "$AFFLUX_OPENMPI"
crossed mpich-program-by-open-mpi "$MPIRUN_OPENMPI" "$AFFLUX_MPICH"
finish
