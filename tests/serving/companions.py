"""Tiny models for the tests of the scheduler, and what it does with requests."""

from __future__ import annotations

from functools import cache

import torch

from headway.decoding.row_batch import prepare
from headway.models import Model, build_model
from headway.nn.int8 import quantise
from headway.serving.requests import Request, SamplingFields, TokenEvent
from headway.serving.scheduler import Scheduler, SchedulerLimits
from tests.models import tiny

SMALL = SchedulerLimits(rows=6, tokens=200, chunk=4)
TRANSCRIBERS = {
    name: config for name, config in tiny.SPEECH.items() if "transformer" in name
}  # the others do not search
SEARCHED = {**tiny.TRANSLATION, **tiny.CAPTIONING, **TRANSCRIBERS}
WRITERS = {**tiny.LANGUAGE, **SEARCHED}  # every generating model of the registry, in the variants of the tests


@cache
def model_of(name: str, precision: str = "fp32") -> Model:
    """A tiny model with weights large enough for its logits to differ, as a server holds it."""
    torch.manual_seed(0)
    model = build_model(WRITERS[name], device="cpu").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    if precision == "bf16":
        model = model.bfloat16()
    if precision == "int8":
        quantise(model)
    prepare(model)
    return model


def request(id: str, prompt: tuple[int, ...] = (1, 2, 3), max_tokens: int = 5, **further: object) -> Request:
    given: dict[str, object] = {"client": "a", "top": 2, "sampling": SamplingFields(), **further}
    return Request(id=id, prompt=prompt, max_tokens=max_tokens, **given)  # type: ignore[arg-type]


def finish(scheduler: Scheduler, now: float = 0.0) -> dict[str, list[TokenEvent]]:
    """Step until nothing is left -> the events of each request."""
    events: dict[str, list[TokenEvent]] = {}
    for _ in range(2000):
        if scheduler.idle:
            return events
        for event in scheduler.step(now):
            events.setdefault(event.id, []).append(event)
    raise AssertionError("the scheduler does not come to an end")


def alone(model: Model, wanted: Request, limits: SchedulerLimits = SMALL) -> list[TokenEvent]:
    """The events of a request that nothing else is beside."""
    scheduler = Scheduler(model, limits)  # type: ignore[arg-type]
    assert scheduler.offer(wanted) is None
    return finish(scheduler)[wanted.id]
