"""`headway train`."""

from __future__ import annotations

import os
import shlex
from argparse import Action, ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.cli import options
from headway.errors import ConfigError, DataError, NoColumnError, RankError

if TYPE_CHECKING:
    from headway.presets.propose import FittedRecipe
    from headway.runs.config import RunConfig
    from headway.training.ranks import RankPlace

HELP = "train a preset on your data; any config key can be set by --KEY.SUB VALUE"
EXAMPLES = (
    "headway train --data corpus    what suits the data, which is told first: text, tables, images, sounds",
    "headway train gpt-char --data book.txt --train.steps 500 --model.position rotary",
    "headway train gpt-char --init runs/book --data letters.txt --dry-run    how another run would be fine-tuned",
    "headway train --out runs/gpt-char --resume    continue a run with its own config",
    "headway train gpt2 --data corpus --nproc 8    on 8 GPUs, or by 8 CPU processes, of this machine",
    "headway train gpt-char --help    the config keys of a preset: type, value and meaning",
)
OWN_HELP = True  # `add_arguments` declares `-h` itself
TRACKERS = {  # of headway.cli.trackers
    "tensorboard": "TensorBoard, into DIR/tensorboard,",
    "wandb": "Weights & Biases, into DIR/wandb (offline unless WANDB_MODE is set),",
    "mlflow": "MLflow, into DIR/mlflow (or to MLFLOW_TRACKING_URI),",
}
# What --epochs and --budget decide, unless it is set.
STEP_KEYS = ("train.steps", "train.schedule.warmup", "train.evaluate_every", "train.save_every")
NAMED = {"data.spec": "data", "data.source": "source", "data.target": "target", "data.errors": "errors"}


class _Help(Action):
    """`-h`: without a preset, the help of the command; after one, `execute` adds the preset's config keys to it."""

    def __call__(self, parser: ArgumentParser, namespace: Namespace, *_: object) -> None:
        parser.print_help()
        if namespace.preset is None:
            parser.exit()
        namespace.help = True


def add_arguments(parser: ArgumentParser) -> None:
    """Which preset, on what data, and where the run goes."""
    parser.add_argument(
        "preset",
        nargs="?",
        metavar="PRESET",
        help="`headway presets` lists them; without one: what suits the data, --resume, or a complete --config",
    )
    parser.add_argument(
        "-h",
        "--help",
        nargs=0,
        action=_Help,
        default=False,
        help="show this help; after PRESET, also its config keys with type, value and meaning",
    )
    parser.add_argument(
        "--data",
        metavar="SPEC",
        help="a built-in name, a file or a folder: text, a table, train.en and train.de, a folder for each class, …",
    )
    parser.add_argument("--source", metavar="LANG", help="parallel text: the source files' ending, or column")
    parser.add_argument("--target", metavar="LANG", help="parallel text: the target files' ending, or column")
    parser.add_argument("--errors", choices=("strict", "replace"), help="what to do with bytes that are not UTF-8")
    parser.add_argument("--out", metavar="DIR", help="the run folder (default: runs/PRESET, or runs/DATA)")
    parser.add_argument("--config", metavar="FILE", help="YAML with keys to set, below those given here")
    parser.add_argument("--init", metavar="RUN", help="fine-tune this run's model by the preset's recipe")
    parser.add_argument(
        "--resume", action="store_true", help="continue the run from its newest intact checkpoint, with its own config"
    )
    parser.add_argument("--epochs", type=options.number(above=0), metavar="N", help="train for N passes over the data")
    parser.add_argument(
        "--budget", metavar="TIME", help="fit steps, batch and model to this time on this machine: 90s, 10m, 2h"
    )
    parser.add_argument("--dry-run", action="store_true", help="read the data, say what would be trained, and stop")
    parser.add_argument(
        "--keep-optimiser",
        action="store_true",
        help="keep the optimiser state in all checkpoints, not in the newest two",
    )
    parser.add_argument(
        "--nproc", type=options.positive, metavar="N", help="share each step's micro-batches out among N processes"
    )
    for name, where in TRACKERS.items():
        parser.add_argument(f"--{name}", action="store_true", help=f"write the figures for {where} as well")
    parser.add_argument(
        "--samples",
        action="store_true",
        help="three samples of each validation, as at a terminal; otherwise a log has the first, on the same line",
    )
    printed = "show the resolved config and stop"
    parser.add_argument("--print_config", "--print-config", action="store_true", help=printed)


