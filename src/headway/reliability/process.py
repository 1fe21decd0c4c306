"""Child processes of the trials: forked from a warmed parent, captured, and limited in time and memory.

A cold start of headway takes seconds, most of them for importing torch. A child forked from a process that has imported
everything starts in milliseconds, so that thousands of trials fit into minutes. Some trials start cold all the same, as
a check that forking hides nothing.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pkgutil
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import IO, Literal

CPU_SECONDS = 10  # of one command; computing for longer is a hang
WALL_SECONDS = 30  # waiting for longer is a hang too. Three times as long, for machines that do other work meanwhile
MEMORY = 2 * 2**30  # bytes above the parent's
REFUSED = 2 * MEMORY  # bytes above the parent's data at which an allocation is refused by the kernel
SHOWN = 2**20  # bytes of each output that are read back
DEFECT = 1  # the exit code of an exception that headway did not expect
EXIT_CODES = frozenset({0, 2, 3, 4, 5, 6, 7, 9, 10, 129, 130, 143})  # the others of docs/commands.md
WARMED = ("cli", "data", "decoding", "inspection", "interop", "models", "plots", "runs", "tasks", "verification")


class Closed(Enum):
    """In place of an input or output: the file descriptor is closed, as by `<&-` in a shell."""

    CLOSED = "closed"


CLOSED = Closed.CLOSED
Input = bytes | Path | Literal[Closed.CLOSED]
Output = Path | Literal[Closed.CLOSED] | None


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended."""

    code: int | None  # None: by a signal
    signal: int | None
    stdout: bytes
    stderr: bytes
    memory: int  # bytes at its peak, above the parent's
    seconds: float
    cpu_seconds: float
    hung: bool  # it was killed because it took too long
    too_large: bool  # it was killed because it took too much memory

    @property
    def out(self) -> str:
        """The text on stdout."""
        return self.stdout.decode(errors="replace")

    @property
    def err(self) -> str:
        """The text on stderr."""
        return self.stderr.decode(errors="replace")

    @property
    def problem(self) -> str | None:
        """What no command may do, whatever it is given; None if it did nothing of the kind.

        That is: a traceback, an internal error, an exit code that is not documented, death by a signal, more than
        CPU_SECONDS of computing or WALL_SECONDS of waiting, more than MEMORY. An allocation that the kernel refuses is
        in order if it is reported in one line.
        """
        if self.hung:
            return f"took too long: {self.cpu_seconds:.1f} s of computing in {self.seconds:.1f} s"
        if self.too_large or self.memory > MEMORY:
            return f"took {self.memory / 2**30:.1f} GiB of memory"
        if b"Traceback (most recent call last)" in self.stderr:
            return f"traceback: {_last_line(self.err)}"
        if self.code == DEFECT:
            return _last_line(self.err)
        if self.signal is not None:
            return f"ended by {signal.Signals(self.signal).name}: {_last_line(self.err)}"
        if self.code not in EXIT_CODES:
            return f"exit code {self.code}, which is not documented: {_last_line(self.err)}"
        return None

    @property
    def trouble(self) -> str | None:
        """The same, of a command that is expected to succeed: any exit code but 0 as well."""
        return self.problem or (None if self.code == 0 else str(self))

    def __str__(self) -> str:
        ending = f"exit code {self.code}" if self.signal is None else signal.Signals(self.signal).name
        return f"{ending}: {_last_line(self.err)}" if self.stderr.strip() else ending


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["nothing on stderr"])[-1][:300]


class Child:
    """A running child; `wait` for it exactly once, or `poll` until it has ended."""

    def __init__(self, pid: int, stdout: IO[bytes] | None, stderr: IO[bytes]) -> None:
        self.pid, self._stdout, self._stderr = pid, stdout, stderr
        self._started, self._resident = time.monotonic(), _resident(os.getpid())
        self._hung = self._too_large = False

    def send(self, number: int) -> None:
        """Send a signal. A child that has ended, and is not yet waited for, takes no notice."""
        os.kill(self.pid, number)

    def wait(self, seconds: float = WALL_SECONDS) -> Ended:
        """Wait for its end, kill it if it takes longer than that or too much memory, and collect what it wrote."""
        while (ended := self.poll(seconds)) is None:
            time.sleep(min(0.0005 + (time.monotonic() - self._started) / 30, 0.02))  # a delay of a thirtieth at most
        return ended

    def poll(self, seconds: float = WALL_SECONDS) -> Ended | None:
        """`wait`, without waiting: None while it runs."""
        pid, status, usage = os.wait4(self.pid, os.WNOHANG)
        if not pid:
            self._hung = self._hung or time.monotonic() - self._started > seconds
            self._too_large = self._too_large or _resident(self.pid) > self._resident + MEMORY
            if self._hung or self._too_large:
                self.send(signal.SIGKILL)
            return None
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return Ended(
            code=None if number is not None else os.WEXITSTATUS(status),
            signal=number,
            stdout=_content(self._stdout),
            stderr=_content(self._stderr),
            memory=max(peak - self._resident, 0),
            seconds=time.monotonic() - self._started,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            hung=self._hung or number == signal.SIGXCPU,
            too_large=self._too_large,
        )


def _content(file: IO[bytes] | None) -> bytes:
    if file is None:
        return b""
    with file:
        file.seek(0)
        return file.read(SHOWN)


