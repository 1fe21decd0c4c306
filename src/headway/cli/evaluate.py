"""`headway evaluate`."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headway.errors import DataError
from headway.evaluation.translation import TranslationReport, translation_report
from headway.runs import Run, load
from headway.tasks.language import LanguageTask
from headway.tasks.masked import MaskedTask
from headway.tasks.translation import TranslationTask


def run(arguments: Namespace) -> None:
    """Print the metrics of a split."""
    found = load(arguments.run, device=arguments.device, average=arguments.average)
    task = found.task(arguments.data)
    split = arguments.split or next((name for name in ("test", "val") if name in task.splits), "train")
    if split not in task.splits:
        raise DataError(f"no split {split!r}, there are {', '.join(task.splits)}")
    facts = {"split": split, "steps": ",".join(map(str, found.steps))}
    if isinstance(task, LanguageTask):
        report = task.evaluate(found.model, found.device, split).to_json()
        _print({**facts, **report}, None, as_json=arguments.json)
    elif isinstance(task, MaskedTask):
        _print({**facts, **task.evaluate(found.model, found.device, split)}, None, as_json=arguments.json)
    else:
        values, translations = evaluate_translation(found, task, split, beam=arguments.beam)
        _print({**facts, **values}, translations, as_json=arguments.json)


def evaluate_translation(
    found: Run, task: TranslationTask, split: str, *, beam: int | None = None
) -> tuple[dict[str, Any], TranslationReport]:
    """Translate a split and compare: the flat figures and the whole report."""
    nats, tokens = task.score_split(found.model, found.device, split)
    pairs = task.splits[split]
    sources = [task.source_tokenizer.decode(pairs.source[n].tolist()) for n in range(len(pairs.source))]
    references = [task.target_tokenizer.decode(pairs.target[n].tolist()) for n in range(len(pairs.target))]
    said = task.translate(found.model, found.device, sources, beam=beam)
    report = translation_report(said, references, sources)
    return {"loss": nats, "tokens": tokens, **report.to_json()}, report


def _print(values: dict[str, Any], report: TranslationReport | None, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(values))
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for key, value in values.items():
        shown = "\n".join(value) if isinstance(value, list) else str(value)
        table.add_row(key, f"{value:.4f}" if isinstance(value, float) else Text(shown))
    Console(highlight=False).print(table)
    if report is not None:
        print("\nbleu is sacreBLEU on the text as it is; bleu_tokenized_lower is what papers of 2014-2018 report.")
