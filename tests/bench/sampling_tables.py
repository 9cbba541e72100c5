#!/usr/bin/env python3
"""The tables of docs/BENCHMARKING.md from the raw lines of `afflux bench sampling --json`.

    sampling_tables.py FIGURES.jsonl [...]     one pair of tables for each file

Prints Markdown: medians in milliseconds by points and method with their ratios, then what was reached of what we set out to reach.
Losing rows are printed like the others; what was not measured is a dash. Exits with 1 where a line holds no usable result.
"""
import json
import sys

METHODS = [
    "afflux",
    "direct-open-append-close",
    "direct-kept-open",
    "direct-two-level-directories",
    "gather",
    "limit",
]
RATIOS = [
    ("direct / afflux", "direct-open-append-close", "afflux"),
    ("gather / afflux", "gather", "afflux"),
    ("afflux / limit", "afflux", "limit"),
]


def digits(value, point_below):
    """A number as the tables show it: `point_below` and more without decimals."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= point_below else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def read(path):
    """Medians in seconds by (points, method), the rank counts of each number of points, and the first line of all."""
    medians, ranks, first = {}, {}, None
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            row = json.loads(line)
            if not row["verified"] or row["seconds_median"] <= 0.0:
                raise ValueError(f"{path}:{number}: {row['method']} at {row['points']} points has no verified time")
            first = first or row
            if ranks.setdefault(row["points"], row["ranks"]) != row["ranks"]:
                raise ValueError(f"{path}:{number}: {row['points']} points on several numbers of ranks")
            medians[row["points"], row["method"]] = row["seconds_median"]
    if first is None:
        raise ValueError(f"{path}: no results")
    return medians, ranks, first


def ratio(medians, points, above, below):
    """How many times longer `above` took than `below`; None where one of them was not measured."""
    try:
        return medians[points, above] / medians[points, below]
    except KeyError:
        return None


def print_medians(medians, ranks):
    methods = [method for method in METHODS if any(measured == method for _, measured in medians)]
    names = [f"`{method}`" for method in methods] + [name for name, _, _ in RATIOS]
    heads = ["ranks", "points"] if len(set(ranks.values())) > 1 else ["points"]
    print("| " + " | ".join(heads + names) + " |")
    print("|---" * len(heads + names) + "|")
    for points in sorted({points for points, _ in medians}):
        seconds = [medians.get((points, method)) for method in methods]
        cells = [digits(None if value is None else value * 1e3, 100) for value in seconds]
        cells += [digits(ratio(medians, points, above, below), 100) for _, above, below in RATIOS]
        lead = [f"{ranks[points]:,}", f"{points:,}"][-len(heads) :]
        print("| " + " | ".join(lead + cells) + " |")


def goals(medians):
    """What we set out to reach: text, measured value, the bound, and whether it is the least or the most."""
    direct = [ratio(medians, 2**power, "direct-open-append-close", "afflux") for power in range(11)]
    mean = None if None in direct else sum(direct) / len(direct)
    yield "direct / afflux, mean of 1 to 1,024 points, at least 49 (the source's figure)", mean, 49.0, True
    for points, bound in ((1024, 100.0),):
        found = ratio(medians, points, "direct-open-append-close", "afflux")
        yield f"direct / afflux at {points:,} points, at least {bound:.0f}", found, bound, True
    for points, bound in ((16, 1.0), (1024, 2.0), (8192, 2.0)):
        found = ratio(medians, points, "gather", "afflux")
        yield f"gather / afflux at {points:,} points, at least {bound:g}", found, bound, True
    for points, bound in ((1024, 3.5), (8192, 2.0)):
        found = ratio(medians, points, "afflux", "limit")
        yield f"afflux / limit at {points:,} points, at most {bound:g}", found, bound, False


def print_goals(medians):
    print("| goal | measured | |")
    print("|---|---|---|")
    for text, found, bound, is_least in goals(medians):
        if found is None:
            verdict = "not measured"
        else:
            verdict = "reached" if (found >= bound if is_least else found <= bound) else "missed"
        print(f"| {text} | {digits(found, 100)} | {verdict} |")


def main(paths):
    for path in paths:
        medians, ranks, first = read(path)
        host, place = first["host"], first["file_system"]
        is_weak = len(set(ranks.values())) > 1
        count = "ranks" if is_weak else f"{first['ranks']} ranks"
        print(f"{place['kind']}, {count} ({first.get('mpi_version') or first['backend']}) on {host['cores']} cores, {host['kernel']}; `{first['command']}`. Medians in ms.\n")
        print_medians(medians, ranks)
        print()
        # The goals are for one number of ranks.
        if not is_weak:
            print_goals(medians)
            print()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        main(sys.argv[1:])
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"sampling_tables: {error!r}")
