"""Errors that `attend` and the masks raise before any kernel runs, and their messages."""

import math

import pytest
import torch

from headway.errors import ShapeError
from headway.ops import Alibi, Causal, Global, Lengths, NotSelf, Packed, Prefix, Relative, Window, attend
from tests.ops.cases import marks

q_, k_, v_ = (torch.zeros(shape) for shape in ((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 3)))
marks_ = torch.zeros(2, 7, dtype=torch.bool)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"q": q_[0]}, "q has 3 dimensions (4, 5, 8), expected 4: (B H T E)"),
        ({"k": k_[0]}, "k has 3 dimensions (2, 7, 8), expected 4: (B G S E)"),
        ({"v": v_[None]}, "v has 5 dimensions (1, 2, 2, 7, 3), expected 4: (B G S W)"),
        ({"k": k_[:1]}, "k has B=1 in shape (1, 2, 7, 8), expected B=2 (B G S E)"),
        ({"v": v_[:1]}, "v has B=1 in shape (1, 2, 7, 3), expected B=2 (B G S W)"),
        ({"k": k_[..., :6]}, "k has E=6 in shape (2, 2, 7, 6), expected E=8 (B G S E)"),
        ({"v": v_[:, :, :6]}, "v has S=6 in shape (2, 2, 6, 3), expected S=7 (B G S W)"),
        ({"v": v_[:, :1]}, "v has G=1 in shape (2, 1, 7, 3), expected G=2 (B G S W)"),
        ({"q": q_[:, :3]}, "q has H=3 heads, k and v have G=2: G must divide H"),
        ({"k": k_[:, :0], "v": v_[:, :0]}, "q has H=4 heads, k and v have G=0: G must divide H"),
        (
            {"v": v_.double()},
            "q, k and v must share one dtype, got torch.float32, torch.float32, torch.float64",
        ),
        ({"dropout": 1.0}, "dropout=1.0, allowed: at least 0 and below 1"),
        ({"dropout": -0.1}, "dropout=-0.1, allowed: at least 0 and below 1"),
        ({"dropout": math.nan}, "dropout=nan, allowed: at least 0 and below 1"),
        ({"scale": torch.ones(3)}, "scale has shape (3,), allowed: a number, () or (H=4,)"),
        ({"mask": Lengths(torch.ones(3))}, "mask Lengths has shape (3,), the batch needs (2,)"),
        ({"mask": Causal() & Lengths(torch.ones(3))}, "mask Lengths has shape (3,), the batch needs (2,)"),
        ({"mask": Causal(offset=torch.ones(3))}, "Causal.offset has shape (3,), expected a number or (2,)"),
        (
            {"mask": Window(1, offset=torch.ones(2, 1))},
            "Window.offset has shape (2, 1), expected a number or (2,)",
        ),
        ({"mask": NotSelf(offset=torch.ones(1))}, "NotSelf.offset has shape (1,), expected a number or (2,)"),
        ({"mask": Prefix(torch.ones(3))}, "mask Prefix.length has shape (3,), the batch needs (2,)"),
        ({"mask": Packed(marks_[:, :6])}, "mask Packed has shape (2, 6), the call needs (2, 7)"),
        ({"mask": Causal() | Global(marks_[:1])}, "mask Global has shape (1, 7), the call needs (2, 7)"),
        (
            {"mask": Packed(marks_, offset=3)},
            "mask Packed labels 7 keys, but the last query is at position 7",
        ),
        ({"bias": Alibi(torch.ones(3))}, "Alibi.slopes has shape (3,), expected (H=4,)"),
        (
            {"bias": Relative(torch.ones(1, 3, 1, 5))},
            "Relative.table has shape (1, 3, 1, 5), expected (2 or 1, 4 or 1, 5 or 1, an odd number)",
        ),
        (
            {"bias": Relative(torch.ones(1, 4, 1, 6))},
            "Relative.table has shape (1, 4, 1, 6), expected (2 or 1, 4 or 1, 5 or 1, an odd number)",
        ),
        (
            {"bias": Relative(torch.ones(4, 1, 5))},
            "Relative.table has shape (4, 1, 5), expected (2 or 1, 4 or 1, 5 or 1, an odd number)",
        ),
        (
            {"bias": Relative(torch.ones(2, 4, 6, 5))},
            "Relative.table has shape (2, 4, 6, 5), expected (2 or 1, 4 or 1, 5 or 1, an odd number)",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("kernel", ["auto", "reference"])
def test_arguments_that_do_not_fit_raise(kernel, arguments, message):
    with pytest.raises(ShapeError) as refusal:
        attend(**{"q": q_, "k": k_, "v": v_, "kernel": kernel} | arguments)
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    "bias",
    [
        Alibi(torch.ones(4), offset=torch.zeros(3, dtype=torch.long)),
        Relative(torch.ones(1, 4, 1, 3), offset=torch.zeros(3, dtype=torch.long)),
    ],
    ids=["alibi", "relative"],
)
def test_a_bias_offset_for_another_batch_raises(bias):
    with pytest.raises(ShapeError, match=r"offset has shape \(3,\), expected a number or \(2,\)"):
        attend(q_, k_, v_, bias=bias)


@pytest.mark.parametrize("kind", [Packed, Global])
def test_a_label_mask_raises_for_queries_before_the_first_key(kind):
    with pytest.raises(ShapeError, match=r"position -1"):
        attend(q_, k_, v_, mask=kind(marks_, offset=-1))


def test_global_marks_that_are_not_boolean_raise():
    with pytest.raises(ShapeError, match="Global"):
        attend(q_, k_, v_, mask=Global(marks_.long()))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mask": torch.ones(3, 3, dtype=torch.bool)}, "mask is a Tensor, expected a headway Mask"),
        ({"bias": torch.zeros(3, 3)}, "bias is a Tensor, expected a headway Bias"),
    ],
)
def test_a_plain_tensor_for_a_mask_or_bias_raises(settings, message):
    q = torch.zeros(1, 2, 3, 4)
    with pytest.raises(ShapeError, match=message):
        attend(q, q, q, **settings)
    with pytest.raises(ShapeError, match="expected floating point"):
        attend(q.long(), q.long(), q.long())
    with pytest.raises(ShapeError, match="cannot be combined with a Tensor"):
        _ = Causal() & torch.ones(3, 3)


def test_global_tokens_by_their_places():
    assert Global.of([[0, 3], []], 4).marks.tolist() == [[True, False, False, True], [False] * 4]
    for place in (-1, 4):
        with pytest.raises(ShapeError, match=rf"global token {place} of row 1, allowed: 0 to 3"):
            Global.of([[0], [place]], 4)


def test_a_negative_window_and_marks_of_another_length_raise():
    q = torch.randn(1, 2, 9, 16)
    with pytest.raises(ShapeError, match=r"left and right must be >= 0"):
        Window(-1)
    with pytest.raises(ShapeError, match=r"Global has shape \(1, 12\), the call needs \(1, 9\)"):
        attend(q, q, q, mask=Window(2) | Global(marks(1, 12, (0, 11))), kernel="flash")
