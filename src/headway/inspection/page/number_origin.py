"""Where a number of the page comes from: the input vector and the row of a weight matrix whose product it is.

A component of a query, key or value is x·W[row] + b, which a norm of each head's vectors and the rotation of rotary
positions may act on afterwards; a logit is x·W[row] + b of the output layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from headway.errors import ConfigError
from headway.inspection.page.tensors import PageTensors
from headway.inspection.tap_names import TapPoint, taps
from headway.nn.attention import CrossAttention, SelfAttention
from headway.nn.attention_record import AttentionRecord
from headway.nn.context import NO_CONTEXT
from headway.nn.embedding import Head
from headway.nn.longformer_attention import GlobalAttention
from headway.nn.norms import CentredRMSNorm, FeatureLayerNorm
from headway.nn.rnn_attention import Alignment

Part = Literal["q", "k", "v", "logit"]
PARTS: tuple[Part, ...] = ("q", "k", "v", "logit")
ROUNDINGS = 64  # a sum may differ from the number by this many roundings of its terms; more means a step in between
SMALL = 1e-6  # a rotation's factors below it are zeros


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberChoice:
    """A component of the query, key or value of a token in a head of an attention; or a logit."""

    part: Part
    token: int  # of a logit: the place of the output
    index: int  # the dimension; of a logit the id of the token that it is of
    attention: str = ""  # its site, as the page names attentions: "decoder.layers.1.cross"
    head: int = 0  # of the queries
    query: int = 0  # the token whose query the key or value answers: global tokens have keys and values of their own


@dataclass(slots=True)
class _LayerCalls:
    """What the calls of a module read and gave, of a batch the first text."""

    inputs: list[tuple[Any, ...]] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)

    def of_use(self, use: int | None) -> tuple[Tensor, Tensor]:
        """(N, D) read and (N, O) given, of one use of a shared block or of all calls, one after the other."""
        first = 0 if use is None else min(use, len(self.inputs) - 1)
        chosen = slice(first, None if use is None else first + 1)
        return _rows(inputs[0] for inputs in self.inputs[chosen]), _rows(self.outputs[chosen])


def _rows(each: Iterable[Tensor]) -> Tensor:
    return torch.cat([(value[0] if value.ndim > 2 else value).reshape(-1, value.shape[-1]) for value in each])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Term:
    """One product x·W[row] + b, and what becomes of it: normalised, then multiplied by `factor`."""

    x: Tensor
    row: int
    out: float  # PyTorch's
    factor: float = 1.0
    norm: dict[str, float] | None = None

    @property
    def after(self) -> float:
        """What it adds to the number."""
        if self.norm is None:
            return self.factor * self.out
        return self.factor * (
            (self.out - self.norm["mean"]) / self.norm["root"] * self.norm["gain"] + self.norm["shift"]
        )


@torch.no_grad()
def origin_entry(model: nn.Module, forward: Callable[[], Tensor], choice: NumberChoice) -> dict[str, Any]:
    """The products that give a number of the page, as `forward` computes it.

    Raises ConfigError for a number that there is not, and for one that is not such a sum of products.
    """
    if choice.part == "logit":
        value, matrix, bias, terms = _of_logit(model, forward, choice)
    else:
        value, matrix, bias, terms = _of_attention(model, forward, choice)
    for term in terms:
        row = matrix[term.row].double()
        products = row * term.x.double()
        shift = 0.0 if bias is None else bias[term.row].item()
        size = products.abs().sum().item() + abs(shift)
        if abs(products.sum().item() + shift - term.out) > ROUNDINGS * _rounding(matrix) * size + 1e-30:
            raise _not_followed("the layer does more than multiply by its matrix")
    size = sum(abs(term.after) for term in terms)
    if abs(sum(term.after for term in terms) - value) > ROUNDINGS * _rounding(matrix) * max(size, abs(value)):
        raise _not_followed("another step stands between the matrix and the number")
    tensors = PageTensors("float32")
    name = next((name for name, each in model.named_parameters() if each is matrix), "")
    rows = [
        {
            "row": term.row,
            "x": tensors.full(term.x),
            "w": tensors.full(matrix[term.row]),
            "bias": None if bias is None else bias[term.row].item(),
            "out": term.out,
            "factor": term.factor,
            "norm": term.norm,
        }
        for term in terms
    ]
    return {
        "value": value, "weight": name, "shape": list(matrix.shape), "rows": rows, "tensors": tensors.entries,
    }  # fmt: skip


def _rounding(matrix: Tensor) -> float:
    return torch.finfo(matrix.dtype).eps if matrix.dtype.is_floating_point else 0.0


def _not_followed(why: str) -> ConfigError:
    return ConfigError(f"this number cannot be followed back to its weights: {why}")


def _within(name: str, value: int, count: int) -> int:
    if not 0 <= value < count:
        raise ConfigError(f"{name}={value}, allowed: 0 to {count - 1}")
    return value


# --- a logit -------------------------------------------------------------------------------------------------------


def _of_logit(
    model: nn.Module, forward: Callable[[], Tensor], choice: NumberChoice
) -> tuple[float, Tensor, Tensor | None, list[_Term]]:
    path = next((point.module for point in taps(model) if point.kind == "logits"), None)
    head = None if path is None else model.get_submodule(path)
    if not isinstance(head, nn.Linear | Head):
        raise _not_followed("the model has no single output layer")
    with _calls([head]) as (calls,):
        logits = forward()
    place = _within("token", choice.token, len(logits))
    index = _within("index", choice.index, logits.shape[-1])
    if not calls.inputs or calls.outputs[0].shape[-1] != logits.shape[-1]:
        raise _not_followed("its logits are not those of the output layer")
    read, given = calls.of_use(None)
    at = _within("token", _row_of(given, logits[place], place), len(given))
    matrix = head.matrix(calls.inputs[0][1]) if isinstance(head, Head) else head.weight
    return logits[place, index].item(), matrix, head.bias, [_Term(x=read[at], row=index, out=given[at, index].item())]


def _row_of(given: Tensor, values: Tensor, expected: int) -> int:
    """The row that holds these values, the expected one if that does or none: a step may be computed several times."""
    found = (given == values.to(given)).all(-1).nonzero().flatten().tolist()
    return expected if expected in found or not found else int(found[0])


@contextmanager
def _calls(modules: Iterable[nn.Module]) -> Iterator[list[_LayerCalls]]:
    """Keep what these modules read and give while the context is open."""
    found = []
    with ExitStack() as stack:
        for module in modules:
            calls = _LayerCalls()

            def hook(_module: nn.Module, inputs: tuple[Any, ...], out: Tensor, calls: _LayerCalls = calls) -> None:
                calls.inputs.append(inputs)
                calls.outputs.append(out)

            stack.callback(module.register_forward_hook(hook).remove)
            found.append(calls)
        yield found


# --- a component of a query, key or value --------------------------------------------------------------------------


def _of_attention(
    model: nn.Module, forward: Callable[[], Tensor], choice: NumberChoice
) -> tuple[float, Tensor, Tensor | None, list[_Term]]:
    point, use = _point(model, choice.attention)
    module: Any = model.get_submodule(point.module)
    linears = {name: each for name, each in module.named_children() if isinstance(each, nn.Linear)}
    records: list[AttentionRecord] = []
    contexts: list[Any] = []

    def before(_module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        contexts.append(named.get("context", inputs[1] if len(inputs) > 1 else NO_CONTEXT))

    with ExitStack() as stack:
        made = stack.enter_context(_calls(linears.values()))
        stack.callback(module.register_forward_pre_hook(before, with_kwargs=True).remove)
        module.on_attention = records.append
        stack.callback(setattr, module, "on_attention", None)
        forward()
    kept = records if use is None else records[use : use + 1]
    if not kept:
        raise _not_followed("its attention was not reached")
    head = _within("head", choice.head, kept[0].q.shape[1])
    name, offset, values, token, group = _projected(module, kept, choice, head)
    value_E = values[group, token]
    width = value_E.shape[-1]
    index = _within("index", choice.index, width)
    linear, calls = linears.get(name), dict(zip(linears, made, strict=True)).get(name)
    if linear is None or calls is None or not calls.inputs:
        raise _not_followed("this attention does not project it")
    read, given = calls.of_use(use)
    first = offset + group * width
    token = _row_of(given[:, first : first + width], value_E, token)
    _within("token", token, len(given))
    projected_E = given[token, first : first + width]
    norm = {"q": "q_norm", "k": "k_norm"}.get(choice.part, "")
    norms = _norms(getattr(module, norm, None), projected_E)
    factors = [float(n == index) for n in range(width)]
    if choice.part != "v" and isinstance(module, SelfAttention):
        factors = _rotation(contexts[0 if use is None else use], given, width, token, index)
    terms = [
        _Term(
            x=read[token],
            row=first + n,
            out=projected_E[n].item(),
            factor=factor,
            norm=None if norms is None else norms[n],
        )
        for n, factor in enumerate(factors)
        if abs(factor) > SMALL
    ]
    return value_E[index].item(), linear.weight, linear.bias, terms


def _point(model: nn.Module, site: str) -> tuple[TapPoint, int | None]:
    """The attention of a name, and of a shared block which use of it."""
    for point in taps(model):
        if point.where != "attention" or point.kind != "q":
            continue
        if point.site == site:
            return point, None
        prefix, _, suffix = point.site.partition("*")
        middle = site.removeprefix(prefix).removesuffix(suffix)
        if point.shared and middle.isdecimal() and site == f"{prefix}{middle}{suffix}":
            return point, int(middle)
    raise ConfigError(f"unknown attention {site!r}")


def _projected(
    module: nn.Module, records: list[AttentionRecord], choice: NumberChoice, head: int
) -> tuple[str, int, Tensor, int, int]:
    """The linear layer, where its part of the output begins, what it became (heads, N, E), and the row and head."""
    first, part = records[0], choice.part
    own = first.global_tokens
    rows = [] if own is None else own.marked.index[0].tolist()
    if own is not None and choice.query in rows and isinstance(module, GlobalAttention):
        if part == "q":
            return "global_q", 0, own.q[0], rows.index(choice.query), head
        offset = 0 if part == "k" else module.global_kv.parts[0]
        return "global_kv", offset, (own.k if part == "k" else own.v)[0], _token(choice, own.k), head
    values = torch.cat([record.q[0] for record in records], 1) if part == "q" else getattr(first, part)[0]
    group = head if part == "q" else head // (first.q.shape[1] // first.k.shape[1])
    token = _within("token", choice.token, values.shape[1])
    if isinstance(module, SelfAttention):
        return "qkv", sum(module.qkv.parts[: ("q", "k", "v").index(part)]), values, token, group
    if isinstance(module, CrossAttention):
        return ("q" if part == "q" else "kv"), (module.kv.parts[0] if part == "v" else 0), values, token, group
    if isinstance(module, Alignment):
        return {"q": "query", "k": "key", "v": "value"}[part], 0, values, token, group
    raise _not_followed("its attention has projections of another kind")


def _token(choice: NumberChoice, k: Tensor) -> int:
    return _within("token", choice.token, k.shape[2])


def _norms(norm: nn.Module | None, projected_E: Tensor) -> list[dict[str, float]] | None:
    """What the norm of a head's vector does to each of its components."""
    if norm is None:
        return None
    x, eps = projected_E.double(), getattr(norm, "eps", None)
    mean = x.mean().item() if isinstance(norm, FeatureLayerNorm) else 0.0
    eps = torch.finfo(projected_E.dtype).eps if eps is None else eps
    root = math.sqrt((x - mean).square().mean().item() + eps)
    gain, shift = (getattr(norm, name, None) for name in ("weight", "bias"))
    one = 1.0 if isinstance(norm, CentredRMSNorm) else 0.0
    return [
        {
            "mean": mean,
            "root": root,
            "gain": 1.0 if gain is None else one + gain[n].item(),
            "shift": 0.0 if shift is None else shift[n].item(),
        }
        for n in range(len(x))
    ]


def _rotation(context: Any, given: Tensor, width: int, token: int, index: int) -> list[float]:
    """The share that each component of a token's vector has in this one of the rotated vector."""
    with torch.enable_grad():
        vectors = torch.zeros(1, 1, len(given), width, device=given.device, requires_grad=True)
        turned = context.positions.rotate(vectors)[0, 0, token, index]
        (shares,) = torch.autograd.grad(turned, vectors)
    factors: list[float] = shares[0, 0, token].tolist()
    return factors
