"""Tests of gates that check what a build makes: libraries, packages, generated pages and records."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

from gate_case import GOOD, ROOT, Gate


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
