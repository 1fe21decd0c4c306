"""The kernels on a GPU, where FlexAttention is compiled and has gradients. Skipped without a GPU."""

from __future__ import annotations

import pytest
import torch

from headway import ops
from headway.nn.feedforward import FeedForward, FeedForwardConfig
from headway.ops import fused_gelu
from headway.ops.attend import KERNELS, choose
from headway.ops.kernels.base import AttentionInputs
from headway.ops.kernels.triton_flash import tuning

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")

B, H, G, T, E = 2, 4, 2, 200, 32


def masks() -> dict[str, ops.Mask | None]:
    lengths = torch.tensor([T, 70], device="cuda")
    segments = (torch.arange(T, device="cuda") // 64).expand(B, T)
    return {
        "none": None,
        "causal": ops.Causal(),
        "window": ops.Window(20, 5),
        "lengths": ops.Lengths(lengths),
        "causal & lengths & packed": ops.Causal() & ops.Lengths(lengths) & ops.Packed(segments),
        "(window | global) & lengths": (ops.Window(12) | ops.Global(segments.diff(dim=1, prepend=segments[:, :1]) != 0))
        & ops.Lengths(lengths),
        "dilated heads": ops.Window(15, dilation=(1, 1, 3, 2)),
        "window | prefix": ops.Window(9) | ops.Prefix(17),
        "empty rows": ops.Causal() & ops.Window(3) & ops.Lengths(torch.tensor([150, 0], device="cuda")),
    }


def biases() -> dict[str, ops.Bias | None]:
    return {
        "no bias": None,
        "alibi": ops.Alibi(ops.alibi_slopes(H).cuda()),
        "relative": ops.Relative(torch.randn(1, H, 1, 17, device="cuda")),
    }


def attend(kernel: str, mask: ops.Mask | None, bias: ops.Bias | None, dtype: torch.dtype) -> list[torch.Tensor]:
    """The output and the gradients of q, k and v."""
    generator = torch.Generator("cuda").manual_seed(0)
    shapes = ((B, H, T, E), (B, G, T, E), (B, G, T, E))
    q, k, v = (torch.randn(s, device="cuda", generator=generator).to(dtype).requires_grad_() for s in shapes)
    out = ops.attend(q, k, v, mask=mask, bias=bias, kernel=kernel)
    (out * torch.randn(out.shape, device="cuda", generator=generator).to(dtype)).sum().backward()
    return [out.detach().float(), *(x.grad.float() for x in (q, k, v))]


@pytest.mark.parametrize("bias", ["no bias", "alibi", "relative"])
@pytest.mark.parametrize("mask", ["none", "causal", "window", "lengths", "causal & lengths & packed", "dilated heads",
                                  "(window | global) & lengths", "window | prefix", "empty rows"])  # fmt: skip
@pytest.mark.parametrize("kernel", ["sdpa", "flex", "banded", "flash", "tiled"])
def test_kernels_meet_the_reference_forward_and_backward(kernel, mask, bias):
    chosen, added = masks()[mask], biases()[bias]
    q = torch.zeros(B, H, T, E, device="cuda")
    k = torch.zeros(B, G, T, E, device="cuda")
    if KERNELS[kernel].unsupported_reason(AttentionInputs(q, k, k, chosen, added, 1.0)):
        pytest.skip(f"{kernel} has no form for {mask}")
    expected = attend("reference", chosen, added, torch.float32)
    # FlexAttention multiplies in tf32 unless torch is told otherwise: 1e-3 is its stated bound, 1e-5 the others'.
    bound = 3e-3 if kernel == "flex" else 2e-5
    for got, want in zip(attend(kernel, chosen, added, torch.float32), expected, strict=True):
        assert not got.isnan().any()
        torch.testing.assert_close(got, want, atol=bound, rtol=bound)
    for got, want in zip(attend(kernel, chosen, added, torch.bfloat16), expected, strict=True):
        torch.testing.assert_close(got, want, atol=6e-2, rtol=6e-2)


def test_auto_takes_the_fastest_by_mask_and_size():
    def taken(
        length: int, mask: ops.Mask | None, dtype: torch.dtype = torch.bfloat16, width: int = 64, **settings
    ) -> str:
        q = torch.zeros(1, 2, length, width, device="cuda", dtype=dtype)
        return choose(AttentionInputs(q, q, q, mask, settings.get("bias"), 1.0, settings.get("dropout", 0.0)))

    marks = torch.zeros(1, 4096, dtype=torch.bool, device="cuda")
    assert taken(4096, ops.Window(128, 0)) == "flash"
    assert taken(4096, ops.Window(128) | ops.Global(marks)) == "flash"
    assert taken(4096, ops.Window(128, dilation=2) | ops.Global(marks)) == "flex"
    assert taken(4096, ops.Causal(), bias=ops.Alibi(ops.alibi_slopes(2).cuda())) == "flash"
    assert taken(4096, ops.Window(128), dropout=0.1) == "flash"
    assert taken(4096, ops.Window(128, dilation=2), dropout=0.1) == "banded"
    assert taken(4096, ops.Window(128), torch.float32) == "banded"
    assert taken(512, ops.Causal()) == "sdpa"
    assert taken(65, None, width=16) == taken(65, ops.NotSelf(), width=16) == "short"
    assert taken(65, None, width=32) == taken(200, None, width=16) == taken(65, ops.Causal(), width=16) == "sdpa"
    assert taken(4096, ops.Causal(), dropout=0.1) == "sdpa"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_flash_errs_no_more_than_dense_attention_in_the_same_precision(dtype):
    """Against float64, for ragged tiles, grouped heads, ALiBi and a window with a global token."""
    marks = torch.zeros(2, 333, dtype=torch.bool, device="cuda")
    marks[:, 100] = True
    cases = [(ops.Causal(), ops.Alibi(ops.alibi_slopes(H).cuda())), (ops.Window(40) | ops.Global(marks), None)]
    for mask, bias in cases:
        inputs = [torch.randn(2, heads, 333, 64, device="cuda").to(dtype) for heads in (H, G, G)]
        want = ops.attend(*(x.double() for x in inputs), mask=mask, bias=bias, kernel="reference")
        flash, dense = (ops.attend(*inputs, mask=mask, bias=bias, kernel=k).double() for k in ("flash", "reference"))
        assert (flash - want).norm() <= 2 * (dense - want).norm()


def test_flash_compiles_as_it_is():
    leaves = [torch.randn(1, 2, 300, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]

    def twice(*qkv: torch.Tensor) -> torch.Tensor:
        return 2 * ops.attend(*qkv, mask=ops.Causal(), kernel="flash")

    out, expected = torch.compile(twice, fullgraph=True)(*leaves), twice(*leaves)
    torch.testing.assert_close(out, expected, rtol=0, atol=0)
    found = torch.autograd.grad(out.sum(), leaves)
    torch.testing.assert_close(found, torch.autograd.grad(expected.sum(), leaves), rtol=0, atol=0)


@pytest.mark.parametrize(("width", "long"), [(80, 1), (128, 1), (128, T + 1)])
@pytest.mark.parametrize("kind", ["none", "causal", "lengths", "alibi", "window"])
def test_wide_heads_have_the_gradients_of_the_reference_in_the_largest_tiles(monkeypatch, kind, width, long):
    monkeypatch.setattr(tuning, "LONG_QUERIES", long)  # 1: the largest tiles; T + 1: those of shorter texts
    mask = {"alibi": ops.Causal()} | masks()
    bias = ops.Alibi(ops.alibi_slopes(H).cuda()) if kind == "alibi" else None
    inputs = [torch.randn(B, heads, T, width, device="cuda") for heads in (H, G, G)]
    probe = torch.randn(B, H, T, width, device="cuda")

    def outcome(kernel: str, dtype: torch.dtype) -> list[torch.Tensor]:
        leaves = [x.to(dtype).requires_grad_() for x in inputs]
        out = ops.attend(*leaves, mask=mask[kind], bias=bias, kernel=kernel)
        return [out.float(), *(x.float() for x in torch.autograd.grad((out * probe.to(dtype)).sum(), leaves))]

    expected = outcome("reference", torch.float32)
    for got, want in zip(outcome("flash", torch.bfloat16), expected, strict=True):
        torch.testing.assert_close(got, want, atol=6e-2, rtol=6e-2)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_a_compiled_network_takes_gelus_gradient_in_one_pass(monkeypatch, mode):
    monkeypatch.setattr(fused_gelu, "MIN_ELEMENTS", 1)
    network = FeedForward(64, FeedForwardConfig(inner=200, activation="gelu")).cuda()
    x = torch.randn(3, 131, 64, device="cuda", dtype=torch.bfloat16)
    with torch.autocast("cuda", torch.bfloat16):
        if not fused_gelu.is_faster_for(x, network.up.bias):
            pytest.skip("it is not faster here")

    def gradients(run) -> list[torch.Tensor]:
        network.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            out = run(x)
        out.square().sum().backward()
        return [parameter.grad.clone() for parameter in network.parameters()]

    compiled = torch.compile(network, fullgraph=True, mode=mode)
    found = [gradients(compiled) for _ in range(4)][-1]  # captured by then
    monkeypatch.setattr(fused_gelu, "is_faster_for", lambda x, bias: False)
    for mine, theirs in zip(found, gradients(network), strict=True):
        assert (mine - theirs).norm() <= 0.02 * theirs.norm()


@pytest.mark.parametrize(
    ("tokens", "width", "mask"),
    [
        (65, 16, None),
        (65, 16, ops.NotSelf()),
        (197, 64, None),
        (1024, 64, ops.Causal()),
        (4096, 128, ops.Window(64, 0)),
    ],
)
def test_auto_chooses_while_it_is_compiled_without_a_break(tokens, width, mask):
    qkv = [torch.randn(2, 4, tokens, width, device="cuda", dtype=torch.bfloat16) for _ in range(3)]

    def gradients(run) -> list[torch.Tensor]:
        leaves = [x.clone().requires_grad_() for x in qkv]
        out = run(*leaves)
        return [out.detach(), *torch.autograd.grad(out.float().square().sum(), leaves)]

    def auto(q, k, v):
        return ops.attend(q, k, v, mask=mask, kernel="auto")

    torch.compiler.reset()
    for mine, theirs in zip(gradients(torch.compile(auto, fullgraph=True)), gradients(auto), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0.05, atol=0.05)
