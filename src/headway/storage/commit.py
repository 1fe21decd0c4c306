"""Atomic commits: every file and folder that headway writes appears complete or not at all.

A folder becomes visible by one rename after all of its files are on disk: write into a sibling folder, fsync every
file, write a manifest with sizes and SHA-256 last, fsync, rename, fsync the parent. A single file is committed the same
way without the manifest. Weights are safetensors, the rest JSON, YAML or text: no format can run code when it is read.

No link is followed and only regular files are replaced (`targets.py`). What is being written has a name that cannot be
guessed and is locked while its process lives, so that what a killed process left behind can be recognised and removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.errors import ConfigError, StorageError
from headway.storage import disk
from headway.storage.manifest import MANIFEST, Fingerprint, Manifest, StreamFingerprint, fingerprint, json_text
from headway.storage.targets import DRAFT, expect_output, expect_regular, open_regular, storage_errors

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

MAX_PENDING_CHUNKS = 32  # of a streamed file: hashed and written by threads while the next ones are produced
MAX_LABEL = 59  # characters of a target's name in that of its draft: four bytes each, and no name may exceed 255


class StagedFolder:
    """A folder being written under a temporary name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: dict[str, Fingerprint] = {}  # of files that were hashed while written

    def write(self, name: str, writer: Callable[[Path], None]) -> None:
        """Add a file whose content `writer` writes; its name may have one folder before it: `1_Pooling/config.json`."""
        path = self.folder / name
        if path.parent != self.folder and not path.parent.is_dir():
            disk.DISK.make(path.parent)
        disk.DISK.write(path, writer)
        disk.DISK.sync(path)

    def stream(self, name: str, chunks: Iterable[memoryview]) -> None:
        """Add a file from chunks of bytes, hashed and written by threads while the next chunks are produced."""
        hashed = StreamFingerprint()

        def fill(path: Path) -> None:
            with (
                path.open("xb", buffering=0) as file,
                ThreadPoolExecutor(1) as hashing,
                ThreadPoolExecutor(1) as writing,
            ):
                pending: deque[Future[None]] = deque()
                for chunk in chunks:
                    pending += hashing.submit(hashed.update, chunk), writing.submit(_write_all, file, chunk)
                    while len(pending) > 2 * MAX_PENDING_CHUNKS:
                        pending.popleft().result()
                for each in pending:
                    each.result()

        self.write(name, fill)
        self.known[name] = hashed.result()

    def pieces(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Add a file from many small pieces, as they are produced."""

        def fill(path: Path) -> None:
            with path.open("xb") as file:
                for piece in pieces:
                    file.write(piece)

        self.write(name, fill)

    def array(self, name: str, array: NDArray[Any]) -> None:
        """Add a file of the bytes of an array, row by row."""
        self.pieces(name, [array.reshape(-1).view("u1").data])

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
    with path.open("xb", buffering=0) as file:
        _write_all(file, memoryview(data))


@contextlib.contextmanager
def commit_folder(
    folder: Path, *, shared: bool = False, needs: int | None = None, facts: Mapping[str, Any] | None = None
) -> Iterator[StagedFolder]:
    """Write a folder that appears complete or not at all. Raises StorageError; ConfigError if the folder exists.

    The manifest states the `facts` beside the checksums of the files.

    With `shared`, another process may commit the same content meanwhile: its folder is then kept, and missing folders
    above it are made for this user alone. If the size is known (`needs`, in bytes), free space is checked before
    anything is written.
    """
    with storage_errors(folder, needs):
        if os.path.lexists(folder) and not shared:
            raise ConfigError(f"{folder} exists already")
        disk.DISK.make_parents(folder.parent, private=shared)
        disk.DISK.expect_room(folder.parent, needs or 0)
        with _draft_folder(folder) as draft:
            staged = StagedFolder(draft)
            yield staged
            names = {path.relative_to(draft).as_posix(): path for path in sorted(draft.rglob("*")) if path.is_file()}
            files = {name: staged.known.get(name) or fingerprint(path) for name, path in names.items()}
            for inner in {path.parent for path in names.values()} - {draft}:
                disk.DISK.sync(inner)
            StagedFolder(draft).text(MANIFEST, Manifest(files, facts or {}).text())
            disk.DISK.sync(draft)
            try:
                disk.DISK.rename(draft, folder)
            except OSError:
                if not (shared and folder.is_dir() and not folder.is_symlink()):
                    raise
                disk.DISK.remove(draft)
            disk.DISK.sync(folder.parent)


@contextlib.contextmanager
def commit_run(folder: Path) -> Iterator[Path]:
    """A run folder that appears complete or not at all: write into the path that is yielded, which is then renamed.

    An interrupted write is removed. Raises ConfigError if the folder exists and is not empty.
    """
    with contextlib.ExitStack() as stack:
        with storage_errors(folder):
            expect_new(folder)
            disk.DISK.make_parents(folder.parent)
            draft = stack.enter_context(_draft_folder(folder))
        yield draft
        with storage_errors(folder):
            disk.DISK.sync(draft)
            disk.DISK.rename(draft, folder)
            disk.DISK.sync(folder.parent)


def expect_new(folder: Path) -> None:
    """Raise ConfigError unless nothing is there, or an empty folder, which a rename may replace."""
    if folder.name in ("", ".."):
        raise ConfigError(f"{folder} cannot be replaced; pass --out for another folder")
    if folder.is_symlink():
        raise ConfigError(f"{folder} is a symbolic link, which is not replaced; pass --out for another folder")
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ConfigError(f"{folder} exists already and is not empty; pass --out for another folder")


def commit_file(path: Path, content: str | bytes) -> None:
    """Write or replace one file; a reader sees the old or the new content, never a part. Raises StorageError.

    A file that is replaced keeps its permissions. Missing folders above it are made: a file that the user names is
    for `commit_output`.
    """
    data = memoryview(content if isinstance(content, bytes) else content.encode())
    with storage_errors(path, len(data)):
        disk.DISK.make_parents(path.parent)
        with _draft_file(path) as (draft, file):
            disk.DISK.write(draft, lambda _: _write_all(file, data))
            disk.DISK.sync(draft)
            _replace(draft, path)


def commit_output(path: Path, content: str | bytes) -> None:
    """Write or replace a file that the user names, in a folder that exists. Raises StorageError."""
    expect_output(path)
    commit_file(path, content)


@contextlib.contextmanager
def commit_stream(path: Path) -> Iterator[AppendLog]:
    """As `commit_output`, line by line: the file is renamed when all lines are on disk. Raises StorageError."""
    expect_output(path)
    with contextlib.ExitStack() as stack:
        with storage_errors(path):
            draft, file = stack.enter_context(_draft_file(path))
        lines = AppendLog(draft, called=path, file=file)
        yield lines
        lines.sync()
        with storage_errors(path):
            _replace(draft, path)


def _replace(draft: Path, path: Path) -> None:
    expect_regular(path)  # writing may have taken an hour
    disk.DISK.rename(draft, path)
    disk.DISK.sync(path.parent)


# --- drafts --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _draft_file(path: Path) -> Iterator[tuple[Path, io.FileIO]]:
    """A new file beside `path`, with its permissions, and the same file open; removed if the block fails."""
    before = expect_regular(path)
    with _draft_name(path) as draft, disk.DISK.create(draft, before) as file:
        _try_lock(file.fileno())
        yield draft, file


@contextlib.contextmanager
def _draft_folder(folder: Path) -> Iterator[Path]:
    """A new folder beside `folder`; removed if the block fails."""
    with _draft_name(folder) as draft:
        disk.DISK.make(draft)
        with _opened(draft) as handle:
            _try_lock(handle)
            yield draft


@contextlib.contextmanager
def _draft_name(path: Path) -> Iterator[Path]:
    """A name beside `path` that cannot be guessed, so that no link waits there; removed if the block fails."""
    label = f"-{path.name[:MAX_LABEL]}"
    with contextlib.suppress(StorageError):  # they may be another user's, in a folder that all may write to
        remove_stale_drafts(path.parent, label)
    draft = path.with_name(f"{DRAFT}{os.urandom(4).hex()}{label}")
    try:
        yield draft
    except BaseException:  # Ctrl-C too; and on a full disk it would go on occupying the space
        with contextlib.suppress(OSError):
            disk.DISK.remove(draft)
        raise


def remove_stale_drafts(folder: Path, label: str | None = None) -> None:
    """Remove drafts left behind by killed processes, all or those of one target. Raises StorageError.

    Where the file system has no locks, only a call for all drafts removes any; its caller holds the run's lock.
    """
    with storage_errors(folder, doing="read"):
        names = [entry.name for entry in os.scandir(folder) if entry.name.startswith(DRAFT)] if folder.is_dir() else []
    for draft in (folder / name for name in names if label is None or name[len(DRAFT) + 8 :] == label):
        with storage_errors(draft, doing="removed"), contextlib.suppress(FileNotFoundError):
            if draft.is_symlink():  # not made by headway, but in its way
                if label is None:
                    disk.DISK.remove(draft)
                continue
            with _opened(draft) as handle:
                free = _try_lock(handle)
                if free or (free is None and label is None):
                    disk.DISK.remove(draft)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    """A file or folder, open to be locked."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        yield handle
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool | None:
    """Lock a draft until it is closed, at the latest when the process ends -> whether no other process has it locked.

    None where that is unknown: some file systems have no locks.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def discard(path: Path) -> None:
    """Remove a file or folder if it exists. Raises StorageError.

    A folder is renamed first, so that a reader finds all of its files or none.
    """
    with storage_errors(path, doing="removed"):
        if path.is_symlink() or not path.is_dir():
            disk.DISK.remove(path)
            return
        with _opened(path) as handle, _draft_name(path) as draft:
            _try_lock(handle)  # against another process that removes drafts
            disk.DISK.rename(path, draft)
            disk.DISK.remove(draft)


def drop_files(folder: Path, names: Collection[str], manifest: Manifest, *, drafts: Path) -> None:
    """Remove files of a committed folder, and put the manifest of those that are left in place. Raises StorageError.

    The files go first, and are gone from the disk before the manifest changes. An interruption in between leaves
    a manifest that lists removed files: the other files can be read, and the same call finishes the work. The new
    manifest is written in the folder `drafts`, on the same disk: a reader takes a file that is not listed for damage.
    """
    with storage_errors(folder, doing="made smaller"):
        for name in names:
            disk.DISK.remove(folder / name)
        disk.DISK.sync(folder)
    with storage_errors(folder / MANIFEST), _draft_name(drafts / folder.name) as draft, disk.DISK.create(draft) as file:
        _try_lock(file.fileno())
        disk.DISK.write(draft, lambda _: _write_all(file, memoryview(manifest.text().encode())))
        disk.DISK.sync(draft)
        _replace(draft, folder / MANIFEST)


def quarantine(path: Path, aside: Path) -> None:
    """Rename a damaged folder to `aside`, replacing anything there. Raises StorageError."""
    with storage_errors(path, doing="renamed"):
        disk.DISK.remove(aside)
        disk.DISK.rename(path, aside)


# --- files that stay open ------------------------------------------------------------------------------------------


class AppendLog:
    """A file to which whole lines are appended, unbuffered; a context manager. Raises StorageError.

    Error messages name the file as `called`: a draft, which is open already as `file`, by its final name.
    """

    def __init__(self, path: Path, *, called: Path | None = None, file: io.FileIO | None = None) -> None:
        self.path, self.called = path, called or path
        with storage_errors(self.called):
            # A buffer would fail later, and again on close.
            self.file = file or io.FileIO(open_regular(path, os.O_WRONLY | os.O_APPEND), "ab")

    def __enter__(self) -> AppendLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def line(self, text: str) -> None:
        """Append a line, or nothing at all if it cannot be written."""
        self.append(f"{text}\n".encode())

    def append(self, data: bytes) -> None:
        """Append bytes, or nothing at all if they cannot be written."""
        before = self.file.tell()
        with storage_errors(self.called, len(data)):
            try:
                _write_all(self.file, memoryview(data))
            except OSError:
                with contextlib.suppress(OSError):
                    self.file.truncate(before)
                raise

    def sync(self) -> None:
        """fsync the file."""
        with storage_errors(self.called):
            disk.DISK.sync(self.path)


class NoLog:
    """In place of an AppendLog, where another process writes the log; a context manager."""

    def __enter__(self) -> NoLog:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing."""

    def line(self, text: str) -> None:
        """Nothing."""

    def sync(self) -> None:
        """Nothing."""
