"""Ranks against a sort of all scores, alignment and uniformity against the formulas of the paper."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headway.metrics import retrieval
from headway.metrics.retrieval import alignment, retrieval_ranks, uniformity


def unit(rows: int, width: int, seed: int) -> torch.Tensor:
    return torch.nn.functional.normalize(torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)))


@pytest.mark.parametrize("block", [1, 40, 1 << 24])
def test_ranks_are_those_of_sorted_scores(monkeypatch, block):
    monkeypatch.setattr(retrieval, "BLOCK", block)
    queries, candidates = unit(9, 6, 0), unit(14, 6, 1)
    random = np.random.default_rng(0)
    right = np.array([(q, m) for q in range(9) for m in random.choice(14, 1 + q % 3, replace=False)])
    report, nearest = retrieval_ranks(queries, candidates, right)
    scores = queries @ candidates.T
    for q in range(9):
        order = scores[q].argsort(descending=True).tolist()
        own = {m for each, m in right if each == q}
        wrong_before = 0
        for m in order:
            if m in own:
                break
            wrong_before += 1
        assert report.ranks[q] == 1 + wrong_before
        assert nearest[q] == order[0]
    assert report.recall(1) == (report.ranks == 1).mean()
    assert report.recall(5) == (report.ranks <= 5).mean()
    assert report.mrr == pytest.approx(np.mean([1 / rank for rank in report.ranks]))


def test_vectors_that_are_all_alike_find_nothing():
    same = torch.ones(5, 3) / 3**0.5
    report, _ = retrieval_ranks(same, same, np.stack([np.arange(5)] * 2, 1))
    assert report.ranks.tolist() == [5] * 5
    assert report.recall(1) == 0.0


@pytest.mark.parametrize("block", [30, 1 << 24])
def test_alignment_and_uniformity_are_those_of_the_paper(monkeypatch, block):
    """Wang and Isola 2020, section 4.1, written with torch.pdist."""
    monkeypatch.setattr(retrieval, "BLOCK", block)
    first, second = unit(30, 8, 0), unit(30, 8, 1)
    assert alignment(first, second) == pytest.approx(float((first - second).norm(dim=1).pow(2).mean()), abs=1e-6)
    expected = float(torch.pdist(first, p=2).pow(2).mul(-2).exp().mean().log())
    assert uniformity(first) == pytest.approx(expected, abs=1e-5)
