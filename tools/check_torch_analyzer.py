#!/usr/bin/env python3
"""Runs the flight-recorder analyzer of PyTorch on the output of `tessera export --to torch-fr`.

    check_torch_analyzer.py [--analyzer DIRECTORY] --program watch_tests

Fetches torch/distributed/flight_recorder from a torch wheel on PyPI (only its Python files, by range requests; nothing
is installed, and it needs nothing else of torch) to a temporary directory, or uses an earlier copy. Then the program runs
drills with planted faults and dumps them. The analyzer must load every rank, report the planted faults, and report nothing
otherwise. Exits with 1 on a failure, with 77 if the analyzer is not available.
"""

import argparse
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.error
import zipfile

import check_torch_viewer

FOLDER = "torch/distributed/flight_recorder/"
TIMEOUT = 300
# Folder of a run: ranks, and words that the analyzer must print; if empty, it must not report a mismatch.
RUNS = {
    "other size": (4, ["expected ranks: {0, 1, 2, 3}", "Culprit rank 3", "SIZE_OR_SYNTAX_MISMATCH", "[[999]]"]),
    "other dtype": (5, ["expected ranks: {0, 1, 2, 3, 4}", "COLLECTIVE_DTYPE_MISMATCH"]),  # it blames whom it likes
    "no fault": (8, []),
}


def fetch(directory):
    """Writes the package to the directory."""
    try:
        name, url = check_torch_viewer.newest_wheel()
        with zipfile.ZipFile(io.BufferedReader(check_torch_viewer.RemoteFile(url), 1 << 20)) as wheel:
            members = [member for member in wheel.namelist() if member.startswith(FOLDER) and member.endswith(".py")]
            if not members:
                raise check_torch_viewer.Unavailable(f"{name} has no {FOLDER}")
            for member in members:
                path = directory / member
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(wheel.read(member))
    except (urllib.error.URLError, OSError, KeyError, ValueError, zipfile.BadZipFile) as problem:
        raise check_torch_viewer.Unavailable(f"{FOLDER} cannot be fetched from PyPI: {problem}") from problem
    for package in ("torch", "torch/distributed"):
        (directory / package / "__init__.py").write_text("")  # nothing else of torch is there
    print(f"{FOLDER} of {name}, {len(members)} files")


def analyze(analyzer, dumps):
    """Returns the output of the analyzer for a directory of dumps."""
    environment = dict(os.environ, PYTHONPATH=str(analyzer))
    command = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", str(dumps)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, env=environment, check=False)
    return done.returncode, done.stdout + done.stderr


def check(analyzer, folder, ranks, words):
    """Returns the faults of one run, one line each."""
    files = sorted(folder.glob("comm_lib_trace_rank_*"))
    if len(files) != ranks:
        return [f"{folder.name}: {len(files)} dumps of {ranks} ranks"]
    status, said = analyze(analyzer, folder)
    print(f"--- {folder.name}: {ranks} ranks, the analyzer ended with {status}\n{said.rstrip()}")
    if status != 0:
        return [f"{folder.name}: the analyzer failed with {status}"]
    faults = [f"{folder.name}: the analyzer does not say '{word}'" for word in words if word not in said]
    if not words and "mismatch" in said.lower():
        faults.append(f"{folder.name}: the analyzer reports a mismatch, but the traces match")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--analyzer", type=pathlib.Path, help="directory that holds torch/distributed/flight_recorder")
    parser.add_argument("--program", type=pathlib.Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        analyzer = options.analyzer or pathlib.Path(place) / "analyzer"
        if options.analyzer is None:
            try:
                fetch(analyzer)
            except check_torch_viewer.Unavailable as problem:
                print(f"skipped: {problem}")
                return check_torch_viewer.SKIPPED
        dumps = pathlib.Path(place) / "dumps"
        command = [str(options.program), "--gtest_filter=Drill.DISABLED_LeavesDumpsForAnalyzers",
                   "--gtest_also_run_disabled_tests", "--gtest_brief=1"]
        subprocess.run(command, env=dict(os.environ, TESSERA_TEST_DUMPS=str(dumps)), timeout=TIMEOUT, check=True)
        faults = [fault for name, (ranks, words) in RUNS.items() for fault in check(analyzer, dumps / name, ranks, words)]
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
