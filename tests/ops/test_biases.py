"""ALiBi and relative position tables as biases: known values, offsets, and Shaw's attention."""

import math

import torch

from headway.ops import Alibi, Causal, Relative, alibi_slopes, attend, attention_weights

CPU = torch.device("cpu")
FLOAT32 = {"rtol": 1e-5, "atol": 1e-5}


def test_alibi_is_minus_slope_times_the_way_back_under_a_causal_mask():
    slopes = alibi_slopes(6)
    bias = Alibi(slopes).dense(1, 6, 5, 5, CPU)
    assert bias.shape == (1, 6, 5, 5)
    for h, i in ((h, i) for h in range(6) for i in range(5)):
        expected = torch.tensor([-slopes[h].item() * (i - j) for j in range(i + 1)])
        torch.testing.assert_close(bias[0, h, i, : i + 1], expected)


def test_alibi_is_symmetric_without_a_mask():
    bias = Alibi(alibi_slopes(4)).dense(1, 4, 7, 7, CPU)
    assert torch.equal(bias, bias.mT)
    assert bias.diagonal(dim1=-2, dim2=-1).eq(0).all()
    assert bias[..., 0, 1:].lt(0).all()


def test_alibi_gives_the_weights_of_the_official_code_under_a_causal_mask_only():
    q, k = torch.randn(2, 4, 6, 8), torch.randn(2, 4, 6, 8)
    slopes = alibi_slopes(4)
    scores = q @ k.mT / math.sqrt(8) + slopes.view(4, 1, 1) * torch.arange(6)  # m·j: the same up to a shift per row
    ahead = torch.ones(6, 6, dtype=torch.bool).triu(1)
    official = scores.masked_fill(ahead, -math.inf).softmax(-1)
    torch.testing.assert_close(attention_weights(q, k, mask=Causal(), bias=Alibi(slopes)), official, **FLOAT32)
    assert not torch.allclose(attention_weights(q, k, bias=Alibi(slopes)), scores.softmax(-1), atol=1e-2)


def test_alibi_after_a_cache_is_the_end_of_the_square_one():
    whole = Alibi(alibi_slopes(4)).dense(2, 4, 9, 9, CPU)
    assert torch.equal(Alibi(alibi_slopes(4)).at(6).dense(2, 4, 3, 9, CPU), whole[:, :, 6:])
    by_row = Alibi(alibi_slopes(4)).at(torch.tensor([6, 2])).dense(2, 4, 3, 9, CPU)
    assert torch.equal(by_row, torch.stack([whole[0, :, 6:9], whole[0, :, 2:5]]))


# --- relative tables ---


def test_a_relative_table_is_read_at_the_clipped_distance_with_the_query_in_the_middle():
    bias = Relative(torch.tensor([-1.0, 0.0, 1.0]).view(1, 1, 1, 3)).dense(1, 2, 4, 4, CPU)
    expected = [
        [0.0, 1.0, 1.0, 1.0],
        [-1.0, 0.0, 1.0, 1.0],
        [-1.0, -1.0, 0.0, 1.0],
        [-1.0, -1.0, -1.0, 0.0],
    ]
    assert bias.expand(1, 2, 4, 4).tolist() == [[expected, expected]]


def test_a_relative_table_wide_enough_tells_every_distance_apart():
    bias = Relative(torch.arange(9.0).view(1, 1, 1, 9)).dense(1, 1, 5, 5, CPU)
    assert torch.equal(bias[0, 0], torch.arange(5.0) - torch.arange(5.0)[:, None] + 4)


def test_a_relative_table_after_a_cache_is_the_end_of_the_square_one():
    table = torch.randn(1, 4, 1, 7)
    whole = Relative(table).dense(2, 4, 9, 9, CPU).expand(2, 4, 9, 9)
    assert torch.equal(Relative(table).at(6).dense(2, 4, 3, 9, CPU).expand(2, 4, 3, 9), whole[:, :, 6:])
    by_row = Relative(table).at(torch.tensor([6, 2])).dense(2, 4, 3, 9, CPU)
    assert torch.equal(by_row, torch.stack([whole[0, :, 6:9], whole[0, :, 2:5]]))


def test_a_table_made_from_the_queries_is_shaws_attention():
    q, k, v = (torch.randn(2, 4, 6, 8, dtype=torch.float64) for _ in range(3))
    embeddings = torch.randn(5, 8, dtype=torch.float64)  # a_{-2} … a_{2}
    table = q @ embeddings.T / math.sqrt(8)
    distance = (torch.arange(6) - torch.arange(6)[:, None]).clamp(-2, 2) + 2
    keys = k.unsqueeze(2) + embeddings[distance]  # (B, H, T, S, E): k_j + a_{j-i}
    scores = (q.unsqueeze(3) * keys).sum(-1) / math.sqrt(8)
    torch.testing.assert_close(attend(q, k, v, bias=Relative(table)), scores.softmax(-1) @ v)
