"""Sentences with tags as a task."""

from __future__ import annotations

from collections.abc import Callable

from headway.config import kind
from headway.data.digests import check_digests
from headway.data.files import listed
from headway.data.tagged_text import TaggedText, has_entities, load_tagged
from headway.data.tokenizers import Characters, Tokenizer
from headway.errors import ConfigError, DataError, one_line, shown
from headway.tasks.base import ONE_TOKENIZER, DataRequest, Prepared
from headway.tasks.tagging.alignment import WordAligner
from headway.tasks.tagging.config import Tagging
from headway.tasks.tagging.training import TaggedSplit, TaggingTraining


def prepare(config: Tagging, request: DataRequest) -> Prepared:
    """Sentences with tags, tokenizer and digests by split."""
    data, sizes = request.data, request.model.text
    if sizes is None:
        raise ConfigError(f"a tagger with a {type(request.model).__name__}, which reads no text")
    text = load_tagged(
        data.spec,
        word=data.text,
        tag=data.label,
        errors=data.errors,
        scheme=config.scheme,
        words=config.words,
        whole=request.other_data,
    )
    digests = {split: text.fingerprint(split) for split in text.splits}
    check_digests(digests, request.expected)
    tokenizer = request.tokenizer
    if tokenizer is None:
        between = "" if isinstance(data.tokenizer, Characters) else " "
        tokenizer = Tokenizer.train(data.tokenizer, (between.join(each.words) for each in text.splits["train"]))
    classes = data.classes or _tags(text, request.note)
    _expect_known(text, classes)
    aligner = WordAligner(tokenizer, data.tokenizer, config.length)
    splits = {name: TaggedSplit.of(aligner, sentences, classes) for name, sentences in text.splits.items()}
    entities = config.scheme != "plain" and has_entities(classes)
    training = TaggingTraining(
        classes,
        tokenizer,
        splits,
        batch_tokens=request.batch_tokens,
        seed=request.seed,
        entities=entities,
        ceiling=text.ceiling,
    )
    return Prepared(
        training=training,
        tokenizers={ONE_TOKENIZER: tokenizer},
        model_overrides={sizes.vocab_key: tokenizer.size, "classes": len(classes)},
        classes=classes,
        digests=digests,
        facts={
            "sentences": ", ".join(f"{name} {len(each.sentences):,}" for name, each in splits.items()),
            "words": ", ".join(f"{name} {each.words:,}" for name, each in splits.items()),
            "tags": f"{len(classes)}: {listed(classes, most=10)}{' (entities)' if entities else ''}",
            "vocabulary": f"{tokenizer.size:,} tokens ({kind(type(data.tokenizer))})",
        },
    )


def _tags(text: TaggedText, note: Callable[[str], None]) -> tuple[str, ...]:
    """The tags of all splits; `note` is told of those that only held-out sentences have, which cannot be learned."""
    by_split = {split: {tag for each in found for tag in each.tags} for split, found in text.splits.items()}
    if unseen := sorted(set().union(*by_split.values()) - by_split["train"]):
        where = listed([split for split, tags in by_split.items() if not tags.isdisjoint(unseen)])
        tags = (
            f"the tag {shown(unseen[0])} is"
            if len(unseen) == 1
            else f"{len(unseen)} tags ({listed(unseen, most=10)}) are"
        )
        note(f"{tags} in {where} and not in train: measured there, but never learned")
    return tuple(sorted(set().union(*by_split.values())))


def _expect_known(text: TaggedText, classes: tuple[str, ...]) -> None:
    """Raise DataError for a tag that the run does not have."""
    known = set(classes)
    for split, sentences in text.splits.items():
        for each in sentences:
            if unknown := sorted(set(each.tags) - known):
                where = each.where or f"{text.name}, split {one_line(split)}"
                known_tags = listed(classes, most=10)
                raise DataError(f"{where}: the tag {shown(unknown[0])} is not one of the run's ({known_tags})")
