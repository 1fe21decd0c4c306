from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.ops import linear_cross_entropy
from headway.ops.linear_cross_entropy import BLOCK


def drawn(rows, width, vocab, *, bias, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((rows, width), (vocab, width), *([(vocab,)] if bias else []))
    x, weight, *rest = (torch.randn(shape, dtype=dtype, generator=generator, requires_grad=True) for shape in shapes)
    targets = torch.randint(0, vocab, (rows,), generator=generator)
    return x, weight, rest[0] if bias else None, targets


def apart(x, weight, bias, targets, smoothing):
    return F.cross_entropy(F.linear(x, weight, bias), targets, reduction="sum", label_smoothing=smoothing)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40), st.integers(1, 9), st.integers(1, 30), st.booleans(), st.sampled_from([0.0, 0.1, 0.7]),
    st.sampled_from([1, 50, 10_000]),
)  # fmt: skip
def test_loss_and_gradients_are_those_of_the_layers_apart(rows, width, vocab, bias, smoothing, block):
    before = BLOCK["cpu"]
    BLOCK["cpu"] = block  # one row at a time, a few, or all
    try:
        *tensors, targets = drawn(rows, width, vocab, bias=bias)
        learned = [tensor for tensor in tensors if tensor is not None]
        ours = linear_cross_entropy(*tensors, targets, smoothing=smoothing)
        theirs = apart(*tensors, targets, smoothing)
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
        for a, b in zip(torch.autograd.grad(ours * 3, learned), torch.autograd.grad(theirs * 3, learned), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
    finally:
        BLOCK["cpu"] = before


def test_float32_and_the_default_block():
    *tensors, targets = drawn(700, 16, 9_000, bias=True, dtype=torch.float32)
    ours, theirs = linear_cross_entropy(*tensors, targets, smoothing=0.1), apart(*tensors, targets, 0.1)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-3)
    for a, b in zip(torch.autograd.grad(ours, tensors), torch.autograd.grad(theirs, tensors), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_without_gradients_the_loss_is_the_same():
    *tensors, targets = drawn(20, 4, 11, bias=True)
    with torch.no_grad():
        assert torch.equal(linear_cross_entropy(*tensors, targets), linear_cross_entropy(*tensors, targets).detach())
        torch.testing.assert_close(linear_cross_entropy(*tensors, targets), apart(*tensors, targets, 0.0))


def test_only_what_is_asked_for_has_a_gradient():
    x, weight, bias, targets = drawn(6, 4, 11, bias=True)
    linear_cross_entropy(x.detach(), weight, bias.detach(), targets).backward()
    assert x.grad is None
    assert bias.grad is None
    assert weight.grad is not None


def test_autocast_multiplies_in_its_type_and_sums_in_float32():
    x, weight, _, targets = drawn(64, 32, 200, bias=False, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        ours = linear_cross_entropy(x, weight, None, targets)
    exact = apart(x, weight, None, targets, 0.0)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, exact, rtol=5e-3, atol=0.0)
    assert ours != exact  # bfloat16 was used
    for a, b in zip(torch.autograd.grad(ours, (x, weight)), torch.autograd.grad(exact, (x, weight)), strict=True):
        assert a.dtype == torch.float32
        assert (a - b).norm() < 0.02 * b.norm()


def test_huge_logits_stay_finite():
    x = torch.full((2, 1), 200.0, requires_grad=True)
    weight = torch.tensor([[1.0], [-1.0]], requires_grad=True)
    loss = linear_cross_entropy(x, weight, None, torch.tensor([0, 1]))
    loss.backward()
    assert loss.item() == pytest.approx(400.0)
    assert x.grad.isfinite().all()


def test_no_rows():
    x, weight, _, targets = drawn(0, 4, 11, bias=False)
    loss = linear_cross_entropy(x, weight, None, targets)
    loss.backward()
    assert loss == 0
    assert (weight.grad == 0).all()


def test_a_negative_target_has_no_loss_and_no_gradient():
    x, weight, bias, targets = drawn(9, 4, 11, bias=True)
    targets[[1, 5]] = -100
    kept = targets >= 0
    learned = (x, weight, bias)
    ours = linear_cross_entropy(*learned, targets, smoothing=0.1)
    theirs = linear_cross_entropy(x[kept], weight, bias, targets[kept], smoothing=0.1)
    torch.testing.assert_close(ours, theirs)
    for a, b in zip(torch.autograd.grad(ours, learned), torch.autograd.grad(theirs, learned), strict=True):
        torch.testing.assert_close(a, b)
