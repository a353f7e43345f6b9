"""Chromium without a window, driven over the DevTools protocol with the standard library alone: a websocket of our own (the
client side of RFC 6455, text frames), a page, its console, keys and pointers, screenshots."""

import base64
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import urllib.parse

SECONDS = 60  # only reached when something hangs


def find_browser():
    """The program, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class WebSocket:
    """One connection to 127.0.0.1. Messages are text."""

    def __init__(self, url):
        where = urllib.parse.urlsplit(url)
        self.socket = socket.create_connection((where.hostname, where.port), timeout=SECONDS)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET {where.path} HTTP/1.1\r\nHost: {where.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                             f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
        self.rest = b""
        head = self._until(b"\r\n\r\n")
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise RuntimeError(f"no websocket: {head!r}")

    def _until(self, mark):
        while mark not in self.rest:
            self._more()
        head, self.rest = self.rest.split(mark, 1)
        return head

    def _more(self):
        part = self.socket.recv(1 << 20)
        if not part:
            raise RuntimeError("the browser closed its websocket")
        self.rest += part

    def _take(self, count):
        while len(self.rest) < count:
            self._more()
        taken, self.rest = self.rest[:count], self.rest[count:]
        return taken

    def send(self, text):
        payload = text.encode()
        mask = os.urandom(4)
        size = len(payload)
        head = b"\x81" + (struct.pack("!B", 0x80 | size) if size < 126 else
                          struct.pack("!BH", 0x80 | 126, size) if size < 1 << 16 else struct.pack("!BQ", 0x80 | 127, size))
        masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
        self.socket.sendall(head + mask + masked)

    def receive(self):
        parts = []
        while True:
            first, size = self._take(2)
            size &= 0x7F
            if size == 126:
                size = struct.unpack("!H", self._take(2))[0]
            elif size == 127:
                size = struct.unpack("!Q", self._take(8))[0]
            payload = self._take(size)
            kind = first & 0x0F
            if kind == 8:
                raise RuntimeError("the browser closed its websocket")
            if kind in (0, 1, 2):
                parts.append(payload)
                if first & 0x80:
                    return b"".join(parts).decode()

    def close(self):
        self.socket.close()


class Browser:
    """A browser with one page. Use as a context."""

    def __init__(self, program=None):
        self.program = program or find_browser()
        self.folder = tempfile.mkdtemp(prefix="tessera-browser-")
        self.process = None
        self.socket = None
        self.number = 0
        self.events = []

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self):
        command = [self.program, "--headless=new", "--remote-debugging-port=0", f"--user-data-dir={self.folder}", "--no-first-run",
                   "--disable-gpu", "--disable-extensions", "--disable-background-networking", "--disable-component-update",
                   "--disable-dev-shm-usage", "--hide-scrollbars", "about:blank"]
        if os.geteuid() == 0:
            command.insert(1, "--no-sandbox")
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port_file = pathlib.Path(self.folder, "DevToolsActivePort")
        deadline = time.monotonic() + SECONDS
        while not (port_file.exists() and port_file.read_text().count("\n") >= 1):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.program} did not start (exit code {self.process.poll()})")
            time.sleep(0.02)
        port, path = port_file.read_text().split("\n")[:2]
        self.socket = WebSocket(f"ws://127.0.0.1:{port}{path}")
        target = self._ask("Target.createTarget", {"url": "about:blank"})["targetId"]
        self.session = self._ask("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def __exit__(self, *_):
        if self.socket:
            self.socket.close()
        if self.process:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _ask(self, method, parameters=None, session=None):
        self.number += 1
        number = self.number
        message = {"id": number, "method": method, "params": parameters or {}}
        if session:
            message["sessionId"] = session
        self.socket.send(json.dumps(message))
        while True:
            answer = json.loads(self.socket.receive())
            if answer.get("id") != number:
                if "method" in answer:
                    self.events.append(answer)
                continue
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            return answer["result"]

    def ask(self, method, **parameters):
        """A command of the page."""
        return self._ask(method, parameters, self.session)

    def wait_event(self, method):
        """The next event of this name, one that has come included."""
        while True:
            for at, event in enumerate(self.events):
                if event["method"] == method:
                    return self.events.pop(at)
            answer = json.loads(self.socket.receive())
            if "method" in answer:
                self.events.append(answer)

    def evaluate(self, script):
        """The value of an expression; a promise is waited for."""
        result = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails'].get('exception', {}).get('description')}")
        return result["result"].get("value")

    def open(self, url):
        """Loads a page, and waits until it has drawn."""
        self.events = [event for event in self.events if event["method"] != "Page.loadEventFired"]
        self.ask("Page.navigate", url=url)
        self.wait_event("Page.loadEventFired")
        self.settle()

    def settle(self):
        """Waits for two frames: what was asked for has then been drawn."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def wait_until(self, script):
        """Waits until an expression holds."""
        deadline = time.monotonic() + SECONDS
        while not self.evaluate(f"Boolean({script})"):
            if time.monotonic() > deadline:
                raise RuntimeError(f"it never came to be: {script}")
            self.settle()

    def complaints(self):
        """Errors and warnings of the console, uncaught exceptions, and requests that are not the page's own."""
        self.evaluate("1")
        found = []
        for event in self.events:
            told = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                details = told["exceptionDetails"]
                found.append(details.get("exception", {}).get("description") or details["text"])
            elif event["method"] == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
                found.append(told["entry"]["text"])
            elif event["method"] == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
                found.append(json.dumps(told["args"]))
        return found

    def requests(self):
        """Addresses that were asked for."""
        return [event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"]

    def resize(self, width, height, is_phone=False):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if is_phone else 1, mobile=is_phone)
        self.settle()

    def prefer(self, scheme):
        """dark or light, as the system would say."""
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.settle()

    def place_of(self, selector):
        """The middle of an element, which is scrolled to."""
        box = self.evaluate(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
                            " const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()")
        return box[0] + box[2] / 2, box[1] + box[3] / 2

    def click(self, selector):
        x, y = self.place_of(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def pointer(self, kind, x, y, **more):
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)
        self.settle()

    def key(self, key, text=None):
        codes = {"Enter": 13, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        more = {"windowsVirtualKeyCode": codes[key]} if key in codes else {}
        text = "\r" if key == "Enter" else text
        self.ask("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", key=key, **({"text": text} if text else {}), **more)
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=key, **more)
        self.settle()

    def screenshot(self, path, whole=True):
        options = {"format": "png", "captureBeyondViewport": whole}
        if whole:
            size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
            options["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        pathlib.Path(path).write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", **options)["data"]))
