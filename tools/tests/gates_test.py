"""Tests that every gate passes on a good tree and fails on each planted violation."""

import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

GOOD = {
    "tessera/tessera.h": '// All.\n#pragma once\n\n#include "tessera/device/stream.h"\n',
    "tessera/base/CMakeLists.txt": "tessera_layer(base LIBRARIES fmt::fmt)\n",
    "tessera/base/error.h": "// Errors.\n#pragma once\n\nnamespace tessera {\nint error(int code);\n}  // namespace tessera\n",
    "tessera/base/error.cpp": '#include "tessera/base/error.h"\n\n#include <fmt/format.h>\n\n'
                              "namespace tessera {\nint error(int code) { return code; }\n}  // namespace tessera\n",
    "tessera/base/testing/tree.h": "// For tests.\n#pragma once\n",
    "tessera/device/CMakeLists.txt": "# the interface\ntessera_layer(device DEPS base MUTANTS)\n",
    "tessera/device/stream.h": '// Streams.\n#pragma once\n\n#include "tessera/base/error.h"\n',
    "tessera/device/host/stream.h": '// Host streams.\n#pragma once\n\n#include "tessera/device/stream.h"\n',
    "tessera/device/cuda/driver.h": "// The driver.\n#pragma once\n\n#include <cuda.h>\n",
    "tessera/device/host/options.h": "// How the host device is set up.\n#pragma once\n",
    "tessera/device/registry.cpp": '#include "tessera/device/host/options.h"\n',
    "tessera/device/host/stream_test.cpp": '#include "tessera/device/host/stream.h"\n\n#include "tessera/base/testing/tree.h"\n',
    "tessera/memory/CMakeLists.txt": "tessera_layer(memory DEPS device)\n",
    "tessera/memory/pool.h": '// Pools.\n#pragma once\n\n#include "tessera/base/error.h"\n#include "tessera/device/stream.h"\n',
    "tessera/analysis/CMakeLists.txt": "tessera_layer(analysis DEPS base)\n",
    "tessera/cli/info.cpp": '#include "tessera/memory/pool.h"\n',
}


