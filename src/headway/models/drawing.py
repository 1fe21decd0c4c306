"""A model on the "meta" device whose parameters are drawn later, one at a time, with the bits of `build_model`.

For a model that is larger than the memory of a process, which keeps some rows of each parameter. All parameters are
drawn from one stream of random numbers, and many twice: a layer draws its own, and the model draws them anew. So the
operations of building are recorded on the "meta" device and repeated with values. Of what is overwritten later, the
repetition draws the numbers and keeps nothing; everything else is freed after its last use.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map

from headway.models.inputs import Model
from headway.models.registry import ModelConfig, build_model

# Operations in place that do not depend on what they overwrite, beside the functions of torch.nn.init.
_OVERWRITING = ("normal_", "uniform_", "zero_", "fill_", "copy_", "random_", "bernoulli_", "exponential_")


@dataclass(frozen=True, slots=True)
class _Ref:
    """A tensor by its place in a storage: parameters, views and what they were made of share one."""

    storage: int
    bytes: int  # of the storage
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype

    @classmethod
    def of(cls, tensor: Tensor) -> _Ref:
        storage = tensor.untyped_storage()
        offset = int(tensor.storage_offset())
        return cls(storage._cdata, storage.nbytes(), tuple(tensor.shape), tensor.stride(), offset, tensor.dtype)

    @property
    def covers(self) -> bool:
        """Whether it is all of its storage."""
        count = torch.Size(self.size).numel()
        return count * self.dtype.itemsize == self.bytes and self.offset == 0


@dataclass(slots=True)
class _Call:
    """An operation with references for the tensors on the "meta" device."""

    operation: torch._ops.OpOverload | Callable[..., Tensor]  # or a function of torch.nn.init, or torch.tensor
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    found: Any
    needed: bool = False  # a value that is kept depends on it
    last: list[int] = field(default_factory=list)  # storages that nothing needs afterwards

    @property
    def draws(self) -> bool:
        """Whether it may draw random numbers."""
        if isinstance(self.operation, OpOverload):
            return torch.Tag.nondeterministic_seeded in self.operation.tags
        return self.operation is not torch.tensor

    @property
    def overwritten(self) -> list[_Ref]:
        """What it writes without reading it."""
        named = isinstance(self.operation, OpOverload) and self.operation._schema.name.removeprefix("aten::")
        return [each for each in self.changed if each.covers and (not named or named in _OVERWRITING)]

    @property
    def given(self) -> list[_Ref]:
        return [each for each in tree_iter((self.args, self.kwargs)) if isinstance(each, _Ref)]

    @property
    def changed(self) -> list[_Ref]:
        """What it writes in place."""
        if not isinstance(self.operation, OpOverload):
            return self.given
        written = []
        for number, argument in enumerate(self.operation._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                value = self.args[number] if number < len(self.args) else self.kwargs.get(argument.name)
                written += [each for each in tree_iter(value) if isinstance(each, _Ref)]
        return written

    @property
    def made(self) -> set[int]:
        """The storages that it allocates."""
        old = {each.storage for each in self.given}
        return {each.storage for each in tree_iter(self.found) if isinstance(each, _Ref)} - old


class _Recorder(TorchDispatchMode):
    """Keeps the operations on the "meta" device, and their tensors, so that no storage has the place of another."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[_Call] = []
        self.held: list[Any] = []
        self.complete = True  # whether all that is drawn is drawn on the "meta" device

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        self.held.append((args, kwargs, found))
        call = _Call(func, *tree_map(_referred, (args, kwargs or {}, found)))
        if any(isinstance(each, _Ref) for each in tree_iter((call.args, call.kwargs, call.found))):
            self.calls.append(call)
        elif call.draws:
            self.complete = False
        return found


class _Constants(TorchFunctionMode):
    """Records the tensors made of Python's numbers, which no operation on the "meta" device makes."""

    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        if func is torch.tensor and found.is_meta:
            self.recorder.held.append(found)
            self.recorder.calls.append(_Call(func, args, kwargs or {}, _referred(found)))
        return found


