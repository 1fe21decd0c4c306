"""The endpoints without an engine process: a stand-in answers what an engine would."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import struct
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.data.chat_template import Chatml
from headway.data.tokenizers import Characters, Tokenizer
from headway.serving import libre
from headway.serving.app import ROUTES, App
from headway.serving.engine_group import EngineGroup
from headway.serving.gate import Gate, Keys
from headway.serving.limits import ServerLimits
from headway.serving.metrics import Metrics
from headway.serving.requests import Request, TokenEvent
from headway.serving.supervisor import EngineProcess, EngineSettings, Inbox
from headway.serving.text_model import TextModel
from headway.tasks.capabilities import CAPABILITIES
from headway.tasks.json_calls import calls_of
from headway.tasks.translation.calls import TranslationCalls

LIMITS = ServerLimits()
Everything: Any = type("Everything", (TranslationCalls, *CAPABILITIES), {})
Everything.__abstractmethods__ = frozenset()
CALLS = {name: each.to_json() for name, each in calls_of(Everything()).items()}
LETTERS = "abcdefghijklmnopqrstuvwxyz :?\n"


class StandIn(EngineProcess):
    """Writes the last token of a prompt again and again, and answers calls with numbers."""

    def __init__(self, name: str, *, chat: bool = False, verbs: tuple[str, ...] = (), languages: Any = None) -> None:
        super().__init__(EngineSettings(name=name, run=""), LIMITS, Metrics())
        special = Chatml().special
        tokenizer = Tokenizer.train(Characters(), [LETTERS], specials=special)
        text = {
            "tokenizer": tokenizer.to_json(), "marks": None, "before": [], "stops": [], "vocab": tokenizer.size,
            "chat": asdict(Chatml()) if chat else None,
        }  # fmt: skip
        self.described = {
            "text": text, "calls": {name: CALLS[name] for name in verbs}, "languages": languages, "context": 200,
            "fingerprint": "hw-0", "exact": True,
            "task": "a stand-in", "precision": "fp32", "steps": [1], "created": 0, "weights": "0",
        }  # fmt: skip
        self.text = TextModel(self.described)
        self.asked: list[Request] = []
        self.calls: list[Any] = []

    def submit(self, request: Request, inbox: Inbox) -> None:
        self.asked.append(request)
        for _ in range(request.max_tokens):
            inbox.put_nowait(TokenEvent(request.id, request.prompt[-1], -0.5 if request.top is not None else None))
        inbox.put_nowait(TokenEvent(request.id, ended="length"))

    async def call(self, verb: str, inputs: list[Any], arguments: dict[str, Any], client: str) -> tuple[list[Any], int]:
        self.calls.append((verb, inputs, arguments))
        if verb == "embed":
            return [[3.0, 4.0, 12.0] for _ in inputs], 7
        if verb in ("transcribe", "pose"):
            return [{"text": f"{each['name']} of {len(each['data'])}"} for each in inputs], 0
        best = arguments.get("n_best") or 1
        return [{"translations": [f"{text}-{n}" for n in range(best)]} for text in inputs], 2


def group(engine: EngineProcess) -> EngineGroup:
    return EngineGroup(engine.settings.name, lambda _: engine)


def ask(
    path: str,
    body: Any,
    *engines: StandIn,
    keys: tuple[str, ...] = (),
    kind: str = "application/json",
    method: str = "",
    **headers: str,
) -> tuple[int, Any, dict[str, str]]:
    app = App([group(each) for each in engines], Gate(ROUTES, LIMITS, Keys(keys), {"here"}), Metrics())
    app.log = lambda line: None
    given = {"host": "here", "content-type": kind, **headers}
    scope = {
        "headers": [(name.encode(), value.encode()) for name, value in given.items()], "scheme": "http",
        "raw_path": path.encode(), "path": path, "client": ("127.0.0.1", 1),
        "method": method or (ROUTES[path].method if path in ROUTES else "POST"),
    }  # fmt: skip
    data = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    messages = [{"type": "http.request", "body": data}]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if not messages:
            await asyncio.sleep(60)
        return messages.pop()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    data = b"".join(message.get("body", b"") for message in sent).decode()
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], json.loads(data) if found["content-type"] == "application/json" else data, found


def test_chat_uses_the_template_of_the_run() -> None:
    engine = StandIn("a", chat=True)
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2, "logprobs": True}
    status, answer, headers = ask("/v1/chat/completions", body, engine)
    assert (status, headers["x-headway-template"]) == (200, "run")
    prompt = engine.text.tokenizer.decode(engine.asked[0].prompt, specials=True)  # type: ignore[union-attr]
    assert prompt == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "\n\n", "refusal": None}
    assert [each["logprob"] for each in answer["choices"][0]["logprobs"]["content"]] == [-0.5, -0.5]
    assert engine.asked[0].stops  # the tokens that end a turn


def test_chat_without_a_template_is_plain() -> None:
    engine = StandIn("a")
    messages = [
        {"role": "developer", "content": "be kind"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    ]
    status, _, headers = ask("/v1/chat/completions", {"messages": messages, "max_completion_tokens": 1}, engine)
    assert (status, headers["x-headway-template"]) == (200, "plain")
    prompt = engine.text.tokenizer.decode(engine.asked[0].prompt)  # type: ignore[union-attr]
    assert prompt == "system: be kind\nuser: hi\nassistant:"


def test_a_streamed_chat() -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2, "stream": True}
    _, text, headers = ask("/v1/chat/completions", body, StandIn("a"))
    assert headers["content-type"].startswith("text/event-stream")
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    deltas = [json.loads(line)["choices"][0] for line in lines[:-1]]
    assert [each["delta"] for each in deltas] == [
        {"role": "assistant", "content": ""},
        {"content": ":"},
        {"content": ":"},
        {},
    ]
    assert deltas[-1]["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "hi"}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages"),
        ({"messages": [{"role": "user", "content": "hi"}] * 257}, "messages"),
        ({"tools": [{}]}, "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"max_tokens": 1, "max_completion_tokens": 2}, "max_tokens"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"tool_choice": "required"}, "tool_choice"),
    ],
)
def test_what_a_chat_cannot_be_asked_is_named(fields: dict[str, Any], param: str) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], **fields}
    status, answer, _ = ask("/v1/chat/completions", body, StandIn("a"))
    assert (status, answer["error"]["param"]) == (400, param)


def test_embeddings() -> None:
    engine = StandIn("a", verbs=("embed",))
    status, answer, _ = ask("/v1/embeddings", {"input": ["one", "two"]}, engine)
    assert status == 200
    assert [each["embedding"] for each in answer["data"]] == [[3.0, 4.0, 12.0]] * 2
    encoded = ask("/v1/embeddings", {"input": "one", "encoding_format": "base64"}, engine)[1]["data"][0]["embedding"]
    assert struct.unpack("<3f", base64.b64decode(encoded)) == (3.0, 4.0, 12.0)
    short = ask("/v1/embeddings", {"input": "one", "dimensions": 2}, engine)[1]["data"][0]["embedding"]
    assert short == pytest.approx([0.6, 0.8])
    assert math.hypot(*short) == pytest.approx(1)
    for wrong in ({"input": [1, 2]}, {"input": "one", "dimensions": 4}, {"input": []}):
        assert ask("/v1/embeddings", wrong, engine)[0] == 400


def test_translation_in_the_shapes_of_libretranslate() -> None:
    engine = StandIn("a", verbs=("translate",), languages=["en", "fr"])
    one = {"q": "dog", "source": "en", "target": "fr"}
    assert ask("/translate", one, engine)[:2] == (200, {"translatedText": "dog-0"})
    several = {"q": ["dog", "cat"], "source": "auto", "target": "fr", "alternatives": 1, "format": "text"}
    detected = {"confidence": 100, "language": "en"}
    assert ask("/translate", several, engine)[1] == {
        "translatedText": ["dog-0", "cat-0"],
        "alternatives": [["dog-1"], ["cat-1"]],
        "detectedLanguage": [detected, detected],
    }
    form = "q=dog&source=en&target=fr&alternatives=2"
    answer = ask("/translate", form, engine, kind="application/x-www-form-urlencoded")[1]
    assert answer == {"translatedText": "dog-0", "alternatives": ["dog-1", "dog-2"]}
    assert ask("/languages", "", engine)[1] == [{"code": "en", "name": "en", "targets": ["fr"]}]


def test_languages_are_detected_where_there_is_one() -> None:
    engine = StandIn("a", verbs=("translate",), languages=["en", "fr"])
    form = {"kind": "application/x-www-form-urlencoded"}
    assert ask("/detect", "q=dog&api_key=x", engine, **form)[:2] == (200, [{"confidence": 100, "language": "en"}])
    other = StandIn("b", verbs=("translate",), languages=["de", "fr"])
    status, answer, _ = ask("/detect", {"q": "dog"}, engine, other)
    assert (status, type(answer["error"])) == (400, str)
    assert ask("/detect", {"q": "dog"}, StandIn("c"))[0] == 400


def test_tokens_of_texts_and_texts_of_tokens() -> None:
    engine = StandIn("a", chat=True)
    assert engine.text is not None
    ids = engine.text.tokenizer.encode("hi you")
    status, answer, _ = ask("/tokenize", {"prompt": "hi you", "return_token_strs": True}, engine)
    assert status == 200
    assert answer == {"count": 6, "max_model_len": 200, "tokens": ids, "token_strs": list("hi you")}
    assert ask("/detokenize", {"tokens": ids}, engine)[1] == {"prompt": "hi you"}
    whole = ask("/tokenize", {"messages": [{"role": "user", "content": "hi"}]}, engine)[1]["tokens"]
    written = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert ask("/detokenize", {"tokens": whole}, engine)[1] == {"prompt": written}
    info = ask("/tokenizer_info", "", engine)[1]
    assert (info["vocab_size"], info["bos_token"], info["eos_token"]) == (engine.text.vocab, None, None)
    for path, wrong in (("/tokenize", {"prompt": 1}), ("/detokenize", {"tokens": [9999]}), ("/detokenize", {})):
        assert ask(path, wrong, engine)[0] == 400


def test_the_tokens_before_a_text_can_be_left_out() -> None:
    engine = StandIn("a")
    assert engine.text is not None
    engine.text.before, engine.text.stops = [1], (2,)
    with_special = ask("/tokenize", {"prompt": "hi"}, engine)[1]["tokens"]
    assert with_special == [1, *ask("/tokenize", {"prompt": "hi", "add_special_tokens": False}, engine)[1]["tokens"]]
    info = ask("/tokenizer_info", "", engine)[1]
    assert [info["bos_token"], info["eos_token"]] == [engine.text.tokenizer.token(n) for n in (1, 2)]


@pytest.mark.parametrize(
    "fields",
    [{"target": "de"}, {"format": "html"}, {"alternatives": 99}, {"alternatives": "x"}, {"q": None}, {"beam": 4}],
)
def test_translations_that_are_refused_have_an_error_of_text(fields: dict[str, Any]) -> None:
    body = {"q": "dog", "source": "en", "target": "fr", **fields}
    status, answer, _ = ask("/translate", body, StandIn("a", verbs=("translate",), languages=["en", "fr"]))
    assert status == 400
    assert isinstance(answer["error"], str)


def test_the_key_of_a_translation_may_be_in_its_body() -> None:
    engine = StandIn("a", verbs=("translate",), languages=["en", "fr"])
    body = {"q": "dog", "source": "en", "target": "fr"}
    assert ask("/translate", body, engine, keys=("secret",))[0] == 401
    assert ask("/translate", {**body, "api_key": "wrong"}, engine, keys=("secret",))[0] == 401
    assert ask("/translate", {**body, "api_key": "secret"}, engine, keys=("secret",))[0] == 200
    assert ask("/translate", body, engine, keys=("secret",), authorization="Bearer secret")[0] == 200


def test_of_several_models_one_is_named() -> None:
    engines = StandIn("a", verbs=("score",)), StandIn("b")
    assert ask("/v1/score", {"input": "x"}, *engines)[1]["error"]["param"] == "model"
    assert ask("/v1/score", {"input": "x", "model": "c"}, *engines)[0] == 404
    status, answer, _ = ask("/v1/score", {"input": "x", "model": "b"}, *engines)
    assert (status, answer["error"]["code"]) == (400, "unsupported_model")
    assert ask("/v1/score", {"input": "x", "model": "a"}, *engines)[0] == 200


def test_metrics_have_no_text_of_users() -> None:
    engine = StandIn("a")
    ask("/v1/completions", {"prompt": "abc", "max_tokens": 2, "user": "someone"}, engine)
    text = engine.metrics.text()
    assert 'headway_tokens_total{kind="written",model="a"} 2' in text
    assert 'headway_first_token_seconds_bucket{model="a",le="+Inf"} 1' in text
    assert "abc" not in text
    assert "someone" not in text


FIELDS = {
    "/v1/completions": (
        "model", "prompt", "max_tokens", "temperature", "top_p", "n", "best_of", "seed", "stop", "stream",
        "stream_options",
        "echo", "logprobs", "frequency_penalty", "presence_penalty", "logit_bias", "top_k", "min_p", "ignore_eos",
        "repetition_penalty", "deadline_ms", "suffix", "user",
    ),
    "/v1/chat/completions": (
        "model", "messages", "max_tokens", "max_completion_tokens", "logprobs", "top_logprobs", "response_format",
        "modalities", "tool_choice", "tools", "stop", "seed",
    ),
    "/v1/embeddings": ("model", "input", "encoding_format", "dimensions", "user"),
    "/translate": ("q", "source", "target", "format", "alternatives", "api_key"),
    "/v1/score": ("model", "input"),
    "/tokenize": ("model", "prompt", "messages", "add_special_tokens", "return_token_strs"),
    "/detokenize": ("model", "tokens"),
    "/detect": ("q", "api_key"),
}  # fmt: skip
SOUND = {
    "/v1/completions": {"prompt": "abc", "max_tokens": 2},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2},
    "/v1/embeddings": {"input": "abc"},
    "/translate": {"q": "dog", "source": "en", "target": "fr"},
    "/v1/score": {"input": "abc"},
    "/tokenize": {"prompt": "abc"},
    "/detokenize": {"tokens": [4, 5]},
    "/detect": {"q": "abc"},
}
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8), st.sampled_from(["abc", "user", "text", "0", "en", "fr", "-1", "\x00", "\ud7ff"]),
)  # fmt: skip
keys = st.sampled_from(["role", "content", "type", "text", "1", "include_usage", ""])
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=8,
)


@pytest.mark.parametrize("path", sorted(FIELDS))
@settings(max_examples=25, deadline=None, derandomize=True)
@given(data=st.data())
def test_no_value_of_any_field_is_the_servers_fault(path: str, data: st.DataObject) -> None:
    changed = data.draw(st.dictionaries(st.sampled_from(FIELDS[path]), values, max_size=3))
    engine = STAND_IN
    status, answer, _ = ask(path, {**SOUND[path], **changed}, engine)
    assert status in (200, 400, 404), answer
    if status != 200:
        assert answer["error"] if path in libre.ROUTES else answer["error"]["message"]


STAND_IN = StandIn("a", verbs=("embed", "translate", "score"), languages=["en", "fr"])


@settings(max_examples=80, deadline=None, derandomize=True)
@given(body=st.one_of(st.binary(max_size=60), st.text(alphabet='{}[]",:0123456789eE+-.\\u nulltrfas', max_size=60)))
def test_no_body_is_the_servers_fault(body: bytes | str) -> None:
    text = body.decode("latin-1") if isinstance(body, bytes) else body
    status, answer, _ = ask("/v1/score", text, STAND_IN)
    assert status in (200, 400)
    assert "error" in answer or status == 200


class Endless(StandIn):
    """Writes one token and then nothing; knows what was cancelled."""

    def __init__(self) -> None:
        super().__init__("a")
        self.cancelled: list[str] = []

    def submit(self, request: Request, inbox: Inbox) -> None:
        self.asked.append(request)
        inbox.put_nowait(TokenEvent(request.id, request.prompt[-1]))

    def cancel(self, id: str) -> None:
        self.cancelled.append(id)


@pytest.mark.parametrize("streamed", [True, False])
def test_a_client_that_leaves_ends_what_is_written_for_it(streamed: bool) -> None:
    engine = Endless()
    app = App([group(engine)], Gate(ROUTES, LIMITS, Keys(), {"here"}), Metrics())
    app.log = lambda line: None
    body = {"prompt": "ab", "max_tokens": 9, "n": 3, "stream": streamed}
    messages = [{"type": "http.request", "body": json.dumps(body).encode()}]
    scope = {
        "headers": [(b"host", b"here"), (b"content-type", b"application/json")], "scheme": "http", "method": "POST",
        "raw_path": b"/v1/completions", "path": "/v1/completions", "client": ("127.0.0.1", 1),
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        while len(engine.asked) < 3:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        pass

    asyncio.run(asyncio.wait_for(app(scope, receive, send), 10))
    assert sorted(engine.cancelled) == sorted(request.id for request in engine.asked)
    assert 'code="499"' in app.metrics.text() or streamed
