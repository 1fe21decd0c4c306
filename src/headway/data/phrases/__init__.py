"""English–French phrases from a grammar: a data set that needs no network and that every copy of the library shares.

The English determines the French, so some choices are fixed. `you` is always vous and plural (vous êtes contents);
`they` is ils, unless the sentence has named women or feminine nouns; i, you, we and they take masculine adjectives
and participles. A noun of profession is masculine (the nurse, l'infirmier) unless it is said of a woman (she is a
nurse, elle est infirmière). `it` stands only for a thing named before it, or for the weather. The simple past and the
perfect are the passé composé, `was` and `had` the imperfect, `going to` is aller; yes–no questions take est-ce que.
Everything is in lower case; only sentences end with punctuation.
"""

from __future__ import annotations

from headway.data.phrases.splits import split


def phrases() -> dict[str, list[tuple[str, str]]]:
    """The splits train, val, test and unseen as (english, french) pairs, the same ones on every call.

    No source is in two splits. `unseen` tests composition: each of its pairs joins two words (an adjective and its
    noun, a verb and its subject or object) that no other split has in one sentence, though train knows them singly.
    """
    splits = split()
    return {
        name: [(pair.english, pair.french) for pair in pairs]
        for name, pairs in (
            ("train", splits.train),
            ("val", splits.val),
            ("test", splits.test),
            ("unseen", splits.unseen),
        )
    }
