"""Parallel text under the names that people and corpora give it, and what is said where it is not found."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest

from headway.data.config import DataConfig
from headway.data.parallel_files import is_code, languages
from headway.data.tables import read_rows
from headway.data.text_files import load_parallel, load_text
from headway.data.tokenizers import Bpe
from headway.errors import DataError
from headway.presets import preset
from headway.presets.propose import fitted_recipe
from headway.tasks.base import DataRequest
from headway.tasks.proposal import recognise
from headway.tasks.translation.config import Translation
from tests.tasks.test_proposals import corpus, line, write

LINES = [f"line {n} of a text" for n in range(20)]


@pytest.mark.parametrize(
    ("names", "others"),
    [
        (("captions.en", "captions.de"), ()),
        (("OpenSubtitles.de-en.de", "OpenSubtitles.de-en.en"), ("README", "LICENSE", "OpenSubtitles.de-en.xml")),
        (("train.en.txt", "train.de.txt"), ("val.en.txt", "val.de.txt")),
        (("news.pt_BR.gz", "news.zh-Hans.gz"), ()),
        (("flores.eng_Latn", "flores.deu_Latn"), ("notes.txt",)),
    ],
)
def test_a_pair_of_files_is_recognised_and_read_by_its_languages(tmp_path, names, others):
    """A folder with captions.en and captions.de was not recognised, and train.en.txt was plain text."""
    folder = corpus(tmp_path / "corpus", *names, *others)
    found = fitted_recipe(None, {"data.spec": str(folder)})
    assert found.preset == "transformer-tiny"
    text = load_parallel(folder, found.config.data.source, found.config.data.target)
    assert set(text.splits) == {"train", "val"}
    rest = list(text.pairs("val"))
    assert list(text.pairs("train")) + rest * (not others or "val.en.txt" not in others) == list(
        zip(LINES, LINES, strict=True)
    )


def test_several_pairs_of_files_without_a_train_one_are_named(tmp_path):
    folder = corpus(tmp_path, "europarl.en", "europarl.de", "news.en", "news.de")
    told = line(recognise, str(folder))
    assert "2 texts (europarl, news) in de, en: name the files of the one to train on train.de and train.en" in told
    assert "no train split; splits: europarl, news; name the files to train on train.en and train.de" in line(
        load_parallel, folder, "en", "de"
    )


def test_other_endings_are_no_languages(tmp_path):
    folder = corpus(tmp_path, "main.py", "main.sh", "notes.bak", "notes.old")
    assert languages(folder) == {}
    assert all(map(is_code, ("cs", "zh_TW", "pt-BR", "deu_Latn")))
    assert not any(map(is_code, ("py", "ids", "log", "cs_12", "deu", "")))


@pytest.mark.parametrize("other", ["dev", "valid", "validation"])
def test_the_validation_split_goes_by_any_of_its_names(tmp_path, other):
    """Only `val` was validated on: of train.csv and dev.csv the last tenth of train was."""
    folder = corpus(tmp_path / "pairs", "train.en", "train.de", f"{other}.en", f"{other}.de")
    assert list(load_parallel(folder, "en", "de").pairs("val")) == list(zip(LINES, LINES, strict=True))
    tables = tmp_path / "tables"
    for split in ("train-00000-of-00001", f"{other}-00000-of-00001"):
        write(tables / f"{split}.csv", "a,b\n1,2\n3,4\n")
    assert load_parallel(tables, "a", "b").count("val") == 2
    text = corpus(tmp_path / "text", "train.txt", f"{other}.txt")
    assert "".join(load_text(text).chunks("val")) == "".join(f"{each}\n" for each in LINES)
    corpus(folder, "val.en", "val.de")
    assert set(load_parallel(folder, "en", "de").splits) == {"train", "val", other}


def test_languages_that_are_not_there_are_answered_by_those_that_are(tmp_path):
    folder = corpus(tmp_path / "corpus", "train.en", "train.de")
    assert "; languages here: de, en (--source and --target)" in line(load_parallel, folder, "english", "german")
    plain = corpus(tmp_path / "plain", "english.txt", "german.txt")
    assert "name them train.english and train.german, and" in line(load_parallel, plain, "en", "fr")


def test_a_file_of_one_language_names_the_other_beside_it(tmp_path):
    folder = corpus(tmp_path / "corpus", "train.en", "train.de", "val.en", "val.de")
    (note,) = fitted_recipe(None, {"data.spec": str(folder / "train.en")}).notes
    assert note == f"train.de beside it: to train a translation model, pass the folder: --data {folder}"
    alone = corpus(tmp_path / "alone", "train.en")
    assert fitted_recipe(None, {"data.spec": str(alone / "train.en")}).notes == ()


def test_texts_that_nearly_agree_in_length_may_be_translations(tmp_path):
    write(tmp_path / "english.txt", "line\n" * 300)
    write(tmp_path / "german.txt", "Zeile\n" * 299)
    (note,) = fitted_recipe(None, {"data.spec": str(tmp_path)}).notes
    assert note.startswith("english.txt, german.txt have 300 and 299 lines: if they are translations of each other")


def test_what_a_folder_of_texts_holds_besides_is_named(tmp_path):
    write(tmp_path / "book.txt", "to be or not to be\n" * 9)
    write(tmp_path / "reviews.csv", "a,b\n")
    corpus(tmp_path / "pairs", "train.en")
    (note,) = fitted_recipe(None, {"data.spec": str(tmp_path)}).notes
    assert note == f"only the .txt files of {tmp_path} are read, not pairs/, reviews.csv"


# --- tables ---


def broken(path, *, at):
    rows = [f"{text}\t{text}" for text in LINES]
    return write(path, "\n".join([*rows[:at], f"{rows[at]}\tone cell more", *rows[at + 1 :]]))


def test_a_row_with_a_cell_too_many_can_be_left_out(tmp_path):
    """The tab in a sentence of Multi30k ended the training, and no option went on."""
    path = broken(tmp_path / "pairs.tsv", at=7)
    told = line(load_parallel, path, "en", "de")
    assert "line 8 has 3 tab-separated columns, expected 2; correct the line, or pass --data.skip_bad true" in told
    text = load_parallel(path, "en", "de", skip_bad=True)
    assert text.count("train") + text.count("val") == 19
    assert text.left_out() == 1
    data = DataConfig(spec=str(path), skip_bad=True, cache=str(tmp_path / "cache"), tokenizer=Bpe(vocab=99, fit=True))
    model = preset("transformer-tiny").recipe().model
    prepared = Translation().prepare(
        DataRequest(data=data, model=model, folder=tmp_path / "run", batch_tokens=100, seed=1)
    )
    assert prepared.facts["left out"] == "1 row with more or fewer cells than the first"


def test_pairs_within_a_column_are_read(tmp_path):
    """The Hugging Face hub keeps translations as {"translation": {"en": …, "de": …}}: no column was found."""
    rows = [{"id": n, "translation": {"en": text, "de": text.upper()}} for n, text in enumerate(LINES)]
    path = write(tmp_path / "pairs.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    expected = [(text, text.upper()) for text in LINES]
    paths = [path]
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        pass
    else:
        paths.append(tmp_path / "pairs.parquet")
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), paths[-1])
    for each in paths:
        data = fitted_recipe(None, {"data.spec": str(each)}).config.data
        assert {data.source, data.target} == {"translation.en", "translation.de"}
        assert list(read_rows(each, "translation.en", "translation.de")) == expected
        with pytest.raises(DataError, match=r"translation\.fr"):
            list(read_rows(each, "translation.fr"))


def test_json_gets_a_command_that_makes_a_table_of_it(tmp_path):
    rows = [{"en": text, "de": text} for text in LINES]
    path = write(tmp_path / "pairs.json", json.dumps(rows))
    for told in (line(recognise, str(path)), line(load_parallel, path, "en", "de"), line(load_text, path)):
        command = told.split("`")[1]
        words = shlex.split(command)
        assert words[3:] == ["<", str(path), ">", str(path.with_suffix(".jsonl"))]
    done = subprocess.run(
        [sys.executable, *words[1:3]], input=path.read_text(), capture_output=True, text=True, check=True
    )
    write(path.with_suffix(".jsonl"), done.stdout)
    assert load_parallel(path.with_suffix(".jsonl"), "en", "de").count("train") == 18


def test_a_text_with_the_tabs_of_a_table_is_not_read_as_text_in_silence(tmp_path):
    """Sentence pairs of Tatoeba come as deu.txt: English, a tab, German, a tab, the authors."""
    path = write(
        tmp_path / "deu.txt", "".join(f"{text}\t{text}\tby author {n} of tatoeba\n" for n, text in enumerate(LINES))
    )
    (note,) = fitted_recipe(None, {"data.spec": str(path)}).notes
    assert note == f"every line has 2 tabs: a table? It is read as one under the name {tmp_path / 'deu.tsv'}"
    path.rename(tmp_path / "deu.tsv")
    told = line(recognise, str(tmp_path / "deu.tsv"))
    assert "name the one with the text by --data.text, or those of a translation by --source and --target" in told
    given = {"data.source": "1", "data.target": "2"}
    assert fitted_recipe(None, {"data.spec": str(tmp_path / "deu.tsv"), **given}).preset == "transformer-tiny"
    write(tmp_path / "book.txt", "a\tb\n" * 9 + "no tab\n")
    assert fitted_recipe(None, {"data.spec": str(tmp_path / "book.txt")}).notes == ()


def test_a_table_without_texts_says_so(tmp_path):
    path = write(tmp_path / "x.jsonl", '{"a": [[1]]}\n' * 3)
    assert "a table without a column of single texts, expected at least one" in line(recognise, str(path))


# --- what is no path ---


def test_addresses_and_several_paths_get_their_own_answer(tmp_path):
    assert "an address; headway downloads nothing: fetch it" in line(recognise, "https://example.org/data.zip")
    first, second = (write(tmp_path / name, "a\n") for name in ("a.en", "a.de"))
    assert "2 paths, expected one, a file or a folder" in line(recognise, f"{first},{second}")
