"""What a mistyped name may have meant."""

from __future__ import annotations

import pytest

from headway.config import override
from headway.errors import ConfigError
from headway.presets import PRESETS, preset
from headway.suggestions import did_you_mean, did_you_mean_path, nearest

NAMES = ("train", "trace", "translate", "evaluate", "generate", "score")


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("trian", ["train"]),  # two characters exchanged
        ("trai", ["train"]),
        ("ttrain", ["train"]),
        ("trin", ["train"]),
        ("Train", ["train"]),
        ("eval", ["evaluate"]),  # the beginning of a name
        ("tra", ["train", "trace", "translate"]),
        ("xyz", []),
        ("t", []),
        ("", []),
        ("--", []),
        ("e" * 10_000, []),
        ("scores of it", []),
    ],
)
def test_near_names_are_found_and_nothing_else(word, found):
    assert nearest(word, NAMES) == found


def test_a_name_is_the_same_whatever_its_case_dashes_and_underscores():
    assert nearest("Learning-Rate", ["learning_rate", "learning_rates"]) == ["learning_rate"]
    assert nearest("--topk", ["--top-k", "--top-p"]) == ["--top-k"]


def test_a_synonym_is_suggested_only_where_it_is_known():
    assert nearest("lr", ["learning_rate", "steps"]) == ["learning_rate"]
    assert nearest("lr", ["steps"]) == []
    assert nearest("gpu", ["auto", "cpu", "cuda"]) == ["cuda"]  # one typing mistake from cpu


def test_the_hint_is_one_question_or_nothing():
    assert did_you_mean("trian", NAMES) == "did you mean train? "
    assert did_you_mean("tra", NAMES, 2) == "did you mean train or trace? "
    assert did_you_mean("serve", NAMES) == ""


@pytest.mark.parametrize("name", ["t5-small", "resnet50", "whisper", "unet", "t5", "mistral-7b"])
def test_a_model_that_is_not_there_gets_no_absurd_hint(name):
    """TRIALS B, habits: `t5-small` was answered by "did you mean vit-small-data?"."""
    with pytest.raises(ConfigError) as caught:
        preset(name)
    assert str(caught.value) == f"no preset {name!r}: `headway presets` lists them"


@pytest.mark.parametrize(
    ("word", "name"), [("transfomer-tiny", "transformer-tiny"), ("gpt_char", "gpt-char"), ("GPT2", "gpt2")]
)
def test_a_mistyped_preset_is_found(word, name):
    assert nearest(word, PRESETS) == [name]


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("steps", "train.steps"),
        ("lr", "train.learning_rate"),
        ("learning-rate", "train.learning_rate"),
        ("optimizer", "train.optimiser"),
        ("device", "train.device"),
        ("hidden_size", "model.width"),
    ],
)
def test_a_config_key_in_the_wrong_place_is_told_its_place(key, place):
    with pytest.raises(ConfigError) as caught:
        override(preset("gpt-char").recipe(), {key: "1"})
    assert str(caught.value) == f"no config key {key!r}: did you mean {place}?"


def test_a_key_of_another_section_is_told_its_place_and_the_keys_of_this_one():
    with pytest.raises(
        ConfigError, match=r"no config key 'model.lr': did you mean train.learning_rate\? allowed: vocab"
    ):
        override(preset("gpt-char").recipe(), {"model.lr": "1"})


def test_a_key_that_is_nowhere_is_told_the_keys_there_are():
    with pytest.raises(ConfigError, match="no config key 'frobnicate': allowed: task, data, model, train"):
        override(preset("gpt-char").recipe(), {"frobnicate": "1"})


def test_a_path_that_does_not_exist_suggests_what_is_beside_it(tmp_path, monkeypatch):
    for name in ("corpus", "book.txt", ".hidden"):
        (tmp_path / name).mkdir()
    assert did_you_mean_path(tmp_path / "corpsu") == f"did you mean {tmp_path / 'corpus'}? "
    assert did_you_mean_path(tmp_path / "corpus") == ""
    assert did_you_mean_path(tmp_path / "nothing like it") == ""
    assert did_you_mean_path(tmp_path / "hidde") == ""
    assert did_you_mean_path(tmp_path / "nowhere" / "corpus") == did_you_mean_path("a\0b") == ""
    monkeypatch.chdir(tmp_path)
    assert did_you_mean_path("bok.txt") == "did you mean book.txt? "
