"""A run handed out loads in transformers with the same numbers, or it is not handed out at all."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from headway.cli import main
from headway.data.tokenizers import MASK, SPECIALS, Bpe, Characters, Tokenizer
from headway.errors import ConfigError, VerificationError
from headway.interop import export_proof as proof
from headway.interop import exporter as exporting
from headway.interop.exporter import export
from headway.models import (
    BertConfig,
    BertPretrainingConfig,
    EncoderDecoderConfig,
    GptConfig,
    LongformerConfig,
    LongformerMaskedConfig,
    ModelConfig,
    ModelInputs,
    RnnLmConfig,
    VitConfig,
    build_model,
)
from headway.nn.longformer_attention import Windows
from headway.nn.norms import LayerNorm, RMSNorm
from headway.nn.positions import AlibiBias, Learned, Rotary, SinusoidalHalves, SinusoidalTensor2Tensor
from headway.nn.recurrent import RecurrentConfig
from headway.runs import load
from headway.runs.import_folder import import_folder
from headway.storage.manifest import MANIFEST, problems
from headway.tasks.export_request import ExportRequest, ImageScaling
from headway.tasks.language_modelling.training import Language
from headway.tasks.masked_lm.training import Masked
from headway.tasks.translation.training import Translation
from tests.interop.runs import write_run
from tests.pipelines import pipeline_of

hf = pytest.importorskip("transformers")

TEXT = ["the old horse is not in the garden .", "a cute puppy sleeps , doesn't it ?", "Où est le chat <s> ?"]
BPE = Tokenizer.train(Bpe(vocab=70), TEXT)
MASKING = Tokenizer.train(Bpe(vocab=70), TEXT, specials=(*SPECIALS, MASK))
CHARACTERS = Tokenizer.train(Characters(), TEXT, specials=())
GPT = GptConfig(vocab=CHARACTERS.size, context=48, width=16, layers=2, heads=4)
LLAMA = replace(
    GPT, kv_heads=2, position=Rotary(layout="halves"), norm=RMSNorm(), activation="swiglu", bias=False, tied=False
)
PAIR = EncoderDecoderConfig(vocab=70, width=16, encoder_layers=2, decoder_layers=1, heads=4, inner=24, context=64)
BERT = BertConfig(vocab=70, context=40, width=16, layers=2, heads=4, inner=24)
LANGUAGE, TRANSLATION, MASKED = Language(context=48), Translation(), Masked(length=16)

RUNS: dict[str, tuple[ModelConfig, object, Tokenizer, str]] = {
    "gpt2": (GPT, LANGUAGE, CHARACTERS, "GPT2LMHeadModel"),
    "gpt-char": (replace(GPT, bias=False, norm=LayerNorm(bias=False)), LANGUAGE, CHARACTERS, "GPT2LMHeadModel"),
    "llama": (LLAMA, LANGUAGE, CHARACTERS, "LlamaForCausalLM"),
    "llama-interleaved": (replace(LLAMA, position=Rotary()), LANGUAGE, CHARACTERS, "LlamaForCausalLM"),
    "transformer": (PAIR, TRANSLATION, BPE, "MarianMTModel"),
    "transformer-halves": (replace(PAIR, position=SinusoidalHalves()), TRANSLATION, BPE, "MarianMTModel"),
    "transformer-untied": (replace(PAIR, tied=False, norm=LayerNorm(bias=False)), TRANSLATION, BPE, "MarianMTModel"),
    "transformer-two": (replace(PAIR, source_vocab=70), TRANSLATION, BPE, "MarianMTModel"),
    "bart": (
        replace(PAIR, position=Learned(), input_norm=True, scaled=False, activation="gelu"),
        TRANSLATION,
        BPE,
        "BartForConditionalGeneration",
    ),
    "bert": (BERT, MASKED, MASKING, "BertModel"),
    "bert-without-pooler": (replace(BERT, pooler=False), MASKED, MASKING, "BertModel"),
    "bert-pretraining": (BertPretrainingConfig(bert=BERT), MASKED, MASKING, "BertForPreTraining"),
    "bert-masked": (BertPretrainingConfig(bert=BERT, follows=False, tied=False), MASKED, MASKING, "BertForMaskedLM"),
    "roformer": (
        BertPretrainingConfig(bert=replace(BERT, position=Rotary())),
        MASKED,
        MASKING,
        "RoFormerForMaskedLM",
    ),
}


PICTURES = VitConfig(classes=5, image=(12, 16), patch=4, width=16, layers=2, heads=4, inner=24, start="small-data")
WINDOWED = LongformerConfig(vocab=70, windows=Windows(radius=(2, 3)), context=40, width=16, layers=2, heads=4, inner=24)


@pytest.mark.parametrize(
    "config",
    [PICTURES, WINDOWED, replace(WINDOWED, pooler=False), LongformerMaskedConfig(longformer=WINDOWED)],
    ids=["vit", "longformer", "longformer-without-pooler", "longformer-masked"],
)
def test_a_model_without_a_task_goes_out_as_well(config: ModelConfig, tmp_path: Path) -> None:
    pixels = ImageScaling(mean=(0.5, 0.4, 0.3), std=(0.1, 0.2, 0.3))
    what = ExportRequest(model=unsettled(config), config=config, images=pixels)
    assert export(what, tmp_path / "out").holds
    if isinstance(config, VitConfig):
        processor = hf.AutoImageProcessor.from_pretrained(tmp_path / "out")
        assert tuple(processor.image_mean) == pixels.mean


@torch.no_grad()
def unsettled(config: ModelConfig) -> nn.Module:
    """A model in which nothing is alike: gains of 1 and biases of 0 would hide a swapped name."""
    model = build_model(config).eval()
    for value in model.parameters():
        value.add_(torch.randn_like(value) * 0.1)
    return model


def request(model: nn.Module, config: ModelConfig, task: object, tokenizers: dict[str, Tokenizer]) -> ExportRequest:
    return pipeline_of(task, model, tokenizers, config=config).export_request()


def run(name: str, tokenizers: dict[str, Tokenizer] | None = None) -> ExportRequest:
    config, task, tokenizer, _ = RUNS[name]
    return request(unsettled(config), config, task, tokenizers or {"tokenizer.json": tokenizer})


@pytest.mark.parametrize("name", RUNS)
def test_a_run_loads_in_transformers_with_the_same_numbers(name: str, tmp_path: Path) -> None:
    found = export(run(name), tmp_path / "out")
    assert found.holds
    assert found.tokens_identical is (None if isinstance(RUNS[name][1], Masked) else True)
    assert found.reloaded_with == f"transformers {hf.__version__}"
    assert found.texts_identical
    assert json.loads((tmp_path / "out" / "PROOF.json").read_text())["holds"] is True
    assert json.loads((tmp_path / "out" / "config.json").read_text())["architectures"] == [RUNS[name][3]]
    assert problems(tmp_path / "out") == []
    assert (tmp_path / "out" / MANIFEST).exists()


@pytest.mark.parametrize("name", RUNS)
def test_without_transformers_our_own_importer_is_asked(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "with_transformers", lambda: False)
    monkeypatch.setattr(exporting, "with_transformers", lambda: False)
    found = export(run(name), tmp_path / "out")
    assert found.holds
    assert found.reloaded_with.startswith("headway")
    assert found.texts_identical is None


def test_tokens_around_a_text_are_those_of_the_task(tmp_path: Path) -> None:
    for name in ("gpt2", "transformer", "bert-pretraining"):
        export(run(name), tmp_path / name)
    text = "a cute puppy"
    plain = hf.AutoTokenizer.from_pretrained(tmp_path / "gpt2")
    assert plain(text)["input_ids"] == CHARACTERS.encode(text)
    assert plain.decode(CHARACTERS.encode(text)) == text
    source = hf.AutoTokenizer.from_pretrained(tmp_path / "transformer")
    assert source(text)["input_ids"] == [*BPE.encode(text), BPE.stop]
    assert source("</s>")["input_ids"] == [*BPE.encode("</s>"), BPE.stop]  # typed, it is four characters
    both = hf.AutoTokenizer.from_pretrained(tmp_path / "bert-pretraining")(text, "the horse")
    assert both["input_ids"] == [
        MASKING.start, *MASKING.encode(text), MASKING.stop, *MASKING.encode("the horse"), MASKING.stop
    ]  # fmt: skip
    assert sum(both["token_type_ids"]) == len(MASKING.encode("the horse")) + 1


def test_a_translation_there_is_the_one_here(tmp_path: Path) -> None:
    what = run("transformer")
    export(what, tmp_path / "out")
    model = hf.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    tokenizer = hf.AutoTokenizer.from_pretrained(tmp_path / "out")
    said = model.generate(**tokenizer("the old horse", return_tensors="pt"), num_beams=1, max_new_tokens=9)[0]
    source = torch.tensor([[*BPE.encode("the old horse"), BPE.stop]])
    target = [BPE.start]
    for _ in range(9):
        if target[-1] == BPE.stop:
            break
        target.append(int(what.model(source, torch.tensor([target]))[0, -1].argmax()))
    assert said.tolist() == target


@pytest.mark.parametrize("name", ["gpt2", "transformer", "bert-pretraining"])
def test_an_export_that_says_something_else_does_not_appear(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*given: object) -> dict[str, torch.Tensor]:
        tensors = exporting_given(*given)
        return {key: x.flip(0) if "attn" in key and x.ndim == 1 else x * 1.01 for key, x in tensors.items()}

    exporting_given = exporting.export_weights
    monkeypatch.setattr(exporting, "export_weights", wrong)
    with pytest.raises(VerificationError, match="differs by") as caught:
        export(run(name), tmp_path / "out")
    assert caught.value.exit_code == 3
    assert list(tmp_path.iterdir()) == []


NO_EQUIVALENT: list[tuple[ModelConfig, str]] = [
    (replace(GPT, position=AlibiBias()), r"GPT-2 has no equivalent of position=AlibiBias\(\)"),
    (replace(GPT, norm=RMSNorm()), "GPT-2 has no equivalent of norm=RMSNorm"),
    (replace(GPT, kv_heads=2), "GPT-2 has no equivalent of kv_heads=2"),
    (replace(GPT, activation="swiglu"), "GPT-2 has no equivalent of activation='swiglu'"),
    (replace(LLAMA, activation="gelu"), "Llama has no equivalent of activation='gelu'"),
    (replace(LLAMA, norm=LayerNorm()), "Llama has no equivalent of norm=LayerNorm"),
    (replace(PAIR, place="pre"), "Marian has no equivalent of place='pre'"),
    (replace(PAIR, position=SinusoidalTensor2Tensor()), "Marian has no equivalent of position=SinusoidalTensor2Tensor"),
    (replace(PAIR, norm=LayerNorm(eps=1e-6)), r"Marian has no equivalent of norm.eps=1e-06"),
    (replace(PAIR, position=Learned()), "BART has no equivalent of input_norm=False"),
    (replace(GPT, windows=Windows(radius=3)), "GPT-2 has no equivalent of windows=Windows"),
    (replace(PICTURES, local=True), "ViT has no equivalent of local=True"),
    (replace(PICTURES, pool="mean"), "ViT has no equivalent of pool='mean'"),
    (replace(WINDOWED, windows=Windows(radius=2, dilation=2)), "Longformer has no equivalent of windows.dilation=2"),
    (replace(BERT, position=AlibiBias()), "BERT has no equivalent of position=AlibiBias"),
    (RnnLmConfig(vocab=9, width=8, recurrent=RecurrentConfig(cell="lstm", hidden=8)), "kind RnnLm has no equivalent"),
]


@pytest.mark.parametrize(("config", "named"), NO_EQUIVALENT, ids=[named for _, named in NO_EQUIVALENT])
def test_a_part_without_equivalent_is_named(config: ModelConfig, named: str, tmp_path: Path) -> None:
    what = request(nn.Module(), config, LANGUAGE, {"tokenizer.json": CHARACTERS})
    with pytest.raises(ConfigError, match=named):
        export(what, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_empty_is_refused_and_an_empty_one_filled(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("kept")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="not empty"):
        export(run("gpt2"), tmp_path / "full")
    assert (tmp_path / "full" / "mine").read_text() == "kept"
    assert export(run("gpt2"), tmp_path / "empty").holds


def test_two_vocabularies_keep_a_tokenizer_each(tmp_path: Path) -> None:
    other = Tokenizer.train(Bpe(vocab=70), [*TEXT, "une souris verte"])
    export(run("transformer-two", {"tokenizer-source.json": BPE, "tokenizer-target.json": other}), tmp_path / "out")
    assert (tmp_path / "out" / "tokenizer-target.json").read_text() == other.to_json()
    theirs = hf.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert theirs("the old horse")["input_ids"][:-1] == BPE.encode("the old horse")


def test_a_trained_run_goes_out_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "book.txt").write_text("It was late. The old horse slept.\n" * 40)
    small = ["--model.layers", "1", "--model.width", "16", "--train.steps", "2", "--train.device", "cpu"]
    book, cache = str(tmp_path / "book.txt"), ["--data.cache", str(tmp_path / "cache")]
    assert main(["train", "gpt-char", "--data", book, "--out", str(tmp_path / "run"), *small, *cache]) == 0
    assert main(["export", str(tmp_path / "run"), "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == str(tmp_path / "out")
    assert "loaded again by transformers" in said.err
    assert re.search(r"written as zeros: \d+ biases that this run lacks", said.err)
    assert main(["export", str(tmp_path / "run"), "--out", str(tmp_path / "out")]) == 2


@pytest.mark.parametrize("name", ["gpt2", "transformer", "bert-pretraining", "roformer"])
def test_a_round_trip_is_called_as_the_model_is(name: str) -> None:
    what = run(name)
    again = exporting.round_trip(what)
    assert not isinstance(again, str)
    tokens = torch.randint(20, (1, 7))
    source = tokens if name == "transformer" else None
    inputs = ModelInputs(tokens=tokens if source is None else tokens[:, :4], source=source)
    with torch.no_grad():
        expected = what.model.run(inputs).tokens
        torch.testing.assert_close(again(inputs).tokens, expected, atol=1e-5 * max(1, expected.abs().max()), rtol=0)


def test_a_round_trip_that_cannot_be_says_why() -> None:
    what = request(nn.Module(), replace(GPT, position=AlibiBias()), LANGUAGE, {"tokenizer.json": CHARACTERS})
    assert "no equivalent of position=AlibiBias()" in exporting.round_trip(what)


@pytest.mark.parametrize(
    "name", ["gpt-char", "llama-interleaved", "transformer", "transformer-two", "bart", "bert-masked"]
)
def test_what_went_out_comes_back_and_goes_out_again_to_the_byte(name: str, tmp_path: Path) -> None:
    tokenizers = {"tokenizer.json": RUNS[name][2]}
    if name == "transformer-two":
        tokenizers = {
            "tokenizer-source.json": BPE,
            "tokenizer-target.json": Tokenizer.train(Bpe(vocab=70), ["neuf mots"] * 9 + TEXT),
        }
    export(run(name, tokenizers), tmp_path / "out")
    import_folder(tmp_path / "out", tmp_path / "run")
    back = load(tmp_path / "run", device="cpu")
    assert back.tokenizers.keys() == tokenizers.keys()
    for file, tokenizer in tokenizers.items():
        assert back.tokenizers[file].encode(TEXT[0]) == tokenizer.encode(TEXT[0])
    assert export(back.pipeline.export_request(), tmp_path / "again").holds
    for file in ("model.safetensors", "config.json"):
        assert (tmp_path / "out" / file).read_bytes() == (tmp_path / "again" / file).read_bytes()


def test_a_decoder_of_few_positions_says_its_limit_and_generates_up_to_it(tmp_path, capsys):
    run = write_run(tmp_path / "run", GPT)
    assert main(["export", str(run), "--out", str(tmp_path / "folder")]) == 0
    assert "generates at most 24 tokens with it, prompt included" in capsys.readouterr().err
    assert "24 learned positions" in (tmp_path / "folder" / "README.md").read_text()
    assert json.loads((tmp_path / "folder" / "PROOF.json").read_text())["max_tokens"] == 24
    model = hf.AutoModelForCausalLM.from_pretrained(tmp_path / "folder")
    assert model.generate(torch.tensor([[1, 2, 3]]), eos_token_id=None, do_sample=False).shape == (1, 24)
