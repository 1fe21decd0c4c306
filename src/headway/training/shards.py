"""Checkpoints of sharded models: one file that all ranks write and read, each its own rows.

A rank's shard of a tensor is a range of its rows, which is a range of bytes of a safetensors file. So the files of a
sharded training are byte for byte those of one process: any number of ranks goes on with them, and every command reads
them without knowing. The folder must be on a file system on which several machines may write parts of one file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from headway.errors import StorageError
from headway.models.drawing import named_tensors
from headway.storage import disk
from headway.storage.targets import storage_errors
from headway.storage.tensors import safetensors_header
from headway.training.checkpoints import FACTS, Checkpoints
from headway.training.ranks import Alone


def is_shard(tensor: Tensor) -> bool:
    """Whether a tensor is one rank's part of a larger one."""
    return hasattr(tensor, "to_local")


def local(tensor: Tensor) -> Tensor:
    """This rank's part of a tensor, or the tensor."""
    return tensor.to_local() if is_shard(tensor) else tensor  # type: ignore[attr-defined]


def whole(tensor: Tensor) -> Tensor:
    """A tensor of which each rank may have a part or a summand; all ranks must call this."""
    return tensor.full_tensor() if is_shard(tensor) else tensor  # type: ignore[attr-defined]


def row_range(tensor: Any) -> tuple[int, int]:
    """The rows of a sharded tensor that this rank has."""
    mesh = tensor.device_mesh
    size, at = mesh.size(mesh.ndim - 1), mesh.get_local_rank(mesh.ndim - 1)
    each = -(-tensor.shape[0] // size)  # as torch.chunk cuts them: the last ranks may have fewer rows, or none
    return min(at * each, tensor.shape[0]), min((at + 1) * each, tensor.shape[0])


def as_shard(rows: Tensor, held: Any) -> Tensor:
    """Rows that this rank read, as its part of a tensor that is cut like `held`; the tensor itself if none is cut."""
    if not is_shard(held) or rows.shape != local(held).shape:
        return rows
    from torch.distributed.tensor import DTensor

    rows = rows.to(local(held).device).contiguous()
    made: Tensor = DTensor.from_local(
        rows, held.device_mesh, held.placements, run_check=False, shape=held.shape, stride=held.stride()
    )
    return made


def fill(model: nn.Module, values: Iterator[tuple[str, Tensor]], device: torch.device) -> None:
    """Give a sharded model on the "meta" device memory on another, and the rows there their values, one by one."""
    model.to_empty(device=device)
    held = dict(named_tensors(model))
    with torch.no_grad():
        for name, value in values:
            own = held[name]
            begin, end = row_range(own) if is_shard(own) else (0, None)
            local(own).copy_(value[begin:end] if value.ndim else value)


@dataclass(frozen=True, slots=True)
class RankPart:
    """What one rank writes of a safetensors file: rows of its tensors, each with the place of its first byte."""

    head: bytes  # of the file, which rank 0 writes
    size: int  # bytes of the file
    rows: list[tuple[int, Tensor]]


def part_of(tensors: Mapping[str, Tensor], ranks: Alone, held: Callable[[str, Tensor], Tensor]) -> RankPart:
    """This rank's part of the file of these tensors: what is not sharded is for rank 0. `held` gives what it writes."""
    head, order = safetensors_header(tensors)
    at, rows = len(head), []
    for name in order:
        tensor = tensors[name]
        size = tensor.numel() * tensor.element_size()
        if is_shard(tensor):
            begin, end = row_range(tensor)
            if end > begin and _first_copy(tensor):
                rows.append((at + begin * (size // tensor.shape[0]), held(name, tensor)))
        elif ranks.first and size:
            rows.append((at, held(name, tensor)))
        at += size
    return RankPart(head, at, rows)


def allocate(path: Path, part: RankPart) -> None:
    """Write the header of a safetensors file, and leave room for the values of its tensors."""
    with path.open("xb") as file:
        file.write(part.head)
        file.truncate(part.size)


def write_rows(path: Path, part: RankPart, ranks: Alone) -> None:
    """Write this rank's rows into a file that `allocate` made. Raises StorageError on all ranks if one fails."""
    failed: StorageError | None = None
    try:
        with storage_errors(path):
            disk.DISK.write(path, lambda _: _fill(path, part))
            disk.DISK.sync(path)
    except StorageError as error:
        failed = error
    if ranks.any(failed is not None):
        raise failed or StorageError(f"{path}: another rank could not write its part")


def _fill(path: Path, part: RankPart) -> None:
    with path.open("r+b", buffering=0) as file:
        for at, tensor in part.rows:
            view = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
            while view:
                written = os.pwrite(file.fileno(), view, at)
                at, view = at + written, view[written:]


def _first_copy(tensor: Any) -> bool:
    """Whether this rank is of the first machine that has a copy of its rows."""
    mesh = tensor.device_mesh
    return mesh.ndim == 1 or int(mesh.get_local_rank(0)) == 0


def read_rows(path: Path, held: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a file: of those that are cut in `held`, this rank's rows."""
    found = {}
    with safe_open(path, "pt") as file:
        for name in file.keys():  # noqa: SIM118  # no mapping
            model, part = held.get(name), file.get_slice(name)
            if model is not None and is_shard(model) and list(model.shape) == list(part.get_shape()):
                begin, end = row_range(model)
                found[name] = part[begin:end]
            else:
                found[name] = file.get_tensor(name)
    return found


def save_parts(
    checkpoints: Checkpoints, step: int, parts: Mapping[str, RankPart], facts: Mapping[str, Any], ranks: Alone
) -> None:
    """`Checkpoints.save` by all ranks, of the files of which each has a part. Raises StorageError on all of them."""
    if not ranks.first:
        draft = ranks.told_text("")
        for name, part in parts.items() if draft else ():
            write_rows(Path(draft) / name, part, ranks)
        return
    if checkpoints.path(step).exists() and not checkpoints.path(step).is_symlink():
        ranks.told_text("")
        return
    with checkpoints.draft(step, sum(part.size for part in parts.values())) as staged:
        for name, part in parts.items():
            staged.write(name, partial(allocate, part=part))
        ranks.told_text(str(staged.folder.absolute()))
        for name, part in parts.items():
            write_rows(staged.folder / name, part, ranks)
        staged.json(FACTS, facts)
