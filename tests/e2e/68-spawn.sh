#!/usr/bin/env bash
# `bench spawn`: every method runs or says why not, 1,000 processes in a row without a stall, rsh and ssh through servers of our own,
# hosts that are dead or silent, the refusal of an MPI, bad input, and nothing left behind.
. "$(dirname "$0")/lib.sh"

# A copy, so that its processes are told from those of others.
cp "$afflux" "$directory/afflux" && afflux=$directory/afflux
export TMPDIR=$directory

# rows FILE PYTHON: an assertion over `rows`, the lines of a file of results.
rows() { python3 -c 'import json, sys; rows = [json.loads(line) for line in open(sys.argv[1])]; exec(sys.argv[2])' "$@" 2>&1; }
# holds NAME FILE PYTHON
holds() {
    local report
    if report=$(rows "$2" "$3"); then ok "$1"; else not_ok "$1" "$report"; fi
}
# spawns FILE ARGUMENTS...: results into a file.
spawns() {
    local file=$1
    shift
    timeout --kill-after=5 300 "$afflux" bench spawn --json "$@" >"$file" 2>errors.txt </dev/null
}

spawns lines.jsonl --repetitions 3 --html page.html --pictures . && ok "bench spawn runs" || not_ok "bench spawn runs" "$(cat errors.txt)"
holds "keys and methods" lines.jsonl '
for row in rows:
    keys = "benchmark method target at_once child measure host command".split()
    keys += ["reason"] if row["measure"] == "absent" else ("spawns failed timed_out call_to_first_byte_seconds_median "
        "call_to_first_byte_seconds_min call_to_first_byte_seconds_p95 call_to_first_byte_samples_seconds "
        "call_to_all_first_bytes_seconds_median spawns_per_second landed complaint").split()
    assert not [key for key in keys if key not in row], row
for method in "fork fork-exec vfork-exec posix-spawn rpc".split():
    for at_once in (1, 4):
        [row] = [r for r in rows if (r["method"], r["at_once"]) == (method, at_once)]
        assert (row["spawns"], row["failed"], row["timed_out"]) == (3 * at_once, 0, 0), row'
grep -q '</html>' page.html && [ -s spawn.svg ] && ok "page and picture" || not_ok "page and picture" "$(ls)"
works "results are shown again" "$afflux" bench spawn --from lines.jsonl --tables
says "as the source's tables" 'Tables 4 and 5'

for method in fork fork-exec vfork-exec posix-spawn namespaces rpc; do
    if [ $method = namespaces ] && [ "$(id -u)" -ne 0 ] && ! unshare --user --net true 2>/dev/null; then
        skip "1,000 times namespaces" "this system gives none"
        continue
    fi
    spawns thousand.jsonl --methods $method --repetitions 1000 --at-once 1 --seconds-max 250
    holds "1,000 times $method, none fails or stalls" thousand.jsonl '
[row] = rows
assert (row["spawns"], row["failed"], row["timed_out"]) == (1000, 0, 0), {k: row[k] for k in ("spawns", "failed", "timed_out", "complaint")}'
done

for mpi in $(mpis); do
    case $mpi in openmpi) name='Open MPI' program=$AFFLUX_OPENMPI ;; mpich) name=MPICH program=$AFFLUX_MPICH ;; esac
    spawns mpi.jsonl --methods mpi-spawn,mpi-spawn-multiple --mpi-program "$program" --repetitions 3 --at-once 1,2
    # Debian's MPICH 4.0.2 refuses to spawn; another may not.
    holds "$name spawns, several at once too, and says where they are, or its refusal is a row" mpi.jsonl "
rows = [row for row in rows if (row['variant'] or '').startswith('$name')]
assert len(rows) == 4, rows
for row in rows:
    if row['failed'] + row['timed_out'] == row['spawns']:
        assert row['complaint'] or row['timed_out'], row
        print(row['complaint'])
    else:
        assert sum(row['landed'].values()) == row['spawns'] - row['failed'] - row['timed_out'], row"
    [ "$name" != MPICH ] || rows mpi.jsonl "print({row['complaint'] for row in rows if row['variant'].startswith('MPICH')})"
done

