"""Puts the results of measuring_figures.sh into docs/MEASURING.md, between its two marks.

Usage: measuring_figures.py MEASURING.md RESULTS
"""

import json
import os
import re
import sys

document, results = sys.argv[1:]
BEGIN, END = "<!-- measuring_figures.sh: begin -->", "<!-- measuring_figures.sh: end -->"


def text(name):
    with open(os.path.join(results, name)) as file:
        return file.read().strip()


def tables(name):
    """Tables without the paths of this machine, which libraries put into their complaints."""
    return re.sub(r"(?<![\w.])/[^\s,)]*/", "", text(name))


host = json.loads(text("comm.jsonl").splitlines()[0])["host"]
figures = [
    ("comm-bandwidth-one-processor.svg", "Figure 1: bandwidth on one processor"),
    ("comm-bandwidth-two-other-nodes.svg", "Figure 2: bandwidth between two nodes, neither the parent's"),
    ("comm-bandwidth-two-nodes.svg", "Figure 3: bandwidth between two nodes, one the parent's"),
    ("comm-latency.svg", "Latency of a byte"),
    ("spawn.svg", "From the call to the first byte of a process"),
]
images = os.path.join(os.path.dirname(document), "images")
parts = [
    f"Made by `tests/bench/measuring_figures.sh` on {host['cpu']}, {host['cores']} processors, {host['kernel']}; nodes are virtual ones of "
    f"this machine, with links shaped to 1 Gbit/s. Mean load of the last quarter of an hour, our own included: {text('load.txt')}.",
    "#### Communication",
    tables("comm.md"),
    "\n\n".join(f"![{words}](images/{name})" for name, words in figures if os.path.exists(os.path.join(images, name))),
    "#### Starting processes",
    tables("spawn.md"),
    "#### Against outside tools",
    "`tests/bench/compare_comm.sh` (lmbench, NetPIPE):",
    "```\n" + text("compare-comm.txt") + "\n```",
    "`tests/bench/compare_fio.sh`:",
    "```\n" + text("compare-fio.txt") + "\n```",
]
with open(document) as file:
    before, rest = file.read().split(BEGIN)
_, after = rest.split(END)
with open(document, "w") as file:
    file.write(before + BEGIN + "\n" + "\n\n".join(parts) + "\n" + END + after)
