"""`capture`: record the tensors at a model's taps while it runs unchanged."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn

from headway.decoding.events import observe_searches
from headway.errors import AdviceWarning, ConfigError
from headway.inspection.capture_log import CaptureLog
from headway.inspection.capture_result import CaptureResult
from headway.inspection.tap_names import TapPoint, select_taps

Rows = Sequence[int] | slice | None
FORWARD_METHODS = ("forward", "features")  # each call of one is a pass
_captured: WeakSet[nn.Module] = WeakSet()  # the models of open captures: hooks are the model's, in every thread


@contextlib.contextmanager
def capture(
    model: nn.Module,
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    rows: Rows = None,
    what: str | Sequence[str] = "weights",
) -> Iterator[CaptureResult]:
    """Record what passes the taps of `model` while the context is open; its kernels and outputs stay bitwise the same.

    `what` are kinds ("weights", "q", "residual"), names ("encoder.layers.3.self.weights") or patterns of `taps`;
    `layers`, `heads` and `rows` (query positions) restrict them, None meaning all. Weights are recomputed from the
    queries and keys that were used, for the selected part only. A compiled model runs uncompiled meanwhile.
    """
    target = _uncompiled(model)
    if target in _captured:
        raise ConfigError("this model is being captured already; open one capture with everything that is wanted")
    log = CaptureLog(tuple(heads) if heads is not None else None, _selected(rows))
    points = select_taps(
        target,
        None if layers is None else _layers(layers),
        (what,) if isinstance(what, str) else tuple(what),
        heads=log.heads,
    )
    with contextlib.ExitStack() as stack:
        _captured.add(target)
        stack.callback(_captured.discard, target)
        if target is not model:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        _register_hooks(target, points, layers, log, stack)
        _wrap_methods(target, log, stack)
        stack.enter_context(observe_searches(target, log))
        yield log.result


def _register_hooks(
    model: nn.Module,
    points: list[TapPoint],
    layers: Sequence[int] | None,
    log: CaptureLog,
    stack: contextlib.ExitStack,
) -> None:
    by_module: dict[str, list[TapPoint]] = {}
    for point in points:
        if point.where == "attention":
            by_module.setdefault(point.module, []).append(point)
        else:
            stack.callback(_register_hook(model.get_submodule(point.module), point, layers, log).remove)
    for path, together in by_module.items():
        module: Any = model.get_submodule(path)
        module.on_attention = log.attention_observer(together, layers)
        stack.callback(setattr, module, "on_attention", None)


def _register_hook(module: nn.Module, point: TapPoint, layers: Sequence[int] | None, log: CaptureLog) -> Any:
    if point.where == "input":
        return module.register_forward_pre_hook(lambda _, inputs: log.record(point, layers, inputs[0]))

    def on_output(_module: nn.Module, _inputs: object, out: Any) -> None:
        log.record(point, layers, out if isinstance(out, Tensor) else out[0])

    return module.register_forward_hook(on_output)


def _wrap_methods(model: nn.Module, log: CaptureLog, stack: contextlib.ExitStack) -> None:
    """Wrap the methods by which the model is called, so that the log knows passes and steps."""
    wrappers: dict[str, Callable[..., Any]] = dict.fromkeys(FORWARD_METHODS, log.forward)
    wrappers |= {"start": log.start, "extend": log.extend, "select": log.select}
    for name, wrapper in wrappers.items():
        inner = getattr(model, name, None)
        if inner is None:
            continue
        plain = getattr(inner, "_torchdynamo_orig_callable", inner)
        if plain is not inner:
            _warn_uncompiled()
        _set_attribute(model, name, _wrapped(wrapper, plain), stack)
    if getattr(model, "_compiled_call_impl", None) is not None:
        _warn_uncompiled()
        _set_attribute(model, "_compiled_call_impl", None, stack)


def _wrapped(wrapper: Callable[..., Any], inner: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments, **named: wrapper(inner, *arguments, **named)


def _set_attribute(model: nn.Module, name: str, value: object, stack: contextlib.ExitStack) -> None:
    """Set an attribute of the instance until the stack is closed."""
    before = model.__dict__
    restore = (setattr, model, name, before[name]) if name in before else (delattr, model, name)
    object.__setattr__(model, name, value)
    stack.callback(*restore)


def _uncompiled(model: nn.Module) -> nn.Module:
    inner = getattr(model, "_orig_mod", None)
    if isinstance(inner, nn.Module):
        _warn_uncompiled()
        return inner
    return model


def _warn_uncompiled() -> None:
    warnings.warn("the model is compiled; a captured call runs uncompiled", AdviceWarning, stacklevel=5)


def _layers(layers: Sequence[int]) -> tuple[int, ...]:
    if any(not isinstance(layer, int) or layer < 0 for layer in layers):
        raise ConfigError(f"layers={list(layers)}, allowed: numbers from 0 on")
    return tuple(layers)


def _selected(rows: Rows) -> Callable[[int], bool] | None:
    """Whether a position is captured, as a function; None: all are."""
    if rows is None:
        return None
    if isinstance(rows, slice):
        start, stop, step = rows.start or 0, rows.stop, rows.step or 1
        if start < 0 or (stop is not None and stop < 0) or step < 1:
            raise ConfigError(f"rows={rows}, allowed: positions from 0 on, in increasing order")
        return lambda n: n >= start and (stop is None or n < stop) and (n - start) % step == 0
    chosen = frozenset(int(row) for row in rows)
    if any(row < 0 for row in chosen):
        raise ConfigError(f"rows={list(rows)}, allowed: positions from 0 on")
    return chosen.__contains__
