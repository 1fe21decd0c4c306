"""A run's model in every precision, and the 8-bit copy that is kept beside it."""

from __future__ import annotations

import json
import time

import pytest
import torch

from headway.cli import main
from headway.errors import ConfigError, NoRunError
from headway.nn.int8 import Int8Linear, supported
from headway.runs import load
from headway.runs.int8_copy import opened
from headway.runs.verify import verification_subject
from headway.runs.weights import pick_precision


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    home = tmp_path_factory.mktemp("weights")
    words = home / "words.txt"
    words.write_text("the cat sat on the mat and the dog sat on the log\n" * 60)
    out = home / "run"
    command = ["train", "gpt-char", "--data", str(words), "--out", str(out), "--data.cache", str(home / "cache")]
    model = {"model.width": 32, "model.layers": 2, "model.heads": 2, "model.context": 16, "task.context": 16}
    train = {"train.steps": 30, "train.save_every": 15, "train.evaluate_every": 15, "train.batch_tokens": 128}
    assert main(command + [word for key, value in (model | train).items() for word in (f"--{key}", str(value))]) == 0
    return out


def test_precisions_differ_little(run):
    prompt = load(run).pipeline.prompt("the cat")
    exact = load(run).model(prompt)
    assert torch.equal(exact, load(run, precision="fp32").model(prompt))
    half = load(run, precision="bf16").model(prompt)
    assert half.dtype == torch.bfloat16
    assert (half.float() - exact).norm() < 0.05 * exact.norm()
    eight = load(run, precision="int8").model(prompt)
    assert (eight - exact).norm() < 0.1 * exact.norm()


def test_the_copy_is_kept_and_used(run, monkeypatch):
    first = load(run, precision="int8")
    kept = run / "int8"
    assert {path.name for path in kept.iterdir()} == {"MANIFEST.json", "facts.json", "model.safetensors"}
    stamp = (kept / "model.safetensors").stat().st_mtime_ns
    monkeypatch.setattr("headway.training.checkpoints.read_tensors", lambda path: pytest.fail("the checkpoint is read"))
    second = load(run, precision="int8")
    assert (kept / "model.safetensors").stat().st_mtime_ns == stamp
    assert first.steps == second.steps
    prompt = first.pipeline.prompt("the dog")
    assert torch.equal(first.model(prompt), second.model(prompt))
    assert any(isinstance(part, Int8Linear) for part in second.model.modules())


@pytest.mark.parametrize("harm", ["damage", "another", "no facts"])
def test_a_copy_that_is_damaged_or_of_other_checkpoints_is_made_again(run, harm):
    load(run, precision="int8")
    kept, time_before = run / "int8", time.time_ns()
    if harm == "damage":
        path = kept / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-3] + b"abc")
    elif harm == "another":
        (kept / "facts.json").write_text(json.dumps({"checkpoints": "0" * 64}))
    else:
        (kept / "facts.json").unlink()
    prompt = load(run).pipeline.prompt("the log")
    logits = load(run, precision="int8").model(prompt)
    assert (logits - load(run).model(prompt)).norm() < 0.1 * logits.norm()
    assert (kept / "model.safetensors").stat().st_mtime_ns >= time_before - 10**9
    assert json.loads((kept / "facts.json").read_text())["checkpoints"] != "0" * 64


def test_a_processor_that_cannot_pack_uses_the_copy_as_well(run, monkeypatch):
    packed = load(run, precision="int8")
    prompt = packed.pipeline.prompt("the mat")
    expected = packed.model(prompt)
    for module in ("headway.nn.int8.layers", "headway.runs.int8_copy"):
        monkeypatch.setattr(f"{module}.supported", lambda: False)
    monkeypatch.setattr("headway.runs.int8_copy.fbgemm", lambda: pytest.fail("there is no such engine"))
    plain = load(run, precision="int8").model
    assert all(part.packed_weight is None for part in plain.modules() if isinstance(part, Int8Linear))
    assert (plain(prompt) - expected).norm() < 0.1 * expected.norm()


def test_a_folder_without_a_run_is_said_so_in_eight_bits_too(tmp_path):
    engine = torch.backends.quantized.engine
    with pytest.raises(NoRunError, match="no such run"):
        load(tmp_path / "nothing", precision="int8", device="cpu")
    assert torch.backends.quantized.engine == engine


def test_auto_is_the_fastest_there_is():
    assert pick_precision("auto", torch.device("cpu")) == ("int8" if supported() else "fp32")
    assert pick_precision("auto", torch.device("cuda")) == "bf16"
    assert pick_precision("bf16", torch.device("cpu")) == "bf16"
    with pytest.raises(ConfigError, match="precision='int8' is for a CPU, this is cuda"):
        pick_precision("int8", torch.device("cuda"))


def test_evaluating_in_eight_bits(run, capsys):
    losses = []
    for precision in ("fp32", "int8", "bf16"):
        capsys.readouterr()
        assert main(["evaluate", str(run), "--precision", precision, "--json"]) == 0
        losses.append(json.loads(capsys.readouterr().out)["loss"])
    assert losses[1] == pytest.approx(losses[0], abs=0.05)
    assert losses[2] == pytest.approx(losses[0], abs=0.05)


def test_a_copy_is_judged_as_it_is_when_it_is_loaded(run, monkeypatch):
    """A check begun for a command that never came to it is not kept for the next one."""
    prompt = load(run, precision="int8").pipeline.prompt("the log")
    sound = load(run, precision="int8").model(prompt)
    monkeypatch.setattr("headway.cli._import_torch", lambda: pytest.fail("stopped before the run is read"))
    with pytest.raises(pytest.fail.Exception):
        main(["evaluate", str(run), "--precision", "int8"])
    path = run / "int8" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-3] + b"abc")
    assert torch.equal(load(run, precision="int8").model(prompt), sound)


def test_a_copy_that_is_replaced_while_it_is_read_is_not_taken_for_the_new_one(run):
    load(run, precision="int8")
    with opened(run) as copy:
        key = json.loads((run / "int8" / "facts.json").read_text())["checkpoints"]
        manifest = run / "int8" / "MANIFEST.json"
        was = manifest.read_text()
        assert copy.is_of(key)
        manifest.write_text(was + " ")
        assert not copy.is_of(key)
        manifest.write_text(was)


def test_a_name_that_no_folder_can_have_is_one_line(capsys):
    assert main(["evaluate", "a" * 300, "--precision", "int8"]) == NoRunError.exit_code
    assert capsys.readouterr().err.startswith("headway: ")


def test_verify_compares_precisions_of_the_same_checkpoints(run):
    mean = load(run, device="cpu", average=2)
    subject = verification_subject(mean)
    prompt = mean.pipeline.prompt("the cat")
    assert mean.steps == [15, 30]
    assert not torch.equal(mean.model(prompt), load(run, device="cpu", average=1).model(prompt))
    assert torch.equal(subject.precise("fp32")(prompt), mean.model(prompt))


def test_rounded_weights_are_neither_exported_nor_verified(run, tmp_path):
    rounded = load(run, device="cpu", precision="bf16")
    with pytest.raises(ConfigError, match=r"precision='bf16'; load it with device='cpu', precision='fp32'"):
        rounded.export(tmp_path / "out")
    with pytest.raises(ConfigError, match=r"precision='bf16'; load it with precision='fp32'"):
        rounded.verify()
    assert not (tmp_path / "out").exists()
