"""From words to tokens: the slide's listing as printed and corrected, then words, merges of pairs, and bytes.

Byte-pair encoding begins with characters and joins the most frequent pair again and again (Sennrich et al. 2016,
section 3.2, whose example is run by hand here); over bytes it can spell any text (Radford et al. 2019, section 2.2).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headway.config import positive
from headway.data.tokenizers import Tokenizer
from headway.data.vocabularies import ByteBpe, Word
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, equals, holds
from headway.plots import lab_figures as draw

SENTENCES = ("John likes movies", "Mary likes movies", "I like dogs")
PRINTED_TYPES = ("John", "likes", "movies", "Mary", "I", "dogs")  # the slide's unique(), in which "like" is missing
PRINTED_LINE = 'unique_words = set(sentence.split(" ")) for sentence in xs)'
CORRECTED_LINE = 'unique_words = sorted({word for sentence in sentences for word in sentence.split(" ")})'
EXAMPLE = {"low": 5, "lower": 2, "newest": 6, "widest": 3}  # of Sennrich et al., figure 1
EXAMPLE_MERGES = (("e", "s"), ("es", "t"), ("est", "</w>"))
END = "</w>"
QUICK_STRINGS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensParameters:
    """How far is merged, how much is tried."""

    merges: int = 10  # pairs that are joined in the example
    strings: int = 1000  # random texts that are encoded and decoded

    def __post_init__(self) -> None:
        positive("--merges", self.merges, least=3)
        positive("--strings", self.strings)


def types(sentences: Sequence[str]) -> list[str]:
    """The different words, sorted: a set alone has another order in every process."""
    return sorted({word for sentence in sentences for word in sentence.split(" ")})


def join(symbols: Sequence[str], pair: tuple[str, str]) -> tuple[str, ...]:
    """A word with every occurrence of a pair joined, from left to right."""
    joined: list[str] = []
    for symbol in symbols:
        if joined and (joined[-1], symbol) == pair and len(joined[-1] + symbol) == len("".join(pair)):
            joined[-1] += symbol
        else:
            joined.append(symbol)
    return tuple(joined)


def merges(counts: Mapping[str, int], times: int) -> tuple[list[tuple[str, str]], dict[str, tuple[str, ...]]]:
    """The pairs that are joined, most frequent first, of equals the one that occurs first; and the words then."""
    words = {word: (*word, END) for word in counts}
    found: list[tuple[str, str]] = []
    for _ in range(times):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in counts.items():
            for pair in pairwise(words[word]):
                pairs[pair] += count
        if not pairs:
            break
        best = max(pairs, key=lambda pair: pairs[pair])
        found.append(best)
        words = {word: join(symbols, best) for word, symbols in words.items()}
    return found, words


def round_trip(tokenizer: Tokenizer, text: str) -> bool:
    """Whether a text comes back as it was."""
    return tokenizer.decode(tokenizer.encode(text)) == text


def random_text(rng: random.Random) -> str:
    """Up to 40 characters of any plane of Unicode, without surrogates and control characters."""
    planes = ((0x20, 0x7E), (0xA1, 0x24F), (0x370, 0x3FF), (0x4E00, 0x9FFF), (0x1F300, 0x1F64F))
    return "".join(chr(rng.randint(*rng.choice(planes))) for _ in range(rng.randint(1, 40)))


def printed_error() -> SyntaxError | None:
    """What Python says of the slide's first line as it is printed."""
    try:
        compile(PRINTED_LINE, "slide", "exec")
    except SyntaxError as error:
        return error
    return None


