"""Permutation equivariance: f(PX) = P f(X) without positions, and not with any of them."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from headway.nn.attention import CrossAttention, SelfAttention
from headway.nn.block import Block
from headway.nn.feedforward import FeedForward, FeedForwardConfig
from headway.nn.memory import LayerMemory
from headway.nn.norms import BatchNorm, LayerNorm, RMSNorm
from headway.nn.stack import Stack
from headway.ops import Causal, Lengths, Packed, Window
from tests.nn.tiny import FLAT, HEADS, POSITIONS, WIDTH, attention_config, block_config, scramble, tiny_stack

TOKENS = 7
EXACT, BROKEN = 1e-10, 1e-3
ORDER = torch.tensor([3, 0, 6, 1, 5, 2, 4])  # moves every token


def tokens(rows: int = 2) -> Tensor:
    return torch.randn(rows, TOKENS, WIDTH, dtype=torch.float64)


def broken_by(f: Callable[[Tensor], Tensor], order: Tensor = ORDER) -> float:
    """How far f(PX) is from P f(X)."""
    x = tokens()
    return (f(x[:, order]) - f(x)[:, order]).abs().max().item()


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "attention": lambda: SelfAttention(attention_config()),
    "grouped_attention": lambda: SelfAttention(attention_config(kv_heads=2)),
    "feedforward": lambda: FeedForward(WIDTH, FeedForwardConfig(inner=12)),
    "swiglu": lambda: FeedForward(WIDTH, FeedForwardConfig(inner=12, activation="swiglu")),
    "layer_norm": lambda: LayerNorm().build(WIDTH),
    "rms_norm": lambda: RMSNorm().build(WIDTH),
    "batch_norm": lambda: BatchNorm().build(WIDTH),
}


@pytest.mark.parametrize("layer", LAYERS)
def test_each_layer_moves_its_outputs_with_its_inputs(layer):
    assert broken_by(scramble(LAYERS[layer]()).double()) < EXACT


@pytest.mark.parametrize("norm", [LayerNorm(), RMSNorm(), None])
@pytest.mark.parametrize("residual", ["none", "residual", "dense"])
@pytest.mark.parametrize("place", ["pre", "post"])
def test_a_block_and_a_stack_without_positions_are_equivariant(place, residual, norm):
    config = block_config(place=place, residual=residual, norm=norm)
    assert broken_by(scramble(Block(config)).double()) < EXACT
    assert broken_by(tiny_stack(place=place, residual=residual, norm=norm)) < EXACT


def test_a_swap_of_two_tokens_swaps_two_outputs():
    """The decks' dog and owner: two words change places and nothing else happens."""
    swap = torch.tensor([4, 1, 2, 3, 0, 5, 6])
    assert broken_by(tiny_stack(), swap) < EXACT


def test_cross_attention_does_not_see_the_order_of_its_memory():
    cross = scramble(CrossAttention(attention_config())).double()
    x, memory = tokens(), tokens()
    torch.testing.assert_close(
        cross(x, LayerMemory(*cross.project(memory[:, ORDER]))),
        cross(x, LayerMemory(*cross.project(memory))),
        rtol=0,
        atol=EXACT,
    )


@pytest.mark.parametrize("place", ["pre", "post"])
def test_real_tokens_may_be_permuted_among_themselves(place):
    stack, lengths, x = tiny_stack(place=place), torch.tensor([4, 6]), tokens()
    orders = torch.tensor([[2, 3, 0, 1, 4, 5, 6], [5, 0, 4, 2, 1, 3, 6]])
    moved = x.gather(1, orders.unsqueeze(-1).expand_as(x))
    before = stack(x, mask=Lengths(lengths), lengths_B=lengths)
    after = stack(moved, mask=Lengths(lengths), lengths_B=lengths)
    expected = before.gather(1, orders.unsqueeze(-1).expand_as(x))
    torch.testing.assert_close(after, expected, rtol=0, atol=EXACT)


