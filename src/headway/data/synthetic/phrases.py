"""English–French phrases that a grammar generated (tools/phrases in the repository), read from a table in the package.

The English determines the French, so some choices are fixed. `you` is always vous and plural (vous êtes contents);
`they` is ils, unless the sentence has named women or feminine nouns; i, you, we and they take masculine adjectives
and participles. A noun of profession is masculine (the nurse, l'infirmier) unless it refers to a woman (she is a
nurse, elle est infirmière). `it` refers only to a thing named before it, or to the weather. The simple past and the
perfect are the passé composé, `was` and `had` the imperfect, `going to` is aller; yes–no questions take est-ce que.
Everything is in lower case; only sentences end with punctuation.
"""

from __future__ import annotations

import gzip
from importlib.resources import files


def phrases() -> dict[str, list[tuple[str, str]]]:
    """The splits train, val, test and unseen as (english, french) pairs, in new lists at every call.

    No source is in two splits. `unseen` tests composition: each of its pairs joins two words (an adjective and its
    noun, a verb and its subject or object) that no other split has in one sentence, though train has each of them.
    """
    table = gzip.decompress(files("headway.data.synthetic").joinpath("phrases.tsv.gz").read_bytes()).decode()
    rows = (line.split("\t") for line in table.splitlines()[1:])
    in_order = sorted((int(position), split, english, french) for split, english, french, position in rows)
    splits: dict[str, list[tuple[str, str]]] = {"train": [], "val": [], "test": [], "unseen": []}
    for _, split, english, french in in_order:
        splits[split].append((english, french))
    return splits
