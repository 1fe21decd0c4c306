"""What a rank holds of GPT-2 shapes up to 65 B under `train.shard full`, on paper: `python -m tools.shard_plan`.

The real models are cut by the real code, on PyTorch's fake process group and without memory (the "meta" device): the
rows of rank 0, which has the most, are counted, not estimated. Activations are a formula, and say so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from headway import limits
from headway.models import GptConfig, build_model
from headway.training.parallel import shard_model
from headway.training.ranks import RankPlace, Ranks
from headway.training.shards import local

SHAPES = {  # width, layers, heads: of Radford et al. 2019 (GPT-2), Brown et al. 2020 (6.7 B, 13 B), and wider ones
    "gpt2": (768, 12, 12),
    "gpt2-medium": (1024, 24, 16),
    "gpt2-large": (1280, 36, 20),
    "gpt2-xl": (1600, 48, 25),
    "6.7 B": (4096, 32, 32),
    "13 B": (5120, 40, 40),
    "30 B": (7168, 48, 56),
    "65 B": (8192, 80, 64),
}
CONTEXT = 1024
RANKS = (1, 8, 64, 512)
WEIGHT = 4  # bytes of a weight, of its gradient, and of each of AdamW's two means
INSIDE = 34  # bytes for each token and unit of width inside a block in 16 bits (Korthikanti et al. 2022, section 4.1)
GIB = 2**30


@dataclass(frozen=True, slots=True)
class Held:
    """What rank 0 of some ranks holds, in bytes."""

    parameters: int  # of the whole model
    state: int  # its rows of weights, gradients and AdamW's means
    gathered: int  # two blocks' weights, one block's gradient, and embedding, last norm and head with their gradients
    activations: int  # by formula, of one row of CONTEXT tokens, with train.recompute blocks


def held(shape: tuple[int, int, int], ranks: int) -> Held:
    """What the first of these ranks holds of a model of this width, layers and heads."""
    width, layers, heads = shape
    config = GptConfig(vocab=50257, context=CONTEXT, width=width, layers=layers, heads=heads)
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    try:
        with limits.raised({"parameters": 10**12}):
            model = build_model(config, device="meta")
        parameters = sum(each.numel() for each in model.parameters())
        block = sum(each.numel() for each in model.get_submodule("stack.blocks.0").parameters())
        shard_model(model, Ranks(RankPlace(0, ranks, 0, ranks, 0), dist.HashStore()), by_machine=False)
        own = sum(local(each).numel() for each in model.parameters())
    finally:
        dist.destroy_process_group()
    around = parameters - layers * block
    return Held(
        parameters=parameters,
        state=4 * WEIGHT * own,
        gathered=WEIGHT * (3 * block + 2 * around) if ranks > 1 else 0,
        activations=CONTEXT * width * (WEIGHT * layers + INSIDE),
    )


def table() -> Iterator[str]:
    """The table of docs/scale.md."""
    columns = [*(f"{ranks} ranks" for ranks in RANKS[1:]), "one process", "activations of a row"]
    yield f"| shape | parameters | {' | '.join(columns)} |"
    yield "|---|---|" + "---|" * (len(RANKS) + 1)
    for name, shape in SHAPES.items():
        found = {ranks: held(shape, ranks) for ranks in RANKS}
        cells = [f"{found[ranks].state / GIB:.1f} + {found[ranks].gathered / GIB:.1f}" for ranks in RANKS[1:]]
        last = [f"{found[1].state / GIB:.1f}", f"{found[1].activations / GIB:.2f}"]
        yield f"| {name} | {found[1].parameters:,} | " + " | ".join([*cells, *last]) + " |"


if __name__ == "__main__":
    print("\n".join(table()))
