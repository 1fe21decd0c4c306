"""Translating lines with a finished model: also empty lines, overlong ones, and unknown words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from headway.counts import counted
from headway.data.split_long_text import split_long
from headway.data.tokenizers import Tokenizer
from headway.data.unknown_tokens import uncounted
from headway.decoding.beam import Hypothesis
from headway.decoding.constraints import Constraints
from headway.decoding.limits import positions_end
from headway.decoding.non_finite import numbered
from headway.errors import ConfigError, DataError
from headway.models.stepper import Stepper
from headway.tasks.translation.config import PLAIN, Decoding
from headway.tasks.translation.search import TranslationSearch, before_source

if TYPE_CHECKING:
    from headway.decoding.trace import Trace

NAMED = 10  # split lines that are reported one by one; the rest are counted


@dataclass(frozen=True, slots=True)
class ScoredText:
    """A translation and its score; of a line that was split, the sum over its parts."""

    text: str
    score: float


class Translator:
    """Lines in, translations out, in their order.

    A line of white space gives no translation. A line of more tokens than the model was trained on
    (`task.max_length`, its stop token counted) or has positions for is split (`split_long`), its parts are translated
    separately and joined with a space, and `note` reports it. `keep` receives the trace of every line's search; a line
    that is split has none.
    """

    def __init__(
        self,
        task: TranslationSearch,
        model: Stepper[Any],
        device: torch.device,
        decoding: Decoding = PLAIN,
        note: Callable[[str], None] = lambda text: None,
        keep: Callable[[Trace], None] | None = None,
        steps: Iterable[int] = (),
    ) -> None:
        self.keep, self.steps = keep, tuple(steps)
        self.task, self.model, self.device, self.decoding, self.note = task, model, device, decoding, note
        end = positions_end(model)
        self.most = task.config.max_length if end is None else min(task.config.max_length, end)
        self.most -= len(before_source(task.source_tokenizer))
        self.lines = self.in_parts = 0

    def translate(self, lines: Sequence[str]) -> list[list[ScoredText]]:
        """The best translations of each line, best first; none for an empty one."""
        before = self.lines
        parts = list(self._parts(lines))
        if self.keep is not None:
            sources = [line[0] if line else [] for line in parts]
            with numbered(range(before, self.lines), "line"):
                best, traces = self.task.traced(
                    self.model, self.device, lines, sources, self.decoding, steps=self.steps
                )
            for trace in traces:
                self.keep(trace)
            return [self._joined([each] if each else []) for each in best]
        with numbered([n for n, line in enumerate(parts, before) for _ in line], "line"):
            found = self.task.search(self.model, self.device, [ids for line in parts for ids in line], self.decoding)
        rest = iter(found)
        return [self._joined([next(rest) for _ in line]) for line in parts]

    def report(self) -> None:
        """Tell what is only known at the end: lines in parts beyond those named."""
        if self.in_parts > NAMED:
            self.note(f"translated in parts: {counted(self.in_parts, 'line')} in all")

    def _parts(self, lines: Sequence[str]) -> Iterator[list[list[int]]]:
        """The tokens of each line, in as many parts as it takes; none of an empty line."""
        tokenizer = self.task.source_tokenizer
        encoded = tokenizer.encode_batch(["" if not line.strip() else line for line in lines])
        for line, ids in zip(lines, encoded, strict=True):
            self.lines += 1
            if len(ids) + 1 <= self.most:
                yield [ids] if ids else []
            else:
                with uncounted():  # the whole line was
                    parts = tokenizer.encode_batch(self._split(line, len(ids)))
                yield parts

    def _split(self, line: str, size: int) -> list[str]:
        wanted = self.decoding.constraints
        if wanted is not None and (wanted.prefix or wanted.must):
            where = f"line {self.lines}: {size} tokens, and the model takes {self.most - 1}"
            raise DataError(f"{where}: a line that is split cannot have a prefix or required phrases")
        if self.keep is not None:
            where = f"line {self.lines}: {size} tokens, and the model takes {self.most - 1}"
            raise DataError(f"{where}: a line that is split has no trace")
        parts = split_long(line, self._sizes, self.most - 1, f"line {self.lines}")
        self.in_parts += 1
        if self.in_parts <= NAMED:
            self.note(f"line {self.lines}: {size} tokens, translated in {len(parts)} parts")
        return parts

    def _sizes(self, texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in self.task.source_tokenizer.encode_batch(texts)]

    def _joined(self, parts: list[list[Hypothesis]]) -> list[ScoredText]:
        """The best of every part together, then the second of every part, and so on."""
        decode = self.task.target_tokenizer.decode
        return [
            ScoredText(" ".join(decode(line.tokens) for line in ranks), sum(line.score for line in ranks))
            for ranks in zip(*parts, strict=False)
        ]


def text_constraints(
    tokenizer: Tokenizer, *, prefix: str = "", must: Sequence[str] = (), ban: Sequence[str] = (), no_repeat: int = 0
) -> Constraints:
    """Constraints in words as constraints in tokens. Raises ConfigError for words the vocabulary does not hold.

    A phrase is the tokens it has by itself. A ban also covers those it has after a space, not every other spelling.
    """

    def tokens(text: str, *, of: str) -> tuple[int, ...]:
        with uncounted():
            ids = tokenizer.encode(text)
        if not ids or tokenizer.unknown in ids:
            raise ConfigError(f"{of} {text!r}: the model's vocabulary cannot write it")
        return tuple(ids)

    begun = tokens(prefix, of="prefix") if prefix.strip() else ()
    banned = [tokens(spelling, of="ban") for text in ban for spelling in (text, f" {text}")]
    required = dict.fromkeys(tokens(text, of="must") for text in must)
    return Constraints(prefix=begun, must=tuple(required), banned=tuple(dict.fromkeys(banned)), no_repeat=no_repeat)
