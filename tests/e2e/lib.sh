#!/usr/bin/env bash
# For the end-to-end scripts: checks that are counted, and a folder that goes away.
#
# A script sources this, runs checks, and ends with `finish`. It reads AFFLUX (the command), and where the MPIs are there
# AFFLUX_OPENMPI, MPIRUN_OPENMPI, AFFLUX_MPICH, MPIRUN_MPICH; ./dev sets them.

set -uo pipefail

afflux=${AFFLUX:?AFFLUX names the command under test}
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory" || exit 1

passed=0 failed=0 skipped=0

ok() {
    passed=$((passed + 1))
    printf 'ok      %s\n' "$1"
}

not_ok() {
    failed=$((failed + 1))
    printf 'not ok  %s\n' "$1"
    [ $# -lt 2 ] || printf '%s\n' "$2" | head -20 | sed 's/^/          /'
}

skip() {
    skipped=$((skipped + 1))
    printf 'skipped %s: %s\n' "$1" "$2"
}

# exits CODES NAME COMMAND...: the command ends with one of these codes ("1", "1 2") within two minutes; its output is left
# in $output.
exits() {
    local expected=$1 name=$2 status=0
    shift 2
    output=$(timeout --kill-after=5 120 "$@" 2>&1 </dev/null) || status=$?
    if [[ " $expected " == *" $status "* ]]; then ok "$name"; else not_ok "$name: exit code $status, not $expected" "$output"; fi
}

# works NAME COMMAND...
works() { exits 0 "$@"; }

# says NAME PATTERN: the last command's output has a line of this (extended) pattern.
says() {
    if grep -qE -- "$2" <<<"$output"; then ok "$1"; else not_ok "$1: no line matches '$2'" "$output"; fi
}

# never_says NAME PATTERN
never_says() {
    if grep -qE -- "$2" <<<"$output"; then not_ok "$1: a line matches '$2'" "$output"; else ok "$1"; fi
}

# same_bytes NAME FILE FILE
same_bytes() {
    local difference
    if difference=$(cmp "$2" "$3" 2>&1); then ok "$1"; else not_ok "$1" "$difference"; fi
}

# on_mpi openmpi|mpich RANKS: sets the array `afflux_on_mpi`, the command on that many ranks.
on_mpi() {
    case $1 in
        openmpi) afflux_on_mpi=("$MPIRUN_OPENMPI" -n "$2" "$AFFLUX_OPENMPI") ;;
        mpich) afflux_on_mpi=("$MPIRUN_MPICH" -n "$2" "$AFFLUX_MPICH") ;;
    esac
}

# mpis: the names of the MPIs that are there, one a line.
mpis() {
    [ -z "${AFFLUX_OPENMPI:-}" ] || echo openmpi
    [ -z "${AFFLUX_MPICH:-}" ] || echo mpich
}

finish() {
    printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
    [ "$failed" -eq 0 ]
}
