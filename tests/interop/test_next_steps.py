"""What cannot be imported is refused with a next step that works when it is copied into a shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from headway.errors import BadModelError
from headway.interop.families import FAMILIES
from headway.interop.importer import inspect_folder
from headway.interop.unsupported import UNSUPPORTED
from headway.runs.import_folder import import_folder
from tests.interop.folders import CONFIG, write_gpt2
from tests.interop.peers import BERT, hf

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(98))]


def refusal(path: Path) -> str:
    with pytest.raises(BadModelError) as error:
        inspect_folder(path)
    assert "\n" not in str(error.value)
    return str(error.value)


def bert_folder(folder: Path, kind: str) -> Path:
    """A random BERT of transformers with a vocabulary."""
    torch.manual_seed(0)
    getattr(hf, kind)(hf.BertConfig(**BERT, num_labels=3)).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return folder


def change_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not ...}))


def follow(command: str, folder: Path) -> None:
    """Run the advice as it is written; `python` and `headway` are those of this test."""
    binaries = folder / "bin"
    binaries.mkdir()
    source = Path(__file__).parents[2] / "src"
    for name, arguments in (("python", ""), ("headway", " -m headway")):
        (binaries / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{arguments} "$@"\n')
        (binaries / name).chmod(0o755)
    path = {"PATH": f"{binaries}:{os.environ['PATH']}", "PYTHONPATH": str(source)}
    done = subprocess.run(["sh", "-c", command], cwd=folder, env=os.environ | path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_advice_after_a_pickle_keeps_heads_and_tokenizer(tmp_path: Path) -> None:
    """TRIALS B bug 6: a BertForPreTraining whose config names no model_type, and a vocab.txt."""
    folder = bert_folder(tmp_path / "my model", "BertForPreTraining")
    weights = hf.BertForPreTraining.from_pretrained(folder).state_dict()
    torch.save(weights, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    change_config(folder, model_type=...)
    advice = refusal(folder)
    assert "pickle can run code and is never read; where you trust it, run: " in advice
    follow(advice.partition("run: ")[2], tmp_path)
    plan = inspect_folder(tmp_path / "my model-safetensors")
    assert plan.family.name == "bert"
    assert "follows.weight" in plan.shapes  # of the head for the next sentence
    assert (tmp_path / "runs/my model/config.yaml").is_file()
    assert plan.read_tokenizers().files.libraries["tokenizer.json"].token_to_id("w7") == WORDS.index("w7")


def test_a_pickle_that_nothing_names_gets_no_command_that_would_fail(tmp_path: Path) -> None:
    """TRIALS B bug 6: neither architectures nor model_type; and a file that from_pretrained does not look for."""
    folder = bert_folder(tmp_path / "a", "BertModel")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    change_config(folder, model_type=..., architectures=...)
    assert "names neither architectures nor model_type" in refusal(folder)
    change_config(folder, model_type="bert")
    assert "transformers.AutoModelForPreTraining.from_pretrained" in refusal(folder)
    change_config(folder, architectures=["os.system"])  # never a name that is not a class
    assert "os.system" not in refusal(folder)
    (folder / "pytorch_model.bin").rename(folder / "last.ckpt")
    assert "torch.load(FILE, weights_only=True)" in refusal(folder)


def test_a_classifier_is_imported_without_its_head(tmp_path: Path) -> None:
    folder = bert_folder(tmp_path / "a", "BertForNextSentencePrediction")
    advice = refusal(folder)
    assert "architectures ['BertForNextSentencePrediction'], there are BertModel" in advice
    follow(advice.partition("without its head: ")[2], tmp_path)
    assert (tmp_path / "runs/a/config.yaml").is_file()


@pytest.mark.parametrize("name", ["phi3", "mixtral", "xlm-roberta", "whisper", "lama", "nothing"])
def test_an_unsupported_type_is_refused_with_the_nearest_that_works(tmp_path: Path, name: str) -> None:
    path = write_gpt2(tmp_path / "a")
    (path / "config.json").write_text(json.dumps(CONFIG | {"model_type": name}))
    said = refusal(path)
    nearest = {"phi3": "llama", "mixtral": "mistral", "xlm-roberta": "roberta", "lama": "llama"}.get(name)
    assert f"config.json: model_type '{name}' is " in said
    assert (f"the nearest that works is {nearest};" if nearest else "none that works is near;") in said
    assert (f"({UNSUPPORTED[name][0]})" if name in UNSUPPORTED else "is unknown") in said


def test_the_nearest_of_every_unsupported_type_is_imported() -> None:
    assert {nearest for _, nearest in UNSUPPORTED.values()} - {""} <= FAMILIES.keys()
    assert UNSUPPORTED.keys() <= {*hf.CONFIG_MAPPING.keys()}  # each is a type of transformers


def test_an_xlm_roberta_is_imported_under_the_name_of_roberta(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    hf.XLMRobertaForMaskedLM(hf.XLMRobertaConfig(**BERT)).save_pretrained(folder)
    change_config(folder, model_type="roberta", architectures=["RobertaForMaskedLM"])
    assert inspect_folder(folder).family.name == "roberta"


def test_an_id_outside_the_vocabulary_is_noted_and_ignored(tmp_path: Path) -> None:
    """TRIALS B bug 4: GPT-2's default 50256 beside a smaller vocabulary, in either file; transformers loads it."""
    path = write_gpt2(tmp_path / "a")
    (path / "config.json").write_text(json.dumps(CONFIG | {"bos_token_id": 50256, "eos_token_id": [3, 50256]}))
    (path / "generation_config.json").write_text(json.dumps({"bos_token_id": 50257, "pad_token_id": -1}))
    report = import_folder(path, tmp_path / "run")
    assert len(report.notes) == 3
    assert report.notes[0].startswith("generation_config.json: bos_token_id=50257 is outside the vocabulary")
    assert report.notes[1].startswith("config.json: eos_token_id=50256 is outside")
    assert inspect_folder(path).tokens.stop == (3,)


def test_a_bad_id_is_blamed_on_the_file_that_has_it(tmp_path: Path) -> None:
    """TRIALS B bug 4: config.json was named for a value of generation_config.json."""
    path = write_gpt2(tmp_path / "a")
    for key, value in (("eos_token_id", "x"), ("bos_token_id", 1.5), ("decoder_start_token_id", 10**6)):
        (path / "generation_config.json").write_text(json.dumps({key: value}))
        said = refusal(path)
        assert said.startswith(f"{path}/generation_config.json: {key}=")
        assert "/config.json" not in said
    (path / "generation_config.json").unlink()
    (path / "config.json").write_text(json.dumps(CONFIG | {"eos_token_id": "x"}))
    assert refusal(path).startswith(f"{path}/config.json: eos_token_id=")
