#!/usr/bin/env python3
"""Tests of compare.py with a program and a PyTorch that are scripts: what is printed, judged and written."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

import compare

PROGRAM = """\
    #!{python}
    import json, sys
    if "--list" in sys.argv:
        print("step_tiny\\nhost_gelu_fwd\\nhost_peak")
        sys.exit()
    name = sys.argv[sys.argv.index("--filter") + 1]
    assert name.startswith("="), name
    row = {{"name": name[1:], "value": 10.0, "unit": "ms" if "step" in name else "us", "reference": "copy of as much",
           "ratio": 0.5, "must_ratio": None}}
    results = {{"machine": {{"cpu": "Test Processor", "threads": "2"}}, "results": [row]}}
    open(sys.argv[sys.argv.index("--json") + 1], "w").write(json.dumps(results))
"""

# Stands before the worker that needs PyTorch: eager takes 20, or less than ours for gelu; compiled crashes for gelu.
WORKER = """\
    import json, os, signal, sys
    units = {"step_tiny": "ms", "host_gelu_fwd": "us", "attention_fwd": "us"}
    print(json.dumps({"torch": "0.0", "threads": 2, "rows": units}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        is_gelu = request["row"] == "host_gelu_fwd"
        if request["mode"] == "compiled" and is_gelu:
            os.kill(os.getpid(), signal.SIGILL)
        if request["mode"] == "compiled" and request["row"] == "attention_fwd":
            print(json.dumps({"error": "no mode compiled"}), flush=True)
        else:
            print(json.dumps({"value": 5.0 if is_gelu else 20.0}), flush=True)
"""


class Compare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, text in (("program", PROGRAM.format(python=sys.executable)), ("torch_worker.py", WORKER)):
            (self.folder / name).write_text(textwrap.dedent(text))
            (self.folder / name).chmod(0o755)

    def measure(self, other_cores=0.0):
        """Reports by name, and the lines of the table."""
        saved = compare.HERE, compare.Others.cores
        compare.HERE, compare.Others.cores = self.folder, lambda _: other_cores
        try:
            torch = compare.Torch(sys.executable, compare.THREADS)
            program = str(self.folder / "program")
            reports = {name: compare.measure_row(name, unit, program if name != "attention_fwd" else None, torch, 3)
                       for name, unit in torch.about["rows"].items()}
            torch.stop()
        finally:
            compare.HERE, compare.Others.cores = saved
        return reports, {name: compare.table_row(report) for name, report in reports.items()}

    def test_ratios_are_judged_by_the_bounds_of_the_row(self):
        reports, lines = self.measure()
        step, gelu = reports["step_tiny"], reports["host_gelu_fwd"]
        self.assertEqual((step["ours"], step["eager"], step["times_eager"], step["times_compiled"]), (10, 20, 2, 2))
        self.assertEqual(len(step["rounds_ours"]), 3)
        self.assertIs(step["met"], True)
        self.assertIn("eager >= 1.25, compiled >= 1 met", lines["step_tiny"])
        self.assertIs(gelu["met"], False)
        self.assertIn("MISSED", lines["host_gelu_fwd"])

    def test_a_crash_is_named_and_the_other_modes_are_measured(self):
        reports, lines = self.measure()
        gelu = reports["host_gelu_fwd"]
        self.assertIsNone(gelu["compiled"])
        self.assertEqual((gelu["eager"], len(gelu["rounds_eager"])), (5, 3))
        self.assertIn("compiled: killed by SIGILL", lines["host_gelu_fwd"])

    def test_a_row_that_only_pytorch_has_is_shown(self):
        reports, _ = self.measure()
        self.assertEqual((reports["attention_fwd"]["ours"], reports["attention_fwd"]["eager"]), (None, 20))
        self.assertEqual(reports["attention_fwd"]["reasons"], {})
        self.assertIsNone(reports["attention_fwd"]["met"])

    def test_a_busy_machine_is_not_judged(self):
        reports, lines = self.measure(other_cores=float(os.cpu_count()))
        self.assertIsNone(reports["step_tiny"]["met"])
        self.assertIn("NOT JUDGED", lines["step_tiny"])

    def test_numbers_have_four_digits_and_no_exponent(self):
        values = {None: "-", 0.0574: "0.057", 1.5: "1.500", 12.345: "12.35", 123.45: "123.5", 47990.4: "47990"}
        self.assertEqual([compare.text(value) for value in values], list(values.values()))

    def test_a_python_without_torch_is_no_failure(self):
        done = subprocess.run([sys.executable, compare.__file__, str(self.folder / "program")], capture_output=True,
                              text=True, check=False, env={**os.environ, "TORCH_PYTHON": "/bin/false"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("PyTorch: not measured: TORCH_PYTHON=/bin/false cannot import torch", done.stdout)

    def test_busy_seconds_grow_and_own_seconds_are_part_of_them(self):
        process = subprocess.Popen([sys.executable, "-c", "sum(range(10**7)); input()"], stdin=subprocess.PIPE)
        before = compare.own_seconds(process)
        process.communicate(b"\n")
        self.assertGreater(compare.own_seconds(process), 0)
        self.assertGreaterEqual(compare.own_seconds(process), before)
        self.assertGreater(compare.busy_seconds(), 0)


if __name__ == "__main__":
    unittest.main()
