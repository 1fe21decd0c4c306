"""Whether the steps of a training can be shared out among ranks, and how."""

from __future__ import annotations

from torch import nn

from headway.errors import ConfigError
from headway.tasks.training_task import Stateful, TrainingTask
from headway.training.config import TrainConfig
from headway.training.devices import pick_device
from headway.training.ranks import Alone
from headway.training.scaling import shared_out

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
    exact = config.exact_on(pick_device(config.device).type)
    if config.accumulate % ranks.size:
        fitting = shared_out(config, ranks.size)
        raise ConfigError(
            f"train.accumulate={config.accumulate}: {ranks.size} ranks cannot have the same number of a step's "
            f"micro-batches, allowed: {_allowed(config.accumulate, exact=exact)} ranks; a new run with a step of about "
            f"the same size: --train.accumulate {fitting.accumulate} --train.batch_tokens {fitting.batch_tokens}"
        )
    if exact and ranks.size & (ranks.size - 1):
        raise ConfigError(
            f"train.reduction={config.reduction} on {ranks.size} ranks: sums in one order need 1, 2, 4, 8, … ranks; "
            "pass another number, or --train.reduction fast"
        )


def _allowed(count: int, *, exact: bool) -> str:
    """The numbers of ranks that can share out so many micro-batches: "1, 2 or 4"."""
    fitting = [str(n) for n in range(1, count + 1) if count % n == 0 and not (exact and n & (n - 1))]
    return " or ".join(part for part in (", ".join(fitting[:-1]), fitting[-1]) if part)
