"""What a child process does beyond its task: files it opens, code it runs, programs and connections it starts.

Python reports such events to audit hooks (PEP 578). A hook cannot be removed, so it is set in a child only, and writes
each event to a file at once, so that the events of a child that dies are kept.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

# Events that are forbidden whatever they are about.
FORBIDDEN = (
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "pty.spawn",
    "socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname", "urllib.Request",
    "ftplib.connect", "http.client.connect", "smtplib.connect", "webbrowser.open", "pickle.find_class",
    "code.__new__", "ctypes.dlopen", "sys.addaudithook",
)  # fmt: skip
# Events about a path, which is their first argument.
PATHS = (
    "open", "os.listdir", "os.scandir", "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.chmod", "os.chown",
    "os.link", "os.symlink", "os.truncate", "os.utime", "shutil.rmtree", "shutil.move", "shutil.copyfile", "glob.glob",
)  # fmt: skip


def watched(log: Path, folder: Path, allowed: Sequence[Path]) -> Callable[[], None]:
    """What sets, in a child, a hook that writes a line to `log` for every event that is not allowed.

    Paths are allowed below `allowed`, and where Python and its packages are. Code is never allowed from `folder`.
    """

    def begin() -> None:
        told = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        libraries = {sys.prefix, sys.base_prefix, *(path for path in sys.path if path), "/proc", "/sys"}
        roots = [os.path.realpath(path) + os.sep for path in (*map(str, allowed), *sorted(libraries))]
        own = os.path.realpath(folder) + os.sep

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            found = _violation(event, arguments, roots, own)
            if found:
                os.write(told, f"{found}\n".encode(errors="backslashreplace"))

        sys.addaudithook(hook)

    return begin


def _violation(event: str, arguments: tuple[Any, ...], roots: Sequence[str], own: str) -> str:
    """What was done that is not allowed, "" if nothing."""
    if event in FORBIDDEN:
        return f"{event} {str(arguments)[:200]}"
    if event == "exec":
        path = getattr(arguments[0], "co_filename", "")
        return f"code of {path}" if os.path.realpath(path).startswith(own) else ""
    if event == "import":
        path = arguments[1]
        return f"import of {path}" if path and os.path.realpath(path).startswith(own) else ""
    if event not in PATHS or not isinstance(arguments[0], str | bytes | os.PathLike):
        return ""
    path = os.fsdecode(arguments[0])
    writes = event == "open" and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    if not writes and not os.path.lexists(path):
        return ""  # what is not there tells nothing; and a name in an open folder (dir_fd) is not relative to this one
    real = os.path.realpath(path)
    return "" if f"{real}{os.sep}".startswith(tuple(roots)) else f"{event} {real}"
