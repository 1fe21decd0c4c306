"""Vision models on a GPU: compiled whole, captured, local attention on a fused kernel. Skipped without a GPU."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from headway.presets import build

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")

each = pytest.mark.parametrize("name", ["vit-small-data", "sl-vit", "convnet"])


def batch(rows: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(rows, 3, 32, 32, generator=generator)
    return images.cuda(), torch.randint(10, (rows,), generator=generator).cuda()


@each
def test_the_answers_are_the_cpus(name):
    images, _ = batch()
    expected = build(name).eval()(images.cpu())
    torch.testing.assert_close(build(name, device="cuda").eval()(images).cpu(), expected, atol=2e-2, rtol=0)


@each
def test_training_compiles_into_one_captured_graph(name):
    images, labels = batch()
    model = build(name, device="cuda").train()
    compiled = torch.compile(model, mode="reduce-overhead", fullgraph=True)
    losses = []
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(30):
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(compiled(images), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


def test_local_attention_runs_on_a_fused_kernel():
    images, labels = batch()
    model = build("sl-vit", device="cuda").train()
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION), torch.autocast("cuda", torch.bfloat16):
        F.cross_entropy(model(images), labels).backward()  # raises where that kernel cannot
    assert all(block.attention.scale.grad.isfinite().all() for block in model.stack.blocks)
