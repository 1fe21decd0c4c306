"""CTC decoding against brute force over all paths."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import product

import numpy as np
import pytest
import torch

from headway.decoding.ctc import collapsed, ctc_search, needed_moments, prefix_beam, text_log_probability
from headway.errors import ConfigError, NonFiniteOutputError

CASES = [(moments, tokens, seed) for moments in (1, 2, 3, 4, 5) for tokens in (1, 2, 3) for seed in (0, 1, 2)]


def drawn(moments: int, tokens: int, seed: int) -> torch.Tensor:
    """Logits (1, T, tokens + 1), the last one of the blank."""
    return 2 * torch.randn(1, moments, tokens + 1, generator=torch.Generator().manual_seed(seed))


def all_texts(logits_TV: torch.Tensor, blank: int) -> dict[tuple[int, ...], float]:
    """The probability of every text, summed over every path there is."""
    shares = logits_TV.double().softmax(-1).tolist()
    found: dict[tuple[int, ...], float] = defaultdict(float)
    for path in product(range(len(shares[0])), repeat=len(shares)):
        found[tuple(collapsed(path, blank))] += math.prod(row[token] for row, token in zip(shares, path, strict=True))
    return found


@pytest.mark.parametrize(("moments", "tokens", "seed"), CASES)
def test_a_wide_prefix_beam_finds_every_text_with_its_probability(moments, tokens, seed):
    logits = drawn(moments, tokens, seed)
    expected = all_texts(logits[0], tokens)
    found = prefix_beam(logits[0].double().log_softmax(-1).numpy(), blank=tokens, width=10_000)
    assert {prefix: math.exp(nats) for prefix, nats in found} == pytest.approx(
        {text: share for text, share in expected.items() if share > 0}, abs=1e-12
    )
    assert [nats for _, nats in found] == sorted((nats for _, nats in found), reverse=True)
    best = ctc_search(logits, None, blank=tokens, width=200, n_best=1)[0][0]
    assert tuple(best.tokens) == max(expected, key=expected.__getitem__)
    assert best.log_probability == pytest.approx(math.log(max(expected.values())), abs=1e-9)


def test_the_probability_of_a_text_is_the_sum_over_its_paths():
    logits = drawn(5, 3, 7)
    for text, share in all_texts(logits[0], 3).items():
        assert text_log_probability(logits[0].double().log_softmax(-1), text, 3) == pytest.approx(math.log(share))


def test_greedy_is_the_best_path_and_a_beam_may_do_better():
    """Graves et al. 2006, figure 2: the best path is blank, blank, the best text is the token."""
    shares = torch.tensor([[[0.4, 0.6], [0.4, 0.6]]])
    greedy, wide = (ctc_search(shares.log(), None, blank=1, width=width)[0][0] for width in (1, 4))
    assert (greedy.tokens, wide.tokens) == ([], [0])
    assert math.exp(greedy.log_probability) == pytest.approx(0.36)
    assert math.exp(wide.log_probability) == pytest.approx(0.64)


def test_a_wider_beam_is_never_worse_over_many_sounds():
    logits = drawn(12, 5, 3).expand(1, -1, -1)
    logits = torch.cat([drawn(12, 5, seed) for seed in range(30)])
    totals = [
        sum(each[0].log_probability for each in ctc_search(logits, None, blank=5, width=width)) for width in (1, 4, 32)
    ]
    assert totals[0] < totals[1] <= totals[2] + 1e-9


@pytest.mark.parametrize("width", [1, 4])
def test_what_lies_behind_a_sound_does_not_matter(width):
    logits = torch.cat([drawn(9, 4, seed) for seed in range(4)])
    lengths = torch.tensor([9, 5, 1, 7])
    found = ctc_search(logits, lengths, blank=4, width=width)
    for row, length in enumerate(lengths.tolist()):
        (alone,) = ctc_search(logits[row : row + 1, :length], None, blank=4, width=width)
        assert found[row] == alone


def test_n_best_are_different_texts_best_first():
    found = ctc_search(drawn(6, 3, 1), None, blank=3, width=8, n_best=5)[0]
    assert len({tuple(each.tokens) for each in found}) == 5
    kept = [nats for _, nats in prefix_beam(drawn(6, 3, 1)[0].double().log_softmax(-1).numpy(), blank=3, width=8)]
    assert all(bound <= each.log_probability + 1e-9 for bound, each in zip(kept, found, strict=False))


def test_a_narrow_search_gives_its_texts_in_the_order_of_their_probabilities():
    for seed in range(40):
        found = ctc_search(drawn(8, 4, seed), None, blank=4, width=3, n_best=3)[0]
        nats = [each.log_probability for each in found]
        assert nats == sorted(nats, reverse=True), seed


def test_moments_that_a_text_needs():
    assert needed_moments([]) == 0
    assert needed_moments([1, 2, 3]) == 3
    assert needed_moments([1, 1, 2, 2, 2]) == 8
    enough, short = (torch.zeros(count, 4).double().log_softmax(-1) for count in (8, 7))
    assert math.isfinite(text_log_probability(enough, [1, 1, 2, 2, 2], 3))
    assert math.isinf(text_log_probability(short, [1, 1, 2, 2, 2], 3))


def test_bad_input():
    with pytest.raises(ConfigError, match="beam=2 and n_best=3"):
        ctc_search(drawn(3, 2, 0), None, blank=2, width=2, n_best=3)
    bad = torch.cat([drawn(3, 2, 0), np.nan * drawn(3, 2, 0)])
    with pytest.raises(NonFiniteOutputError, match="sequence 2: the model's output is NaN"):
        ctc_search(bad, None, blank=2, width=2)
