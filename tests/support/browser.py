"""A real browser without a window, driven by its DevTools protocol: what a person sees, and errors that they do not."""

import base64
import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from websockets.sync.client import ClientConnection, connect

PROGRAM = shutil.which("chromium") or shutil.which("google-chrome")
MISSING = "there is no Chromium on the PATH: `scripts/browser` installs Debian's, as root"
PATIENCE = 30.0
LOOK_SECONDS = 0.1
LARGEST = 64 * 2**20
ARGUMENTS = [
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
    *("--no-first-run", "--disable-background-networking", "--remote-debugging-port=0", "about:blank"),
]


@contextmanager
def browser(folder: Path) -> Iterator["Browser"]:
    """A browser that keeps everything in this folder."""
    assert PROGRAM is not None, MISSING
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([PROGRAM, f"--user-data-dir={folder}", *ARGUMENTS], stdout=log, stderr=log)
    try:
        yield Browser(_port(folder / "DevToolsActivePort"))
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _port(path: Path) -> int:
    deadline = time.monotonic() + PATIENCE
    while not path.exists() or not path.read_text():
        assert time.monotonic() < deadline, (path.parent / "log").read_text()
        time.sleep(LOOK_SECONDS)
    return int(path.read_text().splitlines()[0])


class Browser:
    """Opens tabs."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    @contextmanager
    def tab(self) -> Iterator["Tab"]:
        """A tab without any cookie."""
        found = httpx.put(f"{self._url}/json/new", timeout=PATIENCE).json()
        with connect(found["webSocketDebuggerUrl"], max_size=LARGEST) as socket:
            yield Tab(socket)
        httpx.get(f"{self._url}/json/close/{found['id']}", timeout=PATIENCE)


class Tab:
    """One tab. `errors` are what the page's console and scripts complained of."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.errors: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.do(f"{domain}.enable")
        self.do("Network.clearBrowserCookies")

    def do(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol; its result."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(PATIENCE))
            self._note(message)
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message['error']}"
                return dict(message["result"])

    def log_in(self, url: str, token: str) -> None:
        """Have the cookie of a login at this Airflow."""
        self.do("Network.setCookie", name="_token", value=token, url=url, path=urlsplit(url).path or "/")

    def open(self, url: str, until: str = "main table, main .tiles, main .empty, #notice:not(:empty)") -> None:
        """Open a page, and return when something that this selector means is there."""
        self.do("Page.navigate", url=url)
        self.until(f"location.href.startsWith({json.dumps(url)}) && document.querySelector({json.dumps(until)})")

    def ask(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self.do("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, script: str) -> None:
        """Return when an expression holds in the page."""
        deadline = time.monotonic() + PATIENCE
        while not self.ask(f"Boolean({script})"):
            assert time.monotonic() < deadline, f"never {script}; the page says: {self.text()} {self.errors}"
            time.sleep(LOOK_SECONDS)

    def text(self, selector: str = "body") -> str:
        """What is written there, as it is seen."""
        return str(self.ask(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def texts(self, selector: str) -> list[str]:
        """What is written in each of these."""
        return list(self.ask(f"[...document.querySelectorAll({json.dumps(selector)})].map((each) => each.innerText)"))

    def size(self, width: int, height: int = 900, scale: float = 1) -> None:
        """Have a screen of this size."""
        self.do("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)

    def prefer(self, scheme: str) -> None:
        """Prefer light or dark."""
        self.do("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def press(self, key: str) -> None:
        """Press a key: Tab or Enter."""
        codes: Mapping[str, dict[str, Any]] = {
            "Tab": {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9},
            "Enter": {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"},
        }
        self.do("Input.dispatchKeyEvent", type="keyDown", **codes[key])
        self.do("Input.dispatchKeyEvent", type="keyUp", **codes[key])

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Keep what is seen as a PNG."""
        found = self.do("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def _note(self, message: dict[str, Any]) -> None:
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(message["params"]["exceptionDetails"]))
        if message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
            self.errors.append(f"{message['params']['entry']['text']} {message['params']['entry'].get('url', '')}")


LEAVING = """
[{page}.documentElement, ...{page}.querySelectorAll("main *:not(svg *, svg, .unseen, thead, thead *, .scroll)")]
  .filter((each) => each.clientWidth && each.scrollWidth > each.clientWidth + 1)
  .map((each) => `${{each.tagName}}.${{each.className}} ${{each.scrollWidth}} of ${{each.clientWidth}}`)
"""
"""What is wider than what it is in."""

FAINT = """
(() => {
  const parts = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = (color) => parts(color).slice(0, 3).map((each) => each / 255)
    .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4))
    .reduce((sum, each, index) => sum + each * [0.2126, 0.7152, 0.0722][index], 0);
  const ground = (each) => {
    for (; each; each = each.parentElement) {
      const color = getComputedStyle(each).backgroundColor;
      if ((parts(color)[3] ?? 1) > 0) return color;
    }
  };
  const contrast = (each) => {
    const [one, other] = [light(getComputedStyle(each).color), light(ground(each))].sort((a, b) => b - a);
    return (one + 0.05) / (other + 0.05);
  };
  const written = [...document.querySelectorAll("body *")].filter((each) =>
    !each.closest("svg") && [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
  return [...new Set(written.filter((each) => each.getClientRects().length && contrast(each) < 4.5)
    .map((each) => `${each.className} ${contrast(each).toFixed(1)}`))];
})()
"""
