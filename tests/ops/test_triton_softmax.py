"""Loss and gradient of 16-bit logits by one kernel, in Triton's interpreter or on a GPU, are those of torch."""

from importlib import import_module

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.ops import linear_cross_entropy
from headway.ops.linear_cross_entropy import BLOCK, triton_softmax

pytest.importorskip("triton")
launch = import_module("headway.ops.linear_cross_entropy.launch")

with pytest.MonkeyPatch.context() as patch:  # tests/conftest.py imported Triton the same way
    patch.setenv("TRITON_INTERPRET", "0" if torch.cuda.is_available() else "1")
    launch._kernels()
device = "cuda" if torch.cuda.is_available() else "cpu"


def wanted(logits: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Loss of each row and the gradient of the logits in float64; nothing for a negative target."""
    z = (logits.double() + (0 if bias is None else bias.double())).requires_grad_()
    losses = F.cross_entropy(z, targets, reduction="none", ignore_index=-100, label_smoothing=smoothing)
    (gradient,) = torch.autograd.grad(losses.sum(), z)
    return losses.detach(), gradient


@pytest.mark.parametrize(("vocab", "stride"), [(5, 8), (64, 64), (130, 192), (8195, 8256)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("biased", [False, True])
def test_loss_and_gradient_of_a_row_are_those_of_torch(vocab, stride, smoothing, biased):
    generator = torch.Generator().manual_seed(vocab)
    logits = (4 * torch.randn(6, stride, generator=generator)).to(device)
    bias = torch.randn(vocab, generator=generator).to(device) if biased else None
    targets = torch.randint(0, vocab, (6,), generator=generator)
    targets[2], targets[4] = -100, vocab - 1
    targets = targets.to(device)
    losses, gradient = wanted(logits[:, :vocab], bias, targets, smoothing)
    only = triton_softmax.softmax_gradient_(logits.clone(), vocab, bias, targets, smoothing, wanted=False)
    found = triton_softmax.softmax_gradient_(logits, vocab, bias, targets, smoothing, wanted=True)
    assert torch.equal(found, only)
    torch.testing.assert_close(found.double(), losses, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(logits[:, :vocab].double(), gradient, rtol=1e-5, atol=1e-6)
    assert (logits[:, vocab:] == 0).all()
    assert (logits[2] == 0).all()


@pytest.mark.parametrize("rows", [1, 7, 24])
def test_with_a_padded_vocabulary_the_layer_is_the_plain_one(monkeypatch, rows):
    """The whole function through the kernel, block by block, beside its plain path in float32."""
    generator = torch.Generator().manual_seed(rows)
    x, weight, bias = (torch.randn(s, generator=generator).to(device) for s in ((rows, 16), (77, 16), (77,)))
    targets = torch.randint(-1, 77, (rows,), generator=generator).to(device)
    leaves = [each.requires_grad_() for each in (x, weight, bias)]
    plain = linear_cross_entropy(*leaves, targets, smoothing=0.1)
    want = torch.autograd.grad(3 * plain, leaves)
    monkeypatch.setattr(triton_softmax, "is_usable", lambda device, dtype: True)
    monkeypatch.setitem(BLOCK, "triton", 10 * 128)
    ours = linear_cross_entropy(*leaves, targets, smoothing=0.1)
    torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-4)
    for a, b in zip(torch.autograd.grad(3 * ours, leaves), want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_an_aligned_matrix_is_not_copied():
    weight = torch.randn(64, 4)
    assert triton_softmax.aligned(weight, torch.float32) is weight
    padded = triton_softmax.aligned(torch.randn(65, 4), torch.bfloat16)
    assert padded.shape == (128, 4)
    assert (padded[65:] == 0).all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("vocab", [50257, 30522, 130_000])
def test_in_bfloat16_it_is_as_close_to_float64_as_torch(vocab):
    x, weight = torch.randn(300, 64, device="cuda"), torch.randn(vocab, 64, device="cuda")
    targets = torch.randint(0, vocab, (300,), device="cuda")
    leaves = [x.requires_grad_(), weight.requires_grad_()]
    exact = [each.detach().double().requires_grad_() for each in leaves]
    loss = F.cross_entropy(F.linear(*exact), targets, reduction="sum")
    want = torch.autograd.grad(loss, exact)
    with torch.autocast("cuda", torch.bfloat16):
        ours = linear_cross_entropy(*leaves, None, targets)
        theirs = F.cross_entropy(F.linear(*leaves), targets, reduction="sum")
    torch.testing.assert_close(ours.double(), loss, rtol=2e-3, atol=0.0)
    for a, b, c in zip(torch.autograd.grad(ours, leaves), torch.autograd.grad(theirs, leaves), want, strict=True):
        assert (a - c).norm() <= 1.1 * (b - c).norm()
