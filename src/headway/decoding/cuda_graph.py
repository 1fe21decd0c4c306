"""Decoding on a GPU without waiting for Python: a step of fixed shapes, compiled, captured once and replayed.

The cache is allocated whole, the length and the last token live on the device, and the next token is chosen there: a
step is one launch. A text of a few hundred tokens is written without the device being asked anything.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway._compile import compiler_missing
from headway.decoding.events import tell_begun, tell_chosen
from headway.errors import AdviceWarning, ConfigError
from headway.models.gpt import Gpt
from headway.nn.block import Block
from headway.nn.cache import Cache


class GraphDecoder:
    """Writes with a GPT on fixed shapes: `rows` texts of up to `capacity` tokens, the prompt included.

    `temperature` 0 takes the likeliest token; otherwise one is drawn, from the device's own generator.
    """

    def __init__(
        self, model: Gpt, *, rows: int, capacity: int, temperature: float = 0.0, compiled: bool = True
    ) -> None:
        if temperature < 0:
            raise ConfigError(f"temperature={temperature}, allowed: 0 (greedy) and above")
        self.model, self.rows, self.capacity, self.temperature = model, rows, capacity, temperature
        weight = model.embedding.weight
        block = model.stack.blocks[0]
        assert isinstance(block, Block)
        heads = block.attention.groups, block.attention.head_width
        self.cache: Cache = model.start(capacity=capacity).fix(rows, *heads, weight)
        self.token = torch.zeros(rows, 1, dtype=torch.long, device=weight.device)
        self.written = torch.zeros(rows, capacity, dtype=torch.long, device=weight.device)
        self.step: Callable[[], None] = self._step
        if weight.is_cuda:
            self.step = self._captured(compiled)

    @torch.inference_mode()
    def write(self, prompt_BT: Tensor, count: int) -> Tensor:
        """Go on from prompts (B, T) by `count` tokens -> (B, count)."""
        known = prompt_BT.shape[1]
        if prompt_BT.shape[0] != self.rows or known + count > self.capacity:
            asked = f"{prompt_BT.shape[0]} prompts of {known} tokens and {count} more"
            raise ConfigError(f"{asked}; this decoder is for {self.rows} texts of up to {self.capacity} tokens")
        self._length().zero_()
        step, captured = self.step, tell_begun(self.model)
        if captured and step != self._step:
            warnings.warn(
                "a graph that is replayed shows nothing; a captured text is written uncompiled", AdviceWarning, 2
            )
            step = self._step
        logits, _ = self.model.extend(prompt_BT, self.cache)
        self.token.copy_(self._choose(logits[:, -1]))
        self.written.index_copy_(1, self._length().view(1), self.token)
        for _ in range(count - 1):
            step()
        written = self.written[:, known : known + count].clone()
        if captured:  # a list would wait for the device
            tell_chosen(self.model, [[line] for line in written.tolist()])
        return written

    def _length(self) -> Tensor:
        assert isinstance(self.cache.length, Tensor)
        return self.cache.length

    def _step(self) -> None:
        """The last token in, the next one out, all of it where the model is."""
        logits, _ = self.model.extend(self.token, self.cache)
        self.token.copy_(self._choose(logits[:, -1]))
        self.written.index_copy_(1, self._length().view(1), self.token)

    def _choose(self, logits_BV: Tensor) -> Tensor:
        if self.temperature == 0:
            return logits_BV.argmax(-1, keepdim=True)
        share = (logits_BV.float() / self.temperature).softmax(-1)
        # The largest of p/e with exponential noise e is a draw from p, and needs no look at the device.
        return (share / torch.empty_like(share).exponential_()).argmax(-1, keepdim=True)

    @torch.inference_mode()
    def _captured(self, compiled: bool) -> Callable[[], None]:
        step: Callable[[], Any] = self._step
        alone = self.rows == 1
        if compiled:
            missing = compiler_missing("cuda")
            if missing is None:
                step = torch.compile(step, fullgraph=True, options=ALONE if alone else None)
            else:
                warnings.warn(f"{missing}; the step is captured uncompiled", AdviceWarning, stacklevel=3)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with _biases_apart(self.model) if alone else contextlib.nullcontext():
            with torch.cuda.stream(stream):
                for _ in range(3):  # compile, tune, settle
                    step()
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()
        return graph.replay


# With one row a product is a sum over the weights' columns: tuned so, the compiler writes it itself and joins it to
# what surrounds it, where a library's product for matrices takes twice as long. It does so only without a bias.
ALONE: dict[str, Any] = {"coordinate_descent_tuning": True}


@contextlib.contextmanager
def _biases_apart(model: nn.Module) -> Iterator[None]:
    """While a step is compiled: x·Wᵀ and + b as two operations."""
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear) and layer.bias is not None]
    for layer in layers:
        layer.forward = partial(_apart, layer)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def _apart(layer: nn.Linear, x: Tensor) -> Tensor:
    return F.linear(x, layer.weight) + layer.bias
