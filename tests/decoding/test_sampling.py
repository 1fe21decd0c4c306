from __future__ import annotations

import pytest
import torch

from headway.decoding.rng import BLOCK, UniformStreams
from headway.decoding.sampling import GREEDY, Sampling, allowed_tokens, choose, stream
from headway.errors import ConfigError
from headway.models import EncoderInput
from tests.decoding.calls import draw
from tests.models.tiny import GENERATING, VOCAB, build, outputs, text

ONE_OF_EACH = ["gpt-rotary", "rnn-lm-lstm-tied", "transformer-sinusoidal", "seq2seq-context-all"]


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_greedy_takes_the_likeliest_token_of_the_parallel_forward_each_time(name):
    assert name in GENERATING
    model, batch = build(name), text(name, rows=2, length=2)
    source = None if batch.source is None else EncoderInput(batch.source)
    lines = draw(model, batch.tokens, stop=-1, max_tokens=6, source=source, sampling=GREEDY)
    whole = torch.cat([batch.tokens, torch.tensor(lines)], 1)
    likeliest = outputs(model, type(batch)(whole, None, batch.source))[0].argmax(-1)
    assert torch.equal(likeliest[:, 1:-1], whole[:, 2:])


def test_the_last_token_of_a_full_context_is_not_lost():
    model, prompt = build("gpt-learned"), text("gpt-learned", rows=1, length=31).tokens
    assert len(draw(model, prompt, stop=-1, max_tokens=2)[0]) == 2
    assert len(list(stream(model, prompt, max_tokens=2))) == 2


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.7, repetition_penalty=1.3, top_k=9)])
def test_a_stream_is_the_sample_and_outgrows_its_context(sampling):
    model, prompt = build("gpt-learned"), text("gpt-learned", rows=1, length=3).tokens
    settings = {"sampling": sampling, "seed": 3}
    whole = draw(model, prompt, stop=-1, max_tokens=20, numbers=[5], **settings)[0]
    assert list(stream(model, prompt, max_tokens=20, context=32, number=5, **settings)) == whole
    assert len(list(stream(model, prompt, max_tokens=90, context=32, **settings))) == 90
    stop = whole[7]
    assert list(stream(model, prompt, max_tokens=20, stops=(stop,), number=5, **settings)) == whole[: whole.index(stop)]