def test_a_mask_over_labels_must_be_permuted_with_its_tokens():
    stack, x = tiny_stack(), tokens()
    labels = torch.tensor([[0, 1, 0, 1, 1, 0, 0], [0, 0, 0, 1, 2, 2, 1]])
    expected = stack(x, mask=Packed(labels))[:, ORDER]
    moved = stack(x[:, ORDER], mask=Packed(labels[:, ORDER]))
    left_behind = stack(x[:, ORDER], mask=Packed(labels))
    torch.testing.assert_close(moved, expected, rtol=0, atol=EXACT)
    assert (left_behind - expected).abs().max() > BROKEN


@pytest.mark.parametrize("position", POSITIONS)
def test_every_position_breaks_equivariance(position):
    assert broken_by(tiny_stack(POSITIONS[position], place="post")) > BROKEN


@pytest.mark.parametrize("position", [name for name in POSITIONS if name not in FLAT])
def test_every_position_that_differs_by_feature_breaks_equivariance_before_a_norm_too(position):
    assert broken_by(tiny_stack(POSITIONS[position], place="pre")) > BROKEN


@pytest.mark.parametrize("position", FLAT)
def test_pre_norm_cannot_see_a_code_that_is_the_same_in_every_feature(position):
    """LN(x + c·1) = LN(x): these codes reach a pre-norm stack only through RMSNorm, or concatenated."""
    assert broken_by(tiny_stack(FLAT[position], place="pre", norm=LayerNorm())) < EXACT
    assert broken_by(tiny_stack(FLAT[position], place="pre", norm=RMSNorm())) > BROKEN


@pytest.mark.parametrize("mask", [Causal(), Window(1), Window(1) & Causal(), Window(2, dilation=2)])
def test_a_mask_over_positions_breaks_equivariance(mask):
    stack = tiny_stack()
    assert broken_by(lambda x: stack(x, mask=mask)) > BROKEN


def pooled(stack: Stack, x: Tensor) -> Tensor:
    return stack(x).mean(1)


def test_the_mean_over_tokens_is_invariant():
    stack, x = tiny_stack(), tokens()
    torch.testing.assert_close(pooled(stack, x[:, ORDER]), pooled(stack, x), rtol=0, atol=EXACT)
    placed = tiny_stack(POSITIONS["sinusoidal"])
    assert (pooled(placed, x[:, ORDER]) - pooled(placed, x)).abs().max() > BROKEN


def test_a_class_token_that_stays_put_is_invariant_to_the_order_of_the_others():
    stack, x = tiny_stack(), tokens()
    others = torch.tensor([0, 4, 6, 2, 1, 3, 5])
    torch.testing.assert_close(stack(x[:, others])[:, 0], stack(x)[:, 0], rtol=0, atol=EXACT)


# --- self-attention is linear, once its weights are held -----------------------------------------------------------


def linear_stack() -> Stack:
    return tiny_stack(layers=3, attention=attention_config(bias=False), feedforward=None, norm=None, residual="none")


def departure_from_linear(f: Callable[[Tensor], Tensor]) -> float:
    x, y = tokens(), tokens()
    return (f(2 * x - 3 * y) - (2 * f(x) - 3 * f(y))).abs().max().item()


def test_self_attention_with_its_weights_held_is_linear_at_any_depth():
    stack = linear_stack()
    for block in stack.blocks:
        for tap in (block.attention.tap_q, block.attention.tap_k):
            fixed = torch.randn(2, HEADS, TOKENS, WIDTH // HEADS, dtype=torch.float64)
            tap.register_forward_hook(lambda tap, inputs, out, fixed=fixed: fixed)
    assert departure_from_linear(stack) < EXACT


def test_self_attention_is_not_linear_when_its_weights_follow_its_input():
    assert departure_from_linear(linear_stack()) > BROKEN
