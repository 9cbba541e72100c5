"""Opens files as people do (h5py, both engines of xarray) and holds every value against an uninterrupted run's.

A server, since importing the libraries takes longer than a trial: a JSON object a line on standard input, a JSON object a line
on standard output. Requests:

  {"reference": FILE, "synth": bool}     learn an uninterrupted run; with synth, check every value of it by the hash
  {"check": FILE, "reference": FILE, "rows_ahead": N}
                                         every dataset is a right beginning of the reference's; none is more than N rows
                                         longer than another of its set
  {"same": FILE, "reference": FILE}      all datasets and attributes but those of the group afflux are equal

Answers: {"ok": true, ...} or {"ok": false, "what": "..."}.
"""

import json
import sys
import warnings

import h5py
import numpy as np
import xarray

warnings.filterwarnings("ignore")

references = {}


class Wrong(Exception):
    """A file that is not as promised."""


def sets_of(file):
    """Paths of the groups that hold a set."""
    paths = ["/"] if "step" in file else []
    return paths + ["/" + name for name, item in file.items() if isinstance(item, h5py.Group) and "step" in item]


def splitmix64(x):
    z = x + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def synth_values(set_index, ids, variable, steps, dtype):
    """What `afflux synth` writes, indexed by (point, row); see crates/afflux-measure/src/synth.rs."""
    with np.errstate(over="ignore"):
        key = splitmix64(np.uint64(set_index))
        key = splitmix64(key ^ ids.astype(np.int64).view(np.uint64))
        key = splitmix64(splitmix64(key ^ np.uint64(variable)) ^ np.uint64(0))
        value = splitmix64(key[:, None] ^ steps.astype(np.int64).view(np.uint64)[None, :])
    if dtype == np.float64:
        return (value >> np.uint64(11)).astype(np.float64) / 2.0**53
    return ((value >> np.uint64(40)).astype(np.float64) / 2.0**24).astype(np.float32)


def bits(array):
    """For comparisons that know NaN and the sign of zero."""
    return array.view({4: np.uint32, 8: np.uint64}[array.dtype.itemsize]) if array.dtype.kind == "f" else array


def learn(path, synth):
    contents = {}
    with h5py.File(path, "r") as file:
        for index, group in enumerate(sets_of(file)):
            contents[group] = {name: item[()] for name, item in file[group].items() if isinstance(item, h5py.Dataset)}
            if not synth:
                continue
            variables = [name for name in contents[group] if name.startswith("v") and name[1:].isdigit()]
            if not variables:
                raise Wrong(f"{path}: no made-up variable in {group}")
            for name in variables:
                found = contents[group][name]
                expected = synth_values(index, contents[group]["point"], int(name[1:]), contents[group]["step"], found.dtype)
                if not np.array_equal(bits(found), bits(expected)):
                    raise Wrong(f"{path}: {group}/{name} of the uninterrupted run is not what synth writes")
    references[path] = contents
    return {"sets": len(contents)}


def grows(name, item):
    return item.maxshape[-1] is None if item.maxshape else False


def check_h5py(path, reference, rows_ahead):
    lengths = {}
    with h5py.File(path, "r") as file:
        found_sets = sets_of(file)
        if found_sets != list(reference):
            raise Wrong(f"h5py: sets {found_sets} instead of {list(reference)}")
        for group in found_sets:
            names = [name for name, item in file[group].items() if isinstance(item, h5py.Dataset)]
            if set(names) != set(reference[group]):
                raise Wrong(f"h5py: {group} has {sorted(names)} instead of {sorted(reference[group])}")
            rows = {}
            for name in names:
                item, expected = file[group][name], reference[group][name]
                found = item[()]
                if grows(name, item):
                    rows[name] = found.shape[-1]
                    if found.shape[-1] > expected.shape[-1]:
                        raise Wrong(f"h5py: {group}/{name} has {found.shape[-1]} rows of {expected.shape[-1]}")
                    expected = expected[..., : found.shape[-1]]
                if found.dtype != expected.dtype or found.shape != expected.shape:
                    raise Wrong(f"h5py: {group}/{name} is {found.dtype}{found.shape}")
                if not np.array_equal(bits(found), bits(expected)):
                    raise Wrong(f"h5py: {group}/{name} has wrong values: {first_difference(found, expected)}")
            if max(rows.values()) - min(rows.values()) > rows_ahead:
                raise Wrong(f"h5py: the datasets of {group} are more than {rows_ahead} rows apart: {rows}")
            lengths[group] = rows
        # The bookkeeping must be readable too, though it says nothing to us.
        file.visititems(lambda name, item: item[()] if isinstance(item, h5py.Dataset) else None)
    return lengths


