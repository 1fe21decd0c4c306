"""Runs whose models have a head: exported, loaded by transformers, imported again, with the same answers."""

from __future__ import annotations

import json
import shlex

import pytest
import torch
from sentence_transformers import CrossEncoder

import headway
from headway.cli import main
from headway.data.questions import Question
from headway.errors import DataError
from tests.interop.peers import BERT, CONTEXT, hf, unsettle
from tests.interop.test_family_folders import roberta_tokenizer

OFFSET = {**BERT, "max_position_embeddings": CONTEXT + 2, "pad_token_id": 1}

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


PAIRS = [("the dog sees", "a dog"), ("on the lake", "the dogs see the lake on the hill"), ("dog", "lake")]


def roberta(folder, kind, *, slow):
    """A tiny RoBERTa of transformers in a folder, with a tokenizer.json or with the older vocab.json and merges.txt."""
    tokenizer = roberta_tokenizer()
    config = hf.RobertaConfig(**{**OFFSET, "vocab_size": len(tokenizer), "type_vocab_size": 1, "num_labels": 3})
    if kind == "RobertaForQuestionAnswering":
        config.num_labels = 2
    torch.manual_seed(0)
    model = getattr(hf, kind)(config).eval()
    unsettle(model, 0.2)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if slow:
        content = json.loads((folder / "tokenizer.json").read_text())
        (folder / "tokenizer.json").unlink()
        (folder / "vocab.json").write_text(json.dumps(content["model"]["vocab"]))
        merges = [" ".join(pair) for pair in content["model"]["merges"]]
        (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    return model, tokenizer


@pytest.mark.parametrize("slow", [False, True])
def test_an_imported_roberta_reads_pairs_as_transformers_does(tmp_path, slow):
    theirs, encode = roberta(tmp_path / "hf", "RobertaForSequenceClassification", slow=slow)
    assert main(["import", str(tmp_path / "hf"), "--pairs", "--out", str(tmp_path / "run")]) == 0
    run = headway.load(tmp_path / "run", device="cpu")
    lines = ["\t".join(pair) for pair in PAIRS]
    known = [encode(*pair)["input_ids"] for pair in PAIRS]
    stop = encode.sep_token_id
    assert all(ids.count(stop) == 3 for ids in known)  # </s></s> between the texts, </s> at the end
    assert run.pipeline.encoded(lines)[0] == known
    with pytest.raises(DataError, match="1 text, expected a pair"):
        run.classify(["the dog"])
    for line, ids, found in zip(lines, known, run.classify(lines, top=3), strict=True):
        with torch.no_grad():
            shares = theirs(input_ids=torch.tensor([ids])).logits.softmax(-1)[0].tolist()
        names = dict(zip(run.config.data.classes, shares, strict=True))
        assert dict(found.top) == pytest.approx(names, abs=1e-5)
        assert "\t".join(found.pair) == line
    assert run.export(tmp_path / "again").holds
    again = hf.AutoTokenizer.from_pretrained(tmp_path / "again")
    assert [again(*pair)["input_ids"] for pair in PAIRS] == known


def test_a_tab_is_white_space_for_an_imported_classifier_of_single_texts(tmp_path, capsys):
    theirs, encode = roberta(tmp_path / "hf", "RobertaForSequenceClassification", slow=False)
    assert main(["import", str(tmp_path / "hf"), "--out", str(tmp_path / "run")]) == 0
    assert "note: reads one text at a time; if it was trained on pairs of texts, import it with --pairs" in (
        capsys.readouterr().err
    )
    run = headway.load(tmp_path / "run", device="cpu")
    line = "the dog sees\ta lake"
    assert run.pipeline.encoded([line])[0] == [encode(line)["input_ids"]]
    (found,) = run.classify([line], top=3)
    with torch.no_grad():
        shares = theirs(**encode(line, return_tensors="pt")).logits.softmax(-1)[0].tolist()
    assert dict(found.top) == pytest.approx(dict(zip(run.config.data.classes, shares, strict=True)), abs=1e-5)
    assert found.pair is None


@pytest.mark.parametrize(
    ("shown", "pairs"),
    [
        ({}, False),
        ({"id2label": {0: "NEGATIVE", 1: "POSITIVE", 2: "NEUTRAL"}}, False),
        ({"id2label": {0: "Contradiction", 1: "Neutral", 2: "ENTAILMENT"}}, True),
        ({"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity", "version": "4.1.0"}}, True),
        ({"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}, True),
    ],
)
def test_the_config_of_a_folder_can_show_that_a_classifier_reads_pairs(tmp_path, capsys, shown, pairs):
    roberta(tmp_path / "hf", "RobertaForSequenceClassification", slow=False)
    config = json.loads((tmp_path / "hf/config.json").read_text()) | shown
    (tmp_path / "hf/config.json").write_text(json.dumps(config))
    for more, expected in ((), pairs), (("--pairs",), True), (("--no-pairs",), False):
        out = tmp_path / "-".join(["run", *more])
        assert main(["import", str(tmp_path / "hf"), *more, "--out", str(out)]) == 0
        assert ("note: reads " in capsys.readouterr().err) == (not more)
        assert headway.load(out, device="cpu").pipeline.reads_pairs == expected


def test_only_a_classifier_of_texts_is_imported_with_pairs(tmp_path, capsys):
    roberta(tmp_path / "hf", "RobertaForQuestionAnswering", slow=False)
    assert main(["import", str(tmp_path / "hf"), "--pairs", "--out", str(tmp_path / "run")]) == 2
    assert "--pairs is for classifiers of texts" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_other_pairs_are_evaluated_by_the_names_of_their_columns(tmp_path, capsys):
    roberta(tmp_path / "hf", "RobertaForSequenceClassification", slow=False)
    assert main(["import", str(tmp_path / "hf"), "--pairs", "--out", str(tmp_path / "run")]) == 0
    rows = [f"{one},{two},LABEL_{n % 3}" for n, (one, two) in enumerate(PAIRS * 2)]
    (tmp_path / "pairs.csv").write_text("\n".join(["premise,hypothesis,gold", *rows]) + "\n")
    evaluate = ["evaluate", str(tmp_path / "run"), "--data", str(tmp_path / "pairs.csv"), "--device", "cpu", "--json"]
    named = ["--text", "premise", "--text2", "hypothesis", "--label", "gold"]
    capsys.readouterr()
    assert main(evaluate) != 0
    assert "--text COLUMN --text2 COLUMN --label COLUMN" in capsys.readouterr().err
    assert main([*evaluate, *named]) == 0
    accuracy = json.loads(capsys.readouterr().out)["accuracy"]
    said = headway.load(tmp_path / "run", device="cpu").classify(["\t".join(pair) for pair in PAIRS * 2], top=1)
    right = [each.top[0][0] == f"LABEL_{n % 3}" for n, each in enumerate(said)]
    assert accuracy == pytest.approx(sum(right) / len(right))


def test_an_imported_roberta_reads_questions_as_transformers_does(tmp_path):
    theirs, encode = roberta(tmp_path / "hf", "RobertaForQuestionAnswering", slow=False)
    assert main(["import", str(tmp_path / "hf"), "--out", str(tmp_path / "run")]) == 0
    pipeline = headway.load(tmp_path / "run", device="cpu").pipeline
    for question, context in PAIRS:
        (window,) = pipeline.reader.windows(0, Question("", question, context))
        ids = encode(question, context)["input_ids"]
        assert window.ids.tolist() == ids
        with torch.no_grad():
            found = theirs(input_ids=torch.tensor([ids]))
            expected = torch.stack([found.start_logits, found.end_logits], -1)
            ours = pipeline.model(torch.tensor([ids]))
        torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)
        inside = ids[window.context]
        assert encode.decode(inside).strip() == context


def test_a_bert_that_is_imported_has_one_separator_and_two_segments(tmp_path):
    rows = ["a good film,good film,yes", "a bad film,good day,no"] * 6
    (tmp_path / "pairs.csv").write_text("\n".join(["premise,hypothesis,label", *rows]) + "\n")
    columns = ["--data.text", "premise", "--data.text2", "hypothesis"]
    run = headway.load(train(tmp_path, "bert-classifier", tmp_path / "pairs.csv", *columns), device="cpu")
    assert run.export(tmp_path / "hf").holds
    assert main(["import", str(tmp_path / "hf"), "--out", str(tmp_path / "again")]) == 0
    again = headway.load(tmp_path / "again", device="cpu")
    assert again.pipeline.reads_pairs
    peer = CrossEncoder(str(tmp_path / "hf"), device="cpu")
    assert isinstance(peer.activation_fn, torch.nn.Identity)
    lines = ["a good film\tgood day", "a bad film\tgood"]
    scores = torch.from_numpy(peer.predict([tuple(line.split("\t")) for line in lines], show_progress_bar=False))
    torch.testing.assert_close(run.pipeline.model(*run.pipeline.inputs(lines)), scores, atol=1e-5, rtol=1e-5)
    encode = hf.AutoTokenizer.from_pretrained(tmp_path / "hf")
    known = [encode(*line.split("\t")) for line in lines]
    assert again.pipeline.encoded(lines) == run.pipeline.encoded(lines)
    assert again.pipeline.encoded(lines)[0] == [each["input_ids"] for each in known]
    assert again.pipeline.encoded(lines)[1] == [each["token_type_ids"] for each in known]
    for one, other in zip(again.classify(lines), run.classify(lines), strict=True):
        assert dict(one.top) == pytest.approx(dict(other.top), abs=1e-5)
