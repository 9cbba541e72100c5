#!/usr/bin/env bash
# The figures of docs/COLLECTIVE.md by one command, for an idle machine: programs, launches, JSON lines, tables.
#
#   tests/bench/collective_figures.sh [LAUNCHES [DISK_DIR]]    # 15 launches unless told; files in /dev/shm and in DISK_DIR
#
# Writes docs/figures/collective-open-mpi-4-ranks.jsonl and prints the tables.
set -euo pipefail
cd "$(dirname "$0")/../.."
launches=${1:-15}
disk=${2:-${TMPDIR:-/tmp}}
target=${CARGO_TARGET_DIR:-target}
figures=docs/figures/collective-open-mpi-4-ranks.jsonl

cargo build --release -p afflux-collective --features mpi --example hpio
mpicc.openmpi -O2 -Wall -Wextra -o "$target/mpiio_hpio.openmpi" tests/bench/mpiio_hpio.c
python3 tests/bench/collective.py run --hpio "$target/release/examples/hpio" --mpiio "$target/mpiio_hpio.openmpi" \
    --dir "/dev/shm,$disk" --launches "$launches" > "$figures.new"
mv "$figures.new" "$figures"
python3 tests/bench/collective.py table "$figures"
