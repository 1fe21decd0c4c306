"""The fixed-shape decoder, here without a graph: the same tokens as stepping with a cache that grows."""

from __future__ import annotations

import pytest
import torch

from headway.decoding.cuda_graph import GraphDecoder
from headway.decoding.sampling import Sampling
from headway.errors import ConfigError
from headway.models import GptConfig, build_model
from headway.nn.positions import AlibiBias, Learned, Rotary, Sinusoidal


def gpt(**changes):
    return build_model(
        GptConfig(**{"vocab": 37, "context": 24, "width": 32, "layers": 2, "heads": 4, "dropout": 0.0, **changes})
    ).eval()


@pytest.mark.parametrize("kernel", ["auto", "sdpa", "few", "reference"])
@pytest.mark.parametrize("position", [Learned(), Rotary(), AlibiBias(), Sinusoidal()])
def test_a_cache_of_fixed_shape_writes_the_same_text(position, kernel):
    model = gpt(position=position, kernel=kernel, kv_heads=2)
    prompt = torch.randint(0, 37, (3, 5), generator=torch.Generator().manual_seed(0))
    logits, state = model.extend(prompt, model.start())
    want = [logits[:, -1:].argmax(-1)]
    for _ in range(11):
        logits, state = model.extend(want[-1], state)
        want.append(logits.argmax(-1))
    decoder = GraphDecoder(model, rows=3, capacity=24)
    assert torch.equal(decoder.write(prompt, 12), torch.cat(want, 1))
    assert torch.equal(decoder.write(prompt, 12), torch.cat(want, 1))  # used again, nothing is left of before
    again = decoder.write(prompt[:, :2], 9)
    assert again.shape == (3, 9)


def test_drawing_follows_the_seed_and_the_model():
    model = gpt()
    decoder = GraphDecoder(model, rows=1, capacity=24, sampling=Sampling())
    prompt = torch.tensor([[1, 2, 3]])
    first = decoder.write(prompt, 8, seed=5)
    assert torch.equal(first, decoder.write(prompt, 8, seed=5))
    drawn = torch.cat([decoder.write(prompt, 1, seed=seed) for seed in range(600)])
    share = torch.bincount(drawn.flatten(), minlength=37) / 600
    assert (share - model(prompt)[0, -1].softmax(-1)).abs().max() < 0.06


def test_a_batch_that_does_not_fit_is_rejected():
    decoder = GraphDecoder(gpt(), rows=2, capacity=12)
    with pytest.raises(ConfigError, match="for 2 texts of up to 12 tokens"):
        decoder.write(torch.zeros(2, 5, dtype=torch.long), 8)
    with pytest.raises(ConfigError, match="3 prompts"):
        decoder.write(torch.zeros(3, 5, dtype=torch.long), 2)
