"""The pairs of background.sh: runs them, prints the medians of their ratios and where the time of a sampled run goes."""
import argparse
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

MODEL = """
title = "What sampling costs"
steps = {steps}
[grid]
cells = [{cells}, {cells}, {cells}]
cell_size = 0.005
[boundaries]
all = "cpml"
[cpml]
thickness = 8
[[sources]]
position = [{middle}, {middle}, {middle}]
axis = "z"
amplitude = 0.05
waveform = {{ kind = "modulated", frequency = 3e9, width = 0.15e-9, delay = 0.6e-9 }}
[[probes]]
grid = "{points}"
region = {{ min = [{low}, {low}, {low}], max = [{high}, {high}, {high}] }}
fields = ["Ex", "Ey", "Ez", "Hz"]
type = "f64"
[output]
window_steps = 100
"""

# Process CPU and wall time with sampling over those without.
GOAL = 1.02
# A run that takes longer than this hangs.
SECONDS_MAX = 900


def parse():
    parser = argparse.ArgumentParser(prog="background.sh")
    parser.add_argument("--pairs", type=int, default=11, help="pairs of runs, after one that is not counted")
    parser.add_argument("--steps", type=int, default=350)
    parser.add_argument("--cells", type=int, default=100, help="along each axis")
    parser.add_argument("--points", default="8x8x16", help="the grid of probes")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--mpi", action="store_true", help="ranks are processes of mpirun, not threads")
    parser.add_argument("--directory", default=".", help="an existing directory on the file system to measure")
    return parser.parse_args()


def run(command):
    """The wall and processor seconds of a command and its children, and what it printed as JSON."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=SECONDS_MAX, check=False)
    wall, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"background: {' '.join(command)} exited with {done.returncode}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, used, json.loads(done.stdout)


def print_phases(reports):
    """Medians of each phase over the sampled runs."""
    whole = statistics.median(report["seconds_sampling"] for report in reports)
    print(f"of a sampled run, on rank 0: {whole * 1e3:.2f} ms for samples; of them")
    for phase in reports[-1]["phases"]:
        median = statistics.median(report["phases"][phase] for report in reports)
        print(f"  {phase.removesuffix('_seconds'):<10} {median * 1e3:8.2f} ms")


def main():
    options = parse()
    # So that what was made goes with us, the run under way included.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    directory = tempfile.mkdtemp(prefix="afflux-background-", dir=options.directory)
    try:
        model, out = os.path.join(directory, "model.toml"), os.path.join(directory, "run.nc")
        # Probes stay clear of the absorbing layers, eight cells deep.
        size = options.cells * 0.005
        with open(model, "w", encoding="utf-8") as file:
            file.write(MODEL.format(steps=options.steps, cells=options.cells, points=options.points, middle=size / 2 + 0.0025,
                                    low=0.05, high=size - 0.05))
        solver = [os.environ["AFFLUX"], "fdtd", model, "--json"]
        if options.mpi:
            solver = [os.environ.get("MPIRUN", "mpirun"), "-n", str(options.ranks), *solver]
        else:
            solver += ["--ranks", str(options.ranks)]
        ways = {"bare": [*solver, "--no-sampling"], "sampled": [*solver, "--out", out, "--replace"]}
        walls, cpus, reports, bare_seconds = [], [], [], []
        for pair in range(options.pairs + 1):
            # Either goes first in turn: what a run leaves in the caches is the next one's.
            order = ["bare", "sampled"] if pair % 2 else ["sampled", "bare"]
            result = {way: run(ways[way]) for way in order}
            if pair == 0:
                continue
            walls.append(result["sampled"][0] / result["bare"][0])
            cpus.append(result["sampled"][1] / result["bare"][1])
            bare_seconds.append(result["bare"][:2])
            reports.append(result["sampled"][2])
    finally:
        shutil.rmtree(directory)
    kind = "processes" if options.mpi else "threads"
    wall, cpu = (statistics.median(seconds) for seconds in zip(*bare_seconds))
    print(f"{options.cells}^3 cells, {options.steps} steps, {options.points} points, {options.ranks} ranks ({kind}), "
          f"{len(walls)} pairs; without sampling {wall:.2f} s wall, {cpu:.2f} s processor")
    missed = False
    for name, ratios in (("wall", walls), ("processor", cpus)):
        median = statistics.median(ratios)
        missed |= median > GOAL
        verdict = "reached" if median <= GOAL else "missed"
        print(f"{name}: sampled / bare, median {median:.4f} (at most {GOAL}: {verdict}); "
              f"all {' '.join(f'{ratio:.3f}' for ratio in sorted(ratios))}")
    print_phases(reports)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
