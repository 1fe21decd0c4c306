"""A few queries that look at keys on a list: dot products with these, and a weighted sum of the values beside them.

A batched product of a few queries copies all keys into an order of its own before it multiplies, and waits for memory
while it does. Here nothing is copied, and what is on no list is not read.
"""

from __future__ import annotations

import threading
import warnings
from functools import cache, lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.jit import is_scripting  # type: ignore[attr-defined]

from headway.ops.kernels.base import Call
from headway.ops.kernels.sdpa import dense, hides_nothing
from headway.ops.masks import Lengths, Listed

LEAST = 16  # scores, below which torch takes a softmax number by number
ENOUGH = 96  # queries of all rows and heads: with fewer a call costs more than the copies
_LOCK = threading.Lock()  # what is warned of is the process's, not a thread's


class Lists(NamedTuple):
    """P keys for each of R queries, as the two operations take them: rows of E numbers, counted from the first key."""

    table: Tensor  # (R, all rows), sparse: zeros where a query looks
    keys: Tensor  # (R·P,)
    starts: Tensor  # (R,): where each query's begin among them


def lists(keys_BTP: Tensor, shape: tuple[int, ...], stride: tuple[int, ...]) -> Lists:
    """The lists of queries (B, T, H), given the keys of each for all heads, which lie as a (B, H, S, E) does."""
    rows, heads, _, width = shape
    apart = [each // width for each in stride[:3]]
    first = (_range(rows) * apart[0]).unsqueeze(1) + _range(heads) * apart[1]
    keys = (first[:, None, :, None] + (keys_BTP * apart[2]).unsqueeze(2)).flatten()
    ends = _range(len(keys) // keys_BTP.shape[2] + 1) * keys_BTP.shape[2]
    held = 1 + sum((size - 1) * each for size, each in zip(shape[:3], apart, strict=True))
    none = keys.new_zeros(len(keys), dtype=torch.float32)
    table = torch.sparse_csr_tensor(ends, keys, none, (len(ends) - 1, held), check_invariants=False)
    return Lists(table, keys, ends[:-1])


@lru_cache(maxsize=4)
def everything(queries: int, shape: tuple[int, ...], stride: tuple[int, ...]) -> Lists:
    """The lists of queries that look at all the keys of their row. Kept: all layers have the same."""
    return lists(_range(shape[2]).expand(shape[0], queries, -1), shape, stride)


def mix(
    q_RE: Tensor, k: Tensor, v: Tensor, lists: Lists, hidden: Tensor | None, scale: float, least: int = LEAST
) -> Tensor:
    """What R queries get of k and v (B, H, S, E), (R, E); `hidden` (B, 1, 1, P) is true where a row may not look."""
    lie, apart = [lists.table.size(1), k.size(3)], [k.size(3), 1]
    turned = k.as_strided(lie, apart).t()
    if is_scripting():  # there the other name is not known; elsewhere this one costs as much again
        products = torch.ops.aten.sparse_sampled_addmm(lists.table, q_RE, turned, beta=0.0, alpha=scale)
    else:
        products = torch.sparse.sampled_addmm(lists.table, q_RE, turned, beta=0.0, alpha=scale)
    scores: Tensor = products.values().view(q_RE.size(0), -1)
    each = scores.size(1)
    if hidden is not None:
        scores.view(hidden.size(0), 1, -1, each).masked_fill_(hidden, float("-inf"))
    if each < least:
        weights = F.pad(scores, [0, least - each], value=float("-inf")).softmax(-1).narrow(1, 0, each).reshape(-1)
    else:
        weights = scores.softmax(-1).view(-1)
    return torch.embedding_bag(v.as_strided(lie, apart), lists.keys, lists.starts, False, 0, False, weights)[0]


def seen(own: Listed | None, k: Tensor, keys: int) -> tuple[Lists | None, Tensor | None]:
    """What a query of each row, or line, sees of the first `keys` in a cache: lists if they pay, or what is hidden."""
    rows, heads, _, width = k.shape
    shape, queries = (rows, heads, keys, width), 1 if own is None else own.keys.shape[1]
    if rows * heads * queries < ENOUGH or not works():
        return None, None if own is None else ~own.dense(queries, keys, k.device)
    return everything(1, shape, k.stride()) if own is None else lists(own.keys, shape, k.stride()), None


def run(call: Call) -> Tensor:
    """(B, H, T, W)."""
    rows, heads, queries, width = call.q.shape
    hidden: Tensor | None = None
    alive: Tensor | None = None
    mask, shape, stride = call.mask, tuple(call.k.shape), call.k.stride()
    if isinstance(mask, Listed):
        found = mask.once((shape, stride), lambda: lists(mask.keys, shape, stride))
    else:
        found = everything(queries, shape, stride)
        if mask is not None and not hides_nothing(mask, call.keys):
            allowed, alive = dense(mask, queries, call.keys, call.k.device)
            hidden = ~allowed
    mixed = mix(call.q.transpose(1, 2).reshape(-1, width), call.k, call.v, found, hidden, call.scale)
    out = mixed.view(rows, queries, heads, -1).transpose(1, 2)
    return out if alive is None else out.masked_fill(~alive, 0.0)


def pays(call: Call) -> bool:
    """Are these enough queries, on a CPU, that have lists or look at all keys of their row, which lie in whole rows?"""
    if call.rows * call.heads * call.queries < ENOUGH:  # asked first: one line's steps are many
        return False
    k, v = call.k, call.v
    if not k.is_cpu or k.dtype != torch.float32 or torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"):
        return False
    if call.grouped or call.bias is not None or torch.compiler.is_compiling() or k.shape != v.shape or not k.numel():
        return False
    if isinstance(call.mask, Listed):
        fits = call.mask.keys.numel() > 0
    else:
        fits = isinstance(call.mask, Lengths) or hides_nothing(call.mask, call.keys)
    if not fits:
        return False
    alike = k.stride() == v.stride() and k.stride(3) == 1 and not any(n % k.shape[3] for n in k.stride()[:3])
    return alike and works()


def _range(count: int) -> Tensor:
    return torch.arange(count, device="cpu")  # whatever device is the default


@cache
def works() -> bool:
    """Has torch the two operations here? Tried once, also because its first sparse tensor warns that they are young."""
    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = torch.ones(1, 1, 1, 1, dtype=torch.float32, device="cpu")
        try:
            return bool(mix(one[0, 0], one, one, everything(1, (1, 1, 1, 1), (1, 1, 1, 1)), None, 1.0) == 1)
        except (RuntimeError, AttributeError, NotImplementedError):
            return False
