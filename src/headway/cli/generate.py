"""`headway generate`."""

from __future__ import annotations

import sys
from argparse import Namespace

from headway.decoding.sampling import Sampling, stream
from headway.runs import load


def run(arguments: Namespace) -> None:
    """Go on from a prompt, token by token as they come."""
    found = load(arguments.run, device=arguments.device)
    prompt = found.prompt(arguments.prompt)
    context = getattr(found.config.model, "context", None)
    shown, ids = arguments.prompt, prompt[0].tolist()
    sys.stdout.write(shown)
    for token in stream(
        found.model,  # type: ignore[arg-type]
        prompt,
        max_tokens=arguments.max_tokens,
        sampling=Sampling(temperature=arguments.temperature),
        seed=arguments.seed,
        context=context,
    ):
        ids.append(token)
        text = found.tokenizer.decode(ids)
        if not text.endswith("\ufffd"):  # half a character waits for its other half
            sys.stdout.write(text[len(shown) :] if text.startswith(shown) else "")
            sys.stdout.flush()
            shown = text
    sys.stdout.write("\n")
