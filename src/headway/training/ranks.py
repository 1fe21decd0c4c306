"""The ranks of a training: processes that share the micro-batches of each step, and agree on what they decide.

The only module that touches torch.distributed. `Alone` is the one process of a plain `headway train`: it answers at
once and imports nothing. `Ranks` are several, started by `headway train --nproc` or by torchrun; a rank knows its place
by the environment variables of torchrun.

What several ranks must know alike is sums of integers, tensors in the order of the micro-batches, and rank 0's word:
none of it depends on the number of ranks.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn

from headway.errors import ConfigError, RankError
from headway.training.devices import pick_device
from headway.training.gradient_sums import pairwise_sum

if TYPE_CHECKING:
    from torch._C._distributed_c10d import ProcessGroup, Store
    from torch.distributed.device_mesh import DeviceMesh

T = TypeVar("T")
STORE = "HEADWAY_STORE"  # the file by which the ranks of `--nproc` find each other
SAVED = "HEADWAY_SAVED"  # a file that is touched at each checkpoint: the attempt has come further
TIMEOUT = timedelta(minutes=10)  # that a rank waits for the others in a step; one that died is noticed at once
WRITING = timedelta(hours=1)  # that one rank may write its rows of a checkpoint beside training longer than another
LONG = timedelta(days=7)  # that ranks wait for what rank 0 does alone: reading the data, writing a checkpoint
BUCKET = 2**24  # elements of gradients that are exchanged at once


@dataclass(frozen=True, slots=True)
class RankPlace:
    """The place of this process among the ranks, as torchrun and `headway train --nproc` tell it."""

    rank: int
    size: int
    local: int  # the rank on this machine, which is the number of its GPU
    beside: int  # the ranks on this machine
    attempt: int  # how often the ranks were started before


def place_of(environment: Mapping[str, str]) -> RankPlace | None:
    """The place that the environment variables of torchrun give a process; None without them. Raises ConfigError."""
    if "RANK" not in environment or "WORLD_SIZE" not in environment:
        return None
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT")
    try:
        rank, size, local, beside, attempt = (int(environment.get(name, "0")) for name in names)
    except ValueError as error:
        raise ConfigError(f"{', '.join(names)}: expected whole numbers, as torchrun sets them ({error})") from error
    if not 0 <= rank < size:
        raise ConfigError(f"RANK={rank}, allowed with WORLD_SIZE={size}: 0 to {size - 1}")
    return RankPlace(rank, size, local, beside or size, attempt)


class Alone:
    """One process, which is rank 0 of one."""

    rank, size, first = 0, 1, True

    def part(self, items: Sequence[T]) -> Sequence[T]:
        """This rank's contiguous part of the micro-batches of a step."""
        return items

    def total(self, count: int, signal: int | None) -> int:
        """The sum of all ranks' counts; tells them of this rank's signal as well."""
        return count

    def signal(self, own: int | None) -> int | None:
        """The highest signal that any rank told of, which all learn in the same step; None if none did."""
        return own

    def joined(self, values: Tensor) -> Tensor:
        """The values (N,) of all ranks (size·N,), in the order of the ranks."""
        return values

    def told(self, values: list[float]) -> list[float]:
        """The values that rank 0 has."""
        return values

    def any(self, here: bool) -> bool:
        """Whether something is so on any rank."""
        return here

    def expect_alike(self, step: int) -> None:
        """Wait for all ranks to come here. Raises RankError if they did not find the same checkpoint."""

    def add(self, parameters: Iterable[nn.Parameter], *, exact: bool = True) -> None:
        """Add the gradients of all ranks, in place; `exact`: in an order that does not depend on their number."""

    @contextlib.contextmanager
    def in_turn(self) -> Iterator[None]:
        """Run the block on rank 0 first, and on the others when that is done."""
        yield

    def told_text(self, text: str) -> str:
        """The text that rank 0 has."""
        return text

    def saved(self) -> None:
        """A checkpoint was written."""

    def beside(self) -> Alone:
        """The same ranks, for a thread of each: with connections of their own, on the CPU. All ranks call this."""
        return self

    def host(self, rank: int) -> str:
        """The name of the machine of a rank."""
        return platform.node()


