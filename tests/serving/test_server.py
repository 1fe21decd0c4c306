"""`headway serve` as a process, asked by OpenAI's own client."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import random
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

openai = pytest.importorskip("openai")
pytest.importorskip("uvicorn")

from headway.reliability.runs import TINY  # noqa: E402
from headway.runs.train import train_run  # noqa: E402
from tests.documents import fences, read  # noqa: E402
from tests.serving.load import Tally, crowd, fuzzed, leave  # noqa: E402

PROMPT = "I like"
SECRET = "canary-4711"


class Served:
    """A server, on a free port if none is named, and clients for it."""

    def __init__(self, *words: str, log: Path, port: int = 0) -> None:
        self.log = log
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "headway", "serve", *words, "--port", str(port), "--threads", "1"],
                stdout=subprocess.PIPE, stderr=errors, text=True, env=environment,
            )  # fmt: skip
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        assert first.startswith("listening on http://127.0.0.1:"), log.read_text()
        self.port = int(first.strip().rpartition(":")[2])
        self.client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key=SECRET, max_retries=0)

    def ask(self, path: str, body: Any = None, method: str | None = None) -> tuple[int, Any, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = None if body is None else json.dumps(body)
        headers = {} if body is None else {"content-type": "application/json"}
        connection.request(method or ("GET" if body is None else "POST"), path, data, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        found = json.loads(text) if answer.headers["content-type"] == "application/json" else text
        return answer.status, found, {name.lower(): value for name, value in answer.headers.items()}

    def until(self, path: str, status: int, seconds: float = 90.0) -> float:
        """How long it takes until a path answers with a status."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            if self.ask(path)[0] == status:
                return time.monotonic() - began
            time.sleep(0.05)
        raise AssertionError(f"{path} did not answer {status} within {seconds} s: {self.log.read_text()}")

    def gauge(self, name: str) -> float:
        lines = self.ask("/metrics")[1].splitlines()
        return float(next((line.split()[-1] for line in lines if line.startswith(f"{name}{{")), 0))

    def engine(self) -> int:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        assert len(children) == 1
        return int(children[0])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    train_run(TINY["language"].config(folder / "cache", {"model.context": 64}), folder / "tiny")
    return folder / "tiny"


@pytest.fixture(scope="module")
def servers() -> Iterator[list[Served]]:
    """Those that were started; the last may be alive."""
    made: list[Served] = []
    yield made
    for each in made:
        if each.process.poll() is None:
            each.process.kill()
        each.process.wait()


@pytest.fixture
def served(run: Path, servers: list[Served]) -> Served:
    if servers and servers[-1].process.poll() is None:
        return servers[-1]
    made = Served(str(run), log=run.parent / f"log{len(servers)}.txt")
    servers.append(made)
    status, answer, headers = made.ask("/v1/completions", {"prompt": PROMPT})
    assert (status, answer["error"]["code"], headers["retry-after"]) == (503, "loading", "2")
    assert made.ask("/health")[0] == 200
    made.until("/ready", 200)
    return made


def completion(served: Served, **fields: Any) -> Any:
    return served.client.completions.create(**{"model": "tiny", "prompt": PROMPT, "max_tokens": 8, "seed": 3, **fields})


def test_models(served: Served) -> None:
    (listed,) = served.client.models.list().data
    assert (listed.id, listed.object, listed.owned_by) == ("tiny", "model", "headway")
    told = listed.to_dict()
    assert (told["exact"], told["context"], told["precision"]) == (True, 64, "fp32")
    assert served.client.models.retrieve("tiny").id == "tiny"
    with pytest.raises(openai.NotFoundError) as error:
        served.client.models.retrieve("other")
    assert error.value.code == "model_not_found"


def test_a_completion_is_what_headway_generate_writes(served: Served, run: Path) -> None:
    from headway.runs import load

    expected = "".join(load(str(run)).generate(PROMPT, max_tokens=8, seed=3))
    answer = completion(served)
    (choice,) = answer.choices
    assert (choice.text, choice.finish_reason, choice.index) == (expected, "length", 0)
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (6, 8, 14)
    assert answer.system_fingerprint.startswith("hw-")
    assert answer.system_fingerprint.endswith("-fp32")


def test_a_stream_is_the_answer_in_pieces(served: Served) -> None:
    whole = completion(served, logprobs=2, n=2).to_dict()
    chunks = list(completion(served, logprobs=2, n=2, stream=True, stream_options={"include_usage": True}))
    for index, expected in enumerate(whole["choices"]):
        pieces = [chunk.choices[0] for chunk in chunks[:-1] if chunk.choices[0].index == index]
        assert "".join(piece.text for piece in pieces) == expected["text"]
        assert [piece.finish_reason for piece in pieces if piece.finish_reason] == ["length"]
        for key in ("tokens", "token_logprobs", "text_offset", "top_logprobs"):
            streamed = [each for piece in pieces for each in piece.logprobs.to_dict()[key]]
            assert streamed == expected["logprobs"][key]
    assert chunks[-1].choices == []
    assert chunks[-1].usage.to_dict() == whole["usage"]


