"""Sets of vectors from files: classes, numbers and classes of elements, trained, evaluated and asked again."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import yaml

import headway
from headway.cli import main
from headway.config import override
from headway.data.synthetic.robots import CLASSES, FEATURES, swarms
from headway.errors import ConfigError, DataError
from headway.presets import PRESETS
from headway.presets.propose import fitted_recipe
from headway.runs.train import train_run
from headway.tasks.proposal import recognise
from tests.training.small import Silent

TINY = {"model.width": 16, "model.heads": 2, "model.inner": 32, "model.layers": 1, "train.device": "cpu"}


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def draw(count=240, seed=0):
    """Sets (T, 2) of 1 to 6 vectors far from mean 0 and deviation 1, with the class, number and elements they have."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 7, count)
    x = random.normal([50.0, -3.0], [10.0, 0.01], (count, 6, 2))
    real = np.arange(6) < lengths[:, None]
    first = np.where(real, x[:, :, 0], -np.inf).max(1)
    return x, lengths, first


def npz(folder, name="sets.npz", *, kind="class", **more):
    x, lengths, most = draw(**more)
    y = {"class": np.where(most > 57, "high", "low"), "number": 1000 * most, "elements": (x[:, :, 1] > -3).astype(int)}
    np.savez(folder / name, x=x, lengths=lengths, y=y[kind], features=np.array(["a", "b"]))
    return folder / name


def csv(folder, name="sets.csv", kind="class", **more):
    x, lengths, most = draw(**more)
    lines = ["swarm,a,b,state"]
    for n, (rows, length) in enumerate(zip(x, lengths, strict=True)):
        for a, b in rows[:length]:
            target = {"class": "high" if most[n] > 57 else "low", "number": 1000 * most[n], "elements": b > -3}[kind]
            lines.append(f"s{n},{a},{b},{target}")
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


def train(folder, data, *, steps=100, **settings):
    fitted = fitted_recipe("vectors", {"data.spec": str(data), **settings}).config
    often = {"train.steps": steps, "train.evaluate_every": steps, "train.save_every": steps, "train.batch_tokens": 256}
    config = override(fitted, {**TINY, **often, "train.learning_rate": 1e-2, "train.schedule.warmup": 5})
    train_run(config, folder, Silent())
    return headway.load(folder, device="cpu")


def line(call, *arguments, error=DataError, **more):
    with pytest.raises(error) as caught:
        call(*arguments, **more)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_classes_are_learned_from_either_file_and_alike(tmp_path):
    runs = [
        train(tmp_path / "npz", npz(tmp_path)),
        train(tmp_path / "csv", csv(tmp_path), **{"data.group": "swarm", "data.label": "state"}),
    ]
    for run in runs:
        assert run.evaluate(split="val").values["accuracy"] > 0.9
        assert run.config.data.classes == ("high", "low")
    a, b = (run.classify([tmp_path / name]) for run, name in zip(runs, ("sets.npz", "sets.csv"), strict=True))
    assert len(a) == len(b) == 240
    assert all(one.top[0][0] == two.top[0][0] for one, two in zip(a, b, strict=True))
    shares = [[dict(each.top)["low"] for each in found] for found in (a, b)]
    assert shares[0] == pytest.approx(shares[1], abs=1e-4), "the same sets, and so the same weights"
    assert (a[7].given, b[7].given) == (f"{tmp_path}/sets.npz:7", f"{tmp_path}/sets.csv:s7")
    assert runs[0].classify([f"{tmp_path}/sets.npz:7"])[0].top[0][0] == a[7].top[0][0]


def test_the_standardisation_of_the_training_split_is_in_the_config(tmp_path):
    run = train(tmp_path / "run", npz(tmp_path), steps=1)
    written = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["model"]["features"]
    rows = run.data().splits["train"].rows.astype(np.float64)
    assert written["names"] == ["a", "b"]
    assert written["means"] == pytest.approx(rows.mean(0).tolist())
    assert written["deviations"] == pytest.approx(rows.std(0).tolist())
    torch.testing.assert_close(run.model.standardised(torch.tensor(rows)).mean(0), torch.zeros(2), atol=1e-3, rtol=0)
    assert len(run.data().splits["train"]) == 216  # val is not part of it


