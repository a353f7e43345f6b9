#!/usr/bin/env python3
"""Groups sources of a target that are compiled as one, for builds from scratch (TESSERA_GROUP_SOURCES).

A compiler spends half of its time on headers that all sources of a layer share. Compiled in groups of eight, they are read
once. Two sources of a group must not have the same name in their unnamed namespaces, so this tool searches the text for
such names. A name found by mistake only costs a little speed.

Prints a line `GROUP PATH` per source; sources without a group, which are compiled alone, are omitted.
"""

import argparse
import functools
import pathlib
import re
import sys

import source_tree

# Declarations start at the beginning of a line, in any namespace.
_TYPE = re.compile(r"^(?:template <[^\n]*>\s*)?(?:struct|class|union|enum(?: class)?) (?:alignas\(\w+\) |TESSERA_API )?(\w+)", re.MULTILINE)
_ALIAS = re.compile(r"^(?:template <[^\n]*>\s*)?using (\w+) =([^;]*);", re.MULTILINE)
_USED = re.compile(r"^using ([\w:]*::(\w+));", re.MULTILINE)
_CALLED = re.compile(r"^(?!return|using|namespace|struct|class|enum|template|static_assert|TESSERA_|TEST)(?=\w)[\w:<>,*& \[\]]*?(?<![\w:~])(\w+)\(", re.MULTILINE)
_VALUE = re.compile(r"^(?:inline |static |constexpr |constinit |const |thread_local )+[^=;({]*?(\w+)(?:\[[^\]]*\])*(?: =|\{|;)", re.MULTILINE)
# Variables of functions must not hide a name that the file imports by `using` (-Wshadow).
_LOCAL = re.compile(r"^ +(?:const )?[\w:<>]+[&*]* (\w+)(?: =|[({;])", re.MULTILINE)
# Lines that would affect the sources after them.
_REACHES_ON = re.compile(r"^using namespace|^#(?:define|pragma (?!once))", re.MULTILINE)


_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


class Source:
    """A source, and its names that may collide with others of its group."""

    def __init__(self, path, root):
        text = path.read_text()
        code = source_tree.blank(text)
        self.path = path
        self.lines = text.count("\n")
        self.reaches_on = _REACHES_ON.search(code) is not None
        # Name to declaration; two sources may have equal declarations.
        self.strict = {match.group(1): None for pattern in (_TYPE, _VALUE) for match in pattern.finditer(code)}
        self.strict |= {match.group(1): " ".join(match.group(2).split()) for match in _ALIAS.finditer(code)}
        self.functions = {match.group(1) for match in _CALLED.finditer(code)}
        self.used = {match.group(2): match.group(1) for match in _USED.finditer(code)}
        self.locals = {match.group(1) for match in _LOCAL.finditer(code)}
        self.words = set(re.findall(r"\w+", code))
        self.declared = {}  # in headers, name to headers
        self.headers = headers_of(text, root)
        for path in self.headers:
            for name in declared_in(path):
                self.declared.setdefault(name, set()).add(path)


@functools.cache
def declared_in(path):
    """Returns the types and values of a header."""
    code = source_tree.blank(path.read_text())
    return frozenset(match.group(1) for pattern in (_TYPE, _ALIAS, _VALUE) for match in pattern.finditer(code))


@functools.cache
def functions_in(path):
    """Returns the functions of a header."""
    return frozenset(match.group(1) for match in _CALLED.finditer(source_tree.blank(path.read_text()).replace("TESSERA_API ", "")))


@functools.cache
def headers_in(path, root):
    return [root / name for name in _INCLUDE.findall(path.read_text()) if (root / name).is_file()]


def headers_of(text, root):
    """Returns all headers of the tree that a source includes, directly or indirectly."""
    found = set()
    left = [root / name for name in _INCLUDE.findall(text) if (root / name).is_file()]
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += headers_in(path, root)
    return found


class Group:
    """Sources that are compiled as one."""

    def __init__(self):
        self.sources = []

    def takes(self, source, most_lines):
        """Returns True if the source may be added."""
        if sum(each.lines for each in self.sources) + source.lines > most_lines:
            return False
        return not any(clash(source, each) or clash(each, source) for each in self.sources)


def clash(one, other):
    """Returns True if the second source uses a name that the first declares for itself. Names of functions may be used,
    because functions can be overloaded; the name of a type or value would hide the intended one."""
    for name, what in one.strict.items():
        is_known = name in other.words or name in other.declared or name in other.used
        if is_known and (what is None or other.strict.get(name) != what):
            return True
    for name, what in one.used.items():  # harmless if only one entity has this name
        if name in other.locals and name not in other.used:
            return True
        if other.used.get(name, what) != what or len(one.declared.get(name, set()) | other.declared.get(name, set())) > 1:
            return True
    # Overload resolution may prefer a function of headers that the first source does not include to its own.
    if any(not one.functions.isdisjoint(functions_in(path)) for path in other.headers - one.headers):
        return True
    return not one.functions.isdisjoint(other.functions)


def grouped(sources, most_lines):
    """Returns groups of sources; adjacent sources share a group if possible."""
    groups = []
    for source in sources:
        if source.reaches_on:
            continue
        home = next((group for group in groups if group.takes(source, most_lines)), None)
        if home is None:
            home = Group()
            groups.append(home)
        home.sources.append(source)
    return [group.sources for group in groups if len(group.sources) > 1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=1200, help="of a group at most (default: 1200)")
    parser.add_argument("sources", type=pathlib.Path, nargs="+")
    arguments = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parent.parent
    for number, sources in enumerate(grouped([Source(path, root) for path in arguments.sources], arguments.lines)):
        for source in sources:
            print(f"group_{number} {source.path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
