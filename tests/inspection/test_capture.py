"""Capture sees what the kernels used, for every model, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase

import pytest
import torch
from torch import Tensor, nn

import headway
from headway.bench.memory import LiveBytes
from headway.errors import AdviceWarning, ConfigError, DataError, KernelError
from headway.inspection import Pass, taps
from headway.models import MODELS, DecisionConfig, DetrConfig, ModelConfig, PoseConfig, build_model
from headway.nn.attention import CrossAttention, SelfAttention
from headway.nn.int8 import quantise, supported
from headway.nn.patches import Patches
from headway.nn.positions import Rotary
from headway.ops import KERNELS
from tests.models.test_text_classifier import CONFIGS, rows
from tests.models.test_vector_transformer import CONFIG as SETS
from tests.models.test_vector_transformer import drawn
from tests.models.test_world import LAKE, POLE, steps
from tests.models.tiny import (
    ALL,
    CAPTIONING,
    GPT,
    SPEECH_CTC,
    SPEECH_TRANSFORMER,
    VISION,
    VOCAB,
    build,
    outputs,
    sounds,
    text,
)

EVERYTHING = ("weights", "scores", "q", "k", "v", "heads")
POSE = PoseConfig(image=(8, 12), patch=4, width=16, layers=2, heads=4, inner=24)
OBJECTS = DetrConfig(
    classes=3, queries=5, image=(8, 12), patch=4, patches=Patches(), width=16, encoder_layers=2, decoder_layers=2,
    heads=4, inner=24,
)  # fmt: skip
LOGGED = DecisionConfig(observation=POLE.observation, actions=3, context=7, width=16, layers=2, heads=2)
# Models that read neither plain tokens nor plain images, and what they read.
OTHERS: dict[str, tuple[ModelConfig, Callable[[], tuple[Tensor, ...]]]] = {
    "pose": (POSE, lambda: (torch.randn(2, 3, 8, 12, generator=torch.Generator().manual_seed(3)),)),
    "detr": (OBJECTS, lambda: (torch.randn(2, 3, 8, 12, generator=torch.Generator().manual_seed(3)),)),
    "text-classifier": (CONFIGS["global"], lambda: (rows(), torch.tensor([40, 33]))),
    "speech-ctc": (SPEECH_CTC, lambda: (sounds(2), torch.tensor([13, 8]))),
    "speech-transformer": (
        SPEECH_TRANSFORMER,
        lambda: (sounds(2), torch.arange(10).view(2, 5), torch.tensor([13, 8]), torch.tensor([5, 3])),
    ),
    "vector-transformer": (SETS, lambda: (drawn(), torch.tensor([9, 1, 5]))),
    "world": (LAKE, lambda: steps(LAKE)),
    "decision": (LOGGED, lambda: (torch.rand(3, 7), *steps(POLE)[:2])),
}
NAMES = [*ALL, *VISION, *CAPTIONING, *OTHERS]
WITHOUT = (  # no attention at all
    "rnn-lm",
    "convnet",
    "seq2seq-gru",
    "seq2seq-reversed",
    "captioner-rnn-state",
    "token-classifier-recurrent",
)


def subject(name: str) -> tuple[nn.Module, Callable[[], tuple[Tensor, ...]]]:
    """A model, and a call of it on a batch in which rows differ in length where they can."""
    if name in OTHERS:
        config, read = OTHERS[name]
        model, inputs = build_model(config, seed=1).eval(), read()

        def call():
            found = model(*inputs)
            return found if isinstance(found, tuple) else (found,)

        return model, call
    model, generator = build(name), torch.Generator().manual_seed(3)
    if name in VISION:
        pictures = torch.randn(2, 3, 8, 12, generator=generator)
        return model, lambda: (model(pictures),)
    if name in CAPTIONING:
        pictures, words = torch.randn(2, 3, 8, 8, generator=generator), torch.arange(10).view(2, 5)
        return model, lambda: (model(pictures, words),)
    batch = text(name, padded=True)
    return model, lambda: outputs(model, batch)


def sites(seen: Pass | headway.inspection.CaptureResult) -> list[str]:
    return [name.removesuffix(".weights") for name in seen if name.endswith(".weights")]


def mixed(model: nn.Module, seen, site: str) -> Tensor:
    """Weights times values as the attention of this site joins them."""
    weights, v = seen[f"{site}.weights"], seen[f"{site}.v"]
    x = weights @ v
    point = next(tap for tap in taps(model) if fnmatchcase(f"{site}.weights", tap.name))
    module = model.get_submodule(point.module)
    if (
        isinstance(module, SelfAttention | CrossAttention)
        and module.shaw is not None
        and module.shaw.values is not None
    ):
        x = x + module.shaw.weighted(weights, 0)
    if f"{site}.global_v" in seen:  # these tests have one global token, the first
        x[:, :, 0] = (weights @ seen[f"{site}.global_v"])[:, :, 0]
    return x


def test_every_registered_model_is_captured():
    found = {type(config) for config in (*ALL.values(), *VISION.values(), *CAPTIONING.values())}
    found |= {type(config) for config, _ in OTHERS.values()}
    assert found == set(MODELS.values())


@torch.no_grad()
@pytest.mark.parametrize("name", NAMES)
def test_weights_times_values_are_the_kernels_output_and_no_bit_changes(name):
    model, call = subject(name)
    before = call()
    named = taps(model)
    kinds = [kind for kind in (*EVERYTHING, "global_v") if any(tap.kind == kind for tap in named)]
    if not kinds:
        assert name.startswith(WITHOUT)
        return
    with headway.capture(model, what=kinds) as seen:
        during = call()
    for ours, theirs in zip(during, before, strict=True):
        assert torch.equal(ours, theirs)
    assert len(seen.passes) == 1
    expected = {tap.site for tap in named if tap.kind == "weights"}  # a loop's has a star for its steps
    assert {next(each for each in expected if fnmatchcase(site, each)) for site in sites(seen)} == expected
    for site in sites(seen):
        assert seen[f"{site}.weights"].dtype == torch.float32
        torch.testing.assert_close(mixed(model, seen, site), seen[f"{site}.heads"], atol=1e-5, rtol=0)
        scores = seen[f"{site}.scores"].softmax(-1).nan_to_num(0)
        torch.testing.assert_close(scores, seen[f"{site}.weights"], atol=1e-6, rtol=0)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(call(), before, strict=True))
    assert not any(getattr(module, "on_attention", None) for module in model.modules())
    assert not {"forward", "features", "extend"} & vars(model).keys()


@torch.no_grad()
@pytest.mark.parametrize("name", ["gpt-llama", "gpt-alibi", "gpt-windows"])
@pytest.mark.parametrize(
    "kernel", [kernel for kernel in KERNELS if kernel != "flex"]
)  # compiles: test_recompute has it
def test_the_kernel_that_was_asked_for_runs_and_is_seen(name, kernel, monkeypatch):
    ran: list[str] = []
    run = KERNELS[kernel].run
    monkeypatch.setitem(KERNELS, kernel, KERNELS[kernel]._replace(run=lambda call: (ran.append(kernel), run(call))[1]))
    model = build_model(replace(ALL[name], kernel=kernel), seed=1).eval()
    tokens = text(name).tokens
    refused = ""
    try:
        plain = model(tokens)
    except KernelError as error:
        refused = str(error)
    if refused:
        assert f"kernel={kernel!r} does not support these inputs" in refused
        return
    ran.clear()
    with headway.capture(model, what=("weights", "v", "heads")) as seen:
        assert torch.equal(model(tokens), plain)
    assert ran == [kernel] * 2  # once a layer: the weights were not its work
    for site in sites(seen):
        torch.testing.assert_close(mixed(model, seen, site), seen[f"{site}.heads"], atol=1e-5, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize(
    "name", ["gpt-llama", "gpt-windows", "gpt-shaw", "longformer", "seq2seq-context-all", "vit-local"]
)
def test_only_what_was_asked_for(name):
    model, call = subject(name)
    kinds = ("weights", "q", "heads", "v", "scores")
    with headway.capture(model, what=kinds) as whole:
        call()
    heads, rows = ([0], [4, 0]) if name.startswith("seq2seq") else ([3, 0], [4, 0])
    with headway.capture(model, what=kinds, layers=[0], heads=heads, rows=rows) as some:
        call()
    assert {p.layer for p in some.last.points.values()} == {0}
    for key, value in some.items():
        expected = whole[key][:, heads]
        if not key.endswith(".v"):
            expected = expected[:, :, [0, 4]]  # rows come in their order
        torch.testing.assert_close(value, expected, atol=1e-6, rtol=0)
    with headway.capture(model, what=kinds, rows=slice(2, None, 3)) as sliced:
        call()
    for key, value in sliced.items():
        torch.testing.assert_close(
            value, whole[key] if key.endswith(".v") else whole[key][:, :, 2::3], atol=1e-6, rtol=0
        )


@torch.no_grad()
def test_what_passes_the_blocks_adds_up():
    model, batch = build("gpt-learned"), text("gpt-learned")
    what = ("input", "residual", "self.out", "feedforward.out", "embedding", "hidden", "logits")
    with headway.capture(model, what=what) as seen:
        logits = model(batch.tokens)
    assert torch.equal(seen["logits"], logits)
    assert torch.equal(seen["embedding"], model.embedding(batch.tokens))
    assert torch.equal(seen["layers.1.input"], seen["layers.0.residual"])
    stream = seen["layers.0.input"] + seen["layers.0.self.out"] + seen["layers.0.feedforward.out"]
    torch.testing.assert_close(stream, seen["layers.0.residual"])
    assert torch.equal(model.stack.output_norm(seen["layers.1.residual"], None), seen["hidden"])
    assert torch.equal(seen.residual[1], seen["layers.1.residual"])


def test_in_training_the_loss_and_its_gradients_stay_as_they_are():
    model = build("transformer-sinusoidal").train()
    batch = text("transformer-sinusoidal", padded=True)

    def step() -> tuple[Tensor, list[Tensor]]:
        torch.manual_seed(5)
        model.zero_grad()
        features = model.features(batch.source, batch.tokens, batch.source_lengths, batch.lengths)
        loss = (features**2).sum()
        loss.backward()
        return loss.detach(), [p.grad.clone() for p in model.parameters() if p.grad is not None]

    loss, gradients = step()
    with headway.capture(model, layers=[1], what=("weights", "residual")) as seen:
        during, same = step()
    assert torch.equal(loss, during)
    assert all(map(torch.equal, gradients, same))
    weights = seen.weights[1]
    assert not weights.requires_grad
    assert weights.shape == (3, 4, 9, 7)
    assert sites(seen) == ["encoder.layers.1.self", "decoder.layers.1.self", "decoder.layers.1.cross"]


@torch.no_grad()
def test_a_number_means_the_cross_attention_where_there_is_one():
    model, batch = build("transformer-alibi"), text("transformer-alibi")
    with headway.capture(model, what=("weights", "bias")) as seen:
        outputs(model, batch)
    assert torch.equal(seen.weights[1], seen["decoder.layers.1.cross.weights"])
    assert torch.equal(seen.weights["encoder.layers.1.self"], seen["encoder.layers.1.self.weights"])
    distance = (torch.arange(7)[:, None] - torch.arange(7)).abs()
    slopes = headway.ops.alibi_slopes(4).view(-1, 1, 1)
    torch.testing.assert_close(seen["encoder.layers.0.self.bias"][0], -slopes * distance)


@torch.no_grad()
def test_each_call_is_a_pass_and_parts_of_a_model_are_too():
    model, batch = build("transformer-rotary"), text("transformer-rotary")
    with headway.capture(model) as seen:
        outputs(model, batch)
        outputs(model, batch)
        model.encoder(torch.randn(1, 3, 16))
        model.encoder(torch.randn(1, 4, 16))
    assert len(seen.passes) == 4
    assert repr(seen.passes[2]) == "Pass(a forward pass: encoder.layers.0.self.weights, encoder.layers.1.self.weights)"
    assert seen["encoder.layers.0.self.weights"].shape == (1, 4, 4, 4)


@torch.no_grad()
def test_a_learned_temperature_is_recorded():
    model, call = subject("vit-local")
    with headway.capture(model, what=("scores", "q", "k")) as seen:
        call()
    scale = seen.last.scales["layers.1.self"]
    expected = scale.view(-1, 1, 1) * seen["layers.1.self.q"] @ seen["layers.1.self.k"].mT
    expected.diagonal(dim1=-2, dim2=-1).fill_(-torch.inf)
    torch.testing.assert_close(seen["layers.1.self.scores"], expected)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"what": "nothing"}, "unknown tap 'nothing'; this model has: input, q"),
        ({"layers": [7]}, r"layers=\[7\]: unknown layer 7; this model has: \[0, 1\]"),
        ({"layers": [-1]}, r"layers=\[-1\], allowed: numbers from 0 on"),
        ({"heads": [4]}, r"heads=\[4\]: layers.0.self.weights has heads 0 to 3"),
        ({"rows": [-1]}, r"rows=\[-1\], allowed: positions from 0 on"),
        ({"rows": slice(-2, None)}, r"rows=slice\(-2, None, None\), allowed"),
    ],
)
def test_unknown_taps_layers_heads_and_rows_are_rejected(asked, told):
    with pytest.raises(ConfigError, match=told), headway.capture(build("gpt-learned"), **asked):
        pass


@torch.no_grad()
def test_taps_that_were_not_captured_are_named():
    model = build("gpt-learned")
    with headway.capture(model, layers=[0]) as seen:
        with pytest.raises(ConfigError, match="nothing was captured"):
            seen.weights[0]
        model(torch.zeros(1, 3, dtype=torch.long))
        with pytest.raises(ConfigError, match="captured already"), headway.capture(model):
            pass
    with pytest.raises(ConfigError, match=r"layers.1.self.q was not captured; captured: layers.0.self.weights"):
        seen["layers.1.self.q"]
    with pytest.raises(ConfigError, match="no weights of layer 1"):
        seen.weights[1]


@torch.no_grad()
@pytest.mark.parametrize("how", ["features", "in place", "wrapped"])
def test_a_compiled_model_runs_uncompiled_and_says_so(how):
    model, tokens = build("gpt-learned"), torch.arange(6).view(1, 6)
    plain, ran = model(tokens), []

    def backend(graph, _inputs):
        ran.append(graph)
        return graph.forward

    called: Callable[..., Tensor] = model
    if how == "features":
        model.features = torch.compile(model.features, backend=backend)
    elif how == "in place":
        model.compile(backend=backend)
    else:
        called = torch.compile(model, backend=backend)
    whole = called if isinstance(called, nn.Module) else model
    with pytest.warns(AdviceWarning, match="a captured call runs uncompiled"), headway.capture(whole) as seen:
        assert torch.equal(called(tokens), plain)
    assert not ran
    assert seen.weights[1].shape == (1, 4, 6, 6)
    torch.testing.assert_close(called(tokens), plain)
    assert ran  # and is compiled again after it


def test_every_tap_has_one_name_and_every_name_one_meaning():
    for name in NAMES:
        model, _ = subject(name)
        named = taps(model)
        assert len({tap.name for tap in named}) == len(named)
        assert all(tap.shape for tap in named)
        assert all(model.get_submodule(tap.module) is not None for tap in named)


@torch.no_grad()
def test_memory_grows_with_the_rows_asked_for_not_with_the_square_of_the_length(monkeypatch):
    monkeypatch.setattr("headway.ops.attention_scores.BLOCK", 1 << 12)
    model = build_model(replace(GPT, context=1024, position=Rotary()), seed=0).eval()

    def most(length: int, rows: int) -> int:
        with headway.capture(model, layers=[0], rows=range(rows)), LiveBytes() as memory:
            model(torch.zeros(1, length, dtype=torch.long))
        return memory.peak

    row = 4 * GPT.heads  # bytes for each key
    assert most(512, 256) - most(512, 128) == pytest.approx(128 * 512 * row, rel=0.02)
    assert most(1024, 64) < 2.1 * most(512, 64)  # were n² weights made, it would be four times as much


@torch.no_grad()
def test_an_error_inside_leaves_the_model_as_it_was():
    model = build("gpt-learned")
    with pytest.raises(DataError), headway.capture(model, what=("weights", "residual", "logits")):
        model(torch.full((1, 3), VOCAB))
    assert not any(getattr(module, "on_attention", None) for module in model.modules())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert not {"forward", "features", "start", "extend", "select"} & vars(model).keys()
    with headway.capture(model) as seen:
        model(torch.zeros(1, 3, dtype=torch.long))
    assert len(seen.passes) == 1


@pytest.mark.skipif(not supported(), reason="no 8-bit products here")
@torch.no_grad()
def test_a_model_in_eight_bits_is_captured_as_it_is():
    model, tokens = build("gpt-llama"), text("gpt-llama").tokens
    quantise(model)
    plain = model(tokens)
    with headway.capture(model, what=("weights", "v", "heads")) as seen:
        assert torch.equal(model(tokens), plain)
    site = "layers.1.self"
    torch.testing.assert_close(seen[f"{site}.weights"] @ seen[f"{site}.v"], seen[f"{site}.heads"], atol=1e-5, rtol=0)
