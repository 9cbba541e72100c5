#!/usr/bin/env bash
# The collective engine's corpus by MPI ranks: every path against what must be in the file, under both MPIs.
. "$(dirname "$0")/lib.sh"

# corpus MPI LAUNCHER PROGRAM
corpus() {
    local mpi=$1 launcher=$2 program=$3 ranks
    if [ -z "$program" ]; then
        skip "the corpus under $mpi" "not installed"
        return
    fi
    for ranks in 1 2 3 4 7; do
        works "$mpi, $ranks ranks" "$launcher" -n "$ranks" "$program" .
        says "$mpi, $ranks ranks: no difference" "^0 differences in [1-9][0-9]* workloads on $ranks ranks, .*$4"
    done
    # Many more ranks than cores: no hang, right bytes. (The engine's tests have 64 ranks, as threads.)
    for ranks in 16 31; do
        works "$mpi, $ranks oversubscribed ranks" "$launcher" -n "$ranks" "$program" .
        says "$mpi, $ranks ranks: no difference" "^0 differences in [1-9][0-9]* workloads on $ranks ranks, .*$4"
    done
}
corpus "Open MPI" "$MPIRUN_OPENMPI" "${CORPUS_OPENMPI:-}" "Open MPI"
corpus MPICH "$MPIRUN_MPICH" "${CORPUS_MPICH:-}" MPICH
finish
