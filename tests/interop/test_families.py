"""A model of transformers taken up here says what it said there, and handed out again still does."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from headway.interop.family import given
from headway.models import BertConfig
from tests.interop import peers
from tests.interop.peers import PUBLISHED, TINY, hf


def bound(expected: Tensor) -> float:
    return 1e-5 * max(1.0, float(expected.abs().max()))


def distance(a: Tensor, b: Tensor) -> float:
    return float((a.double() - b.double()).abs().max())


def assert_agrees(ours: list[Tensor], theirs: list[Tensor], exact: list[Tensor]) -> None:
    assert len(ours) == len(theirs) == len(exact)
    for got, expected, true in zip(ours, theirs, exact, strict=True):
        assert distance(got, expected) <= bound(expected)
        assert distance(got, true) <= 2 * distance(expected, true) + 1e-7 * max(1.0, float(true.abs().max()))


def exact_outputs(pair: peers.Pair, words_in: tuple[Tensor, ...]) -> list[Tensor]:
    """The outputs in float64; where transformers does not stay there (RMSNorm, angles), ours in float64."""
    if pair.family.name in ("llama", "roformer"):
        return peers.our_outputs(copy.deepcopy(pair.ours).double(), *words_in)
    return peers.their_outputs(copy.deepcopy(pair.theirs).double(), *words_in)


def handed_out(pair: peers.Pair, folder: Path) -> nn.Module:
    """Our model as a folder of theirs, loaded by transformers."""
    folder.mkdir()
    family, model = pair.family, pair.imported.model
    config = {"model_type": family.name, **family.write(model, pair.imported.tokens)}
    (folder / "config.json").write_text(json.dumps(config))
    tensors = given(family, model, pair.ours.state_dict())
    save_file({k: x.contiguous().clone() for k, x in tensors.items()}, folder / "model.safetensors", {"format": "pt"})
    kind = getattr(hf, config["architectures"][0])
    options = (
        {"add_pooling_layer": False}
        if isinstance(model, BertConfig) and family.name == "bert" and not model.pooler
        else {}
    )
    loaded, report = kind.from_pretrained(folder, output_loading_info=True, **options)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    return loaded.eval()


def check(theirs: nn.Module, folder: Path, std: float) -> None:
    peers.unsettle(theirs, std)
    pair = peers.pair(theirs, folder / "theirs")
    words_in = peers.inputs(theirs.config.vocab_size)
    expected = peers.their_outputs(theirs, *words_in)
    assert_agrees(peers.our_outputs(pair.ours, *words_in), expected, exact_outputs(pair, words_in))
    loaded = handed_out(pair, folder / "ours")
    for got, want in zip(peers.their_outputs(loaded, *words_in), expected, strict=True):
        assert distance(got, want) <= bound(want)
    if peers.generates(pair.ours):
        words = peers.their_words(theirs, words_in[0])
        assert torch.equal(peers.our_words(pair.ours, words_in[0], pair.imported.tokens.start), words)
        assert torch.equal(peers.their_words(loaded, words_in[0]), words)


@pytest.mark.parametrize("name", TINY)
def test_a_tiny_odd_model_comes_and_goes(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    check(TINY[name](), tmp_path, std=0.2)


@pytest.mark.slow  # hundreds of megabytes each
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_model_of_the_published_size_comes_and_goes(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    check(PUBLISHED[name](), tmp_path, std=0.05)
