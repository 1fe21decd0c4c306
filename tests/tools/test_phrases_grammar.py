import pytest

from tools.phrases import french, lexicon, words
from tools.phrases.grammar import PRONOUNS, Clause, noun_phrase
from tools.phrases.words import ADJECTIVES, NOUNS, TRANSITIVE


@pytest.mark.parametrize(
    ("verb", "expected"),
    [
        ("manger", "mange manges mange mangeons mangez mangent mangé"),
        ("commencer", "commence commences commence commençons commencez commencent commencé"),
        ("acheter", "achète achètes achète achetons achetez achètent acheté"),
        ("préférer", "préfère préfères préfère préférons préférez préfèrent préféré"),
        ("protéger", "protège protèges protège protégeons protégez protègent protégé"),
        ("appeler", "appelle appelles appelle appelons appelez appellent appelé"),
        ("essayer", "essaie essaies essaie essayons essayez essaient essayé"),
        ("choisir", "choisis choisis choisit choisissons choisissez choisissent choisi"),
        ("attendre", "attends attends attend attendons attendez attendent attendu"),
        ("être", "suis es est sommes êtes sont été"),
        ("faire", "fais fais fait faisons faites font fait"),
    ],
)
def test_the_present_and_the_participle(verb, expected):
    assert " ".join([*french.present(verb), french.participle(verb)]) == expected


@pytest.mark.parametrize(
    ("noun", "determiner", "plural", "adjective", "expected"),
    [
        ("man", "a", False, "old", "un vieil homme"),
        ("tree", "this", False, "beautiful", "ce bel arbre"),
        ("tree", "a", True, "beautiful", "de beaux arbres"),
        ("friend", "my", False, "new", "mon nouvel ami"),
        ("school", "my", False, None, "mon école"),
        ("hotel", "this", False, None, "cet hôtel"),
        ("owl", "the", False, None, "le hibou"),
        ("hero", "this", False, None, "ce héros"),
        ("bird", "the", False, None, "l'oiseau"),
        ("horse", "the", True, "white", "les chevaux blancs"),
        ("shoe", "her", True, "brown", "ses chaussures marron"),
        ("mouse", "the", True, "grey", "les souris grises"),
        ("apple", "many", True, None, "beaucoup de pommes"),
        ("water", "some", False, "cold", "de l'eau froide"),
        ("wine", "bare", False, "good", "du bon vin"),
        ("car", "the", True, "blue", "les voitures bleues"),
        ("hat", "the", True, "blue", "les chapeaux bleus"),
    ],
)
def test_noun_phrases(noun, determiner, plural, adjective, expected):
    chosen = ADJECTIVES[adjective] if adjective else None
    phrase = noun_phrase(NOUNS[noun], determiner, plural=plural, adjective=chosen)
    assert french.join(phrase.fr) == expected


def test_clauses():
    see = next(verb for verb in TRANSITIVE if verb.en == "see")
    went = next(verb for verb in words.MOTION if verb.en == "go")
    up = next(verb for verb in words.INTRANSITIVE if verb.en == "get up")
    clauses = {
        "i do not see her": Clause(subject=PRONOUNS["i"], verb=see, clitic=PRONOUNS["she"], negation="not"),
        "he saw her": Clause(subject=PRONOUNS["he"], verb=see, clitic=PRONOUNS["she"], tense="past"),
        "she went to the market": Clause(
            subject=PRONOUNS["she"], verb=went, object=noun_phrase(NOUNS["market"], "the"), tense="past"
        ),
        "they never get up": Clause(subject=PRONOUNS["they"], verb=up, negation="never"),
        "we are going to see him": Clause(subject=PRONOUNS["we"], verb=see, clitic=PRONOUNS["he"], tense="future"),
    }
    said = {clause.statement().en: french.join(clause.statement().fr) for clause in clauses.values()}
    assert list(said) == list(clauses)
    assert list(said.values()) == [
        "je ne la vois pas",
        "il l'a vue",
        "elle est allée au marché",
        "ils ne se lèvent jamais",
        "nous allons le voir",
    ]


def test_the_tables_name_only_known_nouns():
    for line in lexicon.ADJECTIVES.strip().splitlines():
        assert words.nouns(*line.split("|")[1].split())
