"""The page at `/` of a running server, in a browser: what is served, a text that is written, a file that is sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
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


def test_two_hundred_hostile_texts_that_a_model_writes(served: Served, page: Any) -> None:
    """S10: no script runs, nothing is asked of another place, and the policy of the page is not even tried."""
    spoken: list[str] = []
    page.on("dialog", lambda dialog: (spoken.append(dialog.message), dialog.dismiss()))
    written = iter(HOSTILE)
    page.route("**/v1/models", lambda route: route.fulfill(json={"data": [{**EVIL, "id": "m"}]}))
    page.route("**/v1/completions", lambda route: route.fulfill(body=streamed(next(written))))
    page.goto(f"http://127.0.0.1:{served.port}/")
    page.wait_for_selector("#served:not([hidden])")
    elements = page.locator("*").count()
    for text in HOSTILE:
        page.fill("#text", text)
        page.click("#send")
        page.wait_for_selector("#send:not([disabled])")
        assert page.locator("#answer").text_content() == text
    assert page.locator("*").count() == elements
    assert (spoken, page.problems) == ([], [])
    assert {url.split("/")[2] for url in page.asked} == {f"127.0.0.1:{served.port}"}


def streamed(text: str) -> str:
    chunk = {"choices": [{"text": text}]}
    return f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n"


ACTIONS = ("alert(1)", "fetch('http://127.0.0.1:9/x')", "document.body.remove()", "import('http://127.0.0.1:9/x')")
FORMS = (
    "<script>{}</script>",
    "<img src=x onerror={}>",
    "<svg onload={}>",
    "<a href=javascript:{}>x</a>",
    "<iframe srcdoc='<script>{}</script>'>",
    "<body onload={}>",
    "<style>@import 'http://127.0.0.1:9/x';</style><b onclick={}>",
    "</pre><script>{}</script>",
    "<math><mi xlink:href=javascript:{}>",
    "<details open ontoggle={}>",
    "<video><source onerror={}>",
    "<input autofocus onfocus={}>",
    "{{{{constructor.constructor('{}')()}}}}",
    "${{{}}}",
    "javascript:{}",
    "<meta http-equiv=refresh content='0;javascript:{}'>",
    "<object data=javascript:{}>",
    "<embed src=javascript:{}>",
    "<base href=javascript:{}//>",
    "<form action=javascript:{}><button>",
    "<link rel=stylesheet href=javascript:{}>",
    "\\u003cscript\\u003e{}\\u003c/script\\u003e",
    "<scr<script>ipt>{}</scr</script>ipt>",
    "<template shadowrootmode=open><script>{}</script></template>",
    "data: [DONE]<script>{}</script>",
)
HOSTILE = [f"{before}{form.format(action)}" for form in FORMS for action in ACTIONS for before in ("", "&lt;")]
EVIL = {
    "id": "<img src=x onerror=alert(1)>", "task": "x", "precision": "fp32", "exact": True, "context": 8, "verbs": [],
    "writes": True, "chats": False,
}  # fmt: skip


def test_a_page_of_another_origin_gets_and_does_nothing(served: Served, browser: Any, tmp_path: Path) -> None:
    """S8, in a browser: every way of asking ends with an error there and with no work here."""
    (tmp_path / "index.html").write_text("<!doctype html><title>elsewhere</title>")
    handler = partial(QuietHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as elsewhere:
        threading.Thread(target=elsewhere.serve_forever, daemon=True).start()
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{elsewhere.server_address[1]}/index.html")
        before = [served.gauge(name) for name in ("headway_first_token_seconds_count", "headway_tokens_total")]
        target = f"http://127.0.0.1:{served.port}"
        for mode in ("cors", "no-cors"):
            for kind in (
                "application/json",
                "text/plain",
                "application/x-www-form-urlencoded",
                "multipart/form-data; boundary=x",
            ):
                for path in ("/v1/completions", "/v1/chat/completions", "/translate", "/v1/pose", "/v1/models"):
                    said = page.evaluate(ASK, [f"{target}{path}", mode, kind])
                    assert said in ("refused", "opaque"), (mode, kind, path)
        assert page.evaluate(PICTURE, f"{target}/v1/models") == "no"
        after = [served.gauge(name) for name in ("headway_first_token_seconds_count", "headway_tokens_total")]
        page.close()
        elsewhere.shutdown()
    assert after == before
    refused = [line for line in served.ask("/metrics")[1].splitlines() if 'code="403"' in line]
    assert refused


ASK = """async ([url, mode, kind]) => {
  try {
    const body = url.endsWith("/v1/models") ? undefined : '{"prompt": "What", "max_tokens": 4}';
    const answer = await fetch(url, { method: body ? "POST" : "GET", mode, body, headers: { "content-type": kind } });
    return answer.type === "opaque" ? "opaque" : "read";
  } catch { return "refused"; }
}"""


PICTURE = """url => new Promise((answer) => {
  const image = new Image();
  image.onerror = () => answer("no");
  image.onload = () => answer("yes");
  image.src = url;
})"""


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves a folder and says nothing."""

    def log_message(self, format: str, *args: object) -> None:
        pass


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
