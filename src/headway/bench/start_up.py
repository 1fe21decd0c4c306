"""From a command to its first translation with a saved 8-bit model, beside CTranslate2's and importing torch.

Each side is a process of its own, started in turns; timed are its first line, and its end.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch
import yaml

from headway.bench.decode_cpu import VOCAB, converted, marian
from headway.bench.peers import peer
from headway.bench.result import Options, Report, Result
from headway.config import plain
from headway.data.config import DataConfig
from headway.data.tokenizers import SPECIALS, Tokenizer, Word
from headway.errors import ConfigError
from headway.models import EncoderDecoderConfig, build_model
from headway.runs import CONFIG
from headway.runs.config import ONE, RunConfig
from headway.storage.commit import commit_file
from headway.tasks.translation.training import Translation
from headway.training.checkpoints import Checkpoints
from headway.training.config import TrainConfig

ROUNDS = 7
MODEL = EncoderDecoderConfig(vocab=VOCAB, dropout=0.0)  # the base model, as in decode-cpu
TEXT = "w1 w2"
TORCH = "import torch; print(flush=True)"
CTRANSLATE2 = """
import sys, ctranslate2
model, words, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
translator = ctranslate2.Translator(model, compute_type="int8", intra_threads=threads)
lengths = {"max_decoding_length": words, "min_decoding_length": words}
print(*translator.translate_batch([["1", "2", "0"]], beam_size=1, **lengths)[0].hypotheses[0], flush=True)
"""


class Started(NamedTuple):
    """What a process did: seconds until its first line, seconds until its end, and the line."""

    first_line: float
    whole: float
    line: str


def run(options: Options) -> Report:
    """Transformer-base, one short line, greedy: as many tokens on both sides."""
    peer("transformers"), peer("ctranslate2")
    with tempfile.TemporaryDirectory() as place:
        ours = ["-m", "headway", "translate", str(_written(Path(place) / "run")), TEXT, "--precision", "int8"]
        ours += ["--beam", "1", "--device", "cpu"]
        words = len(_started(ours).line.split())  # which also quantises, once
        loader = peer("ctranslate2.converters.transformers").MarianMTLoader()
        theirs = str(converted(loader, marian(), Path(place) / "theirs", VOCAB - 1))
        sides = {
            "ours": ours,
            "torch": ["-c", TORCH],
            "ctranslate2": ["-c", CTRANSLATE2, theirs, str(words), str(torch.get_num_threads())],
        }
        turns = [{name: _started(command) for name, command in sides.items()} for _ in range(ROUNDS)]
    first = {name: median(turn[name].first_line for turn in turns) for name in sides}
    whole = {name: median(turn[name].whole for turn in turns) for name in sides}
    results, figures = [], {"tokens": float(words)}
    for what, seconds in (("first_line", first), ("whole", whole)):
        results.append(Result(what, seconds["ours"], seconds["torch"] + seconds["ctranslate2"]))
        figures |= {f"{what}_{name}_seconds": round(value, 3) for name, value in seconds.items()}
    return Report(results, figures)


def _started(arguments: list[str]) -> Started:
    """Start Python and wait for its end. Raises ConfigError if it fails."""
    # An installed package is compiled; one that runs from its sources is at its first start, unless that is forbidden.
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True, env=settings) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        first = time.perf_counter() - start
    if process.returncode:
        raise ConfigError(f"a side of the comparison ended with exit code {process.returncode}")
    return Started(first, time.perf_counter() - start, line)


def _written(folder: Path) -> Path:
    """A run of the model before its first step, with a vocabulary of its size."""
    words = [f"w{n}" for n in range(MODEL.vocab - len(SPECIALS))]
    config = RunConfig(task=Translation(), data=DataConfig(spec=""), model=MODEL, train=TrainConfig(average=0))
    commit_file(folder / CONFIG, yaml.safe_dump(plain(config), sort_keys=False))
    commit_file(folder / ONE, Tokenizer.train(Word(), [" ".join(words)]).to_json())
    checkpoints = Checkpoints(folder)
    checkpoints.save(1, build_model(MODEL).state_dict(), {}, {})
    checkpoints.mark_best(1, 0.0)
    return folder
