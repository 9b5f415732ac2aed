"""A headless Chromium, spoken to by the Chrome DevTools protocol over a pipe
(--remote-debugging-pipe): messages of JSON, each ended by a zero octet. Nothing
beyond Python's own library, no driver, no port.

Not a test by itself: what the tests of the dashboard and of reports have in
common.
"""
import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def program():
    found = [path for path in (os.environ.get("CHROMIUM"), *map(shutil.which, NAMES)) if path]
    if not found:
        print("needs chromium")
        sys.exit(77)
    return found[0]


class Browser:
    """The browser, until the block is left. `inside`: a command that runs another
    one elsewhere, such as in a network namespace."""

    def __init__(self, inside=(), extra=()):
        self.folder = tempfile.mkdtemp(prefix="ferrule-browser-")
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()

        def files():
            # Above 4 first: either end may be 3 or 4 by now.
            a, b = os.dup(theirs_in), os.dup(theirs_out)
            high_a, high_b = os.dup2(a, 30), os.dup2(b, 31)
            os.dup2(high_a, 3, inheritable=True)
            os.dup2(high_b, 4, inheritable=True)

        command = [*inside, program(), "--headless=new", "--no-sandbox", "--disable-gpu",
                   "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
                   "--disable-background-networking", "--disable-component-update",
                   "--force-color-profile=srgb", "--hide-scrollbars",
                   f"--user-data-dir={self.folder}", "--remote-debugging-pipe", *extra,
                   "about:blank"]
        self.log = open(os.path.join(self.folder, "log"), "w+")
        self.process = subprocess.Popen(command, preexec_fn=files, close_fds=False,
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        os.close(theirs_in)
        os.close(theirs_out)
        self.read_end, self.write_end = ours_in, ours_out
        self.buffer = b""
        self.number = 0
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close", wait=5)
        except (AssertionError, OSError):
            pass
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.read_end)
        os.close(self.write_end)
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def message(self, until):
        while b"\0" not in self.buffer:
            left = until - time.monotonic()
            ready, _, _ = select.select([self.read_end], [], [], max(0, left))
            piece = os.read(self.read_end, 1 << 20) if ready else b""
            if not piece:
                self.log.seek(0)
                raise AssertionError("the browser does not answer:\n" + self.log.read()[-2000:])
            self.buffer += piece
        line, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(line)

    def call(self, method, params=None, session=None, wait=20):
        self.number += 1
        request = {"id": self.number, "method": method, "params": params or {}}
        if session:
            request["sessionId"] = session
        octets = json.dumps(request).encode() + b"\0"
        while octets:
            octets = octets[os.write(self.write_end, octets):]
        until = time.monotonic() + wait
        while True:
            message = self.message(until)
            if message.get("id") == self.number:
                assert "error" not in message, f"{method}: {message['error']}"
                return message["result"]
            self.events.append(message)

    def page(self, url, **look):
        return Page(self, url, **look)


class Page:
    """A tab of its own, with its own storage, as one person sees it."""

    def __init__(self, browser, url, width=1280, height=900, dark=False, still=True, scale=1):
        self.browser = browser
        self.context = browser.call("Target.createBrowserContext")["browserContextId"]
        target = browser.call("Target.createTarget",
                              {"url": "about:blank", "browserContextId": self.context})["targetId"]
        self.session = browser.call("Target.attachToTarget",
                                    {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.look(width, height, dark, still, scale)
        self.call("Page.navigate", {"url": url})
        self.until("document.readyState === 'complete'")

    def call(self, method, params=None):
        return self.browser.call(method, params, self.session)

    def look(self, width, height, dark=False, still=True, scale=1):
        self.call("Emulation.setDeviceMetricsOverride",
                  {"width": width, "height": height, "deviceScaleFactor": scale,
                   "mobile": width < 600})
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                    {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"}]
        self.call("Emulation.setEmulatedMedia", {"features": features})

    def close(self):
        self.browser.call("Target.disposeBrowserContext", {"browserContextId": self.context})

    def js(self, text):
        """The value of an expression in the page; promises are awaited."""
        result = self.call("Runtime.evaluate", {"expression": text, "returnByValue": True,
                                                "awaitPromise": True})
        assert "exceptionDetails" not in result, f"{text}: {result['exceptionDetails']}"
        return result["result"].get("value")

    def until(self, text, seconds=15, what=""):
        end = time.monotonic() + seconds
        while True:
            value = self.js(text)
            if value:
                return value
            assert time.monotonic() < end, f"not within {seconds} s: {what or text}"
            time.sleep(0.05)

    def text(self, selector):
        return self.js(f"document.querySelector({json.dumps(selector)})?.textContent ?? ''")

    def click(self, selector):
        """By the mouse, where the element is."""
        box = self.js(f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
                      "e.scrollIntoView({block: 'center', behavior: 'instant'});"
                      "const b = e.getBoundingClientRect();"
                      "return [b.x + b.width / 2, b.y + b.height / 2] })()")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", {"type": kind, "x": box[0], "y": box[1],
                                                   "button": "left", "clickCount": 1})

    KEYS = {" ": ("Space", 32, " "), "Tab": ("Tab", 9, None), "Enter": ("Enter", 13, "\r"),
            "Escape": ("Escape", 27, None), "ArrowRight": ("ArrowRight", 39, None),
            "ArrowLeft": ("ArrowLeft", 37, None), "ArrowUp": ("ArrowUp", 38, None),
            "ArrowDown": ("ArrowDown", 40, None)}

    def press(self, key, shift=False):
        code, number, text = self.KEYS.get(key, ("", ord(key.upper()[0]), key))
        event = {"key": key, "code": code, "windowsVirtualKeyCode": number,
                 "modifiers": 8 if shift else 0}
        down = {**event, "type": "keyDown" if text else "rawKeyDown"}
        if text:
            down["text"] = text
        self.call("Input.dispatchKeyEvent", down)
        self.call("Input.dispatchKeyEvent", {**event, "type": "keyUp"})

    def write(self, text):
        self.call("Input.insertText", {"text": text})

    def overflow(self):
        """How far the page is wider than the window."""
        return self.js("document.documentElement.scrollWidth - window.innerWidth")

    def screenshot(self, path, full=True):
        params = {"format": "png", "captureBeyondViewport": full}
        if full:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            params["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"],
                              "scale": 1}
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", params)["data"]))

    def complaints(self):
        """What the page's console said that it should not: errors, broken policies."""
        self.js("1")
        said = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            params = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                said.append(details.get("exception", {}).get("description", details["text"])[:400])
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
                said.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        return said
