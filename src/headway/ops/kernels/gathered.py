"""Sparse attention over per-query key indices (CPU): gathered dot products, and gathered sums of values.

A batched product of a few queries first copies all keys into its own memory order, and is bound by memory meanwhile.
Here the scores are a sampled dense-dense product (`torch.sparse.sampled_addmm`) and the output is a weighted
`embedding_bag`: both read keys and values where they are in the KV cache, and only those that a query attends to.
"""

from __future__ import annotations

import threading
import warnings
from functools import cache, lru_cache
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.jit import is_scripting  # type: ignore[attr-defined]

from headway.ops.kernels.base import AttentionInputs
from headway.ops.kernels.sdpa import dense, hides_nothing
from headway.ops.masks import Lengths, Listed

MIN_SOFTMAX_WIDTH = 16  # scores, below which torch's softmax is not vectorised
MIN_QUERIES = 96  # B·H·T, below which the overhead of a call exceeds the copies it saves
_LOCK = threading.Lock()  # warning filters are shared by all threads


class KeyIndex(NamedTuple):
    """The P keys of each of R queries, as indices of E-wide rows counted from the first element of the buffer."""

    table: Tensor  # (R, rows of the buffer), sparse CSR: stored zeros where a query attends
    keys: Tensor  # (R·P,)
    starts: Tensor  # (R,): where the keys of each query begin in `keys`


