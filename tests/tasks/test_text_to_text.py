"""Translation under its general name: ROUGE when it is asked for, and long texts that are counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import headway
from headway.cli import main
from headway.config import override
from headway.errors import ConfigError, TooLongError
from headway.metrics.rouge import rouge
from headway.presets import PRESETS
from headway.reliability.runs import TINY, make
from headway.runs import Run, plan_run
from headway.runs.config import RunConfig
from headway.runs.train import train_run
from headway.tasks.registry import TASKS
from headway.tasks.translation import Translation

SMALL = {
    "model.width": 16, "model.inner": 32, "model.heads": 2, "model.encoder_layers": 1, "model.decoder_layers": 1,
    "data.tokenizer": "word", "task.beam": 1, "train.device": "cpu", "train.steps": 2, "train.evaluate_every": 2,
    "train.save_every": 2, "train.batch_tokens": 128,
}  # fmt: skip


def config(folder: Path, lines: dict[str, list[int]], **more: object) -> RunConfig:
    """Sentences of these lengths by split, and the config of a run on them."""
    for split, lengths in lines.items():
        for ending in ("en", "fr"):
            (folder / f"{split}.{ending}").write_text("".join(" ".join(["dog"] * n) + "\n" for n in lengths))
    changes = {"data.spec": str(folder), "data.cache": str(folder / "cache"), **SMALL, **more}
    return override(PRESETS["transformer-tiny"].recipe(), changes)


def run_of(folder: Path, lines: dict[str, list[int]], **more: object) -> Run:
    train_run(config(folder, lines, **more), folder / "run")
    return headway.load(folder / "run", device="cpu")


def test_the_task_has_a_general_name():
    assert TASKS["text-to-text"] is TASKS["translation"] is Translation
    recipe = PRESETS["transformer-tiny"].recipe()
    assert override(recipe, {"task": "text-to-text"}).task == Translation()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    desk = tmp_path_factory.mktemp("pairs")
    with TINY["translation"].short():
        yield make(TINY["translation"], desk / "run", desk / "cache")


def test_rouge_is_reported_when_asked_for(tiny, capsys):
    run = headway.load(tiny, device="cpu")
    assert "rouge1" not in run.evaluate().values
    report = run.evaluate(metric="rouge")
    _, references = run.pipeline.pairs(report.split)
    expected = rouge(report.outputs, references).to_json()
    assert {key: report.values[key] for key in expected} == expected
    capsys.readouterr()
    assert main(["evaluate", str(tiny), "--metric", "rouge", "--json", "--device", "cpu"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert {key: said[key] for key in expected} == expected


def test_rouge_is_not_a_metric_of_other_tasks(tmp_path):
    with TINY["language"].short():
        run = headway.load(make(TINY["language"], tmp_path / "run", tmp_path / "cache"), device="cpu")
    with pytest.raises(ConfigError, match=r"--metric is not supported by a language model \(translation model only\)"):
        run.evaluate(metric="rouge")


def test_training_says_how_many_pairs_are_too_long(tmp_path):
    made = config(tmp_path, {"train": [3, 4, 30, 31, 5], "val": [3]}, **{"task.max_length": 10})
    facts = plan_run(made, tmp_path / "run").facts
    assert facts["left out"] == "2 training pairs longer than task.max_length=10"


def test_evaluate_counts_pairs_beyond_those_of_training(tmp_path):
    lines = {"train": [3, 4, 5, 6], "val": [3], "test": [3, 12, 20]}
    report = run_of(tmp_path, lines, **{"task.max_length": 10}).evaluate()
    told = "2 of 3 pairs are longer than task.max_length=10 of training and read whole; the longest has 21 tokens."
    assert told in [getattr(section, "text", "") for section in report.sections]
    short = headway.load(tmp_path / "run", device="cpu").evaluate(split="val")
    assert not any("task.max_length" in getattr(section, "text", "") for section in short.sections)


def test_pairs_beyond_learned_positions_are_refused_with_their_number(tmp_path):
    lines = {"train": [3, 4, 5, 6], "val": [3], "test": [3, 12, 20]}
    more = {"task.max_length": 10, "model.position": "learned", "model.context": 10}
    run = run_of(tmp_path, lines, **more)
    told = (
        r"split 'test': 2 of 3 pairs are longer than the 10 positions of the model \(the longest has 21 tokens\); leave"
    )
    with pytest.raises(TooLongError, match=told):
        run.evaluate()
    assert run.evaluate(split="val").values["sentences"] == 1


def test_translate_counts_the_parts_of_a_long_line(tmp_path, capsys):
    run = run_of(tmp_path, {"train": [3, 4, 5, 6], "val": [3]}, **{"task.max_length": 10})
    capsys.readouterr()
    assert main(["translate", str(run.folder), " ".join(["dog"] * 20), "--device", "cpu"]) == 0
    assert "line 1: 20 tokens, translated in 4 parts" in capsys.readouterr().err
