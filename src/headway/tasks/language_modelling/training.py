"""Training on a token stream, cut into blocks of the model's context, and how well a model predicts it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from headway.counts import counted
from headway.data.batching import Blocks, Indices
from headway.data.mixes import Mix, MixedBlocks, val_split
from headway.data.token_stream import TokenStream
from headway.data.tokenizers import Tokenizer
from headway.decoding.limits import SequenceLimits
from headway.decoding.sampling import GREEDY, Sampling, sample
from headway.errors import ConfigError, DataError
from headway.metrics.accuracy_by_position import PositionReport, position_report
from headway.metrics.language import LanguageReport
from headway.tasks.base import named_split
from headway.tasks.language_modelling.config import Language
from headway.tasks.sharing import in_parts
from headway.tasks.training_task import IGNORED, Batch, Term, Validated, cross_entropy, next_token_loss

EVALUATION_TOKENS = 16384  # in one forward pass of an evaluation
CONTINUED = 64  # blocks of a split that are continued freely


@dataclass(frozen=True, slots=True)
class Continuations:
    """Prompts and what follows each: in the text, as guessed after the text so far, and in the model's own words."""

    prompts: list[list[int]]
    gold: list[list[int]]
    forced: list[list[int]]
    free: list[list[int]]

    @property
    def report(self) -> PositionReport:
        """Accuracy at each position after the prompt."""
        return position_report(self.gold, self.forced, self.free)


