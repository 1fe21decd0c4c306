"""What a checkpoint is verified on: the user's lines or images, or made-up ones, up to the longest that fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from headway.data.augment import constants
from headway.data.image_decoding import Pixels
from headway.data.tokenizers import Tokenizer
from headway.nn.positions import InputPositions
from headway.verification.kinds import Example, Kind, Rows, TextKind
from headway.verification.paths import kernel

LONGEST = 256  # tokens of an input, to answer in seconds: a cache is filled token by token
GREEDY = 16  # tokens that a generating model goes on for
LENGTHS = (1, 6, 11)  # of made-up inputs, beside one of as many as fit
MOST = 8  # lines or images of the user's
IMAGES = 4  # of noise


@dataclass(frozen=True, slots=True)
class Room:
    """How many tokens an input may have, and how many more are generated after it."""

    given: int
    greedy: int

    @classmethod
    def of(cls, kind: TextKind, model: nn.Module) -> Room:
        """What the task was made for, what the tables of learned positions hold, and what takes seconds."""
        tables = [
            part.context for part in model.modules() if isinstance(part, InputPositions) and part.table is not None
        ]
        longest = min(LONGEST, kind.longest, *tables)
        greedy = min(GREEDY, longest // 2) if kind.generates else 0
        return cls(longest - greedy, greedy)


def made(kind: TextKind, room: Room, seed: int = 0) -> list[Example]:
    """Random tokens in inputs of unequal length: one token, a few, as many as fit."""
    generator = torch.Generator().manual_seed(seed)
    tokenizer, source_tokenizer = kind.vocabularies
    lengths = sorted({min(length, room.given) for length in (*LENGTHS, room.given)})
    around, around_source = _around(kind)

    def draw(vocabulary: Tokenizer, count: int) -> list[int]:
        words = _words(vocabulary)
        return [words[n] for n in torch.randint(len(words), (max(count, 0),), generator=generator).tolist()]

    return [
        kind.example(
            draw(tokenizer, length - around),
            None if source_tokenizer is None else draw(source_tokenizer, other - around_source),
        )
        for length, other in zip(lengths, reversed(lengths), strict=True)  # a short target of a long source, too
    ]


def _around(kind: TextKind) -> tuple[int, int]:
    """Tokens that stand around a text, and around a source."""
    empty = kind.example([], [])
    return len(empty.tokens), 0 if empty.source is None else len(empty.source)


def _words(vocabulary: Tokenizer) -> list[int]:
    """The ids that are text: a model may count positions by its padding, as Longformer does."""
    special = {*vocabulary.specials, vocabulary.marks.pad if vocabulary.marks else None}
    return [index for index in range(vocabulary.size) if index not in special] or list(range(vocabulary.size))


def written(kind: TextKind, texts: Sequence[str], room: Room) -> list[Example]:
    """Lines as inputs, cut to what fits; a line without a token is left out."""
    around, around_source = _around(kind)
    found = []
    for text in texts[:MOST]:
        ids, source = kind.read(text)
        if ids or source:
            fitting = None if source is None else source[: room.given - around_source]
            found.append(kind.example(ids[: room.given - around], fitting))
    return found


def noise(channels: int, size: tuple[int, int], seed: int = 0) -> list[Tensor]:
    """Images (C, height, width) of seeded noise, as large as normalised ones."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(channels, *size, generator=generator) for _ in range(IMAGES)]


def seen(images: Sequence[Pixels], mean: Sequence[float], std: Sequence[float]) -> list[Tensor]:
    """Decoded images (3, H, W), normalised as a task says."""
    known = constants(tuple(mean), tuple(std), torch.device("cpu"))
    return [known.normalised(torch.tensor(image)[None])[0] for image in images[:MOST]]


def described(images: Sequence[Tensor], captions: Sequence[Example]) -> list[Example]:
    """Every image and every caption in an input, the fewer of them again and again."""
    count = max(len(images), len(captions))
    return [replace(captions[n % len(captions)], image=images[n % len(images)]) for n in range(count)]


@torch.no_grad()
def continued(model: nn.Module, kind: Kind, examples: Sequence[Example], room: Room) -> list[Example]:
    """The examples with the tokens the model chooses greedily after them, each step on the whole text so far."""
    device = next(iter(model.parameters())).device
    found = []
    with kernel(model, "reference"):
        for example in examples:
            example = example.to(device)
            for _ in range(room.greedy):
                best = kind.forward(model, Rows.alone(example))[0, -1:].argmax(-1)
                example = replace(example, tokens=torch.cat([example.tokens, best]))
            found.append(example)
    return found
