"""What a training run is about to do, shown before its first step and by `headway train --dry-run`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from headway.config import kind
from headway.counts import counted
from headway.models import build_model
from headway.runs.config import RunConfig
from headway.tasks.base import Prepared
from headway.tasks.training_task import LOWEST_LOSS
from headway.training.best import criterion_of
from headway.training.callbacks import Callback, PlanCallback
from headway.training.devices import described, load_hint, pick_device
from headway.training.optimisers import state_bytes
from headway.training.parameters import adapted_layers, choose_parameters, trained_count
from headway.training.quantities import size


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """What will be trained, on what, for how long and to where."""

    config: RunConfig  # complete: with the sizes that the data decides, and the steps of `epochs` or `budget`
    facts: Mapping[str, str]  # for people, by name

    def lines(self) -> list[str]:
        """A line for each fact, the values below each other."""
        room = max(map(len, self.facts))
        return [f"{name:{room}}  {value}" for name, value in self.facts.items()]

    def tell(self, callback: Callback) -> None:
        """Hand it to a callback."""
        if isinstance(callback, PlanCallback):
            callback.planned(self.config.train.steps, self.facts)
        else:
            for name, value in self.facts.items():
                callback.note(f"{name}: {value}")


def plan_of(
    config: RunConfig,
    prepared: Prepared,
    folder: Path,
    *,
    at: int = 0,
    more: Mapping[str, str] | None = None,
    ranks: int = 1,
) -> TrainingPlan:
    """The plan of a run whose data is prepared; `at` is the step it goes on from, `more` are further facts."""
    train, sketch = config.train, build_model(config.model, device="meta")
    device = pick_device(train.device)
    load = load_hint(device)
    parameters = sum(parameter.numel() for parameter in sketch.parameters())
    choose_parameters(sketch, train)
    whole, trained = sum(parameter.numel() for parameter in sketch.parameters()), trained_count(sketch)
    saved = 4 * whole * (3 if train.ema else 1) + state_bytes(train.optimiser, trained)
    states = saved + 4 * trained  # and the gradients
    often = counted(train.save_every, "step")
    facts = {
        "data": config.data.spec,
        **prepared.facts,
        "model": f"{kind(type(config.model))}, {parameters:,} parameters ({size(4 * parameters)})",
        **({} if trained == whole else {"trains": _trained(sketch, trained, whole)}),
        "training": _training(config, prepared, at),
        "device": f"{described(device)}, {train.precision}{_each_of(ranks)}",
        **({"load": load} if load else {}),
        "memory": f"{size(states)} for weights, gradients and optimiser, and what a batch needs on top",
        "writes to": f"{folder}, a checkpoint of {size(saved)} every {often}, keeping {train.keep}",
        **({"export": f"not to a folder of Hugging Face: {refused}"} if (refused := _export_refusal(config)) else {}),
        "to stop": "Ctrl-C saves and stops; the same command with --resume goes on",
    }
    return TrainingPlan(config=config, facts=facts | dict(more or {}))


def _export_refusal(config: RunConfig) -> str:
    """Why a run of this config cannot be exported, although others of its task can; empty if it can."""
    from headway.interop.families import export_refusal

    return export_refusal(config.model) if "export" in config.task.pipeline_class().can(config.model) else ""


def _each_of(ranks: int) -> str:
    return f", in each of {ranks} processes" if ranks > 1 else ""


def _trained(sketch: nn.Module, trained: int, whole: int) -> str:
    layers = adapted_layers(sketch)
    adapters = f", with adapters on {counted(layers, 'layer')}" if layers else ""
    return f"{trained:,} of {whole:,} parameters ({100 * trained / whole:.3g} %){adapters}"


def parameter_count(config: RunConfig) -> int:
    """The parameters of a run's model, which is not allocated for that."""
    return sum(parameter.numel() for parameter in build_model(config.model, device="meta").parameters())


def _training(config: RunConfig, prepared: Prepared, at: int) -> str:
    train, batches = config.train, prepared.training.order.batches()
    epoch = batches / train.accumulate
    batch = f"{train.batch_tokens * train.accumulate:,} {config.task.batch_unit}"
    parts = f" in {train.accumulate} parts" if train.accumulate > 1 else ""
    criterion = criterion_of(prepared.training)
    chosen = "" if criterion == LOWEST_LOSS else f"; the best checkpoint has {criterion.described}"
    going_on = f", of which {at:,} are done" if at else ""
    return (
        f"{counted(train.steps, 'step')} of up to {batch}{parts}{going_on} = "
        f"{counted(train.steps / epoch, 'epoch')} of {counted(epoch, 'step')}; "
        f"validation every {counted(train.evaluate_every, 'step')}{chosen}"
    )
