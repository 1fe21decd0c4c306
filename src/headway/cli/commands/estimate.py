"""`headway estimate`."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli import options
from headway.errors import ConfigError

if TYPE_CHECKING:
    from headway.estimate.machines import Machine
    from headway.estimate.plan import Measure, TrainingOf
    from headway.runs.config import RunConfig
    from headway.tasks.training_task import TrainingTask

HELP = "what a training needs before it is begun: memory by part, time, cost; nothing is allocated"
EXAMPLES = (
    "headway estimate gpt2 --gpus 8 --machine h100        does it fit, and how long does it take?",
    "headway estimate gpt2-xl --gpus 8 --shard full --recompute blocks --train.accumulate 8",
    "headway estimate gpt2 --tokens 2.5e9 --price 3.50    the cost, at this price of a GPU for an hour",
    "headway estimate transformer-tiny --data corpus      in the batches of your data",
    "headway estimate gpt-char --machine here             measured by a few steps on this machine",
)


def add_arguments(parser: ArgumentParser) -> None:
    """What is trained, on what machines, and for how long."""
    parser.add_argument(
        "preset", metavar="PRESET", help="as `headway presets` lists them; --KEY VALUE sets a config key"
    )
    parser.add_argument("--gpus", type=options.positive, default=1, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--machine",
        default="h200",
        metavar="NAME",
        help="h200, h100, a100-80, a100-40, l40s, 4090; cpu: this machine's; here: what training would use here, with "
        "a few steps measured (default: %(default)s)",
    )
    parser.add_argument("--data", metavar="SPEC", help="take batches from this data (default: made-up full batches)")
    parser.add_argument("--source", metavar="LANG", help="parallel text: the source files' ending, or column")
    parser.add_argument("--target", metavar="LANG", help="parallel text: the target files' ending, or column")
    parser.add_argument(
        "--tokens", type=options.number(above=0), metavar="N", help="train on so many (default: the recipe's)"
    )
    parser.add_argument("--hours", type=options.number(above=0), metavar="H", help="or for so long")
    parser.add_argument("--shard", choices=("none", "full", "node"), help="sets train.shard")
    parser.add_argument("--recompute", choices=("none", "blocks"), help="sets train.recompute")
    parser.add_argument(
        "--price", type=options.number(above=0), metavar="P", help="of one GPU for an hour; without it no cost is shown"
    )
    options.add_json(parser)


def execute(arguments: Namespace) -> None:
    """Print the estimate."""
    from headway.cli.estimate_table import lines
    from headway.estimate.plan import estimate

    if arguments.tokens is not None and arguments.hours is not None:
        raise ConfigError("--tokens and --hours both decide how long training goes on; give one of them")
    config = _config(arguments)
    found = estimate(
        config,
        _training_of(arguments),
        _machine(arguments, config),
        measure=_measure(arguments),
        gpus=arguments.gpus,
        tokens=None if arguments.tokens is None else int(arguments.tokens),
        hours=arguments.hours,
        price=arguments.price,
    )
    if arguments.json:
        print(json.dumps(found.to_json()))
    else:
        print("\n".join(lines(found, arguments.preset)))


def _config(arguments: Namespace) -> RunConfig:
    """The preset's recipe with the settings of the command line."""
    from headway.presets import preset
    from headway.runs import with_settings

    changes: dict[str, object] = dict(options.overrides_of(arguments.overrides))
    for name in ("shard", "recompute"):
        if getattr(arguments, name) is not None:
            changes[f"train.{name}"] = getattr(arguments, name)
    for name, key in (("data", "spec"), ("source", "source"), ("target", "target")):
        if getattr(arguments, name) is not None:
            changes[f"data.{key}"] = getattr(arguments, name)
    return with_settings(preset(arguments.preset).recipe(), changes)


def _training_of(arguments: Namespace) -> TrainingOf:
    """The data that is given, or made up."""
    from headway.tasks.base import DataRequest

    def made(config: RunConfig) -> TrainingTask:
        request = DataRequest(
            data=config.data, model=config.model, folder=Path(), batch_tokens=config.train.batch_tokens,
            seed=config.train.seed, accumulate=config.train.accumulate,
        )  # fmt: skip
        return config.task.stand_in(request) if arguments.data is None else config.task.prepare(request).training

    return made


def _machine(arguments: Namespace, config: RunConfig) -> Machine:
    from headway.estimate.machines import MEASURED, gpu_named

    if arguments.machine not in MEASURED:
        return gpu_named(arguments.machine)
    from headway.estimate.here import this_machine

    if arguments.gpus > 1:
        raise ConfigError(f"--gpus {arguments.gpus} with --machine {arguments.machine}: name the GPUs by --machine")
    return this_machine(arguments.machine, config.train.device)


def _measure(arguments: Namespace) -> Measure | None:
    """What measures a few steps, for `--machine here`."""
    from headway.estimate.here import measured

    return measured if arguments.machine == "here" else None
