"""Every kernel agrees with `reference`, and `reference` with the formula in plain Python (`cases.by_hand`)."""

import math
from dataclasses import replace
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings

from headway.errors import KernelError
from headway.ops import (
    KERNELS,
    Causal,
    Lengths,
    NotSelf,
    Prefix,
    Relative,
    Window,
    attend,
    attention_weights,
    masked_softmax,
)
from headway.ops.attend import ALIASES, choose
from headway.ops.kernels import decode, flex, reference, sdpa
from headway.ops.kernels.base import AttentionInputs, Kernel
from tests.ops.cases import (
    BIASES,
    BOUNDED,
    EVERYTHING,
    HEADS,
    MASKS,
    PAIRS,
    SINGLE,
    WITH_GRADIENT,
    Case,
    Rule,
    Sizes,
    assert_same,
    by_hand,
    call_of,
    case,
    cases,
    join,
    outcome,
    picker,
    qkv,
    unfused,
)

EXACT = 1e-10  # float64
# bfloat16 keeps 8 bits: numbers near 2, as large as these outputs get, lie 2⁻⁶ ≈ 0.016 apart, and the scores and
# weights are rounded on the way as well. So one last place, and not much more.
HALF = 2e-2

SHORT = (0, 1, 2, 3, 5)  # what the plain Python loop can afford
LONG = (0, 1, 2, 5, 9, 17, 33, 50)  # beyond 16 and 32, where banded needs a second and a third block

DENSE = ("reference", "sdpa")


# --- the definition of correct ---


@pytest.mark.parametrize(("name", "bias"), list(product(MASKS, BIASES)))
def test_reference_is_the_formula_for_every_mask_and_bias(name, bias):
    pick = picker(1)
    sizes = Sizes(groups=(1, 2, 4)[pick(0, 2)])
    one = case(pick, sizes, MASKS[name](pick, sizes), bias)
    assert_same(outcome(one, "reference"), by_hand(one), EXACT)


@pytest.mark.parametrize(("a", "sign", "b"), PAIRS)
def test_reference_is_the_formula_for_every_pair_of_masks(a, sign, b):
    one = paired(a, sign, b)
    assert_same(outcome(one, "reference"), by_hand(one), EXACT)


@settings(max_examples=150)
@given(cases(SHORT))
def test_reference_is_the_formula(one):
    assert_same(outcome(one, "reference"), by_hand(one), EXACT)


@pytest.mark.parametrize("causal", [False, True])
def test_reference_is_torch_attention_with_no_mask_and_with_a_causal_one(causal):
    q, k, v = qkv(keys=5, dtype=torch.float64)
    out = attend(q, k, v, mask=Causal() if causal else None, kernel="reference")
    torch.testing.assert_close(out, F.scaled_dot_product_attention(q, k, v, is_causal=causal), rtol=0, atol=EXACT)


def test_masked_softmax_is_softmax_over_the_allowed_and_zero_for_an_empty_row():
    scores = torch.tensor([[0.0, math.log(3.0), 100.0], [1.0, 2.0, 3.0]], requires_grad=True)
    weights = masked_softmax(scores, torch.tensor([[True, True, False], [False, False, False]]))
    torch.testing.assert_close(weights, torch.tensor([[0.25, 0.75, 0.0], [0.0, 0.0, 0.0]]))
    weights[:, 0].sum().backward()
    torch.testing.assert_close(scores.grad, torch.tensor([[0.1875, -0.1875, 0.0], [0.0, 0.0, 0.0]]))


# --- the shared grid: a fixed sweep ---


def sweep_sizes(seed: int) -> Sizes:
    """T shorter than S, odd, and beyond one block of banded; G and W in turn."""
    return Sizes(queries=(5, 19)[seed % 2], keys=21, groups=(1, 2, 4)[seed % 3], value_width=(3, 4)[seed % 2])


def paired(a: str, sign: str, b: str, sizes: Sizes | None = None, near: str | None = None) -> Case:
    """Two masks joined, the bias in turn; `near` bounds the reach, for banded."""
    seed = PAIRS.index((a, sign, b))
    sizes = sizes or Sizes(queries=3, keys=5, groups=(1, 2, 4)[seed % 3])
    pick = picker(seed)
    rule = join(MASKS[a](pick, sizes), sign, MASKS[b](pick, sizes))
    if near:
        rule = rule & MASKS[near](pick, sizes)
    return case(pick, sizes, rule, list(BIASES)[seed % len(BIASES)])


