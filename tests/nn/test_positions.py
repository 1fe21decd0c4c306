"""Every positional encoding: its formula, its known defect, and that a cache changes nothing."""

import cmath
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from transformers.models.t5.modeling_t5 import T5Attention

from headway.errors import ConfigError, DataError
from headway.nn.attention import CrossAttention
from headway.nn.feedforward import FeedForwardConfig
from headway.nn.positions import (
    T5,
    AlibiBias,
    Fraction,
    InputPositions,
    Learned,
    RawIndex,
    Rotary,
    Saturating,
    Shaw,
    Sine,
    SineCosine,
    Sinusoidal,
    SinusoidalHalves,
    SinusoidalTensor2Tensor,
    t5_buckets,
)
from headway.nn.recurrent import RecurrentConfig
from headway.nn.rnn_attention import AlignmentConfig
from headway.nn.stack import Stack, StackConfig
from headway.ops import Causal, Lengths, Packed, alibi_slopes
from tests.nn.tiny import (
    CAUSAL,
    CONCATENATED,
    HEADS,
    POSITIONS,
    WIDTH,
    attention_by_hand,
    attention_config,
    bare_attention,
    block_config,
    tiny_stack,
)

TOKENS = 9


def codes(position, count: int, width: int = 4, lengths: Tensor | int | None = None) -> Tensor:
    """What joining a position does to nothing: its codes, (B, T, D)."""
    rows = len(lengths) if isinstance(lengths, Tensor) else 1
    layer = InputPositions(position, width, context=count)
    return layer(torch.zeros(rows, count, width), torch.arange(count), count, count if lengths is None else lengths)


