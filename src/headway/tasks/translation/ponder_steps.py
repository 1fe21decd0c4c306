"""How long a Universal Transformer thinks about each token of a text: what a ponder map is drawn from (FACTS §16)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from headway.data.tokenizers import Tokenizer
from headway.errors import DataError
from headway.models import Universal
from headway.tasks.translation.training import TranslationTask, before_source


@dataclass(frozen=True, slots=True)
class Thought:
    """Tokens as they are written, the stop token last, and the steps taken: to read each, and to choose each."""

    source: tuple[str, ...]
    source_steps: tuple[int, ...]
    target: tuple[str, ...]
    target_steps: tuple[int, ...]


def thoughts(
    model: Universal, task: TranslationTask, device: torch.device, lines: Sequence[str], said: Sequence[str]
) -> list[Thought]:
    """The thought behind each line and what was said of it. Raises DataError for an empty line, or unequal counts."""
    if len(lines) != len(said):
        raise DataError(f"{len(lines)} lines and {len(said)} translations; expected as many")
    return [_thought(model, task, device, line, text) for line, text in zip(lines, said, strict=True)]


def _thought(model: Universal, task: TranslationTask, device: torch.device, line: str, text: str) -> Thought:
    reader, writer = task.source_tokenizer, task.target_tokenizer
    source = [*before_source(reader), *reader.encode(line), reader.stop]
    if len(source) == 1:
        raise DataError("an empty line: there is nothing to think about")
    target = [*writer.encode(text), writer.stop]
    # A position's input is the token before the one it chooses.
    read, shown = (torch.tensor([ids], device=device) for ids in (source, [writer.start, *target[:-1]]))
    steps = model.ponder(read, shown)
    return Thought(
        _pieces(reader, source),
        tuple(steps.source[0].tolist()),
        _pieces(writer, target),
        tuple(steps.target[0].tolist()),
    )


def _pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[str, ...]:
    return tuple(tokenizer.token(index) for index in ids)
