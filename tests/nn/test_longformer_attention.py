"""Longformer's attention layer against its definition, two dense passes written out here."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn.modules.module import register_module_forward_hook

from headway.errors import ConfigError
from headway.nn.attention import AttentionConfig
from headway.nn.cache import KVBuffers, LayerCache
from headway.nn.context import AttentionContext, LayerContext
from headway.nn.int8 import Int8Linear
from headway.nn.longformer_attention import GlobalAttention, GlobalAttentionConfig, Windows
from headway.ops import KERNELS, Global, Lengths, Mask, Window, absorbed_attention
from headway.ops.kernels import banded, flex
from headway.ops.kernels.base import Kernel
from tests.nn.tiny import layer_context

WIDTH, HEADS, LENGTH = 12, 3, 41
LENGTHS = torch.tensor([41, 29])
MARKS = torch.zeros(2, LENGTH, dtype=torch.bool)
MARKS[0, [0, 7, 40]] = True
MARKS[1, 3] = True


def layer(kernel: str = "auto", **settings) -> GlobalAttention:
    made = GlobalAttentionConfig(width=WIDTH, heads=HEADS, kernel=kernel, **settings).build().double()
    return made.eval()


def pattern(radius: int = 4, dilation: int | tuple[int, ...] = 1, marks: Tensor = MARKS) -> Mask:
    return (Window(radius, dilation=dilation) | Global(marks)) & Lengths(LENGTHS)


def two_passes(made: GlobalAttention, x: Tensor, radius: int, dilation: tuple[int, ...]) -> Tensor:
    """Token by token: the window and the global tokens through `qkv`; a global token sees all through its own."""
    q, k, v = (made.qkv(x).split(WIDTH, -1)[n].unflatten(-1, (HEADS, -1)) for n in range(3))
    own_q = made.global_q(x).unflatten(-1, (HEADS, -1))
    own_k, own_v = (part.unflatten(-1, (HEADS, -1)) for part in made.global_kv(x).split(WIDTH, -1))
    rows = []
    for b, real in enumerate(LENGTHS.tolist()):
        for i in range(LENGTH):
            for h in range(HEADS):
                step = dilation[h]
                window = {i + n * step for n in range(-radius, radius + 1)} & set(range(real))
                everyone = {j for j in range(real) if MARKS[b, j]}
                seen = sorted(window | everyone)  # a set: a global token in the window counts once
                use = (q, k, v)
                if MARKS[b, i]:
                    seen, use = list(range(real)), (own_q, own_k, own_v)
                if not seen:
                    rows.append(torch.zeros(WIDTH // HEADS, dtype=x.dtype))
                    continue
                scores = use[1][b, seen, h] @ use[0][b, i, h] * (WIDTH // HEADS) ** -0.5
                rows.append(scores.softmax(-1) @ use[2][b, seen, h])
    return made.out(torch.stack(rows).view(2, LENGTH, WIDTH))


def absorbing(monkeypatch: pytest.MonkeyPatch, does: bool = True) -> None:
    """Let global queries absorb the maps of their keys and values, or never."""
    monkeypatch.setattr(absorbed_attention, "is_faster_for", lambda queries, heads, width: does)


@pytest.mark.parametrize("absorbs", [True, False])
@pytest.mark.parametrize("dilation", [(1, 1, 1), (1, 1, 3), (2, 2, 2)])
@pytest.mark.parametrize("kernel", ["banded", "sdpa", "reference", "auto"])
def test_two_dense_passes_outputs_and_gradients(kernel, dilation, absorbs, monkeypatch):
    monkeypatch.setitem(banded.MAX_SCORES, "cpu", 2**10)
    absorbing(monkeypatch, absorbs)
    made = layer(kernel)
    x = torch.randn(2, LENGTH, WIDTH, dtype=torch.float64, requires_grad=True)
    probe = torch.randn(2, LENGTH, WIDTH, dtype=torch.float64)
    steps = dilation[0] if len(set(dilation)) == 1 else dilation
    found = []
    for out in (
        made(x, layer_context(mask=pattern(4, steps))),
        two_passes(made, x, 4, dilation),
    ):
        wanted = [x, *made.parameters()]
        found.append([out.detach(), *torch.autograd.grad((out * probe).sum(), wanted)])
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


@torch.no_grad()
def test_flex_gives_the_same(monkeypatch):
    unfused = Kernel(partial(flex.run, compile=False), flex.unsupported_reason)  # compiling takes half a minute
    monkeypatch.setitem(KERNELS, "flex", unfused)
    x = torch.randn(2, LENGTH, WIDTH)
    made = layer("reference").float()
    want = made(x, layer_context(mask=pattern()))
    made.kernel = "flex"
    torch.testing.assert_close(made(x, layer_context(mask=pattern())), want, rtol=1e-5, atol=1e-5)


def test_a_window_over_everything_and_no_global_token_is_plain_attention():
    made = layer("banded")
    plain = AttentionConfig(width=WIDTH, heads=HEADS).build().double()
    plain.load_state_dict({name: x for name, x in made.state_dict().items() if "global" not in name})
    x = torch.randn(2, LENGTH, WIDTH, dtype=torch.float64)
    none = torch.zeros_like(MARKS)
    for mask in (Window(LENGTH), Window(LENGTH) | Global(none)):
        torch.testing.assert_close(made(x, layer_context(mask=mask)), plain(x), rtol=1e-9, atol=1e-9)


def test_copies_of_the_local_projections_see_like_them():
    """With equal projections the two passes are one attention under the whole mask."""
    made = layer("reference")
    made.copy_local()
    x = torch.randn(2, LENGTH, WIDTH, dtype=torch.float64)
    plain = AttentionConfig(width=WIDTH, heads=HEADS, kernel="reference").build().double()
    plain.load_state_dict({name: x for name, x in made.state_dict().items() if "global" not in name})
    torch.testing.assert_close(
        made(x, layer_context(mask=pattern())),
        plain(x, layer_context(mask=pattern())),
        rtol=1e-9,
        atol=1e-9,
    )


@pytest.mark.parametrize("absorbs", [True, False])
def test_taps_see_both_passes_and_change_nothing(absorbs, monkeypatch):
    absorbing(monkeypatch, absorbs)
    made = layer("banded")
    x = torch.randn(2, LENGTH, WIDTH, dtype=torch.float64)
    before, seen = made(x, layer_context(mask=pattern())), {}
    for name in ("weights", "global_q", "global_k", "global_v", "v"):
        tap = getattr(made, f"tap_{name}")
        tap.register_forward_hook(lambda _, __, out, name=name: seen.__setitem__(name, out.detach()))
    assert torch.equal(made(x, layer_context(mask=pattern())), before)
    assert seen["global_q"].shape == (2, HEADS, 3, WIDTH // HEADS)
    by_hand = seen["weights"] @ seen["v"]
    for b, i in MARKS.nonzero().tolist():
        by_hand[b, :, i] = (seen["weights"][b, :, i, None] @ seen["global_v"][b])[:, 0]
    torch.testing.assert_close(made._join(by_hand), before, rtol=1e-9, atol=1e-9)
    assert seen["weights"][0, :, 7].count_nonzero(-1).tolist() == [LENGTH] * HEADS
    assert (seen["weights"][0, :, 20] != 0).sum(-1).tolist() == [9 + 3] * HEADS


def test_a_hook_may_replace_the_weights():
    made = layer()
    x = torch.randn(2, LENGTH, WIDTH, dtype=torch.float64)
    made.tap_weights.register_forward_hook(lambda _, __, weights: torch.zeros_like(weights))
    torch.testing.assert_close(made(x, layer_context(mask=pattern())), made.out.bias.expand(2, LENGTH, WIDTH))


@pytest.mark.parametrize("name", ["global_k", "global_v"])
def test_a_hook_may_replace_the_keys_and_values_of_global_tokens(name, monkeypatch):
    x = torch.randn(2, LENGTH, WIDTH, dtype=torch.float64)
    made, found = layer(), []
    getattr(made, f"tap_{name}").register_forward_hook(lambda _, __, out: out.flip(2))
    for absorbs in (True, False):
        absorbing(monkeypatch, absorbs)
        found.append(made(x, layer_context(mask=pattern())))
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-9)
    made.get_submodule(f"tap_{name}")._forward_hooks.clear()
    assert (made(x, layer_context(mask=pattern())) - found[0])[MARKS].abs().max() > 1e-3


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("name", ["global_k", "global_v", "weights"])
def test_a_hook_may_write_into_what_it_sees(name, mode, monkeypatch):
    absorbing(monkeypatch)
    x, found = torch.randn(2, LENGTH, WIDTH, dtype=torch.float64), []
    for hook in (lambda _, __, out: out.mul_(0.5), lambda _, __, out: out * 0.5):  # the same tensor, and another
        torch.manual_seed(1)
        made = layer()
        getattr(made, f"tap_{name}").register_forward_hook(hook)
        with mode():
            found.append(made(x, layer_context(mask=pattern())))
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-9)


def test_an_observer_gets_the_same_record_and_changes_nothing(monkeypatch):
    x, made, records = torch.randn(2, LENGTH, WIDTH, dtype=torch.float64), layer("banded"), []
    absorbing(monkeypatch)
    before = made(x, layer_context(mask=pattern()))
    made.on_attention = records.append
    assert torch.equal(made(x, layer_context(mask=pattern())), before)
    absorbing(monkeypatch, False)
    made(x, layer_context(mask=pattern()))
    for record in records:
        torch.testing.assert_close(record.head_outputs(), records[1].head_outputs(), rtol=1e-9, atol=1e-9)
        assert torch.equal(record.weights(), records[1].weights())


@torch.no_grad()
def test_maps_that_are_no_plain_matrix_are_not_absorbed(monkeypatch):
    """In 8 bits, or with a hook on the map itself, its keys and values are made."""
    x = torch.randn(2, LENGTH, WIDTH)
    absorbing(monkeypatch)
    for other in ("8 bits", "hook"):
        made = layer().float()
        if other == "8 bits":
            made.global_kv = Int8Linear(made.global_kv.weight, made.global_kv.bias, made.global_kv.parts)
        else:
            made.global_kv.register_forward_hook(lambda _, __, out: 2 * out)
        found = made(x, layer_context(mask=pattern()))
        with monkeypatch.context() as patch:
            absorbing(patch, False)
            assert torch.equal(made(x, layer_context(mask=pattern())), found)


def doubled(made: GlobalAttention, calls: list[int]) -> None:
    map_ = made.global_kv
    map_.forward = lambda x: calls.append(1) or 2 * torch.nn.functional.linear(x, map_.weight, map_.bias)


@pytest.mark.parametrize(
    "register",
    [
        lambda made, calls: made.global_kv.register_forward_pre_hook(lambda *_: calls.append(1)),
        lambda made, calls: made.global_kv.register_full_backward_hook(lambda *_: calls.append(1)),
        lambda made, calls: made.global_kv.register_full_backward_pre_hook(lambda *_: calls.append(1)),
        lambda made, calls: register_module_forward_hook(
            lambda which, *_: calls.append(1) if which is made.global_kv else None
        ),
        doubled,
    ],
)
def test_hooks_on_the_projection_itself_are_called_and_may_change_it(register, monkeypatch):
    x, found = torch.randn(2, LENGTH, WIDTH, dtype=torch.float64, requires_grad=True), []
    made, calls = layer(), []
    handle = register(made, calls)
    for absorbs in (True, False):
        absorbing(monkeypatch, absorbs)
        found.append(made(x, layer_context(mask=pattern())))
        found[-1].sum().backward()
    if handle is not None:
        handle.remove()
    assert len(calls) == 2
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-9)


def test_dropout_falls_on_both_passes():
    made = layer(dropout=0.5).train()
    x = torch.randn(2, LENGTH, WIDTH, dtype=torch.float64)
    a, b = (
        made(x, layer_context(mask=pattern())),
        made(x, layer_context(mask=pattern())),
    )
    assert (a - b)[MARKS].abs().max() > 1e-3
    assert (a - b)[~MARKS].abs().max() > 1e-3


def test_unsupported_calls_raise():
    x = torch.randn(2, LENGTH, WIDTH, dtype=torch.float64)
    with pytest.raises(ConfigError, match="whole texts"):
        layer()(x, layer_context(mask=pattern(), cache=LayerCache(KVBuffers(4), 0, 0)))
    with pytest.raises(ConfigError, match="whole texts"):
        layer()(x, LayerContext(mask=pattern(), positions=AttentionContext(0, (x, x))))
    with pytest.raises(ConfigError, match="2 Global parts"):
        layer()(x, layer_context(mask=pattern() | Global(MARKS)))
    with pytest.raises(ConfigError, match="kv_heads"):
        GlobalAttentionConfig(width=WIDTH, heads=HEADS, kv_heads=1)


def test_windows_by_layer():
    masks = Windows(radius=(2, 4, 4), dilation=(1, 3, 3), dilated_heads=1).masks(3, HEADS, causal=True)
    assert masks == (Window(2, 0), Window(4, 0, (1, 1, 3)), Window(4, 0, (1, 1, 3)))
    assert masks[1] is masks[2]
    assert Windows(radius=5, dilation=2).masks(1, HEADS) == (Window(5, dilation=2),)


@pytest.mark.parametrize(
    ("windows", "message"),
    [
        (Windows(radius=(2, 4)), r"windows\.radius has 2 values for 3 layers"),
        (Windows(radius=0), r"windows\.radius=0"),
        (Windows(radius=2, dilation=(1, 0, 1)), r"windows\.dilation=0"),
        (Windows(radius=2, dilation=2, dilated_heads=5), r"dilated_heads=5, allowed: 0 to 4"),
    ],
)
def test_windows_that_do_not_fit_are_refused_by_name(windows, message):
    with pytest.raises(ConfigError, match=message):
        windows.check(3, 4)