def same(got: Tensor, want: Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


# --- known answers and defects -------------------------------------------------------------------------------------


def test_sinusoidal_codes_are_the_papers():
    expected = torch.tensor(
        [[0.0, 1.0, 0.0, 1.0], [0.8415, 0.5403, 0.0100, 0.99995], [0.9093, -0.4161, 0.0200, 0.9998]]
    )
    torch.testing.assert_close(codes(Sinusoidal(), 3)[0], expected, rtol=0, atol=5e-5)


def test_the_three_layouts_of_sinusoids_are_three():
    paper, halves = codes(Sinusoidal(), 40, 8)[0], codes(SinusoidalHalves(), 40, 8)[0]
    same(halves, torch.cat([paper[:, 0::2], paper[:, 1::2]], -1), 1e-6)
    rates = torch.tensor([10000.0 ** (-i / 3) for i in range(4)])
    angles = torch.arange(40).unsqueeze(-1) * rates
    tensor2tensor = codes(SinusoidalTensor2Tensor(), 40, 8)[0]
    same(tensor2tensor, torch.cat([angles.sin(), angles.cos()], -1), 1e-4)
    assert (tensor2tensor - halves).abs().max() > 0.1


def test_sinusoidal_products_depend_on_the_distance_alone():
    table = codes(Sinusoidal(), 50, 8)[0].double()
    products = table @ table.T
    for distance in (0, 1, 7):
        same(products.diagonal(distance), products[0, distance].expand(50 - distance).contiguous(), 1e-5)
    same(table.norm(dim=-1), torch.full((50,), math.sqrt(8 / 2), dtype=torch.float64), 1e-6)


def test_raw_index_grows_without_bound():
    table = codes(RawIndex(), 1000)[0]
    assert torch.equal(table, torch.arange(1000.0).unsqueeze(-1).expand(1000, 4))


def test_fraction_is_bounded_but_changes_with_the_length():
    short, long = codes(Fraction(), 5)[0], codes(Fraction(), 9)[0]
    assert short.min() == 0
    assert short.max() == long.max() == 1
    same(short[2], torch.full((4,), 2 / 4), 1e-6)
    same(long[2], torch.full((4,), 2 / 8), 1e-6)


def test_fraction_takes_each_rows_own_length():
    padded = codes(Fraction(), 9, lengths=torch.tensor([5, 9, 1]))
    same(padded[0, :5], codes(Fraction(), 5)[0], 1e-6)
    same(padded[1], codes(Fraction(), 9)[0], 1e-6)
    assert torch.equal(padded[2, 0], torch.zeros(4))  # one token alone: not 0/0


def test_a_padded_row_with_fractions_is_the_row_alone():
    stack, lengths = tiny_stack(Fraction()), torch.tensor([4, 7])
    x = torch.randn(2, 7, WIDTH, dtype=torch.float64)
    padded = stack(x, mask=Lengths(lengths), lengths_B=lengths)
    same(padded[0, :4], stack(x[:1, :4])[0])


def test_saturating_codes_merge_far_away():
    table = codes(Saturating(tau=10.0), 301)[0, :, 0].double()
    steps = table.diff()
    assert steps[0] > 0.09
    assert steps[299] < 1e-6  # neighbours that no float32 network can tell apart
    assert table.max() <= 1


def test_sine_gives_different_positions_one_code():
    table = codes(Sine(rate=math.pi / 4), 9)[0]
    same(table[1], table[3], 1e-6)
    same(table[0], table[4], 1e-6)


def test_sine_cosine_is_unique_within_its_period_and_repeats_after_it():
    period = 12
    table = codes(SineCosine(rate=2 * math.pi / period), 3 * period)[0]
    same(table[:period], table[period : 2 * period], 1e-5)
    apart = torch.cdist(table[:period], table[:period]) + 10 * torch.eye(period)
    assert apart.min() > 0.5


def test_learned_positions_end_at_the_context():
    stack = tiny_stack(Learned(), context=4)
    x = torch.randn(1, 5, WIDTH, dtype=torch.float64)
    assert stack(x[:, :4]).shape == (1, 4, WIDTH)
    with pytest.raises(DataError, match=r"5 tokens.*end at 4"):
        stack(x)


def test_learned_positions_end_at_the_context_of_a_cache_too():
    stack = tiny_stack(Learned(), causal=True, context=4)
    x = torch.randn(1, 5, WIDTH, dtype=torch.float64)
    cache = stack.empty_cache(8)
    with torch.no_grad():
        stack(x[:, :4], mask=Causal(), cache=cache)
        with pytest.raises(DataError, match=r"5 tokens.*end at 4"):
            stack(x[:, 4:], mask=Causal(offset=4), cache=cache.advanced(4))


def test_learned_positions_are_rows_of_one_table():
    layer = InputPositions(Learned(), WIDTH, context=6)
    x = torch.randn(2, 3, WIDTH)
    positions = torch.tensor([[0, 1, 2], [3, 4, 5]])
    assert layer.table is not None
    assert torch.equal(layer(x, positions, 6, 3), x + layer.table.view(2, 3, WIDTH))


# --- add and concatenate -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("position", CONCATENATED)
def test_concatenating_is_two_matrices_in_one(position):
    """W[x; p] = W_x x + W_p p, back at the width of x."""
    layer = InputPositions(CONCATENATED[position], WIDTH, context=TOKENS)
    x, places = torch.randn(2, TOKENS, WIDTH), torch.arange(TOKENS)
    assert layer.mix is not None
    on_x, on_p = layer.mix.weight.split([WIDTH, 4], -1)
    code = layer.position.codes(places, 4, TOKENS) if layer.table is None else layer.table
    out = layer(x, places, TOKENS, TOKENS)
    assert out.shape == x.shape
    same(out, x @ on_x.T + code @ on_p.T + layer.mix.bias, 1e-5)


@pytest.mark.parametrize("name", ["raw_index", "fraction", "saturating", "sine", "sine_cosine", "sinusoidal"])
def test_adding_is_concatenating_with_tied_matrices(name):
    added = InputPositions(POSITIONS[name], WIDTH, TOKENS)
    joined = InputPositions(replace(POSITIONS[name], concat=WIDTH), WIDTH, TOKENS)
    x, places = torch.randn(2, TOKENS, WIDTH), torch.arange(TOKENS)
    matrix = torch.randn(WIDTH, WIDTH)
    assert joined.mix is not None
    with torch.no_grad():
        joined.mix.bias.zero_()
        joined.mix.weight.copy_(torch.cat([matrix, matrix], -1))
    tied = joined(x, places, TOKENS, TOKENS)
    same(tied, added(x, places, TOKENS, TOKENS) @ matrix.T, 1e-4)
    with torch.no_grad():
        joined.mix.weight.copy_(torch.cat([torch.eye(WIDTH), matrix], -1))
    untied = joined(x, places, TOKENS, TOKENS)
    same(untied, x + (added(x, places, TOKENS, TOKENS) - x) @ matrix.T, 1e-4)


# --- T5's buckets --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("buckets", "furthest"), [(32, 128), (16, 20), (8, 50), (64, 256)])
@pytest.mark.parametrize("causal", [True, False])
def test_t5_buckets_are_those_of_transformers(causal, buckets, furthest):
    distances = torch.arange(-300, 301)
    expected = T5Attention._relative_position_bucket(distances, not causal, buckets, furthest)
    got = t5_buckets(distances, buckets, furthest, causal=causal)
    assert torch.equal(got, expected)
    assert got.min() == 0
    assert got.max() == buckets - 1


# --- inside attention: the dense formula ---------------------------------------------------------------------------

GROUPS = [4, 2]  # every head its own keys and values, or two heads a pair


def sees(causal: bool):
    return (lambda i, j: j <= i) if causal else (lambda i, j: True)


def check_by_hand(position, causal: bool, kv_heads: int, holes) -> None:
    """One bare attention under `position` is the formula with `holes(stack)` filled in."""
    stack = bare_attention(position, causal=causal, kv_heads=kv_heads)
    x = torch.randn(2, TOKENS, WIDTH, dtype=torch.float64)
    got = stack(x, mask=Causal() if causal else None)
    expected = attention_by_hand(stack.blocks[0].attention, x, sees=sees(causal), **holes(stack))
    same(got, expected, 1e-6)  # rotary angles are float32


@pytest.mark.parametrize("kv_heads", GROUPS)
@pytest.mark.parametrize("causal", [True, False])
def test_no_position_is_the_plain_formula(causal, kv_heads):
    check_by_hand(None, causal, kv_heads, lambda stack: {})


@pytest.mark.parametrize("kv_heads", GROUPS)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_rotary_turns_pairs_of_queries_and_keys_as_complex_numbers(layout, causal, kv_heads):
    width = WIDTH // HEADS

    def turn(vector: Tensor, t: int) -> Tensor:
        turned = vector.clone()
        for i in range(width // 2):
            a, b = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, i + width // 2)
            z = complex(vector[a].item(), vector[b].item()) * cmath.exp(1j * t * 100.0 ** (-2 * i / width))
            turned[a], turned[b] = z.real, z.imag
        return turned

    check_by_hand(Rotary(base=100.0, layout=layout), causal, kv_heads, lambda stack: {"turn": turn})


@pytest.mark.parametrize("kv_heads", GROUPS)
@pytest.mark.parametrize("causal", [True, False])
def test_alibi_subtracts_slope_times_distance(causal, kv_heads):
    slopes = alibi_slopes(HEADS).double()
    add = {"add": lambda h, i, j: -slopes[h] * abs(i - j)}
    check_by_hand(AlibiBias(), causal, kv_heads, lambda stack: add)


@pytest.mark.parametrize("kv_heads", GROUPS)
@pytest.mark.parametrize("causal", [True, False])
def test_t5_adds_the_bias_of_the_distances_bucket(causal, kv_heads):
    def holes(stack: Stack):
        distances = torch.arange(-TOKENS, TOKENS + 1)  # beyond the furthest bucket on both sides
        bucket = T5Attention._relative_position_bucket(distances, not causal, 8, 6)
        table = stack.attention_positions.table
        return {"add": lambda h, i, j: table[h, bucket[j - i + TOKENS]]}

    check_by_hand(T5(buckets=8, distance=6), causal, kv_heads, holes)


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("kv_heads", GROUPS)
@pytest.mark.parametrize("causal", [True, False])
def test_shaw_adds_a_vector_to_keys_and_values(causal, kv_heads, values):
    """e_ij = q_i·(k_j + a_(j-i))/√E, and Σ_j weight_ij·(v_j + a'_(j-i))."""
    reach = 3

    def holes(stack: Stack):
        tables = stack.blocks[0].attention.shaw

        def entry(table: Tensor, i: int, j: int) -> Tensor:
            return table[max(-reach, min(reach, j - i)) + reach]

        to_key = {"to_key": lambda i, j: entry(tables.keys, i, j)}
        return {**to_key, "to_value": lambda i, j: entry(tables.values, i, j)} if values else to_key

    check_by_hand(Shaw(reach=reach, values=values), causal, kv_heads, holes)


def test_shaw_scales_its_term_like_the_scores():
    """A learned temperature multiplies q·(k + a) as a whole."""
    stack = bare_attention(Shaw(reach=3), learn_scale=True)
    layer = stack.blocks[0].attention
    with torch.no_grad():
        layer.scale.copy_(torch.tensor([0.3, 0.9, 1.5, 0.1]))
    x = torch.randn(2, TOKENS, WIDTH, dtype=torch.float64)
    q, k, v = (part.unflatten(-1, (HEADS, -1)) for part in layer.qkv(x).split(WIDTH, -1))
    slot = (torch.arange(TOKENS) - torch.arange(TOKENS).unsqueeze(-1)).clamp(-3, 3) + 3
    scores = torch.einsum("bihe,bjhe->bhij", q, k) + torch.einsum("bihe,ije->bhij", q, layer.shaw.keys[slot])
    weights = (scores * layer.scale.view(-1, 1, 1)).softmax(-1)
    heads = torch.einsum("bhij,bjhe->bihe", weights, v)
    heads = heads + torch.einsum("bhij,ije->bihe", weights, layer.shaw.values[slot])
    same(stack(x), layer.out(heads.flatten(-2)))


@pytest.mark.parametrize("position", ["rotary_interleaved", "rotary_halves", "alibi", "t5", "shaw"])
def test_a_relative_position_does_not_care_where_a_text_begins(position):
    """The same tokens after tokens that are masked: only distances count."""
    stack = tiny_stack(POSITIONS[position], causal=True)
    x = torch.randn(1, 12, WIDTH, dtype=torch.float64)
    cache = stack.empty_cache(12).advanced(5)
    with torch.no_grad():
        for layer in cache.layers:
            nothing = torch.zeros(1, HEADS, 5, WIDTH // HEADS, dtype=torch.float64)
            layer.write(nothing, nothing, 0, 0)
        hidden = Causal(offset=5) & after(5)
        moved = stack(x[:, 5:], mask=hidden, cache=cache)
    same(moved, stack(x[:, 5:], mask=Causal()), 1e-5)


def after(first: int) -> Packed:
    """Of 12 keys, those from `first` on."""
    return Packed(torch.tensor([[0] * first + [1] * (12 - first)]), offset=first)


# --- a cache changes nothing ---------------------------------------------------------------------------------------


def parallel(stack: Stack, x: Tensor) -> Tensor:
    return stack(x, mask=Causal())


@pytest.mark.parametrize("kv_heads", GROUPS)
@pytest.mark.parametrize("place", ["pre", "post"])
@pytest.mark.parametrize("position", [None, *CAUSAL])
@torch.no_grad()
def test_stepping_with_a_cache_is_the_parallel_pass(position, place, kv_heads):
    kind = CAUSAL[position] if position else None
    stack = tiny_stack(kind, causal=True, place=place, attention=attention_config(kv_heads=kv_heads))
    x = torch.randn(2, 10, WIDTH, dtype=torch.float64)
    cache, outputs = stack.empty_cache(3), []  # too small: it must grow on the way
    for piece in x.split([3, 1, 1, 4, 1], 1):
        outputs.append(stack(piece, mask=Causal(offset=cache.length), cache=cache))
        cache = cache.advanced(piece.shape[1])
    assert cache.length == 10
    same(torch.cat(outputs, 1), parallel(stack, x))


@pytest.mark.parametrize("position", [None, *CAUSAL])
@torch.no_grad()
def test_stepping_with_rows_of_different_lengths_is_each_row_alone(position):
    stack = tiny_stack(CAUSAL[position] if position else None, causal=True)
    rows = [torch.randn(1, count, WIDTH, dtype=torch.float64) for count in (5, 7, 6)]
    expected = [parallel(stack, row)[0] for row in rows]
    pieces = [[2, 1, 1, 1], [4, 1, 1, 1], [1, 3, 1, 1]]  # how many real tokens each row brings to each step
    outputs: list[list[Tensor]] = [[], [], []]
    cache, done = stack.empty_cache(2), [0, 0, 0]
    for step in range(4):
        counts = [piece[step] for piece in pieces]
        padded = torch.randn(3, max(counts), WIDTH, dtype=torch.float64)  # padding is noise, not zeros
        for row, count in enumerate(counts):
            padded[row, :count] = rows[row][0, done[row] : done[row] + count]
        out = stack(padded, mask=Causal(offset=cache.length), cache=cache)
        cache = cache.advanced(padded.shape[1], torch.tensor(counts))
        for row, count in enumerate(counts):
            outputs[row].append(out[row, :count])
            done[row] += count
    for got, want in zip(outputs, expected, strict=True):
        same(torch.cat(got), want)


@pytest.mark.parametrize("position", [None, *CAUSAL])
@torch.no_grad()
def test_a_decoder_over_a_memory_steps_like_its_parallel_pass(position):
    stack = tiny_stack(CAUSAL[position] if position else None, causal=True, cross=True)
    x, source = (torch.randn(2, count, WIDTH, dtype=torch.float64) for count in (6, 4))
    memory = stack.project_memory(source, torch.tensor([4, 2]))
    cache, outputs = stack.empty_cache(8), []
    for piece in x.split([2, 1, 3], 1):
        outputs.append(stack(piece, mask=Causal(offset=cache.length), cache=cache, memory=memory))
        cache = cache.advanced(piece.shape[1])
    same(torch.cat(outputs, 1), stack(x, mask=Causal(), memory=memory))


@pytest.mark.parametrize("position", POSITIONS)
def test_padding_does_not_change_a_row_whatever_its_positions(position):
    stack, lengths = tiny_stack(POSITIONS[position]), torch.tensor([4, 7, 1])
    x = torch.randn(3, 7, WIDTH, dtype=torch.float64)
    padded = stack(x, mask=Lengths(lengths), lengths_B=lengths)
    for row, length in enumerate(lengths.tolist()):
        same(padded[row, :length], stack(x[row : row + 1, :length])[0])


@pytest.mark.parametrize("position", POSITIONS)
def test_every_parameter_of_a_position_is_trained(position):
    stack = tiny_stack(POSITIONS[position])
    stack(torch.randn(2, 16, WIDTH, dtype=torch.float64)).square().sum().backward()
    for name, parameter in stack.named_parameters():
        assert parameter.grad is not None, name
        if "shaw" in name or name.endswith("table"):
            assert parameter.grad.abs().sum() > 0, name


# --- what makes no sense is refused, with the values that would ----------------------------------------------------


def stack_config(position, **changes) -> StackConfig:
    return StackConfig(layers=1, block=block_config(), context=8, position=position, **changes)


REFUSED = {
    "fraction_in_a_causal_stack": (lambda: stack_config(Fraction(), causal=True), "Fraction"),
    "a_string_for_a_position": (lambda: stack_config("rotary"), r"'rotary'.*Rotary.*Fraction"),
    "odd_head_width_with_rotary": (
        lambda: Stack(
            StackConfig(
                layers=1,
                block=block_config(attention=attention_config(width=9, heads=3)),
                context=8,
                position=Rotary(),
            )
        ),
        "rotary.*even.*3",
    ),
    "unknown_rotary_layout": (lambda: Rotary(layout="thirds"), "thirds.*interleaved.*halves"),
    "odd_width_with_sinusoidal": (lambda: InputPositions(Sinusoidal(), 7, 8), "sinusoidal.*even.*7"),
    "odd_width_with_sine_cosine": (lambda: InputPositions(SineCosine(), 7, 8), "sine-cosine.*even.*7"),
    "odd_concatenated_width": (lambda: InputPositions(Sinusoidal(concat=3), 8, 8), "sinusoidal.*even.*3"),
    "t5_with_no_bucket_for_a_side": (lambda: Stack(stack_config(T5(buckets=2))), "buckets=2"),
    "t5_that_ends_where_its_exact_buckets_do": (lambda: Stack(stack_config(T5(buckets=32, distance=8))), "distance=8"),
    "shaw_with_a_negative_reach": (lambda: Shaw(reach=-1), "reach=-1"),
    "saturating_at_once": (lambda: Saturating(tau=0.0), "tau=0"),
    "a_negative_number_of_appended_dimensions": (lambda: Sinusoidal(concat=-2), "concat=-2"),
    "shaw_on_cross_attention": (lambda: CrossAttention(attention_config(shaw=Shaw())), "cross-attention"),
    "width_not_divisible_by_heads": (lambda: attention_config(width=8, heads=3), "width=8.*heads=3"),
    "no_heads": (lambda: attention_config(heads=0), "heads=0"),
    "kv_heads_not_dividing_heads": (lambda: attention_config(heads=4, kv_heads=3), "kv_heads=3.*heads=4"),
    "unknown_kernel": (lambda: attention_config(kernel="fast"), "'fast'.*auto.*reference.*sdpa"),
    "unknown_activation": (lambda: FeedForwardConfig(inner=4, activation="tanh"), "'tanh'.*relu.*swiglu"),
    "unknown_place": (lambda: block_config(place="middle"), "'middle'.*pre.*post"),
    "unknown_residual": (lambda: block_config(residual="highway"), "'highway'.*none.*residual.*dense"),
    "dropout_of_one": (lambda: block_config(dropout=1.0), "dropout=1.0"),
    "unknown_cell": (lambda: RecurrentConfig(hidden=4, cell="mgu"), "'mgu'.*rnn.*gru.*lstm"),
    "unknown_alignment": (lambda: AlignmentConfig(kind="dot"), "'dot'.*identity.*additive"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_invalid_setting_raises_with_its_name(case):
    build, message = REFUSED[case]
    with pytest.raises(ConfigError, match=message):
        build()
