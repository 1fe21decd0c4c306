"""The live page's server lets nobody in without the key of the address, and no page of another origin."""

from __future__ import annotations

import http.client
import json
import threading
from typing import Any

from tests.inspection.page.subjects import LINE
from tests.serving.live.conftest import KEY, Live, translator, writer

BEARER = {"authorization": f"Bearer {KEY}"}


def ask(live: Live, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", live.port, timeout=30)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None:
        sent = {"content-type": "application/json", **sent}
    connection.request(method, path, None if body is None else json.dumps(body), sent)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text, {name.lower(): value for name, value in answer.headers.items()}


def test_only_its_own_page_is_let_in(live):
    server = live(translator())
    wrong = [
        (401, {}),
        (401, {"authorization": "Bearer another"}),
        (403, {**BEARER, "host": "evil.example"}),
        (403, {**BEARER, "host": f"localhost.evil.example:{server.port}"}),
        (403, {**BEARER, "origin": "http://evil.example"}),
        (403, {**BEARER, "origin": "null"}),
        (415, {**BEARER, "content-type": "text/plain"}),
    ]
    for status, headers in wrong:
        found, text, _ = ask(server, "POST", "/page/look", {"input": LINE}, **headers)
        assert (found, KEY in text, LINE in text) == (status, False, False), headers
    assert ask(server, "GET", "/page/look", **BEARER)[0] == 405
    assert ask(server, "GET", "/page/../etc/passwd", **BEARER)[0] == 404
    assert ask(server, "POST", "/page/look", {"input": LINE, "file": "x"}, **BEARER)[0] == 400
    own = f"http://127.0.0.1:{server.port}"
    assert ask(server, "POST", "/page/look", {"input": LINE}, **BEARER, origin=own)[0] == 200


def test_the_page_has_nothing_of_the_run_and_may_load_nothing(live):
    server = live(translator())
    status, text, headers = ask(server, "GET", "/")
    assert status == 200
    assert not any(secret in text for secret in (LINE, "runs/tiny", KEY))
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe-eval" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_tokens_come_as_they_are_written(live):
    server = live(writer())
    status, text, _ = ask(server, "POST", "/page/write", {"input": LINE, "max_tokens": 4}, **BEARER)
    events = [event.removeprefix("data: ") for event in text.split("\n\n") if event]
    assert status == 200
    assert events.pop() == "[DONE]"
    assert len(events) == 4
    assert all(len(json.loads(event)["top"]) == 8 for event in events)


def test_a_reader_that_leaves_ends_the_stream_and_its_hooks(live):
    pipeline = writer()
    server = live(pipeline)
    body = {"input": LINE, "max_tokens": 50, "ablated": [{"part": "layers.0.self", "head": 0}]}
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("POST", "/page/write", json.dumps(body), {"content-type": "application/json", **BEARER})
    connection.getresponse().read(20)
    connection.close()
    plain = json.loads(ask(server, "POST", "/page/look", {"input": LINE}, **BEARER)[1])
    assert plain["change"] is None
    assert not any(module._forward_hooks for module in pipeline.model.modules())


def test_requests_take_turns(live):
    server = live(translator())
    answers: list[str] = []
    bodies = [{"input": LINE}, {"input": LINE, "ablated": [{"part": "decoder.layers.1.cross"}]}] * 3
    threads = [
        threading.Thread(target=lambda body=body: answers.append(ask(server, "POST", "/page/look", body, **BEARER)[1]))
        for body in bodies
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    found = [json.loads(answer) for answer in answers]
    assert sorted(page["change"] is None for page in found) == [False] * 3 + [True] * 3
    plain = [page["tensors"] for page in found if page["change"] is None]
    assert all(tensors == plain[0] for tensors in plain)
