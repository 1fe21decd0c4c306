"""Beam search on any Stepper: the best continuations of each source, scored under a named length penalty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from torch import Tensor

from headway.decoding.beam_topk import Candidates, candidates
from headway.decoding.constraints import Constraints
from headway.decoding.events import tell_chosen
from headway.decoding.parallel import parts, side_by_side
from headway.errors import ConfigError
from headway.models.stepper import Source, Stepper

if TYPE_CHECKING:
    from headway.decoding.constraint_state import Guard

Penalty = Literal["gnmt", "mean"]
StopRule = Literal["first", "best"]


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A finished line: its tokens without the stop token, its log-probability with it, and its score."""

    tokens: list[int]
    log_probability: float
    score: float
    stopped: bool = True  # by the stop token; False: cut at the greatest length


@dataclass(frozen=True, slots=True)
class Step:
    """What one step of a search looked at and chose: R rows still open, C candidates each, best first.

    Lines cut at the greatest length come in one step more, of the same `length`: its candidates are the open lines
    themselves, each with its last word once again.
    """

    rows: Tensor  # (R,) which source rows these are
    length: int  # tokens in a candidate, this step's included
    totals: Tensor  # (R, C) log-probability of each candidate line
    parents: Tensor  # (R, C) which of the row's open lines (slot of the step before) it goes on from
    words: Tensor  # (R, C)
    ended: Tensor  # (R, C) bool: collected as finished here
    kept: Tensor  # (R, W) index into C of the lines that stay open, in slot order
    norm: float  # what a line that ends here is divided by


class Recorder(Protocol):
    """Whoever wants to see a search step by step."""

    def step(self, step: Step) -> None:
        """Called once a step, after the model and before the lines are moved."""
        ...


def length_penalty(length: int, alpha: float, kind: Penalty) -> float:
    """What a log-probability is divided by: ((5 + n)/6)^α as in GNMT and the 2017 paper, or n^α as in fairseq."""
    return ((5 + length) / 6) ** alpha if kind == "gnmt" else float(length**alpha)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beam:
    """How wide a search is, what it ranks lines by, and when a row ends.

    A row has `groups` beams side by side, each `width / groups` wide. With the rule "first" a beam ends when as many
    lines of it have ended as it is wide (fairseq's rule). With "best" it goes on until no open line can still come
    among the lines asked for: not even at the greatest length, with every word to come certain.
    """

    width: int = 4
    alpha: float = 0.6
    penalty: Penalty = "gnmt"
    n_best: int = 1
    stop_rule: StopRule = "first"
    groups: int = 1
    diversity: float = 0.5  # Vijayakumar's λ: what a word costs for each line of an earlier group that took it

    def __post_init__(self) -> None:
        if self.penalty not in ("gnmt", "mean") or self.stop_rule not in ("first", "best"):
            found = f"penalty={self.penalty!r}, stop_rule={self.stop_rule!r}"
            raise ConfigError(f"{found}: allowed are gnmt and mean, first and best")
        if self.width < 1 or not 1 <= self.n_best <= self.width:
            found = f"beam={self.width} and n_best={self.n_best}"
            raise ConfigError(f"{found}: beam must be >= 1 and n_best between 1 and beam")
        if self.groups < 1 or self.width % self.groups:
            raise ConfigError(f"groups={self.groups} with beam={self.width}: expected a divisor of the beam")
        if not 0 <= self.diversity < float("inf"):
            raise ConfigError(f"diversity={self.diversity}, allowed: 0 and above")

    @property
    def share(self) -> int:
        """Lines of one group."""
        return self.width // self.groups


