"""GELU behind a linear layer: gradients in one pass, in Triton's interpreter, are those of torch."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.utils.hooks import RemovableHandle

from headway.nn.feedforward import FeedForward, FeedForwardConfig
from headway.nn.linear import FusedLinear
from headway.ops import fused_gelu
from headway.ops.fused_gelu import linear_gelu

pytest.importorskip("triton")
from headway.ops.fused_gelu import launch
from headway.ops.fused_gelu.launch import BackwardTile, gelu_backward_in_tiles

with pytest.MonkeyPatch.context() as patch:  # tests/conftest.py imported Triton the same way
    patch.setenv("TRITON_INTERPRET", "0" if torch.cuda.is_available() else "1")
    launch._kernels()
device = "cuda" if torch.cuda.is_available() else "cpu"
CLOSE = 1e-5  # float32


def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape).to(device, dtype)


def plain(x: Tensor, weight: Tensor, bias: Tensor, *, tanh: bool = False) -> Tensor:
    return F.gelu(F.linear(x, weight, bias), approximate="tanh" if tanh else "none")


def gradients(layer, x: Tensor, weight: Tensor, bias: Tensor, probe: Tensor) -> list[Tensor]:
    leaves = [each.detach().clone().requires_grad_() for each in (x, weight, bias)]
    out = layer(*leaves)
    return [out.detach(), *torch.autograd.grad((out * probe).sum(), leaves)]


@pytest.mark.parametrize("tile", [BackwardTile(), BackwardTile(16, 4, 16, 4), BackwardTile(32, 32, 64, 4)])
@pytest.mark.parametrize("shape", [(7, 5), (129, 33), (3, 43, 16), (1, 1), (300, 257)])
@pytest.mark.parametrize("tanh", [False, True])
def test_the_gradient_and_its_sums_are_those_of_torch(shape, tile, tanh):
    h, grad = 3 * drawn(*shape), drawn(*shape)
    out, sums = gelu_backward_in_tiles(grad, h, tile, tanh=tanh)
    want = torch.ops.aten.gelu_backward(grad.double(), h.double(), approximate="tanh" if tanh else "none")
    torch.testing.assert_close(out.double(), want, rtol=CLOSE, atol=CLOSE)
    torch.testing.assert_close(sums.double(), want.flatten(0, -2).sum(0), rtol=CLOSE, atol=10 * CLOSE)


@pytest.mark.parametrize("tanh", [False, True])
def test_it_holds_far_from_zero_and_for_nan(tanh):
    h = torch.tensor([[-1e4, -40.0, -9.0, -0.0, 0.0, 9.0, 40.0, 1e4, float("nan")]], device=device)
    out, _ = gelu_backward_in_tiles(torch.ones_like(h), h, BackwardTile(), tanh=tanh)
    want = torch.ops.aten.gelu_backward(torch.ones_like(h), h, approximate="tanh" if tanh else "none")
    torch.testing.assert_close(out, want, rtol=CLOSE, atol=1e-7, equal_nan=True)


@pytest.mark.parametrize("shape", [(1,), (5, 7), (2, 3, 1024), (2049,), (0, 4)])
@pytest.mark.parametrize("tanh", [False, True])
def test_the_value_is_that_of_torch_in_any_size(shape, tanh):
    h = 4 * drawn(*shape)
    want = F.gelu(h.double(), approximate="tanh" if tanh else "none")
    torch.testing.assert_close(launch.gelu(h, tanh).double(), want, rtol=CLOSE, atol=1e-6)


def test_gradients_laid_out_in_any_way_and_missing_gradients():
    h, grad = drawn(6, 40), drawn(40, 6).T
    out, sums = gelu_backward_in_tiles(grad, h, BackwardTile(16, 4, 16, 4))
    torch.testing.assert_close(out, torch.ops.aten.gelu_backward(grad, h), rtol=CLOSE, atol=CLOSE)
    torch.testing.assert_close(sums, out.sum(0), rtol=CLOSE, atol=CLOSE)
    out, sums = gelu_backward_in_tiles(h[:0], h[:0], BackwardTile())
    assert out.shape == (0, 40)
    assert sums.tolist() == [0.0] * 40


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_layer_gives_what_two_give_to_rounding_and_its_gradients_are_theirs(dtype):
    given = [drawn(2, 9, 12, dtype=dtype), drawn(20, 12, dtype=dtype), drawn(20, dtype=dtype)]
    probe = drawn(2, 9, 20, dtype=dtype)
    found, want = gradients(linear_gelu, *given, probe), gradients(plain, *given, probe)
    torch.testing.assert_close(found[0], want[0], rtol=max(CLOSE, torch.finfo(dtype).eps), atol=CLOSE)
    close = CLOSE if dtype == torch.float32 else 3 * torch.finfo(dtype).eps
    for mine, theirs in zip(found[1:], want[1:], strict=True):
        assert mine.dtype == dtype
        assert (mine - theirs).abs().max() <= close * theirs.abs().max()


def autocast(layer, *given: Tensor) -> Tensor:
    with torch.autocast(device, torch.bfloat16):
        return layer(*given)


def test_under_autocast_the_bias_gets_its_gradient_in_its_own_type():
    given, probe = [drawn(2, 9, 12), drawn(20, 12), drawn(20)], drawn(2, 9, 20)
    found, want = (gradients(partial(autocast, layer), *given, probe) for layer in (linear_gelu, plain))
    torch.testing.assert_close(found[0], want[0], rtol=torch.finfo(torch.bfloat16).eps, atol=CLOSE)
    assert found[0].dtype == torch.bfloat16
    for mine, theirs in zip(found[1:], want[1:], strict=True):
        assert mine.dtype == torch.float32
        torch.testing.assert_close(mine, theirs, rtol=0.02, atol=0.05)


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("tanh", [False, True])
def test_higher_derivatives_are_those_of_torch(order, tanh):
    given = [drawn(4, 3), drawn(5, 3), drawn(5)]

    def derived(layer) -> tuple[Tensor, ...]:
        leaves = [each.clone().requires_grad_() for each in given]
        found = (layer(*leaves),)
        for _ in range(order):
            found = torch.autograd.grad(sum(each.square().sum() for each in found), leaves, create_graph=True)
        return found

    layers = partial(linear_gelu, tanh=tanh), partial(plain, tanh=tanh)
    for mine, theirs in zip(*map(derived, layers), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def test_a_network_uses_it_only_where_it_is_faster_and_without_hooks(monkeypatch):
    network = FeedForward(12, FeedForwardConfig(inner=20, activation="gelu")).to(device)
    x, taken = drawn(2, 9, 12), []
    want = network(x)
    monkeypatch.setattr(fused_gelu, "linear_gelu", lambda *given, **how: taken.append(1) or linear_gelu(*given, **how))
    assert torch.equal(network(x), want)
    assert not taken  # too small, or on a CPU
    monkeypatch.setattr(fused_gelu, "is_faster_for", lambda x, bias: True)
    torch.testing.assert_close(network(x), want, rtol=CLOSE, atol=CLOSE)
    assert len(taken) == 1
    heard = []
    handle = network.up.register_forward_hook(lambda layer, given, out: heard.append(out.shape))
    assert torch.equal(network(x), want)
    handle.remove()
    assert (len(taken), heard) == (1, [(2, 9, 20)])


def hear_everything(layer: FusedLinear, heard: list[int]) -> RemovableHandle:
    return register_module_forward_hook(lambda which, given, out: heard.append(1) if which is layer else None)


def hear_gradients(layer: FusedLinear, heard: list[int]) -> RemovableHandle:
    return layer.register_full_backward_hook(lambda which, given, out: heard.append(1))


@pytest.mark.parametrize("hear", [hear_everything, hear_gradients])
def test_global_and_backward_hooks_fire(hear, monkeypatch):
    monkeypatch.setattr(fused_gelu, "is_faster_for", lambda x, bias: True)
    network, heard = FeedForward(12, FeedForwardConfig(inner=20, activation="gelu")).to(device), []
    handle = hear(network.up, heard)
    network(drawn(2, 9, 12).requires_grad_()).sum().backward()
    handle.remove()
    assert heard == [1]


class Doubled(FusedLinear):
    """One with a forward pass of its own."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


