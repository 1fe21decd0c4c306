"""Beam search on any Stepper: the best continuations of each source, scored under a named length penalty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from torch import Tensor

from headway.decoding.beam_topk import Candidates, candidates
from headway.decoding.constraints import Constraints
from headway.decoding.events import search_finished
from headway.decoding.limits import SequenceLimits
from headway.decoding.memory import first_capacity, memory_errors
from headway.decoding.non_finite import numbered
from headway.decoding.parallel import run_in_parallel, worker_count
from headway.errors import ConfigError, NonFiniteOutputError
from headway.limits import expect_within
from headway.models.stepper import EncoderInput, Stepper

if TYPE_CHECKING:
    from headway.decoding.constraint_state import ConstraintState

Penalty = Literal["gnmt", "mean"]
StopRule = Literal["first", "best"]

MAX_ALPHA = 10.0  # n^α stays far below the largest float32 for outputs of thousands of tokens
MAX_DIVERSITY = 1e6  # log-probabilities are far above -1e6


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A finished hypothesis: tokens without the stop token, log-probability including it, and score."""

    tokens: list[int]
    log_probability: float
    score: float
    stopped: bool = True  # by the stop token; False: cut at max_tokens


@dataclass(frozen=True, slots=True)
class BeamStep:
    """One step of a beam search: R rows still open, C candidates each, best first.

    Hypotheses cut at `max_tokens` come in one more step of the same `length`, whose candidates are the open hypotheses
    themselves, each with its last token repeated.
    """

    rows: Tensor  # (R,) source rows
    length: int  # tokens in a candidate, this step's included
    totals: Tensor  # (R, C) log-probability of each candidate hypothesis
    parents: Tensor  # (R, C) slot, in the step before, of the open hypothesis that the candidate extends
    tokens: Tensor  # (R, C) the token it adds
    ended: Tensor  # (R, C) bool: finished in this step
    kept: Tensor  # (R, W) index into C of the hypotheses that stay open, in slot order
    norm: float  # length penalty of a hypothesis that ends here


class Recorder(Protocol):
    """Callback for each beam-search step."""

    def step(self, step: BeamStep) -> None:
        """Called once per step, after the model has run and before the hypotheses are reordered."""
        ...


def length_penalty(length: int, alpha: float, kind: Penalty) -> float:
    """The divisor of a log-probability: ((5 + n)/6)^α (GNMT, Wu et al. 2016, section 7), or n^α as in fairseq."""
    return ((5 + length) / 6) ** alpha if kind == "gnmt" else float(length**alpha)


