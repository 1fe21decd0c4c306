"""Atomic commits: every file and folder that headway writes appears complete or not at all.

A folder becomes visible by one rename after all of its files are on disk: write into a sibling folder, fsync every
file, write a manifest with sizes and SHA-256 last, fsync, rename, fsync the parent. A single file is committed the same
way without the manifest. Weights are safetensors, the rest JSON, YAML or text: no format can run code when it is read.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import io
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from headway.errors import ConfigError, StorageError
from headway.storage.manifest import MANIFEST, files_digest, fingerprint, json_text

if TYPE_CHECKING:
    from torch import Tensor

MAX_PENDING_CHUNKS = 32  # of a streamed file: hashed and written by threads while the next ones are produced
DRAFT = ".draft-"  # name prefix of files and folders being written; a killed process leaves them behind


class Disk:
    """The file system operations used for writing, one method each, so that tests can inject a failure into each."""

    def expect_room(self, folder: Path, needs: int) -> None:
        """Raise OSError(ENOSPC) if the file system reports its size and has fewer than `needs` bytes free."""
        usage = shutil.disk_usage(folder)
        if usage.total and usage.free < needs:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def make(self, folder: Path) -> None:
        """Create a folder."""
        folder.mkdir()

    def write(self, path: Path, writer: Callable[[Path], None]) -> None:
        """Create a file whose content `writer` writes."""
        writer(path)

    def sync(self, path: Path) -> None:
        """fsync a file or folder."""
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file or folder, replacing a file of that name."""
        os.replace(old, new)

    def remove(self, path: Path) -> None:
        """Delete a file, or a folder and its content."""
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


DISK = Disk()


class StagedFolder:
    """A folder being written under a temporary name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: dict[str, dict[str, Any]] = {}  # fingerprints of files that were hashed while written

    def write(self, name: str, writer: Callable[[Path], None]) -> None:
        """Add a file whose content `writer` writes."""
        path = self.folder / name
        DISK.write(path, writer)
        DISK.sync(path)

    def stream(self, name: str, chunks: Iterable[memoryview]) -> None:
        """Add a file from chunks of bytes, hashed and written by threads while the next chunks are produced."""
        digest, size = hashlib.sha256(), 0

        def fill(path: Path) -> None:
            nonlocal size
            with (
                path.open("wb", buffering=0) as file,
                ThreadPoolExecutor(1) as hashing,
                ThreadPoolExecutor(1) as writing,
            ):
                pending: deque[Future[None]] = deque()
                for chunk in chunks:
                    size += len(chunk)
                    pending += hashing.submit(digest.update, chunk), writing.submit(_write_all, file, chunk)
                    while len(pending) > 2 * MAX_PENDING_CHUNKS:
                        pending.popleft().result()
                for each in pending:
                    each.result()

        self.write(name, fill)
        self.known[name] = {"size": size, "sha256": digest.hexdigest()}

    def text(self, name: str, text: str) -> None:
        """Add a text file."""
        self.write(name, lambda path: _put(path, text.encode()))

    def json(self, name: str, value: Any) -> None:
        """Add a JSON file."""
        self.text(name, json_text(value))

    def tensors(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Add a safetensors file."""
        from headway.storage.tensors import write_tensors  # imports torch, which most files do not need

        self.write(name, lambda path: write_tensors(path, tensors))


def _write_all(file: io.FileIO, chunk: memoryview) -> None:
    while chunk:
        chunk = chunk[file.write(chunk) :]


def _put(path: Path, data: bytes) -> None:
    path.write_bytes(data)


@contextlib.contextmanager
def commit_folder(folder: Path, *, shared: bool = False, needs: int | None = None) -> Iterator[StagedFolder]:
    """Write a folder that appears complete or not at all. Raises StorageError; ConfigError if the folder exists.

    With `shared`, another process may commit the same content meanwhile: its folder is then kept. If the size is known
    (`needs`, in bytes), free space is checked before anything is written.
    """
    draft = folder.with_name(f"{DRAFT}{os.getpid()}-{folder.name}")
    with storage_errors(folder, needs), _removed_on_error(draft):
        if folder.exists() and not shared:
            raise ConfigError(f"{folder} exists already")
        folder.parent.mkdir(parents=True, exist_ok=True)
        DISK.expect_room(folder.parent, needs or 0)
        DISK.remove(draft)
        DISK.make(draft)
        staged = StagedFolder(draft)
        yield staged
        files = {path.name: staged.known.get(path.name) or fingerprint(path) for path in sorted(draft.iterdir())}
        StagedFolder(draft).json(MANIFEST, {"files": files, "sha256": files_digest(files)})
        DISK.sync(draft)
        try:
            DISK.rename(draft, folder)
        except OSError:
            if not (shared and folder.exists()):
                raise
            DISK.remove(draft)
        DISK.sync(folder.parent)


