"""The Triton kernels agree with `flash_torch` in Triton's interpreter; test_cuda.py runs them compiled on a GPU."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.errors import KernelError
from headway.ops import (
    Alibi,
    Bias,
    Causal,
    Global,
    Lengths,
    Mask,
    NotSelf,
    Packed,
    Prefix,
    Relative,
    Table,
    Window,
    alibi_slopes,
    attend,
    attention_weights,
)
from headway.ops.kernels import flash_torch, reference, triton_flash
from headway.ops.kernels.base import AttentionInputs
from headway.ops.kernels.triton_flash import launch
from headway.ops.kernels.triton_flash.tuning import INTERPRETER_TILES, TileConfig
from headway.ops.mask_structure import BandMask, as_band, global_keys_only
from tests.ops.cases import marks

pytest.importorskip("triton")
with pytest.MonkeyPatch.context() as patch:  # tests/conftest.py imported Triton the same way
    patch.setenv("TRITON_INTERPRET", "0" if torch.cuda.is_available() else "1")
    launch.kernels()
pytestmark = pytest.mark.triton_interpreter
interpreted = pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU the kernels are compiled")

CLOSE = 1e-5  # float32


@dataclass(frozen=True)
class Call32:
    """A call in float32, drawn from a seed."""

    mask: Mask | None = None
    bias: Bias | None = None
    rows: int = 1
    heads: int = 2
    groups: int = 1
    queries: int = 19  # tiles of 16 do not divide it
    keys: int = 35
    width: int = 16
    value_width: int = 16
    scale: float | None = None
    draw: Callable[..., Tensor] = field(default=torch.randn)

    def tensors(self) -> list[Tensor]:
        q = (self.rows, self.heads, self.queries, self.width)
        k, v = ((self.rows, self.groups, self.keys, width) for width in (self.width, self.value_width))
        return [self.draw(shape).float() for shape in (q, k, v)]


def outcome(one: Call32, run, tensors: list[Tensor], probes: list[Tensor]) -> list[Tensor]:
    q, k, v = (x.detach().to(probes[0].dtype).requires_grad_() for x in tensors)
    bias = one.bias
    if isinstance(bias, Alibi):
        bias = Alibi(bias.slopes.to(q.dtype), bias.offset)
    call = AttentionInputs(q, k, v, one.mask, bias, one.width**-0.5 if one.scale is None else one.scale)
    out, lse = run(call)
    alive = lse.masked_fill(lse.isinf(), 0.0)
    ((out * probes[0]).sum() + (alive * probes[1]).sum()).backward()
    return [out.detach(), alive.detach(), *(x.grad for x in (q, k, v))]


def by_flash(call: AttentionInputs) -> tuple[Tensor, Tensor]:
    assert triton_flash.unsupported_reason(call) is None
    band = as_band(call.mask)
    assert isinstance(band, BandMask)
    return triton_flash.attend_with_lse(call, band)


def by_tiles(call: AttentionInputs) -> tuple[Tensor, Tensor]:
    return flash_torch.attend_with_lse(call, flash_torch.TileSize(16, 16))


def agree(one: Call32, unit: float = 1.0) -> None:
    """Outputs, logarithms and gradients; those of q and k have the scale `unit` as a factor."""
    tensors = one.tensors()
    probes = [torch.randn(*tensors[0].shape[:3], one.value_width), torch.randn(tensors[0].shape[:3])]
    got = outcome(one, by_flash, tensors, probes)
    want = outcome(one, by_tiles, tensors, [x.double() for x in probes])
    for name, x, y, size in zip(("out", "lse", "dq", "dk", "dv"), got, want, (1, 1, unit, unit, 1), strict=True):
        torch.testing.assert_close(
            x.double() / size, y / size, rtol=CLOSE, atol=CLOSE, msg=lambda text, name=name: f"{name}: {text}"
        )


SLOPES = alibi_slopes(2)
CASES = {
    "full": Call32(),
    "causal": Call32(Causal(), queries=35, groups=2),
    "causal, later, rows of two": Call32(Causal(offset=16), rows=2),
    "causal, before the keys: fully masked rows": Call32(Causal(offset=-5), keys=19),
    "window": Call32(Window(5), queries=50, keys=50),
    "window of one tile's width": Call32(Window(16), queries=50, keys=50),
    "window of nothing but itself": Call32(Window(0), queries=19, keys=19),
    "causal window": Call32(Window(20, 0), queries=50, keys=50),
    "window ahead": Call32(Window(0, 7), queries=33, keys=20),
    "window far off: fully masked": Call32(Window(3, offset=60)),
    "two windows that never meet": Call32(Window(2) & Window(2, offset=9)),
    "lengths, one of them nothing": Call32(Lengths(torch.tensor([20, 0, 35])), rows=3),
    "causal, lengths": Call32(Causal() & Lengths(torch.tensor([33, 4])), queries=35, rows=2),
    "window, lengths": Call32(Window(9) & Lengths(torch.tensor([17])), queries=35),
    "causal, alibi": Call32(Causal(), Alibi(SLOPES), queries=35),
    "alibi on both sides": Call32(None, Alibi(SLOPES, 3)),
    "causal window, alibi, later": Call32(Window(9, 0, offset=7), Alibi(SLOPES, 7)),
    "window, alibi": Call32(Window(9), Alibi(SLOPES), queries=35),
    "causal, alibi seen from elsewhere": Call32(Causal(offset=7), Alibi(SLOPES, 2)),
    "odd widths": Call32(Causal(), queries=35, width=5, value_width=20),
    "one query, one key": Call32(queries=1, keys=1),
    "four heads share two": Call32(Causal(), heads=4, groups=2, queries=20, keys=20),
    "scale 0": Call32(Causal(), queries=20, keys=20, scale=0.0),
}


@interpreted
@pytest.mark.parametrize("name", CASES)
def test_triton_flash_is_flash_torch(name):
    agree(CASES[name])


@interpreted
@pytest.mark.parametrize("dq", [16, 32])
@pytest.mark.parametrize("dk_dv", [16, 64])
@pytest.mark.parametrize("name", ["causal, alibi", "causal window, alibi, later", "lengths, one of them nothing"])
def test_the_kernels_backwards_may_have_tiles_of_different_sizes(monkeypatch, name, dq, dk_dv):
    chosen = INTERPRETER_TILES._replace(dk_dv=TileConfig(dk_dv, 16, 4, 1), dq=TileConfig(dq, 16, 4, 1))
    monkeypatch.setattr(launch, "select_tiles", lambda q, v, *, small: chosen)
    agree(CASES[name])


@interpreted
def test_logits_of_ten_thousand():
    # Whole numbers: scores are exact, equal ones stay equal, others lie so far apart that weights are 0 or 1.
    def whole(shape):
        return torch.randint(-2, 3, shape)

    agree(Call32(Causal(), queries=35, scale=1024.0, draw=whole), unit=1024.0)


@interpreted
@pytest.mark.parametrize("layout", ["tokens first", "one projection", "not aligned", "expanded"])
def test_any_layout_of_the_inputs(layout):
    def shaped(x: Tensor) -> Tensor:
        if layout == "tokens first":
            return x.transpose(1, 2).contiguous().transpose(1, 2)
        if layout == "one projection":
            return torch.cat([x, x], -1)[..., :16]
        if layout == "not aligned":
            return torch.cat([x, x], -1)[..., 3:19]
        return x[:, :1].expand(-1, 2, -1, -1)

    q, k, v = (shaped(torch.randn(1, 2, 20, 16)) for _ in range(3))
    want = attend(q, k, v, mask=Causal(), kernel="reference")
    torch.testing.assert_close(attend(q, k, v, mask=Causal(), kernel="flash"), want, rtol=CLOSE, atol=CLOSE)


@interpreted
def test_torch_compile_takes_it_as_it_is():
    lengths = torch.tensor([13])

    def twice(x: Tensor) -> Tensor:
        return 2 * attend(x, x, x, mask=Window(5) & Lengths(lengths), kernel="flash")

    q = torch.randn(1, 2, 20, 16, requires_grad=True)
    out = torch.compile(twice, fullgraph=True, backend="aot_eager")(q)
    torch.testing.assert_close(out, twice(q))
    torch.testing.assert_close(*(torch.autograd.grad(x.sum(), q)[0] for x in (out, twice(q))))


def deltas(mask: Mask | None, *, dlse: bool, layout: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """What dQ's kernel leaves for the others, and what it should: heads share keys, widths are no powers of two."""
    q, k, v, grad = (torch.randn(2, heads, 19, width) for heads, width in ((4, 5), (2, 5), (2, 20), (4, 20)))
    band = as_band(mask)
    assert isinstance(band, BandMask)
    rest = launch.FlashArguments(None, band.lengths, None, None, None, band.low, band.high, 0, 0.5, 0.0)
    out, lse = launch.flash(q, k, v, *rest)
    grad_lse = torch.randn(4, 19, 2).permute(2, 0, 1) if dlse else None
    four = [launch.aligned(x) for x in (q, k, v, grad)]
    _, lines = launch.launch_dq(INTERPRETER_TILES, rest, layout(out), lse, grad_lse, *four)
    delta = (out * grad).sum(-1) - (0 if grad_lse is None else grad_lse)
    seen = lse.masked_fill(lse.isinf(), torch.inf) / math.log(2)  # nothing seen: every power is 0
    return [lines, torch.stack([F.pad(seen, (0, 13), value=torch.inf), F.pad(delta, (0, 13))])]


