#!/usr/bin/env python3
"""Runs the memory viewer code of PyTorch on snapshots.

    check_torch_viewer.py [--viewer _memory_viz.py] FILE...

Fetches torch/cuda/_memory_viz.py from a torch wheel on PyPI (one file, by range requests; nothing is installed) to a
temporary directory, or uses a given file, and runs all its views on each pickle: stats, trace, segments, memory,
compare, trace_plot, segment_plot. Exits with 1 if a view fails, with 77 if the file is not available.
"""

import argparse
import html
import importlib.util
import io
import json
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile

INDEX = "https://pypi.org/simple/torch/"
MEMBER = "torch/cuda/_memory_viz.py"
SKIPPED = 77
TIMEOUT = 60


class Unavailable(Exception):
    """The viewer is not available."""


class RemoteFile(io.RawIOBase):
    """A file on a web server, read in ranges."""

    def __init__(self, url):
        self.url = url
        self.position = 0
        request = urllib.request.Request(url, method="HEAD")
        with urllib.request.urlopen(request, timeout=TIMEOUT) as reply:
            self.size = int(reply.headers["Content-Length"])
            if reply.headers.get("Accept-Ranges") != "bytes":
                raise Unavailable(f"{url}: the server gives no ranges, and the whole wheel is too large")

    def seekable(self):
        return True

    def readable(self):
        return True

    def tell(self):
        return self.position

    def seek(self, offset, whence=io.SEEK_SET):
        self.position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.position, io.SEEK_END: self.size}[whence]
        return self.position

    def readinto(self, buffer):
        last = min(self.position + len(buffer), self.size) - 1
        if last < self.position:
            return 0
        request = urllib.request.Request(self.url, headers={"Range": f"bytes={self.position}-{last}"})
        with urllib.request.urlopen(request, timeout=TIMEOUT) as reply:
            if reply.status != 206:
                raise Unavailable(f"{self.url}: the server ignores ranges, and the whole wheel is too large")
            data = reply.read()
        buffer[:len(data)] = data
        self.position += len(data)
        return len(data)


def listed_files():
    """Returns (name, address) of every file in the index: JSON if the server provides it, otherwise links of a page."""
    request = urllib.request.Request(INDEX, headers={"Accept": "application/vnd.pypi.simple.v1+json, text/html;q=0.1"})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as reply:
        text = reply.read().decode()
    if text.lstrip().startswith("{"):
        return [(file["filename"], file["url"]) for file in json.loads(text)["files"]]
    links = re.findall(r'<a\s[^>]*href="([^"]+)"[^>]*>\s*([^<\s]+)\s*</a>', text)
    return [(name, urllib.parse.urljoin(INDEX, html.unescape(link))) for link, name in links]


def newest_wheel():
    """Returns a wheel of the newest release; all wheels contain the same Python files."""
    wheels = []
    for name, url in listed_files():
        match = re.match(r"torch-(\d+)\.(\d+)\.(\d+)-.*\.whl$", name)
        if match:
            wheels.append((tuple(map(int, match.groups())), name, url))
    if not wheels:
        raise Unavailable(f"{INDEX} lists no wheel")
    return max(wheels)[1:]


def fetch(directory):
    try:
        name, url = newest_wheel()
        with zipfile.ZipFile(io.BufferedReader(RemoteFile(url), 1 << 20)) as wheel:
            text = wheel.read(MEMBER)
    except (urllib.error.URLError, OSError, KeyError, ValueError, zipfile.BadZipFile) as problem:
        raise Unavailable(f"{MEMBER} cannot be fetched from PyPI: {problem}") from problem
    path = pathlib.Path(directory) / "_memory_viz.py"
    path.write_bytes(text)
    print(f"{MEMBER} of {name}, {len(text)} bytes")
    return path


def run_views(viewer, path):
    """Runs the views that return text. Flame graphs are formatted by str: only the input of the Perl script is checked."""
    with open(path, "rb") as file:
        data = pickle.load(file)
    lengths = {
        "segments": len(viewer.segments(data, format_flamegraph=str)),
        "memory": len(viewer.memory(data, format_flamegraph=str)),
        "compare": len(viewer.compare([], data["segments"], format_flamegraph=str)),
        "trace_plot": len(viewer.trace_plot(data)),
        "segment_plot": len(viewer.segment_plot(data)),
    }
    for name, length in lengths.items():
        if length == 0 and data["segments"]:
            raise ValueError(f"{name} shows nothing")


def run_command(viewer_path, view, path):
    done = subprocess.run([sys.executable, str(viewer_path), view, path], capture_output=True, text=True, timeout=TIMEOUT)
    if done.returncode != 0:
        raise ValueError(f"{view} failed: {done.stderr.strip().splitlines()[-1:]}")


def check(viewer_path, files):
    spec = importlib.util.spec_from_file_location("memory_viz", viewer_path)
    viewer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(viewer)
    status = 0
    for path in files:
        try:
            for view in ("stats", "trace"):
                run_command(viewer_path, view, path)
            run_views(viewer, path)
            print(f"{path}: all views work")
        except Exception as problem:  # whatever the viewer's code raises
            print(f"{path}: {type(problem).__name__}: {problem}")
            status = 1
    return status


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--viewer", help="a _memory_viz.py to use instead of fetching one")
    parser.add_argument("file", nargs="+", help="a snapshot, as pickle")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        try:
            viewer = pathlib.Path(arguments.viewer) if arguments.viewer else fetch(directory)
        except Unavailable as reason:
            print(f"skipped: {reason}")
            return SKIPPED
        return check(viewer, arguments.file)


if __name__ == "__main__":
    sys.exit(main())
