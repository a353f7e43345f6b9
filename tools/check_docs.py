#!/usr/bin/env python3
"""Generates the API pages (build/docs/api) from the installed headers. An undocumented public symbol is an error."""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

import source_tree


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent,
                        help="the tree to document (default: the one this file is in)")
    root = parser.parse_args().root.resolve()
    if shutil.which("doxygen") is None:
        print("doxygen is missing: apt-get install doxygen")
        return 1
    headers = [str(path) for path in source_tree.cpp_files(root) if source_tree.is_installed(path)]
    (root / "build").mkdir(exist_ok=True)
    settings = (root / "docs/Doxyfile").read_text() + "INPUT = docs/api/README.md " + " ".join(headers) + "\n"
    done = subprocess.run(["doxygen", "-"], input=settings, cwd=root, text=True, capture_output=True)
    findings = source_tree.Findings("docs")
    for line in dict.fromkeys((done.stdout + done.stderr).splitlines()):
        findings.errors += 1
        print(line.replace(str(root) + os.sep, ""))
    if done.returncode != 0 and findings.errors == 0:
        findings.error("docs/Doxyfile", 1, f"doxygen ended with {done.returncode}")
    return findings.close(len(headers))


if __name__ == "__main__":
    sys.exit(main())
