"""A real browser: Debian's chromium through playwright, without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.inspection.page.html import document


class Opened:
    """A page in the browser, and all that went wrong in it."""

    def __init__(self, page: Any) -> None:
        self.page, self.faults = page, list[str]()
        page.on("console", lambda said: self.faults.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("request", self._asked)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            self.faults.append(f"asked the network for {request.url}")

    def difference(self) -> float:
        self.page.wait_for_selector(".badge.good, .badge.bad", timeout=20_000)
        return float(self.page.get_attribute("#badge", "data-difference"))


@pytest.fixture
def show(browser, tmp_path) -> Iterator[Callable[..., Opened]]:
    """Write a payload's page and open it from disk, offline."""
    contexts: list[Any] = []

    def opened(payload: dict[str, Any], hash: str = "", **settings: Any) -> Opened:
        path = tmp_path / "page.html"
        path.write_text(document(payload), encoding="utf-8")
        context = browser.new_context(**{"offline": True, "viewport": {"width": 1280, "height": 900}, **settings})
        contexts.append(context)
        seen = Opened(context.new_page())
        seen.page.goto(Path(path).as_uri() + hash)
        seen.page.wait_for_selector("html[data-ready=yes]", timeout=20_000, state="attached")
        return seen

    yield opened
    for context in contexts:
        context.close()
