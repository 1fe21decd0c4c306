"""How many steps a Universal Transformer takes for each token (Dehghani et al. 2019, §2.2): for a ponder map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch

from headway.data.tokenizers import Tokenizer
from headway.errors import DataError
from headway.tasks.translation.search import TranslationSearch, before_source


@runtime_checkable
class Ponders(Protocol):
    """A model that chooses its depth for each token."""

    def ponder(self, source: torch.Tensor, target: torch.Tensor) -> Any:
        """The steps taken for each source and target token."""
        ...


@dataclass(frozen=True, slots=True)
class PonderSteps:
    """Tokens as they are written, the stop token last, and the steps taken: to read each, and to choose each."""

    source: tuple[str, ...]
    source_steps: tuple[int, ...]
    target: tuple[str, ...]
    target_steps: tuple[int, ...]


def ponder_steps(
    model: Ponders, task: TranslationSearch, device: torch.device, lines: Sequence[str], targets: Sequence[str]
) -> list[PonderSteps]:
    """The steps for each line and its translation. Raises DataError for an empty line, or unequal counts."""
    if len(lines) != len(targets):
        raise DataError(f"{len(lines)} lines and {len(targets)} translations; expected the same")
    return [_ponder_steps(model, task, device, line, text) for line, text in zip(lines, targets, strict=True)]


def _ponder_steps(model: Ponders, task: TranslationSearch, device: torch.device, line: str, text: str) -> PonderSteps:
    reader, writer = task.source_tokenizer, task.target_tokenizer
    source = [*before_source(reader), *reader.encode(line), reader.stop]
    if len(source) == 1:
        raise DataError("an empty line has no tokens to ponder")
    target = [*writer.encode(text), writer.stop]
    # A position's input is the token before the one it chooses.
    read, shown = (torch.tensor([ids], device=device) for ids in (source, [writer.start, *target[:-1]]))
    steps = model.ponder(read, shown)
    return PonderSteps(
        _pieces(reader, source),
        tuple(steps.source[0].tolist()),
        _pieces(writer, target),
        tuple(steps.target[0].tolist()),
    )


def _pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[str, ...]:
    return tuple(tokenizer.token(index) for index in ids)
