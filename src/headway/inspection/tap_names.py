"""The taps of a model: every place where a value can be captured, under a stable name.

A name is `[stack.]layers.N.part.kind`: `layers.3.self.weights` in a model of one stack, `encoder.layers.3.self.weights`
and `decoder.layers.0.cross.q` in an encoder-decoder. A block shared by all layers (Universal Transformer) has a name
with `*`: its n-th use is layer n.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal

from torch import nn

from headway.errors import ConfigError
from headway.nn.attention import CrossAttention, SelfAttention
from headway.nn.block import Block
from headway.nn.embedding import OneHot, TokenEmbedding
from headway.nn.longformer_attention import GlobalAttention
from headway.nn.recurrent import RecurrentLayer
from headway.nn.rnn_attention import Alignment
from headway.nn.stack import Stack

LAYER = "*"  # stands for the layer number in the name of a shared block
OMITTED = ("stack", "bert", "longformer", "recurrent")  # parts of a module path that are left out of names
EMBEDDINGS = {"source_embedding": "encoder.embedding", "target_embedding": "decoder.embedding"}
Where = Literal["attention", "input", "output"]  # read by an attention observer, a pre-hook or a forward hook

# Dimensions by kind of tap: h of the H heads and t of the T queries are captured.
SHAPES = {
    "q": "B h t E", "k": "B h S E", "v": "B h S E", "bias": "B h t S", "scores": "B h t S", "weights": "B h t S",
    "heads": "B h t E", "global_k": "B h S E", "global_v": "B h S E", "out": "B t D", "input": "B t D",
    "residual": "B t D", "embedding": "B t D", "hidden": "B t D", "states": "B t D", "logits": "B t V",
    "steps": "B t", "cost": "B t",
}  # fmt: skip
IN_ATTENTION = ("q", "k", "v", "bias", "scores", "weights", "heads")


@dataclass(frozen=True, slots=True, kw_only=True)
class TapPoint:
    """A place where a value can be captured, by its public name."""

    name: str
    kind: str  # the last part of the name: a key of SHAPES
    stack: str = ""  # "encoder", "decoder", or "" where there is one stack
    layer: int | None = None  # None outside of layers, and in a shared block
    attention: Literal["self", "cross"] | None = None
    heads: int | None = None  # of an attention
    module: str = ""  # path of the module that gets the hook
    where: Where = "output"
    accumulates: bool = False  # whether the calls for one text give its parts, one after the other (recurrent models)

    @property
    def shape(self) -> str:
        """Its dimensions in the legend of the package."""
        return SHAPES[self.kind]

    @property
    def shared(self) -> bool:
        """Whether one block is used for every layer."""
        return LAYER in self.name

    @property
    def site(self) -> str:
        """The name without its kind."""
        return self.name.rpartition(".")[0]

    @property
    def holder(self) -> str:
        """The path of the module that holds the blocks."""
        return re.split(r"\.?blocks\.", self.module)[0]

    def at(self, layer: int) -> TapPoint:
        """The tap of a shared block at one of its uses."""
        return replace(self, name=self.name.replace(LAYER, str(layer)), layer=layer)


def taps(model: nn.Module) -> list[TapPoint]:
    """Every tap of a model, in the order of its modules."""
    found: list[TapPoint] = []
    holders: dict[str, str] = {}  # the module that holds the blocks, and its public name
    for path, module in model.named_modules():
        if isinstance(module, Block):
            holder, prefix, layer = _place(path)
            if not isinstance(model.get_submodule(holder), Stack):
                layer = None  # a shared block
            holders.setdefault(holder, prefix)
            found += _of_block(module, path, prefix, layer)
        elif isinstance(module, Alignment):
            found += _of_attention(path, _public(path), path, "cross", 1, layer=0, accumulates=True, kinds=_ALIGNED)
        elif isinstance(module, RecurrentLayer):
            stack, layer = _recurrent(path)
            name = _join(stack, "layers", str(layer), "states")
            found.append(_tap(name, path, "output", stack=stack, layer=layer, accumulates=True))
    for holder, prefix in holders.items():
        found.append(_tap(_join(prefix, "embedding"), holder, "input", stack=prefix))
        found.append(_tap(_join(prefix, "hidden"), holder, "output", stack=prefix))
        for kind in ("steps", "cost"):  # adaptive computation time, per token
            if hasattr(model.get_submodule(holder), f"tap_{kind}"):
                found.append(_tap(_join(prefix, kind), _join(holder, f"tap_{kind}"), "output", stack=prefix))
    return [*(found if holders else [*_embeddings(model), *found]), *_outputs(model)]


def select_taps(
    model: nn.Module, layers: tuple[int, ...] | None, what: tuple[str, ...], *, heads: tuple[int, ...] | None
) -> list[TapPoint]:
    """The taps that match. Raises ConfigError, naming what there is, for a tap, layer or head that does not exist."""
    every = taps(model)
    chosen: dict[str, TapPoint] = {}
    for pattern in what:
        matches = [tap for tap in every if _matches(tap.name, pattern)]
        if not matches:
            kinds = ", ".join(dict.fromkeys(tap.kind for tap in every))
            raise ConfigError(f"unknown tap {pattern!r}; this model has: {kinds} (headway.taps lists all names)")
        chosen |= {tap.name: tap for tap in matches}
    found = list(chosen.values())
    if layers is not None:
        known = {tap.layer for tap in found if tap.layer is not None}
        missing = [n for n in layers if n not in known]
        if missing and not any(tap.shared for tap in found):
            raise ConfigError(f"layers={list(layers)}: unknown layer {missing[0]}; this model has: {sorted(known)}")
        found = [tap for tap in found if tap.layer is None or tap.layer in layers]
    for tap in found:
        if heads is not None and tap.heads is not None and not all(0 <= head < tap.heads for head in heads):
            raise ConfigError(f"heads={list(heads)}: {tap.name} has heads 0 to {tap.heads - 1}")
    return found


def _matches(name: str, pattern: str) -> bool:
    return name == pattern or name.endswith(f".{pattern}") or fnmatchcase(name, pattern)


def _join(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def _public(path: str) -> str:
    return _join(*(part for part in path.split(".") if part not in OMITTED))


def _place(path: str) -> tuple[str, str, int | None]:
    """Of a block: the path of its holder, the public name of that, and its layer (None: shared by all)."""
    numbered = re.fullmatch(r"(?:(.*)\.)?blocks\.(\d+)", path)
    if numbered:
        holder = numbered[1] or ""
        return holder, _public(holder), int(numbered[2])
    holder = path.rpartition(".")[0]
    return holder, _public(holder), None


def _recurrent(path: str) -> tuple[str, int]:
    *before, number = path.split(".")
    return _public(_join(*(part for part in before if part != "layers"))), int(number)


def _tap(name: str, module: str, where: Where, **more: object) -> TapPoint:
    return TapPoint(name=name, kind=name.rpartition(".")[2], module=module, where=where, **more)  # type: ignore[arg-type]


_ALIGNED = ("q", "k", "v", "scores", "weights", "heads")


def _of_attention(
    path: str,
    name: str,
    stack: str,
    attention: Literal["self", "cross"],
    heads: int,
    *,
    layer: int | None,
    accumulates: bool = False,
    kinds: tuple[str, ...] = IN_ATTENTION,
) -> Iterator[TapPoint]:
    for kind in kinds:
        yield _tap(
            f"{name}.{kind}",
            path,
            "attention",
            stack=stack,
            layer=layer,
            attention=attention,
            heads=heads,
            accumulates=accumulates,
        )


def _of_block(block: Block, path: str, prefix: str, layer: int | None) -> Iterator[TapPoint]:
    base = _join(prefix, "layers", LAYER if layer is None else str(layer))

    def plain(name: str, module: str) -> TapPoint:
        return _tap(f"{base}.{name}", f"{path}.{module}", "output", stack=prefix, layer=layer)

    yield plain("input", "tap_resid_in")
    for part, own, out in (("self", "attention", "tap_attn_out"), ("cross", "cross", "tap_cross_out")):
        module = getattr(block, own)
        if isinstance(module, SelfAttention | CrossAttention):
            extra = ("global_k", "global_v") if isinstance(module, GlobalAttention) else ()
            kinds = tuple(kind for kind in (*IN_ATTENTION, *extra) if kind != "bias" or part == "self")
            where = f"{path}.{own}"
            yield from _of_attention(
                where, f"{base}.{part}", prefix, module.kind, module.heads, layer=layer, kinds=kinds
            )
            yield plain(f"{part}.out", out)
    if block.feedforward is not None:
        yield plain("feedforward.out", "tap_mlp_out")
    yield plain("residual", "tap_resid_out")


def _embeddings(model: nn.Module) -> Iterator[TapPoint]:
    """The embedding tables of a model without blocks."""
    for path, module in model.named_children():
        if isinstance(module, TokenEmbedding | OneHot):
            name = EMBEDDINGS.get(path, path)
            yield _tap(name, path, "output", stack=name.rpartition(".")[0])


def _outputs(model: nn.Module) -> Iterator[TapPoint]:
    for path in ("head", "token_head"):
        module = getattr(model, path, None)
        if isinstance(module, nn.Module) and not isinstance(module, nn.Identity):
            yield _tap("logits", path, "output")
