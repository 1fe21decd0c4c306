"""Runs whose models have a head: exported, loaded by transformers, imported again, with the same answers."""

from __future__ import annotations

import json
import shlex

import pytest
import torch

import headway
from headway.cli import main
from tests.interop.peers import hf

SIZES = shlex.split(
    "--model.encoder.width 16 --model.encoder.layers 1 --model.encoder.heads 2 --model.encoder.inner 32"
)
SHORT = shlex.split("--train.steps 3 --train.evaluate_every 3 --train.save_every 3 --train.device cpu")
TEXTS = ["a good film", "a bad film", "not good at all", "bad and short"]
TABLES = {
    "single": ("text,label", [f"{text},{'bad' if 'bad' in text else 'good'}" for text in TEXTS]),
    "multi": ("text,label", ["a good film,good|film", "a bad film,bad|film", "good,good", "bad day,bad"]),
    "number": ("text,label", ["a good film,4.5", "a bad film,1.25", "good,5", "bad day,0.5"]),
}


def numbers(found):
    """Every number of a JSON value, in order."""
    if isinstance(found, dict):
        return [number for key in sorted(found) for number in numbers(found[key])]
    if isinstance(found, list):
        return [number for each in found for number in numbers(each)]
    return [found] if isinstance(found, int | float) else []


def train(folder, preset, data, *more):
    out = folder / "run"
    cache = ["--data.cache", str(folder / "cache")]
    assert main(["train", preset, "--data", str(data), "--out", str(out), *SIZES, *SHORT, *cache, *more]) == 0
    return out


@pytest.mark.parametrize("labels", TABLES)
def test_a_text_classifier_comes_and_goes(labels, tmp_path):
    header, rows = TABLES[labels]
    table = tmp_path / "table.csv"
    table.write_text("\n".join([header, *rows * 6]) + "\n")
    run = headway.load(train(tmp_path, "bert-classifier", table, "--task.labels", labels), device="cpu")
    proof = run.export(tmp_path / "hf")
    assert proof.holds
    config = json.loads((tmp_path / "hf/config.json").read_text())
    assert config["architectures"] == ["BertForSequenceClassification"]
    theirs = hf.AutoModelForSequenceClassification.from_pretrained(tmp_path / "hf").eval()
    tokenizer = hf.AutoTokenizer.from_pretrained(tmp_path / "hf")
    with torch.no_grad():
        logits = theirs(**tokenizer(TEXTS[0], return_tensors="pt")).logits
        torch.testing.assert_close(logits, run.model(*run.pipeline.inputs(TEXTS[:1])), atol=1e-5, rtol=1e-5)
    assert main(["import", str(tmp_path / "hf"), "--out", str(tmp_path / "again")]) == 0
    again = headway.load(tmp_path / "again", device="cpu")
    assert again.config.task.labels == labels
    for ours, known in zip(again.classify(TEXTS), run.classify(TEXTS), strict=True):
        assert numbers(ours.to_json("text")) == pytest.approx(numbers(known.to_json("text")), abs=1e-5)
        assert ours.top[:1] == [] or ours.top[0][0] == known.top[0][0]


def test_a_tagger_comes_and_goes(tmp_path):
    lines = ["Anna B-PER", "sees O", "Paris B-LOC", "", "he O", "sees O", ""]
    (tmp_path / "train.conll").write_text("\n".join(lines * 8))
    run = headway.load(train(tmp_path, "bert-tagger", tmp_path / "train.conll"), device="cpu")
    assert run.export(tmp_path / "hf").holds
    theirs = hf.AutoModelForTokenClassification.from_pretrained(tmp_path / "hf").eval()
    assert tuple(theirs.config.id2label.values()) == run.config.data.classes
    assert main(["import", str(tmp_path / "hf"), "--out", str(tmp_path / "again")]) == 0
    again = headway.load(tmp_path / "again", device="cpu")
    (one,), (other,) = (each.tag(["Anna sees Paris"]) for each in (again, run))
    assert (one.words, one.tags) == (other.words, other.tags)
    assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)


def test_a_reader_comes_and_goes(tmp_path):
    cache = ["--data.cache", str(tmp_path / "cache")]
    words = ["train", "bert-reader", "--data", "relatives", "--out", str(tmp_path / "run"), *SIZES, *SHORT, *cache]
    assert main(words) == 0
    run = headway.load(tmp_path / "run", device="cpu")
    assert run.export(tmp_path / "hf").holds
    config = json.loads((tmp_path / "hf/config.json").read_text())
    assert config["architectures"] == ["RoFormerForQuestionAnswering"]  # the preset has rotary positions
    assert main(["import", str(tmp_path / "hf"), "--out", str(tmp_path / "again")]) == 0
    again = headway.load(tmp_path / "again", device="cpu")
    pairs = [("John sees Mary .", "who sees Mary ?")]
    (one,), (other,) = (each.pipeline.answer(pairs, top=3) for each in (again, run))
    assert [each.text for each in one.answers] == [each.text for each in other.answers]


def test_a_chooser_comes_and_goes(tmp_path):
    cache = ["--data.cache", str(tmp_path / "cache")]
    words = ["train", "bert-choice", "--out", str(tmp_path / "run"), *SIZES, *SHORT, *cache]
    assert main(words) == 0
    run = headway.load(tmp_path / "run", device="cpu")
    assert run.export(tmp_path / "hf").holds
    context, question, choices = (
        "the dog left the apple because it was too sour",
        "what is it ?",
        ("the dog", "the apple"),
    )
    known = run.answer(context, question, choice=choices, top=2)
    theirs = hf.AutoModelForMultipleChoice.from_pretrained(tmp_path / "hf").eval()
    assert type(theirs).__name__ == "BertForMultipleChoice"
    encode = hf.AutoTokenizer.from_pretrained(tmp_path / "hf")
    pairs = encode([context] * 2, [f"{question} {choice}" for choice in choices], return_tensors="pt")
    with torch.no_grad():
        scores = theirs(**{name: part[None] for name, part in pairs.items()}).logits[0]
    assert {each.choice: each.score for each in known.answers} == pytest.approx(
        dict(enumerate(scores.tolist())), abs=1e-5
    )
    assert main(["import", str(tmp_path / "hf"), "--out", str(tmp_path / "again")]) == 0
    again = headway.load(tmp_path / "again", device="cpu").answer(context, question, choice=choices, top=2)
    assert [each.text for each in again.answers] == [each.text for each in known.answers]
    assert [each.score for each in again.answers] == pytest.approx([each.score for each in known.answers], abs=1e-5)
