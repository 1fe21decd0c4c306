"""The decoder step of an 8-bit model as one TorchScript program: the blocks of a stack for one token per row.

In a model of base size a fifth of a step is Python calling small operations. The blocks stay the definition of the
model: the program is used where no hook or observer is registered and all parts are of the kinds below, and gives the
same numbers to the bit. `nn.int8.quantise` installs it; without TorchScript (Python 3.14 and later) it does not, and
the blocks are called as ever.
"""

from __future__ import annotations

import warnings
from typing import Protocol

import torch
from torch import Tensor, nn

from headway.nn.attention import CrossAttention, SelfAttention
from headway.nn.block import Block
from headway.nn.cache import KVCache
from headway.nn.context import AttentionContext
from headway.nn.int8 import layers
from headway.nn.int8.layers import PROCESS_LOCK, Int8Linear, supported
from headway.nn.int8.outliers import OutlierInt8Linear
from headway.nn.int8.torchscript_layers import ACTIVATIONS, LINEAR_LAYERS, Layers
from headway.nn.memory import Memory
from headway.nn.norms import FeatureLayerNorm
from headway.nn.row_cache import RowsKVCache
from headway.nn.taps import Observers, observed
from headway.ops import Causal
from headway.ops.kernels import decode, gathered
from headway.ops.kernels.sdpa import dense

COMPILE_AFTER_STEPS = 64  # compiling takes as long as some forty steps save


class TorchScriptStep:
    """The step program of one stack: counts the steps it could take, and compiles the blocks once that pays."""

    def __init__(self) -> None:
        self.steps = 0
        self.blocks: list[nn.Module] = []  # for which the rest was determined
        self.supported = False
        self.observers: Observers | None = None
        self.program: Program | None = None

    def __reduce__(self) -> tuple[type[TorchScriptStep], tuple[()]]:
        return TorchScriptStep, ()  # a copy of the model compiles its own

    def __call__(
        self,
        blocks: nn.ModuleList,
        x_BTD: Tensor,
        *,
        mask: object,
        positions: AttentionContext,
        cache: KVCache,
        memory: Memory | None,
    ) -> Tensor | None:
        """(B, 1, D) -> (B, 1, D); None where the blocks have to be called themselves."""
        plain = type(mask) is Causal and positions.angles is None and positions.bias is None
        if not plain or x_BTD.shape[1] != 1 or x_BTD.dtype != torch.float32 or torch.is_grad_enabled():
            return None
        if blocks.training or torch.is_autocast_enabled("cpu"):
            return None
        alike = isinstance(cache.length, int) or (isinstance(cache, RowsKVCache) and memory is None)
        if not cache.used or not alike or not len(blocks) or x_BTD.device.type != "cpu":
            return None
        if not self._knows(blocks):
            with PROCESS_LOCK:  # the parts of a batch arrive here at the same time
                if not self._knows(blocks):
                    self._examine(blocks)
        return self.step(x_BTD, cache, memory) if self.supported else None

    def _knows(self, blocks: nn.ModuleList) -> bool:
        return list(map(id, self.blocks)) == list(map(id, blocks))

    def _examine(self, blocks: nn.ModuleList) -> None:
        """Note the blocks; a program of others is forgotten."""
        self.supported = all(isinstance(block, Block) and _is_supported(block) for block in blocks)
        self.observers = Observers(blocks)
        self.program, self.blocks = None, list(blocks)

    def step(self, x_B1D: Tensor, cache: KVCache, memory: Memory | None) -> Tensor | None:
        """(B, 1, D) through all blocks, or None where they have to be called themselves."""
        self.steps += 1
        if self.steps <= COMPILE_AFTER_STEPS or self.observers:
            return None
        if isinstance(cache, RowsKVCache):
            return self._rows_step(x_B1D, cache)
        caches = cache.layer_caches(1)
        first = caches[0]
        hypotheses = (first.hypotheses, 1 if memory is None else memory.hypotheses)
        if max(hypotheses) > decode.MAX_QUERIES:
            return None
        padding = None
        if memory is not None and memory.mask is not None:
            seen, alive = dense(memory.mask, memory.hypotheses, memory.layers[0][0].shape[2], x_B1D.device)
            if alive is not None:
                return None
            padding = memory.mask.once("hides", lambda: ~seen)
        program = self._compiled()
        count, used = hypotheses[0], first.at
        assert isinstance(used, int)
        kv = [layer.buffers.reserve(used + count, len(x_B1D) // count) for layer in caches]
        own, hidden = gathered.cached_keys(first.visible, kv[0][0], used + count)
        held = whole = None
        if memory is not None:
            held, k = list(memory.layers), memory.layers[0][0]
            whole = gathered.all_keys(hypotheses[1], tuple(k.shape), k.stride()) if own is not None else None
        return program(x_B1D, hypotheses, used, kv, own, hidden, held, whole, padding)

    def _rows_step(self, x_B1D: Tensor, cache: RowsKVCache) -> Tensor | None:
        """Likewise for rows of unequal length."""
        first = self.blocks[0]
        assert isinstance(first, Block)
        step = cache.step(first.attention.heads)
        return None if step is None else self._compiled().rows(x_B1D, step.places, step.kv, step.keys)

    def _compiled(self) -> Program:
        with PROCESS_LOCK:
            if self.program is None:
                self.program = compiled(self.blocks)
            return self.program


class Program(Protocol):
    """The compiled blocks, `torchscript_layers.Layers`, or a stand-in whose methods return None."""

    def __call__(self, *args: object) -> Tensor | None: ...

    def rows(self, *args: object) -> Tensor | None: ...


class _NoProgram:
    def __call__(self, *args: object) -> Tensor | None:
        return None

    rows = __call__


def compiled(blocks: list[nn.Module]) -> Program:
    """The blocks as one program; one that returns None where TorchScript fails, as without this file's source."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript's deprecation
        try:
            program: Program = torch.jit.script(Layers(blocks))
        except (RuntimeError, OSError):
            return _NoProgram()
        return program


def steps_in_torchscript(model: nn.Module) -> bool:
    """Whether this is a transformer in 8 bits, without hooks and observers, on a machine that has such programs."""
    parts = set(map(type, model.modules()))
    plain = {Block, Int8Linear} <= parts and not any(issubclass(part, nn.Linear | OutlierInt8Linear) for part in parts)
    return layers.TORCHSCRIPT and supported() and plain and not observed(model, inside=True)


def _is_supported(block: Block) -> bool:
    """Whether every part is of a kind that has an equivalent above."""
    network, norms = block.feedforward, [block.attention_norm, block.feedforward_norm]
    if type(block.attention) is not SelfAttention or network is None:
        return False
    attentions: list[SelfAttention | CrossAttention] = [block.attention]
    linear: list[nn.Module] = [block.attention.qkv, network.up, network.down]
    if block.cross is not None:
        attentions.append(block.cross)
        linear.append(block.cross.q)
        norms.append(block.cross_norm)
    linear += [attention.out for attention in attentions]
    if block.attention.q_norm is not None or block.attention_output_norm is not None:
        return False
    simple = all(
        attention.groups == attention.heads
        and attention.heads * attention.head_width == attention.width
        and attention.shaw is None
        and isinstance(attention.scale, float)
        and attention.kernel == "auto"
        for attention in attentions
    )
    normed = all(isinstance(norm, FeatureLayerNorm) and norm.bias is not None for norm in norms)
    packed = all(type(part) in LINEAR_LAYERS and part.packed_weight is not None for part in linear)
    plain = network.neighbour_weights is None and network.activation in ACTIVATIONS
    return block.adds and simple and normed and packed and plain
