"""Putting other values in a model's way: the means of ablation and of activation patching.

Departure from `capture`: a value that is replaced has to pass where it can be replaced. Attention weights are then
computed by the formula, and lines of a search are taken one by one, so that numbers may differ in their last bits.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headway.errors import ConfigError, ShapeError
from headway.inspection.capture_result import axis_of
from headway.inspection.tap_names import LAYER, TapPoint, taps
from headway.nn.rnn_attention import Alignment

Change = Callable[[Tensor], Tensor]
IN_ATTENTION = ("q", "k", "v", "weights", "heads")  # taps of an attention that take another value


@contextlib.contextmanager
def patch(
    model: nn.Module,
    changes: Mapping[str, Tensor | Change],
    *,
    rows: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
) -> Iterator[None]:
    """While open, put other values at these taps: a tensor, or what a function makes of the value that passes.

    With `rows` (positions) or `heads` only that part of the value is replaced; the rest stays. Raises ConfigError for a
    name that is no tap, or one whose value nothing else reads (scores, bias).
    """
    with contextlib.ExitStack() as stack:
        for name, change in changes.items():
            point, use = _found(model, name)
            _replace(model, point, use, _changing(point, change, rows, heads), stack)
        yield


@torch.no_grad()
def patch_effects(
    model: nn.Module, clean: Mapping[str, Tensor], measure: Callable[[], float], *, rows: Sequence[int]
) -> dict[str, Tensor]:
    """Activation patching: for each captured tap, and each of these positions, what `measure` gives with it restored.

    `clean` is a capture of the run whose behaviour is to come back; `measure` runs the model on the other input and
    tells how much of it did. Returns a figure a position, (len(rows),), by name.
    """
    found: dict[str, Tensor] = {}
    for name, value in clean.items():
        figures = []
        for row in rows:
            with patch(model, {name: value}, rows=[row]):
                figures.append(measure())
        found[name] = torch.tensor(figures)
    return found


def _found(model: nn.Module, name: str) -> tuple[TapPoint, int | None]:
    """The tap of this name; of a block that is used again and again also at which use."""
    every = taps(model)
    for point in every:
        if point.name == name:
            return point, None
        if point.shared:
            before, after = point.name.split(LAYER)
            number = name.removeprefix(before).removesuffix(after)
            if name == f"{before}{number}{after}" and number.isdigit():
                return point, int(number)
    raise ConfigError(f"{name!r} is no tap of this model; headway.taps lists all {len(every)}")


def _changing(
    point: TapPoint, change: Tensor | Change, rows: Sequence[int] | None, heads: Sequence[int] | None
) -> Change:
    def changed(value: Tensor) -> Tensor:
        fresh = change(value) if callable(change) else change.to(value.device, value.dtype)
        if rows is None and heads is None:
            if fresh.shape != value.shape:
                raise ShapeError(f"{point.name} is {tuple(value.shape)}, what was to be put there {tuple(fresh.shape)}")
            return fresh
        where = torch.zeros_like(value, dtype=torch.bool)
        picked = where.movedim(axis_of(point), 0)
        picked[... if rows is None else list(rows)] = True
        if heads is not None and point.heads is not None:
            others = [head for head in range(value.shape[1]) if head not in heads]
            where[:, others] = False
        return torch.where(where, fresh, value)

    return changed


def _replace(model: nn.Module, point: TapPoint, use: int | None, change: Change, stack: contextlib.ExitStack) -> None:
    module = model.get_submodule(point.module)
    single = isinstance(module, Alignment)  # its weights (B, T, S) have no dimension for heads
    if point.where == "look":
        allowed = ("weights",) if single else IN_ATTENTION
        if point.kind not in allowed:
            raise ConfigError(f"{point.name} cannot be replaced; of this attention {', '.join(allowed)} can")
        module = module.get_submodule(f"tap_{point.kind}")
    count = 0

    def begin(_module: nn.Module, _given: object) -> None:
        nonlocal count
        count = 0

    def due() -> bool:
        nonlocal count
        count += 1
        return use is None or count - 1 == use

    def given(_module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return (change(inputs[0]), *inputs[1:])

    def gave(_module: nn.Module, _given: object, out: Any) -> Any:
        if not due():
            return None
        if isinstance(out, Tensor):
            return change(out.unsqueeze(1)).squeeze(1) if single else change(out)
        return (change(out[0]), *out[1:])

    if use is not None:  # uses are counted from the beginning of each pass
        stack.callback(model.get_submodule(point.holder).register_forward_pre_hook(begin).remove)
    hook = module.register_forward_pre_hook(given) if point.where == "given" else module.register_forward_hook(gave)
    stack.callback(hook.remove)
