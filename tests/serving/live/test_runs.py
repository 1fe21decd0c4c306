"""The live dashboard: the runs of its folders and no others, curves that grow, a run opened and compared from it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("uvicorn")

from headway.inspection.page.html import document
from headway.reliability.runs import TINY
from headway.runs.board import Board
from headway.runs.train import train_run
from headway.serving.live.runs import LiveRuns
from headway.serving.live.server import HOST, live_server
from headway.serving.server import bound
from headway.training.log import LOG, log_line, run_of_log
from tests.inspection.page.test_browser import barriers
from tests.inspection.page.test_keyboard import stops
from tests.inspection.page.test_touch import SMALL
from tests.pages import until
from tests.serving.live.conftest import KEY, Live
from tests.serving.live.test_app import BEARER, ask
from tests.serving.live.test_student import table

TEXT = "I like cats"
STEPS = {"model.context": 64, "train.steps": 6, "train.evaluate_every": 3, "train.save_every": 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two runs of a language model; the first kept looks while it trained."""
    place = tmp_path_factory.mktemp("live")
    for seed, looks in ((0, TEXT), (1, "")):
        changes = {**STEPS, "train.seed": seed, "train.keep_looks": looks}
        train_run(TINY["language"].config(place / "cache", changes), place / f"runs/seed-{seed}")
    return place / "runs"


@contextlib.contextmanager
def served(runs: LiveRuns) -> Iterator[int]:
    listener = bound(HOST, 0)
    port: int = listener.getsockname()[1]
    server = live_server(runs, port, KEY)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True)
    thread.start()
    try:
        yield port
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()


@pytest.fixture
def port(folder) -> Iterator[int]:
    with served(LiveRuns(None, Board([folder]))) as found:
        yield found


def asked(port: int, path: str, body: dict[str, Any]) -> tuple[int, Any]:
    status, text, _ = ask(Live(None, port), "POST", path, body, **BEARER)  # type: ignore[arg-type]
    return status, json.loads(text)


def test_a_page_opens_the_runs_of_the_board_and_no_other_folder(port, folder):
    own = str(folder / "seed-0")
    assert asked(port, "/page/open", {"run": own})[1]["checkpoints"] == 2
    bodies = {
        "/page/open": {},
        "/page/look": {"input": TEXT},
        "/page/write": {"input": TEXT},
        "/page/save": {"look": "1"},
    }
    for name in ("/etc", str(folder), f"{own}/../seed-1", f"{own}/checkpoints", "", "seed-0"):
        for path, body in bodies.items():
            status, found = asked(port, path, {"run": name, **body})
            assert (status, found["error"]["code"]) == (404, "run_not_found"), (path, name)
    assert asked(port, "/page/open", {"run": own, "step": 4})[0] == 400
    assert ask(Live(None, port), "POST", "/page/runs", {})[0] == 401  # type: ignore[arg-type]


def test_what_a_page_knows_is_not_sent_again(port):
    runs = asked(port, "/page/runs", {})[1]["runs"]
    assert [each["name"] for each in runs] == ["seed-0", "seed-1"]
    known = {each["run"]: each["version"] for each in runs}
    again = asked(port, "/page/runs", {"known": known})[1]["runs"]
    assert all(each.keys() == {"run", "version", "age"} for each in again)
    assert asked(port, "/page/runs", {"known": [1]})[0] == 400


def test_a_checkpoint_beside_another_holds_its_own_numbers(port, folder):
    own = str(folder / "seed-0")
    beside = {"run": own, "step": 3}
    page = asked(port, "/page/look", {"run": own, "step": 6, "input": TEXT, "beside": beside})[1]
    alone = asked(port, "/page/look", {"run": own, "step": 3, "input": TEXT})[1]
    assert page["other"]["steps"] == [3]
    assert page["other"]["sequences"] == page["sequences"]
    for mine, other in zip(alone["attentions"], page["other"]["attentions"], strict=True):
        assert alone["tensors"][mine["weights"]] == page["other"]["tensors"][other["weights"]]
        own_weights = next(each for each in page["attentions"] if each["name"] == mine["name"])["weights"]
        assert page["tensors"][own_weights] != alone["tensors"][mine["weights"]]


