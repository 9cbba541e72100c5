#!/usr/bin/env bash
# `bench comm` against outside tools in one run: lmbench for pipes, Unix and TCP sockets, NetPIPE for Open MPI.
#
#   AFFLUX=target/release/afflux tests/bench/compare_comm.sh [ROUNDS]
#
# lmbench is Debian's `lmbench` (section non-free), NetPIPE its `netpipe-openmpi`; what is not there is passed over, but one must be.
# Conditions are the same for both: lmbench and its counterparts run on processor 0 (a pair that the scheduler may move has two
# latencies, and no tool says which it measured), MPI on processors 0 and 1; calls block; messages of the bandwidths have
# 64 KiB. NetPIPE tells the best of its trials, so ours is the smallest sample there, elsewhere the median, as lmbench's.
#
# Each figure is taken by one tool, then at once by the other, ROUNDS times: what else the machine does changes its speed from second to
# second, and for both alike; as root both run at raised priority. Prints a row a figure: medians over the rounds, and the median of the rounds' ratios, which
# is what must be within 10 %; exits with 1 if one is not.
set -uo pipefail
export LC_ALL=C

afflux=${AFFLUX:?AFFLUX names the command under test}
rounds=${1:-11}
lmbench=${LMBENCH:-$(echo /usr/lib/lmbench/bin/*/)}
work=$(mktemp -d)
stop() {
    if [ "$have_lmbench" = yes ]; then
        for tool in lat_tcp bw_tcp; do timeout 10 "$lmbench/$tool" -S 127.0.0.1 >/dev/null 2>&1; done
    fi
    rm -rf "$work"
}
have_lmbench=no have_netpipe=no
trap stop EXIT
trap 'exit 143' TERM INT HUP
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_pml=ob1 OMPI_MCA_btl=vader,self
priority=()
[ "$(id -u)" -ne 0 ] || priority=(nice -n -20)
# Without these lmbench spends seconds of each run on finding out how long a run must be (in us), and what its loop costs.
export ENOUGH=20000 TIMING_O=0 LOOP_O=0

# theirs FIGURE COMMAND...: the number before the unit at the end of what lmbench says.
theirs() {
    local figure=$1 value
    shift
    value=$(timeout 60 "${priority[@]}" taskset -c 0 "$@" 2>&1 </dev/null | sed -nE 's/^(.*[: ])?([0-9.]+) (microseconds|MB\/sec)$/\2/p' | tail -1)
    echo "$figure theirs ${value:-nan}" >>"$work/samples"
}

# ours FIGURE PLACEMENT MECHANISM MEASURE BYTES KEY: one figure of `bench comm`, in us or MB/s.
ours() {
    timeout 120 "${priority[@]}" "$afflux" bench comm --placements "$2" --mechanisms "$3" --sizes "$5" --repetitions 5 --json 2>/dev/null </dev/null |
        python3 -c '
import json, sys
figure, measure, bytes, key = sys.argv[1:]
for line in sys.stdin:
    row = json.loads(line)
    # The missing rows of other MPIs carry no such measure.
    if row["measure"] == measure and row["bytes"] == int(bytes) and row.get("mpi", "Open MPI").startswith("Open MPI"):
        print(figure, "ours", row[key] * (1e-6 if "per_second" in key else 1e6))
' "$1" "$4" "$5" "$6" >>"$work/samples"
}

# netpipe FIGURE BYTES: a round trip in us, from the time one way that it writes in seconds.
netpipe() {
    (cd "$work" && rm -f np.out && timeout 120 "${priority[@]}" mpirun.openmpi -n 2 --bind-to core NPopenmpi -l "$2" -u "$2" -p 0 >/dev/null 2>&1 </dev/null)
    awk -v figure="$1" -v bytes="$2" '$1 == bytes { print figure, "theirs", $3 * 2e6 }' "$work/np.out" >>"$work/samples"
}

if [ -x "$lmbench/lat_pipe" ]; then
    have_lmbench=yes
    # Each goes on by itself as a server, and is told to end by `-S`.
    for tool in lat_tcp bw_tcp; do "${priority[@]}" taskset -c 0 "$lmbench/$tool" -s >/dev/null 2>&1 </dev/null; done
    sleep 0.3
fi
if command -v NPopenmpi >/dev/null && command -v mpirun.openmpi >/dev/null; then have_netpipe=yes; fi
if [ $have_lmbench$have_netpipe = nono ]; then
    echo "compare_comm: neither lmbench nor NetPIPE is here; on Debian: apt-get install lmbench (non-free) netpipe-openmpi" >&2
    exit 1
fi
latency=round_trip_seconds_median bandwidth=one_way_bytes_per_second_median
for _ in $(seq "$rounds"); do
    if [ $have_lmbench = yes ]; then
        theirs pipe-latency "$lmbench/lat_pipe"
        ours pipe-latency one-processor pipe round-trip 1 $latency
        theirs unix-stream-latency "$lmbench/lat_unix"
        ours unix-stream-latency one-processor unix-stream round-trip 1 $latency
        theirs tcp-latency "$lmbench/lat_tcp" 127.0.0.1
        ours tcp-latency one-processor tcp round-trip 1 $latency
        theirs pipe-bandwidth "$lmbench/bw_pipe" -m 65536
        ours pipe-bandwidth one-processor pipe stream 65536 $bandwidth
        theirs unix-stream-bandwidth "$lmbench/bw_unix" -m 65536
        ours unix-stream-bandwidth one-processor unix-stream stream 65536 $bandwidth
        theirs tcp-bandwidth "$lmbench/bw_tcp" -m 65536 -W 100000 127.0.0.1
        ours tcp-bandwidth one-processor tcp stream 65536 $bandwidth
    fi
    if [ $have_netpipe = yes ]; then
        netpipe mpi-latency 1
        ours mpi-latency two-processors mpi-shared round-trip 1 round_trip_seconds_min
        netpipe mpi-64KiB 65536
        ours mpi-64KiB two-processors mpi-shared round-trip 65536 round_trip_seconds_min
    fi
done
python3 - "$work/samples" <<'PYTHON'
import collections, statistics, sys
samples = collections.defaultdict(lambda: collections.defaultdict(list))
for line in open(sys.argv[1]):
    figure, whose, value = line.split()
    samples[figure][whose].append(float(value))
print(f"{'figure':22} {'unit':>5} {'ours':>10} {'theirs':>10} {'ours/theirs':>12} {'(from':>7} {'to)':>6}  rounds")
outside = 0
for figure, both in samples.items():
    ours, theirs = both["ours"], both["theirs"]
    ratios = sorted(a / b for a, b in zip(ours, theirs) if a > 0 and b > 0)
    whole = len(ours) == len(theirs) == len(ratios)
    ratio = statistics.median(ratios) if ratios else float("nan")
    agrees = whole and 0.9 <= ratio <= 1.1
    outside += not agrees
    medians = [statistics.median(values or [float("nan")]) for values in (ours, theirs)]
    print(f"{figure:22} {'MB/s' if 'bandwidth' in figure else 'us':>5} {medians[0]:10.2f} {medians[1]:10.2f} {ratio:12.3f} "
          f"{min(ratios, default=0):7.2f} {max(ratios, default=0):6.2f}  {len(ratios)}{'' if agrees else '  differs'}")
print("Latencies and mpi-64KiB: round trips; bandwidths: one way in messages of 64 KiB, 1 MB is 1,000,000 bytes.")
print("all within 10 %" if not outside else f"{outside} of {len(samples)} differ by more than 10 %")
sys.exit(1 if outside else 0)
PYTHON
