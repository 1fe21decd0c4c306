"""`headway look`."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import torch

from headway.data.files import read_bytes
from headway.data.image_decoding import Picture, Pixels, decoded
from headway.decoding.trace import lines
from headway.errors import ConfigError
from headway.inspection.page.captioning import caption_page
from headway.inspection.page.html import document
from headway.inspection.page.language import language_page
from headway.inspection.page.masked import masked_page
from headway.inspection.page.payload import PageSubject
from headway.inspection.page.translation import translation_page
from headway.inspection.page.vision import vision_page
from headway.models import Vit
from headway.runs import Run, load
from headway.storage.commit import commit_file
from headway.tasks.captioning.training import Captioning, CaptioningTask
from headway.tasks.image_classification.training import Classification
from headway.tasks.language_modelling.training import Language
from headway.tasks.masked_lm.training import Masked
from headway.tasks.sentence_embedding.embed import Embedding
from headway.tasks.translation.traces import Readers
from headway.tasks.translation.training import Translation


def run(arguments: Namespace) -> None:
    """Write one page about what the run does with this input."""
    out = Path(arguments.out)
    write_page(load(arguments.run, device=arguments.device), arguments.input, out)
    print(f"{out}: open it in a browser; it needs no network")


def write_page(found: Run, given: str, out: Path) -> None:
    """One HTML file about what a run does with an input."""
    commit_file(out, document(payload(found, given)))


def payload(found: Run, given: str) -> dict[str, Any]:
    """What the page of this input holds. Raises ConfigError for a run that has no page."""
    task, model = found.config.task, found.model
    name, steps = str(found.folder), tuple(found.steps)
    if isinstance(task, Language):
        subject = PageSubject(kind="language", run=name, given=given, steps=steps)
        return language_page(model, found.tokenizer, found.prompt(given), subject)
    if isinstance(task, Translation):
        (trace,) = found.trace([given])
        said = next((line.text for line in lines(trace)), "")
        subject = PageSubject(kind="translation", run=name, given=given, said=said, steps=steps)
        translator = found.translator()
        readers = Readers(translator.source_tokenizer, translator.target_tokenizer)
        return translation_page(model, readers, trace, subject)
    if isinstance(task, Masked | Embedding):
        subject = PageSubject(kind="masked", run=name, given=given, steps=steps)
        embed = (lambda texts: torch.from_numpy(found.embed(texts))) if isinstance(task, Embedding) else None
        return masked_page(model, found.tokenizer, given, subject, embed=embed)
    if isinstance(task, Classification) and isinstance(model, Vit):
        said = found.classify([given], top=1)[0].top[0][0]
        subject = PageSubject(kind="image", run=name, given=Path(given).name, said=said, steps=steps)
        return vision_page(model, task, found.config.data.classes, _pixels(given, task), subject)
    if isinstance(task, Captioning):
        subject = PageSubject(kind="caption", run=name, given=Path(given).name, steps=steps)
        captioning = CaptioningTask(task, found.tokenizer, {}, batch_tokens=1, seed=0)
        return caption_page(model, captioning, _pixels(given, task), subject)
    raise ConfigError(f"{found.folder}: a {type(model).__name__} has no attention to look at")


def _pixels(given: str, task: Classification | Captioning) -> Pixels:
    path = Path(given)
    sound = task.sound if isinstance(task, Classification) else None
    (pixels,) = decoded([Picture(given, 0, read_bytes(path))], task.size, None if sound is None else sound.decode)
    return pixels
