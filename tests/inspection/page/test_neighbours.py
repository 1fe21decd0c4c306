"""Neighbours on the page: by the embedding table, and by what a sentence encoder makes of words."""

from __future__ import annotations

import torch

from headway.data.tokenizers import SPECIALS, Tokenizer, Word
from headway.inspection.page.neighbours import EmbeddingTable, EncodedWords, neighbour_entry

PLACES = {"special": (1.0, 0.0), "extraordinary": (0.9, 0.1), "bread": (0.0, 1.0), "loaf": (0.1, 0.9), "it": (1.0, 0.0)}


def tokenizer() -> Tokenizer:
    return Tokenizer.train(Word(), [" ".join(PLACES)], specials=SPECIALS)


def test_an_encoders_neighbours_are_whole_words_but_itself():
    words, asked = tokenizer(), []

    def embed(texts):
        asked.extend(texts)
        return torch.tensor([PLACES[text] for text in texts])

    ids = words.encode("special bread it")
    (special, bread, it) = neighbour_entry({"text": EncodedWords(ids=ids, embed=embed, tokenizer=words)})["text"][
        "lists"
    ]
    assert [word for word, _ in special] == ["extraordinary", "loaf", "bread"]
    assert [word for word, _ in bread] == ["loaf", "extraordinary", "special"]
    assert [word for word, _ in it][:2] == [
        "special",
        "extraordinary",
    ]  # short words are queries only
    assert special[0][1] == round(0.9 / (0.82**0.5), 4)
    assert not set(asked) & set(SPECIALS)


def test_what_is_no_word_has_no_neighbours_by_meaning():
    words = tokenizer()
    found = EncodedWords(ids=[words.start, words.stop], embed=lambda texts: torch.zeros(len(texts), 2), tokenizer=words)
    assert neighbour_entry({"text": found})["text"] == {"space": "sentences", "lists": [[], []]}


def test_a_tables_neighbours_are_by_cosine():
    words = tokenizer()
    vectors = torch.tensor([PLACES.get(words.token(n), (-1.0, -1.0)) for n in range(words.size)])
    ids = words.encode("special")
    ((near, *_),) = neighbour_entry({"text": EmbeddingTable(ids=ids, vectors=vectors, tokenizer=words)})["text"][
        "lists"
    ]
    assert near == ["it", 1.0]
