"""A model prepared for large trainings: shards of it on each rank, and activations that are computed again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from torch import nn
from torch.utils.checkpoint import checkpoint

from headway.nn.block import Block
from headway.training.ranks import Alone, Ranks

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule

# Methods by which a model is called beside `forward`: FSDP gathers its parameters before them, too.
UNIT = 2**24  # parameters that are gathered at once, at least: fewer do not outweigh what each gathering costs
CALLED = ("features", "start", "extend", "encode")


def recompute_blocks(model: nn.Module) -> None:
    """Keep the input of each block alone for backward, and compute the block again there: the same bits, less memory.

    The random state is restored for it, so that dropout draws the same masks.
    """
    for block in _blocks(model):
        block.forward = _recomputed(block)  # type: ignore[method-assign, assignment]


def _recomputed(block: Block) -> object:
    plain = block.forward
    again = partial(checkpoint, plain, use_reentrant=False)

    def forward(*inputs: object, **more: object) -> object:
        return again(*inputs, **more) if block.training else plain(*inputs, **more)  # type: ignore[arg-type]

    return forward


def shard_model(model: nn.Module, ranks: Alone, *, by_machine: bool) -> None:
    """Leave each rank its rows of every parameter (FSDP2): blocks are gathered when they compute, small ones together.

    Gradients are summed, not averaged: the loss is divided by the count of the whole step. With `by_machine`, each
    machine has all of the model. Weights are gathered in 32 bits: autocast then computes as without shards.
    """
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    assert isinstance(ranks, Ranks)
    mesh = ranks.mesh(by_machine=by_machine)
    units: list[list[nn.Module]] = [*_units(_blocks(model)), [model]]
    for unit in units:
        fully_shard(unit, mesh=mesh)
        sharded = cast("FSDPModule", unit[0])
        sharded.set_gradient_divide_factor(1.0)
        sharded.set_force_sum_reduction_for_comms(True)  # gloo cannot scale while it adds
    for name in CALLED:
        if hasattr(model, name):
            register_fsdp_forward_method(model, name)


def release(model: nn.Module) -> None:
    """Give back what a forward pass without backward left gathered: the parameters are shards again."""
    cast("FSDPModule", model).reshard()


def compile_blocks(model: nn.Module, *, fixed: bool) -> None:
    """Compile each block of a sharded model: what FSDP does between them stays outside."""
    for block in _blocks(model):
        block.compile(dynamic=not fixed)


def _units(blocks: Sequence[nn.Module]) -> list[list[nn.Module]]:
    """The blocks in groups that are gathered at once, each of UNIT parameters or of one block."""
    units: list[list[nn.Module]] = []
    held = UNIT
    for block in blocks:
        if held >= UNIT:
            units.append([])
            held = 0
        units[-1].append(block)
        held += sum(parameter.numel() for parameter in block.parameters())
    return units


def _blocks(model: nn.Module) -> list[Block]:
    return [part for part in model.modules() if isinstance(part, Block)]
