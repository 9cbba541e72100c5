#!/usr/bin/env bash
# The figures of docs/MEASURING.md: communication and spawning in the form of the source's tables 1-5 and figures 1-3, on this machine and on a
# virtual cluster, the comparisons with outside tools, and the pictures.
#
#   AFFLUX=target/release/afflux tests/bench/measuring_figures.sh [--quick | --again] [RESULTS]
#
# Takes ten to fifteen minutes; the machine should do nothing else. --quick takes fewer sizes and repetitions, to try it; --again
# measures nothing, but makes tables and pictures of RESULTS. Raw results go to RESULTS (./measuring-results), pictures to docs/images,
# tables into docs/MEASURING.md between its two marks. As root for the virtual cluster (tests/bench/virtual_cluster.sh) with rsh and ssh.
# AFFLUX_MPICH names a build with MPICH. What is missing (fio, lmbench, NetPIPE, Chromium for pictures of the pages) is left out, and said.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)
export AFFLUX=${AFFLUX:?AFFLUX names the command}
rounds=11 repetitions=30 small=1,128,4096 file_mib=512
# Both ends of the range, and what lies where the source sees MPI's plateau (100 B to 10 KB).
sizes=1,16,128,1024,4096,16384,65536,1048576,4194304 largest=,67108864
again=no
if [ "${1:-}" = --again ]; then
    again=yes
    shift
fi
if [ "${1:-}" = --quick ]; then
    shift
    rounds=3 repetitions=10 small=1,1024 file_mib=128 sizes=1,128,1024,4096,65536,1048576 largest=''
fi
results=${1:-$PWD/measuring-results}
mkdir -p "$results"
results=$(cd "$results" && pwd -P)
images=$root/docs/images
say() { printf '== %s: %s\n' "$(date +%H:%M:%S)" "$*" >&2; }
priority=()
[ "$(id -u)" -ne 0 ] || priority=(nice -n -20)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

measure_all() {
    rm -f "$results/load.txt"
    say "communication on this machine"
    # Ranks that wait without sleeping share one processor badly: a message costs them as many time slices as it has fragments, so large
    # ones are left to two processors.
    without_mpi=pipe,fifo,unix-stream,unix-datagram,tcp,tcp-nagle,sysv-queue,posix-queue,shared-spin,shared-futex,vm-read,onc-rpc,thread-ranks,memory-copy
    with_mpi=mpi-shared,mpi-tcp,mpi,mpi-spawned
    measure() { "${priority[@]}" "$AFFLUX" bench comm --repetitions 3 --sample-ms 5 --json "$@" >>"$results/comm.jsonl" 2>>"$results/comm.log"; }
    rm -f "$results"/comm.jsonl "$results"/comm.log
    measure --placements one-processor --mechanisms $without_mpi --sizes $sizes$largest
    measure --placements one-processor --mechanisms $with_mpi --sizes $small --round-trips 1000
    measure --placements two-processors --mechanisms $without_mpi --sizes $sizes$largest
    measure --placements two-processors --mechanisms $with_mpi --sizes $sizes$largest
    say "processes on this machine"
    "${priority[@]}" "$AFFLUX" bench spawn --methods fork,fork-exec,vfork-exec,posix-spawn,namespaces,rpc,mpi-spawn,mpi-spawn-multiple --repetitions $repetitions --json \
        >"$results/spawn.jsonl" 2>"$results/spawn.log"
    if [ "$(id -u)" -eq 0 ]; then
        cluster=("$here/virtual_cluster.sh" 2 1gbit)
        say "communication on a virtual cluster of gigabit links"
        mkdir "$scratch/comm" "$scratch/local" "$scratch/remote"
        # MPI by TCP only: the libraries notice that the nodes are one machine, and would go by its memory.
        "${priority[@]}" "${cluster[@]}" "$scratch/comm" "$AFFLUX" bench comm --host n1 --host n2 --link-mbit 1000 --mechanisms tcp,tcp-nagle,onc-rpc,mpi-tcp \
            --placements two-nodes,two-other-nodes --repetitions 3 --sizes $sizes --json \
            >"$results/comm-nodes.jsonl" 2>"$results/comm-nodes.log"
        say "processes by remote shells, and on the virtual cluster"
        "${priority[@]}" "${cluster[@]}" "$scratch/local" "$AFFLUX" bench spawn --methods rsh,ssh --repetitions $repetitions --json >"$results/spawn-shells.jsonl" 2>"$results/spawn-shells.log"
        "${priority[@]}" "${cluster[@]}" "$scratch/remote" "$AFFLUX" bench spawn --methods rpc,rsh,ssh,mpi-spawn,mpi-spawn-multiple --host n1 --host n2 --repetitions $repetitions --json \
            >"$results/spawn-nodes.jsonl" 2>"$results/spawn-nodes.log"
    else
        say "not root: no virtual cluster, no remote shells"
        for name in comm-nodes spawn-shells spawn-nodes; do : >"$results/$name.jsonl"; done
    fi
    say "comparison with lmbench and NetPIPE"
    "$here/compare_comm.sh" $rounds >"$results/compare-comm.txt" 2>&1 || true
    say "comparison with fio"
    mkdir "$scratch/fio"
    "$here/compare_fio.sh" "$scratch/fio" $file_mib $rounds >"$results/compare-fio.txt" 2>&1 || true
    say "storage"
    "$AFFLUX" bench storage --size 256m --scratch-size 128m --repetitions 3 --labels "this disk" --html "$results/storage.html" "$scratch" \
        >"$results/storage.txt" 2>"$results/storage.log"
    cut -d' ' -f3 /proc/loadavg >"$results/load.txt"
}

[ $again = yes ] || measure_all
say "tables and pictures"
# What is published names no directories of this machine.
sed -Ei 's#(["= ])/[^ ",)]*/#\1#g' "$results"/*.jsonl
comm=(--from "$results/comm.jsonl" --from "$results/comm-nodes.jsonl")
spawn=(--from "$results/spawn.jsonl" --from "$results/spawn-shells.jsonl" --from "$results/spawn-nodes.jsonl")
"$AFFLUX" bench comm "${comm[@]}" --tables --html "$results/comm.html" --pictures "$images" >"$results/comm.md"
"$AFFLUX" bench spawn "${spawn[@]}" --tables --html "$results/spawn.html" --pictures "$images" >"$results/spawn.md"
if command -v chromium >/dev/null; then
    for page in comm:3600 spawn:1500 storage:1500; do
        [ -f "$results/${page%:*}.html" ] || continue
        timeout 200 chromium --headless --no-sandbox --hide-scrollbars --window-size="1400,${page#*:}" \
            --screenshot="$images/bench-${page%:*}.png" "file://$results/${page%:*}.html" >"$results/chromium.log" 2>&1 ||
            say "no picture of the page ${page%:*}: $(tail -1 "$results/chromium.log")"
    done
else
    say "no Chromium: no pictures of the pages"
fi
python3 "$here/measuring_figures.py" "$root/docs/MEASURING.md" "$results"
say "done: docs/MEASURING.md and docs/images, raw results in $results"
