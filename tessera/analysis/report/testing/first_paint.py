#!/usr/bin/env python3
"""first_paint.py PAGE: prints the milliseconds from the start of loading a page to its first contentful paint. Exits with 77
where there is no browser."""

import pathlib
import sys

import browser


def main():
    if browser.find_browser() is None:
        print("no browser: install chromium", file=sys.stderr)
        return 77
    with browser.Browser() as page:
        page.resize(1200, 900)
        page.open(pathlib.Path(sys.argv[1]).absolute().as_uri())
        page.wait_until("performance.getEntriesByName('first-contentful-paint').length")
        print(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
