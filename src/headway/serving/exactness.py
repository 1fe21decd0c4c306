"""Does a request get the same bits alone and among others, on this machine, with this model? Asked at the start.

It depends on how the libraries below torch choose and divide their products, so that it is measured, not assumed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from headway.decoding.row_batch import Prefill, RowBatch
from headway.models.stepper import RowStepper

SIZES = (2, 4, 5, 9, 17, 32)  # rows among which a row is compared with itself alone, and the most there may be
MOST = 64  # rows that are compared, which take a second or two
STEPS = 2


def is_exact(model: RowStepper[Any], *, vocab: int, context: int, rows: int = SIZES[-1], seed: int = 0) -> bool:
    """Whether every logit of some random rows, each of its own length, is the same to the bit alone and together."""
    draw = random.Random(seed)
    longest = max(1, min(48, context - STEPS))
    prompts = [[draw.randrange(vocab) for _ in range(draw.randint(1, longest))] for _ in range(min(rows, MOST))]
    tokens = [[draw.randrange(vocab) for _ in range(STEPS)] for _ in prompts]
    alone = [_logits(model, [prompt], [each]) for prompt, each in zip(prompts, tokens, strict=True)]
    for size in sorted({min(size, len(prompts)) for size in (*SIZES, MOST)}):
        first = draw.randint(0, len(prompts) - size)
        some = slice(first, first + size)
        together = _logits(model, prompts[some], tokens[some])
        if not torch.equal(together, torch.cat(alone[some], 1)):
            return False
    return True


def _logits(model: RowStepper[Any], prompts: Sequence[Sequence[int]], tokens: Sequence[Sequence[int]]) -> Tensor:
    """(steps, B, V) of rows that step together."""
    batch: RowBatch[Any] = RowBatch(model)
    for prompt in prompts:
        prefill: Prefill[Any] = Prefill(model, prompt)
        while not prefill.done:
            prefill.advance()
        batch.add(prefill.state)
    return torch.stack([batch.step([each[step] for each in tokens]).clone() for step in range(STEPS)])
