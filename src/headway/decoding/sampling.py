"""Sampling: draw a token from the model, feed it back, until every row has stopped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from headway.errors import ConfigError
from headway.models.stepper import Source, Stepper


@torch.no_grad()
def sample(
    model: Stepper[Any],
    prompt_BT: Tensor,
    *,
    stop: int,
    max_tokens: int,
    generator: torch.Generator,
    source: Source | None = None,
    temperature: float = 1.0,
    feed_back: bool = True,
) -> list[list[int]]:
    """Continue each prompt row until `stop` or `max_tokens`; the tokens drawn, without the stop token.

    `temperature` 0 takes the likeliest token. With `feed_back=False` every step is given the prompt's last token again
    instead of what was drawn: the decks' model that does not know what it has said.
    """
    if temperature < 0:
        raise ConfigError(f"temperature={temperature}, allowed: 0 (greedy) and above")
    rows = prompt_BT.shape[0]
    state = model.start(source, capacity=prompt_BT.shape[1] + max_tokens)
    logits, state = model.extend(prompt_BT, state)
    drawn: list[Tensor] = []
    done = torch.zeros(rows, dtype=torch.bool, device=prompt_BT.device)
    for left in range(max_tokens, 0, -1):
        token = draw(logits[:, -1], temperature, generator)
        drawn.append(token)
        done |= token == stop
        if left == 1 or done.all():
            break
        fed = token if feed_back else prompt_BT[:, -1]
        logits, state = model.extend(fed.unsqueeze(1), state)
    lines = torch.stack(drawn, 1).tolist() if drawn else [[] for _ in range(rows)]
    return [line[: line.index(stop)] if stop in line else line for line in lines]


def draw(logits_BV: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    """One token a row (B,) from softmax(logits / temperature); the likeliest one at 0."""
    if temperature == 0:
        return logits_BV.argmax(-1)
    return torch.multinomial((logits_BV / temperature).softmax(-1), 1, generator=generator).squeeze(1)


@torch.no_grad()
def stream(
    model: Stepper[Any],
    prompt_1T: Tensor,
    *,
    max_tokens: int,
    generator: torch.Generator,
    temperature: float = 1.0,
    context: int | None = None,
) -> Iterator[int]:
    """Tokens one by one as they are drawn; a text that outgrows `context` goes on from its later half."""
    if temperature < 0:
        raise ConfigError(f"temperature={temperature}, allowed: 0 (greedy) and above")
    known = prompt_1T if context is None else prompt_1T[:, -context:]
    logits, state = model.extend(known, model.start(capacity=known.shape[1] + max_tokens))
    for left in range(max_tokens, 0, -1):
        token = draw(logits[:, -1], temperature, generator)
        yield int(token)
        if left == 1:
            return
        fresh = token.unsqueeze(1)
        known = torch.cat([known, fresh], 1)
        if context is not None and known.shape[1] > context:
            known = known[:, -max(context // 2, 1) :]
            fresh, state = known, model.start(capacity=context)
        logits, state = model.extend(fresh, state)
