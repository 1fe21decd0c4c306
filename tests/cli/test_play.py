"""Learn a world, play in it, evaluate it: the commands end to end."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

pytest.importorskip("gymnasium")

import headway
from headway.cli import main
from headway.errors import ConfigError
from headway.tasks.world_model import q_learning, training

SMALL = {"train.device": "cpu", "train.batch_tokens": 48, "model.width": 16, "model.layers": 1, "model.heads": 2}
ROUND = {"collect": "80,40", "round.world": 3, "round.act": 2, "dreams": 8, "horizon": 3}
QUICK = [word for key, value in SMALL.items() for word in (f"--{key}", str(value))]
ROUNDS = [word for key, value in ROUND.items() for word in (f"--task.{key}", str(value))]
TINY = [*QUICK, *ROUNDS, "--train.steps", "10", "--train.save_every", "3"]


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lake") / "run"
    assert main(["train", "world-frozenlake", "--out", str(folder), *TINY]) == 0
    return folder


@pytest.fixture(autouse=True)
def _few_updates(monkeypatch):
    monkeypatch.setattr("headway.tasks.world_model.q_learning.UPDATES", 3)


def test_the_score_stands_beside_what_it_cost_and_others(lake, capsys):
    assert main(["play", str(lake), "--episodes", "4", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["episodes"] == 4
    assert values["environment_steps"] == 120
    assert values["optimum"] == 0.744
    assert {"mean_return", "imagined_return", "random_return", "model_free_return", "online_model_free_return"} <= set(
        values
    )
    assert main(["play", str(lake), "--episodes", "4"]) == 0
    text = capsys.readouterr().out
    assert "120 environment steps" in text
    assert "Q-learning on as many steps of its own" in text


def test_several_runs_are_compared_as_one(lake, tmp_path, capsys):
    other = tmp_path / "other"
    shutil.copytree(lake, other)
    assert main(["play", str(lake), str(other), "--episodes", "4", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert set(values["runs"]) == {str(lake), str(other)}
    assert values["interquartile_mean"] == values["runs"][str(lake)]["mean_return"]
    assert {"probability_of_improvement", "interquartile_mean_low", "lowest"} <= set(values)
    assert {"online_probability_of_improvement", "exact_online_probability_of_improvement"} <= set(values)
    assert main(["play", str(lake), str(other), "--episodes", "4"]) == 0
    text = capsys.readouterr().out
    assert "probability of improvement over Q-learning" in text
    assert "over online Q-learning by the true table" in text
    assert main(["play", str(lake), str(other), "--render", "a.gif"]) == 2
    assert "--render shows one run" in capsys.readouterr().err


def test_the_baselines_are_trained_once_and_kept_in_the_cache(lake, tmp_path, capsys, monkeypatch):
    run, cache = tmp_path / "run", Path(headway.load(lake, device="cpu").config.data.cache).expanduser()
    shutil.copytree(lake, run)
    for folder in cache.glob("baseline-*"):
        shutil.rmtree(folder)
    files = sorted(run.rglob("*"))
    trained = []
    offline, online = q_learning.q_network, q_learning.q_agent
    monkeypatch.setattr(q_learning, "q_network", lambda *given, **named: trained.append(1) or offline(*given, **named))
    monkeypatch.setattr(q_learning, "q_agent", lambda *given, **named: trained.append(2) or online(*given, **named))

    def played():
        assert main(["play", str(run), "--episodes", "3", "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    first = played()
    assert played() == first
    assert trained == [1, 2]
    for kept in cache.glob("baseline-*"):
        (kept / "model.safetensors").write_bytes(b"damaged")
    assert played() == first
    assert trained == [1, 2, 1, 2]
    assert sorted(run.rglob("*")) == files


def test_the_episodes_are_read_once(lake, monkeypatch):
    read = []
    reading = training.read_episodes
    monkeypatch.setattr(training, "read_episodes", lambda folder: read.append(folder) or reading(folder))
    run = headway.load(lake, device="cpu")
    run.play(episodes=2).render(".gif")
    assert len(read) == len(set(read)) > 0


def test_the_real_episode_is_shown_beside_the_imagined_one(lake, tmp_path, capsys):
    assert main(["play", str(lake), "--episodes", "2", "--render", str(tmp_path / "a.gif")]) == 0
    with Image.open(tmp_path / "a.gif") as film:
        assert film.format == "GIF"
    assert main(["play", str(lake), "--render", "a.mp4"]) == 2
    assert "ends in .gif or .png" in capsys.readouterr().err


def test_evaluate_tells_how_far_imagined_rollouts_stray(lake, capsys, monkeypatch):
    monkeypatch.setattr("headway.tasks.world_model.pipeline.EPISODES", 3)
    assert main(["evaluate", str(lake), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert {"error_1", "repeat_error_1", "end_calibration_error", "table_distance"} <= set(values)
    assert main(["evaluate", str(lake)]) == 0
    assert "open-loop error" in capsys.readouterr().out
    assert main(["evaluate", str(lake), "--data", "CartPole-v1"]) == 2


def test_resuming_is_the_run_that_went_through(lake, tmp_path):
    part = [*TINY[: TINY.index("--train.steps")], "--train.save_every", "3", "--out", str(tmp_path / "run")]
    assert main(["train", "world-frozenlake", *part, "--train.steps", "6"]) == 0
    assert main(["train", "world-frozenlake", *part, "--train.steps", "10", "--resume"]) == 0
    one, two = (folder / "checkpoints" / "step-00000010" / "model.safetensors" for folder in (lake, tmp_path / "run"))
    assert one.read_bytes() == two.read_bytes()


def test_any_environment_by_its_name(tmp_path, capsys):
    where = ["--out", str(tmp_path / "run")]
    assert main(["train", "world-cartpole", "--data", "Acrobot-v1", *where, *TINY]) == 0
    assert headway.load(tmp_path / "run").config.model.observation.size == 6
    assert main(["train", "world-cartpole", "--data", "CartPol-v1", "--out", str(tmp_path / "no")]) == 2
    assert "did you mean CartPole-v1" in capsys.readouterr().err
    assert main(["train", "world-cartpole", "--data", "Pendulum-v1", "--out", str(tmp_path / "no")]) == 2
    assert "allowed: Discrete" in capsys.readouterr().err


@pytest.fixture(scope="module")
def deciding(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deciding")
    few = ["--task.log", "200", "--task.targets", "10,30", "--train.steps", "3", "--model.context", "4"]
    kinds = {"asked-0": [], "asked-1": ["--train.seed", "1"], "best": ["--task.imitate", "best-episodes"]}
    for name, more in kinds.items():
        assert main(["train", "decision-cartpole", "--out", str(folder / name), *QUICK, *few, *more]) == 0
    return folder


def test_a_decision_transformer_is_asked_for_returns(deciding, tmp_path, capsys, monkeypatch):
    run = str(deciding / "asked-0")
    assert main(["play", run, "--episodes", "2", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert {"return_asked_10", "return_asked_30", "return_asked_30_low", "rank_correlation"} <= set(values)
    assert main(["play", run, "--episodes", "2"]) == 0
    shown = capsys.readouterr().out
    assert "a decision transformer" in shown
    assert "95 % interval" in shown
    assert main(["play", run, "--episodes", "1", "--render", str(tmp_path / "a.gif")]) == 2
    monkeypatch.setattr("headway.tasks.decision_transformer.pipeline.EPISODES", 2)
    plot = tmp_path / "asked.png"
    assert main(["evaluate", run, "--json", "--plot", str(plot)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["loss"] > 0
    assert found["asked"] == [10, 30]
    assert found["got"] == [values["return_asked_10"], values["return_asked_30"]]
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_several_seeds_and_behaviour_cloning_are_one_report(deciding, tmp_path, capsys):
    runs = [str(deciding / name) for name in ("asked-0", "asked-1", "best")]
    plot = tmp_path / "asked.svg"
    assert main(["play", *runs, "--episodes", "2", "--json", "--plot", str(plot)]) == 0
    values = json.loads(capsys.readouterr().out)
    assert [*values["runs"]] == runs
    mean = sum(values["runs"][run]["return_asked_30"] for run in runs[:2]) / 2
    assert values["return_asked_30"] == pytest.approx(mean)
    assert values["cloned_return"] == values["runs"][runs[2]]["return"]
    assert b"<svg" in plot.read_bytes()
    assert main(["play", *runs[:2], "--episodes", "1"]) == 0
    assert "mean over runs" in capsys.readouterr().out


def test_runs_that_are_not_played_together(lake, deciding, capsys):
    one = str(deciding / "asked-0")
    few = ["--episodes", "1"]
    assert main(["play", one, one, *few]) == 2
    assert "is given twice" in capsys.readouterr().err
    assert main(["play", one, str(lake), *few]) == 2
    assert "runs of several tasks cannot be played together" in capsys.readouterr().err
    assert main(["play", str(lake), f"{lake}/", *few]) == 2
    assert "is given twice" in capsys.readouterr().err
    assert main(["play", str(lake), *few, "--plot", "a.png"]) == 2
    assert "it is not asked for returns" in capsys.readouterr().err


def test_what_acts_does_nothing_else(lake, tmp_path):
    run = headway.load(lake)
    with pytest.raises(ConfigError, match="is a world model: it cannot translate; it can play"):
        run.translate(["a"])
    with pytest.raises(ConfigError, match="it cannot generate"):
        run.prompt("a")
    assert main(["verify", str(lake)]) == 2
    shutil.copytree(lake, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "episodes")
    assert main(["play", str(tmp_path / "copy")]) == 3
