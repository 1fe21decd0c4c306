"""headway as a typed program of a user's uses it: `make check` runs `mypy --strict` over this file, and
tests/test_typing.py the same against an installed copy, whose `py.typed` then counts."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

import headway
from headway.nn import AttentionConfig, BlockConfig, FeedForwardConfig, RMSNorm, Rotary, StackConfig
from headway.ops import Causal, Mask, Window, attend
from headway.runs import Run


def mixed(x_BHTE: Tensor) -> Tensor:
    """Attention with a combined mask."""
    mask: Mask = Causal() & Window(4)
    return attend(x_BHTE, x_BHTE, x_BHTE, mask=mask)


def stacked(x_BTD: Tensor) -> Tensor:
    """A stack of one block."""
    block = BlockConfig(
        attention=AttentionConfig(width=16, heads=2), feedforward=FeedForwardConfig(inner=32), norm=RMSNorm()
    )
    x: Tensor = StackConfig(layers=1, block=block, context=8, position=Rotary()).build()(x_BTD)
    return x


def used(folder: Path) -> dict[str, float]:
    """What a run's methods return."""
    run: Run = headway.load(folder, precision="auto")
    text: str = "".join(run.generate("It was ", max_tokens=5))
    scored: list[tuple[str, float]] = run.score(text)
    names: tuple[str, ...] = run.can()
    with headway.capture(run.model, layers=[0]) as seen:
        run.score(text)
    weights: Tensor = seen.weights[0]
    loss: float = run.evaluate(split="val").values["loss"]
    one: list[str] = run.translate(["a cat"], beam=4)
    several: list[list[str]] = run.translate(one, n_best=3, prefix="un")
    likelihood: float = run.translate(several[0], scores=True)[0].score
    best: float = run.translate(one, n_best=3, scores=True)[0][0].score - likelihood
    return {"best": best, "loss": loss, "tokens": len(scored), "commands": len(names), "heads": weights.shape[1]}


if __name__ == "__main__":
    print(mixed(torch.randn(1, 2, 6, 8)).shape, stacked(torch.randn(1, 6, 16)).shape)
