"""Adapter folders: headway's read by PEFT, PEFT's read by headway, with equal logits."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import headway
from headway.cli import main
from headway.config import override
from headway.data.config import DataConfig
from headway.data.tokenizers import Characters, Tokenizer, Word
from headway.errors import ConfigError, DataError
from headway.models import BertConfig, BertPretrainingConfig, GptConfig
from headway.nn.lora import Lora
from headway.nn.norms import RMSNorm
from headway.nn.positions import Rotary
from headway.presets import preset
from headway.runs import read_config
from headway.runs.finetune import fine_tuned
from headway.runs.train import train_run
from headway.tasks.masked_lm import Masked
from tests.runs.test_finetune import FEW, write_source
from tests.training.small import Silent

SIZES = {"width": 16, "layers": 2, "heads": 2, "inner": 32}
TEXT = "I like dogs. You fear cats!\n"
GPT2 = GptConfig(vocab=1, context=16, **SIZES)
LLAMA = GptConfig(
    vocab=1, context=16, **{**SIZES, "heads": 4}, kv_heads=2, position=Rotary(layout="halves"), norm=RMSNorm(),
    activation="swiglu", bias=False, tied=False,
)  # fmt: skip
BERT = BertPretrainingConfig(bert=BertConfig(vocab=1, context=24, **SIZES))
KINDS = {"gpt2": ("gpt-char", GPT2), "llama": ("gpt-char", LLAMA), "bert": ("bert-base", BERT)}
AUTO = {"gpt2": "AutoModelForCausalLM", "llama": "AutoModelForCausalLM", "bert": "AutoModelForPreTraining"}


def base_run(folder: Path, kind: str, seed: int = 3) -> Path:
    name, model = KINDS[kind]
    if kind == "bert":
        words = Tokenizer.train(Word(), [TEXT], specials=("<pad>", "<unk>", "<s>", "</s>", "<mask>"))
        return write_source(folder, Masked(length=24), model, words, seed=seed)
    characters = Tokenizer.train(Characters(), [TEXT], specials=())
    task = replace(preset(name).recipe().task, context=16)
    return write_source(folder, task, model, characters, DataConfig(tokenizer=Characters()), seed=seed)


def adapted_run(base: Path, out: Path, kind: str, lora: Lora) -> Path:
    """The base trained further for a few large steps, so that the adapters are far from zero."""
    (out.parent / "text.txt").write_text(TEXT * 20)
    recipe = fine_tuned(preset(KINDS[kind][0]).recipe(), read_config(base), base)
    fixed = {
        **FEW, "train.learning_rate": 0.05, "train.steps": 4, "train.evaluate_every": 4, "train.save_every": 4,
        "train.schedule": "constant", "train.accumulate": 1, "train.precision": "fp32",
        "data.spec": str(out.parent / "text.txt"), "data.cache": str(out.parent / "cache"), "train.lora": lora,
    }  # fmt: skip
    train_run(override(recipe, fixed), out, Silent(), init=base)
    return out


@pytest.fixture(scope="module", params=KINDS)
def runs(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    base = base_run(folder / "base", request.param)
    tuned = adapted_run(base, folder / "tuned", request.param, Lora(rank=3, alpha=6.0))
    headway.load(tuned, device="cpu").export(folder / "adapter", adapter=True)
    return request.param, base, tuned, folder / "adapter"


def logits(run: headway.Run) -> torch.Tensor:
    with torch.no_grad():
        found = run.model(tokens_of(run))
    return found.tokens if isinstance(found, tuple) else found


def tokens_of(run: headway.Run) -> torch.Tensor:
    return torch.randint(run.tokenizer.size, (2, 12), generator=torch.Generator().manual_seed(0))


def test_an_adapter_on_its_base_is_the_run_that_was_trained(runs):
    kind, base, tuned, adapter = runs
    whole, plain = headway.load(tuned, device="cpu"), headway.load(base, device="cpu")
    made = headway.load(base, device="cpu", adapter=adapter)
    assert (logits(whole) - logits(plain)).abs().max() > 0.1
    torch.testing.assert_close(logits(made), logits(whole), atol=1e-5, rtol=0)
    assert {path.name for path in adapter.iterdir()} >= {"adapter_config.json", "adapter_model.safetensors"}
    size = sum(path.stat().st_size for path in adapter.iterdir())
    assert size < 0.6 * sum(path.stat().st_size for path in (base / "checkpoints" / "step-00000001").iterdir()), kind


def test_peft_loads_what_headway_writes(runs, tmp_path):
    peft, transformers = pytest.importorskip("peft"), pytest.importorskip("transformers")
    kind, base, tuned, adapter = runs
    headway.load(base, device="cpu").export(tmp_path / "hf")
    theirs = getattr(transformers, AUTO[kind]).from_pretrained(tmp_path / "hf")
    theirs = peft.PeftModel.from_pretrained(theirs, adapter).eval()
    ours = headway.load(tuned, device="cpu")
    with torch.no_grad():
        found = theirs(tokens_of(ours))
    expected = found.prediction_logits if kind == "bert" else found.logits
    torch.testing.assert_close(logits(ours), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("rslora", [False, True])
def test_headway_loads_what_peft_writes(runs, rslora, tmp_path):
    peft, transformers = pytest.importorskip("peft"), pytest.importorskip("transformers")
    kind, base, _, _ = runs
    targets = {
        "gpt2": ["c_attn", "c_proj"],
        "llama": ["q_proj", "v_proj", "up_proj"],
        "bert": ["query", "value", "dense"],
    }
    headway.load(base, device="cpu").export(tmp_path / "hf")
    theirs = getattr(transformers, AUTO[kind]).from_pretrained(tmp_path / "hf")
    config = peft.LoraConfig(
        r=4, lora_alpha=12, target_modules=targets[kind], use_rslora=rslora, fan_in_fan_out=kind == "gpt2",
        exclude_modules=None if kind != "bert" else r".*(pooler|transform).*",
    )  # fmt: skip
    theirs = peft.get_peft_model(theirs, config).eval()
    torch.manual_seed(1)
    for name, parameter in theirs.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    theirs.save_pretrained(tmp_path / "adapter")
    ours = headway.load(base, device="cpu", adapter=tmp_path / "adapter")
    with torch.no_grad():
        found = theirs(tokens_of(ours))
    expected = found.prediction_logits if kind == "bert" else found.logits
    torch.testing.assert_close(logits(ours), expected, atol=1e-5, rtol=0)


def test_an_adapter_of_another_base_is_refused(runs, tmp_path):
    kind, _, _, adapter = runs
    other = base_run(tmp_path / "other", kind, seed=5)
    with pytest.raises(ConfigError, match="is an adapter for another base model: it was trained on other weights"):
        headway.load(other, device="cpu", adapter=adapter)
    foreign = base_run(tmp_path / "foreign", "gpt2" if kind == "bert" else "bert")
    with pytest.raises(ConfigError, match="is an adapter for another base model: this one has no "):
        headway.load(foreign, device="cpu", adapter=adapter)


def test_wrong_adapters_get_one_line(runs, tmp_path, capsys):
    kind, base, tuned, adapter = runs
    if kind != "gpt2":
        pytest.skip("one family is enough")
    bad = tmp_path / "bad"

    def written(changes: dict[str, object], tensors: dict[str, torch.Tensor] | None = None) -> Path:
        shutil.rmtree(bad, ignore_errors=True)
        shutil.copytree(adapter, bad)
        (bad / "headway.json").unlink()
        config = json.loads((bad / "adapter_config.json").read_text())
        (bad / "adapter_config.json").write_text(json.dumps({**config, **changes}))
        if tensors is not None:
            save_file(tensors, bad / "adapter_model.safetensors")
        return bad

    stored = load_file(adapter / "adapter_model.safetensors")
    first = next(iter(stored))
    for changes, tensors, message in (
        ({"peft_type": "IA3"}, None, "peft_type='IA3', allowed: LORA"),
        ({"use_dora": True}, None, "use_dora=True, which is not supported"),
        ({"r": 0}, None, "r=0"),
        ({}, {name: x for name, x in stored.items() if name != first}, "has no lora_A and lora_B of rank 3"),
        ({}, {**stored, "x.lora_embedding_A": torch.ones(1)}, "is not supported; allowed: lora_A and lora_B"),
        ({}, {name: x[:, :4].contiguous() if "lora_A" in name else x for name, x in stored.items()}, "there, .* here"),
    ):
        with pytest.raises((ConfigError, DataError), match=message):
            headway.load(base, device="cpu", adapter=written(changes, tensors))
    with pytest.raises(DataError, match=r"adapter_config\.json"):
        headway.load(base, device="cpu", adapter=tmp_path)
    assert main(["export", str(base), "--adapter", "--out", str(tmp_path / "none")]) == 2
    assert "has no adapters: it was not trained with train.lora" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="precision='int8' with an adapter"):
        headway.load(base, device="cpu", adapter=adapter, precision="int8")
    words = [
        "generate",
        str(base),
        "--adapter",
        str(adapter),
        "--device",
        "cpu",
        "--max-tokens",
        "5",
        "--temperature",
        "0",
        "I ",
    ]
    assert main(words) == 0
    adapted = capsys.readouterr().out
    assert main(["generate", str(tuned), *words[4:]]) == 0
    assert capsys.readouterr().out == adapted
