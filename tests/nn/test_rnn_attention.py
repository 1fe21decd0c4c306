"""Attention between recurrent states (Bahdanau et al. 2015), and the reversed source (Sutskever et al. 2014)."""

from typing import get_args

import pytest
import torch
from torch import Tensor

from headway.errors import ConfigError
from headway.nn.recurrent import reverse_padded
from headway.nn.rnn_attention import Aligned, Alignment, AlignmentConfig, AlignmentKind
from tests.nn.tiny import scramble

ROWS, SOURCE, TARGET, WIDTH, KEY_WIDTH = 3, 5, 4, 6, 7
LENGTHS = torch.tensor([5, 2, 1])
REAL = torch.arange(SOURCE) < LENGTHS.unsqueeze(-1)
KINDS = get_args(AlignmentKind)


def alignment(kind: AlignmentKind, *, hard: bool = False, memory: int = WIDTH, state: int = WIDTH) -> Alignment:
    layer = scramble(Alignment(memory, state, AlignmentConfig(kind=kind, width=KEY_WIDTH, hard=hard))).double()
    assert isinstance(layer, Alignment)
    return layer


def texts(memory: int = WIDTH, state: int = WIDTH) -> tuple[Tensor, Tensor]:
    """Encoder states (B, S, memory), decoder states (B, T, state)."""
    return (
        torch.randn(ROWS, SOURCE, memory, dtype=torch.float64),
        torch.randn(ROWS, TARGET, state, dtype=torch.float64),
    )


def tapped(layer: Alignment) -> list[Tensor]:
    seen: list[Tensor] = []
    layer.tap_weights.register_forward_hook(lambda tap, inputs, weights: seen.append(weights))
    return seen


def same(got: Tensor, want: Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_weights_sum_to_one_on_real_tokens_and_are_zero_on_padding(kind, hard):
    layer = alignment(kind, hard=hard)
    memory, states = texts()
    seen = tapped(layer)
    source = layer.prepare(memory, LENGTHS)
    context = layer(states, source)
    (weights,) = seen
    assert weights.shape == (ROWS, TARGET, SOURCE)
    padding = ~REAL.unsqueeze(1).expand_as(weights)
    assert torch.equal(weights[padding], torch.zeros_like(weights[padding]))
    same(weights.sum(-1), torch.ones(ROWS, TARGET, dtype=torch.float64))
    same(context, weights @ source.values)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_of_the_source_changes_nothing(kind):
    layer = alignment(kind)
    memory, states = texts()
    padded = layer(states, layer.prepare(memory, LENGTHS))
    for row, length in enumerate(LENGTHS.tolist()):
        one = slice(row, row + 1)
        same(padded[one], layer(states[one], layer.prepare(memory[one, :length], None)))


@pytest.mark.parametrize("kind", KINDS)
def test_equal_keys_give_the_mean_of_the_values(kind):
    layer = alignment(kind)
    memory, states = texts()
    keys = layer.prepare(memory[:, :1].expand_as(memory), None).keys
    values = torch.randn_like(memory)
    mean = torch.stack([values[row, :length].mean(0) for row, length in enumerate(LENGTHS)])
    same(layer(states, Aligned(keys, values, REAL)), mean.unsqueeze(1).expand(-1, TARGET, -1))


@pytest.mark.parametrize("kind", KINDS)
def test_a_prepared_source_keeps_the_rows_it_is_asked_for(kind):
    layer = alignment(kind)
    memory, states = texts()
    rows = torch.tensor([2, 0, 0, 1])
    same(
        layer(states[rows], layer.prepare(memory, LENGTHS).select(rows)),
        layer(states, layer.prepare(memory, LENGTHS))[rows],
    )


# --- each kind by its formula --------------------------------------------------------------------------------------


def softmax_by_hand(scores: list[Tensor], values: list[Tensor]) -> Tensor:
    powers = torch.stack(scores).exp()
    return powers / powers.sum() @ torch.stack(values)


def by_hand(kind: AlignmentKind, layer: Alignment, memory: Tensor, states: Tensor) -> Tensor:
    """One decoder state and one encoder state at a time."""

    def score(h: Tensor, s: Tensor) -> Tensor:
        if kind == "identity":
            return (h * s).sum()
        if kind == "bilinear":
            return (h * (layer.query.weight @ s)).sum()
        k, q = layer.key.weight @ h, layer.query.weight @ s
        if kind == "multiplicative":
            return (k * q).sum()
        if kind == "learned":
            return (torch.sigmoid(k + layer.key.bias) * torch.sigmoid(q + layer.query.bias)).sum()
        return (layer.energy * torch.tanh(k + q)).sum()

    out = torch.zeros(ROWS, TARGET, memory.shape[-1], dtype=torch.float64)
    for row, length in enumerate(LENGTHS):
        seen = memory[row, :length]
        values = [layer.value.weight @ h if kind == "learned" else h for h in seen]
        for step, state in enumerate(states[row]):
            out[row, step] = softmax_by_hand([score(h, state) for h in seen], values)
    return out


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_its_formula(kind):
    layer = alignment(kind)
    memory, states = texts()
    same(layer(states, layer.prepare(memory, LENGTHS)), by_hand(kind, layer, memory, states))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "identity"])
