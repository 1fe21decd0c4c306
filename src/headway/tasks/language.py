"""Language modelling: the next token of a text, cut into blocks of the model's context."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from headway.data.batching import Blocks, Indices
from headway.data.store import TokenStore
from headway.data.tokenizers import Tokenizer
from headway.decoding.sampling import sample
from headway.errors import DataError
from headway.evaluation.language import LanguageReport
from headway.tasks.task import IGNORED, Batch, Term, cross_entropy

EVALUATION_TOKENS = 16384  # in one forward pass of an evaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """A text as one stream of tokens."""

    context: int = 64  # targets in a block; a transformer's own context is the natural choice


class LanguageTask:
    """Blocks of a token stream, and how well a model predicts it."""

    def __init__(
        self, config: Language, tokenizer: Tokenizer, splits: dict[str, TokenStore], *, batch_tokens: int, seed: int
    ) -> None:
        self.config, self.tokenizer, self.splits = config, tokenizer, splits
        rows = max(batch_tokens // config.context, 1)
        self.order = Blocks(len(splits["train"].ids), config.context, rows, seed)

    def batch(self, indices: Indices) -> Batch:
        """Blocks that begin at these places (B, T)."""
        window = np.asarray(indices)[:, None] + np.arange(self.config.context + 1)
        ids = torch.from_numpy(self.splits["train"].ids[window].astype(np.int64))
        return Batch((ids[:, :-1],), ids[:, 1:].contiguous(), ids[:, 1:].numel())

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0) -> dict[str, Term]:
        """Next-token cross-entropy."""
        return {"next_token": Term(cross_entropy(model(*batch.inputs), batch.targets, smoothing), batch.count)}

    def validate(self, model: nn.Module, device: torch.device) -> float:
        """Nats per token over the whole validation text."""
        return self.evaluate(model, device, "val").loss

    @torch.no_grad()
    def evaluate(self, model: nn.Module, device: torch.device, split: str) -> LanguageReport:
        """Every token of a split but its first, in blocks that do not overlap."""
        ids = self._split(split)
        nats = sum(float(cross_entropy(model(x.to(device)), y.to(device))) for x, y in self._blocks(ids))
        text = self.tokenizer.decode(ids[1:].tolist())
        return LanguageReport(nats, len(ids) - 1, len(text.encode()))

    def _split(self, name: str) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
        if name not in self.splits:
            raise DataError(f"no split {name!r}, there are {', '.join(self.splits)}")
        if len(self.splits[name].ids) < 2:
            raise DataError(f"split {name!r} has {len(self.splits[name].ids)} tokens, evaluating needs at least 2")
        return self.splits[name].ids

    def _blocks(self, ids: np.ndarray[tuple[int], np.dtype[np.uint32]]) -> Iterator[tuple[Tensor, Tensor]]:
        """Inputs and targets (B, T), the last block padded with targets that do not count."""
        context = self.config.context
        count = -(-(len(ids) - 1) // context)
        rows = max(EVALUATION_TOKENS // context, 1)
        for first in range(0, count, rows):
            piece = ids[first * context : (first + rows) * context + 1].astype(np.int64)
            blocks = -(-(len(piece) - 1) // context)
            inputs = np.zeros(blocks * context, np.int64)
            targets = np.full(blocks * context, IGNORED, np.int64)
            inputs[: len(piece) - 1], targets[: len(piece) - 1] = piece[:-1], piece[1:]
            yield torch.from_numpy(inputs).view(blocks, context), torch.from_numpy(targets).view(blocks, context)

    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """A line the model makes up after the first token of the validation text."""
        prompt = torch.from_numpy(self._split("val")[:1].astype(np.int64)).view(1, 1).to(device)
        generator = torch.Generator(device).manual_seed(0)
        room = min(self.config.context - 1, 60)
        drawn = sample(model, prompt, stop=-1, max_tokens=room, generator=generator, temperature=0.8)  # type: ignore[arg-type]
        return [self.tokenizer.decode(drawn[0])]
