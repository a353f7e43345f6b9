"""Tests that each gate of the source text passes on a good tree and fails on each planted violation."""

import json
import shutil
import subprocess
import unittest

from gate_case import ROOT, Gate


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
        for text in ("It is told.", "What is left stays.", "Likewise for ranks.", "three ranks, of which one waits", "It waits in vain.",
                     "The rank says so.", "It hears nothing.", "say why there is none", "It comes to a wait.", "copied behind it"):
            self.write("docs/more.md", f"one\n{text}\n")
            self.expect_error("check_words.py", "docs/more.md:2", "plain English")

    def test_phrases_of_comments_and_strings(self):
        for text in ('int a;  // It is told.', 'const char* a = "is told";', 'auto b = R"(one\n is told)";', '/// Who waits, waits.'):
            self.write("tessera/base/more.cpp", f"// One.\n{text}\n")
            self.expect_error("check_words.py", f"tessera/base/more.cpp:{2 + text.count(chr(10))}", "plain English")

    def test_phrases_in_code_and_with_a_reason(self):
        self.write("docs/more.md", "one `is told`\n```\nis told\n```\nis told <!-- words: quotes a program -->\n")
        self.write("tessera/base/more.cpp", '#include "told/is told.h"\nint is_told;\nauto a = "is told";  // words: name of a record\n')
        self.expect_good("check_words.py")
        for marker in ("words:", "words: quote"):
            self.write("docs/more.md", f"is told <!-- {marker} -->\n")
            self.expect_error("check_words.py", "docs/more.md:1", "plain English")

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


if __name__ == "__main__":
    unittest.main()
