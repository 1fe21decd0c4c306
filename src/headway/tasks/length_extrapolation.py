"""Loss by length of a run's text, beyond the lengths of training too (FACTS §19)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from headway.errors import TooLongError
from headway.metrics.loss_by_length import LengthReport, LengthRow, check_lengths
from headway.tasks.language_modelling.training import LanguageTask
from headway.tasks.masked_lm.training import MaskedTask


def by_length(
    task: LanguageTask | MaskedTask,
    model: nn.Module,
    device: torch.device,
    split: str,
    lengths: Sequence[int],
    *,
    stride: int | None = None,
) -> LengthReport:
    """The whole split at each length; a length the model has no positions for is a row that says so.

    `stride` is that of a language model's sliding windows, half their length where it is not given. A masked model's
    rows have no order to slide in. Raises DataError for a length the data does not reach.
    """
    if isinstance(task, LanguageTask):
        tokens = len(task.ids(split))
        check_lengths(lengths, longest=tokens - 1, what=f"split {split!r} has {tokens:,} tokens")
        rows = [_running(task, model, device, split, length, stride) for length in lengths]
        return LengthReport(rows=tuple(rows), trained=task.config.context)
    longest = task.longest(split)
    told = f"with the special tokens around it the longest document of split {split!r} has {longest:,}"
    check_lengths(lengths, longest=longest, what=told)
    rows = [_hidden(task, model, device, split, length) for length in lengths]
    return LengthReport(rows=tuple(rows), trained=task.config.length)


def _running(
    task: LanguageTask, model: nn.Module, device: torch.device, split: str, length: int, stride: int | None
) -> LengthRow:
    step = max(length // 2, 1) if stride is None else stride
    try:
        blocks = task.evaluate(model, device, split, context=length)
        sliding = task.evaluate(model, device, split, context=length, stride=step)
    except TooLongError as error:
        return LengthRow(length=length, refused=str(error))
    return LengthRow(length=length, blocks=blocks, sliding=sliding, stride=step)


def _hidden(task: MaskedTask, model: nn.Module, device: torch.device, split: str, length: int) -> LengthRow:
    try:
        return LengthRow(length=length, blocks=task.scored(model, device, split, length=length))
    except TooLongError as error:
        return LengthRow(length=length, refused=str(error))