def key_index(keys_BTP: Tensor, shape: tuple[int, ...], stride: tuple[int, ...]) -> KeyIndex:
    """The index of queries (B, T, H) whose keys are given for all heads; `shape` and `stride` are those of k."""
    rows, heads, _, width = shape
    steps = [each // width for each in stride[:3]]
    first = (_range(rows) * steps[0]).unsqueeze(1) + _range(heads) * steps[1]
    keys = (first[:, None, :, None] + (keys_BTP * steps[2]).unsqueeze(2)).flatten()
    ends = _range(len(keys) // keys_BTP.shape[2] + 1) * keys_BTP.shape[2]
    span = 1 + sum((size - 1) * each for size, each in zip(shape[:3], steps, strict=True))
    zeros = keys.new_zeros(len(keys), dtype=torch.float32)
    table = torch.sparse_csr_tensor(ends, keys, zeros, (len(ends) - 1, span), check_invariants=False)
    return KeyIndex(table, keys, ends[:-1])


@lru_cache(maxsize=4)
def all_keys(queries: int, shape: tuple[int, ...], stride: tuple[int, ...]) -> KeyIndex:
    """The index of queries that attend to all keys of their row; cached, since it is the same for all layers."""
    return key_index(_range(shape[2]).expand(shape[0], queries, -1), shape, stride)


def gathered_attention(
    q_RE: Tensor,
    k: Tensor,
    v: Tensor,
    index: KeyIndex,
    hidden: Tensor | None,
    scale: float,
    min_width: int = MIN_SOFTMAX_WIDTH,
) -> Tensor:
    """(R, E): the attention of R queries over k and v (B, H, S, E); `hidden` (B, 1, 1, P) is true where masked."""
    size, stride = [index.table.size(1), k.size(3)], [k.size(3), 1]
    k_t = k.as_strided(size, stride).t()
    if is_scripting():  # TorchScript does not know the other name, which in eager mode is half as expensive
        products = torch.ops.aten.sparse_sampled_addmm(index.table, q_RE, k_t, beta=0.0, alpha=scale)
    else:
        products = torch.sparse.sampled_addmm(index.table, q_RE, k_t, beta=0.0, alpha=scale)
    scores: Tensor = products.values().view(q_RE.size(0), -1)
    width = scores.size(1)
    if hidden is not None:
        scores.view(hidden.size(0), 1, -1, width).masked_fill_(hidden, float("-inf"))
    if width < min_width:
        padded = F.pad(scores, [0, min_width - width], value=float("-inf"))
        weights = padded.softmax(-1).narrow(1, 0, width).reshape(-1)
    else:
        weights = scores.softmax(-1).view(-1)
    return torch.embedding_bag(v.as_strided(size, stride), index.keys, index.starts, False, 0, False, weights)[0]


def cached_keys(own: Listed | None, k: Tensor, keys: int) -> tuple[KeyIndex | None, Tensor | None]:
    """For a decoding step over the first `keys` positions of a KV cache: an index, or the dense mask of hidden keys.

    `own` lists the keys of each hypothesis of a row (None: one query per row, which attends to all). The index is
    None where gathering would not be faster or is not available.
    """
    rows, heads, _, width = k.shape
    shape, queries = (rows, heads, keys, width), 1 if own is None else own.keys.shape[1]
    if rows * heads * queries < MIN_QUERIES or not is_available():
        return None, None if own is None else ~own.dense(queries, keys, k.device)
    return all_keys(1, shape, k.stride()) if own is None else key_index(own.keys, shape, k.stride()), None


def preferred_layout(rows: int, heads: int) -> Literal["heads", "positions"]:
    """The memory order of a KV cache on a CPU that `rows` queries (rows times hypotheses) of `heads` heads read.

    "positions": (B, S, H, E), the features of all heads of a position side by side, as gathering reads them; "heads":
    (B, H, S, E), as batched products read them.
    """
    return "positions" if heads * rows >= MIN_QUERIES else "heads"


def run(inputs: AttentionInputs) -> Tensor:
    """(B, H, T, W)."""
    rows, heads, queries, width = inputs.q.shape
    hidden: Tensor | None = None
    alive: Tensor | None = None
    mask, shape, stride = inputs.mask, tuple(inputs.k.shape), inputs.k.stride()
    if isinstance(mask, Listed):
        index = mask.once((shape, stride), lambda: key_index(mask.keys, shape, stride))
    else:
        index = all_keys(queries, shape, stride)
        if mask is not None and not hides_nothing(mask, inputs.keys):
            allowed, alive = dense(mask, queries, inputs.keys, inputs.k.device)
            hidden = ~allowed
    q_RE = inputs.q.transpose(1, 2).reshape(-1, width)
    mixed = gathered_attention(q_RE, inputs.k, inputs.v, index, hidden, inputs.scale)
    out = mixed.view(rows, queries, heads, -1).transpose(1, 2)
    return out if alive is None else out.masked_fill(~alive, 0.0)


def is_faster_for(inputs: AttentionInputs) -> bool:
    """Whether there are enough queries, on a CPU, and mask and memory layout are among those supported."""
    if inputs.rows * inputs.heads * inputs.queries < MIN_QUERIES:  # checked first: decoding one sequence is frequent
        return False
    k, v = inputs.k, inputs.v
    if not k.is_cpu or k.dtype != torch.float32 or torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"):
        return False
    if inputs.grouped or inputs.bias is not None or torch.compiler.is_compiling():
        return False
    if k.shape != v.shape or not k.numel():
        return False
    if isinstance(inputs.mask, Listed):
        supported = inputs.mask.keys.numel() > 0
    else:
        supported = isinstance(inputs.mask, Lengths) or hides_nothing(inputs.mask, inputs.keys)
    if not supported:
        return False
    whole_rows = k.stride() == v.stride() and k.stride(3) == 1 and not any(n % k.shape[3] for n in k.stride()[:3])
    return whole_rows and is_available()


def _range(count: int) -> Tensor:
    return torch.arange(count, device="cpu")  # independent of the default device


@cache
def is_available() -> bool:
    """Whether this build of torch has the two operations.

    Tried once, also because torch warns at the first sparse CSR tensor that they are in beta.
    """
    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = torch.ones(1, 1, 1, 1, dtype=torch.float32, device="cpu")
        try:
            index = all_keys(1, (1, 1, 1, 1), (1, 1, 1, 1))
            return bool(gathered_attention(one[0, 0], one, one, index, None, 1.0) == 1)
        except (RuntimeError, AttributeError, NotImplementedError):
            return False
