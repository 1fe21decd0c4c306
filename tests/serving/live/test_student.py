"""A student's path through the live page, in a real browser, and the same numbers in the file that it saves."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.cli import main
from tests.inspection.page.test_browser import barriers
from tests.pages import until
from tests.serving.live.conftest import Live, copier, translator, writer

SENTENCE = "the red house sees a small cat"


class Visit:
    """The page in the browser, and all that went wrong in it."""

    def __init__(self, context: Any, live: Live) -> None:
        self.page, self.faults, self.origin = context.new_page(), list[str](), f"http://127.0.0.1:{live.port}/"
        self.page.on("console", lambda said: self.faults.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", self._asked)
        self.page.goto(live.address)
        self.page.wait_for_selector("html[data-ready=yes]", state="attached", timeout=20_000)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.origin, "blob:", "data:")):
            self.faults.append(f"asked for {request.url}")

    def looks(self) -> int:
        return int(self.page.get_attribute("html", "data-looked") or 0)

    def after(self, act: Any) -> None:
        """Do something that makes the model run, and wait until the page shows it."""
        before = self.looks()
        act()
        another = f"html[data-looked]:not([data-looked='{before}'])"
        self.page.wait_for_selector(another, state="attached", timeout=20_000)
        self.page.wait_for_selector(".badge.good", timeout=20_000)


def visit(browser: Any, live: Live, **settings: Any) -> Visit:
    context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, "accept_downloads": True, **settings})
    return Visit(context, live)


def table(page: Any, title: str) -> list[list[str]]:
    """The numbers behind a figure, as the page prints them."""
    figure = page.locator("figure", has=page.locator(f"figcaption:text-is('{title}')"))
    button = figure.locator("button.numbers")
    if button.get_attribute("aria-expanded") == "false":
        button.click()
    rows: list[list[str]] = figure.locator("tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.children].map(cell => cell.textContent))"
    )
    return rows


def number(text: str) -> float:
    return float(text.replace("\u2212", "-").replace("-\u221e", "-inf"))


def letters(text: str) -> str:
    """A text without what separates or joins its tokens."""
    return re.sub(r"[\s·␣]", "", text)


def shown(page: Any) -> dict[str, Any]:
    """Numbers of many kinds, as they are printed."""
    titles = (
        "From products to weights",
        "One product, dimension by dimension",
        "Where a component comes from",
        "What is written next",
        "Where a logit comes from",
        "What a draw chooses from",
        "Before, after, difference",
    )
    return {title: table(page, title) for title in titles}


def recomputed(page: Any, title: str) -> float:
    """The sum that a reader makes of the products in a table; each is checked, and PyTorch's number is the same."""
    rows = table(page, title)
    products = [row for row in rows if row[1]]
    for _, x, weight, product in products:
        assert number(x) * number(weight) == pytest.approx(number(product), rel=2e-4)
    told = {row[0]: number(row[3]) for row in rows if not row[1]}
    size = sum(abs(number(row[3])) for row in products)
    total = sum(number(row[3]) for row in products) + told.get("bias", 0.0)
    for name in ("sum", "PyTorch"):
        assert total == pytest.approx(told[name], abs=1e-4 * size)
    return total


def follows(page: Any) -> None:
    """Opens the arithmetic of the chosen weight, and recomputes it down to the weights of the model."""
    rows = table(page, "From products to weights")
    total = sum(math.exp(number(row[5])) for row in rows if row[4] == "yes")
    for row in rows:
        assert math.exp(number(row[5])) / total == pytest.approx(number(row[6]), rel=2e-3)
    # The product of the query with the key that has most weight, and of that product its largest part.
    best = max(rows, key=lambda row: number(row[6]))
    parts = table(page, "One product, dimension by dimension")
    size = sum(abs(number(row[3])) for row in parts)
    assert sum(number(row[3]) for row in parts) == pytest.approx(number(best[1]), abs=1e-3 * size)
    largest = max(range(len(parts)), key=lambda n: abs(number(parts[n][3])))
    for part, column in (("q", 1), ("k", 2)):
        cells = page.locator("[data-figure=product] svg rect.line")
        cells.nth(largest if part == "q" else len(parts) + largest).click()
        page.wait_for_selector(f"[data-figure=component] p:has-text('dimension {largest + 1}, ')")
        name = "query" if part == "q" else "key"
        page.wait_for_selector(f"[data-figure=component] p:has-text('{name} of')")
        value = recomputed(page, "Where a component comes from")
        assert value == pytest.approx(number(parts[largest][column]), rel=1e-3, abs=1e-3)
    # And the logit of the likeliest token.
    page.click("[data-figure=logit] .tab")
    page.wait_for_selector("[data-figure=logit] svg")
    said = number(table(page, "What is written next")[0][1])
    assert recomputed(page, "Where a logit comes from") == pytest.approx(said, rel=1e-3, abs=1e-3)


