"""CUDA-graph decoding: a step of fixed shapes, compiled, captured once and replayed.

The KV cache is allocated at full size, the length and the last token live on the device, and the next token is chosen
there: a step is one launch, and a text of a few hundred tokens is written with one device synchronisation, at its end.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway._compile import compiler_missing
from headway.decoding.events import search_finished, search_started
from headway.decoding.rng import UniformTable
from headway.decoding.sampling import GREEDY, Sampling, TokenSampler
from headway.errors import AdviceWarning, ConfigError, NonFiniteOutputError
from headway.models.stepper import FixedStepper
from headway.nn import triton_step

WARMUP = 3  # steps before the recording: compilers, libraries and autotuning


class GraphDecoder:
    """Generates with a GPT on fixed shapes: `rows` texts of up to `capacity` tokens, the prompt included.

    Tokens are drawn as `sample` and `stream` draw them: the same for the same seed and the same logits. `steps` is how
    many can be drawn before their numbers are used up (default: the capacity).
    """

    def __init__(
        self,
        model: FixedStepper,
        *,
        rows: int,
        capacity: int,
        steps: int | None = None,
        sampling: Sampling = GREEDY,
        compiled: bool = True,
    ) -> None:
        self.model, self.rows, self.capacity, self.sampling = model, rows, capacity, sampling
        weight, steps = model.embedding.weight, capacity if steps is None else steps
        device = weight.device
        self.cache = model.start_fixed(rows, capacity=capacity)
        self.token = torch.zeros(rows, 1, dtype=torch.long, device=device)
        self.written = torch.zeros(rows, steps, dtype=torch.long, device=device)
        self.largest = torch.zeros(rows, steps, device=device)  # the largest logit of each draw: NaN if any is
        self.uniforms = UniformTable(rows, steps, device)
        seen = torch.zeros(rows, weight.shape[0], dtype=torch.bool, device=device)
        self.sampler = TokenSampler(sampling, self.uniforms, None if sampling.repetition_penalty == 1 else seen)
        self.compiled, self.step = compiled, self._step
        self.captured: Callable[[], None] | None = None

    @torch.inference_mode()
    def write(self, prompt_BT: Tensor, count: int, *, seed: int = 0) -> Tensor:
        """Continue prompts (B, T) by `count` tokens -> (B, count). Raises NonFiniteOutputError."""
        known = prompt_BT.shape[1]
        if prompt_BT.shape[0] != self.rows or known + count > self.capacity:
            asked = f"{prompt_BT.shape[0]} prompts of {known} tokens and {count} more"
            raise ConfigError(f"{asked}; this decoder is for {self.rows} texts of up to {self.capacity} tokens")
        observed = search_started(self.model)
        if observed and prompt_BT.is_cuda:
            warnings.warn("a CUDA graph cannot be captured by headway.capture; decoding without it", AdviceWarning, 2)
        self.begin(prompt_BT, seed=seed)
        self.advance(count - 1, replayed=not observed)
        written = self.read(0, count)
        if observed:  # otherwise tolist() would synchronise for nothing
            search_finished(self.model, [[tokens] for tokens in written.tolist()])
        return written

    @torch.inference_mode()
    def begin(self, prompt_BT: Tensor, *, seed: int = 0, numbers: Sequence[int] | None = None) -> None:
        """Read prompts of equal length (B, T) and draw the first token of sequences `numbers` (default: 0, 1, …)."""
        self.record()
        self.uniforms.fill(seed, range(self.rows) if numbers is None else numbers)
        if self.sampler.seen is not None:
            self.sampler.seen.fill_(False)
            self.sampler.seen.scatter_(1, prompt_BT, True)
        self.again(prompt_BT)

    def record(self) -> None:
        """Record a step, unless it is recorded or the model is on a CPU. Raises RuntimeError where that fails."""
        if self.token.is_cuda and self.captured is None:
            self.captured = self._captured()

    @torch.inference_mode()
    def again(self, prompt_BT: Tensor) -> None:
        """Read another text (B, T) from its beginning, and draw the next token of the same sequences."""
        self._length().zero_()
        logits, _ = self.model.extend(prompt_BT, self.cache)
        self._draw(logits[:, -1])

    @torch.inference_mode()
    def advance(self, steps: int, *, replayed: bool = True) -> None:
        """Draw further tokens, without waiting for the device."""
        step = self.captured if replayed and self.captured is not None else self._step
        for _ in range(steps):
            step()

    def read(self, first: int, end: int) -> Tensor:
        """The tokens of draws `first` to `end` (B, end - first). Raises NonFiniteOutputError for NaN and infinity."""
        finite = self.largest[:, first:end].isfinite()
        if not bool(finite.all()):
            row, step = (~finite).nonzero()[0].tolist()
            self._clear()
            raise NonFiniteOutputError(row, first + step + 1)
        return self.written[:, first:end].clone()

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
        """Extend by the last token and draw the next one, all on the model's device."""
        logits, _ = self.model.extend(self.token, self.cache)
        self._draw(logits[:, -1])

    def _draw(self, logits_BV: Tensor) -> None:
        self.token.copy_(self.sampler.draw(logits_BV, 0).unsqueeze(1))
        at = self.uniforms.step.view(1)
        self.written.index_copy_(1, at, self.token)
        self.largest.index_copy_(1, at, self.sampler.largest.unsqueeze(1))
        self.uniforms.step.add_(1)

    @torch.inference_mode()
    def _captured(self) -> Callable[[], None]:
        """A step as a CUDA graph; what its first steps leave behind is overwritten by `begin`."""
        step: Callable[[], Any] = self._step
        one_row = self.rows == 1 and self.compiled
        self._length().zero_()
        self.uniforms.step.zero_()
        if self.compiled:
            missing = compiler_missing("cuda")
            if missing is None:
                step = torch.compile(step, fullgraph=True, options=ONE_ROW_OPTIONS if one_row else None)
            else:
                warnings.warn(f"{missing}; the step is captured uncompiled", AdviceWarning, stacklevel=3)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with contextlib.ExitStack() as used:
            if one_row:
                used.enter_context(_separate_biases(self.model.stack))
            if not self.compiled:
                used.enter_context(triton_step.installed(self.model.stack, self.rows))
            with torch.cuda.stream(stream):
                for _ in range(min(WARMUP, self.capacity, self.written.shape[1])):
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
