#!/usr/bin/env bash
# The sampling figures of docs/BENCHMARKING.md, taken anew: raw lines into OUTPUT, the tables in Markdown on the standard output.
#
#   AFFLUX=target/release/afflux tests/bench/sampling_figures.sh [--directory DIR] [--output OUTPUT] [--ranks N]
#                                                              [--seconds-max T] [-- ARGUMENTS]
#
# DIR is an existing directory on the file system to measure (.), OUTPUT where the raw lines go (docs/figures), N the number of MPI
# ranks (4), T what a method may use before it is not run again, in seconds (5); ARGUMENTS go to `afflux bench sampling`. A file of
# OUTPUT is replaced only by a whole one. With FIGURES naming a file, only that one is written, without the weak scaling
# on thread ranks.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd -P)
afflux=${AFFLUX:?AFFLUX names the command under test}
launcher=${MPIRUN:-mpirun}
directory=. output=$here/../../docs/figures ranks=4 seconds_max=5
while [ $# -gt 0 ]; do
    case $1 in
        --directory) directory=$2; shift 2 ;;
        --output) output=$2; shift 2 ;;
        --ranks) ranks=$2; shift 2 ;;
        --seconds-max) seconds_max=$2; shift 2 ;;
        --) shift; break ;;
        *) sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done

# Ranks that share a core must give it up while they wait, or the figures are those of the scheduler.
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
[ "$(id -u)" -ne 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

partial=$(mktemp)
trap 'rm -f "$partial"' EXIT
trap 'exit 143' TERM INT HUP

# take NAME COMMAND...: the lines of COMMAND as OUTPUT/NAME, and its tables.
take() {
    local target=$output/$1
    shift
    "$@" >"$partial"
    python3 "$here/sampling_tables.py" "$partial"
    cp "$partial" "$target"
}

mkdir -p "$output"
take "${FIGURES:-sampling-open-mpi-$ranks-ranks.jsonl}" \
    timeout 3600 "$launcher" -n "$ranks" "$afflux" bench sampling --dir "$directory" --seconds-max "$seconds_max" --json "$@"
if [ -z "${FIGURES:-}" ]; then
    take sampling-weak-threads.jsonl \
        timeout 3600 "$afflux" bench sampling --dir "$directory" --weak --repetitions 3 --methods afflux,direct-open-append-close,gather --json
fi
