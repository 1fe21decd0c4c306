"""Windows with global tokens and a dilation a head: every kernel against the dense formula, and what it costs."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from headway.errors import KernelError, ShapeError
from headway.ops import Alibi, Causal, Global, Lengths, Mask, Window, alibi_slopes, attend
from headway.ops.attend import choose
from headway.ops.kernels import banded
from headway.ops.kernels.base import AttentionInputs
from tests.ops.cases import unfused

HEADS = 3
EXACT = 1e-10  # float64


@dataclass(frozen=True)
class Drawn:
    """A pattern, and the numbers it was made of."""

    length: int
    radius: int
    dilation: tuple[int, ...]
    lengths: list[int]
    marks: list[list[bool]]
    causal: bool
    pieces: int

    @property
    def mask(self) -> Mask:
        window = Window(self.radius, 0 if self.causal else None, self.dilation)
        mask = (window | Global(torch.tensor(self.marks))) & Lengths(torch.tensor(self.lengths))
        return mask & Causal() if self.causal else mask

    def may(self, b: int, h: int, i: int, j: int) -> bool:
        """Longformer's rule in plain Python."""
        if j >= self.lengths[b] or (self.causal and j > i):
            return False
        if self.marks[b][i] or self.marks[b][j]:
            return True
        step = self.dilation[h % len(self.dilation)]
        return (j - i) % step == 0 and abs(j - i) <= self.radius * step


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    length = draw(st.sampled_from((1, 2, 5, 17, 33, 50, 71)))
    rows = draw(st.integers(1, 2))
    by_head = st.tuples(*[st.integers(1, 3)] * HEADS)
    few = st.lists(st.integers(0, 9).map(lambda n: n == 0), min_size=length, max_size=length)
    return Drawn(
        length=length,
        radius=draw(st.integers(0, 9)),
        dilation=draw(st.one_of(st.integers(1, 3).map(lambda n: (n,)), by_head)),
        lengths=[draw(st.integers(0, length)) for _ in range(rows)],
        marks=[draw(few) for _ in range(rows)],
        causal=draw(st.booleans()),
        pieces=draw(st.sampled_from((1, 2**9, 2**20))),
    )


