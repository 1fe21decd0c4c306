"""The scheduler: seeds, room, cancellation, fairness, and rows that fail alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from headway.decoding.sampling import stream
from headway.serving.fair_queue import FairQueue
from headway.serving.requests import Request, TokenEvent
from headway.serving.scheduler import Scheduler, SchedulerLimits
from tests.serving.companions import SMALL, alone, finish, model_of, request

POISON = 22  # a token at which `Poisoned` fails


class Poisoned:
    """A model that raises, or whose logits are NaN, at one token."""

    def __init__(self, model: Any, raises: bool) -> None:
        self.model, self.raises = model, raises

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def extend_hidden(self, tokens_BK: Tensor, state: Any, counts_B: Tensor | None = None) -> tuple[Tensor, Any]:
        if self.raises and (tokens_BK == POISON).any():
            raise RuntimeError("poisoned")
        hidden, state = self.model.extend_hidden(tokens_BK, state, counts_B)
        return hidden.masked_fill((tokens_BK == POISON).unsqueeze(-1), torch.nan), state

    def extend(self, tokens_BK: Tensor, state: Any, counts_B: Tensor | None = None) -> tuple[Tensor, Any]:
        hidden, state = self.extend_hidden(tokens_BK, state, counts_B)
        return self.model.read(hidden), state


def texts(events: Sequence[TokenEvent]) -> list[int]:
    return [event.token for event in events if event.token is not None]


def scheduled(model: Any, wanted: Sequence[Request], limits: SchedulerLimits = SMALL) -> dict[str, list[TokenEvent]]:
    scheduler = Scheduler(model, limits)
    for each in wanted:
        assert scheduler.offer(each) is None
    events = finish(scheduler)
    assert scheduler.reserved == 0
    assert scheduler.rows == 0
    return events


def test_tokens_are_those_of_headway_generate() -> None:
    model = model_of("gpt-llama")
    wanted = [request(str(n), tuple(range(1, 3 + n)), 6, seed=n) for n in range(7)]
    found = scheduled(model, wanted)
    for each in wanted:
        prompt = torch.tensor([each.prompt])
        assert texts(found[each.id]) == list(stream(model, prompt, max_tokens=6, seed=each.seed))  # type: ignore[arg-type]


def test_a_sequence_depends_on_its_seed_and_number_only() -> None:
    model = model_of("gpt-learned")
    three = scheduled(model, [request(str(n), seed=5, number=n) for n in range(3)])
    one = scheduled(model, [request("0", seed=5, number=0)])
    assert three["0"] == one["0"]
    assert len({tuple(texts(events)) for events in three.values()}) == 3


def test_log_probabilities_are_those_of_the_model() -> None:
    model = model_of("gpt-learned")
    wanted = request("a", (4, 5, 6, 7, 8, 9), 3, prompt_log_probs=True)
    events = alone(model, wanted)
    ids = [*wanted.prompt, *texts(events)[len(wanted.prompt) :]]
    assert texts(events)[: len(wanted.prompt)] == list(wanted.prompt)
    with torch.no_grad():
        expected = model(torch.tensor([ids]))[0].log_softmax(-1)  # type: ignore[operator]
    assert events[0].log_prob is None
    for place, event in enumerate(events[1:-1], 1):
        assert event.log_prob == pytest.approx(float(expected[place - 1, ids[place]]), abs=1e-5)
        assert event.top[0][1] == pytest.approx(float(expected[place - 1].max()), abs=1e-5)


def test_no_more_rows_and_tokens_than_there_is_room_for() -> None:
    scheduler = Scheduler(model_of("gpt-learned"), SchedulerLimits(rows=3, tokens=40, chunk=4))  # type: ignore[arg-type]
    assert scheduler.offer(request("large", max_tokens=38)) == "too_large"
    for n in range(9):
        assert scheduler.offer(request(str(n), max_tokens=5 + n)) is None
    while not scheduler.idle:
        scheduler.step(0.0)
        assert scheduler.reserved <= 40
        assert scheduler.rows <= 3
    assert scheduler.reserved == 0


def test_waiting_is_bounded() -> None:
    scheduler = Scheduler(model_of("gpt-learned"), SchedulerLimits(waiting=3, waiting_of_client=2))  # type: ignore[arg-type]
    assert [scheduler.offer(request(str(n))) for n in range(3)] == [None, None, "client_limit"]
    assert scheduler.offer(request("b", client="b")) is None
    assert scheduler.offer(request("c", client="c")) == "queue_full"


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_cancelled_request_is_gone_before_the_next_step(steps: int) -> None:
    """Whether it waits, its prompt is read, or it writes; its room is free at once, and the other keeps its bits."""
    model, other = model_of("gpt-learned"), request("other", max_tokens=9)
    scheduler = Scheduler(model, SMALL)  # type: ignore[arg-type]
    events: list[TokenEvent] = []
    for each in (request("gone", tuple(range(10)), 9), other):
        assert scheduler.offer(each) is None
    for _ in range(steps):
        events += scheduler.step(0.0)
    scheduler.cancel("gone")
    now = scheduler.step(0.0)
    assert now[0] == TokenEvent("gone", ended="cancelled")
    assert not any(event.id == "gone" for event in now[1:])
    assert scheduler.reserved <= other.room
    events += now + finish(scheduler).get("other", [])
    assert [event for event in events if event.id == "other"] == alone(model, other)


def test_a_late_request_ends() -> None:
    scheduler = Scheduler(model_of("gpt-learned"), SMALL)  # type: ignore[arg-type]
    scheduler.offer(request("late", deadline=1.0, max_tokens=20))
    scheduler.step(0.5)
    assert scheduler.step(1.5)[-1] == TokenEvent("late", ended="deadline")
    assert scheduler.idle


def test_clients_take_turns() -> None:
    """One that asks for much does not keep another waiting behind all of it."""
    scheduler = Scheduler(model_of("gpt-learned"), SchedulerLimits(rows=1, tokens=40))  # type: ignore[arg-type]
    for n in range(6):
        scheduler.offer(request(f"much{n}", client="much"))
    scheduler.offer(request("little", client="little"))
    ends = [event.id for _ in range(60) for event in scheduler.step(0.0) if event.ended]
    assert ends[:2] == ["much0", "little"]
    assert ends[2:] == [f"much{n}" for n in range(1, 6)]


def test_a_client_waits_for_what_is_before_it_at_most() -> None:
    """Against an endless stream of short requests of ever new clients, an old one still goes."""
    queue = FairQueue(100, 10)
    queue.spend("old", 10)
    queue.offer(request("old", client="old"))
    for n in range(40):
        queue.offer(request(str(n), client=f"new{n}"))
        queue.spend(f"new{n}", 10)
        taken = queue.take()
        queue.forget(float(n))
        if taken.id == "old":
            return
    raise AssertionError("the first request was never taken")


@pytest.mark.parametrize("raises", [True, False], ids=["raises", "nan"])
def test_a_poisoned_row_ends_alone(raises: bool) -> None:
    model = model_of("gpt-learned")
    good = [request(str(n), (n + 1, n + 2), 6, sampling=request("x").sampling, seed=n) for n in range(5)]
    good = [each for each in good if POISON not in texts(alone(model, each))]
    bad = request("bad", (1, 2), 6)
    poisoned = Poisoned(model, raises)
    scheduler = Scheduler(poisoned, SMALL)  # type: ignore[arg-type]
    failures: list[BaseException] = []
    scheduler.on_failure = failures.append
    for each in (*good[:2], bad, *good[2:]):
        assert scheduler.offer(each) is None
    events: dict[str, list[TokenEvent]] = {}
    while not scheduler.idle:
        for event in scheduler.step(0.0):
            events.setdefault(event.id, []).append(event)
        for row in scheduler._rows:
            if row.request.id == "bad" and len(row.sampler.written) == 3:
                row.sampler.written[-1] = POISON
    assert events["bad"][-1].ended == ("failed" if raises else "nonfinite")
    assert len(failures) == raises
    for each in good:
        assert events[each.id] == alone(model, each)
    assert scheduler.reserved == 0


def test_a_prompt_that_fails_ends_alone() -> None:
    model = model_of("gpt-learned")
    found = scheduled(Poisoned(model, True), [request("bad", (1, POISON)), request("good")])
    assert [event.ended for event in found["bad"]] == ["failed"]
    assert found["good"] == alone(model, request("good"))


def test_requests_and_events_survive_json() -> None:
    import json

    wanted = request("a", deadline=3.5, stops=(1, 2))
    assert Request.from_json(json.loads(json.dumps(wanted.to_json()))) == wanted
    assert Request.from_json(json.loads(json.dumps(request("b").to_json()))) == request("b")
    event = TokenEvent("a", 3, -0.123456789012345, ((3, -0.1), (4, -2.0)), "", True)
    assert TokenEvent.from_json(json.loads(json.dumps(event.to_json()))) == event
