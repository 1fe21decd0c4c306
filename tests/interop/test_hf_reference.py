"""What transformers says of a folder stays with the run; by it `verify` finds weights that were taken up wrongly."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from torch import Tensor

import headway
from headway.cli import main
from headway.errors import BadModelError, ConfigError
from headway.interop.hf_reference import REFERENCE
from headway.runs.import_folder import import_folder
from headway.runs.seal import seal_run
from headway.storage.tensors import read_tensors
from tests.interop import peers
from tests.interop.folders import CONFIG, characters, write_gpt2
from tests.interop.runs import bugs, found_in, save

FAMILIES = (
    "bert",
    "bert-masked",
    "bert-without-pooler",
    "roformer-masked",
    "longformer-masked",
    "marian",
    "bart",
    "vit",
)


def write_peer(folder: Path, name: str) -> Path:
    """A folder as transformers saves it, every weight drawn anew."""
    torch.manual_seed(0)
    theirs = peers.TINY[name]().eval()
    peers.unsettle(theirs, 0.2)
    theirs.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(json.dumps(characters()))
    return folder


def referenced(tmp_path: Path, name: str) -> Path:
    import_folder(write_peer(tmp_path / "a", name), tmp_path / "run", with_reference=True)
    return tmp_path / "run"


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_taken_up_agrees_with_transformers_own_model(name, tmp_path):
    findings = found_in(referenced(tmp_path, name))
    assert findings["stored reference"].verdict == "rounding"
    assert not [key for key, finding in findings.items() if finding.verdict == "bug"]
    assert float(read_tensors(tmp_path / "run" / REFERENCE)["logits"].abs().max()) > 0.1


def test_the_folder_may_be_in_several_files_and_half_precision(tmp_path):
    path = write_gpt2(tmp_path / "a", shards=3)
    for dtype in ("float32", "float16"):
        (path / "config.json").write_text(json.dumps(CONFIG | {"dtype": dtype}))
        import_folder(path, tmp_path / dtype, with_reference=True)
        kept = read_tensors(tmp_path / dtype / REFERENCE)
        assert kept["logits"].dtype == torch.float32
        assert found_in(tmp_path / dtype)["stored reference"].verdict == "rounding"


def transposed(weights: dict[str, Tensor]) -> None:
    weights["stack.blocks.0.attention.out.weight"] = weights["stack.blocks.0.attention.out.weight"].mT


def swapped(weights: dict[str, Tensor]) -> None:
    for name in [name for name in weights if ".qkv.weight" in name]:
        q, k, v = weights[name].chunk(3)
        weights[name] = torch.cat([k, q, v])


def mirrored(weights: dict[str, Tensor]) -> None:
    weights["patches.projection.weight"] = weights["patches.projection.weight"].flip(1)


@pytest.mark.parametrize(
    ("name", "plant"), [("gpt2", transposed), ("gpt2", swapped), ("bert-masked", swapped), ("vit", mirrored)]
)
def test_weights_taken_up_wrongly_end_with_exit_3_and_the_row(name, plant, tmp_path, capsys):
    run = str(tmp_path / "run")
    assert main(["import", str(write_peer(tmp_path / "a", name)), "--out", run, "--reference"]) == 0
    assert main(["verify", run, "--device", "cpu"]) == 0
    capsys.readouterr()
    weights = headway.load(run, device="cpu").model.state_dict()
    plant(weights)
    save(tmp_path / "run", weights)
    assert main(["verify", run, "--device", "cpu"]) == 3
    said = capsys.readouterr()
    assert "checks found a bug: stored reference" in said.err
    assert "logits of another program, kept in the run: input " in said.out


def test_a_llama_turned_by_the_other_layout(tmp_path):
    run = referenced(tmp_path, "llama")
    assert found_in(run)["stored reference"].verdict == "rounding"
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("halves", "interleaved"))
    assert seal_run(run) == ["config.yaml"]
    assert "stored reference" in bugs(run)


def test_global_projections_are_part_of_what_is_compared(tmp_path):
    run = referenced(tmp_path, "longformer-masked")
    weights = headway.load(run, device="cpu").model.state_dict()
    named = [name for name in weights if ".global_" in name]
    assert named
    for name in named:
        weights[name] = 1.5 * weights[name]
    save(run, weights)
    assert bugs(run) == {"stored reference"}


def test_without_transformers_nothing_is_begun(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("headway.interop.hf_reference.with_transformers", lambda: False)
    path = write_gpt2(tmp_path / "a")
    assert main(["import", str(path), "--out", str(tmp_path / "run"), "--reference"]) == 2
    assert re.search(
        r"--reference, which asks transformers .* needs transformers: .*pip install", capsys.readouterr().err
    )
    assert not (tmp_path / "run").exists()
    assert main(["import", str(path), "--out", str(tmp_path / "run")]) == 0
    assert not (tmp_path / "run" / REFERENCE).exists()


def test_a_folder_that_transformers_cannot_load_leaves_no_run(tmp_path, monkeypatch):
    path = write_gpt2(tmp_path / "a")
    (path / "config.json").write_text(json.dumps({key: CONFIG[key] for key in CONFIG if key != "architectures"}))
    with pytest.raises(ConfigError, match="names no architectures"):
        import_folder(path, tmp_path / "run", with_reference=True)
    (path / "config.json").write_text(json.dumps(CONFIG))

    def fails(folder: Path, name: str) -> None:
        raise OSError("a\nlong story")

    monkeypatch.setattr("headway.interop.hf_reference.load_hf_model", fails)
    with pytest.raises(BadModelError, match=r"transformers cannot load it \(OSError: a long story\)"):
        import_folder(path, tmp_path / "run", with_reference=True)
    assert not (tmp_path / "run").exists()
