"""French forms: plurals, feminines, the present tense, elision and contraction."""

from __future__ import annotations

import re
from functools import cache

from tools.phrases.verbs import IMPERFECT, IRREGULAR, WITH_ETRE

ASPIRATE = "*"  # marks an aspirated h, huit and onze, before which nothing elides; `join` removes it
VOWELS = tuple("aeiouyhàâéèêëîïôûœ")
ELIDED = {"le", "la", "je", "ne", "me", "se", "de", "que"}
BEFORE_VOWEL = {"ce": "cet", "ma": "mon", "sa": "son"}
CONTRACTED = {("à", "le"): "au", ("à", "les"): "aux", ("de", "le"): "du", ("de", "les"): "des"}
AVEC_ETRE = frozenset(WITH_ETRE.split())
DOUBLING = {"appeler", "jeter"}  # j'appelle, where acheter has j'achète
PUNCTUATION = re.compile(r" ([.,])")
_IRREGULAR = {line.split()[0]: line.split()[1:] for line in IRREGULAR.strip().splitlines()}


def starts_with_vowel(word: str) -> bool:
    """Whether the word before this one elides."""
    return word.startswith(VOWELS)


def plural(word: str) -> str:
    """The regular plural of a noun or of a masculine adjective."""
    if word.endswith(("s", "x", "z")):
        return word
    if word.endswith("eau"):
        return word + "x"
    return word[:-2] + "aux" if word.endswith("al") else word + "s"


def feminine(word: str) -> str:
    """The regular feminine of an adjective."""
    return word if word.endswith("e") else word + "e"


@cache
def present(infinitive: str) -> tuple[str, ...]:
    """The six forms of the present: je, tu, il, nous, vous, ils."""
    if infinitive in _IRREGULAR:
        return tuple(_IRREGULAR[infinitive][:6])
    stem, group = infinitive[:-2], infinitive[-2:]
    if group == "ir":
        return tuple(stem + ending for ending in ("is", "is", "it", "issons", "issez", "issent"))
    if group == "re":
        return tuple(stem + ending for ending in ("s", "s", "", "ons", "ez", "ent"))
    strong = _strong_stem(infinitive)
    return (strong + "e", strong + "es", strong + "e", _before_o(stem) + "ons", stem + "ez", strong + "ent")


def _strong_stem(infinitive: str) -> str:
    """The stem of an -er verb where the ending is silent: achèt-, préfèr-, appell-, nettoi-."""
    stem = infinitive[:-2]
    if infinitive in DOUBLING:
        return stem + stem[-1]
    if infinitive.endswith("yer"):
        return stem[:-1] + "i"
    return re.sub(r"[eé]([bcdfglmnprstv])$", r"è\1", stem)


def _before_o(stem: str) -> str:
    """Keep the sound of c and g before -ons: commençons, mangeons."""
    if stem.endswith("c"):
        return stem[:-1] + "ç"
    return stem + "e" if stem.endswith("g") else stem


@cache
def participle(infinitive: str) -> str:
    """The past participle, masculine singular."""
    if infinitive in _IRREGULAR:
        return _IRREGULAR[infinitive][6]
    return infinitive[:-2] + {"er": "é", "ir": "i", "re": "u"}[infinitive[-2:]]


@cache
def imperfect(infinitive: str) -> tuple[str, ...]:
    """The six forms of the imperfect, for être and avoir alone."""
    return tuple(IMPERFECT[infinitive].split())


def agree(word: str, *, feminine: bool, plural: bool) -> str:
    """A participle with the endings of gender and number."""
    word += "e" if feminine else ""
    return word + "s" if plural and not word.endswith("s") else word


def join(text: str) -> str:
    """Elide and contract a string of words: `à le *hibou` becomes `au hibou`, `de le oiseau` becomes `de l'oiseau`."""
    words = text.split()
    for index in range(len(words) - 2, -1, -1):  # from the right: an elided article no longer contracts
        word, after = words[index], words[index + 1]
        if word in ELIDED and starts_with_vowel(after):
            words[index : index + 2] = [f"{word[:-1]}'{after}"]
        elif word in BEFORE_VOWEL and starts_with_vowel(after):
            words[index] = BEFORE_VOWEL[word]
        elif (word, after) in CONTRACTED:
            words[index : index + 2] = [CONTRACTED[word, after]]
    return PUNCTUATION.sub(r"\1", " ".join(words).replace(ASPIRATE, ""))
