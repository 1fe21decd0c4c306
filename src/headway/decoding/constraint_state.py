"""State of the constraints during a search: the tokens allowed next, for all open hypotheses at once."""

from __future__ import annotations

import torch
from torch import Tensor

from headway.decoding.automaton import automaton
from headway.decoding.constraints import Constraints
from headway.errors import ConfigError

UNREACHABLE = 1 << 30  # distance from a state without a way to acceptance


class ConstraintState:
    """The automaton states of N hypotheses.

    A hypothesis that may not stop here always has an allowed token that brings it nearer to acceptance. All of its
    tokens are forbidden only without a stop token, or where the model gives the required ones probability 0.
    """

    def __init__(self, constraints: Constraints, vocab: int, *, stop: int, device: torch.device) -> None:
        constraints.check_tokens(vocab, stop)
        self.stop, self.prefix, self.no_repeat = stop, constraints.prefix, constraints.no_repeat
        singles = {phrase[0] for phrase in constraints.banned if len(phrase) == 1}
        banned = [phrase for phrase in constraints.banned if len(phrase) > 1]
        used = {token for phrase in (*constraints.must, *banned) for token in phrase}
        other = len(singles | used | {stop} - {-1}) < vocab
        self.plan = automaton(constraints.must, banned, other=other)
        after = self.plan.after
        dead = len(after)  # one state more, without a way to acceptance
        self.after = torch.tensor([[dead if n is None else n for n in row] for row in after], device=device)
        left = [UNREACHABLE if n is None else n for n in self.plan.left]
        self.left = torch.tensor([*left, UNREACHABLE], device=device)
        self.kinds = torch.zeros(vocab, dtype=torch.long, device=device)
        for token, kind in self.plan.kinds.items():
            self.kinds[token] = kind
        self.banned = torch.zeros(vocab, dtype=torch.bool, device=device)
        self.banned[list(singles)] = True
        self.required = bool(constraints.must)
        self.states = torch.zeros(0, dtype=torch.long, device=device)

    def begin(self, rows: int, max_tokens: int) -> None:
        """Start this many hypotheses. Raises ConfigError if the constraints do not fit into `max_tokens`."""
        state = self.plan.walk(self.prefix)
        left = None if state is None else self.plan.left[state]
        if left is None:
            raise ConfigError("impossible: the required phrases cannot be generated without a banned one")
        least = len(self.prefix) + left
        if least > max_tokens:
            raise ConfigError(f"impossible: prefix and required phrases take {least} tokens, max_tokens={max_tokens}")
        self.states = torch.zeros(rows, dtype=torch.long, device=self.after.device)

    def forbid(self, scores_NV: Tensor, written_NT: Tensor, room_N: Tensor) -> Tensor:
        """The scores with -inf for forbidden tokens; `room_N` tokens still fit, this one included."""
        done = written_NT.shape[1]
        if done < len(self.prefix):
            forced = torch.full_like(scores_NV, -torch.inf)
            forced[:, self.prefix[done]] = scores_NV[:, self.prefix[done]]
            return forced
        left_NA = self.left[self.after[self.states]]
        allowed = (left_NA < room_N.unsqueeze(1))[:, self.kinds] & ~self.banned
        if self.no_repeat:
            nearer = (left_NA < self.left[self.states].unsqueeze(1))[:, self.kinds]
            allowed &= nearer | ~repeats(written_NT, self.no_repeat, scores_NV.shape[1])
        if self.stop >= 0:
            allowed[:, self.stop] = self.left[self.states] == 0
        return scores_NV.masked_fill(~allowed, -torch.inf)

    def to_go(self, rows: Tensor, tokens: Tensor) -> Tensor:
        """The distance to acceptance of each hypothesis after a token; rows and tokens have the same shape."""
        return self.left[self.after[self.states[rows], self.kinds[tokens]]]

    def nearer(self) -> Tensor:
        """(N, V) bool: whether a token brings the hypothesis nearer to acceptance."""
        return (self.left[self.after[self.states]] < self.left[self.states].unsqueeze(1))[:, self.kinds]

    def move(self, rows_N: Tensor, tokens_N: Tensor) -> None:
        """Hypothesis n becomes hypothesis `rows_N[n]` extended by `tokens_N[n]`."""
        after = self.after[self.states[rows_N], self.kinds[tokens_N]]
        self.states = after.clamp(max=len(self.after) - 1)  # a finished hypothesis may be in the dead state: unused

    def select(self, rows_N: Tensor) -> None:
        """Keep these hypotheses only."""
        self.states = self.states[rows_N]


def repeats(written_NT: Tensor, size: int, vocab: int) -> Tensor:
    """(N, V) bool: the tokens that would complete an n-gram of `size` tokens that the hypothesis already contains."""
    rows, length = written_NT.shape
    found = torch.zeros(rows, vocab, dtype=torch.bool, device=written_NT.device)
    if length < size:
        return found
    runs = written_NT.unfold(1, size, 1)  # (N, T - size + 1, size)
    same = (runs[:, :, :-1] == written_NT[:, None, length - size + 1 :]).all(-1)
    counted = torch.zeros(rows, vocab, dtype=torch.int32, device=written_NT.device)
    return counted.scatter_add_(1, runs[:, :, -1], same.int()) > 0
