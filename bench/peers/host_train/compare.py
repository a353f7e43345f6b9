#!/usr/bin/env python3
"""bench/peers/host_train/compare.py PROGRAM [OPTION...]: measures rows of bench_host_train or bench_nn in turns
with PyTorch, and rows of generation with transformers.

Each round measures ours in a new process, PyTorch eager and PyTorch compiled, and begins with another of the three. Values
are medians over rounds. All compute on the same number of threads. Prints a table and writes SUITE_peers.json to
build/bench. PyTorch comes from the Python that the variable TORCH_PYTHON names, from this Python, or from a virtual
environment in build/torch, which is made from PyPI if neither has it. If PyTorch cannot be had, or crashes in a row, the
reason is printed; that is not a failure.

A row is not judged if other processes kept the processors busy meanwhile: the threads of PyTorch wait for each other by
spinning, and on busy processors are slower by a factor of 10 and more.
"""

import argparse
import contextlib
import datetime
import fnmatch
import json
import os
import pathlib
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
THREADS = 2  # kHostThreads of tessera/train/testing/host_suite.h
MODES = ("eager", "compiled")
OTHERS = 0.1  # cores that other processes may use of those that we need
SLOW = "*124m*"  # rows whose step takes seconds
# How many times faster than PyTorch ours must be, by pattern of names; the first that matches counts.
BOUNDS = (("step_tiny", {"eager": 1.25, "compiled": 1.0}), ("step_124m", {"eager": 1.25, "compiled": 1.1}),
          ("host_*", {"eager": 1.0}), ("prefill_*", {"eager": 1.0}), ("decode_*", {"eager": 1.5}))
# The allocator of the C library returns large blocks to the system, so that each call of a PyTorch operator would mostly
# measure page faults. Ours keeps its memory; with these settings PyTorch does too.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": str(64 << 20)}


