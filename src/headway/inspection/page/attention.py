"""Attentions of the page: queries, keys and values to compute with, and some of PyTorch's rows to compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from headway import ops
from headway.inspection.page.record import ForwardRecord
from headway.inspection.page.tensors import BASE64, PageTensors, indices_that_fit
from headway.nn.attention import SelfAttention
from headway.nn.attention_record import AttentionRecord
from headway.nn.positions import AttentionPositions, Rotary
from headway.nn.rnn_attention import Alignment
from headway.ops import Causal, Global, Lengths, Mask, NotSelf, Packed, Prefix, Window
from headway.ops.masks import And
from headway.tasks.explanation import StackDescription

MASK_WORDS = {
    Causal: "itself and what came before",
    NotSelf: "everything but itself",
    Lengths: "what is not padding",
    Packed: "its own document",
    Prefix: "the prefix, and what came before",
    Global: "global tokens, which see everything",
}
COMPARED = 16  # rows of each head that are kept as PyTorch computed them
ENTRY = 1_000  # characters of an attention's entry beside its tensors


def attention_entries(
    recording: ForwardRecord, tensors: PageTensors, reads: Mapping[str, StackDescription], room: int
) -> list[dict[str, Any]]:
    """Every attention that was seen, stack by stack and layer by layer; of a large model or text, as many as fit.

    `room` is how many characters of the file they may take.
    """
    sites, costs = list(recording.attention), attention_sizes(recording, tensors)
    entries = []
    for site in (sites[n] for n in indices_that_fit(costs, room)):
        looks, point = recording.attention[site], recording.points[site]
        described = reads[point.stack]
        crossing = point.attention == "cross"
        entry = {
            "name": site,
            "tap": recording.taps[site],
            "unit": "step" if recording.taps[site] != site else "layer",
            "stack": point.stack,
            "label": described.label,
            "layer": point.layer,
            "kind": point.attention,
            "queries": described.sequence,
            "keys": (described.memory or described.sequence) if crossing else described.sequence,
        }
        module = recording.model.get_submodule(point.module)
        shared = None
        if isinstance(module, SelfAttention):
            shared = getattr(recording.holder(point.stack), "attention_positions", None)
        entries.append(entry | _numbers(looks, tensors) | _module(module, looks[0], shared, point.layer or 0, tensors))
    return entries


def attention_sizes(recording: ForwardRecord, tensors: PageTensors) -> list[int]:
    """Characters of the file that each attention takes; a mask that several share is counted with the first."""
    masks: set[str] = set()
    return [_size(looks, tensors, masks) for looks in recording.attention.values()]


def _size(looks: Sequence[AttentionRecord], tensors: PageTensors, masks: set[str]) -> int:
    first, queries = looks[0], sum(look.q.shape[2] for look in looks)
    (_, heads, _, width), (_, groups, keys, out) = first.q.shape, first.v.shape
    rows = len(compared_rows(queries))
    shapes = [
        (heads, queries, width),
        (groups, keys, width),
        (groups, keys, out),
        (heads, rows, keys),
        (heads, rows, out),
    ]
    if first.global_tokens is not None:
        shapes += [tuple(getattr(first.global_tokens, part).shape[1:]) for part in "qkv"]
    size = sum(tensors.exact_size(*shape) for shape in shapes) + ENTRY
    kind = None if first.mask is None else f"{describe_mask(first.mask)} {queries} {keys}"
    if kind is None or kind in masks:
        return size
    masks.add(kind)
    return size + round(BASE64 * queries * keys / 8)


def element_count(look: AttentionRecord) -> int:
    """Elements of the queries, keys and values of an attention call."""
    return look.q.numel() + look.k.numel() + look.v.numel()


def _numbers(looks: Sequence[AttentionRecord], tensors: PageTensors) -> dict[str, Any]:
    """Queries (H, T, E), keys and values (G, S, E), the mask, and the rows to compare."""
    first = looks[0]
    q = torch.cat([look.q[0] for look in looks], 1)
    heads, queries, keys = q.shape[0], q.shape[1], first.k.shape[2]
    rows = compared_rows(queries)
    scale = first.scale.tolist() if isinstance(first.scale, Tensor) else first.scale
    entry: dict[str, Any] = {
        "heads": heads,
        "groups": first.k.shape[1],
        "scale": scale if isinstance(scale, list) else [scale] * heads,
        "q": tensors.exact(q),
        "k": tensors.exact(first.k[0]),
        "v": tensors.exact(first.v[0]),
        "rows": rows,
        "weights": tensors.exact(attention_rows(looks, rows, "weights")),
        "out": tensors.exact(attention_rows(looks, rows, "head_outputs")),
        "mask": None,
        "mask_words": "everything",
        "others": None,
    }
    if first.mask is not None:
        allowed = first.mask.dense(queries, keys, q.device)[0].expand(-1, queries, keys)  # one row may stand for all
        entry |= {"mask": tensors.bits(allowed), "mask_words": describe_mask(first.mask)}
    if first.global_tokens is not None:  # Longformer's global tokens have projections of their own
        parts = {part: tensors.exact(getattr(first.global_tokens, part)[0]) for part in "qkv"}
        entry["others"] = {"rows": first.global_tokens.marked.index[0].tolist(), **parts}
    return entry


def attention_rows(looks: Sequence[AttentionRecord], rows: list[int], what: str) -> Tensor:
    """(H, rows, …) as PyTorch computed it, in one call or several."""
    if len(looks) > 1:
        return torch.cat([getattr(look, what)()[0] for look in looks], 1)[:, rows]
    part: Tensor = getattr(looks[0], what)(queries=torch.tensor(rows, device=looks[0].q.device))[0]
    return part


def compared_rows(queries: int) -> list[int]:
    """The rows kept for comparison: all, or evenly spread ones with the first and the last."""
    if queries <= COMPARED:
        return list(range(queries))
    return sorted({round(n * (queries - 1) / (COMPARED - 1)) for n in range(COMPARED)})


def _module(module: object, look: AttentionRecord, shared: object, layer: int, tensors: PageTensors) -> dict[str, Any]:
    """What enters the score beside q·k: the vector of an additive energy, and relative positions, as parameters."""
    entry: dict[str, Any] = {"energy": None, "hard": False, "position": None}
    if isinstance(module, Alignment):
        energy = None if module.energy is None else tensors.exact(module.energy)
        return entry | {"energy": energy, "hard": module.hard}
    if not isinstance(module, SelfAttention):
        return entry
    if module.shaw is not None:
        values = None if module.shaw.values is None else tensors.exact(module.shaw.values)
        return entry | {"position": {"kind": "shaw", "keys": tensors.exact(module.shaw.keys), "values": values}}
    if isinstance(look.bias, ops.Alibi):
        return entry | {"position": {"kind": "alibi", "slopes": look.bias.slopes.tolist()}}
    if isinstance(look.bias, ops.Relative):
        return entry | {"position": {"kind": "t5", "table": tensors.full(look.bias.table[0, :, 0])}}
    position = shared.position if isinstance(shared, AttentionPositions) else None
    if isinstance(position, Rotary):
        return entry | {"position": {"kind": "rotary", "base": position.base_of(layer), "layout": position.layout}}
    return entry


def describe_mask(mask: Mask) -> str:
    """A description of what a token may attend to."""
    parts = getattr(mask, "parts", None)
    if parts is not None:
        return (" and " if isinstance(mask, And) else " or ").join(describe_mask(part) for part in parts)
    words = MASK_WORDS.get(type(mask), type(mask).__name__.lower())
    if isinstance(mask, Window):
        ahead = mask.left if mask.right is None else mask.right
        steps = f", steps of {mask.dilation}" if mask.dilation != 1 else ""
        words = f"{mask.left} tokens back and {ahead} ahead{steps}" if mask.left or ahead else "itself alone"
    return words