@contextlib.contextmanager
def commit_run(folder: Path) -> Iterator[Path]:
    """A run folder that appears complete or not at all: write into the path that is yielded, which is then renamed.

    An interrupted write is removed. Raises ConfigError if the folder exists and is not empty.
    """
    draft = folder.with_name(f"{DRAFT}{os.getpid()}-{folder.name}")
    with storage_errors(folder):
        if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
            raise ConfigError(f"{folder} exists already and is not empty; pass --out for another folder")
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
def _removed_on_error(draft: Path) -> Iterator[None]:
    """Remove an unfinished draft: on a full disk it would go on occupying the space."""
    try:
        yield
    except Exception:
        with contextlib.suppress(OSError):
            DISK.remove(draft)
        raise


def discard(path: Path) -> None:
    """Remove a file or folder if it exists. Raises StorageError."""
    with storage_errors(path, doing="removed"):
        DISK.remove(path)


def quarantine(path: Path, aside: Path) -> None:
    """Rename a damaged folder to `aside`, replacing anything there. Raises StorageError."""
    with storage_errors(path, doing="renamed"):
        DISK.remove(aside)
        DISK.rename(path, aside)


def commit_file(path: Path, content: str | bytes) -> None:
    """Write or replace one file; a reader sees the old or the new content, never a part. Raises StorageError."""
    draft = path.with_name(f"{DRAFT}{os.getpid()}-{path.name}")
    data = content if isinstance(content, bytes) else content.encode()
    with storage_errors(path, len(data)), _removed_on_error(draft):
        path.parent.mkdir(parents=True, exist_ok=True)
        DISK.write(draft, lambda place: _put(place, data))
        DISK.sync(draft)
        DISK.rename(draft, path)
        DISK.sync(path.parent)


class AppendLog:
    """A file to which whole lines are appended, unbuffered; a context manager. Raises StorageError.

    Error messages name the file as `called`: a draft by its final name.
    """

    def __init__(self, path: Path, *, called: Path | None = None) -> None:
        self.path, self.called = path, called or path
        with storage_errors(self.called):
            self.file = path.open("ab", buffering=0)  # a buffer would fail later, and again on close

    def __enter__(self) -> AppendLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def line(self, text: str) -> None:
        """Append a line, or nothing at all if it cannot be written."""
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
        """fsync the file."""
        with storage_errors(self.called):
            DISK.sync(self.path)


@contextlib.contextmanager
def commit_stream(path: Path) -> Iterator[AppendLog]:
    """Write or replace a file line by line; it is renamed when all lines are on disk. Raises StorageError."""
    draft = path.with_name(f"{DRAFT}{os.getpid()}-{path.name}")
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        DISK.remove(draft)
    try:
        with AppendLog(draft, called=path) as file:
            yield file
            file.sync()
        with storage_errors(path):
            DISK.rename(draft, path)
            DISK.sync(path.parent)
    except BaseException:  # KeyboardInterrupt too: an incomplete file must not stay
        with contextlib.suppress(OSError):
            DISK.remove(draft)
        raise


@contextlib.contextmanager
def storage_errors(path: Path, needs: int | None = None, *, doing: str = "written") -> Iterator[None]:
    """Turn OSError and SafetensorError into a StorageError with the path, the bytes needed and the bytes free."""
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


def remove_stale_drafts(folder: Path) -> None:
    """Remove drafts left behind by killed processes. Raises StorageError."""
    for path in folder.glob(f"{DRAFT}*") if folder.is_dir() else ():
        discard(path)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a run folder, until the process ends at the latest. Raises ConfigError if another process holds the lock."""
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
