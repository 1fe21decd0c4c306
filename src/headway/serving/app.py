"""The endpoints, as one ASGI application behind the gate."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

from headway.serving import libre, verb_endpoints
from headway.serving.answers import AnswerWriter
from headway.serving.api_errors import ApiError, invalid
from headway.serving.completions import Completion, read_chat, read_completion
from headway.serving.engine_group import EngineGroup
from headway.serving.fields import Fields
from headway.serving.gate import Gate, Route
from headway.serving.gated_app import GatedApp, Handler
from headway.serving.generation import Generation
from headway.serving.http import EventStream, HttpAnswer
from headway.serving.libre import LibreEndpoints
from headway.serving.metrics import Metrics
from headway.serving.models import ServedModels
from headway.serving.openapi import openapi_document
from headway.serving.page import start_page
from headway.serving.supervisor import EngineProcess
from headway.serving.text_model import TextModel
from headway.serving.tokenization import detokenize, tokenize, tokenizer_info
from headway.serving.verb_endpoints import UNKNOWN, VerbEndpoints

_VERB_PATH = re.compile(r"/v1/[a-z_]{1,32}")
MODEL = "/v1/models/"  # with the name of a model behind it
TEXT_PATHS = {"/tokenize": tokenize, "/detokenize": detokenize}
ROUTES = {
    "/": Route(method="GET", open=True),
    "/health": Route(method="GET", open=True),
    "/ready": Route(method="GET", open=True),
    "/metrics": Route(method="GET"),
    "/openapi.json": Route(method="GET"),
    "/v1/models": Route(method="GET"),
    MODEL: Route(method="GET"),
    "/v1/completions": Route(method="POST"),
    "/v1/chat/completions": Route(method="POST"),
    "/tokenize": Route(method="POST"),
    "/detokenize": Route(method="POST"),
    "/tokenizer_info": Route(method="GET"),
    **libre.ROUTES,
    **verb_endpoints.ROUTES,
}


class App(GatedApp):
    """The application of one server: routes to handlers, and nothing that computes."""

    def __init__(self, groups: Sequence[EngineGroup], gate: Gate, metrics: Metrics) -> None:
        self.models = ServedModels(groups)
        self._verbs = VerbEndpoints(self.models, gate.limits)
        self._document: tuple[list[Any], dict[str, Any]] | None = None
        handlers: dict[str, Handler] = {
            "/": self._page,
            "/health": self._health,
            "/ready": self._ready,
            "/metrics": self._metrics,
            "/openapi.json": self._openapi,
            "/v1/models": self._models,
            MODEL: self._model,
            "/v1/completions": self._completions,
            "/v1/chat/completions": self._chat,
            **dict.fromkeys(TEXT_PATHS, self._tokens),
            "/tokenizer_info": self._tokenizer_info,
            **LibreEndpoints(self.models, gate.limits).handlers,
            **self._verbs.handlers,
        }
        super().__init__(gate, metrics, handlers)
        gate.known = self._known

    def _known(self, path: str) -> str:
        """The route of a path: its own, that of a model's name, or that of a call, which is added when it is known."""
        if path.startswith(MODEL):
            return MODEL if len(path) > len(MODEL) else ""
        route = None if path in ROUTES else self._verbs.route(path)
        if route is not None:
            self.gate.routes[path], self.handlers[path] = route, self._verbs.verb
            return path
        if path == UNKNOWN:
            return ""
        return UNKNOWN if self.models.loading and path not in ROUTES and _VERB_PATH.fullmatch(path) else path

    def error_body(self, known: str, error: ApiError) -> Any:
        """Below these paths LibreTranslate's shape, else the one of the API."""
        return {"error": error.message} if known in libre.ROUTES else None

    def client_in_body(self, scope: Mapping[str, Any], values: Any, client: str) -> str:
        """The client of a LibreTranslate request, whose key may be in its body."""
        if any(name == b"authorization" for name, _ in scope["headers"]):
            return client
        key = values.pop("api_key", "") if isinstance(values, dict) else ""
        return self.gate.client_of(key if isinstance(key, str) else "")

    async def _page(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        text, headers = start_page()
        return HttpAnswer(text, headers=headers, kind="text/html; charset=utf-8")

    async def _openapi(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        known = list(self.models.described.values())
        if not self._document or self._document[0] != known:  # made again where a model has come, or was reloaded
            self._document = known, openapi_document(self.models, self.limits, keys=bool(self.gate.keys))
        return HttpAnswer(self._document[1])

    async def _health(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        up = self.models.whole
        return HttpAnswer({"status": "ok" if up else "engine_down"}, 200 if up else 503)

    async def _ready(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        ready = not self.draining and self.models.ready
        reason = "ready" if ready else "draining" if self.draining else "loading"
        return HttpAnswer({"status": reason}, 200 if ready else 503)

    async def _metrics(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        return HttpAnswer(self.metrics.text())

    async def _models(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        return HttpAnswer({"object": "list", "data": self.models.listed()})

    async def _model(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        return HttpAnswer(self.models.entry(self.models.group(scope["path"].removeprefix(MODEL))))

    @staticmethod
    def _text_model(engine: EngineProcess) -> TextModel:
        if engine.text is None:
            raise invalid("this model does not continue texts", "model", "unsupported_model")
        return engine.text

    async def _completions(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer | EventStream:
        engine = self.models.of(fields)
        model = self._text_model(engine)
        engine.expect_room()
        completion = await asyncio.to_thread(read_completion, fields, model, self.limits)
        return await self._generate(engine, model, completion, client)

    async def _chat(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer | EventStream:
        engine = self.models.of(fields)
        model = self._text_model(engine)
        engine.expect_room()
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
        model, answer = self._text_model(self.models.of(fields)), TEXT_PATHS[scope["path"]]
        return HttpAnswer(await asyncio.to_thread(answer, fields, model, self.limits))

    async def _tokenizer_info(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        return HttpAnswer(tokenizer_info(self._text_model(self.models.of(fields))))
