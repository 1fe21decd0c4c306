"""Adaptive computation time in a Universal Transformer (Dehghani et al. 2019) on additions, column by column.

Each column of a sum is one token, and the encoder attends to one column on each side, so that a carry travels one
column per step. A column's digit mostly depends on its right neighbour only; but if that neighbour adds up to nine, it
depends on the next one, and so on. Tokens should take more steps there, and do. With attention to all columns two steps
are enough for every sum, so that there is nothing to observe.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.data.datasets import load_parallel
from headway.nn.adaptive_computation import Adaptive
from headway.nn.attention import AttentionConfig
from headway.nn.block import BlockConfig
from headway.nn.feedforward import FeedForwardConfig
from headway.nn.universal_stack import LoopConfig, record_steps
from headway.ops import Window

COLUMNS = 6  # sums of five digits
WIDTH, HEADS, INNER, CAP = 32, 4, 64, 8
PONDER = 0.01
NINES = 0.4  # share of columns of random sums that add up to nine: otherwise carries rarely travel
ROWS = 96  # of a batch, half of them from the set `addition`


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums (N, C), the most significant column first."""

    pairs: Tensor  # 10·a + b, the tokens
    digits: Tensor  # of the sum
    carries: Tensor  # 1 where the column receives one
    chains: Tensor  # how many columns to the right the carry depends on; 0 at the right end

    def rows(self, index: Tensor) -> Sums:
        """The sums at these indices."""
        return Sums(self.pairs[index], self.digits[index], self.carries[index], self.chains[index])

    def beside(self, other: Sums) -> Sums:
        """Both concatenated."""
        mine, theirs = ((s.pairs, s.digits, s.carries, s.chains) for s in (self, other))
        return Sums(*(torch.cat(both) for both in zip(mine, theirs, strict=True)))


def sums(a_NC: Tensor, b_NC: Tensor) -> Sums:
    """The sums of numbers given by their digits (N, C)."""
    both = a_NC + b_NC
    carries, chains = torch.zeros_like(both), torch.zeros_like(both)
    for column in range(both.shape[1] - 2, -1, -1):
        right = both[:, column + 1]
        carries[:, column] = (right + carries[:, column + 1] >= 10).long()
        chains[:, column] = torch.where(right == 9, chains[:, column + 1] + 1, 1)
    return Sums(10 * a_NC + b_NC, (both + carries) % 10, carries, chains)


def load_sums(split: str) -> Sums:
    """The sums of a split of the data set `addition`."""
    pairs = [source.replace(" ", "").split("+") for source, _ in load_parallel("addition", "", "").pairs(split)]
    numbers = torch.tensor([[[int(digit) for digit in part.zfill(COLUMNS)] for part in pair] for pair in pairs])
    return sums(numbers[:, 0], numbers[:, 1])


def random_sums(count: int, generator: torch.Generator) -> Sums:
    """Random sums in which carries travel: many columns add up to nine."""
    a, b = torch.randint(10, (2, count, COLUMNS), generator=generator)
    b = torch.where(torch.rand(b.shape, generator=generator) < NINES, 9 - a, b)
    a[:, 0] = b[:, 0] = 0
    return sums(a, b)


class Adder(nn.Module):
    """Columns (N, C) -> logits of the sum's digits (N, C, 10)."""

    def __init__(self) -> None:
        super().__init__()
        attention = AttentionConfig(width=WIDTH, heads=HEADS)
        block = BlockConfig(attention=attention, feedforward=FeedForwardConfig(inner=INNER))
        halting = Adaptive(steps=CAP, ponder=PONDER, mixture="accumulated")
        self.embedding = nn.Embedding(100, WIDTH)
        self.loop = LoopConfig(block=block, halting=halting).build()
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, pairs_NC: Tensor) -> Tensor:
        """(N, C) -> (N, C, 10)."""
        logits: Tensor = self.head(self.loop(self.embedding(pairs_NC), mask=Window(1)))
        return logits


def train(
    *, steps: int = 1300, seed: int = 0, progress: Callable[[int, float], None] = lambda step, nats: None
) -> Adder:
    """Train on `addition` and on random sums, with cross-entropy and ponder cost."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = Adder()
    generator, seen = torch.Generator().manual_seed(seed + 1), load_sums("train")
    optimiser = torch.optim.Adam(model.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda k: min(1.0, (k + 1) / 100) * (1 - k / steps))
    for step in range(steps):
        index = torch.randint(len(seen.pairs), (ROWS // 2,), generator=generator)
        batch = random_sums(ROWS // 2, generator).beside(seen.rows(index))
        with record_steps(model) as heard:
            logits = model(batch.pairs)
        nats = F.cross_entropy(logits.flatten(0, 1), batch.digits.flatten())
        optimiser.zero_grad()
        (nats + PONDER * heard[0][2].mean()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        progress(step + 1, nats.item())
    return model.eval()


@torch.no_grad()
def predict(model: Adder, data: Sums) -> tuple[Tensor, Tensor]:
    """Which digits are predicted correctly, and the ACT steps of each column, both (N, C)."""
    with record_steps(model) as heard:
        right = model(data.pairs).argmax(-1) == data.digits
    return right, heard[0][1]


def steps_by_chain(steps_NC: Tensor, data: Sums) -> dict[int, tuple[float, int]]:
    """Mean steps and number of columns for each chain length."""
    return {
        int(length): (float(steps_NC[data.chains == length].float().mean()), int((data.chains == length).sum()))
        for length in data.chains.unique()
    }


def correlation(steps_NC: Tensor, what_NC: Tensor) -> float:
    """Pearson's correlation over all columns."""
    return float(torch.corrcoef(torch.stack([steps_NC.flatten().float(), what_NC.flatten().float()]))[0, 1])
