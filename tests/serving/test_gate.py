"""The gate: which requests are answered at all."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from headway.serving.api_errors import ApiError
from headway.serving.app import ROUTES, App
from headway.serving.gate import Gate, Keys, allowed_hosts
from headway.serving.limits import ServerLimits
from headway.serving.metrics import Metrics
from headway.serving.verb_endpoints import UNKNOWN

HOST = "127.0.0.1:8080"
JSON = "application/json"
LIMITS = ServerLimits(body=100, headers=8, depth=4)


def gate(keys: tuple[str, ...] = ()) -> Gate:
    made = Gate(ROUTES, LIMITS, Keys(keys), allowed_hosts("127.0.0.1", 8080, ["serve.example.org"]))
    App([], made, Metrics())  # it knows which route a path has
    return made


def scope(path: str = "/v1/models", method: str = "GET", **headers: str | list[str]) -> dict[str, Any]:
    given = {"host": HOST, **headers}
    pairs = [
        (name.replace("_", "-").encode(), value.encode("latin-1"))
        for name, values in given.items()
        for value in ([values] if isinstance(values, str) else values)
    ]
    return {
        "headers": pairs, "scheme": "http", "raw_path": path.encode(), "path": path, "method": method,
        "client": ("127.0.0.1", 5000),
    }  # fmt: skip


def status(entered: dict[str, Any], of: Gate | None = None) -> int:
    try:
        (of or gate()).enter(entered)
    except ApiError as error:
        return error.status
    return 200


def body(data: bytes, kind: str = JSON, path: str = "/v1/completions", **headers: str) -> Any:
    pieces = [{"type": "http.request", "body": data[:7], "more_body": True}, {"type": "http.request", "body": data[7:]}]

    async def receive() -> dict[str, Any]:
        return pieces.pop(0)

    return asyncio.run(gate().body(scope(path, "POST", content_type=kind, **headers), ROUTES[path], receive))


def refused(data: bytes, **further: str) -> tuple[int, str | None]:
    with pytest.raises(ApiError) as error:
        body(data, **further)  # type: ignore[arg-type]
    return error.value.status, error.value.code


HOSTS = {
    HOST: True, "localhost:8080": True, "LOCALHOST:8080": True, "[::1]:8080": True, "serve.example.org": True,
    "127.0.0.1": False, "127.0.0.1:80": False, "evil.example.org:8080": False, "": False, "127.0.0.1:8080.evil": False,
}  # fmt: skip
ORIGINS = {
    None: True,
    f"http://{HOST}": True,
    "http://evil.example.org": False,
    "null": False,
    f"https://{HOST}": False,
}


@pytest.mark.parametrize(("host", "origin"), list(itertools.product(HOSTS, ORIGINS)))
def test_hosts_and_origins(host: str, origin: str | None) -> None:
    own = origin if origin is None else origin.replace(HOST, host) if HOSTS[host] else origin
    headers = {"host": host} | ({} if own is None else {"origin": own})
    assert status(scope(**headers)) == (200 if HOSTS[host] and ORIGINS[origin] else 403)


def test_two_hosts_and_no_host_are_refused() -> None:
    assert status(scope(host=[HOST, HOST])) == 403
    without = scope()
    without["headers"] = []
    assert status(without) == 403


@pytest.mark.parametrize("path", sorted(ROUTES))
def test_every_path_needs_the_key_but_health_and_ready(path: str) -> None:
    method, closed = ROUTES[path].method, gate(("secret", "other"))
    if path == UNKNOWN:
        return  # a path while models are loaded; those of their calls are tested in test_endpoints
    known = path if path != "/v1/models/" else "/v1/models/a"
    for wrong in ({}, {"authorization": "Bearer wrong"}, {"authorization": "secret"}, {"authorization": "Bearer "}):
        expected = 200 if ROUTES[path].open else 401
        if ROUTES[path].form and not wrong:  # its key may be in the body, where it is looked for
            continue
        assert status(scope(known, method, **wrong), closed) == expected  # type: ignore[arg-type]
    assert status(scope(known, method, authorization="Bearer secret"), closed) == 200


def test_clients_are_told_apart_by_their_keys() -> None:
    closed = gate(("secret", "other"))
    clients = {closed.enter(scope(authorization=f"Bearer {key}"))[2] for key in ("secret", "other")}
    assert len(clients) == 2
    assert "secret" not in clients


@pytest.mark.parametrize(
    "path",
    [
        "//v1/models",
        "/v1//models",
        "/v1/models%2f",
        "/V1/models",
        "/v1",
        "/docs",
        "/v1/models/",
        "/v1/{verb}",
        "/v1/score",
    ],
)
def test_unknown_paths_are_not_found(path: str) -> None:
    assert status(scope(path)) == 404


def test_methods() -> None:
    for method in ("POST", "HEAD", "DELETE", "OPTIONS"):
        assert status(scope(method=method)) == 405
    assert status(scope("/v1/completions", "GET")) == 405


def test_too_many_headers() -> None:
    assert status(scope(**{f"x{n}": "1" for n in range(7)})) == 200
    assert status(scope(**{f"x{n}": "1" for n in range(8)})) == 431


def test_bodies() -> None:
    assert body(b'{"a": [1, "b"]}') == {"a": [1, "b"]}
    assert body(b'{"a": 1}', kind="application/json; charset=utf-8") == {"a": 1}
    assert body(b"q=a+b&source=en", kind="application/x-www-form-urlencoded", path="/translate") == {
        "q": "a b",
        "source": "en",
    }
    assert body(b'"' + b"a" * 98 + b'"') == "a" * 98


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b'{"a": NaN}', b'{"a": 1, "a": 2}', b'"\\ud800"', b"\xff", b'{"a": 1e999}', b"123456789012345678901",
        b"[[[[[1]]]]]",
    ],
)  # fmt: skip
def test_bodies_that_are_not_json(data: bytes) -> None:
    assert refused(data) == (400, "invalid_json")


def test_bodies_that_are_too_large() -> None:
    assert refused(b'"' + b"a" * 99 + b'"')[0] == 413
    assert refused(b"1", content_length=str(1 << 30))[0] == 413
    assert refused(b"1", content_length="x")[0] == 413


@pytest.mark.parametrize("kind", ["text/plain", "", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_content_types(kind: str) -> None:
    assert refused(b"{}", kind=kind)[0] == 415