def agree(one: Case, kernel: str) -> None:
    gradients = kernel != "flex"
    want = outcome(one, "reference", gradients=gradients)
    assert_same(outcome(one, kernel, gradients=gradients), want, EXACT)
    single = outcome(one, kernel, torch.float32, gradients=gradients)
    if "alibi" in one.drawn:  # one slope's gradient sums T·S distances, whose rounding exceeds the tolerance
        single.pop("dbias", None)
    assert_same(single, want, SINGLE)


@pytest.mark.parametrize("kernel", ["sdpa", "flex", "banded", "few"])
@pytest.mark.parametrize(("name", "bias"), list(product(["everything", *MASKS], BIASES)))
def test_every_kernel_agrees_for_every_mask_and_bias(kernel, name, bias):
    seed = [*MASKS, "everything"].index(name)
    pick, sizes = picker(seed), sweep_sizes(seed)
    rule = EVERYTHING if name == "everything" else MASKS[name](pick, sizes)
    if kernel == "banded" and name not in BOUNDED:
        near = MASKS[BOUNDED[seed % len(BOUNDED)]](pick, sizes)
        rule = near if rule.mask is None else rule & near
    agree(case(pick, sizes, rule, bias), kernel)


@pytest.mark.parametrize("kernel", ["sdpa", "flex", "banded", "few"])
@pytest.mark.parametrize(("a", "sign", "b"), PAIRS)
def test_every_kernel_agrees_for_every_pair_of_masks(kernel, a, sign, b):
    seed = PAIRS.index((a, sign, b))
    near = BOUNDED[seed % len(BOUNDED)] if kernel == "banded" else None
    agree(paired(a, sign, b, sweep_sizes(seed), near), kernel)


@pytest.mark.parametrize("kernel", ["sdpa", "flex", "banded", "few"])
@pytest.mark.parametrize(("name", "bias"), list(product(MASKS, BIASES)))
def test_every_kernel_agrees_on_the_square_of_self_attention(kernel, name, bias):
    pick, sizes = picker(8), Sizes(queries=18, keys=18)
    rule = MASKS[name](pick, sizes)
    mask = rule.mask.at(0)  # where kernels have fast paths of their own
    if kernel == "banded":
        mask = mask & Window(4, 2)
    agree(case(pick, sizes, Rule(mask, rule.may), bias), kernel)


@pytest.mark.parametrize("name", MASKS)
def test_flex_agrees_when_dynamo_traces_its_masks_and_biases(name):
    seed = list(MASKS).index(name)
    pick, sizes = picker(seed), sweep_sizes(seed)
    one = case(pick, sizes, MASKS[name](pick, sizes), list(BIASES)[seed % len(BIASES)])
    assert_same(
        outcome(one, "flex traced", gradients=False),
        outcome(one, "reference", gradients=False),
        EXACT,
    )


@pytest.mark.parametrize(("a", "b"), list(product(BOUNDED, BOUNDED)))
def test_banded_serves_windows_joined_by_or(a, b):
    pick, sizes = picker(3), sweep_sizes(3)
    agree(case(pick, sizes, MASKS[a](pick, sizes) | MASKS[b](pick, sizes), "relative"), "banded")


@pytest.mark.parametrize("offset", [-40, -5, 30, 60])
@pytest.mark.parametrize(("queries", "keys"), [(50, 3), (3, 50), (33, 33)])
def test_banded_agrees_where_the_band_leaves_the_keys_on_either_side(offset, queries, keys):
    pick, sizes = picker(4), Sizes(queries=queries, keys=keys)
    rule = Rule(Window(2, 4, offset=offset), lambda b, i, j: -2 <= j - i - offset <= 4)
    agree(case(pick, sizes, rule, "alibi"), "banded")


