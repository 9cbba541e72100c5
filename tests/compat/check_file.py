"""Opens an Afflux file with the readers that people use, and compares what they show.

usage: python tests/compat/check_file.py FILE [--sealed-only]

h5py, netCDF4 and xarray (both engines) must find the same dimensions, coordinates and values; netCDF4 must be able to append
to a copy; ncdump and h5dump, where they are installed, must print the header; compliance-checker (CF 1.11) must find no
error but those listed in ACCEPTED_ERRORS. With --sealed-only the file may belong to a writer that is at work or was killed:
datasets may then differ in length, only sealed rows are compared, and nothing is appended.

Exit codes: 0 all as it should be, 1 something is not, 2 usage.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")  # before HDF5 is loaded: our writers take another lock

import h5py
import netCDF4
import numpy as np
import xarray as xr

BOOKKEEPING = "afflux"
COORDINATES = ("x", "y", "z", "point_name")
RESERVED = {"point", "time", "step", *COORDINATES}
BLOCK_VALUES = 4 << 20

# Times of a simulation have no epoch unless the user gives one: with `since`, xarray would round picoseconds to dates.
# CF asks for it all the same; the two messages say one thing.
ACCEPTED_ERRORS = (
    r"time must be in a valid units format <unit> since <epoch> not s",
    r"time does not have correct time units",
    # Of files with several groups: compliance-checker 6.1.0 compares the `time` of any two of them. CF 2.7.1 speaks of a variable
    # that refers to one of another group, which ours do not, as the same entry then tells for every coordinate.
    r"Dimensions with the same name must be the same object \(ID\)\.",
    r"/\w+/\w+: '\w+' found in same group",
)
# Warnings are printed, not judged: no `history` since it holds a clock and the file is the same bytes for every run; no
# `calendar` without an epoch; x and y are lengths in a box, which the checker takes for longitude and latitude.


class Checks:
    """Counts what was checked and collects what failed."""

    def __init__(self):
        self.failures = []
        self.count = 0

    def that(self, holds, what):
        self.count += 1
        if not holds:
            self.failures.append(what)
            print(f"FAILED  {what}")
        return bool(holds)

    def step(self, name):
        print(f"checking {name}")

    def run(self, name, check, *arguments):
        """A reader that gives up is a failure as any other; the ones after it still have their turn."""
        try:
            check(self, *arguments)
        except Exception as error:  # each library has its own
            self.that(False, f"{name} reads it: {type(error).__name__}: {error}")


def watermark_of(file):
    """The last sealed step by the newer slot of the seal; None where nothing is sealed."""
    slots = file[BOOKKEEPING]["seal"][...]
    sequence, step_end = max((int(slot[0]), int(slot[1])) for slot in slots)
    return step_end - 1 if sequence and step_end else None


def set_groups(file):
    """Paths of the groups that hold a set."""
    paths = ["/"] if "step" in file else []
    return paths + [f"/{name}" for name, item in file.items() if isinstance(item, h5py.Group) and name != BOOKKEEPING]


def variables_of(group):
    """Names of the sampled variables."""
    return [name for name, item in group.items() if isinstance(item, h5py.Dataset) and item.ndim >= 2]


def same(left, right):
    """Whether two arrays hold the same values; a NaN equals a NaN."""
    left, right = np.asarray(left), np.asarray(right)
    if left.shape != right.shape:
        return False
    if left.dtype.kind == "f" and right.dtype.kind == "f":
        return np.array_equal(left, right, equal_nan=True)
    return np.array_equal(left, right)


def texts(values):
    return [value.decode() if isinstance(value, bytes) else str(value) for value in values]


def blocks(shape):
    """Ranges of points, so that a comparison holds a bounded piece of a variable."""
    per_point = max(1, int(np.prod(shape[1:])))
    points = max(1, BLOCK_VALUES // per_point)
    return [slice(start, min(start + points, shape[0])) for start in range(0, shape[0], points)]


class Reference:
    """One set as h5py shows it: what the others are held against."""

    def __init__(self, group, watermark, sealed_only):
        self.path = group.name
        self.group = group
        steps = group["step"][...]
        self.sealed = 0 if watermark is None else int(np.count_nonzero(steps <= watermark))
        self.rows = self.sealed if sealed_only else len(steps)
        self.variables = variables_of(group)

    def values(self, name, points=slice(None)):
        dataset = self.group[name]
        if dataset.ndim == 1:
            return dataset[: self.rows] if name in ("step", "time") else dataset[...]
        return dataset[points, ..., : self.rows]


def check_with_h5py(checks, reference, sealed_only):
    group = reference.group
    for name in sorted(RESERVED):
        checks.that(name in group, f"{reference.path}: dataset {name} is there")
    points = group["point"].shape[0]
    for name in COORDINATES:
        checks.that(group[name].shape == (points,), f"{reference.path}: {name} has one value a point")
    checks.that(reference.variables, f"{reference.path}: there are variables")
    steps = group["step"][: reference.rows]
    checks.that(bool(np.all(np.diff(steps) > 0)), f"{reference.path}: steps ascend")
    checks.that(bool(np.all(np.diff(group["time"][: reference.rows]) > 0)), f"{reference.path}: times ascend")
    for name in reference.variables + ["time"]:
        rows = group[name].shape[-1]
        enough = rows >= reference.rows if sealed_only else rows == reference.rows
        checks.that(enough, f"{reference.path}: {name} has {rows} rows, {reference.rows} are expected")
        if group[name].ndim > 1:
            checks.that(group[name].shape[0] == points, f"{reference.path}: {name} has all points")
            scales = [axis[0].name.rsplit("/", 1)[-1] for axis in group[name].dims if len(axis)]
            checks.that(len(scales) == group[name].ndim, f"{reference.path}: every axis of {name} has its scale")
            checks.that(scales[:1] == ["point"] and scales[-1:] == ["time"], f"{reference.path}: {name} runs (point, .., time)")


def check_with_netcdf(checks, path, reference):
    with netCDF4.Dataset(path) as root:
        root.set_auto_mask(False)
        group = root if reference.path == "/" else root[reference.path.strip("/")]
        checks.that(root.Conventions == "CF-1.11", "Conventions is CF-1.11")
        checks.that(root.featureType == "timeSeries", "featureType is timeSeries")
        checks.that(group.dimensions["time"].isunlimited(), f"netCDF4 {reference.path}: time is unlimited")
        for name in ("point", "step", "time", "x", "y", "z"):
            shown = group.variables[name][: reference.rows] if name in ("step", "time") else group.variables[name][:]
            checks.that(same(shown, reference.values(name)), f"netCDF4 {reference.path}: {name} as in h5py")
        names = texts(reference.values("point_name"))
        checks.that(texts(group.variables["point_name"][:]) == names, f"netCDF4 {reference.path}: names as in h5py")
        for name in reference.variables:
            variable = group.variables[name]
            ends = (variable.dimensions[0], variable.dimensions[-1])
            checks.that(ends == ("point", "time"), f"netCDF4 {reference.path}: dimensions of {name} are {variable.dimensions}")
            checks.that("_FillValue" in variable.ncattrs(), f"netCDF4 {reference.path}: {name} has a fill value")
            shape = (variable.shape[0], *variable.shape[1:-1], reference.rows)
            for points in blocks(shape):
                shown = variable[points, ..., : reference.rows]
                checks.that(same(shown, reference.values(name, points)), f"netCDF4 {reference.path}: {name} as in h5py")


def check_with_xarray(checks, path, reference, engine):
    who = f"xarray/{engine} {reference.path}"
    group = None if reference.path == "/" else reference.path
    # As people open it: with decoding. Fill values become NaN, which samples never are unless the solver made one.
    with xr.open_dataset(path, engine=engine, group=group) as data:
        checks.that(set(COORDINATES) <= set(data.coords), f"{who}: coordinates are {sorted(data.coords)}")
        checks.that({"point", "time"} <= set(data.dims), f"{who}: dimensions are {dict(data.sizes)}")
        checks.that(data["time"].dtype == np.float64, f"{who}: times stay numbers, they are {data['time'].dtype}")
        one = data[reference.variables[0]].isel(point=0)
        checks.that(one.dims[-1] == "time", f"{who}: one point's series runs over time")
    with xr.open_dataset(path, engine=engine, group=group, mask_and_scale=False, decode_times=False) as data:
        data = data.isel(time=slice(reference.rows))
        for name in ("point", "step", "time", "x", "y", "z"):
            checks.that(same(data[name].values, reference.values(name)), f"{who}: {name} as in h5py")
        names = texts(reference.values("point_name"))
        checks.that(texts(data["point_name"].values) == names, f"{who}: names as in h5py")
        for name in reference.variables:
            for points in blocks(data[name].shape):
                shown = data[name].isel(point=points).values
                checks.that(same(shown, reference.values(name, points)), f"{who}: {name} as in h5py")


def check_append(checks, path, references):
    """netCDF4 opens a copy for appending and adds a row to every set."""
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / "copy.nc"
        shutil.copyfile(path, copy)
        with netCDF4.Dataset(copy, "r+") as root:
            for reference in references:
                group = root if reference.path == "/" else root[reference.path.strip("/")]
                row = reference.rows
                group.variables["step"][row] = 10**9
                group.variables["time"][row] = 1e9
                for name in reference.variables:
                    group.variables[name][..., row] = 7
            root.setncattr("history", "appended to")
        with h5py.File(copy) as file:
            for reference in references:
                group = file[reference.path]
                checks.that(int(group["step"][reference.rows]) == 10**9, f"append {reference.path}: the step is there")
                for name in reference.variables:
                    data = group[name]
                    checks.that(data.shape[-1] == reference.rows + 1, f"append {reference.path}: {name} has one more row")
                    checks.that(np.all(data[..., reference.rows] == 7), f"append {reference.path}: {name} has the values")
                    kept = same(data[:1, ..., : reference.rows], reference.values(name, slice(0, 1)))
                    checks.that(kept, f"append {reference.path}: {name} keeps its rows")


def check_tools(checks, path):
    for command in (["ncdump", "-h"], ["h5dump", "-H"]):
        if shutil.which(command[0]) is None:
            print(f"         {command[0]} is not installed: left out")
            continue
        done = subprocess.run([*command, str(path)], capture_output=True, text=True)
        checks.that(done.returncode == 0, f"{' '.join(command)} reads it: {done.stderr.strip()[:300]}")
        checks.that("point_name" in done.stdout, f"{' '.join(command)} shows the points")


def check_conventions(checks, path):
    """No error but the accepted ones; warnings are shown."""
    program = Path(sys.executable).with_name("compliance-checker")
    if not program.exists():
        checks.that(False, f"compliance-checker is installed beside {sys.executable}")
        return
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.json"
        command = [str(program), "--test=cf:1.11", "--format=json_new", f"--output={report}", str(path)]
        done = subprocess.run(command, capture_output=True, text=True)
        # Its exit code counts warnings too, so the report decides.
        if not checks.that(report.exists(), f"compliance-checker reports: {done.stderr.strip()[-500:]}"):
            return
        result = next(iter(json.loads(report.read_text()).values()))["cf:1.11"]
    with netCDF4.Dataset(path) as root:
        groups_only = "step" not in root.variables
    if groups_only:
        print(f"         it looks at the root's variables only, and all sets are in groups: {result['possible_points']} points")
    else:
        checks.that(result["possible_points"] > 50, "compliance-checker looked at the variables")
    for entry in result["high_priorities"]:
        for message in entry["msgs"]:
            accepted = any(re.fullmatch(pattern, message) for pattern in ACCEPTED_ERRORS)
            if accepted:
                print(f"         accepted: {message}")
            else:
                checks.that(False, f"CF 1.11 {entry['name']}: {message}")
    for entry in result["medium_priorities"] + result["low_priorities"]:
        for message in entry["msgs"]:
            print(f"         warning: {entry['name']}: {message}")


def check_views(checks, options):
    """What each library shows of each set."""
    with h5py.File(options.file) as file:
        watermark = watermark_of(file)
        references = [Reference(file[path], watermark, options.sealed_only) for path in set_groups(file)]
        checks.that(references, "there is a set")
        for reference in references:
            checks.step(f"set {reference.path}: {len(reference.variables)} variables, {reference.rows} rows")
            checks.run("h5py", check_with_h5py, reference, options.sealed_only)
            checks.run("netCDF4", check_with_netcdf, options.file, reference)
            for engine in ("netcdf4", "h5netcdf"):
                checks.run(f"xarray/{engine}", check_with_xarray, options.file, reference, engine)
        if not options.sealed_only:
            checks.step("appending to a copy")
            checks.run("netCDF4 r+", check_append, options.file, references)


def main():
    parser = argparse.ArgumentParser(description="Opens an Afflux file with h5py, netCDF4 and xarray and compares them.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--sealed-only", action="store_true", help="the file's writer is at work or was killed")
    options = parser.parse_args()
    if not options.file.is_file():
        parser.error(f"there is no file {options.file}")
    checks = Checks()
    checks.run("h5py", check_views, options)
    checks.step("ncdump and h5dump")
    checks.run("a program", check_tools, options.file)
    checks.step("CF 1.11")
    checks.run("compliance-checker", check_conventions, options.file)
    print(f"{checks.count - len(checks.failures)} passed, {len(checks.failures)} failed, 0 skipped")
    return 1 if checks.failures else 0


if __name__ == "__main__":
    sys.exit(main())
