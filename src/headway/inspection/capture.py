"""`capture`: see what passes in a model while it runs as it always does."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headway.errors import AdviceWarning, ConfigError
from headway.inspection.capture_log import Journal
from headway.inspection.capture_result import Seen
from headway.inspection.tap_names import TapPoint, wanted

Rows = Sequence[int] | slice | None
WHOLE = ("forward", "features")  # ways into a model that are a pass by themselves


@contextlib.contextmanager
def capture(
    model: nn.Module,
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    rows: Rows = None,
    what: str | Sequence[str] = "weights",
) -> Iterator[Seen]:
    """See what passes in `model` while the context is open; its kernels, and every bit it gives, stay as they are.

    `what` are kinds ("weights", "q", "residual"), names ("encoder.layers.3.self.weights") or patterns of `taps`;
    `layers`, `heads` and `rows` (positions of queries) narrow that, None being all. Weights are recomputed from the
    queries and keys that were used, for what was asked alone. A compiled model runs uncompiled meanwhile.
    """
    target = _uncompiled(model)
    if hasattr(target, "journal"):
        raise ConfigError("this model is being captured already: one capture at a time, with all that is wanted")
    journal = Journal(tuple(heads) if heads is not None else None, _rows(rows))
    points = wanted(
        target,
        None if layers is None else _layers(layers),
        (what,) if isinstance(what, str) else tuple(what),
        heads=journal.heads,
    )
    with contextlib.ExitStack() as stack:
        if target is not model:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        _listen(target, points, layers, journal, stack)
        _follow(target, journal, stack)
        yield journal.seen


def _listen(
    model: nn.Module,
    points: list[TapPoint],
    layers: Sequence[int] | None,
    journal: Journal,
    stack: contextlib.ExitStack,
) -> None:
    by_module: dict[str, list[TapPoint]] = {}
    for point in points:
        if point.where == "look":
            by_module.setdefault(point.module, []).append(point)
        else:
            stack.callback(_hook(model.get_submodule(point.module), point, layers, journal).remove)
    for path, together in by_module.items():
        module: Any = model.get_submodule(path)
        module.on_attention = journal.looked(together, layers)
        stack.callback(setattr, module, "on_attention", None)


def _hook(module: nn.Module, point: TapPoint, layers: Sequence[int] | None, journal: Journal) -> Any:
    if point.where == "given":
        return module.register_forward_pre_hook(lambda _, given: journal.passed(point, layers, given[0]))

    def gave(_module: nn.Module, _given: object, out: Any) -> None:
        journal.passed(point, layers, out if isinstance(out, Tensor) else out[0])

    return module.register_forward_hook(gave)


def _follow(model: nn.Module, journal: Journal, stack: contextlib.ExitStack) -> None:
    """Let the journal know of every call: the ways into this model are wrapped while the capture is open."""
    ways = {**dict.fromkeys(WHOLE, journal.whole)}
    ways |= {"start": journal.start, "extend": journal.extend, "select": journal.select}
    for name, told in ways.items():
        inner = getattr(model, name, None)
        if inner is None:
            continue
        plain = getattr(inner, "_torchdynamo_orig_callable", inner)
        if plain is not inner:
            _say_uncompiled()
        _set(model, name, _told(told, plain), stack)
    if getattr(model, "_compiled_call_impl", None) is not None:
        _say_uncompiled()
        _set(model, "_compiled_call_impl", None, stack)
    _set(model, "journal", journal, stack)


def _told(told: Callable[..., Any], inner: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments, **named: told(inner, *arguments, **named)


def _set(model: nn.Module, name: str, value: object, stack: contextlib.ExitStack) -> None:
    before = model.__dict__
    restore = (setattr, model, name, before[name]) if name in before else (delattr, model, name)
    object.__setattr__(model, name, value)
    stack.callback(*restore)


def _uncompiled(model: nn.Module) -> nn.Module:
    inner = getattr(model, "_orig_mod", None)
    if isinstance(inner, nn.Module):
        _say_uncompiled()
        return inner
    return model


def _say_uncompiled() -> None:
    warnings.warn("the model is compiled; a captured call runs uncompiled", AdviceWarning, stacklevel=5)


def _layers(layers: Sequence[int]) -> tuple[int, ...]:
    if any(not isinstance(layer, int) or layer < 0 for layer in layers):
        raise ConfigError(f"layers={list(layers)}, allowed: numbers from 0 on")
    return tuple(layers)


def _rows(rows: Rows) -> Callable[[int], bool] | None:
    """Whether a position was asked for."""
    if rows is None:
        return None
    if isinstance(rows, slice):
        start, stop, step = rows.start or 0, rows.stop, rows.step or 1
        if start < 0 or (stop is not None and stop < 0) or step < 1:
            raise ConfigError(f"rows={rows}, allowed: positions from 0 on, in their order")
        return lambda n: n >= start and (stop is None or n < stop) and (n - start) % step == 0
    chosen = frozenset(int(row) for row in rows)
    if any(row < 0 for row in chosen):
        raise ConfigError(f"rows={list(rows)}, allowed: positions from 0 on")
    return chosen.__contains__
