"""With the same weights our vision transformer gives Hugging Face's answers, whatever its tensors are called."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.errors import BadModelError
from headway.interop.families.timm import TIMM
from headway.interop.families.vit import VIT
from headway.interop.family import import_weights
from headway.models import Vit, VitConfig
from headway.models.vit import fit_positions
from headway.nn.norms import LayerNorm
from headway.storage.tensors import read_tensors

hf = pytest.importorskip("transformers")
hf.logging.set_verbosity_error()

EPS = 1e-3  # large enough to be seen in float32
CONFIG = VitConfig(
    classes=7,
    image=(12, 16),
    patch=4,
    width=32,
    layers=3,
    heads=4,
    inner=48,
    norm=LayerNorm(eps=EPS),
    start="small-data",
)
EXACT = {torch.float32: 1e-5, torch.float64: 1e-10}
dtypes = pytest.mark.parametrize("dtype", EXACT, ids=["float32", "float64"])


def pictures(height: int = 12, width: int = 16) -> Tensor:
    return torch.randn(3, 3, height, width, generator=torch.Generator().manual_seed(1))


def tiny(image: tuple[int, int]) -> nn.Module:
    """A tiny one in which nothing is alike: gains of 1 and biases of 0 would hide a swapped name."""
    model = hf.ViTForImageClassification(
        hf.ViTConfig(
            hidden_size=32,
            num_hidden_layers=3,
            num_attention_heads=4,
            intermediate_size=48,
            image_size=image,
            patch_size=4,
            num_labels=7,
            layer_norm_eps=EPS,
            hidden_act="gelu",
        )
    ).eval()
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            gain = parameter.ndim == 1 and "layernorm" in name and name.endswith("weight")
            parameter.normal_(1.0 if gain else 0.0, 0.2)
    return model


@pytest.fixture
def theirs() -> nn.Module:
    return tiny((12, 16))


def ours_from(weights: dict[str, Tensor], config: VitConfig = CONFIG) -> Vit:
    model = Vit(config).eval()
    model.load_state_dict(weights)
    return model


@dtypes
def test_logits_and_gradients(theirs, dtype):
    ours = ours_from(import_weights(VIT, CONFIG, dict(theirs.named_parameters()))).to(dtype)
    theirs, images, labels = theirs.to(dtype), pictures().to(dtype), torch.tensor([0, 3, 6])
    expected = theirs(pixel_values=images).logits
    logits = ours(images)
    torch.testing.assert_close(logits, expected, atol=EXACT[dtype], rtol=0)
    assert expected.std() > 0.3
    for answer in (logits, expected):
        F.cross_entropy(answer, labels).backward()
    gradients = import_weights(VIT, CONFIG, {name: p.grad for name, p in theirs.named_parameters()})
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients.pop(name), atol=10 * EXACT[dtype], rtol=0)
    assert not gradients


def test_hidden_states(theirs):
    ours = ours_from(import_weights(VIT, CONFIG, theirs.state_dict()))
    expected = theirs.vit(pixel_values=pictures()).last_hidden_state
    torch.testing.assert_close(ours.features(pictures()), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("size", [(24, 20), (12, 8)])
def test_another_resolution(size):
    """Theirs begins at a square, which is all it can resize."""
    theirs, before, after = tiny((16, 16)), replace(CONFIG, image=16), replace(CONFIG, image=size)
    weights = fit_positions(import_weights(VIT, before, theirs.state_dict()), before, after)
    expected = theirs(pixel_values=pictures(*size), interpolate_pos_encoding=True).logits
    torch.testing.assert_close(ours_from(weights, after)(pictures(*size)), expected, atol=1e-5, rtol=0)


def test_the_names_in_its_files(theirs, tmp_path):
    theirs.save_pretrained(tmp_path)
    stored = read_tensors(tmp_path / "model.safetensors")
    assert set(stored) != set(theirs.state_dict())  # the hub's are not those of its code
    direct = import_weights(VIT, CONFIG, theirs.state_dict())
    found = import_weights(VIT, CONFIG, stored)
    assert set(found) == set(direct) == set(Vit(CONFIG).state_dict())
    assert all(torch.equal(tensor, direct[name]) for name, tensor in found.items())


def test_the_names_of_timm_as_the_facts_list_them(theirs):
    """timm itself may not be there to ask: its names from Hugging Face's, by the rules of their own conversion."""
    stored, renamed = theirs.state_dict(), {}
    rules = {
        "vit.embeddings.cls_token": "cls_token",
        "vit.embeddings.position_embeddings": "pos_embed",
        "vit.embeddings.patch_embeddings.projection": "patch_embed.proj",
        "vit.layers": "blocks",
        "layernorm_before": "norm1",
        "layernorm_after": "norm2",
        "attention.o_proj": "attn.proj",
        "vit.layernorm": "norm",
        "classifier": "head",
    }
    for name, tensor in stored.items():
        if any(f".{x}_proj." in name for x in "kv"):
            continue
        if ".q_proj." in name:
            tensor = torch.cat([stored[name.replace("q_proj", f"{x}_proj")] for x in "qkv"])
            name = name.replace("attention.q_proj", "attn.qkv")
        for theirs_is, timms_is in rules.items():
            name = name.replace(theirs_is, timms_is)
        renamed[name] = tensor
    assert {"blocks.2.attn.qkv.bias", "blocks.0.mlp.fc2.weight"} <= set(renamed)
    direct = import_weights(VIT, CONFIG, stored)
    assert all(torch.equal(tensor, direct[name]) for name, tensor in import_weights(TIMM, CONFIG, renamed).items())


def test_timm_itself():
    try:
        from timm.models.vision_transformer import VisionTransformer
    except ImportError as error:
        warnings.warn(f"the comparison with timm did not run: {error}", stacklevel=1)
        pytest.skip(f"timm cannot be imported: {error}")
    torch.manual_seed(0)
    model = VisionTransformer(
        img_size=(12, 16), patch_size=4, num_classes=7, embed_dim=32, depth=3, num_heads=4, mlp_ratio=1.5
    ).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    config = VitConfig(classes=7, image=(12, 16), patch=4, width=32, layers=3, heads=4, inner=48)
    ours = ours_from(import_weights(TIMM, config, model.state_dict()), config)
    torch.testing.assert_close(ours(pictures()), model(pictures()), atol=1e-5, rtol=0)


def test_other_weights_are_not_a_vision_transformer():
    with pytest.raises(BadModelError, match=r"class_token|cls_token is missing.*transformer.wte.weight has no place"):
        import_weights(VIT, CONFIG, {"transformer.wte.weight": torch.zeros(2, 2)})
