"""What every request has to pass before any work is done for it: deny by default.

In this order: the Host, the Origin, the path, the key, the method, the content type, the size, the JSON.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from headway import limits as package_limits
from headway.documents import parse_json
from headway.errors import HeadwayError, one_line
from headway.serving.api_errors import ApiError
from headway.serving.limits import ServerLimits
from headway.serving.multipart import MULTIPART, FormValues, parse_multipart

Receive = Callable[[], Awaitable[dict[str, Any]]]
FORM = "application/x-www-form-urlencoded"


def is_loopback(host: str) -> bool:
    """Whether an address can only be reached from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def allowed_hosts(host: str, port: int, names: Collection[str]) -> frozenset[str]:
    """The values of a Host header that are answered: a page of another name must not reach a local server."""
    own = {"127.0.0.1", "localhost", "[::1]"} if is_loopback(host) else {f"[{host}]" if ":" in host else host}
    with_port = {f"{name}:{port}" for name in own} | (own if port == 80 else set())
    return frozenset(name.lower() for name in (*with_port, *names))


class Keys:
    """The API keys, as digests."""

    def __init__(self, keys: Collection[str] = ()) -> None:
        self._digests = [hashlib.sha256(key.encode()).digest() for key in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def client(self, key: str) -> str | None:
        """A name of the client that has this key; None for another. Takes as long for every key."""
        digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
        found = [hmac.compare_digest(digest, each) for each in self._digests]
        return digest.hex()[:8] if any(found) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A path: the methods it takes, and whether it is open to clients without a key."""

    method: str
    open: bool = False
    form: bool = False  # takes a form as well as JSON, and a key in it
    files: bool = False  # takes files, and so larger bodies and multipart forms


class Gate:
    """Checks requests before the application sees them. Raises ApiError."""

    def __init__(
        self,
        routes: Mapping[str, Route],
        limits: ServerLimits,
        keys: Keys,
        hosts: Collection[str],
    ) -> None:
        self.routes, self.limits, self.keys = dict(routes), limits, keys
        self.hosts = hosts
        self.known: Callable[[str], str] = lambda path: path  # the route of a path that has none of its own
        self.uploads = 0  # requests with large bodies that are being read or answered

    def enter(self, scope: Mapping[str, Any]) -> tuple[Route, str, str]:
        """The route of a request, the path by which it is known, and the name of the client."""
        headers: Sequence[tuple[bytes, bytes]] = scope["headers"]
        if len(headers) > self.limits.headers:
            raise ApiError(431, f"more than {self.limits.headers} headers", close=True)
        hosts = _values(headers, b"host")
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            message = "this Host is not served; pass --host-name NAME to headway serve to allow it"
            raise ApiError(403, message, code="host_not_allowed", close=True)
        origins = _values(headers, b"origin")
        own = f"{scope['scheme']}://{hosts[0]}".lower()
        if any(each.lower() != own for each in origins):
            raise ApiError(403, "requests of pages of other origins are refused", code="origin_not_allowed", close=True)
        path = scope["raw_path"].decode("ascii", "replace")
        known = self.known(path)
        route = self.routes.get(known)
        if route is None:
            raise ApiError(404, "there is no such endpoint", code="unsupported_endpoint")
        client = str((scope.get("client") or ("",))[0])
        if self.keys and not route.open and not (route.form and not _values(headers, b"authorization")):
            client = self.client_of(_bearer(headers))
        if scope["method"] != route.method:
            error = ApiError(405, f"this endpoint takes {route.method}", code="unsupported_endpoint")
            error.headers.append(("allow", route.method))
            raise error
        return route, known, client

    def client_of(self, key: str) -> str:
        """The client of a key. Raises ApiError for a wrong one."""
        client = self.keys.client(key)
        if client is None:
            raise ApiError(401, "a valid API key is needed: Authorization: Bearer KEY", code="invalid_api_key")
        return client

    async def body(self, scope: Mapping[str, Any], route: Route, receive: Receive) -> Any:
        """The JSON value of a body, or the fields of a form."""
        headers: Sequence[tuple[bytes, bytes]] = scope["headers"]
        given = ";".join(_values(headers, b"content-type"))
        kind = given.split(";")[0].strip().lower()
        allowed = ["application/json", *([FORM] if route.form else []), *([MULTIPART] if route.files else [])]
        if kind not in allowed:
            message = f"the content type has to be {' or '.join(allowed)}"
            raise ApiError(415, message, code="unsupported_media_type", close=True)
        data = await self._read(headers, route, receive)
        if kind == MULTIPART:
            return parse_multipart(given, data)
        if kind == FORM:
            return FormValues(parse_qsl(data.decode("utf-8", "replace"), max_num_fields=64))
        try:
            with package_limits.raised({"depth": self.limits.depth}):
                return parse_json(data, "")
        except HeadwayError as error:
            raise ApiError(400, f"the body is not valid JSON: {one_line(error)}", code="invalid_json") from None

    async def _read(self, headers: Sequence[tuple[bytes, bytes]], route: Route, receive: Receive) -> bytes:
        """The bytes of a body, up to the limit of its route."""
        most = self.limits.upload if route.files else self.limits.body
        declared = _values(headers, b"content-length")
        if declared and (not declared[0].isdigit() or int(declared[0][:20]) > most):
            raise self._too_large(most)
        data = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ConnectionResetError
            data += message.get("body", b"")
            if len(data) > most:
                raise self._too_large(most)
            if not message.get("more_body"):
                return bytes(data)

    @contextlib.contextmanager
    def room_for(self, scope: Mapping[str, Any], route: Route) -> Iterator[None]:
        """Count a request that may be large until it is answered. Raises ApiError where there are too many of them."""
        declared = _values(scope["headers"], b"content-length")
        small = declared and declared[0].isdigit() and int(declared[0][:20]) <= self.limits.body
        if not route.files or small:
            yield
            return
        if self.uploads >= self.limits.uploads:
            message = "too many large requests; try again later"
            raise ApiError(429, message, code="queue_full", retry_after=1, close=True)
        self.uploads += 1
        try:
            yield
        finally:
            self.uploads -= 1

    @staticmethod
    def _too_large(most: int) -> ApiError:
        return ApiError(413, f"the body is larger than {most} bytes", code="too_large", close=True)


def _values(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key == name]


def _bearer(headers: Sequence[tuple[bytes, bytes]]) -> str:
    given = _values(headers, b"authorization")
    scheme, _, key = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return key.strip() if scheme.lower() == "bearer" else ""
