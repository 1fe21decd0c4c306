from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from headway.errors import ConfigError, DataError
from headway.models import Convnet, ConvnetConfig, Vit, build_model
from headway.models.vit import fit_positions
from headway.nn.patches import Shifted
from headway.ops import NotSelf
from headway.ops.attend import choose
from headway.ops.kernels.base import AttentionInputs
from headway.ops.kernels.sdpa import dense
from headway.presets import build as build_preset
from tests.models.tiny import VIT, build
from tests.nn.tiny import layer_context

SMALL = replace(VIT, patches=Shifted(), local=True, qkv_bias=False, start="small-data")


def pictures(height: int = 8, width: int = 12, rows: int = 3) -> torch.Tensor:
    return torch.randn(rows, 3, height, width, generator=torch.Generator().manual_seed(0))


def weights_of(model: Vit) -> list[torch.Tensor]:
    """The attention weights of each layer, as its tap shows them."""
    seen: list[torch.Tensor] = []
    taps = [block.attention.tap_weights for block in model.stack.blocks]
    hooks = [tap.register_forward_hook(lambda _, __, weights: seen.append(weights)) for tap in taps]
    model(pictures())
    for hook in hooks:
        hook.remove()
    return seen


def test_no_token_of_local_attention_attends_to_itself():
    local, usual = weights_of(build("vit-local")), weights_of(build("vit"))
    assert len(local) == len(usual) == 2
    for weights in local:
        assert weights.shape == (3, 4, 7, 7)
        assert not weights.diagonal(dim1=-2, dim2=-1).any()  # exactly: the class token too
        torch.testing.assert_close(weights.sum(-1), torch.ones(3, 4, 7))
    assert all((weights > 0).all() for weights in usual)


def test_temperatures_start_at_the_usual_scale_and_learn_head_by_head():
    model = build_model(SMALL)
    for block in model.stack.blocks:
        assert block.attention.scale.tolist() == pytest.approx([4**-0.5] * 4)
    F.cross_entropy(model(pictures()), torch.tensor([0, 1, 2])).backward()
    for block in model.stack.blocks:
        assert (block.attention.scale.grad != 0).all()
        assert len(block.attention.scale.grad.unique()) == 4


def test_local_attention_by_hand():
    """The official form: scores times a temperature, a huge negative number on the diagonal, softmax."""
    model = build_model(SMALL).double().eval()
    attention = model.stack.blocks[0].attention
    with torch.no_grad():
        attention.scale.uniform_(0.2, 2.0)
    x = torch.randn(2, 7, 16, dtype=torch.float64)
    q, k, v = (part.unflatten(-1, (4, 4)).transpose(1, 2) for part in attention.qkv(x).chunk(3, -1))
    scores = (q @ k.mT) * attention.scale.view(-1, 1, 1)
    scores = scores.masked_fill(torch.eye(7, dtype=torch.bool), -987654321)
    expected = attention.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
    torch.testing.assert_close(attention(x, layer_context(mask=model.mask)), expected)


def test_local_attention_runs_on_the_fused_kernel_with_a_mask_made_once():
    q = torch.randn(2, 4, 65, 16, requires_grad=True)
    mask = NotSelf()
    assert choose(AttentionInputs(q, q, q, mask, None, 1.0)) == "sdpa"
    allowed, alive = dense(mask, 65, 65, q.device)
    assert alive is None  # no row to erase afterwards
    assert allowed.shape == (1, 1, 65, 65)
    assert dense(mask, 65, 65, q.device)[0] is allowed
    model = build("vit-local")
    model(pictures()), model.logits(pictures())
    before = dict(model.mask.__dict__["_forms"])
    model(pictures()), model.logits(pictures())
    assert len([key for (key, _) in before if key[0] == "sdpa"]) == 2  # of all tokens, and of the class token alone
    assert model.mask.__dict__["_forms"] == before


@pytest.mark.parametrize("config", [VIT, SMALL, replace(VIT, pool="mean")], ids=["class", "local", "mean"])
def test_what_the_head_does_not_read_is_not_computed_and_changes_nothing(config):
    model = build_model(config).double()
    torch.nn.init.normal_(model.head.weight)
    names, parameters = zip(*model.named_parameters(), strict=True)
    alone, whole = model.logits(pictures().double()), model(pictures().double())
    torch.testing.assert_close(alone, whole)
    gradients = (torch.autograd.grad(logits.square().sum(), parameters) for logits in (alone, whole))
    for name, mine, other in zip(names, *gradients, strict=True):
        torch.testing.assert_close(mine, other, msg=name)
    first = 1 if config.pool == "class" else None
    assert model.features(pictures().double(), output_tokens=first).shape[1] == (1 if first else config.tokens)


def test_a_single_patch_that_may_not_attend_to_itself_is_finite():
    config = replace(VIT, image=4, pool="mean", local=True)
    assert build_model(config).eval()(pictures(4, 4)).isfinite().all()


def test_biases_where_the_config_has_them():
    names = build_model(SMALL, device="meta").state_dict()
    assert "stack.blocks.0.attention.qkv.bias" not in names
    assert "stack.blocks.0.attention.out.bias" in names
    assert "stack.blocks.0.attention.qkv.bias" in build_model(VIT, device="meta").state_dict()


