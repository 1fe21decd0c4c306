"""Texts with classes as a task."""

from __future__ import annotations

from headway.config import kind
from headway.data.digests import check_digests
from headway.data.files import listed
from headway.data.labelled_text import load_labelled_texts
from headway.errors import ConfigError
from headway.tasks.base import ONE_TOKENIZER, DataRequest, Prepared
from headway.tasks.text_classification.config import TextClassification
from headway.tasks.text_classification.training import TextClassificationTraining


def prepare(config: TextClassification, request: DataRequest) -> Prepared:
    """Texts with their classes, tokenizer and digests by split."""
    sizes = request.model.text
    if sizes is None:
        raise ConfigError(f"a text classifier with a {type(request.model).__name__}, which reads no text")
    found = load_labelled_texts(request.data, request.tokenizer, room=config.length - 2)
    check_digests(found.contents, request.expected)
    classes, tokenizer = found.classes, found.tokenizer
    if found.by_class:
        request.note("the rows are sorted by class: the last tenth of each class is held out for validation")
    training = TextClassificationTraining(
        config, classes, tokenizer, found.splits, batch_tokens=request.batch_tokens, seed=request.seed
    )
    return Prepared(
        training=training,
        tokenizers={ONE_TOKENIZER: tokenizer},
        model_overrides={sizes.vocab_key: tokenizer.size, "classes": len(classes)},
        classes=classes,
        digests=found.contents,
        facts={
            "texts": ", ".join(f"{name} {len(each.labels):,}" for name, each in found.splits.items()),
            "classes": f"{len(classes)}: {listed(classes, most=10)}",
            "vocabulary": f"{tokenizer.size:,} tokens ({kind(type(request.data.tokenizer))})",
        },
    )
