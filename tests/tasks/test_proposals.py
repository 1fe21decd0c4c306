"""What is proposed for a data set: recognised by its signs, by the task itself, or a line that says what to do."""

from __future__ import annotations

import gzip
import json
import random
import re
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from headway.data.config import DataConfig
from headway.data.image_files import find_splits
from headway.data.labelled_text import load_labelled_texts
from headway.data.text_files import load_text
from headway.errors import ConfigError, DataError
from headway.presets import preset
from headway.presets.propose import fitted_recipe
from headway.tasks.proposal import recognise
from headway.tasks.registry import TASKS
from tests.sounds import write_wav

GOOD, BAD = ("great", "wonderful", "lovely", "brilliant"), ("awful", "boring", "terrible", "dull")


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def corpus(folder: Path, *names: str) -> Path:
    for name in names:
        write(folder / name, "".join(f"line {n} of a text\n" for n in range(20)))
    return folder


def review(n: int) -> tuple[str, str]:
    words = random.Random(n)
    kind = n % 2
    return f"the film is {words.choice((BAD, GOOD)[kind])}, number {n}", ("neg", "pos")[kind]


def reviews(path: Path, header: str = "review,sentiment", count: int = 60) -> Path:
    rows = "".join(f'"{text}",{label}\n' for text, label in map(review, range(count)))
    return write(path, f"{header}\n{rows}" if header else rows)


def photos(folder: Path, *, side: tuple[int, int] = (90, 70), classes: tuple[str, ...] = ("cat", "dog")) -> Path:
    for name in classes:
        for n in range(4):
            (folder / name).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", side, (n * 40, 10, 10)).save(folder / name / f"{n}.png")
    return folder


def idx(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name, shape in (("images-idx3", (6, 28, 28)), ("labels-idx1", (6,))):
        head = bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape)
        (folder / f"train-{name}-ubyte").write_bytes(head + bytes(int(np.prod(shape))))
    return folder


def line(call, *arguments) -> str:
    with pytest.raises(DataError) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def settings(spec, name=None, **given):
    changes = {"data.spec": str(spec), **{key.replace("__", "."): value for key, value in given.items()}}
    return fitted_recipe(name, changes)


def settings_of_source(folder, source):
    return settings(folder, "transformer-tiny", data__source=source)


@pytest.mark.parametrize(
    ("names", "pair"),
    [
        (("train.en", "train.de"), ("en", "de")),
        (("train.fr", "train.de", "val.fr", "val.de", "test.fr"), ("de", "fr")),
        (("train.src.gz", "train.tgt.gz"), ("src", "tgt")),
    ],
)
def test_languages_come_from_the_names_of_the_training_files(tmp_path, names, pair):
    """TRIALS B friction 4: `--data DIR` without languages complained about `train.fr`."""
    folder = corpus(tmp_path / "corpus", *names)
    for name in (None, "transformer-tiny", "transformer-base"):
        found = settings(folder, name)
        assert (found.config.data.source, found.config.data.target) == pair
        (note,) = found.notes
        assert f"from {pair[0]} to {pair[1]}" in note
        assert f"--source {pair[1]} --target {pair[0]} turns it around" in note
    assert recognise(str(folder)).preset == "transformer-tiny"


def test_a_language_that_is_named_decides_the_other(tmp_path):
    folder = corpus(tmp_path, "train.en", "train.de")
    for given in ({"data__source": "de"}, {"data__target": "en"}, {"data__source": "de", "data__target": "en"}):
        found = settings(folder, "transformer-tiny", **given)
        assert (found.config.data.source, found.config.data.target) == ("de", "en")
        assert not found.notes


def test_of_three_languages_two_are_to_be_named(tmp_path):
    folder = corpus(tmp_path / "c", "train.en", "train.de", "train.cs.gz")
    told = "training files in 3 languages (cs, de, en): name two, such as --source en --target cs"
    assert told in line(recognise, str(folder))
    assert told in line(settings, folder, "transformer-tiny")
    assert "name two, such as --source de --target en" in line(settings_of_source, folder, "de")
    found = settings(folder, data__source="cs", data__target="en")
    assert (found.config.data.source, found.config.data.target) == ("cs", "en")


