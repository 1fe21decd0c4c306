"""The endpoints, as one ASGI application behind the gate."""

from __future__ import annotations

import asyncio
import base64
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from headway.serving.answers import AnswerWriter
from headway.serving.api_errors import ApiError, invalid
from headway.serving.completions import Completion, read_chat, read_completion
from headway.serving.fields import Fields
from headway.serving.gate import Gate, Route
from headway.serving.gated_app import GatedApp, Handler
from headway.serving.generation import Generation
from headway.serving.http import EventStream, HttpAnswer
from headway.serving.metrics import Metrics
from headway.serving.supervisor import EngineProcess
from headway.serving.text_model import TextModel
from headway.serving.tokenization import detokenize, tokenize, tokenizer_info

VERB_PATHS = {f"/v1/{verb}": verb for verb in ("score", "classify", "tag")}
VERB_OPTIONS = {"classify": ("top",)}
LIBRE_PATHS = ("/translate", "/detect", "/languages")  # in LibreTranslate's shapes, its errors included
TEXT_PATHS = {"/tokenize": tokenize, "/detokenize": detokenize}
ROUTES = {
    "/health": Route(method="GET", open=True),
    "/ready": Route(method="GET", open=True),
    "/metrics": Route(method="GET"),
    "/v1/models": Route(method="GET"),
    "/v1/models/": Route(method="GET"),  # with the name of a model behind it
    "/v1/completions": Route(method="POST"),
    "/v1/chat/completions": Route(method="POST"),
    "/v1/embeddings": Route(method="POST"),
    "/tokenize": Route(method="POST"),
    "/detokenize": Route(method="POST"),
    "/tokenizer_info": Route(method="GET"),
    "/translate": Route(method="POST", form=True),
    "/detect": Route(method="POST", form=True),
    "/languages": Route(method="GET"),
    **{path: Route(method="POST") for path in VERB_PATHS},
}


