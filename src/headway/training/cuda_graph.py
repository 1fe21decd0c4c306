"""Training steps as a CUDA graph: recorded once and replayed, a step costs neither Python nor kernel launches.

What changes from step to step is held in tensors (batches, learning rates, the index of the step) and in generators
that the graph reads when it is replayed, so that a replayed step draws the same random numbers as an eager one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from headway.nn.universal_stack import has_loops
from headway.tasks.training_task import Batch, Capturable, TrainingTask
from headway.training.config import TrainConfig
from headway.training.optimisers import is_fused_adam

MAX_STEPS = 64  # at most, between two synchronisations, at which losses are read
SECONDS = 2.0  # between two synchronisations, so that logs, progress and signals are not late
WARMUP_STEPS = 3  # eager steps before the recording: compilers, libraries and optimisers initialise

Gradients = Callable[[Sequence[Batch], int], tuple[Tensor, Tensor]]


def unsupported_reason(
    task: TrainingTask,
    config: TrainConfig,
    optimisers: Sequence[torch.optim.Optimizer],
    device: torch.device,
    model: nn.Module,
) -> str | None:
    """Why the steps of a run cannot be recorded as a CUDA graph; None if they can."""
    if device.type != "cuda":
        return f"device {device.type}: CUDA graphs need a CUDA GPU"
    if not isinstance(task, Capturable) or not task.resident:
        return "the task's batches differ in shape, or are not made on the device"
    if has_loops(model):
        return "the model's depth depends on the data"
    if config.non_finite == "rollback":
        return "non_finite=rollback: a step's loss must be known before the next"
    if not all(map(is_fused_adam, optimisers)):
        return "the optimiser reads its learning rate from the host"
    return None


class CudaGraphSteps:
    """Takes several training steps without synchronising with the device.

    `gradients` computes the loss and gradient norm of a step on the device, `apply` steps the optimisers. A step whose
    loss or norm is NaN or infinite leaves the weights unchanged. On a CPU, steps run eagerly, for comparison.
    """

    def __init__(
        self,
        task: Capturable,
        optimisers: Sequence[torch.optim.Optimizer],
        device: torch.device,
        *,
        gradients: Gradients,
        apply: Callable[[], None],
    ) -> None:
        self.task, self.optimisers, self.device = task, optimisers, device
        self.gradients, self.apply = gradients, apply
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.graph: torch.cuda.CUDAGraph | None = None
        self.steps_taken = 0
        self.at = torch.zeros(1, dtype=torch.int64, device=device)  # index of the next step, below MAX_STEPS
        self.rates = torch.zeros(MAX_STEPS, device=device)
        self.seen = torch.zeros(MAX_STEPS, 2, dtype=torch.float64, device=device)  # loss and norm of each step
        self.queue: list[Batch] = []  # for each micro-batch of a step, MAX_STEPS of them stacked
        self.counts: list[Tensor] = []  # and how many of their targets count
        self.steps_at_once = MAX_STEPS if self.stream is None else WARMUP_STEPS + 1  # a GPU compiles in the first

    def took(self, seconds: float) -> None:
        """Take as many steps at once as fit SECONDS, at this time for a step."""
        self.steps_at_once = max(1, min(MAX_STEPS, int(SECONDS / max(seconds, 1e-6))))

    def run(
        self,
        batches: Sequence[Sequence[Batch]],
        step: int,
        rates: Sequence[float],
        *,
        meanwhile: Callable[[], None] | None = None,
    ) -> list[tuple[float, float]]:
        """Take the steps after `step`, each with its micro-batches and learning rate -> loss and norm of each.

        `meanwhile` is called after each step was launched, while the device computes: a GPU takes few replays in
        advance, so that launching them all takes as long as computing them.
        """
        if not self.steps_taken:
            self._prepare()
        with self._own_stream():
            self._fill(batches, rates)
            for number in range(step, step + len(rates)):
                random = self.task.stream(number, self.device)
                if self.stream is not None and self.graph is None and self.steps_taken >= WARMUP_STEPS:
                    self.graph = self._recorded(random, number)
                if self.graph is None:
                    self._step(number)
                else:
                    self.graph.replay()
                self.steps_taken += 1
                if meanwhile is not None:
                    meanwhile()
            return [(loss, norm) for loss, norm in self.seen[: len(rates)].tolist()]

    def _prepare(self) -> None:
        """Make learning rates, and whether a step is skipped, tensors that the optimisers read on the device."""
        for optimiser in self.optimisers:
            optimiser.found_inf = torch.zeros((), device=self.device)  # type: ignore[attr-defined]
            for group in optimiser.param_groups:
                group["lr"] = torch.zeros((), device=self.device)
                group["capturable"] = self.stream is not None

    def _fill(self, batches: Sequence[Sequence[Batch]], rates: Sequence[float]) -> None:
        """Copy batches and learning rates into the buffers that the graph reads."""
        columns = list(zip(*batches, strict=True))
        if not self.queue:
            self.queue = [_room(column[0], self.device) for column in columns]
            self.counts = [torch.ones(MAX_STEPS, dtype=torch.int64, device=self.device) for _ in columns]
        for room, counts, column in zip(self.queue, self.counts, columns, strict=True):
            counts[: len(column)].copy_(torch.tensor([batch.count for batch in column]))
            for n, into in enumerate(room.inputs):
                if into is not None:
                    into[: len(column)].copy_(torch.stack([batch.inputs[n] for batch in column]))
            room.targets[: len(column)].copy_(torch.stack([batch.targets for batch in column]))
        self.rates[: len(rates)].copy_(torch.tensor(rates))
        self.at.zero_()

    def _step(self, number: int) -> None:
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)
        loss, norm = self.gradients([self._batch(n) for n in range(len(self.queue))], number)
        found = torch.stack([loss.double(), norm.double()])
        for optimiser in self.optimisers:
            optimiser.found_inf.copy_(~found.isfinite().all())  # type: ignore[attr-defined]
            for group in optimiser.param_groups:
                group["lr"].copy_(self.rates[self.at].squeeze(0) * group["share"])
        self.apply()
        self.seen.index_copy_(0, self.at, found[None])
        self.at += 1

    def _batch(self, n: int) -> Batch:
        """Micro-batch n of the next step; its count is a tensor () where it differs from step to step."""
        batch = _row(self.queue[n], self.at)
        if self.task.most_targets is None:
            return batch
        return replace(batch, count=cast(int, self.counts[n].index_select(0, self.at).squeeze(0)))

    def _recorded(self, random: torch.Generator | None, number: int) -> torch.cuda.CUDAGraph:
        """A step as a CUDA graph; recording does not execute it."""
        graph = torch.cuda.CUDAGraph()
        if random is not None:
            graph.register_generator_state(random)  # torch's default generator, which dropout uses, always is
        with torch.cuda.graph(graph, stream=self.stream):
            self._step(number)
        return graph

    @contextlib.contextmanager
    def _own_stream(self) -> Any:
        """Run on a side stream, which capture needs, ordered after earlier and before later work."""
        if self.stream is None:
            yield
            return
        outer = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(outer)
        with torch.cuda.stream(self.stream):
            yield
        outer.wait_stream(self.stream)


def _room(batch: Batch, device: torch.device) -> Batch:
    """Buffers for MAX_STEPS batches of this shape."""
    inputs = tuple(None if x is None else x.new_empty(MAX_STEPS, *x.shape, device=device) for x in batch.inputs)
    return Batch(inputs, batch.targets.new_empty(MAX_STEPS, *batch.targets.shape, device=device), batch.count)


def _row(room: Batch, at: Tensor) -> Batch:
    """The batch at index `at`."""
    inputs = tuple(None if x is None else x.index_select(0, at).squeeze(0) for x in room.inputs)
    return Batch(inputs, room.targets.index_select(0, at).squeeze(0), room.count)
