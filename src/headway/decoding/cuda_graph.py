"""CUDA-graph decoding: a step of fixed shapes, compiled, captured once and replayed.

The KV cache is allocated at full size, the length and the last token live on the device, and the next token is chosen
there: a step is one launch, and a text of a few hundred tokens is written with one device synchronisation, at its end.
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
from headway.decoding.events import search_finished, search_started
from headway.decoding.non_finite import expect_finite
from headway.errors import AdviceWarning, ConfigError, NonFiniteOutputError
from headway.models.gpt import Gpt
from headway.nn.block import Block
from headway.nn.cache import KVCache


class GraphDecoder:
    """Generates with a GPT on fixed shapes: `rows` texts of up to `capacity` tokens, the prompt included.

    With `temperature` 0 decoding is greedy; otherwise tokens are drawn with the device's own generator.
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
        self.cache: KVCache = model.start(capacity=capacity).static(rows, *heads, weight)
        self.token = torch.zeros(rows, 1, dtype=torch.long, device=weight.device)
        self.written = torch.zeros(rows, capacity, dtype=torch.long, device=weight.device)
        self.largest = torch.zeros(rows, 1, device=weight.device)  # the largest logit of each text; NaN if one was
        self.step: Callable[[], None] = self._step
        if weight.is_cuda:
            self.step = self._captured(compiled)

    @torch.inference_mode()
    def write(self, prompt_BT: Tensor, count: int) -> Tensor:
        """Continue prompts (B, T) by `count` tokens -> (B, count). Raises NonFiniteOutputError."""
        known = prompt_BT.shape[1]
        if prompt_BT.shape[0] != self.rows or known + count > self.capacity:
            asked = f"{prompt_BT.shape[0]} prompts of {known} tokens and {count} more"
            raise ConfigError(f"{asked}; this decoder is for {self.rows} texts of up to {self.capacity} tokens")
        self._length().zero_()
        self.largest.zero_()
        step, observed = self.step, search_started(self.model)
        if observed and step != self._step:
            warnings.warn("a CUDA graph cannot be captured by headway.capture; decoding without it", AdviceWarning, 2)
            step = self._step
        logits, _ = self.model.extend(prompt_BT, self.cache)
        self.token.copy_(self._choose(logits[:, -1]))
        self.written.index_copy_(1, self._length().view(1), self.token)
        for _ in range(count - 1):
            step()
        try:
            expect_finite(self.largest)
        except NonFiniteOutputError:
            self._clear()
            raise
        written = self.written[:, known : known + count].clone()
        if observed:  # otherwise tolist() would synchronise for nothing
            search_finished(self.model, [[tokens] for tokens in written.tolist()])
        return written

    def _clear(self) -> None:
        """Forget all keys and values: a slot that no query may see still meets a weight of 0, and 0·NaN is NaN."""
        for layer in self.cache.layers:
            for buffer in (layer.k, layer.v):
                if buffer is not None:
                    buffer.zero_()

    def _length(self) -> Tensor:
        assert isinstance(self.cache.length, Tensor)
        return self.cache.length

    def _step(self) -> None:
        """Extend by the last token and choose the next one, all on the model's device."""
        logits, _ = self.model.extend(self.token, self.cache)
        self.token.copy_(self._choose(logits[:, -1]))
        self.written.index_copy_(1, self._length().view(1), self.token)

    def _choose(self, logits_BV: Tensor) -> Tensor:
        # maximum and amax keep a NaN, once there is one.
        self.largest.copy_(torch.maximum(self.largest, logits_BV.amax(-1, keepdim=True).abs()))
        if self.temperature == 0:
            return logits_BV.argmax(-1, keepdim=True)
        share = (logits_BV.float() / self.temperature).softmax(-1)
        # Exponential race: if e_i are independent Exp(1), then argmax p_i / e_i is a draw from p. Unlike
        # torch.multinomial it needs no check of p on the host.
        return (share / torch.empty_like(share).exponential_()).argmax(-1, keepdim=True)

    @torch.inference_mode()
    def _captured(self, compiled: bool) -> Callable[[], None]:
        step: Callable[[], Any] = self._step
        one_row = self.rows == 1
        if compiled:
            missing = compiler_missing("cuda")
            if missing is None:
                step = torch.compile(step, fullgraph=True, options=ONE_ROW_OPTIONS if one_row else None)
            else:
                warnings.warn(f"{missing}; the step is captured uncompiled", AdviceWarning, stacklevel=3)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with _separate_biases(self.model) if one_row else contextlib.nullcontext():
            with torch.cuda.stream(stream):
                for _ in range(3):  # compile, autotune, warm up
                    step()
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()
        return graph.replay


# With one row a matrix product is a matrix-vector product. With this option Inductor generates it and fuses it with
# its neighbours, where the library's GEMM takes twice as long; it does so only for products without a bias.
ONE_ROW_OPTIONS: dict[str, Any] = {"coordinate_descent_tuning": True}


@contextlib.contextmanager
def _separate_biases(model: nn.Module) -> Iterator[None]:
    """While open, nn.Linear computes x·Wᵀ and + b as two operations."""
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear) and layer.bias is not None]
    for layer in layers:
        layer.forward = partial(_linear_then_bias, layer)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def _linear_then_bias(layer: nn.Linear, x: Tensor) -> Tensor:
    return F.linear(x, layer.weight) + layer.bias
