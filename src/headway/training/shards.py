"""Checkpoints of sharded models: one file that all ranks write and read, each its own rows.

A rank's shard of a tensor is a range of its rows, which is a range of bytes of a safetensors file. So the files of a
sharded training are byte for byte those of one process: any number of ranks goes on with them, and every command reads
them without knowing. The folder must be on a file system on which several machines may write parts of one file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from headway.errors import StorageError
from headway.storage import disk
from headway.storage.targets import storage_errors
from headway.storage.tensors import safetensors_header
from headway.training.checkpoints import FACTS, MODEL, TRAINER, Checkpoints
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


def allocate(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write the header of a safetensors file for these tensors, and leave room for their values."""
    head, _ = safetensors_header(tensors)
    with path.open("xb") as file:
        file.write(head)
        file.truncate(len(head) + sum(tensor.numel() * tensor.element_size() for tensor in tensors.values()))


def write_rows(path: Path, tensors: Mapping[str, Tensor], ranks: Alone) -> None:
    """Write this rank's rows into a file that `allocate` made. Raises StorageError on all ranks if one fails."""
    failed: StorageError | None = None
    try:
        with storage_errors(path):
            disk.DISK.write(path, lambda _: _fill(path, tensors, ranks))
            disk.DISK.sync(path)
    except StorageError as error:
        failed = error
    if ranks.any(failed is not None):
        raise failed or StorageError(f"{path}: another rank could not write its part")


def _fill(path: Path, tensors: Mapping[str, Tensor], ranks: Alone) -> None:
    with path.open("r+b", buffering=0) as file:
        for at, data in _ranges(tensors, ranks):
            view = memoryview(data)
            while view:
                written = os.pwrite(file.fileno(), view, at)
                at, view = at + written, view[written:]


def _ranges(tensors: Mapping[str, Tensor], ranks: Alone) -> Iterator[tuple[int, bytes]]:
    """The bytes that this rank writes, each with its place in the file: what is not sharded is for rank 0."""
    head, order = safetensors_header(tensors)
    at = len(head)
    for tensor in (tensors[name] for name in order):
        size = tensor.numel() * tensor.element_size()
        if is_shard(tensor):
            begin, end = row_range(tensor)
            if end > begin and _first_copy(tensor):
                yield at + begin * (size // tensor.shape[0]), _bytes(local(tensor))
        elif ranks.first and size:
            yield at, _bytes(tensor)
        at += size


def _first_copy(tensor: Any) -> bool:
    """Whether this rank is of the first machine that has a copy of its rows."""
    mesh = tensor.device_mesh
    return mesh.ndim == 1 or int(mesh.get_local_rank(0)) == 0


def _bytes(tensor: Tensor) -> bytes:
    data: bytes = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return data


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


def save_shards(
    checkpoints: Checkpoints,
    step: int,
    model: Mapping[str, Tensor],
    trainer: Mapping[str, Tensor],
    facts: Mapping[str, Any],
    ranks: Alone,
) -> None:
    """`Checkpoints.save` of a sharded model, which all ranks call. Raises StorageError on all of them."""
    files = {MODEL: model, TRAINER: trainer}
    if not ranks.first:
        draft = ranks.told_text("")
        for name, tensors in files.items() if draft else ():
            write_rows(Path(draft) / name, tensors, ranks)
        return
    if checkpoints.path(step).exists() and not checkpoints.path(step).is_symlink():
        ranks.told_text("")
        return
    needs = sum(tensor.numel() * tensor.element_size() for each in files.values() for tensor in each.values())
    with checkpoints.draft(step, needs) as staged:
        for name, tensors in files.items():
            staged.write(name, partial(allocate, tensors=tensors))
        ranks.told_text(str(staged.folder.absolute()))
        for name, tensors in files.items():
            write_rows(staged.folder / name, tensors, ranks)
        staged.json(FACTS, facts)
