#!/usr/bin/env python3
"""Runs a suite once for each planted bug and demands that it fails each time.

tessera/<layer>/testing/mutants.toml lists the bugs (see mutate_sources.py); the program must be built with them. The
suite must pass with none selected. A bug is caught when the suite fails, crashes or hangs with it.
"""

import argparse
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import mutate_sources


def run(program, name, timeout):
    """Exit status (None: ran out of time), output and seconds of one run with the bug of this name (None: none)."""
    # A suite that dies or is killed leaves the records of its ranks: they go with this folder.
    shared_memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="tessera_mutant_", dir=shared_memory, ignore_cleanup_errors=True) as records:
        return run_recording_to(records, program, name, timeout)


def run_recording_to(records, program, name, timeout):
    """The same, with record files in this folder."""
    environment = {key: value for key, value in os.environ.items() if key != "TESSERA_MUTANT"}
    environment["TESSERA_RECORD_DIR"] = records
    flags = []
    if name is not None:
        environment["TESSERA_MUTANT"] = name
        flags = ["--gtest_fail_fast", "--gtest_brief=1"]
    start = time.monotonic()
    # A group of its own: a suite may fork, and a hang must not leave children behind.
    process = subprocess.Popen([program, *flags], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace", start_new_session=True)
    try:
        output, _ = process.communicate(timeout=timeout)
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        status = None
    return status, output, time.monotonic() - start


def verdict(status, output):
    """How a run with a planted bug ended, in words."""
    if status is None:
        return "caught by timeout"
    if status == 0:
        return "SURVIVED"
    failed = re.search(r"^\[  FAILED  \] ([\w/.]+)", output, re.MULTILINE)
    test = f" by {failed.group(1)}" if failed else ""
    if status < 0:
        return f"caught by {signal.Signals(-status).name}{test}"
    return f"caught{test}"


def passed_and_skipped(output):
    def count(word):
        found = re.search(rf"^\[  {word} *\] (\d+) test", output, re.MULTILINE)
        return int(found.group(1)) if found else 0
    return count("PASSED"), count("SKIPPED")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", action="append", required=True, help="a mutants.toml; may be repeated")
    parser.add_argument("--prefix", action="append", required=True, help="take names that start like this; may be repeated")
    parser.add_argument("--program", required=True, help="the suite, built with planted bugs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs at a time (default: the number of cores)")
    parser.add_argument("--minimum", type=int, default=20, help="fail if there are fewer planted bugs than this (default: 20)")
    parser.add_argument("--timeout", type=float, default=0, help="seconds for one run (default: 20 + 5 times the clean run)")
    arguments = parser.parse_args()

    names = mutate_sources.find_names(arguments.mutants, arguments.prefix)
    status, output, seconds = run(arguments.program, None, arguments.timeout or 300)
    passed, skipped = passed_and_skipped(output)
    if status == 0 and passed == 0 and skipped > 0:
        reason = re.search(r"Skipped\n(.+)", output)
        print(f"skipped: every test of the suite was skipped{': ' + reason.group(1).strip() if reason else ''}")
        return 0
    if status != 0:
        print(output[-4000:])
        print("the suite must pass with no bug selected, and it does not")
        return 1
    print(f"{'no bug selected':<48} passed, {passed} tests, {seconds:.1f} s", flush=True)

    timeout = arguments.timeout or 20 + 5 * seconds
    survived = 0
    with concurrent.futures.ThreadPoolExecutor(max(1, arguments.jobs)) as pool:
        for name, (status, output, seconds) in zip(names, pool.map(lambda name: run(arguments.program, name, timeout), names)):
            print(f"{name:<48} {verdict(status, output)}, {seconds:.1f} s", flush=True)
            if status == 0:
                survived += 1
                print(f"{names[name]}: the suite passes with this bug; add a test that fails")
    print(f"{len(names)} mutants, {len(names) - survived} caught")
    if len(names) < arguments.minimum:
        print(f"at least {arguments.minimum} mutants must be planted")
        return 1
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