@pytest.mark.parametrize("name", ["everything", *MASKS])
@pytest.mark.parametrize("kernel", ["reference", "sdpa", "flex", "banded", "few"])
def test_bfloat16_stays_within_its_precision_of_a_float32_reference(kernel, name):
    seed = [*MASKS, "everything"].index(name)
    pick, sizes = picker(seed), sweep_sizes(seed)
    rule = EVERYTHING if name == "everything" else MASKS[name](pick, sizes)
    if kernel == "banded" and name not in BOUNDED:
        near = window_of(4)
        rule = near if rule.mask is None else rule & near
    one = case(pick, sizes, rule, "relative" if seed % 2 else "no_bias")
    rounded = replace(one, q=one.q.bfloat16(), k=one.k.bfloat16(), v=one.v.bfloat16())
    got = outcome(rounded, kernel, torch.bfloat16, gradients=False)
    want = outcome(rounded, "reference", torch.float32, gradients=False)
    assert got["out"].dtype == torch.bfloat16
    torch.testing.assert_close(got["out"].float(), want["out"], rtol=0, atol=HALF)


def window_of(radius: int) -> Rule:
    return Rule(Window(radius), lambda b, i, j: abs(i - j) <= radius)


# --- the shared grid: a search ---


@settings(max_examples=300)
@given(cases(LONG))
def test_sdpa_is_the_reference(one):
    agree(one, "sdpa")


@settings(max_examples=300)
@given(cases(LONG, bounded=True))
def test_banded_is_the_reference(one):
    agree(one, "banded")


@settings(max_examples=150)
@given(cases(LONG))
def test_flex_is_the_reference(one):
    agree(one, "flex")


@settings(max_examples=150)
@given(cases((*LONG, 80)))
def test_auto_is_the_reference(one):
    agree(one, "auto")


# --- fully masked rows, and lengths of zero ---

NOWHERE = {
    "lengths": Lengths(torch.tensor([0, 3])) & Window(9),
    "causal": Causal(offset=-2) & Window(9),
    "window": Window(1, offset=-3),
    "contradiction": Window(0) & NotSelf(),
    "disjoint": Window(0) & Window(0, offset=3),
}


@pytest.mark.parametrize("kernel", ["reference", "sdpa", "banded", "flex", "few"])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("name", NOWHERE)
def test_a_query_without_an_allowed_key_gets_zeros_and_no_gradient(kernel, biased, name):
    mask = NOWHERE[name]
    q, k, v = qkv()
    table = torch.randn(2, HEADS, 5, 5)
    empty = ~mask.dense(5, 7).any(-1).expand(2, HEADS, 5)
    assert empty.any()
    if kernel == "flex":
        out = unfused(q, k, v, mask, Relative(table) if biased else None)
        assert out[empty].eq(0).all()
        assert out.isfinite().all()
        return
    for tensor in (q, k, v, table):
        tensor.requires_grad_()
    out = attend(q, k, v, mask=mask, bias=Relative(table) if biased else None, kernel=kernel)
    assert out[empty].eq(0).all()
    out.square().sum().backward()
    assert q.grad[empty].eq(0).all()
    used = (q, k, v, table) if biased else (q, k, v)
    assert all(tensor.grad.isfinite().all() for tensor in used)
    if biased:
        assert table.grad[empty].eq(0).all()
    if empty.all():
        assert all(tensor.grad.eq(0).all() for tensor in used)


@pytest.mark.parametrize("kernel", ["auto", *KERNELS])
@pytest.mark.parametrize("mask", [None, Causal(), Window(2) & Causal(), Lengths(torch.tensor([0, 0]))])
@pytest.mark.parametrize(("queries", "keys"), [(0, 7), (5, 0), (0, 0)])
def test_lengths_of_zero_give_the_right_shape_zeros_and_a_backward_pass(kernel, mask, queries, keys):
    q, k, v = (tensor.requires_grad_() for tensor in qkv(queries=queries, keys=keys, groups=2, value_width=3))
    bias = Relative(torch.randn(1, HEADS, 1, 3))
    out = attend(q, k, v, mask=mask, bias=bias, kernel=kernel)
    assert out.shape == (2, HEADS, queries, 3)
    assert out.eq(0).all()
    out.sum().backward()
    assert all(tensor.grad.shape == tensor.shape and tensor.grad.eq(0).all() for tensor in (q, k, v))


@pytest.mark.parametrize("kernel", WITH_GRADIENT)
def test_a_batch_of_no_rows_gives_the_right_shape(kernel):
    assert attend(*qkv(rows=0, value_width=3), mask=Window(2), kernel=kernel).shape == (0, HEADS, 5, 3)