def test_numbers_are_learned_in_their_own_unit(tmp_path, capsys):
    run = train(tmp_path / "run", npz(tmp_path, kind="number"), steps=250)
    assert run.config.task.predicts == "number"
    found = run.evaluate(split="val").values
    assert found["r2"] > 0.9
    assert found["rmse"] < 3000  # of numbers around 60,000
    predictions = run.classify([tmp_path / "sets.npz"])
    off = np.asarray([each.number for each in predictions]) - 1000 * draw()[2]
    assert np.sqrt(np.square(off).mean()) < 4000
    assert predictions[0].top == []
    assert main(["classify", str(tmp_path / "run"), f"{tmp_path}/sets.npz:3", "--device", "cpu"]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/sets.npz:3\t{predictions[3].number:.6g}\n"
    assert main(["classify", str(tmp_path / "run"), f"{tmp_path}/sets.npz", "--json", "--device", "cpu"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["sets"] == 240
    assert said["predictions"][3] == {
        "set": f"{tmp_path}/sets.npz:3", "number": pytest.approx(predictions[3].number, rel=1e-6),
    }  # fmt: skip
    words = ["evaluate", str(tmp_path / "run"), "--plot", str(tmp_path / "numbers.png"), "--device", "cpu"]
    assert main(words) == 0
    assert (tmp_path / "numbers.png").read_bytes().startswith(b"\x89PNG")
    assert run.verify().bugs == []
    assert "sets.npz:0" in run.look(str(tmp_path / "sets.npz"))


@pytest.mark.parametrize("make", [npz, csv])
def test_each_element_can_have_a_class(tmp_path, make):
    named = {} if make is npz else {"data.group": "swarm", "data.label": "state"}
    run = train(tmp_path / "run", make(tmp_path, kind="elements"), **named)
    assert run.config.task.predicts == "elements"
    assert run.config.model.pool is None
    values = run.evaluate(split="val").values
    assert values["accuracy"] > 0.95
    assert values["elements"] == int(run.data().splits["val"].lengths.sum())
    x, lengths, _ = draw()
    predictions = run.classify([tmp_path / f"sets.{make.__name__}"])
    assert len(predictions) == lengths.sum()
    assert predictions[0].given.endswith("0[0]")
    right = [str(int(b > -3)) if make is npz else str(b > -3) for n in range(240) for b in x[n, : lengths[n], 1]]
    assert np.mean([each.top[0][0] == true for each, true in zip(predictions, right, strict=True)]) > 0.95
    assert run.verify().bugs == []
    assert run.look(str(tmp_path / f"sets.{make.__name__}"))


def test_other_data_is_evaluated_whole(tmp_path):
    run = train(tmp_path / "run", npz(tmp_path), steps=2)
    other = npz(tmp_path, "other.npz", seed=5, count=30)
    report = run.evaluate(data=str(other))
    assert (report.split, report.values["sets"]) == ("test", 30)


def test_features_of_another_file_go_by_name(tmp_path):
    run = train(tmp_path / "run", npz(tmp_path), steps=20)
    x, lengths, _ = draw()
    np.savez(tmp_path / "swapped.npz", x=x[:, :, ::-1], lengths=lengths, features=np.array(["b", "a"]))
    same = [run.classify([tmp_path / name]) for name in ("sets.npz", "swapped.npz")]
    assert [each.top for each in same[0]] == [each.top for each in same[1]]  # to the bit
    np.savez(tmp_path / "other.npz", x=x, features=np.array(["a", "c"]))
    assert "no feature 'b'; there are: a, c" in line(run.classify, [tmp_path / "other.npz"])
    np.savez(tmp_path / "wide.npz", x=np.zeros((2, 3, 5)))
    assert "no feature 'a'" in line(run.classify, [tmp_path / "wide.npz"])


def test_a_set_or_file_that_is_not_there_gets_one_line(tmp_path, capsys):
    run = train(tmp_path / "run", npz(tmp_path), steps=1)
    assert "no set '999'; there are 240: '0' to '239'" in line(run.classify, [f"{tmp_path}/sets.npz:999"])
    assert "no such file" in line(run.classify, [tmp_path / "none.npz"])
    assert main(["classify", str(tmp_path / "run"), "--device", "cpu"]) == 2
    assert f"no set: {tmp_path}/run classifies files, name at least one" in capsys.readouterr().err
    words = ["classify", str(tmp_path / "run"), str(tmp_path / "sets.npz"), "--out", str(tmp_path / "x.png")]
    assert main([*words, "--device", "cpu"]) == 2
    assert "--out draws images" in capsys.readouterr().err


def test_what_is_predicted_must_fit_data_and_model(tmp_path):
    numbers, elements, classes = (npz(tmp_path, f"{kind}.npz", kind=kind) for kind in ("number", "elements", "class"))
    said = line(train, tmp_path / "a", numbers, **{"task.predicts": "class"})
    assert "is not a class; --task.predicts number predicts a number" in said
    said = line(train, tmp_path / "b", classes, **{"task.predicts": "number"})
    assert "expected a finite number; a class is predicted with --task.predicts class" in said
    said = line(train, tmp_path / "c", classes, **{"task.predicts": "elements", "model.pool": "none"})
    assert "one target a set, task.predicts=elements expects one of each element" in said
    said = line(train, tmp_path / "d", elements, error=ConfigError, **{"model.pool": "mean-pool"})
    assert "task.predicts=elements with model.pool=a pool, allowed: none (--model.pool)" in said
    said = line(train, tmp_path / "e", classes, error=ConfigError, **{"model.pool": "none"})
    assert "task.predicts=class with model.pool=none, allowed: query-pool or mean-pool" in said
    assert "expected one target a set" in line(
        train, tmp_path / "f", elements, **{"task.predicts": "class", "model.pool": "mean-pool"}
    )


def test_a_class_that_train_lacks_gets_one_line(tmp_path):
    (tmp_path / "sets").mkdir()
    for name, label in (("train", "red"), ("val", "blue")):
        (tmp_path / "sets" / f"{name}.csv").write_text(f"id,x,label\na,1,{label}\nb,2,{label}\n")
    assert "class 'blue' of split val is not in train" in line(train, tmp_path / "run", tmp_path / "sets")


# --- what is proposed -----------------------------------------------------------------------------------------------


def test_files_of_vectors_are_recognised(tmp_path):
    proposed = recognise(str(npz(tmp_path)))
    assert proposed.preset == "vectors"
    assert proposed.sign == "the array x of sets.npz: 240 sets of up to 6 vectors of 2 numbers"
    path = csv(tmp_path)
    path.write_text(path.read_text().replace("swarm", "set_id", 1).replace("state", "label", 1))
    proposed = recognise(str(path))
    assert proposed.preset == "vectors"
    assert "the column set_id of sets.csv, which names sets of rows of numbers (a, b)" in proposed.sign
    assert recognise("robots").preset == "vectors"
    (tmp_path / "split").mkdir()
    npz(tmp_path / "split", "train.npz")
    assert recognise(str(tmp_path / "split")).preset == "vectors"


def test_what_was_found_in_a_table_is_said(tmp_path):
    path = csv(tmp_path, kind="number")
    path.write_text(path.read_text().replace("swarm", "set_id", 1).replace("state", "label", 1))
    found = fitted_recipe("vectors", {"data.spec": str(path)})
    assert found.notes == (
        "sets from column set_id, targets from column label (--data.group and --data.label choose others); "
        "a number of each set is predicted (--task.predicts chooses)",
    )
    assert found.config.task.predicts == "number"


def test_a_table_without_sets_is_not_taken_for_one(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("id,text,label\n" + "".join(f"{n},a fine film of {n},good\n" for n in range(30)))
    assert recognise(str(path)).preset != "vectors"
    path.write_text("id,x,label\n" + "".join(f"{n},{n},{n % 2}\n" for n in range(30)))  # a set of one row each
    with pytest.raises(DataError):
        recognise(str(path))


def test_a_command_without_a_preset_trains(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    npz(tmp_path, kind="number")
    settings = [f"--{key}={value}" for key, value in {**TINY, "train.steps": 2}.items()]
    assert main(["train", "--data", "sets.npz", "--out", "run", *settings]) == 0
    said = capsys.readouterr()
    assert "sets.npz: sets of vectors, by the array x of sets.npz" in said.out + said.err
    assert main(["evaluate", "run", "--json", "--device", "cpu"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"split", "steps", "rmse", "mae", "r2", "loss", "sets"}


# --- order ----------------------------------------------------------------------------------------------------------


def test_the_order_of_rows_has_an_effect_with_positions_only(tmp_path):
    x, lengths, _ = draw()
    turned = x.copy()
    for n, length in enumerate(lengths):
        turned[n, :length] = x[n, :length][::-1]
    np.savez(tmp_path / "turned.npz", x=turned, lengths=lengths)
    data = npz(tmp_path)
    for name, position, same in (("set", "none", True), ("sequence", "sinusoidal", False)):
        run = train(tmp_path / name, data, steps=30, **{"model.position": position})
        a, b = (run.classify([tmp_path / file]) for file in ("sets.npz", "turned.npz"))
        off = max(abs(dict(one.top)["low"] - dict(two.top)["low"]) for one, two in zip(a, b, strict=True))
        assert (off < 1e-5) is same


@pytest.mark.slow  # a training of a minute
def test_the_preset_learns_robots_and_needs_attention_for_it(tmp_path):
    """At least 98 % of held-out sets; without attention between elements much less."""
    recipe = override(PRESETS["vectors"].recipe(), {"train.device": "cpu", "data.cache": str(tmp_path / "cache")})
    train_run(recipe, tmp_path / "set", Silent())
    assert headway.load(tmp_path / "set", device="cpu").evaluate().values["accuracy"] >= 0.98
    alone = override(recipe, {"model.mixing": False, "model.pool": "mean-pool", "train.steps": 1500})
    train_run(alone, tmp_path / "alone", Silent())
    assert headway.load(tmp_path / "alone", device="cpu").evaluate().values["accuracy"] < 0.8


def test_the_features_of_the_preset_are_those_of_robots():
    config = PRESETS["vectors"].config()
    assert config.features.names == FEATURES
    assert config.outputs == len(CLASSES)
    assert swarms(1, seed=0).vectors.shape[2] == len(FEATURES)
