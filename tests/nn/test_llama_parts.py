"""Parts of Llama's kin against their formulas: gated GELU, gain 1 + weight, norms of heads, norms on both sides."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.errors import ConfigError
from headway.models import GptConfig, build_model
from headway.nn.attention import AttentionConfig
from headway.nn.block import Block, BlockConfig
from headway.nn.feedforward import FeedForward, FeedForwardConfig
from headway.nn.longformer_attention import Windows
from headway.nn.norms import RMSNorm
from headway.nn.positions import Rotary

GPT = GptConfig(vocab=11, context=12, width=16, layers=3, heads=4, norm=RMSNorm(), position=Rotary(layout="halves"))


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def rms(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * gain


@pytest.mark.parametrize(("name", "approximate"), [("geglu", "none"), ("geglu_tanh", "tanh")])
def test_geglu_is_its_formula(name: str, approximate: str) -> None:
    network, x = FeedForward(6, FeedForwardConfig(inner=5, activation=name, bias=False)), torch.randn(2, 3, 6)
    gate, value = network.up.weight.split(5)
    expected = (F.gelu(x @ gate.T, approximate=approximate) * (x @ value.T)) @ network.down.weight.T
    torch.testing.assert_close(network(x), expected)


def test_a_centred_norm_multiplies_by_one_plus_its_weight() -> None:
    norm, x = RMSNorm(eps=1e-3, centred=True).build(6), torch.randn(2, 3, 6)
    assert torch.equal(norm.weight, torch.zeros(6))
    torch.testing.assert_close(norm(x), rms(x, torch.ones(6), 1e-3))
    norm.weight.data.normal_()
    torch.testing.assert_close(norm(x), rms(x, 1 + norm.weight, 1e-3))
    small = torch.full((6,), 2e-3)  # in 16 bits 1 + weight would be 1
    norm.weight.data = small.bfloat16()
    torch.testing.assert_close(norm(x.bfloat16()), rms(x.bfloat16().float(), 1 + small.bfloat16(), 1e-3).bfloat16())


def test_queries_and_keys_of_heads_of_any_width_are_normalised() -> None:
    config = AttentionConfig(width=10, heads=4, kv_heads=2, head_dim=3, qk_norm=RMSNorm(eps=1e-3), bias=False)
    attention, x = config.build(), torch.randn(2, 5, 10)
    assert attention.q_norm is not None
    assert attention.k_norm is not None
    for norm in (attention.q_norm, attention.k_norm):
        norm.weight.data.normal_()
    q, k, v = ((x @ part.T).unflatten(-1, (-1, 3)).transpose(1, 2) for part in attention.qkv.weight.split((12, 6, 6)))
    q, k = rms(q, attention.q_norm.weight, 1e-3), rms(k, attention.k_norm.weight, 1e-3)
    k, v = (each.repeat_interleave(2, 1) for each in (k, v))
    mixed = (q @ k.mT * 3**-0.5).softmax(-1) @ v
    torch.testing.assert_close(attention(x), mixed.transpose(1, 2).flatten(2) @ attention.out.weight.T)


def test_a_sandwich_has_a_norm_on_both_sides_of_each_part() -> None:
    config = BlockConfig(
        attention=AttentionConfig(width=8, heads=2),
        feedforward=FeedForwardConfig(inner=12),
        norm=RMSNorm(),
        place="sandwich",
    )
    block, x = Block(config), torch.randn(2, 3, 8)
    for name, parameter in block.named_parameters():
        if "norm" in name:
            parameter.data.normal_()
    middle = x + block.attention_output_norm(block.attention(block.attention_norm(x)))
    expected = middle + block.feedforward_output_norm(block.feedforward(block.feedforward_norm(middle)))
    torch.testing.assert_close(block(x), expected)


def test_each_layer_may_have_its_own_window_and_base() -> None:
    """A layer without a window sees the first token, and one with another base rotates by other angles."""
    near = replace(GPT, windows=Windows(radius=(1, 1, 1)))
    some = replace(GPT, windows=Windows(radius=(1, None, 1)))
    tokens, other = torch.arange(9)[None], torch.tensor([[10, *range(1, 9)]])
    for config, sees in ((near, False), (some, True)):
        model = build_model(config).eval()
        assert torch.equal(model(tokens)[:, -1], model(other)[:, -1]) is not sees
    alike, mixed = Rotary(base=(1e4, 1e4, 1e4), layout="halves"), Rotary(base=(1e4, 10.0, 1e4), layout="halves")
    logits = [build_model(replace(GPT, position=each)).eval()(tokens) for each in (GPT.position, alike, mixed)]
    assert torch.equal(logits[0], logits[1])
    assert not torch.equal(logits[0], logits[2])


def test_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"position.base has 2 values for 3 layers: one for all or one each"):
        build_model(replace(GPT, position=Rotary(base=(1e4, 1e4))))
    with pytest.raises(ConfigError, match=r"position.base=0"):
        Rotary(base=())
    with pytest.raises(ConfigError, match="head_dim=0"):
        AttentionConfig(width=8, heads=2, head_dim=0)
