"""Calls of a run's pipeline, computed by the engine: what is offered, and with files where it reads them."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headway.data.unknown_tokens import tallied
from headway.errors import DataError, HeadwayError, NonFiniteError, one_line
from headway.serving.requests import Call
from headway.tasks.json_calls import call as call_pipeline


def computed(pipeline: object, call: Call) -> tuple[list[Any], int]:
    """The results of a call, and the tokens of its texts. Raises HeadwayError, in words that a client may read."""
    with tallied() as tally, tempfile.TemporaryDirectory(prefix="headway-") as folder:
        inputs, named = _inputs(call, Path(folder))
        try:
            results = call_pipeline(pipeline, call.verb, inputs, call.arguments)
        except NonFiniteError:
            raise
        except HeadwayError as error:
            raise DataError(named(one_line(error))) from error
        return _renamed(results, named), tally.tokens


def _inputs(call: Call, folder: Path) -> tuple[list[Any], Callable[[str], str]]:
    """Inputs as the pipeline takes them, files in a folder, and what gives a text the names that clients know."""
    inputs: list[Any] = []
    names: dict[str, str] = {}
    for number, given in enumerate(call.inputs):
        if isinstance(given, dict) and "data" in given:
            path = folder / f"{number}{given['suffix']}"
            path.write_bytes(base64.b64decode(given["data"]))
            names[str(path)] = given["name"]
            inputs.append(path)
        else:
            inputs.append(given)

    def named(text: str) -> str:
        for path, name in reversed(names.items()):  # 10 before 1
            text = text.replace(path, name)
        return text.replace(str(folder), "")

    return inputs, named if names else lambda text: text


def _renamed(value: Any, named: Callable[[str], str]) -> Any:
    """A result with the names of files as clients know them."""
    if isinstance(value, str):
        return named(value)
    if isinstance(value, list):
        return [_renamed(each, named) for each in value]
    if isinstance(value, dict):
        return {key: _renamed(each, named) for key, each in value.items()}
    return value
