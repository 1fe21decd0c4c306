"""The page in Firefox: the same numbers, as few stops of the tab key, and no barrier, as in chromium."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from headway.inspection.page.html import document
from tests.firefox import Firefox, FirefoxPage
from tests.inspection.page.subjects import KINDS, language
from tests.inspection.page.test_browser import BOUNDS, barriers
from tests.inspection.page.test_keyboard import stops
from tests.inspection.page.test_touch import SMALL
from tests.pages import until


def shown(firefox: Firefox, folder: Path, payload: dict[str, Any], hash: str = "", **settings: Any) -> FirefoxPage:
    path = folder / "page.html"
    path.write_text(document(payload), encoding="utf-8")
    page = firefox.open(path.as_uri() + hash, **settings)
    until(page, "() => document.querySelector('.badge.good, .badge.bad') !== null")
    return page


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_of_every_kind_opens_and_agrees_with_pytorch(kind, firefox, tmp_path):
    payload = KINDS[kind]()
    page = shown(firefox, tmp_path, payload)
    assert float(page.evaluate("document.getElementById('badge').dataset.difference")) <= BOUNDS[payload["precision"]]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(SMALL) == []
    assert not page.faults()
    page.close()


@pytest.mark.parametrize("kind", ["translation", "image", "language, rotary"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_stands_in_the_way(kind, scheme, firefox, tmp_path):
    page = shown(firefox, tmp_path, KINDS[kind](), hash=f"#theme={scheme}&off=1", width=1024)
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    assert not barriers(page)
    found = stops(page)
    assert 15 < len(found) <= 60
    assert all(found)
    page.close()


def test_keys_choose_tokens_heads_and_cells(firefox, tmp_path):
    page = shown(firefox, tmp_path, language(), hash="#attention=1&head=0&at.text=9")
    for start, key, pressed in (
        (".token[tabindex='0']", "ArrowLeft", ".token:nth-of-type(9)"),
        (".thumb[tabindex='0']", "ArrowRight", "[aria-label='Decoder layer 2, head 2']"),
    ):
        page.evaluate("(selector) => document.querySelector(selector).focus()", start)
        page.keyboard.press(key)
        assert page.evaluate("(selector) => document.querySelector(selector).ariaPressed", pressed) == "true"
    page.evaluate("document.querySelector('canvas.matrix').focus()")
    page.keyboard.press("ArrowUp")
    assert "at.text=7" in page.evaluate("location.hash")
    page.close()


def test_a_worker_that_is_killed_leaves_no_firefox():
    executable = shutil.which("firefox-esr") or shutil.which("firefox")
    if executable is None or shutil.which("setpriv") is None:
        pytest.skip("no Firefox on this machine, or nothing that ends it")
    script = f"from tests.firefox import Firefox; print(Firefox({executable!r}).group, flush=True); input()"
    root = Path(__file__).parents[3]
    worker = subprocess.Popen(
        [sys.executable, "-c", script], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    group = int(worker.stdout.readline())
    os.killpg(group, 0)  # it runs
    worker.send_signal(signal.SIGKILL)
    worker.wait(10)
    for _ in range(200):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.killpg(group, signal.SIGKILL)
    pytest.fail("Firefox ran on for ten seconds")
