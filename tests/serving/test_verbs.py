"""Calls of pipelines over HTTP: what is offered, inputs that are files, and options as their descriptions allow."""

from __future__ import annotations

import base64
import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.serving.api_errors import ApiError
from headway.serving.limits import ServerLimits
from headway.serving.multipart import UploadedFile, parse_multipart
from headway.serving.openapi import endpoints
from headway.serving.schema import conforms, described
from headway.tasks.json_calls import TEXT, calls_of, integer, json_call
from tests.serving.test_endpoints import CALLS, FIELDS, SOUND, StandIn, ask, group

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n picture").decode()
BOUNDARY = "xx--yy"


def form(*parts: tuple[str, bytes, str | None]) -> bytes:
    """A multipart body: name, content and file name of each part."""
    made = b""
    for name, content, file in parts:
        filename = "" if file is None else f'; filename="{file}"'
        made += f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{filename}\r\n'.encode()
        made += b"Content-Type: application/octet-stream\r\n\r\n" + content + b"\r\n"
    return made + f"--{BOUNDARY}--\r\n".encode()


def posted(path: str, body: bytes, *engines: StandIn, **options: Any) -> tuple[int, Any, dict[str, str]]:
    return ask(path, body, *engines, kind=f"multipart/form-data; boundary={BOUNDARY}", **options)


def test_every_capability_that_computes_something_can_be_called() -> None:
    assert sorted(CALLS) == [
        "answer", "caption", "classify", "detect", "embed", "pose", "score", "tag", "trace", "transcribe", "translate",
    ]  # fmt: skip
    for name, call in CALLS.items():
        assert call["about"].endswith("."), name
        jsonschema.Draft202012Validator.check_schema(call["item"])
        for schema in call["options"].values():
            jsonschema.Draft202012Validator.check_schema(schema)


class Shouts:
    """A pipeline of an installed package, with a call that headway does not know."""

    @json_call(TEXT, times=integer(1, 3, "how often"))
    def call_shout(self, inputs: list[str], *, times: int = 1) -> list[str]:
        """Each text in capitals."""
        return [text.upper() * times for text in inputs]


def test_a_call_of_another_package_is_reachable() -> None:
    engine = StandIn("a")
    assert engine.described is not None
    engine.described["calls"] = {name: each.to_json() for name, each in calls_of(Shouts()).items()}
    status, answer, _ = ask("/v1/shout", {"input": "ho", "times": 2}, engine)
    assert (status, engine.calls) == (200, [("shout", ["ho"], {"times": 2})])
    assert answer["usage"] == {"prompt_tokens": 2, "total_tokens": 2}
    document = ask("/openapi.json", "", engine)[1]
    assert document["paths"]["/v1/shout"]["post"]["summary"] == "Each text in capitals."
    assert ask("/v1/shout", {"input": "ho"}, engine, keys=("secret",))[0] == 401
    assert ask("/v1/shout", "", engine, method="GET")[0] == 405


def test_a_path_is_unknown_once_all_models_are_loaded() -> None:
    engine = StandIn("a")
    assert ask("/v1/shout", {}, engine)[1]["error"]["code"] == "unsupported_endpoint"
    engine.described = None
    status, answer, headers = ask("/v1/shout", {}, engine)
    assert (status, answer["error"]["code"], headers["retry-after"]) == (503, "loading", "2")
    assert ask("/v1/shout", {}, engine, keys=("secret",))[0] == 401
    assert ask("/v2/shout", {}, engine)[0] == 404


@pytest.mark.parametrize("value", [PNG, f"data:image/png;base64,{PNG}", [PNG], f"data:image/png;x=1;base64,{PNG}"])
def test_files_in_json(value: Any) -> None:
    engine = StandIn("a", verbs=("pose",))
    assert ask("/v1/pose", {"input": value}, engine)[0] == 200
    ((verb, (file,), options),) = engine.calls
    assert (verb, file["name"], file["data"], options) == ("pose", "input 1", PNG, {})
    assert file["suffix"] == (".png" if "data:" in str(value) else "")


def test_files_in_a_form() -> None:
    engine = StandIn("a", verbs=("detect",))
    body = form(("file", b"one", "a.PNG"), ("threshold", b"0.25", None), ("input", b"two\r\n--xx", "../../b.gz"))
    assert posted("/v1/detect", body, engine)[0] == 200
    ((_, files, options),) = engine.calls
    assert options == {"threshold": 0.25}
    assert [base64.b64decode(each["data"]) for each in files] == [b"one", b"two\r\n--xx"]
    assert [(each["name"], each["suffix"]) for each in files] == [("a.PNG", ".png"), ("b.gz", "")]


