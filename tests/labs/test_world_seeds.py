"""One world model with several seeds: runs side by side, and their scores as one figure."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("gymnasium")

from headway.cli import main
from headway.tasks.world_model.comparison import ONLINE, WorldComparison

SMALL = (
    "--task.collect 60 --task.round.world 2 --task.round.act 1 --train.batch_tokens 32 --train.device cpu "
    "--model.width 16 --model.layers 1"
)


def played(*scores: tuple[float, float]) -> WorldComparison:
    gap = {"imagined_less_real": 0.1, "imagined_less_real_within": 0.2}
    return WorldComparison(
        {
            seed: {"mean_return": ours, "model_free_return": theirs, "online_model_free_return": ours, **gap}
            for seed, (ours, theirs) in enumerate(scores)
        }
    )


def test_scores_over_seeds():
    found = played((0.7, 0.1), (0.8, 0.2), (0.9, 0.95), (0.0, 0.3))
    assert found.mean.value == pytest.approx(0.75)  # without the lowest and the highest
    assert found.without_model.value == pytest.approx(0.25)
    assert found.improvement().value == pytest.approx((3 + 3 + 3 + 0) / 16)
    assert (found.online.value, found.improvement(ONLINE).value) == (found.mean.value, 0.5)
    values = found.to_json()
    assert values["lowest"] == 0
    assert values["interquartile_mean_low"] <= values["interquartile_mean"] <= values["interquartile_mean_high"]
    assert played((0.5, 0.5)).improvement().value == 0.5
    assert (found.exact_improvement(), values["imagined_within"]) == (None, 4)


def test_expected_returns_have_no_chance_of_episodes_in_them():
    gap = {"imagined_less_real": -0.3, "imagined_less_real_within": 0.2}
    same = {"exact_return": 0.74, "model_free_exact_return": 0.74, "online_model_free_exact_return": 0.5}
    luck = {
        "mean_return": 0.741,
        "model_free_return": 0.736,
        "online_model_free_return": 0.5,
    }  # of one policy in other episodes
    found = WorldComparison({0: {**luck, **same, **gap}, 1: {**luck, **same, **gap}})
    assert (found.improvement().value, found.exact_improvement().value) == (1.0, 0.5)
    assert found.to_json()["exact_probability_of_improvement"] == 0.5
    assert found.to_json()["exact_online_probability_of_improvement"] == 1.0
    assert found.facts()["imagined within 95 % of real"] == "0 of 2 runs"


def test_runs_of_several_seeds(tmp_path, capsys):
    folder = tmp_path / "runs"
    words = ["lab", "world", "--repeats", "2", "--seed", "4", "--episodes", "3", "--runs", str(folder), "--json"]
    words += ["--out", str(tmp_path / "figures"), "--train.steps", "3"]
    assert main([*words, *SMALL.split()]) == 3  # three steps learn nothing
    found = json.loads(capsys.readouterr().out)
    assert [row[0] for row in found["tables"][0]["rows"]] == [4, 5]
    assert {place.name for place in folder.glob("seed-*")} == {"seed-4", "seed-5"}
    weights = folder / "seed-4" / "checkpoints" / "step-00000003" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    assert main([*words, "--beside", "1", *SMALL.split()]) == 3  # what is trained is not trained again
    assert weights.stat().st_mtime_ns == before
    assert json.loads(capsys.readouterr().out)["tables"] == found["tables"]


def test_a_preset_that_is_no_world_is_refused(tmp_path, capsys):
    assert main(["lab", "world", "--preset", "gpt-char", "--out", str(tmp_path)]) == 2
    assert "--preset gpt-char is a language model, allowed: world models" in capsys.readouterr().err