def run(parameters: TokensParameters, seed: int, quick: bool) -> LabOutcome:
    """The listing, the types, the merges, and the round trip of any text."""
    rng = random.Random(seed)
    found_types = types(SENTENCES)
    said = " ".join(PRINTED_TYPES[index - 1] for index in (4, 2, 1))
    error = printed_error()
    found, words = merges(EXAMPLE, parameters.merges)
    corpus = [" ".join([word] * count) for word, count in EXAMPLE.items()]
    byte_level = Tokenizer.train(ByteBpe(vocab=300, fit=True), corpus)
    word_level = Tokenizer.train(Word(), corpus)
    texts = [random_text(rng) for _ in range(min(QUICK_STRINGS, parameters.strings) if quick else parameters.strings)]
    kept = sum(round_trip(byte_level, text) for text in texts) / len(texts)
    kept_words = sum(round_trip(word_level, text) for text in texts) / len(texts)
    new = "lowest"
    checks = [
        holds("the listing as printed is a SyntaxError (unmatched parenthesis)",
              error is not None and "unmatched" in str(error.msg)),
        equals("types in the three sentences; the slide has 6, without “like”", len(found_types), 7),
        equals("words of the slide's unique() that are missing", len({*found_types} - {*PRINTED_TYPES}), 1),
        holds("[θ4 θ2 θ1] = Mary likes John", said == "Mary likes John"),
        equals("first merges that are those of Sennrich et al.: e s, es t, est </w>",
               sum(a == b for a, b in zip(found, EXAMPLE_MERGES, strict=False)), 3),
        equals("share of random Unicode texts that come back from bytes as they were", kept, 1.0),
        at_least("texts that do not come back from a vocabulary of words, share", 1 - kept_words, 0.9),
        equals("unknown tokens of the new word “lowest” in bytes",
               sum(token == byte_level.unknown for token in byte_level.encode(new)), 0),
        equals("unknown tokens of “lowest” in words",
               sum(token == word_level.unknown for token in word_level.encode(new)), 1),
    ]  # fmt: skip
    told = "none" if error is None else f"SyntaxError: {error.msg}"
    tables = [
        LabTable(
            title="the listing, first line",
            header=("form", "code", "what Python says"),
            rows=[("as printed", PRINTED_LINE, told), ("corrected", CORRECTED_LINE, ", ".join(found_types))],
            note="Further down it also reads xs before it is defined, goes through characters where it means words,"
            " swaps"
            " embeddings and tokens, and appends to the wrong list.",
        ),
        LabTable(
            title="merges of “low” ×5, “lower” ×2, “newest” ×6, “widest” ×3",
            header=("merge", "pair", "becomes"),
            rows=[(n, " ".join(pair), "".join(pair)) for n, pair in enumerate(found, 1)],
        ),
        LabTable(
            title="the words after these merges",
            header=("word", "tokens"),
            rows=[(word, " ".join(symbols)) for word, symbols in words.items()],
        ),
    ]
    notes = [
        "Tokens are symbols; the parameters are the rows of an embedding. A vocabulary of words cannot say a new word,"
        " bytes"
        " can spell any text, and merges make frequent strings short."
    ]
    return LabOutcome(tables=tables, figures=[_figure(words, found)], checks=checks, notes=notes)


def _figure(words: Mapping[str, tuple[str, ...]], found: Sequence[tuple[str, str]]) -> LabFigure:
    """Tokens in each word by the number of merges, and the words cut up as at the end."""
    figure, (curve, cut) = draw.panels(2, height=3.3)
    steps = range(len(found) + 1)
    for number, word in enumerate(words):
        lengths = [len(merges(EXAMPLE, step)[1][word]) for step in steps]
        draw.line(curve, steps, lengths, f"{word} ×{EXAMPLE[word]}", number)
    draw.style(curve, "Words get shorter", "merges", "tokens of the word", legend="upper right")
    for row, symbols in enumerate(words.values()):
        left = 0.0
        for number, symbol in enumerate(symbols):
            width = 0.35 * len(symbol.replace(END, "·")) + 0.25
            cut.barh(row, width, left=left, height=0.55, color=draw.COLOURS[number % 2], alpha=0.25, edgecolor="white")
            cut.text(left + width / 2, row, symbol.replace(END, "·"), ha="center", va="center", fontsize=10)
            left += width + 0.06
    cut.set_yticks(range(len(words)), list(words))
    cut.set_xticks([])
    cut.invert_yaxis()
    draw.style(cut, f"After {len(found)} merges", "tokens (· is the end of the word)", "")
    cut.grid(visible=False)
    told = "; ".join(f"{word} is {' '.join(symbols)}" for word, symbols in words.items())
    alt = f"Left: how many tokens each of four words has after each merge. Right: the words after {len(found)}: {told}."
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="tokens",
    chapter=3,
    title="from words to tokens",
    claim="The slide's listing does not run as printed and its vocabulary lacks a word; joining frequent pairs gives"
    " tokens"
    " between characters and words, and over bytes any text comes back as it was.",
    slides=(Slide("001", "Text 55–57", 1719),),
    parameters=TokensParameters,
    run=run,
    mechanism=("types", "join", "merges", "round_trip"),
    exercise=Exercise(
        function="merges",
        task="Count the pairs of neighbouring symbols, each word as often as it occurs, join the most frequent"
        " pair everywhere, and begin again. A word starts as its letters and END; `join` joins a pair in one"
        " word.",
        hints=(
            "Keep the words as tuples of symbols: words = {word: (*word, END) for word in counts}.",
            "A pair in a word that occurs five times counts five times: a Counter, and pairwise(symbols).",
            "max(pairs, key=…) takes the first of equal ones, as asked for; stop where no pair is left.",
        ),
        bugs=(
            PlantedBug(
                right="pairs[pair] += count",
                wrong="pairs[pair] += 1",
                fails="first merges",
                hint="How often does “newest” occur, and how often is it counted?",
            ),
            PlantedBug(
                right="(*word, END)",
                wrong="(*word,)",
                fails="first merges",
                hint="What does a word start as?",
            ),
        ),
    ),
)
