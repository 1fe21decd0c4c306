"""Text as its tokens come: whole characters as soon as they are known, up to a stop string."""

from __future__ import annotations

from collections.abc import Sequence

from headway.data.tokenizers import Tokenizer

INCOMPLETE = "\ufffd"  # what a tokenizer decodes the first bytes of a character as


class PieceDecoder:
    """Decodes tokens that follow a prompt; an incomplete character waits for its other bytes.

    Only the tokens since the last whole piece of text are decoded again, and the piece before them, which tells whether
    a space stands between. There special tokens count, since a prompt may end in unknown words; those that come are
    not shown.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int]) -> None:
        self.tokenizer = tokenizer
        self._special = frozenset(tokenizer.specials)
        self._known, self._fresh = list(prompt), list[int]()
        self._shown = tokenizer.decode(self._known, specials=True)

    def add(self, token: int) -> str:
        """The text that is known with one more token; often empty."""
        if token in self._special:
            return ""
        self._fresh.append(token)
        text = self.tokenizer.decode([*self._known, *self._fresh], specials=True)
        if text.endswith(INCOMPLETE) or len(text) <= len(self._shown):
            return ""
        piece = text[len(self._shown) :]
        self._known, self._fresh = self._fresh, []
        self._shown = self.tokenizer.decode(self._known, specials=True)
        return piece


class StopFilter:
    """Passes text up to the first of the stop strings; what may be the beginning of one is held until it is known."""

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops = stops
        self.stopped = False
        self.held = ""

    def add(self, piece: str) -> str:
        """What can be shown with one more piece of text."""
        if self.stopped:
            return ""
        held = self.held + piece
        found = [at for stop in self.stops if (at := held.find(stop)) >= 0]
        if found:
            self.stopped, self.held = True, ""
            return held[: min(found)]
        keep = max((n for stop in self.stops for n in range(1, len(stop)) if held.endswith(stop[:n])), default=0)
        self.held = held[len(held) - keep :]
        return held[: len(held) - keep]

    def finish(self) -> str:
        """What was held back, once nothing more comes."""
        rest, self.held = self.held, ""
        return rest


class TextStream:
    """The text of one sequence: its tokens decoded, up to a stop string."""

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int], stops: Sequence[str] = ()) -> None:
        self._decoder, self._filter = PieceDecoder(tokenizer, prompt), StopFilter(stops)
        self._length = 0

    @property
    def stopped(self) -> bool:
        """Whether a stop string was found."""
        return self._filter.stopped

    @property
    def length(self) -> int:
        """Characters of all whole pieces so far, also of those that are held back."""
        return self._length + len(self._filter.held)

    def add(self, token: int) -> str:
        """The text that can be shown with one more token."""
        return self._counted(self._filter.add(self._decoder.add(token)))

    def finish(self) -> str:
        """The rest of it."""
        return self._counted(self._filter.finish())

    def _counted(self, text: str) -> str:
        self._length += len(text)
        return text
