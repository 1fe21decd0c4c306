"""Two replicas behind a proxy, with the proxies' configurations of docs/serving.md, and kills under load.

Every request of which no byte was answered is answered by the other replica, with the same bits.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("openai")
pytest.importorskip("uvicorn")

from tests.documents import fences, read
from tests.serving.test_server import Served, run  # noqa: F401  # a fixture

COMMANDS = {"haproxy": ["-db", "-f"], "nginx": ["-e", "stderr", "-g", "daemon off;", "-c"]}
CHECKS = {"haproxy": ["-c", "-f"], "nginx": ["-e", "stderr", "-t", "-c"]}
REQUESTS = 24  # in flight at a kill, half of them streams
WAYS = ("server", "engine", "signal")


def program(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def configuration(name: str, folder: Path, ports: Sequence[int]) -> Path:
    """The configuration of the document, with these ports: of the proxy and of two replicas."""
    text = next(block for language, block in fences(read("docs/serving.md")) if language == name)
    for old, new in zip(("8080", "8081", "8082"), ports, strict=True):
        assert f":{old}" in text
        text = text.replace(f":{old}", f":{new}")
    if name == "nginx":  # files that it writes, which are the system's by default
        places = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy"))
        text = text.replace("http {", f"pid {folder}/pid;\nhttp {{ access_log off; {places}")
    path = folder / f"{name}.cfg"
    path.write_text(text)
    return path


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@dataclass
class Outcomes:
    """What became of requests."""

    right: int = 0
    wrong: int = 0
    begun: int = 0  # ended after a part of the answer was sent
    in_flight: int = 0  # at the moments of the kills
    lost: list[Any] = field(default_factory=list)  # ended without a byte of an answer, or with a refusal

    @property
    def all(self) -> int:
        """How many there were."""
        return self.right + self.wrong + self.begun + len(self.lost)


class Replicas:
    """Two servers of one run and a proxy before them."""

    def __init__(self, proxy: str, run: Path, folder: Path) -> None:  # noqa: F811
        self.run, self.folder, self.ports = run, folder, free_ports(3)
        self.servers = [self.start(n) for n in (0, 1)]
        path = configuration(proxy, folder, self.ports)
        with (folder / "proxy.log").open("w") as log:
            self.proxy = subprocess.Popen([program(proxy), *COMMANDS[proxy], str(path)], stdout=log, stderr=log)
        for server in self.servers:
            server.until("/ready", 200)
        time.sleep(2.0)  # until the proxy, which asks every half second, knows it

    def start(self, number: int) -> Served:
        words = (str(self.run), "--host-name", f"127.0.0.1:{self.ports[0]}", "--drain", "10")
        return Served(*words, log=self.folder / f"log{number}.txt", port=self.ports[1 + number])

    def kill(self, number: int, way: str) -> None:
        """End a replica, or only its engine, and wait until it is back."""
        server = self.servers[number]
        if way == "engine":
            os.kill(server.engine(), signal.SIGKILL)
            server.until("/ready", 503, 10.0)
        else:
            server.process.send_signal(signal.SIGKILL if way == "server" else signal.SIGTERM)
            server.process.wait(60)
            self.servers[number] = server = self.start(number)
        server.until("/ready", 200)

    def close(self) -> None:
        for process in (self.proxy, *(server.process for server in self.servers)):
            process.kill()
            process.wait()

    def ask(self, body: dict[str, Any]) -> tuple[str, Any]:
        """How a request by way of the proxy ended, and the answer or what came instead."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[0], timeout=120)
        try:
            connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
            answer = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            return "lost", repr(error)
        try:
            data = answer.read().decode()
        except (OSError, http.client.HTTPException):
            return "begun", None
        finally:
            connection.close()
        if answer.status != 200:
            return "lost", (answer.status, data)
        if not body.get("stream"):
            return "whole", json.loads(data)["choices"][0]
        events = [line.removeprefix("data: ") for line in data.split("\n\n") if line]
        if not events or events[-1] != "[DONE]":
            return "begun", None
        return "whole", joined([json.loads(event)["choices"][0] for event in events[:-1]])


