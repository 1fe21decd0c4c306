"""Conversations as a chat task: read, train a tokenizer if the run has none, encode, keep the ids."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from headway.config import kind
from headway.data.chat_template import ChatEncoder
from headway.data.chats import ROLES, ChatDataset
from headway.data.datasets import load_chats
from headway.data.digests import check_digests
from headway.data.token_store import TokenStore, fingerprint, store_tokens
from headway.data.tokenizers import Tokenizer, named
from headway.errors import DataError, UnknownCharacterError
from headway.tasks.base import ONE_TOKENIZER, DataRequest, Prepared
from headway.tasks.chat.config import Chat
from headway.tasks.chat.training import LEARNT, ChatTraining


def prepare(config: Chat, request: DataRequest) -> Prepared:
    """Conversations with their tokenizer (the run's, else one trained on them) and their digests by split."""
    data = request.data
    chats = load_chats(data.spec, errors=data.errors)
    if request.other_data:
        chats = chats.with_whole()
    digests = {split: chats.fingerprint(split) for split in chats.splits}
    check_digests(digests, request.expected)
    tokenizer = request.tokenizer
    if tokenizer is None:
        tokenizer = Tokenizer.train(data.tokenizer, _texts(config, chats), specials=config.template.special)
    encoder = ChatEncoder(config.template, tokenizer)
    cache = Path(data.cache).expanduser()
    splits = {}
    for name in chats.splits:
        try:
            splits[name] = _encoded(cache, chats, name, encoder, digests[name])
        except UnknownCharacterError as error:
            if request.tokenizer is not None:
                raise
            missing = f"character {named(error.character)} does not occur in the training split"
            remedy = "add it there, or use --data.tokenizer byte-bpe"
            raise DataError(f"{chats.name}, {name} split: {missing}; {remedy}") from error
    sizes = request.model.text
    context = config.context if sizes is None or sizes.context is None else min(config.context, sizes.context)
    training = ChatTraining(
        encoder, splits, chats, context=context, batch_tokens=request.batch_tokens, seed=request.seed, task=config
    )
    counted = "; ".join(training.cut_notes())
    return Prepared(
        training=training,
        tokenizers={ONE_TOKENIZER: tokenizer},
        model_overrides={"vocab": tokenizer.size},
        digests=digests,
        facts={
            "conversations": ", ".join(
                f"{name} {len(store):,} ({len(store.ids):,} tokens)" for name, store in splits.items()
            ),
            "template": kind(type(config.template)),
            "vocabulary": f"{tokenizer.size:,} tokens ({kind(type(data.tokenizer))})",
            **({"too long": counted} if counted else {}),
        },
    )


def _texts(config: Chat, chats: ChatDataset) -> Iterator[str]:
    """What a tokenizer is trained on: all texts that are encoded, words of the template as often as they occur."""
    template = config.template
    special = re.compile("|".join(map(re.escape, sorted(template.special, key=len, reverse=True))))

    def around(role: str, content: str) -> Iterator[str]:
        *before, last = special.split(template.before(role))
        first, *after = special.split(template.after(role))
        return filter(None, [*before, f"{last}{content}{first}", *after])

    yield from filter(None, [*special.split(template.begin), template.system])
    for role in ROLES:  # one may be missing in the data
        yield from around(role, "")
    for messages in chats.conversations("train"):
        for message in messages:
            yield from around(message.role, message.content)


def _encoded(cache: Path, chats: ChatDataset, split: str, encoder: ChatEncoder, content: str) -> TokenStore:
    """The tokens of each conversation; those that the model learns have the bit `LEARNT` set."""
    key = fingerprint([content, "chat", repr(encoder.template), encoder.tokenizer.content_hash])

    def sequences() -> Iterator[list[int]]:
        for messages in chats.conversations(split):
            found = encoder.encode(messages)
            yield [index | (LEARNT if learnt else 0) for index, learnt in zip(found.ids, found.learnt, strict=True)]

    return store_tokens(cache / f"chat-{key}", sequences())
