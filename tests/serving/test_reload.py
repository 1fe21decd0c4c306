"""A server whose run gets newer weights, and one with several engines: no request is lost or answered by halves."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai")
pytest.importorskip("uvicorn")

from headway.reliability.runs import TINY
from headway.runs.train import train_run
from tests.serving.test_server import Served

BODY = {"prompt": "I like", "max_tokens": 30, "temperature": 0, "ignore_eos": True, "logprobs": 1}
CHANGES = {"model.context": 64, "train.average": 1, "train.keep": 4, "train.save_every": 2, "train.evaluate_every": 2}


def config(folder: Path, steps: int) -> Any:
    return TINY["language"].config(folder / "cache", {**CHANGES, "train.steps": steps})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    train_run(config(tmp_path, 2), tmp_path / "tiny")
    return tmp_path / "tiny"


def started(run: Path, *words: str) -> Served:
    made = Served(str(run), *words, log=run.parent / "log.txt")
    made.until("/ready", 200)
    return made


class Asking:
    """Clients that ask again and again; what they were answered, by the fingerprint of the weights."""

    def __init__(self, served: Served, clients: int = 6) -> None:
        self.served, self.over = served, threading.Event()
        self.answers: dict[str, list[Any]] = {}
        self.others: list[Any] = []
        self.threads = [threading.Thread(target=self._ask) for _ in range(clients)]
        for each in self.threads:
            each.start()

    def _ask(self) -> None:
        while not self.over.is_set():
            status, answer, _ = self.served.ask("/v1/completions", BODY)
            if status == 200:
                self.answers.setdefault(answer["system_fingerprint"], []).append(answer["choices"])
            else:
                self.others.append((status, answer))

    def until(self, fingerprints: int, seconds: float = 60.0) -> None:
        """Wait until answers of so many weights have come."""
        began = time.monotonic()
        while len(self.answers) < fingerprints:
            assert time.monotonic() - began < seconds, self.served.log.read_text()
            time.sleep(0.05)

    def end(self) -> None:
        self.over.set()
        for each in self.threads:
            each.join(60)


@pytest.fixture
def ending() -> Iterator[list[Served]]:
    made: list[Served] = []
    yield made
    for each in made:
        each.process.kill()
        each.process.wait()


def test_newer_weights_are_loaded_without_losing_a_request(run: Path, ending: list[Served]) -> None:
    served = started(run, "--follow", "1")
    ending.append(served)
    before, first = served.ask("/v1/completions", BODY)[1], served.engine()
    asking = Asking(served)
    train_run(config(run.parent, 4), run, resume=True)
    asking.until(2)
    asking.end()
    after = served.ask("/v1/completions", BODY)[1]
    assert after["system_fingerprint"] != before["system_fingerprint"]
    assert asking.others == []
    expected = {each["system_fingerprint"]: each["choices"] for each in (before, after)}
    assert all(choices == expected[name] for name, found in asking.answers.items() for choices in found)
    assert served.ask("/v1/models")[1]["data"][0]["steps"] == [4]
    assert "reloaded: tiny (steps 4)" in served.log.read_text()
    began = time.monotonic()
    while Path(f"/proc/{first}").exists():  # the old engine has ended
        assert time.monotonic() - began < 20
        time.sleep(0.05)


def test_a_signal_reloads_and_weights_that_cannot_be_loaded_change_nothing(run: Path, ending: list[Served]) -> None:
    served = started(run)
    ending.append(served)
    before, engine = served.ask("/v1/completions", BODY)[1], served.engine()
    served.process.send_signal(signal.SIGHUP)
    wait_for(served, "reloaded: tiny")
    assert served.ask("/v1/completions", BODY)[1]["choices"] == before["choices"]
    wait_for(served, "", lambda: not Path(f"/proc/{engine}").exists())
    engine = served.engine()
    (run / "checkpoints").rename(run / "elsewhere")
    served.process.send_signal(signal.SIGHUP)
    wait_for(served, "not reloaded, the weights in use stay")
    assert served.ask("/v1/completions", BODY)[1]["choices"] == before["choices"]
    assert served.engine() == engine
    assert served.ask("/health")[0] == 200


def wait_for(served: Served, text: str, also: Any = lambda: True) -> None:
    began = time.monotonic()
    while text not in served.log.read_text() or not also():
        assert time.monotonic() - began < 60, served.log.read_text()
        time.sleep(0.05)


def test_several_engines_share_the_requests_of_a_run(run: Path, ending: list[Served]) -> None:
    served = started(run, "--workers", "2")
    ending.append(served)
    wait_for(served, "", lambda: served.ask("/metrics")[1].count('headway_engine_up{model="tiny",worker=') == 2)
    before = served.ask("/v1/completions", BODY)[1]["choices"]
    asking = Asking(served)
    time.sleep(0.5)
    children = Path(f"/proc/{served.process.pid}/task/{served.process.pid}/children").read_text().split()
    assert len(children) == 2
    os.kill(int(children[0]), signal.SIGKILL)
    served.until("/health", 503, 5.0)
    assert served.ask("/ready")[0] == 200  # the other one takes requests
    assert served.ask("/v1/completions", BODY)[0] == 200
    served.until("/health", 200)
    asking.end()
    (found,) = asking.answers.values()
    assert all(choices == before for choices in found)
    assert all((status, each["error"]["code"]) == (503, "engine_down") for status, each in asking.others)
    assert len(asking.others) <= 6  # those that the engine had when it was killed
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(20) == 143
