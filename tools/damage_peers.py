"""Measures how much damage safetensors and torch.load notice: the numbers beside ours in docs/reliability.md.

Prints a row for each format and kind of damage: noticed (an exception), without effect (the same tensors), silent.
"""

from __future__ import annotations

import io
import random
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

PAGE = 4096
Tensors = dict[str, Tensor]


def training_state() -> Tensors:
    """The tensors of a small model and of Adam, by name."""
    torch.manual_seed(0)
    model = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    optimiser = torch.optim.Adam(model.parameters())
    model(torch.randn(2, 8, 64)).square().sum().backward()
    optimiser.step()
    moments = {
        f"{key}.{number}": value
        for number, state in optimiser.state_dict()["state"].items()
        for key, value in state.items()
    }
    return {**{name: value.detach() for name, value in model.state_dict().items()}, **moments}


def torch_bytes(state: Tensors) -> bytes:
    """As torch.save writes it."""
    file = io.BytesIO()
    torch.save(state, file)
    return file.getvalue()


def torch_load(content: bytes) -> Any:
    """As torch.load reads it, without running code."""
    return torch.load(io.BytesIO(content), weights_only=True)


FORMATS: dict[str, tuple[Callable[[Tensors], bytes], Callable[[bytes], Any]]] = {
    f"safetensors {safetensors.__version__}": (safetensors.torch.save, safetensors.torch.load),
    f"torch {torch.__version__}": (torch_bytes, torch_load),
}


def flipped(content: bytes, chance: random.Random) -> bytes:
    """With one bit inverted."""
    damaged, bit = bytearray(content), chance.randrange(8 * len(content))
    damaged[bit // 8] ^= 1 << (bit % 8)
    return bytes(damaged)


def zeroed(content: bytes, chance: random.Random) -> bytes:
    """With one page of zeros."""
    at = PAGE * chance.randrange(len(content) // PAGE)
    return content[:at] + bytes(PAGE) + content[at + PAGE :]


def cut(content: bytes, chance: random.Random) -> bytes:
    """Without its end."""
    return content[: chance.randrange(len(content))]


def verdict(load: Callable[[bytes], Any], content: bytes, state: Tensors) -> str:
    """What became of loading a damaged file."""
    try:
        found = load(content)
    except Exception:  # seven types of it, from torch.load
        return "noticed"
    same = found.keys() == state.keys() and all(
        found[name].dtype == value.dtype and torch.equal(found[name], value) for name, value in state.items()
    )
    return "without effect" if same else "silent"


def main(flips: int = 2000, others: int = 500) -> int:
    """Print the table."""
    state = training_state()
    for name, (save, load) in FORMATS.items():
        content = save(state)
        for kind, damage, trials in (
            ("bit flip", flipped, flips),
            ("zeroed page", zeroed, others),
            ("cut", cut, others),
        ):
            chance = random.Random(f"{name} {kind}")
            counts = Counter(verdict(load, damage(content, chance), state) for _ in range(trials))
            shown = ", ".join(f"{counts[each]:,} {each}" for each in ("noticed", "without effect", "silent"))
            print(f"{name}, {len(content):,} bytes, {kind}: {trials:,} trials, {shown}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
