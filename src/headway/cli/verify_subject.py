"""The inputs that `headway verify` runs a run's model on, one function a task. Each moves into its task's pipeline."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.data.config import DataConfig
from headway.data.datasets import load_parallel, load_text, sample_captioned_images, sample_images
from headway.data.files import read_bytes
from headway.data.image_decoding import EncodedImage, decode_images
from headway.data.tokenizers import Tokenizer
from headway.errors import ConfigError, HeadwayError
from headway.interop.export_requests import export_request
from headway.interop.exporter import round_trip
from headway.interop.hf_reference import REFERENCE
from headway.models import Model, ModelInputs
from headway.runs import Run, load
from headway.tasks.captioning.config import Captioning
from headway.tasks.decision_transformer.config import Deciding
from headway.tasks.image_classification.config import Classification
from headway.tasks.language_modelling.config import Language
from headway.tasks.masked_lm.config import Masked
from headway.tasks.pose.config import PoseEstimation
from headway.tasks.pose.training import MEAN, STD
from headway.tasks.sentence_embedding.config import Embedding
from headway.tasks.sentence_embedding.embed import around
from headway.tasks.text_classification.config import TextClassification
from headway.tasks.translation.config import Translation
from headway.tasks.translation.search import before_source
from headway.tasks.verification_inputs import (
    MAX_GIVEN,
    OWN,
    Example,
    TextLayout,
    TokenBudget,
    VerificationInputs,
    caption_examples,
    continued,
    image_examples,
    missing_data,
    noise_images,
    normalised_images,
    random_examples,
    text_inputs,
)
from headway.tasks.world_model.config import WorldModel
from headway.verification.checks import VerificationSubject


def subject_of(run: Run, given: Sequence[str] = (), *, compiled: bool = False) -> VerificationSubject:
    """A run with its inputs: these texts or image files, else random ones and the first of its validation data."""
    inputs = INPUTS[type(run.config.task)](run, given)
    for note in inputs.notes:
        print(f"headway: note: {note}", file=sys.stderr)

    def precise(precision: str) -> Model:
        return load(run.folder, device=run.device.type, precision=precision).model  # type: ignore[arg-type, return-value]

    return VerificationSubject(
        model=run.model,  # type: ignore[arg-type]
        inputs=inputs,
        precise=precise,
        round_trip=lambda: round_trip(export_request(run)),
        reference=run.folder / REFERENCE,
        compiled=compiled,
    )


# --- text: one function a task --------------------------------------------------------------------------------------


def language(run: Any, given: Sequence[str]) -> VerificationInputs:
    """A text, of which each next token is predicted."""
    tokenizer: Tokenizer = run.tokenizers["tokenizer.json"]

    def arrange(ids: Sequence[int], source: Sequence[int] | None) -> Example:
        marks = tokenizer.marks
        tokens = torch.tensor([[*(marks.before if marks else ()), *ids]])
        return Example(ModelInputs(tokens=tokens), tokens.shape[1])

    layout = TextLayout(
        max_length=run.config.task.context,
        tokenizer=tokenizer,
        arrange=arrange,
        encode=lambda line: (tokenizer.encode(line), None),
        generates=True,
    )
    return text_inputs(run.model, layout, given, _first_lines(run.config.data), _token_names(run.tokenizer))


def translation(run: Any, given: Sequence[str]) -> VerificationInputs:
    """A source and a target's beginning, of which each next token is predicted; a line has a tab between the two."""
    data = run.config.data
    source = run.tokenizers.get("tokenizer-source.json") or run.tokenizers["tokenizer.json"]
    target = run.tokenizers.get("tokenizer-target.json") or run.tokenizers["tokenizer.json"]

    def arrange(ids: Sequence[int], source_ids: Sequence[int] | None) -> Example:
        tokens = torch.tensor([[target.start, *ids]])
        after = () if source.marks is not None and source.marks.stop is None else (source.stop,)
        row = torch.tensor([[*before_source(source), *(source_ids or ()), *after]])
        return Example(ModelInputs(tokens=tokens, source=row), tokens.shape[1])

    def encode(line: str) -> tuple[list[int], list[int]]:
        left, _, right = line.partition("\t")
        return target.encode(right), source.encode(left)

    def own() -> Iterator[str]:
        text = load_parallel(data.spec, data.source, data.target, errors=data.errors)
        return ("\t".join(pair) for pair in islice(text.pairs("val"), OWN))

    layout = TextLayout(
        max_length=run.config.task.max_length,
        tokenizer=target,
        source_tokenizer=source,
        arrange=arrange,
        encode=encode,
        generates=True,
    )
    return text_inputs(run.model, layout, given, own if data.spec else None, _token_names(run.tokenizer))


def masked(run: Any, given: Sequence[str]) -> VerificationInputs:
    """Two sentences, or one text, of which every token is predicted."""
    task = run.config.task
    layout = _encoder_layout(run.tokenizers["tokenizer.json"], task.length, two=task.rows == "pairs")
    return text_inputs(run.model, layout, given, _first_lines(run.config.data), _token_names(run.tokenizer))


def embedding(run: Any, given: Sequence[str]) -> VerificationInputs:
    """A text, of which every token gets a vector: these are compared."""
    layout = _encoder_layout(run.tokenizers["tokenizer.json"], run.config.task.max_length, two=True)
    own, spell = _first_lines(run.config.data), _token_names(run.tokenizer)
    return text_inputs(run.model, layout, given, own, spell, names=None)


