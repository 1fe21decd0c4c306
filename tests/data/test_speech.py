"""Sounds with texts, as people keep them, and what is wrong with some."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest

from headway.data.datasets import load_speech, sample_sounds
from headway.data.log_mel import LogMel
from headway.data.speech import SpeechDataset, SpeechReading, padded_frames
from headway.data.synthetic.spoken_digits import LONGEST, WORDS, spoken_digits
from headway.data.transcript_files import find_transcripts
from headway.errors import DataError
from tests.sounds import write_wav
from tests.spoken import write_speech, write_table

SOUND = LogMel(rate=8000, window=256, hop=128, bands=20)


def reading(cache: Path, **more: object) -> SpeechReading:
    return SpeechReading(**{"sound": SOUND, "seconds": 10.0, "cache": cache, **more})


def load(path: Path | str, tmp_path: Path, **more: object) -> SpeechDataset:
    return load_speech(path, reading(tmp_path / "cache", **more), lambda what, done, total: None)


@pytest.fixture
def folder(tmp_path):
    """Twelve sounds with a table."""
    return write_speech(tmp_path / "speech", 12)


def test_generated_digits_are_a_function_of_the_seed():
    first, again, other = (spoken_digits(30, seed=seed) for seed in (1, 1, 2))
    assert first.texts == again.texts != other.texts
    assert all(np.array_equal(one, two) for one, two in zip(first.waves, again.waves, strict=True))
    assert all(np.abs(each).max() <= 1 and each.dtype == np.float32 for each in first.waves)
    lengths = {len(text.split()) for text in spoken_digits(200, seed=3).texts}
    assert lengths == set(range(1, LONGEST + 1))
    assert {word for text in first.texts for word in text.split()} <= set(WORDS)


def test_a_digit_is_spoken_differently_each_time():
    drawn = spoken_digits(400, seed=4)
    ones = [wave for wave, text in zip(drawn.waves, drawn.texts, strict=True) if text == "one"]
    assert len({len(wave) for wave in ones}) == len(ones) > 3


@pytest.mark.parametrize("table", ["metadata.csv", "metadata.tsv", "transcripts.jsonl", "train.csv"])
def test_each_table(tmp_path, table):
    folder = write_speech(tmp_path / "speech", 12, table=table)
    found = load(folder, tmp_path)
    assert {name: len(split) for name, split in found.splits.items()} == {"train": 11, "val": 1}
    drawn = spoken_digits(12, seed=5)
    for split, n in ((each, n) for each in found.splits.values() for n in range(len(each))):
        number = int(split.places[n].rpartition("row ")[2]) - 1
        assert split.texts[n] == drawn.texts[number]
        samples = np.round(drawn.waves[number] * 32767) / 32768  # as a file of 16 bits has them
        np.testing.assert_allclose(split[n], SOUND.frames(samples.astype(np.float32), "x"), atol=1e-5)
    assert load(folder / table, tmp_path).contents == found.contents


def test_hugging_face_s_columns_and_a_column_by_name(tmp_path):
    folder = write_speech(tmp_path / "speech", 3)
    (folder / "metadata.csv").write_text("file_name,transcription,norm\n0.wav,ONE,one\n1.wav,TWO,two\n")
    assert [each.text for each in find_transcripts(folder)["train"]] == ["ONE", "TWO"]
    assert [each.text for each in find_transcripts(folder, column="norm")["train"]] == ["one", "two"]


def test_splits_by_folder_and_by_table(tmp_path):
    for split in ("train", "dev", "test"):
        write_speech(tmp_path / "folders" / split, 4, seed=len(split))
    assert list(load(tmp_path / "folders", tmp_path).splits) == ["val", "test", "train"]
    folder = write_speech(tmp_path / "tables", 6, table="train.tsv")
    write_table(folder / "valid.tsv", [("0.wav", "one")])
    assert {name: len(those) for name, those in find_transcripts(folder).items()} == {"train": 6, "val": 1}


def test_librispeech(tmp_path):
    for split, count in (("train-clean-100", 3), ("dev-clean", 2)):
        place = write_speech(tmp_path / "libri" / split / "84" / "121123", count)
        (place / "metadata.csv").unlink()
        for n in range(count):
            (place / f"{n}.wav").rename(place / f"84-121123-000{n}.wav")
        (place / "84-121123.trans.txt").write_text("".join(f"84-121123-000{n} GO  {n}\n" for n in range(count)))
    found = load(tmp_path / "libri", tmp_path)
    assert {name: split.texts for name, split in found.splits.items()} == {
        "train": ("GO 0", "GO 1", "GO 2"),
        "val": ("GO 0", "GO 1"),
    }


def test_stereo_and_other_rates_become_mono_at_the_task_s_rate(tmp_path):
    time = np.arange(16_000) / 16_000
    tone = (0.5 * np.sin(2 * np.pi * 300 * time)).astype(np.float32)
    folder = tmp_path / "speech"
    folder.mkdir()
    write_wav(folder / "mono.wav", tone, 16_000)
    with wave.open(str(folder / "stereo.wav"), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes((np.stack([tone, tone], 1) * 32767).round().astype("<i2").tobytes())
    write_table(folder / "metadata.csv", [("mono.wav", "a"), ("stereo.wav", "a")])
    split = load(folder, tmp_path, to_train=False).splits["train"]
    assert len(split[0]) == len(split[1]) == 62  # a second of 8,000 samples in steps of 128
    np.testing.assert_allclose(split[0], split[1], atol=1e-5)


def test_frames_are_made_once_and_kept(folder, tmp_path, monkeypatch):
    before = load(folder, tmp_path)
    monkeypatch.setattr(LogMel, "frames", None)
    again = load(folder, tmp_path)
    assert again.contents == before.contents
    assert all(np.array_equal(again.splits[name].frames, split.frames) for name, split in before.splits.items())


def test_built_in_digits_by_split(tmp_path, monkeypatch):
    monkeypatch.setattr("headway.data.speech.COUNTS", {"train": 6, "val": 3})
    found = load("spoken-digits", tmp_path)
    assert {name: len(split) for name, split in found.splits.items()} == {"train": 6, "val": 3}
    assert load("spoken-digits", tmp_path).contents == found.contents
    sampled = sample_sounds("spoken-digits", reading(tmp_path / "cache"), count=2)
    assert all(np.array_equal(frames, found.splits["val"][n]) for n, frames in enumerate(sampled))


def test_padded():
    sounds = [np.ones((3, 2), np.float32), np.ones((1, 2), np.float32)]
    batch, lengths = padded_frames(sounds)
    assert batch[..., 0].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert lengths.tolist() == [3, 1]


# --- bad input ------------------------------------------------------------------------------------------------------


def message(folder: Path, tmp_path: Path, **more: object) -> str:
    with pytest.raises(DataError) as caught:
        load(folder, tmp_path, **more)
    text = str(caught.value)
    assert "\n" not in text
    return text.replace(str(folder), "DATA")


def test_a_missing_sound(folder, tmp_path):
    (folder / "3.wav").unlink()
    assert message(folder, tmp_path) == (
        "DATA/metadata.csv: row 4: names 3.wav, which is not in DATA; 1 of 12 sounds are missing; "
        "pass --data.skip_bad true to skip them"
    )
    assert load(folder, tmp_path, skip_bad=True).left_out == 1


def test_a_sound_shorter_than_a_window_and_one_too_long(folder, tmp_path):
    write_wav(folder / "2.wav", np.zeros(200, np.float32), 8000)
    assert message(folder, tmp_path).startswith(
        "DATA/2.wav: 200 samples at 8,000 a second (0.025 s), expected at least a window of 256; 1 of 12 sounds are bad"
    )
    found = load(folder, tmp_path, skip_bad=True)
    assert found.left_out == 1
    assert sum(map(len, found.splits.values())) == 11
    write_wav(folder / "2.wav", np.zeros(88_000, np.float32), 8000)
    assert "2.wav: 11.0 s, allowed: up to 10 s; training with --task.seconds N allows longer ones" in message(
        folder, tmp_path
    )


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("../0.wav", "one")], "row 1: '../0.wav' leads out of DATA"),
        ([("/etc/hosts.wav", "one")], "row 1: '/etc/hosts.wav' leads out of DATA"),
        ([("0.wav", "one"), ("1.wav", " ")], "row 2: an empty text, expected both"),
        ([("", "one")], "row 1: no sound file named, expected both"),
        ([("0.mp3", "one")], "row 1: '0.mp3', expected a WAV file (.wav); convert other formats"),
    ],
)
def test_rows_that_cannot_be(folder, tmp_path, rows, expected):
    write_table(folder / "metadata.csv", rows)
    assert expected in message(folder, tmp_path)


def test_names_that_leave_the_folder_through_a_link(folder, tmp_path):
    (tmp_path / "away.wav").write_bytes((folder / "0.wav").read_bytes())
    (folder / "0.wav").unlink()
    (folder / "0.wav").symlink_to(tmp_path / "away.wav")
    assert "row 1: '0.wav' leads out of DATA" in message(folder, tmp_path)


def test_no_table_no_columns_and_no_rows(folder, tmp_path):
    (folder / "metadata.csv").write_text("a,b\n0.wav,one\n")
    text = message(folder, tmp_path)
    assert text.startswith("DATA/metadata.csv: no columns of sound files (file_name, file,")
    assert text.endswith("there are: a, b")
    (folder / "metadata.csv").write_text("file,text\n")
    assert message(folder, tmp_path) == "DATA: split train has no sounds, expected at least 1"
    (folder / "metadata.csv").unlink()
    assert message(folder, tmp_path).startswith("DATA: no texts of sounds (metadata.csv, .tsv or .jsonl with columns")


def test_two_tables_of_a_split_and_an_unknown_split(folder, tmp_path):
    assert message(folder, tmp_path, val="dev") == "DATA: data.val='dev', splits: train"
    write_table(folder / "train.csv", [("0.wav", "one")])
    assert message(folder, tmp_path).startswith("DATA: more than one table of split train: ")