class App(GatedApp):
    """The application of one server: routes to handlers, and nothing that computes."""

    def __init__(self, engines: Sequence[EngineProcess], gate: Gate, metrics: Metrics) -> None:
        self.engines = {engine.settings.name: engine for engine in engines}
        handlers: dict[str, Handler] = {
            "/health": self._health,
            "/ready": self._ready,
            "/metrics": self._metrics,
            "/v1/models": self._models,
            "/v1/models/": self._model,
            "/v1/completions": self._completions,
            "/v1/chat/completions": self._chat,
            "/v1/embeddings": self._embeddings,
            **dict.fromkeys(TEXT_PATHS, self._tokens),
            "/tokenizer_info": self._tokenizer_info,
            "/translate": self._translate,
            "/detect": self._detect,
            "/languages": self._languages,
            **dict.fromkeys(VERB_PATHS, self._verb),
        }
        super().__init__(gate, metrics, handlers)

    def error_body(self, known: str, error: ApiError) -> Any:
        """Below these paths LibreTranslate's shape, else the one of the API."""
        return {"error": error.message} if known in LIBRE_PATHS else None

    def client_in_body(self, scope: Mapping[str, Any], values: Any, client: str) -> str:
        """The client of a LibreTranslate request, whose key may be in its body."""
        if any(name == b"authorization" for name, _ in scope["headers"]):
            return client
        key = values.pop("api_key", "") if isinstance(values, dict) else ""
        return self.gate.client_of(key if isinstance(key, str) else "")

    async def _health(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        up = all(engine.ready or not engine.was_ready for engine in self.engines.values())
        return HttpAnswer({"status": "ok" if up else "engine_down"}, 200 if up else 503)

    async def _ready(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        ready = not self.draining and all(engine.ready for engine in self.engines.values())
        reason = "ready" if ready else "draining" if self.draining else "loading"
        return HttpAnswer({"status": reason}, 200 if ready else 503)

    async def _metrics(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        return HttpAnswer(self.metrics.text())

    async def _models(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        return HttpAnswer({"object": "list", "data": [self._listed(each) for each in self.engines.values()]})

    async def _model(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        return HttpAnswer(self._listed(self._engine(scope["path"].removeprefix("/v1/models/"))))

    def _listed(self, engine: EngineProcess) -> dict[str, Any]:
        known = engine.described or {}
        listed = {
            "id": engine.settings.name,
            "object": "model",
            "created": known.get("created", 0),
            "owned_by": "headway",
        }
        told = ("task", "context", "precision", "steps", "fingerprint", "exact", "verbs")
        return {**listed, **{key: known.get(key) for key in told}}

    def _engine(self, name: str) -> EngineProcess:
        engine = self.engines.get(name)
        if engine is None:
            raise ApiError(404, "there is no model of this name; see /v1/models", code="model_not_found", param="model")
        return engine

    def _of_body(self, fields: Fields) -> EngineProcess:
        """The engine of the field `model`, which may be left out where there is one model."""
        only = next(iter(self.engines)) if len(self.engines) == 1 else None
        engine = self._engine(fields.text("model", only))
        if not engine.ready:
            raise engine.unavailable()
        return engine

    @staticmethod
    def _text_model(engine: EngineProcess) -> TextModel:
        if engine.text is None:
            raise invalid("this model does not continue texts", "model", "unsupported_model")
        return engine.text

    async def _completions(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer | EventStream:
        engine = self._of_body(fields)
        model = self._text_model(engine)
        completion = await asyncio.to_thread(read_completion, fields, model, self.limits)
        return await self._generate(engine, model, completion, client)

    async def _chat(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer | EventStream:
        engine = self._of_body(fields)
        model = self._text_model(engine)
        completion = await asyncio.to_thread(read_chat, fields, model, self.limits)
        answer = await self._generate(engine, model, completion, client)
        answer.headers.append(("x-headway-template", "plain" if model.chat is None else "run"))
        return answer

    async def _generate(
        self, engine: EngineProcess, model: TextModel, completion: Completion, client: str
    ) -> HttpAnswer | EventStream:
        assert engine.described is not None
        answers = AnswerWriter(completion, engine.settings.name, engine.described["fingerprint"], model.tokenizer)
        generation = Generation(engine, model, completion, client)
        headers = [("x-headway-seed", str(completion.seed))]
        if completion.stream:
            first = await generation.begin()  # a refusal is a status, not an event of a stream
            return EventStream(generation.chunks(answers, first), headers, generation.leave)
        async for _ in generation.changes():
            pass
        return HttpAnswer(answers.whole(generation.choices), headers=headers)

    async def _tokens(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        model, answer = self._text_model(self._of_body(fields)), TEXT_PATHS[scope["path"]]
        return HttpAnswer(await asyncio.to_thread(answer, fields, model, self.limits))

    async def _tokenizer_info(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        return HttpAnswer(tokenizer_info(self._text_model(self._of_body(fields))))

    async def _embeddings(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        engine = self._of_body(fields)
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
        vectors = await self._call(engine, "embed", texts, {}, client)
        if dimensions is not None:
            vectors = [_shortened(each, dimensions) for each in vectors]
        data = [
            {"object": "embedding", "index": n, "embedding": each if encoding == "float" else _base64(each)}
            for n, each in enumerate(vectors)
        ]
        usage = {"prompt_tokens": 0, "total_tokens": 0}  # tokens are counted by the engine, which does not tell
        return HttpAnswer({"object": "list", "data": data, "model": engine.settings.name, "usage": usage})

    async def _verb(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        engine, verb = self._of_body(fields), VERB_PATHS[scope["path"]]
        texts = fields.texts("input", self.limits.inputs)
        arguments = {name: fields.optional_integer(name, 1, 1000) for name in VERB_OPTIONS.get(verb, ())}
        fields.refuse_rest()
        results = await self._call(engine, verb, texts, arguments, client)
        return HttpAnswer({"model": engine.settings.name, "results": results})

    async def _call(
        self, engine: EngineProcess, verb: str, texts: list[str], arguments: dict[str, Any], client: str
    ) -> list[Any]:
        assert engine.described is not None
        if verb not in engine.described["verbs"]:
            able = ", ".join(engine.described["verbs"]) or "none"
            raise invalid(f"this model does not {verb}; it has: {able}", "model", "unsupported_model")
        return await engine.call(verb, texts, arguments, client)

    async def _languages(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        targets: dict[str, list[str]] = {}
        for source, target, _ in self._pairs():
            targets.setdefault(source, []).append(target)
        return HttpAnswer([{"code": code, "name": code, "targets": found} for code, found in targets.items()])

    def _pairs(self) -> list[tuple[str, str, EngineProcess]]:
        found = [(each.described or {}).get("languages") for each in self.engines.values()]
        return [(*pair, engine) for pair, engine in zip(found, self.engines.values(), strict=True) if pair]

    async def _translate(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        given = fields.take("q")
        texts = Fields({"q": given}).texts("q", self.limits.inputs)
        source, target = fields.text("source", "auto"), fields.text("target")
        if fields.text("format", "text") != "text":
            raise invalid("format: only text is supported", "format")
        alternatives = fields.digits("alternatives", 0, self.limits.choices - 1)
        fields.ignore("api_key")
        fields.refuse_rest()
        pairs = [each for each in self._pairs() if each[1] == target and source in ("auto", each[0])]
        if not pairs:
            raise invalid("no model translates from this source to this target; see /languages", "target")
        code, _, engine = pairs[0] if source != "auto" else self._only_source(pairs)
        options = {"n_best": 1 + alternatives} if alternatives else {}
        found = await self._call(engine, "translate", texts, options, client)
        best = [each["translations"][0] if each["translations"] else "" for each in found]
        others = [each["translations"][1:] for each in found]
        several = isinstance(given, list)
        answer: dict[str, Any] = {"translatedText": best if several else best[0]}
        if alternatives:
            answer["alternatives"] = others if several else others[0]
        if source == "auto":
            detected = _detected(code)
            answer["detectedLanguage"] = [detected] * len(best) if several else detected
        return HttpAnswer(answer)

    @staticmethod
    def _only_source(pairs: Sequence[tuple[str, str, EngineProcess]]) -> tuple[str, str, EngineProcess]:
        """The first of pairs that have one source. Nothing detects a language: the only one is taken for granted."""
        if len({pair[0] for pair in pairs}) > 1:
            raise invalid("source: more than one language is served, name one of them", "source")
        return pairs[0]

    async def _detect(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        fields.text("q")
        fields.ignore("api_key")
        fields.refuse_rest()
        pairs = self._pairs()
        if not pairs:
            raise invalid("no model translates; see /languages", "q")
        return HttpAnswer([_detected(self._only_source(pairs)[0])])


def _detected(code: str) -> dict[str, Any]:
    return {"confidence": 100, "language": code}


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
