"""Tokens in, logits out, and the numbers a model starts from."""

import math

import pytest
import torch
from torch import Tensor, nn

from headway.errors import DataError, ShapeError
from headway.nn.attention import CrossAttention, SelfAttention
from headway.nn.embedding import Head, OneHot, TokenEmbedding, TokenEmbeddingConfig, check_lengths, check_tokens
from headway.nn.feedforward import FeedForward, FeedForwardConfig
from headway.nn.linear import FusedLinear, normal_init, xavier_init
from headway.nn.norms import LayerNorm
from headway.nn.positions import Learned
from headway.nn.stack import Stack, StackConfig
from tests.nn.tiny import attention_config, block_config

VOCAB, WIDTH = 11, 8


def embedding(scale: float = 1.0) -> TokenEmbedding:
    return TokenEmbedding(TokenEmbeddingConfig(vocab=VOCAB, width=WIDTH, scale=scale))


def tokens(*rows: list[int]) -> Tensor:
    return torch.tensor(rows)


# --- ids and lengths -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", [embedding(), OneHot(VOCAB)])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ([[0, 1, 2], [3, VOCAB, 4]], r"token id 11 in row 1, position 1: allowed are 0 to 10"),
        ([[0, 1, 2], [3, 4, 99]], r"token id 99 in row 1, position 2: allowed are 0 to 10"),
        ([[-1, 1, 2], [3, 4, 5]], r"token id -1 in row 0, position 0: allowed are 0 to 10"),
    ],
)
def test_an_id_outside_the_vocabulary_is_named_with_its_place(layer, text, message):
    with pytest.raises(DataError, match=message):
        layer(tokens(*text))


def test_every_id_of_the_vocabulary_is_allowed():
    check_tokens(tokens([0, VOCAB - 1]), VOCAB)
    assert embedding()(torch.arange(VOCAB).unsqueeze(0)).shape == (1, VOCAB, WIDTH)


@pytest.mark.parametrize("shape", [(3,), (1, 2, 3), ()])
def test_tokens_must_be_rows_of_a_batch(shape):
    with pytest.raises(ShapeError, match=r"expected \(B, T\)"):
        check_tokens(torch.zeros(shape, dtype=torch.long), VOCAB)


def test_an_empty_sequence_is_refused():
    with pytest.raises(DataError, match="the source is empty"):
        check_lengths(None, torch.zeros(2, 0, dtype=torch.long), "source")
    with pytest.raises(DataError, match="length 0 in batch row 1: allowed are 1 to 3"):
        check_lengths(torch.tensor([3, 0]), torch.zeros(2, 3, dtype=torch.long))


def test_a_length_beyond_the_padding_is_refused():
    with pytest.raises(DataError, match="target length 4 in batch row 0: allowed are 1 to 3"):
        check_lengths(torch.tensor([4, 1]), torch.zeros(2, 3, dtype=torch.long), "target")


@pytest.mark.parametrize("lengths", [torch.tensor(3), torch.tensor([3]), torch.tensor([[3, 3]])])
def test_lengths_must_be_one_a_row(lengths):
    with pytest.raises(ShapeError, match=r"the batch needs \(2,\)"):
        check_lengths(lengths, torch.zeros(2, 3, dtype=torch.long))


@pytest.mark.parametrize("lengths", [torch.tensor([2.0, 3.0]), torch.tensor([1.5, 2.5])])
def test_lengths_must_be_integers(lengths):
    with pytest.raises((DataError, ShapeError), match="integer"):
        check_lengths(lengths, torch.zeros(2, 3, dtype=torch.long))


@pytest.mark.parametrize("lengths", [None, torch.tensor([3, 1])])
def test_good_lengths_pass(lengths):
    assert check_lengths(lengths, torch.zeros(2, 3, dtype=torch.long)) is None


# --- in ------------------------------------------------------------------------------------------------------------


def test_an_embedding_is_a_row_of_its_table_times_its_scale():
    text = tokens([3, 0], [10, 3])
    for scale in (1.0, math.sqrt(WIDTH)):
        layer = embedding(scale)
        assert torch.equal(layer(text), layer.weight[text] * scale)


def test_one_hot_is_a_row_of_the_identity_in_the_models_dtype():
    text = tokens([3, 0], [10, 3])
    layer = OneHot(VOCAB)
    assert torch.equal(layer(text), torch.eye(VOCAB)[text])
    assert layer.double()(text).dtype == torch.float64
    assert not layer.state_dict()
    assert not list(layer.parameters())


