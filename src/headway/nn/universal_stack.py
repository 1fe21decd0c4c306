"""One block, applied repeatedly: the stack of the Universal Transformer (Dehghani et al. 2019, section 2.1).

Before each step the block's input gets the position and the step number: x = h + P^t with the paper's two coordinates
P^t_i = sinusoid(i) + sinusoid(t), t from 1. The block is the 2017 transformer's, normalised after each part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from headway import ops
from headway.config import probability
from headway.errors import ConfigError
from headway.nn.adaptive_computation import Adaptive, Fixed, Halting, Pondering
from headway.nn.beam_cache import BeamKVCache
from headway.nn.block import Block, BlockConfig
from headway.nn.cache import KVCache
from headway.nn.context import AttentionContext, LayerContext
from headway.nn.dropout import Dropout
from headway.nn.memory import Memory
from headway.nn.stack import position_ids
from headway.nn.taps import Tap
from headway.ops import Lengths, Mask

Advance = Callable[[Tensor, int], tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """A block and how often it is applied."""

    block: BlockConfig
    halting: Adaptive | Fixed
    dropout: float = 0.0  # on the input

    def __post_init__(self) -> None:
        probability("dropout", self.dropout)
        halting: object = self.halting  # types are not checked at run time
        if not isinstance(halting, Adaptive | Fixed):
            raise ConfigError(f"halting={halting!r}, allowed: Adaptive, Fixed")
        if self.block.attention.width % 2:
            raise ConfigError(f"width={self.block.attention.width}: coordinates are pairs, they need an even width")

    def build(self) -> Loop:
        """The loop of this config."""
        return Loop(self)


class Loop(nn.Module):
    """One block with shared weights for all steps; called as a `Stack` is.

    A cache holds the keys and values of every step: a later token may take more steps than an earlier one, and then
    attends to the earlier token's state at those steps.
    """

    def __init__(self, config: LoopConfig) -> None:
        super().__init__()
        halting, width = config.halting, config.block.attention.width
        self.halting = halting  # for losses and reports: `forward` does not read it
        self.width, self.steps = width, halting.steps
        self.blocks = nn.ModuleList([Block(config.block)])  # a list, under the same name as a stack's blocks
        self.dropout = Dropout(config.dropout)
        self.halt = Halting(width, halting) if isinstance(halting, Adaptive) else None
        self.tap_steps, self.tap_cost = Tap(), Tap()  # N and N + R (B, T) of every pass, 0 in padding

    def empty_cache(self, capacity: int) -> KVCache:
        """A cache for this loop, to be filled by `forward`."""
        return BeamKVCache.empty(self.steps, capacity)

    def project_memory(self, memory_BSD: Tensor, lengths_B: Tensor | None) -> Memory:
        """The source's keys and values: one set, for all steps."""
        projection = self.blocks[0].cross.project(memory_BSD)  # type: ignore[operator, union-attr]
        return Memory((projection,), None if lengths_B is None else Lengths(lengths_B))

    def forward(
        self,
        x_BTD: Tensor,
        *,
        mask: Mask | None = None,
        lengths_B: Tensor | None = None,
        cache: KVCache | None = None,
        memory: Memory | None = None,
        shift_NBT: Tensor | None = None,
    ) -> Tensor:
        """(B, T, D) -> (B, T, D). With a cache, x holds the tokens after those it has seen.

        `shift_NBT` is added to the positions: at step n its row n, or at every step its only row.
        """
        count = x_BTD.shape[1]
        offset, positions = position_ids(count, cache, x_BTD.device)
        if shift_NBT is not None:
            positions = positions + shift_NBT
        real_BT = None
        if lengths_B is not None:
            real_BT = torch.arange(count, device=x_BTD.device) < lengths_B.unsqueeze(-1)
        shared = LayerContext(
            mask=mask,
            positions=AttentionContext(offset),
            memory=None if memory is None else memory.layer(0),
            real_BT=real_BT,
        )
        caches = None if cache is None else cache.layer_caches(count)
        steps = torch.arange(1, self.steps + 1, device=x_BTD.device)
        places = ops.sinusoids(positions, self.width).to(x_BTD.dtype)
        times = ops.sinusoids(steps, self.width).to(x_BTD.dtype)

        def advance(state: Tensor, step: int) -> tuple[Tensor, Tensor]:
            """The block's input at a step, and its output."""
            x = state + (places if shift_NBT is None else places[step % len(places)]) + times[step]
            return x, self.blocks[0](x, shared if caches is None else replace(shared, cache=caches[step]))

        state = self.dropout(x_BTD)
        tokens = Pondering.begin(x_BTD, real_BT)
        if self.halt is not None:
            # With a cache no step may be left out: later tokens attend to these tokens at every step.
            return self._adaptive(state, tokens, advance, self.halt, whole=cache is not None)
        for step in range(self.steps):
            _, state = advance(state, step)
        return self._reported(state, tokens.running * self.steps, None)

    def _adaptive(self, state: Tensor, tokens: Pondering, advance: Advance, halt: Halting, *, whole: bool) -> Tensor:
        """Steps until every token has halted, with `whole` all of them -> the tokens' outputs (B, T, D)."""
        output = torch.zeros_like(state)
        for step in range(self.steps):
            x, after = advance(state, step)
            running = tokens.running
            u_BT, tokens = tokens.spend(halt(x), halt.threshold, last=step + 1 == self.steps)
            output = halt.mix(output, after, u_BT)
            state = torch.where(running.unsqueeze(-1), after, state) if halt.copies else after
            if not whole and _all_halted(tokens):
                break
        return self._reported(output, tokens.steps, tokens.cost)

    def _reported(self, output_BTD: Tensor, steps_BT: Tensor, cost_BT: Tensor | None) -> Tensor:
        """The output, after its steps and cost have passed their taps."""
        self.tap_steps(steps_BT)
        self.tap_cost(steps_BT.float() if cost_BT is None else cost_BT)
        return output_BTD


def _all_halted(tokens: Pondering) -> bool:
    """Whether nothing can change any more; False while a graph is compiled."""
    return not torch.compiler.is_compiling() and not bool(tokens.running.any())


class LoopRecord(NamedTuple):
    """One run of a loop: the steps N (B, T) that its tokens took, and their cost N + R."""

    loop: Loop
    steps: Tensor
    cost: Tensor


@contextmanager
def record_steps(model: nn.Module) -> Iterator[list[LoopRecord]]:
    """While open, collect a record of every run of a `Loop` in this model, through its taps."""
    records: list[LoopRecord] = []
    steps: dict[Loop, Tensor] = {}
    hooks = []
    for loop in _loops(model):

        def keep(_module: nn.Module, _inputs: object, value: Tensor, loop: Loop = loop) -> None:
            steps[loop] = value

        def join(_module: nn.Module, _inputs: object, value: Tensor, loop: Loop = loop) -> None:
            records.append(LoopRecord(loop, steps.pop(loop), value))

        hooks += [loop.tap_steps.register_forward_hook(keep), loop.tap_cost.register_forward_hook(join)]
    try:
        yield records
    finally:
        for hook in hooks:
            hook.remove()


def has_loops(model: nn.Module) -> bool:
    """Whether a part of the model is run as often as its input asks for, or is recorded when it runs."""
    return bool(_loops(model))


def _loops(model: nn.Module) -> tuple[Loop, ...]:
    """The loops of a model, found once: a training step asks for them, and most models have none."""
    if "_loops" not in vars(model):
        vars(model)["_loops"] = tuple(part for part in model.modules() if isinstance(part, Loop))
    found: tuple[Loop, ...] = vars(model)["_loops"]
    return found
