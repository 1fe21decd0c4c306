"""Whether the steps of a training can be shared out among ranks, and how."""

from __future__ import annotations

from torch import nn

from headway.errors import ConfigError
from headway.tasks.training_task import Stateful, TrainingTask
from headway.training.config import TrainConfig
from headway.training.devices import pick_device
from headway.training.ranks import Alone

_RUNNING = (nn.modules.batchnorm._NormBase,)


def expect_shared_out(ranks: Alone, task: TrainingTask, config: TrainConfig, model: nn.Module) -> None:
    """Raise ConfigError if several ranks cannot share the micro-batches of this training."""
    if ranks.size == 1:
        return
    if isinstance(task, Stateful):
        raise ConfigError(
            f"{ranks.size} ranks: this task makes its own data while it trains, in one process; leave out --nproc"
        )
    statistics = [name for name, part in model.named_modules() if isinstance(part, _RUNNING)]
    if statistics:
        raise ConfigError(
            f"{ranks.size} ranks: {statistics[0]} keeps running statistics of the batches of its own process; choose "
            "a model without BatchNorm, or leave out --nproc"
        )
    count = config.accumulate
    if count % ranks.size:
        wanted = ranks.size * max(round(count / ranks.size), 1)
        tokens = max(config.batch_tokens * count // wanted, 1)
        raise ConfigError(
            f"train.accumulate={count}: the micro-batches of a step are shared out among {ranks.size} ranks, allowed: "
            f"multiples of {ranks.size}; for a step of about the same size, pass --train.accumulate {wanted} "
            f"--train.batch_tokens {tokens}"
        )
    if config.exact_on(pick_device(config.device).type) and ranks.size & (ranks.size - 1):
        raise ConfigError(
            f"train.reduction={config.reduction} on {ranks.size} ranks: sums in one order need 1, 2, 4, 8, … ranks; "
            "pass another number, or --train.reduction fast"
        )
