from __future__ import annotations

import math

import pytest
import torch

from headway.config import parse
from headway.errors import ConfigError
from headway.models import EncoderDecoderConfig, GptConfig, RnnLmConfig, RnnSeq2SeqConfig, build_model
from headway.models.stepper import EncoderInput
from headway.nn.recurrent import RecurrentConfig
from headway.nn.rnn_attention import AlignmentConfig
from headway.tasks.scheduled_sampling import ScheduledSampling

VOCAB = 13
CELL = RecurrentConfig(cell="gru", hidden=12)
CONFIGS = {
    "transformer": EncoderDecoderConfig(
        vocab=VOCAB, width=16, inner=32, heads=2, encoder_layers=1, decoder_layers=2, dropout=0.0
    ),
    "rnn": RnnSeq2SeqConfig(
        vocab=VOCAB, width=8, encoder=CELL, decoder=CELL, attention=AlignmentConfig(kind="additive", width=8),
        context=("input", "readout"),
    ),
    "gpt": GptConfig(vocab=VOCAB, context=16, width=16, layers=2, heads=2, dropout=0.0),
    "rnn-lm": RnnLmConfig(vocab=VOCAB, width=8, recurrent=CELL),
}  # fmt: skip


def given(name):
    torch.manual_seed(3)
    model = build_model(CONFIGS[name], seed=1)
    source = None
    if name in ("transformer", "rnn"):
        source = EncoderInput(torch.randint(0, VOCAB, (4, 6)), torch.tensor([6, 3, 5, 1]))
    return model, source, torch.randint(0, VOCAB, (4, 7)), torch.tensor([7, 7, 4, 2]) if source else None


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("passes", ["steps", "two"])
def test_all_gold_is_teacher_forcing(name, passes):
    model, source, gold, lengths = given(name)
    mixed = ScheduledSampling(floor=1.0, passes=passes).mixed(model, source, gold, lengths, step=10**6)
    assert torch.equal(mixed, gold)


@pytest.mark.parametrize("name", CONFIGS)
def test_no_gold_step_by_step_is_greedy_decoding(name):
    model, source, gold, lengths = given(name)
    mixed = ScheduledSampling(passes="steps", decay="linear", scale=1).mixed(model, source, gold, lengths, step=5)
    assert torch.equal(mixed[:, 0], gold[:, 0])
    state, said = model.start(source), [gold[:, :1]]
    for _ in range(6):
        logits, state = model.extend(said[-1], state)
        said.append(logits.argmax(-1))
    assert torch.equal(mixed, torch.cat(said, 1))


@pytest.mark.parametrize("name", CONFIGS)
def test_two_passes_guess_from_the_gold_prefix(name):
    model, source, gold, lengths = given(name)
    mixed = ScheduledSampling(decay="linear", scale=1).mixed(model, source, gold, lengths, step=5)
    inputs = (gold,) if source is None else (source.tokens, gold, source.lengths, lengths)
    assert torch.equal(mixed[:, 1:], model(*inputs).argmax(-1)[:, :-1])


@pytest.mark.parametrize("passes", ["steps", "two"])
def test_half_gold_mixes_and_a_guess_follows_what_was_fed(passes):
    model, source, gold, lengths = given("transformer")
    config = ScheduledSampling(decay="linear", scale=10, passes=passes)
    torch.manual_seed(0)
    mixed = config.mixed(model, source, gold, lengths, step=5)
    torch.manual_seed(0)
    kept = torch.rand(gold.shape) < 0.5
    kept[:, 0] = True
    assert 0 < kept[:, 1:].sum() < kept[:, 1:].numel()
    assert torch.equal(mixed[kept], gold[kept])
    prefix = mixed if passes == "steps" else gold
    guesses = model(source.tokens, prefix, source.lengths, None).argmax(-1)
    assert torch.equal(mixed[:, 1:][~kept[:, 1:]], guesses[:, :-1][~kept[:, 1:]])


def test_sampled_guesses_follow_the_model():
    model, source, gold, lengths = given("transformer")
    config = ScheduledSampling(decay="linear", scale=1, choice="sample")
    probability = model(source.tokens, gold, source.lengths, lengths).softmax(-1)[0, 0]
    torch.manual_seed(0)
    drawn = torch.stack([config.mixed(model, source, gold, lengths, step=2)[0, 1] for _ in range(400)])
    share = torch.bincount(drawn, minlength=VOCAB) / 400
    assert (share - probability).abs().max() < 0.1


def test_the_share_of_gold_falls_as_the_paper_s_curves():
    assert ScheduledSampling(decay="linear", scale=100).gold_share(25) == 0.75
    assert ScheduledSampling(decay="exponential", scale=100).gold_share(100) == pytest.approx(math.exp(-1))
    curve = ScheduledSampling(scale=100)
    assert curve.gold_share(0) == pytest.approx(100 / 101)
    assert curve.gold_share(461) == pytest.approx(0.5, abs=0.01)
    assert curve.gold_share(10**9) == pytest.approx(0.0, abs=1e-9)
    assert ScheduledSampling(scale=100, floor=0.25).gold_share(10**9) == 0.25
    for decay in ("linear", "exponential", "inverse-sigmoid"):
        shares = [ScheduledSampling(decay=decay, scale=50).gold_share(t) for t in range(0, 500, 10)]
        assert shares == sorted(shares, reverse=True)


@pytest.mark.parametrize(("settings", "word"), [({"scale": 0.0}, "scale"), ({"floor": 1.5}, "floor")])
def test_wrong_settings_are_named(settings, word):
    with pytest.raises(ConfigError, match=word):
        ScheduledSampling(**settings)


def test_it_is_read_from_a_config():
    assert parse(ScheduledSampling, {"decay": "linear", "passes": "steps"}).passes == "steps"