def torch_version(python):
    """The version of PyTorch that this Python imports, or None."""
    try:
        done = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True,
                              check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def find_torch():
    """A Python that has PyTorch, or None; and why not."""
    environment = ROOT / "build" / "torch"
    made = str(environment / "bin" / "python3")
    named = os.environ.get("TORCH_PYTHON")
    if named:
        return (named, "") if torch_version(named) else (None, f"TORCH_PYTHON={named} cannot import torch")
    for python in (sys.executable, made):
        if torch_version(python):
            return python, ""
    print(f"PyTorch: installing from PyPI into {environment.relative_to(ROOT)}", flush=True)
    for command in ([sys.executable, "-m", "venv", str(environment)],
                    [made, "-m", "pip", "install", "--quiet", "--retries", "1", "--timeout", "15", "torch", "transformers",
                     "numpy"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()
            errors = [line for line in said if line.startswith("ERROR")]
            return None, f"not installed from PyPI: {(errors or said)[-1]}"
    return (made, "") if torch_version(made) else (None, "the PyTorch from PyPI cannot be imported")


def ended_by(status):
    """How a process ended: "killed by SIGILL", "exit status 1"."""
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"


class Torch:
    """A process that measures rows under PyTorch. Started again after a crash."""

    def __init__(self, python, threads):
        self.command = [python, str(HERE / "torch_worker.py"), str(threads)]
        self.environment = {**os.environ, **KEEP_MEMORY, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        self.process = None
        self.about = self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env=self.environment)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"torch_worker.py: {ended_by(self.stop())}")
        return json.loads(line)

    def stop(self):
        """Ends the process, which may have crashed."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait()

    def measure(self, row, mode, seconds, samples):
        """The value, or None; and why not."""
        if self.process.poll() is not None:
            self.start()
        try:
            print(json.dumps({"row": row, "mode": mode, "seconds": seconds, "samples": samples}),
                  file=self.process.stdin, flush=True)
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            return None, ended_by(self.stop())
        answer = json.loads(line)
        return answer.get("value"), answer.get("error", "")


def measure_ours(program, row, seconds, samples):
    """The row as a new process of ours measures it, and its machine."""
    with tempfile.TemporaryDirectory() as folder:
        results = pathlib.Path(folder) / "row.json"
        done = subprocess.run([program, "--filter", "=" + row, "--seconds", str(seconds), "--samples", str(samples),
                               "--json", str(results)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{program}: {row}: {ended_by(done.returncode)}: {done.stderr.strip()}")
        found = json.loads(results.read_text())
    return found["results"][0], found["machine"]


def busy_seconds():
    """Processor seconds that all processes of this machine have used."""
    fields = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    user, nice, system, _idle, _wait, irq, softirq, steal = (int(field) for field in fields)
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def own_seconds(process):
    """Processor seconds of this process, of `process` and of all that this one started and that have ended."""
    ended, this = resource.getrusage(resource.RUSAGE_CHILDREN), resource.getrusage(resource.RUSAGE_SELF)
    seconds = ended.ru_utime + ended.ru_stime + this.ru_utime + this.ru_stime
    if process.poll() is not None:
        return seconds  # counted with those that have ended
    # Behind the name, which may hold anything, the 12th to 15th field: times of the process and of its ended children.
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:15]
    return seconds + sum(int(field) for field in fields) / os.sysconf("SC_CLK_TCK")


class Others:
    """Counts the cores that other processes keep busy, on average, while rows are measured."""

    def __init__(self, torch):
        self.torch, self.begin = torch, time.monotonic()
        self.busy, self.own = busy_seconds(), own_seconds(torch.process)

    def cores(self):
        seconds = max(time.monotonic() - self.begin, 1e-9)
        return max(0.0, (busy_seconds() - self.busy) - (own_seconds(self.torch.process) - self.own)) / seconds


def is_disturbed(other_cores):
    return other_cores > os.cpu_count() - THREADS + OTHERS


def bounds_of(name):
    return next((bounds for pattern, bounds in BOUNDS if fnmatch.fnmatch(name, pattern)), {})


def measure_row(name, unit, program, torch, rounds):
    """The report of one row. `program` is None for a row that only PyTorch has here."""
    seconds, samples = (0.001, 1) if fnmatch.fnmatch(name, SLOW) else (0.3, 200)
    values = {"ours": [], **{mode: [] for mode in MODES}}
    report = {"name": name, "unit": unit, "reasons": {}, "machine": None}
    rows = []
    turns = ["ours"] if program else []
    for mode in MODES:  # prepares and compiles before anything is measured
        value, reason = torch.measure(name, mode, 0, 1)
        if value is not None:
            turns.append(mode)
        elif not reason.startswith("no mode"):
            report["reasons"][mode] = reason
    others = Others(torch)
    for number in range(rounds):
        first = number % max(1, len(turns))
        for turn in turns[first:] + turns[:first]:
            if turn == "ours":
                row, report["machine"] = measure_ours(program, name, seconds, samples)
                if row["unit"] != unit:
                    raise RuntimeError(f"{name}: ours is in {row['unit']}, PyTorch's in {unit}")
                rows.append(row)
                values[turn].append(row["value"])
                continue
            value, reason = torch.measure(name, turn, seconds, samples)
            if value is None:
                report["reasons"][turn] = reason
            else:
                values[turn].append(value)
    report["other_cores"] = others.cores()
    for turn, all_values in values.items():
        report[turn] = statistics.median(all_values) if all_values and turn not in report["reasons"] else None
        report[f"rounds_{turn}"] = all_values
    return judged(report, rows)


def judged(report, rows):
    """Adds ratios, bounds and whether they are met."""
    bounds = bounds_of(report["name"]) if report["ours"] else {}
    checks = []
    for mode in MODES:
        theirs = report[mode]
        ratio = theirs / report["ours"] if theirs and report["ours"] else None
        if ratio and report["unit"].endswith("/s"):
            ratio = 1 / ratio
        report[f"times_{mode}"], report[f"must_{mode}"] = ratio, bounds.get(mode)
        if mode in bounds and mode not in report["reasons"]:
            checks.append((ratio or 0) >= bounds[mode])
    ratios = [row["ratio"] for row in rows if row["ratio"] is not None]
    report["reference"] = rows[0]["reference"] if ratios else None
    report["of_reference"] = statistics.median(ratios) if ratios else None
    report["must_of_reference"] = rows[0]["must_ratio"] if ratios else None
    if ratios and rows[0]["must_ratio"]:
        checks.append(report["of_reference"] >= rows[0]["must_ratio"])
    report["is_disturbed"] = is_disturbed(report["other_cores"])
    if report["name"].startswith("decode_"):  # one bound suffices
        checks = [any(checks)] if checks else []
    report["met"] = all(checks) if checks and not report["is_disturbed"] else None
    return report


def text(value):
    """Four digits that matter, never an exponent."""
    if value is None:
        return "-"
    return f"{value:.{next((digits for digits, least in enumerate((1000, 100, 10)) if abs(value) >= least), 3)}f}"


def table_row(report):
    bounds = [f"{mode} >= {report['must_' + mode]:g}" for mode in MODES if report["must_" + mode]]
    if report["must_of_reference"]:
        bounds.append(f"reference >= {report['must_of_reference']:g}")
    verdict = {None: "", True: " met", False: " MISSED"}[report["met"]]
    if report["is_disturbed"]:
        verdict = f" NOT JUDGED: others kept {report['other_cores']:.1f} cores busy"
    reasons = "".join(f"; {mode}: {reason}" for mode, reason in report["reasons"].items())
    return (f"{report['name']:30}{text(report['ours']):>10} {report['unit']:4}{text(report['eager']):>10}"
            f"{text(report['compiled']):>10}{text(report['times_eager']):>8}{text(report['times_compiled']):>10}"
            f"{text(report['of_reference']):>8} {report['reference'] or '-':20}{', '.join(bounds)}{verdict}{reasons}")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="path of bench_host_train or bench_nn")
    parser.add_argument("--filter", default="", help="only rows whose name contains this (* and ? as in a shell)")
    parser.add_argument("--quick", action="store_true", help=f"leave out rows that take minutes ({SLOW})")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each row (default 5)")
    parser.add_argument("--json", type=pathlib.Path, help="write the results here; with --filter or --quick nothing is "
                                                          "written unless this is given")
    return parser.parse_args(arguments)


def main():
    options = parse(sys.argv[1:])
    python, reason = find_torch()
    if python is None:
        print(f"PyTorch: not measured: {reason}")
        return 0
    torch = Torch(python, THREADS)
    ours = subprocess.run([options.program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    suite = pathlib.Path(options.program).name.removeprefix("bench_")
    wanted = [name for name, unit in torch.about["rows"].items() if fnmatch.fnmatch(name, f"*{options.filter}*")
              and (unit == "tokens/s") == (suite == "nn") and not (options.quick and fnmatch.fnmatch(name, SLOW))]
    print(f"PyTorch {torch.about['torch']} against {pathlib.Path(options.program).name}: {THREADS} threads each, medians of "
          f"{options.rounds} rounds in turns")
    print(f"{'name':30}{'ours':>10} {'unit':4}{'eager':>10}{'compiled':>10}{'/eager':>8}{'/compiled':>10}{'/ref.':>8} "
          f"{'reference':20}must be", flush=True)
    reports = []
    for name in wanted:
        program = options.program if name in ours else None
        reports.append(measure_row(name, torch.about["rows"][name], program, torch, options.rounds))
        print(table_row(reports[-1]), flush=True)
    torch.stop()
    machine = next((report["machine"] for report in reports if report["machine"]), None)
    for report in reports:
        del report["machine"]
    print(f"processor: {machine['cpu'] if machine else 'unknown: no row of ours was measured'}")
    path = options.json or (None if options.filter or options.quick else ROOT / "build" / "bench" / f"{suite}_peers.json")
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"suite": suite, "torch": torch.about["torch"], "threads": THREADS,
                                    "rounds": options.rounds, "machine": machine,
                                    "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                                    "results": reports}, indent=2) + "\n")
        print(f"written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
