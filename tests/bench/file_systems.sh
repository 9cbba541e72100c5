#!/usr/bin/env bash
# The sampling benchmark on the other file systems that one Linux machine has to give, each named for what it is:
#
#   overlay   overlayfs over tmpfs: each open goes through two file systems
#   fuse      a tmpfs behind bindfs (package `bindfs`): every open, write and close is a request to another process. Of what one
#             machine has, the nearest to a network file system, without its distance
#
#   AFFLUX=target/release/afflux tests/bench/file_systems.sh [--systems overlay,fuse] [--directory DIR] [--output OUTPUT]
#                                                            [--ranks N] [--seconds-max T] [-- ARGUMENTS]
#
# Needs root: it mounts. Mounts lie under DIR (a new directory in /tmp) and are gone when it ends, however it ends short of SIGKILL.
# Raw lines go to OUTPUT (docs/figures) as sampling-SYSTEM.jsonl, tables in Markdown to the standard output; ARGUMENTS go to
# `afflux bench sampling`. A file system that cannot be had is said to be missing, and the script exits with 1.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd -P)
export AFFLUX=${AFFLUX:?AFFLUX names the command under test}
systems=overlay,fuse directory=${TMPDIR:-/tmp} output=$here/../../docs/figures ranks=4 seconds_max=5
while [ $# -gt 0 ]; do
    case $1 in
        --systems) systems=$2; shift 2 ;;
        --directory) directory=$2; shift 2 ;;
        --output) output=$2; shift 2 ;;
        --ranks) ranks=$2; shift 2 ;;
        --seconds-max) seconds_max=$2; shift 2 ;;
        --) shift; break ;;
        *) sed -n '2,15s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done
[ "$(id -u)" -eq 0 ] || { echo "file_systems: needs root, it mounts file systems" >&2; exit 1; }

base=$(mktemp -d "$directory/afflux-file-systems-XXXXXX")
mounted=() server=
unmount_all() {
    local index
    # The last first: they stand on one another.
    for ((index = ${#mounted[@]} - 1; index >= 0; index--)); do
        mountpoint -q "${mounted[index]}" || continue
        umount "${mounted[index]}" || umount --lazy "${mounted[index]}" || true
        # It holds what lies below until it has seen that it is unmounted.
        [ "${mounted[index]}" != "$base/fuse" ] || wait "$server" || true
    done
    mounted=()
}
stop() {
    unmount_all
    rm -rf --one-file-system "$base"
}
trap stop EXIT
trap 'exit 143' TERM INT HUP

# mount_tmpfs: a tmpfs at $base/memory. The largest run (8,192 points) has 92 MB; two of them may be there at once.
mount_tmpfs() {
    mkdir -p "$base/memory"
    mount -t tmpfs -o size=1g afflux-bench "$base/memory"
    mounted+=("$base/memory")
}

mount_overlay() {
    mount_tmpfs
    mkdir -p "$base"/memory/{lower,upper,work} "$base/overlay"
    mount -t overlay afflux-bench -o "lowerdir=$base/memory/lower,upperdir=$base/memory/upper,workdir=$base/memory/work" \
        "$base/overlay"
    mounted+=("$base/overlay")
}

mount_fuse() {
    command -v bindfs >/dev/null || { echo "file_systems: bindfs is missing (apt-get install bindfs)" >&2; return 1; }
    [ -e /dev/fuse ] || { echo "file_systems: this kernel has no /dev/fuse" >&2; return 1; }
    mount_tmpfs
    mkdir -p "$base/fuse"
    # Requests of 128 KiB, as file systems of today take them; bindfs of Debian 12 would cut writes into pages.
    bindfs -f -o big_writes "$base/memory" "$base/fuse" &
    server=$!
    mounted+=("$base/fuse")
    local attempt
    for attempt in {1..100}; do
        ! mountpoint -q "$base/fuse" || return 0
        sleep 0.1
    done
    echo "file_systems: bindfs has not mounted within ${attempt}00 ms" >&2
    return 1
}

failed=no
for system in ${systems//,/ }; do
    case $system in
        overlay | fuse) ;;
        *) echo "file_systems: there is no '$system' here" >&2; exit 2 ;;
    esac
    printf '### %s\n\n' "$system"
    if "mount_$system"; then
        FIGURES=sampling-$system.jsonl "$here/sampling_figures.sh" --directory "$base/$system" --output "$output" --ranks "$ranks" \
            --seconds-max "$seconds_max" -- "$@" || failed=yes
    else
        failed=yes
    fi
    unmount_all
done
[ $failed = no ]
