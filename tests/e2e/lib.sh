#!/usr/bin/env bash
# For the end-to-end scripts: checks that are counted, and a folder that goes away.
#
# A script sources this, runs checks, and ends with `finish`. It reads AFFLUX (the command), and where the MPIs are there
# AFFLUX_OPENMPI, MPIRUN_OPENMPI, AFFLUX_MPICH, MPIRUN_MPICH; ./dev sets them. $source is the root of the repository.

set -uo pipefail

source=$PWD
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

# on_backend BACKEND RANKS: the command on that many ranks of `threads` or an MPI, in the arrays `command` and `on_ranks`, between
# which its own arguments go.
on_backend() {
    local backend=$1 ranks=$2
    if [ "$backend" = threads ]; then
        command=("$afflux") on_ranks=(--ranks "$ranks")
    else
        on_mpi "$backend" "$ranks"
        command=("${afflux_on_mpi[@]}") on_ranks=()
    fi
}

# as_uninterrupted NAME FILE FILE: what may differ is the bookkeeping alone.
as_uninterrupted() {
    works "$1" h5diff --exclude-path /afflux "$2" "$3"
    [ -z "$output" ] || not_ok "$1: h5diff says nothing" "$output"
}

# on_every_rank CODE NAME MPI RANKS ARGUMENTS...: the command ends with this code on each of the ranks, not only where the
# launcher looks; its output is left in $output.
on_every_rank() {
    local code=$1 name=$2 mpi=$3 ranks=$4 ended
    shift 4
    on_mpi "$mpi" "$ranks"
    # The shell between ends well, so that the launcher lets every rank come to its own end.
    # shellcheck disable=SC2016
    set -- "${afflux_on_mpi[@]::3}" sh -c '"$@"; echo $? >>codes.txt' _ "${afflux_on_mpi[@]:3}" "$@"
    rm -f codes.txt
    output=$(timeout --kill-after=5 120 "$@" 2>&1 </dev/null)
    ended=$(grep -c "^$code\$" codes.txt)
    if [ "$ended" -eq "$ranks" ]; then ok "$name"; else not_ok "$name: $ended of $ranks ranks ended with $code" "$output"; fi
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
