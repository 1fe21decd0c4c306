"""`headway info`."""

from __future__ import annotations

import json
import math
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from headway.cli import options
from headway.cli.units import bytes_text, sizes_text
from headway.counts import counted, figure_name

HELP = "what a run is, from what data, how far and how well it is trained, and what it can do"
EXAMPLES = (
    "headway info runs/en-de",
    "headway info runs/en-de --json    one flat object for machines",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Which run."""
    options.add_run(parser, device=False)
    options.add_json(parser)


def execute(arguments: Namespace) -> None:
    """Print what the run folder says; no weights are loaded."""
    from headway.runs import read_config
    from headway.runs.info import run_info

    facts = run_info(Path(arguments.run))
    if arguments.json:
        finite = {key: None if isinstance(x, float) and not math.isfinite(x) else x for key, x in facts.items()}
        print(json.dumps(finite, allow_nan=False))
        return
    rows = _rows(facts, read_config(Path(arguments.run)).task.unit)
    width = max(map(len, rows))
    for name, value in rows.items():
        print(f"{name:{width}}  {value}")


def _rows(facts: dict[str, Any], unit: str) -> dict[str, str]:
    """The facts as lines for people; `unit` is what the task counts in a batch."""
    rows = {
        "run": facts["run"],
        "task": facts["task_title"],
        "model": f"{facts['model']}, {facts['parameters']:,} parameters",
        "data": facts["data"] or "none of its own: the run was imported",
    }
    rows |= {
        name.replace("_", " "): f"{value[:12]}…" if name.startswith("digest_") else f"{value:,}"
        for name, value in facts.items()
        if name.startswith(("digest_", "vocabulary", "classes"))
    }
    if facts["origin"] == "trained":
        rows["trained"] = f"{facts['step']:,} of {counted(facts['steps_planned'], 'step')}"
    if facts["best_step"] is not None:
        rows["best"] = f"step {facts['best_step']:,}, {_best(facts)}"
    for name, prefix in (("tuned on val", "tuned_"), ("last step", "last_"), ("last validation", "val")):
        entry = {key: value for key, value in facts.items() if key.startswith(prefix)}
        if entry:
            rows[name] = ", ".join(f"{_name(key, unit)} {_figure(value)}" for key, value in entry.items())
    count = len(facts["checkpoints"])
    which = f" (step {', '.join(map(str, facts['checkpoints']))})" if count else ""
    rows["checkpoints"] = f"{count}{which}, {bytes_text(facts['checkpoint_bytes'])}"
    if facts["copies"]:
        rows["copies"] = f"{', '.join(facts['copies'])}, {bytes_text(facts['copy_bytes'])}"
    if "int8_measured" in facts:
        layers = f"; layers not plain: {facts['int8_layers']}" if facts["int8_layers"] else ""
        declined = "" if facts["int8_by_auto"] else "; auto takes fp32"
        rows["int8"] = f"{facts['int8_measured']}{layers}{declined}"
    rows["on disk"] = sizes_text(_sizes(facts))
    if facts["can"]:
        rows["can"] = ", ".join(facts["can"])
    return rows


def _best(facts: dict[str, Any]) -> str:
    """The loss of the best checkpoint, after the figure that it was chosen by where that is another one."""
    loss = f"loss {facts['best_loss']:.4f}"
    if facts["best_by"] == "val_loss":
        return f"validation {loss}"
    return f"validation {figure_name(facts['best_by'])} {facts['best_value']:.4f}, by which it was chosen, {loss}"


def _sizes(facts: dict[str, Any]) -> dict[str, int]:
    """The bytes of a run by what they are."""
    return {
        "weights": facts["checkpoint_bytes"] - facts["optimiser_bytes"],
        "optimiser state": facts["optimiser_bytes"],
        "int8 copy": facts["copy_bytes"],
        "reference": facts["reference_bytes"],
        "pages and traces": facts["page_bytes"],
        "set aside as damaged": facts["damaged_bytes"],
        "other": facts["other_bytes"],
    }


def _name(key: str, unit: str) -> str:
    """The name of a log entry's figure: "last_loss" is "loss", "validated_step" is "step"."""
    for prefix in ("last_", "tuned_", "validated_", "val_"):
        key = key.removeprefix(prefix)
    name = key.replace("_", " ")
    return {"tokens": unit, "norm": "gradient norm"}.get(name, name)


def _figure(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
