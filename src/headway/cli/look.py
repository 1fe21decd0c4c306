"""`headway look`."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from headway.errors import ConfigError
from headway.inspection.page.assembly import Subject
from headway.inspection.page.html import document
from headway.inspection.page.language import language_page
from headway.runs import Run, load
from headway.storage import commit_file
from headway.tasks.language import Language


def run(arguments: Namespace) -> None:
    """Write one page about what the run does with this input."""
    found = load(arguments.run, device=arguments.device)
    out = Path(arguments.out)
    commit_file(out, document(payload(found, arguments.input)))
    print(f"{out}: open it in a browser; it needs no network")


def payload(found: Run, given: str) -> dict[str, Any]:
    """What the page of this input holds."""
    if isinstance(found.config.task, Language):
        subject = Subject(kind="language", run=str(found.folder), given=given, steps=tuple(found.steps))
        return language_page(found.model, found.tokenizer, found.prompt(given), subject)
    raise ConfigError(f"{found.folder}: no page for this kind of run yet")