def aligning_head(page: Any, label: str) -> Any:
    """The button on the map of a head that the page lists: "layer 2, head 1: 98 %"."""
    layer, head = (int(n) - 1 for n in re.search(r"(\d+), head (\d+)", label).groups())  # type: ignore[union-attr]
    return page.locator(f".panel .map [data-part='decoder.layers.{layer}.cross'][data-head='{head}']")


def changes(seen: Visit, part: Any, before: str, *, undo: bool) -> bool:
    """Switch a head off: whether what the model says changes. With `undo`, a head that changes nothing is on again."""
    seen.after(part.click)
    assert letters(seen.page.inner_text("#said-before")) == before
    if seen.page.inner_text("#said-after") != seen.page.inner_text("#said-before"):
        return True
    if undo:
        seen.after(part.click)
    return False


def studies(browser: Any, live: Live, sentence: str, folder: Path) -> None:
    """A student's path: types, branches at the second word, switches off a head, recomputes, saves, opens the file."""
    seen = visit(browser, live)
    page = seen.page
    assert not seen.faults
    # Types a sentence: the model runs, without a button.
    seen.after(lambda: page.fill("#live-input", sentence))
    assert page.inner_text("h1").startswith(sentence)
    assert page.locator("main .sequence .token").all_inner_texts()[:3] == sentence.split()[:3]
    first = page.locator(".panel .tokens .token").all_inner_texts()
    # Branches at the second word.
    page.locator(".panel .tokens .token").nth(1).click()
    other = page.locator(".alternative").filter(has_not_text=first[1]).first
    chosen = other.locator("bdi").inner_text()
    seen.after(other.click)
    branch = page.locator(".panel .tokens .token").all_inner_texts()
    assert branch[0] == first[0]
    assert branch[1] == chosen != first[1]
    # Finds the head that aligns, switches it off, and sees the translation change.
    ranking = page.locator("figure", has=page.locator("figcaption:text-is('Which heads attend there')"))
    labels = ranking.locator("[role=option]").evaluate_all("options => options.map(each => each.ariaLabel)")
    page.click("#live-off")
    before = letters("".join(branch).removesuffix("</s>"))
    parts = [aligning_head(page, label) for label in labels]
    off = next((1 for part in parts if changes(seen, part, before, undo=True)), None)
    if off is None:  # heads that share the work are switched off together, those that look there most first
        off = next(n for n, part in enumerate(parts, 1) if changes(seen, part, before, undo=False))
    assert page.inner_text("#said-after") not in ("", page.inner_text("#said-before"))
    assert page.locator(".panel .tray .token").count() == off
    follows(page)
    # Saves the view, and opens the file without a network: the same numbers.
    live_numbers = shown(page)
    with page.expect_download() as download:
        page.click("#live-save")
    path = folder / "look.html"
    download.value.save_as(path)
    assert not seen.faults
    offline = browser.new_context(offline=True, viewport={"width": 1440, "height": 900}).new_page()
    asked: list[str] = []
    offline.on("request", lambda request: asked.append(request.url))
    offline.goto(path.as_uri())
    offline.wait_for_selector(".badge.good", timeout=20_000)
    assert shown(offline) == live_numbers
    # Another head was not followed; what was is a button away.
    offline.locator(".thumb[aria-pressed=false]").first.click()
    offline.wait_for_selector("[data-figure=component] [role=status]:has-text('those that were followed before')")
    offline.locator("[data-figure=component] .tokens .token").last.click()
    offline.wait_for_selector("[data-figure=component] svg")
    assert table(offline, "Where a component comes from") == live_numbers["Where a component comes from"]
    assert all(url.startswith(("file:", "blob:", "data:")) for url in asked)
    offline.context.close()
    page.context.close()


def test_a_student_types_branches_switches_off_recomputes_and_saves(browser, live, tmp_path):
    studies(browser, live(copier(), "the small cat"), SENTENCE, tmp_path)


@pytest.mark.slow  # trains the run of `headway demo`, four minutes of two cores
def test_the_student_on_the_run_of_the_demo(browser, live, tmp_path):
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 0
    pipeline = headway.load(tmp_path / "demo", device="cpu").pipeline
    studies(browser, live(pipeline, "a cute puppy"), "the small cat sleeps.", tmp_path)


def test_a_language_model_writes_on_and_the_sliders_ask_nothing(browser, live):
    seen = visit(browser, live(writer(), "the small cat"))
    page = seen.page
    before = page.locator(".panel .tokens .token").count()
    seen.after(lambda: page.click("#live-write"))
    assert page.locator(".panel .tokens .token").count() == before + 16
    assert page.locator("main .sequence .token").count() == before + 16  # they are part of the text that is looked at
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    rows = table(page, "What a draw chooses from")
    page.locator("#sampling-temperature").fill("0.5")
    page.locator("#sampling-top_k").fill("3")
    cooled = table(page, "What a draw chooses from")
    shares = [number(row[2]) ** 2 for row in rows][:3]
    for row, share in zip(cooled, shares, strict=False):
        assert number(row[3]) == pytest.approx(share / sum(shares), rel=1e-3)
    assert [row[0] for row in rows] == [row[0] for row in cooled]
    assert [row[4] for row in cooled] == ["yes"] * 3 + ["cut off"] * (len(cooled) - 3)
    assert not asked
    # Typing runs the model; Enter searches for what follows as well.
    page.wait_for_selector("#search", state="detached")  # what was written was not searched for
    seen.after(lambda: page.fill("#live-input", "the small cat sees"))
    assert page.inner_text("h1") == "the small cat sees"
    page.wait_for_selector("#live-status:has-text('Enter searches for what follows')")
    assert page.locator("#search").count() == 0
    seen.after(lambda: page.press("#live-input", "Enter"))
    page.wait_for_selector("#search")
    assert page.inner_text("h1").startswith("the small cat sees → ")
    assert not seen.faults
    page.context.close()


