"""A small good tree, in which tests of gates plant violations."""

import pathlib
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
