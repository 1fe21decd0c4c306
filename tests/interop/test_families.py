"""A model of transformers taken up here says what it said there, and handed out again still does."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from headway.errors import BadModelError
from headway.interop.families import FAMILIES
from headway.interop.family import export_weights, hf_shapes, import_weights
from headway.models import BertConfig, VitConfig
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
    """The outputs in float64; where transformers does not stay there (RMSNorm, angles, softmax), ours in float64."""
    if (pair.family.generates and pair.family.name != "gpt2") or pair.family.name in (
        "roformer",
        "longformer",
        "modernbert",
    ):
        return peers.our_outputs(copy.deepcopy(pair.ours).double(), *words_in)
    return peers.their_outputs(copy.deepcopy(pair.theirs).double(), *words_in)


def handed_out(pair: peers.Pair, folder: Path) -> nn.Module:
    """Our model as a folder of theirs, loaded by transformers."""
    folder.mkdir()
    family, model = pair.family, pair.imported.model
    config = {"model_type": family.name, **family.write(model, pair.imported.tokens)}
    (folder / "config.json").write_text(json.dumps(config))
    tensors = export_weights(family, model, pair.ours.state_dict())
    save_file({k: x.contiguous().clone() for k, x in tensors.items()}, folder / "model.safetensors", {"format": "pt"})
    kind = getattr(hf, config["architectures"][0])
    options = (
        {"add_pooling_layer": False}
        if isinstance(model, BertConfig) and family.name in ("bert", "roberta") and not model.pooler
        else {}
    )
    loaded, report = kind.from_pretrained(folder, output_loading_info=True, **options)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    return loaded.eval()


def check(theirs: nn.Module, folder: Path, std: float) -> None:
    peers.unsettle(theirs, std)
    pair = peers.pair(theirs, folder / "theirs")
    words_in = peers.inputs(getattr(theirs.config, "vocab_size", 9), getattr(theirs.config, "type_vocab_size", 2))
    expected = peers.their_outputs(theirs, *words_in)
    assert_agrees(peers.our_outputs(pair.ours, *words_in), expected, exact_outputs(pair, words_in))
    loaded = handed_out(pair, folder / "ours")
    for got, want in zip(peers.their_outputs(loaded, *words_in), expected, strict=True):
        assert distance(got, want) <= bound(want)
    if peers.generates(pair.ours):
        for anew in (False, True):  # a model that repeats one word would agree with any that does
            words = peers.their_words(theirs, words_in[0], anew=anew)
            assert torch.equal(peers.our_words(pair.ours, words_in[0], pair.imported.tokens, anew=anew), words)
            assert torch.equal(peers.their_words(loaded, words_in[0], anew=anew), words)


@pytest.mark.parametrize("name", TINY)
def test_a_tiny_odd_model_comes_and_goes(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    check(TINY[name](), tmp_path, std=0.2)


@pytest.mark.slow  # hundreds of megabytes each
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_model_of_the_published_size_comes_and_goes(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    check(PUBLISHED[name](), tmp_path, std=0.05)


REFUSED: list[tuple[str, dict[str, object], str]] = [
    ("gpt2", {"activation_function": "mish"}, "activation_function='mish' has no equivalent here"),
    ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx=True"),
    ("gpt2", {"reorder_and_upcast_attn": True}, "reorder_and_upcast_attn=True"),
    ("gpt2", {"scale_attn_weights": False}, "scale_attn_weights=False"),
    ("gpt2", {"add_cross_attention": True}, "add_cross_attention=True"),
    ("gpt2", {"n_head": 5}, "n_head=5 does not divide n_embd=768"),
    ("gpt2", {"n_layer": "12"}, "n_layer='12', expected a whole number"),
    ("gpt2", {"n_layer": 2**40}, "n_layer=1099511627776, expected a whole number from 1 to"),
    ("gpt2", {"layer_norm_epsilon": float("nan")}, "layer_norm_epsilon=nan, expected a finite number"),
    ("gpt2", {"eos_token_id": [3, 50257]}, r"eos_token_id=\[3, 50257\], expected ids from 0 to 50256"),
    ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type='relative_key'"),
    ("bert", {"is_decoder": True}, "is_decoder=True"),
    ("bert", {"hidden_act": 3}, "hidden_act=3 has no equivalent here; there are relu"),
    ("roformer", {"rotary_value": True}, "rotary_value=True"),
    ("roformer", {"embedding_size": 128}, "embedding_size=128 has no equivalent here, only 768"),
    ("longformer", {"attention_window": 5}, "attention_window=5, expected an even number"),
    ("longformer", {"pad_token_id": 0}, "pad_token_id=0 has no equivalent here, only 1"),
    ("vit", {"patch_size": [4, 8]}, "patch_size=.*only square patches"),
    ("vit", {"image_size": [4]}, "image_size=.*expected pixels a side"),
    ("timm", {"architecture": "resnet50"}, "architecture='resnet50', there are vit_"),
    ("marian", {"normalize_before": True}, "normalize_before=True"),
    ("marian", {"static_position_embeddings": False}, "static_position_embeddings=False"),
    ("marian", {"decoder_ffn_dim": 8}, "decoder_ffn_dim=8 beside encoder_ffn_dim=4096"),
    ("marian", {"bad_words_ids": [[1, 2]]}, "bad_words_ids"),
    ("bart", {"normalize_before": True}, "normalize_before=True"),
    ("bart", {"decoder_attention_heads": 8}, "decoder_attention_heads=8 beside encoder_attention_heads=16"),
    ("llama", {"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_scaling=.*has no equivalent here"),
    ("llama", {"rope_parameters": {"rope_type": "yarn"}}, "rope_parameters=.*has no equivalent here"),
    ("llama", {"num_key_value_heads": 5}, "num_key_value_heads=5 does not divide num_attention_heads=32"),
    ("t5", {"feed_forward_proj": "gated-mish"}, "feed_forward_proj='gated-mish' has no equivalent here"),
    ("t5", {"tie_word_embeddings": False}, "scale_decoder_outputs=false without lm_head.weight"),
    ("t5", {"is_encoder_decoder": False}, "is_encoder_decoder=False"),
    ("llama", {"hidden_act": "gelu"}, "hidden_act='gelu'"),
]


@pytest.mark.parametrize(("name", "changed", "named"), REFUSED, ids=[f"{name} {field}" for name, field, _ in REFUSED])
def test_a_setting_without_equivalent_is_refused_by_name(name: str, changed: dict[str, object], named: str) -> None:
    with pytest.raises(BadModelError, match=named):
        FAMILIES[name].read({"model_type": name, **changed}, {})


@pytest.mark.parametrize("name", sorted(FAMILIES.keys() - {"timm"}))
def test_a_config_without_fields_has_the_defaults_of_transformers(name: str) -> None:
    bare, theirs = FAMILIES[name].read({}, {}), hf.AutoConfig.for_model(name).to_dict()
    assert bare.model == FAMILIES[name].read(theirs, {}).model


def test_names_of_older_files_are_known(tmp_path: Path) -> None:
    theirs = TINY["bert-pretraining"]()
    peers.unsettle(theirs, 0.2)
    pair = peers.pair(theirs, tmp_path)
    tensors = dict(theirs.state_dict())
    older = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): x
        for name, x in tensors.items()
    }
    older["bert.embeddings.position_ids"] = torch.arange(3)
    found = import_weights(pair.family, pair.imported.model, older)
    assert all(torch.equal(x, found[name]) for name, x in pair.ours.state_dict().items())


def test_the_released_gpt2_has_masks_and_no_prefix(tmp_path: Path) -> None:
    theirs = TINY["gpt2"]()
    pair = peers.pair(theirs, tmp_path)
    released = {name.removeprefix("transformer."): x for name, x in theirs.state_dict().items()}
    released |= {"h.0.attn.bias": torch.ones(1, 1, 4, 4), "h.1.attn.masked_bias": torch.tensor(-1e4)}
    found = import_weights(pair.family, pair.imported.model, released)
    assert all(torch.equal(x, found[name]) for name, x in pair.ours.state_dict().items())


def test_what_is_missing_too_much_or_untied_is_named(tmp_path: Path) -> None:
    pair = peers.pair(TINY["gpt2"](), tmp_path)
    tensors = dict(pair.theirs.state_dict())
    tensors["lm_head.weight"] = tensors["lm_head.weight"] + 1
    tensors["transformer.h.9.ln_1.weight"] = tensors.pop("transformer.h.0.ln_1.weight")
    with pytest.raises(BadModelError, match=r"ln_1.weight is missing; .*h.9.*has no place.*are tied and differ"):
        import_weights(pair.family, pair.imported.model, tensors)


def test_timm_leaves_its_sizes_to_the_tensors() -> None:
    config = VitConfig(classes=7, image=32, patch=8, width=24, layers=2, heads=3, inner=40)
    timm = FAMILIES["timm"]
    shapes = hf_shapes(timm.mappings(config))
    written = {"architecture": "vit_tiny_patch8_32", "num_classes": 7, "pretrained_cfg": {"input_size": [3, 32, 32]}}
    assert timm.read(written, shapes).model == config
