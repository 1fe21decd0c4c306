"""One step of a beam: the candidate continuations, those that end, and those that stay open."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from headway.decoding.constraint_state import ConstraintState

BLOCK = 64  # tokens of which only the maximum is compared at first


@dataclass(frozen=True, slots=True)
class Candidates:
    """C continuations of each of R rows; within a group, best first."""

    totals: Tensor  # (R, C) log-probability of the hypothesis
    parents: Tensor  # (R, C) the open hypothesis it extends
    tokens: Tensor  # (R, C) the token it adds
    ended: Tensor  # (R, C) bool
    kept: Tensor  # (R, W) index into C of those that stay open
    groups: Tensor  # (C,) its group

    def ordered(self) -> Candidates:
        """The candidates of all groups as one list, best first."""
        order = self.totals.argsort(dim=1, descending=True, stable=True)
        places = order.argsort(dim=1)  # the new place of each candidate
        parts = {name: getattr(self, name).gather(1, order) for name in ("totals", "parents", "tokens", "ended")}
        return replace(self, **parts, kept=places.gather(1, self.kept))


def candidates(
    scores_RW: Tensor,
    log_probs_RWV: Tensor,
    *,
    groups: int,
    group_width: int,
    stop: int,
    diversity: float,
    constraint_state: ConstraintState | None,
) -> Candidates:
    """The best continuations of every group's open hypotheses, `group_width` of which stay open in each.

    With several groups (Vijayakumar et al. 2016, section 4) a token costs a group `diversity` for each hypothesis of
    the groups before it that takes it in this step: in the choice, not in the hypothesis's log-probability.
    """
    required = constraint_state is not None and constraint_state.required
    if groups == 1 and not required:
        return _single_group(scores_RW, log_probs_RWV, group_width, stop)
    totals_RWV = scores_RW.unsqueeze(-1) + log_probs_RWV
    width, vocab = totals_RWV.shape[1] // groups, totals_RWV.shape[2]
    nearer = constraint_state.nearer().view(totals_RWV.shape) if constraint_state is not None and required else None
    found: list[Candidates] = []
    taken = totals_RWV.new_zeros(len(totals_RWV), vocab if groups > 1 else 0)
    for group in range(groups):
        mine = slice(group * width, (group + 1) * width)
        ranks = totals_RWV[:, mine] - diversity * taken.unsqueeze(1) if group else totals_RWV[:, mine]
        index = _top(ranks.flatten(1), None if nearer is None else nearer[:, mine].flatten(1), group_width)
        totals, ranks = totals_RWV[:, mine].flatten(1).gather(1, index), ranks.flatten(1).gather(1, index)
        parents, tokens = index // vocab + group * width, index % vocab
        stops, ended = _stops(totals, tokens, stop, group_width)
        if nearer is None or constraint_state is None:
            kept = ranks.masked_fill(stops, -torch.inf).topk(min(group_width, index.shape[1])).indices
        else:
            open_RC = ~stops & (totals > -torch.inf)
            kept = _banked(constraint_state, parents, tokens, open_RC, totals_RWV.shape[1], group_width)
        if group + 1 < groups:
            taken.scatter_add_(1, tokens.gather(1, kept), torch.ones_like(kept, dtype=taken.dtype))
        offset = sum(part.totals.shape[1] for part in found)
        names = torch.full((index.shape[1],), group, device=index.device)
        found.append(Candidates(totals, parents, tokens, ended, kept + offset, names))
    return found[0] if groups == 1 else _concatenated(found)


def _single_group(scores_RW: Tensor, log_probs_RWV: Tensor, group_width: int, stop: int) -> Candidates:
    """One group and no required phrases: the plain top-k, without materialising the totals of all continuations."""
    totals, parents, tokens = best(scores_RW, log_probs_RWV, 2 * group_width)
    stops, ended = _stops(totals, tokens, stop, group_width)
    kept = totals.masked_fill(stops, -torch.inf).topk(min(group_width, totals.shape[1])).indices
    return Candidates(totals, parents, tokens, ended, kept, torch.zeros_like(tokens[0]))


def best(scores_RW: Tensor, log_probs_RWV: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The `count` largest totals of each row, largest first, with hypothesis and token; ties as in `topk`.

    On a CPU `topk` copies whole rows. A vocabulary is therefore cut into blocks: any of the `count` best lies in one
    of the `count` blocks with the largest maxima, so `topk` over those blocks (and the incomplete last one) suffices.
    """
    width, vocab = log_probs_RWV.shape[1:]
    blocks = vocab // BLOCK
    if log_probs_RWV.device.type != "cpu" or width * blocks < 4 * count:
        return _best_of_each(scores_RW, log_probs_RWV, count)
    whole = blocks * BLOCK
    maxima = log_probs_RWV[..., :whole].unflatten(-1, (blocks, BLOCK)).amax(-1) + scores_RW.unsqueeze(-1)
    chosen = maxima.flatten(1).topk(count).indices
    slots = chosen // blocks
    starts = slots * vocab + chosen % blocks * BLOCK
    index = (starts.unsqueeze(-1) + torch.arange(BLOCK)).flatten(1)  # into the row's (W, V), flattened
    inside = log_probs_RWV.flatten(1).gather(1, index).view(-1, count, BLOCK)
    inside = inside + scores_RW.gather(1, slots).unsqueeze(-1)
    beyond = log_probs_RWV[..., whole:] + scores_RW.unsqueeze(-1)
    rest = (torch.arange(width).unsqueeze(-1) * vocab + torch.arange(whole, vocab)).flatten().expand(len(index), -1)
    totals, places = torch.cat([inside.flatten(1), beyond.flatten(1)], 1).topk(count)
    found = torch.cat([index, rest], 1).gather(1, places)
    return totals, found // vocab, found % vocab