def start(
    work: Callable[[], object],
    *,
    stdin: Input = b"",
    stdout: Output = None,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    cpu_seconds: int = CPU_SECONDS,
) -> Child:
    """Fork a child that calls `work` and ends with the exit code it returns (anything but a number: 0).

    Its standard input is `stdin`, bytes or a file; its output is captured, unless it goes to the file `stdout`.
    """
    shown = tempfile.TemporaryFile() if stdout is None else None  # noqa: SIM115  # closed by `wait`
    told = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `wait`
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            gc.freeze()  # a collection here would touch, and so copy, every page of the parent
            _limit(cpu_seconds)
            _own_thread_pool()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
            # A test runner may turn warnings into errors, which a command is to print.
            warnings.filters[:] = [each for each in warnings.filters if each[0] != "error"]  # type: ignore[index]
            os.environ.update(environment or {})
            if cwd is not None:
                os.chdir(cwd)
            _connect(stdin, stdout if shown is None else shown, told)
            code = _ending_of(work)
        finally:
            os._exit(code)
    return Child(pid, shown, told)


def _own_thread_pool() -> None:
    """Let torch replace the pool of threads that a fork leaves behind, while there is one thread.

    It does so at the next use, without a lock: two threads at once, as the first backward pass may start them, fail.
    """
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def _limit(cpu_seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
    if sys.platform == "linux":
        data = next(int(line.split()[1]) for line in _read("/proc/self/status").splitlines() if line[:7] == "VmData:")
        resource.setrlimit(resource.RLIMIT_DATA, (data * 1024 + REFUSED, resource.RLIM_INFINITY))


def _connect(stdin: Input, stdout: Output | IO[bytes], stderr: IO[bytes]) -> None:
    """Make these the standard files, below Python and in it, with the encodings that Python chose at its start."""
    encodings = [(file.encoding, file.errors) for file in (sys.__stdin__, sys.__stdout__, sys.__stderr__) if file]
    if isinstance(stdin, bytes):
        with tempfile.TemporaryFile() as given:
            given.write(stdin)
            given.seek(0)
            os.dup2(given.fileno(), 0)
    elif isinstance(stdin, Path):
        _open_as(0, stdin, os.O_RDONLY)
    if isinstance(stdout, Path):
        _open_as(1, stdout, os.O_WRONLY)
    elif stdout is not None and not isinstance(stdout, Closed):
        os.dup2(stdout.fileno(), 1)
    os.dup2(stderr.fileno(), 2)
    # New objects: those of the parent may be buffers of a test runner, or hold text that it has not written.
    files = []
    for number, (encoding, errors) in enumerate((*encodings, *[("utf-8", "strict")] * 3)[:3]):
        # `closefd=False`: the descriptors stay open, as at the end of any Python process.
        # Buffered by lines: stderr is.
        files.append(open(number, "rww"[number], 1, encoding, errors, closefd=False))  # noqa: SIM115
    sys.stdin, sys.stdout, sys.stderr = files
    if isinstance(stdin, Closed):
        os.close(0)
        sys.stdin = None  # as Python has it when started without
    if isinstance(stdout, Closed):
        os.close(1)
        sys.stdout = None  # as Python has it when started without


def _open_as(number: int, path: Path, flags: int) -> None:
    opened = os.open(path, flags)
    os.dup2(opened, number)
    os.close(opened)


def _ending_of(work: Callable[[], object]) -> int:
    """Call it, and end as Python does: with a traceback for an exception, and with 120 if the output is lost."""
    try:
        found = work()
        code = found if isinstance(found, int) else 0
    except SystemExit as error:
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        code = 120
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    return code & 0xFF


def start_command(
    words: Sequence[str],
    *,
    stdin: Input = b"",
    stdout: Output = None,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    before: Callable[[], object] | None = None,
    cold: bool = False,
    cpu_seconds: int = CPU_SECONDS,
) -> Child:
    """Start `headway WORDS …` in a child, after calling `before` there; with `cold` in a new Python."""

    def work() -> object:
        if before is not None:
            before()
        if cold:
            os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
            os.environ["OMP_NUM_THREADS"] = "1"  # as the forked ones have: other sums would differ in the last bits
            os.execv(sys.executable, [sys.executable, "-m", "headway", *words])
        sys.argv = ["headway", *words]
        return import_module("headway.__main__")  # which does what `python -m headway` does, and exits

    return start(work, stdin=stdin, stdout=stdout, environment=environment, cwd=cwd, cpu_seconds=cpu_seconds)


def run_command(
    words: Sequence[str],
    *,
    stdin: Input = b"",
    stdout: Output = None,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    before: Callable[[], object] | None = None,
    cold: bool = False,
) -> Ended:
    """`start_command` and wait for its end."""
    child = start_command(
        words, stdin=stdin, stdout=stdout, environment=environment, cwd=cwd, before=before, cold=cold
    )  # fmt: skip
    return child.wait()


def warm_up() -> None:
    """Import what the commands use, so that forked children do not, and compute with one thread.

    A forked child has only the thread that forked: thread pools of the parent would be gone. One thread each also
    leaves the other processors to the other workers, and adds numbers in one order.
    """
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads do not survive a fork
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    import torch

    torch.set_num_threads(1)
    for name in WARMED:
        package = import_module(f"headway.{name}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            with contextlib.suppress(ImportError):  # of an optional dependency
                import_module(module.name)
    for name in ("PIL.Image", "yaml", "rich.progress", "tokenizers", "matplotlib.pyplot", "pyarrow.parquet"):
        with contextlib.suppress(ImportError):
            import_module(name)
    gc.collect()
    gc.freeze()  # as a child does: its collections traverse its own objects alone


def _resident(pid: int) -> int:
    """The memory of a process in bytes; 0 where it is not known."""
    try:
        return int(_read(f"/proc/{pid}/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()
