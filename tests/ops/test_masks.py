"""Masks are values: what they allow, how they join, how they move, and what makes two of them the same."""

from functools import reduce

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from headway.errors import ShapeError
from headway.ops import Causal, Global, Lengths, Mask, NotSelf, Packed, Prefix, Window
from headway.ops.kernels import sdpa
from tests.ops.cases import BOUNDED, MASKS, NEED_LABELS, PAIRS, Rule, Sizes, join, picker

CPU = torch.device("cpu")


def full(mask: Mask, sizes: Sizes) -> Tensor:
    """(B, 1, T, S), with nothing left to broadcast."""
    return mask.dense(sizes.queries, sizes.keys).expand(sizes.rows, 1, sizes.queries, sizes.keys)


@st.composite
def rules(draw: st.DrawFn, parts: int = 1) -> tuple[Sizes, list[Rule]]:
    """Masks for one size of call."""
    sizes = Sizes(
        rows=draw(st.integers(1, 3)),
        queries=draw(st.sampled_from((4, 3, 1, 6, 0))),
        keys=draw(st.sampled_from((6, 7, 3, 1, 0))),
    )
    kinds = [name for name in MASKS if sizes.labelled or name not in NEED_LABELS]
    names = [draw(st.sampled_from(kinds)) for _ in range(parts)]
    pick = picker(draw(st.integers(0, 2**32)))
    return sizes, [MASKS[name](pick, sizes) for name in names]


# --- what each mask allows ---