def first_difference(found, expected):
    place = tuple(int(index) for index in np.argwhere(bits(found) != bits(expected))[0])
    return f"at {place} {found[place]!r} instead of {expected[place]!r}"


def check_xarray(path, reference, lengths):
    for engine in ("netcdf4", "h5netcdf"):
        for group, expected in reference.items():
            with xarray.open_dataset(path, engine=engine, group=None if group == "/" else group) as data:
                data.load()
            for name, rows in lengths[group].items():
                found = data[name].values
                # Datasets of a set that are shorter are filled up to the longest.
                kept, rest = found[..., :rows], found[..., rows:]
                wanted = expected[name][..., :rows]
                if not np.array_equal(kept.astype(wanted.dtype), wanted):
                    raise Wrong(f"xarray ({engine}): {group}/{name} has wrong values")
                if found.dtype.kind == "f" and rest.size and not np.isnan(rest).all():
                    raise Wrong(f"xarray ({engine}): {group}/{name} shows values that are not there")


def check(path, reference, rows_ahead):
    lengths = check_h5py(path, references[reference], rows_ahead)
    check_xarray(path, references[reference], lengths)
    return {"rows": {group: [min(rows.values()), max(rows.values())] for group, rows in lengths.items()}}


def attributes(item):
    """By name, with references told by what they refer to."""

    def told(value):
        if isinstance(value, h5py.Reference):
            return item.file[value].name
        if isinstance(value, np.ndarray) and value.dtype.kind in "OV":
            return [told(part) for part in value.tolist()]
        if isinstance(value, (list, tuple)):
            return [told(part) for part in value]
        return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value

    return {name: (str(item.attrs.get_id(name).dtype), told(value)) for name, value in item.attrs.items()}


def describe(path):
    """Everything outside the group afflux, in creation order."""
    items = {}
    with h5py.File(path, "r", track_order=True) as file:

        def visit(group, prefix):
            items[prefix or "/"] = attributes(group)
            for name, item in group.items():
                where = f"{prefix}/{name}"
                if where == "/afflux":
                    continue
                if isinstance(item, h5py.Group):
                    visit(item, where)
                else:
                    items[where] = (attributes(item), str(item.dtype), item.shape, item.maxshape, item.chunks, item[()].tobytes()
                                    if item.dtype.kind != "O" else item[()].tolist())

        visit(file, "")
    return items


def same(path, reference):
    found, expected = describe(path), describe(reference)
    if list(found) != list(expected):
        raise Wrong(f"objects differ: {list(found)} instead of {list(expected)}")
    for name in expected:
        if found[name] != expected[name]:
            raise Wrong(f"{name} differs from the uninterrupted run's")
    return {}


def answer(request):
    if "check" in request:
        return check(request["check"], request["reference"], request["rows_ahead"])
    if "same" in request:
        return same(request["same"], request["reference"])
    return learn(request["reference"], request["synth"])


def main():
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = {"ok": True, **answer(request)}
        except Exception as error:  # whatever a library makes of the file is a finding
            reply = {"ok": False, "what": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