@pytest.mark.parametrize(
    ("header", "text", "label"),
    [("review,sentiment", "review", "sentiment"), ("Text,LABEL", "Text", "LABEL"), ("a,b", "a", "b"), ("", "1", "2")],
)
def test_a_table_of_texts_and_classes(tmp_path, header, text, label):
    """TRIALS B bug 10: CSV was refused as parallel text that it was not."""
    path = reviews(tmp_path / "reviews.csv", header)
    for name in (None, "bert-classifier", "longformer-needle"):
        found = settings(path, name)
        assert found.preset == (name or "bert-classifier")
        assert (found.config.data.text, found.config.data.label) == (text, label)
    found = settings(path)
    assert found.config.train.batch_tokens == 2048  # TRIALS B: 65,536 words a step are nine steps in 150 s
    assert found.config.task.length == 32
    assert "neg, pos" in found.found
    assert "60 rows" in found.found


@pytest.mark.parametrize("suffix", [".tsv", ".jsonl", ".parquet", ".csv.gz"])
def test_every_kind_of_table_is_recognised(tmp_path, suffix):
    path = tmp_path / f"reviews{suffix}"
    rows = [{"id": n, "label": n % 2, "text": review(n)[0]} for n in range(40)]
    if suffix == ".jsonl":
        write(path, "".join(json.dumps(row) + "\n" for row in rows))
    elif suffix == ".parquet":
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.Table.from_pylist(rows), path)
    else:
        tab = "\t" if suffix == ".tsv" else ";"
        write(path, f"id{tab}label{tab}text\n" + "".join(f"{tab.join(map(str, row.values()))}\n" for row in rows))
    found = settings(path)
    assert (found.preset, found.config.data.text, found.config.data.label) == ("bert-classifier", "text", "label")
    folder = tmp_path / "folder"
    folder.mkdir()
    path.rename(folder / f"train{suffix}")
    assert settings(folder).preset == "bert-classifier"


def test_unnamed_columns_of_tsv_keep_the_order_that_is_read_without_names(tmp_path):
    rows = [review(n) for n in range(40)]
    path = write(tmp_path / "x.tsv", "".join(f"{label}\t{text}\n" for text, label in rows))
    assert "data.text" not in settings(path, "longformer-needle").settings
    path = write(tmp_path / "y.tsv", "".join(f"{text}\t{label}\n" for text, label in rows))
    data = settings(path, "longformer-needle").config.data
    assert (data.text, data.label) == ("1", "2")


def test_where_several_columns_could_be_the_classes_they_are_named(tmp_path):
    rows = "".join(f"{review(n)[0]};{n % 2};{n % 3}\n" for n in range(40))
    path = write(tmp_path / "x.csv", "what;first;second\n" + rows)
    told = line(settings, path, "longformer-needle")
    assert "which column is the class? first, second could be; name it with --data.label" in told
    found = settings(path, "longformer-needle", data__label="second")
    assert found.config.data.text == "what"


@pytest.mark.parametrize("header", ["en,de", "source,target", "question,answer", "x1,x2"])
def test_a_table_of_pairs(tmp_path, header):
    rows = "".join(f"this is line {n} here,das ist Zeile {n} hier\n" for n in range(30))
    found = settings(write(tmp_path / "pairs.csv", f"{header}\n{rows}"))
    assert found.preset == "transformer-tiny"
    assert [found.config.data.source, found.config.data.target] == header.split(",")
    assert "in the order of the columns" in found.notes[0]


def test_a_table_with_more_texts_than_two_is_not_guessed(tmp_path):
    rows = "".join(f"this is {n},das ist {n},voici le {n}\n" for n in range(30))
    path = write(tmp_path / "x.csv", f"en,de,fr\n{rows}")
    assert "en, de, fr could be; name it with --source and --target" in line(settings, path, "transformer-tiny")


def test_the_text_of_a_table_for_a_language_model(tmp_path):
    rows = "".join(f'{n},"it was line {n}, and so on"\n' for n in range(30))
    path = write(tmp_path / "x.csv", f"id,story\n{rows}")
    for name in (None, "gpt-char", "bert-base"):
        found = settings(path, name)
        assert found.config.data.text == "story"
        assert found.notes == ("a table: its text is column story (--data.text chooses another)",)
    assert settings(path).preset == "gpt-char"
    two = write(tmp_path / "y.csv", "a,b\n" + "".join(f"one text {n},another text {n}\n" for n in range(30)))
    told = line(settings, two, "bert-base")
    assert "a table with the columns a, b: name the one with the text by --data.text" in told
    assert settings(two, "bert-base", data__text="b").config.data.text == "b"


