"""What a stack does besides its blocks: dropout where it is asked for, a norm on the way in, a source to look at."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from headway.nn.attention import CrossAttention, SelfAttention
from headway.nn.block import Block
from headway.nn.feedforward import FeedForward, FeedForwardConfig
from headway.nn.memory import LayerMemory, Memory
from headway.nn.norms import LayerNorm
from headway.nn.positions import Learned, Shaw
from headway.nn.recurrent import Recurrent, RecurrentConfig
from headway.nn.stack import Stack, StackConfig
from headway.ops import Causal, Lengths
from tests.nn.tiny import (
    CAUSAL,
    CONCATENATED,
    HEADS,
    POSITIONS,
    WIDTH,
    attention_config,
    block_config,
    scramble,
    tiny_stack,
)


def tokens(rows: int = 3, count: int = 6) -> Tensor:
    return torch.randn(rows, count, WIDTH, dtype=torch.float64)


class RecurrentOutputs(nn.Module):
    """Recurrent layers from an empty state, their outputs alone."""

    def __init__(self, dropout: float, layers: int = 2) -> None:
        super().__init__()
        self.layer = Recurrent(WIDTH, RecurrentConfig(hidden=WIDTH, layers=layers, dropout=dropout))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x, self.layer.start(x, len(x)))[0]


# --- dropout -------------------------------------------------------------------------------------------------------

DROPPING: dict[str, Callable[[float], nn.Module]] = {
    "weights": lambda p: SelfAttention(attention_config(dropout=p)),
    "weights_of_the_reference": lambda p: SelfAttention(attention_config(dropout=p, kernel="reference")),
    "weights_with_shaws_values": lambda p: SelfAttention(attention_config(dropout=p, shaw=Shaw(reach=2))),
    "network": lambda p: FeedForward(WIDTH, FeedForwardConfig(inner=12, dropout=p)),
    "block": lambda p: Block(block_config(dropout=p)),
    "input_of_the_stack": lambda p: Stack(StackConfig(layers=1, block=block_config(), context=8, dropout=p)),
    "between_recurrent_layers": RecurrentOutputs,
}


@pytest.mark.parametrize("place", DROPPING)
def test_dropout_falls_while_training_and_nowhere_else(place):
    with_dropout, without = DROPPING[place](0.5).double(), DROPPING[place](0.0).double()
    without.load_state_dict(scramble(with_dropout).state_dict())
    x = tokens()
    with_dropout.eval()
    assert torch.equal(with_dropout(x), without(x))
    with_dropout.train()
    torch.manual_seed(1)
    once, twice = with_dropout(x), with_dropout(x)
    torch.manual_seed(1)
    assert torch.equal(with_dropout(x), once)
    assert (once - twice).abs().max() > 1e-3


def test_dropout_on_weights_keeps_their_mean():
    layer = scramble(SelfAttention(attention_config(dropout=0.3, bias=False))).double()
    x = tokens(1, 4)
    expected = layer.eval()(x)
    layer.train()
    mean = torch.stack([layer(x) for _ in range(2000)]).mean(0)
    torch.testing.assert_close(mean, expected, rtol=0, atol=0.2 * expected.abs().max().item())


def test_a_single_recurrent_layer_has_no_between_to_drop():
    layer = RecurrentOutputs(0.5, layers=1).double().train()
    x = tokens()
    assert torch.equal(layer(x), layer(x))


# --- the way in ----------------------------------------------------------------------------------------------------


def test_an_input_norm_normalises_the_sum_of_token_and_position():
    config = StackConfig(layers=0, block=block_config(), context=8, position=Learned(), input_norm=True)
    stack = scramble(Stack(config)).double()
    x = tokens()
    placed = x + stack.input_positions.table[:6]
    expected = nn.functional.layer_norm(placed, (WIDTH,), stack.input_norm.weight, stack.input_norm.bias)
    torch.testing.assert_close(stack(x), expected)
    plain = Stack(replace(config, input_norm=False)).double()
    plain.load_state_dict({name: value for name, value in stack.state_dict().items() if "norm" not in name})
    torch.testing.assert_close(plain(x), placed)


def test_blocks_share_no_weights():
    stack = tiny_stack(Shaw(reach=2), layers=3, cross=True)
    addresses = [parameter.data_ptr() for parameter in stack.parameters()]
    assert len(addresses) == len(set(addresses))


@pytest.mark.parametrize("position", [None, *POSITIONS, *CONCATENATED])
def test_a_stack_in_sixteen_bits_stays_in_sixteen_bits(position):
    kind = {**POSITIONS, **CONCATENATED}[position] if position else None
    stack = tiny_stack(kind, norm=LayerNorm())
    x, lengths = tokens(), torch.tensor([6, 2, 4])
    exact = stack(x, mask=Lengths(lengths), lengths_B=lengths)
    out = stack.bfloat16()(x.bfloat16(), mask=Lengths(lengths), lengths_B=lengths)
    assert out.dtype == torch.bfloat16
    assert (out.double() - exact).square().mean() < 0.05 * exact.square().mean()


# --- cross-attention to a source ------------------------------------------------------------------------------------


def test_a_projected_source_keeps_the_selected_rows():
    stack, x = tiny_stack(CAUSAL["alibi"], causal=True, cross=True), tokens()
    rows = torch.tensor([2, 0, 0, 1])
    for lengths in (torch.tensor([4, 1, 2]), None):
        memory = stack.project_memory(tokens(count=4), lengths)
        whole = stack(x, mask=Causal(), memory=memory)
        torch.testing.assert_close(stack(x[rows], mask=Causal(), memory=memory.select(rows)), whole[rows])


@pytest.mark.parametrize(
    "choices",
    [
        [[0, 0, 1, 1, 2, 2], [1, 0, 3, 2, 5, 5], [0, 1, 4, 5], [3, 3, 3, 2, 2, 2]],  # a beam, then two sources of it
        [[0, 0, 0, 2, 2, 2], [0, 1, 2], [2, 2, 2, 1, 1, 1]],
        [[1, 1, 0, 0], [3, 0, 1, 2], [0, 0, 0, 0]],  # hypotheses of a source are no longer adjacent
        [[2, 2], [1], [0, 0, 0]],
    ],
)
@pytest.mark.parametrize("hooked", [False, True])
def test_hypotheses_share_the_source_they_read(choices, hooked):
    stack = tiny_stack(CAUSAL["alibi"], causal=True, cross=True)
    seen = []
    if hooked:
        stack.blocks[0].cross.tap_weights.register_forward_hook(lambda tap, given, out: seen.append(out.shape[0]))
    for lengths in (torch.tensor([4, 1, 2]), None):
        memory = plain = stack.project_memory(tokens(count=4), lengths)
        at = torch.arange(3)
        for rows in choices:
            memory, at = memory.select(torch.tensor(rows)), at[rows]
            x = tokens()[:1].expand(len(rows), -1, -1)
            own = Memory(
                tuple((k[at], v[at]) for k, v in plain.layers), None if lengths is None else Lengths(lengths[at])
            )
            torch.testing.assert_close(stack(x, mask=Causal(), memory=memory), stack(x, mask=Causal(), memory=own))
            assert not hooked or seen[-2:] == [len(rows)] * 2
    if choices[0] == [0, 0, 1, 1, 2, 2]:
        assert stack.project_memory(tokens(count=4), None).select(torch.tensor(choices[0])).layers[0][0].shape[0] == 3


def test_padding_of_a_source_is_masked():
    stack, x, source = tiny_stack(causal=True, cross=True), tokens(), tokens(count=4)
    lengths = torch.tensor([4, 1, 2])
    padded = stack(x, mask=Causal(), memory=stack.project_memory(source, lengths))
    for row, length in enumerate(lengths.tolist()):
        one = slice(row, row + 1)
        alone = stack(x[one], mask=Causal(), memory=stack.project_memory(source[one, :length], None))
        torch.testing.assert_close(padded[one], alone)


# --- the scale of scores -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [SelfAttention, CrossAttention])
def test_a_learned_scale_starts_as_the_fixed_one_and_is_trained_per_head(kind):
    fixed = scramble(kind(attention_config())).double()
    learned = kind(attention_config(learn_scale=True)).double()
    state = {**fixed.state_dict(), "scale": learned.scale.detach()}
    learned.load_state_dict(state)
    x = tokens()

    def out(layer: nn.Module) -> Tensor:
        return layer(x) if kind is SelfAttention else layer(x, LayerMemory(*layer.project(x)))

    torch.testing.assert_close(out(learned), out(fixed))
    out(learned).square().sum().backward()
    assert learned.scale.shape == (HEADS,)
    assert (learned.scale.grad.abs() > 0).all()


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_a_given_scale_is_the_scale_of_the_scores(scale):
    plain = scramble(SelfAttention(attention_config())).double()
    scaled = SelfAttention(attention_config(scale=scale)).double()
    scaled.load_state_dict(plain.state_dict())
    with torch.no_grad():  # queries grown by √E are queries without 1/√E
        plain.qkv.weight[:WIDTH] *= scale * (WIDTH // HEADS) ** 0.5
        plain.qkv.bias[:WIDTH] *= scale * (WIDTH // HEADS) ** 0.5
    x = tokens()
    torch.testing.assert_close(scaled(x), plain(x))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_any_module_may_replace_a_network_s_first_layer(activation):
    network, x = FeedForward(WIDTH, FeedForwardConfig(inner=12, activation=activation)), torch.randn(2, 3, WIDTH)
    want = network(x)
    plain = nn.Linear(WIDTH, 12)
    plain.load_state_dict(network.up.state_dict())
    network.up = nn.Sequential(plain)
    torch.testing.assert_close(network(x), want)