def _best_of_each(scores_RW: Tensor, log_probs_RWV: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The same by a top-k per hypothesis and one over the results."""
    width, few = log_probs_RWV.shape[1], min(count, log_probs_RWV.shape[2])
    totals, tokens = log_probs_RWV.topk(few)
    totals, tokens = (totals + scores_RW.unsqueeze(-1)).flatten(1), tokens.flatten(1)
    if width == 1:
        return totals, torch.zeros_like(tokens), tokens
    totals, index = totals.topk(min(count, width * few))
    return totals, index // few, tokens.gather(1, index)


def _stops(totals: Tensor, tokens: Tensor, stop: int, group_width: int) -> tuple[Tensor, Tensor]:
    """(R, C) each: the candidates that are the stop token, and those of them that finish a hypothesis.

    Only a stop token among the first `group_width` candidates finishes one, as in fairseq.
    """
    stops = tokens == stop
    ended = stops & (totals > -torch.inf)
    ended[:, group_width:] = False
    return stops, ended


def _top(ranks_RN: Tensor, nearer_RN: Tensor | None, group_width: int) -> Tensor:
    """Indices of the best 2·group_width continuations, best first.

    Each hypothesis has one continuation by the stop token, so that at least `group_width` others remain. Where phrases
    are required, the best `group_width` that bring a hypothesis nearer to them are added.
    """
    count = min(2 * group_width, ranks_RN.shape[1])
    if nearer_RN is None:
        return ranks_RN.topk(count).indices
    near = ranks_RN.masked_fill(~nearer_RN, -torch.inf).topk(min(group_width, count)).indices
    most = min(count + near.shape[1], ranks_RN.shape[1])
    # Lifted to +inf those are in the top-k in any case, and a continuation that is in both sets appears once.
    index = ranks_RN.scatter(1, near, torch.inf).topk(most).indices
    return index.gather(1, ranks_RN.gather(1, index).argsort(dim=1, descending=True, stable=True))


def _banked(
    state: ConstraintState, parents: Tensor, tokens: Tensor, open_RC: Tensor, width: int, group_width: int
) -> Tensor:
    """(R, W) the candidates that stay open: the best of each bank, then the second of each, and so on.

    A bank holds the hypotheses that need equally many further tokens for the required phrases (Post and Vilar 2018,
    section 3). Unlike theirs, a bank's share of the beam is not fixed: an empty bank gives up its slots at once.
    """
    rows = torch.arange(len(parents), device=parents.device).unsqueeze(1) * width
    to_go = state.to_go(rows + parents, tokens)
    # same[r, i, j]: candidate j is open and in the bank of candidate i. Candidates come best first, so that the strict
    # lower triangle (j < i) counts the better ones in the bank: the round in which candidate i gets its turn.
    same = (to_go.unsqueeze(2) == to_go.unsqueeze(1)) & open_RC.unsqueeze(1)
    round_RC = same.tril(-1).sum(2)
    # Sorting by (round, place) is sorting by round · C + place, which is at most C² - 1: C² comes after every open one.
    count = parents.shape[1]
    turn = round_RC * count + torch.arange(count, device=parents.device)
    turn = turn.masked_fill(~open_RC, count * count)
    return turn.topk(min(group_width, count), largest=False).indices


def _concatenated(parts: list[Candidates]) -> Candidates:
    names = ("totals", "parents", "tokens", "ended", "kept")
    joined = {name: torch.cat([getattr(part, name) for part in parts], 1) for name in names}
    return Candidates(**joined, groups=torch.cat([part.groups for part in parts]))
