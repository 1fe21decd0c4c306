"""`headway generate`."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence

from headway.data.tokenizers import Tokenizer
from headway.decoding.sampling import Sampling, stream
from headway.runs import load

BETWEEN = "---"


def run(arguments: Namespace) -> None:
    """Go on from a prompt, token by token as they come; several texts one after the other."""
    found = load(arguments.run, device=arguments.device, precision=arguments.precision)
    prompt = found.prompt(arguments.prompt)
    sampling = Sampling(
        temperature=arguments.temperature,
        top_k=arguments.top_k,
        top_p=arguments.top_p,
        min_p=arguments.min_p,
        repetition_penalty=arguments.repetition_penalty,
    )
    for number in range(arguments.num):
        sys.stdout.write(f"{BETWEEN}\n{arguments.prompt}" if number else arguments.prompt)
        sys.stdout.flush()
        tokens = stream(
            found.model,  # type: ignore[arg-type]
            prompt,
            max_tokens=arguments.max_tokens,
            sampling=sampling,
            seed=arguments.seed,
            number=number,
            stops=found.tokenizer.marks.stops if found.tokenizer.marks else (),
            context=getattr(found.config.model, "context", None),
        )
        try:
            for text in before_stop(decoded(found.tokenizer, prompt[0].tolist(), tokens), arguments.stop):
                sys.stdout.write(text)
                sys.stdout.flush()
        finally:  # also when interrupted: what was written stays, and ends its line
            sys.stdout.write("\n")


def decoded(tokenizer: Tokenizer, prompt: Sequence[int], tokens: Iterable[int]) -> Iterator[str]:
    """The text of tokens as they come, after a prompt; half a character waits for its other half.

    Only the tokens since the last whole piece of text are decoded again, and the piece before them, which tells whether
    a space stands between.
    """
    known, fresh = list(prompt), []
    shown = tokenizer.decode(known)
    for token in tokens:
        fresh.append(token)
        text = tokenizer.decode([*known, *fresh])
        if text.endswith("\ufffd") or len(text) <= len(shown):
            continue
        yield text[len(shown) :]
        known, fresh = fresh, []
        shown = tokenizer.decode(known)


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
