"""Firefox through WebDriver BiDi, with the part of playwright's page that the tests of both browsers use.

Playwright drives a Firefox of its own build only, and geckodriver is a binary that no package index has: Firefox itself
answers BiDi over a WebSocket on the loopback address.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

SECONDS = 60.0  # at most, for the start and for one command
KEYS = {
    "Tab": "\ue004", "Enter": "\ue007", "Home": "\ue011", "End": "\ue010", "ArrowLeft": "\ue012", "ArrowUp": "\ue013",
    "ArrowRight": "\ue014", "ArrowDown": "\ue015", "Escape": "\ue00c",
}  # fmt: skip
PREFERENCES = {
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.homepage_override.mstone": "ignore",
    "datareporting.policy.dataSubmissionEnabled": False,
    "toolkit.telemetry.enabled": False,
    "app.update.disabledForTesting": True,
    "extensions.update.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "services.settings.server": "data:,#remote-settings-dummy/v1",
    "remote.prefs.recommended": True,
    "accessibility.tabfocus": 7,
}


class WebSocket:
    """Text messages to and from a server on this machine (RFC 6455)."""

    def __init__(self, port: int, path: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        key = base64.b64encode(os.urandom(16)).decode()
        self._socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self._read = self._socket.makefile("rb")
        answer = self._read.readline()
        while self._read.readline().strip():
            pass
        if b" 101 " not in answer:
            raise ConnectionError(f"no WebSocket at {path}: {answer!r}")

    def send(self, text: str) -> None:
        data, mask = text.encode(), os.urandom(4)
        if len(data) < 126:  # the fewest bytes that hold it
            size = struct.pack("!B", 0x80 | len(data))
        elif len(data) < 1 << 16:
            size = struct.pack("!BH", 0x80 | 126, len(data))
        else:
            size = struct.pack("!BQ", 0x80 | 127, len(data))
        covered = bytes(byte ^ one for byte, one in zip(data, itertools.cycle(mask), strict=False))
        self._socket.sendall(b"\x81" + size + mask + covered)

    def receive(self) -> str:
        message = b""
        while True:
            first, second = self._read.read(2)
            size = second & 0x7F
            if size > 125:
                size = int.from_bytes(self._read.read(2 if size == 126 else 8), "big")
            data = self._read.read(size)
            if first & 0x0F == 8:
                raise ConnectionError("Firefox closed the connection")
            if first & 0x0F in (0, 1):
                message += data
                if first & 0x80:
                    return message.decode()

    def close(self) -> None:
        self._read.close()
        self._socket.close()


def _ending_with_parent() -> list[str]:
    """What Linux has for it: a worker that is killed closes nothing, and its Firefox would run on."""
    setpriv = shutil.which("setpriv")
    return [] if setpriv is None else [setpriv, "--pdeathsig", "SIGKILL"]


class Firefox:
    """A headless Firefox with an empty profile, which ends with `close`, or with the process that started it."""

    def __init__(self, executable: str) -> None:
        self._profile = tempfile.TemporaryDirectory(prefix="firefox-", ignore_cleanup_errors=True)
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in PREFERENCES.items()]
        Path(self._profile.name, "user.js").write_text("\n".join(lines))
        self._said = Path(self._profile.name, "stderr.txt")
        command = [*_ending_with_parent(), executable, "--headless", "--no-remote", "--remote-debugging-port=0"]
        with self._said.open("w") as said:
            self._process = subprocess.Popen(
                [*command, "--profile", self._profile.name],
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
            )
        self._ids = itertools.count(1)
        self.events: list[dict[str, Any]] = []
        self._socket: WebSocket | None = None
        try:
            self._socket = WebSocket(self._port(), "/session")
            self.send("session.new", capabilities={"alwaysMatch": {"unhandledPromptBehavior": {"default": "dismiss"}}})
            self.send("session.subscribe", events=["log.entryAdded", "network.beforeRequestSent"])
        except BaseException:
            self.close()
            raise

    @property
    def group(self) -> int:
        """The process group of Firefox and its children."""
        return self._process.pid

    def _port(self) -> int:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            if found := re.search(r"BiDi listening on ws://127\.0\.0\.1:(\d+)\n", self._said.read_text()):
                return int(found[1])
            time.sleep(0.05)
        raise TimeoutError(f"Firefox did not listen within {SECONDS:.0f} seconds: {self._said.read_text()[-300:]}")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a command. Events that come meanwhile are kept; raises RuntimeError for an error."""
        assert self._socket is not None
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.receive())
            if message.get("id") == number:
                if message["type"] == "error":
                    raise RuntimeError(f"{method}: {message['error']}: {message['message']}")
                result: dict[str, Any] = message["result"]
                return result
            if message.get("type") == "event":
                self.events.append(message)

    def open(self, address: str, *, width: int = 1280, height: int = 900, before: str = "") -> FirefoxPage:
        """A new tab at this address; `before` is a script that runs in front of the page's own."""
        context = self.send("browsingContext.create", type="tab")["context"]
        self.send("browsingContext.setViewport", context=context, viewport={"width": width, "height": height})
        if before:
            self.send("script.addPreloadScript", functionDeclaration=f"() => {{ {before} }}", contexts=[context])
        self.events.clear()
        self.send("browsingContext.navigate", context=context, url=address, wait="complete")
        return FirefoxPage(self, context)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait(10)
        self._profile.cleanup()


class FirefoxPage:
    """A tab, with the calls of playwright's page that the tests of both browsers share."""

    def __init__(self, firefox: Firefox, context: str) -> None:
        self._firefox, self._context = firefox, context
        self.keyboard = self

    def evaluate(self, text: str, argument: Any = None) -> Any:
        """What an expression gives, or a function of the argument; a promise is waited for."""
        body = (
            text
            if re.match(r"(?s)\s*(async\s*)?\(?[\w\s,{}\[\]]*\)?\s*=>", text)
            else f"() => ({text.rstrip().removesuffix(';')})"
        )
        found = self._firefox.send(
            "script.callFunction",
            functionDeclaration=f"async (given) => JSON.stringify(await ({body})(JSON.parse(given)) ?? null)",
            arguments=[{"type": "string", "value": json.dumps(argument)}],
            target={"context": self._context},
            awaitPromise=True,
            userActivation=True,
        )
        if found["type"] == "exception":
            raise RuntimeError(found["exceptionDetails"]["text"])
        return json.loads(found["result"]["value"])

    def press(self, key: str) -> None:
        """Press and release a key."""
        value = KEYS.get(key, key)
        actions = [{"type": kind, "value": value} for kind in ("keyDown", "keyUp")]
        self._firefox.send(
            "input.performActions", context=self._context, actions=[{"type": "key", "id": "keys", "actions": actions}]
        )

    def wait_for_timeout(self, milliseconds: float) -> None:
        time.sleep(milliseconds / 1000)

    def screenshot(self, path: Path) -> None:
        data = self._firefox.send("browsingContext.captureScreenshot", context=self._context)["data"]
        path.write_bytes(base64.b64decode(data))

    def faults(self) -> list[str]:
        """Errors and warnings in the console, and requests that leave the machine's files."""
        self.evaluate("1")  # what was said before is here now
        found = []
        for event in self._firefox.events:
            told = event["params"]
            if event["method"] == "log.entryAdded" and told["level"] in ("error", "warn"):
                found.append(told["text"])
            if event["method"] == "network.beforeRequestSent":
                address = told["request"]["url"]
                if not address.startswith(("file:", "data:", "blob:")):
                    found.append(f"asked the network for {address}")
        return found

    def close(self) -> None:
        self._firefox.send("browsingContext.close", context=self._context)
