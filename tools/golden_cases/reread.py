"""Run folders of another record, loaded by this code."""

from __future__ import annotations

import shutil

from golden_cases.common import BERT, CORPUS, DECISION, GPT, LAKE, LAYERS, PAIR, SHORT, VIT, group, tap_names
from golden_cases.recorder import Recorder


@group
def reread(rec: Recorder) -> None:
    """Run folders of an earlier record, or of this one, loaded by this code: evaluated, and gone on with."""
    kept = rec.runs if rec.runs is not None else rec.out / "runs"
    for folder in sorted(kept.iterdir()):
        for run in folder.iterdir():
            shutil.rmtree(f"runs/{run.name}", ignore_errors=True)
            shutil.copytree(run, f"runs/{run.name}")
        for run in sorted(folder.iterdir()):
            rec.command(f"{folder.name}/{run.name}/evaluate", f"evaluate runs/{run.name} --json")
            rec.python(f"{folder.name}/{run.name}/taps", "taps", lambda run=run: tap_names(f"runs/{run.name}"))
    more = SHORT.replace("--train.steps 6", "--train.steps 8")
    for run, words in {
        "gpt-char": f"gpt-char --data book.txt {GPT}",
        "transformer": f"transformer-tiny {CORPUS} {PAIR} {LAYERS} --data.tokenizer word",
        "bert": f"bert-base --data book.txt {BERT}",
        "vit": f"sl-vit --data photos --task.size 16 {VIT} --model.image 16",
        "world-frozenlake": f"world-frozenlake {LAKE}",
        "decision-cartpole": f"decision-cartpole {DECISION} --task.targets 10,30",
    }.items():
        rec.command(f"resume/{run}", f"train {words} {more} --out runs/{run} --resume")
        rec.file(f"resume/{run}/model.safetensors", f"runs/{run}/checkpoints/step-00000008/model.safetensors")