def execute(arguments: Namespace) -> None:
    """Train, then draw the curves; of several ranks, only rank 0 prints."""
    from headway.training.ranks import place_of
    from headway.training.signals import Interrupted

    place = place_of(os.environ)
    if place is not None and place.attempt:  # the ranks were started before, and one of them failed
        arguments.resume = True
    if place is None or place.rank == 0:
        _execute(arguments, place)
        return
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            _execute(arguments, place)
    except (RankError, Interrupted) as error:  # as rank 0 says
        raise SystemExit(error.exit_code) from error


def _execute(arguments: Namespace, place: RankPlace | None) -> None:
    scaled: list[str] = []
    budget = _budget(arguments)
    config = resolve(arguments, scaled.append)
    if arguments.help:
        _list_keys(arguments.preset, config)
        return
    config = _shared_out(arguments, config, place, scaled.append)
    if arguments.print_config and not arguments.dry_run:
        _print(config)
        return
    if not config.data.spec:
        raise ConfigError("no data: --data takes a built-in name (phrases, pydocs, reverse, …), a file or a folder")
    from headway.cli.outputs import expect_folder
    from headway.cli.terminal import tell
    from headway.cli.training import Length, best_line, next_commands, plan_only, train_and_draw
    from headway.training.ranks import joined_ranks

    folder = _folder(arguments)
    expect_folder(str(folder))
    init = None if arguments.init is None else Path(arguments.init)
    length = Length(arguments.epochs, budget, tuple(_changes(arguments)), tuple(scaled))
    if arguments.dry_run:
        with _telling_what_suits(arguments, config):
            plan = plan_only(config, folder, resume=arguments.resume, init=init, length=length)
        for line in scaled:
            tell(line)
        if arguments.print_config:
            _print(plan.config)
        else:
            print("\n".join(plan.lines()))
        return
    trackers = [name for name in TRACKERS if getattr(arguments, name)]
    with _telling_what_suits(arguments, config), joined_ranks(config.train.device, place) as ranks:
        train_and_draw(
            config,
            folder,
            resume=arguments.resume,
            trackers=trackers,
            init=init,
            length=length,
            samples=arguments.samples,
            ranks=ranks,
        )
    tell(f"trained {folder}; {best_line(folder)}next: {', or '.join(next_commands(folder))}")
    print(folder)


def _shared_out(
    arguments: Namespace, config: RunConfig, place: RankPlace | None, note: Callable[[str], None]
) -> RunConfig:
    """The config of a new run in micro-batches that its ranks can share out, unless the user says how many."""
    from dataclasses import replace  # with its imports, a quarter of what `headway --help` would wait for

    from headway.training.scaling import differences, shared_out

    ranks = place.size if place is not None else arguments.nproc or 1
    if arguments.resume and _has_config(_folder(arguments)):
        return config  # another number of micro-batches would be another run
    train = shared_out(config.train, ranks, tuple(_changes(arguments)))
    if changed := differences(config.train, train):
        note(f"{changed}, for {ranks} processes to share a step of the same size")
    return replace(config, train=train)


@contextmanager
def _telling_what_suits(arguments: Namespace, config: RunConfig) -> Iterator[None]:
    """Add to an error in the data what it looks like, if that is surely something else than PRESET is for."""
    try:
        yield
    except DataError as error:
        from headway.presets import preset
        from headway.tasks.proposal import Confidence, recognise

        if arguments.preset is None or type(error) not in (DataError, NoColumnError):
            raise
        try:
            found = recognise(config.data.spec)
        except DataError:
            raise error from None
        if found.confidence == Confidence.POSSIBLE or preset(found.preset).recipe().task.title == config.task.title:
            raise
        suits = f"headway train --data {shlex.quote(config.data.spec)}"
        told = f"{config.data.spec} looks like {found.found}, by {found.sign}; {suits} trains what suits that"
        raise type(error)(f"{error}; {told}") from None


def _budget(arguments: Namespace) -> float | None:
    """The seconds of `--budget`. Raises ConfigError, also if more than one option decides the steps."""
    from headway.training.quantities import seconds_of

    asked = {"--epochs": arguments.epochs, "--budget": arguments.budget}
    asked["--train.steps"] = options.overrides_of(arguments.overrides).get("train.steps")
    given = [name for name, value in asked.items() if value is not None]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} both decide the steps; give one of them")
    return None if arguments.budget is None else seconds_of(arguments.budget)