def test_company_changes_nothing(served: Served) -> None:
    """Every answer of many at once, of unequal length, is to the bit the answer alone."""
    asked = [{"prompt": PROMPT[: 1 + n % 6], "max_tokens": 3 + n % 20, "seed": n, "logprobs": 3} for n in range(24)]

    def choices(n: int) -> Any:
        return completion(served, **asked[n]).to_dict()["choices"]

    alone, together = [choices(n) for n in range(24)], [None] * 24
    threads = [threading.Thread(target=lambda n=n: together.__setitem__(n, choices(n))) for n in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert together == alone


def test_the_documented_clients(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [block for language, block in fences(read("docs/serving.md")) if not language]
    python = next(block for block in blocks if "OpenAI(" in block)
    here = {"8080": str(served.port), '"gpt-char"': '"tiny"', '"It "': '"I "'}
    for old, new in here.items():
        assert old in python
        python = python.replace(old, new)
    exec(compile(python, "docs/serving.md", "exec"), {})
    text = capsys.readouterr().out
    assert len(text) == 2 * 20 + 1
    assert text[:20] == text[21:]
    words = shlex.split(next(block for block in blocks if block.strip().startswith("curl")))
    body = json.loads(words[words.index("-d") + 1])
    assert words[1].endswith("/v1/completions")
    assert served.ask("/v1/completions", {**body, "prompt": "I "})[1]["choices"][0]["text"] == text[:20]


def test_seeds(served: Served) -> None:
    three = [choice.text for choice in completion(served, n=3).choices]
    assert three[0] == completion(served).choices[0].text
    assert len(set(three)) == 3
    status, answer, headers = served.ask("/v1/completions", {"prompt": PROMPT})
    again = served.ask("/v1/completions", {"prompt": PROMPT, "seed": int(headers["x-headway-seed"])})[1]
    assert status == 200
    assert again["choices"] == answer["choices"]


def test_stop_strings_are_not_in_the_text(served: Served) -> None:
    text = completion(served, max_tokens=20).choices[0].text
    stop = text[5:7]
    for streamed in (False, True):
        found = completion(served, max_tokens=20, stop=[stop, "nothing like it"], stream=streamed)
        choices = [chunk.choices[0] for chunk in found] if streamed else found.choices
        assert "".join(choice.text for choice in choices) == text[: text.index(stop)]
        assert choices[-1].finish_reason == "stop"


def test_echo_scores_a_prompt_as_lm_eval_asks_for(served: Served) -> None:
    ids = [1, 2, 3, 4, 5]
    fields = {"prompt": [ids], "max_tokens": 1, "logprobs": 1, "echo": True, "temperature": 0, "seed": 1234}
    answer = completion(served, **fields)
    scores = answer.choices[0].logprobs
    assert len(scores.tokens) == len(scores.token_logprobs) == 6
    assert scores.token_logprobs[0] is None
    assert all(value < 0 for value in scores.token_logprobs[1:])
    assert scores.top_logprobs[0] is None
    assert "".join(scores.tokens) == answer.choices[0].text
    assert [answer.choices[0].text[at] for at in scores.text_offset] == scores.tokens
    streamed = list(completion(served, stream=True, **fields))
    assert [each for chunk in streamed for each in chunk.choices[0].logprobs.token_logprobs] == scores.token_logprobs
    only = completion(served, **{**fields, "max_tokens": 0})
    assert only.choices[0].logprobs.token_logprobs == scores.token_logprobs[:-1]
    assert only.usage.completion_tokens == 0


def test_several_prompts_and_the_best_of_several(served: Served) -> None:
    both = completion(served, prompt=["I", "like"], n=2)
    assert [choice.index for choice in both.choices] == [0, 1, 2, 3]
    assert both.choices[2].text == completion(served, prompt="like").choices[0].text
    best = completion(served, best_of=4, logprobs=0).choices[0]
    means = []
    for choice in completion(served, n=4, logprobs=0).choices:
        means.append((sum(choice.logprobs.token_logprobs) / 8, choice.text))
    assert best.text == max(means)[1]


def test_penalties_and_biases(served: Served) -> None:
    greedy = completion(served, temperature=0, logprobs=0)
    banned = completion(served, temperature=0, logit_bias={str(n): -100 for n in range(10)})
    forced = completion(served, temperature=0, logit_bias={"7": 100}, max_tokens=3)
    assert len(set(forced.choices[0].text)) == 1
    assert banned.choices[0].text != greedy.choices[0].text
    free = completion(served, temperature=0, logit_bias={"7": 3}, max_tokens=6).choices[0].text
    often = completion(served, temperature=0, logit_bias={"7": 3}, max_tokens=6, frequency_penalty=2).choices[0].text
    assert len(set(often)) > len(set(free))


def test_chat_with_the_plain_template(served: Served) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "I"}]}]
    with pytest.raises(openai.BadRequestError) as error:  # ':' is not among the characters of this vocabulary
        served.client.chat.completions.create(model="tiny", messages=messages)
    assert error.value.param == "messages"


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"suffix": "x"}, "unsupported_parameter", "suffix"),
        ({"extra_body": {"no_such_field": 1}}, "unsupported_parameter", "no_such_field"),
        ({"max_tokens": 60}, "context_length_exceeded", None),
        ({"max_tokens": 0}, None, "max_tokens"),
        ({"max_tokens": -1}, None, "max_tokens"),
        ({"prompt": ""}, None, "prompt"),
        ({"prompt": "a" * 5000}, "context_length_exceeded", None),
        ({"prompt": [99]}, None, "prompt"),
        ({"prompt": "€"}, None, "prompt"),
        ({"n": 9}, None, "n"),
        ({"prompt": ["I"] * 65}, None, "prompt"),
        ({"temperature": -1}, None, "temperature"),
        ({"logprobs": 21}, None, "logprobs"),
        ({"stop": ["a"] * 9}, None, "stop"),
        ({"stop": "a" * 65}, None, "stop"),
        ({"logit_bias": {"x": 1}}, None, "logit_bias"),
        ({"best_of": 2, "n": 3}, None, "best_of"),
        ({"best_of": 2, "stream": True}, None, "best_of"),
    ],
)
def test_what_is_wrong_is_named(served: Served, fields: dict[str, Any], code: str | None, param: str | None) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        completion(served, **fields)
    assert (error.value.code, error.value.param) == (code, param)


