"""Replacing the values at taps: the basis of ablation and activation patching.

Unlike `capture`, this changes the path of computation: attention weights are computed by the reference formula and the
hypotheses of a search do not share keys, so that outputs may differ in their last bits.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headway.counts import counted
from headway.errors import ConfigError, ShapeError
from headway.inspection.capture_result import axis_of
from headway.inspection.tap_names import LAYER, TapPoint, taps
from headway.nn.rnn_attention import Alignment

Change = Callable[[Tensor], Tensor]
REPLACEABLE = ("q", "k", "v", "weights", "heads")  # taps inside an attention whose value can be replaced


@contextlib.contextmanager
def patch(
    model: nn.Module,
    changes: Mapping[str, Tensor | Change],
    *,
    rows: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
) -> Iterator[None]:
    """While open, replace the values at these taps by a tensor, or by a function of the value.

    With `rows` (positions) or `heads` only that part is replaced. Raises ConfigError for an unknown tap, and for one
    whose value the kernel does not read (scores, bias); the pass raises ShapeError for a position that it has not.
    """
    with contextlib.ExitStack() as stack:
        for name, change in changes.items():
            point, use = _find(model, name)
            _replace(model, point, use, _restricted(point, change, rows, heads), stack)
        yield


@torch.no_grad()
def patch_effects(
    model: nn.Module, clean: Mapping[str, Tensor], measure: Callable[[], float], *, rows: Sequence[int]
) -> dict[str, Tensor]:
    """Activation patching: `measure` with each captured tap restored at each of these positions.

    `clean` is a capture of the run whose behaviour is to be restored; `measure` runs the model on the corrupted input
    and returns a metric. Returns (len(rows),) by tap name.
    """
    found: dict[str, Tensor] = {}
    for name, value in clean.items():
        values = []
        for row in rows:
            with patch(model, {name: value}, rows=[row]):
                values.append(measure())
        found[name] = torch.tensor(values)
    return found


def _find(model: nn.Module, name: str) -> tuple[TapPoint, int | None]:
    """The tap of this name; of a shared block also the number of the use."""
    every = taps(model)
    for point in every:
        if point.name == name:
            return point, None
        if point.shared:
            before, after = point.name.split(LAYER)
            number = name.removeprefix(before).removesuffix(after)
            if name == f"{before}{number}{after}" and number.isdigit():
                return point, int(number)
    raise ConfigError(f"unknown tap {name!r}; headway.taps lists the {len(every)} taps of this model")


def _restricted(
    point: TapPoint, change: Tensor | Change, rows: Sequence[int] | None, heads: Sequence[int] | None
) -> Change:
    def replaced(value: Tensor) -> Tensor:
        fresh = change(value) if callable(change) else change.to(value.device, value.dtype)
        if rows is None and heads is None:
            if fresh.shape != value.shape:
                raise ShapeError(f"{point.name} is {tuple(value.shape)}, its replacement is {tuple(fresh.shape)}")
            return fresh
        where = torch.zeros_like(value, dtype=torch.bool)
        picked = where.movedim(axis_of(point), 0)
        wrong = [row for row in rows or () if not -len(picked) <= row < len(picked)]
        if wrong:
            raise ShapeError(f"position {wrong[0]} of {point.name}: it has {counted(len(picked), 'position')}")
        picked[... if rows is None else list(rows)] = True
        if heads is not None and point.heads is not None:
            others = [head for head in range(value.shape[1]) if head not in heads]
            where[:, others] = False
        return torch.where(where, fresh, value)

    return replaced


def _replace(model: nn.Module, point: TapPoint, use: int | None, change: Change, stack: contextlib.ExitStack) -> None:
    module = model.get_submodule(point.module)
    single = isinstance(module, Alignment)  # its weights (B, T, S) have no dimension for heads
    if point.where == "attention":
        allowed = ("weights",) if single else REPLACEABLE
        if point.kind not in allowed:
            raise ConfigError(f"{point.name} cannot be replaced; of this attention only {', '.join(allowed)} can")
        module = module.get_submodule(f"tap_{point.kind}")
    count = 0

    def restart(_module: nn.Module, _inputs: object) -> None:
        nonlocal count
        count = 0

    def due() -> bool:
        nonlocal count
        count += 1
        return use is None or count - 1 == use

    def on_input(_module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return (change(inputs[0]), *inputs[1:])

    def on_output(_module: nn.Module, _inputs: object, out: Any) -> Any:
        if not due():
            return None
        if isinstance(out, Tensor):
            return change(out.unsqueeze(1)).squeeze(1) if single else change(out)
        return (change(out[0]), *out[1:])

    if use is not None:  # uses are counted from the start of each pass
        stack.callback(model.get_submodule(point.holder).register_forward_pre_hook(restart).remove)
    at_input = point.where == "input"
    hook = module.register_forward_pre_hook(on_input) if at_input else module.register_forward_hook(on_output)
    stack.callback(hook.remove)
