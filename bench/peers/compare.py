#!/usr/bin/env python3
"""bench/peers/compare.py SUITE: runs the peers of a suite and holds its results against theirs.

Reads build/bench/SUITE.json, which the suite has just written on this machine, runs every bench/peers/*_SUITE.py, and
prints ours, theirs and the ratio for each row both have. Writes build/bench/SUITE_peers.json. A peer that cannot run
here is named with its reason; that is no failure.
"""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run_peer(path):
    """The peer's rows by name, or None."""
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    peer = path.stem.rsplit("_", 1)[0]
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        print(f"{peer}: not measured: {reason}")
        return None
    print(f"{peer}: {done.stderr.strip().splitlines()[-1]}")
    return {row["name"]: row for row in map(json.loads, done.stdout.splitlines())}


def main():
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if "-h" in sys.argv or "--help" in sys.argv else 2
    suite = sys.argv[1]
    results = ROOT / "build" / "bench" / f"{suite}.json"
    if not results.exists():
        print(f"{results.relative_to(ROOT)} is not there: run scripts/bench {suite} first", file=sys.stderr)
        return 1
    ours = {row["name"]: row for row in json.loads(results.read_text())["results"]}
    report = []
    for path in sorted((ROOT / "bench" / "peers").glob(f"*_{suite}.py")):
        theirs = run_peer(path)
        if theirs is None:
            continue
        peer = path.stem.rsplit("_", 1)[0]
        print(f"{'row':32}{'ours':>12}{peer:>12}  {'unit':16}{'times better':>12}")
        for name, row in theirs.items():
            mine = ours.get("cuda_" + name, ours.get(name))
            if mine is None:
                continue
            value = mine["value"]
            ratio = row["value"] / value if value else float("inf")
            print(f"{name:32}{value:12.4g}{row['value']:12.4g}  {row['unit']:16}{ratio:12.2f}")
            report.append({"name": name, "peer": peer, "ours": value, "theirs": row["value"], "unit": row["unit"],
                           "times_better": ratio})
    (results.parent / f"{suite}_peers.json").write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
