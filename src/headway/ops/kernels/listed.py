"""A few queries that look at keys on a list: dot products with these, and a weighted sum of the values beside them.

A batched product of two to sixteen queries copies all keys into an order of its own before it multiplies, and waits for
memory while it does. Here nothing is copied, and what is on no list is not read.
"""

from __future__ import annotations

import threading
import warnings
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.ops.kernels.call import Call
from headway.ops.kernels.sdpa import dense
from headway.ops.masks import Lengths, Listed

LEAST = 16  # scores, below which torch takes a softmax number by number
_LOCK = threading.Lock()  # what is warned of is the process's, not a thread's


class Lists(NamedTuple):
    """P keys for each of R queries, as the two operations take them."""

    table: Tensor  # (R, all keys), sparse: zeros where a query looks
    keys: Tensor  # (R·P,)
    starts: Tensor  # (R,): where each query's begin among them


def lists(keys_BTP: Tensor, k: Tensor) -> Lists:
    """The lists of queries (B, T, H), given the keys of each for all heads, among keys that lie as k (B, H, S, E)."""
    _warned()
    rows, heads, count, width = k.shape
    apart = [stride // width for stride in k.stride()[:3]]
    first = (torch.arange(rows) * apart[0]).unsqueeze(1) + torch.arange(heads) * apart[1]
    keys = (first[:, None, :, None] + (keys_BTP * apart[2]).unsqueeze(2)).flatten()
    each = keys_BTP.shape[2]
    ends = torch.arange(0, len(keys) + 1, each)
    size = (len(ends) - 1, _held(k))
    table = torch.sparse_csr_tensor(ends, keys, k.new_zeros(len(keys)), size, check_invariants=False)
    return Lists(table, keys, ends[:-1])


def mix(
    q_RE: Tensor, k: Tensor, v: Tensor, lists: Lists, hidden: Tensor | None, scale: float, least: int = LEAST
) -> Tensor:
    """What R queries get of keys and values (all, E), (R, E); `hidden` (B, 1, P) is true where a row may not look."""
    products = torch.ops.aten.sparse_sampled_addmm(lists.table, q_RE, k.t(), beta=0.0, alpha=scale)
    scores: Tensor = products.values().view(q_RE.size(0), -1)
    each = scores.size(1)
    if hidden is not None:
        scores.view(hidden.size(0), -1, each).masked_fill_(hidden, float("-inf"))
    if each < least:
        scores = F.pad(scores, [0, least - each], value=float("-inf"))
    weights = scores.softmax(-1).narrow(1, 0, each).reshape(-1)
    return torch.embedding_bag(v, lists.keys, lists.starts, False, 0, False, weights)[0]


def run(call: Call) -> Tensor:
    """(B, H, T, W)."""
    rows, heads, queries, width = call.q.shape
    hidden: Tensor | None = None
    alive: Tensor | None = None
    if isinstance(call.mask, Listed):
        keys = call.mask.keys
    else:
        keys = torch.arange(call.keys).expand(rows, queries, -1)
        if call.mask is not None:
            allowed, alive = dense(call.mask, queries, call.keys, call.q.device)
            hidden = ~allowed.squeeze(1)
    found = lists(keys, call.k)
    q = call.q.transpose(1, 2).reshape(-1, width)
    mixed = mix(q, _flat(call.k), _flat(call.v), found, hidden, call.scale)
    out = mixed.view(rows, queries, heads, -1).transpose(1, 2)
    return out if alive is None else out.masked_fill(~alive, 0.0)


def pays(call: Call) -> bool:
    """Are these queries that share their keys, on a CPU, in rows of numbers that can be listed?"""
    k, v = call.k, call.v
    if call.queries < 2 or call.grouped or call.bias is not None or not isinstance(call.mask, Lengths | Listed | None):
        return False
    if not k.is_cpu or k.dtype != torch.float32 or torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"):
        return False
    alike = k.shape == v.shape and k.stride() == v.stride() and k.stride(3) == 1
    return alike and k.numel() > 0 and not any(stride % k.shape[3] for stride in k.stride()[:3])


def _held(k: Tensor) -> int:
    """How many rows of E numbers there are from the first to the last key."""
    return 1 + sum((size - 1) * stride for size, stride in zip(k.shape[:3], k.stride()[:3], strict=True)) // k.shape[3]


def _flat(x: Tensor) -> Tensor:
    """(B, H, S, E), wherever its rows lie -> (all, E)."""
    return x.as_strided((_held(x), x.shape[3]), (x.shape[3], 1))


@cache
def _warned() -> None:
    """Make a sparse tensor, the first of which makes torch say that they are in a beta state: to nobody."""
    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        none = torch.zeros(1, dtype=torch.long)
        torch.sparse_csr_tensor(none, none[:0], torch.zeros(0), (0, 1))
