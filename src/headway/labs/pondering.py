"""Where a Universal Transformer thinks longer: sums, column by column (FACTS §16).

Each column of a sum is one token, and the encoder sees one column to each side, so that a carry travels a column a
step. What a column's digit is, its right neighbour mostly tells; but where that one adds up to nine, the one after it
has to be asked, and so on. A token that may halt when it knows enough should take more steps there, and does. With a
look at all columns at once two steps are enough for every sum, and there is nothing to see.
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
NINES = 0.4  # of the columns of drawn sums: among random ones carries hardly ever travel
ROWS = 96  # of a batch, half of them from the built-in set


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums (N, C), the highest column first."""

    pairs: Tensor  # 10·a + b, the tokens
    digits: Tensor  # of the sum
    carries: Tensor  # 1 where the column gets one
    chains: Tensor  # how many columns to the right have to be asked for it: none at the right end

    def rows(self, index: Tensor) -> Sums:
        """Some of them."""
        return Sums(self.pairs[index], self.digits[index], self.carries[index], self.chains[index])

    def beside(self, other: Sums) -> Sums:
        """These and others."""
        mine, theirs = ((s.pairs, s.digits, s.carries, s.chains) for s in (self, other))
        return Sums(*(torch.cat(both) for both in zip(mine, theirs, strict=True)))


def sums(a_NC: Tensor, b_NC: Tensor) -> Sums:
    """The sums of numbers given by their digits."""
    both = a_NC + b_NC
    carries, chains = torch.zeros_like(both), torch.zeros_like(both)
    for column in range(both.shape[1] - 2, -1, -1):
        right = both[:, column + 1]
        carries[:, column] = (right + carries[:, column + 1] >= 10).long()
        chains[:, column] = torch.where(right == 9, chains[:, column + 1] + 1, 1)
    return Sums(10 * a_NC + b_NC, (both + carries) % 10, carries, chains)


def built_in(split: str) -> Sums:
    """The sums of the set `addition`."""
    pairs = [source.replace(" ", "").split("+") for source, _ in load_parallel("addition", "", "").pairs(split)]
    numbers = torch.tensor([[[int(digit) for digit in part.zfill(COLUMNS)] for part in pair] for pair in pairs])
    return sums(numbers[:, 0], numbers[:, 1])


def drawn(count: int, generator: torch.Generator) -> Sums:
    """Sums in which carries travel: many of their columns add up to nine."""
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
    """Train on the built-in set and on sums in which carries travel, under cross-entropy and ponder cost."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = Adder()
    generator, seen = torch.Generator().manual_seed(seed + 1), built_in("train")
    optimiser = torch.optim.Adam(model.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda k: min(1.0, (k + 1) / 100) * (1 - k / steps))
    for step in range(steps):
        index = torch.randint(len(seen.pairs), (ROWS // 2,), generator=generator)
        batch = drawn(ROWS // 2, generator).beside(seen.rows(index))
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
def thought(model: Adder, data: Sums) -> tuple[Tensor, Tensor]:
    """Which digits are right, and the steps their columns took, both (N, C)."""
    with record_steps(model) as heard:
        right = model(data.pairs).argmax(-1) == data.digits
    return right, heard[0][1]


def by_chain(steps_NC: Tensor, data: Sums) -> dict[int, tuple[float, int]]:
    """Mean steps, and how many columns, for each number of columns that have to be asked."""
    return {
        int(length): (float(steps_NC[data.chains == length].float().mean()), int((data.chains == length).sum()))
        for length in data.chains.unique()
    }


def correlation(steps_NC: Tensor, what_NC: Tensor) -> float:
    """Pearson's, over all columns."""
    return float(torch.corrcoef(torch.stack([steps_NC.flatten().float(), what_NC.flatten().float()]))[0, 1])
