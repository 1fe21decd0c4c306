"""Weights recomputed for some heads and queries are those that every kernel used."""

from __future__ import annotations

import pytest
import torch

from headway import ops
from headway.ops import KERNELS, attend, bias_of, scores_of, weights_of
from headway.ops.kernels.base import AttentionInputs
from tests.ops.cases import BIASES, HEADS, MASKS, Sizes, case, picker, unfused

SIZES = Sizes(queries=7, keys=7)


def call(mask: str, bias: str, kernel: str):
    """A case in float32: its tensors, its mask and bias, and the kernel's output; None if it is unsupported."""
    pick = picker(3)
    drawn = case(pick, SIZES, MASKS[mask](pick, SIZES), bias)
    q, k, v = (each.float() for each in (drawn.q, drawn.k, drawn.v))
    term = None if drawn.term.parameters is None else drawn.term.build(drawn.term.parameters.float())
    given = AttentionInputs(q, k, v, drawn.rule.mask, term, q.shape[-1] ** -0.5)
    if KERNELS[kernel].unsupported_reason(given) is not None:
        return None  # a mask it does not do, or a device it does not run on
    if kernel == "flex":
        out = unfused(q, k, v, given.mask, given.bias)
    else:
        out = attend(q, k, v, mask=given.mask, bias=given.bias, kernel=kernel)
    return q, k, v, given.mask, given.bias, out


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("bias", BIASES)
def test_weights_times_values_are_what_the_kernel_gave(kernel, mask, bias, monkeypatch):
    monkeypatch.setattr("headway.ops.attention_scores.BLOCK", 100)  # several blocks, also of so little
    made = call(mask, bias, kernel)
    if made is None:
        assert kernel not in ("reference", "sdpa", "few", "flex")  # these do everything
        return
    q, k, v, mask, bias, out = made
    share = HEADS // k.shape[1]
    weights = weights_of(q, k, mask=mask, bias=bias)
    torch.testing.assert_close(weights @ v.repeat_interleave(share, 1), out, atol=1e-5, rtol=0)
    heads, queries = torch.tensor([3, 1]), torch.tensor([0, 5, 2])
    some = weights_of(q, k, mask=mask, bias=bias, heads=heads, queries=queries)
    torch.testing.assert_close(some, weights[:, heads][:, :, queries], atol=1e-6, rtol=0)
    scores = scores_of(q, k, mask=mask, bias=bias, heads=heads, queries=queries)
    torch.testing.assert_close(scores.softmax(-1).nan_to_num(0), some, atol=1e-6, rtol=0)


def test_a_learned_scale_and_a_bias_by_itself():
    q, k = torch.randn(2, HEADS, 5, 8), torch.randn(2, 2, 5, 8)
    scale, bias = torch.rand(HEADS), ops.Alibi(ops.alibi_slopes(HEADS))
    scores = scores_of(q, k, bias=bias, scale=scale)
    heads, queries = torch.tensor([2]), torch.tensor([4, 0])
    term = bias_of(bias, 2, heads, queries, 5)
    assert term.shape == (1, 1, 2, 5)
    expected = scale[2] * q[:, 2, [4, 0]] @ k[:, 1].mT + term[:, 0]
    torch.testing.assert_close(scores[:, 2, [4, 0]], expected)


def test_recomputing_is_exact_in_sixteen_bits_and_under_autocast():
    q, k = torch.randn(1, HEADS, 6, 8).bfloat16(), torch.randn(1, HEADS, 6, 8).bfloat16()
    exact = ops.attention_weights(q.float(), k.float(), mask=ops.Causal())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        weights = weights_of(q, k, mask=ops.Causal())
    assert weights.dtype == torch.float32
    torch.testing.assert_close(weights, exact, atol=1e-6, rtol=0)
