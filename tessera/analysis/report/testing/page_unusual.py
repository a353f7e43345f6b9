"""Pages of unusual runs: hostile text, missing data, live and failed runs, many events."""

import json
import pathlib
import subprocess
import tempfile
import unittest

import page_case as case
from page_case import PageTest


class HostileTest(PageTest):
    name = "hostile"

    def test_text_of_a_run_is_text(self):
        case.PAGE.evaluate("(e => { for (const each of e.options) { e.value = each.value; e.dispatchEvent(new Event('change')); } })(document.querySelector('#memory-rank'))")
        for cell in range(4):
            case.PAGE.click(f'#mesh .cell[data-rank="{cell}"]')
        for at in range(1, 10):
            case.PAGE.click(f"#collectives thead th:nth-child({at}) button")
        self.assertIsNone(case.PAGE.evaluate("window.wasRun"))
        self.assertEqual(case.PAGE.evaluate("document.querySelectorAll('img, iframe, object, b:not(.bar b), script:not([nonce]):not([type])').length"), 0)
        self.assertEqual(case.PAGE.evaluate("document.scripts.length"), 3)
        case.PAGE.evaluate("document.querySelector('#configuration details').open = true")
        self.assertIn("</script><script>window.wasRun=1</script><img src=x onerror=", self.text("#configuration"))
        for selector in ("#verdict", "#peak", "#collectives", "#rank-details"):
            self.assertIn("<img src=x onerror=\"window.wasRun=1\">", self.text(selector), selector)

    def test_the_policy_stops_what_is_not_ours(self):
        case.PAGE.evaluate("(() => { const e = document.createElement('script'); e.textContent = 'window.wasRun = 1'; document.body.append(e); })()")
        self.assertIsNone(case.PAGE.evaluate("window.wasRun"))
        self.assertEqual(case.PAGE.evaluate("fetch('http://127.0.0.1:9/').then(() => 'asked', () => 'refused')"), "refused")
        case.PAGE.events.clear()  # the refusals themselves
        case.PAGE.open((case.FOLDER / "hostile.html").as_uri())


class BareTest(PageTest):
    name = "bare"

    def test_what_is_missing_is_told_and_the_rest_shown(self):
        self.assertIn("summary.json", self.text("#missing-title"))
        self.assertIn("records of ranks", self.text("#missing"))
        self.assertIn("No timeline", self.text("#timeline-words"))
        self.assertIn("No verdict", self.text("#verdict"))
        self.assertIn("No collectives", self.text("#collectives-words"))
        self.assertEqual(case.PAGE.evaluate("document.querySelector('#timeline-frame').hidden"), True)
        self.assertEqual(len(case.PAGE.evaluate("document.querySelector('#loss-chart .series').getAttribute('d')").split("L")), 40)
        self.keep("bare")


class GapsTest(PageTest):
    name = "gaps"

    def test_missing_values_and_missing_steps_are_gaps(self):
        for smoothing in ("0", "0.6"):
            case.PAGE.evaluate(f"(e => {{ e.value = '{smoothing}'; e.dispatchEvent(new Event('input')); }})(document.querySelector('#smoothing'))")
            runs = lambda chart: [len(each.split("L")) for each in case.PAGE.evaluate(f"document.querySelector('#{chart} .series').getAttribute('d')").split("M")[1:]]
            self.assertEqual(runs("loss-chart"), [10, 5, 15], "no loss of 11 to 15, no line of 21 to 25")
            self.assertEqual(runs("rate-chart"), [20, 15])
            self.assertEqual(runs("speed-chart"), [20, 15])
        areas = case.PAGE.evaluate("document.querySelector('#memory-chart svg path').getAttribute('d')")
        self.assertEqual(areas.count("M"), 2)
        self.keep("gaps")


