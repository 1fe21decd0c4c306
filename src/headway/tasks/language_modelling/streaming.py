"""Text as it is generated: whole characters as soon as they are known, up to a stop string."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from headway.data.text_stream import PieceDecoder, StopFilter
from headway.data.tokenizers import Tokenizer


def decoded_stream(tokenizer: Tokenizer, prompt: Sequence[int], tokens: Iterable[int]) -> Iterator[str]:
    """The text of tokens as they come, after those of a prompt; an incomplete character waits for its other bytes."""
    decoder = PieceDecoder(tokenizer, prompt)
    return filter(None, map(decoder.add, tokens))


def before_stop(pieces: Iterable[str], stops: Sequence[str]) -> Iterator[str]:
    """The text up to the first of the stop strings; what may be the beginning of one waits until it is known."""
    passing = StopFilter(stops)
    for piece in pieces:
        if shown := passing.add(piece):
            yield shown
        if passing.stopped:
            return
    if rest := passing.finish():
        yield rest
