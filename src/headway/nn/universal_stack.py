"""One block, applied again and again: the Universal Transformer's stack, whose depth is time (FACTS §16).

Before each step every token is told where it stands and which step it is: x = h + P^t, with the paper's two
coordinates P^t_i = sinusoid(i) + sinusoid(t), t from 1. The block is the 2017 one, normalised after each part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from headway import ops
from headway.config import probability
from headway.errors import ConfigError
from headway.nn.adaptive_computation import Adaptive, Fixed, Halting, Pondering, mix
from headway.nn.block import Block, BlockConfig
from headway.nn.cache import Cache
from headway.nn.dropout import Dropout
from headway.nn.positions import Geometry
from headway.nn.stack import Memory, lined, standing
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
        halting: object = self.halting  # whoever writes Python may hand in anything
        if not isinstance(halting, Adaptive | Fixed):
            raise ConfigError(f"halting={halting!r}, allowed: Adaptive, Fixed")
        if self.block.attention.width % 2:
            raise ConfigError(f"width={self.block.attention.width}: coordinates are pairs, they need an even width")

    def build(self) -> Loop:
        """The loop of this config."""
        return Loop(self)


class Loop(nn.Module):
    """A block that is its own successor; called as a `Stack` is.

    A cache holds every step's keys and values: a later token may think longer than an earlier one, and then looks at
    what that one was at those steps.
    """

    def __init__(self, config: LoopConfig) -> None:
        super().__init__()
        halting, width = config.halting, config.block.attention.width
        self.width, self.halting = width, halting
        self.blocks = nn.ModuleList([Block(config.block)])  # a list, so that it is found where a stack's are
        self.dropout = Dropout(config.dropout)
        self.halt = Halting(width, halting.bias) if isinstance(halting, Adaptive) else None
        self.tap_steps, self.tap_cost = Tap(), Tap()  # N and N + R (B, T) of every pass, 0 in padding

    def empty_cache(self, capacity: int) -> Cache:
        """A cache for this loop, to be filled by `forward`."""
        return Cache.empty(self.halting.steps, capacity, parts=True)

    def remember(self, memory_BSD: Tensor, lengths_B: Tensor | None) -> Memory:
        """What the cross-attention needs of a source: one set of keys and values, for all steps."""
        projection = self.blocks[0].cross.project(memory_BSD)  # type: ignore[operator, union-attr]
        return Memory((projection,), None if lengths_B is None else Lengths(lengths_B))

    def forward(
        self,
        x_BTD: Tensor,
        *,
        mask: Mask | None = None,
        lengths_B: Tensor | None = None,
        cache: Cache | None = None,
        memory: Memory | None = None,
        shift_NBT: Tensor | None = None,
    ) -> Tensor:
        """(B, T, D) -> (B, T, D). With a cache, x holds the tokens after those it has seen.

        `shift_NBT` is added to the positions: at step n its row n, at all of them where it has one.
        """
        count = x_BTD.shape[1]
        offset, positions = standing(count, cache, x_BTD.device)
        if shift_NBT is not None:
            positions = positions + shift_NBT
        keep_BT = None
        if lengths_B is not None:
            keep_BT = torch.arange(count, device=x_BTD.device) < lengths_B.unsqueeze(-1)
        block = partial(
            self.blocks[0],
            mask=mask,
            geometry=lined(Geometry(offset), cache, count),
            used=cache.before(count) if cache else 0,
            memory=memory.layers[0] if memory else None,
            memory_mask=memory.mask if memory else None,
            lines=memory.lines if memory else 1,
            keep_BT=keep_BT,
        )
        steps = torch.arange(1, self.halting.steps + 1, device=x_BTD.device)
        places = ops.sinusoids(positions, self.width).to(x_BTD.dtype)
        times = ops.sinusoids(steps, self.width).to(x_BTD.dtype)

        def advance(state: Tensor, step: int) -> tuple[Tensor, Tensor]:
            """What the block is told at a step, and what it makes of it."""
            told = state + (places if shift_NBT is None else places[step % len(places)]) + times[step]
            return told, block(told, cache=cache.layers[step] if cache else None)

        state = self.dropout(x_BTD)
        tokens = Pondering.begin(x_BTD, keep_BT)
        if isinstance(self.halting, Adaptive):
            # With a cache no step may be left out: a later token looks at what these are at each of them.
            return self._adaptive(state, tokens, advance, self.halting, whole=cache is not None)
        for step in range(self.halting.steps):
            _, state = advance(state, step)
        return self._said(state, tokens.running * self.halting.steps, None)

    def _adaptive(
        self, state: Tensor, tokens: Pondering, advance: Advance, halting: Adaptive, *, whole: bool
    ) -> Tensor:
        """Steps until every token has halted, or all of them; what tokens hand out (B, T, D)."""
        assert self.halt is not None
        answer = torch.zeros_like(state)
        for step in range(halting.steps):
            told, after = advance(state, step)
            running = tokens.running
            u_BT, tokens = tokens.spend(self.halt(told), halting.threshold, last=step + 1 == halting.steps)
            answer = mix(answer, after, u_BT, halting.mixture)
            state = torch.where(running.unsqueeze(-1), after, state) if halting.halted == "copied" else after
            if not whole and _all_halted(tokens):
                break
        return self._said(answer, tokens.steps, tokens.cost)

    def _said(self, answer_BTD: Tensor, steps_BT: Tensor, cost_BT: Tensor | None) -> Tensor:
        """The answer, once whoever listens has heard what it took."""
        self.tap_steps(steps_BT)
        self.tap_cost(steps_BT.float() if cost_BT is None else cost_BT)
        return answer_BTD


def _all_halted(tokens: Pondering) -> bool:
    """Whether nothing more can change; not asked while a graph is made."""
    return not torch.compiler.is_compiling() and not bool(tokens.running.any())


@contextmanager
def listening(model: nn.Module) -> Iterator[list[tuple[Loop, Tensor, Tensor]]]:
    """While open: every loop that runs, the steps N (B, T) its tokens took, and their cost N + R."""
    heard: list[tuple[Loop, Tensor, Tensor]] = []
    steps: dict[Loop, Tensor] = {}
    hooks = []
    for loop in (part for part in model.modules() if isinstance(part, Loop)):

        def keep(_module: nn.Module, _inputs: object, value: Tensor, loop: Loop = loop) -> None:
            steps[loop] = value

        def join(_module: nn.Module, _inputs: object, value: Tensor, loop: Loop = loop) -> None:
            heard.append((loop, steps.pop(loop), value))

        hooks += [loop.tap_steps.register_forward_hook(keep), loop.tap_cost.register_forward_hook(join)]
    try:
        yield heard
    finally:
        for hook in hooks:
            hook.remove()
