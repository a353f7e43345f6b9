#!/usr/bin/env python3
"""Finds record files of ended processes in shared memory.

Without --before: prints their paths, one per line. With --before FILE, an earlier output: fails and names the files that
are new since then. Files of another pid namespace (a container) are ignored.
"""

import argparse
import os
import pathlib
import re
import sys

NAME = re.compile(r"tessera-n(?P<space>\d+)-p(?P<pid>\d+)-t(?P<start>\d+)-r\d+-\d+\.record")


def start_of(pid):
    """Returns the start time of the process in clock ticks since boot; None if it has ended."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat[stat.rindex(")") + 2:].split()  # the name before may hold spaces; fields from the third on
    return None if fields[0] in "ZX" else int(fields[19])


def left_records(directory):
    """Returns the record files in the directory whose process has ended, by path."""
    own_space = os.stat("/proc/self/ns/pid").st_ino
    left = []
    for path in sorted(directory.iterdir()):
        match = NAME.fullmatch(path.name)
        if match and int(match["space"]) == own_space and start_of(match["pid"]) != int(match["start"]):
            left.append(str(path))
    return left


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path("/dev/shm"), help="where records are made")
    parser.add_argument("--before", type=pathlib.Path, help="paths that were there before")
    arguments = parser.parse_args()
    left = left_records(arguments.directory)
    if arguments.before is None:
        print(*left, sep="\n")
        return 0
    new = sorted(set(left) - set(arguments.before.read_text().splitlines()))
    for path in new:
        print(f"{path}: left by a process that has ended")
    if new:  # otherwise silent: ctest's summary stays the last that scripts/test prints
        print(f"records: {len(new)} new ones of ended processes")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