# --- the choice of a kernel ---


@pytest.mark.parametrize(
    ("queries", "keys", "mask", "taken"),
    [
        (64, 64, None, "sdpa"),
        (64, 64, Causal(), "sdpa"),
        (64, 64, Window(7) & Causal(), "banded"),  # 8 keys in reach: a quarter of 32 or fewer
        (64, 32, Window(7) & Causal(), "banded"),
        (64, 31, Window(7) & Causal(), "sdpa"),
        (64, 64, Window(8), "sdpa"),  # 17 in reach
        (64, 68, Window(8), "banded"),
        (64, 64, Window(2) | Lengths(torch.tensor([9, 9])), "sdpa"),
        (64, 64, Window(2) & Lengths(torch.tensor([9, 9])), "banded"),
        (64, 64, Window(2, offset=torch.tensor([0, 1])), "sdpa"),
        (1, 64, Window(2, offset=63), "few"),  # a single step has no band
        (16, 64, Causal(), "few"),
        (17, 64, Causal(), "sdpa"),
        (0, 64, Window(2), "reference"),
        (64, 0, None, "reference"),
    ],
)
def test_auto_uses_few_for_a_step_banded_for_a_narrow_band_and_sdpa_otherwise(queries, keys, mask, taken):
    q, k, v = qkv(queries=queries, keys=keys)
    assert choose(call_of(q, k, v, mask)) == taken
    out = attend(q, k, v, mask=mask)
    assert torch.equal(out, attend(q, k, v, mask=mask, kernel=taken))
    want = attend(q, k, v, mask=mask, kernel="reference")
    torch.testing.assert_close(out, want, rtol=SINGLE, atol=SINGLE)


@pytest.mark.parametrize("mask", [None, Causal(), Window(3)], ids=str)
def test_forward_mode_ad_agrees_with_reverse_mode(mask):
    q, k, v, along = (torch.randn(1, 2, 60, 16, dtype=torch.float64) for _ in range(4))
    _, forwards = torch.func.jvp(lambda x: attend(x, k, v, mask=mask), (q,), (along,))
    probe = torch.randn_like(forwards)
    leaf = q.clone().requires_grad_()
    (backwards,) = torch.autograd.grad((attend(leaf, k, v, mask=mask) * probe).sum(), leaf)
    torch.testing.assert_close((forwards * probe).sum(), (backwards * along).sum())


def test_module_names_are_aliases_of_the_kernel_names(monkeypatch):
    q, k, v = qkv()
    for alias, name in ALIASES.items():
        ran = []
        monkeypatch.setitem(
            KERNELS, name, Kernel(lambda inputs, ran=ran: ran.append(1) or inputs.q, lambda inputs: None)
        )
        attend(q, k, v, kernel=alias)
        assert ran == [1]


def test_an_unknown_kernel_is_an_error_that_lists_the_known_ones():
    with pytest.raises(KernelError, match="kernel='fast', allowed: auto, reference, sdpa, cudnn, flex, banded"):
        attend(*qkv(), kernel="fast")


@pytest.mark.parametrize(
    "mask",
    [
        None,
        Causal(),
        NotSelf(),
        Prefix(3),
        Window(2) | Causal(),
        Lengths(torch.tensor([3, 4])),
        Window(2, offset=torch.tensor(0)),
    ],
    ids=str,
)
def test_banded_does_not_support_a_mask_without_a_finite_reach(mask):
    with pytest.raises(
        KernelError, match=r"kernel='banded' does not support these inputs: .*finite reach.*Window\(256\) & Causal"
    ):
        attend(*qkv(), mask=mask, kernel="banded")


def test_banded_costs_the_existing_keys_not_the_whole_window():
    q, k, v = qkv()
    out = attend(q, k, v, mask=Window(10**12), kernel="banded")  # strips of that width would not fit any memory
    torch.testing.assert_close(out, attend(q, k, v, kernel="reference"))


