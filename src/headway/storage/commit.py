"""The one way anything is written: whole or not at all, and checked before it is used.

A folder becomes visible by one rename after everything in it is on disk: write into a sibling, fsync every file, a
manifest with sizes and SHA-256 last, fsync, rename, fsync the parent. A single file goes the same way without the
manifest. Weights are safetensors, the rest JSON, YAML or text: nothing here can run code.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import io
import json
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from headway.errors import ConfigError, DataError, StorageError
from headway.storage.manifest import MANIFEST, as_text, fingerprint, seal

AHEAD = 32  # chunks of a streamed file that may wait to be written
DRAFT = ".draft-"  # what a writer that died may leave behind begins with this


class Disk:
    """The few steps that writing is made of, one method each, so that a test can fail at every one of them."""

    def expect_room(self, folder: Path, needs: int) -> None:
        """Raise OSError where a disk that tells its size has no room for as many bytes."""
        usage = shutil.disk_usage(folder)
        if usage.total and usage.free < needs:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def make(self, folder: Path) -> None:
        """Create a folder."""
        folder.mkdir()

    def write(self, path: Path, writer: Callable[[Path], None]) -> None:
        """Let `writer` fill a new file."""
        writer(path)

    def sync(self, path: Path) -> None:
        """Wait until a file or folder is on disk."""
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename(self, old: Path, new: Path) -> None:
        """Give a file or folder its final name."""
        os.replace(old, new)

    def remove(self, path: Path) -> None:
        """Delete a file or a folder with all it holds."""
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


DISK = Disk()


class Draft:
    """A folder being written, not yet visible under its name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: dict[str, dict[str, Any]] = {}  # fingerprints of files that were hashed on the way

    def write(self, name: str, writer: Callable[[Path], None]) -> None:
        """Add a file, filled by `writer`."""
        path = self.folder / name
        DISK.write(path, writer)
        DISK.sync(path)

    def stream(self, name: str, chunks: Iterable[memoryview]) -> None:
        """Add a file of bytes as they come; they are hashed and written by threads while the next ones are made."""
        digest, size = hashlib.sha256(), 0

        def fill(path: Path) -> None:
            nonlocal size
            with (
                path.open("wb", buffering=0) as file,
                ThreadPoolExecutor(1) as hashing,
                ThreadPoolExecutor(1) as writing,
            ):
                under_way: deque[Future[None]] = deque()
                for chunk in chunks:
                    size += len(chunk)
                    under_way += hashing.submit(digest.update, chunk), writing.submit(_write_all, file, chunk)
                    while len(under_way) > 2 * AHEAD:
                        under_way.popleft().result()
                for each in under_way:
                    each.result()

        self.write(name, fill)
        self.known[name] = {"size": size, "sha256": digest.hexdigest()}

    def text(self, name: str, text: str) -> None:
        """Add a text file."""
        self.write(name, lambda path: _put(path, text.encode()))

    def json(self, name: str, value: Any) -> None:
        """Add a JSON file."""
        self.text(name, as_text(value))

    def tensors(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Add a safetensors file; it holds names, shapes and numbers alone, so equal tensors are equal files."""
        ready = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
        self.write(name, lambda path: save_file(ready, path))


def _write_all(file: io.FileIO, chunk: memoryview) -> None:
    while chunk:
        chunk = chunk[file.write(chunk) :]


def _put(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def size_of(tensors: Mapping[str, Tensor]) -> int:
    """The bytes of a safetensors file: a length, a header in JSON filled up to a multiple of eight, the numbers."""
    header, at = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + tensor.nbytes]}
        at += tensor.nbytes
    return 8 + (len(json.dumps(header, separators=(",", ":"))) + 7) // 8 * 8 + at


@contextlib.contextmanager
def committing(folder: Path, *, shared: bool = False, needs: int | None = None) -> Iterator[Draft]:
    """Write a folder that appears whole or not at all. Raises StorageError; the folder must not exist yet.

    A `shared` one may appear meanwhile, made by another process from the same things: then that one stays. Where it is
    known what the folder `needs` in bytes, a disk without room for it is not filled up first.
    """
    draft = folder.with_name(f"{DRAFT}{os.getpid()}-{folder.name}")
    with storage_errors(folder, needs), _no_litter(draft):
        if folder.exists() and not shared:
            raise ConfigError(f"{folder} exists already")
        folder.parent.mkdir(parents=True, exist_ok=True)
        DISK.expect_room(folder.parent, needs or 0)
        DISK.remove(draft)
        DISK.make(draft)
        filled = Draft(draft)
        yield filled
        files = {path.name: filled.known.get(path.name) or fingerprint(path) for path in sorted(draft.iterdir())}
        Draft(draft).json(MANIFEST, {"files": files, "sha256": seal(files)})
        DISK.sync(draft)
        try:
            DISK.rename(draft, folder)
        except OSError:
            if not (shared and folder.exists()):
                raise
            DISK.remove(draft)
        DISK.sync(folder.parent)


@contextlib.contextmanager
def founding(folder: Path) -> Iterator[Path]:
    """A folder of folders that appears whole or not at all: fill the one that is given, it then gets its name.

    What is interrupted leaves nothing. Raises ConfigError unless there is nothing of that name, or an empty folder.
    """
    draft = folder.with_name(f"{DRAFT}{os.getpid()}-{folder.name}")
    with storage_errors(folder):
        if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
            raise ConfigError(f"{folder} exists already and is not empty; --out goes elsewhere")
        folder.parent.mkdir(parents=True, exist_ok=True)
        DISK.remove(draft)
        DISK.make(draft)
    try:
        yield draft
        with storage_errors(folder):
            DISK.sync(draft)
            DISK.rename(draft, folder)
            DISK.sync(folder.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            DISK.remove(draft)
        raise


@contextlib.contextmanager
def _no_litter(draft: Path) -> Iterator[None]:
    """What could not be finished is taken away again: on a full disk it would keep the room it lacked."""
    try:
        yield
    except Exception:
        with contextlib.suppress(OSError):
            DISK.remove(draft)
        raise


def discard(path: Path) -> None:
    """Remove a file or folder, if it is there. Raises StorageError."""
    with storage_errors(path, doing="removed"):
        DISK.remove(path)


def set_aside(path: Path, aside: Path) -> None:
    """Give a folder another name, in place of what has that name. Raises StorageError."""
    with storage_errors(path, doing="renamed"):
        DISK.remove(aside)
        DISK.rename(path, aside)


def commit_file(path: Path, content: str | bytes) -> None:
    """Write or replace one file: a reader sees the old one or the new one, never a part."""
    draft = path.with_name(f"{DRAFT}{os.getpid()}-{path.name}")
    data = content if isinstance(content, bytes) else content.encode()
    with storage_errors(path, len(data)), _no_litter(draft):
        path.parent.mkdir(parents=True, exist_ok=True)
        DISK.write(draft, lambda place: _put(place, data))
        DISK.sync(draft)
        DISK.rename(draft, path)
        DISK.sync(path.parent)


class Appending:
    """A file that grows by whole lines, each handed over at once. Use as a context manager. Raises StorageError.

    Errors name the file as it is `called`: a draft by what it will be.
    """

    def __init__(self, path: Path, *, called: Path | None = None) -> None:
        self.path, self.called = path, called or path
        with storage_errors(self.called):
            self.file = path.open("ab", buffering=0)  # a buffer would fail later, and once more when it is closed

    def __enter__(self) -> Appending:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def line(self, text: str) -> None:
        """Add a line; one that does not fit leaves nothing behind."""
        data, before = f"{text}\n".encode(), self.file.tell()
        with storage_errors(self.called, len(data)):
            try:
                while data:
                    data = data[self.file.write(data) :]
            except OSError:
                with contextlib.suppress(OSError):
                    self.file.truncate(before)
                raise

    def sync(self) -> None:
        """Wait until every line is on disk."""
        with storage_errors(self.called):
            DISK.sync(self.path)


@contextlib.contextmanager
def growing(path: Path) -> Iterator[Appending]:
    """Write or replace a file line by line; it has its name when all of it is on disk. Raises StorageError."""
    draft = path.with_name(f"{DRAFT}{os.getpid()}-{path.name}")
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        DISK.remove(draft)
    try:
        with Appending(draft, called=path) as file:
            yield file
            file.sync()
        with storage_errors(path):
            DISK.rename(draft, path)
            DISK.sync(path.parent)
    except BaseException:  # an interrupted one as well: nobody would know what the rest is good for
        with contextlib.suppress(OSError):
            DISK.remove(draft)
        raise


@contextlib.contextmanager
def storage_errors(path: Path, needs: int | None = None, *, doing: str = "written") -> Iterator[None]:
    """What the disk refuses, as one StorageError with the path, the bytes it needs and the bytes that are free."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error)
        reason = "no space left" if full else str(error)
        needed = "" if needs is None else f"needs {needs:,} bytes, "
        raise StorageError(
            f"{path}: could not be {doing} ({reason}; {needed}{_free(path):,} bytes free there)"
        ) from error


def _free(path: Path) -> int:
    place = next((parent for parent in path.parents if parent.exists()), Path("/"))
    return shutil.disk_usage(place).free


def sweep(folder: Path) -> None:
    """Remove what writers that died left behind. Raises StorageError."""
    for path in folder.glob(f"{DRAFT}*") if folder.is_dir() else ():
        discard(path)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a run folder alone. The lock ends with its process, however that dies. Raises ConfigError if it is held."""
    path = folder / ".lock"
    with storage_errors(path):
        folder.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b", buffering=0)
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            holder = file.read().decode(errors="replace").strip()
            raise ConfigError(f"{folder} is in use by process {holder or 'unknown'}") from error
        with storage_errors(path):
            file.truncate(0)
            file.write(str(os.getpid()).encode())
        yield


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file. Raises DataError naming the file."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path}: not a readable safetensors file ({error})") from error


def save_weights(model: nn.Module, path: Path) -> None:
    """Write the parameters and buffers of a model, and nothing else: equal models are equal files."""
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}, path)


def load_weights(model: nn.Module, path: Path) -> None:
    """Read what `save_weights` wrote. Raises DataError naming every tensor that is missing, unknown or misshapen."""
    set_weights(model, read_tensors(path), str(path))


def set_weights(model: nn.Module, tensors: Mapping[str, Tensor], origin: str) -> None:
    """Put tensors into a model, strictly. Raises DataError naming every one that is missing, unknown or misshapen."""
    own = model.state_dict()
    wrong = [f"{name} is missing" for name in own if name not in tensors]
    wrong += [f"{name} is not part of the model" for name in tensors if name not in own]
    wrong += [
        f"{name} has shape {tuple(tensors[name].shape)}, expected {tuple(own[name].shape)}"
        for name in own
        if name in tensors and tensors[name].shape != own[name].shape
    ]
    if wrong:
        raise DataError(f"{origin}: {'; '.join(wrong)}")
    # A model without memory of its own, as it is built on "meta", takes the tensors as they are.
    model.load_state_dict(dict(tensors), assign=any(tensor.is_meta for tensor in own.values()))
