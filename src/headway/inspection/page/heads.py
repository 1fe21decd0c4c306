"""Attentions as the page reads them: queries, keys and values to compute with, and some of PyTorch's rows to compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor

from headway import ops
from headway.inspection.page.recording import Heads, Recording
from headway.inspection.page.tensors import Tensors
from headway.nn.alignment import Alignment
from headway.nn.attention import CrossAttention, SelfAttention
from headway.nn.local_attention import GlobalAttention
from headway.nn.positions import Rotary
from headway.nn.stack import Stack
from headway.ops import Mask
from headway.ops.masks import And
from headway.ops.bands import globals_of, marked_queries

CHECKED = 16  # rows of each head that are kept as PyTorch gave them


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """What a stack, or an attention without one, is called and which texts of the page it works on."""

    label: str
    sequence: str
    memory: str | None = None  # what its cross-attention looks at


def attention_entries(recording: Recording, tensors: Tensors, reads: Mapping[str, Reads]) -> list[dict[str, Any]]:
    """Every attention that was seen, stack by stack and layer by layer."""
    entries = []
    for path, heads in recording.attentions.items():
        stack, _, rest = path.partition("blocks.")
        owner = stack.removesuffix(".") if rest else path
        if "q" not in heads.seen or owner not in reads:
            continue
        told, layer = reads[owner], int(rest.split(".")[0]) if rest else 0
        crossing = not isinstance(heads.module, SelfAttention)
        entry = {
            "name": path,
            "stack": owner if rest else None,
            "label": told.label,
            "layer": layer,
            "kind": "cross" if crossing else "self",
            "queries": told.sequence,
            "keys": (told.memory or told.sequence) if crossing else told.sequence,
        }
        module = recording.streams[owner].module if owner in recording.streams else None
        entries.append(entry | _numbers(heads, tensors, module))
    return entries


def _numbers(heads: Heads, tensors: Tensors, stack: Stack | None) -> dict[str, Any]:
    q, k, v = (heads.seen[part] for part in "qkv")
    weights, out = heads.seen["weights"], heads.seen["heads"]
    late = q.shape[1] - weights.shape[1]
    if isinstance(heads.module, Alignment) and late >= 0:
        q = q[:, late:]
    rows = checked_rows(q.shape[1])
    entry = {
        "heads": q.shape[0],
        "groups": k.shape[0],
        "scale": _scales(heads, q.shape[0]),
        "q": tensors.exact(q),
        "k": tensors.exact(k),
        "v": tensors.exact(v),
        "energy": None if heads.energy is None else tensors.exact(heads.energy),
        "hard": isinstance(heads.module, Alignment) and heads.module.hard,
        "position": _position(heads, tensors, stack),
        "rows": rows,
        "weights": tensors.exact(weights[:, rows]),
        "out": tensors.exact(out[:, rows]),
    }
    return entry | _mask(heads, tensors, q.shape[1], k.shape[1]) | _global(heads, tensors)


def checked_rows(queries: int) -> list[int]:
    """Which rows are kept for comparison: all, or evenly spread ones with the first and the last."""
    if queries <= CHECKED:
        return list(range(queries))
    return sorted({round(n * (queries - 1) / (CHECKED - 1)) for n in range(CHECKED)})


def _scales(heads: Heads, count: int) -> list[float]:
    if isinstance(heads.module, SelfAttention | CrossAttention):
        scale = heads.module.scale
        values: list[float] = scale.tolist() if isinstance(scale, Tensor) else [scale] * count
        return values
    return [1.0] * count


def _position(heads: Heads, tensors: Tensors, stack: Stack | None) -> dict[str, Any] | None:
    """What a distance does to a score inside this attention, in a form to compute with."""
    if not isinstance(heads.module, SelfAttention):
        return None
    shaw, bias = heads.module.shaw, heads.geometry.bias if heads.geometry else None
    if shaw is not None:
        values = None if shaw.values is None else tensors.exact(shaw.values)
        return {"kind": "shaw", "keys": tensors.exact(shaw.keys), "values": values}
    if isinstance(bias, ops.Alibi):
        return {"kind": "alibi", "slopes": bias.slopes.tolist()}
    if isinstance(bias, ops.Relative):
        return {"kind": "t5", "table": tensors.full(bias.table[0, :, 0])}
    shared = stack.attention_positions.position if stack and stack.attention_positions else None
    if isinstance(shared, Rotary):
        return {"kind": "rotary", "base": shared.base, "layout": shared.layout}
    return None


def _mask(heads: Heads, tensors: Tensors, queries: int, keys: int) -> dict[str, Any]:
    if heads.mask is None:
        return {"mask": None, "mask_words": "every token may look everywhere"}
    allowed = heads.mask.dense(queries, keys, heads.seen["q"].device)[0]
    return {"mask": tensors.bits(allowed), "mask_words": mask_words(heads.mask)}


def mask_words(mask: Mask) -> str:
    """A mask in words, its parts by their names."""
    parts = getattr(mask, "parts", None)
    if parts is not None:
        joint = " and " if isinstance(mask, And) else " or "
        return joint.join(mask_words(part) for part in parts)
    shown = [
        f"{field.name} {getattr(mask, field.name)}"
        for field in fields(mask)
        if isinstance(getattr(mask, field.name), int | tuple) and field.name != "offset"
    ]
    return " ".join([type(mask).__name__.lower(), *([f"({', '.join(shown)})"] if shown else [])])


def _global(heads: Heads, tensors: Tensors) -> dict[str, Any]:
    """Longformer's global tokens look through projections of their own."""
    if not isinstance(heads.module, GlobalAttention) or "global_q" not in heads.seen or heads.mask is None:
        return {"others": None}
    marked = marked_queries(globals_of(heads.mask)[0], heads.seen["q"].shape[1])
    rows: Sequence[int] = marked.index[0].tolist()
    parts = {part: tensors.exact(heads.seen[f"global_{part}"]) for part in "qkv"}
    return {"others": {"rows": list(rows), **parts}}
