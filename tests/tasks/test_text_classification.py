"""Texts with classes: a user's own table or `needle`, cut, padded, judged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from headway.data.config import DataConfig
from headway.data.tokenizers import Characters, Word
from headway.errors import ConfigError, DataError
from headway.models import BertConfig, TextClassifierConfig, build_model
from headway.tasks.text_classification import TextClassification
from headway.tasks.text_classification import training as text_classification
from tests import pipelines

CPU = torch.device("cpu")
MODEL = TextClassifierConfig(encoder=BertConfig(vocab=8, context=512, width=8, layers=1, heads=2, inner=8), classes=2)
GOOD, BAD = ["a fine film", "fine and good", "good good film"], ["a poor film it was", "poor and bad", "bad bad"]


def table(path: Path, rows: list[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{label}\t{text}\n" for label, text in rows))
    return path


def reviews(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    rows = [("good", text) for text in GOOD * 4] + [("bad", text) for text in BAD * 4]
    table(folder / "train.tsv", rows)
    table(folder / "val.tsv", rows[::5])
    return folder


def prepared(spec: Path | str, cache: Path, *, length: int = 16, tokenizer=None, **more):
    data = DataConfig(spec=str(spec), tokenizer=Word() if tokenizer is None else tokenizer, cache=str(cache))
    config = TextClassification(length=length)
    found = pipelines.prepared(config, data, MODEL, batch_tokens=64, **more)
    return found.training, found


def test_a_table_becomes_batches_with_marks_around_each_text(tmp_path):
    task, found = prepared(reviews(tmp_path / "reviews"), tmp_path)
    assert found.classes == task.classes == ("bad", "good")
    indices = task.order.epoch(0)[0]
    batch = task.batch(indices)
    tokens, lengths = batch.inputs
    assert batch.count == len(indices)
    for n, row in enumerate(indices.tolist()):
        text = [*GOOD * 4, *BAD * 4][row]
        assert task.tokenizer.decode(tokens[n].tolist()) == text
        assert tokens[n, 0] == task.tokenizer.start
        assert tokens[n, lengths[n] - 1] == task.tokenizer.stop
        assert lengths[n] == len(text.split()) + 2
        assert task.classes[batch.targets[n]] == ("good" if row < 12 else "bad")


def test_what_is_too_long_is_cut(tmp_path):
    task, _ = prepared(reviews(tmp_path / "reviews"), tmp_path, length=4)
    tokens, lengths = task.batch(np.asarray([12])).inputs
    assert task.tokenizer.decode(tokens[0].tolist()) == "a poor"
    assert lengths.tolist() == [4]
    assert tokens[0, -1] == task.tokenizer.stop


def test_a_small_model_learns_reviews_and_is_judged_the_same_in_small_passes(tmp_path, monkeypatch):
    task, _ = prepared(reviews(tmp_path / "reviews"), tmp_path)
    encoder = BertConfig(vocab=task.tokenizer.size, context=16, width=16, layers=1, heads=2, inner=16, init_std=0.2)
    model = build_model(TextClassifierConfig(encoder=encoder, classes=2))
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(12):
        for indices in task.order.epoch(step):
            batch = task.batch(indices)
            (task.loss(model, batch)["class"].total / batch.count).backward()
            optimiser.step()
            optimiser.zero_grad()
    model.eval()
    found = task.validate(model, CPU)
    assert found.beside["val_accuracy"] == 1.0
    assert "taken for" in task.samples(model, CPU)[0]
    values = task.evaluate(model, CPU, "val").values
    assert values["texts"] == 5
    assert "images" not in values
    monkeypatch.setattr(text_classification, "EVALUATED", 16)
    again = task.predictions(model, CPU, "val")
    assert again.nats / 5 == pytest.approx(found.loss, rel=1e-4)
    assert torch.equal(again.predicted, again.labels)


def test_a_class_that_training_never_sees_is_named(tmp_path):
    folder = reviews(tmp_path / "reviews")
    table(folder / "val.tsv", [("good", "fine"), ("odd", "strange")])
    with pytest.raises(DataError, match=r"class 'odd' of split val is not in train"):
        prepared(folder, tmp_path)


def test_of_a_table_sorted_by_class_a_tenth_of_each_class_is_held_out(tmp_path):
    rows = [("bad", f"poor {n}") for n in range(20)] + [("good", f"fine {n}") for n in range(30)]
    notes: list[str] = []
    task, _ = prepared(table(tmp_path / "sorted.tsv", rows), tmp_path, note=notes.append)
    assert np.bincount(task.splits["val"].labels).tolist() == [2, 3]
    assert np.bincount(task.splits["train"].labels).tolist() == [18, 27]
    assert any("sorted by class" in note for note in notes)
    again, _ = prepared(tmp_path / "sorted.tsv", tmp_path)
    assert again.splits["val"].tokens(0).tolist() == task.splits["val"].tokens(0).tolist()
    notes.clear()
    turns = [row for pair in zip(rows[:20], rows[20:40], strict=True) for row in pair]
    mixed, _ = prepared(table(tmp_path / "mixed.tsv", turns), tmp_path, note=notes.append)
    assert mixed.splits["val"].labels.tolist() == [0, 1, 0, 1]
    assert not any("sorted by class" in note for note in notes)


@pytest.mark.parametrize(("spec", "told"), [("pydocs", "pydocs is plain text"), ("nowhere.tsv", "no such file")])
def test_what_is_no_table_of_classes_is_refused(tmp_path, spec, told):
    with pytest.raises(DataError, match=told):
        prepared(spec, tmp_path)
    (tmp_path / "one.tsv").write_text("only one column\nhere too\n")
    with pytest.raises(DataError, match="1 tab-separated columns, expected 2"):
        prepared(tmp_path / "one.tsv", tmp_path)


def test_needle_is_read_as_words_of_its_own_length(tmp_path):
    task, found = prepared("needle", tmp_path, length=256)
    tokens, lengths = task.batch(task.order.epoch(0)[0]).inputs
    assert int(lengths.max()) <= 256
    assert not (tokens == task.tokenizer.unk).any()
    assert found.digests.keys() == {"train", "val", "test"}
    again, _ = prepared("needle", tmp_path, length=256, expected=found.digests)
    assert torch.equal(again.batch(again.order.epoch(0)[0]).inputs[0], tokens)
    with pytest.raises(ConfigError, match="--resume with data whose train split"):
        prepared("needle", tmp_path, length=512, expected=found.digests)


def test_needle_of_letters_or_of_a_few_words_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"data.tokenizer=characters, allowed for needle: word"):
        prepared("needle", tmp_path, length=256, tokenizer=Characters())
    with pytest.raises(DataError, match="allowed: 120 and above"):
        prepared("needle", tmp_path, length=64)