class Gate(unittest.TestCase):
    """A small tree in a temporary folder; each case changes it and runs one gate."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        for name, text in GOOD.items():
            self.write(name, text)

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run_gate(self, gate, *arguments):
        done = subprocess.run([sys.executable, str(ROOT / "tools" / gate), *arguments], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def expect_good(self, gate):
        status, output = self.run_gate(gate, "--root", str(self.root))
        self.assertEqual(status, 0, output)
        return output

    def expect_error(self, gate, place, word):
        status, output = self.run_gate(gate, "--root", str(self.root))
        self.assertEqual(status, 1, f"planted violation not seen\n{output}")
        self.assertRegex(output, rf"(?m)^{place}: .*{word}")


class Layers(Gate):
    def test_good_tree_passes(self):
        self.expect_good("check_layers.py")

    def test_upward_include_in_a_copy_of_the_real_tree(self):
        shutil.rmtree(self.root / "tessera")
        shutil.copytree(ROOT / "tessera", self.root / "tessera")
        self.expect_good("check_layers.py")
        error = self.root / "tessera/base/error.cpp"
        error.write_text(error.read_text() + '#include "tessera/device/device.h"\n')
        self.expect_error("check_layers.py", r"tessera/base/error.cpp:\d+", "layer base includes tessera/device/device.h")

    def test_sideways_include(self):
        self.write("tessera/analysis/report.cpp", '\n#include "tessera/memory/pool.h"\n')
        self.expect_error("check_layers.py", "tessera/analysis/report.cpp:2", "layer analysis includes")

    def test_tests_are_held_to_the_same_layers(self):
        self.write("tessera/base/error_test.cpp", '#include "tessera/device/stream.h"\n')
        self.expect_error("check_layers.py", "tessera/base/error_test.cpp:1", "layer base includes")

    def test_include_in_a_comment_is_none(self):
        self.write("tessera/base/more.cpp", '// x\n/*\n#include "tessera/device/stream.h"\n*/\n')
        self.expect_good("check_layers.py")

    def test_cli_is_included_by_nobody(self):
        self.write("tessera/memory/more.cpp", '#include "tessera/cli/info.h"\n')
        self.expect_error("check_layers.py", "tessera/memory/more.cpp:1", "cli")

    def test_umbrella_inside_the_library(self):
        self.write("tessera/memory/more.cpp", '#include "tessera/tessera.h"\n')
        self.expect_error("check_layers.py", "tessera/memory/more.cpp:1", "for users")

    def test_device_names_in_layers_for_any_device(self):
        self.write("tessera/nn/CMakeLists.txt", "tessera_layer(nn DEPS memory)\n")
        self.write("tessera/train/CMakeLists.txt", "tessera_layer(train DEPS nn)\n")
        self.write("tessera/nn/layer_test.cpp", '\nauto host = Device::get("host");\n')
        self.write("tessera/memory/more.cpp", '\nauto host = Device::get("host");\n')
        self.write("tessera/nn/more.h", '// Moves to "cuda:0".\n#pragma once\n')
        self.expect_good("check_layers.py")
        for layer in ("nn", "train"):
            for name in ("host", "cuda", "cuda:0", "meta"):
                with self.subTest(layer=layer, name=name):
                    planted = self.write(f"tessera/{layer}/step.cpp", f'\nauto device = Device::get("{name}");\n')
                    self.expect_error("check_layers.py", f"tessera/{layer}/step.cpp:2", "names a device")
                    planted.unlink()

    def test_detail_of_another_layer(self):
        header = "tessera/device/detail/state.h"
        self.write(header, "// The state of a device.\n#pragma once\n")
        self.write("tessera/device/stream_test.cpp", f'#include "{header}"\n')
        self.expect_good("check_layers.py")
        for path in ("memory/more.cpp", "memory/testing/more.h", "memory/pool_test.cpp", "cli/more.cpp"):
            with self.subTest(path):
                planted = self.write(f"tessera/{path}", f'#pragma once\n#include "{header}"\n')
                self.expect_error("check_layers.py", f"tessera/{path}:2", "internal to layer device")
                planted.unlink()

    def test_detail_of_a_part_of_the_same_layer(self):
        self.write("tessera/device/host/detail/queue.h", "// A queue.\n#pragma once\n")
        self.write("tessera/device/host/stream.cpp", '#include "tessera/device/host/stream.h"\n#include "tessera/device/host/detail/queue.h"\n')
        self.expect_good("check_layers.py")
        self.write("tessera/memory/more.cpp", '#include "tessera/device/host/detail/queue.h"\n')
        self.expect_error("check_layers.py", "tessera/memory/more.cpp:1", "internal to layer device")

    def test_internals_of_a_device(self):
        self.write("tessera/memory/more.cpp", '#include "tessera/device/host/stream.h"\n')
        self.expect_error("check_layers.py", "tessera/memory/more.cpp:1", "internal to device/host")

    def test_one_device_reaching_into_the_other(self):
        self.write("tessera/device/cuda/more.cpp", '#include "tessera/device/host/stream.h"\n')
        self.expect_error("check_layers.py", "tessera/device/cuda/more.cpp:1", "internal to device/host")

    def test_testing_inside_the_library(self):
        self.write("tessera/device/more.cpp", '#include "tessera/base/testing/tree.h"\n')
        self.expect_error("check_layers.py", "tessera/device/more.cpp:1", "for tests")

    def test_cuda_header_outside_its_places(self):
        for header in ("cuda.h", "cuda_runtime_api.h", "nccl.h", "cublas_v2.h"):
            self.write("tessera/memory/more.cpp", f"#include <{header}>\n")
            self.expect_error("check_layers.py", "tessera/memory/more.cpp:1", "CUDA and NCCL headers")

    def test_vector_header_without_its_toggle(self):
        self.write("tessera/base/detail/exp-inl.h", "// Vector code.\n#if defined(A_H) == defined(HWY_TARGET_TOGGLE)\n#endif\n")
        self.expect_good("check_layers.py")
        self.write("tessera/base/detail/exp-inl.h", "// Vector code.\n#pragma once\n")
        self.expect_error("check_layers.py", "tessera/base/detail/exp-inl.h:1", "HWY_TARGET_TOGGLE")

    def test_cuda_header_in_an_installed_header(self):
        self.write("tessera/device/cuda/driver.h", "#pragma once\n#include <cuda.h>\n")
        self.expect_good("check_layers.py")
        self.write("tessera/device/cuda/cuda_device.h", "#pragma once\n#include <cuda.h>\n")
        self.expect_error("check_layers.py", "tessera/device/cuda/cuda_device.h:2", "installed header")

    def test_third_party_header_in_an_installed_header(self):
        for header in ("fmt/core.h", "spdlog/spdlog.h", "nlohmann/json.hpp", "CLI/CLI.hpp"):
            self.write("tessera/base/more.h", f"#pragma once\n#include <{header}>\n")
            self.expect_error("check_layers.py", "tessera/base/more.h:2", "third-party")

    def test_no_pragma_once(self):
        self.write("tessera/base/more.h", "// x\n// #pragma once\n")
        self.expect_error("check_layers.py", "tessera/base/more.h:1", "pragma once")

    def test_own_header_not_first(self):
        self.write("tessera/base/error.cpp", '#include <vector>\n\n#include "tessera/base/error.h"\n')
        self.expect_error("check_layers.py", "tessera/base/error.cpp:1", "first")

    def test_short_path(self):
        self.write("tessera/base/more.cpp", '#include "error.h"\n')
        self.expect_error("check_layers.py", "tessera/base/more.cpp:1", "full path")

    def test_folder_without_a_layer(self):
        self.write("tessera/extra/more.cpp", "int x;\n")
        self.expect_error("check_layers.py", "tessera/extra/more.cpp:1", "declares no")

    def test_example_including_internals(self):
        self.write("examples/copy.cpp", '#include <tessera/device/detail/state.h>\n')
        self.expect_error("check_layers.py", "examples/copy.cpp:1", "not installed")

    def test_layers_in_a_circle(self):
        self.write("tessera/base/CMakeLists.txt", "tessera_layer(base DEPS memory)\n")
        status, output = self.run_gate("check_layers.py", "--root", str(self.root))
        self.assertEqual(status, 1)
        self.assertIn("circle", output)


def function(lines, head="int f(int a)"):
    return head + " {\n" + "  ++a;\n" * (lines - 2) + "}\n"


class Sizes(Gate):
    def test_good_tree_passes(self):
        self.assertNotIn("warning", self.expect_good("check_sizes.py"))

    def test_long_header(self):
        self.write("tessera/base/more.h", "\n" * 250)
        self.expect_good("check_sizes.py")
        self.write("tessera/base/more.h", "\n" * 251)
        self.expect_error("check_sizes.py", "tessera/base/more.h:251", "251 lines")

    def test_long_source(self):
        self.write("tessera/base/more.cpp", "\n" * 501)
        self.expect_error("check_sizes.py", "tessera/base/more.cpp:501", "501 lines")

    def test_long_function_of_every_kind(self):
        for head in ("int f(int a)", "static auto f(int a) -> std::vector<int>", "A::A(int a) : a_(a), b_{1, 2}, c_{}",
                     "template <class T>\n  requires(sizeof(T) > 1)\nvoid A<T>::f(T a) const noexcept", "TEST(A, Does)",
                     "bool operator==(A a, B b)", "int f(A a = {1, 2}, std::function<void()> b = {})", "TESSERA_BENCH(copies)"):
            extra = head.count("\n")
            self.write("tessera/base/more.cpp", "namespace a {\n\n" + function(100 - extra, head) + "}\n")
            self.expect_good("check_sizes.py")
            self.write("tessera/base/more.cpp", "namespace a {\n\n" + function(101 - extra, head) + "}\n")
            self.expect_error("check_sizes.py", "tessera/base/more.cpp:3", "has 101 lines")

    def test_long_method_in_a_class(self):
        body = function(101, "  void f(int a) override")
        self.write("tessera/base/more.cpp", "class A final : public B<C(int)> {\n public:\n  int x_{1};\n" + body + "};\n")
        self.expect_error("check_sizes.py", "tessera/base/more.cpp:4", "f has 101 lines")

    def test_warning_above_sixty_but_not_for_tests(self):
        self.write("tessera/base/more.cpp", function(61))
        self.assertIn("more.cpp:1: warning: f has 61 lines", self.expect_good("check_sizes.py"))
        self.write("tessera/base/more.cpp", function(60))
        self.write("tessera/base/more_test.cpp", function(61))
        self.assertNotIn("warning", self.expect_good("check_sizes.py"))

    def test_braces_that_are_none(self):
        text = 'const char* a = "{"; // {\n/* { */ const char b = \'{\';\n#define X {\nauto c = R"(\n{)";\nint d = 1\'000;\n' + function(3)
        self.write("tessera/base/more.cpp", text + function(101, "int g(int a)"))
        self.expect_error("check_sizes.py", "tessera/base/more.cpp:10", "g has 101 lines")


class Words(Gate):
    def test_good_tree_passes(self):
        self.expect_good("check_words.py")

    def test_each_word_and_path(self):
        for text in ("// TODO: later", "// FIXME", "a XXX b", "a stub for now", "not yet implemented", "see /home/someone/x",
                     "/root/x", "<<<<<<< HEAD"):
            self.write("docs/more.md", f"one\n{text}\n")
            self.expect_error("check_words.py", "docs/more.md:2", "")

    def test_words_that_only_look_alike(self):
        self.write("docs/more.md", "stubborn, https://example.org/home/x, TESSERA_XXXL, framework/root\n")
        self.expect_good("check_words.py")

    def test_phrases_of_pages(self):
        for text in ("It is told.", "What is left stays.", "Likewise for ranks.", "three ranks, of which one waits", "It waits in vain."):
            self.write("docs/more.md", f"one\n{text}\n")
            self.expect_error("check_words.py", "docs/more.md:2", "plain English")

    def test_phrases_of_comments(self):
        self.write("tessera/base/more.cpp", '// One.\nconst char* a = "is told";  // It is told.\n')
        self.expect_error("check_words.py", "tessera/base/more.cpp:2", "plain English")
        self.write("tessera/base/more.cpp", '// One.\nconst char* a = "is told";\n')
        self.expect_good("check_words.py")

    def test_phrases_in_code_and_with_a_reason(self):
        self.write("docs/more.md", "one `is told`\n```\nis told\n```\nis told <!-- words: quotes a program -->\n")
        self.expect_good("check_words.py")

    def test_line_ends(self):
        for text, place in (("a \n", 1), ("a\nb", 2), ("a\r\n", 1)):
            (self.root / "more.md").write_bytes(text.encode())
            self.expect_error("check_words.py", f"more.md:{place}", "")


@unittest.skipUnless(shutil.which("clang-format") or shutil.which("clang-format-14"), "clang-format is missing")
class Format(Gate):
    def test_unformatted_file(self):
        shutil.copy(ROOT / ".clang-format", self.root)
        self.expect_good("check_format.py")
        self.write("tessera/base/more.cpp", "int  f( ) {return 1;}\n")
        self.expect_error("check_format.py", "tessera/base/more.cpp:1", "not formatted")


@unittest.skipUnless(shutil.which("clang-tidy") or shutil.which("clang-tidy-14"), "clang-tidy is missing")
class Tidy(Gate):
    def git(self, *arguments):
        subprocess.run(["git", "-C", str(self.root), "-c", "user.name=a", "-c", "user.email=a@b", *arguments], check=True, capture_output=True)

    def test_changed_files_are_checked_and_others_are_not(self):
        shutil.copy(ROOT / ".clang-tidy", self.root)
        self.write(".gitignore", "/build/\n")
        bad = "#include <string>\nbool f(const std::string& a) { return a.size() == 0; }\n"
        self.write("old.cpp", bad)
        entries = ",".join(f'{{"directory": "{self.root}", "file": "{name}", "command": "c++ -std=c++20 -c {name}"}}'
                           for name in ("old.cpp", "new.cpp"))
        self.write("build/dev/compile_commands.json", f"[{entries}]")
        self.git("init", "-q", "-b", "main")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "one")
        self.write("new.cpp", "int g() { return 1; }\n")
        self.expect_good("check_tidy.py")
        self.write("new.cpp", bad)
        self.expect_error("check_tidy.py", "new.cpp:2", "readability-container-size-empty")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "two")
        self.expect_error("check_tidy.py", "new.cpp:2", "readability-container-size-empty")


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


@unittest.skipUnless(shutil.which("c++") and shutil.which("nm"), "needs a compiler")
class Symbols(Gate):
    def build(self, text):
        self.write("lib.cpp", text)
        subprocess.run(["c++", "-std=c++20", "-shared", "-fPIC", "-fvisibility=hidden", "-o", str(self.root / "lib.so"),
                        str(self.root / "lib.cpp")], check=True)

    def check(self, *arguments):
        return self.run_gate("check_symbols.py", "--library", str(self.root / "lib.so"), "--list", str(self.root / "list.txt"), *arguments)

    def test_added_removed_and_foreign_symbols(self):
        api = '#define API __attribute__((visibility("default")))\n'
        self.build(api + "namespace tessera { API void f(int) {} }\nvoid hidden() {}\n")
        self.assertEqual(self.check("--update")[0], 0)
        self.assertEqual((self.root / "list.txt").read_text(), "tessera::f(int)\n")
        self.assertEqual(self.check()[0], 0)
        self.build(api + "namespace tessera { API void f(int) {} API void g() {} }\n")
        status, output = self.check()
        self.assertEqual(status, 1)
        self.assertIn("new, not in the list: tessera::g()", output)
        self.build(api + "int x;\n")
        status, output = self.check()
        self.assertEqual(status, 1)
        self.assertIn("no longer exported: tessera::f(int)", output)
        self.build(api + "namespace tessera { API void f(int) {} }\nnamespace fmt { API void format() {} }\n")
        status, output = self.check()
        self.assertEqual(status, 1)
        self.assertIn("exports fmt::format()", output)
        self.build(api + "namespace tessera { API void f(int) {} }\n"
                   "namespace asio { template <class T> struct API id { static int x; };\n"
                   "template <class T> int id<T>::x; template struct API id<int>; }\n")
        status, output = self.check()
        self.assertEqual(status, 1)
        self.assertIn("exports asio::id<int>::x", output)


@unittest.skipUnless(shutil.which("c++") and shutil.which("readelf"), "needs a compiler")
class Library(Gate):
    def check(self, text, *options):
        self.write("lib.cpp", text)
        subprocess.run(["c++", "-std=c++20", "-shared", "-fPIC", "-U_FORTIFY_SOURCE", *options, "-o",
                        str(self.root / "lib.so"), str(self.root / "lib.cpp")], check=True)
        return self.check_again()

    def check_again(self, *options):
        return self.run_gate("check_library.py", str(self.root / "lib.so"), "--tree", str(self.root / "tree"), *options)

    LINKED = ("-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack")
    COMPILED = ("-O2", "-fstack-protector-strong", "-D_FORTIFY_SOURCE=2")
    GOOD = LINKED + COMPILED
    # A buffer protected by a stack protector and a checked call.
    GUARDED = ("#include <cstring>\nvoid use(char*);\nvoid g(const char* s, unsigned long n)"
               " { char b[8]; std::memcpy(b, s, n); use(b); }\n")

    def test_hardened_library_passes(self):
        status, output = self.check(self.GUARDED, *self.GOOD)
        self.assertEqual(status, 0, output)

    def test_a_debug_build_has_no_checked_calls(self):
        status, output = self.check(self.GUARDED, *self.LINKED, "-fstack-protector-strong")
        self.assertEqual(status, 1)
        self.assertIn("no checked libc calls", output)
        status, output = self.check_again("--without-fortify")
        self.assertEqual(status, 0, output)

    @unittest.skipUnless(os.uname().machine == "x86_64", "notes of x86")
    def test_objects_without_branch_targets_are_found(self):
        self.check(self.GUARDED, *self.GOOD)
        note = ('.section .note.GNU-stack,"",@progbits\n.section .note.gnu.property,"a"\n.balign 8\n'
                '.long 4, 16, 5\n.asciz "GNU"\n.long 0xc0000002, 4, 3, 0\n')
        for name, text, options, missing in [
                ("full.cpp", "int f() { return 1; }\n", ("-fcf-protection=full",), ()),
                ("none.cpp", "int f() { return 1; }\n", ("-fcf-protection=none",), ("IBT", "SHSTK")),
                ("branch.cpp", "int f() { return 1; }\n", ("-fcf-protection=branch",), ("SHSTK",)),
                ("noted.S", note, (), ()), ("plain.S", ".byte 0\n", (), ("IBT", "SHSTK"))]:
            made = self.root / (name + ".o")
            subprocess.run(["c++", "-c", *options, "-o", str(made), str(self.write(name, text))], check=True)
            status, output = self.check_again("--objects", str(made))
            self.assertEqual(status, 1 if missing else 0, output)
            for feature in ("IBT", "SHSTK"):
                self.assertEqual(f"({feature})" in output, feature in missing, output)

    def test_each_weakness_is_found(self):
        tls = '[[gnu::tls_model("initial-exec")]] thread_local char block[600];\nchar* f() { return block; }\n'
        for text, options, finding in [
                ("int f() { return 1; }\n", ("-Wl,-z,relro", "-Wl,-z,lazy"), "binds symbols lazily"),
                ("int f() { return 1; }\n", ("-Wl,-z,norelro", "-Wl,-z,now"), "no read-only relocations"),
                ("int f() { return 1; }\n", (*self.GOOD[:2], "-Wl,-z,execstack"), "executable stack"),
                (self.GUARDED, (*self.GOOD, "-fno-stack-protector"), "no stack protectors"),
                (self.GUARDED, (*self.GOOD, "-U_FORTIFY_SOURCE"), "no checked libc calls"),
                (tls, self.GOOD, "600 bytes of static thread-local storage"),
                (f'const char* f() {{ return "{self.root}/tree/x.cpp"; }}\n', self.GOOD, "path of the build machine")]:
            status, output = self.check(text, *options)
            self.assertEqual(status, 1, finding)
            self.assertIn(finding, output)


@unittest.skipUnless(shutil.which("cmake") and shutil.which("ninja"), "needs cmake and ninja")
class Configure(Gate):
    def test_a_plain_configuration_optimizes_and_leaves_no_paths(self):
        build = self.root / "out"
        environment = {name: value for name, value in os.environ.items() if name != "CMAKE_BUILD_TYPE"}
        done = subprocess.run(["cmake", "-S", str(ROOT), "-B", str(build), "-G", "Ninja", "-DTESSERA_TESTS=OFF",
                               "-DTESSERA_CUDA=OFF", "-DTESSERA_MPI=OFF"], capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Build type: Release", done.stdout)
        self.assertRegex((build / "CMakeCache.txt").read_text(), r"(?m)^CMAKE_BUILD_TYPE:\w+=Release$")
        for tree in (ROOT, build):
            self.assertIn(f"-ffile-prefix-map={tree}/=", (build / "build.ninja").read_text())


class Sbom(Gate):
    """The list of dependencies, from headers in a temporary folder."""

    def versions(self, *options):
        out = self.root / "sbom.json"
        done = subprocess.run([sys.executable, str(ROOT / "tools/make_sbom.py"), "--output", str(out), "--version", "1",
                               "--compiler", "c", *options, "--", str(self.root / "include")], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {each["name"]: each["version"] for each in json.loads(out.read_text())["components"]}, done.stderr

    def test_versions_come_from_headers(self):
        self.write("include/fmt/core.h", "#define FMT_VERSION 90100\n")
        self.assertEqual(self.versions()[0]["fmt"], "9.1.0")
        self.write("include/fmt/core.h", '#include "format.h"\n')
        self.write("include/fmt/base.h", "#define FMT_VERSION 110200\n")
        self.assertEqual(self.versions()[0]["fmt"], "11.2.0")

    def test_what_is_not_found_is_listed_as_unknown(self):
        versions, warnings = self.versions("--nvcc", "/no/such/nvcc")
        self.assertEqual(set(versions.values()), {"unknown"})
        self.assertEqual(len(versions), warnings.count("warning: the version of"))

    def test_optional_dependencies_are_listed_if_the_build_uses_them(self):
        self.assertFalse({"cuda", "nccl", "openmpi", "nvcc"} & set(self.versions()[0]))
        self.write("cuda/cuda.h", "#define CUDA_VERSION 13020\n")
        self.write("cuda/nccl.h", "#define NCCL_MAJOR 2\n#define NCCL_MINOR 28\n#define NCCL_PATCH 9\n")
        self.write("mpi/mpi.h", "#define OMPI_MAJOR_VERSION 4\n#define OMPI_MINOR_VERSION 1\n#define OMPI_RELEASE_VERSION 4\n")
        nvcc = self.write("nvcc", "#!/bin/sh\necho Cuda compilation tools, release 13.2, V13.2.88\n")
        nvcc.chmod(0o755)
        versions, _ = self.versions("--nvcc", str(nvcc), "--with", f"cuda={self.root}/cuda", "--with",
                                    f"nccl={self.root}/cuda", "--with", f"openmpi={self.root}/mpi")
        self.assertEqual([versions[name] for name in ("cuda", "nccl", "openmpi", "nvcc")],
                         ["13.2", "2.28.9", "4.1.4", "13.2.88"])


class Operators(Gate):
    HEAD = "| operator | host | cuda |\n| --- | --- | --- |\n"

    def check(self, table, *arguments):
        """Runs the gate on the page, with a program that prints `table`."""
        self.write("program", f"#!/bin/sh\ncat <<'END'\n{table}END\n")
        (self.root / "program").chmod(0o755)
        return self.run_gate("check_operators.py", "--program", str(self.root / "program"),
                             "--page", str(self.root / "page.md"), *arguments)

    def test_page_that_lags_behind(self):
        old = self.HEAD + "| `add` | yes | yes |\n"
        self.assertEqual(self.check(old, "--update")[0], 0)
        self.assertEqual(self.check(old)[0], 0)
        status, output = self.check(old + "| `mul` | yes | |\n")
        self.assertEqual(status, 1)
        self.assertIn("lacks: | `mul`", output)
        status, output = self.check(self.HEAD)
        self.assertEqual(status, 1)
        self.assertIn("no longer true: | `add`", output)

    def test_a_build_without_cuda_does_not_judge_that_column(self):
        self.check(self.HEAD + "| `add` | yes | yes |\n", "--update")
        bare = self.HEAD + "| `add` | yes | |\n"
        self.assertEqual(self.check(bare)[0], 1)
        self.assertEqual(self.check(bare, "--without-cuda")[0], 0)


class Records(Gate):
    def test_new_records_of_ended_processes_are_named(self):
        space = os.stat("/proc/self/ns/pid").st_ino
        start = int(pathlib.Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19])
        gone = subprocess.Popen(["true"])
        gone.wait()

        def record(space, pid, start):
            return str(self.write(f"shm/tessera-n{space}-p{pid}-t{start}-r0-0.record", ""))

        record(space, os.getpid(), start)
        record(space + 1, gone.pid, 1)
        self.write("shm/tessera-0", "")
        old = record(space, os.getpid(), start + 1)  # of another process that had this pid
        where = ("--directory", str(self.root / "shm"))
        status, before = self.run_gate("check_records.py", *where)
        self.assertEqual((status, before), (0, old + "\n"))
        check = (*where, "--before", str(self.write("before", before)))
        self.assertEqual(self.run_gate("check_records.py", *check), (0, ""))
        new = record(space, gone.pid, 1)
        status, output = self.run_gate("check_records.py", *check)
        self.assertEqual(status, 1)
        self.assertIn(new, output)
        self.assertNotIn(old, output)


@unittest.skipUnless(shutil.which("doxygen"), "doxygen is missing")
class Doxygen(Gate):
    def doxygen(self):
        return self.run_gate("check_docs.py", "--root", str(self.root))

    def test_every_kind_of_undocumented_symbol(self):
        shutil.rmtree(self.root / "tessera")
        (self.root / "tools").mkdir()
        shutil.copy(ROOT / "tools/doxygen_filter", self.root / "tools")
        for name in ("docs/Doxyfile", "docs/api/README.md"):
            self.write(name, (ROOT / name).read_text())
        text = "// A file.\n#pragma once\nnamespace tessera::device {\n%s\n}\n%s\n"
        self.write("tessera/device/a.h", text % ("/// Said.\nint f();\nnamespace detail { int g(); }", "/// Said.\n#define TESSERA_X 1"))
        self.assertEqual(self.doxygen(), (0, "docs: 1 files, good\n"))
        for inside in ("int f();", "struct A { int b; };", "enum class A { kB };", "using A = int;", "/// Said.\nclass A {\n public:\n  void f();\n};"):
            self.write("tessera/device/a.h", text % (inside, ""))
            status, output = self.doxygen()
            self.assertNotEqual(status, 0, f"not seen: {inside}")
            self.assertIn("is not documented", output)
        self.write("tessera/device/a.h", text % ("", "#define TESSERA_X 1"))
        self.assertNotEqual(self.doxygen()[0], 0)


if __name__ == "__main__":
    unittest.main()
