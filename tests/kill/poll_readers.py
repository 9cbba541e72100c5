"""Readers that open a file as fast as they can, while runs write it, are killed, go on, close and start again.

  poll_readers.py AFFLUX MINUTES [--seed N]

One process writes lives of `afflux synth` into one file: each goes on where the last one ended, is killed (SIGKILL) at a random
moment or comes to its close, and now and then a new file takes the place of the old one. Beside it poll h5py, both engines of xarray, ncdump
and our own reader (`info`, `export`, `verify`). Every value that a reader gets is compared with the hash that synth writes; the row of step s is
row s, so a row that is missing, doubled or swapped is a wrong value too. Our own reader must show no step but sealed ones, and never fewer of one file
than before.

Two things are counted apart, for they are plain libraries' and docs/SEMANTICS.md says when they happen: netCDF-C misplaces the values of a dataset that is
shorter than the longest of its dimension, and HDF5 ("addr overflow") reads nothing beyond the length that the file had when it was opened. netCDF-C
tells of the latter as "HDF error" alone: that counts there if the file opens at the next try, else as an error.

The last lines are a table of opens and errors by reader, and the counts that test runners add up. Exit code 1 if there was any error.
"""

import argparse
import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time

import numpy as np

from plain_reader import bits, first_difference, synth_values

POINTS, VARIABLES, WINDOW = 40, 2, 5
# A new file takes the place of one with so many rows: readers that read all of it shall stay fast.
ROWS_MAX = 4000
# What a plain reader looks at in each dataset.
TAIL_ROWS = 64


class Wrong(Exception):
    """A reader got something that is not what was written."""


class Misplaced(Exception):
    """netCDF-C has put the values of a dataset that is shorter than its dimension in the wrong places (docs/SEMANTICS.md)."""


def check_rows(values, steps, first):
    """Rows from `first` on, of all points, by variable; steps not yet shown are cut off by the caller."""
    expected_steps = np.arange(first, first + len(steps))
    if not np.array_equal(steps, expected_steps):
        raise Wrong(f"steps {steps} instead of {expected_steps}")
    for variable, found in values.items():
        rows = found.shape[-1]
        expected = synth_values(0, np.arange(found.shape[0]), variable, np.arange(first, first + rows), found.dtype)
        if not np.array_equal(bits(np.ascontiguousarray(found)), bits(expected)):
            raise Wrong(f"v{variable} from row {first} on: {first_difference(np.ascontiguousarray(found), expected)}")


def read_h5py(path, _):
    import h5py

    with h5py.File(path, "r", locking=False) as file:
        lengths = {name: file[name].shape[-1] for name in ("step", "time", "v0", "v1")}
        first = max(0, min(lengths.values()) - TAIL_ROWS)
        values = {variable: file[f"v{variable}"][:, first : lengths[f"v{variable}"]] for variable in range(VARIABLES)}
        check_rows(values, file["step"][first : lengths["step"]], first)


def read_xarray(path, engine):
    import xarray

    with xarray.open_dataset(path, engine=engine, decode_times=False, mask_and_scale=False) as data:
        rows = data.sizes["time"]
        first = max(0, rows - TAIL_ROWS)
        steps = data["step"].values[first:]
        # A dataset that is a window shorter is filled up by the library; what it shows beyond the steps it knows is not looked at.
        known = len(steps) if np.array_equal(steps, np.arange(first, rows)) else int((steps == np.arange(first, rows)).sum())
        if not np.array_equal(steps[:known], np.arange(first, first + known)) or steps[known:].any() and not (steps[known:] < 0).all():
            raise Wrong(f"{engine}: steps {steps} from row {first} on")
        for variable in range(VARIABLES):
            found = data[f"v{variable}"].values[:, first : first + known]
            expected = synth_values(0, np.arange(POINTS), variable, np.arange(first, first + known), found.dtype)
            same = bits(np.ascontiguousarray(found)) == bits(expected)
            # Each dataset is as long as when the library looked at it: of the last rows it may have none, and says so.
            if not (same | is_fill(found)).all():
                if engine == "netcdf4" and is_misplaced(data[f"v{variable}"].values, variable):
                    raise Misplaced
                raise Wrong(f"{engine}: v{variable} from row {first} on: {first_difference(np.ascontiguousarray(found), expected)}")


def is_misplaced(values, variable):
    """Whether netCDF-C has read a dataset that is shorter than the dimension: it puts all rows that there are one behind another,
    and the fill values behind them all, as if the dimension that grows came first."""
    for rows in range(1, values.shape[1]):
        expected = synth_values(0, np.arange(POINTS), variable, np.arange(rows), values.dtype)
        packed = values.reshape(-1)
        if np.array_equal(bits(packed[: expected.size]), bits(expected.reshape(-1))) and is_fill(packed[expected.size :]).all():
            return True
    return False


def is_fill(values):
    return np.isnan(values) | (np.abs(values) > 1e30)


def read_netcdf4(path, _):
    read_xarray(path, "netcdf4")


def read_h5netcdf(path, _):
    read_xarray(path, "h5netcdf")


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if result.returncode != 0:
        raise Wrong(f"{command[0]} ended with {result.returncode}: {(result.stderr or result.stdout).strip()[:300]}")
    return result.stdout


def read_ncdump(path, _):
    text = run("ncdump", "-v", "step", path)
    # A dataset without a row has no part among the data.
    steps = text.split(" step = ")[1].split(";")[0] if " step = " in text else ""
    found = [int(step) for step in steps.replace("\n", " ").split(",") if step.strip() not in ("", "_")]
    if found != list(range(len(found))):
        raise Wrong(f"ncdump: steps are not 0, 1, 2, ...: {found[-10:]}")