class Around(nn.Module):
    """Another kind of layer with one inside, as adapters have."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return 2 * self.inner(x)


@pytest.mark.parametrize("kind", ["subclass", "of this layer alone", "another kind"])
def test_another_forward_pass_is_the_one_that_counts(kind, monkeypatch):
    monkeypatch.setattr(fused_gelu, "is_faster_for", lambda x, bias: True)
    network, x = FeedForward(12, FeedForwardConfig(inner=20, activation="gelu")).to(device), drawn(2, 9, 12)
    up = network.up
    want = network.down(F.gelu(2 * up(x)))
    if kind == "subclass":
        network.up = Doubled(12, (20,), bias=True).to(device)
        network.up.load_state_dict(up.state_dict())
    elif kind == "of this layer alone":
        up.forward = lambda x: 2 * F.linear(x, up.weight, up.bias)
    else:
        network.up = Around(up)
    assert torch.equal(network(x), want)


def test_hooks_are_checked_under_compile_without_a_graph_break(monkeypatch):
    monkeypatch.setattr(fused_gelu, "is_faster_for", lambda x, bias: True)
    monkeypatch.setattr(fused_gelu, "linear_gelu", lambda *given, **how: 1 + plain(*given, **how))  # to be told apart
    network, x = FeedForward(12, FeedForwardConfig(inner=20, activation="gelu")).to(device), drawn(2, 9, 12)
    for add in (1, 0):
        want = network.down(add + F.gelu(network.up(x)))
        torch.compiler.reset()
        torch.testing.assert_close(torch.compile(network, backend="eager", fullgraph=True)(x), want)
        network.up.register_forward_hook(lambda layer, given, out: None)


def test_a_network_with_dropout_behind_it_leaves_it_to_torch(monkeypatch):
    monkeypatch.setattr(fused_gelu, "is_faster_for", lambda x, bias: pytest.fail("asked"))
    network = FeedForward(12, FeedForwardConfig(inner=20, activation="gelu", dropout=0.1)).to(device)
    assert network(drawn(2, 9, 12)).shape == (2, 9, 12)


class OnGpu(Tensor):
    """A tensor that says it is on a GPU."""

    is_cuda = True


@pytest.mark.parametrize(
    ("change", "taken"),
    [
        ({}, True),
        ({"rows": 100}, False),
        ({"dtype": torch.float32}, False),
        ({"frozen": True}, False),
        ({"generation": 80}, False),
        ({"gradients": False}, False),
        ({"rows": 2**23}, False),  # more than a CUDA grid can have
        ({"dtype": torch.float32, "autocast": True}, True),
        ({"dtype": torch.float64, "autocast": True}, False),  # which autocast leaves as it is
    ],
)
def test_it_is_used_for_large_16_bit_tensors_with_gradients(monkeypatch, change, taken):
    case = {"rows": 2**14, "dtype": torch.bfloat16, "frozen": False, "generation": 90, "gradients": True} | change
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: case.get("autocast", False))
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda device: torch.bfloat16)
    monkeypatch.setattr(fused_gelu, "capability", lambda: case["generation"])
    x = torch.empty(case["rows"], 4, dtype=case["dtype"]).as_subclass(OnGpu)
    with torch.set_grad_enabled(case["gradients"]):
        assert fused_gelu.is_faster_for(x, torch.empty(1024, requires_grad=not case["frozen"])) == taken