def test_the_papers_start():
    config = replace(VIT, width=256, inner=512, heads=8, image=64)
    model = build_model(config)
    for zero in (model.class_token, model.head.weight, model.head.bias):
        assert not zero.any()
    assert model.positions.std().item() == pytest.approx(0.02, rel=0.03)
    attention, network = model.stack.blocks[0].attention, model.stack.blocks[0].feedforward
    for weight in (*attention.qkv.weight.chunk(3), attention.out.weight):
        assert weight.abs().max().item() == pytest.approx((6 / 512) ** 0.5, rel=0.01)  # Xavier, each by itself
    assert not attention.qkv.bias.any()
    assert not attention.out.bias.any()
    for bias in (network.up.bias, network.down.bias):
        assert bias.std().item() == pytest.approx(1e-6, rel=0.15)
    projection = model.patches.projection.weight
    assert projection.std().item() == pytest.approx(48**-0.5, rel=0.03)
    assert projection.abs().max() < 2.3 * 48**-0.5


def test_the_start_for_small_data():
    config = replace(SMALL, width=256, inner=512, heads=8, image=64)
    model = build_model(config)
    assert model.positions.std().item() == pytest.approx(1.0, rel=0.03)
    assert model.class_token.std().item() == pytest.approx(1.0, rel=0.15)
    # The official code draws the fused matrix as one: (2 / (256 + 768))^½.
    assert model.stack.blocks[0].attention.qkv.weight.std().item() == pytest.approx((2 / 1024) ** 0.5, rel=0.02)
    assert model.stack.blocks[0].feedforward.down.weight.std().item() == pytest.approx((2 / 768) ** 0.5, rel=0.02)
    assert model.head.weight.std().item() == pytest.approx((2 / 261) ** 0.5, rel=0.1)
    assert not model.stack.blocks[0].feedforward.down.bias.any()


def test_another_resolution():
    small = build("vit")
    larger = replace(VIT, image=(16, 20))
    state = small.state_dict()
    fitted = fit_positions(state, VIT, larger)
    assert fitted["positions"].shape == (1 + 20, 16)
    assert torch.equal(fitted["positions"][0], state["positions"][0])
    assert set(fitted) == set(state)
    assert fitted["head.weight"] is state["head.weight"]
    model = build_model(larger).eval()
    model.load_state_dict(fitted)
    assert model(pictures(16, 20)).shape == (3, 5)


def test_an_image_of_one_patch_repeated_keeps_its_answer_at_another_resolution():
    """Alike tokens give the same mean however many they are; a class token would tell them apart by their number."""
    before = replace(VIT, pool="mean")
    after = replace(before, image=(16, 20))
    small, model = build("vit-mean"), build_model(after).eval()
    with torch.no_grad():
        small.positions[:] = small.positions[0]
    model.load_state_dict(fit_positions(small.state_dict(), before, after))
    flat = torch.randn(1, 3, 4, 4)
    torch.testing.assert_close(small(flat.repeat(1, 1, 2, 3)), model(flat.repeat(1, 1, 4, 5)), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("height", "width"), [(12, 8), (8, 8), (9, 13)])
def test_images_of_another_size_are_refused(height, width):
    with pytest.raises(DataError, match=rf"images are {height} x {width} pixels, this model reads 8 x 12 pixels"):
        build("vit")(pictures(height, width))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"image": 30, "patch": 4}, "30 x 30 pixels is not filled by patches of 4 x 4"),
        ({"image": (8, 12, 3)}, r"image=\(8, 12, 3\)"),
        ({"image": 0}, "image=0"),
        ({"classes": 0}, "classes=0"),
        ({"pool": "max"}, "pool='max', allowed: class, mean"),
        ({"start": "zero"}, "start='zero', allowed: paper, small-data"),
        ({"patch": 0}, "patch=0"),
    ],
)
def test_configs_that_make_no_sense(changes, said):
    with pytest.raises(ConfigError, match=said):
        replace(VIT, **changes)


@pytest.mark.parametrize("patch", [3, 5])
def test_odd_patches(patch):
    """Half of an odd patch is rounded down, as in the official code."""
    model = build_model(replace(SMALL, image=3 * patch, patch=patch))
    assert model.patches.shift == patch // 2
    assert model(pictures(3 * patch, 3 * patch)).shape == (3, 5)


@pytest.mark.parametrize(("height", "width"), [(1, 1), (7, 5), (33, 40)])
def test_the_convnet_takes_images_of_any_size(height, width):
    model = build_model(ConvnetConfig(classes=5, widths=(4, 6, 8), blocks=1)).eval()
    assert isinstance(model, Convnet)
    assert model(pictures(height, width)).shape == (3, 5)


def test_a_tiny_one_learns_a_handful_of_images():
    torch.manual_seed(0)
    model = build_model(replace(SMALL, image=8)).train()
    batch, labels = pictures(8, 8, rows=10), torch.arange(10) % 5
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(60):
        loss = F.cross_entropy(model(batch), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.1


def test_the_presets_answer():
    for name in ("vit-small-data", "sl-vit", "convnet"):
        assert build_preset(name).eval()(torch.randn(2, 3, 32, 32)).shape == (2, 10)