@torch.inference_mode()
def beam_search(
    model: Stepper[Any],
    source: Source | None,
    *,
    start: int | Tensor,
    stop: int,
    counts_B: Tensor | None = None,
    beam: int = 4,
    max_tokens: int | Tensor = 100,
    alpha: float = 0.6,
    penalty: Penalty = "gnmt",
    n_best: int = 1,
    stop_rule: StopRule = "first",
    groups: int = 1,
    diversity: float = 0.5,
    constraints: Constraints | None = None,
    recorder: Recorder | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` lines for each source row, best first and all different; beam 1 is greedy search.

    `start` is the token every line begins after, or a prompt for each row (B, T), of which `counts_B` tokens are real.
    `Beam` says when a row ends; lines still open at `max_tokens`, one number or one for each row, are cut there.
    Scores are the model's own: neither constraints nor diversity enter into them.
    """
    settings = Beam(
        width=beam, alpha=alpha, penalty=penalty, n_best=n_best, stop_rule=stop_rule, groups=groups, diversity=diversity
    )
    prompt = start if isinstance(start, Tensor) else None
    if prompt is None:
        if source is None:
            raise ConfigError("neither a source nor a prompt to start from")
        prompt = torch.full((len(source.tokens), 1), int(start), device=source.tokens.device)
    limits = torch.as_tensor(max_tokens, device=prompt.device).expand(len(prompt))
    if not len(prompt):
        return []
    if int(limits.min()) < 1:
        raise ConfigError(f"max_tokens={int(limits.min())}: expected at least 1")
    begun = prompt

    @torch.inference_mode()
    def lines_of(some: Tensor | slice) -> list[list[Hypothesis]]:
        given = None if source is None else source.rows(some)
        counts = None if counts_B is None else counts_B[some]
        return _Search(model, given, begun[some], counts, stop, settings, limits[some], constraints, recorder).run()

    count = 1 if recorder is not None else parts(model, len(prompt), beam, prompt.device)
    found = lines_of(slice(None)) if count == 1 else side_by_side(lines_of, len(prompt), count)
    best = [_ranked(lines, n_best) for lines in found]
    tell_chosen(model, [[line.tokens for line in lines] for lines in best])
    return best


class _Search:
    """The open lines of R rows, W side by side each, and the finished ones of all."""

    def __init__(
        self,
        model: Stepper[Any],
        source: Source | None,
        prompt_BT: Tensor,
        counts_B: Tensor | None,
        stop: int,
        beam: Beam,
        limits: Tensor,
        constraints: Constraints | None,
        recorder: Recorder | None,
    ) -> None:
        self.model, self.stop, self.beam, self.recorder = model, stop, beam, recorder
        rows, device, longest = len(limits), limits.device, int(limits.max())
        self.state = model.start(source, capacity=longest + prompt_BT.shape[1])
        self.rows, self.limits, self.length = torch.arange(rows, device=device), limits, 0
        self.cuts = set(limits.tolist())  # the lengths at which some row is cut
        norms = [length_penalty(n, beam.alpha, beam.penalty) for n in range(1, longest + 2)]
        self.norms = torch.tensor([norms[0], *norms], device=device)
        self.finished: list[list[Hypothesis]] = [[] for _ in range(rows)]
        self.counts = torch.zeros(rows, beam.groups, dtype=torch.long, device=device)  # of finished lines
        self.leaders: dict[tuple[int, int], list[float]] = {}  # the finished scores that count, for the rule "best"
        self.bar = torch.full((rows, beam.groups), -torch.inf, device=device)  # the last of them: what is to be beaten
        # The first step grows each group's lines from one.
        self.scores = torch.zeros(rows, beam.groups, device=device)
        self.lines = torch.empty(rows * beam.width, longest, dtype=torch.long, device=device)
        self.last, self.real = prompt_BT, counts_B
        if beam.groups > 1:
            each = self.rows.repeat_interleave(beam.groups)
            self.state, self.last = model.select(self.state, each), prompt_BT[each]
            self.real = None if counts_B is None else counts_B[each]
        self.constraints = constraints if constraints else None
        self.guard: Guard | None = None

    def run(self) -> list[list[Hypothesis]]:
        """The finished lines of each row."""
        while self.step():
            pass
        return self.finished

    def step(self) -> bool:
        """One word more on every line; False when no row is open any longer."""
        self.length += 1
        words = self._words()
        count, width = self.scores.shape
        if self.constraints is not None:
            words = self._guarded(words, self.constraints)
        found = candidates(
            self.scores,
            words.view(count, width, -1),
            groups=self.beam.groups,
            share=self.beam.share,
            stop=self.stop,
            diversity=self.beam.diversity,
            guard=self.guard,
        )
        base = torch.arange(count, device=words.device).unsqueeze(-1) * width
        self._collect(found, base + found.parents, stopped=True)
        self._record(found)
        return self._move(found, base)

    def _words(self) -> Tensor:
        """The log-probability of each next word of each line (N, V)."""
        logits, self.state = self.model.extend(self.last, self.state, self.real)
        if self.real is None:
            return logits[:, -1].float().log_softmax(-1)
        last, self.real = self.real - 1, None  # only prompts differ in length
        return logits[torch.arange(len(logits), device=logits.device), last].float().log_softmax(-1)

    def _guarded(self, words_NV: Tensor, constraints: Constraints) -> Tensor:
        if self.guard is None:
            from headway.decoding.constraint_state import Guard  # which few searches need

            self.guard = Guard(constraints, words_NV.shape[1], stop=self.stop, device=words_NV.device)
            self.guard.begin(len(words_NV), int(self.limits.min()))
        room = (self.limits - self.length + 1).repeat_interleave(self.scores.shape[1])
        return self.guard.forbid(words_NV, self.lines[: len(words_NV), : self.length - 1], room)

    def _collect(self, found: Candidates, which: Tensor, *, stopped: bool) -> None:
        """Keep the lines that end here: by the stop token, or cut with the word they have just taken."""
        ended = found.ended.nonzero()
        if not len(ended):
            return
        rows, places = ended.unbind(1)
        lines = self.lines[which[rows, places], : self.length - stopped].tolist()
        totals, groups, norm = found.totals[rows, places].tolist(), found.groups[places], self._norm()
        self.counts.index_put_((self.rows[rows], groups), torch.ones_like(rows), accumulate=True)
        for row, group, tokens, total in zip(self.rows[rows].tolist(), groups.tolist(), lines, totals, strict=True):
            self.finished[row].append(Hypothesis(tokens, total, total / norm, stopped))
            if self.beam.stop_rule == "best":
                self._raise_bar(row, group, total / norm)

    def _norm(self) -> float:
        return length_penalty(self.length, self.beam.alpha, self.beam.penalty)

    def _raise_bar(self, row: int, group: int, score: float) -> None:
        """Note a finished line's score, and what an open one has to beat."""
        needed = self.beam.n_best if self.beam.groups == 1 else self.beam.share
        leaders = sorted([*self.leaders.get((row, group), []), score], reverse=True)[:needed]
        self.leaders[row, group] = leaders
        self.bar[row, group] = leaders[-1] if len(leaders) == needed else -torch.inf

    def _record(self, found: Candidates) -> None:
        if self.recorder is not None:
            shown = found.ordered() if self.beam.groups > 1 else found
            parents = shown.parents if self.length > 1 else torch.zeros_like(shown.parents)
            chosen = (shown.totals, parents, shown.words, shown.ended, shown.kept)
            self.recorder.step(Step(self.rows, self.length, *chosen, self._norm()))

    def _move(self, found: Candidates, base: Tensor) -> bool:
        """The lines that stay open take their places, and rows without one leave; whether any is left."""
        totals, words = found.totals.gather(1, found.kept), found.words.gather(1, found.kept)
        totals = totals.masked_fill(words == self.stop, -torch.inf)  # where there are fewer words than places
        going = self._going(totals)
        split = totals.unflatten(1, (self.beam.groups, -1)).masked_fill(~going.unsqueeze(-1), -torch.inf)
        self.scores, chosen = split.flatten(1), (base + found.parents).gather(1, found.kept).flatten()
        count, fresh = len(chosen), words.flatten()
        self.lines[:count, : self.length - 1] = self.lines[chosen, : self.length - 1]
        self.lines[:count, self.length - 1] = fresh
        if self.guard is not None:
            self.guard.move(chosen, fresh)
        alive = going.any(1)
        if self.length in self.cuts:
            self._cut(alive & (self.limits == self.length), words)
            alive &= self.limits > self.length
        if not bool(alive.all()):
            stay = alive.repeat_interleave(self.scores.shape[1]).nonzero().squeeze(1)
            self.rows, self.limits, self.scores = self.rows[alive], self.limits[alive], self.scores[alive]
            chosen, fresh = chosen[stay], fresh[stay]
            self.lines[: len(stay)] = self.lines[stay]
            if self.guard is not None:
                self.guard.select(stay)
        if not len(chosen):
            return False
        self.last, self.state = fresh.unsqueeze(1), self.model.select(self.state, chosen)
        return True

    def _going(self, totals: Tensor) -> Tensor:
        """(R, groups): the beams that have an open line and may still better what they have."""
        top: Tensor = totals.unflatten(1, (self.beam.groups, -1)).amax(-1)
        if self.beam.stop_rule == "first":
            return (top > -torch.inf) & (self.counts[self.rows] < self.beam.share)
        # A log-probability only falls, and what divides it is greatest at the far end: for α < 0, at the near one.
        ends = self.limits if self.beam.alpha >= 0 else torch.full_like(self.limits, self.length + 1)
        reach: Tensor = top / self.norms[ends].unsqueeze(1)
        return (top > -torch.inf) & (reach > self.bar[self.rows])

    def _cut(self, rows_R: Tensor, words_RW: Tensor) -> None:
        """End the open lines of these rows where they stand."""
        count, width = self.scores.shape
        which = torch.arange(count * width, device=rows_R.device).view(count, width)
        slots, ended = which % width, rows_R.unsqueeze(1) & (self.scores > -torch.inf)
        groups, none = slots[0] // (width // self.beam.groups), slots[:, :0]
        self._collect(Candidates(self.scores, slots, words_RW, ended, none, groups), which, stopped=False)
        if self.recorder is not None and bool(rows_R.any()):
            last = (self.scores[rows_R], slots[rows_R], words_RW[rows_R], ended[rows_R], none[rows_R])
            self.recorder.step(Step(self.rows[rows_R], self.length, *last, self._norm()))


def _ranked(lines: list[Hypothesis], count: int) -> list[Hypothesis]:
    """The best lines, each once: two groups may have found the same. A row that nothing could follow says nothing."""
    best: dict[tuple[int, ...], Hypothesis] = {}
    for line in sorted(lines, key=lambda line: -line.score):
        best.setdefault(tuple(line.tokens), line)
    return list(best.values())[:count] or [Hypothesis([], -float("inf"), -float("inf"), False)]
