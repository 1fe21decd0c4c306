"""Sampling: draw a token from the model, feed it back, until every row has stopped."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headway.decoding.constraint_state import Guard
from headway.decoding.constraints import Constraints
from headway.decoding.events import tell_chosen
from headway.decoding.rng import Uniforms
from headway.errors import ConfigError
from headway.models.stepper import Source, Stepper

LEAVE = 4  # finished rows leave the batch once they are one in this many: moving the others costs a copy
FIRST_LOOK = 512  # of the likeliest tokens, among which top_p mostly ends
CHECK = 8  # steps between two looks at a GPU for rows that have finished


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How a token is drawn, in this order: repetition penalty, temperature, the `top_k` likeliest, `top_p`, `min_p`."""

    temperature: float = 1.0  # 0: the likeliest token, nothing is drawn
    top_k: int | None = None  # None: all
    top_p: float = 1.0  # the fewest likeliest tokens that hold this share of what top_k left
    min_p: float = 0.0  # at least this share of the likeliest token's probability
    repetition_penalty: float = 1.0  # CTRL's: divides the logit of a token in the context, multiplies a negative one

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise ConfigError(f"temperature={self.temperature}, allowed: 0 (greedy) and above")
        if self.top_k is not None and self.top_k < 1:
            raise ConfigError(f"top_k={self.top_k}, allowed: 1 and above")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p={self.top_p}, allowed: above 0, up to 1")
        if not 0 <= self.min_p <= 1:
            raise ConfigError(f"min_p={self.min_p}, allowed: 0 to 1")
        if not 0 < self.repetition_penalty < float("inf"):
            raise ConfigError(f"repetition_penalty={self.repetition_penalty}, allowed: above 0 (1 is none)")


PLAIN = Sampling()
GREEDY = Sampling(temperature=0.0)


@torch.no_grad()
def sample(
    model: Stepper[Any],
    prompt_BT: Tensor,
    *,
    stop: int,
    max_tokens: int,
    sampling: Sampling = PLAIN,
    seed: int = 0,
    numbers: Sequence[int] | None = None,
    counts_B: Tensor | None = None,
    source: Source | None = None,
    constraints: Constraints | None = None,
    feed_back: bool = True,
) -> list[list[int]]:
    """Continue each prompt row until `stop` (-1: none) or `max_tokens`; the tokens drawn, without the stop token.

    Row r is sequence `numbers[r]` (r where none are given): what is drawn for it depends on the seed, that number and
    the step, so that no other row changes it. `counts_B` says how many tokens of each prompt are real, padding on the
    right. A line all of whose tokens are forbidden ends there. With `feed_back=False` every step is given the prompt's
    last token again instead of what was drawn: the decks' model that does not know what it has said.
    """
    rows, device = len(prompt_BT), prompt_BT.device
    numbers = range(rows) if numbers is None else numbers
    if len(numbers) != rows or max_tokens < 0:
        raise ConfigError(f"{len(numbers)} numbers for {rows} rows, max_tokens={max_tokens}: one a row, and 0 or more")
    if not rows or not max_tokens:
        return [[] for _ in range(rows)]
    state = model.start(source, capacity=prompt_BT.shape[1] + max_tokens)
    logits, state = model.extend(prompt_BT, state, counts_B)
    ends = torch.full((rows,), prompt_BT.shape[1], device=device) if counts_B is None else counts_B
    logits = logits[torch.arange(rows, device=device), ends - 1]
    drawer = Drawer(sampling, Uniforms(seed, numbers, device), _seen(prompt_BT, ends, logits.shape[1], sampling))
    if constraints:
        drawer.guarded(Guard(constraints, logits.shape[1], stop=stop, device=device), rows, max_tokens)
    final = prompt_BT.gather(1, (ends - 1).unsqueeze(1))
    place = torch.arange(rows, device=device)  # of each row still here
    done = torch.zeros(rows, dtype=torch.bool, device=device)
    out = torch.full((rows, max_tokens), -1, device=device)
    for step in range(max_tokens):
        token = drawer.draw(logits, step, out[place, :step] if constraints else None)
        out[place, step] = token
        if step == max_tokens - 1:
            break
        if stop >= 0 or constraints:
            done |= (token == stop) | (token < 0)
            here = _staying(done, step)
            if here is not None:
                if not len(here):
                    break
                place, done, token, final = (part[here] for part in (place, done, token, final))
                state = model.select(state, here)
                drawer.select(here)
        extended, state = model.extend(token.clamp(min=0).unsqueeze(1) if feed_back else final, state)
        logits = extended[:, -1]
    lines = [_until(line, stop) for line in out.tolist()]
    tell_chosen(model, [[line] for line in lines])
    return lines


class Drawer:
    """Draws a token for each of B rows, and remembers what that takes: random numbers, tokens seen, constraints."""

    def __init__(self, sampling: Sampling, uniforms: Uniforms, seen_BV: Tensor | None) -> None:
        self.sampling, self.uniforms, self.seen = sampling, uniforms, seen_BV
        self.guard: Guard | None = None
        self.max_tokens = 0

    def guarded(self, guard: Guard, rows: int, max_tokens: int) -> None:
        """Hold the rows to constraints from their first token on."""
        guard.begin(rows, max_tokens)
        self.guard, self.max_tokens = guard, max_tokens

    def draw(self, logits_BV: Tensor, step: int, written_BT: Tensor | None = None) -> Tensor:
        """A token for each row (B,), -1 where none is allowed; with constraints also what was written so far."""
        logits = logits_BV.float()
        if self.seen is not None:
            theta = self.sampling.repetition_penalty
            logits = torch.where(self.seen, torch.where(logits > 0, logits / theta, logits * theta), logits)
        if self.guard is not None:
            assert written_BT is not None
            room = torch.full((len(logits),), self.max_tokens - step, device=logits.device)
            logits = self.guard.forbid(logits, written_BT.clamp(min=0), room)
        token = choose(logits, self.sampling, self.uniforms.at(step) if self.sampling.temperature else None)
        if self.seen is not None:
            self.seen.scatter_(1, token.unsqueeze(1), True)
        if self.guard is not None:
            self.guard.move(torch.arange(len(token), device=token.device), token)
            token = torch.where(logits.amax(-1) == -torch.inf, -1, token)
        return token

    def select(self, rows_B: Tensor) -> None:
        """Go on with these rows."""
        self.uniforms.select(rows_B)
        self.seen = None if self.seen is None else self.seen[rows_B]
        if self.guard is not None:
            self.guard.select(rows_B)


