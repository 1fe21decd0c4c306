"""Texts with labels as a task."""

from __future__ import annotations

from headway.config import kind
from headway.data.digests import check_digests
from headway.data.files import listed
from headway.data.labelled_text import LabelledTexts, load_labelled_texts
from headway.errors import ConfigError, DataError
from headway.tasks.base import ONE_TOKENIZER, DataRequest, Prepared
from headway.tasks.text_classification.config import TextClassification
from headway.tasks.text_classification.layout import InputLayout
from headway.tasks.text_classification.objectives import class_weights, objective
from headway.tasks.text_classification.training import TextClassificationTraining


def prepare(config: TextClassification, request: DataRequest) -> Prepared:
    """Texts with their labels, tokenizer and digests by split."""
    sizes = request.model.text
    if sizes is None:
        raise ConfigError(f"a text classifier with a {type(request.model).__name__}, which reads no text")
    found = load_labelled_texts(
        request.data, request.tokenizer, room=config.length - 2, kind=config.labels, whole=request.other_data
    )
    check_digests(found.contents, request.expected)
    classes, tokenizer = found.classes, found.tokenizer
    for note in found.notes:
        request.note(note)
    numbers = _numbers(found, request) if config.labels == "number" else _no_numbers(request)
    aim = objective(
        config,
        classes,
        scale=numbers.get("scale", 1.0),
        weights=class_weights(config, classes, found.splits["train"].labels),
    )
    training = TextClassificationTraining(
        aim,
        InputLayout.of(tokenizer, config.length, pairs=bool(request.data.text2)),
        tokenizer,
        found.splits,
        segments=sizes.segments > 1,
        batch_tokens=request.batch_tokens,
        seed=request.seed,
    )
    facts = {
        "texts": ", ".join(f"{name} {len(each.labels):,}" for name, each in found.splits.items()),
        "classes": f"{len(classes)}: {listed(classes, most=10)}",
        "vocabulary": f"{tokenizer.size:,} tokens ({kind(type(request.data.tokenizer))})",
    }
    if config.labels == "number":
        facts["classes"] = f"none: a number, {numbers['centre']:.4g} ± {numbers['scale']:.4g} in train"
    elif config.labels == "multi":
        facts["classes"] += f"; a text has {float(found.splits['train'].labels.sum(1).mean()):.2f} of them"
    return Prepared(
        training=training,
        tokenizers={ONE_TOKENIZER: tokenizer},
        model_overrides={sizes.vocab_key: tokenizer.size, "classes": aim.size, **numbers},
        classes=classes,
        digests=found.contents,
        facts=facts,
    )


def _no_numbers(request: DataRequest) -> dict[str, float]:
    """Outputs as they are, for classes: with --init the model may be one of numbers."""
    return {name: value for name, value in (("centre", 0.0), ("scale", 1.0)) if hasattr(request.model, name)}


def _numbers(found: LabelledTexts, request: DataRequest) -> dict[str, float]:
    """The mean and the deviation of the training labels; of a finished run, those it was trained with."""
    if request.reads_only:
        return {name: float(getattr(request.model, name)) for name in ("centre", "scale")}
    labels = found.splits["train"].labels
    scale = float(labels.std())
    if not scale > 0:
        raise DataError(f"{request.data.spec}: all {len(labels):,} labels of train are {labels[0]:g}, expected several")
    return {"centre": float(labels.mean()), "scale": scale}
