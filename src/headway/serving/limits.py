"""Every limit of the server in one place; `headway serve --help` and docs/serving.md name those that can be set."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Sizes are checked before any work is done; times are in seconds."""

    body: int = 1 << 20  # bytes of a request
    upload: int = 16 << 20  # bytes of a request with files
    uploads: int = 16  # requests larger than `body` at a time
    header_bytes: int = 16 << 10
    headers: int = 64  # how many
    depth: int = 32  # nested arrays and objects
    prompts: int = 64  # of one request
    sequences: int = 64  # of one request: prompts times n
    choices: int = 8  # n, and best_of
    stops: int = 8  # stop strings
    stop_length: int = 64  # characters of one
    log_probs: int = 20  # likeliest tokens beside each token
    messages: int = 256  # of a conversation
    inputs: int = 256  # texts or files of one call of another verb
    characters_per_token: int = 8  # a prompt of more characters than this times the context is refused untokenized

    header_seconds: float = 5.0  # until the headers of a request are there
    body_seconds: float = 15.0  # until its body is there
    idle_seconds: float = 30.0  # between two requests of a connection
    write_seconds: float = 20.0  # that a client may leave an answer unread
    request_seconds: float = 300.0  # until a request is given up
    drain_seconds: float = 30.0  # that requests in flight are given when the server is stopped
    heartbeat_seconds: float = 30.0  # that an engine may take for a step

    send_buffer: int = 128 << 10  # bytes of answers that the system keeps for a client that does not read
    connections: int = 1024
    connections_per_address: int = 64
    rows: int = 32  # sequences that are written at the same time
    cache_tokens: int = 16_384  # of all of them together, prompts included
    waiting: int = 256
    waiting_per_client: int = 64