def _print(config: RunConfig) -> None:
    import yaml

    from headway.config import plain

    print(yaml.safe_dump(plain(config), sort_keys=False, allow_unicode=True), end="")


def _list_keys(name: str, config: RunConfig) -> None:
    """The config keys of a preset by section, with the values they have with the settings given so far."""
    from headway.config_help import keys_of

    print(f"\nconfig keys of {name}, as --KEY VALUE:")
    for key in keys_of(config):
        if "." in key.path:
            print(f"  --{key.path} {key.type} (default: {key.value})\n      {key.meaning}")
        else:
            print(f"\n{key.path}: {key.value} ({key.meaning})")


def resolve(arguments: Namespace, note: Callable[[str], None] = lambda text: None) -> RunConfig:
    """What to train: the run's own config with --resume, else the preset's recipe, else all that the file says, else
    the recipe of the preset that suits the data.

    On top come the keys of the file, then those of the command line. `note` gets what follows from fewer steps.
    """
    from headway.config import override

    # Whether a new run may begin if the folder has no run to continue.
    begins = arguments.preset is not None or arguments.data is not None
    if arguments.resume and not arguments.help and (not begins or _has_config(_folder(arguments))):
        return override(_resumed(arguments), _changes(arguments))
    _expect_languages(arguments)
    changes = _changes(arguments)
    if arguments.preset is None and arguments.config is not None:
        path = Path(arguments.config)
        tree = _file(path)
        if {"task", "model"} & tree.keys() or not changes.get("data.spec"):
            return override(_complete(path, tree), _typed(arguments))
    if arguments.preset is not None:
        _expect_no_path(arguments)
    if arguments.preset is None and not changes.get("data.spec"):
        raise ConfigError(
            "no PRESET and no --data: `headway presets` lists the presets, --data alone chooses one, "
            "and --config takes the config.yaml of a run instead"
        )
    return _recipe(arguments, changes, note)


def _expect_no_path(arguments: Namespace) -> None:
    """Raise ConfigError if PRESET is data: `headway train book.txt`, or a second path after `--data`."""
    from headway.presets import PRESETS

    name = arguments.preset
    if name in PRESETS or not Path(name).expanduser().exists():
        return
    if arguments.data is None:
        raise ConfigError(f"{name} is data, not a preset: headway train --data {shlex.quote(name)}")
    pairs = "parallel text is a folder with train.en and train.de, or a table with two columns"
    raise ConfigError(f"--data {arguments.data} and {name}: one path is read, a file or a folder; {pairs}")


def _expect_languages(arguments: Namespace) -> None:
    """Raise ConfigError if `--source` or `--target` is a file, as other programs take them."""
    for option in ("source", "target"):
        path = Path(getattr(arguments, option) or "")
        if path.suffix and path.is_file():
            language = path.name.removesuffix(".gz").rpartition(".")[2]
            raise ConfigError(
                f"--{option} {path}: a file, expected the ending of the files ({language}) or a column; "
                "--data takes the folder or the table"
            )


def _recipe(arguments: Namespace, changes: Mapping[str, Any], note: Callable[[str], None]) -> RunConfig:
    """The recipe that fits the data, with the model of `--init` if given, and these keys changed."""
    from headway.config import flat, plain
    from headway.presets.propose import fitted_recipe
    from headway.runs import read_config, with_settings
    from headway.runs.finetune import FROM_SOURCE, expect_free, fine_tuned

    # With --init the model is another one than the preset's, and may have other settings.
    of_model = {key: value for key, value in changes.items() if arguments.init is not None and key.startswith("model.")}
    fitted = fitted_recipe(arguments.preset, {key: value for key, value in changes.items() if key not in of_model})
    recipe, changes = fitted.recipe, {**fitted.changes, **of_model}
    settings = fitted.spelled_out() if fitted.found else {}
    if arguments.init is not None:
        folder = Path(arguments.init)
        source = read_config(folder)
        expect_free(_changes(arguments), source, folder)
        recipe = fine_tuned(recipe, source, folder)
        if source.task.has_tokenizer:  # what the preset and the data say about tokens
            changes = {key: value for key, value in changes.items() if not key.startswith(FROM_SOURCE)}
    config = with_settings(recipe, changes, note=note)
    if arguments.init is not None:  # the model and its tokens are those of the run
        final = flat(plain(config))
        settings = {
            key: final[key] for key in settings if key in final and not key.startswith(("model.", *FROM_SOURCE))
        }
    _tell(fitted, settings, arguments)
    return config