class Ranks(Alone):
    """Several processes, joined by a process group; one of them per GPU, or on CPUs."""

    def __init__(self, place: RankPlace, store: Store) -> None:
        import torch.distributed as dist

        self.dist, self.store, self.place = dist, store, place
        self.group: ProcessGroup | None = None  # None: the one of all ranks
        self.rank, self.size, self.first = place.rank, place.size, place.rank == 0
        self._turns, self._signal = 0, None
        with _contact():
            store.set(f"host-{self.rank}", platform.node())

    def part(self, items: Sequence[T]) -> Sequence[T]:
        """This rank's contiguous part of the micro-batches of a step."""
        each = len(items) // self.size
        return items[self.rank * each : (self.rank + 1) * each]

    def total(self, count: int, signal: int | None) -> int:
        """The sum of all ranks' counts; tells them of this rank's signal as well."""
        own = torch.tensor([count, signal or 0], dtype=torch.int64)
        counts, signals = self.joined(own).view(self.size, 2).T.tolist()
        self._signal = max(signals) or None
        return sum(counts)

    def signal(self, own: int | None) -> int | None:
        """The highest signal that any rank told of, which all learn in the same step; None if none did."""
        return self._signal

    def joined(self, values: Tensor) -> Tensor:
        """The values (N,) of all ranks (size·N,), in the order of the ranks."""
        all_values = values.new_empty(self.size, len(values))
        with _contact():
            self.dist.all_gather(list(all_values), values.contiguous(), group=self.group)
        return all_values.flatten()

    def told(self, values: list[float]) -> list[float]:
        """The values that rank 0 has."""
        word = torch.tensor(values, dtype=torch.float64)
        with _contact():
            self.dist.broadcast(word, 0, group=self.group)
            found: list[float] = word.tolist()
        return found

    def expect_alike(self, step: int) -> None:
        """Wait for all ranks to come here. Raises RankError if they did not find the same checkpoint."""
        found = self.joined(torch.tensor([step], dtype=torch.int64)).tolist()
        if len(set(found)) > 1:
            raise RankError(
                f"the ranks found checkpoints of different steps ({', '.join(map(str, found))}): "
                "the run folder must be on a disk that all machines share"
            )

    def add(self, parameters: Iterable[nn.Parameter], *, exact: bool = True) -> None:
        """Add the gradients of all ranks, in place; `exact`: pairwise in the order of the ranks.

        There each rank gets a share of every rank's gradients, adds it, and hands the sum to the others: as many bytes
        as a ring all-reduce moves. A parameter that no rank has a gradient of is left without one.
        """
        given = [parameter for parameter in parameters if parameter.requires_grad]
        reached = torch.tensor([p.grad is not None for p in given], dtype=torch.int32)
        with _contact():
            self.dist.all_reduce(reached, op=self.dist.ReduceOp.MAX)
        found = [p for p, any_rank in zip(given, reached.tolist(), strict=True) if any_rank]
        for parameter in found:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        for bucket in _buckets([p.grad for p in found if p.grad is not None]):
            self._add_bucket(bucket, exact=exact)

    def _add_bucket(self, gradients: list[Tensor], *, exact: bool) -> None:
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        if exact:
            flat = self._pairwise(flat)
        else:
            with _contact():
                self.dist.all_reduce(flat)
        at = 0
        for gradient in gradients:
            gradient.copy_(flat[at : at + gradient.numel()].view_as(gradient))
            at += gradient.numel()

    def _pairwise(self, flat: Tensor) -> Tensor:
        """The sum of all ranks' values (N,), of which each rank adds a share."""
        share = -(-len(flat) // self.size)
        padded = torch.nn.functional.pad(flat, (0, share * self.size - len(flat)))
        received = torch.empty_like(padded)
        with _contact():
            self.dist.all_to_all_single(received, padded)
            own = pairwise_sum(list(received.view(self.size, share)))
            self.dist.all_gather(list(padded.view(self.size, share)), own)
        return padded[: len(flat)]

    @contextlib.contextmanager
    def in_turn(self) -> Iterator[None]:
        """Run the block on rank 0 first, and on the others when that is done, however long it takes."""
        self._turns += 1
        key = f"turn-{self._turns}"
        if not self.first:
            with _contact():
                self.store.wait([key], LONG)
        yield
        if self.first:
            with _contact():
                self.store.set(key, "done")

    def any(self, here: bool) -> bool:
        """Whether something is so on any rank."""
        return bool(self.joined(torch.tensor([here], dtype=torch.int64)).sum().item())

    def told_text(self, text: str) -> str:
        """The text that rank 0 has."""
        data = text.encode() if self.first else b""
        room = torch.zeros(int(self.told([float(len(data))])[0]), dtype=torch.uint8)
        if self.first:
            room = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        with _contact():
            self.dist.broadcast(room, 0, group=self.group)
        return bytes(room.tolist()).decode()

    def mesh(self, *, by_machine: bool) -> DeviceMesh:
        """The ranks as a mesh (size,), or as (machines, ranks of each)."""
        from torch.distributed.device_mesh import init_device_mesh

        each = self.place.beside if by_machine else self.size
        if self.size % each:
            raise ConfigError(
                f"train.shard=node: {self.size} ranks, {each} on this machine, which does not divide them"
            )
        shape = (self.size // each, each) if by_machine else (self.size,)
        kind = "cuda" if "nccl" in self.dist.get_backend_config() else "cpu"
        return init_device_mesh(kind, shape, mesh_dim_names=("machine", "rank")[-len(shape) :])

    def saved(self) -> None:
        """A checkpoint was written."""
        if SAVED in os.environ:
            Path(os.environ[SAVED]).touch()

    def beside(self) -> Alone:
        """The same ranks, for a thread of each: with connections of their own, on the CPU. All ranks call this."""
        made = copy(self)
        with _contact():
            made.group = self.dist.new_group(backend="gloo", timeout=WRITING)
        return made

    def host(self, rank: int) -> str:
        """The name of the machine of a rank."""
        with _contact():
            return self.store.get(f"host-{rank}").decode()


ALONE = Alone()


@contextlib.contextmanager
def joined_ranks(device: str, place: RankPlace | None) -> Iterator[Alone]:
    """The ranks that this process belongs to, joined for the block: `ALONE` without a place. Raises RankError.

    `device` is that of the config: tensors of GPUs are exchanged by NCCL, those of CPUs by gloo. What ranks tell each
    other in numbers is exchanged on the CPUs, so that it does not wait for the work that is queued on a GPU.
    """
    if place is None:
        yield ALONE
        return
    import torch.distributed as dist

    backend = "gloo"
    if pick_device(device).type == "cuda":
        backend = "cpu:gloo,cuda:nccl"
        torch.cuda.set_device(place.local % torch.cuda.device_count())
    with _contact(), _ended_by_signals():
        store = _store(place)
        dist.init_process_group(backend, store=store, rank=place.rank, world_size=place.size, timeout=TIMEOUT)
    try:
        yield Ranks(place, store)
    finally:
        with contextlib.suppress(RuntimeError):
            dist.destroy_process_group()


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGINT and SIGTERM end this process at once: Python's handlers do not run while it waits for other ranks."""
    try:
        before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _store(place: RankPlace) -> Store:
    """Where ranks find each other: a file of `--nproc`, else the address that torchrun gives.

    The keys of each attempt have a prefix: torchrun keeps its store over restarts, in which the addresses of dead ranks
    would be found.
    """
    from torch._C._distributed_c10d import FileStore, PrefixStore
    from torch.distributed.rendezvous import rendezvous

    if STORE in os.environ:
        store: Store = FileStore(os.environ[STORE], place.size)
    else:
        store = next(iter(rendezvous("env://", timeout=TIMEOUT)))[0]
    return PrefixStore(f"headway-{place.attempt}", store)


def _buckets(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """The tensors in groups of one type, of up to BUCKET elements unless one alone has more."""
    held: list[Tensor] = []
    for tensor in tensors:
        full = sum(each.numel() for each in held) + tensor.numel() > BUCKET
        if held and (full or tensor.dtype != held[0].dtype):
            yield held
            held = []
        held.append(tensor)
    if held:
        yield held


@contextlib.contextmanager
def _contact() -> Iterator[None]:
    """Errors of the connection, as what they mean here."""
    try:
        yield
    except RuntimeError as error:  # DistError is one
        first = str(error).strip().split("\n")[0]
        raise RankError(f"lost contact with another rank of this training ({first[:200]})") from error