def test_one_seed_one_text_and_the_global_stream_is_left_alone():
    model, prompt = build("gpt-alibi"), text("gpt-alibi", rows=3, length=2).tokens
    outer = torch.get_rng_state()
    first, again, other = (draw(model, prompt, stop=-1, max_tokens=8, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(outer, torch.get_rng_state())
    assert first == again != other
    same = draw(model, prompt[:1].expand(3, -1), stop=-1, max_tokens=8)
    assert len({tuple(line) for line in same}) == 3


def test_a_sample_ends_before_its_stop_token():
    model, prompt = build("gpt-none"), text("gpt-none", rows=8, length=2).tokens
    lines = draw(model, prompt, stop=3, max_tokens=50)
    assert all(3 not in line for line in lines)
    assert any(len(line) < 50 for line in lines)


@pytest.mark.parametrize("name", GENERATING)
def test_a_sequence_draws_the_same_tokens_in_any_batch(name):
    """64 prompts of mixed length in one batch, in another order in smaller ones, and one at a time."""
    model, batch = build(name), text(name, rows=64, length=6, padded=True)
    sampling = Sampling(temperature=1.5, top_k=21, top_p=0.99, min_p=0.01, repetition_penalty=1.1)

    def decoded(rows: torch.Tensor) -> list[list[int]]:
        part = batch.rows(rows)
        length = int(part.lengths.max())
        source = None if part.source is None else EncoderInput(part.source, part.source_lengths)
        return draw(
            model, part.tokens[:, :length], prompt_lengths=part.lengths, source=source, numbers=rows.tolist(),
            stop=3, max_tokens=12, seed=7, sampling=sampling,
        )  # fmt: skip

    together = decoded(torch.arange(64))
    assert len({len(line) for line in together}) > 1
    order = torch.randperm(64, generator=torch.Generator().manual_seed(0))
    for rows in [*order[:48].split(20), *order[48:].split(1)]:
        assert decoded(rows) == [together[row] for row in rows.tolist()]


class Counting:
    """A stepper whose every row stops at a step of its own; it counts the rows it is asked for."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def start(self, source=None, *, capacity=64):
        return torch.zeros(0, dtype=torch.long)

    def extend(self, tokens, state, counts=None):
        state = tokens[:, -1] if not len(state) else state - 1
        self.rows.append(len(tokens))
        return torch.nn.functional.one_hot((state <= 0).long(), 4).float().unsqueeze(1) * 9, state

    def select(self, state, rows):
        return state[rows]


def test_finished_rows_leave_the_batch():
    model, steps = Counting(), torch.arange(64).unsqueeze(1)
    lines = draw(model, steps, stop=1, max_tokens=100, sampling=GREEDY)
    assert [len(line) for line in lines] == list(range(64))
    assert sum(model.rows) < 64 * 64 * 0.65
    assert len(set(model.rows)) < 20


def test_draws_follow_the_distribution():
    logits = torch.tensor([0.0, 1.0, 2.0]).expand(20000, 3)
    uniform = UniformStreams(0, range(20000), torch.device("cpu")).at(0)
    for temperature in (0.5, 1.0, 2.0):
        drawn = choose(logits, Sampling(temperature=temperature), uniform)
        seen = torch.bincount(drawn, minlength=3) / 20000
        torch.testing.assert_close(seen, (logits[0] / temperature).softmax(-1), atol=0.02, rtol=0)


def test_a_sequences_numbers_are_its_own():
    cpu = torch.device("cpu")
    some, alone = UniformStreams(3, [5, 9, 2], cpu), UniformStreams(3, [9], cpu)
    steps = [0, 1, BLOCK - 1, BLOCK, 5 * BLOCK + 3]
    assert all(float(some.at(step)[1]) == float(alone.at(step)) for step in steps)
    some.select(torch.tensor([1]))
    assert all(torch.equal(some.at(step), alone.at(step)) for step in reversed(steps))
    drawn = torch.stack([alone.at(step) for step in range(3 * BLOCK)])
    assert len(drawn.unique()) == 3 * BLOCK
    assert 0 <= drawn.min() < drawn.max() < 1


@pytest.mark.parametrize(
    ("sampling", "left"),
    [
        (Sampling(), [0, 1, 2, 3, 4]),
        (Sampling(top_k=2), [1, 3]),
        (Sampling(top_k=99), [0, 1, 2, 3, 4]),
        (Sampling(top_p=0.5), [3]),
        (Sampling(top_p=0.51), [1, 3]),
        (Sampling(top_p=0.95), [0, 1, 3]),
        (Sampling(min_p=0.45), [1, 3]),
        (Sampling(min_p=1.0), [3]),
        (Sampling(top_k=2, top_p=0.6), [3]),  # 0.5 of the 0.75 that two tokens hold
        (Sampling(top_k=2, top_p=0.7), [1, 3]),
        (Sampling(top_p=1e-9), [3]),
    ],
)
def test_tokens_left_by_top_k_top_p_and_min_p(sampling, left):
    logits = torch.tensor([[0.2, 0.25, 0.03, 0.5, 0.02]]).log()
    assert allowed_tokens(logits, sampling)[0].nonzero().squeeze(1).tolist() == left
    drawn = choose(logits.expand(500, -1), sampling, torch.linspace(0, 1 - 1e-16, 500, dtype=torch.float64))
    assert sorted(set(drawn.tolist())) == left


def test_the_repetition_penalty_is_ctrls():
    """With every token in the context the penalty is one temperature for good news, its inverse for bad."""
    model, prompt = build("gpt-rotary"), torch.tensor([[4, 4, 7]])
    with torch.no_grad():
        logits = model(prompt)[0, -1]
    for theta in (1.5, 50.0):
        expected = logits.clone()
        for token in (4, 7):
            expected[token] = expected[token] / theta if expected[token] > 0 else expected[token] * theta
        chosen = draw(model, prompt, stop=-1, max_tokens=1, sampling=Sampling(temperature=0, repetition_penalty=theta))
        assert chosen == [[int(expected.argmax())]]
    strong = draw(model, prompt, stop=-1, max_tokens=15, sampling=Sampling(temperature=0, repetition_penalty=1e6))[0]
    assert len(set(strong)) > len(set(draw(model, prompt, stop=-1, max_tokens=15, sampling=GREEDY)[0]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": -1.0}, r"temperature=-1\.0"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"top_k": 0}, "top_k=0"),
        ({"top_p": 0.0}, r"top_p=0\.0"),
        ({"top_p": 1.1}, r"top_p=1\.1"),
        ({"min_p": -0.1}, r"min_p=-0\.1"),
        ({"repetition_penalty": 0.0}, r"repetition_penalty=0\.0, allowed: above 0"),
    ],
)
def test_invalid_settings_are_rejected(settings, message):
    with pytest.raises(ConfigError, match=message):
        Sampling(**settings)


def test_no_tokens_asked_for():
    assert draw(build("gpt-none"), torch.zeros(2, 1, dtype=torch.long), stop=0, max_tokens=0) == [[], []]
    with pytest.raises(ConfigError, match="3 sequence numbers for 2 rows"):
        draw(build("gpt-none"), torch.zeros(2, 1, dtype=torch.long), stop=0, max_tokens=VOCAB, numbers=[1, 2, 3])
