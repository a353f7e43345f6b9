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
        self.assertEqual(self.text("#began"), "Started 2026-11-18 20:00:00 UTC")
        self.assertEqual(tiles["Duration"], "2 s" + "wall clock")
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
        self.assertRegex(self.text("#speed-chart output"), r"step (17|18|19): 19.3 k tokens/s, exposed 19.4 %")
        self.assertEqual(len(self.texts("#loss-chart circle title")), 4)
        self.assertEqual(PAGE.evaluate("document.querySelector('#timeline').dataset.hatched"), "0", "nothing was overwritten")

    def test_the_name_of_a_rule_covers_no_dot(self):
        for width in (1200, 700, 400):
            PAGE.resize(width, 900)
            covered = PAGE.evaluate("""(() => {
                const box = (e) => e.getBoundingClientRect();
                const chart = document.querySelector('#loss-chart svg');
                const names = [...chart.querySelectorAll('text:not(.axis-title)')].filter(e => /[a-z]{3}/.test(e.textContent)).map(box);
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


    def test_configuration_shows_what_differs_first(self):
        rows = PAGE.evaluate("[...document.querySelectorAll('#configuration > .scroll tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
        self.assertEqual([row[:3] for row in rows], [["model.layers", "6", "4"], ["train.steps", "40", "1000"], ["data.files", '["text # 1"]', "[]"]])
        self.assertEqual(rows[1][3], "Number of steps (integer, 1 or more)")
        self.assertEqual(self.text("#configuration-words"), "3 of 4 options differ from their defaults.")
        folded = PAGE.evaluate("(e => [e.open, e.querySelector('tbody').textContent])(document.querySelector('#configuration details'))")
        self.assertEqual(folded, [False, "train.batch8Samples per step (integer, 1 or more)"])

    def test_every_plot_has_axis_titles_within_its_frame_and_no_label_covers_another(self):
        units = {"loss-chart": "loss (nats per token)", "speed-chart": "tokens/s", "norm-chart": "gradient norm (no unit)",
                 "rate-chart": "learning rate (no unit)", "memory-chart": "memory in use (bytes)"}
        for width in (1200, 400):
            PAGE.resize(width, 900)
            for chart, unit in units.items():
                self.assertEqual(sorted(self.texts(f"#{chart} .axis-title")), sorted([unit, "step"]), chart)
                bad = PAGE.evaluate("""(id => {
                    const svg = document.querySelector(`#${id} svg`);
                    const frame = svg.getBoundingClientRect();
                    const boxes = [...svg.querySelectorAll('text')].map(e => [e.textContent, e.getBoundingClientRect()]);
                    const out = boxes.filter(([, b]) => b.left < frame.left || b.right > frame.right || b.top < frame.top || b.bottom > frame.bottom);
                    const over = boxes.flatMap(([name, a], at) => boxes.slice(at + 1).filter(([, b]) =>
                        a.right > b.left + 1 && a.left < b.right - 1 && a.bottom > b.top + 3 && a.top < b.bottom - 3).map(([other]) => [name, other]));
                    return [...out.map(([name]) => name), ...over];
                })(%s)""" % json.dumps(chart))
                self.assertEqual(bad, [], f"{chart} in {width} pixels")

    def smooth(self, weight):
        PAGE.evaluate(f"(e => {{ e.value = '{weight}'; e.dispatchEvent(new Event('input')); }})(document.querySelector('#smoothing'))")

    def heights(self, selector):
        path = PAGE.evaluate(f"document.querySelector({json.dumps(selector)}).getAttribute('d')")
        return [float(point.split(",")[1]) for point in path[1:].replace("M", "L").split("L")]

    def test_curves_are_smoothed_by_a_moving_average_and_the_values_remain(self):
        self.smooth(0)
        self.assertEqual(self.text("#smoothing-value"), "off")
        self.assertEqual(PAGE.evaluate("document.querySelectorAll('.series.raw').length"), 0)
        plain = self.heights("#loss-chart .series")
        self.smooth(0.75)
        self.assertEqual(self.text("#smoothing-value"), "0.75")
        self.assertEqual(PAGE.evaluate("document.querySelectorAll('.series.raw').length"), 3, "the learning rate is not measured")
        self.assertEqual(self.heights("#loss-chart .series.raw"), plain)
        mean, expected = 0, []
        for at, height in enumerate(plain):
            mean = 0.75 * mean + 0.25 * height
            expected.append(mean / (1 - 0.75 ** (at + 1)))
        for shown, wanted in zip(self.heights("#loss-chart .series:not(.raw)"), expected, strict=True):
            self.assertAlmostEqual(shown, wanted, delta=0.2)

    def test_a_drag_selects_steps_and_a_double_click_shows_all(self):
        edges = "String(kCurveCharts['norm-chart'].edges())"
        self.assertEqual(PAGE.evaluate(edges), "1,40")
        x, y = PAGE.place_of("#loss-chart svg")
        PAGE.pointer("mousePressed", x - 40, y, button="left", clickCount=1)
        PAGE.pointer("mouseMoved", x + 60, y, button="left", buttons=1)
        self.assertEqual(PAGE.evaluate("document.querySelectorAll('#loss-chart .selection').length"), 1)
        PAGE.pointer("mouseReleased", x + 60, y, button="left", clickCount=1)
        first, last = map(int, PAGE.evaluate(edges).split(","))
        self.assertTrue(1 < first < last < 40, (first, last))
        self.assertEqual(len(self.heights("#loss-chart .series")), last - first + 1)
        self.assertFalse(PAGE.evaluate("document.querySelector('#all-steps').hidden"))
        PAGE.click("#all-steps")
        self.assertEqual(PAGE.evaluate(edges), "1,40")
        PAGE.evaluate("document.querySelector('#rate-chart svg').focus()")
        PAGE.key("Home")
        PAGE.key("+", "+")
        first, last = map(int, PAGE.evaluate(edges).split(","))
        self.assertTrue(first == 1 and last < 20, (first, last))
        PAGE.key("0", "0")
        self.assertEqual(PAGE.evaluate(edges), "1,40")


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
        line = "document.querySelector('#loss-chart .series').getAttribute('d')"
        norms = "document.querySelector('#norm-chart .series').getAttribute('d')"
        before = [PAGE.evaluate(line), PAGE.evaluate(norms)]
        PAGE.click("#log")
        self.assertNotEqual(PAGE.evaluate(line), before[0])
        self.assertNotEqual(PAGE.evaluate(norms), before[1])
        self.assertEqual(PAGE.evaluate("document.querySelector('#log').getAttribute('aria-pressed')"), "true")
        PAGE.click("#linear")
        self.assertEqual([PAGE.evaluate(line), PAGE.evaluate(norms)], before)

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
        wanted = ["theme", "smoothing", "linear", "log", "memory-rank", "earlier", "closer", "timeline", "ranks-after", "Operation", "Exposed", "rank 0", "rank 15"]
        self.assertEqual([name for name in names if name in wanted], wanted)
        for name, outline, _ in seen:
            self.assertNotEqual(outline, "none", name)

    def test_all_that_can_be_used_has_a_name(self):
        nameless = PAGE.evaluate("[...document.querySelectorAll('button, select, input, canvas, svg[tabindex], [role=region]')].filter(e => !(e.textContent.trim() || e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.closest('label'))).map(e => e.outerHTML)")
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
        PAGE.evaluate("document.querySelector('#configuration details').open = true")
        self.assertIn("</script><script>window.wasRun=1</script><img src=x onerror=", self.text("#configuration"))
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


class GapsTest(PageTest):
    name = "gaps"

    def test_missing_values_and_missing_steps_are_gaps(self):
        for smoothing in ("0", "0.6"):
            PAGE.evaluate(f"(e => {{ e.value = '{smoothing}'; e.dispatchEvent(new Event('input')); }})(document.querySelector('#smoothing'))")
            runs = lambda chart: [len(each.split("L")) for each in PAGE.evaluate(f"document.querySelector('#{chart} .series').getAttribute('d')").split("M")[1:]]
            self.assertEqual(runs("loss-chart"), [10, 5, 15], "no loss of 11 to 15, no line of 21 to 25")
            self.assertEqual(runs("rate-chart"), [20, 15])
            self.assertEqual(runs("speed-chart"), [20, 15])
        areas = PAGE.evaluate("document.querySelector('#memory-chart svg path').getAttribute('d')")
        self.assertEqual(areas.count("M"), 2)
        self.keep("gaps")


class LiveTest(unittest.TestCase):
    """A page that is served while the run goes on. The steps are written here."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tessera-live-")
        self.run_dir = pathlib.Path(self.folder.name)
        self.server = subprocess.Popen([OPTIONS.pages, "--serve", self.folder.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = self.server.stdout.readline().strip()
        PAGE.events.clear()
        PAGE.resize(1200, 900)
        PAGE.prefer("light")
        PAGE.open(self.url)

    def tearDown(self):
        self.server.stdin.close()
        self.server.wait(60)
        self.server.stdout.close()
        self.folder.cleanup()
        PAGE.open("about:blank")

    def take_steps(self, first, last, loss=3.5):
        for step in range(first, last + 1):
            with open(self.run_dir / "loss.csv", "a") as file:
                file.write(f"{step},{loss},{2 / step},0.002,{'2.75' if step % 10 == 0 else ''}\n")
            line = {"rank": 0, "step": step, "loss": loss, "grad_norm": 2 / step, "learning_rate": 0.002, "end": "done", "tokens": 1000, "seconds": 0.5,
                    "exposed_seconds": 0.1, "tokens_per_second": 2000, "memory": {"parameters": 800000, "fresh": 5000, "total": 805000}}
            with open(self.run_dir / "metrics.jsonl", "a") as file:
                file.write(json.dumps(line) + "\n")

    def text(self, selector):
        return PAGE.evaluate(f"document.querySelector({json.dumps(selector)}).textContent").replace("\u00a0", " ")

    def asked(self, name):
        return [url for url in PAGE.requests() if url.split("?")[0].endswith(name)]

    def test_new_steps_appear_and_the_end_stops_the_updates(self):
        self.assertEqual(self.text("#state"), "running")
        self.assertEqual(self.text("#tiles dd").split()[0], "20")
        PAGE.evaluate("(e => { e.value = '0.9'; e.dispatchEvent(new Event('input')); })(document.querySelector('#smoothing'))")
        PAGE.click("#log")
        PAGE.evaluate("zoomCharts([5, 12])")
        PAGE.evaluate("document.querySelector('#configuration details').open = true")
        PAGE.evaluate("window.isSamePage = true")
        self.take_steps(21, 25)
        PAGE.wait_until("data.curves.loss.step.length === 25 && data.curves.speed.step.length === 25")
        self.assertEqual(PAGE.evaluate("[data.curves.loss.loss[24], data.curves.loss.grad_norm[24], data.curves.loss.learning_rate[24], data.curves.speed.tokens_per_second[24]]"),
                         [3.5, 2 / 25, 0.002, 2000])
        self.assertEqual(self.text("#tiles dd").split()[0], "25")
        self.assertIn("3.5000", self.text("#tiles"))
        self.assertRegex(self.text("#live"), r"^updated \d+ s ago$")
        self.assertEqual(PAGE.evaluate("data.memory.owners.includes('fresh')"), True, "an owner that is new")
        state = "[document.querySelector('#smoothing').value, kCurveCharts['loss-chart'].weight, kCurveCharts['loss-chart'].isLog, String(kCurveCharts['speed-chart'].edges())]"
        self.assertEqual(PAGE.evaluate(state), ["0.9", 0.9, True, "5,12"])
        PAGE.evaluate("zoomCharts(null)")
        self.take_steps(26, 30, 3.25)
        PAGE.wait_until("data.curves.loss.step.length === 30")
        self.assertEqual(PAGE.evaluate("data.curves.held_out.length"), 3)
        self.assertEqual(self.asked("/data.json"), [], "updates are enough")
        cursors = [url.split("?")[1] for url in self.asked("/update.json")]
        self.assertGreater(len(set(cursors)), 1, "each asks for what it has not seen")

        self.server.stdin.write("end\n")
        self.server.stdin.flush()
        PAGE.wait_until("document.querySelector('#state').textContent === 'done'")
        self.assertEqual(self.text("#live"), "")
        self.assertEqual(len(self.asked("/data.json")), 1)
        self.assertEqual(PAGE.evaluate(state), ["0.9", 0.9, True, "1,30"])
        self.assertEqual(PAGE.evaluate("data.curves.loss.step.length"), 30)
        self.assertTrue(PAGE.evaluate("window.isSamePage"), "it was not loaded again")
        self.assertTrue(PAGE.evaluate("document.querySelector('#configuration details').open"))
        self.assertEqual(PAGE.evaluate("document.querySelector('#refresh').hidden"), True)
        self.assertEqual(PAGE.complaints(), [])

    def test_files_that_were_replaced_are_read_again(self):
        lines = (self.run_dir / "loss.csv").read_text().splitlines(keepends=True)
        (self.run_dir / "new").write_text("".join(lines[:11]))
        (self.run_dir / "new").rename(self.run_dir / "loss.csv")
        PAGE.wait_until("data.curves.loss.step.length === 10")
        self.take_steps(11, 12, 4.5)
        PAGE.wait_until("data.curves.loss.step.length === 12")
        self.assertEqual(self.text("#state"), "running")
        self.assertEqual(PAGE.complaints(), [])

    def test_points_are_bounded(self):
        PAGE.evaluate("addLosses(Array.from({length: 100000}, (_, at) => [at + 21, at, 1, 1, null]))")
        count, stride, last, mean = PAGE.evaluate("(({step, stride, loss}) => [step.length, stride, step[step.length - 1], loss[step.length - 2]])(data.curves.loss)")
        self.assertLessEqual(count, 4000)
        self.assertGreaterEqual(count, 2000)
        self.assertEqual(last, 100020)
        self.assertGreater(stride, 16)
        PAGE.evaluate("addMemory(['parameters'], Array.from({length: 5000}, (_, at) => [0, at + 21, [at]]))")
        told = PAGE.evaluate("(({step, nbytes}) => [step.length, step[step.length - 1], Math.max(...nbytes[0].slice(20)), nbytes[0].length])(data.memory.ranks[0])")
        self.assertLessEqual(told[0], 800)
        self.assertEqual(told[3], told[0])


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
        names = ["usual", "kernels", "hostile", "bare", "gaps", "one", "skipped", "stopped", "asked", "lost", "large"]
        subprocess.run([OPTIONS.pages, folder, *names], check=True, stdout=subprocess.DEVNULL)
        for name in names:
            DATA[name] = json.loads((FOLDER / f"{name}.json").read_text())
        with browser.Browser() as PAGE:
            program = unittest.main(argv=[sys.argv[0], *rest], exit=False)
        return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