def test_an_arrow_moves_by_one_however_often_the_model_has_run(browser, live):
    seen = visit(browser, live(translator(), "the small cat"))
    page = seen.page
    page.click("#live-off")
    for head in ("0", "1"):
        seen.after(page.locator(f".panel .map [data-part='decoder.layers.1.cross'][data-head='{head}']").click)
    focused = "[...document.activeElement.parentElement.querySelectorAll('button')].indexOf(document.activeElement)"
    for group in (".panel .tokens", ".panel .next", ".panel .tray"):
        assert page.locator(f"{group} button").count() > 2
        page.locator(f"{group} button").first.focus()
        for step in (1, 2):
            page.keyboard.press("ArrowRight")
            assert page.evaluate(focused) == step, group
    assert not seen.faults
    page.context.close()


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_live_page_keeps_nobody_out(browser, live, width, scheme):
    size = {"width": width, "height": 900}
    seen = visit(browser, live(translator(), SENTENCE), viewport=size, color_scheme=scheme)
    page = seen.page
    for figure in ("component", "logit"):
        page.click(f"[data-figure={figure}] .tab")
        page.wait_for_selector(f"[data-figure={figure}] svg")
    page.click("#live-off")
    seen.after(page.locator(".panel .map [data-part='decoder.layers.1.cross'][data-head='1']").click)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not barriers(page)
    stops = page.evaluate(
        "[...document.querySelectorAll('*')].filter(each => each.tabIndex === 0 && each.checkVisibility()).length"
    )
    assert stops <= 60
    small = page.evaluate(
        "[...document.querySelectorAll('.panel button, .panel input, .panel select, .panel textarea')].filter(each => {"
        " const box = each.getBoundingClientRect(); return box.width && (box.width < 24 || box.height < 24) })"
        ".map(each => each.outerHTML.slice(0, 90))"
    )
    assert not small
    assert not seen.faults
    page.context.close()


def test_hostile_text_stays_text(browser, live):
    seen = visit(browser, live(translator(), "the small cat"))
    hostile = "</script><img src=x onerror=alert(1)><svg onload=alert(2)> {{7*7}} &lt;b&gt;"
    seen.after(lambda: seen.page.fill("#live-input", hostile))
    assert seen.page.inner_text("h1").startswith(hostile[:60])
    assert seen.page.locator("img").count() == 0
    assert re.sub(r"\s", "", seen.page.url).endswith("/#") or "#" in seen.page.url
    assert not seen.faults
    seen.page.context.close()


def test_the_live_page_in_firefox(firefox, live):
    """Types, switches a head off, and follows a number back, with the keys alone."""
    server = live(copier(), "the small cat")
    page = firefox.open(server.address, width=1440)
    looked = "(n) => Number(document.documentElement.dataset.looked ?? 0) >= n && document.querySelector('.badge.good')"
    until(page, f"{looked} !== null", 1)
    page.evaluate("document.getElementById('live-input').focus()")
    page.keyboard.press("End")
    page.keyboard.press("s")
    page.keyboard.press("Enter")
    until(page, f"{looked} !== null", 2)
    assert page.evaluate("document.querySelector('h1').textContent").startswith("the small cats")
    page.evaluate("document.getElementById('live-off').focus()")
    page.keyboard.press("Enter")
    page.evaluate("document.querySelector('.panel .map [data-part$=cross][data-head]').focus()")
    page.keyboard.press("Enter")
    until(page, f"{looked} !== null", 3)
    assert page.evaluate("document.querySelectorAll('.panel .tray .token').length") == 1
    page.evaluate("document.querySelector('[data-figure=component] .tab').focus()")
    page.keyboard.press("Enter")
    until(page, "() => document.querySelector('[data-figure=component] svg') !== null")
    said = page.evaluate("document.querySelector('[data-figure=component] [role=status]').textContent")
    here, pytorch = re.search(r": (\S+)\. PyTorch has (\S+);", said).groups()  # type: ignore[union-attr]
    assert number(here) == pytest.approx(number(pytorch), rel=1e-3)
    assert not barriers(page)
    assert all(f"127.0.0.1:{server.port}" in fault for fault in page.faults())  # what it asks is its own server
    page.close()