def joined(pieces: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The choice of an answer that is not streamed, from the pieces of one that is."""
    keys = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
    return {
        "index": 0,
        "text": "".join(piece["text"] for piece in pieces),
        "logprobs": {key: [each for piece in pieces for each in piece["logprobs"][key]] for key in keys},
        "finish_reason": pieces[-1]["finish_reason"],
    }


def bodies(count: int) -> list[dict[str, Any]]:
    """Requests, every other one a stream; greedy, or with a seed."""
    return [
        {
            "prompt": "I like"[: 1 + n % 6], "max_tokens": 20 + n % 35, "ignore_eos": True, "logprobs": 2, "seed": n,
            "temperature": n % 3 / 2, "stream": bool(n % 2),
        }
        for n in range(count)
    ]  # fmt: skip


def killed(replicas: Replicas, kills: int) -> Outcomes:
    """Requests in flight while a replica is killed, again and again, beside the answers when nothing happens."""
    draw, found, asked = random.Random(0), Outcomes(), bodies(REQUESTS)
    expected = [replicas.ask({**body, "stream": False}) for body in asked]
    assert all(how == "whole" for how, _ in expected), expected
    assert [how for how, _ in Crowd(replicas, asked).ended()] == ["whole"] * len(asked)
    for kill in range(kills):
        crowd = Crowd(replicas, asked)
        crowd.until(draw.randint(REQUESTS // 4, REQUESTS))
        found.in_flight += crowd.waiting
        replicas.kill(kill % 2, WAYS[kill % len(WAYS)])
        for (how, answer), (_, right) in zip(crowd.ended(), expected, strict=True):
            found.begun += how == "begun"
            found.right += how == "whole" and answer == right
            found.wrong += how == "whole" and answer != right
            found.lost += [answer] if how == "lost" else []
        time.sleep(2.0)  # until the proxy knows that it is back
    return found


class Crowd:
    """Requests that are asked at the same time."""

    def __init__(self, replicas: Replicas, asked: Sequence[dict[str, Any]]) -> None:
        self._ends: list[tuple[str, Any]] = [("waits", None)] * len(asked)

        def ask(n: int) -> None:
            self._ends[n] = replicas.ask(asked[n])

        self._threads = [threading.Thread(target=ask, args=[n]) for n in range(len(asked))]
        for each in self._threads:
            each.start()

    @property
    def waiting(self) -> int:
        """How many wait for the end of their answer."""
        return sum(how == "waits" for how, _ in self._ends)

    def until(self, waiting: int) -> None:
        """Wait until no more than this many wait: a share of the answers, however fast the machine is."""
        while self.waiting > waiting:
            time.sleep(0.001)

    def ended(self) -> list[tuple[str, Any]]:
        """How each ended."""
        for each in self._threads:
            each.join(120)
        return self._ends


@pytest.fixture(params=COMMANDS)
def replicas(request: pytest.FixtureRequest, run: Path, tmp_path: Path) -> Iterator[Replicas]:  # noqa: F811
    program(request.param)
    made = Replicas(request.param, run, tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_configurations_are_valid(name: str, tmp_path: Path) -> None:
    path = configuration(name, tmp_path, (8080, 8081, 8082))
    done = subprocess.run([program(name), *CHECKS[name], str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def manifests() -> list[dict[str, Any]]:
    """The objects of the document's Kubernetes manifest."""
    text = next(block for language, block in fences(read("docs/serving.md")) if language == "yaml")
    return list(yaml.safe_load_all(text))


def test_the_manifest_is_one_of_kubernetes() -> None:
    validator = pytest.importorskip("kubernetes_validate")
    for each in manifests():
        validator.validate(each, validator.latest_version(), strict=True)
    with pytest.raises(validator.ValidationError):
        validator.validate({**manifests()[1], "spec": {"ports": [{"port": "x"}]}}, validator.latest_version())


def test_the_probes_of_the_manifest_and_its_key(
    run: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The command of the container, on this machine's own address, asked as the kubelet asks."""
    deployment, service = manifests()
    pod = deployment["spec"]["template"]
    assert pod["metadata"]["labels"] == service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
    (container,) = pod["spec"]["containers"]
    words = container["command"]
    assert words[:3] == ["headway", "serve", "/runs/chat"]
    (variable,) = container["env"]
    monkeypatch.setenv(variable["name"], "secret")
    assert words[words.index("--key-env") + 1] == variable["name"]
    drain = words[words.index("--drain") + 1]
    assert pod["spec"]["terminationGracePeriodSeconds"] > int(drain)
    name = words[words.index("--host-name") + 1]
    served = Served(
        str(run), "--key-env", variable["name"], "--host-name", name, "--drain", drain, log=tmp_path / "log.txt"
    )
    try:
        served.until("/ready", 200)
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            get = container[probe]["httpGet"]
            connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
            connection.request("GET", get["path"], headers={each["name"]: each["value"] for each in get["httpHeaders"]})
            assert connection.getresponse().status == 200, probe
            connection.close()
    finally:
        served.process.kill()
        served.process.wait()


def reported(found: Outcomes, kills: int) -> None:
    print(
        f"{kills} kills: {found.all} requests, {found.in_flight} of them in flight, {found.right} answered with the "
        f"same bits, {found.wrong} with others, {found.begun} ended in the middle of a stream, {len(found.lost)} lost",
        found.lost[:3],
    )
    assert found.all == kills * REQUESTS
    assert (found.wrong, found.lost) == (0, [])
    assert found.in_flight > kills


def test_no_request_without_an_answered_byte_is_lost(replicas: Replicas) -> None:
    reported(killed(replicas, 2), 2)


@pytest.mark.slow  # a server is started for most kills: minutes
def test_no_request_without_an_answered_byte_is_lost_in_20_kills(replicas: Replicas) -> None:
    reported(killed(replicas, 20), 20)
