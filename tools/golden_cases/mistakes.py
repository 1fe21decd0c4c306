"""What mistakes get: wrong settings, flags, files and data, and runs with damaged files."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path

from golden_cases.common import CORPUS, GPT, LAYERS, ONCE, PAIR, VIT, group
from golden_cases.recorder import Recorder


@group
def wrong(rec: Recorder) -> None:
    """What mistakes get: settings, flags, files, data. mistakes.toml has them."""
    whole = {
        "gpt": f"train gpt-char --data book.txt {GPT} {ONCE}",
        "pair": f"train transformer-tiny {CORPUS} {PAIR} {LAYERS} --data.tokenizer word {ONCE}",
        "vit": f"train sl-vit --data photos --task.size 16 {VIT} --model.image 16 {ONCE}",
    }
    for name, words in whole.items():
        rec.quietly(f"{words} --out runs/{name}")
    tables = tomllib.loads(Path(__file__).with_name("mistakes.toml").read_text(encoding="utf-8"))
    for table, rows in tables.items():
        for name, words in rows.items():
            rec.command(f"{table}/{name}", words.format(**whole, once=ONCE))
    for name, run in (("score", "gpt"), ("translate", "pair")):
        rec.command(f"stdin/{name}-bytes", f"{name} runs/{run}", given=Path("bad-bytes.txt").read_bytes())
    _folders(rec)


def _folders(rec: Recorder) -> None:
    """Model folders that cannot be imported."""

    def changed(name: str, change: Callable[[Path], None]) -> None:
        folder = Path(f"folders/{name}")
        shutil.copytree("gpt2", folder)
        change(folder)
        rec.command(f"folders/{name}", f"import {folder} --out runs/i-{name}")

    def field(key: str, value: object) -> Callable[[Path], None]:
        def change(folder: Path) -> None:
            tree = json.loads((folder / "config.json").read_text())
            (folder / "config.json").write_text(json.dumps({**tree, key: value}))

        return change

    changed("type", field("model_type", "mamba"))
    changed("width", field("n_embd", 12))
    changed("layers", field("n_layer", 3))
    changed("activation", field("activation_function", "mish"))
    changed("config", lambda folder: (folder / "config.json").write_text("{"))
    changed("no-config", lambda folder: (folder / "config.json").unlink())
    changed("no-weights", lambda folder: (folder / "model.safetensors").unlink())
    changed("no-tokenizer", lambda folder: (folder / "tokenizer.json").unlink())
    changed("tokenizer", lambda folder: (folder / "tokenizer.json").write_text("[]"))
    changed("cut", lambda folder: _cut(folder / "model.safetensors"))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


@group
def damaged(rec: Recorder) -> None:
    """Resuming what is another run, and runs with damaged files."""
    gpt = f"train gpt-char --data book.txt {GPT} {ONCE}"
    rec.quietly(f"{gpt} --out runs/gpt")
    shutil.copy("book.txt", "moved.txt")
    for name, flags in {
        "held": "", "width": "--model.width 8 --resume", "seed": "--train.seed 3 --resume",
        "data": "--data other.txt --resume",
        "moved": "--data moved.txt --resume", "tokenizer": "--data.tokenizer word --resume",
        "rate": "--train.learning_rate 0.5 --resume", "again": "--resume", "more": "--train.steps 4 --resume",
        "fewer": "--train.steps 1 --resume",
    }.items():  # fmt: skip
        rec.command(f"resume-{name}", f"{gpt} {flags} --out runs/gpt")
    rec.command("resume-nothing", f"{gpt} --out runs/fresh --resume")
    rec.quietly(f"{gpt} --train.save_every 1 --out runs/whole")
    newest = "checkpoints/step-00000002"

    def case(name: str, change: Callable[[Path], object]) -> None:
        run = Path(f"runs/{name}")
        shutil.copytree("runs/whole", run)
        change(run)
        rec.command(f"{name}/evaluate", f"evaluate {run} --json")
        rec.command(f"{name}/generate", f"generate {run} --prompt The --max-tokens 4 --temperature 0")
        rec.command(f"{name}/resume", f"{gpt} --train.steps 3 --out {run} --resume")
        rec.folder(f"{name}/folder", run)

    case("cut-weights", lambda run: _cut(run / newest / "model.safetensors"))
    case("no-weights", lambda run: (run / newest / "model.safetensors").unlink())
    case("no-manifest", lambda run: (run / newest / "MANIFEST.json").unlink())
    case("cut-trainer", lambda run: _cut(run / newest / "trainer.safetensors"))
    case("no-checkpoints", lambda run: shutil.rmtree(run / "checkpoints"))
    case("all-cut", lambda run: [_cut(each) for each in run.glob("checkpoints/*/model.safetensors")])
    case("no-config", lambda run: (run / "config.yaml").unlink())
    case("bad-config", lambda run: (run / "config.yaml").write_text("task: [1, 2\n"))
    case("no-tokenizer", lambda run: (run / "tokenizer.json").unlink())
    case("no-best", lambda run: (run / "best.json").unlink())
    case("bad-best", lambda run: (run / "best.json").write_text("{"))
    case("no-data", lambda run: (run / "data.json").unlink())
    case("no-log", lambda run: (run / "log.jsonl").unlink())
    case("cut-log", lambda run: _cut(run / "log.jsonl"))
    case("other-width", lambda run: _replace(run / "config.yaml", "width: 16", "width: 8"))
    case("unknown-key", lambda run: _replace(run / "config.yaml", "layers:", "layerz:"))
    case("unknown-type", lambda run: _replace(run / "config.yaml", "type: gpt", "type: gtp"))


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    if old not in text:
        raise ValueError(f"{path}: no {old!r} in it")
    path.write_text(text.replace(old, new))
