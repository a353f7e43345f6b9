#!/usr/bin/env python3
"""Checks the text of every file: nothing put off to later, no paths of one machine, lines that end cleanly."""

import argparse
import pathlib
import re
import sys

import source_tree

WORDS = [
    (re.compile(r"\b(?:TODO|FIXME|XXX|HACK|TBD|WIP)\b"), "finish it, or write it down where work is planned"),
    (re.compile(r"\bstub(?:s|bed)?\b", re.IGNORECASE), "what is absent is absent: nothing stands in for it"),
    (re.compile(r"\b(?:not (?:yet )?implemented|to be (?:done|written)|coming soon)\b", re.IGNORECASE), "finish it, or leave it out"),
    (re.compile(r"(?<![\w.])/(?:home|Users|root|work)/\w"), "a path of one machine"),
    (re.compile(r"/tmp/wt\b"), "a path of one machine"),
    (re.compile(r"^(?:<{7}|={7}|>{7})(?:\s|$)"), "a merge was left half done"),
]
TRAILING = re.compile(r"[ \t]+$")
EXEMPT = {"tools/check_words.py", "tools/tests/gates_test.py"}
BINARY = {".png", ".svg", ".ico", ".bin", ".fatbin", ".pickle"}


def check_file(root, path, findings):
    try:
        text = (root / path).read_bytes().decode()
    except UnicodeDecodeError:
        findings.error(path, 1, "not UTF-8 text; list its ending under BINARY if it belongs here")
        return
    if text and not text.endswith("\n"):
        findings.error(path, text.count("\n") + 1, "the last line needs a line end")
    for number, line in enumerate(text.split("\n"), start=1):
        if line.endswith("\r"):
            findings.error(path, number, "carriage return at the end of the line")
        elif TRAILING.search(line):
            findings.error(path, number, "spaces at the end of the line")
        if str(path) in EXEMPT:
            continue
        for pattern, why in WORDS:
            if match := pattern.search(line):
                findings.error(path, number, f"'{match.group().strip()}': {why}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent,
                        help="the tree to check (default: the one this file is in)")
    root = parser.parse_args().root
    findings = source_tree.Findings("words")
    checked = [path for path in source_tree.files(root) if path.suffix not in BINARY]
    for path in checked:
        check_file(root, path, findings)
    return findings.close(len(checked))


if __name__ == "__main__":
    sys.exit(main())
