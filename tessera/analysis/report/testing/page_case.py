"""A page in the browser, opened again for each test, and values as the page prints them."""

import json
import math
import pathlib
import unittest

# Set by page_test.py.
OPTIONS = None
PAGE = None
FOLDER = None
DATA = {}


def digits(value, count):
    """As JavaScript's Number(value.toPrecision(count)) is written."""
    number = float(f"{value:.{count}g}")
    return str(int(number)) if number == int(number) else repr(number)


def bytes_text(value):
    place = 0
    while value >= 1024 and place < 6:
        value /= 1024
        place += 1
    unit = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][place]
    number = f"{value:.0f}" if place == 0 else f"{math.floor(value * 100) / 100:.2f}".rstrip("0").rstrip(".")
    return f"{number} {unit}"


def seconds_text(value):
    if value is None:
        return "–"
    for limit, scale, unit in ((1e-6, 1e9, "ns"), (1e-3, 1e6, "µs"), (1, 1e3, "ms"), (120, 1, "s")):
        if value < limit:
            return f"{digits(value * scale, 3)} {unit}"
    raise AssertionError(f"no made-up run is so long: {value}")


def rate_text(value):
    scale, unit = (1e9, "GB") if value >= 1e9 else (1e6, "MB") if value >= 1e6 else (1e3, "kB")
    return f"{digits(value / scale, 3)} {unit}/s"


class PageTest(unittest.TestCase):
    """A page, opened anew for each test."""

    name = "usual"

    def setUp(self):
        PAGE.events.clear()
        PAGE.resize(1200, 900)
        PAGE.prefer("light")
        PAGE.evaluate("localStorage.clear()") if PAGE.evaluate("location.protocol") == "file:" else None
        PAGE.open((FOLDER / f"{self.name}.html").as_uri())
        self.data = DATA[self.name]
        if self.data["timeline"]:
            PAGE.wait_until("document.querySelector('#timeline').dataset.drawn")

    def tearDown(self):
        self.assertEqual(PAGE.complaints(), [])
        self.assertEqual(set(PAGE.requests()) - {"data:,"}, {(FOLDER / f"{self.name}.html").as_uri()})

    def text(self, selector):
        words = PAGE.evaluate(f"document.querySelector({json.dumps(selector)}).textContent")
        return words.replace("\u00a0", " ")

    def texts(self, selector):
        words = PAGE.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)")
        return [each.replace("\u00a0", " ") for each in words]

    def view(self):
        return PAGE.evaluate("(({begin, end}) => [Number(begin), Number(end)])(document.querySelector('#timeline').dataset)")

    def width(self):
        begin, end = self.view()
        return end - begin

    def keep(self, name):
        if OPTIONS.screenshots:
            PAGE.screenshot(pathlib.Path(OPTIONS.screenshots, f"{name}.png"))
