"""The front process: it binds, starts the engines, answers until it is stopped, and lets requests in flight end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import uvicorn

from headway.errors import ServeError
from headway.serving.app import ROUTES, App
from headway.serving.engine_group import EngineGroup, follow, tell_reload
from headway.serving.gate import Gate, Keys, allowed_hosts, is_loopback
from headway.serving.gated_app import GatedApp
from headway.serving.limits import ServerLimits
from headway.serving.metrics import Metrics
from headway.serving.protocol import guarded
from headway.serving.supervisor import EngineProcess, EngineSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """What `headway serve` is told."""

    runs: Sequence[EngineSettings]
    workers: int = 1  # engines of each run
    follow: float | None = None  # seconds between two looks for newer weights; None: no look
    host: str = "127.0.0.1"
    port: int = 8080  # 0: any free one
    keys: Sequence[str] = ()
    host_names: Sequence[str] = ()
    limits: ServerLimits = field(default_factory=ServerLimits)


def read_keys(path: Path) -> list[str]:
    """The keys in a file, one a line. Raises ServeError for a file that others may read, or one without keys."""
    try:
        mode = os.stat(path).st_mode
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ServeError(
            f"--key-file {path}: cannot be read ({getattr(error, 'strerror', None) or 'not UTF-8'})"
        ) from None
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        raise ServeError(f"--key-file {path}: others can read it; run chmod 600 {path}")
    keys = [line.strip() for line in lines if line.strip()]
    if not keys:
        raise ServeError(f"--key-file {path}: it has no keys, expected one a line")
    return keys


def bound(host: str, port: int) -> socket.socket:
    """A listening socket. Raises ServeError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(256)
    except OSError as error:
        made.close()
        hint = "; pass --port 0 for any free port" if port else ""
        raise ServeError(f"cannot listen on {host}:{port}: {error.strerror or error}{hint}") from None
    made.setblocking(False)
    return made


class Server(uvicorn.Server):
    """uvicorn's server, which says that it is stopping before it waits for requests in flight."""

    app: GatedApp
    stopped_by: BaseException | None = None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more work, let what is in flight end."""
        self.app.draining = True
        await super().shutdown(sockets)


def serve(settings: ServerSettings) -> None:
    """Serve until a signal arrives. Raises ServeError where the server cannot start, or its engines cannot."""
    if not is_loopback(settings.host) and not settings.keys:
        raise ServeError(
            f"--host {settings.host} can be reached from other machines: pass --key-file FILE with API keys"
        )
    listener = bound(settings.host, settings.port)
    port = listener.getsockname()[1]
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    print(f"listening on http://{shown}:{port}", flush=True)
    with contextlib.closing(listener):
        asyncio.run(_served(settings, listener, port))


async def _served(settings: ServerSettings, listener: socket.socket, port: int) -> None:
    limits, metrics = settings.limits, Metrics()
    groups = [_group(each, settings, metrics) for each in settings.runs]
    hosts = allowed_hosts(settings.host, port, settings.host_names)
    app = App(groups, Gate(ROUTES, limits, Keys(settings.keys), hosts), metrics)
    server = Server(server_config(app, limits))
    server.app = app
    for group in groups:
        group.start()
    watchers: list[asyncio.Future[None]] = [asyncio.ensure_future(_stop_on_failure(group, server)) for group in groups]
    watchers.append(asyncio.ensure_future(_tell_ready(groups)))
    if settings.follow is not None:
        watchers += [asyncio.ensure_future(follow(group, settings.follow, _tell)) for group in groups]
    _reload_on_hangup(groups, watchers)
    try:
        await server.serve(sockets=[listener])
    finally:
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, *(group.stop() for group in groups), return_exceptions=True)
    failed = [group.reason for group in groups if group.failed.is_set()]
    if failed:
        raise ServeError(failed[0])


def _group(run: EngineSettings, settings: ServerSettings, metrics: Metrics) -> EngineGroup:
    def make(worker: int) -> EngineProcess:
        return EngineProcess(replace(run, worker=worker), settings.limits, metrics)

    return EngineGroup(run.name, make, workers=settings.workers)


def _reload_on_hangup(groups: Sequence[EngineGroup], watchers: list[asyncio.Future[None]]) -> None:
    """SIGHUP reloads every model; the tasks that do so are added to the watchers."""

    def reload() -> None:
        watchers.extend(asyncio.ensure_future(tell_reload(group, _tell)) for group in groups)

    with contextlib.suppress(NotImplementedError, AttributeError):  # systems without that signal
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def server_config(app: GatedApp, limits: ServerLimits) -> uvicorn.Config:
    """uvicorn behind the gate: no log of its own, no WebSockets, the limits of the server."""
    application: Any = app
    return uvicorn.Config(
        application,
        http=guarded(limits),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=limits.header_bytes,
        timeout_graceful_shutdown=max(1, round(limits.drain_seconds)),
    )


async def _stop_on_failure(group: EngineGroup, server: Server) -> None:
    await group.failed.wait()
    server.should_exit = True


async def _tell_ready(groups: Sequence[EngineGroup]) -> None:
    """One line on stderr for each model that is ready for the first time."""
    waiting = list(groups)
    while waiting:
        await asyncio.sleep(0.05)
        for group in [each for each in waiting if each.ready]:
            waiting.remove(group)
            _tell(f"ready: {group.name} ({_facts(group.described or {})})")


def _facts(described: dict[str, Any]) -> str:
    facts = [described["task"], described["precision"]]
    if described["exact"] is not None:
        inexact = "NOT exact: an answer may differ in its last bits by what else is asked"
        facts.append("exact" if described["exact"] else inexact)
    return ", ".join(facts)
