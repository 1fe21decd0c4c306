from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from headway.decoding.ensemble import Ensemble
from headway.errors import ConfigError
from headway.models import EncoderInput, build_model
from tests.decoding.calls import draw, search
from tests.models.tiny import TRANSLATOR, VOCAB, build

SETTINGS = {"start": 2, "stop": 3, "beam": 3, "n_best": 3, "max_tokens": 10}


def source(rows: int = 12) -> EncoderInput:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, VOCAB, (rows, 6), generator=generator)
    return EncoderInput(tokens, torch.randint(1, 7, (rows,), generator=generator))


def test_an_ensemble_of_one_is_that_model():
    model = build("transformer-sinusoidal")
    assert search(Ensemble([model]), source(), **SETTINGS) == search(model, source(), **SETTINGS)


def test_the_mean_is_of_probabilities():
    models = [build("transformer-sinusoidal"), build("seq2seq-context-all"), build("transformer-alibi")]
    asked, tokens = source(3), torch.tensor([[2, 5, 9]] * 3)
    for weights, shares in ((None, [1 / 3] * 3), ([1, 2, 5], [1 / 8, 2 / 8, 5 / 8])):
        together = Ensemble(models, weights)
        with torch.no_grad():
            logits, _ = together.extend(tokens, together.start(asked))
            apart = [model(asked.tokens, tokens, asked.lengths).softmax(-1) for model in models]
        torch.testing.assert_close(logits.exp(), sum(w * p for w, p in zip(shares, apart, strict=True)))
        torch.testing.assert_close(logits.softmax(-1), logits.exp())


def test_an_ensemble_of_equal_models_decodes_as_one():
    model = build("transformer-sinusoidal")
    alone, twins = (search(each, source(), **SETTINGS) for each in (model, Ensemble([model, model])))
    assert [[line.tokens for line in row] for row in alone] == [[line.tokens for line in row] for row in twins]


def test_it_samples_too():
    models = [build("gpt-rotary"), build("rnn-lm-rnn")]
    lines = draw(Ensemble(models), torch.full((3, 2), 5), stop=3, max_tokens=9)
    assert len(lines) == 3


def test_invalid_ensembles_are_rejected():
    other = build_model(replace(TRANSLATOR, vocab=VOCAB + 1))
    with pytest.raises(ConfigError, match="one vocabulary, got sizes 23, 24"):
        Ensemble([build("transformer-none"), other])
    with pytest.raises(ConfigError, match="no models"):
        Ensemble([])
    with pytest.raises(ConfigError, match="expected one above 0 for each"):
        Ensemble([other], [0.0])
