"""The page of a usual run: its numbers, controls, and width on a phone."""

import base64
import json
import struct

import page_case as case
from page_case import bytes_text, seconds_text, rate_text, PageTest


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
        case.PAGE.evaluate("document.querySelector('#loss-chart svg').focus()")
        case.PAGE.key("ArrowLeft")
        self.assertIn(f"step 39: {loss['loss'][38]:.4f}", self.text("#loss-chart output"))
        for _ in range(9):
            case.PAGE.key("ArrowLeft")
        self.assertIn(f"step 30: {loss['loss'][29]:.4f}", self.text("#loss-chart output"))
        held_out = [point["loss"] for point in self.data["curves"]["held_out"] if point["step"] == 30][0]
        self.assertIn(f"held out {held_out:.4f}", self.text("#loss-chart output"))
        x, y = case.PAGE.place_of("#speed-chart svg")
        case.PAGE.pointer("mouseMoved", x - 5, y)
        self.assertRegex(self.text("#speed-chart output"), r"step (17|18|19): 19.3 k tokens/s, exposed 19.4 %")
        self.assertEqual(len(self.texts("#loss-chart circle title")), 4)
        self.assertEqual(case.PAGE.evaluate("document.querySelector('#timeline').dataset.hatched"), "0", "nothing was overwritten")

    def test_the_name_of_a_rule_covers_no_dot(self):
        for width in (1200, 700, 400):
            case.PAGE.resize(width, 900)
            covered = case.PAGE.evaluate("""(() => {
                const box = (e) => e.getBoundingClientRect();
                const chart = document.querySelector('#loss-chart svg');
                const names = [...chart.querySelectorAll('text:not(.axis-title)')].filter(e => /[a-z]{3}/.test(e.textContent)).map(box);
                const dots = [...chart.querySelectorAll('circle.dot')].map(box);
                return [names.length, dots.filter(d => names.some(n => d.right > n.left && d.left < n.right && d.bottom > n.top
                                                                       && d.top < n.bottom)).length];
            })()""")
            self.assertEqual(covered, [1, 0], f"a page of {width} pixels")

    def test_peak_table(self):
        case.PAGE.evaluate("(e => { e.value = '2'; e.dispatchEvent(new Event('change')); })(document.querySelector('#memory-rank'))")
        peak = [each for each in self.data["memory"]["peaks"] if each["rank"] == 2][0]
        rows = case.PAGE.evaluate("[...document.querySelectorAll('#peak tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
        shown = {row[0]: [cell.replace("\u00a0", " ") for cell in row[1:]] for row in rows}
        for owner, measured in peak["measured"].items():
            name = "total" if owner == "total" else owner
            self.assertEqual(shown[name], [bytes_text(measured), bytes_text(peak["predicted"][owner])], owner)
        self.assertIn("Rank 2 had " + bytes_text(peak["measured"]["total"]), self.text("#memory-words"))
        own = bytes_text(peak["measured"]["activations"])
        self.assertIn(f"The largest owner is activations, with {own} at its own peak, which may be at another time.",
                      self.text("#memory-words"))

    def test_collectives(self):
        rows = case.PAGE.evaluate("[...document.querySelectorAll('#collectives tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
        self.assertEqual(len(rows), len(self.data["collectives"]))
        for row, told in zip(rows, self.data["collectives"]):
            self.assertEqual([cell.replace("\u00a0", " ") for cell in row],
                             [f"{told['operation']} {told['dtype']}", told["group"], str(told["ranks"]), f"{told['count']:,}",
                              bytes_text(told["nbytes"]), rate_text(told["bus_bandwidth"]), seconds_text(told["skew_median"]),
                              seconds_text(told["skew_most"]), seconds_text(told["exposed_seconds"])])

    def test_timeline_names_the_span_under_the_pointer(self):
        told = self.data["timeline"]
        html = (case.FOLDER / "usual.html").read_text()
        buffer = base64.b64decode(html.split('id="events">')[1].split("<")[0])
        place = [at for at, lane in enumerate(told["lanes"]) if lane["rank"] == 1 and lane["kind"] == "collective"][0]
        lane = told["lanes"][place]
        begins = struct.unpack_from(f"<{lane['count']}I", buffer, lane["begin"])
        lengths = struct.unpack_from(f"<{lane['count']}I", buffer, lane["length"])
        names = struct.unpack_from(f"<{lane['count']}H", buffer, lane["name"])
        at = 117
        box = case.PAGE.evaluate("(e => { e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect(); return [b.left, b.top, b.width]; })(document.querySelector('#timeline'))")
        gutter = 128
        moment = (begins[at] + lengths[at] / 2) * told["unit_ns"] / told["span_ns"]
        row = place * 17 + 26 + 12 * [head["rank"] for head in self.data["mesh"]["ranks"]].index(1)
        case.PAGE.pointer("mouseMoved", box[0] + gutter + moment * (box[2] - gutter), box[1] + row + 7)
        seconds = told["unit_ns"] / 1e9
        self.assertEqual(self.text("#timeline-output"), f"Rank 1, collectives: {told['names'][names[at]]}, "
                         f"{seconds_text(lengths[at] * seconds)}, at {seconds_text(begins[at] * seconds)}")

    def test_mesh(self):
        self.assertEqual(self.texts("#mesh .cell"), ["rank 0", "rank 1", "rank 2", "rank 3"])
        self.assertIn("dp 1 × fsdp 2 × tp 2", self.text("#mesh-words"))
        case.PAGE.click('#mesh .cell[data-rank="3"]')
        self.assertEqual(self.text("#rank-details h3"), "Rank 3")
        self.assertIn("dp 0, fsdp 1, tp 1", self.text("#rank-details"))
        owners = self.data["mesh"]["ranks"][3]["owners"]
        self.assertIn("activations" + bytes_text(owners["activations"]), self.text("#rank-details table"))
        pressed = case.PAGE.evaluate("[...document.querySelectorAll('#mesh [aria-pressed=true]')].map(e => e.dataset.rank)")
        self.assertEqual(pressed, ["3"])


    def test_configuration_shows_what_differs_first(self):
        rows = case.PAGE.evaluate("[...document.querySelectorAll('#configuration > .scroll tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
        self.assertEqual([row[:3] for row in rows], [["model.layers", "6", "4"], ["train.steps", "40", "1000"], ["data.files", '["text # 1"]', "[]"]])
        self.assertEqual(rows[1][3], "Number of steps (integer, 1 or more)")
        self.assertEqual(self.text("#configuration-words"), "3 of 4 options differ from their defaults.")
        folded = case.PAGE.evaluate("(e => [e.open, e.querySelector('tbody').textContent])(document.querySelector('#configuration details'))")
        self.assertEqual(folded, [False, "train.batch8Samples per step (integer, 1 or more)"])

    def test_every_plot_has_axis_titles_within_its_frame_and_no_label_covers_another(self):
        units = {"loss-chart": "loss (nats per token)", "speed-chart": "tokens/s", "norm-chart": "gradient norm (no unit)",
                 "rate-chart": "learning rate (no unit)", "memory-chart": "memory in use (bytes)"}
        for width in (1200, 400):
            case.PAGE.resize(width, 900)
            for chart, unit in units.items():
                self.assertEqual(sorted(self.texts(f"#{chart} .axis-title")), sorted([unit, "step"]), chart)
                bad = case.PAGE.evaluate("""(id => {
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
        case.PAGE.evaluate(f"(e => {{ e.value = '{weight}'; e.dispatchEvent(new Event('input')); }})(document.querySelector('#smoothing'))")

    def heights(self, selector):
        path = case.PAGE.evaluate(f"document.querySelector({json.dumps(selector)}).getAttribute('d')")
        return [float(point.split(",")[1]) for point in path[1:].replace("M", "L").split("L")]

    def test_curves_are_smoothed_by_a_moving_average_and_the_values_remain(self):
        self.smooth(0)
        self.assertEqual(self.text("#smoothing-value"), "off")
        self.assertEqual(case.PAGE.evaluate("document.querySelectorAll('.series.raw').length"), 0)
        plain = self.heights("#loss-chart .series")
        self.smooth(0.75)
        self.assertEqual(self.text("#smoothing-value"), "0.75")
        self.assertEqual(case.PAGE.evaluate("document.querySelectorAll('.series.raw').length"), 3, "the learning rate is not measured")
        self.assertEqual(self.heights("#loss-chart .series.raw"), plain)
        mean, expected = 0, []
        for at, height in enumerate(plain):
            mean = 0.75 * mean + 0.25 * height
            expected.append(mean / (1 - 0.75 ** (at + 1)))
        for shown, wanted in zip(self.heights("#loss-chart .series:not(.raw)"), expected, strict=True):
            self.assertAlmostEqual(shown, wanted, delta=0.2)

    def test_a_drag_selects_steps_and_a_double_click_shows_all(self):
        edges = "String(kCurveCharts['norm-chart'].edges())"
        self.assertEqual(case.PAGE.evaluate(edges), "1,40")
        x, y = case.PAGE.place_of("#loss-chart svg")
        case.PAGE.pointer("mousePressed", x - 40, y, button="left", clickCount=1)
        case.PAGE.pointer("mouseMoved", x + 60, y, button="left", buttons=1)
        self.assertEqual(case.PAGE.evaluate("document.querySelectorAll('#loss-chart .selection').length"), 1)
        case.PAGE.pointer("mouseReleased", x + 60, y, button="left", clickCount=1)
        first, last = map(int, case.PAGE.evaluate(edges).split(","))
        self.assertTrue(1 < first < last < 40, (first, last))
        self.assertEqual(len(self.heights("#loss-chart .series")), last - first + 1)
        self.assertFalse(case.PAGE.evaluate("document.querySelector('#all-steps').hidden"))
        case.PAGE.click("#all-steps")
        self.assertEqual(case.PAGE.evaluate(edges), "1,40")
        case.PAGE.evaluate("document.querySelector('#rate-chart svg').focus()")
        case.PAGE.key("Home")
        case.PAGE.key("+", "+")
        first, last = map(int, case.PAGE.evaluate(edges).split(","))
        self.assertTrue(first == 1 and last < 20, (first, last))
        case.PAGE.key("0", "0")
        self.assertEqual(case.PAGE.evaluate(edges), "1,40")


class ActsTest(PageTest):
    name = "kernels"

    def column(self, at):
        return case.PAGE.evaluate(f"[...document.querySelectorAll('#collectives tbody tr')].map(r => r.cells[{at}].textContent)")

    def test_a_heading_sorts_by_click_and_by_enter(self):
        self.assertEqual(case.PAGE.evaluate("document.querySelector('th[aria-sort=descending]').textContent"), "Exposed")
        case.PAGE.click("#collectives thead th:nth-child(5) button")
        self.assertEqual(self.column(0), ["all_gather f32", "all_reduce f32"], "most bytes first")
        case.PAGE.key("Enter")
        self.assertEqual(self.column(0), ["all_reduce f32", "all_gather f32"])
        self.assertEqual(case.PAGE.evaluate("document.querySelector('th[aria-sort=ascending]').textContent"), "Bytes")
        case.PAGE.click("#collectives thead th:first-child button")
        self.assertEqual(self.column(0), sorted(self.column(0)))
        self.assertEqual(case.PAGE.evaluate("document.querySelectorAll('th[aria-sort=ascending], th[aria-sort=descending]').length"), 1)

    def test_the_loss_has_a_log_scale(self):
        line = "document.querySelector('#loss-chart .series').getAttribute('d')"
        norms = "document.querySelector('#norm-chart .series').getAttribute('d')"
        before = [case.PAGE.evaluate(line), case.PAGE.evaluate(norms)]
        case.PAGE.click("#log")
        self.assertNotEqual(case.PAGE.evaluate(line), before[0])
        self.assertNotEqual(case.PAGE.evaluate(norms), before[1])
        self.assertEqual(case.PAGE.evaluate("document.querySelector('#log').getAttribute('aria-pressed')"), "true")
        case.PAGE.click("#linear")
        self.assertEqual([case.PAGE.evaluate(line), case.PAGE.evaluate(norms)], before)

    def test_dark_and_light(self):
        colors = "[getComputedStyle(document.body).backgroundColor, document.querySelector('#timeline').toDataURL()]"
        light = case.PAGE.evaluate(colors)
        case.PAGE.click("#theme")
        dark = case.PAGE.evaluate(colors)
        self.assertNotEqual(light[0], dark[0])
        self.assertNotEqual(light[1], dark[1], "the canvas too")
        self.assertEqual(self.text("#theme"), "Light")
        case.PAGE.click("#theme")
        self.assertEqual(case.PAGE.evaluate(colors)[0], light[0])
        case.PAGE.evaluate("delete document.documentElement.dataset.theme")
        case.PAGE.prefer("dark")
        self.assertEqual(case.PAGE.evaluate(colors)[0], dark[0], "as the system prefers")
        self.keep("dark")

    def test_the_timeline_zooms_by_buttons_keys_wheel_and_moves_by_drag(self):
        whole = self.width()
        case.PAGE.click("#closer")
        self.assertAlmostEqual(self.width() / whole, 0.5)
        case.PAGE.click("#whole")
        self.assertEqual(self.width(), whole)
        case.PAGE.evaluate("document.querySelector('#timeline').focus()")
        case.PAGE.key("+", "+")
        case.PAGE.key("+", "+")
        self.assertAlmostEqual(self.width() / whole, 0.25)
        begin = self.view()[0]
        case.PAGE.key("ArrowRight")
        self.assertAlmostEqual(self.view()[0], begin + 0.025 * whole)
        case.PAGE.key("-", "-")
        self.assertAlmostEqual(self.width() / whole, 0.5)
        x, y = case.PAGE.place_of("#timeline")
        case.PAGE.pointer("mouseWheel", x, y, deltaX=0, deltaY=-300)
        self.assertLess(self.width() / whole, 0.4)
        begin = self.view()[0]
        case.PAGE.pointer("mousePressed", x, y, button="left", clickCount=1)
        case.PAGE.pointer("mouseMoved", x - 60, y, button="left", buttons=1)
        case.PAGE.pointer("mouseReleased", x - 60, y, button="left", clickCount=1)
        self.assertGreater(self.view()[0], begin)
        case.PAGE.key("0", "0")
        self.assertEqual(self.view(), [0, whole])

    def test_the_wheel_scrolls_the_page_until_the_timeline_was_clicked(self):
        whole = self.width()
        x, y = case.PAGE.place_of("#timeline")
        case.PAGE.pointer("mouseWheel", x, y, deltaX=0, deltaY=-100)
        self.assertEqual(self.width(), whole)

    def test_many_ranks_are_shown_by_pages(self):
        self.assertEqual(self.text("#rank-range"), "ranks 0 to 7 of 16")
        case.PAGE.click("#ranks-after")
        self.assertEqual(self.text("#rank-range"), "ranks 8 to 15 of 16")
        self.assertTrue(case.PAGE.evaluate("document.querySelector('#ranks-after').disabled"))

    def test_every_control_is_reached_by_tab_in_order_and_seen(self):
        case.PAGE.evaluate("document.activeElement.blur()")
        seen = []
        for _ in range(80):
            case.PAGE.key("Tab")
            told = case.PAGE.evaluate("(e => [e.id || e.textContent.slice(0, 20) || e.tagName, getComputedStyle(e).outlineStyle, e === document.body])(document.activeElement)")
            if told[2]:
                break
            seen.append(told)
        names = [name for name, _, _ in seen]
        wanted = ["theme", "smoothing", "linear", "log", "memory-rank", "earlier", "closer", "timeline", "ranks-after", "Operation", "Exposed", "rank 0", "rank 15"]
        self.assertEqual([name for name in names if name in wanted], wanted)
        for name, outline, _ in seen:
            self.assertNotEqual(outline, "none", name)

    def test_all_that_can_be_used_has_a_name(self):
        nameless = case.PAGE.evaluate("[...document.querySelectorAll('button, select, input, canvas, svg[tabindex], [role=region]')].filter(e => !(e.textContent.trim() || e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.closest('label'))).map(e => e.outerHTML)")
        self.assertEqual(nameless, [])


class PhoneTest(PageTest):
    def test_no_page_scrolls_sideways(self):
        for name in ("usual", "kernels", "hostile", "bare"):
            case.PAGE.resize(375, 800, True)
            case.PAGE.open((case.FOLDER / f"{name}.html").as_uri())
            case.PAGE.settle()
            self.assertLessEqual(case.PAGE.evaluate("document.documentElement.scrollWidth"), 375, name)
            if name == "usual":
                self.keep("phone")
        case.PAGE.events = [event for event in case.PAGE.events if event["method"] != "Network.requestWillBeSent"]
        case.PAGE.open((case.FOLDER / "usual.html").as_uri())
