"""Questions with choices as a task."""

from __future__ import annotations

from headway.config import kind
from headway.data.choices import load_choices
from headway.data.digests import check_digests
from headway.data.tokenizers import Tokenizer
from headway.errors import ConfigError
from headway.tasks.base import ONE_TOKENIZER, DataRequest, Prepared
from headway.tasks.multiple_choice.config import MultipleChoice
from headway.tasks.multiple_choice.inputs import ChoiceReader
from headway.tasks.multiple_choice.training import MultipleChoiceTraining


def prepare(config: MultipleChoice, request: DataRequest) -> Prepared:
    """Questions, tokenizer and digests by split."""
    data, sizes = request.data, request.model.text
    if sizes is None:
        raise ConfigError(f"a {config.title} with a {type(request.model).__name__}, which reads no text")
    found = load_choices(data.spec, errors=data.errors, whole=request.other_data, skip_bad=data.skip_bad)
    for note in found.notes:
        request.note(note)
    digests = {split: found.fingerprint(split) for split in found.splits}
    check_digests(digests, request.expected)
    train, tokenizer = found.splits["train"], request.tokenizer
    if tokenizer is None:
        contexts = dict.fromkeys(each.context for each in train)
        rest = (text for each in train for text in (each.question, *each.choices))
        tokenizer = Tokenizer.train(data.tokenizer, [text for text in (*contexts, *rest) if text])
    reader = ChoiceReader(tokenizer, config, segments=sizes.segments > 1)
    training = MultipleChoiceTraining(reader, found.splits, batch_tokens=request.batch_tokens, seed=request.seed)
    counts = sorted({len(each.choices) for each in train})
    return Prepared(
        training=training,
        tokenizers={ONE_TOKENIZER: tokenizer},
        model_overrides={sizes.vocab_key: tokenizer.size},
        digests=digests,
        facts={
            "questions": ", ".join(f"{name} {len(each):,}" for name, each in found.splits.items()),
            "choices": f"{counts[0]} of a question"
            if len(counts) == 1
            else f"{counts[0]} to {counts[-1]} of a question",
            "vocabulary": f"{tokenizer.size:,} tokens ({kind(type(data.tokenizer))})",
        },
    )
