"""`headway train`."""

from __future__ import annotations

from argparse import Action, ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.cli import options
from headway.errors import ConfigError

if TYPE_CHECKING:
    from headway.runs.config import RunConfig

HELP = "train a preset on your data; any config key can be set by --KEY.SUB VALUE"
EXAMPLES = (
    "headway train gpt-char --data book.txt --train.steps 500 --model.position rotary",
    "headway train gpt-char --help    the config keys of a preset: type, value and meaning",
)
OWN_HELP = True  # `add_arguments` declares `-h` itself
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
    parser.add_argument("preset", metavar="PRESET", help="`headway presets` lists them")
    parser.add_argument(
        "-h",
        "--help",
        nargs=0,
        action=_Help,
        default=False,
        help="show this help; after PRESET, also its config keys with type, value and meaning",
    )
    parser.add_argument("--data", metavar="SPEC", help="a built-in name, a file or a folder")
    parser.add_argument("--source", metavar="LANG", help="parallel text: the source files' ending, or column")
    parser.add_argument("--target", metavar="LANG", help="parallel text: the target files' ending, or column")
    parser.add_argument("--errors", choices=("strict", "replace"), help="what to do with bytes that are not UTF-8")
    parser.add_argument("--out", metavar="DIR", help="the run folder (default: runs/PRESET)")
    parser.add_argument("--config", metavar="FILE", help="YAML with keys to set, below those given here")
    parser.add_argument("--init", metavar="RUN", help="fine-tune this run's vision transformer by the preset's recipe")
    parser.add_argument("--resume", action="store_true", help="continue from the newest intact checkpoint")
    parser.add_argument("--tensorboard", action="store_true", help="write event files as well, into DIR/tensorboard")
    printed = "show the resolved config and stop"
    parser.add_argument("--print_config", "--print-config", action="store_true", help=printed)


def execute(arguments: Namespace) -> None:
    """Train, then draw the curves."""
    config = resolve(arguments)
    if arguments.help:
        _list_keys(arguments.preset, config)
        return
    if arguments.print_config:
        import yaml

        from headway.config import plain

        print(yaml.safe_dump(plain(config), sort_keys=False, allow_unicode=True), end="")
        return
    if not config.data.spec:
        raise ConfigError("no data: --data takes a built-in name (phrases, pydocs, reverse, …), a file or a folder")
    from headway.cli.training import train_and_draw

    folder = Path(arguments.out or f"runs/{arguments.preset}")
    init = None if arguments.init is None else Path(arguments.init)
    train_and_draw(config, folder, resume=arguments.resume, tensorboard=arguments.tensorboard, init=init)
    print(folder)


def _list_keys(name: str, config: RunConfig) -> None:
    """The config keys of a preset by section, with the values they have with the settings given so far."""
    from headway.config_help import keys_of

    print(f"\nconfig keys of {name}, as --KEY VALUE:")
    for key in keys_of(config):
        if "." in key.path:
            print(f"  --{key.path} {key.type} (default: {key.value})\n      {key.meaning}")
        else:
            print(f"\n{key.path}: {key.value} ({key.meaning})")


def resolve(arguments: Namespace) -> RunConfig:
    """The preset's recipe, with the model of `--init` if given, then the file's keys, then the command line's."""
    from headway.config import override
    from headway.presets import preset
    from headway.runs import read_config
    from headway.runs.finetune import fine_tuned

    changes: dict[str, Any] = {}
    if arguments.config:
        changes |= _file(Path(arguments.config))
    changes |= {key: value for key, name in NAMED.items() if (value := getattr(arguments, name)) is not None}
    changes |= options.overrides_of(arguments.overrides)
    recipe = preset(arguments.preset).recipe()
    if arguments.init is not None:
        recipe = fine_tuned(recipe, read_config(Path(arguments.init)), Path(arguments.init))
        if "task.size" in changes:
            changes = {"model.image": changes["task.size"], **changes}
    return override(recipe, changes)


def _file(path: Path) -> dict[str, Any]:
    import yaml

    try:
        tree = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read as YAML ({str(error).splitlines()[0]})") from error
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: expected keys and values, got {type(tree).__name__}")
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