def tensors(one: Drawn, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    size = (len(one.lengths), HEADS, one.length, 4)
    return [torch.randn(size, dtype=torch.float64, generator=generator) for _ in range(4)]


def outcome(kernel: str, one: Drawn, **settings) -> list[Tensor]:
    """The output, and the gradients of q, k and v."""
    q, k, v, probe = tensors(one)
    qkv = [x.requires_grad_() for x in (q, k, v)]
    out = attend(*qkv, mask=one.mask, kernel=kernel, **settings)
    return [out.detach(), *torch.autograd.grad((out * probe).sum(), qkv, materialize_grads=True)]


@settings(max_examples=60)
@given(drawn())
def test_the_mask_is_longformers_rule(one):
    want = [
        [[[one.may(b, h, i, j) for j in range(one.length)] for i in range(one.length)] for h in range(HEADS)]
        for b in range(len(one.lengths))
    ]
    got = one.mask.dense(one.length, one.length).expand(len(one.lengths), HEADS, one.length, one.length)
    assert got.tolist() == want


@settings(max_examples=150)
@given(drawn())
def test_banded_is_the_dense_reference_with_gradients(one):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(banded.MAX_SCORES, "cpu", one.pieces)
        got = outcome("banded", one)
    for ours, want in zip(got, outcome("reference", one), strict=True):
        torch.testing.assert_close(ours, want, rtol=EXACT, atol=EXACT)


@settings(max_examples=60)
@given(drawn())
def test_flex_is_the_dense_reference(one):
    q, k, v, _ = tensors(one)
    want = attend(q, k, v, mask=one.mask, kernel="reference")
    torch.testing.assert_close(unfused(q, k, v, one.mask, None), want, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("kernel", ["banded", "sdpa"])
def test_a_bias_falls_on_strips_columns_and_rows(kernel, monkeypatch):
    monkeypatch.setitem(banded.MAX_SCORES, "cpu", 1)
    marks = [[i in (0, 30) for i in range(50)]]
    one = Drawn(50, 3, (1, 2, 1), [44], marks, causal=False, pieces=1)
    bias = Alibi(alibi_slopes(HEADS).double())
    for got, want in zip(outcome(kernel, one, bias=bias), outcome("reference", one, bias=bias), strict=True):
        torch.testing.assert_close(got, want, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("marked", [0, 2])
def test_dropout_backwards_drops_what_it_dropped_forwards(marked, monkeypatch):
    monkeypatch.setitem(banded.MAX_SCORES, "cpu", 1)
    q, k, v, probe = tensors(Drawn(60, 3, (1,), [60], [], causal=False, pieces=1))
    mask = Window(3) | Global((torch.arange(60) < marked).view(1, 60))

    def run(v: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(3)
        return attend(q, k, v, mask=mask, dropout=0.4, generator=generator, kernel="banded")

    # The output is linear in v, so what its gradient says of v is the output itself if the same weights fell away.
    k.requires_grad_()
    v.requires_grad_()
    out = run(v)
    (grad,) = torch.autograd.grad((out * probe).sum(), v)
    assert not torch.equal(out, attend(q, k, v, mask=mask, kernel="banded"))
    torch.testing.assert_close((grad * v).sum(), (out * probe).sum(), rtol=EXACT, atol=EXACT)
    assert torch.equal(out, run(v))


def test_a_window_as_wide_as_the_text_is_full_attention():
    q, k, v, _ = tensors(Drawn(21, 0, (1,), [21, 21], [], causal=False, pieces=1))
    for kernel in ("banded", "reference", "sdpa"):
        got = attend(q, k, v, mask=Window(20), kernel=kernel)
        torch.testing.assert_close(got, attend(q, k, v, kernel="reference"), rtol=EXACT, atol=EXACT)


def test_memory_is_bounded_backwards_too(monkeypatch):
    """What is kept between the passes is the inputs: no weights, no masks."""
    monkeypatch.setitem(banded.MAX_SCORES, "cpu", 2**12)
    kept: list[int] = []
    q, k, v = (torch.randn(1, 2, 900, 4, requires_grad=True) for _ in range(3))

    def pack(x: Tensor) -> Tensor:
        kept.append(x.numel())
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        attend(q, k, v, mask=Window(50), kernel="banded")
    assert sum(kept) <= 4 * q.numel()


# --- choice, errors and memory ---


def test_auto_takes_strips_for_a_window_with_global_tokens():
    q = torch.zeros(1, 2, 400, 4)
    marks = torch.zeros(1, 400, dtype=torch.bool)
    assert choose(AttentionInputs(q, q, q, Window(20) | Global(marks), None, 1.0)) == "banded"
    assert choose(AttentionInputs(q, q, q, Window(60) | Global(marks), None, 1.0)) == "sdpa"
    assert choose(AttentionInputs(q, q, q, Window(20) | Global(marks) | Global(marks), None, 1.0)) == "sdpa"


def test_what_banded_does_not_support():
    q = torch.zeros(1, 2, 40, 4)
    marks = torch.zeros(1, 40, dtype=torch.bool)
    with pytest.raises(KernelError, match="finite reach"):
        attend(q, q, q, mask=Window(2) | Global(marks) | Global(marks), kernel="banded")
    with pytest.raises(ShapeError, match="mask is for 3 heads"):
        attend(q, q, q, mask=Window(2, dilation=(1, 2, 2)))
    with pytest.raises(ShapeError, match="dilation >= 1"):
        Window(2, dilation=(1, 0))


def test_masks_are_freed_with_their_last_reference():
    """What is cached on a mask must not refer to it: a reference cycle would hold GPU memory until a collection."""
    marks = torch.zeros(1, 40, dtype=torch.bool)
    marks[0, 3] = True
    q = torch.randn(1, 2, 40, 8)
    gc.collect()
    gc.disable()
    try:
        for make in (lambda: Window(4) | Global(marks), lambda: Global(marks)):
            mask = make()
            attend(q, q, q, mask=mask, kernel="auto" if isinstance(mask, Global) else "banded")
            gone = weakref.ref(mask)
            del mask
            assert gone() is None
    finally:
        gc.enable()
