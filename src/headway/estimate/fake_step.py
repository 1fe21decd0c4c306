"""A training step on fake tensors: the trainer's own code, on weights that have shapes and no values.

Batches are real: they are small, and their values decide shapes (which targets count) and are checked (token ids).
What is computed from real tensors alone stays real; all that touches a weight is fake.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    unset_fake_temporarily,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from headway.data.batching import Cursor
from headway.errors import ConfigError
from headway.models import ModelConfig
from headway.models.registry import sketch_model
from headway.ops.planned import as_on_a_gpu
from headway.runs.config import RunConfig
from headway.tasks.training_task import Batch, Term, TrainingTask
from headway.training.callbacks import SilentCallback
from headway.training.ranks import ALONE, Alone
from headway.training.trainer import Trainer


class RealValues(TorchDispatchMode):
    """Keeps real what is computed from real tensors alone, above a FakeTensorMode.

    A mask that is real selects a known number of elements.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self,
        call: Callable[..., Any],
        types: object,
        arguments: tuple[Any, ...] = (),
        named: dict[str, Any] | None = None,
    ) -> Any:
        named = named or {}
        tensors = [leaf for leaf in tree_leaves((arguments, named)) if isinstance(leaf, Tensor)]
        if tensors and not any(isinstance(tensor, FakeTensor) for tensor in tensors):
            with unset_fake_temporarily():
                return call(*arguments, **named)
        if call in _INDEXED:
            source, indices, *rest = arguments
            arguments = (source, _places(indices), *rest)
        out = call(*arguments, **named)
        if call is torch.ops.aten.mkldnn_rnn_layer.default:
            # Torch's shapes of this operator have an empty workspace; the real one is kept for the backward pass.
            *results, workspace = out
            return (*results, workspace.new_empty(_workspace(arguments)))
        if not tensors and isinstance(out, Tensor) and not out.is_floating_point():  # positions, masks
            with unset_fake_temporarily():
                return call(*arguments, **named)
        return out


def _workspace(arguments: tuple[Any, ...]) -> int:
    """The bytes that one layer of a recurrent network keeps for its backward pass: known by computing it."""
    with unset_fake_temporarily():
        real = [torch.zeros(each.shape) if isinstance(each, Tensor) else each for each in arguments]
        return int(torch.ops.aten.mkldnn_rnn_layer.default(*real)[-1].numel())


_INDEXED = (
    torch.ops.aten.index.Tensor,
    torch.ops.aten.index_put.default,
    torch.ops.aten.index_put_.default,
    torch.ops.aten._index_put_impl_.default,
)


def _places(indices: list[Tensor | None]) -> list[Tensor | None]:
    """Indices with real masks replaced by the places where they are true."""
    found: list[Tensor | None] = []
    for index in indices:
        if index is None or isinstance(index, FakeTensor) or index.dtype not in (torch.bool, torch.uint8):
            found.append(index)
        else:
            with unset_fake_temporarily():
                found += index.nonzero().unbind(1)
    return found


class _ModelAndLoss(nn.Module):
    """Model and loss as one module: what torch's trackers of modules see as the root."""

    def __init__(self, model: nn.Module, task: TrainingTask) -> None:
        super().__init__()
        self.model, self.task = model, task

    def forward(self, batch: Batch, smoothing: float, step: int) -> dict[str, Term]:
        """The loss in named terms."""
        return self.task.loss(self.model, batch, smoothing=smoothing, step=step)


class _Watched:
    """A task whose loss is computed by one module, announced before each micro-batch."""

    def __init__(self, task: TrainingTask) -> None:
        self.task = task
        self.root: nn.Module | None = None
        self.before: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.task, name)

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """As the task's own."""
        if self.root is None:
            self.root = _ModelAndLoss(model, self.task)
        self.before()
        return cast(dict[str, Term], self.root(batch, smoothing, step))


@dataclass(frozen=True, slots=True)
class FakeStep:
    """A trainer on fake tensors whose optimisers have their state, and the micro-batches of one of its ranks."""

    trainer: Trainer
    batches: list[Batch]
    tokens: int  # targets of the whole step
    task: _Watched

    def take(self, before: Callable[[], None] = lambda: None) -> None:
        """Take the step; `before` is called at each micro-batch."""
        self.task.before = before
        self.trainer.update(self.batches, self.tokens)


@contextlib.contextmanager
def fake_model(config: ModelConfig) -> Iterator[nn.Module]:
    """The model of a config on fake tensors, without gradients; what the block computes is fake."""
    with FakeTensorMode(allow_non_fake_inputs=True), RealValues(), torch.no_grad():
        yield sketch_model(config).eval()


@contextlib.contextmanager
def fake_step(
    config: RunConfig, task: TrainingTask, *, gpu: bool, ranks: Alone = ALONE, micro_batches: int | None = None
) -> Iterator[FakeStep]:
    """The step of a config on fake tensors; `gpu`: with what a GPU's kernels allocate.

    `micro_batches` are as many as are tried of those of a rank. Raises ConfigError for a model whose shapes depend on
    computed values, and what the trainer raises for a config that does not fit.
    """
    train = replace(config.train, device="cpu", compile=False)
    if gpu and train.reduction == "auto":
        train = replace(train, reduction="fast")
    order = task.order.after(Cursor())
    each = train.accumulate // ranks.size if micro_batches is None else micro_batches
    batches = [task.batch(indices) for indices, _ in (next(order) for _ in range(max(each, 1)))]
    watched = _Watched(task)
    with (
        torch.random.fork_rng(devices=[]),
        TemporaryDirectory() as folder,
        as_on_a_gpu(gpu),
        FakeTensorMode(allow_non_fake_inputs=True),
        RealValues(),
        _with_known_shapes(config),
    ):
        model = sketch_model(config.model)
        trainer = Trainer(model, cast(TrainingTask, watched), train, Path(folder), SilentCallback(), ranks)
        _begin(trainer)
        yield FakeStep(trainer, batches, sum(batch.count for batch in batches) * ranks.size, watched)


def _begin(trainer: Trainer) -> None:
    """Let the optimisers make their state, as the first step does."""
    for parameter in trainer.model.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
    for optimiser in trainer.optimisers:
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)


@contextlib.contextmanager
def _with_known_shapes(config: RunConfig) -> Iterator[None]:
    try:
        yield
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        raise ConfigError(
            f"{type(config.model).__name__} decides by computed values what it computes next ({error}): it cannot be "
            "estimated without computing"
        ) from error
