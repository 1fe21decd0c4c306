"""Training on conversations: padded batches, the loss of the tokens of answers, and how a model answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from headway.data.batching import Bucketed, Indices, fixed_batches, padded
from headway.data.chat_template import ChatEncoder
from headway.data.chats import ASSISTANT, ChatDataset, Conversation, question
from headway.data.token_store import TokenStore
from headway.decoding.limits import SequenceLimits
from headway.decoding.sampling import GREEDY, sample
from headway.errors import DataError
from headway.metrics.language import LanguageReport
from headway.tasks.base import named_split
from headway.tasks.chat.config import Chat
from headway.tasks.sharing import in_parts
from headway.tasks.training_task import IGNORED, Batch, Term, cross_entropy, next_token_loss

LEARNT = 1 << 31  # the bit of a stored token that the model learns to write
EVALUATION_TOKENS = 16384  # in one forward pass of an evaluation
ANSWERS = 1000  # conversations of a split that are answered, evenly spaced


@dataclass(frozen=True, slots=True)
class Answered:
    """A conversation up to its last answer, that answer, and the one the model gives."""

    messages: Conversation
    reference: str
    output: str

    @property
    def exact(self) -> bool:
        """Whether they are the same text, white space around it aside."""
        return self.output.strip() == self.reference.strip()


class ChatTraining:
    """Conversations in batches, and how well a model answers.

    A conversation is cut after `context` tokens; one without a token to learn before that is left out.
    """

    fixed_shapes = False

    def __init__(
        self,
        encoder: ChatEncoder,
        splits: dict[str, TokenStore],
        chats: ChatDataset,
        *,
        task: Chat,
        context: int,
        batch_tokens: int,
        seed: int,
    ) -> None:
        self.encoder, self.tokenizer, self.splits, self.chats = encoder, encoder.tokenizer, splits, chats
        self.config, self.context, self.batch_tokens, self.seed = task, context, batch_tokens, seed

    @cached_property
    def order(self) -> Bucketed:
        """Conversations of like lengths in batches. Raises DataError if all are too long."""
        return Bucketed(self._lengths("train", self._train), self.batch_tokens, self.seed)

    @cached_property
    def _train(self) -> Indices:
        return self._kept("train")

    def batch(self, indices: Indices) -> Batch:
        """These conversations of the training split, padded (B, T)."""
        return self._batch("train", self._train[indices])

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """Next-token cross-entropy of the answers, each with its end."""
        if self.config.scheduled is not None:
            (tokens,) = batch.inputs
            assert tokens is not None
            batch = replace(batch, inputs=(self.config.scheduled.mixed(model, None, tokens, None, step=step),))
        return {"next_token": Term(next_token_loss(model, batch, smoothing), batch.count)}

    def validate(self, model: nn.Module, device: torch.device) -> float:
        """Nats per token of the answers of the validation split."""
        return self.evaluate(model, device, "val").loss

    @torch.no_grad()
    def evaluate(self, model: nn.Module, device: torch.device, split: str) -> LanguageReport:
        """The tokens of all answers of a split, with the end of each."""
        kept = self._kept(split)

        def scored(rows: Indices) -> tuple[float, int]:
            batch = self._batch(split, kept[rows]).to(device)
            return float(cross_entropy(model(*batch.inputs), batch.targets)), batch.count

        batches = fixed_batches(self._lengths(split, kept), EVALUATION_TOKENS)
        nats, count = (sum(column) for column in zip(*in_parts(batches, scored), strict=True))
        return LanguageReport(nats, int(count))

    @torch.no_grad()
    def answered(self, model: nn.Module, device: torch.device, split: str, most: int = ANSWERS) -> list[Answered]:
        """The last answers of conversations of a split, beside what the model answers greedily.

        Left out are conversations that end otherwise, or do not fit into the context with their answer. An output ends
        a token after the longest reference of its batch, which tells whether it is the same.
        """
        whole = [messages for messages in self.chats.conversations(split) if messages[-1].role == ASSISTANT]
        chosen = sorted(set(np.linspace(0, max(len(whole) - 1, 0), min(len(whole), most)).astype(np.int64).tolist()))
        found: list[tuple[Conversation, list[int], int]] = []
        for n in chosen:
            prompt = self.encoder.prompt(whole[n][:-1])
            room = sum(self.encoder.encode(whole[n]).learnt[len(prompt) :])  # the answer and its end
            if len(prompt) + room <= self.context:
                found.append((whole[n], prompt, room))
        outputs: dict[int, str] = {}
        for rows in self._prompt_batches([(len(prompt), room) for _, prompt, room in found]):
            tokens, counts = padded([np.asarray(found[n][1], np.uint32) for n in rows], 0)
            limits = SequenceLimits(
                start=torch.from_numpy(tokens).to(device),
                stop=self.encoder.end,
                max_tokens=max(found[n][2] for n in rows),
                prompt_lengths=torch.from_numpy(counts).to(device),
            )
            written = sample(model, limits, GREEDY)  # type: ignore[arg-type]
            outputs |= {n: self.tokenizer.decode(ids) for n, ids in zip(rows, written, strict=True)}
        return [Answered(each[0][:-1], each[0][-1].content, outputs[n]) for n, each in enumerate(found)]

    def _prompt_batches(self, sizes: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
        """Batches of (prompt, room) in which the longest prompt and the largest room fit into the context together."""
        rows: list[int] = []
        longest = widest = 0
        for n in sorted(range(len(sizes)), key=lambda n: sizes[n]):
            prompt, room = max(longest, sizes[n][0]), max(widest, sizes[n][1])
            if rows and (prompt + room > self.context or (len(rows) + 1) * (prompt + room) > EVALUATION_TOKENS):
                yield rows
                rows, (prompt, room) = [], sizes[n]
            rows.append(n)
            longest, widest = prompt, room
        if rows:
            yield rows

    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """The last questions of a few validation conversations, and what the model answers."""
        some = self.answered(model, device, "val", most=3)
        return [f"{question(each.messages)} → {' '.join(each.output.split())}" for each in some]

    def cut(self, split: str) -> tuple[int, int]:
        """How many conversations of a split are longer than the context, and how many of those are left out."""
        store = self._store(split)
        return int((store.lengths > self.context + 1).sum()), len(store) - int(self._has_answer(split).sum())

    def cut_notes(self) -> Iterator[str]:
        """What became of conversations that are too long, for each split that has some."""
        for split in self.splits:
            if note := self.cut_note(split):
                yield note

    def cut_note(self, split: str) -> str:
        """What became of the conversations of a split that are too long; "" if none is."""
        cut, lost = self.cut(split)
        if not cut and not lost:
            return ""
        gone = f", {lost:,} of them left out: no answer begins before that" if lost else ""
        return (
            f"{split}: {cut:,} of {len(self.splits[split]):,} conversations are cut after {self.context} tokens{gone}"
        )

    def _store(self, split: str) -> TokenStore:
        return named_split(self.splits, split)

    def _has_answer(self, split: str) -> NDArray[np.bool_]:
        """(N,) whether a conversation has a target within the context; its first token is never a target."""
        store = self._store(split)
        before = np.concatenate([[0], np.cumsum(store.ids >= LEARNT)])  # tokens to learn before each place
        begins = np.asarray(store.starts[:-1])
        ends = begins + np.minimum(store.lengths, self.context + 1)
        return np.asarray(before[ends] > before[begins + 1])

    def _kept(self, split: str) -> Indices:
        kept = np.flatnonzero(self._has_answer(split))
        if not len(kept):
            raise DataError(
                f"split {split!r}: no answer begins within {self.context} tokens: raise task.context and model.context"
            )
        return kept

    def _lengths(self, split: str, rows: Indices) -> NDArray[np.int64]:
        """(N,) inputs of each conversation."""
        return np.minimum(self._store(split).lengths[rows], self.context + 1) - 1

    def _batch(self, split: str, rows: Indices) -> Batch:
        store = self._store(split)
        cut = [store[n][: self.context + 1] for n in rows]
        tokens, _ = padded(cut, 0)
        learnt = tokens >= LEARNT
        ids = np.where(learnt, tokens - LEARNT, tokens)
        targets = np.where(learnt[:, 1:], ids[:, 1:], IGNORED)
        inputs = torch.from_numpy(np.ascontiguousarray(ids[:, :-1]))
        return Batch((inputs,), torch.from_numpy(targets), int(learnt[:, 1:].sum()))
