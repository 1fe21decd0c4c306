"""Training steps that a GPU replays: recorded once as a CUDA graph, a step costs neither Python nor kernel launches.

What changes from step to step lies in tensors (batches, learning rates, where the run of steps has come to) and in
random streams that the graph reads when it is replayed, so that a replayed step draws what a plain one would.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from headway.tasks.training_task import Batch, Capturable, TrainingTask
from headway.training.config import TrainConfig

RUN = 64  # steps, at most, between two looks at their losses
WARM = 3  # steps taken before one is recorded: compilers, libraries and optimisers make themselves ready

Gradients = Callable[[Sequence[Batch], int], tuple[Tensor, Tensor]]


def forbidden(
    task: TrainingTask, config: TrainConfig, optimisers: Sequence[torch.optim.Optimizer], device: torch.device
) -> str | None:
    """Why the steps of a run cannot be recorded; None where they can."""
    if device.type != "cuda":
        return f"device {device.type}: only a CUDA GPU replays steps"
    if not isinstance(task, Capturable) or not task.resident:
        return "the task's batches are not all alike, or do not live on the device"
    if config.non_finite == "rollback":
        return "non_finite=rollback: a step must be looked at before the next"
    if not all(isinstance(each, torch.optim.Adam) and each.defaults["fused"] for each in optimisers):
        return "the optimiser reads its learning rate from the host"
    return None


class Captured:
    """Runs of steps without a look in between.

    `gradients` gives the loss and the norm of a step's gradient on the device, `apply` has the optimisers step. A step
    whose loss or norm is not finite leaves the weights alone. On a CPU steps are taken plainly, for comparison.
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
        self.taken = 0
        self.at = torch.zeros(1, dtype=torch.int64, device=device)  # which step of the run is next
        self.rates = torch.zeros(RUN, device=device)
        self.seen = torch.zeros(RUN, 2, dtype=torch.float64, device=device)  # loss and norm of each step
        self.queue: list[Batch] = []  # for each micro-batch of a step, RUN of them on top of each other

    def take(self, batches: Sequence[Sequence[Batch]], step: int, rates: Sequence[float]) -> list[tuple[float, float]]:
        """Take the steps after `step`, each with its micro-batches and learning rate: the loss and norm of each."""
        if not self.taken:
            self._prepare()
        with self._own_stream():
            self._fill(batches, rates)
            for number in range(step, step + len(rates)):
                random = self.task.stream(number, self.device)
                if self.stream is not None and self.graph is None and self.taken >= WARM:
                    self.graph = self._recorded(random, number)
                if self.graph is None:
                    self._step(number)
                else:
                    self.graph.replay()
                self.taken += 1
            return [(loss, norm) for loss, norm in self.seen[: len(rates)].tolist()]

    def _prepare(self) -> None:
        """Learning rates, and whether a step is left out, become tensors that the optimisers read on the device."""
        for optimiser in self.optimisers:
            optimiser.found_inf = torch.zeros((), device=self.device)  # type: ignore[attr-defined]
            for group in optimiser.param_groups:
                group["lr"] = torch.zeros((), device=self.device)
                group["capturable"] = self.stream is not None

    def _fill(self, batches: Sequence[Sequence[Batch]], rates: Sequence[float]) -> None:
        """Put what the steps need where they will look for it."""
        columns = list(zip(*batches, strict=True))
        if not self.queue:
            self.queue = [_room(column[0], self.device) for column in columns]
        for room, column in zip(self.queue, columns, strict=True):
            for n, into in enumerate(room.inputs):
                if into is not None:
                    into[: len(column)].copy_(torch.stack([batch.inputs[n] for batch in column]))
            room.targets[: len(column)].copy_(torch.stack([batch.targets for batch in column]))
        self.rates[: len(rates)].copy_(torch.tensor(rates))
        self.at.zero_()

    def _step(self, number: int) -> None:
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)
        loss, norm = self.gradients([_row(room, self.at) for room in self.queue], number)
        found = torch.stack([loss.double(), norm.double()])
        for optimiser in self.optimisers:
            optimiser.found_inf.copy_(~found.isfinite().all())  # type: ignore[attr-defined]
            for group in optimiser.param_groups:
                group["lr"].copy_(self.rates[self.at].squeeze(0) * group["share"])
        self.apply()
        self.seen.index_copy_(0, self.at, found[None])
        self.at += 1

    def _recorded(self, random: torch.Generator, number: int) -> torch.cuda.CUDAGraph:
        """A step as a graph; recording takes none."""
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(random)  # torch's default stream, dropout's, is registered always
        with torch.cuda.graph(graph, stream=self.stream):
            self._step(number)
        return graph

    @contextlib.contextmanager
    def _own_stream(self) -> Any:
        """Steps, warm or recorded, run on one stream, after what was asked for before and before what comes after."""
        if self.stream is None:
            yield
            return
        outer = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(outer)
        with torch.cuda.stream(self.stream):
            yield
        outer.wait_stream(self.stream)


def _room(batch: Batch, device: torch.device) -> Batch:
    """Space on a device for RUN batches like this one."""
    inputs = tuple(None if x is None else x.new_empty(RUN, *x.shape, device=device) for x in batch.inputs)
    return Batch(inputs, batch.targets.new_empty(RUN, *batch.targets.shape, device=device), batch.count)


def _row(room: Batch, at: Tensor) -> Batch:
    """The batch that is next."""
    inputs = tuple(None if x is None else x.index_select(0, at).squeeze(0) for x in room.inputs)
    return Batch(inputs, room.targets.index_select(0, at).squeeze(0), room.count)
