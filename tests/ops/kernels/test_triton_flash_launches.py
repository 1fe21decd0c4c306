"""What choosing and launching `flash` costs: looks at the device's values, and operations sent to it."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from headway.models import LongformerConfig, build_model
from headway.nn.longformer_attention import Windows
from headway.ops import Global, Lengths, Mask, Window
from headway.ops.kernels import cudnn, triton_flash
from headway.ops.kernels.base import AttentionInputs
from headway.ops.kernels.select import choose
from headway.ops.kernels.triton_flash import launch
from headway.ops.mask_structure import global_keys_only
from tests.ops.cases import marks

pytest.importorskip("triton")
with pytest.MonkeyPatch.context() as patch:  # tests/conftest.py imported Triton the same way
    patch.setenv("TRITON_INTERPRET", "0" if torch.cuda.is_available() else "1")
    launch.kernels()
interpreted = pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU the kernels are compiled")
aten = torch.ops.aten


class OnGpu(Tensor):
    """A tensor that says it is on a GPU."""

    is_cuda = True


def looks(run: Callable[[], object]) -> int:
    """How often `run` asks tensors for values: on a GPU each of them waits for the device."""
    asked: list[str] = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if function in (aten._local_scalar_dense.default, aten.nonzero.default, aten.equal.default):
                asked.append(str(function))
            return function(*args, **(kwargs or {}))

    with pytest.MonkeyPatch.context() as patch, Watch():
        tolist = Tensor.tolist
        patch.setattr(Tensor, "tolist", lambda x: (asked.append("tolist"), tolist(x))[1])
        run()
    return len(asked)


def longformers_mask(length: int) -> Mask:
    return (Window(4) | Global(marks(2, length, (0, 0), (1, 0)))) & Lengths(torch.tensor([length, length]))


def test_auto_looks_at_no_value_when_it_chooses(monkeypatch):
    for module in (cudnn, triton_flash):
        monkeypatch.setattr(module, "capability", lambda: 90)
    q = torch.randn(2, 12, 2048, 64, dtype=torch.bfloat16).as_subclass(OnGpu)
    mask = global_keys_only(longformers_mask(2048))
    chosen = []
    assert looks(lambda: chosen.append(choose(AttentionInputs(q, q, q, mask, None, 0.125)))) == 0
    assert chosen == ["flash"]


class Idle:
    """In place of a Triton kernel: counts how often it is launched."""

    def __init__(self) -> None:
        self.launched = 0

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        self.launched += 1
        return lambda *args, **settings: None


@pytest.fixture
def idle(monkeypatch) -> Idle:
    kernel = Idle()
    monkeypatch.setattr(launch.kernels()[0], "forward", kernel)
    monkeypatch.setattr(launch, "interpreted", lambda: True)
    return kernel


def longformer(layers: int, marks_BT: Tensor) -> Callable[[], Tensor]:
    """A forward pass of a tiny one."""
    config = LongformerConfig(
        vocab=20, context=64, width=16, layers=layers, heads=2, inner=16, windows=Windows(radius=4), kernel="flash"
    )
    model = build_model(config).eval()
    return lambda: model(torch.zeros(2, 64).long(), torch.tensor([64, 50]), global_BT=marks_BT)


@interpreted
@torch.no_grad()
def test_a_longformer_looks_at_the_device_no_oftener_for_more_layers(idle):
    counts = [looks(longformer(layers, marks(2, 64, (0, 0), (1, 0)))) for layers in (1, 3)]
    # The tokens, the lengths, and the marks, which are counted outside the device.
    assert counts[0] == counts[1] <= 4


def launches(run: Callable[[], object], idle: Idle) -> int:
    """How many operations a GPU would be sent: all but views and memory that is only set aside."""
    sent = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal sent
            views = any(x.alias_info is not None and not x.alias_info.is_write for x in function._schema.returns)
            sent += not (views or any(word in function.name() for word in ("empty", "_unsafe_view")))
            return function(*args, **(kwargs or {}))

    before = idle.launched
    with Watch():
        run()
    return sent + idle.launched - before


@interpreted
@pytest.mark.parametrize(
    ("places", "most"),
    [
        ((), 10),  # qkv, the kernel, out, three of the network, two sums, two norms
        (((0, 0), (1, 0)), 20),  # and two picked by the kernel, a query made and put back, six that absorb its maps
        (((0, 0), (0, 9), (1, 0)), 23),  # rows that differ, several tokens: three copies of a few numbers
    ],
)
@torch.no_grad()
def test_a_layer_of_longformer_costs_few_launches(places, most, idle):
    costs = [launches(longformer(layers, marks(2, 64, *places)), idle) for layers in (1, 2, 5)]
    assert costs[1] - costs[0] <= most
    assert costs[2] - costs[0] == 4 * (costs[1] - costs[0])
    assert costs[0] - (costs[1] - costs[0]) <= 18  # of a whole pass: embeddings, checks, masks, marks
