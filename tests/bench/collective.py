#!/usr/bin/env python3
"""HPIO's patterns through Afflux, MPI-IO, an exchange by hand and the limit: launches, JSON lines, a table with the goals.

    collective.py run --hpio PROGRAM --mpiio PROGRAM --dir DIR[,DIR] [--launches N] > figures.jsonl
    collective.py table figures.jsonl

`run` launches each engine in alternation, N times each, and every launch goes through all patterns, so that a machine that slows
down slows all of them; the order turns round with every launch. The programs compare every byte, holes included, and a launch that
finds a wrong one ends all. `table` prints Markdown: medians in MB/s of payload, their 95 % interval (order statistics) for Afflux,
the ratio to the better of ROMIO and OMPIO, the fraction of the limit, and whether the goal is reached. Losing rows are printed.
"""

import argparse
import collections
import datetime
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time

PATTERNS = ["c-c", "nc-c", "c-nc", "nc-nc"]
REGIONS = [(8, 524288), (64, 65536), (1024, 8192), (65536, 256)]
SPACES = [0, 128]
DENSE_GOALS = {8: 15.0, 64: 6.0, 1024: 1.3}
GAP_GOALS = {8: 4.0, 64: 2.5, 1024: 1.2}
OTHER_GOAL = 0.95
LAUNCH_SECONDS_MAX = 300


def goal(pattern, region, space):
    """How many times the better MPI-IO Afflux is to be."""
    if not pattern.endswith("-nc"):
        return OTHER_GOAL
    return (GAP_GOALS if space else DENSE_GOALS).get(region, OTHER_GOAL)


def engines(arguments):
    """Name, words before the program, words that start its arguments, for each engine."""
    afflux, others = [arguments.hpio], [arguments.mpiio]
    found = [("afflux", [], afflux)]
    if arguments.family == "openmpi":
        found.append(("romio", ["--mca", "io", "romio321"], others + ["mpiio"]))
        found.append(("ompio", ["--mca", "io", "ompio"], others + ["mpiio"]))
    else:
        found.append(("romio", [], others + ["mpiio"]))
    found += [("alltoallv", [], others + ["alltoallv"]), ("limit", [], others + ["limit"])]
    return [engine for engine in found if engine[0] in arguments.engines.split(",")]


def mpi(arguments):
    said = subprocess.run([arguments.launcher, "--version"], capture_output=True, text=True, check=True).stdout
    version = next((word for word in said.replace("\n", " ").split() if word[0].isdigit()), "")
    return ("Open MPI " if arguments.family == "openmpi" else "MPICH ") + version


