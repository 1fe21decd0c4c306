"""Whatever ends a command, as one line on stderr and an exit code; docs/commands.md has the table."""

from __future__ import annotations

import errno
import sys

from headway.cli.stopping import Terminated
from headway.cli.terminal import escaped, tell
from headway.errors import DataError, HeadwayError, StorageError

DEFECT = 1  # an exception that headway should have turned into one of its own
OUT_OF_MEMORY = 9
# The name is wrong, or names a file instead of a folder or the reverse; other errors are those of the disk.
WRONG_NAME = {
    errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL,
    errno.ENXIO, errno.ENODEV,
}  # fmt: skip

TORCH_OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "std::bad_alloc")


def is_reported(error: BaseException) -> bool:
    """Whether an error is for `report`; SystemExit and the exceptions of a debugger or test runner are not.

    A panic of a Rust extension (tokenizers, safetensors) is not an Exception, and its class has no importable name.
    """
    return isinstance(error, Exception | KeyboardInterrupt | Terminated) or type(error).__name__ == "PanicException"


def report(error: BaseException, *, debug: bool) -> int:
    """Print the line of an error, below its traceback where that is wanted, and return the exit code."""
    code, line = exit_code_and_line(error)
    if line is not None:
        if debug:
            import traceback  # with four others, which only this needs

            print(escaped("".join(traceback.format_exception(error))), end="", file=sys.stderr)
        tell(line)
    return code


def exit_code_and_line(error: BaseException) -> tuple[int, str | None]:
    """The exit code of an error, and the line for it; None if there is nothing to say."""
    if isinstance(error, HeadwayError):
        return error.exit_code, str(error)
    if isinstance(error, KeyboardInterrupt):
        return 130, "interrupted"
    if isinstance(error, Terminated):
        return 128 + error.number, None
    if isinstance(error, BrokenPipeError):  # `headway presets | head`: the reader has seen enough
        return 0, None
    told = str(error).strip().split("\n")[0]
    if _out_of_memory(error):
        advice = "a smaller batch, beam, length or model needs less"
        return OUT_OF_MEMORY, f"out of memory{f' ({told})' if told else ''}; {advice}"
    if isinstance(error, UnicodeDecodeError):
        return DataError.exit_code, f"an input is not valid {error.encoding}: byte {error.start + 1} ({error.reason})"
    if isinstance(error, UnicodeEncodeError):
        letter = f"U+{ord(error.object[error.start]):04X}"
        return DataError.exit_code, f"a text or file name has {letter}, which {error.encoding} cannot hold"
    if isinstance(error, OSError):
        code = DataError.exit_code if error.errno in WRONG_NAME else StorageError.exit_code
        return code, f"{error.filename}: {error.strerror}" if error.filename is not None else told or repr(error)
    bug = "this is a bug; run again with --debug for the traceback"
    return DEFECT, f"internal error: {type(error).__name__}: {told} ({bug})"


def _out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: torch raises a RuntimeError on a CPU, and a subclass of it on a GPU."""
    if isinstance(error, RuntimeError):
        told = (type(error).__name__, str(error))
        return told[0] == "OutOfMemoryError" or any(words in told[1] for words in TORCH_OUT_OF_MEMORY)
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
