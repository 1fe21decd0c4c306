"""The verdicts of `headway verify`: is a difference rounding, or a bug?"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from headway.errors import NonFiniteOutputError
from headway.tasks.verification_inputs import Example
from headway.verification.checks import (
    Check,
    Formula,
    LogitPair,
    NotApplicableError,
    VerificationSubject,
    baseline_logits,
    checks,
)
from headway.verification.paths import Logits, centred

FACTOR = 16  # times the distance of float32 from float64: what another order of the same sums may add
FLOOR = 1e-5  # of the largest logit, or of 1
Verdict = Literal["rounding", "bug", "not applicable", "skipped"]


@dataclass(frozen=True, slots=True)
class Baseline:
    """The logits that others are compared with, and how exact they are themselves."""

    logits: Logits
    distance: float  # of the baseline from the same model in float64
    largest: float  # logit
    spread: float  # the largest logit less its position's mean, which no probability sees

    @property
    def bound(self) -> float:
        """The largest difference that rounding in float32 explains."""
        return max(FACTOR * self.distance, FLOOR * max(1.0, self.largest))


@dataclass(frozen=True, slots=True)
class Token:
    """The first greedy token that differs: in which input, at which place, from what to what."""

    example: int
    place: int
    expected: int
    found: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a check found."""

    check: Check
    verdict: Verdict
    difference: float | None = None
    bound: float | None = None
    token: Token | None = None  # None: every greedy token or class is the same, or vectors name none
    at: tuple[int, int] | None = None  # input and place of the largest difference
    cosine: float | None = None  # of centred logits, for another precision
    same: float | None = None  # share of places with the same best token, for another precision
    note: str = ""


@torch.no_grad()
def measure_baseline(subject: VerificationSubject) -> Baseline:
    """The baseline, and its distance from float64. Raises NonFiniteOutputError: NaN equals nothing, not even itself."""
    logits = baseline_logits(subject.model, subject.examples)
    for number, each in enumerate(logits):
        if not bool(each.isfinite().all()):
            raise NonFiniteOutputError(number, what="input")
    exact = baseline_logits(copy.deepcopy(subject.model).double(), subject.examples)
    distance = max(float((a - b).abs().max()) for a, b in zip(logits, exact, strict=True))
    largest = max(float(x.abs().max()) for x in logits)
    return Baseline(logits, distance, largest, max(float(centred(x).abs().max()) for x in logits))


def verify(
    subject: VerificationSubject, level: Baseline, on_check: Callable[[Check], None] = lambda check: None
) -> Iterator[Finding]:
    """A finding for every check; `on_check` is called before each. A check that raises has found a bug."""
    for check in checks():
        on_check(check)
        try:
            with torch.no_grad():
                outcome = check.run(subject, level.logits)
        except NotApplicableError as reason:
            yield Finding(check=check, verdict="skipped" if reason.skipped else "not applicable", note=str(reason))
        except Exception as error:
            message = " ".join(str(error).split())
            yield Finding(check=check, verdict="bug", note=f"{type(error).__name__}: {message}"[:300])
        else:
            yield _judged(check, outcome, level, subject)


def _judged(check: Check, outcome: LogitPair | Formula, level: Baseline, subject: VerificationSubject) -> Finding:
    if isinstance(outcome, Formula):
        verdict: Verdict = "rounding" if outcome.difference <= outcome.bound else "bug"
        return Finding(
            check=check, verdict=verdict, difference=outcome.difference, bound=outcome.bound, note=outcome.note
        )
    expected, found = ([x.float() for x in side] for side in (outcome.expected, outcome.found))
    bound, cosine, same = level.bound, None, None
    if outcome.allowance is not None:
        bound = outcome.allowance.bound(level.spread, level.distance)
        cosine, same = _agreement(expected, found)
        expected, found = ([centred(x) for x in side] for side in (expected, found))
    difference, at = _largest(expected, found)
    examples = subject.examples if outcome.own is None else outcome.own
    return Finding(
        check=check,
        verdict="rounding" if difference <= bound else "bug",  # so NaN is a bug
        difference=difference,
        bound=bound,
        token=first_token(expected, found, examples) if subject.inputs.names else None,
        at=at,
        cosine=cosine,
        same=same,
    )


def _largest(expected: Logits, found: Logits) -> tuple[float, tuple[int, int]]:
    """The largest difference, and the input and place it is at; NaN counts as infinite."""
    by_place = [
        (a - b).abs().amax(-1).nan_to_num(nan=torch.inf) for a, b in zip(expected, found, strict=True)
    ]  # (T,) each
    worst = max(range(len(by_place)), key=lambda n: float(by_place[n].max()))
    place = int(by_place[worst].argmax())
    return float(by_place[worst][place]), (worst, place)


def _agreement(expected: Logits, found: Logits) -> tuple[float, float]:
    """The cosine of all centred logits, and the share of places with the same best token."""
    a, b = (torch.cat([centred(x) for x in side]) for side in (expected, found))
    cosine = torch.nn.functional.cosine_similarity(a.double().flatten(), b.double().flatten(), dim=0)
    return float(cosine), float((a.argmax(-1) == b.argmax(-1)).float().mean())


def first_token(expected: Logits, found: Logits, examples: Sequence[Example]) -> Token | None:
    """The first greedy token that differs, counted from the end of each input's given tokens.

    Both were run on the greedy tokens of the first, so up to here both have chosen the same.
    """
    differing = []
    for n, (a, b, each) in enumerate(zip(expected, found, examples, strict=True)):
        begin = max(each.given - 1, 0)
        wrong = (a[begin:].argmax(-1) != b[begin:].argmax(-1)).nonzero()
        if len(wrong):
            place = int(wrong[0, 0])
            differing.append(Token(n, place, int(a[begin + place].argmax()), int(b[begin + place].argmax())))
    return min(differing, key=lambda token: token.place, default=None)
