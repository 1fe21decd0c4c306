from __future__ import annotations

import hypothesis
import pytest
import torch
from hypothesis import strategies as st

from headway.decoding.beam import BeamStep, length_penalty
from headway.decoding.beam_topk import BLOCK, best
from headway.errors import ConfigError
from headway.models import EncoderInput
from tests.decoding.calls import search
from tests.models.tiny import VOCAB, build

START, STOP = 2, 3


def source(rows: int, seed: int = 0) -> EncoderInput:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, VOCAB, (rows, 6), generator=generator)
    return EncoderInput(tokens, torch.randint(1, 7, (rows,), generator=generator))


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
    together = search(model, given, **settings)
    for row in range(12):
        alone = search(model, EncoderInput(given.tokens[[row], : given.lengths[row]]), **settings)[0]
        assert [line.tokens for line in alone] == [line.tokens for line in together[row]]
        scores = [line.score for line in together[row]]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(line.tokens) for line in together[row]}) == len(together[row])


def test_a_wider_beam_finds_likelier_hypotheses_in_total():
    model, given = build("transformer-sinusoidal"), source(60)
    settings = {"start": START, "stop": STOP, "max_tokens": 12, "alpha": 0.0}
    narrow, wide = (search(model, given, beam=beam, **settings) for beam in (1, 5))
    assert sum(x[0].log_probability for x in wide) > sum(x[0].log_probability for x in narrow)


class Notes:
    def __init__(self) -> None:
        self.steps: list[BeamStep] = []

    def step(self, step: BeamStep) -> None:
        self.steps.append(step)


def replayed(steps: list[BeamStep], rows: int) -> list[list[tuple[list[int], float]]]:
    """Every finished hypothesis and its score, from the recorded steps alone."""
    found, lines = [[] for _ in range(rows)], {row: [[]] for row in range(rows)}
    lengths = dict.fromkeys(range(rows), 0)
    for step in steps:
        for n, row in enumerate(step.rows.tolist()):
            assert step.totals[n].tolist() == sorted(step.totals[n].tolist(), reverse=True) or not step.kept.numel()
            cut = step.length == lengths[row]
            lengths[row] = step.length
            grown = [
                lines[row][parent] if cut else [*lines[row][parent], word]
                for parent, word in zip(step.parents[n].tolist(), step.tokens[n].tolist(), strict=True)
            ]
            for line, total, ended in zip(grown, step.totals[n].tolist(), step.ended[n].tolist(), strict=True):
                if ended:
                    found[row].append((line if cut else line[:-1], total / step.norm))
            lines[row] = [grown[index] for index in step.kept[n].tolist()]
    return found


@pytest.mark.parametrize("stop_rule", ["first", "best"])
@pytest.mark.parametrize("groups", [1, 2])
def test_the_record_of_a_search_holds_every_hypothesis_it_found(stop_rule, groups):
    model, given, notes = build("transformer-alibi"), source(9), Notes()
    limits = torch.tensor([5, 6, 7, 5, 6, 7, 9, 1, 2])
    settings = {"start": START, "stop": STOP, "beam": 4, "n_best": 4, "stop_rule": stop_rule, "groups": groups}
    found = search(model, given, max_tokens=limits, recorder=notes, **settings)
    again = replayed(notes.steps, 9)
    for row, lines in enumerate(found):
        best = dict(sorted(((tuple(line), score) for line, score in again[row]), key=lambda each: each[1]))
        ranked = sorted(best.items(), key=lambda each: -each[1])[:4]
        assert [list(line) for line, _ in ranked] == [line.tokens for line in lines]
        assert [score for _, score in ranked] == pytest.approx([line.score for line in lines], abs=1e-6)
        assert all(len(line.tokens) <= int(limits[row]) for line in lines)
        assert all(line.stopped == (len(line.tokens) < int(limits[row])) or line.stopped for line in lines)
    assert search(model, given, max_tokens=limits, **settings) == found


def test_a_limit_of_its_own_is_the_limit_a_row_has_alone():
    model, given = build("transformer-sinusoidal"), source(8)
    limits = torch.arange(1, 9)
    settings = {"start": START, "stop": STOP, "beam": 3, "n_best": 3}
    together = search(model, given, max_tokens=limits, **settings)
    for row in range(8):
        one = EncoderInput(given.tokens[[row], : given.lengths[row]])
        alone = search(model, one, max_tokens=row + 1, **settings)[0]
        assert [line.tokens for line in alone] == [line.tokens for line in together[row]]
        assert [line.stopped for line in alone] == [line.stopped for line in together[row]]


