"""The page at `/` of a running server, in a browser: what is served, a text that is written, a file that is sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai")
pytest.importorskip("uvicorn")

from headway.reliability.runs import TINY, make
from tests.serving.test_server import Served

RUNS = ("chat", "pose", "question-answering")
KEY = "a-secret"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("page")
    for name in RUNS:
        with TINY[name].short():
            make(TINY[name], made / name, made / "cache")
    return made


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    made = Served(*(str(folder / name) for name in RUNS), log=folder / "log.txt")
    made.until("/ready", 200)
    yield made
    made.process.kill()
    made.process.wait()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    opened = browser.new_page()
    opened.problems = []
    opened.on("console", lambda message: opened.problems.append(message.text))
    opened.on("pageerror", lambda error: opened.problems.append(str(error)))
    opened.asked = []
    opened.on("request", lambda request: opened.asked.append(request.url))
    yield opened
    opened.close()


def test_texts_files_and_questions(served: Served, folder: Path, page: Any) -> None:
    page.goto(f"http://127.0.0.1:{served.port}/")
    page.wait_for_selector("#served:not([hidden])")
    assert page.locator("#models tr").count() == len(RUNS)
    assert page.input_value("#endpoint") == "/v1/chat/completions"
    page.fill("#text", "What is 2 + 3?")
    page.click("#send")
    page.wait_for_selector("#answer:not(:empty)")
    page.wait_for_selector("#send:not([disabled])")
    assert '-d \'{"model":"chat"' in page.inner_text("#curl")
    page.select_option("#model", "pose")
    page.set_input_files("#file", TINY["pose"].file(folder))  # type: ignore[misc]
    page.click("#send")
    page.locator("#answer", has_text="keypoints").wait_for()
    page.select_option("#model", "question-answering")
    page.click("#send")
    page.locator("#answer", has_text="no_answer_score").wait_for()
    page.fill("#text", "{")
    page.click("#send")
    page.locator("#problem", has_text="JSON").wait_for()
    assert page.problems == []
    assert {url.split("/")[2] for url in page.asked} == {f"127.0.0.1:{served.port}"}


def test_axe_finds_nothing(served: Served, browser: Any) -> None:
    axe = pytest.importorskip("axe_core_python.sync_playwright").Axe()
    page = browser.new_page(bypass_csp=True)  # axe is a script that the policy does not allow
    page.goto(f"http://127.0.0.1:{served.port}/")
    page.wait_for_selector("#served:not([hidden])")
    assert axe.run(page)["violations"] == []
    page.close()


def test_what_a_model_writes_is_text(served: Served, page: Any) -> None:
    """The errors of the server and its models' names and answers become text nodes."""
    page.route("**/v1/models", lambda route: route.fulfill(json={"data": [EVIL]}))
    page.goto(f"http://127.0.0.1:{served.port}/")
    page.wait_for_selector("#served:not([hidden])")
    assert page.inner_text("#models td") == EVIL["id"]
    assert page.locator("#models img").count() == 0
    assert page.problems == []


EVIL = {
    "id": "<img src=x onerror=alert(1)>", "task": "x", "precision": "fp32", "exact": True, "context": 8, "verbs": [],
    "writes": True, "chats": False,
}  # fmt: skip


def test_with_keys_the_page_asks_for_one(folder: Path, page: Any) -> None:
    keys = folder / "keys"
    keys.write_text(f"{KEY}\n")
    keys.chmod(0o600)
    served = Served(str(folder / "chat"), "--key-file", str(keys), log=folder / "log-keys.txt")
    try:
        served.until("/ready", 200)
        page.goto(f"http://127.0.0.1:{served.port}/")
        page.wait_for_selector("#locked:not([hidden])")
        assert "chat" not in page.inner_text("main").split("API key")[1]
        page.fill("#key", "wrong")
        page.keyboard.press("Enter")
        page.locator("#state", has_text="401").wait_for()
        page.fill("#key", KEY)
        page.keyboard.press("Enter")
        page.wait_for_selector("#served:not([hidden])")
        assert page.inner_text("#models td") == "chat"
        assert KEY not in page.url
    finally:
        served.process.kill()
        served.process.wait()