def launch(arguments, engine, directory):
    """One launch through all patterns: lists of words, one a line."""
    _, before, program = engine
    words = [arguments.launcher, "-n", str(arguments.ranks)]
    if arguments.family == "openmpi":
        words += ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
    regions = [(region, count) for region, count in REGIONS if str(region) in arguments.regions.split(",")]
    words += before + program + [
        os.path.join(directory, f"afflux-collective-{os.getpid()}.dat"),
        arguments.patterns,
        ",".join(str(region) for region, _ in regions),
        ",".join(str(max(1, count // arguments.shrink)) for _, count in regions),
        arguments.spaces,
        "1",
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LAUNCH_SECONDS_MAX, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr}")
    return [line.split() for line in done.stdout.splitlines() if line.startswith(("write ", "read "))]


def file_system(directory):
    return subprocess.run(["stat", "-f", "-c", "%T", directory], capture_output=True, text=True, check=True).stdout.strip()


def median_interval(samples):
    """The 95 % interval of the median by order statistics; the whole range where there are fewer than six samples."""
    ordered, count, below, rank = sorted(samples), len(samples), 0.0, 0
    while rank < count // 2 and below + math.comb(count, rank) / 2**count <= 0.025:
        below += math.comb(count, rank) / 2**count
        rank += 1
    rank = max(rank - 1, 0)
    return ordered[rank], ordered[count - 1 - rank]


def run(arguments):
    samples, work = collections.defaultdict(list), {}
    chosen, name = engines(arguments), mpi(arguments)
    for directory in arguments.dir.split(","):
        begin = time.monotonic()
        for turn in range(arguments.launches):
            # Another turn only if it will end in time by the mean of those before.
            if turn and (time.monotonic() - begin) * (turn + 1) / turn > arguments.seconds_max:
                print(f"{directory}: ends after {turn} launches, {arguments.seconds_max:g} s are over", file=sys.stderr)
                break
            for engine in chosen if turn % 2 == 0 else reversed(chosen):
                for line in launch(arguments, engine, directory):
                    key = (directory, engine[0], *line[:7])
                    samples[key].append(float(line[7]))
                    work[key] = line[8:]
                print(f"{directory}: launch {turn + 1} of {arguments.launches}, {engine[0]}", file=sys.stderr)
    host = {"name": platform.node(), "cores": os.cpu_count(), "kernel": platform.release()}
    for key, seconds in samples.items():
        directory, engine, operation, pattern, ranks, region, count, space, bytes_moved = key
        low, high = median_interval(seconds)
        median = statistics.median(seconds)
        record = {
            "benchmark": "collective", "engine": engine, "mpi": name, "pattern": pattern, "ranks": int(ranks),
            "region_bytes": int(region), "region_count": int(count), "region_space_bytes": int(space),
            "operation": operation, "bytes": int(bytes_moved), "seconds_median": median, "seconds_median_low": low,
            "seconds_median_high": high, "seconds_min": min(seconds), "repetitions": len(seconds),
            "samples_seconds": seconds, "bytes_per_second": int(bytes_moved) / median, "verified": True, "fsync": False,
            "file_system": file_system(directory), "host": host, "load_average": os.getloadavg()[0],
            "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        }
        if work[key]:
            method, copied, described, messages = work[key]
            record |= {
                "method": method, "copies_per_byte": int(copied) / int(bytes_moved),
                "description_bytes": int(described), "messages": int(messages),
            }
        print(json.dumps(record), flush=True)


def table(arguments):
    with open(arguments.figures, encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    rows = collections.defaultdict(dict)
    for record in records:
        place = (record["file_system"], record["mpi"], record["operation"], record["region_space_bytes"], record["pattern"])
        rows[(*place, record["region_bytes"])][record["engine"]] = record
    reached = total = 0
    heading = None
    for (system, name, operation, space, pattern, region), found in rows.items():
        if heading != (system, name):
            heading = (system, name)
            print(f"\n{name}, file in {system}, MB/s:\n")
            print("| operation | space | pattern | region | Afflux (95 %) | ROMIO | OMPIO | by hand | limit "
                  "| / better | goal | | / limit | copies | description |")
            print("|" + "---|" * 15)
        rate = {engine: record["bytes"] / record["seconds_median"] / 1e6 for engine, record in found.items()}
        if "afflux" not in rate:
            continue
        own = found["afflux"]
        slow, fast = (own["bytes"] / own[key] / 1e6 for key in ("seconds_median_high", "seconds_median_low"))
        others = [rate[engine] for engine in ("romio", "ompio") if engine in rate]
        ratio, wanted = (rate["afflux"] / max(others) if others else math.nan), goal(pattern, region, space)
        total += 1
        reached += ratio >= wanted
        shown = [f"{rate[engine]:,.0f}" if engine in rate else "" for engine in ("romio", "ompio", "alltoallv", "limit")]
        part = f"{rate['afflux'] / rate['limit']:.2f}" if "limit" in rate else ""
        print(f"| {operation} | {space} | {pattern} | {region:,} | {rate['afflux']:,.0f} ({slow:,.0f}-{fast:,.0f}) | "
              f"{' | '.join(shown)} | {ratio:.2f} | {wanted:g} | {'' if ratio >= wanted else '**missed**'} | {part} | "
              f"{own.get('copies_per_byte', math.nan):.2f} | {own.get('description_bytes', 0):,} |")
    print(f"\n{reached} of {total} goals reached.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    runs = commands.add_parser("run", help="launch and print JSON lines")
    runs.set_defaults(do=run)
    runs.add_argument("--hpio", required=True, help="examples/hpio of afflux-collective, built with MPI")
    runs.add_argument("--mpiio", required=True, help="mpiio_hpio, built with the same MPI")
    runs.add_argument("--dir", required=True, help="directories of the file, with commas")
    runs.add_argument("--family", choices=["openmpi", "mpich"], default="openmpi")
    runs.add_argument("--launcher", default=None, help="mpirun of the family unless given")
    runs.add_argument("--launches", type=int, default=15)
    runs.add_argument("--seconds-max", type=float, default=570, help="of a directory: fewer launches when it is over")
    runs.add_argument("--ranks", type=int, default=4)
    runs.add_argument("--patterns", default=",".join(PATTERNS))
    runs.add_argument("--regions", default=",".join(str(region) for region, _ in REGIONS))
    runs.add_argument("--spaces", default=",".join(map(str, SPACES)))
    runs.add_argument("--engines", default="afflux,romio,ompio,alltoallv,limit")
    runs.add_argument("--shrink", type=int, default=1, help="divide the counts of regions: for a trial of the script")
    tables = commands.add_parser("table", help="print what run has printed as Markdown")
    tables.set_defaults(do=table)
    tables.add_argument("figures")
    arguments = parser.parse_args()
    if getattr(arguments, "launcher", "") is None:
        arguments.launcher = f"mpirun.{arguments.family}"
    arguments.do(arguments)


if __name__ == "__main__":
    main()
