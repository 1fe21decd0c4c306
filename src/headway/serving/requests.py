"""What the front sends to an engine and what comes back, as values. Nothing here imports torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

Ending = Literal["", "stop", "length", "cancelled", "deadline", "nonfinite", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingFields:
    """How the tokens of a request are drawn; the first five are those of `decoding.sampling.Sampling`."""

    temperature: float = 1.0  # 0: greedy
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0  # subtracted from a logit for each time its token was written
    presence_penalty: float = 0.0  # subtracted once if it was written
    logit_bias: tuple[tuple[int, float], ...] = ()  # token ids and what is added to their logits


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One sequence to write, tokenized and checked."""

    id: str
    client: str  # for fairness: a digest of the key, or the address
    prompt: tuple[int, ...]
    max_tokens: int
    sampling: SamplingFields = field(default_factory=SamplingFields)
    seed: int = 0
    number: int = 0  # among the sequences of one seed
    stops: tuple[int, ...] = ()  # tokens that end the text
    top: int | None = None  # log-probabilities beside that of each token; None: not even that
    prompt_log_probs: bool = False  # also those of the prompt
    deadline: float = math.inf  # by time.monotonic()

    @property
    def room(self) -> int:
        """Tokens in the KV cache that it may need."""
        return len(self.prompt) + self.max_tokens

    def to_json(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {**asdict(self), "deadline": None if math.isinf(self.deadline) else self.deadline}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Request:
        """The request of what `to_json` gave."""
        sampling = dict(values["sampling"])
        sampling["logit_bias"] = tuple((int(token), float(value)) for token, value in sampling["logit_bias"])
        given = {each.name: values[each.name] for each in fields(cls)}
        given |= {"prompt": tuple(values["prompt"]), "stops": tuple(values["stops"])}
        given |= {"sampling": SamplingFields(**sampling)}
        given["deadline"] = math.inf if values["deadline"] is None else values["deadline"]
        return cls(**given)


@dataclass(frozen=True, slots=True)
class Call:
    """A verb of a run's pipeline, its inputs and its arguments."""

    id: str
    client: str
    verb: str
    inputs: list[Any]
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """One token of a request, or its end."""

    id: str
    token: int | None = None
    log_prob: float | None = None  # None where it was not asked for, and for the first token of a prompt
    top: tuple[tuple[int, float], ...] = ()  # the likeliest tokens and their log-probabilities
    ended: Ending = ""
    in_prompt: bool = False

    def to_json(self) -> list[Any]:
        """As JSON can hold it, short: there is one for each token."""
        return [self.id, self.token, self.log_prob, self.top, self.ended, self.in_prompt]

    @classmethod
    def from_json(cls, values: list[Any]) -> TokenEvent:
        """The event of what `to_json` gave."""
        id, token, log_prob, top, ended, in_prompt = values
        return cls(id, token, log_prob, tuple((int(each), float(value)) for each, value in top), ended, in_prompt)
