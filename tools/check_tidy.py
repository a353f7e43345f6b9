#!/usr/bin/env python3
"""Runs clang-tidy with .clang-tidy on the files that changed since main (or all with --full).

A changed file differs from the last commit on main, committed or not, or is new. With a clean tree on main itself, the
files of the last commit count as changed. A changed header is checked through a source that includes it. CUDA files (*.cu)
are skipped: clang 14 does not support this CUDA version. Needs a configured build (cmake --preset dev) for its compile
commands.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import source_tree


def git(root, *arguments):
    """Returns the output lines of a git command; None if it failed."""
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else None


def changed_files(root):
    """Returns the names of changed files and a description of their base; None for all files."""
    head = git(root, "rev-parse", "HEAD")
    if head is None:
        return None, "no git history here"
    base = git(root, "rev-parse", "--verify", "-q", "main") or git(root, "rev-parse", "--verify", "-q", "origin/main") or head
    base = git(root, "merge-base", base[0], "HEAD") or base
    is_clean = not git(root, "status", "--porcelain")
    if base == head and is_clean:
        base = git(root, "rev-parse", "--verify", "-q", "HEAD~1")
        if base is None:
            return None, "the first commit"
    against = base[0]
    names = git(root, "diff", "--name-only", "--diff-filter=d", against) or []
    names += git(root, "ls-files", "-o", "--exclude-standard") or []
    return sorted(set(names)), f"changed since {against[:10]}"


def ungrouped(entries):
    """Returns the commands, with one for each source of a group that is compiled as one (TESSERA_GROUP_SOURCES)."""
    for entry in entries:
        if "/Unity/unity_" not in entry["file"]:
            yield entry
            continue
        for source in re.findall(r'^#include "(.+\.cpp)"', pathlib.Path(entry["file"]).read_text(), re.MULTILINE):
            yield {**entry, "file": source, "command": entry["command"].replace(entry["file"], source)}


def write_commands(commands, folder):
    """Writes the compile commands without the precompiled header, which belongs to another compiler."""
    stripped = [{**entry, "command": re.sub(r" -Winvalid-pch| -include \S+cmake_pch\.hxx", "", entry["command"])}
                for entry in commands.values()]
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(stripped))


def sources_for(root, names, commands):
    """Returns sources with a compile command that cover the named files."""
    chosen = {}
    includers = None
    for name in names:
        path = pathlib.PurePosixPath(name)
        if path.suffix == ".cpp":
            if name in commands:
                chosen[name] = None
        elif path.suffix == ".h":
            for candidate in (path.with_suffix(".cpp"), path.with_name(path.stem + "_test.cpp")):
                if str(candidate) in commands:
                    chosen[str(candidate)] = None
                    break
            else:
                if includers is None:
                    includers = {source: (root / source).read_text() for source in commands}
                user = next((source for source, text in includers.items() if f'"{name}"' in text), None)
                if user:
                    chosen[user] = None
    return list(chosen)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent,
                        help="the tree to check (default: the one this file is in)")
    parser.add_argument("--build", type=pathlib.Path, help="folder with compile_commands.json (default: build/dev)")
    parser.add_argument("--full", action="store_true", help="check all files")
    parser.add_argument("--seconds", type=float, default=0,
                        help="start no file after this time and say how many are left (default: no limit)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="files at a time (default: the number of cores)")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    build = (arguments.build or root / "build/dev").resolve()
    tool = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
    if tool is None or not (build / "compile_commands.json").is_file():
        print(f"clang-tidy ({tool or 'missing: apt-get install clang-tidy-14'}) and {build}/compile_commands.json are needed")
        return 1
    commands = {}
    for entry in ungrouped(json.loads((build / "compile_commands.json").read_text())):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if path.suffix == ".cpp" and path.is_relative_to(root) and not path.is_relative_to(build):
            commands[path.relative_to(root).as_posix()] = entry
    names, why = (None, "all files") if arguments.full else changed_files(root)
    sources = sorted(commands) if names is None else sources_for(root, names, commands)

    write_commands(commands, build / "tidy")
    start = time.monotonic()

    def check(source):
        if arguments.seconds and time.monotonic() - start > arguments.seconds:
            return source, None
        # The commands are those of the build compiler, whose warnings clang may not know.
        done = subprocess.run([tool, "--quiet", "--extra-arg=-Wno-unknown-warning-option", "-p", str(build / "tidy"),
                               str(root / source)], capture_output=True, text=True)
        return source, done

    findings = source_tree.Findings("tidy")
    left = []
    seen = set()
    with concurrent.futures.ThreadPoolExecutor(max(1, arguments.jobs)) as pool:
        for source, done in pool.map(check, sources):
            if done is None:
                left.append(source)
                continue
            places = re.findall(r"^(.+?):(\d+):\d+: error: (.*)$", done.stdout, re.MULTILINE)
            for path, line, message in places:
                short = os.path.relpath(path, root)
                if (short, line, message) not in seen:
                    seen.add((short, line, message))
                    findings.error(short, line, message)
            if done.returncode != 0 and not places:
                findings.error(source, 1, (done.stdout + done.stderr).strip()[-2000:])
    if left:
        print(f"tidy: out of time, {len(left)} of {len(sources)} files not checked; --full checks all")
    print(f"tidy: {why}")
    return findings.close(len(sources) - len(left))


if __name__ == "__main__":
    sys.exit(main())
