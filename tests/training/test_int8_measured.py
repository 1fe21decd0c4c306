"""The rise of the loss by 8-bit weights: measured when the copy is made, kept, shown, and what `auto` goes by."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

from headway.cli import main
from headway.errors import AdviceWarning
from headway.models import GptConfig
from headway.nn import int8
from headway.nn.int8.outliers import OutlierInt8Linear
from headway.nn.norms import RMSNorm
from headway.nn.positions import Rotary
from headway.runs import load
from headway.runs.info import run_info
from headway.runs.int8_copy import FORMAT, kept_facts
from headway.training.checkpoints import Checkpoints
from tests.interop.runs import found_in, save, write_run

pytestmark = pytest.mark.skipif(not int8.supported(), reason="this torch or processor has no 8-bit product")
LLAMA = GptConfig(
    vocab=1, context=24, width=16, layers=2, heads=4, inner=24, position=Rotary(), norm=RMSNorm(), bias=False,
    activation="swiglu",
)  # fmt: skip


@pytest.fixture(scope="module")
def outliers(tmp_path_factory):
    """An imported run whose networks are fed a few columns a thousand times as large as the others."""
    folder = write_run(tmp_path_factory.mktemp("outliers") / "run", LLAMA, stir=0.4, spec="")
    weights, _ = Checkpoints(folder).weights()
    for name in [name for name in weights if name.endswith("feedforward_norm.weight")]:
        weights[name][2:4] *= 1000
        weights[name.replace("feedforward_norm", "feedforward.up")][:, 2:4] /= 1000
    save(folder, weights)
    return folder


@pytest.fixture
def run(outliers, tmp_path):
    return shutil.copytree(outliers, tmp_path / "run")


def test_a_model_with_outliers_keeps_its_distribution(run):
    """TRIALS B bug 1: int8 with one scale per call damages models with outlier columns."""
    exact, quick = load(run, device="cpu"), load(run, device="cpu", precision="int8")
    tokens = torch.randint(5, exact.tokenizer.size, (4, 20), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        p, q = (each.model(tokens).log_softmax(-1) for each in (exact, quick))
    assert float((p.exp() * (p - q)).sum(-1).mean()) < 0.01
    assert any(isinstance(part, OutlierInt8Linear) for part in quick.model.modules())
    assert quick.int8.acceptable
    assert quick.int8.methods


def test_verify_finds_no_bug_in_a_model_with_outliers(run):
    assert found_in(run)["precision int8"].verdict == "rounding"


def test_the_figure_is_kept_with_the_copy_and_shown(run, capsys):
    first = load(run, device="cpu", precision="auto")
    assert first.precision == "int8"
    assert kept_facts(run) == first.int8
    facts = json.loads((run / "int8" / "facts.json").read_text())
    assert (facts["format"], facts["loss_rise"], facts["methods"]) == (FORMAT, first.int8.rise, first.int8.methods)
    second = load(run, device="cpu", precision="auto")  # from the copy
    assert second.int8 == first.int8
    prompt = first.prompt("a man is")
    assert torch.equal(first.model(prompt), second.model(prompt))
    values = run_info(run)
    assert values["int8_loss_rise"] == first.int8.rise
    assert values["int8_by_auto"]
    assert main(["info", str(run)]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("int8 "))
    assert f"perplexity {1 + first.int8.rise:.4f} times that of fp32" in line
    assert "layers not plain: " in line


def test_auto_declines_what_costs_too_much_and_says_so(run, monkeypatch, capsys):
    monkeypatch.setattr("headway.nn.int8.choice.BOUNDS", ())  # no other methods than plain
    for _ in range(2):  # when the copy is made, and from the copy
        with pytest.warns(AdviceWarning, match=r"auto takes fp32, not int8: perplexity \d+\.\d+ times that of fp32 on"):
            found = load(run, device="cpu", precision="auto")
        assert (found.precision, found.int8) == ("fp32", None)
    prompt = found.prompt("a man is")
    assert torch.equal(found.model(prompt), load(run, device="cpu").model(prompt))
    with pytest.warns(AdviceWarning, match=r"precision int8: perplexity \d+\.\d+ times that of fp32"):
        assert load(run, device="cpu", precision="int8").precision == "int8"
    assert kept_facts(run).rise > 0.05
    assert main(["info", str(run)]) == 0
    assert "; auto takes fp32\n" in capsys.readouterr().out


def test_a_model_without_outliers_has_plain_layers(tmp_path):
    found = load(write_run(tmp_path / "run", LLAMA, spec=""), device="cpu", precision="auto")
    assert found.precision == "int8"
    assert (found.int8.methods, found.int8.own) == ({}, False)


def test_a_copy_of_the_older_format_is_made_again(run):
    load(run, device="cpu", precision="int8")
    facts = json.loads((run / "int8" / "facts.json").read_text())
    (run / "int8" / "facts.json").write_text(json.dumps({"checkpoints": facts["checkpoints"]}))
    assert kept_facts(run) is None
    assert load(run, device="cpu", precision="int8").int8.rise == facts["loss_rise"]
    assert json.loads((run / "int8" / "facts.json").read_text()) == facts


def test_a_long_measurement_is_told(run, monkeypatch):
    monkeypatch.setattr("headway.runs.weights.TELL_PARAMETERS", 1)
    with pytest.warns(AdviceWarning, match=r"int8 weights made and measured in \d+ s, kept in .*int8; perplexity"):
        load(run, device="cpu", precision="int8")
