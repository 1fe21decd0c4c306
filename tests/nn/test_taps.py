"""Every named tap fires once a block at its place, may replace what passes, and costs nothing in numbers."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.nn import taps
from headway.nn.feedforward import FeedForward, FeedForwardConfig
from headway.nn.longformer_attention import GlobalAttentionConfig
from headway.nn.positions import EncoderPosition
from headway.nn.stack import Stack
from headway.nn.taps import Tap, observed
from headway.ops import Causal, Lengths, Mask
from tests.nn.tiny import CAUSAL, WIDTH, attention_config, tiny_stack

PUBLIC = re.findall(r"`(tap_\w+)`", taps.__doc__ or "")
IN_ATTENTION = ["tap_q", "tap_k", "tap_v", "tap_weights", "tap_heads"]
IN_BLOCK = [
    "tap_resid_in",
    *[f"attention.{name}" for name in IN_ATTENTION],
    "tap_attn_out",
    *[f"cross.{name}" for name in IN_ATTENTION],
    "tap_cross_out",
    "tap_mlp_out",
    "tap_resid_out",
]
LAYERS, TOKENS, SOURCE = 3, 5, 4


def decoder(position: EncoderPosition | None = None, **attention: object) -> Stack:
    return tiny_stack(
        position, causal=True, layers=LAYERS, cross=True, place="pre", attention=attention_config(**attention)
    )


def texts(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    return torch.randn(2, TOKENS, WIDTH, dtype=dtype), torch.randn(2, SOURCE, WIDTH, dtype=dtype)


def run(stack: Stack, x: Tensor, source: Tensor, mask: Mask | None = None) -> Tensor:
    memory = stack.project_memory(source, torch.tensor([SOURCE, 2]))
    return stack(x, mask=mask or Causal(), memory=memory)


def record_taps(module: nn.Module) -> list[tuple[str, Tensor]]:
    """Hook every tap; values are appended in the order in which they pass."""
    values: list[tuple[str, Tensor]] = []
    for name, tap in module.named_modules():
        if isinstance(tap, Tap):
            tap.register_forward_hook(lambda tap, inputs, out, name=name: values.append((name, out)))
    return values


def test_the_public_names_are_the_taps_there_are():
    def names(module: nn.Module) -> set[str]:
        return {name.split(".")[-1] for name, part in module.named_modules() if isinstance(part, Tap)}

    with_globals = names(GlobalAttentionConfig(width=WIDTH, heads=1).build())
    assert with_globals == {*IN_ATTENTION, "tap_global_q", "tap_global_k", "tap_global_v"}
    assert names(decoder()) == {name.split(".")[-1] for name in IN_BLOCK}
    assert set(PUBLIC) == names(decoder()) | with_globals


def test_every_tap_fires_once_a_block_in_one_order():
    stack = decoder()
    values = record_taps(stack)
    run(stack, *texts())
    assert [name for name, _ in values] == [f"blocks.{k}.{name}" for k in range(LAYERS) for name in IN_BLOCK]


@torch.no_grad()
def test_what_a_hook_keeps_of_a_layer_before_relu_stays_as_it_was():
    network, x, kept = FeedForward(WIDTH, FeedForwardConfig(inner=20, activation="relu")), torch.randn(2, 5, WIDTH), []
    network.up.register_forward_hook(lambda _, __, out: kept.append(out))
    network(x)
    assert torch.equal(kept[0], F.linear(x, network.up.weight, network.up.bias))


@torch.no_grad()
def test_a_hook_may_write_into_the_weights_it_sees():
    stack, (x, source) = decoder(), texts()
    before, found = run(stack, x, source), []
    tap = stack.blocks[1].attention.tap_weights
    for hook in (lambda _, __, out: out.mul_(0.5), lambda _, __, out: out * 0.5):  # the same tensor, and another
        handle = tap.register_forward_hook(hook)
        found.append(run(stack, x, source))
        handle.remove()
    torch.testing.assert_close(*found)
    assert (found[0] - before).abs().max() > 1e-3


def test_every_tap_has_the_value_of_its_place():
    stack, (x, source) = decoder(), texts()
    values_in_order = record_taps(stack)
    out = run(stack, x, source)
    values = dict(values_in_order)
    previous = x
    for k, block in enumerate(stack.blocks):
        at = {name: values[f"blocks.{k}.{name}"] for name in IN_BLOCK}
        assert torch.equal(at["tap_resid_in"], previous)
        stream = previous
        q, k_, v = block.attention.qkv(block.attention_norm(stream)).chunk(3, -1)
        for name, projected in (("tap_q", q), ("tap_k", k_), ("tap_v", v)):
            torch.testing.assert_close(
                at[f"attention.{name}"].transpose(1, 2).flatten(2), projected, rtol=0, atol=1e-12
            )
        attended = block.attention.out(at["attention.tap_heads"].transpose(1, 2).flatten(2))
        torch.testing.assert_close(at["tap_attn_out"], attended)
        stream = stream + at["tap_attn_out"]
        torch.testing.assert_close(
            at["cross.tap_q"].transpose(1, 2).flatten(2), block.cross.q(block.cross_norm(stream))
        )
        torch.testing.assert_close(at["cross.tap_k"], block.cross.project(source)[0])
        torch.testing.assert_close(at["cross.tap_v"], block.cross.project(source)[1])
        crossed = block.cross.out(at["cross.tap_heads"].transpose(1, 2).flatten(2))
        torch.testing.assert_close(at["tap_cross_out"], crossed)
        stream = stream + at["tap_cross_out"]
        torch.testing.assert_close(at["tap_mlp_out"], block.feedforward(block.feedforward_norm(stream)))
        torch.testing.assert_close(at["tap_resid_out"], stream + at["tap_mlp_out"])
        previous = at["tap_resid_out"]
    torch.testing.assert_close(out, stack.output_norm(previous))


def test_a_block_without_a_memory_or_a_network_leaves_those_taps_silent():
    stack = tiny_stack(feedforward=None, layers=1)
    values = record_taps(stack)
    stack(texts()[0])
    names = [f"blocks.0.{name}" for name in IN_BLOCK if not re.search("cross|mlp", name)]
    assert [name for name, _ in values] == names


@pytest.mark.parametrize("name", IN_BLOCK)
def test_what_a_hook_puts_in_place_of_a_tap_changes_the_output(name):
    stack, (x, source) = decoder(), texts()
    before = run(stack, x, source)
    stack.get_submodule(f"blocks.1.{name}").register_forward_hook(lambda tap, inputs, out: torch.zeros_like(out))
    assert (run(stack, x, source) - before).abs().max() > 1e-3


@pytest.mark.parametrize("part", ["attention", "cross"])
@pytest.mark.parametrize("position", [None, "rotary_halves", "alibi", "shaw", "shaw_keys_only"])
def test_weights_put_in_place_are_the_weights_the_values_meet(position, part):
    """An ablation: look at the first token alone, whatever the scores say."""
    stack, (x, source) = decoder(CAUSAL[position] if position else None), texts()
    layer = stack.get_submodule(f"blocks.1.{part}")

    def first_alone(tap: Tap, inputs: tuple[Tensor], weights: Tensor) -> Tensor:
        return F.one_hot(torch.zeros_like(weights[..., 0], dtype=torch.long), weights.shape[-1]).to(weights.dtype)

    layer.tap_weights.register_forward_hook(first_alone)
    values = record_taps(stack)
    run(stack, x, source)
    passed = dict(values)
    heads, values = passed[f"blocks.1.{part}.tap_heads"], passed[f"blocks.1.{part}.tap_v"]
    expected = values[:, :, :1].expand_as(heads)
    if position == "shaw" and part == "attention":  # Σ weight·(v_j + a_(j-i))
        expected = expected + layer.shaw.values[(-torch.arange(TOKENS)).clamp(min=-3) + 3]
    torch.testing.assert_close(heads, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kernel", ["auto", "sdpa", "reference"])
@pytest.mark.parametrize("position", [None, "sinusoidal", "rotary_halves", "alibi", "t5", "shaw", "shaw_keys_only"])
def test_hooks_that_only_read_change_no_bit(position, kernel, dtype):
    stack = decoder(CAUSAL[position] if position else None, kernel=kernel).to(dtype)
    x, source = texts(dtype)
    before = run(stack, x, source)
    values = record_taps(stack)
    assert torch.equal(run(stack, x, source), before)
    assert len(values) == LAYERS * len(IN_BLOCK)


HOOKS = {
    "forward": lambda module: module.register_forward_hook(lambda *_: None),
    "before": lambda module: module.register_forward_pre_hook(lambda *_: None),
    "backward": lambda module: module.register_full_backward_hook(lambda *_: None),
    "before backward": lambda module: module.register_full_backward_pre_hook(lambda *_: None),
    "all forward": lambda _: nn.modules.module.register_module_forward_hook(lambda *_: None),
    "all before": lambda _: nn.modules.module.register_module_forward_pre_hook(lambda *_: None),
    "all backward": lambda _: nn.modules.module.register_module_full_backward_hook(lambda *_: None),
    "all before backward": lambda _: nn.modules.module.register_module_full_backward_pre_hook(lambda *_: None),
}


@pytest.mark.parametrize("kind", HOOKS)
def test_a_module_is_observed_while_a_hook_of_any_kind_is_registered(kind):
    stack = decoder()
    block, inner = stack.blocks[0], stack.blocks[0].attention.qkv
    assert not observed(inner)
    assert not observed(block, inside=True)
    handle = HOOKS[kind](inner)
    assert observed(inner)
    assert observed(block, inside=True)
    assert observed(block) == observed(stack.blocks[1], inside=True) == kind.startswith("all")
    handle.remove()
    assert not observed(inner)
    assert not observed(block, inside=True)


def test_an_attention_with_an_observer_is_observed():
    block = decoder().blocks[0]
    block.cross.on_attention = lambda record: None
    assert observed(block.cross)
    assert observed(block, inside=True)
    assert not observed(block.attention)
    block.cross.on_attention = None
    assert not observed(block, inside=True)


def test_a_backward_hook_on_a_tap_sees_its_gradient():
    stack, (x, source), grads = decoder(), texts(), []
    tap = stack.blocks[1].attention.tap_weights
    handle = tap.register_full_backward_hook(lambda tap, given, out: grads.append(out[0]))
    run(stack, x, source).square().sum().backward()
    handle.remove()
    assert grads[0].shape == (2, 4, TOKENS, TOKENS)
    assert grads[0].abs().max() > 0


def test_a_tap_is_observed_until_its_hook_is_removed():
    tap = Tap()
    assert not tap.observed
    handles = [tap.register_forward_hook(lambda *_: None), tap.register_forward_pre_hook(lambda *_: None)]
    assert tap.observed
    handles[0].remove()
    assert tap.observed
    handles[1].remove()
    assert not tap.observed


def test_taps_hold_nothing_to_save():
    assert not any("tap" in name for name in decoder().state_dict())


@pytest.mark.parametrize("mask", [Causal(), Causal() & Lengths(torch.tensor([5, 3]))])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("position", [None, "rotary_interleaved", "alibi", "t5", "shaw_keys_only"])
def test_captured_weights_times_values_are_the_heads_while_sdpa_computes(position, kv_heads, mask, monkeypatch):
    calls: list[None] = []
    fused = F.scaled_dot_product_attention

    def counted(*arguments, **options) -> Tensor:
        calls.append(None)
        return fused(*arguments, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counted)
    stack = decoder(CAUSAL[position] if position else None, kv_heads=kv_heads).float()
    values = record_taps(stack)
    run(stack, *texts(torch.float32), mask)
    assert len(calls) == 2 * LAYERS  # self- and cross-attention of every block: the kernel is the same
    passed = dict(values)
    for k in range(LAYERS):
        for part in ("attention", "cross"):
            weights, v, heads = (passed[f"blocks.{k}.{part}.{tap}"] for tap in ("tap_weights", "tap_v", "tap_heads"))
            per_head = v.repeat_interleave(weights.shape[1] // v.shape[1], dim=1)
            torch.testing.assert_close(weights @ per_head, heads, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


def test_captured_weights_are_zero_where_the_mask_forbids():
    stack = decoder()
    values = record_taps(stack)
    run(stack, *texts(), Causal() & Lengths(torch.tensor([5, 3])))
    weights = dict(values)["blocks.0.attention.tap_weights"]
    forbidden = ~torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
    assert (weights[:, :, forbidden] == 0).all()
    assert (weights[1, :, :, 3:] == 0).all()
    assert (dict(values)["blocks.0.cross.tap_weights"][1, :, :, 2:] == 0).all()


@torch.no_grad()
def test_taps_hear_a_cached_step_as_they_hear_the_whole_text():
    stack, (x, _) = tiny_stack(CAUSAL["alibi"], causal=True), texts()
    values = record_taps(stack)
    stack(x, mask=Causal())
    whole = dict(values)
    cache = stack.empty_cache(8)
    stack(x[:, :4], mask=Causal(), cache=cache)
    values.clear()
    stack(x[:, 4:], mask=Causal(offset=4), cache=cache.advanced(4))
    for name, last in values:
        if not name.endswith(("tap_k", "tap_v")):  # there a step shows all keys it can see
            torch.testing.assert_close(last.squeeze(-2 if last.ndim == 4 else 1), whole[name].select(-2, 4))
        else:
            torch.testing.assert_close(last, whole[name])
