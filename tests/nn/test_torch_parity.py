"""With the same weights, headway's layers are torch's layers; and where a formula exists, that formula."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.nn.attention import CrossAttention, SelfAttention
from headway.nn.block import Block
from headway.nn.feedforward import Activation, FeedForward, FeedForwardConfig
from headway.nn.memory import LayerMemory
from headway.nn.norms import BatchNorm, LayerNorm, RMSNorm
from headway.nn.recurrent import Cell, Recurrent, RecurrentConfig
from headway.ops import Causal, Lengths, Mask
from tests.nn.tiny import HEADS, WIDTH, attention_config, block_config, layer_context, scramble

ROWS, TOKENS, KEYS = 3, 5, 6
LENGTHS = torch.tensor([5, 2, 4])
SOURCE_LENGTHS = torch.tensor([1, 6, 3])
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-10}

Pairs = list[tuple[list[Tensor], Tensor]]  # our parameters, joined row by row, are torch's


def same(got: Tensor, want: Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


def padding(lengths: Tensor, tokens: int) -> Tensor:
    """torch's own sign: True is blocked."""
    return torch.arange(tokens) >= lengths.unsqueeze(-1)


def future(tokens: int) -> Tensor:
    return torch.ones(tokens, tokens, dtype=torch.bool).triu(1)


def copy_to_torch(pairs: Pairs) -> None:
    with torch.no_grad():
        for ours, theirs in pairs:
            theirs.copy_(torch.cat(ours))


def same_gradients(out: Tensor, expected: Tensor, inputs: list[Tensor], pairs: Pairs) -> None:
    """Both outputs have the same gradient with respect to their inputs and their parameters."""
    probe = torch.randn_like(out)
    mine = [parameter for ours, _ in pairs for parameter in ours]
    theirs = [parameter for _, parameter in pairs]
    got = list(torch.autograd.grad((out * probe).sum(), [*inputs, *mine]))
    want = torch.autograd.grad((expected * probe).sum(), [*inputs, *theirs])
    joined, rest = got[: len(inputs)], got[len(inputs) :]
    for ours, _ in pairs:
        joined.append(torch.cat(rest[: len(ours)]))
        rest = rest[len(ours) :]
    for one, other in zip(joined, want, strict=True):
        same(one, other)


def norm_pairs(ours: nn.Module, theirs: nn.LayerNorm) -> Pairs:
    return [([ours.weight], theirs.weight), ([ours.bias], theirs.bias)]


def attention_pairs(ours: SelfAttention | CrossAttention, theirs: nn.MultiheadAttention) -> Pairs:
    projections = [ours.qkv] if isinstance(ours, SelfAttention) else [ours.q, ours.kv]
    return [
        ([part.weight for part in projections], theirs.in_proj_weight),
        ([part.bias for part in projections], theirs.in_proj_bias),
        ([ours.out.weight], theirs.out_proj.weight),
        ([ours.out.bias], theirs.out_proj.bias),
    ]


def block_pairs(ours: Block, theirs: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) -> Pairs:
    pairs = attention_pairs(ours.attention, theirs.self_attn)
    norms = [ours.attention_norm, ours.feedforward_norm]
    if ours.cross is not None:
        pairs += attention_pairs(ours.cross, theirs.multihead_attn)
        norms.insert(1, ours.cross_norm)
    for number, norm in enumerate(norms, 1):
        pairs += norm_pairs(norm, getattr(theirs, f"norm{number}"))
    for mine, other in ((ours.feedforward.up, theirs.linear1), (ours.feedforward.down, theirs.linear2)):
        pairs += [([mine.weight], other.weight), ([mine.bias], other.bias)]
    return pairs


# --- attention -----------------------------------------------------------------------------------------------------