def test_plain_text_by_characters_or_by_bytes(tmp_path):
    book = write(tmp_path / "book.txt", "It was the best of times.\n" * 100)
    assert settings(book).preset == "gpt-char"
    assert not settings(book).settings
    odd = write(tmp_path / "odd.md", "It was the best of times.\n" * 100 + "č")
    assert settings(odd).config.data.tokenizer.vocab == 1000
    large = write(tmp_path / "large.txt", "It was the best of times.\n" * 100_000)
    assert settings(large).config.data.tokenizer.vocab == 4000
    assert settings(large).config.data.tokenizer.fit
    folder = corpus(tmp_path / "books", "a.txt", "b.txt")
    assert "2 files of text" in settings(folder).found


@pytest.mark.parametrize(("side", "size"), [((20, 24), 32), ((40, 60), 48), ((640, 480), 64)])
def test_class_folders_of_images_and_their_size(tmp_path, side, size):
    found = settings(photos(tmp_path / "photos", side=side))
    assert found.preset == "sl-vit-tiny"
    assert (found.config.task.size, found.config.model.image) == (size, size)
    found.config.task.check_model(found.config.model)
    assert "2 class folders (cat/, dog/) with 8 images" in found.found
    assert found.config.train.steps == 300
    photos(tmp_path / "splits" / "train", side=side)
    photos(tmp_path / "splits" / "val", side=side)
    assert settings(tmp_path / "splits").config.task.size == size


def test_idx_sounds_captions_and_keypoints(tmp_path):
    digits = settings(idx(tmp_path / "mnist"))
    assert digits.preset == "sl-vit-tiny"
    assert not digits.config.task.augment.flip
    for name in ("low", "high"):
        (tmp_path / "sounds" / name).mkdir(parents=True)
        write_wav(tmp_path / "sounds" / name / "a.wav", np.zeros(800, np.float32), 8000)
    assert settings(tmp_path / "sounds").preset == "audio-vit"
    photos(tmp_path / "flickr", classes=("images",))
    write(tmp_path / "flickr" / "captions.txt", "image,caption\n0.png,a red square\n")
    assert settings(tmp_path / "flickr").preset == "captioner-vit"
    write(tmp_path / "coco" / "train.json", json.dumps({"images": [], "annotations": [{"keypoints": []}]}))
    assert settings(tmp_path / "coco").preset == "pose"
    write(tmp_path / "boxes" / "train.json", json.dumps({"images": [], "annotations": [{"bbox": []}]}))
    assert settings(tmp_path / "boxes").preset == "detr-shapes"


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("phrases", "transformer-tiny"), ("pydocs", "gpt-char"), ("shapes", "sl-vit-tiny"), ("tones", "audio-vit"),
        ("figures", "pose"), ("needle", "longformer-needle"),
    ],
)  # fmt: skip
def test_built_in_sets_by_their_kind(name, chosen):
    assert recognise(name).preset == chosen


def test_what_is_not_recognised_is_shown_with_the_forms_there_are(tmp_path):
    (tmp_path / "one" / "inner").mkdir(parents=True)
    (tmp_path / "one" / "paper.pdf").write_bytes(b"%PDF\0\xff")
    told = line(recognise, str(tmp_path / "one"))
    assert "holds inner/, paper.pdf: not recognised as data to train on; .pdf is a document: save it as plain" in told
    assert "is a file: not recognised" in line(recognise, str(tmp_path / "one" / "paper.pdf"))
    assert "no such file, folder or built-in set" in line(recognise, str(tmp_path / "nowhere"))
    (tmp_path / "empty").mkdir()
    assert "holds nothing" in line(recognise, str(tmp_path / "empty"))


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("sales.xlsx", ".xlsx is a spreadsheet: save it as CSV in UTF-8; `headway help train` names"),
        ("letter.RTF", ".rtf is a document: save it as plain text"),  # its bytes are ASCII: it was a text to model
        ("photos.zip", ".zip is an archive: unpack it"),
        ("model.gguf", ".gguf is a model, not data: `headway import` reads"),
        ("x.dat", "train on; `headway help train` names the forms"),
    ],
)
def test_a_file_of_another_format_gets_its_next_step(tmp_path, name, step):
    (tmp_path / name).write_bytes(b"{a}\n" if name.endswith("RTF") else b"PK\0\xff")
    assert step in line(recognise, str(tmp_path / name))