def _tell(fitted: FittedRecipe, settings: Mapping[str, object], arguments: Namespace) -> None:
    """What the data was recognised as, the command that says the same, and how the data is read."""
    from headway.cli.terminal import tell

    if fitted.found:
        words = [fitted.preset]
        named = {key: f"--{name}" for key, name in NAMED.items()}
        given = {key: getattr(arguments, name) for key, name in NAMED.items() if getattr(arguments, name) is not None}
        fitted_later = STEP_KEYS if arguments.epochs is not None or arguments.budget is not None else ()
        for key, value in {**given, **settings}.items():
            if key in fitted_later:
                continue
            words += [named.get(key, f"--{key}"), str(value).lower() if isinstance(value, bool) else str(value)]
        for flag in ("init", "config", "epochs", "budget"):
            value = getattr(arguments, flag)
            words += [] if value is None else [f"--{flag}", str(value)]
        words += ["--keep-optimiser"] if arguments.keep_optimiser else []
        words += [*arguments.overrides, "--out", str(_folder(arguments))]
        tell(fitted.found)
        tell(f"the same as: headway train {shlex.join(words)}")
    for note in fitted.notes:
        tell(note)


def _changes(arguments: Namespace) -> dict[str, Any]:
    """The settings of the user's by dotted key: the file's, then the command line's."""
    return {**(_keys(_file(Path(arguments.config))) if arguments.config else {}), **_typed(arguments)}


def _typed(arguments: Namespace) -> dict[str, Any]:
    """The settings of the command line by dotted key."""
    changes = {key: value for key, name in NAMED.items() if (value := getattr(arguments, name)) is not None}
    if arguments.keep_optimiser:
        changes["train.keep_optimiser"] = True
    return changes | options.overrides_of(arguments.overrides)


def _resumed(arguments: Namespace) -> RunConfig:
    """The config of the run that is continued. Raises ConfigError if a preset is named that it cannot be of."""
    from headway.config import kind
    from headway.presets import preset
    from headway.runs import read_config

    folder = _folder(arguments)
    config = read_config(folder)
    if arguments.preset is not None and arguments.init is None:
        recipe = preset(arguments.preset).recipe()
        for part in ("task", "model"):
            own, other = (kind(type(getattr(each, part))) for each in (config, recipe))
            if own != other:
                raise ConfigError(
                    f"--resume with preset {arguments.preset} ({part} {other}), but {folder} has {part} {own}; "
                    "leave PRESET out to continue the run, or pass --out for another folder"
                )
    return config


def _has_config(folder: Path) -> bool:
    from headway.runs.folder import CONFIG

    return (folder / CONFIG).exists()


def _folder(arguments: Namespace) -> Path:
    """The run folder: `--out`, or one named after the preset, or after the data. Raises ConfigError without any."""
    if arguments.out is None and arguments.preset is None and not arguments.data:
        raise ConfigError(
            "no --out: without PRESET the run folder has no default name but that of --data; pass --out RUN"
        )
    data = Path(arguments.data or "").expanduser().resolve().name
    return Path(arguments.out or f"runs/{arguments.preset or data.partition('.')[0] or data}")


def _file(path: Path) -> dict[str, Any]:
    from headway.documents import read_yaml

    tree = read_yaml(path, error=ConfigError)
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: expected keys and values, got {type(tree).__name__}")
    return tree


def _complete(path: Path, tree: dict[str, Any]) -> RunConfig:
    """The config of a file that has all keys. Raises ConfigError if it does not name a task and a model."""
    from headway.config import TAG, parse
    from headway.runs.config import RunConfig

    for section in ("task", "model"):
        if not isinstance(tree.get(section), str) and TAG not in (tree.get(section) or {}):
            raise ConfigError(f"{path} does not say which {section}: name a PRESET, or take the config.yaml of a run")
    return parse(RunConfig, tree)


def _keys(tree: dict[str, Any]) -> dict[str, Any]:
    """The keys of a file as changes to a config."""
    return {key: value for key, value in _leaves(tree).items() if key != "type"}


def _leaves(tree: dict[str, Any], path: str = "") -> dict[str, Any]:
    """Dotted keys; a mapping with a `type` is one value, a choice with its settings."""
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        nested = isinstance(value, dict) and (not path or "type" not in value)
        leaves |= (
            _leaves({k: v for k, v in value.items() if k != "type"}, f"{path}{key}.")
            if nested
            else {f"{path}{key}": value}
        )
    return leaves
