"""How long the live page takes from a key to the probabilities, and from a head switched off to the difference.

Measured twice: in CPU time of the server and of the page's main thread, which has too much in it (what is drawn
afterwards, and the test's own part), and by the clock, which has other programs' turns in it. What it takes is at most
the smaller one.
"""

from __future__ import annotations

import gc
import math
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest

from headway.models import EncoderDecoderConfig, GptConfig, build_model
from headway.tasks.base import Pipeline
from headway.tasks.language_modelling import Language
from headway.tasks.translation import Translation
from tests.inspection.page.subjects import LINE, spread, words
from tests.pipelines import pipeline_of
from tests.serving.live.test_student import Visit, visit

pytestmark = pytest.mark.slow  # they read a clock
KEY, OFF = 200, 150  # milliseconds: the largest p95, and the largest median


def translator() -> Pipeline:
    """Of the size of the demo's."""
    tokenizer = words()
    config = EncoderDecoderConfig(vocab=tokenizer.size, context=64, width=128, inner=256, heads=4, encoder_layers=2,
                                  decoder_layers=2)  # fmt: skip
    return pipeline_of(Translation(max_extra=1, beam=4), spread(build_model(config)), tokenizer)


def writer() -> Pipeline:
    """Of almost ten million parameters."""
    tokenizer = words()
    model = build_model(GptConfig(vocab=tokenizer.size, context=64, width=320, layers=8, heads=8))
    assert 9.5e6 < sum(each.numel() for each in model.parameters()) < 10e6
    return pipeline_of(Language(), spread(model), tokenizer, steps=(10,))


class Clock:
    """CPU milliseconds of this process, in which the server runs, and of the page's main thread."""

    def __init__(self, page: Any) -> None:
        self.session = page.context.new_cdp_session(page)
        self.session.send("Performance.setTimeDomain", {"timeDomain": "threadTicks"})
        self.session.send("Performance.enable")

    def now(self) -> float:
        found = {each["name"]: each["value"] for each in self.session.send("Performance.getMetrics")["metrics"]}
        return 1000 * (time.process_time() + float(found["TaskDuration"]))


def quiet(seen: Visit) -> None:
    """Wait until the page has drawn all of a look."""
    seen.page.wait_for_selector(".badge.good", timeout=20_000)
    seen.page.wait_for_selector("html:not([data-late])", state="attached", timeout=20_000)
    seen.page.wait_for_timeout(300)


def spent(seen: Visit, clock: Clock, act: str, argument: Any) -> tuple[float, float]:
    """CPU milliseconds until the page has what it asked for, and what it draws until that is seen; and by the clock."""
    quiet(seen)
    before = clock.now()
    by_clock: float = seen.page.evaluate(
        f"""async (given) => {{ const root = document.documentElement, before = root.dataset.looked,
        from = performance.now(); ({act})(given);
        while (root.dataset.looked === before) await new Promise(requestAnimationFrame);
        return performance.now() - from; }}""",
        argument,
    )
    return clock.now() - before, by_clock


def texts(told: list[str], turn: int) -> list[str]:
    """Twenty texts, all of them new."""
    return [f"{' '.join(told[: 4 + n % 6])}{' ' * (1 + n // 6 + 4 * turn)}" for n in range(20)]


def percentile95(values: list[float]) -> float:
    return values[math.ceil(0.95 * len(values)) - 1]


@pytest.mark.parametrize("made", [translator, writer])
def test_a_key_stroke_and_a_head_off_are_quick(made: Callable[[], Pipeline], browser, live):
    pipeline = made()
    gc.freeze()  # as the command does: a collection would look at all that pytest holds
    seen = visit(browser, live(pipeline, LINE))
    clock, told = Clock(seen.page), LINE.split()
    typing = """(text) => { const input = document.getElementById("live-input"); input.value = text;
        input.dispatchEvent(new Event("input")); }"""
    rounds = [[spent(seen, clock, typing, text) for text in texts(told, turn)] for turn in range(4)][
        1:
    ]  # the first compiles
    cpu = [sorted(look + min(150, max(20, look / 2)) for look, _ in each) for each in rounds]  # with the pause in front
    by_clock = min((sorted(each for _, each in turn) for turn in rounds), key=percentile95)
    keys = min(cpu, key=percentile95)  # what other programs take from the caches is not the page's
    p95 = percentile95(keys)
    seen.page.click("#live-off")
    part = "decoder.layers.1.cross" if made is translator else "layers.1.self"
    switch = """([part, head]) => document.querySelector(
        `.panel .map [data-part="${part}"][data-head="${head}"]`).click()"""
    off = []
    for n in range(8):  # on and off again, each is a look
        taken = spent(seen, clock, switch, [part, str(n // 2)])
        off += [taken] if n % 2 == 0 else []
    off_cpu, off_clock = (statistics.median(each) for each in zip(*off, strict=True))
    print(f"key to probabilities: p50 {statistics.median(keys):.0f}, p95 {p95:.0f} ms of CPU time; by the clock "
          f"p50 {statistics.median(by_clock):.0f}, p95 {percentile95(by_clock):.0f} ms; head off: median "
          f"{off_cpu:.0f} ms of CPU time, {off_clock:.0f} by the clock; load {os.getloadavg()[0]:.1f}")  # fmt: skip
    assert min(p95, percentile95(by_clock)) <= KEY
    assert min(off_cpu, off_clock) <= OFF
    assert not seen.faults
    seen.page.context.close()