def test_a_model_of_texts_takes_no_form() -> None:
    engine = StandIn("a", verbs=("translate",))
    body = form(
        ("input", b"one", None), ("input", "zwei ß".encode(), None), ("n_best", b"2", None), ("must", b"x", None)
    )
    assert posted("/v1/translate", body, engine)[0] == 415  # a model that reads texts takes JSON
    assert engine.calls == []


def test_openai_s_transcriptions() -> None:
    engine = StandIn("a", verbs=("transcribe",))
    body = (("file", b"RIFF", "said.wav"), ("model", b"a", None), ("response_format", b"json", None))
    assert posted("/v1/audio/transcriptions", form(*body), engine)[1] == {"text": "said.wav of 8"}
    text = posted("/v1/audio/transcriptions", form(*body[:2], ("response_format", b"text", None)), engine)
    assert (text[1], text[2]["content-type"]) == ("said.wav of 8\n", "text/plain; charset=utf-8")
    for wrong in (("response_format", b"srt", None), ("file", b"b", "b.wav"), ("prompt", b"x", None)):
        assert posted("/v1/audio/transcriptions", form(*body[:2], wrong), engine)[0] == 400
    assert posted("/v1/audio/transcriptions", form(*body), StandIn("a"))[1]["error"]["code"] == "unsupported_model"


@pytest.mark.parametrize(
    ("verb", "fields", "param"),
    [
        ("pose", {"input": "no base64!"}, "input"),
        ("pose", {"input": "http://example.org/a.png"}, "input"),
        ("pose", {"input": 3}, "input"),
        ("pose", {"input": []}, "input"),
        ("pose", {}, "input"),
        ("pose", {"input": PNG, "beam": 2}, "beam"),
        ("pose", {"input": [PNG] * 257}, "input"),
        ("detect", {"input": PNG, "threshold": 1.5}, "threshold"),
        ("detect", {"input": PNG, "threshold": True}, "threshold"),
        ("translate", {"input": "a", "beam": 65}, "beam"),
        ("translate", {"input": "a", "must": "x"}, "must"),
        ("translate", {"input": "a", "must": ["x" * 1001]}, "must"),
        ("answer", {"input": "a question"}, "input"),
        ("answer", {"input": {"context": "a", "other": "b"}}, "input"),
        ("score", {"input": {"text": "a"}}, "input"),
    ],
)
def test_what_is_wrong_with_a_call_is_named(verb: str, fields: dict[str, Any], param: str) -> None:
    engine = StandIn("a", verbs=(verb,))
    status, answer, _ = ask(f"/v1/{verb}", fields, engine)
    assert (status, answer["error"]["param"], engine.calls) == (400, param, [])


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", b""),
        ("multipart/form-data; boundary=a", b"--a\r\nno end"),
        ("multipart/form-data; boundary=a", b"--a\r\n\r\nx\r\n--a--"),
        ("multipart/form-data; boundary=a", b"--a\r\nContent-Disposition: form-data\r\n\r\nx\r\n--a--"),
        ("multipart/form-data; boundary=a", b'--a\r\nContent-Disposition: x; name="b"\r\n\r\n\xff\r\n--a--'),
        ("multipart/form-data; boundary=a", b'--a\r\nContent-Disposition: x; name="b"; filename="c"\r\n\r\n\r\n--a--'),
        ("multipart/form-data; boundary=a", b"--a\r\n" * 400 + b"--a--"),
    ],
)
def test_damaged_forms(kind: str, body: bytes) -> None:
    with pytest.raises(ApiError) as error:
        parse_multipart(kind, body)
    assert (error.value.status, error.value.code) == (400, "invalid_multipart")


@settings(max_examples=60, deadline=None, derandomize=True)
@given(contents=st.lists(st.binary(max_size=40), min_size=1, max_size=4))
def test_forms_hold_any_bytes(contents: list[bytes]) -> None:
    if any(BOUNDARY.encode() in each for each in contents):
        return
    found = parse_multipart(f'multipart/form-data; boundary="{BOUNDARY}"', form(*(("file", c, "n") for c in contents)))
    assert found["input"] == [UploadedFile("n", each) for each in contents]


@settings(max_examples=80, deadline=None, derandomize=True)
@given(body=st.binary(max_size=120))
def test_no_form_is_the_servers_fault(body: bytes) -> None:
    assert posted("/v1/pose", body, StandIn("a", verbs=("pose",)))[0] == 400


