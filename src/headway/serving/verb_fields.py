"""The fields of a call of a verb: its inputs, which may be files, and the options that its description has."""

from __future__ import annotations

import base64
import binascii
import mimetypes
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from headway.errors import shown
from headway.serving.api_errors import invalid
from headway.serving.fields import Fields
from headway.serving.limits import ServerLimits
from headway.serving.multipart import UploadedFile
from headway.serving.schema import described, expect_schema, from_form

_DATA_URL = re.compile(r"data:([\w.+/-]{0,80})(?:;[\w.+=-]{0,80})*;base64,", re.ASCII)
_SUFFIX = re.compile(r"\.[a-z0-9]{1,8}")


def is_file(item: Mapping[str, Any]) -> bool:
    """Whether an input is the content of a file."""
    return "contentEncoding" in item


def read_inputs(fields: Fields, item: Mapping[str, Any], limits: ServerLimits) -> list[Any]:
    """The field `input`: one input or several. Raises ApiError."""
    given = fields.take("input")
    values = given if isinstance(given, list) else [given]
    if given is None or not values:
        raise invalid(f"input is missing or empty, expected {_expected(item)}, or several in an array", "input")
    if len(values) > limits.inputs:
        raise invalid(f"input has {len(values)} values, allowed: {limits.inputs}", "input")
    if is_file(item):
        return [_file(each, number) for number, each in enumerate(values, 1)]
    uploaded = [each.content.decode("utf-8", "replace") if isinstance(each, UploadedFile) else each for each in values]
    return [expect_schema(from_form(each, item) if fields.from_form else each, item, "input") for each in uploaded]


def read_options(fields: Fields, options: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The options that are given. Raises ApiError."""
    found = {}
    for name, schema in options.items():
        value = fields.take(name)
        if value is not None:
            found[name] = expect_schema(from_form(value, schema) if fields.from_form else value, schema, name)
    return found


def _expected(item: Mapping[str, Any]) -> str:
    return "a file in base64, or as a data: URL" if is_file(item) else described(item)


def _file(value: Any, number: int) -> dict[str, str]:
    """A file as a frame has it: its name for messages, its suffix and its content in base64."""
    if isinstance(value, UploadedFile):
        name = PurePosixPath(value.name.replace("\\", "/")).name[:100] or f"input {number}"
        return {"name": name, "suffix": _suffix(name), "data": base64.b64encode(value.content).decode()}
    if not isinstance(value, str):
        raise invalid(f"input {number} is {shown(value)}, expected a file in base64, or as a data: URL", "input")
    url = _DATA_URL.match(value[:400])
    data = value[url.end() :] if url is not None else value
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        hint = "; a URL of another server is not fetched" if value[:8].lower().startswith("http") else ""
        raise invalid(f"input {number} is not base64 of a file, nor a data: URL of one{hint}", "input") from None
    suffix = mimetypes.guess_extension(url[1]) if url is not None else None
    return {"name": f"input {number}", "suffix": suffix or "", "data": data}


def _suffix(name: str) -> str:
    suffix = PurePosixPath(name).suffix.lower()
    return suffix if _SUFFIX.fullmatch(suffix) and suffix != ".gz" else ""