def test_a_folder_of_images_without_classes_gets_its_next_step(tmp_path):
    photos(tmp_path / "flat", classes=(".",))
    assert "without classes: put them into a folder for each class (flat/cats, flat/dogs)" in line(
        recognise, str(tmp_path / "flat")
    )
    for name in ("a", "b"):
        write(tmp_path / "phone" / name / "1.HEIC", "x")
    assert ".heic is an image in a format that is not read: convert" in line(recognise, str(tmp_path / "phone"))


def test_class_folders_in_the_only_folder_of_a_folder_are_named(tmp_path):
    """As an archive unpacks: photos/photos/cat. It was one class, without a word on where the classes are."""
    photos(tmp_path / "photos" / "photos")
    inner = tmp_path / "photos" / "photos"
    told = line(recognise, str(tmp_path / "photos"))
    assert f"1 class (photos), expected at least 2; {inner} holds 2 folders (cat, dog): --data {inner}" in told
    assert recognise(str(inner)).preset == "sl-vit-tiny"
    photos(tmp_path / "one", classes=("cat",))
    assert line(recognise, str(tmp_path / "one")).endswith("1 class (cat), expected at least 2")


def test_class_folders_are_images_whatever_lies_beside_them(tmp_path):
    """One empty folder made a folder of photos with a README a text to model."""
    photos(tmp_path)
    write(tmp_path / "README.txt", "My photos of this summer. " * 9)
    assert recognise(str(tmp_path)).preset == "sl-vit-tiny"
    (tmp_path / "empty").mkdir()
    assert recognise(str(tmp_path)).preset == "sl-vit-tiny"
    with pytest.raises(DataError, match=r"empty: no image .*put images of it there, or remove the folder"):
        find_splits(tmp_path, ())
    write(tmp_path / "train.json", json.dumps({"images": [], "annotations": [{"bbox": []}]}))
    assert recognise(str(tmp_path)).preset == "detr-shapes"  # the folder's own form is surer


def test_what_the_user_sets_is_not_proposed(tmp_path):
    path = reviews(tmp_path / "x.csv")
    found = settings(path, train__schedule="constant", data__tokenizer="characters", train__steps="7")
    assert found.config.train.steps == 7
    assert not {"train.schedule.warmup", "data.tokenizer.lower", "train.steps"} & found.spelled_out().keys()


def test_a_vocabulary_may_be_smaller_unless_its_size_is_set(tmp_path):
    folder = corpus(tmp_path, "train.en", "train.de")
    assert preset("transformer-tiny").recipe().data.tokenizer.fit
    assert settings(folder, "transformer-tiny").config.data.tokenizer.fit
    assert not settings(folder, "transformer-tiny", data__tokenizer__vocab="50").config.data.tokenizer.fit
    assert settings(folder, "rnn-seq2seq", data__tokenizer="unigram").config.data.tokenizer.fit
    both = {"data__tokenizer__vocab": "50", "data__tokenizer__fit": "true"}
    assert settings(folder, "transformer-tiny", **both).config.data.tokenizer.fit


def test_each_task_says_nothing_of_what_is_not_its_own(tmp_path):
    (tmp_path / "x.pdf").write_bytes(b"\0\xff")
    for name in TASKS:
        assert TASKS[name].recognise(str(tmp_path / "x.pdf"), {}) is None
        assert not TASKS[name].reading(str(tmp_path / "x.pdf"), {}).settings


def test_damaged_data_is_a_line_as_well(tmp_path):
    for name, content in (("a.csv", b'text,label\n"a'), ("b.jsonl", b"{"), ("c.parquet", b"PAR1"), ("d.csv", b"")):
        (tmp_path / name).write_bytes(content)
        assert name in line(recognise, str(tmp_path / name))


