"""A recorded search as a trace that can be read alone: with the pieces and texts of its token ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headway.data.tokenizers import Tokenizer
from headway.decoding.beam import BeamSettings
from headway.decoding.trace import Trace, TraceStep, finished


@dataclass(frozen=True, slots=True)
class TokenizerPair:
    """Who knows what the ids of either side say."""

    source: Tokenizer
    target: Tokenizer


def to_trace(
    readers: TokenizerPair,
    line: str,
    ids: Sequence[int],
    steps: tuple[TraceStep, ...],
    *,
    beam: BeamSettings,
    model_steps: tuple[int, ...],
) -> Trace:
    """The trace of the search for this line, read as these ids; `steps` is empty for an empty line."""
    source, target = readers.source, readers.target
    read = [*ids, source.stop] if steps else []
    words = {target.start, target.stop}.union(*(step.words.tolist() for step in steps))
    trace = Trace(
        source=line,
        source_pieces=tuple(source.token(index) for index in read),
        pieces={word: target.token(word) for word in words},
        texts=(),
        beam=beam.width,
        n_best=beam.n_best,
        alpha=beam.alpha,
        penalty=beam.penalty,
        start=target.start,
        stop=target.stop,
        model_steps=model_steps,
        steps=steps,
    )
    return replace(trace, texts=tuple(target.decode(each.tokens) for each in finished(trace)))