def read_info(path, state):
    # Two files may follow each other while we look: fewer rows are wrong only of one and the same.
    inode = os.stat(path).st_ino
    told = json.loads(run(state["afflux"], "info", "--json", path))
    rows, watermark = told["sets"][0]["rows"], told["watermark"]
    if rows != (0 if watermark is None else watermark + 1):
        raise Wrong(f"info: {rows} rows, the watermark is {watermark}")
    if inode == os.stat(path).st_ino:
        if state.get("inode") == inode and rows < state["rows"]:
            raise Wrong(f"info: {rows} rows, {state['rows']} before")
        state["inode"], state["rows"] = inode, rows


def read_export(path, state):
    lines = run(state["afflux"], "export", "--format", "csv", path).splitlines()
    # Set, step and time stand before the values.
    rows = [line.split(",") for line in lines[1:]]
    first = max(0, len(rows) - TAIL_ROWS)
    if not rows:
        return
    steps = np.array([int(row[1]) for row in rows[first:]])
    values = np.array([[float(value) for value in row[3:]] for row in rows[first:]]).T
    # One column a variable and point, in this order.
    check_rows({variable: values[variable * POINTS : (variable + 1) * POINTS] for variable in range(VARIABLES)}, steps, first)


def read_verify(path, state):
    run(state["afflux"], "verify", path, "--synth")


READERS = {
    "h5py": read_h5py,
    "xarray, netcdf4": read_netcdf4,
    "xarray, h5netcdf": read_h5netcdf,
    "ncdump": read_ncdump,
    "afflux info": read_info,
    "afflux export": read_export,
    "afflux verify": read_verify,
}


def opens_now(name, path, state):
    """Whether the next try succeeds."""
    try:
        READERS[name](path, state)
    except Exception:
        return False
    return True


def poll(name, path, afflux, end, results):
    """Opens until the end; a file that is not there yet is waited for."""
    opens, misplaced, outgrown, errors, state = 0, 0, 0, {}, {"afflux": afflux}
    while time.monotonic() < end:
        if not os.path.exists(path):
            time.sleep(0.001)
            continue
        opens += 1
        try:
            READERS[name](path, state)
        except Misplaced:
            misplaced += 1
        except Exception as error:  # whatever a library makes of the file is a finding
            what = f"{type(error).__name__}: {error}"[:400]
            if not name.startswith("afflux") and ("addr overflow" in what or ("HDF error" in what and opens_now(name, path, state))):
                outgrown += 1
                continue
            errors[what] = errors.get(what, 0) + 1
    results.put((name, opens, misplaced, outgrown, errors))


def write(path, afflux, end, seed):
    """Lives of a run, one after another. Returns how many were killed and came to their close, and how many files there were."""
    chance = random.Random(seed)
    counts = {"killed": 0, "closed": 0, "files": 0}
    errors = {}
    while time.monotonic() < end:
        rows = 0
        if os.path.exists(path):
            rows = json.loads(run(afflux, "info", "--json", path))["sets"][0]["rows"]
        begins = rows == 0 or rows > ROWS_MAX
        start = 0 if begins else rows
        counts["files"] += begins
        closes = chance.random() < 0.5
        steps = chance.randrange(1, 200) if closes else 1_000_000
        command = [afflux, "synth", "--points", str(POINTS), "--variables", str(VARIABLES), "--steps", str(steps), "--ranks", "2",
                   "--window", str(WINDOW), "--step-seconds", chance.choice(["0", "0.0005", "0.002"]), "--start-step", str(start),
                   "--out", path, "--replace" if begins else "--resume"]
        life = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            _, said = life.communicate(timeout=60 if closes else chance.choice([0.03, 0.1, 0.3, 1.0]) * chance.random() + 0.02)
        except subprocess.TimeoutExpired:
            life.kill()
            life.communicate()
            counts["killed"] += 1
            continue
        counts["closed"] += 1
        if life.returncode != 0:
            what = f"the run failed by itself: {said.strip()[:300]}"
            errors[what] = errors.get(what, 0) + 1
    return counts, errors


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("afflux")
    parser.add_argument("minutes", type=float)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    os.environ["HDF5_USE_FILE_LOCKING"] = "FALSE"
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "run.nc")
        end = time.monotonic() + 60 * options.minutes
        results = multiprocessing.Queue()
        arguments = (path, options.afflux, end, results)
        readers = [multiprocessing.Process(target=poll, args=(name, *arguments)) for name in READERS]
        for reader in readers:
            reader.start()
        counts, errors = write(path, options.afflux, end, options.seed)
        found = [("the writer", counts["killed"] + counts["closed"], 0, 0, errors)] + [results.get(timeout=180) for _ in readers]
        for reader in readers:
            reader.join()
    print(f"{options.minutes:g} minutes; {counts['files']} files, {counts['killed']} runs killed, {counts['closed']} closed\n")
    print("| reader | opens | errors | misplaced by netCDF-C | outgrown |\n|---|---|---|---|---|")
    for name, opens, misplaced, outgrown, of_reader in sorted(found):
        print(f"| {name} | {opens:,} | {sum(of_reader.values())} | {misplaced} | {outgrown} |")
    for name, _, _, _, of_reader in sorted(found):
        for what, times in of_reader.items():
            print(f"not ok  {name}: {times} x {what}")
    # A reader that never opened the file proves nothing.
    failed = sum(1 for _, opens, _, _, of_reader in found if of_reader or opens == 0)
    print(f"{len(found) - failed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