class LanguageTraining:
    """Blocks of a token stream, and how well a model predicts it."""

    def __init__(
        self,
        config: Language,
        tokenizer: Tokenizer,
        splits: Mapping[str, TokenStream],
        *,
        batch_tokens: int,
        seed: int,
        mix: Mix | None = None,
        accumulate: int = 1,
    ) -> None:
        self.config, self.tokenizer, self.splits, self.mix = config, tokenizer, splits, mix
        self.batch_tokens, self.seed = batch_tokens, seed  # of `order`, which an evaluation does not need
        self.accumulate = accumulate
        self.steps = 0  # that were taken, as the losses say

    @cached_property
    def order(self) -> Blocks | MixedBlocks:
        """Blocks of the training text in batches. Raises DataError for a text shorter than one."""
        rows = max(self.batch_tokens // self.config.context, 1)
        if self.mix is not None:
            return self.mix.order(self.config.context, rows, self.seed)
        return Blocks(self.splits["train"].total, self.config.context, rows, self.seed)

    @property
    def fixed_shapes(self) -> bool:
        """Whether every batch is full, and no step is unlike the others."""
        return self.config.scheduled is None and self.order.full

    resident = fixed_shapes

    @property
    def most_targets(self) -> None:
        """Each token is a target."""

    def stream(self, step: int, device: torch.device) -> None:
        """The loss draws nothing."""

    def batch(self, indices: Indices) -> Batch:
        """Blocks that begin at these places (B, T)."""
        ids = torch.from_numpy(self.splits["train"].windows(indices, self.config.context + 1))
        return Batch((ids[:, :-1],), ids[:, 1:].contiguous(), ids[:, 1:].numel())

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """Next-token cross-entropy."""
        self.steps = step + 1
        if self.config.scheduled is not None:
            (tokens,) = batch.inputs
            assert tokens is not None
            batch = replace(batch, inputs=(self.config.scheduled.mixed(model, None, tokens, None, step=step),))
        return {"next_token": Term(next_token_loss(model, batch, smoothing), batch.count)}

    def validate(self, model: nn.Module, device: torch.device) -> float | Validated:
        """Nats per token over the whole validation text; of a mix, over each text, and their mean by its weights."""
        order = self.order if self.mix else None
        if self.mix is None or not isinstance(order, MixedBlocks):
            return self.evaluate(model, device, "val").loss
        losses = {each.name: self.evaluate(model, device, val_split(each.name)).loss for each in self.mix.corpora}
        epochs = order.epochs(self.steps * self.accumulate * order.rows)
        return Validated(
            sum(each.weight * losses[each.name] for each in self.mix.corpora),
            {
                **{f"val_loss_{name}": loss for name, loss in losses.items()},
                **{f"epochs_{name}": count for name, count in zip(losses, epochs, strict=True)},
            },
        )

    @torch.no_grad()
    def evaluate(
        self,
        model: nn.Module,
        device: torch.device,
        split: str,
        *,
        context: int | None = None,
        stride: int | None = None,
    ) -> LanguageReport:
        """Every token of a split but its first, once, in windows of `context` tokens (the task's) moved by `stride`.

        Without a stride the windows do not overlap. With one, every token after the first window has at least
        context - stride tokens before it. Raises ConfigError for a stride that would leave tokens out.
        """
        context = self.config.context if context is None else context
        stride = context if stride is None else stride
        if not 1 <= stride <= context:
            raise ConfigError(f"context={context}, stride={stride}: expected 1 <= stride <= context")
        stream = self.text(split)
        batches = windows(stream, context, stride)
        found = in_parts(batches, lambda pair: (float(cross_entropy(model(pair[0].to(device)), pair[1].to(device))),))
        nats = sum(each for (each,) in found)
        return LanguageReport(nats, stream.total - 1, self._text_bytes(stream))

    def _text_bytes(self, stream: TokenStream) -> int:
        """The bytes of the text but for its first token."""
        size, skip = 0, 1
        for piece in stream.pieces():
            size += len(self.tokenizer.decode(piece[skip:].tolist()).encode())
            skip = max(skip - len(piece), 0)
        return size

    @torch.no_grad()
    def continuations(
        self, model: nn.Module, device: torch.device, split: str, *, context: int | None = None
    ) -> Continuations:
        """The second half of some blocks of a split, evenly spaced, guessed after the text and continued greedily."""
        stream = self.text(split)
        context = min(self.config.context if context is None else context, stream.total - 1)
        known = max(context // 2, 1)
        blocks = (stream.total - 1) // context
        starts = context * np.unique(np.linspace(0, blocks - 1, min(blocks, CONTINUED)).astype(np.int64))
        found = Continuations([], [], [], [])
        rows = max(EVALUATION_TOKENS // context, 1)
        for first in range(0, len(starts), rows):
            block = torch.from_numpy(stream.windows(starts[first : first + rows], context + 1)).to(device)
            prompt, gold = block[:, :known], block[:, known:]
            found.prompts.extend(prompt.tolist())
            found.gold.extend(gold.tolist())
            found.forced.extend(model(block[:, :-1])[:, known - 1 :].argmax(-1).tolist())
            limits = SequenceLimits(start=prompt, stop=-1, max_tokens=gold.shape[1])
            found.free.extend(sample(model, limits, GREEDY))  # type: ignore[arg-type]
        return found

    def text(self, name: str) -> TokenStream:
        """The tokens of a split, at least two. Raises DataError."""
        stream = named_split(self.splits, name)
        if stream.total < 2:
            raise DataError(f"split {name!r} has {counted(stream.total, 'token')}, evaluating needs at least 2")
        return stream

    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """A line the model makes up after the first token of the validation text."""
        prompt = torch.from_numpy(self.text("val").windows(np.zeros(1, np.int64), 1)).to(device)
        limits = SequenceLimits(start=prompt, stop=-1, max_tokens=min(self.config.context - 1, 60))
        drawn = sample(model, limits, Sampling(temperature=0.8))  # type: ignore[arg-type]
        return [self.tokenizer.decode(drawn[0])]


def windows(stream: TokenStream, context: int, stride: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and targets (B, T) of windows of `context` tokens, each `stride` after the one before.

    Of the first window all targets count, of the others the last `stride`; the rest, and what lies past the end of the
    text, is IGNORED.
    """
    last = stream.total - 1  # the final token is a target only
    count = 1 + max(-(-(last - context) // stride), 0)
    rows = max(EVALUATION_TOKENS // context, 1)
    for first in range(0, count, rows):
        starts_B = stride * np.arange(first, min(first + rows, count))
        at_BT = starts_B[:, None] + np.arange(context)
        fresh_B = starts_B + np.where(starts_B == 0, 0, context - stride)  # from here on targets are new
        known_BT, counted_BT = at_BT < last, (at_BT < last) & (at_BT >= fresh_B[:, None])
        read = stream.windows(starts_B, context + 1)
        inputs = np.where(known_BT, read[:, :-1], 0)
        targets = np.where(counted_BT, read[:, 1:], IGNORED)
        yield torch.from_numpy(inputs), torch.from_numpy(targets)
