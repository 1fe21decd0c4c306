"""Which characters a token stands for."""

from __future__ import annotations

import pytest

from headway.data.chunks import CHUNK
from headway.data.tokenizers import Bpe, ByteBpe, Characters, Tokenizer, Unigram, Word

TEXT = " John's  cat,\tsat in\n New York. naïve 東京 "
KINDS = (Word(), Bpe(vocab=60, fit=True), ByteBpe(vocab=300, fit=True), Unigram(vocab=60, fit=True), Characters())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
def test_spans_cover_every_word_in_order(kind):
    tokenizer = Tokenizer.train(kind, [TEXT] * 3)
    ids, spans = tokenizer.encode_spans(TEXT)
    assert ids == tokenizer.encode(TEXT)
    assert len(ids) == len(spans)
    covered = set()
    for start, stop in spans:
        assert TEXT[start:stop] == TEXT[start:stop].strip()
        covered |= set(range(start, stop))
    assert covered == {place for place, char in enumerate(TEXT) if not char.isspace()}
    assert [start for start, _ in spans] == sorted(start for start, _ in spans)


@pytest.mark.parametrize("kind", KINDS[:4], ids=lambda kind: type(kind).__name__)
def test_spans_of_a_text_in_chunks_are_places_in_the_whole(kind):
    text = " ".join(f"word{n % 7}" for n in range(CHUNK // 3))
    tokenizer = Tokenizer.train(kind, [" ".join(f"word{n}" for n in range(7))] * 3)
    ids, spans = tokenizer.encode_spans(text)
    assert ids == tokenizer.encode(text)
    whole = set().union(*(range(*span) for span in spans))
    assert whole == {place for place, char in enumerate(text) if char != " "}
