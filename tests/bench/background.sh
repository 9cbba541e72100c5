#!/usr/bin/env bash
# What sampling costs a simulation: the Maxwell solver with its samples against `--no-sampling`, in alternating pairs.
#
#   AFFLUX=target/release/afflux tests/bench/background.sh [--pairs N] [--steps N] [--cells N] [--points GRID] [--ranks N]
#                                                          [--mpi] [--directory DIR]
#
# 100 x 100 x 100 cells, 1,024 probes (8x8x16) of four f64 each, every step, 4 ranks: threads of one process, or with --mpi
# processes of Open MPI. Process CPU time (user and system, of all ranks) and wall time of whole runs, creation and close included.
# What else the machine does changes its speed from second to second, so only the two runs of a pair are compared: the goal is a median
# of the paired ratios of at most 1.02. Prints the ratios, what the phases of a sampled run are, in milliseconds, and exits with 1
# where the goal is missed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd -P)
: "${AFFLUX:?AFFLUX names the command under test}"
[ "$(id -u)" -ne 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
exec python3 "$here/background.py" "$@"