SCHEMAS = [
    *(call["item"] for call in CALLS.values()),
    *(schema for call in CALLS.values() for schema in call["options"].values()),
]
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2000, 2000), st.floats(-2, 2), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["context", "choices", "x"]), inner, max_size=2)
    ),
    max_leaves=5,
)


@pytest.mark.parametrize("schema", SCHEMAS, ids=described)
@settings(max_examples=40, deadline=None, derandomize=True)
@given(value=values)
def test_a_schema_allows_what_jsonschema_says(schema: dict[str, Any], value: Any) -> None:
    """But for 3.0, which is an integer there."""
    if isinstance(value, float) and value.is_integer():
        return
    assert conforms(value, schema) == jsonschema.Draft202012Validator(schema).is_valid(value)


def test_large_requests_are_few_at_a_time() -> None:
    engine = StandIn("a", verbs=("pose", "score"))
    large = json.dumps({"input": "A" * (2 << 20)})
    assert ask("/v1/pose", large, engine)[0] == 200
    assert ask("/v1/score", large, engine)[0] == 413
    assert ask("/v1/pose", "A" * (ServerLimits().upload + 1), engine)[0] == 413


def test_the_document_describes_every_field_that_is_read() -> None:
    engine = StandIn("a", verbs=tuple(CALLS), languages=["en", "fr"])
    status, document, _ = ask("/openapi.json", "", engine)
    assert (status, document["openapi"], "security" in document) == (200, "3.1.0", False)
    paths = {path.replace("{name}", "") for path in document["paths"]}
    assert paths >= {"/health", "/v1/models/", "/translate", "/v1/score", "/v1/pose", "/v1/completions"}
    for path, fields in FIELDS.items():
        operation = document["paths"][path]["post"]
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        jsonschema.Draft202012Validator.check_schema(schema)
        read = {
            name for name in fields if name not in ("suffix", "tools", "tool_choice", "modalities", "response_format")
        }
        assert read <= set(schema["properties"]), path
        sound = {"model": "a", **SOUND[path]} if path not in ("/translate", "/detect") else SOUND[path]
        jsonschema.Draft202012Validator(schema).validate(sound)
    assert "multipart/form-data" in document["paths"]["/v1/pose"]["post"]["requestBody"]["content"]
    assert "multipart/form-data" not in document["paths"]["/v1/score"]["post"]["requestBody"]["content"]
    assert ask("/openapi.json", "", engine, keys=("a",), authorization="Bearer a")[1]["security"] == [{"key": []}]


@pytest.mark.parametrize("path", sorted(endpoints(ServerLimits())))
def test_a_field_of_the_document_is_one_that_is_read(path: str) -> None:
    """A value that no field takes is refused by the name of the field, not as a field that is not supported."""
    engine = StandIn("a", verbs=tuple(CALLS))
    for name in endpoints(ServerLimits())[path][1]:
        if name == "user":
            continue
        wrong = {**SOUND[path], name: 7 if name == "stream_options" else {"x": [1]}}
        if name in ("prompt", "messages") and path == "/tokenize":
            wrong = {name: {"x": [1]}}
        status, answer, _ = ask(path, wrong, engine)
        assert status == 400, name
        assert answer["error"]["param"] == name, answer
        assert answer["error"]["code"] != "unsupported_parameter", name


def test_the_page_at_the_root() -> None:
    for keys in ((), ("secret",)):
        status, text, headers = ask("/", "", StandIn("a"), keys=keys)
        assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "script-src 'sha256-" in headers["content-security-policy"]
        assert "innerHTML" not in text
        assert "</script>" in text


def test_a_full_queue_is_known_before_a_prompt_is_read() -> None:
    engine = StandIn("a", verbs=("embed",))
    most = ServerLimits().rows + ServerLimits().waiting
    engine._inboxes = dict.fromkeys(map(str, range(most)))  # type: ignore[arg-type]
    for path in ("/v1/completions", "/v1/chat/completions"):
        status, answer, headers = ask(path, SOUND[path], engine)
        assert (status, answer["error"]["code"], headers["retry-after"]) == (429, "queue_full", "1")
    assert engine.asked == []
    assert ask("/tokenize", SOUND["/tokenize"], engine)[0] == 200


def test_a_group_picks_the_engine_with_the_fewest_requests() -> None:
    engines = [StandIn("a"), StandIn("a")]
    made = group(engines[0])
    made.engines = engines
    engines[0]._inboxes["x"] = None  # type: ignore[assignment]
    assert made.pick() is engines[1]
    engines[1].described = None
    assert made.pick() is engines[0]
    engines[0].described = None
    with pytest.raises(ApiError) as error:
        made.pick()
    assert error.value.status == 503