def choose(logits_BV: Tensor, sampling: Sampling, uniform_B: Tensor | None) -> Tensor:
    """One token a row (B,): the likeliest, or the one at whose share of the distribution the number u in [0, 1) falls.

    The distribution is added up in the order of the vocabulary: logits that differ in their last bits, as they do
    between batches, move the bounds between tokens by as little, and never swap two.
    """
    if uniform_B is None:
        return logits_BV.argmax(-1)
    scaled = logits_BV / sampling.temperature
    ladder = scaled.masked_fill(~kept(scaled, sampling), -torch.inf).double().softmax(-1).cumsum(-1)
    total = ladder[:, -1:]
    # Rounding must not lead to the top of the ladder, or past it to a token that was ruled out.
    aim = torch.minimum(uniform_B.unsqueeze(1) * total, total.nextafter(torch.zeros_like(total)))
    return torch.searchsorted(ladder, aim, right=True).squeeze(1).clamp(max=logits_BV.shape[1] - 1)


def kept(logits_BV: Tensor, sampling: Sampling) -> Tensor:
    """(B, V): the tokens that top_k, top_p and min_p leave; the likeliest always stays."""
    vocab = logits_BV.shape[1]
    keep = logits_BV > -torch.inf
    if sampling.top_k is not None and sampling.top_k < vocab:
        keep &= logits_BV >= logits_BV.topk(sampling.top_k).values[:, -1:]
    if sampling.top_p < 1:
        chances = logits_BV.masked_fill(~keep, -torch.inf).softmax(-1)
        keep &= chances >= _least(chances, sampling.top_p)
    if sampling.min_p > 0:
        keep &= (logits_BV - logits_BV.amax(-1, keepdim=True)).exp() >= sampling.min_p
    return keep


def _least(chances_BV: Tensor, share: float) -> Tensor:
    """(B, 1): the probability of the last of the fewest likeliest tokens that hold this share."""
    ranked = chances_BV.topk(min(FIRST_LOOK, chances_BV.shape[1])).values
    if chances_BV.is_cuda or bool((ranked.sum(-1) < share).any()):  # rare: a sort of all is what costs on a CPU
        ranked = chances_BV.sort(descending=True).values
    before = ranked.cumsum(-1) - ranked
    return ranked.gather(1, (before < share).sum(-1, keepdim=True) - 1)


@torch.no_grad()
def stream(
    model: Stepper[Any],
    prompt_1T: Tensor,
    *,
    max_tokens: int,
    sampling: Sampling = PLAIN,
    seed: int = 0,
    number: int = 0,
    stops: Collection[int] = (),
    context: int | None = None,
) -> Iterator[int]:
    """The tokens `sample` gives sequence `number`, one by one as they are drawn, up to one of `stops`.

    A text that outgrows `context` goes on from its later half.
    """
    known = prompt_1T if context is None else prompt_1T[:, -context:]
    logits, state = model.extend(known, model.start(capacity=known.shape[1] + max_tokens))
    ends = torch.tensor([prompt_1T.shape[1]], device=prompt_1T.device)
    seen = _seen(prompt_1T, ends, logits.shape[2], sampling)
    drawer = Drawer(sampling, Uniforms(seed, [number], prompt_1T.device), seen)
    said: list[int] = []
    for step in range(max_tokens):
        token = drawer.draw(logits[:, -1], step)
        if int(token) in stops:
            return
        said.append(int(token))
        tell_chosen(model, [[said]])
        yield said[-1]
        if step == max_tokens - 1:
            return
        fresh = token.unsqueeze(1)
        if context is not None:
            known = torch.cat([known, fresh], 1)
            if known.shape[1] > context:
                known, said = known[:, -max(context // 2, 1) :], []
                fresh, state = known, model.start(capacity=context)
        logits, state = model.extend(fresh, state)


def _seen(prompt_BT: Tensor, ends_B: Tensor, vocab: int, sampling: Sampling) -> Tensor | None:
    """(B, V): the tokens of each prompt, where a penalty asks for them."""
    if sampling.repetition_penalty == 1:
        return None
    real = torch.arange(prompt_BT.shape[1], device=prompt_BT.device) < ends_B.unsqueeze(1)
    counted = torch.zeros(len(prompt_BT), vocab, dtype=torch.int32, device=prompt_BT.device)
    return counted.scatter_add_(1, prompt_BT, real.int()) > 0


def _staying(done_B: Tensor, step: int) -> Tensor | None:
    """The rows that go on, where enough have ended to be worth moving them; on a GPU it is not asked each time."""
    if done_B.is_cuda and (step + 1) % CHECK:
        return None
    count = int(done_B.sum())
    return None if count == 0 or count * LEAVE < len(done_B) else (~done_B).nonzero().squeeze(1)


def _until(line: list[int], stop: int) -> list[int]:
    """The line up to its stop token, or to where nothing was allowed."""
    ends = [n for n, token in enumerate(line) if token < 0 or token == stop]
    return line[: ends[0]] if ends else line
