"""A generation whose steps a GPU replays gives the tokens of the plain one; on a CPU its steps are taken one by one."""

from __future__ import annotations

import pytest
import torch

from headway.decoding import replay
from headway.decoding.cuda_graph import GraphDecoder
from headway.decoding.limits import SequenceLimits
from headway.decoding.replay import Replay, replay_for
from headway.decoding.sampling import GREEDY, Sampling, sample, stream
from headway.errors import NonFiniteOutputError
from headway.models import GptConfig, build_model
from headway.nn.positions import Rotary

device = "cuda" if torch.cuda.is_available() else "cpu"
WAYS = [GREEDY, Sampling(temperature=0.8), Sampling(top_k=5, repetition_penalty=1.3), Sampling(top_p=0.7, min_p=0.01)]


def gpt(**changes):
    config = {"vocab": 37, "context": 24, "width": 32, "layers": 2, "heads": 4, "dropout": 0.0, **changes}
    return build_model(GptConfig(**config), seed=3).eval().to(device)


def made(model, prompt, max_tokens: int, sampling: Sampling, context: int | None = None) -> Replay:
    capacity = prompt.shape[1] + max_tokens if context is None else min(prompt.shape[1] + max_tokens, context)
    decoder = GraphDecoder(
        model, rows=len(prompt), capacity=capacity, steps=max_tokens, sampling=sampling, compiled=False
    )
    return Replay(decoder)


@pytest.fixture
def plain(monkeypatch):
    """The way without a graph."""
    monkeypatch.setattr(replay, "replay_for", lambda *given: None)


@pytest.mark.parametrize("sampling", WAYS)
@pytest.mark.parametrize("stop", [-1, 4])
def test_a_batch_draws_the_same_tokens(plain, sampling, stop):
    model = gpt(position=Rotary())
    prompt = torch.randint(0, 37, (3, 4), generator=torch.Generator().manual_seed(0)).to(device)
    want = sample(model, SequenceLimits(start=prompt, stop=stop, max_tokens=17), sampling, seed=9, numbers=[4, 0, 7])
    found = made(model, prompt, 17, sampling).sample(prompt, 17, stop=stop, seed=9, numbers=[4, 0, 7])
    assert found == want


@pytest.mark.parametrize("sampling", WAYS)
@pytest.mark.parametrize("known", [3, 20, 30])
@pytest.mark.parametrize("max_tokens", [1, 40])
def test_a_stream_draws_the_same_tokens_also_beyond_the_context(plain, sampling, known, max_tokens):
    model = gpt()
    prompt = torch.randint(0, 37, (1, known), generator=torch.Generator().manual_seed(known)).to(device)
    how = {"stops": (4,), "context": 24, "seed": 2, "number": 5}
    want = list(stream(model, prompt, max_tokens=max_tokens, sampling=sampling, **how))
    found = made(model, prompt, max_tokens, sampling, 24).stream(prompt, max_tokens, **how)
    assert list(found) == want


def test_nan_is_an_error_with_the_step():
    model = gpt()
    prompt = torch.tensor([[1, 2, 3]], device=device)
    first = next(made(model, prompt, 20, GREEDY).stream(prompt, 20, stops=(), context=24, seed=0, number=0))
    with torch.no_grad():
        model.embedding.weight[first] = float("nan")
    with pytest.raises(NonFiniteOutputError, match="sequence 1, token"):
        list(made(model, prompt, 20, GREEDY).stream(prompt, 20, stops=(), context=24, seed=0, number=0))


def test_where_it_is_used():
    model, prompt = gpt(), torch.zeros(1, 4, dtype=torch.long)
    assert replay_for(model, prompt, 20, 24, GREEDY) is not None
    assert replay_for(model, prompt, 3, 24, GREEDY) is None  # too short
    assert replay_for(model, prompt, 40, None, GREEDY) is None  # no positions for it
    assert replay_for(torch.nn.Linear(2, 2), prompt, 20, 24, GREEDY) is None  # type: ignore[arg-type]
    handle = model.stack.blocks[0].tap_attn_out.register_forward_hook(lambda *given: None)
    assert replay_for(model, prompt, 20, 24, GREEDY) is None
    handle.remove()


def test_a_step_that_cannot_be_recorded_is_taken_the_plain_way(monkeypatch):
    def failing(decoder: GraphDecoder) -> None:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(GraphDecoder, "record", failing)
    assert replay_for(gpt(), torch.zeros(1, 4, dtype=torch.long), 20, 24, GREEDY) is None
