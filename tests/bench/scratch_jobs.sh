#!/usr/bin/env bash
# The source's question on the lab's disks: the scratch load, and a quantum chemistry job that nobody here wrote. NWChem (Debian's
# package `nwchem`) computes water molecules with all two-electron integrals in a scratch file, written once and read
# in every iteration, as Gaussian does. AFFLUX names the command; results go to OUTPUT (./lab-disks-results).
#
#   scratch_jobs.sh [--waters N] [--load-mb MB, 0 for none] [OPTIONS OF lab_disks.sh]
#
# Four molecules make 0.5 GB of integrals; scratch grows with the fourth power of the number, and so does the time.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd -P)
afflux=${AFFLUX:?AFFLUX names the command}
results=${OUTPUT:-$PWD/lab-disks-results}
waters=4 load_mb=480 options=()
while [ $# -gt 0 ]; do
    case $1 in
        --waters) waters=$2 ;;
        --load-mb) load_mb=$2 ;;
        *) options+=("$1" "$2") ;;
    esac
    shift 2
done
mkdir -p "$results"
rm -f "$results"/*.jsonl "$results"/*.time

# A chain of molecules, 2.9 angstrom apart.
geometry=$(awk -v n="$waters" 'BEGIN { for (i = 0; i < n; i++) {
    y = 2.9 * i
    printf "O 0 %.4f 0.1173\\n", y
    printf "H 0 %.4f -0.4692\\n", y + 0.7572
    printf "H 0.35 %.4f -0.4692\\n", y - 0.7572 } }')
sed "s/@GEOMETRY@/$geometry/" "$here/water.nw.in" >"$results/water.nw"

# Exact waits for devices; on for the whole session, since a switch under way garbles the waits of that moment.
accounting=/proc/sys/kernel/task_delayacct
if [ -w $accounting ]; then
    accounting_before=$(cat $accounting)
    trap 'echo "$accounting_before" >$accounting' EXIT
    trap 'exit 143' TERM INT HUP
    echo 1 >$accounting
fi

in_lab() { "$here/lab_disks.sh" "${options[@]}" "$@"; }

if [ "$load_mb" -gt 0 ]; then
    echo "== the scratch load: $load_mb MB written once, read 15 times"
    # Without warm-up, once: the load is fifteen passes long as it is.
    in_lab "$afflux" profile --name "scratch load" --labels '{label}' -o "$results/load-{label}.jsonl" --compare '{}' -- \
        '{limit}' "$afflux" bench storage --tests scratch --scratch-size "${load_mb}m" --warmups 0 --repetitions 1 --compute 4 \
        --seconds-max 100000 --labels '{label}' --json '{}' >"$results/load.jsonl" 2>"$results/load.txt" ||
        { tail -n 20 "$results/load.txt"; exit 1; }
fi

if command -v nwchem >/dev/null; then
    echo "== NWChem: $waters water molecules"
    # Its MPI runs as one process; as root it asks to be told so.
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1
    timed=()
    [ -x /usr/bin/time ] && timed=(/usr/bin/time -v -o "$results/nwchem-{label}.time")
    # shellcheck disable=SC2016  # expanded by the shell in the scratch directory
    in_lab "$afflux" profile --name NWChem --labels '{label}' -o "$results/nwchem-{label}.jsonl" \
        --job-output "$results/nwchem-{label}.log" --compare '{}' -- \
        '{limit}' "${timed[@]}" sh -c 'cd "$1" && cp "$2/water.nw" . && nwchem water.nw >"$3" 2>&1' \
        _ '{}' "$results" "$results/nwchem-{label}.log" 2>"$results/nwchem.txt" || { tail -n 20 "$results/nwchem.txt"; exit 1; }
else
    echo "== NWChem is not installed (apt-get install nwchem); only the load was measured"
fi
cat "$results"/load-*.jsonl "$results"/nwchem-*.jsonl >"$results/all.jsonl" 2>/dev/null || true
"$afflux" profile --table "$results/all.jsonl"
python3 "$here/check_scratch_jobs.py" "$results"