def test_fields_that_ask_for_nothing_are_accepted(served: Served) -> None:
    nothing = {"suffix": None, "presence_penalty": 0, "user": "someone"}
    assert completion(served, **nothing, extra_body={"tools": []}).choices


def test_other_verbs(served: Served) -> None:
    status, answer, _ = served.ask("/v1/score", {"input": ["I like", "I"]})
    assert status == 200
    assert [len(each["tokens"]) for each in answer["results"]] == [5, 0]
    assert answer["results"][0]["total"] == pytest.approx(sum(t["log_prob"] for t in answer["results"][0]["tokens"]))
    status, answer, _ = served.ask("/v1/embeddings", {"input": "I"})
    assert (status, answer["error"]["code"]) == (400, "unsupported_model")
    status, answer, _ = served.ask("/translate", {"q": "I", "source": "en", "target": "fr"})
    assert status == 400
    assert isinstance(answer["error"], str)


def test_a_client_that_leaves_frees_its_row(served: Served) -> None:
    body = json.dumps({"prompt": PROMPT, "max_tokens": 50, "n": 8, "stream": True}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nContent-Type: application/json\r\n"
    before = served.gauge("headway_cancelled_total")
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", served.port)) as connection:
            connection.sendall(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            assert connection.recv(20).startswith(b"HTTP/1.1 200")
    assert completion(served).choices[0].finish_reason == "length"
    for _ in range(100):
        if served.gauge("headway_reserved_tokens") == 0:
            break
        time.sleep(0.05)
    assert served.gauge("headway_reserved_tokens") == 0
    assert served.gauge("headway_cancelled_total") > before


def test_an_engine_that_is_killed_is_started_again(served: Served) -> None:
    answer = completion(served).to_dict()["choices"]
    stream = completion(served, max_tokens=58, stream=True, n=8)
    next(iter(stream))
    os.kill(served.engine(), signal.SIGKILL)
    with pytest.raises(openai.APIError):
        list(stream)
    served.until("/health", 503, 5.0)
    status, refusal, headers = served.ask("/v1/completions", {"prompt": PROMPT})
    assert (status, refusal["error"]["code"]) == (503, "engine_down")
    assert "retry-after" in headers
    served.until("/health", 200)
    assert completion(served).to_dict()["choices"] == answer
    assert served.gauge("headway_engine_starts_total") >= 2


PROMPTS = ("I like", "dog", "the ", "a", "men run to", "I")


def crowd_meets(served: Served, clients: int) -> Tally:
    """Greedy answers of many clients beside those of each prompt asked alone."""
    bodies = [
        {"prompt": prompt, "max_tokens": 3 + 4 * n, "temperature": 0, "ignore_eos": True}
        for n, prompt in enumerate(PROMPTS)
    ]
    alone = [served.ask("/v1/completions", body)[1]["choices"][0]["text"] for body in bodies]
    return asyncio.run(crowd(served.port, bodies, alone, clients))


def leavers_leave(served: Served, count: int) -> list[float]:
    """Seconds from each leaving to the moment when no row is in flight any more."""
    draw, took = random.Random(0), []
    body = {"prompt": PROMPT, "max_tokens": 50, "ignore_eos": True}
    for _ in range(count):
        leave(served.port, body, draw)
        began = time.monotonic()
        while served.gauge("headway_rows") or served.gauge("headway_reserved_tokens"):
            assert time.monotonic() - began < 10
        took.append(time.monotonic() - began)
    return took


def test_a_crowd_is_answered_and_no_answer_is_another_s(served: Served) -> None:
    """S4 with 100 clients; the full count is in test_load."""
    tally = crowd_meets(served, 100)
    assert (tally.right, tally.wrong, tally.lost) == (100, 0, 0)


def test_hostile_requests_are_no_fault_of_the_server(served: Served) -> None:
    """S2 with 400 requests: never a status of 500 or above, and the same engine."""
    engine = served.engine()
    statuses = asyncio.run(fuzzed(served.port, 400, seed=1))
    assert not [status for status in statuses if status >= 500]
    assert statuses[200] > 10
    assert statuses[400] > 50
    assert served.engine() == engine
    assert "Traceback" not in served.log.read_text()


def test_leavers_leave_nothing_behind(served: Served) -> None:
    """S5 with 25 of them; files open before and after."""
    files = len(list(Path(f"/proc/{served.process.pid}/fd").iterdir()))
    leavers_leave(served, 25)
    served.until("/ready", 200)
    assert len(list(Path(f"/proc/{served.process.pid}/fd").iterdir())) <= files + 2


def test_what_is_asked_is_not_logged_and_a_signal_ends_the_server_after_what_is_in_flight(served: Served) -> None:
    """It stops the server while a stream is written; a test that comes after it starts another."""
    assert "a" * 20 not in served.log.read_text()
    stream = completion(served, max_tokens=50, stream=True)
    pieces = [next(iter(stream)).choices[0].text]
    engine = served.engine()
    served.process.send_signal(signal.SIGTERM)
    chunks = list(stream)
    assert chunks[-1].choices[0].finish_reason == "length"
    assert len("".join([*pieces, *(chunk.choices[0].text for chunk in chunks)])) == 50
    assert served.process.wait(20) == 143
    assert not Path(f"/proc/{engine}").exists()
    log = served.log.read_text()
    for canary in (SECRET, PROMPT, "Traceback"):
        assert canary not in log


def test_translations_step_together_and_are_those_of_each_alone(tmp_path: Path) -> None:
    """Twelve clients at once, each with its own number of alternatives; one of them leaves."""
    train_run(TINY["translation"].config(tmp_path / "cache", {}), tmp_path / "pair")
    data = TINY["translation"].config(tmp_path / "cache", {}).data
    served = Served(str(tmp_path / "pair"), log=tmp_path / "log.txt")
    try:
        served.until("/ready", 200)
        assert served.ask("/v1/models")[1]["data"][0]["exact"] is True
        texts = ["a dog runs", "two men", "the red house is large", "dog dog dog", "a", "men run to the house"] * 2
        bodies = [
            {"q": [text, "a dog"], "source": data.source, "target": data.target, "alternatives": n % 3}
            for n, text in enumerate(texts)
        ]
        alone = [served.ask("/translate", body)[:2] for body in bodies]
        found: list[Any] = [None] * len(bodies)

        def ask(n: int) -> None:
            found[n] = served.ask("/translate", bodies[n])[:2]

        threads = [threading.Thread(target=ask, args=[n]) for n in range(len(bodies))]
        for each in threads:
            each.start()
        with socket.create_connection(("127.0.0.1", served.port)) as leaver:
            body = json.dumps({**bodies[0], "q": ["a dog runs"] * 40}).encode()
            head = f"POST /translate HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nContent-Type: application/json\r\n"
            leaver.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        for each in threads:
            each.join()
        assert [status for status, _ in alone] == [200] * len(bodies)
        assert found == alone
    finally:
        served.process.kill()
        served.process.wait()


def test_starts_that_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from headway.cli import main

    keys = tmp_path / "keys"
    keys.write_text("secret\n")
    keys.chmod(0o644)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for words, reason in (
            (["--host", "0.0.0.0"], "--key-file"),
            (["--key-file", str(keys)], "chmod 600"),
            (["--key-file", str(tmp_path / "none")], "cannot be read"),
            (["--port", port], "--port 0"),
            (["--key-env", "NO_SUCH_VARIABLE_HERE"], "not set"),
            (["--precision", "int8", "--key-file", str(tmp_path / "none")], "cannot be read"),
        ):
            assert main(["serve", str(tmp_path / "run"), *words]) == 8
            assert reason in capsys.readouterr().err
