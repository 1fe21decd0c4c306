"""Ablation, patching, lens, rollout and neighbours against direct computation."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

import headway
from headway.errors import ConfigError, ShapeError
from headway.inspection import (
    ablate,
    head_effects,
    links,
    logit_lens,
    nearest,
    neighbours,
    patch,
    patch_effects,
    picture_rollout,
    rollout,
)
from headway.models import build_model
from tests.inspection.test_capture import subject
from tests.models.tiny import VIT, build, outputs, text

WITH_HEADS = [
    "gpt-learned",
    "gpt-llama",
    "gpt-shaw",
    "transformer-rotary",
    "bert",
    "longformer",
    "vit-small",
    "captioner-vit",
]


# --- ablation ---


@torch.no_grad()
@pytest.mark.parametrize("name", WITH_HEADS)
def test_a_head_that_is_off_is_one_whose_columns_of_the_output_matrix_are_zero(name):
    model, call = subject(name)
    points = [tap for tap in headway.taps(model) if tap.kind == "heads"]
    for point in points[:: max(len(points) - 1, 1)]:  # the first and the last attention
        module = model.get_submodule(point.module)
        with ablate(model, heads={point.site: [1, 3]}):
            ablated = call()[0]
        kept, width = module.out.weight.clone(), module.head_width
        for head in (1, 3):
            module.out.weight[:, head * width : (head + 1) * width] = 0
        torch.testing.assert_close(ablated, call()[0], atol=1e-5, rtol=0)
        module.out.weight.copy_(kept)
        assert (ablated - call()[0]).abs().max() > 1e-4


@torch.no_grad()
@pytest.mark.parametrize("name", ["gpt-learned", "transformer-rotary", "vit"])
def test_a_layer_that_is_off_leaves_its_stream_as_it_was(name):
    model, call = subject(name)
    stack = "decoder." if name.startswith("transformer") else ""
    layer = f"{stack}layers.1"
    with ablate(model, parts=[layer]), headway.capture(model, what=("input", "residual")) as seen:
        ablated = call()[0]
    blocks = model.decoder.blocks if stack else model.stack.blocks
    if blocks[1].pre:
        assert torch.equal(seen[f"{layer}.input"], seen[f"{layer}.residual"])
    own = [blocks[1].attention.out, blocks[1].feedforward.down, *([blocks[1].cross.out] if blocks[1].cross else [])]
    for matrix in own:
        matrix.weight.zero_()
        matrix.bias.zero_()
    torch.testing.assert_close(ablated, call()[0], atol=1e-6, rtol=0)


@torch.no_grad()
def test_a_part_alone_and_the_mean_in_its_place():
    model, batch = build("gpt-learned"), text("gpt-learned")
    with headway.capture(model, what=("feedforward.out", "heads")) as seen:
        model(batch.tokens)
    with ablate(model, parts=["layers.0.feedforward"], instead="mean"), headway.capture(model, what="residual") as off:
        model(batch.tokens)
    with headway.capture(model, what=("residual", "feedforward.out"), layers=[0]) as on:
        model(batch.tokens)
    mean = seen["layers.0.feedforward.out"].mean((0, 1))
    expected = on["layers.0.residual"] - on["layers.0.feedforward.out"] + mean
    torch.testing.assert_close(off["layers.0.residual"], expected, atol=1e-5, rtol=0)


@torch.no_grad()
def test_effects_of_heads_are_differences():
    model, batch = build("transformer-sinusoidal"), text("transformer-sinusoidal")

    def measure() -> float:
        return outputs(model, batch)[0].square().mean().item()

    effects = head_effects(model, measure)
    assert set(effects) == {
        f"{s}.layers.{n}.{a}"
        for n in (0, 1)
        for s, a in (("encoder", "self"), ("decoder", "self"), ("decoder", "cross"))
    }
    with ablate(model, heads={"decoder.layers.1.cross": [2]}):
        off = measure()
    assert effects["decoder.layers.1.cross"][2].item() == pytest.approx(off - measure(), abs=1e-6)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (
            {"heads": {"layers.0.cross": [0]}},
            "unknown attention 'layers.0.cross'; this model has: layers.0.self, ",
        ),
        ({"heads": {"layers.0.self": [4]}}, "head 4 of layers.0.self: it has heads 0 to 3"),
        ({"parts": ["layers.7"]}, "unknown part 'layers.7'"),
        ({"parts": [], "instead": "noise"}, "instead='noise', allowed: zero, mean"),
    ],
)
def test_unknown_parts_and_heads_are_rejected(asked, told):
    with pytest.raises(ConfigError, match=told), ablate(build("gpt-learned"), **asked):
        pass


# --- patching ---


@torch.no_grad()
@pytest.mark.parametrize("name", ["gpt-learned", "gpt-llama", "seq2seq-context-next-layer", "transformer-alibi"])
def test_a_value_put_back_where_it_was_changes_nothing(name):
    model, call = subject(name)
    before = call()[0]
    kinds = [
        k
        for k in ("weights", "heads", "q", "residual", "hidden", "logits", "embedding", "states")
        if any(tap.kind == k for tap in headway.taps(model))
    ]
    if name == "gpt-llama":
        kinds += ["self.out"]
    with headway.capture(model, what=kinds) as seen:
        call()
    for tap, value in seen.items():
        if tap in ("attention.q", "attention.heads"):
            continue
        with patch(model, {tap: value}):
            torch.testing.assert_close(call()[0], before, atol=1e-5, rtol=0)
        if "states" not in tap:
            with patch(model, {tap: torch.zeros_like(value)}):
                assert (call()[0] - before).abs().max() > 1e-5, tap


@torch.no_grad()
def test_patching_the_whole_stream_gives_the_other_output():
    """In a causal model the last residual at a position decides its logits, and no other position's."""
    model = build("gpt-rotary")
    clean, other = (text("gpt-rotary", rows=1, seed=seed).tokens for seed in (0, 5))
    logits = model(clean)
    with headway.capture(model, what="residual") as seen:
        model(clean)
    with patch(model, {"layers.1.residual": seen["layers.1.residual"]}, rows=[3, 8]):
        patched = model(other)
    plain = model(other)
    torch.testing.assert_close(patched[:, [3, 8]], logits[:, [3, 8]])
    torch.testing.assert_close(patched[:, :3], plain[:, :3])
    assert not torch.allclose(patched[:, 8], plain[:, 8])

    def measure() -> float:
        return float((model(other)[0, 8] - logits[0, 8]).square().sum())

    effects = patch_effects(model, dict(seen), measure, rows=range(9))
    assert effects["layers.1.residual"][8] < 1e-9
    torch.testing.assert_close(effects["layers.1.residual"][:8], torch.full((8,), measure()), atol=1e-3, rtol=1e-3)
    assert effects["layers.0.residual"].shape == (9,)
    with patch(model, {"layers.0.residual": seen["layers.0.residual"]}, rows=[2]):
        assert effects["layers.0.residual"][2].item() == pytest.approx(measure(), rel=1e-4)


