#!/usr/bin/env python3
"""Checks the text of every file: no postponed work, no paths of one machine, clean line ends, plain English.

Phrases that readers stumble over are refused in documentation and in the comments and strings of C++ files. A line that
needs one of them, for example to quote a program, carries the marker `words: REASON` in a comment. A reason has at least
two words.
"""

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
# Regular expressions of phrases, each with the plain wording. docs/glossary.md has the nouns.
PHRASES = [(re.compile(pattern), advice) for pattern, advice in [
    (r"(?:^|[.;!|] )(?:What (?!works)|Who |Those |Whoever |Of which |Of whom )", "start with the noun"),
    (r"\b(?:is|are|was|were|be|being) told\b", "is reported, receives"),
    (r"\btells? of\b", "reports, shows"),
    (r"\b[Ss]ays\b", "states, prints, shows"),
    (r"\b[Hh]ears?\b", "learns, receives"),
    (r"\bwith a word\b", "with a warning"),
    (r"\bwithout a word\b", "silently"),
    (r"\bmakes? no sense\b", "is invalid"),
    (r"\b[Ll]ikewise\b", "repeat the noun"),
    (r"(?<!\b[Ii]f )\bthere (?:is|are) none\b", "if no X exists"),
    (r"\bis none of\b", "must be one of"),
    (r"\b(?:come|comes|came) to\b", "reaches, ends"),
    (r"\bin vain\b", "without success"),
    (r"\bof (?:which|whom)\b", "start a new sentence"),
    (r"\bbehind (?:it|them|the|this|that|those|each|every|all|others?)\b|\bbehind[.,;)]", "after"),
    (r"\banew\b", "again"),
    (r"\bgives? back\b|\bgiven back\b", "releases"),
    (r"\b(?:lie|lies) (?:dense|apart|as)\b|\bwhere (?:it|they) lies?\b", "is stored, is contiguous"),
    (r"\b[Ww]hoever\b", "the rank that, the caller that"),
    (r"\bheld against\b", "compared with"),
    (r"\bspoilt\b", "corrupted"),
    (r"\bin a circle\b|\bcircles? of waits\b", "deadlock cycle"),
    (r"\bthe making of (?:a|the) group\b", "group creation"),
]]
ALLOWED = re.compile(r"\bwords: \w+ +\w+")
GENERATED = {"docs/operators.md"}  # by `tessera ops`

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


def prose_of_markdown(text):
    """The lines of a page without code: fenced blocks and code spans are blank."""
    is_code = False
    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            is_code = not is_code
            yield ""
        else:
            yield "" if is_code else re.sub(r"`[^`]*`", "``", line)


def prose_of_cpp(text):
    """For each line of a C++ file, the text of its comment without the slashes, and its strings. Includes are left out."""
    comments = source_tree.blank(text, keep_comments=True).split("\n")
    strings = source_tree.strings(text)
    for line, comment, string in zip(text.split("\n"), comments, strings):
        start = comment.find("//")
        found = [re.sub(r"^/{2,3}<?\s*", "", comment[start:])] if start >= 0 else []
        yield found if line.startswith("#include") else found + string


def check_phrases(root, path, findings):
    if str(path) in EXEMPT | GENERATED:
        return
    text = (root / path).read_text()
    if path.suffix == ".md":
        extracts = [[line] for line in prose_of_markdown(text)]
    elif path.suffix in source_tree.HEADERS | source_tree.SOURCES:
        extracts = prose_of_cpp(text)
    else:
        return
    for number, (line, prose) in enumerate(zip(text.split("\n"), extracts), start=1):
        if ALLOWED.search(line):
            continue
        for pattern, advice in PHRASES:
            for piece in prose:
                if match := pattern.search(piece):
                    findings.error(path, number, f"'{match.group().strip()}': write plain English ({advice})")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent,
                        help="the tree to check (default: the one this file is in)")
    root = parser.parse_args().root
    findings = source_tree.Findings("words")
    checked = [path for path in source_tree.files(root) if path.suffix not in BINARY]
    for path in checked:
        check_file(root, path, findings)
        check_phrases(root, path, findings)
    return findings.close(len(checked))


if __name__ == "__main__":
    sys.exit(main())
