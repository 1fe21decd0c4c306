"""Time from starting a command to its first translation with a saved int8 model, against CTranslate2 + torch import.

Each contender is a process of its own, started alternately; timed are its first line of output, and its end.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch

from headway.bench.decode_cpu import VOCAB, converted, marian
from headway.bench.peers import peer
from headway.bench.result import BenchReport, Options, Result
from headway.data.config import DataConfig
from headway.data.tokenizers import SPECIALS, Tokenizer, Word
from headway.errors import ConfigError
from headway.models import EncoderDecoderConfig, build_model
from headway.runs.config import RunConfig
from headway.runs.folder import write_run_files
from headway.tasks.base import ONE_TOKENIZER
from headway.tasks.translation.config import Translation
from headway.training.checkpoints import Checkpoints
from headway.training.config import TrainConfig

BASE = EncoderDecoderConfig(vocab=VOCAB, dropout=0.0)  # as in decode-cpu
TEXT = "w1 w2"
TORCH = "import torch; print(flush=True)"
CTRANSLATE2 = """
import sys, ctranslate2
model, words, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
translator = ctranslate2.Translator(model, compute_type="int8", intra_threads=threads)
lengths = {"max_decoding_length": words, "min_decoding_length": words}
print(*translator.translate_batch([["1", "2", "0"]], beam_size=1, **lengths)[0].hypotheses[0], flush=True)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartUpSizes:
    """The model, and how often each contender starts."""

    model: EncoderDecoderConfig = BASE
    rounds: int = 7


class Started(NamedTuple):
    """A finished process: seconds to its first line, seconds to its end, and the line."""

    first_line: float
    whole: float
    line: str


SIZES = StartUpSizes()


def run(options: Options, sizes: StartUpSizes = SIZES) -> BenchReport:
    """Transformer-base, one short line, greedy, as many tokens for each contender."""
    peer("transformers"), peer("ctranslate2")
    with tempfile.TemporaryDirectory() as place:
        ours = [
            "-m",
            "headway",
            "translate",
            str(_write_run(Path(place) / "run", sizes.model)),
            TEXT,
            "--precision",
            "int8",
        ]
        ours += ["--beam", "1", "--device", "cpu"]
        words = len(_started(ours).line.split())  # the first start also quantises
        loader = peer("ctranslate2.converters.transformers").MarianMTLoader()
        theirs = str(converted(loader, marian(), Path(place) / "theirs", VOCAB - 1))
        commands = {
            "ours": ours,
            "torch": ["-c", TORCH],
            "ctranslate2": ["-c", CTRANSLATE2, theirs, str(words), str(torch.get_num_threads())],
        }
        turns = [{name: _started(command) for name, command in commands.items()} for _ in range(sizes.rounds)]
    first = {name: median(turn[name].first_line for turn in turns) for name in commands}
    whole = {name: median(turn[name].whole for turn in turns) for name in commands}
    results, figures = [], {"tokens": float(words)}
    for what, seconds in (("first_line", first), ("whole", whole)):
        results.append(Result(what, seconds["ours"], seconds["torch"] + seconds["ctranslate2"]))
        figures |= {f"{what}_{name}_seconds": round(value, 3) for name, value in seconds.items()}
    return BenchReport(results, figures)


def _started(arguments: list[str]) -> Started:
    """Start Python and wait for its end. Raises ConfigError if it fails."""
    # Allow bytecode to be written at the first start, as an installed package has it.
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True, env=settings) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        first = time.perf_counter() - start
    if process.returncode:
        raise ConfigError(f"a contender's process ended with exit code {process.returncode}")
    return Started(first, time.perf_counter() - start, line)


def _write_run(folder: Path, model: EncoderDecoderConfig) -> Path:
    """A run of an untrained model with a vocabulary of its size."""
    words = [f"w{n}" for n in range(model.vocab - len(SPECIALS))]
    config = RunConfig(task=Translation(), data=DataConfig(spec=""), model=model, train=TrainConfig(average=0))
    write_run_files(folder, config, {ONE_TOKENIZER: Tokenizer.train(Word(), [" ".join(words)]).to_json()})
    Checkpoints(folder).save(1, build_model(model).state_dict(), {}, {})
    return folder