def test_a_mask_first_used_in_inference_mode_can_be_trained_with_later():
    mask = Lengths(torch.tensor([3, 5]))
    q, k, v = qkv()
    with torch.inference_mode():
        seen = attend(q, k, v, mask=mask, kernel="sdpa")
    out = attend(q.requires_grad_(), k, v, mask=mask, kernel="sdpa")
    out.sum().backward()
    assert torch.equal(out, seen.clone())
    assert q.grad.isfinite().all()


# --- scale and grouped heads ---


@pytest.mark.parametrize("kernel", [*WITH_GRADIENT, "auto"])
def test_scale_is_one_over_root_e_and_may_be_a_number_or_a_tensor(kernel):
    q, k, v = qkv(dtype=torch.float64)

    def answer(scale):
        return attend(q, k, v, mask=Window(3), scale=scale, kernel=kernel)

    torch.testing.assert_close(answer(None), answer(8**-0.5), rtol=0, atol=EXACT)
    torch.testing.assert_close(answer(torch.tensor(0.3)), answer(torch.tensor(0.3).item()), rtol=0, atol=EXACT)
    repeat_kv = answer(torch.tensor([0.1, -0.2, 0.0, 2.0], dtype=torch.float64))
    for head, scale in enumerate((0.1, -0.2, 0.0, 2.0)):
        torch.testing.assert_close(repeat_kv[:, head], answer(scale)[:, head], rtol=0, atol=EXACT)


def test_a_scale_of_zero_averages_the_values():
    q, k, v = qkv()
    want = v.mean(2, keepdim=True).expand(2, HEADS, 5, 8)
    for kernel in DENSE:
        torch.testing.assert_close(attend(q, k, v, scale=0.0, kernel=kernel), want)


@pytest.mark.parametrize("kernel", WITH_GRADIENT)
@pytest.mark.parametrize("shape", [(), (HEADS,)])
def test_the_gradient_reaches_a_learned_scale(kernel, shape):
    scale = torch.full(shape, 0.4, dtype=torch.float64, requires_grad=True)
    q, k, v = qkv(dtype=torch.float64)

    def total(scale):
        return attend(q, k, v, mask=Window(3), scale=scale, kernel=kernel).square().sum()

    assert torch.autograd.gradcheck(total, (scale,))
    (slope,) = torch.autograd.grad(total(scale), scale)
    assert slope.shape == shape
    assert slope.abs().min() > 0


def test_scale_works_in_flex_too():
    q, k, v = qkv(dtype=torch.float64)
    out = flex.run(AttentionInputs(q, k, v, None, None, 0.3), compile=False)
    torch.testing.assert_close(out, attend(q, k, v, scale=0.3, kernel="reference"), rtol=0, atol=EXACT)


