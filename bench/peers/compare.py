#!/usr/bin/env python3
"""bench/peers/compare.py SUITE PROGRAM: runs the peers of a suite and holds its results against theirs.

Reads build/bench/SUITE.json, which PROGRAM has just written on this machine, and runs every bench/peers/*_SUITE.py. The
rows that both have are measured three times in turns, since cores have good and bad minutes; medians, and the ratio of
them, are printed. Writes build/bench/SUITE_peers.json. A peer that cannot run here is named with its reason; that is no
failure.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROUNDS = 3


def run_peer(path):
    """The peer's rows by name, or None; and what it said last."""
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    if done.returncode != 0:
        return None, said
    return {row["name"]: row for row in map(json.loads, done.stdout.splitlines())}, said


def run_ours(program, name):
    """One row of ours, measured again."""
    with tempfile.TemporaryDirectory() as folder:
        results = pathlib.Path(folder) / "row.json"
        # A must that is missed has been told by the run before.
        subprocess.run([program, "--filter", name, "--json", str(results)], capture_output=True, check=False)
        rows = {row["name"]: row for row in json.loads(results.read_text())["results"]}
    return rows[name]["value"]


def compare(path, program, ours):
    """Prints a table of the rows that both have, and returns it."""
    peer = path.stem.rsplit("_", 1)[0]
    theirs, said = run_peer(path)
    if theirs is None:
        print(f"{peer}: not measured: {said}")
        return []
    print(f"{peer}: {said}")
    names = {name: row for name in theirs for row in (name, "cuda_" + name) if row in ours}  # the GPU's where there is
    mine = {name: [ours[row]["value"]] for name, row in names.items()}
    other = {name: [theirs[name]["value"]] for name in names}
    for _ in range(1, ROUNDS):
        for name, row in names.items():
            mine[name].append(run_ours(program, row))
        again, said = run_peer(path)
        if again is None:
            print(f"{peer}: a later round failed: {said}")
            break
        for name in names:
            other[name].append(again[name]["value"])
    report = []
    print(f"{'row':32}{'ours':>12}{peer:>12}  {'unit':16}{'times better':>12}")
    for name in names:
        value, their_value = statistics.median(mine[name]), statistics.median(other[name])
        is_rate = theirs[name]["unit"].endswith("/s")
        slower, faster = (their_value, value) if is_rate else (value, their_value)
        ratio = faster / slower if slower else float("inf")
        print(f"{name:32}{value:12.4g}{their_value:12.4g}  {theirs[name]['unit']:16}{ratio:12.2f}")
        report.append({"name": name, "peer": peer, "ours": value, "theirs": their_value, "unit": theirs[name]["unit"],
                       "times_better": ratio, "rounds_ours": mine[name], "rounds_theirs": other[name]})
    return report


def main():
    if len(sys.argv) != 3 or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if "-h" in sys.argv or "--help" in sys.argv else 2
    suite, program = sys.argv[1:]
    results = ROOT / "build" / "bench" / f"{suite}.json"
    if not results.exists():
        print(f"{results.relative_to(ROOT)} is not there: run scripts/bench {suite} first", file=sys.stderr)
        return 1
    ours = {row["name"]: row for row in json.loads(results.read_text())["results"]}
    report = []
    for path in sorted((ROOT / "bench" / "peers").glob(f"*_{suite}.py")):
        report += compare(path, program, ours)
    (results.parent / f"{suite}_peers.json").write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