# Remote shells, in a world of their own.
if [ "$(id -u)" -eq 0 ] && command -v ssh >/dev/null && command -v unshare >/dev/null && [ -x "$(command -v sshd || echo /usr/sbin/sshd)" ]; then
    remote() {
        local scratch
        scratch=$(mktemp -d "$directory/remote.XXXXXX")
        timeout --kill-after=5 110 "$source/tests/bench/virtual_cluster.sh" 2 1gbit "$scratch" "$afflux" bench spawn --json "$@" 2>errors.txt </dev/null
    }
    remote --methods ssh,rsh --repetitions 3 --at-once 1,4 >remote.jsonl
    holds "ssh through a real sshd" remote.jsonl '
for row in rows:
    if row["method"] == "ssh":
        assert row["measure"] == "spawns" and (row["spawns"], row["failed"], row["timed_out"]) == (3 * row["at_once"], 0, 0), row
        assert sum(row["landed"].values()) == row["spawns"], row
assert len(rows) == 4, rows'
    if [ -x "$(command -v in.rshd || echo /usr/sbin/in.rshd)" ] && command -v rsh >/dev/null; then
        holds "rsh through a real rshd" remote.jsonl '
assert len(rows) == 4
for row in rows:
    if row["method"] == "rsh":
        assert row["measure"] == "spawns" and (row["spawns"], row["failed"], row["timed_out"]) == (3 * row["at_once"], 0, 0), row'
    else
        skip "rsh" "no rsh or no in.rshd (rsh-redone-client, rsh-redone-server)"
    fi
    if [ -n "${AFFLUX_OPENMPI:-}" ]; then
        remote --methods mpi-spawn --host n1 --host n2 --repetitions 2 --at-once 1,4 >landed.jsonl
        holds "several processes that MPI spawns at once land on both nodes" landed.jsonl '
[row] = [row for row in rows if row["variant"].startswith("Open MPI") and row["at_once"] == 4]
assert set(row["landed"]) == {"n1", "n2"} and sum(row["landed"].values()) == 8, row'
    fi
    started=$SECONDS
    remote --methods ssh,rpc --host 192.0.2.2 --timeout 1 --at-once 1 --repetitions 30 >silent.jsonl
    holds "a silent host is given up in bounded time" silent.jsonl "
assert len(rows) == 2 and $((SECONDS - started)) < 40, $((SECONDS - started))
for row in rows:
    assert row['failed'] + row['timed_out'] == row['spawns'] <= 3, row
assert [row['timed_out'] for row in rows if row['method'] == 'ssh'] == [3], rows"
    remote --methods ssh,rpc --host 127.0.0.9 --timeout 5 --at-once 1 --repetitions 30 >refused.jsonl
    holds "a host that refuses is a row with its words" refused.jsonl '
assert len(rows) == 2
for row in rows:
    assert row["failed"] == row["spawns"] == 3 and row["complaint"], row'
    started=$SECONDS
    scratch=$(mktemp -d "$directory/remote.XXXXXX")
    works "bench comm with a silent host" "$source/tests/bench/virtual_cluster.sh" 2 1gbit "$scratch" "$afflux" bench comm --json --mechanisms tcp,onc-rpc \
        --placements two-nodes --sizes 1 --host 192.0.2.2 --timeout 2
    says "its rows say so" '"measure":"failed","reason":".*has not answered within 2 s'
    [ $((SECONDS - started)) -lt 30 ] && ok "in bounded time" || not_ok "in bounded time: $((SECONDS - started)) s"
else
    skip "remote shells, dead and silent hosts" "needs root, ssh, sshd and unshare"
fi

found=''
for _ in $(seq 100); do
    found=$(pgrep -af "$afflux bench worker"; ls -d "$directory"/afflux-bench-* 2>/dev/null)
    [ -n "$found" ] || break
    sleep 0.1
done
[ -z "$found" ] && ok "nothing is left" || not_ok "nothing is left" "$found"

exits 2 "no such method" "$afflux" bench spawn --methods stork
exits 2 "none at once" "$afflux" bench spawn --at-once 0
exits 2 "no repetitions" "$afflux" bench spawn --repetitions 0
exits 2 "an empty launcher" "$afflux" bench spawn --methods launcher --launcher ' '
exits 2 "no time" "$afflux" bench spawn --timeout 0
works "a launcher that is not there" "$afflux" bench spawn --methods launcher --launcher 'no-such-launcher {}'
says "is a row" 'there is no no-such-launcher'
works "a command that is not there" "$afflux" bench spawn --methods posix-spawn --child no-such-command
says "is a row too" 'there is no no-such-command'
finish
