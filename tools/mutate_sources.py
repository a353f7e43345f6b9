#!/usr/bin/env python3
"""Writes copies of sources with the planted bugs of a layer in them, for the mutant build of its tests.

`tessera/<layer>/testing/mutants.toml` lists the bugs. An entry replaces whole lines of one file:

    [[mutant]]
    names = ["host.wait_skipped"]
    file = "host/detail/host_stream.cpp"
    original = '''
      wait_for(event);
    '''
    mutated = '''
      if (!TESSERA_MUTANT("host.wait_skipped")) wait_for(event);
    '''

`original` occurs exactly once in the file. `mutated` still chooses at run time (tessera/base/testing/mutant.h), so all bugs
of a layer are compiled once. An entry with several names plants several bugs in the same lines. A bug that changes several
places has its name in the `names` of one entry and in `part_of` of the others.

A copy is written only if it changes, so that builds stay incremental.
"""

import argparse
import dataclasses
import pathlib
import re
import sys
import tomllib

POINT = re.compile(r'\bTESSERA_MUTANT\(\s*"([^"]+)"\s*\)')
HEADER = "tessera/base/testing/mutant.h"


@dataclasses.dataclass
class Entry:
    """A replacement, and the line of the list where it stands."""

    line: int
    names: list
    part_of: list
    file: str
    original: str
    mutated: str


class BadList(Exception):
    """A fault of a list: its line and what is wrong."""

    def __init__(self, line, message):
        super().__init__(message)
        self.line = line


def _entry(line, table):
    """The entry of a table that was read from TOML."""
    kinds = {"names": list, "part_of": list, "file": str, "original": str, "mutated": str}
    for key, value in table.items():
        if key not in kinds:
            raise BadList(line, f"unknown key '{key}'; an entry has {', '.join(kinds)}")
        if not isinstance(value, kinds[key]) or (kinds[key] is list and not all(isinstance(name, str) for name in value)):
            raise BadList(line, f"'{key}' must be a {'list of strings' if kinds[key] is list else 'string'}")
    for key in ("file", "original", "mutated"):
        if key not in table:
            raise BadList(line, f"an entry needs '{key}'")
    entry = Entry(line, table.get("names", []), table.get("part_of", []), table["file"], table["original"], table["mutated"])
    if not entry.names and not entry.part_of:
        raise BadList(line, "an entry needs 'names', or 'part_of' with names of other entries")
    if not entry.file.endswith((".cpp", ".h")):
        raise BadList(line, f"{entry.file}: bugs are planted in .cpp and .h files; a GPU kernel cannot choose at run time")
    return entry


def read_list(path):
    """The entries of a mutants.toml; throws BadList."""
    text = pathlib.Path(path).read_text()
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        raise BadList(int(found.group(1)) if found else 1, str(error)) from error
    if set(tables) - {"mutant"}:
        raise BadList(1, f"unknown key '{min(set(tables) - {'mutant'})}'; a list consists of [[mutant]] entries")
    lines = [number for number, line in enumerate(text.split("\n"), start=1) if line == "[[mutant]]"]
    entries = tables.get("mutant", [])
    if len(lines) != len(entries):
        raise BadList(1, "each entry must begin with a line [[mutant]]")
    return [_entry(line, table) for line, table in zip(lines, entries)]


def find_lines(text, part):
    """Offsets at which `part` occurs in `text` as whole lines."""
    if not part.endswith("\n"):
        return []
    return [match.start() for match in re.finditer("^(?=" + re.escape(part) + ")", text, re.MULTILINE)]


def mutate(text, entries):
    """The text of a file with all these entries in it; throws BadList for one that has no place."""
    places = []
    for entry in entries:
        found = find_lines(text, entry.original)
        if len(found) != 1:
            raise BadList(entry.line, f"the original text occurs {len(found)} times in {entry.file}; it must occur exactly once, "
                                      "as whole lines")
        places.append((found[0], entry))
    places.sort(key=lambda place: place[0])
    done = []
    end = 0
    for start, entry in places:
        if start < end:
            raise BadList(entry.line, f"the original text overlaps that of another entry of {entry.file}; make them one entry")
        done += [text[end:start], entry.mutated]
        end = start + len(entry.original)
    return "".join(done) + text[end:]


def by_file(entries):
    """File -> its entries, in the order of the list."""
    files = {}
    for entry in entries:
        files.setdefault(entry.file, []).append(entry)
    return files


def find_names(lists, prefixes):
    """Name -> file:line of its entry, of names that start with one of the prefixes."""
    names = {}
    for path in lists:
        for entry in read_list(path):
            for name in entry.names:
                if name.startswith(tuple(prefixes)):
                    names[name] = f"{path}:{entry.line}"
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layer", type=pathlib.Path, required=True, help="folder of the layer, such as tessera/device")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for the copies, with the paths of the layer")
    arguments = parser.parse_args()
    path = arguments.layer / "testing/mutants.toml"
    try:
        for file, entries in by_file(read_list(path)).items():
            source = arguments.layer / file
            if not source.is_file():
                raise BadList(entries[0].line, f"there is no file {file}")
            text = f'#include "{HEADER}"\n' + mutate(source.read_text(), entries)
            out = arguments.out / file
            if not out.is_file() or out.read_text() != text:
                out.parent.mkdir(parents=True, exist_ok=True)
                out.write_text(text)
    except BadList as error:
        print(f"{path}:{error.line}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
