"""FlexAttention: equal to the reference when compiled, errors for what is unsupported, and its block masks."""

import pytest
import torch
from torch import Tensor
from torch._inductor.exc import InductorError
from torch.nn.attention.flex_attention import create_block_mask

from headway.errors import AdviceWarning, KernelError
from headway.ops import Alibi, Causal, Global, Lengths, Packed, Relative, Window, alibi_slopes, attend
from headway.ops.kernels import flex
from tests.ops.cases import HEADS, SINGLE, call_of, qkv

COMPILED = {
    "causal, alibi, grouped": (
        {"queries": 33, "keys": 40, "groups": 2, "width": 16, "value_width": 16},
        Causal(offset=7),
        Alibi(alibi_slopes(HEADS), offset=7),
    ),
    "lengths with an empty row, relative": (
        {"queries": 130, "keys": 130, "groups": 4, "width": 16, "value_width": 16},
        Lengths(torch.tensor([0, 77])) & Causal(),
        Relative(torch.linspace(-1, 1, HEADS * 9).view(1, HEADS, 1, 9)),
    ),
    "window or global, narrow values": (
        {"queries": 150, "keys": 150, "groups": 1, "width": 16, "value_width": 8},
        Window(9) | Global(torch.arange(300).view(2, 150) % 61 == 0),
        None,
    ),
}


@pytest.mark.parametrize(
    "name",
    [name if n == 0 else pytest.param(name, marks=pytest.mark.slow) for n, name in enumerate(COMPILED)],
)
def test_flex_compiled_is_the_reference(name):
    sizes, mask, bias = COMPILED[name]
    q, k, v = qkv(**sizes)
    if reason := flex.compiler_missing("cpu"):
        pytest.skip(reason)
    out = attend(q, k, v, mask=mask, bias=bias, kernel="flex")
    want = attend(q, k, v, mask=mask, bias=bias, kernel="reference")
    torch.testing.assert_close(out, want, rtol=SINGLE, atol=SINGLE)


def test_flex_with_dropout_raises_and_names_an_alternative():
    with pytest.raises(
        KernelError,
        match=r"kernel='flex' does not support these inputs: flex does not support dropout; use kernel='sdpa'",
    ):
        attend(*qkv(), dropout=0.1, kernel="flex")


@pytest.mark.parametrize("which", ["q", "k", "v", "bias", "scale"])
def test_flex_on_a_cpu_raises_for_any_tensor_that_requires_grad(which):
    q, k, v = qkv()
    table, scale = torch.randn(1, HEADS, 1, 3), torch.ones(HEADS)
    {"q": q, "k": k, "v": v, "bias": table, "scale": scale}[which].requires_grad_()
    with pytest.raises(KernelError, match="no backward pass on a CPU; use kernel='sdpa' or 'banded'"):
        attend(q, k, v, bias=Relative(table), scale=scale, kernel="flex")
    with torch.no_grad():
        assert flex.unsupported_reason(call_of(q, k, v, bias=Relative(table))) is None


def test_flex_falls_back_to_sdpa_with_one_warning_where_there_is_no_compiler(monkeypatch):
    flex._warn_fallback.cache_clear()
    monkeypatch.setattr(flex, "compiler_missing", lambda device: f"no compiler for {device}")
    q, k, v = qkv()
    with pytest.warns(AdviceWarning) as heard:
        out = attend(q, k, v, mask=Causal(offset=2), kernel="flex")
    (warning,) = heard
    line = (
        "falling back from flex to sdpa: no compiler for cpu; install it, or use kernel='sdpa' to silence this warning"
    )
    assert str(warning.message) == line
    assert torch.equal(out, attend(q, k, v, mask=Causal(offset=2), kernel="sdpa"))
    again = attend(
        q, k, v, mask=Causal(offset=2), kernel="flex"
    )  # a second warning would be an error: see pyproject.toml
    assert torch.equal(again, out)
    flex._warn_fallback.cache_clear()


def test_flex_falls_back_to_sdpa_where_compiling_fails(monkeypatch):
    def broken(*arguments, **options):
        raise InductorError(RuntimeError("boom\nand more"), None)

    flex._warn_fallback.cache_clear()
    monkeypatch.setattr(flex, "_compiled", lambda: broken)
    monkeypatch.setattr(flex, "compiler_missing", lambda device: None)
    q, k, v = qkv()
    with pytest.warns(AdviceWarning, match=r"compiling it failed \(RuntimeError: boom\)") as heard:
        out = attend(q, k, v, kernel="flex")
    assert len(heard) == 1
    assert "\n" not in str(heard[0].message)
    assert torch.equal(out, attend(q, k, v, kernel="sdpa"))
    flex._warn_fallback.cache_clear()


def test_flex_makes_one_block_mask_for_every_mask_of_the_same_structure():
    q, k, v = qkv()
    one, other = (flex.block_mask(call_of(q, k, v, Window(3) & Causal(offset=2))) for _ in range(2))
    assert one is other
    assert one is not flex.block_mask(call_of(q, k, v, Window(3) & Causal(offset=1)))


def test_flex_makes_the_block_mask_of_a_mask_with_tensors_once():
    q, k, v = qkv()
    mask = Lengths(torch.tensor([2, 5]))
    one, other = (flex.block_mask(call_of(q, k, v, mask)) for _ in range(2))
    assert one is other
    assert one is not flex.block_mask(call_of(q, k, v, Lengths(torch.tensor([2, 5]))))


def test_flex_block_mask_of_a_0d_offset_fits_every_batch_size():
    mask = Causal(offset=torch.tensor(3))
    for rows in (2, 3):
        block = flex.block_mask(call_of(*qkv(rows=rows), mask))
        assert block.shape[0] in (1, rows)


@pytest.mark.parametrize("length", [100, 128, 500, 640])
@pytest.mark.parametrize(
    "make",
    [
        lambda n, marks: Window(70),
        lambda n, marks: Window(200, 0, dilation=(1, 1, 2)),
        lambda n, marks: (Window(40) | Global(marks)) & Lengths(torch.tensor([n, n // 3])),
        lambda n, marks: (Window(300, dilation=(1, 2, 1)) | Global(marks)) & Lengths(torch.tensor([n, 0])),
        lambda n, marks: Window(150, 0) & Packed(marks.long().cumsum(1)),
    ],
)
def test_band_block_masks_are_those_of_create_block_mask(make, length):
    marks = torch.arange(2 * length).view(2, length) % (length - 3) == 2
    mask = make(length, marks)
    rows, heads = (2 if mask.tensors else 1), mask.heads

    def allowed(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return mask.allowed(b, h, i, j)

    got = flex.band_block_mask(mask, allowed, rows, heads, length, length, torch.device("cpu"))
    want = create_block_mask(allowed, rows, heads, length, length, device="cpu")
    assert torch.equal(got.to_dense(), want.to_dense())
    assert torch.equal(got.full_kv_num_blocks, want.full_kv_num_blocks)
    assert torch.equal(got.kv_num_blocks, want.kv_num_blocks)
    assert got.seq_lengths == want.seq_lengths
