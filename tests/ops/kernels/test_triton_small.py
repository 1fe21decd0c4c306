"""The kernel for short sequences, in Triton's interpreter, beside the reference; compiled where there is a GPU."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from headway import ops
from headway.ops.kernels import triton_small
from headway.ops.kernels.base import AttentionInputs

pytest.importorskip("triton")
cuda = torch.cuda.is_available()


def attended(kernel: str, mask: ops.Mask | None, tokens: int, width: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """The output and the gradients of q, k and v, parts of one projection; the reference's in float32."""
    device = "cuda" if cuda else "cpu"
    generator = torch.Generator(device).manual_seed(0)
    used = torch.float32 if kernel == "reference" else dtype
    qkv = torch.randn(2, tokens, 3 * 2 * width, device=device, generator=generator).to(dtype).to(used).requires_grad_()
    q, k, v = (x.unflatten(-1, (2, width)).transpose(1, 2) for x in qkv.chunk(3, -1))
    out = ops.attend(q, k, v, mask=mask, kernel=kernel, scale=0.3)
    (out * torch.randn(out.shape, device=device, generator=generator).to(dtype)).sum().backward()
    return [out.detach().float(), qkv.grad.float()]


CASES = [(None, 65, 16), (ops.NotSelf(), 65, 16), (ops.NotSelf(), 2, 32), (None, 128, 16), (ops.NotSelf(), 33, 64)]


def check() -> None:
    for mask, tokens, width in CASES:
        for dtype, tolerance in ((torch.float32, 2e-5), *(((torch.bfloat16, 4e-2),) if cuda else ())):
            case = (mask, tokens, width, dtype)
            for made, expected in zip(attended("short", *case), attended("reference", *case), strict=True):
                torch.testing.assert_close(made, expected, atol=tolerance, rtol=tolerance)


def test_it_agrees_with_the_reference_forward_and_backward():
    if cuda:
        check()
        return
    # The interpreter is chosen when the kernels are first imported.
    code = "from tests.ops.kernels.test_triton_small import check; check(); print('met')"
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert found.stdout.strip() == "met", found.stderr[-800:]


def call(tokens: int = 65, width: int = 16, **changes) -> AttentionInputs:
    x = torch.zeros(1, 2, tokens, width, dtype=torch.bfloat16)
    return AttentionInputs(**{"q": x, "k": x, "v": x, "mask": None, "bias": None, "scale": 1.0} | changes)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"tokens": 129}, "2 to 128 tokens"),
        ({"width": 24}, "head widths 16, 32, 64"),
        ({"mask": ops.Causal()}, "only supported mask is NotSelf() without an offset, got Causal"),
        ({"mask": ops.NotSelf(offset=3)}, "only supported mask is NotSelf"),
        ({"q": torch.zeros(1, 2, 65, 16, dtype=torch.float64)}, "does not support float64"),
        ({"dropout": 0.1}, "dropout, bias and forward-mode AD are not supported"),
        ({"k": torch.zeros(1, 1, 65, 16), "v": torch.zeros(1, 1, 65, 16)}, "the same shape"),
    ],
)
def test_unsupported_inputs_have_a_reason(monkeypatch, changes, why):
    monkeypatch.setattr(triton_small, "interpreted", lambda: True)
    assert triton_small.unsupported_reason(call()) is None
    assert why in triton_small.unsupported_reason(call(**changes))


def test_on_a_cpu_it_is_unsupported(monkeypatch):
    monkeypatch.setattr(triton_small, "interpreted", lambda: False)
    assert triton_small.unsupported_reason(call()) == "short needs a CUDA GPU, q is on cpu"
