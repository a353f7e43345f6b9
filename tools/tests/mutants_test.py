"""Tests of the gate of planted bugs, and of the lists of planted bugs of the layers."""

import os
import stat
import unittest

from gate_case import Gate


class Mutants(Gate):
    """run_mutants.py with a shell script instead of a suite."""

    def program(self, body):
        path = self.write("suite", "#!/bin/sh\n" + body)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def run_mutants(self, body, *arguments, minimum=2):
        planted = self.write("mutants.toml", "".join(
            f'[[mutant]]\nnames = [{names}]\nfile = "a.cpp"\noriginal = ""\nmutated = ""\n'
            for names in ('"host.one"', '"host.two", "other.x"')))
        os.environ["TESSERA_MUTANT"] = "host.one"  # must not reach the clean run
        try:
            return self.run_gate("run_mutants.py", "--mutants", str(planted), "--prefix", "host.",
                                 "--program", self.program(body), "--minimum", str(minimum), *arguments)
        finally:
            del os.environ["TESSERA_MUTANT"]

    def test_all_caught(self):
        status, output = self.run_mutants('echo "[  PASSED  ] 3 tests."\n[ -z "$TESSERA_MUTANT" ]\n')
        self.assertEqual(status, 0, output)
        self.assertIn("2 mutants, 2 caught", output)
        self.assertNotIn("other.x", output)

    def test_survivor_fails(self):
        status, output = self.run_mutants('echo "[  PASSED  ] 3 tests."\n[ "$TESSERA_MUTANT" != host.one ]\n')
        self.assertEqual(status, 1)
        self.assertIn("2 mutants, 1 caught", output)
        self.assertRegex(output, r"host.two +SURVIVED")

    def test_hang_is_caught_and_said(self):
        status, output = self.run_mutants('echo "[  PASSED  ] 3 tests."\n[ -z "$TESSERA_MUTANT" ] || sleep 60\n', "--timeout", "1")
        self.assertEqual(status, 0, output)
        self.assertIn("caught by timeout", output)

    def test_records_go_with_the_run(self):
        said = self.root / "said"
        status, output = self.run_mutants(f'echo "[  PASSED  ] 3 tests."\necho "$TESSERA_RECORD_DIR" >>{said}\n'
                                          '>"$TESSERA_RECORD_DIR/left" && [ -z "$TESSERA_MUTANT" ]\n')
        self.assertEqual(status, 0, output)
        folders = said.read_text().split()
        self.assertEqual(len(set(folders)), 3)
        self.assertFalse([folder for folder in folders if os.path.exists(folder)])

    def test_broken_clean_run_fails(self):
        status, output = self.run_mutants("exit 1\n")
        self.assertEqual(status, 1)
        self.assertIn("must pass with no bug selected", output)

    def test_too_few_fail(self):
        status, output = self.run_mutants('echo "[  PASSED  ] 3 tests."\n[ -z "$TESSERA_MUTANT" ]\n', minimum=3)
        self.assertEqual(status, 1)
        self.assertIn("at least 3", output)

    def test_wholly_skipped_suite_says_so(self):
        status, output = self.run_mutants('printf "[  PASSED  ] 0 tests.\\n[  SKIPPED ] 9 tests, listed below:\\n"\n')
        self.assertEqual(status, 0)
        self.assertTrue(output.startswith("skipped:"), output)