@torch.no_grad()
def test_some_heads_of_some_rows_by_a_function():
    model, batch = build("gpt-learned"), text("gpt-learned")
    with headway.capture(model, what="heads") as whole:
        model(batch.tokens)
    with (
        patch(model, {"layers.0.self.heads": torch.neg}, heads=[1], rows=[4]),
        headway.capture(model, what=("out",), layers=[0]) as seen,
    ):
        model(batch.tokens)
    x = whole["layers.0.self.heads"].clone()
    x[:, 1, 4] *= -1
    expected = model.stack.blocks[0].attention.out(x.transpose(1, 2).flatten(2))
    torch.testing.assert_close(seen["layers.0.self.out"], expected)


def test_unknown_and_unreplaceable_taps_are_rejected():
    model = build("gpt-learned")
    with (
        pytest.raises(ConfigError, match=r"unknown tap 'layers.9.residual'"),
        patch(model, {"layers.9.residual": torch.neg}),
    ):
        pass
    with (
        pytest.raises(ConfigError, match=r"scores cannot be replaced"),
        patch(model, {"layers.0.self.scores": torch.neg}),
    ):
        pass
    with (
        pytest.raises(ShapeError, match=r"layers.0.residual is \(1, 2, 16\), its replacement is \(3,\)"),
        patch(model, {"layers.0.residual": torch.zeros(3)}),
    ):
        model(torch.zeros(1, 2, dtype=torch.long))


# --- lens ---