def test_a_dashboard_grows_while_a_run_trains_and_opens_it(browser, port, folder):
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    page.goto(f"http://{HOST}:{port}/#key={KEY}")
    page.wait_for_selector("html[data-ready=yes]", state="attached")
    rows = page.locator("table.runs tbody tr")
    assert rows.locator("th bdi").all_inner_texts() == ["seed-0", "seed-1"]
    curve = "[...document.querySelectorAll('.chart path.run')].map(each => each.getAttribute('d').split('L').length)"
    assert page.evaluate(curve) == [2, 2]  # the validation losses of steps 3 and 6
    log = folder / "seed-0" / LOG
    before = log.read_bytes()
    try:
        with log.open("a") as file:
            file.write(log_line({"step": 7, "loss": 1.25, "learning_rate": 1e-3, "norm": 1.0}, run_of_log(log)) + "\n")
            file.write(log_line({"step": 7, "val_loss": 1.25}, run_of_log(log)) + "\n")
        until(page, f"{curve}.join() === '3,2'")
    finally:
        log.write_bytes(before)
    page.click("button.tab:text-is('training loss')")
    assert page.inner_text(".chart + *, .figure .note").startswith("Training loss")
    settings = page.locator("section", has=page.locator("h2:text-is('Settings that differ')")).locator("tbody tr")
    assert {row.split()[0] for row in settings.all_inner_texts()} == {"train.keep_looks", "train.seed"}
    page.fill("#filter", "seed-1")
    assert rows.locator("th bdi").all_inner_texts() == ["seed-1"]
    page.fill("#filter", "")
    assert not barriers(page)
    found = stops(page)
    assert len(found) <= 60
    assert all(found)
    page.click("tr:has-text('seed-0') a")
    page.wait_for_selector("#live-input")
    page.fill("#live-input", TEXT)
    page.wait_for_selector(".badge.good", timeout=20_000)
    page.wait_for_selector("#training", state="attached")
    # Over training: the table's last row is what the page computes of the weights now.
    last = table(page, "One head while it learned")[-1]
    assert last[0] == "6"
    slider = page.locator("#lapse")
    slider.fill("0")
    assert "step 0" in str(slider.get_attribute("aria-valuetext"))
    # Beside another checkpoint: shown numbers subtract to the shown difference.
    page.select_option("#live-beside", label="step 3 of this run")
    page.wait_for_selector("#beside figure", state="attached", timeout=20_000)
    for _, own, other, difference in table(page, "One head in both"):
        numbers = [float(each.replace("\u2212", "-")) for each in (own, other, difference)]
        assert numbers[1] - numbers[0] == pytest.approx(numbers[2], abs=2e-4)
    assert not barriers(page)
    assert not faults
    page.context.close()


SOURCE = "3 1 2"
LOOKED = """(n) => Number(document.documentElement.dataset.looked ?? 0) >= n
    && document.querySelector('.badge.good') !== null"""


@pytest.fixture(scope="module")
def translator(tmp_path_factory) -> Path:
    """A run of a translation model, which has most figures, with looks over training and two checkpoints."""
    place = tmp_path_factory.mktemp("translator")
    changes = {**STEPS, "train.keep_looks": SOURCE}
    train_run(TINY["translation"].config(place / "cache", changes), place / "runs/reverse")
    return place / "runs"


