"""A token for each row by its own settings and its own random numbers, and log-probabilities where they are wanted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

from headway.decoding.rng import UniformStreams
from headway.decoding.sampling import Sampling, choose
from headway.serving.requests import Request, TokenEvent

CPU = torch.device("cpu")
LOWEST = -9999.0  # nats, that stand for a probability of 0: JSON has no infinity


class RowSampler:
    """How the tokens of one request are drawn, and those it has written."""

    def __init__(self, request: Request) -> None:
        fields = request.sampling
        self.request, self.written = request, list[int]()
        self.settings = Sampling(
            temperature=fields.temperature,
            top_k=fields.top_k,
            top_p=fields.top_p,
            min_p=fields.min_p,
            repetition_penalty=fields.repetition_penalty,
        )
        biased = fields.frequency_penalty or fields.presence_penalty or fields.logit_bias
        self.plain = self.settings.repetition_penalty == 1 and not biased  # the logits are used as they are
        self._uniforms = UniformStreams(request.seed, [request.number], CPU)
        self._seen = set(request.prompt)

    def adjusted(self, logits_V: Tensor) -> Tensor:
        """The logits with the request's penalties and biases; the same tensor where it has none."""
        fields, theta = self.request.sampling, self.settings.repetition_penalty
        if theta != 1:
            seen = torch.tensor(sorted(self._seen.union(self.written)))
            values = logits_V[seen]
            logits_V = logits_V.index_copy(0, seen, torch.where(values > 0, values / theta, values * theta))
        if self.written and (fields.frequency_penalty or fields.presence_penalty):
            counts = Counter(self.written)
            at = torch.tensor(sorted(counts))
            often = torch.tensor([counts[token] for token in sorted(counts)], dtype=logits_V.dtype)
            logits_V = logits_V.index_add(0, at, -fields.frequency_penalty * often - fields.presence_penalty)
        if fields.logit_bias:
            at = torch.tensor([token for token, _ in fields.logit_bias])
            logits_V = logits_V.index_add(0, at, torch.tensor([value for _, value in fields.logit_bias]))
        return logits_V

    def uniform(self) -> Tensor:
        """The random number of the next token: it depends on the seed, the sequence's number and the step."""
        return self._uniforms.at(len(self.written))


def choose_tokens(samplers: Sequence[RowSampler], logits_BV: Tensor) -> list[int | None]:
    """The next token of each row; None for one whose logits are NaN or infinite. Rows of equal settings together."""
    logits_BV = logits_BV.float()
    largest, likeliest = logits_BV.max(-1)
    finite = largest.isfinite().tolist()
    if all(sampler.plain and not sampler.settings.temperature for sampler in samplers):
        return [token if known else None for token, known in zip(likeliest.tolist(), finite, strict=True)]
    adjusted = [sampler.adjusted(logits_V) for sampler, logits_V in zip(samplers, logits_BV, strict=True)]
    alike: dict[Sampling, list[int]] = defaultdict(list)
    for row, sampler in enumerate(samplers):
        if finite[row]:
            alike[sampler.settings].append(row)
    tokens: list[int | None] = [None] * len(samplers)
    for settings, rows in alike.items():
        uniform = torch.cat([samplers[row].uniform() for row in rows]) if settings.temperature else None
        chosen = choose(torch.stack([adjusted[row] for row in rows]), settings, uniform)
        for row, token in zip(rows, chosen.tolist(), strict=True):
            tokens[row] = token
    return tokens


def token_event(request: Request, token: int, logits_V: Tensor, *, in_prompt: bool = False) -> TokenEvent:
    """A token as an event, with log-probabilities under the model's own distribution if the request asks for them."""
    if request.top is None:
        return TokenEvent(request.id, token, in_prompt=in_prompt)
    log_probs_V = logits_V.float().log_softmax(-1).clamp(min=LOWEST)
    top: tuple[tuple[int, float], ...] = ()
    if request.top:
        values, tokens = log_probs_V.topk(min(request.top, len(log_probs_V)))
        top = tuple(zip(tokens.tolist(), values.tolist(), strict=True))
    return TokenEvent(request.id, token, float(log_probs_V[token]), top, in_prompt=in_prompt)