class MutantLists(Gate):
    """check_mutants.py and mutate_sources.py on one source with two planted bugs."""

    SOURCE = "void f(int n) {\n  check(n);\n  for (int i = 0; i < n; ++i) {\n    step(i);\n  }\n  check(n);\n  finish();\n}\n"

    def setUp(self):
        super().setUp()
        self.write("tessera/device/f.cpp", self.SOURCE)
        self.write_list(self.entry("device.step_lost", "    step(i);\n", '    if (!TESSERA_MUTANT("device.step_lost")) step(i);\n'),
                        self.entry("device.end_lost", "  finish();\n", '  if (!TESSERA_MUTANT("device.end_lost")) finish();\n'))

    @staticmethod
    def entry(name, original, mutated, key="names", file="f.cpp"):
        return f"[[mutant]]\n{key} = [\"{name}\"]\nfile = \"{file}\"\noriginal = '''\n{original}'''\nmutated = '''\n{mutated}'''\n"

    def write_list(self, *entries):
        self.write("tessera/device/testing/mutants.toml", "".join(entries))

    def expect(self, line, word):
        self.expect_error("check_mutants.py", f"tessera/device/testing/mutants.toml:{line}", word)

    def mutate(self):
        return self.run_gate("mutate_sources.py", "--layer", str(self.root / "tessera/device"), "--out", str(self.root / "out"))

    def test_good_list_passes(self):
        self.expect_good("check_mutants.py")

    def test_copies_have_all_bugs_and_are_written_when_they_change(self):
        status, output = self.mutate()
        self.assertEqual(status, 0, output)
        copy = self.root / "out/f.cpp"
        self.assertEqual(copy.read_text(), '#include "tessera/base/testing/mutant.h"\n' + self.SOURCE.replace(
            "    step(i);", '    if (!TESSERA_MUTANT("device.step_lost")) step(i);').replace(
            "  finish();", '  if (!TESSERA_MUTANT("device.end_lost")) finish();'))
        os.utime(copy, (1, 1))
        self.mutate()
        self.assertEqual(copy.stat().st_mtime, 1)
        self.write("tessera/device/f.cpp", self.SOURCE + "int more;\n")
        self.mutate()
        self.assertTrue(copy.read_text().endswith("int more;\n"))
        self.write("tessera/device/f.cpp", "int none;\n")
        status, output = self.mutate()
        self.assertEqual(status, 1)
        self.assertIn("testing/mutants.toml:1: the original text occurs 0 times", output)

    def test_original_that_is_not_there(self):
        self.write_list(self.entry("device.x", "  end();\n", '  if (!TESSERA_MUTANT("device.x")) end();\n'))
        self.expect(1, "occurs 0 times")

    def test_original_that_is_there_twice(self):
        self.write_list(self.entry("device.x", "  check(n);\n", '  if (!TESSERA_MUTANT("device.x")) check(n);\n'))
        self.expect(1, "occurs 2 times")

    def test_original_must_be_whole_lines(self):
        self.write_list(self.entry("device.x", "step(i);\n", 'TESSERA_MUTANT("device.x") || step(i);\n'))
        self.expect(1, "whole lines")

    def test_originals_that_overlap(self):
        self.write_list(self.entry("device.x", "    step(i);\n  }\n", '    step(i);\n    TESSERA_MUTANT("device.x");\n  }\n'),
                        self.entry("device.y", "  }\n  check(n);\n", '  }\n  TESSERA_MUTANT("device.y") || check(n);\n'))
        self.expect(13, "overlaps")

    def test_name_twice(self):
        self.write_list(*[self.entry("device.x", original, f'TESSERA_MUTANT("device.x");\n{original}')
                          for original in ("    step(i);\n", "  finish();\n")])
        self.expect(11, "device.x stands at .*:1 too")

    def test_bug_of_two_places(self):
        first = self.entry("device.x", "    step(i);\n", '    if (!TESSERA_MUTANT("device.x")) step(i);\n')
        second = '  if (!TESSERA_MUTANT("device.x")) finish();\n'
        self.write_list(first, self.entry("device.x", "  finish();\n", second, key="part_of"))
        self.expect_good("check_mutants.py")
        self.write_list(self.entry("device.x", "  finish();\n", second, key="part_of"))
        self.expect(1, "no entry of this list")

    def test_names_are_those_of_the_text(self):
        self.write_list(self.entry("device.x", "  finish();\n", '  if (!TESSERA_MUTANT("device.y")) finish();\n'))
        self.expect(1, "no TESSERA_MUTANT")
        self.expect(1, "has device.y, which is not among")

    def test_planted_in_a_production_source(self):
        self.write("tessera/device/g.cpp", 'void g() {\n  if (!TESSERA_MUTANT("device.g")) f(1);\n}\n')
        self.expect_error("check_mutants.py", "tessera/device/g.cpp:2", "production source")

    def test_bad_lists(self):
        for text, line, word in [
                ("[[mutant]]\nnames = [x]\n", 2, "Invalid"),
                ("[[mutant]]\nname = 'x'\n", 1, "unknown key 'name'"),
                ("[[mutant]]\nnames = 'x'\n", 1, "must be a list"),
                ("[[mutant]]\nnames = ['x']\nfile = 'f.cpp'\n", 1, "needs 'original'"),
                ("[[mutant]]\nfile = 'f.cpp'\noriginal = ''\nmutated = ''\n", 1, "needs 'names'"),
                ("\nx = 1\n", 1, "unknown key 'x'"),
                (self.entry("x", "", "", file="f.cu"), 1, "GPU kernel"),
                (self.entry("x", "a\n", 'TESSERA_MUTANT("x");\n', file="gone.cpp"), 1, "no file tessera/device/gone.cpp")]:
            self.write_list(text)
            self.expect(line, word)


if __name__ == "__main__":
    unittest.main()
