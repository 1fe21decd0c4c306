"""Takes the pictures of docs/look.md anew: `python web/pictures.py RUNS [NAME …]`, in Debian's chromium.

RUNS is a folder with the runs of the examples (`PICTURES`); without names, every picture whose run is there is taken.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from dataclasses import dataclass, replace
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

import headway
from headway.runs.board import Board
from headway.serving.live.runs import LiveRuns
from headway.serving.live.server import HOST, live_server
from headway.serving.live.session import LiveSession
from headway.serving.server import bound

DOCS = Path(__file__).parents[1] / "docs"
CHROMIUM = "/usr/bin/chromium"


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """What is looked at, with which selection, and which part of the page is the picture: None for its top."""

    run: str
    given: str  # empty: the dashboard of the folder `run`
    open: str | None = None
    hash: str = ""
    part: str | None = None
    scheme: str = "light"
    size: tuple[int, int] = (980, 880)
    off: tuple[str, ...] = ()  # heads that are switched off on the live page: PART:HEAD
    press: str = ""  # what is pressed on the live page

    @property
    def live(self) -> bool:
        """Whether the picture is of the live page."""
        return bool(self.off or self.press)


PUPPY, IT = "a cute puppy", "the animal did not cross the street because it was too tired"
PICTURES = {
    "look-live": Picture(
        run="demo", given="the girl eats an apple.", size=(1180, 960), off=("decoder.layers.1.cross:3",)
    ),
    "look-weights": Picture(
        run="demo", given=PUPPY, press="[data-figure=component] .tab", part="[data-figure=component]"
    ),
    "look": Picture(run="demo", given=PUPPY, size=(1180, 880)),
    "look-runs": Picture(run="widths", given="", size=(1180, 1010)),
    "look-training": Picture(run="demo", given=PUPPY, part="#training"),
    "look-heads": Picture(run="demo", given=PUPPY, hash="#attention=5&head=0&at.target=1", part="#attention"),
    "look-off": Picture(run="demo", given=PUPPY, hash="#off=21", part="#what-if"),
    "look-it": Picture(run="minilm", given=IT, open="it:animal", part="#attention"),
    "look-special": Picture(
        run="minilm", given="that was a special meal in an extraordinary place", open="special",
        part="figure:has-text('neighbours')",
    ),
    "look-digit": Picture(run="digits-vit", given="digit.png", part="#input"),
    "look-caption": Picture(run="captioner-rnn", given="photo.png", part="figure:has-text('The region that')"),
    "look-search": Picture(
        run="demo", given="the old horse is not in the garden.", hash="#alpha=2", part="#search", scheme="dark",
        size=(1300, 880),
    ),
}  # fmt: skip


def take(page: Page, picture: Picture, runs: Path, target: Path) -> None:
    """Write the page of a picture's run, open it, and keep the part."""
    given = str(runs / picture.given) if picture.given.endswith(".png") else picture.given
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        text = headway.load(runs / picture.run, device="cpu").look(given, open=picture.open)
        file.write_text(text.replace(str(runs), "runs"), encoding="utf-8")
        page.goto(file.as_uri() + picture.hash)
        page.wait_for_selector("html[data-ready=yes]", state="attached")
        page.wait_for_selector(".badge.good")
        page.wait_for_selector("[data-painted=yes]", state="attached")
        if picture.part is None:
            page.screenshot(path=target)
        else:
            page.add_style_tag(content="nav { position: static !important; }")  # not over the picture
            part = page.locator(picture.part).first
            box = part.bounding_box()
            assert box is not None, f"{picture.part} is not seen"
            width, height = picture.size
            page.set_viewport_size({"width": width, "height": max(height, round(box["height"]) + 80)})
            part.screenshot(path=target)


def take_live(page: Page, picture: Picture, runs: Path, target: Path) -> None:
    """Serve the live page of a picture's run, switch its heads off, and keep what is seen."""
    session = LiveSession(headway.load(runs / picture.run, device="cpu").pipeline, picture.given)
    session.facts = replace(session.facts, folder=f"runs/{picture.run}")
    listener = bound(HOST, 0)
    port = listener.getsockname()[1]
    server = live_server(LiveRuns(session), port, "picture")
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    page.goto(f"http://{HOST}:{port}/#key=picture")
    page.wait_for_selector(".badge.good")
    if picture.off:
        page.click("#live-off")
    for n, (part, head) in enumerate(each.split(":") for each in picture.off):
        page.click(f".panel [data-part='{part}'][data-head='{head}']")
        page.wait_for_selector(f"html[data-looked='{n + 2}']", state="attached")
    page.wait_for_selector(".badge.good")
    if picture.press:
        page.click(picture.press)
        page.wait_for_selector(f"{picture.part} svg")
    if picture.part is None:
        page.screenshot(path=target)
    else:
        page.locator(picture.part).screenshot(path=target)
    page.context.close()
    server.should_exit = True
    thread.join()


def take_dashboard(page: Page, runs: Path, target: Path) -> None:
    """Write the dashboard of a folder of runs, open it, and keep its top."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "runs.html"
        file.write_text(Board([runs]).page().replace(str(runs.parent), "runs"), encoding="utf-8")
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready=yes]", state="attached")
        page.screenshot(path=target)


def main(runs: Path, names: list[str]) -> None:
    """Take these pictures, or all whose runs are there."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name in names or [each for each, picture in PICTURES.items() if (runs / picture.run).is_dir()]:
            picture = PICTURES[name]
            width, height = picture.size
            context = browser.new_context(
                viewport={"width": width, "height": height}, color_scheme=picture.scheme, offline=not picture.live
            )
            if not picture.given:
                take_dashboard(context.new_page(), runs / picture.run, DOCS / f"{name}.png")
            else:
                (take_live if picture.live else take)(context.new_page(), picture, runs, DOCS / f"{name}.png")
            context.close()
            print(f"docs/{name}.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
