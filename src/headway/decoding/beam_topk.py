"""One step of a beam: which continuations are looked at, which of them end and which stay open."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from headway.decoding.constraint_state import Guard

BLOCK = 64  # words of which only the best is looked at first


@dataclass(frozen=True, slots=True)
class Candidates:
    """C continuations of each of R rows; within a group, best first."""

    totals: Tensor  # (R, C) log-probability of the line
    parents: Tensor  # (R, C) the open line it goes on from
    words: Tensor  # (R, C)
    ended: Tensor  # (R, C) bool
    kept: Tensor  # (R, W) index into C of those that stay open
    groups: Tensor  # (C,) the beam it belongs to

    def ordered(self) -> Candidates:
        """All groups' candidates as one list, best first."""
        order = self.totals.argsort(dim=1, descending=True, stable=True)
        places = order.argsort(dim=1)  # where each has gone
        parts = {name: getattr(self, name).gather(1, order) for name in ("totals", "parents", "words", "ended")}
        return replace(self, **parts, kept=places.gather(1, self.kept))


def candidates(
    scores_RW: Tensor,
    words_RWV: Tensor,
    *,
    groups: int,
    share: int,
    stop: int,
    diversity: float,
    guard: Guard | None,
) -> Candidates:
    """The best continuations of every group's open lines, `share` of which stay open in each.

    With several groups (Vijayakumar et al., 2016) a word costs a group `diversity` for each line of the groups before
    it that goes on with it in this step: in the choice, not in the line's log-probability.
    """
    if groups == 1 and (guard is None or not guard.required):
        return _simple(scores_RW, words_RWV, share, stop)
    totals_RWV = scores_RW.unsqueeze(-1) + words_RWV
    width, vocab = totals_RWV.shape[1] // groups, totals_RWV.shape[2]
    nearer = guard.nearer().view(totals_RWV.shape) if guard is not None and guard.required else None
    found: list[Candidates] = []
    taken = totals_RWV.new_zeros(len(totals_RWV), vocab if groups > 1 else 0)
    for group in range(groups):
        mine = slice(group * width, (group + 1) * width)
        ranks = totals_RWV[:, mine] - diversity * taken.unsqueeze(1) if group else totals_RWV[:, mine]
        index = _looked_at(ranks.flatten(1), None if nearer is None else nearer[:, mine].flatten(1), share)
        totals, ranks = totals_RWV[:, mine].flatten(1).gather(1, index), ranks.flatten(1).gather(1, index)
        parents, words = index // vocab + group * width, index % vocab
        stops, ended = _stops(totals, words, stop, share)
        if nearer is None or guard is None:
            kept = ranks.masked_fill(stops, -torch.inf).topk(min(share, index.shape[1])).indices
        else:
            kept = _banked(guard, parents, words, ~stops & (totals > -torch.inf), totals_RWV.shape[1], share)
        if group + 1 < groups:
            taken.scatter_add_(1, words.gather(1, kept), torch.ones_like(kept, dtype=taken.dtype))
        offset = sum(part.totals.shape[1] for part in found)
        names = torch.full((index.shape[1],), group, device=index.device)
        found.append(Candidates(totals, parents, words, ended, kept + offset, names))
    return found[0] if groups == 1 else _joined(found)


def _simple(scores_RW: Tensor, words_RWV: Tensor, share: int, stop: int) -> Candidates:
    """One group, nothing required: the best of all, so that no total is made that cannot be among them."""
    totals, parents, words = best(scores_RW, words_RWV, 2 * share)
    stops, ended = _stops(totals, words, stop, share)
    kept = totals.masked_fill(stops, -torch.inf).topk(min(share, totals.shape[1])).indices
    return Candidates(totals, parents, words, ended, kept, torch.zeros_like(words[0]))


