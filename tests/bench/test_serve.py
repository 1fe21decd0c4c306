"""The benchmark of servers: its clients, its model, and a whole run of our own server at a small size."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headway.bench import Options
from headway.bench.processes import cpu_seconds
from headway.bench.serve import ServeSizes, run, write_model
from headway.bench.serve_load import ask
from headway.cli import main
from headway.errors import ConfigError
from headway.models import GptConfig
from headway.runs.import_folder import import_folder
from headway.runs.run import Run

TINY = GptConfig(vocab=300, context=64, width=16, layers=1, heads=2)


class Answering(BaseHTTPRequestHandler):
    """Answers as many tokens as are asked for, by length or in chunks; fails on the prompt "fail"."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        data = json.dumps({"usage": {"completion_tokens": body["max_tokens"]}}).encode()
        self.send_response(500 if body["prompt"] == "fail" else 200)
        if body["prompt"] == "chunks":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n0\r\n\r\n")
        else:
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_clients_send_all_requests_and_count_tokens(port: int) -> None:
    bodies = [{"prompt": "chunks" if n % 2 else "a", "max_tokens": n} for n in range(1, 11)]
    load = ask(port, bodies, 3)
    assert load.tokens == sum(range(1, 11))
    assert len(load.requests) == 10
    assert load.tokens_per_second == load.tokens / load.seconds
    assert min(load.requests) <= load.p95
    with pytest.raises(RuntimeError, match="500"):
        ask(port, [{"prompt": "fail", "max_tokens": 1}], 1)


def test_the_model_has_a_token_for_each_letter(tmp_path: Path) -> None:
    write_model(tmp_path / "gpt2", TINY)
    import_folder(tmp_path / "gpt2", tmp_path / "run")
    tokenizer = Run(tmp_path / "run", device="cpu").tokenizer
    assert len(tokenizer.encode("some letters")) == len("some letters")


def test_peers_have_names_and_a_python(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match=r"llama\.cpp, vllm, transformers"):
        run(Options(peers={"other": "python"}))
    assert "vllm is left out" in capsys.readouterr().err
    assert main(["bench", "serve", "--peer", "vllm"]) == 2
    assert "NAME=PYTHON" in capsys.readouterr().err


def test_the_computing_of_a_process_and_of_those_it_started_is_counted() -> None:
    busy = "sum(range(10**7)); print(flush=True); input()"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"
    with subprocess.Popen([sys.executable, "-c", nested], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert 0.05 < cpu_seconds(process.pid) < 60
        process.communicate(b"\n")
    assert cpu_seconds(process.pid) == 0


@pytest.mark.slow  # starts a server, which takes ten seconds
def test_our_own_server_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    report = run(Options(), ServeSizes(model=TINY, tokens=5, rounds=1, requests=1, clients=(1, 2)))
    assert not report.results
    assert report.figures["headway_2_tokens_per_second"] > 0
    assert report.figures["headway_2_cpu_ms_per_token"] > 0
    assert "llama.cpp is left out" in capsys.readouterr().err
