"""Tests that an upward call of a layer fails to link. Such a call compiles if it declares the function itself, so the check
of includes does not find it. The tests of a layer link only its declared dependencies; here such a call is planted."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

FILES = {
    "CMakeLists.txt": f"""cmake_minimum_required(VERSION 3.25)
project(planted VERSION 0.1.0 LANGUAGES CXX ASM)
list(APPEND CMAKE_MODULE_PATH {ROOT}/cmake)
set(TESSERA_TESTS ON)
set(TESSERA_CUDA OFF)
include(TesseraOptions)
include(TesseraCuda)
include(TesseraLayer)
enable_testing()
add_subdirectory(tessera/lower)
add_subdirectory(tessera/upper)
""",
    "tessera/lower/CMakeLists.txt": "tessera_layer(lower)\n",
    "tessera/lower/low.cpp": "int low() { return 1; }\n",
    "tessera/lower/low_test.cpp": "int low();\nint one = low();\n",
    "tessera/upper/CMakeLists.txt": "tessera_layer(upper DEPS lower)\n",
    "tessera/upper/high.cpp": "int low();\nint high() { return low() + 1; }\nint extra() { return 3; }\n",
    "tessera/upper/high_test.cpp": "int high();\nint two = high();\n",
}


class LinkClosure(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        for name, text in FILES.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def tearDown(self):
        self.folder.cleanup()

    def run_cmake(self, *arguments):
        done = subprocess.run(["cmake", *arguments], cwd=self.root, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def configure(self):
        return self.run_cmake("-S", ".", "-B", "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0")

    def build(self, target):
        return self.run_cmake("--build", "build", "--target", target)

    def test_call_upwards_fails_to_link(self):
        status, output = self.configure()
        self.assertEqual(status, 0, output)
        for target in ("lower_tests", "upper_tests"):
            status, output = self.build(target)
            self.assertEqual(status, 0, output)
        (self.root / "tessera/lower/low.cpp").write_text("int extra();\nint low() { return extra() - 2; }\n")
        status, output = self.build("lower_tests")
        self.assertNotEqual(status, 0, "the planted call upwards linked")
        self.assertRegex(output, r"undefined (reference to .|symbol: .*)extra")  # of ld, of mold

    def test_dependency_on_a_layer_above_is_refused(self):
        (self.root / "tessera/lower/CMakeLists.txt").write_text("tessera_layer(lower DEPS upper)\n")
        status, output = self.configure()
        self.assertNotEqual(status, 0)
        self.assertIn("layer lower names upper, which does not stand below it", " ".join(output.split()))


if __name__ == "__main__":
    unittest.main()
