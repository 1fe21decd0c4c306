"""`/openapi.json`: every endpoint with the fields that it reads, and the calls that the models of this server offer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from headway.serving.completions import ROLES, SEEDS
from headway.serving.limits import ServerLimits
from headway.serving.models import ServedModels
from headway.serving.multipart import MULTIPART
from headway.serving.verb_fields import is_file

Schema = dict[str, Any]
JSON = "application/json"
STRING: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
IDS: Schema = {"type": "array", "items": {"type": "integer", "minimum": 0}}


def openapi_document(models: ServedModels, limits: ServerLimits, *, keys: bool) -> dict[str, Any]:
    """The document of a server, in OpenAPI 3.1; of calls, those that a model which is loaded offers."""
    paths: dict[str, Any] = {
        path: {"get": _operation(about, None, open=path in ("/health", "/ready"))} for path, about in READ.items()
    }
    paths["/v1/models/{name}"]["get"]["parameters"] = [
        {"name": "name", "in": "path", "required": True, "schema": STRING}
    ]
    for path, (about, fields, required) in endpoints(limits).items():
        paths[path] = {"post": _operation(about, {**fields, "model": _model(models)}, required)}
    for path, (about, fields, required) in LIBRE.items():
        form = ("application/x-www-form-urlencoded",)
        paths[path] = {"post": _operation(about, fields, required, others=form)}
    for name, call in models.calls().items():
        paths[f"/v1/{name}"] = {"post": _call(call, models, limits)}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "headway serve", "version": version("headway")},
        "paths": paths,
        "components": {"schemas": {"Error": ERROR}, "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    }
    return {**document, "security": [{"key": []}]} if keys else document


def endpoints(limits: ServerLimits) -> dict[str, tuple[str, Schema, Sequence[str]]]:
    """What the endpoints for texts read: what they are for, their fields beside `model`, and those that have to be."""
    common = _sampled(limits)
    return {
        "/v1/completions": (
            "Continue prompts",
            {
                "prompt": {
                    "description": f"a text, token ids, or up to {limits.prompts} of either",
                    "oneOf": [STRING, IDS, {"type": "array", "items": {"oneOf": [STRING, IDS]}}],
                },
                "max_tokens": {"type": "integer", "minimum": 0, "default": 16},
                "logprobs": _integer(0, limits.log_probs),
                "echo": FLAG,
                "best_of": _integer(1, limits.choices),
                **common,
            },
            ["prompt"],
        ),
        "/v1/chat/completions": (
            "Answer the messages of a conversation",
            {
                "messages": {"type": "array", "items": MESSAGE, "minItems": 1, "maxItems": limits.messages},
                "max_tokens": {"type": "integer", "minimum": 1},
                "max_completion_tokens": {"type": "integer", "minimum": 1},
                "logprobs": FLAG,
                "top_logprobs": _integer(0, limits.log_probs),
                **common,
            },
            ["messages"],
        ),
        "/v1/embeddings": (
            "A vector for each text",
            {
                "input": _one_or_more(STRING, limits.inputs),
                "encoding_format": {"enum": ["float", "base64"], "default": "float"},
                "dimensions": {"type": "integer", "minimum": 1},
                "user": STRING,
            },
            ["input"],
        ),
        "/tokenize": (
            "The tokens of a text, or of the prompt that messages become",
            {
                "prompt": STRING,
                "messages": {"type": "array", "items": MESSAGE},
                "add_special_tokens": {**FLAG, "default": True},
                "return_token_strs": {**FLAG, "default": False},
            },
            [],
        ),
        "/detokenize": ("The text of tokens", {"tokens": IDS}, ["tokens"]),
    }


READ = {
    "/health": "200 while the engines live",
    "/ready": "200 when every model takes requests",
    "/metrics": "Prometheus' text format",
    "/openapi.json": "This document",
    "/v1/models": "The models",
    "/v1/models/{name}": "One of them",
    "/tokenizer_info": "What the tokenizer is",
    "/languages": "From which languages models translate, and to which",
}
LIBRE: dict[str, tuple[str, Schema, Sequence[str]]] = {
    "/translate": (
        "Translate, in LibreTranslate's shape",
        {
            "q": {"oneOf": [STRING, {"type": "array", "items": STRING}]},
            "source": {**STRING, "default": "auto"},
            "target": STRING,
            "format": {"enum": ["text"], "default": "text"},
            "alternatives": {"type": "integer", "minimum": 0},
            "api_key": STRING,
        },
        ["q", "target"],
    ),
    "/detect": ("The only source language that is served", {"q": STRING, "api_key": STRING}, ["q"]),
}
MESSAGE: Schema = {
    "type": "object",
    "properties": {
        "role": {"enum": list(ROLES)},
        "content": {"oneOf": [STRING, {"type": "array", "items": {"type": "object"}}]},
    },
    "required": ["role", "content"],
}
ERROR: Schema = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "message": STRING,
                "type": STRING,
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}


def _sampled(limits: ServerLimits) -> Schema:
    """The fields that completions and chats have."""
    return {
        "temperature": _number(0, 100, 1),
        "top_p": _number(0, 1, 1),
        "n": {**_integer(1, limits.choices), "default": 1},
        "seed": {"type": "integer", "minimum": -SEEDS, "maximum": SEEDS - 1},
        "stop": _one_or_more({**STRING, "maxLength": limits.stop_length}, limits.stops),
        "stream": {**FLAG, "default": False},
        "stream_options": {"type": "object", "properties": {"include_usage": FLAG}},
        "frequency_penalty": _number(-2, 2, 0),
        "presence_penalty": _number(-2, 2, 0),
        "logit_bias": {"type": "object", "additionalProperties": _number(-100, 100)},
        "user": STRING,
        "top_k": {"type": "integer", "minimum": 1},
        "min_p": _number(0, 1, 0),
        "repetition_penalty": _number(0.01, 100, 1),
        "ignore_eos": {**FLAG, "default": False},
        "deadline_ms": _integer(1, int(1000 * limits.request_seconds)),
    }


def _call(call: Mapping[str, Any], models: ServedModels, limits: ServerLimits) -> dict[str, Any]:
    """A call that models offer, as the first of them describes it."""
    fields = {"input": _one_or_more(dict(call["item"]), limits.inputs), **call["options"]}
    others = (MULTIPART,) if is_file(call["item"]) else ()
    operation = _operation(call["about"], {**fields, "model": _model(models)}, ["input"], others=others)
    return operation


def _operation(
    about: str, fields: Schema | None, required: Sequence[str] = (), *, open: bool = False, others: Sequence[str] = ()
) -> dict[str, Any]:
    """An operation with the fields of its body, if it has any."""
    operation: dict[str, Any] = {
        "summary": about,
        "responses": {
            "200": {"description": "the answer"},
            "default": {
                "description": "an error",
                "content": {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}},
            },
        },
    }
    if fields is not None:
        schema = {"type": "object", "properties": fields, "required": list(required), "additionalProperties": False}
        content = {kind: {"schema": schema} for kind in (JSON, *others)}
        operation["requestBody"] = {"required": True, "content": content}
    return {**operation, "security": []} if open else operation


def _model(models: ServedModels) -> Schema:
    return {"enum": list(models.groups), "description": "may be left out where there is one model"}


def _integer(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


def _number(least: float, most: float, default: float | None = None) -> Schema:
    found: Schema = {"type": "number", "minimum": least, "maximum": most}
    return found if default is None else {**found, "default": default}


def _one_or_more(item: Schema, most: int) -> Schema:
    return {"oneOf": [item, {"type": "array", "items": item, "minItems": 1, "maxItems": most}]}
