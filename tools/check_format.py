#!/usr/bin/env python3
"""Checks that every C++ and CUDA file is formatted by .clang-format; --fix formats them."""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

import source_tree


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent,
                        help="the tree to check (default: the one this file is in)")
    parser.add_argument("--fix", action="store_true", help="format the files")
    arguments = parser.parse_args()
    # Versions interpret a configuration differently; Debian 12 has version 14.
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    if tool is None:
        print("clang-format is missing: apt-get install clang-format-14")
        return 1
    findings = source_tree.Findings("format")
    checked = source_tree.cpp_files(arguments.root)
    mode = ["-i"] if arguments.fix else ["--dry-run", "-Werror"]
    chunks = [checked[start::os.cpu_count() or 1] for start in range(os.cpu_count() or 1)]
    running = [subprocess.Popen([tool, "--style=file", *mode, *map(str, chunk)], cwd=arguments.root, text=True, stderr=subprocess.PIPE)
               for chunk in chunks if chunk]
    for process in running:
        output = process.communicate()[1]
        places = re.findall(r"^(.+?):(\d+):\d+: error:", output, re.MULTILINE)
        for path in dict.fromkeys(path for path, _ in places):
            findings.error(path, next(line for name, line in places if name == path), "not formatted; run tools/check_format.py --fix")
        if process.returncode != 0 and not places:
            findings.error(".clang-format", 1, output.strip())
    return findings.close(len(checked))


if __name__ == "__main__":
    sys.exit(main())
