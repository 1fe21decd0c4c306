"""Decoding of connectionist temporal classification (Graves et al. 2006): best path and prefix beam search.

A model gives a distribution over tokens and a blank for every moment. A path names one of them for each moment; the
text of a path has repeated tokens merged, then blanks removed, and its probability is the sum over its paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from headway.decoding.beam import Hypothesis
from headway.decoding.non_finite import expect_finite
from headway.errors import ConfigError
from headway.limits import expect_within

Floats = NDArray[np.float64]
Prefix = tuple[int, ...]


def collapsed(path: Sequence[int], blank: int) -> list[int]:
    """The text of a path: repeated tokens merged, then blanks removed (Graves et al. 2006, section 3.1)."""
    return [token for token, _ in groupby(path) if token != blank]


def needed_moments(tokens: Sequence[int]) -> int:
    """The fewest moments that a text fits: one for each token, and a blank between two that are equal."""
    return len(tokens) + sum(one == two for one, two in pairwise(tokens))


@torch.inference_mode()
def ctc_search(
    logits_BTV: Tensor, lengths_B: Tensor | None, *, blank: int, width: int, n_best: int = 1
) -> list[list[Hypothesis]]:
    """The `n_best` texts of each row, best first; width 1 is the best path (section 3.2), else a prefix beam search.

    The log-probability of a text is that of all its paths, by the forward algorithm. Raises NonFiniteOutputError for
    logits that are NaN or infinite.
    """
    expect_within("beam", width, "beam")
    if not 1 <= n_best <= width:
        raise ConfigError(f"beam={width} and n_best={n_best}: beam must be >= 1 and n_best between 1 and beam")
    expect_finite(logits_BTV)
    log_probs = logits_BTV.double().log_softmax(-1)
    counts = [logits_BTV.shape[1]] * len(logits_BTV) if lengths_B is None else lengths_B.tolist()
    found = []
    for row, count in zip(log_probs, counts, strict=True):
        if width == 1:
            texts = [collapsed(row[:count].argmax(-1).tolist(), blank)]
        else:
            texts = [list(prefix) for prefix, _ in prefix_beam(row[:count].cpu().numpy(), blank=blank, width=width)]
        scored = [(tokens, text_log_probability(row[:count], tokens, blank)) for tokens in texts[:n_best]]
        scored.sort(key=lambda each: -each[1])  # the search knows a lower bound of each only
        found.append([Hypothesis(tokens, nats, nats) for tokens, nats in scored])
    return found


def text_log_probability(log_probs_TV: Tensor, tokens: Sequence[int], blank: int) -> float:
    """The log-probability of a text, summed over all its paths (Graves et al. 2006, equations 6 to 8)."""
    targets = torch.tensor([list(tokens)], dtype=torch.long, device=log_probs_TV.device)
    sizes = (torch.tensor([len(log_probs_TV)]), torch.tensor([len(tokens)]))
    return -float(F.ctc_loss(log_probs_TV.unsqueeze(1), targets, *sizes, blank=blank, reduction="sum"))


def prefix_beam(log_probs_TV: Floats, *, blank: int, width: int) -> list[tuple[Prefix, float]]:
    """The texts with the largest log-probability (T, V), best first, at most `width` kept at every moment.

    A text that is kept has two log-probabilities, of its paths that end with a blank and of those that end with its
    last token: only after a blank may the same token come again. What a text that was dropped would have added to
    others is lost, so that a log-probability is exact only if nothing was dropped, else a lower bound.
    """
    prefixes: list[Prefix] = [()]
    blanks, tokens = np.zeros(1), np.full(1, -np.inf)  # by how a path ends
    for now in log_probs_TV:
        count, either = len(prefixes), np.logaddexp(blanks, tokens)
        last = np.asarray([prefix[-1] if prefix else blank for prefix in prefixes])
        grown = either[:, None] + now  # (prefixes, V): longer by a token
        grown[np.arange(count), last] = blanks + now[last]
        grown[:, blank] = -np.inf
        stay_blank = either + now[blank]
        stay_token = np.where(last == blank, -np.inf, tokens + now[last])
        known = {prefix: n for n, prefix in enumerate(prefixes)}
        for n, prefix in enumerate(prefixes):  # a longer text that is kept already
            parent = known.get(prefix[:-1]) if prefix else None
            if parent is not None:
                stay_token[n] = np.logaddexp(stay_token[n], grown[parent, prefix[-1]])
                grown[parent, prefix[-1]] = -np.inf
        scores = np.concatenate([np.logaddexp(stay_blank, stay_token), grown.reshape(-1)])
        best = np.argsort(-scores, kind="stable")[:width]
        best = best[scores[best] > -np.inf]
        stays, (parents, added) = best < count, np.divmod(np.maximum(best - count, 0), now.shape[0])
        prefixes = [
            prefixes[n] if stay else (*prefixes[parent], int(token))
            for n, stay, parent, token in zip(best, stays, parents, added, strict=True)
        ]
        kept = np.minimum(best, count - 1)
        blanks = np.where(stays, stay_blank[kept], -np.inf)
        tokens = np.where(stays, stay_token[kept], scores[best])
    totals = np.logaddexp(blanks, tokens)
    return sorted(zip(prefixes, totals.tolist(), strict=True), key=lambda each: -each[1])
