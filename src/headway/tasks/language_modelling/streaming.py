"""Text as it is generated: whole characters as soon as they are known, up to a stop string."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from headway.data.tokenizers import Tokenizer


def decoded_stream(tokenizer: Tokenizer, prompt: Sequence[int], tokens: Iterable[int]) -> Iterator[str]:
    """The text of tokens as they come, after those of a prompt; an incomplete character waits for its other bytes.

    Only the tokens since the last whole piece of text are decoded again, and the piece before them, which tells whether
    a space stands between. There special tokens count, since a prompt may end in unknown words; those that come are
    not shown.
    """
    special = frozenset(tokenizer.specials)
    known: list[int] = list(prompt)
    fresh: list[int] = []
    shown = tokenizer.decode(known, specials=True)
    for token in tokens:
        if token in special:
            continue
        fresh.append(token)
        text = tokenizer.decode([*known, *fresh], specials=True)
        if text.endswith("\ufffd") or len(text) <= len(shown):
            continue
        yield text[len(shown) :]
        known, fresh = fresh, []
        shown = tokenizer.decode(known, specials=True)


def before_stop(pieces: Iterable[str], stops: Sequence[str]) -> Iterator[str]:
    """The text up to the first of the stop strings; what may be the beginning of one waits until it is known."""
    held = ""
    for piece in pieces:
        held += piece
        found = [held.index(stop) for stop in stops if stop in held]
        if found:
            yield held[: min(found)]
            return
        keep = max((n for stop in stops for n in range(1, len(stop)) if held.endswith(stop[:n])), default=0)
        if len(held) > keep:
            yield held[: len(held) - keep]
            held = held[len(held) - keep :]
    if held:
        yield held
