#!/usr/bin/env python3
"""Compares the exported symbols of the library with docs/api/symbols.txt, so that the public interface changes only on
purpose. Also checks that the library exports no symbol of its dependencies and contains no planted bug.

Weak symbols (inline functions, type information) depend on the compiler and are not listed. --update rewrites the list.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

import mutate_sources
import source_tree

ROOT = pathlib.Path(__file__).resolve().parent.parent
OURS = re.compile(r"\btessera::|^tessera_")
# Every C++ library exports instantiations of the standard library; they are harmless.
FOREIGN = re.compile(r"(?!tessera\b|std\b|__gnu_cxx\b)(?:\w+::|\w+$)")
CUDA = re.compile(r"\bcuda\b|[Cc]uda")


def exported(library):
    """Returns the demangled names that the library exports, with the kind letter of nm."""
    lines = subprocess.run(["nm", "-D", "--defined-only", "-C", str(library)], check=True, capture_output=True, text=True).stdout
    return [(match.group(1), match.group(2)) for match in re.finditer(r"^[0-9a-f]+ (\w) (.+)$", lines, re.MULTILINE)]


def tidy(name):
    """Normalizes the spelling of different compilers and C++ libraries."""
    name = re.sub(r"std::(?:__cxx11|__1)::", "std::", re.sub(r"\[abi:\w+\]", "", name))
    name = re.sub(r"std::basic_string<char, std::char_traits<char>, std::allocator<char> ?>", "std::string", name)
    return re.sub(r"std::basic_string_view<char, std::char_traits<char> ?>", "std::string_view", name)


def is_foreign(name):
    """Returns True if the symbol itself, without its arguments, is in a foreign namespace."""
    head = re.sub(r"^(?:typeinfo(?: name)?|vtable|VTT|guard variable|construction vtable) for ", "", name)
    head = re.sub(r"\boperator (?:new|delete)", "operator", head)
    head = re.sub(r"\((?!anonymous namespace\)).*", "", head)
    while re.search(r"<[^<>]*>", head):
        head = re.sub(r"<[^<>]*>", "", head)
    return bool(FOREIGN.match(head.split(" ")[-1])) and not head.startswith("tessera_")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=pathlib.Path, required=True, help="libtessera.so")
    parser.add_argument("--list", type=pathlib.Path, help="the list (default: docs/api/symbols.txt)",
                        default=ROOT / "docs/api/symbols.txt")
    parser.add_argument("--without-cuda", action="store_true", help="the library was built without CUDA: its names may be absent")
    parser.add_argument("--update", action="store_true", help="write the list instead of comparing")
    arguments = parser.parse_args()

    findings = source_tree.Findings("symbols")
    names = exported(arguments.library)
    surface = sorted({tidy(name) for kind, name in names if kind in "TBDR" and OURS.search(name.split("(")[0])})
    for _, name in names:
        if is_foreign(name):
            findings.error(arguments.library.name, 1, f"exports {name}: link it hidden, or use it in a .cpp only")
    content = arguments.library.read_bytes()
    for name, place in mutate_sources.find_names(sorted(ROOT.glob("tessera/*/testing/mutants.toml")), [""]).items():
        if b"\0" + name.encode() + b"\0" in content:
            findings.error(place, 1, f"the library holds the planted bug {name}; it must be built from the production sources")

    if arguments.update:
        arguments.list.parent.mkdir(parents=True, exist_ok=True)
        arguments.list.write_text("".join(name + "\n" for name in surface))
        print(f"{arguments.list}: {len(surface)} symbols written")
        return 1 if findings.errors else 0
    listed = arguments.list.read_text().splitlines() if arguments.list.is_file() else []
    if arguments.without_cuda:
        listed = [name for name in listed if name in surface or not CUDA.search(name)]
    for name in sorted(set(surface) - set(listed)):
        findings.error(os.path.relpath(arguments.list, ROOT), 1, f"new, not in the list: {name}")
    for name in sorted(set(listed) - set(surface)):
        findings.error(os.path.relpath(arguments.list, ROOT), listed.index(name) + 1, f"in the list, no longer exported: {name}")
    if findings.errors:
        print("If this change of the public surface is meant: tools/check_symbols.py --library LIB --update, and a line in CHANGELOG.md")
    return findings.close(1)


if __name__ == "__main__":
    sys.exit(main())
