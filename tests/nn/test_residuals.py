"""Residual connections: none, added (He et al. 2016), dense (Huang et al. 2017); and which can be the identity."""

import pytest
import torch
from torch import Tensor, nn

from headway.nn.block import Block
from headway.nn.norms import LayerNorm, RMSNorm
from headway.nn.stack import Stack
from tests.nn.tiny import WIDTH, block_config, scramble, tiny_stack


def tokens() -> Tensor:
    return torch.randn(2, 5, WIDTH, dtype=torch.float64)


@torch.no_grad()
def silence(module: nn.Module) -> None:
    """Zero what every branch ends with."""
    for block in module.modules():
        if isinstance(block, Block):
            for last in (block.attention.out, block.feedforward.down if block.feedforward else None):
                if last is not None:
                    last.weight.zero_()
                    last.bias.zero_()


@pytest.mark.parametrize("norm", [LayerNorm(), RMSNorm(), None])
def test_a_silent_pre_norm_block_is_exactly_the_identity(norm):
    block, x = scramble(Block(block_config(place="pre", norm=norm))).double(), tokens()
    silence(block)
    assert torch.equal(block(x), x)


def test_silent_pre_norm_blocks_are_exactly_the_identity_at_any_depth():
    stack, x = tiny_stack(place="pre", layers=30), tokens()
    silence(stack)
    stream = x
    for block in stack.blocks:
        stream = block(stream)
    assert torch.equal(stream, x)
    assert stack.output_norm is not None
    torch.testing.assert_close(stack(x), stack.output_norm(x))  # the stack ends in a norm, which is not


def test_a_silent_post_norm_block_is_its_norms_and_never_the_identity():
    block, x = Block(block_config(place="post")).double(), tokens()
    silence(block)
    assert block.attention_norm is not None
    assert block.feedforward_norm is not None
    torch.testing.assert_close(block(x), block.feedforward_norm(block.attention_norm(x)))
    assert (block(x) - x).abs().max() > 0.1
    torch.testing.assert_close(block(5 * x + 3), block(x), rtol=1e-3, atol=1e-3)  # mean and scale are gone


@pytest.mark.parametrize("residual", ["none", "dense"])
def test_a_silent_block_without_a_sum_forgets_its_input(residual):
    block, x = scramble(Block(block_config(place="pre", residual=residual))).double(), tokens()
    silence(block)
    assert torch.equal(block(x), torch.zeros_like(x))


@pytest.mark.parametrize("place", ["pre", "post"])
def test_each_join_is_its_formula(place):
    x = tokens()
    for residual in ("none", "residual"):
        block = scramble(Block(block_config(place=place, residual=residual))).double()
        expected = x
        for part, norm in (
            (block.attention, block.attention_norm),
            (block.feedforward, block.feedforward_norm),
        ):
            branch = part(norm(expected) if place == "pre" else expected)
            joined = expected + branch if residual == "residual" else branch
            expected = joined if place == "pre" else norm(joined)
        torch.testing.assert_close(block(x), expected)


def test_the_stack_ends_in_a_norm_only_where_blocks_normalise_before():
    assert tiny_stack(place="pre").output_norm is not None
    assert tiny_stack(place="post").output_norm is None
    assert tiny_stack(place="pre", norm=None).output_norm is None


# --- dense ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", [1, 2, 5])
def test_a_dense_stack_mixes_with_as_many_weights_as_densenet(layers):
    stack = tiny_stack(residual="dense", layers=layers)
    assert stack.mixes is not None
    weights = sum(mix.weight.numel() for mix in stack.mixes)
    assert weights == WIDTH**2 * layers * (layers + 1) // 2
    assert all(tiny_stack(residual=kind).mixes is None for kind in ("none", "residual"))


def inputs_and_outputs(stack: Stack, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """What every block was given and what it gave."""
    given: list[Tensor] = []
    gave: list[Tensor] = []
    for block in stack.blocks:
        block.tap_resid_in.register_forward_hook(lambda tap, inputs, out: given.append(out))
        block.tap_resid_out.register_forward_hook(lambda tap, inputs, out: gave.append(out))
    stack(x)
    return given, gave


def test_a_dense_block_reads_the_input_and_everything_given_before_it():
    stack, x = tiny_stack(residual="dense", layers=4), tokens()
    given, gave = inputs_and_outputs(stack, x)
    assert stack.mixes is not None
    for k, mix in enumerate(stack.mixes):
        torch.testing.assert_close(given[k], mix(torch.cat([x, *gave[:k]], -1)))


@pytest.mark.parametrize("k", range(4))
def test_a_dense_block_depends_directly_on_every_earlier_one(k):
    """With all other columns of its mix at zero, a block still feels each source through its own."""
    stack, x = tiny_stack(residual="dense", layers=4), tokens()
    assert stack.mixes is not None
    for source in range(k + 1):
        with torch.no_grad():
            stack.mixes[k].weight.zero_()
            stack.mixes[k].weight[:, source * WIDTH : (source + 1) * WIDTH] = torch.eye(WIDTH)
            stack.mixes[k].bias.zero_()
        given, gave = inputs_and_outputs(stack, x)
        torch.testing.assert_close(given[k], [x, *gave][source])


def test_a_dense_stack_trains_every_mix():
    stack = tiny_stack(residual="dense", layers=3)
    stack(tokens()).square().sum().backward()
    assert stack.mixes is not None
    for mix in stack.mixes:
        for columns in mix.weight.grad.split(WIDTH, -1):
            assert columns.abs().sum() > 0