def everything(page: Any) -> None:
    """Open all that a live page can have open: training, a second model, parts switched off, numbers followed."""
    act = """([name, value]) => { const node = document.querySelector(name); if (value === null) return node.click();
        node.value = value; node.dispatchEvent(new Event("input")); node.dispatchEvent(new Event("change")); }"""
    page.evaluate(act, ["#live-input", SOURCE])
    until(page, LOOKED, 1)
    until(page, "() => document.querySelector('#training figure') !== null")
    other = "[...document.querySelectorAll('#live-beside option')].find(each => /step 3/.test(each.textContent)).value"
    page.evaluate(act, ["#live-beside", page.evaluate(other)])
    until(page, LOOKED, 2)
    page.evaluate(act, ["#live-off", None])
    page.evaluate(act, [".panel .map [data-part$=cross][data-head]", None])
    until(page, LOOKED, 3)
    page.evaluate("document.querySelectorAll('.panel details').forEach(each => { each.open = true; })")
    for name in ("component", "logit"):
        page.evaluate(act, [f"[data-figure={name}] .tab", None])
        until(page, f"() => document.querySelector('[data-figure={name}] svg') !== null")
    for part in ("#training", "#beside", "#change, .panel .figure"):
        assert page.evaluate("(part) => document.querySelector(part) !== null", part), part
    until(page, "() => !document.documentElement.dataset.late")


def with_all_open(page: Any) -> None:
    """At most sixty stops of the tab key, each with a name, and no barrier."""
    until(page, "() => document.getElementById('live-input') !== null")
    everything(page)
    assert not barriers(page)
    found = stops(page)
    assert all(found)
    assert len(found) <= 60, "\n".join(found)


def address_of(port: int, run: Path) -> str:
    return f"http://{HOST}:{port}/?run={quote(str(run))}#key={KEY}"


def test_with_all_open_a_live_page_has_few_stops_and_no_barrier(browser, translator):
    with served(LiveRuns(None, Board([translator]))) as port:
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        page = context.new_page()
        page.goto(address_of(port, translator / "reverse"))
        with_all_open(page)
        context.close()


def test_with_all_open_in_firefox(firefox, translator):
    with served(LiveRuns(None, Board([translator]))) as port:
        page = firefox.open(address_of(port, translator / "reverse"), width=1440)
        with_all_open(page)
        page.close()


@pytest.mark.parametrize("width", [1440, 1024, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_dashboard_of_a_file_opens_offline_in_every_width(browser, folder, tmp_path, width, scheme):
    board = Board([folder])
    data = board.to_json()
    hostile = "</script><img src=x onerror=alert(1)>"
    data["runs"][0] |= {"name": hostile, "task": hostile, "state": "stopped", "problem": hostile}
    data["runs"][0]["settings"][hostile] = hostile
    path = tmp_path / "runs.html"
    path.write_text(document({"title": "headway runs", "dashboard": data}), encoding="utf-8")
    context = browser.new_context(offline=True, viewport={"width": width, "height": 844}, color_scheme=scheme)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda said: faults.append(said.text) if said.type in ("error", "warning") else None)
    page.on("request", lambda request: faults.append(request.url) if not request.url.startswith("file:") else None)
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=yes]", state="attached")
    assert page.get_attribute("html", "data-theme") == scheme
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert hostile in page.inner_text("table.runs")
    assert page.locator("img").count() == 0
    assert page.locator("table.runs a").count() == 0
    assert not barriers(page)
    assert not faults
    context.close()


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_a_dashboard_opens_in_firefox(firefox, folder, tmp_path, width, scheme):
    path = tmp_path / "runs.html"
    path.write_text(Board([folder]).page(), encoding="utf-8")
    page = firefox.open(f"{path.as_uri()}#theme={scheme}", width=width)
    until(page, "() => document.documentElement.dataset.ready === 'yes'")
    names = "[...document.querySelectorAll('table.runs th bdi')].map(each => each.textContent)"
    assert page.evaluate(names) == ["seed-0", "seed-1"]
    assert page.evaluate("document.querySelectorAll('.chart path.run').length") == 2
    page.evaluate("document.querySelector('table.runs button').focus()")
    page.keyboard.press("Enter")  # one run less
    assert page.evaluate("document.querySelectorAll('.chart path.run').length") == 1
    page.evaluate("document.querySelector('.tabs .tab').focus()")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.querySelector('.tabs .tab[aria-pressed=true]').textContent") == "training loss"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(SMALL) == []
    assert not barriers(page)
    assert not page.faults()
    page.close()
    again = firefox.open(f"{path.as_uri()}#theme={scheme}", width=width)
    found = stops(again)
    assert 5 < len(found) <= 60
    assert all(found)
    again.close()
