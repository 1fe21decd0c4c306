"""Searches that step together have, to the bit, the hypotheses and scores that each has alone."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import pytest
import torch

from headway.decoding.constraints import Constraints
from headway.decoding.joint_search import JointSearches, Search, SearchCancelledError, SharedModel
from headway.decoding.row_batch import prepare
from headway.models import EncoderInput, Model, build_model
from headway.nn.int8 import quantise
from tests.decoding.calls import search
from tests.models import tiny

MODELS = {**tiny.TRANSLATION, **tiny.CAPTIONING}
FORMS = ("transformer-alibi", "transformer-rotary", "transformer-pre-norm", "captioner-rnn-state")
CASES = [
    *itertools.product(("transformer-sinusoidal", "captioner-vit"), ("fp32", "bf16", "int8")),
    *((name, "fp32") for name in FORMS),
]


@cache
def model_of(name: str, precision: str) -> Model:
    torch.manual_seed(0)
    model = build_model(MODELS[name], device="cpu").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    if precision == "bf16":
        model = model.bfloat16()
    if precision == "int8":
        quantise(model)
    prepare(model)
    return model


def source_of(name: str, draw: random.Random, precision: str) -> EncoderInput:
    if name.startswith("captioner"):
        size = 8 if "rnn" in name else tiny.CAPTIONER_VIT.image
        pixels = torch.rand(1, 3, *(size if isinstance(size, tuple) else (size, size)), generator=seeded(draw))
        return EncoderInput.of_images(pixels.bfloat16() if precision == "bf16" else pixels)
    rows = draw.randint(1, 2)
    lengths = torch.tensor([draw.randint(1, 7) for _ in range(rows)])
    return EncoderInput(torch.randint(3, tiny.VOCAB, (rows, int(lengths.max())), generator=seeded(draw)), lengths)


def seeded(draw: random.Random) -> torch.Generator:
    return torch.Generator().manual_seed(draw.randrange(1 << 30))


def tasks_of(name: str, precision: str, count: int) -> list[Callable[[Any], object]]:
    draw, tasks = random.Random(name), []
    for _ in range(count):
        limits: dict[str, Any] = {
            "start": 1,
            "stop": 2,
            "max_tokens": draw.randint(1, 9),
            "beam": draw.choice([1, 3, 4]),
        }
        if draw.random() < 0.3:
            limits["constraints"] = Constraints(banned=((5,),))
        source = source_of(name, draw, precision)
        tasks.append(lambda model, source=source, limits=limits: search(model, source, **limits))
    return tasks


def run(model: Any, tasks: Sequence[Callable[[Any], object]], arrivals: Sequence[int]) -> list[Any]:
    """The results of tasks that begin before the steps of these numbers."""
    searches = JointSearches(model)
    shared, begun, step = SharedModel(model, searches), dict[int, Search](), 0
    while len(begun) < len(tasks) or searches.count:
        for n, at in enumerate(arrivals):
            if at == step:
                begun[n] = searches.start(partial(tasks[n], shared))
        searches.step()
        step += 1
        assert step < 1000
    for each in begun.values():
        if each.error is not None:
            raise each.error
    return [begun[n].result for n in range(len(tasks))]


@pytest.mark.parametrize(("name", "precision"), CASES)
def test_company_changes_no_bit(name: str, precision: str) -> None:
    model, tasks = model_of(name, precision), tasks_of(name, precision, 7)
    together = run(model, tasks, [0, 0, 1, 3, 3, 4, 8])
    assert together == [run(model, [task], [0])[0] for task in tasks]  # hypotheses, log-probabilities and scores


def test_what_is_found_is_what_a_search_by_itself_finds() -> None:
    model, tasks = model_of("transformer-sinusoidal", "fp32"), tasks_of("transformer-sinusoidal", "fp32", 5)
    for found, task in zip(run(model, tasks, [0, 0, 1, 1, 2]), tasks, strict=True):
        for mine, theirs in zip(found, task(model), strict=True):  # type: ignore[call-overload]
            assert mine[0].tokens == theirs[0].tokens
            assert mine[0].score == pytest.approx(theirs[0].score, abs=1e-5)


class Failing:
    """A model that raises where a row has the token 7."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def extend(self, tokens: torch.Tensor, state: Any, counts: torch.Tensor | None = None) -> Any:
        if (tokens == 7).any():
            raise RuntimeError("poisoned")
        return self.model.extend(tokens, state, counts)


def test_a_search_that_fails_ends_alone_and_one_that_is_cancelled_ends() -> None:
    model = model_of("transformer-sinusoidal", "fp32")
    tasks = tasks_of("transformer-sinusoidal", "fp32", 4)
    source = EncoderInput(torch.tensor([[3, 4, 5]]))
    poisoned = partial(search, source=source, start=7, stop=2, max_tokens=5)
    searches = JointSearches(Failing(model))  # type: ignore[arg-type]
    shared = SharedModel(model, searches)
    expected = [run(model, [task], [0])[0] for task in tasks]
    begun = [searches.start(partial(task, shared)) for task in (*tasks[:2], poisoned, *tasks[2:])]
    gone = searches.start(partial(search, shared, source, start=1, stop=-1, max_tokens=500))
    steps = 0
    while searches.count:
        searches.step()
        steps += 1
        gone.cancelled = steps > 20
    assert isinstance(gone.error, SearchCancelledError)
    assert str(begun.pop(2).error) == "poisoned"
    for each, want in zip(begun, expected, strict=True):
        if each.error is None:
            assert each.result == want
        else:  # this one wrote the token itself
            assert str(each.error) == "poisoned"
    assert any(each.error is None for each in begun)
