"""Bodies of the type multipart/form-data (RFC 7578), as `curl -F` and OpenAI's client send them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from headway.serving.api_errors import ApiError

MULTIPART = "multipart/form-data"
PARTS = 300
PART_HEADERS = 2048  # bytes
INPUTS = ("input", "file")  # names of the parts that are inputs; the others are options
_BOUNDARY = re.compile(r'boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))', re.IGNORECASE)
_NAME = re.compile(r';\s*name="([^"]*)"')
_FILENAME = re.compile(r';\s*filename="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file as a client sent it, with the name that it has there."""

    name: str
    content: bytes


class FormValues(dict[str, Any]):
    """Fields of a form: all are text, or files, and `input` is a list."""


def parse_multipart(content_type: str, body: bytes) -> FormValues:
    """The fields of a body. Raises ApiError for one that is damaged."""
    found = _BOUNDARY.search(content_type)
    if found is None:
        raise _damaged("the content type has no boundary")
    delimiter = b"--" + (found[1] or found[2]).encode("latin-1")
    _, *parts = (b"\r\n" + body).split(b"\r\n" + delimiter, PARTS + 2)
    if len(parts) > PARTS + 1:
        raise _damaged(f"more than {PARTS} parts")
    if len(parts) < 2 or not parts[-1].startswith(b"--"):
        raise _damaged("the boundary that ends it is missing")
    values = FormValues()
    for part in parts[:-1]:
        name, value = _part(part)
        if name in INPUTS:
            values.setdefault("input", []).append(value)
        elif isinstance(value, UploadedFile):
            raise _damaged(f"a file as {name[:40]!r}, expected it as {' or '.join(INPUTS)}")
        elif name in values:
            raise _damaged(f"the field {name[:40]!r} twice")
        else:
            values[name] = value
    return values


def _part(part: bytes) -> tuple[str, str | UploadedFile]:
    """The name of a part and what it holds."""
    head, separator, content = part.partition(b"\r\n\r\n")
    if not separator or len(head) > PART_HEADERS or not head.startswith(b"\r\n"):
        raise _damaged("a part without headers, or with too many")
    text = head.decode("utf-8", "replace")
    line = next((each for each in text.split("\r\n") if each.lower().startswith("content-disposition:")), "")
    name, filename = _NAME.search(line), _FILENAME.search(line)
    if name is None:
        raise _damaged("a part without a name")
    if filename is not None:
        return name[1], UploadedFile(filename[1], content)
    try:
        return name[1], content.decode()
    except UnicodeDecodeError:
        raise _damaged(f"the field {name[1][:40]!r} is not UTF-8") from None


def _damaged(what: str) -> ApiError:
    return ApiError(400, f"the body is not valid {MULTIPART}: {what}", code="invalid_multipart", close=True)