class LiveTest(unittest.TestCase):
    """A page that is served while the run goes on. The steps are written here."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tessera-live-")
        self.run_dir = pathlib.Path(self.folder.name)
        self.server = subprocess.Popen([case.OPTIONS.pages, "--serve", self.folder.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = self.server.stdout.readline().strip()
        case.PAGE.events.clear()
        case.PAGE.resize(1200, 900)
        case.PAGE.prefer("light")
        case.PAGE.open(self.url)

    def tearDown(self):
        self.server.stdin.close()
        self.server.wait(60)
        self.server.stdout.close()
        self.folder.cleanup()
        case.PAGE.open("about:blank")

    def take_steps(self, first, last, loss=3.5):
        for step in range(first, last + 1):
            with open(self.run_dir / "loss.csv", "a") as file:
                file.write(f"{step},{loss},{2 / step},0.002,{'2.75' if step % 10 == 0 else ''}\n")
            line = {"rank": 0, "step": step, "loss": loss, "grad_norm": 2 / step, "learning_rate": 0.002, "end": "done", "tokens": 1000, "seconds": 0.5,
                    "exposed_seconds": 0.1, "tokens_per_second": 2000, "memory": {"parameters": 800000, "fresh": 5000, "total": 805000}}
            with open(self.run_dir / "metrics.jsonl", "a") as file:
                file.write(json.dumps(line) + "\n")

    def text(self, selector):
        return case.PAGE.evaluate(f"document.querySelector({json.dumps(selector)}).textContent").replace("\u00a0", " ")

    def asked(self, name):
        return [url for url in case.PAGE.requests() if url.split("?")[0].endswith(name)]

    def test_new_steps_appear_and_the_end_stops_the_updates(self):
        self.assertEqual(self.text("#state"), "running")
        self.assertEqual(self.text("#tiles dd").split()[0], "20")
        case.PAGE.evaluate("(e => { e.value = '0.9'; e.dispatchEvent(new Event('input')); })(document.querySelector('#smoothing'))")
        case.PAGE.click("#log")
        case.PAGE.evaluate("zoomCharts([5, 12])")
        case.PAGE.evaluate("document.querySelector('#configuration details').open = true")
        case.PAGE.evaluate("window.isSamePage = true")
        self.take_steps(21, 25)
        case.PAGE.wait_until("data.curves.loss.step.length === 25 && data.curves.speed.step.length === 25")
        self.assertEqual(case.PAGE.evaluate("[data.curves.loss.loss[24], data.curves.loss.grad_norm[24], data.curves.loss.learning_rate[24], data.curves.speed.tokens_per_second[24]]"),
                         [3.5, 2 / 25, 0.002, 2000])
        self.assertEqual(self.text("#tiles dd").split()[0], "25")
        self.assertIn("3.5000", self.text("#tiles"))
        self.assertRegex(self.text("#live"), r"^updated \d+ s ago$")
        self.assertEqual(case.PAGE.evaluate("data.memory.owners.includes('fresh')"), True, "an owner that is new")
        state = "[document.querySelector('#smoothing').value, kCurveCharts['loss-chart'].weight, kCurveCharts['loss-chart'].isLog, String(kCurveCharts['speed-chart'].edges())]"
        self.assertEqual(case.PAGE.evaluate(state), ["0.9", 0.9, True, "5,12"])
        case.PAGE.evaluate("zoomCharts(null)")
        self.take_steps(26, 30, 3.25)
        case.PAGE.wait_until("data.curves.loss.step.length === 30")
        self.assertEqual(case.PAGE.evaluate("data.curves.held_out.length"), 3)
        self.assertEqual(self.asked("/data.json"), [], "updates are enough")
        cursors = [url.split("?")[1] for url in self.asked("/update.json")]
        self.assertGreater(len(set(cursors)), 1, "each asks for what it has not seen")

        self.server.stdin.write("end\n")
        self.server.stdin.flush()
        case.PAGE.wait_until("document.querySelector('#state').textContent === 'done'")
        self.assertEqual(self.text("#live"), "")
        self.assertEqual(len(self.asked("/data.json")), 1)
        self.assertEqual(case.PAGE.evaluate(state), ["0.9", 0.9, True, "1,30"])
        self.assertEqual(case.PAGE.evaluate("data.curves.loss.step.length"), 30)
        self.assertTrue(case.PAGE.evaluate("window.isSamePage"), "it was not loaded again")
        self.assertTrue(case.PAGE.evaluate("document.querySelector('#configuration details').open"))
        self.assertEqual(case.PAGE.evaluate("document.querySelector('#refresh').hidden"), True)
        self.assertEqual(case.PAGE.complaints(), [])

    def test_files_that_were_replaced_are_read_again(self):
        lines = (self.run_dir / "loss.csv").read_text().splitlines(keepends=True)
        (self.run_dir / "new").write_text("".join(lines[:11]))
        (self.run_dir / "new").rename(self.run_dir / "loss.csv")
        case.PAGE.wait_until("data.curves.loss.step.length === 10")
        self.take_steps(11, 12, 4.5)
        case.PAGE.wait_until("data.curves.loss.step.length === 12")
        self.assertEqual(self.text("#state"), "running")
        self.assertEqual(case.PAGE.complaints(), [])

    def test_points_are_bounded(self):
        case.PAGE.evaluate("addLosses(Array.from({length: 100000}, (_, at) => [at + 21, at, 1, 1, null]))")
        count, stride, last, mean = case.PAGE.evaluate("(({step, stride, loss}) => [step.length, stride, step[step.length - 1], loss[step.length - 2]])(data.curves.loss)")
        self.assertLessEqual(count, 4000)
        self.assertGreaterEqual(count, 2000)
        self.assertEqual(last, 100020)
        self.assertGreater(stride, 16)
        case.PAGE.evaluate("addMemory(['parameters'], Array.from({length: 5000}, (_, at) => [0, at + 21, [at]]))")
        told = case.PAGE.evaluate("(({step, nbytes}) => [step.length, step[step.length - 1], Math.max(...nbytes[0].slice(20)), nbytes[0].length])(data.memory.ranks[0])")
        self.assertLessEqual(told[0], 800)
        self.assertEqual(told[3], told[0])


class OneStepTest(PageTest):
    name = "one"

    def test_a_single_step_is_drawn(self):
        for chart in ("#loss-chart", "#speed-chart"):
            dots = case.PAGE.evaluate(f"[...document.querySelectorAll('{chart} circle.lone')].map(e => e.getBoundingClientRect().width)")
            self.assertEqual(len(dots), 1, chart)
            self.assertGreater(dots[0], 4, chart)
        widths = case.PAGE.evaluate("[...document.querySelectorAll('#memory-chart svg path')].map(e => e.getBoundingClientRect().width)")
        self.assertGreater(min(widths), 10)
        self.keep("one")


class SkippedTest(PageTest):
    name = "skipped"

    def test_steps_that_were_skipped_are_a_warning(self):
        self.assertEqual(self.texts("#verdict p")[0], "40 of 40 steps were skipped: 40 with a loss or gradient that is not finite.")
        self.assertNotIn("action is needed", self.text("#verdict"))
        self.assertEqual(case.PAGE.evaluate("document.querySelector('#verdict').className"), "verdict warn")
        self.assertIn("No loss to draw", self.text("#loss-chart"))
        self.keep("skipped")


class StoppedTest(PageTest):
    name = "stopped"

    def test_the_reason_that_the_run_gives_leads(self):
        self.assertEqual(self.texts("#verdict p")[0], f"Stopped: {self.data['run']['reason']}")
        self.assertEqual(case.PAGE.evaluate("document.querySelector('#verdict').className"), "verdict bad")


class AskedTest(PageTest):
    name = "asked"

    def test_a_run_that_was_asked_to_end_is_no_fault(self):
        self.assertEqual(self.texts("#verdict p")[0], f"Interrupted: {self.data['run']['reason']}")
        self.assertEqual(case.PAGE.evaluate("document.querySelector('#verdict').className"), "verdict warn")
        self.assertNotIn("bad", case.PAGE.evaluate("document.querySelector('#state').className"))


class LostTest(PageTest):
    name = "lost"

    def test_what_was_overwritten_is_hatched(self):
        told = self.data["timeline"]
        lanes = {lane["kind"]: lane for lane in told["lanes"] if lane["rank"] == 0}
        self.assertGreater(lanes["compute"]["no_data"], lanes["collective"]["no_data"], "more records of launches are gone")
        self.assertIn("Hatched areas have no data", self.text("#timeline-words"))
        self.assertIn("no data", self.texts("#timeline-legend li"))
        box = case.PAGE.evaluate("(e => { e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect(); return [b.left, b.top, b.width]; })(document.querySelector('#timeline'))")
        room = box[2] - 128
        whole = told["span_ns"] / told["unit_ns"]
        hatched = sum(lane["no_data"] for lane in told["lanes"]) / whole * room
        drawn = float(case.PAGE.evaluate("document.querySelector('#timeline').dataset.hatched"))
        self.assertAlmostEqual(drawn, hatched, delta=2)
        place = [at for at, lane in enumerate(told["lanes"]) if lane["kind"] == "compute"][0]
        case.PAGE.pointer("mouseMoved", box[0] + 128 + lanes["compute"]["no_data"] / whole * room / 2, box[1] + 26 + 17 * place + 7)
        self.assertIn("Rank 0, compute: no data before", self.text("#timeline-output"))
        self.keep("lost")


class LargeTest(PageTest):
    name = "large"

    def test_what_is_drawn_is_bounded_by_pixels_at_every_zoom(self):
        self.assertGreaterEqual(self.data["timeline"]["events"], 1_000_000)
        case.PAGE.evaluate("document.querySelector('#timeline').focus()")
        drawn, seen = [], []
        for _ in range(22):
            told = case.PAGE.evaluate("(({drawn, seen}) => [Number(drawn), Number(seen)])(document.querySelector('#timeline').dataset)")
            drawn.append(told[0])
            seen.append(told[1])
            case.PAGE.key("+", "+")
        rows = len(self.data["timeline"]["lanes"])
        self.assertLess(max(drawn), rows * 1200)
        self.assertLess(max(seen), rows * 1200 * 4, "not every event is looked at to draw a frame")
        self.assertGreater(min(drawn[:8]), 0)
        self.assertLess(self.width() * self.data["timeline"]["unit_ns"], 2000, "down to single events")
        self.keep("large")
