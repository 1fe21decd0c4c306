"""Neighbours on the page: by the embedding table, and by what a sentence encoder makes of words."""

from __future__ import annotations

import torch

from headway.data.tokenizers import SPECIALS, Tokenizer, Word
from headway.inspection.page.neighbours import EmbeddingTable, EncodedWords, neighbour_entry

LINE = "the small cat sees a red house near the garden"
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
    assert neighbour_entry({"text": found})["text"] == {"space": "sentences", "lists": [[], []], "map": None}


def test_a_tables_neighbours_are_by_cosine():
    words = tokenizer()
    vectors = torch.tensor([PLACES.get(words.token(n), (-1.0, -1.0)) for n in range(words.size)])
    ids = words.encode("special")
    ((near, *_),) = neighbour_entry({"text": EmbeddingTable(ids=ids, vectors=vectors, tokenizer=words)})["text"][
        "lists"
    ]
    assert near == ["it", 1.0]


def test_the_map_is_the_first_two_principal_components():
    tokenizer = Tokenizer.train(Word(), [LINE], specials=SPECIALS)
    vectors = torch.randn(tokenizer.size, 12, generator=torch.Generator().manual_seed(3))
    ids = tokenizer.encode("the small cat sees the house")
    found = neighbour_entry({"text": EmbeddingTable(ids=ids, vectors=vectors, tokenizer=tokenizer)})["text"]["map"]
    spelt = {tokenizer.display(index): index for index in range(tokenizer.size)}
    rows = vectors[[spelt[word] for word in found["words"]]].double()
    centred = rows - rows.mean(0)
    places = torch.tensor(found["places"], dtype=torch.float64)
    assert found["words"][: found["own"]] == [tokenizer.display(index) for index in dict.fromkeys(ids)]
    # Peer: the eigenvectors of the covariance. Components may be mirrored.
    values, directions = torch.linalg.eigh(centred.mT @ centred)
    expected = centred @ directions[:, [-1, -2]]
    torch.testing.assert_close(places.abs(), expected.abs(), atol=1e-5, rtol=0)
    shares = values[[-1, -2]] / values.sum()
    torch.testing.assert_close(torch.tensor(found["shares"], dtype=torch.float64), shares, atol=1e-4, rtol=0)
    few = EmbeddingTable(ids=[0], vectors=vectors[:2], tokenizer=tokenizer)
    assert neighbour_entry({"text": few})["text"]["map"] is None  # two points are no map
