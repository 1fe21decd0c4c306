"""The floating-point operations of a micro-batch, counted by torch's counter over a step on fake tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry, sdpa_flop_count

from headway.estimate.fake_step import fake_step
from headway.runs.config import RunConfig
from headway.tasks.training_task import TrainingTask

aten = torch.ops.aten
WINOGRAD = 2.25  # times fewer multiplications of a 3 × 3 convolution whose output is computed in tiles of 2 × 2


@dataclass(frozen=True, slots=True)
class Flops:
    """Operations of products, forward and backward, for each target; a multiplication and an addition are two."""

    palm: float  # attention counts as if no mask hid anything, as in the PaLM paper and nanoGPT
    causal: float  # half of it where the future is hidden, which is what kernels compute
    executed: float  # causal, with what `recompute` computes twice
    kernels: int  # operations of torch that a micro-batch and a step of the optimiser call, small or large
    saved: float = 0.0  # of `executed`: what convolutions of 3 × 3 need not multiply (Winograd 1980), at best


def flops_of(config: RunConfig, task: TrainingTask) -> tuple[Flops, int]:
    """The operations of a training step for each target, and the targets of a micro-batch. Raises ConfigError."""
    plain = replace(config, train=replace(config.train, recompute="none", shard="none"))
    found, count = _counted(plain, task)
    if config.train.recompute != "none":
        again, _ = _counted(replace(config, train=replace(config.train, shard="none")), task)
        found = replace(found, executed=again.executed, kernels=again.kernels, saved=again.saved)
    return found, count


def _counted(config: RunConfig, task: TrainingTask) -> tuple[Flops, int]:
    hidden, small, calls = _Hidden(), _SmallConvolutions(), _Calls()
    train = replace(config.train, accumulate=1, reduction="fast")
    with fake_step(replace(config, train=train), task, gpu=True) as step:
        with FlopCounterMode(display=False, custom_mapping=hidden.mapping() | small.mapping()) as counter, calls:
            step.take()
        total, count = counter.get_total_flops(), step.tokens
        causal = (total - hidden.flops) / count
        return Flops(total / count, causal, causal, calls.count, (1 - 1 / WINOGRAD) * small.flops / count), count


class _Calls(TorchDispatchMode):
    """Counts the operations that compute something; views of a tensor do not."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(
        self,
        call: Callable[..., Any],
        types: object,
        arguments: tuple[Any, ...] = (),
        named: dict[str, Any] | None = None,
    ) -> Any:
        out = call(*arguments, **(named or {}))
        self.count += not getattr(call, "is_view", False) and getattr(call, "namespace", "") != "prim"
        return out


class _Hidden:
    """Adds up the operations of attention that a causal mask makes superfluous."""

    def __init__(self) -> None:
        self.flops = 0

    def mapping(self) -> dict[Any, Any]:
        """What the counter calls for the operators of attention."""

        def forward(q: Any, k: Any, v: Any, *rest: Any, out_val: Any = None, **more: Any) -> int:
            return self.counted(sdpa_flop_count(q.shape, k.shape, v.shape), causal=_is_causal(rest, more))

        def backward(grad: Any, q: Any, k: Any, v: Any, *rest: Any, out_val: Any = None, **more: Any) -> int:
            # Twice the forward pass, by convention: that kernels compute the scores again is their own affair.
            return self.counted(2 * sdpa_flop_count(q.shape, k.shape, v.shape), causal=_is_causal(rest, more))

        def addmm(total: Any, a: Any, b: Any, *rest: Any, **more: Any) -> int:
            return 2 * int(a.shape[0]) * int(a.shape[1]) * int(b.shape[1])

        for function in (forward, backward, addmm):
            function.__dict__["_get_raw"] = True  # the counter passes the tensors, not their shapes alone
        return {
            aten.addmm: addmm,  # torch's own formula does not know the variant with `out_dtype`
            aten.addmm_: addmm,  # nor that in place
            aten._scaled_dot_product_flash_attention: forward,
            aten._scaled_dot_product_flash_attention_backward: backward,
        }

    def counted(self, flops: int, *, causal: bool) -> int:
        """The operations of one call, of which half are superfluous with a causal mask."""
        self.flops += flops // 2 if causal else 0
        return flops


class _SmallConvolutions:
    """Adds up the operations of convolutions of 3 × 3 at each place, forward and backward."""

    def __init__(self) -> None:
        self.flops = 0

    def mapping(self) -> dict[Any, Any]:
        """What the counter calls for the operators of convolutions."""
        return {aten.convolution: self._counting(1), aten.convolution_backward: self._counting(2)}

    def _counting(self, weight: int) -> Callable[..., int]:
        """Torch's own count of an operator; the weight is the argument of this number, the stride the second after."""
        count = flop_registry[aten.convolution if weight == 1 else aten.convolution_backward]

        def counted(*arguments: Any, **more: Any) -> int:
            flops = int(count(*arguments, **more))
            if arguments[weight].shape[2:] == (3, 3) and set(arguments[weight + 2]) == {1}:
                self.flops += flops
            return flops

        counted.__dict__["_get_raw"] = True
        return counted


def _is_causal(rest: tuple[Any, ...], more: dict[str, Any]) -> bool:
    return bool(more.get("is_causal", any(each is True for each in rest)))