@contextlib.contextmanager
def _initialisers_recorded(recorder: _Recorder) -> Iterator[None]:
    """Record a function of torch.nn.init as one operation: some read values, and do nothing on the "meta" device."""
    originals = {name: getattr(nn.init, name) for name in dir(nn.init) if name.endswith("_") and name[0] != "_"}

    def recorded(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def record(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            recorder.held.append(tensor)
            recorder.calls.append(_Call(function, (_Ref.of(tensor), *args), kwargs, None))
            return tensor

        return record

    for name, function in originals.items():
        setattr(nn.init, name, recorded(function))
    try:
        yield
    finally:
        for name, function in originals.items():
            setattr(nn.init, name, function)


def _referred(value: Any) -> Any:
    return _Ref.of(value) if isinstance(value, Tensor) and value.is_meta else value


class Drawing:
    """How the values of a model on the "meta" device are made."""

    def __init__(self, calls: list[_Call], kept: dict[int, list[tuple[str, _Ref]]], seed: int) -> None:
        self.calls, self.kept, self.seed = calls, kept, seed

    def values(self) -> Iterator[tuple[str, Tensor]]:
        """The parameters and buffers by name, as their values are complete; free each before asking for the next."""
        real: dict[int, torch.UntypedStorage] = {}
        with torch.random.fork_rng(devices=[]), torch.no_grad(), torch.device("cpu"):
            torch.default_generator.manual_seed(self.seed)
            for call in self.calls:
                _repeat(call, real if call.needed else {})
                for storage in call.last:
                    for name, ref in self.kept.get(storage, ()):
                        yield name, _tensor(ref, real)
                    real.pop(storage, None)


def draw_later(config: ModelConfig, *, seed: int = 0) -> tuple[Model, Drawing] | None:
    """The model of a config on the "meta" device, and what draws its parameters from `seed`.

    None where building does what cannot be repeated so, such as reading a value. Raises ConfigError as `build_model`.
    """
    build_model(config, device="meta")
    recorder = _Recorder()
    try:
        with _initialisers_recorded(recorder), torch.device("meta"), _Constants(recorder), recorder:
            model: Model = config.build()
    except (RuntimeError, NotImplementedError):  # of a value that a tensor on "meta" does not have
        return None
    kept: dict[int, list[tuple[str, _Ref]]] = {}
    for name, tensor in named_tensors(model):
        kept.setdefault(_Ref.of(tensor).storage, []).append((name, _Ref.of(tensor)))
    complete = recorder.complete and all(tensor.is_meta for _, tensor in named_tensors(model))
    if not complete or _mark_needed(recorder.calls, set(kept)):
        return None
    calls = [call for call in recorder.calls if call.needed or call.draws]
    _mark_last(calls)
    return model, Drawing(calls, kept, seed)


def named_tensors(model: nn.Module) -> list[tuple[str, Tensor]]:
    """The parameters and buffers of a model by all of their names."""
    return [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]


def _mark_needed(calls: list[_Call], live: set[int]) -> set[int]:
    """Mark the calls on which the values of these storages depend -> the storages whose values no call makes."""
    live = set(live)
    for call in reversed(calls):
        changed, made = call.changed, call.made
        if not (live & (made | {each.storage for each in changed})):
            continue
        call.needed = True
        over = call.overwritten
        live -= made | {each.storage for each in over}
        live |= {each.storage for each in call.given if not any(each is one for one in over)}
    return live


def _mark_last(calls: list[_Call]) -> None:
    """Note with each call which storages are used by no needed call after it."""
    seen: set[int] = set()
    for call in reversed(calls):
        if call.needed:
            used = {each.storage for each in call.given} | call.made
            call.last = sorted(used - seen)
            seen |= used


def _repeat(call: _Call, real: dict[int, torch.UntypedStorage]) -> None:
    """Do with values what was recorded; storages that are not there yet are allocated."""

    def valued(value: Any) -> Any:
        if isinstance(value, _Ref):
            if value.storage not in real:
                real[value.storage] = torch.empty(value.bytes, dtype=torch.uint8).untyped_storage()
            return _tensor(value, real)
        return torch.device("cpu") if isinstance(value, torch.device) and value.type == "meta" else value

    made = call.made
    found = call.operation(*tree_map(valued, call.args), **tree_map(valued, call.kwargs))
    if not made:
        return
    for ref, tensor in zip(tree_iter(call.found), tree_iter(found), strict=True):
        if isinstance(ref, _Ref) and ref.storage in made:
            real[ref.storage] = tensor.untyped_storage()


def _tensor(ref: _Ref, real: dict[int, torch.UntypedStorage]) -> Tensor:
    return torch.empty(0, dtype=ref.dtype).set_(real[ref.storage], ref.offset, ref.size, ref.stride)