@interpreted
@pytest.mark.parametrize("mask", [Causal(offset=-5), Window(3, offset=60), Lengths(torch.tensor([0, 7]))], ids=str)
@pytest.mark.parametrize("dlse", [True, False])
def test_every_query_has_its_delta_also_where_it_sees_nothing(mask, dlse):
    torch.testing.assert_close(*deltas(mask, dlse=dlse, layout=lambda out: out), rtol=CLOSE, atol=CLOSE)


@interpreted
@pytest.mark.parametrize("layout", ["heads first", "a part of wider rows", "heads outermost"])
def test_the_output_may_come_back_in_another_layout(layout):
    def shaped(out: Tensor) -> Tensor:
        if layout == "heads first":
            return out.contiguous()
        if layout == "a part of wider rows":
            return torch.cat([out, out], -1)[..., :20]
        return out.transpose(0, 1).contiguous().transpose(0, 1)

    torch.testing.assert_close(*deltas(Causal(), dlse=True, layout=shaped), rtol=CLOSE, atol=CLOSE)


def survivors(heads: int, queries: int, keys: int, seed: int, chance: float) -> Tensor:
    """(1, H, T, S): the weights that `triton_flash.common.keep_mask` keeps, computed in 64-bit integers."""

    def mixed(x: Tensor) -> Tensor:
        for _ in range(2):
            x = ((x ^ (x >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
        return x ^ (x >> 16)

    line = mixed((seed + torch.arange(heads) * 0x1B873593) & 0xFFFFFFFF).view(-1, 1, 1)
    row = mixed((torch.arange(queries).view(-1, 1) + line) & 0xFFFFFFFF)
    x = mixed(row ^ ((torch.arange(keys) * 0x27D4EB2F) & 0xFFFFFFFF))
    return ((x >> 8) / 2**24 >= chance)[None]


@interpreted
@pytest.mark.parametrize("mask", [Causal(), Window(5) | Global(marks(1, 35, (0, 20)), seeing=False)], ids=str)
def test_dropout_drops_the_same_forwards_and_backwards(mask):
    chance, tensors, probe = 0.3, [torch.randn(1, 2, 35, 16) for _ in range(3)], torch.randn(1, 2, 35, 16)
    seed = int(torch.randint(2**31 - 1, (1,), generator=torch.Generator().manual_seed(4)))
    keep = survivors(2, 35, 35, seed, chance)
    results = []
    for kernel in ("flash", "dense"):
        q, k, v = (x.clone().requires_grad_() for x in tensors)
        if kernel == "flash":
            stream = torch.Generator().manual_seed(4)
            out = attend(q, k, v, mask=mask, dropout=chance, generator=stream, kernel="flash")
        else:
            out = attention_weights(q, k, mask=mask) * keep / (1 - chance) @ v
        (out * probe).sum().backward()
        results.append([out.detach(), q.grad, k.grad, v.grad])
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=CLOSE, atol=CLOSE)


def test_dropout_keeps_its_share_in_every_direction():
    keep = survivors(4, 300, 300, 12345, 0.3).float()
    for axis in ((0, 1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2)):
        share = keep.mean(axis)
        spread = (0.21 / (keep.numel() / share.numel())) ** 0.5
        assert ((share - 0.7).abs() < 5 * spread).all()
    pairs = (keep[..., 1:] * keep[..., :-1]).mean(), (keep[..., 1:, :] * keep[..., :-1, :]).mean()
    assert all(abs(pair - 0.49) < 0.005 for pair in pairs)  # neighbours know nothing of each other


# --- Longformer: global tokens beside the band ---


LONG = {
    "the first token": (Window(4) | Global(marks(2, 37, (0, 0), (1, 0)))) & Lengths(torch.tensor([37, 20])),
    "some, unevenly": Window(3) | Global(marks(2, 37, (0, 5), (0, 30), (1, 36))),
    "none": Window(3) | Global(marks(2, 37)),
    "seen, not seeing": global_keys_only(
        (Window(3) | Global(marks(2, 37, (0, 5), (1, 36)))) & Lengths(torch.tensor([37, 30]))
    ),
    "looking back": (Window(6, 0) | Global(marks(2, 37, (0, 0)))) & Lengths(torch.tensor([30, 0])),
}


def agree_with_globals(mask: Mask, bias: Bias | None = None) -> None:
    tensors, probe = [torch.randn(2, 2, 37, 16) for _ in range(3)], torch.randn(2, 2, 37, 16)
    results = []
    for kernel in ("flash", "reference"):
        q, k, v = (x.clone().requires_grad_() for x in tensors)
        out = attend(q, k, v, mask=mask, bias=bias, kernel=kernel)
        (out * probe).sum().backward()
        results.append([out.detach(), q.grad, k.grad, v.grad])
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=CLOSE, atol=CLOSE)


@interpreted
@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("bias", [None, Alibi(SLOPES)], ids=["plain", "alibi"])
def test_global_tokens_join_the_band(name, bias):
    if bias is not None and name != "some, unevenly":
        pytest.skip("one case with a bias is enough")
    agree_with_globals(LONG[name], bias)


@interpreted
def test_what_is_read_of_the_queries_fills_whole_tiles_of_the_keys_seen_from_everywhere(monkeypatch):
    add, pitches = launch.add_global_key_gradients, []
    monkeypatch.setattr(launch, "_global_keys_tile", lambda q: TileConfig(64, 1024, 4, 2))  # the largest, as on a GPU
    monkeypatch.setattr(
        launch,
        "add_global_key_gradients",
        lambda dk, dv, args, stats, *four: pitches.append(stats.shape[-1]) or add(dk, dv, args, stats, *four),
    )
    agree_with_globals(LONG["some, unevenly"])
    assert pitches == [64]  # of 37 queries


def test_global_tokens_that_are_seen_and_do_not_see():
    token = Global(marks(1, 5, (0, 2)))
    mask = (Window(0) | token) & Lengths(torch.tensor([4]))
    assert mask.dense(5, 5)[0, 0, 2].tolist() == [True] * 4 + [False]
    near = global_keys_only(mask)
    assert near.dense(5, 5)[0, 0].int().tolist() == [
        [1, 0, 1, 0, 0],
        [0, 1, 1, 0, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 1, 1, 0],
        [0, 0, 1, 0, 0],
    ]
    assert global_keys_only(mask) is near  # what kernels keep with it is kept
    assert global_keys_only(Window(2) | token).parts[1] is near.parts[0].parts[1]
    q, k, v = (torch.randn(2, 2, 37, 4) for _ in range(3))
    mask = LONG["seen, not seeing"]
    want = attend(q, k, v, mask=mask, kernel="reference")
    torch.testing.assert_close(attend(q, k, v, mask=mask, kernel="banded"), want, rtol=CLOSE, atol=CLOSE)


# --- unsupported inputs ---

UNSUPPORTED = {
    "dilation": ({"mask": Window(2, dilation=2)}, r"Window has dilation=2, a band must have dilation=1"),
    "dilation a head": ({"mask": Window(2, dilation=(1, 3))}, r"Window has dilation=\(1, 3\)"),
    "packed": ({"mask": Packed(torch.zeros(1, 9, dtype=torch.long))}, "Packed is not a band"),
    "prefix": ({"mask": Causal() & Prefix(3)}, "Prefix is not a band"),
    "not self": ({"mask": NotSelf()}, "NotSelf is not a band"),
    "table": ({"mask": Table(torch.ones(1, 9, 9, dtype=torch.bool))}, "Table is not a band"),
    "an offset a row": ({"mask": Causal(offset=torch.tensor([1]))}, r"Causal.offset is a tensor"),
    "or": ({"mask": Window(2) | Causal()}, r"combined by \| are a band only as one Window \| Global"),
    "global and causal": (
        {"mask": (Window(2) | Global(torch.zeros(1, 9, dtype=torch.bool))) & Causal()},
        "combined only with Lengths",
    ),
    "relative": ({"bias": Relative(torch.zeros(1, 2, 1, 3))}, "flash supports no bias except Alibi, got Relative"),
    "learned slopes": ({"bias": Alibi(SLOPES.clone().requires_grad_())}, r"does not compute gradients of Alibi.slopes"),
    "alibi a row": ({"bias": Alibi(SLOPES, torch.tensor([1]))}, r"Alibi.offset to be a number"),
    "scale": ({"scale": -1.0}, r"scale of at least 0, got -1.0"),
}


@interpreted
@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_inputs_raise(name):
    arguments, message = UNSUPPORTED[name]
    q = torch.randn(1, 2, 9, 16)
    with pytest.raises(KernelError, match=rf"kernel='flash' does not support these inputs: .*{message}"):
        attend(q, q, q, kernel="flash", **arguments)


@interpreted
def test_wide_heads_and_double_precision_raise():
    q = torch.randn(1, 2, 9, 256)
    with pytest.raises(KernelError, match="heads up to 128 wide, q is 256"):
        attend(q, q, q, kernel="flash")
    q = torch.randn(1, 2, 9, 16, dtype=torch.float64)
    with pytest.raises(KernelError, match="does not support float64, only bfloat16, float16 and float32"):
        attend(q, q, q, kernel="flash")


def test_without_triton_it_raises(monkeypatch):
    monkeypatch.setattr("headway._compile._found", lambda package: False)
    q = torch.randn(1, 2, 9, 16)
    with pytest.raises(KernelError, match="Triton is not installed"):
        attend(q, q, q, kernel="flash")


def test_on_a_cpu_without_the_interpreter_it_raises(monkeypatch):
    monkeypatch.setattr(launch, "interpreted", lambda: False)
    q = torch.randn(1, 2, 9, 16)
    with pytest.raises(KernelError, match=r"needs a CUDA GPU, q is on cpu .*TRITON_INTERPRET=1"):
        attend(q, q, q, kernel="flash")


def test_cudnn_raises_on_a_cpu():
    q = torch.randn(1, 2, 9, 64, dtype=torch.bfloat16)
    with pytest.raises(KernelError, match="cudnn needs a CUDA GPU"):
        attend(q, q, q, kernel="cudnn")


def test_the_reference_agrees_with_both_on_a_plain_call():
    q = torch.randn(1, 2, 20, 16)
    call = AttentionInputs(q, q, q, Causal(), None, 0.25)
    torch.testing.assert_close(by_tiles(call)[0], reference.run(call), rtol=CLOSE, atol=CLOSE)


@interpreted
def test_without_gradients_the_kernel_is_called_without_the_operator():
    q = torch.randn(2, 2, 40, 16)
    mask = (Window(4) | Global(marks(2, 40, (0, 0), (0, 9), (1, 0)))) & Lengths(torch.tensor([40, 30]))
    with torch.no_grad():
        plain = attend(q, q, q, mask=mask, kernel="flash")
    leaf = q.clone().requires_grad_()
    assert torch.equal(attend(leaf, leaf, leaf, mask=mask, kernel="flash"), plain)


@interpreted
def test_forward_mode_ad_raises_instead_of_dropping_tangents():
    q = torch.randn(1, 2, 9, 16)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(q, q)
        for kernel in ("flash", "flex"):
            with pytest.raises(KernelError, match=rf"{kernel} does not support forward-mode AD \(torch.func.jvp\)"):
                attend(dual, q, q, kernel=kernel)
