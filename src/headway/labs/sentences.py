"""A recurrent language model (Mikolov et al. 2010) trained on three sentences.

The lowest possible loss is 3·ln 3 / 19 nats per token: after "I" three continuations are possible, the rest is certain.
Without feeding tokens back, the model learns the distribution of each position, but its samples are nonsense.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.decoding.limits import SequenceLimits
from headway.decoding.sampling import sample
from headway.models import RnnLm, RnnLmConfig, build_model
from headway.nn.recurrent import RecurrentConfig

SENTENCES = ("I think therefore I am", "I like machine learning", "I am not just a neural network")
PAD, START, EOS = "<pad>", "<start>", "<eos>"
WORDS = (PAD, START, EOS, *sorted({word for sentence in SENTENCES for word in sentence.split()}))
IDS = {word: index for index, word in enumerate(WORDS)}
FLOOR = 3 * math.log(3) / sum(len(sentence.split()) + 1 for sentence in SENTENCES)


@dataclass(frozen=True, slots=True)
class SentenceBatch:
    """Inputs START, w_1 … w_n and targets w_1 … w_n, EOS, padded (B, T)."""

    inputs: Tensor
    targets: Tensor


def batch(*, feed_back: bool = True) -> SentenceBatch:
    """The three sentences; without feedback the input is START at every step."""
    rows = [[IDS[word] for word in sentence.split()] for sentence in SENTENCES]
    length = max(map(len, rows)) + 1
    inputs = torch.full((len(rows), length), IDS[PAD])
    targets = inputs.clone()
    for b, row in enumerate(rows):
        inputs[b, : len(row) + 1] = torch.tensor([IDS[START], *row])
        targets[b, : len(row) + 1] = torch.tensor([*row, IDS[EOS]])
    if not feed_back:
        inputs[:] = IDS[START]
    return SentenceBatch(inputs, targets)


def loss(model: RnnLm, data: SentenceBatch) -> Tensor:
    """Mean nats per target token, without padding."""
    logits = model(data.inputs)
    return F.cross_entropy(logits.flatten(0, 1), data.targets.flatten(), ignore_index=IDS[PAD])


def train(
    *,
    steps: int = 400,
    seed: int = 0,
    feed_back: bool = True,
    progress: Callable[[int, float], None] = lambda step, nats: None,
) -> tuple[RnnLm, float]:
    """Train a GRU of 32 units on the three sentences -> the model and its loss in nats per token."""
    config = RnnLmConfig(vocab=len(WORDS), recurrent=RecurrentConfig(hidden=32, cell="gru"), input="one-hot")
    model = cast(RnnLm, build_model(config, seed=seed))
    data = batch(feed_back=feed_back)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.01, steps)
    for step in range(steps):
        nats = loss(model, data)
        optimiser.zero_grad()
        nats.backward()
        optimiser.step()
        schedule.step()
        progress(step + 1, nats.item())
    model.eval()
    with torch.no_grad():
        return model, loss(model, data).item()


def samples(model: RnnLm, count: int, *, seed: int = 0, feed_back: bool = True) -> list[str]:
    """`count` sentences sampled from the model."""
    limits = SequenceLimits(start=torch.full((count, 1), IDS[START]), stop=IDS[EOS], max_tokens=12)
    lines = sample(model, limits, seed=seed, feed_back=feed_back)
    return [" ".join(WORDS[token] for token in line) for line in lines]


def share_of_sentences(lines: list[str]) -> float:
    """The fraction of lines that are one of the three sentences."""
    return sum(line in SENTENCES for line in lines) / len(lines)
