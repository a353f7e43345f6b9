#!/usr/bin/env python3
"""page_test.py --pages PROGRAM: opens pages of made-up runs in Chromium and checks what people see: the numbers of the data,
no complaint in the console, keys, clicks, zoom, dark and light, a phone's width, and that text of a run stays text. Exits with
77 where there is no browser. --screenshots DIRECTORY keeps what it saw."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import browser
import page_case as case
from page_unusual import *  # noqa: F403, the tests
from page_usual import *  # noqa: F403


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", required=True, help="the program analysis_report_pages")
    parser.add_argument("--screenshots", help="directory for what was seen")
    case.OPTIONS, rest = parser.parse_known_args()
    if browser.find_browser() is None:
        print("skipped: there is no browser; install chromium")
        return 77
    with tempfile.TemporaryDirectory(prefix="tessera-pages-") as folder:
        case.FOLDER = pathlib.Path(folder)
        names = ["usual", "kernels", "hostile", "bare", "gaps", "one", "skipped", "stopped", "asked", "lost", "large"]
        subprocess.run([case.OPTIONS.pages, folder, *names], check=True, stdout=subprocess.DEVNULL)
        for name in names:
            case.DATA[name] = json.loads((case.FOLDER / f"{name}.json").read_text())
        with browser.Browser() as case.PAGE:
            program = unittest.main(argv=[sys.argv[0], *rest], exit=False)
        return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