def test_a_kind_with_weights_joins_states_of_different_widths(kind):
    layer = alignment(kind, memory=WIDTH, state=WIDTH + 3)
    memory, states = texts(WIDTH, WIDTH + 3)
    context = layer(states, layer.prepare(memory, LENGTHS))
    assert context.shape == (ROWS, TARGET, WIDTH)
    same(context, by_hand(kind, layer, memory, states))


def test_identity_needs_equal_widths():
    with pytest.raises(ConfigError, match=r"identity.*6 and 9"):
        alignment("identity", memory=6, state=9)


def test_bilinear_is_multiplicative_with_the_product_of_its_matrices():
    multiplicative = alignment("multiplicative", state=9)
    bilinear = alignment("bilinear", state=9)
    with torch.no_grad():  # W_e = W_kᵀ W_q
        bilinear.query.weight.copy_(multiplicative.key.weight.T @ multiplicative.query.weight)
    memory, states = texts(state=9)
    same(
        bilinear(states, bilinear.prepare(memory, LENGTHS)),
        multiplicative(states, multiplicative.prepare(memory, LENGTHS)),
    )


# --- hard ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_hard_attention_takes_the_best_state_alone(kind):
    soft, hard = alignment(kind), alignment(kind, hard=True)
    hard.load_state_dict(soft.state_dict())
    memory, states = texts()
    seen = tapped(soft)
    soft(states, soft.prepare(memory, LENGTHS))
    best = seen[0].argmax(-1)
    source = hard.prepare(memory, LENGTHS)
    expected = torch.stack([source.values[row, best[row]] for row in range(ROWS)])
    same(hard(states, source), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_hard_attention_passes_no_gradient_to_its_scores(kind):
    layer = alignment(kind, hard=True)
    memory, states = (text.requires_grad_() for text in texts())
    layer(states, layer.prepare(memory, LENGTHS)).sum().backward()
    assert memory.grad is not None
    assert memory.grad.abs().sum() > 0  # the values learn
    assert states.grad is None
    for scorer in (layer.key, layer.query):
        assert scorer is None or scorer.weight.grad is None
    assert layer.energy is None or layer.energy.grad is None


@pytest.mark.parametrize("kind", KINDS)
def test_soft_attention_trains_everything(kind):
    layer = alignment(kind)
    memory, states = (text.requires_grad_() for text in texts())
    layer(states, layer.prepare(memory, LENGTHS)).square().sum().backward()
    for tensor in (memory, states, *layer.parameters()):
        assert tensor.grad is not None
        assert tensor.grad.abs().sum() > 0


def test_a_replaced_weight_is_the_weight_that_is_used():
    layer = alignment("additive")
    memory, states = texts()
    uniform = torch.full((ROWS, TARGET, SOURCE), 1 / SOURCE, dtype=torch.float64)
    layer.tap_weights.register_forward_hook(lambda tap, inputs, weights: uniform)
    same(layer(states, layer.prepare(memory, None)), memory.mean(1, keepdim=True).expand(-1, TARGET, -1))


# --- the reversed source -------------------------------------------------------------------------------------------


def test_reversing_turns_the_real_tokens_and_leaves_the_padding():
    text = torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0], [7, 0, 0, 0]])
    expected = torch.tensor([[4, 3, 2, 1], [6, 5, 0, 0], [7, 0, 0, 0]])
    assert torch.equal(reverse_padded(text, torch.tensor([4, 2, 1])), expected)
    assert torch.equal(reverse_padded(text, None), text.flip(1))


def test_reversing_twice_is_the_identity():
    text, lengths = torch.randint(9, (6, 8)), torch.tensor([1, 2, 3, 5, 7, 8])
    assert torch.equal(reverse_padded(reverse_padded(text, lengths), lengths), text)
