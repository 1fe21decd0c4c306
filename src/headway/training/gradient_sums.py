"""Sums of micro-batches' gradients, added in an order that does not depend on how many ranks share them out.

Floating-point addition is not associative. Micro-batches are therefore added as a binary tree over their numbers: a
range is the sum of its first half and its second half. A rank of W = 2^k has one of the 2^k subtrees of equal size, so
that W ranks, which add their sums pairwise, compute the very tree of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn


def pairwise_sum(tensors: Sequence[Tensor]) -> Tensor:
    """The sum of tensors, half by half."""
    if len(tensors) == 1:
        return tensors[0]
    middle = len(tensors) // 2
    return pairwise_sum(tensors[:middle]) + pairwise_sum(tensors[middle:])


def backpropagate_pairwise(parameters: Sequence[nn.Parameter], backward: Callable[[int], None], count: int) -> None:
    """Backpropagate micro-batches 0 … count-1 by `backward`, with their gradients added half by half.

    Autograd adds two micro-batches itself; of more, up to log2(count) - 1 sums are held beside the gradients.
    """
    _add_range(parameters, backward, 0, count)


def _add_range(parameters: Sequence[nn.Parameter], backward: Callable[[int], None], begin: int, end: int) -> None:
    if end - begin <= 2:
        for number in range(begin, end):
            backward(number)
        return
    middle = begin + (end - begin) // 2
    _add_range(parameters, backward, begin, middle)
    left = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    _add_range(parameters, backward, middle, end)
    with torch.no_grad():
        for parameter, before in zip(parameters, left, strict=True):
            if before is not None:
                parameter.grad = before if parameter.grad is None else before.add_(parameter.grad)