@torch.no_grad()
@pytest.mark.parametrize(
    "name",
    [
        "gpt-learned", "gpt-llama", "transformer-sinusoidal", "transformer-pre-norm", "bert-pretraining",
        "longformer-masked", "deck", "vit", "vit-mean", "captioner-vit",
    ],
)  # fmt: skip
def test_the_lens_after_the_last_layer_is_the_model_and_before_it_a_model_with_fewer(name):
    model, call = subject(name)
    with headway.capture(model, what="residual") as seen:
        logits = call()[0]
    lens = logit_lens(model, seen)
    assert len(lens) == 2
    first, last = lens.values()
    torch.testing.assert_close(last, logits, atol=1e-6, rtol=0)
    stack = model.get_submodule(
        next(t.module for t in headway.taps(model) if t.kind == "hidden" and t.stack != "encoder")
    )
    del stack.blocks[1:]
    if hasattr(model, "sight_of"):
        model.sight_of = model.sight_of[:1]
    torch.testing.assert_close(first, call()[0], atol=1e-6, rtol=0)


def test_a_logit_lens_needs_an_output_layer():
    with pytest.raises(ConfigError, match="needs blocks and an output layer; Bert lacks them"):
        logit_lens(build("bert"), {})
    with pytest.raises(ConfigError, match="no residual was captured"):
        logit_lens(build("gpt-learned"), {})


# --- rollout ---


def test_rollout_by_hand():
    generator = torch.Generator().manual_seed(0)
    layers = [torch.randn(2, 3, 5, 5, generator=generator).softmax(-1) for _ in range(3)]
    joined = rollout(layers)
    for row in range(2):
        expected = torch.eye(5)
        for weights in layers:
            mean = sum(weights[row, head] for head in range(3)) / 3
            expected = (0.5 * mean + 0.5 * torch.eye(5)) @ expected
        torch.testing.assert_close(joined[row], expected)
    torch.testing.assert_close(joined.sum(-1), torch.ones(2, 5))
    torch.testing.assert_close(rollout(layers[:1], residual=0.0), layers[0].mean(1))
    with pytest.raises(ConfigError, match=r"residual=1.0"):
        rollout(layers, residual=1.0)
    with pytest.raises(ConfigError, match="rollout needs the weights of at least one layer"):
        rollout([])


@torch.no_grad()
@pytest.mark.parametrize("pool", ["class", "mean"])
def test_the_picture_of_a_rollout(pool):
    model = build_model(replace(VIT, pool=pool), seed=1).eval()
    with headway.capture(model) as seen:
        model(torch.randn(2, 3, 8, 12))
    picture = picture_rollout(model, seen, (2, 3))
    assert picture.shape == (2, 2, 3)
    torch.testing.assert_close(picture.sum((1, 2)), torch.ones(2))
    joined = rollout([seen.weights[0], seen.weights[1]])
    row = joined[:, 0, 1:] if pool == "class" else joined.mean(1)
    torch.testing.assert_close(picture.flatten(1), row / row.sum(-1, keepdim=True))
    with pytest.raises(ConfigError, match="tokens for a grid of 3 x 3 patches"):
        picture_rollout(model, seen, (3, 3))


# --- links ---


def test_links_are_the_heaviest_weights():
    generator = torch.Generator().manual_seed(0)
    seen = {f"layers.{n}.self.weights": torch.rand(2, 3, 4, 5, generator=generator) for n in (0, 1)} | {
        "hidden": torch.ones(1)
    }
    found = links(seen, query=2, key=4, row=1, count=4)
    every = sorted((w[1, h, 2, 4].item(), n[:13], h) for n, w in seen.items() if n != "hidden" for h in range(3))[::-1]
    assert [(link.weight, link.site, link.head) for link in found] == every[:4]
    with pytest.raises(ConfigError, match="no captured weights have a query 4 and a key 0"):
        links(seen, query=4, key=0)


# --- neighbours ---


def test_neighbours_by_hand():
    words = ["north", "south", "east", "north-east"]
    table = torch.tensor([[0.0, 2.0], [0.0, -1.0], [3.0, 0.0], [1.0, 1.0]])
    found = nearest(torch.tensor([0.0, 5.0]), table, words, count=3)
    assert [each.word for each in found] == ["north", "north-east", "east"]
    assert [each.cosine for each in found] == pytest.approx([1, 0.5**0.5, 0], abs=1e-6)

    def vectors(asked):
        return torch.stack([table[words.index(word)] for word in asked])

    assert [each.word for each in neighbours("north", words, vectors, count=2)] == ["north-east", "east"]
    with pytest.raises(ConfigError, match="3 words for a table of 4 vectors"):
        nearest(table[0], table, words[:3])
    with pytest.raises(ConfigError, match="no other words among which to find neighbours of 'north'"):
        neighbours("north", ["north"], vectors)
    assert F.cosine_similarity(table[0], table[3], dim=0).item() == pytest.approx(found[1].cosine)
