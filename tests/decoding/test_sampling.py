from __future__ import annotations

import pytest
import torch

from headway.decoding.sampling import draw, sample, stream
from headway.errors import ConfigError
from headway.models import Source
from tests.models.tiny import GENERATING, VOCAB, build, outputs, text

ONE_OF_EACH = ["gpt-rotary", "rnn-lm-lstm-tied", "transformer-sinusoidal", "seq2seq-context-all"]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_greedy_takes_the_likeliest_token_of_the_parallel_forward_each_time(name):
    assert name in GENERATING
    model, batch = build(name), text(name, rows=2, length=2)
    source = None if batch.source is None else Source(batch.source)
    lines = sample(model, batch.tokens, stop=-1, max_tokens=6, generator=generator(), source=source, temperature=0)
    whole = torch.cat([batch.tokens, torch.tensor(lines)], 1)
    likeliest = outputs(model, type(batch)(whole, None, batch.source))[0].argmax(-1)
    assert torch.equal(likeliest[:, 1:-1], whole[:, 2:])


def test_the_last_token_of_a_full_context_is_not_lost():
    model, prompt = build("gpt-learned"), text("gpt-learned", rows=1, length=31).tokens
    assert len(sample(model, prompt, stop=-1, max_tokens=2, generator=generator())[0]) == 2
    assert len(list(stream(model, prompt, max_tokens=2, generator=generator()))) == 2


def test_a_stream_is_the_sample_and_outgrows_its_context():
    model, prompt = build("gpt-learned"), text("gpt-learned", rows=1, length=3).tokens
    whole = sample(model, prompt, stop=-1, max_tokens=20, generator=generator(3))[0]
    assert list(stream(model, prompt, max_tokens=20, generator=generator(3), context=32)) == whole
    assert len(list(stream(model, prompt, max_tokens=90, generator=generator(3), context=32))) == 90


def test_one_seed_one_text_and_the_global_stream_is_left_alone():
    model, prompt = build("gpt-alibi"), text("gpt-alibi", rows=3, length=2).tokens
    outer = torch.get_rng_state()
    first, again, other = (
        sample(model, prompt, stop=-1, max_tokens=8, generator=generator(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(outer, torch.get_rng_state())
    assert first == again != other


def test_a_line_ends_before_its_stop_token():
    model, prompt = build("gpt-none"), text("gpt-none", rows=8, length=2).tokens
    lines = sample(model, prompt, stop=3, max_tokens=50, generator=generator())
    assert all(3 not in line for line in lines)
    assert any(len(line) < 50 for line in lines)


def test_draws_follow_the_distribution():
    logits = torch.tensor([0.0, 1.0, 2.0]).expand(20000, 3)
    for temperature in (0.5, 1.0, 2.0):
        seen = torch.bincount(draw(logits, temperature, generator()), minlength=3) / 20000
        torch.testing.assert_close(seen, (logits[0] / temperature).softmax(-1), atol=0.02, rtol=0)


def test_a_negative_temperature_is_refused():
    with pytest.raises(ConfigError, match=r"temperature=-1\.0"):
        sample(
            build("gpt-none"), torch.zeros(1, 1, dtype=torch.long), stop=0, max_tokens=VOCAB,
            generator=generator(), temperature=-1.0,
        )  # fmt: skip