def text_classification(run: Any, given: Sequence[str]) -> VerificationInputs:
    """A text, whose class is predicted; its data is a table of texts and classes, of which none is read."""
    layout = _encoder_layout(run.tokenizers["tokenizer.json"], run.config.task.length, two=False)
    return text_inputs(run.model, layout, given, None, _token_names(run.tokenizer), names="class")


def _encoder_layout(tokenizer: Tokenizer, max_length: int, *, two: bool) -> TextLayout:
    """A text between special tokens; `two` has a second sentence from the middle on, so its embedding is compared."""

    def arrange(ids: Sequence[int], source: Sequence[int] | None) -> Example:
        before, after = around(tokenizer)
        tokens = torch.tensor([[*before, *ids, *after]])
        count = tokens.shape[1]
        segments = (torch.arange(count) > count // 2).long()[None] if two else None
        return Example(ModelInputs(tokens=tokens, segments=segments))

    def encode(line: str) -> tuple[list[int], None]:
        return tokenizer.encode(line), None

    return TextLayout(max_length=max_length, tokenizer=tokenizer, arrange=arrange, encode=encode)


def _first_lines(data: DataConfig) -> Callable[[], list[str]] | None:
    """Reads the first lines of a text's validation split; None for an imported run, which has no data."""

    def own() -> list[str]:
        chunk = next(load_text(data.spec, errors=data.errors).chunks("val"), "")
        return [line for line in chunk.splitlines() if line.strip()][:OWN]

    return own if data.spec else None


def _token_names(tokenizer: Tokenizer) -> Callable[[int], str]:
    return lambda index: repr(tokenizer.token(index)) if index < tokenizer.size else f"id {index}"


def _class_names(classes: Sequence[str]) -> Callable[[int], str]:
    return lambda index: repr(classes[index]) if index < len(classes) else f"class {index}"


# --- images: one function a task ------------------------------------------------------------------------------------


def image_classification(run: Any, files: Sequence[str]) -> VerificationInputs:
    """An image, or a sound as one, whose class is predicted."""
    task, data, model = run.config.task, run.config.data, run.config.model
    notes: list[str] = []
    if files:
        decode = None if task.sound is None else task.sound.decode
        images = _decoded(files, task.size, task.mean, task.std, decode)
    else:
        images = []
        if data.spec and task.sound is None:
            try:
                some = sample_images(data.spec, data.classes, count=OWN, size=task.size)
                images = normalised_images(some, task.mean, task.std)
            except HeadwayError as error:
                notes.append(missing_data("images", error))
    if len(images) < 2 or not files:  # a batch of one has no other rows
        images += noise_images(model.channels, getattr(model, "size", (task.size, task.size)))
    return VerificationInputs(
        examples=image_examples(images, run.device),
        pads=False,
        names="class",
        spell=_class_names(data.classes),
        notes=tuple(notes),
    )


def pose(run: Any, files: Sequence[str]) -> VerificationInputs:
    """An image, of which each keypoint gets a heat map: all cells are compared."""
    task, model = run.config.task, run.config.model
    images = _decoded(files, task.size, MEAN, STD)
    if len(images) < 2:
        images += noise_images(model.channels, model.size)
    return VerificationInputs(examples=image_examples(images, run.device), pads=False, names=None)


def captioning(run: Any, files: Sequence[str]) -> VerificationInputs:
    """An image and a caption's beginning, of which each next token is predicted; the captions are random."""
    task, data, model = run.config.task, run.config.data, run.config.model
    tokenizer: Tokenizer = run.tokenizers["tokenizer.json"]
    notes: list[str] = []
    images = _decoded(files, task.size, task.mean, task.std)
    if not files and data.spec:
        try:
            some = sample_captioned_images(data.spec, count=OWN, size=task.size)
            images = normalised_images(some, task.mean, task.std)
        except HeadwayError as error:
            notes.append(missing_data("images", error))
    if len(images) < 2 or not files:
        images += noise_images(model.channels, (task.size, task.size))

    def arrange(ids: Sequence[int], source: Sequence[int] | None) -> Example:
        tokens = torch.tensor([[tokenizer.start, *ids]])
        return Example(ModelInputs(tokens=tokens), tokens.shape[1])

    layout = TextLayout(
        max_length=task.max_length,
        tokenizer=tokenizer,
        arrange=arrange,
        encode=lambda line: (tokenizer.encode(line), None),
        generates=True,
    )
    budget = TokenBudget.of(layout, run.model)
    examples = caption_examples(images, random_examples(layout, budget))
    return VerificationInputs(
        examples=continued(run.model, examples, budget),
        generates=True,
        vocabulary=layout.vocabulary,
        spell=_token_names(run.tokenizer),
        notes=tuple(notes),
    )


def _decoded(
    files: Sequence[str], size: int, mean: Sequence[float], std: Sequence[float], decode: Any = None
) -> list[Tensor]:
    """These image files, normalised."""
    pictures = (EncodedImage(name, 0, read_bytes(Path(name))) for name in files[:MAX_GIVEN])
    return normalised_images(decode_images(pictures, size, decode), mean, std) if files else []


def unsupported(run: Any, given: Sequence[str]) -> VerificationInputs:
    """Raise ConfigError for a model of an environment."""
    raise ConfigError(f"{run.folder} acts in an environment: `verify` is for what reads text or images")


INPUTS: dict[type, Callable[[Any, Sequence[str]], VerificationInputs]] = {
    Language: language,
    Translation: translation,
    Masked: masked,
    Embedding: embedding,
    TextClassification: text_classification,
    Classification: image_classification,
    PoseEstimation: pose,
    Captioning: captioning,
    WorldModel: unsupported,
    Deciding: unsupported,
}
