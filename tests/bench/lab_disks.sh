#!/usr/bin/env bash
# Five scratch disks on one Linux machine: ext2, ext4, XFS and Btrfs on loop devices with direct I/O and a bandwidth limit
# each, and tmpfs; the command runs once on each, under a memory limit, so that its scratch does not stay in the page cache.
#
# Needs root. `./dev lab-disks` calls it; what stands in its way it names. Everything it makes is gone when it ends, however it
# ends short of SIGKILL; what a killed one left, the next one (or `clean`) removes.
set -euo pipefail

usage() {
    cat <<'TEXT'
Usage: lab_disks.sh [OPTIONS] COMMAND [ARGUMENT...]
       lab_disks.sh clean

COMMAND runs once for each disk. In its arguments {} stands for the directory, {label} for the file system's name and {limit} for a
program that runs its own arguments under the memory limit; without that word the whole command is limited.

  --rate MB         bandwidth of each disk in 10^6 bytes a second, reading and writing (60)
  --size MB         size of each disk (1600)
  --memory MB       memory limit of the command, page cache included (160); on tmpfs, which is memory, the disk's size is added
  --disks LIST      of ext2,ext4,xfs,btrfs,tmpfs (all)
  --directory DIR   where the disks' files lie (./lab-disks); its device must be faster than the limit
TEXT
}

die() {
    printf 'lab-disks: %s\n' "$*" >&2
    exit 1
}

rate_mb=60 size_mb=1600 memory_mb=160 disks=ext2,ext4,xfs,btrfs,tmpfs directory=$PWD/lab-disks
clean_only=no
while [ $# -gt 0 ]; do
    case $1 in
        --rate) rate_mb=$2 ;;
        --size) size_mb=$2 ;;
        --memory) memory_mb=$2 ;;
        --disks) disks=$2 ;;
        --directory) directory=$2 ;;
        clean) clean_only=yes; shift; break ;;
        -h | --help) usage; exit 0 ;;
        --) shift; break ;;
        -*) usage >&2; exit 2 ;;
        *) break ;;
    esac
    shift 2
