#!/usr/bin/env python3
"""page_test.py --pages PROGRAM: opens pages of made-up runs in Chromium and checks what people see: the numbers of the data,
no complaint in the console, keys, clicks, zoom, dark and light, a phone's width, and that text of a run stays text. Exits with
77 where there is no browser. --screenshots DIRECTORY keeps what it saw."""

import argparse
import base64
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import browser

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


class NumbersTest(PageTest):
    def test_head(self):
        run = self.data["run"]
        self.assertEqual(self.text("#name"), run["name"])
        self.assertEqual(self.text("#state"), "done")
        tiles = dict(zip(self.texts("#tiles dt"), self.texts("#tiles dd")))
        self.assertEqual(tiles["Steps"], "40" + "41 k tokens")
        self.assertEqual(tiles["Last loss"], f"{run['last_loss']:.4f}held out {run['held_out_loss']:.4f}")
        self.assertEqual(tiles["Tokens/s"], "20 k" + "sum of medians")
        self.assertEqual(tiles["Exposed waits"], "20.0 %" + "of all step time")
        peak = max(self.data["memory"]["peaks"], key=lambda each: each["measured"]["total"])
        self.assertEqual(tiles["Peak memory"], f"{bytes_text(peak['measured']['total'])}of rank {peak['rank']}")
        self.assertEqual(self.text("#verdict p")[1:], self.data["verdict"]["sentence"][1:])
        self.keep("light")

    def test_curves_say_the_value_under_the_cursor(self):
        loss = self.data["curves"]["loss"]
        PAGE.evaluate("document.querySelector('#loss-chart svg').focus()")
        PAGE.key("ArrowLeft")
        self.assertIn(f"step 39: {loss['loss'][38]:.4f}", self.text("#loss-chart output"))
        for _ in range(9):
            PAGE.key("ArrowLeft")
        self.assertIn(f"step 30: {loss['loss'][29]:.4f}", self.text("#loss-chart output"))
        held_out = [point["loss"] for point in self.data["curves"]["held_out"] if point["step"] == 30][0]
        self.assertIn(f"held out {held_out:.4f}", self.text("#loss-chart output"))
        x, y = PAGE.place_of("#speed-chart svg")
        PAGE.pointer("mouseMoved", x - 5, y)
        self.assertRegex(self.text("#speed-chart output"), r"step (19|20|21): 19.3 k tokens/s, exposed 19.4 %")
        self.assertEqual(len(self.texts("#loss-chart circle title")), 4)
        self.assertEqual(PAGE.evaluate("document.querySelector('#timeline').dataset.hatched"), "0", "nothing was overwritten")

    def test_the_name_of_a_rule_covers_no_dot(self):
        for width in (1200, 700, 400):
            PAGE.resize(width, 900)
            covered = PAGE.evaluate("""(() => {
                const box = (e) => e.getBoundingClientRect();
                const chart = document.querySelector('#loss-chart svg');
                const names = [...chart.querySelectorAll('text')].filter(e => /[a-z]{3}/.test(e.textContent)).map(box);
                const dots = [...chart.querySelectorAll('circle.dot')].map(box);
                return [names.length, dots.filter(d => names.some(n => d.right > n.left && d.left < n.right && d.bottom > n.top
                                                                       && d.top < n.bottom)).length];
            })()""")
            self.assertEqual(covered, [1, 0], f"a page of {width} pixels")

    def test_peak_table(self):
        PAGE.evaluate("(e => { e.value = '2'; e.dispatchEvent(new Event('change')); })(document.querySelector('#memory-rank'))")
        peak = [each for each in self.data["memory"]["peaks"] if each["rank"] == 2][0]
        rows = PAGE.evaluate("[...document.querySelectorAll('#peak tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
        shown = {row[0]: [cell.replace("\u00a0", " ") for cell in row[1:]] for row in rows}
        for owner, measured in peak["measured"].items():
            name = "total" if owner == "total" else owner
            self.assertEqual(shown[name], [bytes_text(measured), bytes_text(peak["predicted"][owner])], owner)
        self.assertIn("Rank 2 had " + bytes_text(peak["measured"]["total"]), self.text("#memory-words"))
        own = bytes_text(peak["measured"]["activations"])
        self.assertIn(f"The largest owner is activations, with {own} at its own peak, which may be at another time.",
                      self.text("#memory-words"))

    def test_collectives(self):
        rows = PAGE.evaluate("[...document.querySelectorAll('#collectives tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
        self.assertEqual(len(rows), len(self.data["collectives"]))
        for row, told in zip(rows, self.data["collectives"]):
            self.assertEqual([cell.replace("\u00a0", " ") for cell in row],
                             [f"{told['operation']} {told['dtype']}", told["group"], str(told["ranks"]), f"{told['count']:,}",
                              bytes_text(told["nbytes"]), rate_text(told["bus_bandwidth"]), seconds_text(told["skew_median"]),
                              seconds_text(told["skew_most"]), seconds_text(told["exposed_seconds"])])

    def test_timeline_names_the_span_under_the_pointer(self):
        told = self.data["timeline"]
        html = (FOLDER / "usual.html").read_text()
        buffer = base64.b64decode(html.split('id="events">')[1].split("<")[0])
        place = [at for at, lane in enumerate(told["lanes"]) if lane["rank"] == 1 and lane["kind"] == "collective"][0]
        lane = told["lanes"][place]
        begins = struct.unpack_from(f"<{lane['count']}I", buffer, lane["begin"])
        lengths = struct.unpack_from(f"<{lane['count']}I", buffer, lane["length"])
        names = struct.unpack_from(f"<{lane['count']}H", buffer, lane["name"])
        at = 117
        box = PAGE.evaluate("(e => { e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect(); return [b.left, b.top, b.width]; })(document.querySelector('#timeline'))")
        gutter = 128
        moment = (begins[at] + lengths[at] / 2) * told["unit_ns"] / told["span_ns"]
        row = place * 17 + 26 + 12 * [head["rank"] for head in self.data["mesh"]["ranks"]].index(1)
        PAGE.pointer("mouseMoved", box[0] + gutter + moment * (box[2] - gutter), box[1] + row + 7)
        seconds = told["unit_ns"] / 1e9
        self.assertEqual(self.text("#timeline-output"), f"Rank 1, collectives: {told['names'][names[at]]}, "
                         f"{seconds_text(lengths[at] * seconds)}, at {seconds_text(begins[at] * seconds)}")

    def test_mesh(self):
        self.assertEqual(self.texts("#mesh .cell"), ["rank 0", "rank 1", "rank 2", "rank 3"])
        self.assertIn("dp 1 × fsdp 2 × tp 2", self.text("#mesh-words"))
        PAGE.click('#mesh .cell[data-rank="3"]')
        self.assertEqual(self.text("#rank-details h3"), "Rank 3")
        self.assertIn("dp 0, fsdp 1, tp 1", self.text("#rank-details"))
        owners = self.data["mesh"]["ranks"][3]["owners"]
        self.assertIn("activations" + bytes_text(owners["activations"]), self.text("#rank-details table"))
        pressed = PAGE.evaluate("[...document.querySelectorAll('#mesh [aria-pressed=true]')].map(e => e.dataset.rank)")
        self.assertEqual(pressed, ["3"])


class ActsTest(PageTest):
    name = "kernels"

    def column(self, at):
        return PAGE.evaluate(f"[...document.querySelectorAll('#collectives tbody tr')].map(r => r.cells[{at}].textContent)")

    def test_a_heading_sorts_by_click_and_by_enter(self):
        self.assertEqual(PAGE.evaluate("document.querySelector('th[aria-sort=descending]').textContent"), "Exposed")
        PAGE.click("#collectives thead th:nth-child(5) button")
        self.assertEqual(self.column(0), ["all_gather f32", "all_reduce f32"], "most bytes first")
        PAGE.key("Enter")
        self.assertEqual(self.column(0), ["all_reduce f32", "all_gather f32"])
        self.assertEqual(PAGE.evaluate("document.querySelector('th[aria-sort=ascending]').textContent"), "Bytes")
        PAGE.click("#collectives thead th:first-child button")
        self.assertEqual(self.column(0), sorted(self.column(0)))
        self.assertEqual(PAGE.evaluate("document.querySelectorAll('th[aria-sort=ascending], th[aria-sort=descending]').length"), 1)

    def test_the_loss_has_a_log_scale(self):
        before = self.texts("#loss-chart svg text")
        PAGE.click("#log")
        self.assertNotEqual(self.texts("#loss-chart svg text"), before)
        self.assertEqual(PAGE.evaluate("document.querySelector('#log').getAttribute('aria-pressed')"), "true")
        PAGE.click("#linear")
        self.assertEqual(self.texts("#loss-chart svg text"), before)

    def test_dark_and_light(self):
        colors = "[getComputedStyle(document.body).backgroundColor, document.querySelector('#timeline').toDataURL()]"
        light = PAGE.evaluate(colors)
        PAGE.click("#theme")
        dark = PAGE.evaluate(colors)
        self.assertNotEqual(light[0], dark[0])
        self.assertNotEqual(light[1], dark[1], "the canvas too")
        self.assertEqual(self.text("#theme"), "Light")
        PAGE.click("#theme")
        self.assertEqual(PAGE.evaluate(colors)[0], light[0])
        PAGE.evaluate("delete document.documentElement.dataset.theme")
        PAGE.prefer("dark")
        self.assertEqual(PAGE.evaluate(colors)[0], dark[0], "as the system prefers")
        self.keep("dark")

    def test_the_timeline_zooms_by_buttons_keys_wheel_and_moves_by_drag(self):
        whole = self.width()
        PAGE.click("#closer")
        self.assertAlmostEqual(self.width() / whole, 0.5)
        PAGE.click("#whole")
        self.assertEqual(self.width(), whole)
        PAGE.evaluate("document.querySelector('#timeline').focus()")
        PAGE.key("+", "+")
        PAGE.key("+", "+")
        self.assertAlmostEqual(self.width() / whole, 0.25)
        begin = self.view()[0]
        PAGE.key("ArrowRight")
        self.assertAlmostEqual(self.view()[0], begin + 0.025 * whole)
        PAGE.key("-", "-")
        self.assertAlmostEqual(self.width() / whole, 0.5)
        x, y = PAGE.place_of("#timeline")
        PAGE.pointer("mouseWheel", x, y, deltaX=0, deltaY=-300)
        self.assertLess(self.width() / whole, 0.4)
        begin = self.view()[0]
        PAGE.pointer("mousePressed", x, y, button="left", clickCount=1)
        PAGE.pointer("mouseMoved", x - 60, y, button="left", buttons=1)
        PAGE.pointer("mouseReleased", x - 60, y, button="left", clickCount=1)
        self.assertGreater(self.view()[0], begin)
        PAGE.key("0", "0")
        self.assertEqual(self.view(), [0, whole])

    def test_the_wheel_scrolls_the_page_until_the_timeline_was_clicked(self):
        whole = self.width()
        x, y = PAGE.place_of("#timeline")
        PAGE.pointer("mouseWheel", x, y, deltaX=0, deltaY=-100)
        self.assertEqual(self.width(), whole)

    def test_many_ranks_are_shown_by_pages(self):
        self.assertEqual(self.text("#rank-range"), "ranks 0 to 7 of 16")
        PAGE.click("#ranks-after")
        self.assertEqual(self.text("#rank-range"), "ranks 8 to 15 of 16")
        self.assertTrue(PAGE.evaluate("document.querySelector('#ranks-after').disabled"))

    def test_every_control_is_reached_by_tab_in_order_and_seen(self):
        PAGE.evaluate("document.activeElement.blur()")
        seen = []
        for _ in range(80):
            PAGE.key("Tab")
            told = PAGE.evaluate("(e => [e.id || e.textContent.slice(0, 20) || e.tagName, getComputedStyle(e).outlineStyle, e === document.body])(document.activeElement)")
            if told[2]:
                break
            seen.append(told)
        names = [name for name, _, _ in seen]
        wanted = ["theme", "linear", "log", "memory-rank", "earlier", "closer", "timeline", "ranks-after", "Operation", "Exposed", "rank 0", "rank 15"]
        self.assertEqual([name for name in names if name in wanted], wanted)
        for name, outline, _ in seen:
            self.assertNotEqual(outline, "none", name)

    def test_all_that_can_be_used_has_a_name(self):
        nameless = PAGE.evaluate("[...document.querySelectorAll('button, select, canvas, svg[tabindex], [role=region]')].filter(e => !(e.textContent.trim() || e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.closest('label'))).map(e => e.outerHTML)")
        self.assertEqual(nameless, [])


class PhoneTest(PageTest):
    def test_no_page_scrolls_sideways(self):
        for name in ("usual", "kernels", "hostile", "bare"):
            PAGE.resize(375, 800, True)
            PAGE.open((FOLDER / f"{name}.html").as_uri())
            PAGE.settle()
            self.assertLessEqual(PAGE.evaluate("document.documentElement.scrollWidth"), 375, name)
            if name == "usual":
                self.keep("phone")
        PAGE.events = [event for event in PAGE.events if event["method"] != "Network.requestWillBeSent"]
        PAGE.open((FOLDER / "usual.html").as_uri())


class HostileTest(PageTest):
    name = "hostile"

    def test_text_of_a_run_is_text(self):
        PAGE.evaluate("(e => { for (const each of e.options) { e.value = each.value; e.dispatchEvent(new Event('change')); } })(document.querySelector('#memory-rank'))")
        for cell in range(4):
            PAGE.click(f'#mesh .cell[data-rank="{cell}"]')
        for at in range(1, 10):
            PAGE.click(f"#collectives thead th:nth-child({at}) button")
        self.assertIsNone(PAGE.evaluate("window.wasRun"))
        self.assertEqual(PAGE.evaluate("document.querySelectorAll('img, iframe, object, b:not(.bar b), script:not([nonce]):not([type])').length"), 0)
        self.assertEqual(PAGE.evaluate("document.scripts.length"), 3)
        for selector in ("#verdict", "#peak", "#collectives", "#rank-details"):
            self.assertIn("<img src=x onerror=\"window.wasRun=1\">", self.text(selector), selector)

    def test_the_policy_stops_what_is_not_ours(self):
        PAGE.evaluate("(() => { const e = document.createElement('script'); e.textContent = 'window.wasRun = 1'; document.body.append(e); })()")
        self.assertIsNone(PAGE.evaluate("window.wasRun"))
        self.assertEqual(PAGE.evaluate("fetch('http://127.0.0.1:9/').then(() => 'asked', () => 'refused')"), "refused")
        PAGE.events.clear()  # the refusals themselves
        PAGE.open((FOLDER / "hostile.html").as_uri())


class BareTest(PageTest):
    name = "bare"

    def test_what_is_missing_is_told_and_the_rest_shown(self):
        self.assertIn("summary.json", self.text("#missing-title"))
        self.assertIn("records of ranks", self.text("#missing"))
        self.assertIn("No timeline", self.text("#timeline-words"))
        self.assertIn("No verdict", self.text("#verdict"))
        self.assertIn("No collectives", self.text("#collectives-words"))
        self.assertEqual(PAGE.evaluate("document.querySelector('#timeline-frame').hidden"), True)
        self.assertEqual(len(PAGE.evaluate("document.querySelector('#loss-chart .series').getAttribute('d')").split("L")), 40)
        self.keep("bare")


class OneStepTest(PageTest):
    name = "one"

    def test_a_single_step_is_drawn(self):
        for chart in ("#loss-chart", "#speed-chart"):
            dots = PAGE.evaluate(f"[...document.querySelectorAll('{chart} circle.lone')].map(e => e.getBoundingClientRect().width)")
            self.assertEqual(len(dots), 1, chart)
            self.assertGreater(dots[0], 4, chart)
        widths = PAGE.evaluate("[...document.querySelectorAll('#memory-chart svg path')].map(e => e.getBoundingClientRect().width)")
        self.assertGreater(min(widths), 10)
        self.keep("one")


class SkippedTest(PageTest):
    name = "skipped"

    def test_steps_that_were_skipped_are_a_warning(self):
        self.assertEqual(self.texts("#verdict p")[0], "40 of 40 steps were skipped: 40 with a loss or gradient that is not finite.")
        self.assertNotIn("action is needed", self.text("#verdict"))
        self.assertEqual(PAGE.evaluate("document.querySelector('#verdict').className"), "verdict warn")
        self.assertIn("No loss to draw", self.text("#loss-chart"))
        self.keep("skipped")


class StoppedTest(PageTest):
    name = "stopped"

    def test_the_reason_that_the_run_gives_leads(self):
        self.assertEqual(self.texts("#verdict p")[0], f"Stopped: {self.data['run']['reason']}")
        self.assertEqual(PAGE.evaluate("document.querySelector('#verdict').className"), "verdict bad")


class AskedTest(PageTest):
    name = "asked"

    def test_a_run_that_was_asked_to_end_is_no_fault(self):
        self.assertEqual(self.texts("#verdict p")[0], f"Interrupted: {self.data['run']['reason']}")
        self.assertEqual(PAGE.evaluate("document.querySelector('#verdict').className"), "verdict warn")
        self.assertNotIn("bad", PAGE.evaluate("document.querySelector('#state').className"))


class LostTest(PageTest):
    name = "lost"

    def test_what_was_overwritten_is_hatched(self):
        told = self.data["timeline"]
        lanes = {lane["kind"]: lane for lane in told["lanes"] if lane["rank"] == 0}
        self.assertGreater(lanes["compute"]["no_data"], lanes["collective"]["no_data"], "more records of launches are gone")
        self.assertIn("Hatched areas have no data", self.text("#timeline-words"))
        self.assertIn("no data", self.texts("#timeline-legend li"))
        box = PAGE.evaluate("(e => { e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect(); return [b.left, b.top, b.width]; })(document.querySelector('#timeline'))")
        room = box[2] - 128
        whole = told["span_ns"] / told["unit_ns"]
        hatched = sum(lane["no_data"] for lane in told["lanes"]) / whole * room
        drawn = float(PAGE.evaluate("document.querySelector('#timeline').dataset.hatched"))
        self.assertAlmostEqual(drawn, hatched, delta=2)
        place = [at for at, lane in enumerate(told["lanes"]) if lane["kind"] == "compute"][0]
        PAGE.pointer("mouseMoved", box[0] + 128 + lanes["compute"]["no_data"] / whole * room / 2, box[1] + 26 + 17 * place + 7)
        self.assertIn("Rank 0, compute: no data before", self.text("#timeline-output"))
        self.keep("lost")


class LargeTest(PageTest):
    name = "large"

    def test_what_is_drawn_is_bounded_by_pixels_at_every_zoom(self):
        self.assertGreaterEqual(self.data["timeline"]["events"], 1_000_000)
        PAGE.evaluate("document.querySelector('#timeline').focus()")
        drawn, seen = [], []
        for _ in range(22):
            told = PAGE.evaluate("(({drawn, seen}) => [Number(drawn), Number(seen)])(document.querySelector('#timeline').dataset)")
            drawn.append(told[0])
            seen.append(told[1])
            PAGE.key("+", "+")
        rows = len(self.data["timeline"]["lanes"])
        self.assertLess(max(drawn), rows * 1200)
        self.assertLess(max(seen), rows * 1200 * 4, "not every event is looked at to draw a frame")
        self.assertGreater(min(drawn[:8]), 0)
        self.assertLess(self.width() * self.data["timeline"]["unit_ns"], 2000, "down to single events")
        self.keep("large")


def main():
    global OPTIONS, PAGE, FOLDER
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", required=True, help="the program record_report_pages")
    parser.add_argument("--screenshots", help="directory for what was seen")
    OPTIONS, rest = parser.parse_known_args()
    if browser.find_browser() is None:
        print("skipped: there is no browser; install chromium")
        return 77
    with tempfile.TemporaryDirectory(prefix="tessera-pages-") as folder:
        FOLDER = pathlib.Path(folder)
        names = ["usual", "kernels", "hostile", "bare", "one", "skipped", "stopped", "asked", "lost", "large"]
        subprocess.run([OPTIONS.pages, folder, *names], check=True, stdout=subprocess.DEVNULL)
        for name in names:
            DATA[name] = json.loads((FOLDER / f"{name}.json").read_text())
        with browser.Browser() as PAGE:
            program = unittest.main(argv=[sys.argv[0], *rest], exit=False)
        return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
