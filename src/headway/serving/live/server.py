"""`headway look RUN --live`, `headway runs --live`: a server on the loopback address, with a key only its page has."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import webbrowser
from dataclasses import dataclass

from headway.serving.gate import Gate, Keys, allowed_hosts
from headway.serving.limits import ServerLimits
from headway.serving.live.app import ROUTES, LiveApp
from headway.serving.live.runs import LiveRuns
from headway.serving.metrics import Metrics
from headway.serving.server import Server, bound, server_config

HOST = "127.0.0.1"  # and no other: what the page may do is meant for who sits at this machine


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSettings:
    """Where the page is served."""

    port: int = 0  # 0: any free one
    browser: bool = True  # open the page in the browser


def live_server(runs: LiveRuns, port: int, key: str) -> Server:
    """A server for this port of the loopback address that answers requests with this key."""
    limits = ServerLimits(drain_seconds=1.0)
    app = LiveApp(runs, Gate(ROUTES, limits, Keys([key]), allowed_hosts(HOST, port, ())), Metrics())
    server = Server(server_config(app, limits))
    server.app = app
    return server


def serve_live(runs: LiveRuns, settings: LiveSettings) -> None:
    """Serve the page until SIGINT or SIGTERM. Raises ServeError for a port that is taken."""
    listener = bound(HOST, settings.port)
    port, key = listener.getsockname()[1], secrets.token_urlsafe(24)
    address = f"http://{HOST}:{port}/#key={key}"  # after the #: it is sent to no server, and stands in no log
    with contextlib.closing(listener):
        print(f"{address}\nthis page is live; Ctrl-C ends it", flush=True)
        if settings.browser:
            with contextlib.suppress(webbrowser.Error):
                webbrowser.open(address)
        server = live_server(runs, port, key)
        with contextlib.suppress(KeyboardInterrupt):  # that is how the page is ended
            asyncio.run(server.serve(sockets=[listener]))
