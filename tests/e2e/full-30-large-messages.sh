#!/usr/bin/env bash
# Messages over 2 GiB between MPI ranks: broadcast and exchange, every byte checked.
. "$(dirname "$0")/lib.sh"

available_kib=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
# large MPI LAUNCHER PROGRAM
large() {
    local mpi=$1 launcher=$2 program=$3 bytes status
    if [ -z "$program" ]; then
        skip "large messages under $mpi" "not installed"
        return
    fi
    for bytes in 2147483647 2147483648 2147483649 4294967297; do
        # Two ranks, each with about three times the message.
        if [ "$available_kib" -lt $((7 * (bytes >> 10))) ]; then
            skip "$mpi, $bytes bytes" "needs $((7 * (bytes >> 30))) GiB of memory"
            continue
        fi
        status=0
        output=$(timeout 900 "$launcher" -n 2 "$program" huge "$bytes" 2>&1 </dev/null) || status=$?
        [ "$status" -eq 0 ] && ok "$mpi, $bytes bytes" || not_ok "$mpi, $bytes bytes: exit code $status" "$output"
        says "$mpi, $bytes bytes: all ranks agree" '^conformance ok on 2 ranks'
    done
}
large "Open MPI" "$MPIRUN_OPENMPI" "${CONFORMANCE_OPENMPI:-}"
large MPICH "$MPIRUN_MPICH" "${CONFORMANCE_MPICH:-}"
finish