def test_the_rule_best_never_finds_worse_hypotheses_than_the_rule_first():
    model, given = build("transformer-sinusoidal"), source(40)
    better = 0
    for alpha, penalty in ((0.0, "gnmt"), (0.6, "gnmt"), (1.0, "mean"), (2.0, "gnmt")):
        settings = {"start": START, "stop": STOP, "beam": 3, "max_tokens": 12, "alpha": alpha, "penalty": penalty}
        first, best = (search(model, given, stop_rule=rule, **settings) for rule in ("first", "best"))
        gains = [b[0].score - f[0].score for f, b in zip(first, best, strict=True)]
        assert min(gains) >= -1e-6
        better += sum(gain > 1e-6 for gain in gains)
    assert better


def test_groups_begin_with_different_words_and_the_same_without_a_penalty():
    model, given = build("transformer-sinusoidal"), source(20)
    settings = {"start": START, "stop": STOP, "beam": 4, "n_best": 4, "groups": 4, "max_tokens": 8}
    apart = search(model, given, diversity=1e4, **settings)
    for lines in apart:
        openings = [line.tokens[:1] for line in lines]
        assert len(lines) == 4
        assert sum(openings.count(opening) > 1 for opening in openings) == 0
    alike = search(model, given, diversity=0.0, **settings)
    greedy = search(model, given, start=START, stop=STOP, beam=1, max_tokens=8)
    assert [[line.tokens for line in lines] for lines in alike] == [[lines[0].tokens] for lines in greedy]


@hypothesis.settings(max_examples=30, deadline=None)
@hypothesis.given(
    seed=st.integers(0, 10_000), beam=st.integers(1, 6), alpha=st.floats(0, 2), limit=st.integers(1, 9),
    penalty=st.sampled_from(["gnmt", "mean"]), stop_rule=st.sampled_from(["first", "best"]), groups=st.integers(1, 3),
)  # fmt: skip
def test_the_n_best_are_sorted_distinct_and_score_what_they_say(seed, beam, alpha, penalty, stop_rule, groups, limit):
    model, width = build("transformer-sinusoidal"), beam * groups
    asked = source(3, seed)
    found = search(
        model, asked, start=START, stop=STOP, beam=width, n_best=width, alpha=alpha, penalty=penalty,
        stop_rule=stop_rule, groups=groups, max_tokens=limit,
    )  # fmt: skip
    for row, lines in enumerate(found):
        assert 1 <= len(lines) <= width
        assert [line.score for line in lines] == sorted((line.score for line in lines), reverse=True)
        assert len({tuple(line.tokens) for line in lines}) == len(lines)
        for line in lines[:2]:
            said = [*line.tokens, STOP] if line.stopped else line.tokens
            assert len(said) <= limit
            inputs = torch.tensor([[START, *said[:-1]]])
            with torch.no_grad():
                nats = model(asked.tokens[[row], : asked.lengths[row]], inputs).log_softmax(-1)[0]
            total = float(nats[torch.arange(len(said)), torch.tensor(said)].sum())
            assert line.log_probability == pytest.approx(total, abs=1e-4)
            assert line.score == pytest.approx(total / length_penalty(len(said), alpha, penalty), abs=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        {"beam": 0}, {"beam": 2, "n_best": 3}, {"max_tokens": 0}, {"penalty": "x"}, {"stop_rule": "last"},
        {"groups": 3}, {"groups": 0}, {"diversity": -1.0}, {"max_tokens": torch.tensor([0])},
    ],
)  # fmt: skip
def test_invalid_settings_are_rejected(settings):
    with pytest.raises(ConfigError):
        search(build("transformer-none"), source(1), start=START, stop=STOP, **settings)


def test_an_empty_batch_and_a_missing_prompt():
    empty = EncoderInput(torch.zeros(0, 3, dtype=torch.long))
    assert search(build("transformer-none"), empty, start=START, stop=STOP) == []
    with pytest.raises(ConfigError, match="neither a source nor a prompt"):
        search(build("gpt-none"), None, start=START, stop=STOP)


@pytest.mark.parametrize("words", [5, 40 * BLOCK - 1, 40 * BLOCK, 41 * BLOCK + 7])
@pytest.mark.parametrize("count", [1, 2, 5, 10])
@pytest.mark.parametrize("width", [1, 3])
def test_the_best_of_the_best_blocks_are_the_best(words, count, width):
    generator = torch.Generator().manual_seed(words)
    x, scores = torch.randn(6, width, words, generator=generator), torch.randn(6, width, generator=generator)
    x[0, 0, -1], x[1, -1, 0] = 19.0, 18.0  # the ends, the part after the last whole block among them
    x[2, -1, : words // 2] = -torch.inf
    scores[3, 0] = -torch.inf if width > 1 else 0.0
    totals, lines, places = best(scores, x, count)
    want = (x + scores.unsqueeze(-1)).flatten(1).topk(min(count, width * words))
    assert torch.equal(totals, want.values)
    assert torch.equal(lines * words + places, want.indices)
