"""Settings that would take unbounded time or memory are refused in one line (D6, D8, D9)."""

from __future__ import annotations

import math
import re

import pytest
import torch

from headway.decoding.automaton import automaton
from headway.decoding.beam import BeamSettings, beam_search
from headway.decoding.limits import SequenceLimits
from headway.decoding.memory import LEAST, POSITIONS, first_capacity, memory_errors
from headway.decoding.sampling import Sampling, stream
from headway.errors import ConfigError
from headway.limits import limit, raised
from headway.models import EncoderInput, build_model
from headway.tasks.captioning.config import Captioning
from headway.tasks.translation.config import Decoding, Translation
from headway.tasks.translation.search import TranslationSearch
from tests.decoding.calls import draw, search
from tests.models.tiny import GPT, TRANSLATOR

HUGE = 10**5000
BEAM = r"^(beam|n_best|groups): .* hypotheses, allowed: up to 1,024 \(--limit beam=N raises it\)$"
TOKENS = r"^max_(tokens|extra): .* tokens, allowed: up to 100,000 \(--limit output-tokens=N raises it\)$"
SOURCE = EncoderInput(torch.tensor([[4, 5, 6]]))

REFUSED = {
    "beam": (lambda: BeamSettings(width=10_000_000, n_best=10_000_000), BEAM),
    "beam of 352 GB": (lambda: BeamSettings(width=5000), BEAM),
    "huge beam": (lambda: BeamSettings(width=HUGE), BEAM),
    "more of the best than the beam": (lambda: BeamSettings(width=4, n_best=5), "n_best between 1 and beam"),
    "groups": (lambda: BeamSettings(width=4, groups=HUGE), BEAM),
    "best": (lambda: BeamSettings(width=4, n_best=HUGE), BEAM),
    **{
        f"length penalty {value}": (
            lambda value=value: BeamSettings(alpha=value),
            "^length_penalty=.*, allowed: -10 to 10$",
        )
        for value in (1e308, -1e308, math.nan, math.inf, -math.inf)
    },
    **{
        f"diversity {value}": (lambda value=value: BeamSettings(diversity=value), "^diversity=.*, allowed: 0 to 1e")
        for value in (math.nan, math.inf, -1.0, 1e308)
    },
    "tokens": (lambda: SequenceLimits(start=1, stop=2, max_tokens=10**9), TOKENS),
    "huge tokens": (lambda: SequenceLimits(start=1, stop=2, max_tokens=HUGE), TOKENS),
    "temperature": (
        lambda: Sampling(temperature=1e-300),
        "^temperature=1e-300, allowed: 0 .greedy., or 1e-05 and above$",
    ),
    "repetition penalty": (lambda: Sampling(repetition_penalty=1e300), "^repetition_penalty=1e.300, allowed: above 0"),
    "a recipe's length penalty": (
        lambda: Translation(length_penalty=math.nan),
        "^task.length_penalty=nan, allowed: -10",
    ),
    "a captioner's": (lambda: Captioning(length_penalty=1e308), "^task.length_penalty=1e.308, allowed: -10 to 10$"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_setting_out_of_proportion_is_refused_in_one_line(name):
    make, message = REFUSED[name]
    with pytest.raises(ConfigError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_each_search_asks():
    model, language = build_model(TRANSLATOR, seed=3).eval(), build_model(GPT, seed=3).eval()
    with pytest.raises(ConfigError, match=TOKENS):
        search(model, SOURCE, start=2, stop=3, max_tokens=torch.tensor([10**9]))
    with pytest.raises(ConfigError, match=TOKENS):
        draw(language, torch.tensor([[4]]), stop=3, max_tokens=10**20)
    with pytest.raises(ConfigError, match=TOKENS):  # before the first token is asked for
        stream(language, torch.tensor([[4]]), max_tokens=99999999999999999999)
    with pytest.raises(ConfigError, match=TOKENS):
        TranslationSearch(Translation(), None, Tokens()).search(model, "cpu", [[4]], Decoding(max_extra=10**20))


class Tokens:
    """As much of a tokenizer as a search asks for before it begins."""

    marks = None


def test_a_limit_can_be_raised():
    with raised({"beam": 2000, "output-tokens": 10**9}):
        assert BeamSettings(width=1500).width == 1500
        assert SequenceLimits(start=1, stop=2, max_tokens=10**9).max_tokens == 10**9
    assert limit("beam") == 1024


def test_memory_follows_what_is_written_not_what_is_allowed():
    """D6, D8: a beam of 5,000 reserved 352 GB before its first step, for a translation of three tokens."""
    assert first_capacity(rows=8, prompt=1, max_tokens=300) == 301  # as before, for an ordinary search
    assert first_capacity(rows=1024, prompt=1, max_tokens=100_000) == 1 + LEAST
    assert first_capacity(rows=1, prompt=5, max_tokens=100_000) == 5 + POSITIONS
    model = build_model(TRANSLATOR, seed=3).eval()
    with torch.no_grad():  # every hypothesis ends after a few tokens
        limits = SequenceLimits(start=2, stop=3, max_tokens=torch.tensor([90_000]))
        settings = BeamSettings(width=64)
        short = beam_search(_Stopping(model, 3), SOURCE, settings, limits)
    assert len(short[0][0].tokens) <= 3


def test_a_cache_that_grows_gives_the_same_hypotheses(monkeypatch):
    model = build_model(TRANSLATOR, seed=3).eval()
    settings = {"start": 2, "stop": 3, "max_tokens": 40, "n_best": 4}
    expected = search(model, SOURCE, **settings)
    monkeypatch.setattr("headway.decoding.memory.POSITIONS", 1)
    monkeypatch.setattr("headway.decoding.memory.LEAST", 2)
    assert search(model, SOURCE, **settings) == expected


class _Stopping:
    """A stepper that stops after a number of tokens."""

    def __init__(self, model, after: int) -> None:
        self.model, self.after = model, after

    def start(self, source=None, *, capacity=64):
        return self.model.start(source, capacity=capacity), 0

    def extend(self, tokens, state, counts=None):
        logits, inner = self.model.extend(tokens, state[0], counts)
        if state[1] >= self.after - 1:
            logits = logits.clone()
            logits[..., 3] += 100
        return logits, (inner, state[1] + 1)

    def select(self, state, rows):
        return self.model.select(state[0], rows), state[1]


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 352.00 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:125] DefaultCPUAllocator: can't allocate memory: you tried ..."),
        RuntimeError("Storage size calculation overflowed with sizes=[4611686018427387904]"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_failed_allocation_is_one_line(error):
    with (
        pytest.raises(ConfigError, match=r"^beam=9: the search does not fit into memory; reduce"),
        memory_errors("beam=9"),
    ):
        raise error


def test_other_errors_pass():
    with pytest.raises(RuntimeError, match="something else"), memory_errors("beam=9"):
        raise RuntimeError("something else")


def test_a_real_failed_allocation_is_recognised():
    with pytest.raises(ConfigError, match="does not fit"), memory_errors("beam=9"):
        torch.empty(2**55, dtype=torch.uint8)
    with pytest.raises(ConfigError, match="does not fit"), memory_errors("beam=9"):
        torch.empty(2**62, 2**62)


def test_phrases_whose_automaton_would_be_too_large_are_refused():
    message = re.escape("transitions, allowed: up to 20,000,000 (--limit constraints=N raises it)")
    with pytest.raises(ConfigError, match=f"^required and banned phrases: .* {message}$"):
        automaton([], [list(range(5000)) * 12], other=True)
    with raised({"constraints": 100}), pytest.raises(ConfigError, match="allowed: up to 100 "):
        automaton([[n, n + 1] for n in range(0, 10, 2)], [], other=True)