@pytest.mark.parametrize("kernel", [*WITH_GRADIENT, "flex"])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_grouped_heads_equal_explicit_repetition(kernel, groups):
    q, k, v = qkv(groups=groups, dtype=torch.float64)
    mask = Window(3)
    # Heads of one group stand side by side: h uses group h // (H / G).
    k_BHSE, v_BHSW = (torch.stack([x[:, h * groups // HEADS] for h in range(HEADS)], dim=1) for x in (k, v))
    want = attend(q, k_BHSE, v_BHSW, mask=mask, kernel="reference")
    out = unfused(q, k, v, mask, None) if kernel == "flex" else attend(q, k, v, mask=mask, kernel=kernel)
    torch.testing.assert_close(out, want, rtol=0, atol=EXACT)


# --- weights ---


@pytest.mark.parametrize("kernel", ["reference", "sdpa", "flex", "banded", "few"])
@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("name", ["window", "window_dilated", "lengths_with_empty_row", "packed"])
def test_weights_sum_to_one_or_zero_and_times_v_are_the_output(kernel, name, bias):
    pick, sizes = picker(7), Sizes(queries=6, keys=9)
    rule = MASKS[name](pick, sizes)
    rule = rule & window_of(5) if name not in BOUNDED else rule
    one = case(pick, sizes, rule, bias)
    added = one.term.build(one.term.parameters) if one.term.parameters is not None else None
    weights = attention_weights(one.q, one.k, mask=rule.mask, bias=added)
    alive = rule.grid(sizes).any(-1).expand(2, HEADS, 6)
    torch.testing.assert_close(weights.sum(-1), alive.double(), rtol=0, atol=EXACT)
    assert weights[~rule.grid(sizes).expand_as(weights)].eq(0).all()
    v_BHSW = one.v.repeat_interleave(HEADS // sizes.groups, dim=1)
    assert_same(outcome(one, kernel, gradients=False), {"out": weights @ v_BHSW}, EXACT)


def test_weights_of_a_half_precision_call_are_float32():
    q, k, _ = qkv(dtype=torch.bfloat16)
    weights = attention_weights(q, k)
    assert weights.dtype == torch.float32
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, HEADS, 5))


# --- causality ---


@pytest.mark.parametrize("kernel", ["reference", "sdpa", "banded", "flex", "auto"])
@pytest.mark.parametrize("groups", [2, 4])
@pytest.mark.parametrize("last", [0, 7, 15, 16, 30])
def test_the_future_cannot_change_the_past_by_a_single_bit(kernel, groups, last):
    mask = Causal() if kernel in ("reference", "sdpa", "flex") else Window(5) & Causal()
    q, k, v = qkv(queries=40, keys=40, groups=groups)
    later_k, later_v = k.clone(), v.clone()
    later_k[:, :, last + 1 :] += 100 * torch.randn_like(k[:, :, last + 1 :])
    later_v[:, :, last + 1 :] += 100 * torch.randn_like(v[:, :, last + 1 :])

    def answer(k, v):
        return unfused(q, k, v, mask, None) if kernel == "flex" else attend(q, k, v, mask=mask, kernel=kernel)

    before, after = answer(k, v), answer(later_k, later_v)
    assert torch.equal(before[:, :, : last + 1], after[:, :, : last + 1])
    assert not torch.equal(before[:, :, last + 1 :], after[:, :, last + 1 :])


@pytest.mark.parametrize("kernel", ["reference", "sdpa", "flex"])
def test_a_causal_mask_at_an_offset_is_the_end_of_the_square_one(kernel):
    q, k, v = qkv(queries=9, keys=9, dtype=torch.float64)
    whole = attend(q, k, v, mask=Causal(), kernel="reference")[:, :, 6:]
    mask = Causal().at(6)
    out = (
        unfused(q[:, :, 6:], k, v, mask, None)
        if kernel == "flex"
        else attend(q[:, :, 6:], k, v, mask=mask, kernel=kernel)
    )
    torch.testing.assert_close(out, whole, rtol=0, atol=EXACT)


def test_sdpa_uses_its_fast_paths_only_where_they_are_equivalent():
    assert sdpa.is_causal(Causal(), 5, 5)
    assert not sdpa.is_causal(Causal(), 5, 7)
    assert not sdpa.is_causal(Causal(offset=2), 5, 5)
    assert not sdpa.is_causal(Causal(offset=torch.tensor(0)), 5, 5)
    assert not sdpa.is_causal(Causal() & NotSelf(), 5, 5)
    assert sdpa.hides_nothing(Causal(offset=6), 7)
    assert not sdpa.hides_nothing(Causal(offset=5), 7)
    assert not sdpa.hides_nothing(NotSelf(offset=6), 7)
    assert Causal(offset=6).dense(1, 7).all()


def test_reference_and_sdpa_support_everything():
    assert reference.unsupported_reason(call_of(*qkv())) is None
    assert sdpa.unsupported_reason(call_of(*qkv())) is None


def test_sdpa_never_gets_a_fully_masked_row():
    # Back ends differ in what they return for one, so that the results of a CPU would not show it.
    shown, alive = sdpa.dense(Causal(offset=-1), 3, 2, torch.device("cpu"))
    assert shown[0, 0].tolist() == [[True, True], [True, False], [True, True]]
    assert alive[0, 0].tolist() == [[False], [True], [True]]


@pytest.mark.parametrize("groups", [1, 2])
def test_decode_over_long_keys_with_interleaved_heads(groups):
    length = decode.LONG_KEYS
    q = torch.randn(3, 4, 2, 8)
    k, v = (x.unflatten(-1, (groups, 8)).transpose(1, 2) for x in torch.randn(3, length, 2 * groups * 8).chunk(2, -1))
    mask = Lengths(torch.tensor([length, 5, 1000]))
    want = attend(q, k, v, mask=mask, kernel="reference")
    torch.testing.assert_close(attend(q, k, v, mask=mask, kernel="few"), want)
