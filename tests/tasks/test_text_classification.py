"""Texts with labels: a user's own table or `needle`, pairs, several labels, numbers; cut, padded, judged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from headway.data.config import DataConfig
from headway.data.tokenizers import SPECIALS, Characters, SpecialTokens, Tokenizer, Word
from headway.errors import ConfigError, DataError
from headway.models import BertConfig, GptConfig, TextClassifierConfig, build_model
from headway.tasks.text_classification import TextClassification
from headway.tasks.text_classification import training as text_classification
from headway.tasks.text_classification.layout import InputLayout
from headway.tasks.text_classification.objectives import MultiLabel, Number, SingleLabel, class_weights
from headway.tasks.verification_inputs import compared
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


def prepared(spec: Path | str, cache: Path, *, length: int = 16, tokenizer=None, task=None, columns=None, **more):
    data = DataConfig(
        spec=str(spec), tokenizer=Word() if tokenizer is None else tokenizer, cache=str(cache), **(columns or {})
    )
    config = TextClassification(length=length, **(task or {}))
    found = pipelines.prepared(config, data, more.pop("model", MODEL), batch_tokens=64, **more)
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


def test_a_sample_shows_unknown_words(tmp_path):
    """They were dropped: "funny look at the of a"."""
    folder = reviews(tmp_path / "reviews")
    table(folder / "val.tsv", [("good", "a splendid film"), ("bad", "poor and dull")])
    task, _ = prepared(folder, tmp_path)
    encoder = BertConfig(vocab=task.tokenizer.size, context=16, width=8, layers=1, heads=2, inner=8)
    model = build_model(TextClassifierConfig(encoder=encoder, classes=2)).eval()
    first, second = task.samples(model, CPU)
    assert first.startswith("a <unk> film … ")
    assert second.startswith("poor and <unk> … ")


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
    with pytest.raises(DataError, match=r"class 'odd' of split val is not in train, which has '"):
        prepared(folder, tmp_path)


def test_a_tenth_of_each_class_is_held_out_in_whatever_order_the_rows_are(tmp_path):
    """A file that is half sorted once had four of its eleven classes in val, and a class in train by a tenth."""
    rows = [("bad", f"poor {n}") for n in range(20)] + [("good", f"fine {n}") for n in range(30)]
    task, _ = prepared(table(tmp_path / "sorted.tsv", rows), tmp_path)
    assert np.bincount(task.splits["val"].labels).tolist() == [2, 3]
    assert np.bincount(task.splits["train"].labels).tolist() == [18, 27]
    again, _ = prepared(tmp_path / "sorted.tsv", tmp_path)
    assert again.splits["val"].tokens(0).tolist() == task.splits["val"].tokens(0).tolist()
    turns = [row for pair in zip(rows[:20], rows[20:40], strict=True) for row in pair]
    mixed, _ = prepared(table(tmp_path / "mixed.tsv", turns), tmp_path)
    assert mixed.splits["val"].labels.tolist() == [0, 1, 0, 1]
    nearly, _ = prepared(table(tmp_path / "nearly.tsv", [*rows[:18], *rows[20:], *rows[18:20]]), tmp_path)
    assert np.bincount(nearly.splits["val"].labels).tolist() == [2, 3]


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


# --- pairs ----------------------------------------------------------------------------------------------------------


def csv(path: Path, header: str, rows: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in (header, *rows)))
    return path


def pairs(path: Path) -> Path:
    return csv(path, "a,b,label", [f"one two {n},three,{'yes' if n % 2 else 'no'}" for n in range(20)])


PAIR = {"text": "a", "text2": "b"}


def test_a_pair_has_special_tokens_between_and_segments(tmp_path):
    task, _ = prepared(pairs(tmp_path / "x.csv"), tmp_path, columns=PAIR)
    tokens, lengths, segments = task.batch(np.asarray([3, 4])).inputs
    start, stop = task.tokenizer.start, task.tokenizer.stop
    one = task.tokenizer.encode("one two 3")
    assert tokens[0].tolist() == [start, *one, stop, *task.tokenizer.encode("three"), stop]
    assert segments[0].tolist() == [0, 0, 0, 0, 0, 1, 1]
    assert lengths.tolist() == [7, 7]
    gpt = TextClassifierConfig(encoder=GptConfig(vocab=8, context=512, width=8, layers=1, heads=2), classes=2)
    plain, _ = prepared(pairs(tmp_path / "x.csv"), tmp_path, columns=PAIR, model=gpt)
    assert len(plain.batch(np.asarray([3])).inputs) == 2


@pytest.mark.parametrize("length", [5, 6, 9, 12, 40])
def test_pairs_are_laid_out_and_cut_as_by_transformers_for_bert(length):
    """[CLS] a [SEP] b [SEP] with its segment ids, the longer text cut first."""
    hf = pytest.importorskip("transformers")
    words = [f"w{n}" for n in range(30)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    theirs = hf.BertTokenizerFast(vocab={word: n for n, word in enumerate(vocabulary)})
    marks = SpecialTokens(pad=0, unk=1, mask=4, before=(2,), after=(3,))
    ours = Tokenizer.train(Word(), [" ".join(words)], specials=vocabulary[:5], marks=marks)
    layout = InputLayout.of(ours, length, pairs=True)
    for first, second in ((1, 1), (2, 9), (9, 2), (8, 8), (7, 8), (8, 7), (1, 25), (25, 20)):
        texts = [" ".join(words[:count]) for count in (first, second)]
        expected = theirs(*texts, truncation="longest_first", max_length=length)
        ids, segments = layout.arrange(*(ours.encode(text) for text in texts))
        named = [ours.token(index) for index in ids]
        assert named == [theirs.convert_ids_to_tokens(index) for index in expected["input_ids"]]
        assert segments == expected["token_type_ids"]
        assert layout.lengths(np.asarray([first]), np.asarray([second])).tolist() == [len(ids)]


def test_a_vocabulary_without_special_tokens_around_a_text_has_its_stop_between_two():
    tokenizer = Tokenizer.train(Word(), ["a b"], specials=SPECIALS, marks=SpecialTokens(stop=3))
    assert InputLayout.of(tokenizer, 8, pairs=True).arrange([5], [6]) == ([5, 3, 6], [0, 0, 1])
    assert InputLayout.of(tokenizer, 8, pairs=False).arrange([5, 6]) == ([5, 6], [0, 0])


def test_segments_are_padded_with_a_segment():
    tokenizer = Tokenizer.train(Word(), ["a b"], specials=(*SPECIALS, "<end>"), marks=SpecialTokens(pad=4, stop=3))
    layout = InputLayout.of(tokenizer, 8, pairs=True)
    rows = [layout.arrange([5], [6])[1], layout.arrange([5, 6], [6, 6])[1]]
    assert layout.padded_segments(rows).tolist() == [[0, 0, 1, 0, 0], [0, 0, 0, 1, 1]]


def test_a_length_without_room_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"task.length=4 leaves no room for a pair of texts"):
        prepared(pairs(tmp_path / "x.csv"), tmp_path, columns=PAIR, length=4)
    with pytest.raises(ConfigError, match=r"task.length=600, allowed: up to 512"):
        TextClassification(length=600).check_model(MODEL)


# --- several labels, numbers, weights -------------------------------------------------------------------------------


def tagged(path: Path) -> Path:
    return csv(
        path, "text,label", [("cheap,money", "late,time", "cheap late,money|time", "well,")[n % 4] for n in range(40)]
    )


def priced(path: Path) -> Path:
    return csv(path, "text,label", [("cheap,10", "dear,90", "cheap cheap,5.5")[n % 3] for n in range(60)])


def learned(task, found, *, epochs: int = 25):
    """A small model after some epochs, as the data sized it."""
    encoder = BertConfig(vocab=task.tokenizer.size, context=16, width=16, layers=1, heads=2, inner=16, init_std=0.2)
    sizes = {key: value for key, value in found.model_overrides.items() if "." not in key}
    config = TextClassifierConfig(encoder=encoder, **sizes)
    model = build_model(config)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for epoch in range(epochs):
        for indices in task.order.epoch(epoch):
            batch = task.batch(indices)
            (task.loss(model, batch)["class"].total / batch.count).backward()
            optimiser.step()
            optimiser.zero_grad()
    return model.eval(), config


def test_several_labels_are_learned_and_told(tmp_path):
    task, found = prepared(tagged(tmp_path / "x.csv"), tmp_path, task={"labels": "multi"})
    assert found.classes == ("money", "time")
    model, config = learned(task, found)
    values = task.evaluate(model, CPU, "val").values
    assert (values["micro_f1"], values["exact_match"]) == (1.0, 1.0)
    assert "val_micro_f1" in task.validate(model, CPU).beside
    assert "none: taken for none" in " ".join(task.samples(model, CPU))
    pipeline = pipelines.pipeline_of(
        TextClassification(length=16, labels="multi"), model, task.tokenizer, config=config, classes=found.classes
    )
    both, none = pipeline.classify(["cheap late", "well"])
    assert set(both.labels) == {"money", "time"}
    assert none.labels == ()
    assert len(both.top) == 2
    assert both.to_json("text")["probabilities"] == dict(both.top)
    assert none.line.startswith("well\tnone\tmoney ")
    assert pipeline.explain("cheap late").said(model(*pipeline.inputs(["cheap late"]))) in (
        "money, time",
        "time, money",
    )
    assert pipeline.explain("cheap late").output is None


def test_numbers_are_learned_in_their_own_unit(tmp_path):
    task, found = prepared(priced(tmp_path / "x.csv"), tmp_path, task={"labels": "number"})
    assert found.classes == ()
    assert found.model_overrides["classes"] == 1
    labels = task.splits["train"].labels
    assert found.model_overrides["centre"] == pytest.approx(labels.mean())
    assert found.model_overrides["scale"] == pytest.approx(labels.std())
    model, config = learned(task, found)
    values = task.evaluate(model, CPU, "val").values
    assert values["pearson"] > 0.99
    assert values["rmse"] < 5
    assert values["loss"] == pytest.approx((values["rmse"] / labels.std()) ** 2, rel=1e-3)
    config_of_task = TextClassification(length=16, labels="number")
    pipeline = pipelines.pipeline_of(config_of_task, model, task.tokenizer, config=config)
    assert pipeline.classify(["dear"])[0].number == pytest.approx(90, abs=8)
    assert pipeline.classify(["dear"])[0].to_json("text").keys() == {"text", "number"}
    assert float(pipeline.explain("dear").said(model(*pipeline.inputs(["dear"])))) == pytest.approx(90, abs=8)
    # Other data of a finished run is measured with the deviation that it was trained with.
    again, _ = prepared(
        priced(tmp_path / "y.csv"), tmp_path, task={"labels": "number"}, tokenizers={"tokenizer.json": task.tokenizer},
        reads_only=True, model=config,
    )  # fmt: skip
    assert again.objective.scale == config.scale


def test_a_number_that_never_changes_is_refused(tmp_path):
    path = csv(tmp_path / "x.csv", "text,label", [f"t {n},4" for n in range(20)])
    with pytest.raises(DataError, match="all 18 labels of train are 4, expected several"):
        prepared(path, tmp_path, task={"labels": "number"})


def test_losses_are_those_of_torch():
    logits, classes = torch.randn(6, 3), torch.tensor([0, 1, 2, 2, 1, 0])
    weights = torch.tensor([1.0, 2.0, 0.5])
    names = ("a", "b", "c")
    expected = torch.nn.CrossEntropyLoss(weights, label_smoothing=0.1, reduction="sum")(logits, classes)
    torch.testing.assert_close(SingleLabel(names, weights).loss(logits, classes, 0.1), expected)
    flags = (torch.rand(6, 3) < 0.5).float()
    expected = torch.nn.BCEWithLogitsLoss(pos_weight=weights)(logits, flags)
    torch.testing.assert_close(MultiLabel(names, 0.5, weights).loss(logits, flags, 0.0) / 6, expected)
    plain = torch.nn.BCEWithLogitsLoss()(logits, flags)
    torch.testing.assert_close(MultiLabel(names, 0.5, weights).plain_loss(logits, flags) / 6, plain)
    numbers = torch.randn(6)
    expected = torch.nn.MSELoss()(logits[:, 0] / 4, numbers / 4)
    torch.testing.assert_close(Number(4.0).loss(logits[:, :1], numbers, 0.0) / 6, expected)


def test_class_weights_balance_or_are_given_by_name():
    labels, names = np.asarray([0, 0, 0, 1]), ("bad", "good")
    assert class_weights(TextClassification(), names, labels) is None
    balanced = class_weights(TextClassification(class_weights="balanced"), names, labels)
    torch.testing.assert_close(balanced, torch.tensor([4 / 6, 4 / 2]))
    assert float(balanced[torch.from_numpy(labels)].mean()) == pytest.approx(1)
    given = class_weights(TextClassification(class_weights=("good=2.5",)), names, labels)
    assert given.tolist() == [1.0, 2.5]
    several = TextClassification(class_weights="balanced", labels="multi")
    flags = np.asarray([[1, 0], [1, 0], [1, 1], [0, 0]])
    torch.testing.assert_close(class_weights(several, names, flags), torch.tensor([1 / 3, 3.0]))
    always = np.array([[1, 0]] * 4)  # a class that all texts have is trained, one that none has counts as it is
    torch.testing.assert_close(class_weights(several, names, always), torch.tensor([1 / 4, 1.0]))
    with pytest.raises(ConfigError, match="no class 'fine'; there are: bad, good"):
        class_weights(TextClassification(class_weights=("fine=2",)), names, labels)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"class_weights": ("good",)}, "task.class_weights='good', allowed: none, balanced, or weights by name"),
        ({"class_weights": ("good=x",)}, "task.class_weights='good=x', allowed"),
        ({"class_weights": ("good=-1",)}, "task.class_weights='good=-1', allowed"),
        ({"class_weights": "balanced", "labels": "number"}, "task.class_weights with task.labels=number"),
        ({"threshold": 1.0}, "task.threshold=1.0, allowed: above 0 and below 1"),
    ],
)
def test_settings_that_cannot_be_are_told(settings, told):
    with pytest.raises(ConfigError, match=told):
        TextClassification(**settings)


def test_weights_are_read_from_the_command_line_and_from_a_list():
    from headway.config import override, parse, plain

    for given, wanted in (
        ("balanced", "balanced"), ("none", None), ("a=1,b=2", ("a=1", "b=2")), (["a=1"], ("a=1",)),
    ):  # fmt: skip
        config = override(TextClassification(), {"class_weights": given})
        assert config.class_weights == wanted
        assert parse(TextClassification, plain(config)) == config


def test_a_class_that_is_weighted_more_is_named_more(tmp_path):
    rows = [f"film,{'bad' if n % 4 else 'good'}" for n in range(40)]
    path = csv(tmp_path / "x.csv", "text,label", rows)
    shares = []
    for weights in (None, "balanced", ("good=9",)):
        task, found = prepared(path, tmp_path, task={"class_weights": weights})
        model, _ = learned(task, found, epochs=15)
        shares.append(float(task.predictions(model, CPU, "val").probabilities[0, 1]))
    assert shares[0] < 0.35 < shares[1] < 0.65 < shares[2]


# --- look and verify ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", ["single", "multi", "number"])
@pytest.mark.parametrize("encoder", ["bert", "gpt"])
def test_pairs_are_explained_and_verified(tmp_path, labels, encoder):
    from dataclasses import replace

    tokenizer = Tokenizer.train(Word(), ["one two three four five six seven"], specials=SPECIALS)
    sizes = {"vocab": tokenizer.size, "context": 24, "width": 16, "layers": 1, "heads": 2}
    made = BertConfig(**sizes, inner=16) if encoder == "bert" else GptConfig(**sizes)
    classes = () if labels == "number" else ("a", "b", "c")
    config = TextClassifierConfig(encoder=made, classes=len(classes) or 1)
    model = build_model(config)
    task = TextClassification(length=20, labels=labels)
    pipeline = pipelines.pipeline_of(task, model, tokenizer, config=config, classes=classes)
    pipeline.parts = replace(pipeline.parts, data=replace(pipeline.parts.data, text2="b"))
    line = "one two\tthree"
    explained = pipeline.explain(line)
    assert explained.given == "one two | three"
    assert len(explained.sequences["text"]["tokens"]) == 6
    torch.testing.assert_close(explained.forward(), model(*pipeline.inputs([line])))
    found = pipeline.verification([line])
    torch.testing.assert_close(
        compared(model.run(found.examples[0].inputs), found.examples[0].inputs)[:, 0], model(*pipeline.inputs([line]))
    )
    assert (found.examples[0].inputs.segments is not None) == (encoder == "bert")
    assert found.names == (None if labels == "number" else "class")
    assert {len(each.tokens) for each in pipeline.verification([]).examples} - {20}
    assert all(len(each.tokens) <= 20 for each in pipeline.verification([]).examples)
    assert pipeline.classify([line])[0].pair == ("one two", "three")
    for wrong, told in (("one", "text 2: 1 text, expected a pair"), ("one\t ", "text 2: the text is empty")):
        with pytest.raises(DataError, match=told):
            pipeline.classify([line, wrong])