def best(scores_RW: Tensor, words_RWV: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The `count` best totals of each row, greatest first, the line and word of each; of equals any, as with `topk`.

    On a CPU topk moves whole rows about: of long ones it is shown only the blocks whose own best are the best.
    """
    width, vocab = words_RWV.shape[1:]
    blocks = vocab // BLOCK
    if words_RWV.device.type != "cpu" or width * blocks < 4 * count:
        return _best_of_lines(scores_RW, words_RWV, count)
    whole = blocks * BLOCK
    tops = words_RWV[..., :whole].unflatten(-1, (blocks, BLOCK)).amax(-1) + scores_RW.unsqueeze(-1)
    chosen = tops.flatten(1).topk(count).indices
    lines = chosen // blocks
    starts = lines * vocab + chosen % blocks * BLOCK
    index = (starts.unsqueeze(-1) + torch.arange(BLOCK)).flatten(1)  # among the row's words, line after line
    near = words_RWV.flatten(1).gather(1, index).view(-1, count, BLOCK) + scores_RW.gather(1, lines).unsqueeze(-1)
    beyond = words_RWV[..., whole:] + scores_RW.unsqueeze(-1)
    rest = (torch.arange(width).unsqueeze(-1) * vocab + torch.arange(whole, vocab)).flatten().expand(len(index), -1)
    totals, places = torch.cat([near.flatten(1), beyond.flatten(1)], 1).topk(count)
    found = torch.cat([index, rest], 1).gather(1, places)
    return totals, found // vocab, found % vocab


def _best_of_lines(scores_RW: Tensor, words_RWV: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The same from the best of each line."""
    width, few = words_RWV.shape[1], min(count, words_RWV.shape[2])
    totals, words = words_RWV.topk(few)
    totals, words = (totals + scores_RW.unsqueeze(-1)).flatten(1), words.flatten(1)
    if width == 1:
        return totals, torch.zeros_like(words), words
    totals, index = totals.topk(min(count, width * few))
    return totals, index // few, words.gather(1, index)


def _stops(totals: Tensor, words: Tensor, stop: int, share: int) -> tuple[Tensor, Tensor]:
    """Which candidates are the stop token, and which of them end a line: only those among the first to be kept."""
    stops = words == stop
    ended = stops & (totals > -torch.inf)
    ended[:, share:] = False
    return stops, ended


def _looked_at(ranks_RN: Tensor, nearer_RN: Tensor | None, share: int) -> Tensor:
    """The best 2·share: even if every line's best word is the stop token, `share` stay open.

    Where phrases are required also the best `share` that bring a line nearer to having them.
    """
    count = min(2 * share, ranks_RN.shape[1])
    if nearer_RN is None:
        return ranks_RN.topk(count).indices
    near = ranks_RN.masked_fill(~nearer_RN, -torch.inf).topk(min(share, count)).indices
    most = min(count + near.shape[1], ranks_RN.shape[1])
    index = ranks_RN.scatter(1, near, torch.inf).topk(most).indices  # each once, whatever it is worth
    return index.gather(1, ranks_RN.gather(1, index).argsort(dim=1, descending=True, stable=True))


def _banked(guard: Guard, parents: Tensor, words: Tensor, open_RC: Tensor, width: int, share: int) -> Tensor:
    """Which candidates stay open: the best of each bank, then the second of each, and so on (Post and Vilar, 2018).

    A bank holds the lines that need as many tokens more for the required phrases. Unlike theirs, a bank's share is not
    fixed: banks with nothing in them give their places away at once.
    """
    rows = torch.arange(len(parents), device=parents.device).unsqueeze(1) * width
    to_go = guard.to_go(rows + parents, words)
    same = (to_go.unsqueeze(2) == to_go.unsqueeze(1)) & open_RC.unsqueeze(1)
    before = same.tril(-1).sum(2)  # better ones in the same bank
    count = parents.shape[1]
    turn = before * count + torch.arange(count, device=parents.device)
    turn = turn.masked_fill(~open_RC, count * count)
    return turn.topk(min(share, count), largest=False).indices


def _joined(parts: list[Candidates]) -> Candidates:
    names = ("totals", "parents", "words", "ended", "kept")
    joined = {name: torch.cat([getattr(part, name) for part in parts], 1) for name in names}
    return Candidates(**joined, groups=torch.cat([part.groups for part in parts]))
