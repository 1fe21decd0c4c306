"""`/v1/VERB` for every call that a model's pipeline offers, and the endpoints of OpenAI's that are such a call."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from typing import Any

from headway.serving.api_errors import ApiError, invalid
from headway.serving.fields import Fields
from headway.serving.gate import Route
from headway.serving.http import HttpAnswer
from headway.serving.limits import ServerLimits
from headway.serving.models import ServedModels
from headway.serving.verb_fields import is_file, read_inputs, read_options

PREFIX = "/v1/"
UNKNOWN = "/v1/{verb}"  # while models are loaded whose calls are not known yet
ROUTES = {
    "/v1/embeddings": Route(method="POST"),
    "/v1/audio/transcriptions": Route(method="POST", files=True),
    UNKNOWN: Route(method="POST", files=True),
}
FORMATS = ("json", "text")  # of a transcription


class VerbEndpoints:
    """Calls of pipelines: what they are, and how inputs are read, is for the models to say."""

    def __init__(self, models: ServedModels, limits: ServerLimits) -> None:
        self.models, self.limits = models, limits
        self.handlers = {
            "/v1/embeddings": self._embeddings,
            "/v1/audio/transcriptions": self._transcriptions,
            UNKNOWN: self._unknown,
        }

    def route(self, path: str) -> Route | None:
        """The route of a path below /v1, if any model has a call of that name."""
        call = self.models.calls().get(path.removeprefix(PREFIX)) if path.startswith(PREFIX) else None
        return None if call is None else Route(method="POST", files=any(map(is_file, self._items(path))))

    def _items(self, path: str) -> list[Mapping[str, Any]]:
        """What an input is, of every model that has the call."""
        verb, described = path.removeprefix(PREFIX), self.models.described.values()
        return [each["calls"][verb]["item"] for each in described if verb in each["calls"]]

    async def verb(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        """Any call: `input` and the options that its model describes."""
        engine, verb = self.models.of(fields), scope["path"].removeprefix(PREFIX)
        call = self.models.offered(engine, verb)
        inputs = read_inputs(fields, call["item"], self.limits)
        options = read_options(fields, call["options"])
        fields.ignore("user")
        fields.refuse_rest()
        results, tokens = await engine.call(verb, inputs, options, client)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return HttpAnswer({"model": engine.settings.name, "results": results, "usage": usage})

    async def _unknown(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        raise ApiError(503, "the model is being loaded", code="loading", retry_after=2)

    async def _embeddings(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        engine = self.models.of(fields)
        given = fields.take("input")
        if isinstance(given, list) and given and not isinstance(given[0], str):
            raise invalid("input has token ids: send texts, the vocabulary of this model is its own", "input")
        texts = Fields({"input": given}).texts("input", self.limits.inputs)
        encoding = fields.text("encoding_format", "float")
        if encoding not in ("float", "base64"):
            raise invalid("encoding_format: expected float or base64", "encoding_format")
        dimensions = fields.optional_integer("dimensions", 1, 1 << 20)
        fields.ignore("user")
        fields.refuse_rest()
        self.models.offered(engine, "embed")
        vectors, tokens = await engine.call("embed", texts, {}, client)
        if dimensions is not None:
            vectors = [_shortened(each, dimensions) for each in vectors]
        data = [
            {"object": "embedding", "index": n, "embedding": each if encoding == "float" else _base64(each)}
            for n, each in enumerate(vectors)
        ]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return HttpAnswer({"object": "list", "data": data, "model": engine.settings.name, "usage": usage})

    async def _transcriptions(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        engine = self.models.of(fields)
        call = self.models.offered(engine, "transcribe")
        inputs = read_inputs(fields, call["item"], self.limits)
        if len(inputs) > 1:
            raise invalid(f"file: {len(inputs)} files, expected one", "file")
        kind = fields.text("response_format", "json")
        if kind not in FORMATS:
            raise invalid(f"response_format: only {' and '.join(FORMATS)} are supported", "response_format")
        fields.ignore("temperature", "language")  # the search is greedy or by beam; a run has one language
        fields.refuse_rest()
        (found,), _ = await engine.call("transcribe", inputs, {}, client)
        if kind == "text":
            return HttpAnswer(f"{found['text']}\n", kind="text/plain; charset=utf-8")
        return HttpAnswer({"text": found["text"]})


def _shortened(vector: list[float], dimensions: int) -> list[float]:
    """The first numbers of a vector, with length 1."""
    if dimensions > len(vector):
        raise invalid(f"dimensions is {dimensions}, the vectors of this model have {len(vector)}", "dimensions")
    part = vector[:dimensions]
    length = sum(each * each for each in part) ** 0.5
    return [each / length for each in part] if length else part


def _base64(vector: list[float]) -> str:
    """Little-endian float32, as OpenAI's client reads it."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
