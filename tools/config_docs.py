"""Writes docs/config.md, the list of all config keys, from the dataclasses; with `--check`, only compares."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from headway.config import kind
from headway.config_help import keys_of_class, options, reachable
from headway.data.config import DataConfig
from headway.models import ModelConfig
from headway.runs.config import RunConfig, TaskConfig
from headway.training.config import TrainConfig
from tools.generated import DOCS, write_or_check

PAGE = DOCS / "config.md"
HEAD = """# Config keys

Every setting of a run, as `config.yaml` stores it. On the command line a key is an option of its dotted path:
`--train.learning_rate 3e-4`, `--model.position rotary`, `--model.position.base 500000`. A key that allows several kinds
is set by a name, and the settings of that kind are keys below it. `headway train PRESET --help` lists the keys of one
preset with its values; `--print_config` prints the config. A default here is that of the class; presets set their own
values. An empty default means that the key must be given.

This page is written by `make config-docs` from the dataclasses and the comments behind their fields.
"""


def page() -> str:
    """The whole page."""
    tasks, models = (options(each) for each in (TaskConfig, ModelConfig))
    sections = {
        "task": ("One of these, as `task.type`.", tasks),
        "data": ("", (DataConfig,)),
        "model": ("One of these, as `model.type`.", models),
        "train": ("", (TrainConfig,)),
    }
    own = {RunConfig, *(each for _, configs in sections.values() for each in configs)}
    parts = [each for each in reachable(RunConfig) if each not in own]
    lines = [HEAD]
    for name, (note, configs) in sections.items():
        lines += [f"## {name}", "", *([note, ""] if note else [])]
        for config in configs:
            lines += _table(config, heading=len(configs) > 1)
    lines += ["## Parts", "", "What keys with several kinds can be set to, by name.", ""]
    for config in sorted(parts, key=lambda config: (config.__module__, kind(config))):
        lines += _table(config, heading=True)
    return "\n".join(lines).rstrip() + "\n"


def _table(config: type, *, heading: bool) -> Iterator[str]:
    if heading:
        yield from (f"### `{kind(config)}`", "")
        if config.__doc__:
            yield from (" ".join(config.__doc__.split("\n\n")[0].split()), "")
    keys = keys_of_class(config)
    if not keys:
        yield from ("No settings.", "")
        return
    yield from ("| key | type | default | meaning |", "|---|---|---|---|")
    for key in keys:
        cells = (_code(key.path), _code(key.type), _code(key.value), key.meaning.replace("|", "\\|"))
        yield f"| {' | '.join(cells)} |"
    yield ""


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|") if text else ""


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: page()}, "make config-docs"))