done
[ $clean_only = yes ] || [ $# -gt 0 ] || { usage >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || die "needs root: it mounts file systems"
mkdir -p "$directory"
directory=$(cd "$directory" && pwd -P)

# Where this kernel takes limits: version 1 of control groups has a file a controller, version 2 a group for all.
blkio=/sys/fs/cgroup/blkio memory=/sys/fs/cgroup/memory unified=/sys/fs/cgroup
group_name=afflux-lab-disks
if [ -w "$blkio/blkio.throttle.read_bps_device" ] && [ -w "$memory/cgroup.procs" ]; then
    version=1
elif [ -f "$unified/cgroup.controllers" ] && grep -qw io "$unified/cgroup.controllers" && grep -qw memory "$unified/cgroup.controllers"; then
    version=2
else
    die "no control groups that limit devices and memory (blkio and memory of version 1, or io and memory of version 2)"
fi

# limit_device NUMBERS BYTES_PER_SECOND: 0 takes the limit away. With version 1 write-back is the root group's and so is the
# limit: it holds for the device, whoever uses it. With version 2 write-back is charged to who made the pages dirty.
limit_device() {
    if [ $version = 1 ]; then
        echo "$1 $2" >"$blkio/blkio.throttle.read_bps_device"
        echo "$1 $2" >"$blkio/blkio.throttle.write_bps_device"
    elif [ -d "$unified/$group_name" ]; then
        local limit=$2
        [ "$limit" -gt 0 ] || limit=max
        echo "$1 rbps=$limit wbps=$limit" >"$unified/$group_name/io.max"
    fi
}

# limit_dirty NUMBERS BYTES: no more pages wait for write-back to the device than that; 0 takes the limit away. Groups of version 1
# do not hold back who makes pages dirty: without this XFS and Btrfs run out of memory instead of waiting for their disk.
limit_dirty() {
    local info=/sys/class/bdi/$1
    [ -w "$info/max_bytes" ] && [ -w "$info/strict_limit" ] || return 0
    if [ "$2" -gt 0 ]; then
        echo 1 >"$info/strict_limit"
        echo "$2" >"$info/max_bytes"
    else
        echo 0 >"$info/strict_limit"
        echo 100 >"$info/max_ratio"
    fi
}

group_directory() {
    if [ $version = 1 ]; then printf '%s/%s' "$memory" "$group_name"; else printf '%s/%s' "$unified" "$group_name"; fi
}

make_group() {
    if [ $version = 2 ]; then echo "+io +memory" >"$unified/cgroup.subtree_control"; fi
    mkdir "$(group_directory)"
}

limit_memory() {
    local file=memory.max
    [ $version = 1 ] && file=memory.limit_in_bytes
    echo $(($1 * 1000000)) >"$(group_directory)/$file"
}

# Everything that may be there is taken away; what is not there is no fault.
clean() {
    trap '' INT TERM HUP
    local group pid mount_point device numbers
    group=$(group_directory)
    if [ -d "$group" ]; then
        while read -r pid; do kill -KILL "$pid" 2>/dev/null || true; done <"$group/cgroup.procs"
        for _ in $(seq 50); do rmdir "$group" 2>/dev/null && break || sleep 0.1; done
    fi
    while read -r mount_point; do
        umount "$mount_point" 2>/dev/null || umount -l "$mount_point" || true
    done < <(awk -v under="$directory/" 'index($2, under) == 1 { print $2 }' /proc/mounts | sort -r)
    for device in $(losetup --list --noheadings --output NAME,BACK-FILE | awk -v under="$directory/" 'index($2, under) == 1 { print $1 }'); do
        numbers=$(cat "/sys/block/${device#/dev/}/dev")
        [ $version = 2 ] || limit_device "$numbers" 0 || true
        limit_dirty "$numbers" 0 || true
        losetup --detach "$device" || true
    done
    rm -f "$directory"/*.disk "$directory/limited"
    rmdir "$directory"/mounts/* "$directory"/mounts "$directory" 2>/dev/null || true
}

if [ $clean_only = yes ]; then
    clean
    exit 0
fi
for tool in losetup mkfs.ext2 mkfs.ext4 mkfs.xfs mkfs.btrfs; do
    command -v "$tool" >/dev/null || die "$tool is missing; on Debian: apt-get install e2fsprogs xfsprogs btrfs-progs mount"
done
clean
mkdir -p "$directory/mounts"
trap 'status=$?; clean; exit $status' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# make_disk KIND: a file system on a loop device past the host's page cache, or tmpfs.
make_disk() {
    local kind=$1 mount_point=$directory/mounts/$1 file=$directory/$1.disk device
    mkdir "$mount_point"
    if [ "$kind" = tmpfs ]; then
        mount -t tmpfs -o "size=${size_mb}000000" tmpfs "$mount_point"
        return
    fi
    # Allocated beforehand: holes would be filled through the host's file system while we measure.
    fallocate -l "${size_mb}000000" "$file"
    case $kind in
        ext2 | ext4) "mkfs.$kind" -q -F -E nodiscard "$file" ;;
        xfs) mkfs.xfs -q -f -K "$file" ;;
        btrfs) mkfs.btrfs -q -f -K "$file" ;;
        *) die "no file system $kind here" ;;
    esac
    device=$(losetup --find --show --direct-io=on "$file")
    mount -t "$kind" -o noatime "$device" "$mount_point"
    numbers_of[$kind]=$(cat "/sys/block/${device#/dev/}/dev")
    [ $version = 2 ] || limit_device "${numbers_of[$kind]}" $((rate_mb * 1000000))
    # Btrfs keeps account of its pages under a name of its own.
    if [ "$kind" = btrfs ]; then
        for info in /sys/class/bdi/btrfs-*; do limit_dirty "${info##*/}" $((memory_mb * 1000000 / 8)); done
    else
        limit_dirty "${numbers_of[$kind]}" $((memory_mb * 1000000 / 8))
    fi
}

# A shell that enters the group and becomes the command, so that all it starts is limited.
# shellcheck disable=SC2016  # expanded by the shell that is written
printf '#!/bin/sh\necho $$ >"%s/cgroup.procs" && exec "$@"\n' "$(group_directory)" >"$directory/limited"
chmod +x "$directory/limited"

declare -A numbers_of
status=0
for kind in ${disks//,/ }; do make_disk "$kind"; done
for kind in ${disks//,/ }; do
    limit_mb=$memory_mb
    [ "$kind" = tmpfs ] && limit_mb=$((memory_mb + size_mb))
    make_group
    limit_memory $limit_mb
    if [ $version = 2 ] && [ "$kind" != tmpfs ]; then limit_device "${numbers_of[$kind]}" $((rate_mb * 1000000)); fi
    words=()
    has_limit=no
    for word in "$@"; do
        [[ $word == *'{limit}'* ]] && has_limit=yes
        word=${word//'{label}'/$kind}
        word=${word//'{limit}'/$directory/limited}
        words+=("${word//'{}'/$directory/mounts/$kind}")
    done
    [ $has_limit = yes ] || words=("$directory/limited" "${words[@]}")
    sync
    echo 3 >/proc/sys/vm/drop_caches
    printf 'lab-disks: %s, %s MB/s, memory limit %s MB\n' "$kind" "$([ "$kind" = tmpfs ] && echo unlimited || echo "$rate_mb")" $limit_mb >&2
    # In the background, since a shell that waits for a command in the foreground hears no signal.
    "${words[@]}" &
    command_status=0
    wait $! || command_status=$?
    [ $command_status -eq 0 ] || status=$command_status
    while ! rmdir "$(group_directory)" 2>/dev/null; do sleep 0.05; done
done
exit $status
