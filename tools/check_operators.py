#!/usr/bin/env python3
"""Compares docs/operators.md with the output of `tessera ops --markdown`, so that the page stays up to date.

A build without CUDA does not know which operators have a CUDA kernel: with --without-cuda that column is not compared.
--update rewrites the page. From a build without CUDA, that column keeps its values.
"""

import argparse
import os
import pathlib
import subprocess
import sys

import source_tree

ROOT = pathlib.Path(__file__).resolve().parent.parent


def cells(line):
    """Returns the cells of a table row; an empty list for other lines."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("| ") else []


def cuda_column(lines):
    """Returns the index of the column cuda in the table."""
    return next((cells(line).index("cuda") for line in lines if "cuda" in cells(line)), None)


def with_cuda_of(lines, page):
    """Returns the lines with the CUDA column of the page, for operators that are in both."""
    column, theirs = cuda_column(lines), cuda_column(page)
    if column is None or theirs is None:
        return lines
    known = {row[0]: row[theirs] for row in map(cells, page) if len(row) > theirs}
    merged = []
    for line in lines:
        row = cells(line)
        if len(row) > column and row[0] in known:
            row[column] = known[row[0]]
            line = "|" + "".join(f" {cell} |" if cell else " |" for cell in row)
        merged.append(line)
    return merged


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, required=True, help="the command tessera")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs/operators.md", help="the page (default: docs/operators.md)")
    parser.add_argument("--without-cuda", action="store_true", help="the program was built without CUDA")
    parser.add_argument("--update", action="store_true", help="write the page instead of comparing")
    arguments = parser.parse_args()

    printed = subprocess.run([arguments.program, "ops", "--markdown"], check=True, capture_output=True, text=True).stdout
    lines = printed.splitlines()
    page = arguments.page.read_text().splitlines() if arguments.page.is_file() else []
    if arguments.without_cuda:
        lines = with_cuda_of(lines, page)
    if arguments.update:
        arguments.page.write_text("\n".join(lines) + "\n")
        print(f"{arguments.page}: {sum(line.startswith('| `') for line in lines)} operators written")
        return 0

    findings = source_tree.Findings("operators")
    name = os.path.relpath(arguments.page, ROOT)
    for line in lines:
        if line not in page:
            findings.error(name, 1, f"lacks: {line}")
    for number, line in enumerate(page, 1):
        if line not in lines:
            findings.error(name, number, f"no longer true: {line}")
    if not findings.errors and lines != page:
        findings.error(name, 1, "the lines are in another order")
    if findings.errors:
        print("Write it anew: tools/check_operators.py --program build/dev/tessera/cli/tessera --update")
    return findings.close(1)


if __name__ == "__main__":
    sys.exit(main())
