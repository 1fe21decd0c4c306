"""Train on figures, evaluate, draw a skeleton; train on sounds, classify one: the commands end to end."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

import headway
from headway.cli import main
from headway.data import poses
from headway.data.synthetic import tone_images as sounds
from headway.data.synthetic.stick_figures import KEYPOINTS, figures
from headway.data.synthetic.tones import KINDS, tones
from headway.training.log import read_log
from tests.pages import payload_of
from tests.sounds import write_wav

QUICK = [
    word for key in ("steps 4", "evaluate_every 2", "save_every 2", "batch_tokens 4", "device cpu")
    for word in f"--train.{key}".split()
]  # fmt: skip
TINY = [word for key in ("width 16", "inner 32", "heads 2", "layers 1") for word in f"--model.{key}".split()]


@pytest.fixture(scope="module", autouse=True)
def small():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(poses, "COUNTS", {"train": 12, "val": 4, "test": 5})
        patch.setattr(sounds, "COUNTS", {"train": 16, "val": 4, "test": 4})
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pose")
    small = ["--model.image", "32", "--task.size", "32", "--model.head", "classic-head", "--model.head.width", "8"]
    where = ["--out", str(folder / "run"), "--data.cache", str(folder / "cache")]
    assert main(["train", "pose", "--data", "figures", *where, *small, *TINY, *QUICK]) == 0
    Image.fromarray(figures(1, size=48, seed=5).pixels[0].transpose(1, 2, 0)).save(folder / "figure.png")
    return folder / "run"


def test_pose_is_evaluated_as_coco_does(run, capsys):
    assert main(["evaluate", str(run), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["split"] == "test"
    assert values["people"] == 5
    assert 0 <= values["oks_ap"] <= 1
    assert values["oks_ap_large"] is None
    assert main(["evaluate", str(run)]) == 0
    assert "mean_oks" in capsys.readouterr().out
    assert main(["evaluate", str(run), "--plot", "a.png"]) == 2
    assert "--plot is not supported by a pose model" in capsys.readouterr().err
    last = read_log(run / "log.jsonl")[-1]
    assert set(last) == {"step", "val_loss", "val_oks_ap"}


def test_the_skeleton_is_drawn(run, tmp_path, capsys):
    file, out = str(run.parent / "figure.png"), tmp_path / "out.png"
    assert main(["pose", str(run), file, file, "--out", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in lines] == [file, file]
    assert lines[0].split("\t")[1].startswith("nose ")
    assert Image.open(out).format == "PNG"
    assert main(["pose", str(run), file, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["poses"]
    assert list(found["keypoints"]) == list(KEYPOINTS)
    assert found["size"] == 32
    (figure,) = headway.load(run).pose([file])
    np.testing.assert_allclose(figure.keypoints, list(found["keypoints"].values()), rtol=1e-5)
    assert (figure.keypoints[:, :2] >= 0).all()
    assert (figure.keypoints[:, :2] <= 32).all()


def test_a_pose_has_a_page(run, tmp_path, capsys):
    file, page = str(run.parent / "figure.png"), tmp_path / "page.html"
    assert main(["look", str(run), file, "-o", str(page)]) == 0
    payload = payload_of(page)
    assert (payload["kind"], payload["given"]) == ("pose", "figure.png")
    assert payload["sequences"]["patches"]["grid"] == [4, 4]
    assert payload["sequences"]["keypoints"]["tokens"] == list(KEYPOINTS)
    assert [entry["keys"] for entry in payload["attentions"]] == ["patches"]
    output = payload["output"]
    assert (output["sequence"], output["size"]) == ("keypoints", 16 * 16)
    found = headway.load(run, device="cpu")
    (figure,) = found.pose([file])
    maps = found.pipeline.heat_maps(figure.pixels)[0].flatten(1)
    assert [row[0] for row in output["ids"]] == maps.argmax(1).tolist()
    cell = output["ids"][0][0]
    assert output["words"][str(cell)] == f"({2 * (cell % 16) + 1},{2 * (cell // 16) + 1})"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["pose", "RUN", "nowhere.png"], 3, "nowhere.png: no such file"),
        (["pose", "RUN", "a.png", "--out", "x.svg"], 2, "--out x.svg, allowed: a name that ends in .png"),
        (["classify", "RUN", "a.png"], 2, "is a pose model: it cannot classify; it can pose, evaluate"),
        (["translate", "RUN", "x"], 2, "is a pose model: it cannot translate"),
        (["generate", "RUN", "--prompt", "x"], 2, "is a pose model"),
        (["verify", "RUN", "missing.png"], 3, "missing.png"),
        (
            ["evaluate", "RUN", "--data", "shapes"],
            3,
            "shapes is images, expected people with keypoints: figures or a path",
        ),
    ],
)
def test_mistakes_with_a_pose_model(run, capsys, words, code, message):
    assert main([str(run) if word == "RUN" else word for word in words]) == code
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error


def test_pose_goes_on_where_it_was(run, capsys):
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["model"]["head"] == {"type": "classic-head", "width": 8}
    small = ["--model.image", "32", "--task.size", "32", "--model.head", "classic-head", "--model.head.width", "8"]
    where = ["--out", str(run), "--data.cache", str(run.parent / "cache"), "--resume"]
    assert main(["train", "pose", *where, *small, *TINY, *QUICK, "--train.steps", "5"]) == 0
    assert "resuming at step 4" in capsys.readouterr().err
    assert (
        main(
            [
                "train",
                "pose",
                *where[:-1],
                "--task.size",
                "48",
                "--model.image",
                "64",
                *TINY,
                *QUICK,
                "--out",
                f"{run}-2",
            ]
        )
        == 2
    )
    assert "task.size=48, model.image=64: expected the same" in capsys.readouterr().err


# --- sounds --------------------------------------------------------------------------------------------------------


def sound_words(folder: Path, *more: str) -> list[str]:
    where = ["--out", str(folder / "run"), "--data.cache", str(folder / "cache")]
    small = ["--model.image", "32", "--model.patch", "8", "--task.size", "32", "--task.sound.rate", "8000"]
    return ["train", "audio-vit", *where, *small, *TINY, *QUICK, *more]


@pytest.fixture(scope="module")
def heard(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    assert main(sound_words(folder)) == 0
    return folder


def test_tones_are_learnt_and_a_file_of_another_rate_is_classified(heard, tmp_path, capsys):
    assert main(["evaluate", str(heard / "run"), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["classes"] == list(KINDS)
    assert values["images"] == 4
    write_wav(tmp_path / "a.wav", tones(1, seed=3, rate=11025, seconds=1.7).waves[0], 11025)
    out = tmp_path / "said.png"
    assert main(["classify", str(heard / "run"), str(tmp_path / "a.wav"), "--top", "2", "--out", str(out)]) == 0
    assert len(capsys.readouterr().out.split("\t")) == 3
    assert Image.open(out).format == "PNG"


def test_a_sound_has_a_page(heard, tmp_path, capsys):
    write_wav(tmp_path / "a.wav", tones(1, seed=3, rate=11025, seconds=1.7).waves[0], 11025)
    assert main(["look", str(heard / "run"), str(tmp_path / "a.wav"), "-o", str(tmp_path / "page.html")]) == 0
    payload = payload_of(tmp_path / "page.html")
    assert (payload["kind"], payload["given"]) == ("sound", "a.wav")
    assert payload["sequences"]["patches"]["label"] == "Patches of the spectrogram"
    assert payload["tensors"][payload["image"]["pixels"]]["shape"] == [32, 32, 3]
    assert payload["said"] in KINDS


def test_a_folder_of_wav_files(tmp_path, capsys):
    drawn = tones(60, seed=0, rate=8000, seconds=0.5)
    for label in (0, 6):
        (tmp_path / "data" / KINDS[label]).mkdir(parents=True)
        for n, wave in enumerate(drawn.waves[drawn.labels == label]):
            write_wav(tmp_path / "data" / KINDS[label] / f"{n}.wav", wave, 8000)
    data = ("--data", str(tmp_path / "data"))
    assert main(sound_words(tmp_path, *data)) == 0
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert config["data"]["classes"] == ["note", "white"]
    capsys.readouterr()
    (tmp_path / "data" / "note" / "bad.wav").write_bytes(b"RIFF")
    assert main(sound_words(tmp_path / "again", *data)) == 3
    error = capsys.readouterr().err.strip()
    assert "bad.wav: not a WAV file" in error
    assert "\n" not in error
    assert main(["classify", str(tmp_path / "run"), str(tmp_path / "data" / "note" / "bad.wav")]) == 3
    assert "bad.wav: not a WAV file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--data", "shapes"], 3, "shapes is images, expected sounds: tones or a path"),
        (["--task.augment", "augmentation"], 2, "task.augment is for images"),
        (["--model.channels", "3"], 2, "model.channels=3, allowed for sounds: 1"),
        (["--task.mean", "0.5,0.5,0.5"], 2, "task.mean=(0.5, 0.5, 0.5), expected one number"),
    ],
)
def test_mistakes_with_sounds(tmp_path, capsys, words, code, message):
    assert main(sound_words(tmp_path, *words)) == code
    assert message in capsys.readouterr().err
