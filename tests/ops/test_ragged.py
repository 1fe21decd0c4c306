"""The kernel for rows of unequal length: equal to the reference, and each row to the bit as alone."""

from __future__ import annotations

import pytest
import torch

from headway.errors import KernelError
from headway.ops import Causal, Window, attend
from headway.ops.biases import Alibi


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("kind", ["causal", "window", "bias"])
def test_rows_are_those_of_the_reference_and_do_not_change_each_other(groups: int, kind: str) -> None:
    draw = torch.Generator().manual_seed(0)
    lengths = torch.tensor([0, 4, 17, 63, 30])  # keys before the query
    q = torch.randn(5, 4, 1, 8, generator=draw)
    k, v = (torch.randn(5, groups, 64, 8, generator=draw) for _ in range(2))
    bias = Alibi(torch.tensor([1.0, 0.5, 0.25, 0.1]), offset=lengths) if kind == "bias" else None
    mask = Window(5).at(lengths) & Causal(offset=lengths) if kind == "window" else Causal(offset=lengths)
    found = attend(q, k, v, mask=mask, bias=bias, kernel="ragged")
    torch.testing.assert_close(found, attend(q, k, v, mask=mask, bias=bias, kernel="reference"))
    for row, length in enumerate(lengths.tolist()):
        here, own = slice(row, row + 1), lengths[row : row + 1]
        one = Window(5).at(own) & Causal(offset=own) if kind == "window" else Causal(offset=own)
        alone_bias = None if bias is None else bias.at(own)
        keys = [each[here, :, : length + 1].contiguous() for each in (k, v)]
        alone = attend(q[here], *keys, mask=one, bias=alone_bias, kernel="ragged")
        assert torch.equal(found[here], alone)


def test_what_it_does_not_support_is_refused() -> None:
    q, k = torch.randn(2, 2, 3, 4), torch.randn(2, 2, 5, 4)
    with pytest.raises(KernelError, match="one query"):
        attend(q, k, k, mask=Causal(), kernel="ragged")
    with pytest.raises(KernelError, match="float32"):
        attend(q[:, :, :1].double(), k.double(), k.double(), mask=Causal(offset=4), kernel="ragged")
