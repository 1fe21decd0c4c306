from __future__ import annotations

import itertools

import pytest
import torch

from headway.decoding.beam import beam_search, length_penalty
from headway.decoding.sampling import sample
from headway.errors import ConfigError
from headway.models import Source
from tests.models.tiny import TRANSLATION, VOCAB, build

START, STOP = 2, 3


def source(rows: int, seed: int = 0) -> Source:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, VOCAB, (rows, 6), generator=generator)
    return Source(tokens, torch.randint(1, 7, (rows,), generator=generator))


@pytest.mark.parametrize("name", ["transformer-sinusoidal", "transformer-t5", "seq2seq-context-all", "seq2seq-gru"])
def test_beam_one_is_greedy(name):
    assert name in TRANSLATION
    model, given = build(name), source(20)
    found = beam_search(model, given, start=START, stop=STOP, beam=1, max_tokens=15)
    greedy = sample(
        model, torch.full((20, 1), START), stop=STOP, max_tokens=15, generator=torch.Generator(), source=given,
        temperature=0,
    )  # fmt: skip
    assert [lines[0].tokens for lines in found] == greedy


@pytest.mark.parametrize(("alpha", "penalty"), [(0.0, "gnmt"), (0.6, "gnmt"), (1.0, "mean")])
def test_a_batch_decodes_as_its_rows_alone(alpha, penalty):
    model, given = build("transformer-sinusoidal"), source(12)
    settings = {
        "start": START,
        "stop": STOP,
        "beam": 4,
        "max_tokens": 12,
        "alpha": alpha,
        "penalty": penalty,
        "n_best": 4,
    }
    together = beam_search(model, given, **settings)
    for row in range(12):
        alone = beam_search(model, Source(given.tokens[[row], : given.lengths[row]]), **settings)[0]
        assert [line.tokens for line in alone] == [line.tokens for line in together[row]]
        scores = [line.score for line in together[row]]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(line.tokens) for line in together[row]}) == len(together[row])


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_a_beam_as_wide_as_the_search_space_is_exhaustive(alpha):
    """Every line of at most three words over the vocabulary, scored by the parallel forward."""
    model, given = build("transformer-sinusoidal"), source(2)
    words = [word for word in range(VOCAB) if word != STOP]
    best = beam_search(model, given, start=START, stop=STOP, beam=VOCAB**2, max_tokens=3, alpha=alpha)
    for row in range(2):
        lines = [[*line, STOP] for n in range(3) for line in itertools.product(words, repeat=n)]
        lines += [list(line) for line in itertools.product(words, repeat=3)]
        scored = []
        for group in (lines[n : n + 4096] for n in range(0, len(lines), 4096)):
            width = max(map(len, group))
            targets = torch.tensor([line + [0] * (width - len(line)) for line in group])
            inputs = torch.cat([torch.full((len(group), 1), START), targets[:, :-1]], 1)
            asked = given.tokens[[row], : given.lengths[row]].expand(len(group), -1)
            with torch.no_grad():
                nats = model(asked, inputs).log_softmax(-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
            for line, each in zip(group, nats, strict=True):
                total = float(each[: len(line)].sum())
                scored.append((total / length_penalty(len(line), alpha, "gnmt"), line))
        score, line = max(scored)
        assert best[row][0].score == pytest.approx(score, abs=1e-5)
        assert best[row][0].tokens == [word for word in line if word != STOP]


def test_a_wider_beam_finds_likelier_lines_on_the_whole():
    model, given = build("transformer-sinusoidal"), source(60)
    settings = {"start": START, "stop": STOP, "max_tokens": 12, "alpha": 0.0}
    narrow, wide = (beam_search(model, given, beam=beam, **settings) for beam in (1, 5))
    assert sum(x[0].log_probability for x in wide) > sum(x[0].log_probability for x in narrow)


@pytest.mark.parametrize("settings", [{"beam": 0}, {"beam": 2, "n_best": 3}, {"max_tokens": 0}, {"penalty": "x"}])
def test_settings_that_make_no_sense(settings):
    with pytest.raises(ConfigError):
        beam_search(build("transformer-none"), source(1), start=START, stop=STOP, **settings)
