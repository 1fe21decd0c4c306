"""Errors as clients get them: a status, a code, and the object from which OpenAI's client raises its exceptions."""

from __future__ import annotations

from typing import Any

_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


class ApiError(Exception):
    """A request that is not answered; `retry_after` is in seconds."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry_after: int | None = None,
        close: bool = False,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param
        self.close = close  # end the connection: what follows on it cannot be told from this request's body
        self.headers: list[tuple[str, str]] = []
        if retry_after is not None:
            self.headers.append(("retry-after", str(retry_after)))
        if status == 401:
            self.headers.append(("www-authenticate", "Bearer"))
        if status == 500:  # the client would send a request that fails again twice
            self.headers.append(("x-should-retry", "false"))

    def body(self) -> dict[str, Any]:
        """The error in the one shape of all paths below /v1."""
        kind = _TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """The error of a request that is wrong: status 400."""
    return ApiError(400, message, code=code, param=param)
