"""`headway info`: what a run folder says without its weights."""

from __future__ import annotations

import json
import shutil

import pytest

import headway
from headway.cli import main
from headway.errors import AdviceWarning
from headway.models import EncoderDecoderConfig
from headway.runs import load, read_config
from headway.runs.info import run_info
from tests.cli.test_commands import parallel, train_words
from tests.interop.folders import write_gpt2
from tests.interop.runs import write_run
from tests.models import tiny


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("info")
    cache = ["--data.cache", str(folder / "cache")]
    assert main(train_words(parallel(folder / "data"), folder / "run", cache)) == 0
    return folder / "run"


def test_json_is_one_flat_object(trained, capsys):
    assert main(["info", str(trained), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert not any(isinstance(value, dict) for value in facts.values())
    assert (facts["run"], facts["task"], facts["model"]) == (str(trained), "translation", "encoder-decoder")
    assert facts["origin"] == "trained"
    assert facts["data"] == str(trained.parent / "data")
    assert {"digest_train", "digest_val", "vocabulary"} <= set(facts)
    assert (facts["step"], facts["steps_planned"], facts["last_step"]) == (6, 6, 6)
    best = json.loads((trained / "best.json").read_text())
    assert (facts["best_step"], facts["best_loss"]) == (best["step"], best["loss"])
    assert facts["val_loss"] > 0
    assert facts["validated_step"] == 6
    assert facts["checkpoints"] == [3, 6]
    assert 0 < facts["checkpoint_bytes"] < facts["bytes"]
    assert (facts["copies"], facts["copy_bytes"]) == ([], 0)
    config = read_config(trained)
    assert facts["can"] == list(config.task.pipeline_class().can(config.model))


def test_python_gives_the_same_facts(trained, capsys):
    assert main(["info", str(trained), "--json"]) == 0
    assert load(trained, device="cpu").info() == json.loads(capsys.readouterr().out)


def test_the_parameters_are_those_of_the_model(trained):
    model = load(trained, device="cpu").model
    assert run_info(trained)["parameters"] == sum(parameter.numel() for parameter in model.parameters())


def test_for_people_it_is_a_line_a_fact(trained, capsys):
    assert main(["info", str(trained)]) == 0
    lines = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    facts = {name.strip(): value.strip() for name, value in lines.items()}
    assert facts["run"] == str(trained)
    assert facts["trained"] == "6 of 6 steps"
    assert facts["checkpoints"].startswith("2 (step 3, 6), ")
    assert facts["best"].startswith("step ")
    assert facts["last validation"].startswith("step 6, loss ")
    assert ", tokens " in facts["last step"]
    assert ", gradient norm " in facts["last step"]


def test_a_batch_is_counted_in_the_unit_of_the_task(tmp_path, capsys):
    folder = write_run(tmp_path / "run", tiny.VIT)
    (folder / "log.jsonl").write_text(json.dumps({"step": 1, "loss": 2.5, "norm": 0.5, "tokens": 8}) + "\n")
    assert main(["info", str(folder)]) == 0
    assert "step 1, loss 2.5, gradient norm 0.5, images 8\n" in capsys.readouterr().out
    assert main(["info", str(folder), "--json"]) == 0
    assert {"last_norm", "last_tokens"} <= set(json.loads(capsys.readouterr().out))


def test_no_weights_are_read(trained, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(trained, copy)
    for path in copy.rglob("*.safetensors"):
        path.write_bytes(b"")
    assert run_info(copy)["parameters"] == run_info(trained)["parameters"]


def test_an_int8_copy_is_listed(tmp_path):
    folder = write_run(tmp_path / "run", EncoderDecoderConfig(vocab=1), spec="")
    load(folder, precision="int8", device="cpu")
    facts = run_info(folder)
    assert facts["copies"] == ["int8"]
    assert 0 < facts["copy_bytes"] < facts["bytes"]
    for name in ("facts.json", "MANIFEST.json"):
        path = folder / "int8" / name
        before = path.read_bytes()
        path.write_bytes(before.replace(b'"', b"'", 1))
        with pytest.warns(AdviceWarning, match=r"int8 is damaged or of another version"):
            assert "int8_loss_rise" not in run_info(folder)
        path.write_bytes(before)


def test_the_size_is_told_by_kind(trained, tmp_path, capsys):
    """TRIALS B, habits: a run of 2.6 M parameters takes 226 MB, and nothing says of what."""
    facts = run_info(trained)
    kinds = ("optimiser", "copy", "reference", "page", "damaged", "other")
    weights = facts["checkpoint_bytes"] - facts["optimiser_bytes"]
    assert facts["bytes"] == weights + sum(facts[f"{kind}_bytes"] for kind in kinds)
    assert facts["optimiser_bytes"] > weights > 0
    assert main(["info", str(trained)]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("on disk"))
    assert "(weights " in line
    assert ", optimiser state " in line
    assert "reference" not in line  # it has none
    write_gpt2(tmp_path / "gpt2")
    assert main(["import", str(tmp_path / "gpt2"), "--out", str(tmp_path / "run")]) == 0
    assert "(weights " in capsys.readouterr().err.splitlines()[-1]


def test_an_imported_run_says_so(tmp_path, capsys):
    write_gpt2(tmp_path / "gpt2")
    assert main(["import", str(tmp_path / "gpt2"), "--out", str(tmp_path / "run")]) == 0
    facts = run_info(tmp_path / "run")
    assert (facts["origin"], facts["data"], facts["step"], facts["checkpoints"]) == ("imported", None, 0, [0])
    assert main(["info", str(tmp_path / "run")]) == 0
    assert "none of its own: the run was imported" in capsys.readouterr().out


@pytest.mark.parametrize("damage", ["the last evaluation is cut off", "another file of the run is in its place"])
def test_a_log_without_its_end_is_told(damage, trained, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    log = run / "log.jsonl"
    if damage.startswith("another"):
        log.write_bytes((run / "latest.json").read_bytes())
    else:
        *lines, last = log.read_bytes().splitlines(keepends=True)
        assert b"val_loss" in last
        log.write_bytes(b"".join(lines))
    with pytest.warns(AdviceWarning, match=r"log\.jsonl (lacks the evaluation of step 6|ends at step 0|has damaged)"):
        run_info(run)


def test_a_run_that_has_only_begun(trained, tmp_path):
    for name in ("config.yaml", "tokenizer.json"):
        shutil.copy(trained / name, tmp_path / name)
    facts = run_info(tmp_path)
    assert (facts["step"], facts["checkpoints"], facts["best_loss"]) == (0, [], None)
    (tmp_path / "log.jsonl").write_text('{"step": 1, "loss": 2.5}\n{"step": 2, "lo')  # cut short by a crash
    assert (run_info(tmp_path)["last_loss"], run_info(tmp_path)["step"]) == (2.5, 1)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, "no such run (it has no config.yaml)"),
        ("- a list\n", "config.yaml is not the config of a run"),
        ("other: {}\n", "config.yaml is not the config of a run (no config key 'other'"),
        ("a: [\n", "config.yaml: line 2: not YAML"),
    ],
)
def test_a_folder_that_is_not_a_run_is_one_line_and_exit_code_four(config, message, tmp_path, capsys):
    if config is not None:
        (tmp_path / "config.yaml").write_text(config)
    assert main(["info", str(tmp_path)]) == 4
    error = capsys.readouterr().err
    assert error.startswith("headway: ")
    assert error.count("\n") == 1
    assert message in error


def test_a_missing_folder_and_a_file_are_not_runs(tmp_path, capsys):
    assert main(["info", str(tmp_path / "nothing")]) == 4
    (tmp_path / "file").write_text("")
    assert main(["info", str(tmp_path / "file"), "--json"]) == 4
    assert capsys.readouterr().out == ""


def test_a_task_says_what_it_can(trained, capsys):
    assert main(["info", str(trained)]) == 0
    can = ", ".join(headway.load(trained, device="cpu").can())
    assert f"can              {can}" in capsys.readouterr().out