def test_a_large_folder_of_something_else_is_not_searched_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr("headway.data.image_survey.FIRST_FILES", 5)
    for name in ("a", "b"):
        for n in range(10):
            write(tmp_path / name / f"{n}.dat", "")
        write(tmp_path / name / "x" / "z.png", "")
    monkeypatch.setattr(Path, "rglob", lambda folder, _: (each for each in sorted(folder.iterdir())))
    assert "not recognised as data" in line(recognise, str(tmp_path))


def test_a_plugin_that_cannot_be_loaded_does_not_stop_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(TASKS, "homes", {"broken": "no.such:Task", **TASKS.homes})
    monkeypatch.setattr(type(TASKS), "__getitem__", broken_first(type(TASKS).__getitem__))
    assert recognise(str(reviews(tmp_path / "x.csv"))).preset == "bert-classifier"


def broken_first(found):
    def get(registry, name):
        if name == "broken":
            raise ConfigError("plugin 'broken' cannot be loaded")
        return found(registry, name)

    return get


# --- tags and questions ----------------------------------------------------------------------------------------------

TAGGED = "John B-PER\nsleeps O\n\nVienna B-LOC\nis O\nold O\n\n" * 3
SQUAD = {"data": [{"paragraphs": [{"context": "a b", "qas": [{"id": "1", "question": "c", "answers": []}]}]}]}


@pytest.mark.parametrize(
    ("name", "text", "sign"),
    [
        ("names.conll", TAGGED, r"the ending \.conll of names\.conll"),
        ("names.conllu", "1\ta\ta\tDET\n\n", r"the ending \.conllu"),
        ("names.bio", TAGGED, r"the ending \.bio"),
        ("names.txt", TAGGED, r"the columns of names\.txt, of which the last has tags"),
        ("names.tsv", TAGGED.replace(" ", "\t"), r"the columns of names\.tsv"),
        ("names.jsonl", '{"tokens": ["a"], "ner_tags": ["O"]}\n' * 3, "the lists tokens and ner_tags"),
        ("a.jsonl", '{"text": "a", "label": []}\n{"text": "a", "label": [[0, 1, "X"]]}\n' * 2, "the spans in label"),
    ],
)
def test_tagged_sentences_are_recognised(tmp_path, name, text, sign):
    found = fitted_recipe(None, {"data.spec": str(write(tmp_path / name, text))})
    assert found.preset == "bert-tagger"
    assert "sentences with tags" in found.found
    assert re.search(sign, found.found)
    assert found.config.data.tokenizer.fit


@pytest.mark.parametrize("folder", [False, True])
def test_questions_with_answers_are_recognised(tmp_path, folder):
    path = write(tmp_path / "squad" / "train-v2.0.json", json.dumps(SQUAD))
    found = fitted_recipe(None, {"data.spec": str(path.parent if folder else path)})
    assert found.preset == "bert-reader"
    assert "questions with answers" in found.found
    row = json.dumps({"context": "a b", "question": "c", "answers": {"text": [], "answer_start": []}})
    assert recognise(str(write(tmp_path / "flat.jsonl", f"{row}\n" * 3))).preset == "bert-reader"


def test_built_in_sets_of_tags_and_questions_are_recognised():
    assert recognise("coreference").preset == "bert-tagger"
    assert fitted_recipe(None, {"data.spec": "protein"}).config.task.words == "characters"
    assert recognise("relatives").preset == "bert-reader"
    assert recognise("coreference-choice").preset == "bert-choice"


def test_a_poem_and_other_json_are_neither_tags_nor_questions(tmp_path):
    poem = write(tmp_path / "poem.txt", "two words\nper line\n\nand more\nof them\n" * 20)
    assert recognise(str(poem)).preset == "gpt-char"
    with pytest.raises(DataError, match=r"\.json is a document: a text ends with \.txt"):
        recognise(str(write(tmp_path / "other.json", '{"data": [1]}')))


def test_unseen_words_of_reviews_are_known_by_their_subwords(tmp_path):
    """Split at spaces, 12.5 % of the tokens of a validation were unknown, "hated" and "mundane." among them."""
    found = settings(reviews(tmp_path / "x.csv"))
    assert (type(found.config.data.tokenizer).__name__, found.config.data.tokenizer.fit) == ("Bpe", True)
    data = replace(found.config.data, cache=str(tmp_path / "cache"))
    tokenizer = load_labelled_texts(data, None, room=32).tokenizer
    assert tokenizer.decode(tokenizer.encode("numbers,")) == "numbers,"