# --- out -----------------------------------------------------------------------------------------------------------


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = embedding()
        self.head = Head(WIDTH, VOCAB, tied=True, bias=True)

    def forward(self, text: Tensor) -> Tensor:
        return self.head(self.embedding(text), self.embedding.weight)


def test_a_tied_head_uses_the_embeddings_own_storage():
    model, text = Tied(), tokens([1, 2])
    assert set(model.state_dict()) == {"embedding.weight", "head.bias"}
    assert len(list(model.parameters())) == 2
    before = model(text)
    with torch.no_grad():
        model.embedding.weight.mul_(2)
    torch.testing.assert_close(model(text), 4 * before)  # once on the way in, once on the way out
    model.double()
    assert model(text).dtype == torch.float64
    model(text).sum().backward()
    assert (model.embedding.weight.grad.abs().sum(-1) > 0).all()  # every word learns from the output side


def test_a_head_of_its_own_ignores_the_embedding():
    head = Head(WIDTH, VOCAB, tied=False, bias=False)
    x = torch.randn(2, 3, WIDTH)
    assert set(head.state_dict()) == {"weight"}
    torch.testing.assert_close(head(x, torch.randn(VOCAB, WIDTH)), x @ head.weight.T)
    torch.testing.assert_close(head(x, None), x @ head.weight.T)


# --- the numbers at the start --------------------------------------------------------------------------------------


def spread(weight: Tensor, fan_in: int, fan_out: int) -> None:
    """Is the matrix uniform within Xavier's bound for these fans?"""
    bound = math.sqrt(6 / (fan_in + fan_out))
    assert weight.abs().max() <= bound
    assert weight.abs().max() > 0.9 * bound
    assert abs(weight.var().sqrt().item() / (bound / math.sqrt(3)) - 1) < 0.15


def test_xavier_gives_each_map_of_a_fused_matrix_its_own_fan():
    layer = FusedLinear(32, (32, 8, 64), bias=True)
    xavier_init(layer)
    for weight, fan_out in zip(layer.weight.split((32, 8, 64)), (32, 8, 64), strict=True):
        spread(weight, 32, fan_out)
    assert torch.equal(layer.bias, torch.zeros(104))


def test_xavier_reaches_every_matrix_of_attention_and_network():
    parts = nn.ModuleList(
        [
            SelfAttention(attention_config(width=32, heads=4, kv_heads=2)),
            CrossAttention(attention_config(width=32, heads=4)),
            FeedForward(32, FeedForwardConfig(inner=48, activation="swiglu")),
        ]
    )
    xavier_init(parts)
    attention, cross, network = parts
    for weight, fan_out in zip(attention.qkv.weight.split((32, 16, 16)), (32, 16, 16), strict=True):
        spread(weight * 2**0.5, 32, fan_out)  # queries, keys and values start at gain 1/√2
    for weight in (*cross.kv.weight.chunk(2), cross.q.weight):
        spread(weight * 2**0.5, 32, 32)
    for weight in (cross.out.weight, attention.out.weight):
        spread(weight, 32, 32)
    for weight in network.up.weight.chunk(2):
        spread(weight, 32, 48)
    spread(network.down.weight, 48, 32)
    biases = [value for name, value in parts.named_parameters() if name.endswith("bias")]
    assert len(biases) == 7
    assert all(not bias.any() for bias in biases)


def test_a_fused_matrix_is_its_maps_side_by_side():
    layer = FusedLinear(WIDTH, (3, 5), bias=True)
    x = torch.randn(2, WIDTH)
    first, second = layer.split(layer(x))
    torch.testing.assert_close(first, x @ layer.weight[:3].T + layer.bias[:3])
    torch.testing.assert_close(second, x @ layer.weight[3:].T + layer.bias[3:])


def test_normal_init_draws_every_matrix_and_table_and_leaves_norms():
    block = block_config(attention=attention_config(width=64, heads=4), norm=LayerNorm())
    model = nn.ModuleList(
        [
            TokenEmbedding(TokenEmbeddingConfig(vocab=50, width=64)),
            Stack(StackConfig(layers=1, block=block, context=40, position=Learned())),
            Head(64, 50, tied=False, bias=True),
        ]
    )
    normal_init(model, 0.3)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2:
            assert abs(parameter.std().item() / 0.3 - 1) < 0.1, name
            assert abs(parameter.mean().item()) < 0.05, name
        elif "norm" in name:
            assert torch.equal(parameter, torch.ones(64) if name.endswith("weight") else torch.zeros(64)), name
        else:
            assert not parameter.any(), name
