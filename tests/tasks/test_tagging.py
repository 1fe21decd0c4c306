"""Tagging: which token carries a tag, sentences that are too long, and what a tagger says."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch

from headway.cli import main
from headway.data.config import DataConfig
from headway.data.tokenizers import Bpe, Characters, Tokenizer, Word
from headway.data.words import divided
from headway.errors import ConfigError, DataError, NonFiniteOutputError
from headway.metrics.entities import Entity
from headway.models import BertConfig, TokenClassifierConfig, build_model
from headway.reliability.runs import TINY, make
from headway.tasks.tagging import Tagging
from headway.tasks.tagging.alignment import WordAligner
from headway.tasks.tagging.pipeline import TagPrediction
from headway.tasks.training_task import IGNORED
from tests.pipelines import pipeline_of, prepared

SENTENCES = [f"{name} lives in the beautiful city{n}" for n, name in enumerate(["John", "Mary", "Otto"] * 4)]
BERT = BertConfig(vocab=200, context=64, width=16, layers=1, heads=2, inner=16, pooler=False)
MODEL = TokenClassifierConfig(encoder=BERT, classes=3)


def write_conll(folder):
    lines = ["\n".join(f"{word} {'B-X' if word[0].isupper() else 'O'}" for word in each.split()) for each in SENTENCES]
    (folder / "a.conll").write_text("\n\n".join(lines) + "\n")
    return str(folder / "a.conll")


def subwords() -> Tokenizer:
    return Tokenizer.train(Bpe(vocab=45, fit=True), SENTENCES)


def test_the_first_piece_of_a_word_carries_its_tag(tmp_path):
    data = DataConfig(spec=write_conll(tmp_path), tokenizer=Bpe(vocab=45, fit=True))
    training = prepared(Tagging(), data, MODEL).training
    batch = training.batch(np.asarray([0, 1]))
    tokens, lengths = batch.inputs
    tokenizer = training.tokenizer
    for row in range(2):
        words = SENTENCES[row].split()
        pieces = [tokenizer.encode(word) for word in words]
        assert max(map(len, pieces)) > 1
        expected = [IGNORED]
        for word, piece in zip(words, pieces, strict=True):
            expected += [int(not word[0].isupper()), *[IGNORED] * (len(piece) - 1)]
        found = batch.targets[row, : lengths[row]].tolist()
        assert found == [*expected, IGNORED]
        assert tokens[row, 0] == tokenizer.start
    assert batch.count == sum(len(each.split()) for each in SENTENCES[:2]) == int((batch.targets != IGNORED).sum())


def test_a_sentence_whose_output_is_nan_is_told_by_its_number(tmp_path):
    data = DataConfig(spec=write_conll(tmp_path), tokenizer=Bpe(vocab=45, fit=True))
    training = prepared(Tagging(), data, MODEL).training
    marked = training.splits["train"].rows[1].ids

    def model(tokens, lengths):
        logits = torch.zeros(*tokens.shape, 2)
        logits[(tokens[:, : len(marked)] == torch.from_numpy(marked)).all(1)] = torch.nan
        return logits

    with pytest.raises(NonFiniteOutputError, match="sentence 2: the model's output is NaN"):
        training.evaluate(model, torch.device("cpu"), "train")


@pytest.mark.parametrize("length", [3, 5, 9, 40])
def test_a_long_sentence_is_divided_at_words_and_none_is_lost(length):
    aligner = WordAligner(subwords(), Bpe(), length)
    sentences = [each.split() for each in SENTENCES]
    seen = {number: [] for number in range(len(sentences))}
    for row in aligner.rows(sentences):
        assert len(row.ids) <= length
        assert row.first == len(seen[row.sentence])
        seen[row.sentence] += row.begins.tolist()
        for place, begin in enumerate(row.begins.tolist()):
            word = sentences[row.sentence][row.first + place]
            assert row.ids[begin] == aligner.tokenizer.encode(word)[0]
    assert [len(places) for places in seen.values()] == [len(words) for words in sentences]


def test_characters_of_a_vocabulary_without_a_space_are_words():
    aligner = WordAligner(Tokenizer.train(Characters(), ["ACDE"]), Characters(), 8)
    (row,) = aligner.rows([["A", "C", "D"]])
    assert row.begins.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("punctuation", ["John's", "cat", ",", "3.5", "well-known", "!"]),
        ("spaces", ["John's", "cat,", "3.5", "well-known!"]),
        ("characters", list("John'scat,3.5well-known!")),
    ],
)
def test_a_text_is_divided_into_words(how, words):
    assert divided("John's cat, 3.5 well-known!", how) == words


def tagger(task: Tagging | None = None, classes: tuple[str, ...] = ("B-X", "I-X", "O")):
    return pipeline_of(task or Tagging(), build_model(MODEL, seed=3), subwords(), classes=classes)


def test_a_text_is_tagged_alike_alone_and_among_others_and_as_words():
    pipeline = tagger()
    together = pipeline.tag([*SENTENCES, "John"])
    for text, found in zip(SENTENCES, together, strict=False):
        alone = pipeline.tag([text.split()])[0]
        assert alone.tags == found.tags
        assert alone.probabilities == pytest.approx(found.probabilities, abs=1e-5)
        assert len(found.tags) == len(found.words) == len(text.split())


def test_probabilities_are_those_of_the_models_softmax_on_first_pieces():
    pipeline = tagger()
    found = pipeline.tag([SENTENCES[0]])[0]
    row = next(pipeline.aligner.rows([SENTENCES[0].split()]))
    with torch.no_grad():
        shares = pipeline.model(torch.from_numpy(row.ids)[None]).softmax(-1)[0, row.begins]
    assert found.probabilities == pytest.approx(shares.max(-1).values.tolist(), abs=1e-6)
    assert found.tags == [pipeline.classes[n] for n in shares.argmax(-1).tolist()]


def test_entities_are_grouped_and_plain_tags_are_not():
    marked = TagPrediction(["the", "old", "cat"], ["B-X", "I-X", "O"], [1.0] * 3, [Entity("X", 0, 2)])
    assert str(marked) == "[X the old] cat"
    assert marked.to_json()["entities"] == [{"type": "X", "start": 0, "stop": 2, "text": "the old"}]
    assert str(TagPrediction(["the", "cat"], ["D", "N"], [1.0] * 2, None)) == "the/D cat/N"
    assert tagger(classes=("D", "N", "V")).tag(["the cat"])[0].entities is None
    assert tagger(Tagging(scheme="plain")).tag(["the cat"])[0].entities is None


@pytest.mark.parametrize("text", ["", "  ", [], ["a", " "]])
def test_a_text_without_words_is_told(text):
    with pytest.raises(DataError, match="a text without words"):
        tagger().tag([text])


def test_a_tag_that_only_held_out_sentences_have_is_one_of_the_run_and_told(tmp_path):
    for name, tag in (("train", "O"), ("val", "B-X"), ("test", "B-Y")):
        (tmp_path / f"{name}.conll").write_text(f"a O\n\nb {tag}\n")
    notes: list[str] = []
    data = DataConfig(spec=str(tmp_path), tokenizer=Word())
    made = prepared(Tagging(), data, MODEL, note=notes.append)
    assert made.classes == ("B-X", "B-Y", "O")
    assert notes == ["2 tags (B-X, B-Y) are in val, test and not in train: measured there, but never learned"]
    (tmp_path / "test.conll").unlink()
    assert prepared(Tagging(), data, MODEL, note=notes.append).classes == ("B-X", "O")
    assert notes[1:] == ["the tag 'B-X' is in val and not in train: measured there, but never learned"]


def test_a_tag_in_the_last_tenth_alone_does_not_stop_training_and_other_data_has_the_run_s_tags(tmp_path, capsys):
    sizes = {key: str(value) for key, value in TINY["tagging"].changes.items()}
    options = [word for key, value in sizes.items() for word in (f"--{key}", value)]
    (tmp_path / "names.conll").write_text("Anna B-PER\nsees O\n\n" * 19 + "Rome B-LOC\n\n")
    short = ["--train.steps", "2", "--train.evaluate_every", "2", "--train.save_every", "2", "--train.device", "cpu"]
    words = ["train", "bert-tagger", "--data", str(tmp_path / "names.conll"), "--out", str(tmp_path / "run")]
    assert main([*words, *options, *short, "--data.cache", str(tmp_path / "cache")]) == 0
    assert "the tag 'B-LOC' is in val and not in train" in capsys.readouterr().err
    assert main(["evaluate", str(tmp_path / "run"), "--json", "--device", "cpu"]) == 0
    assert json.loads(capsys.readouterr().out)["words"] == 3
    (tmp_path / "other.conll").write_text("Anna B-PER\nsees O\n\nMonday B-DAY\n\n")
    assert main(["evaluate", str(tmp_path / "run"), "--data", str(tmp_path / "other.conll"), "--device", "cpu"]) == 3
    said = capsys.readouterr().err
    assert "other.conll: line 4: the tag 'B-DAY' is not one of the run's (B-LOC, B-PER, O)" in said
    assert said.count("\n") == 1


def test_the_settings_of_a_task_are_checked():
    with pytest.raises(ConfigError, match=r"task\.length=2, allowed: whole numbers from 3"):
        Tagging(length=2)
    with pytest.raises(ConfigError, match="allowed for a tagger: token-classifier"):
        Tagging().check_model(BERT)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    desk = tmp_path_factory.mktemp("tagger")
    with TINY["tagging"].short():
        return make(TINY["tagging"], desk / "run", desk / "cache")


def test_the_command_prints_a_line_a_text_columns_or_json(run, capsys):
    texts = ["the animal did not cross", "the street"]
    command = ["tag", str(run), *texts, "--device", "cpu"]
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [re.sub(r"\[ANTECEDENT |\]", "", line) for line in lines] == texts
    assert main([*command, "--columns"]) == 0
    rows = capsys.readouterr().out.split("\n")
    assert [row.split("\t")[0] for row in rows] == [*texts[0].split(), "", *texts[1].split(), "", ""]
    assert main([*command, "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["words"] for each in found] == [text.split() for text in texts]
    assert main([*command, "--json", "--columns"]) == 2
    assert "choose one" in capsys.readouterr().err


def test_the_name_of_a_file_is_told(run, tmp_path, capsys):
    (tmp_path / "texts.txt").write_text("it\n")
    assert main(["tag", str(run), str(tmp_path / "texts.txt"), "--device", "cpu"]) == 0
    assert "texts.txt is a file, and its name is taken for the text; pass <" in capsys.readouterr().err


def test_an_empty_line_of_stdin_stays_empty(run, capsys, monkeypatch):
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("the street\n\nthe animal\n"))
    assert main(["tag", str(run), "--device", "cpu", "--columns"]) == 0
    assert [row.split("\t")[0] for row in capsys.readouterr().out.splitlines()] == [
        "the", "street", "", "", "the", "animal", "",
    ]  # fmt: skip


@pytest.mark.slow  # 500 steps, half a minute of one core
def test_the_preset_learns_what_it_refers_to(tmp_path):
    import headway
    from headway.presets import preset
    from headway.runs.train import train_run

    train_run(preset("bert-tagger").recipe(), tmp_path / "run")
    run = headway.load(tmp_path / "run", device="cpu")
    assert run.evaluate().values["f1"] >= 0.98
    for word, noun in (("tired", "animal"), ("wide", "street")):
        found = run.tag([f"the animal did not cross the street because it was too {word}"])[0]
        assert [found.words[each.stop - 1] for each in found.entities] == [noun]
