"""Questions with answers as a task."""

from __future__ import annotations

from headway.config import kind
from headway.data.digests import check_digests
from headway.data.questions import load_questions
from headway.data.tokenizers import Tokenizer
from headway.errors import ConfigError
from headway.tasks.base import ONE_TOKENIZER, DataRequest, Prepared
from headway.tasks.question_answering.config import QuestionAnswering
from headway.tasks.question_answering.training import QuestionAnsweringTraining
from headway.tasks.question_answering.windows import WindowReader

ANSWER, NO_ANSWER = "answer", "no answer"  # the classes of questions where some have no answer


def prepare(config: QuestionAnswering, request: DataRequest) -> Prepared:
    """Questions, tokenizer and digests by split."""
    data, sizes = request.data, request.model.text
    if sizes is None:
        raise ConfigError(f"a question answerer with a {type(request.model).__name__}, which reads no text")
    questions = load_questions(data.spec, errors=data.errors, whole=request.other_data)
    digests = {split: questions.fingerprint(split) for split in questions.splits}
    check_digests(digests, request.expected)
    tokenizer = request.tokenizer
    if tokenizer is None:
        train = questions.splits["train"]
        contexts = dict.fromkeys(each.context for each in train)
        tokenizer = Tokenizer.train(data.tokenizer, [*contexts, *(each.question for each in train)])
    if data.classes:
        classes = data.classes
    else:
        some_lack = any(not each.answers for each in questions.splits["train"])
        classes = (ANSWER, NO_ANSWER) if some_lack else (ANSWER,)
    reader = WindowReader(tokenizer, config, segments=sizes.segments > 1)
    training = QuestionAnsweringTraining(
        config,
        reader,
        questions.splits,
        batch_tokens=request.batch_tokens,
        seed=request.seed,
        may_lack=NO_ANSWER in classes,
    )
    lacking = sum(not each.answers for each in questions.splits["train"])
    return Prepared(
        training=training,
        tokenizers={ONE_TOKENIZER: tokenizer},
        model_overrides={sizes.vocab_key: tokenizer.size},
        classes=classes,
        digests=digests,
        facts={
            "questions": ", ".join(f"{name} {len(each):,}" for name, each in questions.splits.items()),
            **({"no answer": f"{lacking:,} of train"} if lacking else {}),
            "windows": f"train {len(training.windows('train')):,}, of up to {config.length:,} tokens",
            "vocabulary": f"{tokenizer.size:,} tokens ({kind(type(data.tokenizer))})",
        },
    )
