"""`headway transcribe`, and what the commands say to sounds and texts that cannot be."""

from __future__ import annotations

import json
import wave
from pathlib import Path

import numpy as np
import pytest

import headway
from headway.cli import main
from headway.data.synthetic.spoken_digits import spoken_digits
from tests.sounds import write_wav
from tests.spoken import write_speech, write_table

SIZES = [
    "--model.width=16", "--model.inner=16", "--model.heads=2", "--model.encoder_layers=1", "--train.batch_tokens=600",
    "--train.steps=2", "--train.evaluate_every=2", "--train.save_every=2", "--train.device=cpu",
]  # fmt: skip


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """Recordings, and a run that was trained on them."""
    folder = tmp_path_factory.mktemp("desk")
    write_speech(folder / "recordings", 12)
    words = ["train", "speech-ctc", "--data", str(folder / "recordings"), "--data.cache", str(folder / "cache"), *SIZES]
    assert main([*words, "--out", str(folder / "run")]) == 0
    return folder


def say(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main([*words, "--device", "cpu"] if words[0] != "train" else words)
    said = capsys.readouterr()
    return code, said.out, said.err


def refused(words: list[str], capsys: pytest.CaptureFixture[str], code: int = 3) -> str:
    """The one line of an error."""
    found, out, err = say(words, capsys)
    line = err.splitlines()[-1]
    assert (found, out) == (code, "")
    assert line.startswith("headway: ")
    assert "Traceback" not in err
    return line.removeprefix("headway: ")


def test_a_line_for_each_sound_and_json(desk, capsys):
    run, files = str(desk / "run"), [str(desk / "recordings" / f"{n}.wav") for n in (3, 0)]
    code, out, _ = say(["transcribe", run, *files], capsys)
    assert code == 0
    assert [line.split("\t")[0] for line in out.splitlines()] == files
    code, out, _ = say(["transcribe", run, *files, "--beam", "1", "--json"], capsys)
    found = json.loads(out)
    assert (code, found["sounds"]) == (0, 2)
    transcripts = headway.load(run, device="cpu").transcribe(files, beam=1)
    assert [(each.sound, each.text, each.log_probability, each.seconds) for each in transcripts] == [
        (each["sound"], each["text"], each["log_probability"], each["seconds"]) for each in found["transcripts"]
    ]


def test_stereo_and_another_rate_are_converted(desk, tmp_path, capsys):
    (samples,) = spoken_digits(1, seed=8, rate=16_000).waves
    write_wav(tmp_path / "mono.wav", samples, 16_000)
    with wave.open(str(tmp_path / "stereo.wav"), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes((np.repeat(samples, 2) * 32767).round().astype("<i2").tobytes())
    files = [str(tmp_path / name) for name in ("mono.wav", "stereo.wav")]
    code, out, _ = say(["transcribe", str(desk / "run"), *files, "--json"], capsys)
    mono, stereo = json.loads(out)["transcripts"]
    assert code == 0
    assert (mono["text"], mono["seconds"]) == (stereo["text"], stereo["seconds"])
    assert mono["seconds"] == pytest.approx(len(samples) / 16_000, abs=0.02)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "x.wav: no such file"),
        (
            b"ID3 not a sound",
            "x.wav: not a WAV file, which begins with RIFF and WAVE; `ffmpeg -i FILE FILE.wav` converts others",
        ),
        (
            np.zeros(100, np.float32),
            r"x.wav: 100 samples at 8,000 a second (0.013 s), expected at least a window of 256",
        ),
        (
            np.zeros(248_000, np.float32),
            "x.wav: 31.0 s, allowed: up to 30 s; training with --task.seconds N allows longer ones",
        ),
    ],
)
def test_sounds_that_cannot_be_read(desk, tmp_path, capsys, monkeypatch, content, message):
    monkeypatch.chdir(tmp_path)
    if isinstance(content, bytes):
        Path("x.wav").write_bytes(content)
    elif content is not None:
        write_wav(Path("x.wav"), content, 8000)
    for verb in (["transcribe"], ["look", "-o", "page.html"]):
        assert refused([verb[0], str(desk / "run"), "x.wav", *verb[1:]], capsys) == message
    assert not Path("page.html").exists()


def test_texts_that_cannot_be_learnt(desk, tmp_path, capsys):
    folder = write_speech(tmp_path / "short", 4)
    write_table(folder / "metadata.csv", [(f"{n}.wav", "one " * 40) for n in range(4)])
    words = [
        "train",
        "speech-ctc",
        "--data",
        str(folder),
        "--data.cache",
        str(tmp_path),
        "--out",
        str(tmp_path / "run"),
    ]
    line = refused([*words, *SIZES, "--task.max_length", "300"], capsys)
    assert ": a sound of " in line
    assert "its text needs 159 (CTC: one a token and one between equal tokens)" in line
    line = refused([*words, *SIZES], capsys)
    assert "a text of 159 tokens, allowed: up to 99 (task.max_length=100 with the stop token)" in line
    (folder / "2.wav").unlink()
    line = refused([*words, *SIZES], capsys)
    assert line.startswith(
        f"{folder}/metadata.csv: row 3: names 2.wav, which is not in {folder}; 1 of 4 sounds are missing"
    )


def test_a_text_of_unknown_characters_is_evaluated_and_told_in_one_line(desk, tmp_path, capsys):
    folder = write_speech(tmp_path / "german", 2)
    write_table(folder / "metadata.csv", [("0.wav", "fünf"), ("1.wav", "two")])
    code, out, err = say(["evaluate", str(desk / "run"), "--data", str(folder), "--json"], capsys)
    assert code == 0
    assert json.loads(out)["sounds"] == 2
    assert [line for line in err.splitlines() if "vocabulary" in line] == [
        "headway: note: 1 token in 1 line is not in the vocabulary: read as <unk> (14.3% of all)"
    ]


def test_settings_that_do_not_fit(capsys, tmp_path):
    words = ["train", "speech-ctc", "--out", str(tmp_path / "run")]
    line = refused([*words, "--model.bands", "30"], capsys, code=2)
    assert line == "task.sound.bands=40, model.bands=30: expected the same"
    line = refused([*words, "--model", "speech-transformer", "--task.sound.hop", "999"], capsys, code=2)
    assert line.startswith("task.sound.hop=999, allowed: at most the window, 256")