def expect_length_penalty(name: str, alpha: float) -> None:
    """Raise ConfigError for an α that is NaN or so large that a penalty could overflow."""
    if not abs(alpha) <= MAX_ALPHA:
        raise ConfigError(f"{name}={alpha}, allowed: {-MAX_ALPHA:g} to {MAX_ALPHA:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamSettings:
    """Beam width, ranking of hypotheses and stopping rule.

    A row has `groups` beams, each `width / groups` wide. With the rule "first" a beam ends when as many hypotheses
    have finished as it is wide (fairseq's rule). With "best" it ends when no open hypothesis can still reach the
    n-best list, not even at `max_tokens` with probability 1 for every remaining token.
    """

    width: int = 4
    alpha: float = 0.6
    penalty: Penalty = "gnmt"
    n_best: int = 1
    stop_rule: StopRule = "first"
    groups: int = 1
    diversity: float = 0.5  # Vijayakumar's λ: cost of a token per hypothesis of an earlier group that took it

    def __post_init__(self) -> None:
        if self.penalty not in ("gnmt", "mean") or self.stop_rule not in ("first", "best"):
            found = f"penalty={self.penalty!r}, stop_rule={self.stop_rule!r}"
            raise ConfigError(f"{found}: allowed are gnmt and mean, first and best")
        for name, count in (("beam", self.width), ("n_best", self.n_best), ("groups", self.groups)):
            expect_within("beam", count, name)
        if self.width < 1 or not 1 <= self.n_best <= self.width:
            found = f"beam={self.width} and n_best={self.n_best}"
            raise ConfigError(f"{found}: beam must be >= 1 and n_best between 1 and beam")
        if self.groups < 1 or self.width % self.groups:
            raise ConfigError(f"groups={self.groups} with beam={self.width}: expected a divisor of the beam")
        expect_length_penalty("length_penalty", self.alpha)
        if not 0 <= self.diversity <= MAX_DIVERSITY:
            raise ConfigError(f"diversity={self.diversity}, allowed: 0 to {MAX_DIVERSITY:g}")

    @property
    def group_width(self) -> int:
        """Hypotheses per group."""
        return self.width // self.groups


@torch.inference_mode()
def beam_search(
    model: Stepper[Any],
    source: EncoderInput | None,
    settings: BeamSettings,
    limits: SequenceLimits,
    constraints: Constraints | None = None,
    recorder: Recorder | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` hypotheses for each source row, best first and all different; width 1 is greedy search.

    Hypotheses still open at `limits.max_tokens` are cut there. Scores are the model's own: constraints and diversity
    do not change them. Raises NonFiniteOutputError if the model's output is NaN or infinite.
    """
    prompt = limits.prompt(source)
    lengths = torch.as_tensor(limits.max_tokens, device=prompt.device).expand(len(prompt))
    if not len(prompt):
        return []
    fewest, most = (int(count) for count in lengths.aminmax())
    if fewest < 1:
        raise ConfigError(f"max_tokens={fewest}: expected at least 1")
    expect_within("output-tokens", most, "max_tokens")

    @torch.inference_mode()
    def search(rows: Tensor | slice) -> list[list[Hypothesis]]:
        given = None if source is None else source.rows(rows)
        counts = None if limits.prompt_lengths is None else limits.prompt_lengths[rows]
        with numbered(range(len(prompt)) if isinstance(rows, slice) else rows):
            return _Search(
                model, given, prompt[rows], counts, limits.stop, settings, lengths[rows], constraints, recorder
            ).run()

    count = 1 if recorder is not None else worker_count(model, len(prompt), settings.width, prompt.device)
    with memory_errors(f"beam={settings.width}, max_tokens={most}"):
        found = search(slice(None)) if count == 1 else run_in_parallel(search, len(prompt), count)
    best = [_n_best(hypotheses, settings.n_best) for hypotheses in found]
    search_finished(model, [[hypothesis.tokens for hypothesis in hypotheses] for hypotheses in best])
    return best


class _Search:
    """The open hypotheses of R rows, W per row, and the finished ones of every row."""

    def __init__(
        self,
        model: Stepper[Any],
        source: EncoderInput | None,
        prompt_BT: Tensor,
        counts_B: Tensor | None,
        stop: int,
        beam: BeamSettings,
        limits: Tensor,
        constraints: Constraints | None,
        recorder: Recorder | None,
    ) -> None:
        self.model, self.stop, self.beam, self.recorder = model, stop, beam, recorder
        rows, device, longest = len(limits), limits.device, int(limits.max())
        best = beam.stop_rule == "best"
        self.state = model.start(source, capacity=first_capacity(rows * beam.width, prompt_BT.shape[1], longest))
        self.rows, self.limits, self.length = torch.arange(rows, device=device), limits, 0
        self.cut_lengths = set(limits.tolist())  # the lengths at which some row is cut
        norms = [length_penalty(n, beam.alpha, beam.penalty) for n in range(1, longest + 2)] if best else [1.0]
        self.norms = torch.tensor([norms[0], *norms], device=device)  # rule "best": the length penalty by length
        self.finished: list[list[Hypothesis]] = [[] for _ in range(rows)]
        self.counts = torch.zeros(rows, beam.groups, dtype=torch.long, device=device)  # finished hypotheses per group
        self.leaders: dict[tuple[int, int], list[float]] = {}  # rule "best": the best finished scores of (row, group)
        self.threshold = torch.full((rows, beam.groups), -torch.inf, device=device)  # the lowest of them, to be beaten
        # Each group starts from one hypothesis; the first step fills its beam.
        self.scores = torch.zeros(rows, beam.groups, device=device)
        self.tokens = torch.empty(rows * beam.width, longest, dtype=torch.long, device=device)
        self.last, self.real = prompt_BT, counts_B
        if beam.groups > 1:
            each = self.rows.repeat_interleave(beam.groups)
            self.state, self.last = model.select(self.state, each), prompt_BT[each]
            self.real = None if counts_B is None else counts_B[each]
        self.constraints = constraints if constraints else None
        self.constraint_state: ConstraintState | None = None

    def run(self) -> list[list[Hypothesis]]:
        """The finished hypotheses of each row."""
        while self.step():
            pass
        return self.finished

    def step(self) -> bool:
        """Extend every hypothesis by one token; False when no row is open any more."""
        self.length += 1
        log_probs = self._log_probs()
        count, width = self.scores.shape
        if self.constraints is not None:
            log_probs = self._constrained(log_probs, self.constraints)
        found = candidates(
            self.scores,
            log_probs.view(count, width, -1),
            groups=self.beam.groups,
            group_width=self.beam.group_width,
            stop=self.stop,
            diversity=self.beam.diversity,
            constraint_state=self.constraint_state,
        )
        base = torch.arange(count, device=log_probs.device).unsqueeze(-1) * width
        self._finish(found, base + found.parents, stopped=True)
        self._record(found)
        return self._advance(found, base)

    def _log_probs(self) -> Tensor:
        """The log-probability of each next token of each hypothesis (N, V)."""
        logits, self.state = self.model.extend(self.last, self.state, self.real)
        if self.real is None:
            return logits[:, -1].float().log_softmax(-1)
        last, self.real = self.real - 1, None  # only prompts differ in length
        return logits[torch.arange(len(logits), device=logits.device), last].float().log_softmax(-1)

    def _constrained(self, log_probs_NV: Tensor, constraints: Constraints) -> Tensor:
        """The log-probabilities with -inf for tokens that the constraints forbid."""
        if self.constraint_state is None:
            from headway.decoding.constraint_state import ConstraintState  # imported only by searches that need it

            self.constraint_state = ConstraintState(
                constraints, log_probs_NV.shape[1], stop=self.stop, device=log_probs_NV.device
            )
            self.constraint_state.begin(len(log_probs_NV), int(self.limits.min()))
        room = (self.limits - self.length + 1).repeat_interleave(self.scores.shape[1])
        return self.constraint_state.forbid(log_probs_NV, self.tokens[: len(log_probs_NV), : self.length - 1], room)

    def _finish(self, found: Candidates, which: Tensor, *, stopped: bool) -> None:
        """Collect the hypotheses that end here: by the stop token, or cut with the token they have just taken."""
        ended = found.ended.nonzero()
        if not len(ended):
            return
        rows, places = ended.unbind(1)
        sequences = self.tokens[which[rows, places], : self.length - stopped].tolist()
        totals, groups, norm = found.totals[rows, places].tolist(), found.groups[places], self._norm()
        self.counts.index_put_((self.rows[rows], groups), torch.ones_like(rows), accumulate=True)
        columns = (self.rows[rows].tolist(), groups.tolist(), sequences, totals)
        for row, group, tokens, total in zip(*columns, strict=True):
            self.finished[row].append(Hypothesis(tokens, total, total / norm, stopped))
            if self.beam.stop_rule == "best":
                self._raise_threshold(row, group, total / norm)

    def _norm(self) -> float:
        return length_penalty(self.length, self.beam.alpha, self.beam.penalty)

    def _raise_threshold(self, row: int, group: int, score: float) -> None:
        """Rule "best": add a finished score; once there are enough, an open hypothesis must beat the lowest."""
        needed = self.beam.n_best if self.beam.groups == 1 else self.beam.group_width
        leaders = sorted([*self.leaders.get((row, group), []), score], reverse=True)[:needed]
        self.leaders[row, group] = leaders
        self.threshold[row, group] = leaders[-1] if len(leaders) == needed else -torch.inf

    def _record(self, found: Candidates) -> None:
        if self.recorder is not None:
            self._expect_numbers(found.totals)
            shown = found.ordered() if self.beam.groups > 1 else found
            parents = shown.parents if self.length > 1 else torch.zeros_like(shown.parents)
            chosen = (shown.totals, parents, shown.tokens, shown.ended, shown.kept)
            self.recorder.step(BeamStep(self.rows, self.length, *chosen, self._norm()))

    def _advance(self, found: Candidates, base: Tensor) -> bool:
        """Move the kept hypotheses into their slots and drop rows without one; False when no row is left."""
        totals, tokens = found.totals.gather(1, found.kept), found.tokens.gather(1, found.kept)
        totals = totals.masked_fill(tokens == self.stop, -torch.inf)  # kept only where there are too few candidates
        going = self._going(totals)
        split = totals.unflatten(1, (self.beam.groups, -1)).masked_fill(~going.unsqueeze(-1), -torch.inf)
        self.scores, chosen = split.flatten(1), (base + found.parents).gather(1, found.kept).flatten()
        count, fresh = len(chosen), tokens.flatten()
        self.tokens[:count, : self.length - 1] = self.tokens[chosen, : self.length - 1]
        self.tokens[:count, self.length - 1] = fresh
        if self.constraint_state is not None:
            self.constraint_state.move(chosen, fresh)
        alive = going.any(1)
        if self.beam.groups > 1 or self.constraint_state is not None:
            alive &= ~found.totals.isnan().any(1)  # another group, or a bank, may hide it from `going`
        if self.length in self.cut_lengths:
            self._cut(alive & (self.limits == self.length), tokens)
            alive &= self.limits > self.length
        if not bool(alive.all()):
            self._expect_numbers(found.totals)
            stay = alive.repeat_interleave(self.scores.shape[1]).nonzero().squeeze(1)
            self.rows, self.limits, self.scores = self.rows[alive], self.limits[alive], self.scores[alive]
            chosen, fresh = chosen[stay], fresh[stay]
            self.tokens[: len(stay)] = self.tokens[stay]
            if self.constraint_state is not None:
                self.constraint_state.select(stay)
        if not len(chosen):
            return False
        self.last, self.state = fresh.unsqueeze(1), self.model.select(self.state, chosen)
        return True

    def _expect_numbers(self, totals_RC: Tensor) -> None:
        """Raise NonFiniteOutputError if the best candidates of a row are NaN.

        One NaN or infinite logit makes all log-probabilities of its hypothesis NaN, which `topk` puts first and no
        comparison holds for: `going` is False for the row in the same step. Only steps that end a row ask, therefore.
        """
        bad = totals_RC.isnan().any(1).nonzero()
        if len(bad):
            raise NonFiniteOutputError(int(self.rows[bad[0]]), self.length)

    def _going(self, totals: Tensor) -> Tensor:
        """(R, groups): the beams that have an open hypothesis and may still improve on their finished ones."""
        top: Tensor = totals.unflatten(1, (self.beam.groups, -1)).amax(-1)
        if self.beam.stop_rule == "first":
            return (top > -torch.inf) & (self.counts[self.rows] < self.beam.group_width)
        # Rule "best" needs an upper bound on the score an open hypothesis can reach. Its log-probability s <= 0 only
        # falls with further tokens, so s / norm(n) is at most s / max norm over the lengths n still possible. The norm
        # grows with n for α >= 0, so that the maximum lies at the row's limit; for α < 0 it lies at the next length.
        ends = self.limits if self.beam.alpha >= 0 else torch.full_like(self.limits, self.length + 1)
        reach: Tensor = top / self.norms[ends].unsqueeze(1)
        return (top > -torch.inf) & (reach > self.threshold[self.rows])

    def _cut(self, rows_R: Tensor, tokens_RW: Tensor) -> None:
        """Finish the open hypotheses of these rows at their current length."""
        count, width = self.scores.shape
        which = torch.arange(count * width, device=rows_R.device).view(count, width)
        slots, ended = which % width, rows_R.unsqueeze(1) & (self.scores > -torch.inf)
        groups, none = slots[0] // (width // self.beam.groups), slots[:, :0]
        self._finish(Candidates(self.scores, slots, tokens_RW, ended, none, groups), which, stopped=False)
        if self.recorder is not None and bool(rows_R.any()):
            last = (self.scores[rows_R], slots[rows_R], tokens_RW[rows_R], ended[rows_R], none[rows_R])
            self.recorder.step(BeamStep(self.rows[rows_R], self.length, *last, self._norm()))


def _n_best(hypotheses: list[Hypothesis], count: int) -> list[Hypothesis]:
    """The best hypotheses, each once: two groups may find the same. A row without any gets an empty hypothesis."""
    best: dict[tuple[int, ...], Hypothesis] = {}
    for hypothesis in sorted(hypotheses, key=lambda each: -each.score):
        best.setdefault(tuple(hypothesis.tokens), hypothesis)
    return list(best.values())[:count] or [Hypothesis([], -float("inf"), -float("inf"), False)]