MASKS: dict[str, tuple[Mask | None, dict[str, Tensor]]] = {
    "none": (None, {}),
    "padding": (Lengths(LENGTHS), {"key_padding_mask": padding(LENGTHS, TOKENS)}),
    "causal": (Causal(), {"attn_mask": future(TOKENS)}),
    "causal_padding": (
        Causal() & Lengths(LENGTHS),
        {"attn_mask": future(TOKENS), "key_padding_mask": padding(LENGTHS, TOKENS)},
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kernel", ["auto", "reference"])
@pytest.mark.parametrize("heads", [1, HEADS, WIDTH])
@pytest.mark.parametrize("mask", MASKS)
def test_self_attention_is_torchs(mask, heads, kernel, dtype):
    ours = scramble(SelfAttention(attention_config(heads=heads, kernel=kernel))).to(dtype)
    theirs = nn.MultiheadAttention(WIDTH, heads, batch_first=True, dtype=dtype)
    pairs = attention_pairs(ours, theirs)
    copy_to_torch(pairs)
    x = torch.randn(ROWS, TOKENS, WIDTH, dtype=dtype, requires_grad=True)
    value, theirs_masks = MASKS[mask]
    out, expected = (
        ours(x, layer_context(mask=value)),
        theirs(x, x, x, need_weights=False, **theirs_masks)[0],
    )
    same(out, expected, TOLERANCE[dtype])
    if dtype == torch.float64:
        same_gradients(out, expected, [x], pairs)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("heads", [1, HEADS])
def test_cross_attention_is_torchs(heads, padded):
    ours = scramble(CrossAttention(attention_config(heads=heads))).double()
    theirs = nn.MultiheadAttention(WIDTH, heads, batch_first=True, dtype=torch.float64)
    pairs = attention_pairs(ours, theirs)
    copy_to_torch(pairs)
    x = torch.randn(ROWS, TOKENS, WIDTH, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(ROWS, KEYS, WIDTH, dtype=torch.float64, requires_grad=True)
    out = ours(x, LayerMemory(*ours.project(memory), Lengths(SOURCE_LENGTHS) if padded else None))
    blocked = padding(SOURCE_LENGTHS, KEYS) if padded else None
    expected = theirs(x, memory, memory, key_padding_mask=blocked, need_weights=False)[0]
    same(out, expected)
    same_gradients(out, expected, [x, memory], pairs)


def test_torchs_weights_are_the_weights_the_tap_shows():
    ours = scramble(SelfAttention(attention_config())).double()
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=torch.float64)
    copy_to_torch(attention_pairs(ours, theirs))
    x = torch.randn(ROWS, TOKENS, WIDTH, dtype=torch.float64)
    seen: list[Tensor] = []
    ours.tap_weights.register_forward_hook(lambda tap, inputs, weights: seen.append(weights))
    ours(x, layer_context(mask=Lengths(LENGTHS)))
    blocked = padding(LENGTHS, TOKENS)
    expected = theirs(x, x, x, key_padding_mask=blocked, average_attn_weights=False)[1]
    same(seen[0], expected)


# --- blocks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("place", ["pre", "post"])
def test_a_block_is_torchs_encoder_layer(place, activation, padded):
    feedforward = FeedForwardConfig(inner=12, activation=activation)
    ours = scramble(Block(block_config(place=place, feedforward=feedforward))).double()
    theirs = nn.TransformerEncoderLayer(
        WIDTH, HEADS, 12, 0.0, activation, batch_first=True, norm_first=place == "pre", dtype=torch.float64
    )
    pairs = block_pairs(ours, theirs)
    copy_to_torch(pairs)
    x = torch.randn(ROWS, TOKENS, WIDTH, dtype=torch.float64, requires_grad=True)
    out = ours(x, layer_context(mask=Lengths(LENGTHS) if padded else None))
    expected = theirs(x, src_key_padding_mask=padding(LENGTHS, TOKENS) if padded else None)
    same(out, expected)
    same_gradients(out, expected, [x], pairs)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("place", ["pre", "post"])
def test_a_block_with_cross_attention_is_torchs_decoder_layer(place, activation):
    feedforward = FeedForwardConfig(inner=12, activation=activation)
    ours = scramble(Block(block_config(place=place, feedforward=feedforward, cross=True))).double()
    theirs = nn.TransformerDecoderLayer(
        WIDTH, HEADS, 12, 0.0, activation, batch_first=True, norm_first=place == "pre", dtype=torch.float64
    )
    pairs = block_pairs(ours, theirs)
    copy_to_torch(pairs)
    x = torch.randn(ROWS, TOKENS, WIDTH, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(ROWS, KEYS, WIDTH, dtype=torch.float64, requires_grad=True)
    assert ours.cross is not None
    source = LayerMemory(*ours.cross.project(memory), Lengths(SOURCE_LENGTHS))
    out = ours(x, layer_context(mask=Causal(), memory=source))
    expected = theirs(
        x,
        memory,
        tgt_mask=future(TOKENS),
        memory_key_padding_mask=padding(SOURCE_LENGTHS, KEYS),
    )
    same(out, expected)
    same_gradients(out, expected, [x, memory], pairs)


# --- norms ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("eps", [1e-5, 1e-12])
def test_layer_norm_is_torchs_and_the_formula(eps, bias):
    norm = scramble(LayerNorm(eps=eps, bias=bias).build(WIDTH)).double()
    x = torch.randn(ROWS, TOKENS, WIDTH, dtype=torch.float64)
    same(norm(x), F.layer_norm(x, (WIDTH,), norm.weight, norm.bias, eps))
    centred = x - x.mean(-1, keepdim=True)
    by_hand = centred / (centred.square().sum(-1, keepdim=True) / WIDTH + eps).sqrt() * norm.weight
    same(norm(x), by_hand + norm.bias if bias else by_hand)


def test_rms_norm_is_the_formula():
    norm = scramble(RMSNorm(eps=1e-3).build(WIDTH)).double()
    x = torch.randn(ROWS, TOKENS, WIDTH, dtype=torch.float64)
    same(norm(x), x / (x.square().mean(-1, keepdim=True) + 1e-3).sqrt() * norm.weight)


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_is_torchs(training):
    norm = scramble(BatchNorm(eps=1e-3, momentum=0.3).build(WIDTH)).double().train(training)
    x = torch.randn(ROWS, TOKENS, WIDTH, dtype=torch.float64, requires_grad=True)
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    mean, var = norm.running_mean.clone(), norm.running_var.clone()
    flat = x.reshape(-1, WIDTH)
    expected = F.batch_norm(flat, mean, var, norm.weight, norm.bias, training, 0.3, 1e-3).view_as(x)
    out = norm(x)
    same(out, expected)
    same(norm.running_mean, mean)
    same(norm.running_var, var)
    same_gradients(out, expected, [x], [([norm.weight], norm.weight), ([norm.bias], norm.bias)])


# --- feed-forward --------------------------------------------------------------------------------------------------


def activation_alone(activation: Activation, x: Tensor) -> Tensor:
    """The network with identities for matrices: what is left is its activation."""
    network = FeedForward(WIDTH, FeedForwardConfig(inner=WIDTH, activation=activation)).double()
    with torch.no_grad():
        for layer in (network.up, network.down):
            layer.weight.copy_(torch.eye(WIDTH))
            layer.bias.zero_()
    return network(x)


ACTIVATIONS = {
    "relu": lambda x: x.clamp(min=0),
    "leaky_relu": lambda x: torch.where(x > 0, x, 0.01 * x),
    "gelu": lambda x: 0.5 * x * (1 + torch.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_each_activation_is_its_formula(activation):
    x = 3 * torch.randn(ROWS, TOKENS, WIDTH, dtype=torch.float64, requires_grad=True)
    x.retain_grad()
    got, want = activation_alone(activation, x), ACTIVATIONS[activation](x)
    same(got, want)
    same(*(torch.autograd.grad(y.sum(), x)[0] for y in (got, want)))


def test_the_two_gelus_are_not_one():
    x = torch.linspace(-3, 3, WIDTH, dtype=torch.float64)
    apart = (activation_alone("gelu", x) - activation_alone("gelu_tanh", x)).abs().max()
    assert 1e-5 < apart < 1e-3


@pytest.mark.parametrize("bias", [True, False])
def test_swiglu_is_its_formula(bias):
    network = FeedForward(WIDTH, FeedForwardConfig(inner=6, activation="swiglu", bias=bias))
    scramble(network).double()
    x = torch.randn(ROWS, TOKENS, WIDTH, dtype=torch.float64)
    gate, value = (x @ part.T for part in network.up.weight.split(6))
    if bias:
        gate, value = gate + network.up.bias[:6], value + network.up.bias[6:]
    expected = (gate * gate.sigmoid() * value) @ network.down.weight.T
    same(network(x), expected + network.down.bias if bias else expected)


# --- recurrent layers ----------------------------------------------------------------------------------------------

TORCH_CELLS = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
HIDDEN = 4


def recurrent_pair(cell: Cell, layers: int, bidirectional: bool) -> tuple[Recurrent, nn.RNNBase]:
    """Our stack and torch's, with the same weights."""
    config = RecurrentConfig(hidden=HIDDEN, layers=layers, cell=cell, bidirectional=bidirectional)
    ours = scramble(Recurrent(WIDTH, config)).double()
    theirs = TORCH_CELLS[cell](
        WIDTH, HIDDEN, layers, batch_first=True, bidirectional=bidirectional, dtype=torch.float64
    )
    for number, layer in enumerate(ours.layers):
        for name, value in layer.core.named_parameters():
            getattr(theirs, name.replace("_l0", f"_l{number}")).data.copy_(value.data)
    return ours, theirs


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("cell", TORCH_CELLS)
def test_stacked_recurrent_layers_are_torchs(cell, layers, bidirectional, padded):
    ours, theirs = recurrent_pair(cell, layers, bidirectional)
    x = torch.randn(ROWS, TOKENS, WIDTH, dtype=torch.float64, requires_grad=True)
    start = ours.start(x, ROWS)
    out, last = ours(x, start, LENGTHS if padded else None)
    if padded:
        pack = nn.utils.rnn.pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
        packed, expected_last = theirs(pack)
        expected, _ = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    else:
        expected, expected_last = theirs(x)
    same(out, expected)
    expected_states = expected_last if cell == "lstm" else (expected_last,)
    for number, state in enumerate(expected_states):
        same(torch.cat([layer[number] for layer in last]), state)
    probe = torch.randn_like(out)
    same(*(torch.autograd.grad((y * probe).sum(), x)[0] for y in (out, expected)))


@pytest.mark.parametrize("cell", TORCH_CELLS)
def test_a_recurrent_stack_goes_on_from_the_state_it_gave(cell):
    ours, _ = recurrent_pair(cell, 2, bidirectional=False)
    x = torch.randn(ROWS, TOKENS, WIDTH, dtype=torch.float64)
    whole, end = ours(x, ours.start(x, ROWS))
    first, state = ours(x[:, :2], ours.start(x, ROWS))
    second, state = ours(x[:, 2:], state)
    same(torch.cat([first, second], 1), whole)
    for got, want in zip(state, end, strict=True):
        for one, other in zip(got, want, strict=True):
            same(one, other)


def elman_by_hand(parameters: dict[str, Tensor], x_BTD: Tensor) -> Tensor:
    h, outputs = x_BTD.new_zeros(len(x_BTD), HIDDEN), []
    p = parameters
    for x in x_BTD.unbind(1):
        h = torch.tanh(x @ p["weight_ih_l0"].T + p["bias_ih_l0"] + h @ p["weight_hh_l0"].T + p["bias_hh_l0"])
        outputs.append(h)
    return torch.stack(outputs, 1)


def gru_by_hand(parameters: dict[str, Tensor], x_BTD: Tensor) -> Tensor:
    """r, z = σ(W x + U h); n = tanh(W x + r∘(U h)); h = (1 - z)∘n + z∘h, biases beside W and U."""
    h, outputs = x_BTD.new_zeros(len(x_BTD), HIDDEN), []
    p = parameters
    for x in x_BTD.unbind(1):
        x_r, x_z, x_n = (x @ p["weight_ih_l0"].T + p["bias_ih_l0"]).chunk(3, -1)
        h_r, h_z, h_n = (h @ p["weight_hh_l0"].T + p["bias_hh_l0"]).chunk(3, -1)
        r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
        n = torch.tanh(x_n + r * h_n)
        h = (1 - z) * n + z * h
        outputs.append(h)
    return torch.stack(outputs, 1)


def lstm_by_hand(parameters: dict[str, Tensor], x_BTD: Tensor) -> Tensor:
    """i, f, o = σ(W x + U h); g = tanh(W x + U h); c = f∘c + i∘g; h = o∘tanh(c), biases beside W and U."""
    h, c, outputs = x_BTD.new_zeros(len(x_BTD), HIDDEN), x_BTD.new_zeros(len(x_BTD), HIDDEN), []
    p = parameters
    for x in x_BTD.unbind(1):
        gates = x @ p["weight_ih_l0"].T + p["bias_ih_l0"] + h @ p["weight_hh_l0"].T + p["bias_hh_l0"]
        i, f, g, o = gates.chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        outputs.append(h)
    return torch.stack(outputs, 1)


@pytest.mark.parametrize(("cell", "by_hand"), [("rnn", elman_by_hand), ("gru", gru_by_hand), ("lstm", lstm_by_hand)])
def test_each_cell_is_its_equations(cell, by_hand):
    ours, _ = recurrent_pair(cell, 1, bidirectional=False)
    x = torch.randn(ROWS, TOKENS, WIDTH, dtype=torch.float64, requires_grad=True)
    parameters = dict(ours.layers[0].core.named_parameters())
    out, expected = ours(x, ours.start(x, ROWS))[0], by_hand(parameters, x)
    same(out, expected)
    pairs: Pairs = [([parameter], parameter) for parameter in parameters.values()]
    same_gradients(out, expected, [x], pairs)
