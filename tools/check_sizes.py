#!/usr/bin/env python3
"""Checks the length of files and functions: headers at most 250 lines, sources 500, functions 60 (a warning; not for
tests and benches) and never more than 100."""

import argparse
import pathlib
import re
import sys

import source_tree

HEADER_LINES = 250
SOURCE_LINES = 500
FUNCTION_WARNING = 60
FUNCTION_LINES = 100

SCOPE = re.compile(r"\b(?:namespace|class|struct|union|enum|extern)\b(?![^{]*\)\s*(?:const|noexcept|override|->.*)?\s*$)")


def without_directives(code):
    """Returns the code with preprocessor lines and continuations blanked: the braces of a macro need not match."""
    return re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", lambda match: re.sub(r"[^\n]", " ", match.group()), code, flags=re.MULTILINE)


def closing(code, start):
    """Returns the index of the brace that closes the one at `start`; the end of the text if no brace closes it."""
    depth = 0
    for brace in re.finditer(r"[{}]", code[start:]):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return start + brace.start()
    return len(code) - 1


def is_initializer(head):
    """Returns True if the brace after `head` starts a value: `x = {`, `f({`, or a member initializer."""
    if head.count("(") > head.count(")") or re.search(r"[=,(]\s*$|\breturn\s*$", head):
        return True
    return bool(re.search(r"\)[^()]*(?<!:):(?!:)", head) and re.search(r"[\w>]\s*$", head)
                and not re.search(r"\b(?:const|noexcept|override|final|mutable|try)\s*$", head))


def functions(text):
    """Returns (first line, last line, name) of every function; a lambda is part of the enclosing function."""
    code = without_directives(source_tree.blank(text))
    found = []
    position = head_start = 0
    while match := re.compile(r"[{};]").search(code, position):
        position = match.end()
        head = code[head_start:match.start()]
        if match.group() == ";" and head.count("(") > head.count(")"):
            continue
        if match.group() != "{":
            head_start = position
        elif is_initializer(head):
            position = closing(code, match.start()) + 1
        elif "(" not in head or SCOPE.search(re.sub(r"<[^<>]*>", "", head)):
            if not re.search(r"\b(?:namespace|class|struct|union|extern)\b", head):
                position = closing(code, match.start()) + 1  # an enum or a value: nothing to find inside
            head_start = position
        else:
            end = closing(code, match.start())
            first = code.count("\n", 0, head_start + len(head) - len(head.lstrip())) + 1
            name = re.search(r"([\w:~]+|operator[^\w\s]+)\s*\(", head)
            found.append((first, code.count("\n", 0, end) + 1, name.group(1) if name else "function"))
            position = head_start = end + 1
    return found


def check_file(root, path, findings):
    text = (root / path).read_text()
    lines = text.count("\n")
    limit = HEADER_LINES if path.suffix in source_tree.HEADERS else SOURCE_LINES
    if lines > limit:
        findings.error(path, limit + 1, f"{lines} lines, at most {limit}: split it by idea")
    for first, last, name in functions(text):
        length = last - first + 1
        if length > FUNCTION_LINES:
            findings.error(path, first, f"{name} has {length} lines, at most {FUNCTION_LINES}")
        elif length > FUNCTION_WARNING and not source_tree.is_for_tests(path):
            findings.warning(path, first, f"{name} has {length} lines, better at most {FUNCTION_WARNING}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent,
                        help="the tree to check (default: the one this file is in)")
    root = parser.parse_args().root
    findings = source_tree.Findings("sizes")
    checked = source_tree.cpp_files(root)
    for path in checked:
        check_file(root, path, findings)
    return findings.close(len(checked))


if __name__ == "__main__":
    sys.exit(main())
