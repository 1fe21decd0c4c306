"""What the groups of cases share: settings of small trainings, and what every run is asked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from golden_cases.recorder import Recorder

SHORT = "--train.steps 6 --train.evaluate_every 3 --train.save_every 3 --train.device cpu --data.cache cache"
ONCE = "--train.steps 2 --train.evaluate_every 2 --train.save_every 2 --train.device cpu --data.cache cache"
GPT = "--model.width 16 --model.layers 2 --model.heads 2 --train.batch_tokens 256"
PAIR = "--model.width 16 --model.inner 32 --model.heads 2 --train.batch_tokens 256"
LAYERS = "--model.encoder_layers 1 --model.decoder_layers 1"
CORPUS = "--data corpus --source en --target fr"
BERT = (
    "--model.bert.width 16 --model.bert.layers 1 --model.bert.heads 2 --model.bert.inner 32 --model.bert.context 40 "
    "--task.length 32 --train.accumulate 2 --train.batch_tokens 256 --data.tokenizer.vocab 60"
)
VIT = "--model.width 16 --model.inner 32 --model.heads 2 --model.layers 2 --train.batch_tokens 8"
LAKE = (
    "--train.batch_tokens 48 --model.width 16 --model.layers 1 --model.heads 2 --task.collect 80,40 "
    "--task.round.world 2 --task.round.act 1 --task.dreams 8 --task.horizon 3"
)
DECISION = "--train.batch_tokens 48 --model.width 16 --model.layers 1 --model.context 4 --task.log 300"
TEXT, SOURCE = "The cat sleeps", "the old cat sleeps at home"

GROUPS: dict[str, Callable[[Recorder], None]] = {}


def group(function: Callable[[Recorder], None]) -> Callable[[Recorder], None]:
    """Add a group under its function's name."""
    GROUPS[function.__name__.strip("_")] = function
    return function


def train(rec: Recorder, run: str, words: str, *, settings: str = SHORT, kept: bool = True) -> str:
    """Train a run and record its folder; `kept`, it is there for `reread` as well. The folder."""
    folder = f"runs/{run}"
    rec.command(f"{run}/train", f"train {words} {settings} --out {folder}")
    rec.folder(f"{run}/folder", folder)
    if kept and Path(folder).exists():
        rec.keep(folder)
    return folder


def verbs(rec: Recorder, name: str, run: str, *, given: str = SOURCE, text: str = SOURCE) -> None:
    """Every command that takes a run, whether this run can do it or not."""
    rec.command(f"{name}/evaluate", ["evaluate", run, "--json"])
    rec.command(f"{name}/evaluate-report", ["evaluate", run], kind="report")
    rec.command(f"{name}/translate", ["translate", run, text])
    rec.command(f"{name}/generate", ["generate", run, "--prompt", "The ", "--max-tokens", "8", "--temperature", "0"])
    rec.command(f"{name}/score", ["score", run, text])
    rec.command(f"{name}/classify", ["classify", run, "photo.png", "--json"])
    rec.command(f"{name}/caption", ["caption", run, "photo.png", "--json"])
    rec.command(f"{name}/pose", ["pose", run, "figure.png", "--json"])
    rec.command(f"{name}/play", ["play", run, "--episodes", "2", "--json"])
    rec.command(f"{name}/embed", ["embed", run, text, "--json"])
    look(rec, f"{name}/look", run, given)
    rec.command(f"{name}/verify", ["verify", run, "--json"])
    export(rec, f"{name}/export", run)
    rec.python(f"{name}/taps", "taps", lambda: tap_names(run))


def look(rec: Recorder, name: str, run: str, given: str) -> None:
    """A page, if there is one for this run, and what it holds."""
    page = Path(f"{name.replace('/', '-')}.html")
    rec.command(name, ["look", run, given, "-o", str(page)])
    if page.exists():
        rec.page(f"{name}/payload", page)


def export(rec: Recorder, name: str, run: str, *flags: str) -> None:
    """The model folder, if there is one for this run, and the run that comes of importing it again."""
    folder = f"exported/{name.replace('/', '-')}"
    rec.command(name, ["export", run, "--out", folder, *flags])
    if not Path(folder).exists():
        return
    rec.folder(f"{name}/folder", folder, without=("MANIFEST.json",) if flags else ())
    back = f"imported/{name.replace('/', '-')}"
    rec.command(f"{name}/import", ["import", folder, "--out", back])
    if Path(back).exists():
        rec.folder(f"{name}/imported", back)


def tap_names(run: str) -> str:
    """What `headway.taps` lists of a run's model."""
    import headway

    found = headway.taps(headway.load(run, device="cpu").model)
    fields = ("name", "kind", "shape", "layer", "stack", "attention", "heads")
    return "".join(" ".join(f"{key}={getattr(each, key)}" for key in fields) + "\n" for each in found)


def captured(rec: Recorder, name: str, run: str, ask: Callable[[Any], object]) -> None:
    """Everything that `headway.capture` sees while a run is asked something, as digests by name."""

    def seen() -> str:
        import headway

        loaded = headway.load(run, device="cpu")
        kinds = sorted({each.kind for each in headway.taps(loaded.model)})
        with headway.capture(loaded.model, what=kinds) as found:
            ask(loaded)
        return "".join(f"{key} {_tensor(found[key])}\n" for key in found)

    rec.python(f"{name}/captured", "captured", seen)


def _tensor(value: Any) -> str:
    whole = value.detach().cpu().contiguous()
    return f"{tuple(whole.shape)} {hashlib.sha256(whole.numpy().tobytes()).hexdigest()}"


def resumed(rec: Recorder, run: str, words: str) -> None:
    """A run of six steps in two sittings, and three steps more."""
    folder = f"runs/{run}-resumed"
    rec.quietly(f"train {words} {SHORT} --train.steps 3 --out {folder}")
    for steps in (6, 9):
        rec.command(f"{run}/resume-{steps}", f"train {words} {SHORT} --train.steps {steps} --out {folder} --resume")
        for file in ("model.safetensors", "trainer.safetensors"):
            rec.file(f"{run}/resume-{steps}/{file}", f"{folder}/checkpoints/step-{steps:08d}/{file}")
    rec.file(f"{run}/resume/log.jsonl", f"{folder}/log.jsonl")
