"""Cases of attention for the kernels to agree on, each with its meaning told a second time in plain Python.

A builder takes `pick(low, high)`, an integer from a seeded stream. Hypothesis draws the sizes, the kinds and the seed:
what it finds shrinks to the smallest sizes and the fewest masks, while the numbers in them stay well mixed.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement
from unittest.mock import patch

import torch
import torch.nn.attention.flex_attention as torch_flex
from hypothesis import strategies as st
from torch import Tensor

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
    Window,
    alibi_slopes,
    attend,
)
from headway.ops.kernels import flex
from headway.ops.kernels.base import AttentionInputs

HEADS = 4
SINGLE = 1e-5  # float32
WITH_GRADIENT = ("reference", "sdpa", "banded")

Pick = Callable[[int, int], int]


def picker(seed: int) -> Pick:
    return random.Random(seed).randint


@dataclass(frozen=True)
class Sizes:
    rows: int = 2
    queries: int = 5
    keys: int = 7
    groups: int = 2
    width: int = 4
    value_width: int = 3

    @property
    def labelled(self) -> bool:
        """Can every query carry the label of a key, as Packed and Global need?"""
        return self.queries <= self.keys


# --- masks ---


@dataclass(frozen=True)
class Rule:
    """A mask, and what it means: may query i look at key j in row b?"""

    mask: Mask | None
    may: Callable[[int, int, int], bool]

    def __and__(self, other: "Rule") -> "Rule":
        return Rule(self.mask & other.mask, lambda b, i, j: self.may(b, i, j) and other.may(b, i, j))

    def __or__(self, other: "Rule") -> "Rule":
        return Rule(self.mask | other.mask, lambda b, i, j: self.may(b, i, j) or other.may(b, i, j))

    def grid(self, sizes: Sizes) -> Tensor:
        """(B, 1, T, S), asked cell by cell."""
        cells = [
            [[bool(self.may(b, i, j)) for j in range(sizes.keys)] for i in range(sizes.queries)]
            for b in range(sizes.rows)
        ]
        return torch.tensor(cells, dtype=torch.bool).view(sizes.rows, 1, sizes.queries, sizes.keys)


EVERYTHING = Rule(None, lambda b, i, j: True)


def many(pick: Pick, count: int, low: int, high: int) -> list[int]:
    return [pick(low, high) for _ in range(count)]


def causal(pick: Pick, n: Sizes) -> Rule:
    offset = pick(-2, n.keys)  # below zero the first queries have no allowed key
    return Rule(Causal(offset=offset), lambda b, i, j: j <= i + offset)


def causal_by_row(pick: Pick, n: Sizes) -> Rule:
    offset = many(pick, n.rows, -2, n.keys)
    return Rule(Causal(offset=torch.tensor(offset)), lambda b, i, j: j <= i + offset[b])


def steps(left: int, right: int, dilation: int) -> set[int]:
    return {step * dilation for step in range(-left, right + 1)}


def window(pick: Pick, n: Sizes) -> Rule:
    radius, offset = pick(0, 3), pick(-2, n.keys + 4)  # far enough to leave queries without a key
    return Rule(Window(radius, offset=offset), lambda b, i, j: abs(j - (i + offset)) <= radius)


def window_asymmetric(pick: Pick, n: Sizes) -> Rule:
    left, right, offset = pick(0, 4), pick(0, 4), pick(-2, 2)
    near = steps(left, right, 1)
    return Rule(Window(left, right, offset=offset), lambda b, i, j: j - i - offset in near)


def window_one_sided(pick: Pick, n: Sizes) -> Rule:
    reach = pick(0, 4)
    if pick(0, 1):
        return Rule(Window(reach, 0), lambda b, i, j: i - reach <= j <= i)
    return Rule(Window(0, reach), lambda b, i, j: i <= j <= i + reach)


def window_dilated(pick: Pick, n: Sizes) -> Rule:
    left, right, dilation, offset = pick(0, 3), pick(0, 3), pick(2, 3), pick(-1, 2)
    near = steps(left, right, dilation)
    return Rule(Window(left, right, dilation=dilation, offset=offset), lambda b, i, j: j - i - offset in near)


def window_by_row(pick: Pick, n: Sizes) -> Rule:
    radius, offset = pick(0, 3), many(pick, n.rows, -2, n.keys)
    return Rule(Window(radius, offset=torch.tensor(offset)), lambda b, i, j: abs(j - (i + offset[b])) <= radius)


def lengths(pick: Pick, n: Sizes) -> Rule:
    real = many(pick, n.rows, 0, n.keys)
    return Rule(Lengths(torch.tensor(real)), lambda b, i, j: j < real[b])


def lengths_with_empty_row(pick: Pick, n: Sizes) -> Rule:
    real = [0, *many(pick, n.rows - 1, 0, n.keys)]
    return Rule(Lengths(torch.tensor(real)), lambda b, i, j: j < real[b])


def packed(pick: Pick, n: Sizes) -> Rule:
    marks = [sorted(many(pick, n.keys, 0, 2)) for _ in range(n.rows)]
    offset = pick(0, n.keys - n.queries)
    mask = Packed(torch.tensor(marks).view(n.rows, n.keys), offset=offset)
    return Rule(mask, lambda b, i, j: marks[b][i + offset] == marks[b][j])


def packed_by_row(pick: Pick, n: Sizes) -> Rule:
    marks = [many(pick, n.keys, 0, 2) for _ in range(n.rows)]  # not in one piece: only equality counts
    offset = many(pick, n.rows, 0, n.keys - n.queries)
    mask = Packed(torch.tensor(marks).view(n.rows, n.keys), offset=torch.tensor(offset))
    return Rule(mask, lambda b, i, j: marks[b][i + offset[b]] == marks[b][j])


def prefix(pick: Pick, n: Sizes) -> Rule:
    length, offset = pick(0, n.keys), pick(-2, 2)
    return Rule(Prefix(length, offset=offset), lambda b, i, j: j < length or j <= i + offset)


def prefix_by_row(pick: Pick, n: Sizes) -> Rule:
    length, offset = many(pick, n.rows, 0, n.keys), pick(-2, 2)
    return Rule(Prefix(torch.tensor(length), offset=offset), lambda b, i, j: j < length[b] or j <= i + offset)


def global_(pick: Pick, n: Sizes) -> Rule:
    marks = [[draw == 0 for draw in many(pick, n.keys, 0, 3)] for _ in range(n.rows)]
    offset = pick(0, n.keys - n.queries)
    mask = Global(torch.tensor(marks, dtype=torch.bool).view(n.rows, n.keys), offset=offset)
    return Rule(mask, lambda b, i, j: marks[b][i + offset] or marks[b][j])


def not_self(pick: Pick, n: Sizes) -> Rule:
    offset = pick(-2, n.keys)
    return Rule(NotSelf(offset=offset), lambda b, i, j: j != i + offset)


MASKS: dict[str, Callable[[Pick, Sizes], Rule]] = {
    "causal": causal,
    "causal_by_row": causal_by_row,
    "window": window,
    "window_asymmetric": window_asymmetric,
    "window_one_sided": window_one_sided,
    "window_dilated": window_dilated,
    "window_by_row": window_by_row,
    "lengths": lengths,
    "lengths_with_empty_row": lengths_with_empty_row,
    "packed": packed,
    "packed_by_row": packed_by_row,
    "prefix": prefix,
    "prefix_by_row": prefix_by_row,
    "global": global_,
    "not_self": not_self,
}
NEED_LABELS = ("packed", "packed_by_row", "global")
BOUNDED = ("window", "window_asymmetric", "window_one_sided", "window_dilated")
PAIRS = [(a, sign, b) for a, b in combinations_with_replacement(MASKS, 2) for sign in "&|"]


def join(a: Rule, sign: str, b: Rule) -> Rule:
    return a & b if sign == "&" else a | b


# --- biases ---


@dataclass(frozen=True)
class Term:
    """A bias over a tensor of parameters (float64), and what it adds to the score of (b, h, i, j)."""

    parameters: Tensor | None
    build: Callable[[Tensor], Bias | None]
    add: Callable[[Tensor, int, int, int, int], Tensor | float]


def normal(pick: Pick, *shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(pick(0, 10_000)))


def no_bias(pick: Pick, n: Sizes) -> Term:
    return Term(None, lambda _: None, lambda _, b, h, i, j: 0.0)


def alibi(pick: Pick, n: Sizes) -> Term:
    offset = pick(-2, n.keys)
    slopes = alibi_slopes(HEADS).double()
    return Term(slopes, lambda p: Alibi(p, offset=offset), lambda p, b, h, i, j: -p[h] * abs(i + offset - j))


def alibi_by_row(pick: Pick, n: Sizes) -> Term:
    offset = many(pick, n.rows, -2, n.keys)
    slopes = alibi_slopes(HEADS).double()
    return Term(
        slopes,
        lambda p: Alibi(p, offset=torch.tensor(offset)),
        lambda p, b, h, i, j: -p[h] * abs(i + offset[b] - j),
    )


def slot(i: int, j: int, offset: int, reach: int) -> int:
    return min(max(j - i - offset, -reach), reach) + reach


def relative(pick: Pick, n: Sizes) -> Term:
    reach, offset = pick(0, 3), pick(-2, 2)
    table = normal(pick, 1, HEADS, 1, 2 * reach + 1)
    return Term(
        table,
        lambda p: Relative(p, offset=offset),
        lambda p, b, h, i, j: p[0, h, 0, slot(i, j, offset, reach)],
    )


def relative_by_query(pick: Pick, n: Sizes) -> Term:
    reach, offset = pick(0, 3), many(pick, n.rows, -2, 2)
    table = normal(pick, n.rows, HEADS, n.queries, 2 * reach + 1)
    return Term(
        table,
        lambda p: Relative(p, offset=torch.tensor(offset)),
        lambda p, b, h, i, j: p[b, h, i, slot(i, j, offset[b], reach)],
    )


BIASES: dict[str, Callable[[Pick, Sizes], Term]] = {
    "no_bias": no_bias,
    "alibi": alibi,
    "alibi_by_row": alibi_by_row,
    "relative": relative,
    "relative_by_query": relative_by_query,
}


# --- whole cases ---


@dataclass(frozen=True, repr=False)
class Case:
    """One call of `attend` in float64, and the probe whose product with the answer is differentiated."""

    sizes: Sizes
    rule: Rule
    term: Term
    q: Tensor
    k: Tensor
    v: Tensor
    probe: Tensor
    drawn: str = ""

    def __repr__(self) -> str:
        return f"Case({self.drawn}: {self.sizes}, mask={self.rule.mask}, bias={self.term.parameters})"


def case(pick: Pick, sizes: Sizes, rule: Rule, bias: str = "no_bias", drawn: str = "") -> Case:
    n = sizes
    return Case(
        sizes=n,
        rule=rule,
        term=BIASES[bias](pick, n),
        q=normal(pick, n.rows, HEADS, n.queries, n.width),
        k=normal(pick, n.rows, n.groups, n.keys, n.width),
        v=normal(pick, n.rows, n.groups, n.keys, n.value_width),
        probe=normal(pick, n.rows, HEADS, n.queries, n.value_width),
        drawn=f"{drawn}, {bias}",
    )


@st.composite
def cases(draw: st.DrawFn, lengths: tuple[int, ...], bounded: bool = False) -> Case:
    """Masks alone and in pairs × biases × groups × lengths; `bounded` adds a window, so that banded can serve."""
    sizes = Sizes(
        rows=draw(st.integers(1, 3)),
        queries=draw(st.sampled_from(lengths)),
        keys=draw(st.sampled_from(lengths)),
        groups=draw(st.sampled_from((1, 2, HEADS))),
        value_width=draw(st.sampled_from((4, 3, 1, 6))),
    )
    kinds = [name for name in MASKS if sizes.labelled or name not in NEED_LABELS]
    count = draw(st.sampled_from((0, 1, 1, 2, 2, 2)))
    names = [draw(st.sampled_from(kinds)) for _ in range(count)]
    bias = draw(st.sampled_from(list(BIASES)))
    seed = draw(st.integers(0, 2**32))
    pick = picker(seed)
    rule, drawn = EVERYTHING, "everything"
    for name in names:
        sign = "" if rule.mask is None else draw(st.sampled_from("&|"))
        drawn = f"{drawn} {sign} {name}" if sign else name
        rule = join(rule, sign, MASKS[name](pick, sizes)) if sign else MASKS[name](pick, sizes)
    if bounded:
        name = draw(st.sampled_from(BOUNDED))
        near = MASKS[name](pick, sizes)
        rule, drawn = (near, name) if rule.mask is None else (rule & near, f"({drawn}) & {name}")
    return case(pick, sizes, rule, bias, drawn)


# --- outcomes ---


def leaves(case: Case, dtype: torch.dtype, gradients: bool) -> dict[str, Tensor]:
    tensors = {"q": case.q, "k": case.k, "v": case.v}
    if case.term.parameters is not None:
        tensors["bias"] = case.term.parameters
    return {name: tensor.to(dtype).clone().requires_grad_(gradients) for name, tensor in tensors.items()}


def with_gradients(out: Tensor, probe: Tensor, wanted: dict[str, Tensor]) -> dict[str, Tensor]:
    grads = torch.autograd.grad((out * probe.to(out.dtype)).sum(), list(wanted.values()), materialize_grads=True)
    return {"out": out.detach(), **{f"d{name}": grad for name, grad in zip(wanted, grads, strict=True)}}


def unfused(q: Tensor, k: Tensor, v: Tensor, mask: Mask | None, bias: Bias | None, traced: bool = False) -> Tensor:
    """FlexAttention without its compiler, by the door `attend` uses for lengths of zero.

    Unless `traced`, torch's debugging switch keeps dynamo out too: tracing takes fifty times as long as the call.
    """
    if not q.shape[2] or not k.shape[2]:
        return attend(q, k, v, mask=mask, bias=bias, kernel="flex")
    with patch.object(torch_flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", not traced):
        return flex.run(AttentionInputs(q, k, v, mask, bias, q.shape[-1] ** -0.5), compile=False)


def outcome(case: Case, kernel: str, dtype: torch.dtype = torch.float64, gradients: bool = True) -> dict[str, Tensor]:
    """What a kernel answers: `out`, and the gradients dq, dk, dv and dbias. Flex has none."""
    at = leaves(case, dtype, gradients)
    bias = case.term.build(at["bias"]) if "bias" in at else None
    if kernel.startswith("flex"):
        assert not gradients, "flex has no backward pass on a CPU"
        traced = kernel == "flex traced"
        return {"out": unfused(at["q"], at["k"], at["v"], case.rule.mask, bias, traced)}
    out = attend(at["q"], at["k"], at["v"], mask=case.rule.mask, bias=bias, kernel=kernel)
    return with_gradients(out, case.probe, at) if gradients else {"out": out}


def by_hand(case: Case) -> dict[str, Tensor]:
    """The formula, one query at a time, over a list of the keys it may look at. Knows nothing of headway."""
    at = leaves(case, torch.float64, gradients=True)
    n = case.sizes
    answers = []
    for b in range(n.rows):
        for h in range(HEADS):
            group = h // (HEADS // n.groups)
            for i in range(n.queries):
                seen = [j for j in range(n.keys) if case.rule.may(b, i, j)]
                if not seen:
                    answers.append(torch.zeros(n.value_width, dtype=torch.float64))
                    continue
                scores = [
                    (at["q"][b, h, i] * at["k"][b, group, j]).sum() / math.sqrt(n.width)
                    + case.term.add(at.get("bias"), b, h, i, j)
                    for j in seen
                ]
                powers = torch.stack(scores).exp()
                answers.append(powers / powers.sum() @ at["v"][b, group, seen])
    out = torch.stack(answers) if answers else torch.zeros(0, dtype=torch.float64)
    out = out.view(n.rows, HEADS, n.queries, n.value_width)
    if not out.requires_grad:  # no query has an allowed key
        return {"out": out, **{f"d{name}": torch.zeros_like(leaf) for name, leaf in at.items()}}
    return with_gradients(out, case.probe, at)


def assert_same(got: dict[str, Tensor], want: dict[str, Tensor], tolerance: float) -> None:
    """Every tensor in `got` equals its namesake in `want`, absolutely or relatively within `tolerance`."""
    assert "out" in got
    for name, tensor in got.items():
        expected = want[name].to(tensor.dtype)
        torch.testing.assert_close(
            tensor, expected, rtol=tolerance, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}"
        )


def qkv(rows=2, queries=5, keys=7, groups=HEADS, width=8, value_width=8, **options) -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.randn(rows, HEADS, queries, width, **options),
        torch.randn(rows, groups, keys, width, **options),
        torch.randn(rows, groups, keys, value_width, **options),
    )


def call_of(q, k, v, mask=None, bias=None) -> AttentionInputs:
    return AttentionInputs(q, k, v, mask, bias, q.shape[-1] ** -0.5)


def marks(rows: int, keys: int, *places: tuple[int, int]) -> Tensor:
    found = torch.zeros(rows, keys, dtype=torch.bool)
    for row, place in places:
        found[row, place] = True
    return found
