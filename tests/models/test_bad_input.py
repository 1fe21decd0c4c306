"""What bad input gets: one line naming the value and what is allowed, never a raw index error."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from headway.errors import ConfigError, DataError, HeadwayError, ShapeError
from headway.models import EncoderDecoderConfig, EncoderInput, RnnLmConfig, build_model
from headway.nn.norms import BatchNorm
from headway.nn.positions import Fraction, Learned
from headway.nn.recurrent import RecurrentConfig
from tests.models.tiny import (
    ALL,
    ATTENTIVE,
    GPT,
    GRU,
    SEQ2SEQ,
    TRANSLATION,
    TRANSLATOR,
    VOCAB,
    Text,
    build,
    outputs,
    text,
)

ONE_OF_EACH = ["gpt-learned", "rnn-lm-gru-one-hot", "transformer-sinusoidal", "seq2seq-gru", "bert", "deck"]
TABLES = (Learned(), Learned(concat=3))
each = pytest.mark.parametrize("name", ONE_OF_EACH)


@each
@pytest.mark.parametrize("wrong", [VOCAB, -1])
def test_token_ids_outside_the_vocabulary(name, wrong):
    batch = text(name)
    batch.tokens[1, 2] = wrong
    with pytest.raises(DataError, match=rf"token id {wrong} in row 1, position 2: allowed are 0 to {VOCAB - 1}"):
        outputs(build(name), batch)


@each
def test_an_empty_sequence_in_a_batch(name):
    batch = text(name)
    lengths = torch.tensor([3, 0, 2])
    with pytest.raises(DataError, match=r"length 0 in batch row 1: allowed are 1 to 9"):
        outputs(build(name), Text(batch.tokens, lengths, batch.source, batch.source_lengths))


@each
def test_no_tokens_at_all(name):
    batch = text(name)
    with pytest.raises(DataError, match="empty"):
        outputs(build(name), Text(batch.tokens[:, :0], None, batch.source))


@each
def test_lengths_of_another_batch(name):
    batch = text(name)
    with pytest.raises(ShapeError, match=r"lengths have shape \(2,\), the batch needs \(3,\)"):
        outputs(build(name), Text(batch.tokens, torch.tensor([1, 2]), batch.source))


@pytest.mark.parametrize("name", ["gpt-learned", "transformer-learned", "bert", "deck"])
def test_a_sequence_beyond_the_learned_positions(name):
    batch = text(name, length=40)
    with pytest.raises(DataError, match="40 tokens, the learned positions end at 32"):
        outputs(build(name), batch)


def test_stepping_beyond_the_learned_positions():
    model = build("gpt-learned")
    _, state = model.extend(torch.zeros(1, 32, dtype=torch.long), model.start())
    with pytest.raises(DataError, match="33 tokens, the learned positions end at 32"):
        model.extend(torch.zeros(1, 1, dtype=torch.long), state)


@pytest.mark.parametrize(
    "name", [name for name, config in ALL.items() if hasattr(config, "position") and config.position not in TABLES]
)
def test_computed_positions_go_on_beyond_the_context(name):
    assert outputs(build(name), text(name, length=40))[0].isfinite().all()


def test_tokens_that_are_no_batch():
    with pytest.raises(ShapeError, match=r"tokens have shape \(9,\), expected \(B, T\)"):
        build("gpt-learned")(torch.zeros(9, dtype=torch.long))


def test_an_unexpected_source_and_a_missing_source_are_refused():
    source = EncoderInput(torch.zeros(1, 3, dtype=torch.long))
    for name in ("gpt-learned", "rnn-lm-rnn"):
        with pytest.raises(ConfigError, match="no source"):
            build(name).start(source)
    for name in ("transformer-sinusoidal", "seq2seq-gru"):
        with pytest.raises(ConfigError, match="needs a source"):
            build(name).start()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: build_model(replace(GPT, width=18)), "width=18 is not divisible by heads=4"),
        (lambda: build_model(replace(GPT, kv_heads=3)), "kv_heads=3 does not divide heads=4"),
        (lambda: build_model(replace(GPT, position="rotray")), "position='rotray', allowed: None, RawIndex"),
        (lambda: build_model(replace(GPT, position=Fraction())), "a causal model does not know the length"),
        (lambda: build_model(replace(GPT, activation="tanh")), "activation='tanh', allowed: relu"),
        (lambda: build_model(replace(GPT, kernel="fast")), "kernel='fast', allowed: auto, reference"),
        (lambda: build_model(replace(GPT, dropout=1.5)), r"dropout=1\.5, allowed"),
        (lambda: build_model(replace(GPT, vocab=0)), "vocab=0"),
        (lambda: build_model(replace(GPT, width=0)), "width=0, allowed: whole numbers from 1"),
        (lambda: build_model(replace(GPT, width=-4)), "width=-4"),
        (lambda: build_model(replace(GPT, context=0)), "context=0"),
        (lambda: build_model(replace(GPT, layers=-1)), "layers=-1"),
        (lambda: build_model(replace(GPT, inner=0)), "inner=0"),
        (lambda: build_model(replace(GPT, norm="rms-norm")), "norm='rms-norm', allowed: None, LayerNorm"),
        (lambda: build_model(replace(GPT, norm=BatchNorm())), "BatchNorm: a causal model must not see later tokens"),
        (lambda: build_model(replace(TRANSLATOR, attention_dropout=1.5)), r"dropout=1\.5"),
        (lambda: build_model("gpt2"), "'gpt2' is not a registered model config"),
        (lambda: build_model(type("GptConfig", (), {})()), "is not a registered model config"),
        (lambda: RnnLmConfig(vocab=5, recurrent=GRU, input="onehot"), "input='onehot', allowed: embedding, one-hot"),
        (lambda: RecurrentConfig(hidden=4, layers=0), "layers=0"),
        (lambda: RecurrentConfig(hidden=4, cell="elman"), "cell='elman', allowed: rnn, gru, lstm"),
        (lambda: replace(SEQ2SEQ, decoder=replace(GRU, bidirectional=True)), "bidirectional"),
        (lambda: replace(SEQ2SEQ, decoder=replace(GRU, cell="lstm")), "'gru' and decoder.cell='lstm' must agree"),
        (lambda: replace(ATTENTIVE, context=("output",)), "context use 'output', allowed: readout"),
        (lambda: replace(ATTENTIVE, context=()), "leaves the attention unused"),
        (lambda: replace(ATTENTIVE, context=("next_layer",)), r"needs decoder.layers >= 2, got 1"),
    ],
)
def test_configs_that_make_no_sense(make, message):
    with pytest.raises(HeadwayError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_every_translation_model_checks_its_source():
    for name in TRANSLATION:
        batch = text(name)
        batch.source[0, 0] = 99
        with pytest.raises(DataError, match="token id 99"):
            outputs(build(name), batch)


@each
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
def test_tokens_that_are_no_ids(name, dtype):
    batch = text(name)
    with pytest.raises(ShapeError, match="expected integer ids"):
        outputs(build(name), Text(batch.tokens.to(dtype), None, batch.source))


def test_a_step_with_other_rows_than_the_cache():
    model = build("gpt-rotary")
    _, state = model.extend(torch.zeros(3, 2, dtype=torch.long), model.start())
    with pytest.raises(ShapeError, match="2 rows of tokens for a cache of 3 rows"):
        model.extend(torch.zeros(2, 1, dtype=torch.long), state)


def test_alibi_keeps_its_slopes_in_a_model_of_sixteen_bits():
    bias = build("gpt-alibi").bfloat16().stack.attention_positions(torch.arange(3), 0).bias
    assert bias.slopes.dtype == torch.float32


def test_a_decoder_without_layers_is_refused():
    with pytest.raises(ConfigError, match="decoder_layers=0, allowed: whole numbers from 1"):
        EncoderDecoderConfig(vocab=5, decoder_layers=0)
