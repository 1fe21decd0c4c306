"""The floating-point operations of a micro-batch, counted by torch's counter over a step on fake tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from headway.estimate.fake_step import fake_step
from headway.runs.config import RunConfig
from headway.tasks.training_task import TrainingTask

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class Flops:
    """Operations of products, forward and backward, for each target; a multiplication and an addition are two."""

    palm: float  # attention counts as if no mask hid anything, as in the PaLM paper and nanoGPT
    causal: float  # half of it where the future is hidden, which is what kernels compute
    executed: float  # causal, with what `recompute` computes twice
    kernels: int  # operations of torch that a micro-batch and a step of the optimiser call, small or large


def flops_of(config: RunConfig, task: TrainingTask) -> tuple[Flops, int]:
    """The operations of a training step for each target, and the targets of a micro-batch. Raises ConfigError."""
    plain = replace(config, train=replace(config.train, recompute="none", shard="none"))
    palm, causal, kernels, count = _counted(plain, task)
    executed = causal
    if config.train.recompute != "none":
        _, executed, kernels, _ = _counted(replace(config, train=replace(config.train, shard="none")), task)
    return Flops(palm / count, causal / count, executed / count, kernels), count


def _counted(config: RunConfig, task: TrainingTask) -> tuple[int, int, int, int]:
    hidden, calls = _Hidden(), _Calls()
    train = replace(config.train, accumulate=1, reduction="fast")
    with fake_step(replace(config, train=train), task, gpu=True) as step:
        with FlopCounterMode(display=False, custom_mapping=hidden.mapping()) as counter, calls:
            step.take()
        total = counter.get_total_flops()
        return total, total - hidden.flops, calls.count, step.tokens


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


def _is_causal(rest: tuple[Any, ...], more: dict[str, Any]) -> bool:
    return bool(more.get("is_causal", any(each is True for each in rest)))