DRAWN = {
    "causal": (
        Causal(),
        4,
        4,
        """
        ■ · · ·
        ■ ■ · ·
        ■ ■ ■ ·
        ■ ■ ■ ■
        """,
    ),
    "causal after a cache of two": (
        Causal(offset=2),
        2,
        5,
        """
        ■ ■ ■ · ·
        ■ ■ ■ ■ ·
        """,
    ),
    "causal, two queries before the first key": (
        Causal(offset=-2),
        4,
        3,
        """
        · · ·
        · · ·
        ■ · ·
        ■ ■ ·
        """,
    ),
    "window": (
        Window(1),
        4,
        5,
        """
        ■ ■ · · ·
        ■ ■ ■ · ·
        · ■ ■ ■ ·
        · · ■ ■ ■
        """,
    ),
    "window of one": (
        Window(0),
        3,
        3,
        """
        ■ · ·
        · ■ ·
        · · ■
        """,
    ),
    "asymmetric window": (
        Window(2, 1),
        5,
        5,
        """
        ■ ■ · · ·
        ■ ■ ■ · ·
        ■ ■ ■ ■ ·
        · ■ ■ ■ ■
        · · ■ ■ ■
        """,
    ),
    "one-sided window, back": (
        Window(2, 0),
        4,
        4,
        """
        ■ · · ·
        ■ ■ · ·
        ■ ■ ■ ·
        · ■ ■ ■
        """,
    ),
    "one-sided window, ahead": (
        Window(0, 2),
        4,
        4,
        """
        ■ ■ ■ ·
        · ■ ■ ■
        · · ■ ■
        · · · ■
        """,
    ),
    "dilated window": (
        Window(1, 2, dilation=2),
        6,
        6,
        """
        ■ · ■ · ■ ·
        · ■ · ■ · ■
        ■ · ■ · ■ ·
        · ■ · ■ · ■
        · · ■ · ■ ·
        · · · ■ · ■
        """,
    ),
    "window after a cache": (
        Window(1, 0, offset=3),
        2,
        5,
        """
        · · ■ ■ ·
        · · · ■ ■
        """,
    ),
    "not self": (
        NotSelf(),
        3,
        3,
        """
        · ■ ■
        ■ · ■
        ■ ■ ·
        """,
    ),
    "not self after a cache": (
        NotSelf(offset=1),
        2,
        3,
        """
        ■ · ■
        ■ ■ ·
        """,
    ),
    "prefix": (
        Prefix(2),
        4,
        4,
        """
        ■ ■ · ·
        ■ ■ · ·
        ■ ■ ■ ·
        ■ ■ ■ ■
        """,
    ),
    "prefix after a cache": (
        Prefix(4, offset=1),
        2,
        6,
        """
        ■ ■ ■ ■ · ·
        ■ ■ ■ ■ · ·
        """,
    ),
    "lengths": (
        Lengths(torch.tensor([2])),
        2,
        4,
        """
        ■ ■ · ·
        ■ ■ · ·
        """,
    ),
    "packed": (
        Packed(torch.tensor([[7, 7, 8, 8, 8]])),
        5,
        5,
        """
        ■ ■ · · ·
        ■ ■ · · ·
        · · ■ ■ ■
        · · ■ ■ ■
        · · ■ ■ ■
        """,
    ),
    "packed after a cache": (
        Packed(torch.tensor([[7, 7, 8, 8, 8]]), offset=1),
        2,
        5,
        """
        ■ ■ · · ·
        · · ■ ■ ■
        """,
    ),
    "global": (
        Global(torch.tensor([[False, True, False, False]])),
        4,
        4,
        """
        · ■ · ·
        ■ ■ ■ ■
        · ■ · ·
        · ■ · ·
        """,
    ),
    "Longformer": (
        Window(1) | Global(torch.tensor([[True, False, False, False, False]])),
        5,
        5,
        """
        ■ ■ ■ ■ ■
        ■ ■ ■ · ·
        ■ ■ ■ ■ ·
        ■ · ■ ■ ■
        ■ · · ■ ■
        """,
    ),
    "packed and causal": (
        Packed(torch.tensor([[0, 0, 1, 1]])) & Causal(),
        4,
        4,
        """
        ■ · · ·
        ■ ■ · ·
        · · ■ ·
        · · ■ ■
        """,
    ),
    "LSA, padded": (
        NotSelf() & Lengths(torch.tensor([2])),
        3,
        3,
        """
        · ■ ·
        ■ · ·
        ■ ■ ·
        """,
    ),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_mask_allows_and_shows_what_is_drawn(name):
    mask, queries, keys, drawn = DRAWN[name]
    lines = [line.strip() for line in drawn.strip().splitlines()]
    expected = torch.tensor([[cell == "■" for cell in line.split(" ")] for line in lines])
    dense = mask.dense(queries, keys)
    assert dense.dtype == torch.bool
    assert torch.equal(dense[0, 0].expand(queries, keys), expected)
    assert mask.show(queries, keys) == "\n".join(lines)


def test_a_mask_with_a_row_of_data_differs_by_row_and_shows_the_row_asked_for():
    assert Lengths(torch.tensor([1, 0, 3])).dense(1, 3)[:, 0, 0].tolist() == [
        [True, False, False],
        [False, False, False],
        [True, True, True],
    ]
    mask = Causal(offset=torch.tensor([0, 2]))
    assert mask.show(2, 4) == "■ · · ·\n■ ■ · ·"
    assert mask.show(2, 4, row=1) == "■ ■ ■ ·\n■ ■ ■ ■"
    mask = Prefix(torch.tensor([0, 3]))
    assert mask.show(2, 4, row=0) == "■ · · ·\n■ ■ · ·"
    assert mask.show(2, 4, row=1) == "■ ■ ■ ·\n■ ■ ■ ·"


def test_show_is_square_unless_told_and_a_mask_without_rows_shows_the_same_for_each():
    assert Causal().show(2) == "■ ·\n■ ■"
    assert Causal().show(2, row=3) == Causal().show(2)
    assert Causal().show(0) == ""


def test_dense_broadcasts_what_does_not_vary():
    assert Causal().dense(3, 5).shape == (1, 1, 3, 5)
    assert Lengths(torch.tensor([1, 2])).dense(3, 5).shape == (2, 1, 1, 5)
    assert (Causal() & Lengths(torch.tensor([1, 2]))).dense(3, 5).shape == (2, 1, 3, 5)
    assert Causal().dense(0, 5).shape == (1, 1, 0, 5)


@pytest.mark.parametrize("name", MASKS)
def test_dense_is_the_meaning_of_the_mask(name):
    sizes = Sizes(rows=3, queries=6, keys=8)
    for seed in range(20):
        rule = MASKS[name](picker(seed), sizes)
        assert torch.equal(full(rule.mask, sizes), rule.grid(sizes))


@pytest.mark.parametrize("shape", [(), (2,)])
def test_an_offset_held_in_a_tensor_means_what_the_number_means(shape):
    offset, marks = torch.full(shape, 2), torch.tensor([[0, 0, 1, 1, 1, 2]] * 2)
    for make in (
        Causal,
        NotSelf,
        lambda **at: Window(1, 2, **at),
        lambda **at: Prefix(1, **at),
        lambda **at: Packed(marks, **at),
    ):
        number, tensor = make(offset=2), make(offset=offset)
        tensor.check(2, 4, 6)
        assert torch.equal(tensor.dense(4, 6).expand(2, 1, 4, 6), number.dense(4, 6).expand(2, 1, 4, 6))
        assert tensor.reach() == (-torch.inf, torch.inf)  # a number may be read, a tensor would be waited for


# --- algebra ---


@settings(max_examples=200)
@given(rules(parts=2))
def test_joined_masks_allow_what_both_or_either_allow(drawn):
    sizes, (a, b) = drawn
    assert torch.equal(full(a.mask & b.mask, sizes), full(a.mask, sizes) & full(b.mask, sizes))
    assert torch.equal(full(a.mask | b.mask, sizes), full(a.mask, sizes) | full(b.mask, sizes))


@settings(max_examples=100)
@given(rules(parts=3))
def test_joining_is_associative_and_distributive(drawn):
    sizes, found = drawn
    a, b, c = (rule.mask for rule in found)
    assert a & b & c == a & (b & c)
    assert a | b | c == a | (b | c)
    assert torch.equal(full(a & (b | c), sizes), full((a & b) | (a & c), sizes))
    assert torch.equal(full(a | (b & c), sizes), full((a | b) & (a | c), sizes))


def test_joining_keeps_one_flat_list_of_parts():
    a, b, c = Causal(), Window(2), NotSelf()
    assert (a & b & c).parts == (a, b, c)
    assert (a & (b | c)).parts == (a, b | c)


@pytest.mark.parametrize(("a", "sign", "b"), PAIRS)
def test_every_pair_of_masks_means_what_its_parts_mean(a, sign, b):
    sizes = Sizes(rows=2, queries=4, keys=6)
    pick = picker(2)
    rule = join(MASKS[a](pick, sizes), sign, MASKS[b](pick, sizes))
    assert torch.equal(full(rule.mask, sizes), rule.grid(sizes))


@settings(max_examples=200)
@given(rules(parts=2), st.sampled_from("&|"), st.data())
def test_a_mask_at_an_offset_is_rows_of_the_square_one(drawn, sign, data):
    sizes, (a, b) = drawn
    mask = join(a, sign, b).mask
    offset = data.draw(st.integers(0, sizes.keys))
    queries = data.draw(st.integers(0, sizes.keys - offset))
    square = full(mask.at(0), Sizes(rows=sizes.rows, queries=sizes.keys, keys=sizes.keys))
    moved = full(mask.at(offset), Sizes(rows=sizes.rows, queries=queries, keys=sizes.keys))
    assert torch.equal(moved, square[:, :, offset : offset + queries])


@settings(max_examples=100)
@given(rules(), st.data())
def test_a_mask_at_an_offset_for_each_row_is_rows_of_the_square_one_for_each_row(drawn, data):
    sizes, (rule,) = drawn
    keys, offset = sizes.keys, [data.draw(st.integers(0, sizes.keys)) for _ in range(sizes.rows)]
    queries = keys - max(offset)
    square = full(rule.mask.at(0), Sizes(rows=sizes.rows, queries=keys, keys=keys))
    moved = full(rule.mask.at(torch.tensor(offset)), Sizes(rows=sizes.rows, queries=queries, keys=keys))
    for b, start in enumerate(offset):
        assert torch.equal(moved[b], square[b, :, start : start + queries])


def test_at_leaves_the_mask_it_was_asked_of_unchanged():
    mask = Window(2, 1, dilation=3) & Prefix(4)
    assert mask.at(5) == Window(2, 1, dilation=3, offset=5) & Prefix(4, offset=5)
    assert mask == Window(2, 1, dilation=3) & Prefix(4)


# --- reach ---


@settings(max_examples=300)
@given(rules(parts=3), st.sampled_from("&|"), st.sampled_from("&|"))
def test_nothing_is_allowed_outside_the_reach(drawn, first, second):
    sizes, (a, b, c) = drawn
    rule = join(join(a, first, b), second, c)
    low, high = rule.mask.reach()
    found = rule.grid(sizes).nonzero()
    distance = found[:, 3] - found[:, 2]
    assert ((low <= distance) & (distance <= high)).all()


@pytest.mark.parametrize(
    ("mask", "reach"),
    [
        (Causal(), (-torch.inf, 0)),
        (Causal(offset=3), (-torch.inf, 3)),
        (Window(3), (-3, 3)),
        (Window(3, 1, dilation=2, offset=10), (4, 12)),
        (Prefix(5), (-torch.inf, 4)),
        (Prefix(5, offset=7), (-torch.inf, 7)),
        (NotSelf(), (-torch.inf, torch.inf)),
        (Lengths(torch.tensor([3])), (-torch.inf, torch.inf)),
        (Window(3) & Causal(), (-3, 0)),
        (Window(3) | Causal(), (-torch.inf, 3)),
        (Window(3, 0) | Window(0, 5), (-3, 5)),
        (Window(3) & Lengths(torch.tensor([3])), (-3, 3)),
    ],
    ids=str,
)
def test_reach_is_as_narrow_as_the_numbers_say(mask, reach):
    assert mask.reach() == reach


@pytest.mark.parametrize("name", MASKS)
def test_a_window_bounds_whatever_it_is_joined_with_by_and(name):
    sizes = Sizes()
    mask = MASKS[name](picker(0), sizes).mask
    assert all(abs(bound) < torch.inf for bound in (mask & Window(2)).reach())
    assert all(abs(bound) < torch.inf for bound in mask.reach()) == (name in BOUNDED)


# --- sameness ---

DIFFERENT = [
    Causal(),
    Causal(offset=1),
    NotSelf(),
    Window(0),
    Window(1),
    Window(1, 0),
    Window(1, dilation=2),
    Window(1, offset=1),
    Prefix(1),
    Prefix(2),
    Prefix(1, offset=1),
    Causal() & Window(1),
    Causal() | Window(1),
    Window(1) & Causal(),
    Lengths(torch.tensor([1])),
    Packed(torch.tensor([[1]])),
    Global(torch.tensor([[True]])),
    Causal(offset=torch.tensor(1)),
    Causal(offset=torch.tensor([1])),
]


def test_masks_of_different_structure_differ_in_hash_and_equality():
    assert len({hash(mask) for mask in DIFFERENT}) == len(DIFFERENT)
    assert len(set(DIFFERENT)) == len(DIFFERENT)
    assert all((a == b) == (a is b) for a in DIFFERENT for b in DIFFERENT)


@pytest.mark.parametrize("name", MASKS)
def test_masks_built_twice_from_the_same_are_the_same(name):
    one, other = (MASKS[name](picker(3), Sizes()).mask for _ in range(2))
    assert one is not other
    assert one == other
    assert hash(one) == hash(other)


def test_tensors_are_data_not_structure():
    one, other = Lengths(torch.tensor([1, 2])), Lengths(torch.tensor([1, 3]))
    assert hash(one) == hash(other)
    assert one != other
    assert one != Lengths(torch.tensor([1, 2, 3]))
    joined, elsewhere = Causal() & one, Causal() & other
    assert hash(joined) == hash(elsewhere)
    assert joined != elsewhere
    assert joined == Causal() & Lengths(torch.tensor([1, 2]))


def test_tensors_lists_the_data_of_every_part():
    lengths, marks = torch.tensor([1, 2]), torch.zeros(2, 3, dtype=torch.bool)
    held = ((Lengths(lengths) & Causal()) | Global(marks)).tensors
    assert [tensor is wanted for tensor, wanted in zip(held, (lengths, marks), strict=True)] == [True, True]
    assert (Causal() & Window(2)).tensors == ()


# --- forms are built once ---


@pytest.mark.parametrize("mask", [Causal(offset=1), Lengths(torch.tensor([1, 2])), Causal() & NotSelf()], ids=str)
def test_the_dense_form_is_built_once_for_a_size(mask):
    one, other = sdpa.dense(mask, 4, 5, CPU), sdpa.dense(mask, 4, 5, CPU)
    assert all(a is b for a, b in zip(one, other, strict=True))
    assert sdpa.dense(mask, 4, 6, CPU)[0].shape[-1] == 6


def test_a_form_is_made_once_for_a_key_and_once_more_in_inference_mode():
    made = []
    mask = Causal()

    def make() -> int:
        made.append(len(made))
        return made[-1]

    assert [mask.once("a", make), mask.once("a", make), mask.once("b", make)] == [0, 0, 1]
    with torch.inference_mode():
        assert [mask.once("a", make), mask.once("a", make)] == [2, 2]
    assert mask.once("a", make) == 0


def test_forms_stay_with_the_mask_that_made_them():
    mask = Causal(offset=1)
    form = mask.once("form", object)
    assert Causal(offset=1).once("form", object) is not form
    assert mask.at(1).once("form", object) is not form
    assert (mask & NotSelf()).once("form", object) is not form
    assert mask == Causal(offset=1)  # what is kept is no part of what the mask is


# --- errors ---


@pytest.mark.parametrize(
    ("make", "received"),
    [
        (lambda: Window(-1), "left=-1"),
        (lambda: Window(2, -1), "right=-1"),
        (lambda: Window(2, dilation=0), "dilation=0"),
    ],
    ids=["left", "right", "dilation"],
)
def test_an_invalid_window_raises_with_its_numbers(make, received):
    with pytest.raises(ShapeError, match=rf"{received}.*left and right must be >= 0, dilation >= 1"):
        make()


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (Lengths(torch.ones(3)), "mask Lengths has shape (3,), the batch needs (2,)"),
        (Lengths(torch.ones(2, 1)), "mask Lengths has shape (2, 1), the batch needs (2,)"),
        (Lengths(torch.tensor(2)), "mask Lengths has shape (), the batch needs (2,)"),
        (Prefix(torch.ones(3)), "mask Prefix.length has shape (3,), the batch needs (2,)"),
        (Causal(offset=torch.ones(3)), "Causal.offset has shape (3,), expected a number or (2,)"),
        (Packed(torch.ones(2, 5)), "mask Packed has shape (2, 5), the call needs (2, 6)"),
        (Global(torch.ones(3, 6)), "mask Global has shape (3, 6), the call needs (2, 6)"),
        (Global(torch.ones(2, 6), offset=3), "mask Global labels 6 keys, but the last query is at position 6"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_mask_that_does_not_fit_the_call_says_so_alone_and_joined(mask, message):
    for each in (mask, Causal() & mask, mask | NotSelf() | Causal()):
        with pytest.raises(ShapeError) as refusal:
            each.check(2, 4, 6)
        assert str(refusal.value) == message


def test_a_mask_that_fits_is_let_through():
    fitting = [MASKS[name](picker(0), Sizes()).mask for name in MASKS]
    assert all(mask.check(2, 5, 7) is None for mask in (*fitting, reduce(lambda a, b: a & b, fitting)))
    Packed(torch.ones(2, 7)).check(2, 0, 7)  # no query, no position


def test_show_raises_for_a_size_the_mask_does_not_have():
    with pytest.raises(ShapeError, match=r"mask Packed has shape \(1, 3\), the call needs \(1, 4\)"):
        Packed(torch.tensor([[0, 0, 1]])).show(4)
