#!/usr/bin/env python3
"""Checks the lists of planted bugs (tessera/<layer>/testing/mutants.toml, see mutate_sources.py): each original text occurs
exactly once in its file, names do not repeat and are those of the mutated text, and no production source has a planted bug."""

import argparse
import pathlib
import sys

import mutate_sources
import source_tree


def check_names(path, entry, known, layer_names, findings):
    """Whether the names of an entry are its own and those of its mutated text."""
    used = set(mutate_sources.POINT.findall(entry.mutated))
    for name in entry.names:
        if name in known:
            findings.error(path, entry.line, f"the name {name} stands at {known[name]} too; use 'part_of' if the bug changes both places")
        known[name] = f"{path}:{entry.line}"
        if name not in used:
            findings.error(path, entry.line, f'the mutated text has no TESSERA_MUTANT("{name}")')
    for name in sorted(used - set(entry.names) - set(entry.part_of)):
        findings.error(path, entry.line, f"the mutated text has {name}, which is not among the names of the entry")
    for name in entry.part_of:
        if name not in layer_names:
            findings.error(path, entry.line, f"'part_of' has {name}, which no entry of this list has among its 'names'")


def check_list(root, path, known, findings):
    """A list against the sources of its layer."""
    try:
        entries = mutate_sources.read_list(root / path)
    except mutate_sources.BadList as error:
        findings.error(path, error.line, str(error))
        return
    layer = path.parent.parent
    layer_names = {name for entry in entries for name in entry.names}
    for entry in entries:
        check_names(path, entry, known, layer_names, findings)
    for file, parts in mutate_sources.by_file(entries).items():
        if not (root / layer / file).is_file():
            findings.error(path, parts[0].line, f"there is no file {layer / file}")
            continue
        text = (root / layer / file).read_text()
        alone = []
        for entry in parts:
            try:
                mutate_sources.mutate(text, [entry])
                alone.append(entry)
            except mutate_sources.BadList as error:
                findings.error(path, error.line, str(error))
        try:
            mutate_sources.mutate(text, alone)
        except mutate_sources.BadList as error:
            findings.error(path, error.line, str(error))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent,
                        help="the tree to check (default: the one this file is in)")
    root = parser.parse_args().root
    findings = source_tree.Findings("mutants")
    known = {}
    lists = [path for path in source_tree.files(root) if path.match("tessera/*/testing/mutants.toml")]
    for path in lists:
        check_list(root, path, known, findings)
    sources = [path for path in source_tree.cpp_files(root) if path.parts[0] == "tessera" and not source_tree.is_for_tests(path)]
    for path in sources:
        for number, line in enumerate((root / path).read_text().split("\n"), start=1):
            if "TESSERA_MUTANT(" in line:
                findings.error(path, number, f"a planted bug in a production source; list it in {'/'.join(path.parts[:2])}/testing/mutants.toml")
    return findings.close(len(lists) + len(sources))


if __name__ == "__main__":
    sys.exit(main())
