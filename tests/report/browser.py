"""Chromium without a window, spoken to in its own protocol (DevTools) over two pipes: no driver, no package, no network."""
from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "headless_shell")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--no-default-browser-check",
         "--remote-debugging-pipe")


def program() -> str | None:
    """The browser of this machine, if it has one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page. `complaints`: what its console was told, exceptions, and whatever it asked of the network."""

    def __init__(self, folder: Path) -> None:
        self.complaints: list[str] = []
        self._number, self._arrived = 0, bytearray()
        orders, self._orders = os.pipe()
        self._answers, answers = os.pipe()

        def as_three_and_four() -> None:  # where Chromium looks for them
            ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (orders, answers)]
            for end, place in zip(ends, (3, 4)):
                os.dup2(end, place)

        path = program()
        assert path is not None
        self._process = subprocess.Popen([path, *FLAGS, f"--user-data-dir={folder}", "about:blank"], stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=as_three_and_four)
        os.close(orders)
        os.close(answers)
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._orders)  # at which it ends
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._answers)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """What a method of the protocol answers; AssertionError where it fails."""
        self._number += 1
        said = {"id": self._number, "method": method, "params": params, **({"sessionId": self._session} if self._session else {})}
        os.write(self._orders, json.dumps(said).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result

    def wait_for(self, event: str) -> None:
        """Nothing, once the event has come."""
        while self._next().get("method") != event:
            pass

    def open(self, address: str) -> None:
        """Nothing, once the page is there and loaded."""
        self.call("Page.navigate", url=address)
        self.wait_for("Page.loadEventFired")

    def evaluate(self, script: str) -> Any:
        """What an expression of JavaScript gives, as JSON would have it."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def look(self, scheme: str, width: int, height: int = 900) -> None:
        """Nothing; the page is shown light or dark, so many pixels wide."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)

    def press(self, key: str, code: int) -> None:
        """Nothing; a key goes down and up."""
        words = {"key": key, "code": key, "windowsVirtualKeyCode": code, **({"text": "\r"} if key == "Enter" else {})}
        self.call("Input.dispatchKeyEvent", type="keyDown", **words)
        self.call("Input.dispatchKeyEvent", type="keyUp", **{k: v for k, v in words.items() if k != "text"})

    def _next(self) -> dict[str, Any]:
        """The next message; complaints among them are noted."""
        while (end := self._arrived.find(b"\0")) < 0:
            more = os.read(self._answers, 1 << 16)
            assert more, "the browser has ended"
            self._arrived += more
        message: dict[str, Any] = json.loads(self._arrived[:end])
        del self._arrived[:end + 1]
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, said: dict[str, Any]) -> None:
        if method in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
            self.complaints.append(json.dumps(said))
        address = said.get("request", {}).get("url", "") if method == "Network.requestWillBeSent" else ""
        if address and not address.startswith(("file:", "data:", "about:")):
            self.complaints.append(f"asked for {address}")
