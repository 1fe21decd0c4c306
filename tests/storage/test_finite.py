"""The check that no NaN and no infinity is saved or loaded."""

from __future__ import annotations

import math

import pytest
import torch

from headway.storage.finite import first_non_finite

TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e5m2)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 500, 998])
def test_one_bad_number_anywhere_is_found(dtype, value, place):
    good, bad = torch.linspace(-2, 2, 999), torch.linspace(-2, 2, 999)
    bad[place] = value
    assert first_non_finite({"good": good.to(dtype), "bad": bad.to(dtype), "worse": bad.to(dtype)}) == "bad"
    assert first_non_finite({"good": good.to(dtype)}) is None


def test_what_is_not_a_number_of_a_model_is_skipped():
    tensors = {
        "whole": torch.tensor([2**62, -1]),
        "bool": torch.tensor([True]),
        "nothing": torch.empty(0, 3),
        "elsewhere": torch.empty(3, device="meta"),
        "scalar": torch.tensor(1.0),
        "largest": torch.tensor([torch.finfo().max, torch.finfo().min]),  # their difference is infinite
    }
    assert first_non_finite(tensors) is None
    assert first_non_finite({}) is None
    assert first_non_finite({**tensors, "scalar": torch.tensor(math.nan)}) == "scalar"


def test_views_gradients_and_complex_numbers():
    weight = torch.nn.Parameter(torch.ones(4, 6))
    assert first_non_finite({"weight": weight, "turned": weight.t(), "column": weight[:, ::2]}) is None
    with torch.no_grad():
        weight[1, 2] = math.inf
    assert first_non_finite({"column": weight[:, 1::2], "turned": weight.t()}) == "turned"
    spectrum = torch.zeros(3, dtype=torch.complex64)
    assert first_non_finite({"spectrum": spectrum}) is None
    spectrum[1] = complex(0, math.nan)
    assert first_non_finite({"spectrum": spectrum}) == "spectrum"
