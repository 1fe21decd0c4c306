"""`headway serve`."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli import options
from headway.errors import ConfigError, ServeError

if TYPE_CHECKING:
    from headway.serving.supervisor import EngineSettings

HELP = "answer requests over HTTP, as OpenAI's and LibreTranslate's clients send them"
EXAMPLES = (
    "headway serve runs/gpt-char                                 on http://127.0.0.1:8080, for this machine only",
    "headway serve runs/gpt-char --port 0 --precision int8       any free port; the first line says which",
    "headway serve chat=runs/chat fr=runs/en-fr                  several runs, each under a name",
    "headway serve runs/fr --follow                              a run that still trains: newer weights as they come",
    "headway serve runs/chat --host 0.0.0.0 --key-file keys.txt --host-name chat.example.org",
)
NEEDS_TORCH = False  # the front process stays small: engines import it


def add_arguments(parser: ArgumentParser) -> None:
    """The runs, the address, who may ask, and how much at a time."""
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders, or NAME=FOLDER for another name")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port", type=options.count, default=8080, metavar="N", help="0: any free port (default: %(default)s)"
    )
    parser.add_argument("--key-file", metavar="FILE", help="API keys, one a line; clients have to send one of them")
    parser.add_argument("--key-env", metavar="NAME", help="an environment variable that has the API key")
    parser.add_argument(
        "--host-name",
        action="append",
        default=[],
        metavar="NAME",
        help="a further Host that is answered, with its port, as behind a proxy (repeatable)",
    )
    options.add_precision(parser)
    parser.add_argument(
        "--threads",
        type=options.count,
        default=0,
        metavar="N",
        help="of each engine; 0: all cores, divided among the workers (default: %(default)s)",
    )
    parser.add_argument(
        "--workers",
        type=options.positive,
        default=1,
        metavar="N",
        help="engine processes of each run, which share its requests (default: %(default)s)",
    )
    parser.add_argument(
        "--follow",
        type=options.positive,
        nargs="?",
        const=5,
        metavar="SECONDS",
        help="look for newer weights of the runs, which may still train, this often (5 without a number), and load "
        "them without losing a request",
    )
    parser.add_argument(
        "--rows",
        type=options.positive,
        default=32,
        metavar="N",
        help="sequences written at a time (default: %(default)s)",
    )
    parser.add_argument(
        "--cache-tokens",
        type=options.positive,
        default=16_384,
        metavar="N",
        help="prompt and answer tokens of all of them together (default: %(default)s)",
    )
    parser.add_argument(
        "--waiting",
        type=options.positive,
        default=256,
        metavar="N",
        help="sequences that may wait (default: %(default)s)",
    )
    parser.add_argument(
        "--drain",
        type=options.positive,
        default=30,
        metavar="SECONDS",
        help="given to requests in flight when the server is stopped (default: %(default)s)",
    )


def execute(arguments: Namespace) -> None:
    """Listen, start an engine for each run, and answer until SIGINT or SIGTERM."""
    from headway.extras import import_extra

    import_extra("uvicorn", "serve", "headway serve", ServeError)
    from headway.serving.limits import ServerLimits
    from headway.serving.server import ServerSettings, read_keys, serve

    limits = ServerLimits(
        rows=arguments.rows,
        cache_tokens=arguments.cache_tokens,
        waiting=arguments.waiting,
        drain_seconds=float(arguments.drain),
    )
    keys = read_keys(Path(arguments.key_file)) if arguments.key_file else []
    if arguments.key_env:
        if not os.environ.get(arguments.key_env):
            raise ServeError(f"--key-env {arguments.key_env}: the variable is not set")
        keys.append(os.environ[arguments.key_env])
    serve(
        ServerSettings(
            runs=_engines(arguments),
            workers=arguments.workers,
            follow=arguments.follow,
            host=arguments.host,
            port=arguments.port,
            keys=keys,
            host_names=arguments.host_name,
            limits=limits,
        )
    )


def _engines(arguments: Namespace) -> list[EngineSettings]:
    from headway.serving.supervisor import EngineSettings

    threads = arguments.threads
    if not threads and arguments.workers > 1:
        threads = max(1, len(os.sched_getaffinity(0)) // arguments.workers)
    found = {}
    for given in arguments.runs:
        name, equals, folder = given.partition("=")
        if not equals or "/" in name:
            name, folder = Path(given).name, given
        if not name or name in found:
            raise ConfigError(f"two runs are called {name!r}: give each a name, NAME=FOLDER")
        found[name] = EngineSettings(name=name, run=folder, precision=arguments.precision, threads=threads)
    return list(found.values())
