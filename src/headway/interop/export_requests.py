"""The export request of a run, one function a task. Each moves into its task's pipeline as it stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from headway.data.tokenizers import Tokenizer
from headway.models import Model, ModelConfig
from headway.tasks.export_request import BeamDefaults, ExportRequest, ImageScaling, TextExport
from headway.tasks.image_classification.config import Classification
from headway.tasks.language_modelling.config import Language
from headway.tasks.masked_lm.config import Masked
from headway.tasks.sentence_embedding.config import Embedding
from headway.tasks.sentence_embedding.embed import pooled
from headway.tasks.translation.config import Translation

Tokenizers = Mapping[str, Tokenizer]  # by the names of a run's files


def language(task: Language, model: Model, config: ModelConfig, tokenizers: Tokenizers) -> ExportRequest:
    """A language model: nothing stands around its texts."""
    text = TextExport(tokenizer=tokenizers["tokenizer.json"], starts=True)
    return ExportRequest(model=model, config=config, text=text)


def masked(task: Masked, model: Model, config: ModelConfig, tokenizers: Tokenizers) -> ExportRequest:
    """A masked language model: a text between a start and a stop token."""
    text = TextExport(tokenizer=tokenizers["tokenizer.json"], around="start-stop")
    return ExportRequest(model=model, config=config, text=text)


def embedding(task: Embedding, model: Model, config: ModelConfig, tokenizers: Tokenizers) -> ExportRequest:
    """A sentence encoder: as a masked model, and how token vectors become a sentence's."""
    pool = partial(pooled, config=task)
    text = TextExport(tokenizer=tokenizers["tokenizer.json"], around="start-stop", pool=pool)
    return ExportRequest(model=model, config=config, text=text)


def translation(task: Translation, model: Model, config: ModelConfig, tokenizers: Tokenizers) -> ExportRequest:
    """A translation model: one tokenizer for both texts or one each, and how it decodes."""
    source = tokenizers.get("tokenizer-source.json") or tokenizers["tokenizer.json"]
    target = tokenizers.get("tokenizer-target.json") or tokenizers["tokenizer.json"]
    beam = BeamDefaults(beam=task.beam, length_penalty=task.length_penalty if task.penalty == "mean" else None)
    text = TextExport(tokenizer=source, target=None if target is source else target, around="stop", beam=beam)
    return ExportRequest(model=model, config=config, text=text)


def image_classification(
    task: Classification, model: Model, config: ModelConfig, classes: tuple[str, ...]
) -> ExportRequest:
    """An image classifier: how pixels are scaled, and the names of the classes."""
    images = ImageScaling(mean=task.mean, std=task.std)
    return ExportRequest(model=model, config=config, images=images, classes=classes)


TEXTS: dict[type, Callable[..., ExportRequest]] = {
    Language: language,
    Masked: masked,
    Embedding: embedding,
    Translation: translation,
}


def export_request(run: Any) -> ExportRequest:
    """The request of a run; of a task without an export, the model alone, for which there is no family."""
    task, config = run.config.task, run.config.model
    if type(task) in TEXTS:
        return TEXTS[type(task)](task, run.model, config, run.tokenizers)
    if type(task) is Classification:
        return image_classification(task, run.model, config, run.config.data.classes)
    return ExportRequest(model=run.model, config=config)
