"""Profiles of the lab's jobs against outside figures: user + system within 2 % of GNU time, bytes as the disks have them.

Usage: check_scratch_jobs.py RESULTS, the folder that scratch_jobs.sh has left. Exits with 1 where something differs.
"""

import glob
import json
import os
import re
import sys

results = sys.argv[1]
wrong = 0


def check(what, holds, figures):
    global wrong
    wrong += not holds
    print(f"{'ok    ' if holds else 'not ok'}  {what}: {figures}")


for path in sorted(glob.glob(os.path.join(results, "*-*.jsonl"))):
    name = os.path.basename(path).removesuffix(".jsonl")
    profile = json.loads(open(path).readline())
    check(f"{name} came to its end", not profile["killed"] and profile["ended"]["exit_code"] == 0, profile["ended"]["how"])
    timed = os.path.join(results, name + ".time")
    if os.path.exists(timed):
        text = open(timed).read()
        theirs = sum(float(re.search(rf"{key} time \(seconds\): ([0-9.]+)", text)[1]) for key in ("User", "System"))
        ours = profile["cpu_seconds"]
        check(f"{name}: user + system against GNU time", abs(ours - theirs) <= 0.02 * theirs, f"{ours:.2f} s, {theirs:.2f} s")
    io = profile["io"]
    if io["device_read_bytes"] > 10_000_000 and not name.endswith("-tmpfs"):
        # Every byte from a device came from the scratch disk but for programs and libraries.
        disks = [place["device"] for place in profile["file_systems"] if place["device"] and place["file_system"]["mount_point"].endswith("/" + name.split("-")[-1])]
        read = sum(disk["read_bytes"] for disk in disks)
        share = io["device_read_bytes"] / read if read else 0
        check(f"{name}: /proc/PID/io against the disk's own count", 0.9 <= share <= 1.1, f"{io['device_read_bytes']} and {read} bytes read")
print(f"{'all agree' if wrong == 0 else f'{wrong} differ'}")
sys.exit(wrong != 0)
