"""A decoder's step in five kernels a layer, in Triton's interpreter or on a GPU, is that of the blocks."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch

from headway.decoding.cuda_graph import GraphDecoder
from headway.models import GptConfig, build_model
from headway.nn import triton_step
from headway.nn.norms import LayerNorm, RMSNorm
from headway.nn.positions import AlibiBias, Rotary, Sinusoidal

pytest.importorskip("triton")
launch = import_module("headway.nn.triton_step.launch")

with pytest.MonkeyPatch.context() as patch:  # tests/conftest.py imported Triton the same way
    patch.setenv("TRITON_INTERPRET", "0" if torch.cuda.is_available() else "1")
    launch._kernels()
device = "cuda" if torch.cuda.is_available() else "cpu"


def gpt(**changes):
    config = {"vocab": 23, "context": 80, "width": 24, "layers": 2, "heads": 2, "inner": 40, "init_std": 0.3, **changes}
    return build_model(GptConfig(**config), seed=3).eval().to(device)


def decoder(model, rows: int) -> GraphDecoder:
    return GraphDecoder(model, rows=rows, capacity=80, compiled=False)


@pytest.mark.parametrize(
    "changes",
    [
        {}, {"norm": RMSNorm(), "bias": False, "activation": "silu"}, {"kv_heads": 1, "activation": "relu"},
        {"activation": "gelu", "position": Sinusoidal(), "norm": LayerNorm(bias=False)},
        {"position": None, "head_dim": 10, "qkv_bias": False, "scale": 0.2},
    ],
)  # fmt: skip
@pytest.mark.parametrize("rows", [1, 3])
def test_the_step_is_that_of_the_blocks(changes, rows):
    model = gpt(**changes)
    prompt = torch.randint(0, 23, (rows, 67), generator=torch.Generator().manual_seed(0)).to(device)
    token = torch.randint(0, 23, (rows, 1), generator=torch.Generator().manual_seed(1)).to(device)
    found, caches = [], []
    for program in (None, triton_step.TritonStep()):
        held = decoder(model, rows)
        held.begin(prompt)
        model.stack.step_program = program
        found.append(torch.cat([model.extend(token, held.cache)[0] for _ in range(2)], 1))
        caches.append([buffer for layer in held.cache.layers for buffer in (layer.k, layer.v)])
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-4)
    for one, other in zip(*caches, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "changes",
    [
        {"position": Rotary()},
        {"position": AlibiBias()},
        {"activation": "swiglu"},
        {"qk_norm": True},
        {"place": "sandwich"},
    ],
)
def test_other_models_take_the_plain_way(changes):
    model = gpt(**changes)
    held = decoder(model, 1)
    with triton_step.installed(model.stack, 1):
        program = model.stack.step_program
        state = {"mask": model._masks(held.cache.length), "cache": held.cache, "memory": None}
        contexts = model.stack.attention_positions
        assert program is None or contexts is not None
        if program is not None and contexts is not None:
            place = held.cache.length.view(1)
            (context, *_) = contexts.of_layers(place, held.cache.length, 2)
            assert program(model.stack.blocks, torch.zeros(1, 1, 24, device=device), positions=context, **state) is None
    assert model.stack.step_program is None


def test_it_is_installed_for_few_rows_only():
    model = gpt()
    for rows, taken in ((1, True), (triton_step.MAX_ROWS, True), (triton_step.MAX_ROWS + 1, False)):
        with triton_step.installed(model.stack, rows):
            assert (model.stack.step_program is not None) == taken
