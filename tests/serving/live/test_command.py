"""`headway look RUN --live` as a process: it says where it is, answers there, and Ctrl-C ends it."""

from __future__ import annotations

import http.client
import signal
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

pytest.importorskip("uvicorn")

from headway.cli import main
from headway.reliability.runs import TINY
from headway.runs.train import train_run


def test_the_command_prints_its_address_and_ends_quietly(tmp_path):
    train_run(TINY["language"].config(tmp_path / "cache", {"model.context": 64}), tmp_path / "tiny")
    command = [sys.executable, "-m", "headway", "look", str(tmp_path / "tiny"), "I like", "--live", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = urlsplit(process.stdout.readline().strip())
        assert address.hostname == "127.0.0.1"
        assert address.fragment.startswith("key=")
        connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=30)
        key = address.fragment.removeprefix("key=")
        connection.request("GET", "/page/run", headers={"authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        assert b'"input": "I like"' in answer.read()
        connection.close()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize(
    ("words", "message"),
    [(["runs/x"], "INPUT is missing"), (["runs/x", "a", "--port", "80"], "belong to --live")],
)
def test_options_that_do_not_fit_are_named(words, message, capsys):
    assert main(["look", *words]) != 0
    assert message in capsys.readouterr().err
