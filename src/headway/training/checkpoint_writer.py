"""Who writes a checkpoint: the ranks that train, or a thread of each beside the training.

The thread of `train.save_async` writes a copy that was made in host memory at the step: of all tensors on rank 0, of
this rank's rows on each if the model is sharded. It commits as the training itself does, and one save is under way at a
time. A thread and not a forked process, in which neither a GPU nor the connections to other ranks could be used; where
time is spent, in copying, hashing and waiting for the disk, Python's lock is free. Threads of several ranks talk by a
process group of their own, for the order of what two threads send in one group is not defined.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import Any

import torch
from torch import Tensor

from headway.errors import HeadwayError, RankError
from headway.training.best import BestCheckpoint
from headway.training.checkpoints import MODEL, RESUMABLE, TRAINER, Checkpoints
from headway.training.config import TrainConfig
from headway.training.ranks import ALONE, Alone
from headway.training.shards import RankPart, local, part_of, save_parts


@dataclass(frozen=True, slots=True)
class TrainingState:
    """What a checkpoint holds of a step: the model, the training state, trainer.json, and which one is the best."""

    step: int
    model: Mapping[str, Tensor]
    trainer: Mapping[str, Tensor]
    facts: Mapping[str, Any]
    best: BestCheckpoint


class CheckpointWriter:
    """Writes the checkpoints of one training and the files about them, and removes what is not kept."""

    def __init__(self, checkpoints: Checkpoints, config: TrainConfig, ranks: Alone, *, sharded: bool) -> None:
        """All ranks make one alike. `sharded`: each has rows of the checkpoints."""
        self.checkpoints, self.config, self.ranks, self.sharded = checkpoints, config, ranks, sharded
        self._together = ranks.beside() if sharded and config.save_async else ALONE
        self._copies: dict[str, Tensor] = {}  # in host memory, used again by each save: its pages are there
        self._thread: Thread | None = None
        self._error: BaseException | None = None
        self._under_way = False  # on all ranks alike

    def save(self, state: Callable[[], TrainingState]) -> None:
        """Commit a checkpoint, at once or beside the training. All ranks call this. Raises StorageError."""
        self.wait()
        if self.config.save_async:
            self._under_way = True
            if self.sharded or self.ranks.first:
                self._begin(state())
            return
        if self.sharded:
            found = state()
            save_parts(self.checkpoints, found.step, self._parts(found, _as_it_is), found.facts, self.ranks)
        with self.ranks.in_turn():
            if self.ranks.first:
                if not self.sharded:
                    found = state()
                    self.checkpoints.save(found.step, found.model, found.trainer, found.facts)
                self._finish(found.step, found.best)

    def wait(self) -> None:
        """Wait until nothing is being written, on any rank. All ranks call this. Raises what the writing raised."""
        if self._under_way:
            with self.ranks.in_turn():
                self._join()
            self._under_way = False
            self.expect_no_error()

    def expect_no_error(self) -> None:
        """Raise what writing raised since it was last asked."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    @contextlib.contextmanager
    def finished(self, note: Callable[[str], None]) -> Iterator[None]:
        """Wait for what is being written when the block ends, also by an error, which is then the one raised."""
        try:
            yield
        except BaseException as error:
            # Of its rows a rank could not tell the others; and the process must end for them to be started again.
            if not (self.sharded and isinstance(error, RankError)):
                self._join()
            if isinstance(self._error, HeadwayError) and self._error is not error:
                note(f"the last checkpoint could not be written: {self._error}")
            raise
        self.wait()

    def finish(self, step: int, best: BestCheckpoint) -> None:
        """Write latest.json and best.json, and remove what is not kept, once the new checkpoint is on disk."""
        self.checkpoints.mark_latest(step)
        if best.step:
            self.checkpoints.mark_best(best)
        self.checkpoints.prune(self.config.keep)
        if not self.config.keep_optimiser:
            self.checkpoints.drop_training_state(self.checkpoints.steps()[:-RESUMABLE])

    def _finish(self, step: int, best: BestCheckpoint) -> None:
        self.finish(step, best)
        self.ranks.saved()

    def _begin(self, state: TrainingState) -> None:
        """Let a thread write a copy of this state."""
        parts = self._parts(state, self._copied)
        if any(tensor.is_cuda for tensor in state.model.values()):
            torch.cuda.synchronize()
        work = (state.step, parts, state.facts, state.best)
        self._thread = Thread(target=self._write, args=work, name="checkpoint", daemon=True)
        self._thread.start()

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _write(self, step: int, parts: Mapping[str, RankPart], facts: Mapping[str, Any], best: BestCheckpoint) -> None:
        try:
            save_parts(self.checkpoints, step, parts, facts, self._together)
            if self.ranks.first:
                self._finish(step, best)
        except BaseException as error:  # raised where training looks for it
            self._error = error

    def _parts(self, state: TrainingState, held: Callable[[str, str, Tensor], Tensor]) -> dict[str, RankPart]:
        """What this rank writes, by file."""
        files = {MODEL: state.model, TRAINER: state.trainer}
        return {name: part_of(tensors, self.ranks, partial(held, name)) for name, tensors in files.items()}

    def _copied(self, file: str, name: str, tensor: Tensor) -> Tensor:
        """A copy in host memory of what this rank has of a tensor; of a GPU's, once the GPU has come so far."""
        own, key = local(tensor).detach(), f"{file}/{name}"
        if key not in self._copies:
            self._copies[key] = torch.empty(own.shape, dtype=own.dtype, pin_memory=own.is_cuda)
        return self._copies[key].copy_(own, non_blocking=True)


def _as_it_is(file: str, name: str, tensor: Tensor) -> Tensor:
    return local(tensor)
