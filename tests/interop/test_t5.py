"""A whole T5 folder with its unigram tokenizer: imported, translated with, verified, exported."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import SentencePieceUnigramTokenizer, processors
from torch import nn

import headway
from headway.errors import ConfigError
from headway.interop.families import FAMILIES
from headway.interop.family import GenerationTokens
from headway.models import EncoderDecoderConfig
from headway.nn.norms import RMSNorm
from headway.nn.positions import T5
from headway.runs.import_folder import import_folder
from tests.interop.peers import hf, unsettle
from tests.interop.runs import bugs

TEXT = ["the cat sat on the mat", "a dog and a cat", "hello world, said the dog"]
VERSIONS: dict[str, dict[str, Any]] = {"1.0": {}, "1.1": {"feed_forward_proj": "gated-gelu", "d_kv": 6}}
CONFIG = EncoderDecoderConfig(
    vocab=9, width=8, heads=2, inner=8, encoder_layers=1, decoder_layers=1, position=T5(), norm=RMSNorm(), place="pre",
    scale=1.0, bias=False, scaled=False,
)  # fmt: skip


def write_t5(folder: Path, version: str) -> nn.Module:
    """A random T5 with a tokenizer.json of unigrams, as transformers saves it."""
    library = SentencePieceUnigramTokenizer()
    special = ["<pad>", "</s>", "<unk>"]
    library.train_from_iterator(
        TEXT * 20, vocab_size=60, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    library.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    sizes = {"vocab_size": library.get_vocab_size(), "d_model": 32, "d_kv": 8, "d_ff": 48, "num_heads": 4}
    torch.manual_seed(0)
    config = hf.T5Config(**{**sizes, "num_layers": 2, "decoder_start_token_id": 0, **VERSIONS[version]})
    model = hf.T5ForConditionalGeneration(config).eval()
    if version == "1.1":
        model.lm_head.weight = nn.Parameter(torch.randn_like(model.shared.weight))
        model.config.scale_decoder_outputs = False
    unsettle(model, 0.2)
    if version == "1.1":
        model.lm_head.weight.data[: len(special)] = 0.0  # so that a text does not end at once
    model.save_pretrained(folder)
    library.save(str(folder / "tokenizer.json"))
    named = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **named}))
    return model


@pytest.mark.parametrize("version", VERSIONS)
def test_a_folder_comes_and_goes(tmp_path, version):
    theirs = write_t5(tmp_path / "theirs", version)
    import_folder(tmp_path / "theirs", tmp_path / "run", with_reference=True)
    run = headway.load(tmp_path / "run", device="cpu")
    tokenizer = hf.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    marks = run.tokenizer.marks
    assert [[*run.tokenizer.encode(text), *marks.after] for text in TEXT] == tokenizer(TEXT)["input_ids"]
    for text in TEXT:
        ids = tokenizer(text, return_tensors="pt").input_ids
        written = theirs.generate(ids, max_new_tokens=40, do_sample=False, num_beams=1)[0]
        ours = run.translate([text], beam=1, max_extra=5)[0]
        assert len(ours) > 5
        assert tokenizer.decode(written, skip_special_tokens=True).startswith(ours)
    proof = run.export(tmp_path / "out")
    assert (proof.family, proof.holds, proof.texts_identical) == ("t5", True, True)


@pytest.mark.slow  # twenty seconds
def test_verify_finds_no_bug(tmp_path):
    write_t5(tmp_path / "theirs", "1.1")
    import_folder(tmp_path / "theirs", tmp_path / "run", with_reference=True)
    assert bugs(tmp_path / "run") == set()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scale": None}, "scale=None"),
        ({"place": "post"}, "place='post'"),
        ({"bias": True}, "bias=True"),
        ({"scaled": True}, "scaled=True"),
        ({"norm": RMSNorm(centred=True)}, "norm.centred=True"),
        ({"activation": "geglu"}, "activation='geglu'"),
        ({"source_vocab": 9}, "source_vocab=9"),
    ],
)
def test_parts_that_t5_has_not_are_named(change, message):
    assert FAMILIES["t5"].write(CONFIG, GenerationTokens())["d_kv"] == 4
    with pytest.raises(ConfigError, match=message):
        FAMILIES["t5"].write(replace(CONFIG, **change), GenerationTokens())


@pytest.mark.parametrize("change", [{"head_dim": 3}, {"scale": 1.0}])
def test_marian_has_neither_scale_nor_head_dim(change):
    config = EncoderDecoderConfig(vocab=9, width=8, heads=2, inner=8, **change)
    with pytest.raises(ConfigError, match="Marian has no equivalent of"):
        FAMILIES["marian"].write(config, GenerationTokens())
