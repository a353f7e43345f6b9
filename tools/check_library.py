#!/usr/bin/env python3
"""Checks how a library or program of the project is built and linked: stack protectors, checked libc calls, read-only
relocations, immediate binding, no executable stack, position-independent code, a small block of thread-local storage, and
no path of the build machine. Objects (x86) must have notes for branch targets and shadow stacks. The library itself is not
checked for them: the linker removes the notes if a library also contains foreign objects without them.

A library loaded by dlopen shares about 1.6 KiB of static thread-local storage with all others in the process, so that
libtessera may use at most 511 bytes of it.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

import source_tree

MOST_TLS = 511


def readelf(option, path):
    return subprocess.run(["readelf", option, "-W", str(path)], check=True, capture_output=True, text=True).stdout


def unmarked(path):
    """Returns the missing properties of an object, one sentence each."""
    features = re.search(r"x86 feature: (.*)", readelf("-n", path))
    for feature, meaning in [("IBT", "branch targets"), ("SHSTK", "shadow-stack support")]:
        if features is None or feature not in features.group(1):
            yield f"has no note of {meaning} ({feature}); compile with -fcf-protection=full, and add the note to assembly"


def findings_of(path, trees, is_fortified):
    """Returns the faults of one file, one sentence each."""
    segments = readelf("-l", path)
    dynamic = readelf("-d", path)
    imports = re.findall(r"\bUND (\w+)", readelf("--dyn-syms", path))
    if "__stack_chk_fail" not in imports:
        yield "has no stack protectors; compile with -fstack-protector-strong"
    if is_fortified and not any(re.fullmatch(r"__(?!stack)\w+_chk", name) for name in imports):
        yield "has no checked libc calls; compile with -D_FORTIFY_SOURCE=3 and optimization"
    if "GNU_RELRO" not in segments:
        yield "has no read-only relocations; link with -z relro"
    if "BIND_NOW" not in dynamic and not re.search(r"FLAGS_1.*\bNOW\b", dynamic):
        yield "binds symbols lazily; link with -z now"
    stack = re.search(r"GNU_STACK(?:\s+0x[0-9a-f]+){5}\s+(\S*)", segments)
    if stack is None or "E" in stack.group(1):
        yield "has an executable stack; link with -z noexecstack"
    if not re.search(r"Elf file type is DYN", segments):
        yield "is not position-independent; link with -pie"
    tls = re.search(r"^\s*TLS\s+0x[0-9a-f]+ 0x[0-9a-f]+ 0x[0-9a-f]+ 0x[0-9a-f]+ (0x[0-9a-f]+)", segments, re.MULTILINE)
    if tls and "STATIC_TLS" in dynamic and int(tls.group(1), 16) > MOST_TLS:
        yield f"has {int(tls.group(1), 16)} bytes of static thread-local storage; at most {MOST_TLS} can be loaded by dlopen"
    content = path.read_bytes()
    for tree in trees:
        at = content.find(os.fsencode(tree) + b"/")
        if at >= 0:
            text = content[at:at + 200].split(b"\0")[0].decode(errors="replace")
            yield f"contains a path of the build machine: {text}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=pathlib.Path, help="libraries and programs")
    parser.add_argument("--objects", nargs="*", default=[], type=pathlib.Path, help="objects that our sources were compiled to")
    parser.add_argument("--without-fortify", action="store_true", help="expect no checked libc calls, as in a debug build")
    parser.add_argument("--tree", action="append", default=[], help="a path that must not be in the files; may be repeated")
    arguments = parser.parse_args()
    findings = source_tree.Findings("library")
    for path in arguments.files:
        for finding in findings_of(path, arguments.tree, not arguments.without_fortify):
            findings.error(path.name, 1, finding)
    for path in arguments.objects:
        for finding in unmarked(path):
            findings.error(path.name, 1, finding)
    return findings.close(len(arguments.files) + len(arguments.objects))


if __name__ == "__main__":
    sys.exit(main())