def test_the_class_is_asked_for_where_several_columns_could_be_it(tmp_path):
    """It became plain text, by the column commentaire."""
    said = ("très bon produit et bien fait", "une grande déception pour moi", "à refaire sans hésiter bientôt")
    rows = [f"{n},{said[n % 3]} {n},{('bon', 'mauvais')[n % 2]},2026-0{1 + n % 3}-01" for n in range(40)]
    path = write(tmp_path / "ids.csv", "\n".join(["id,commentaire,avis,date", *rows]) + "\n")
    told = line(recognise, str(path))
    assert "which column is the class? avis, date could be; name it with --data.label" in told
    assert recognise(str(path), {"data.label": "avis"}).preset == "bert-classifier"


def test_one_class_is_one_message_whatever_the_form(tmp_path):
    """A table became a language model, its preset trained on one class, and a folder was not recognised."""
    rows = [f"a good film number {n} to see,good" for n in range(30)]
    path = write(tmp_path / "one.csv", "\n".join(["text,label", *rows]) + "\n")
    assert recognise(str(path)).preset == "bert-classifier"  # the rest of a table that is sorted may have others
    data = DataConfig(spec=str(path), text="text", label="label", cache=str(tmp_path / "cache"))
    with pytest.raises(DataError, match=r"one\.csv: 1 class \(good\), expected at least 2"):
        load_labelled_texts(data, None, room=32)
    folder = photos(tmp_path / "photos")
    for other in sorted(each for each in folder.iterdir() if each.is_dir())[1:]:
        shutil.rmtree(other)
    (left,) = [each.name for each in folder.iterdir() if each.is_dir()]
    assert line(recognise, str(folder)).endswith(f"photos: 1 class ({left}), expected at least 2")


def test_columns_named_text_and_label_are_classes_however_few_the_rows(tmp_path):
    """Four rows became a translation from text to label."""
    path = write(tmp_path / "four.csv", "text;label\na fine film;good\nnot a fine film;bad\nwell made;great\nso so;\n")
    found = recognise(str(path))
    assert (found.preset, found.found) == ("bert-classifier", "texts with classes")


def test_a_text_that_cannot_be_read_says_why(tmp_path):
    """A file in Latin-1 and an empty one were "a file: not recognised"."""
    latin = tmp_path / "latin.txt"
    latin.write_bytes("a plain line\nun café\n".encode("latin-1"))
    told = line(recognise, str(latin))
    assert "latin.txt: line 2, byte 7: invalid UTF-8 (0xE9); if it is another encoding, convert the file" in told
    assert told.endswith(", or pass --errors replace to continue")
    assert recognise(str(latin), {"data.errors": "replace"}).found == "plain text"
    assert "no text, expected at least 1 character: it is empty" in line(recognise, str(write(tmp_path / "e.txt", "")))


def test_languages_of_a_plain_text_are_refused(tmp_path):
    book = write(tmp_path / "book.txt", "It was the best of times.\n" * 50)
    with pytest.raises(DataError, match=r"--source 'en': .*book.txt is plain text, which has no source and target"):
        recognise(str(book), {"data.source": "en"})


def test_folders_are_named_where_files_are_missing(tmp_path):
    folder = photos(tmp_path / "photos")
    inside = ", ".join(sorted(f"{each.name}/" for each in folder.iterdir() if each.is_dir()))
    with pytest.raises(DataError, match=rf"no .txt or .txt.gz file; there are: {inside}"):
        load_text(folder)


@pytest.mark.parametrize(
    ("count", "sign"), [(60, "(c0, c1, c2, c3, c4, c5 and 2 more)"), (900, "(c0, c1, c2, c3, c4, c5, …)")]
)
def test_classes_are_only_counted_where_the_whole_table_was_read(tmp_path, count, sign):
    """Of 1,408 paragraphs of eleven classes, the plan named six "and 1 more": the first 200 rows had seven."""
    rows = "".join(f'"a text of some words number {n}",c{n % 8}\n' for n in range(count))
    assert sign in recognise(str(write(tmp_path / "t.csv", f"text,label\n{rows}"))).sign
