"""What `headway verify` runs a model on, as a value: a task makes it, headway.verification checks the model with it.

The inputs are the user's lines or images, a few of the run's own data, or random ones up to the longest that fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from headway.data.augment import constants
from headway.data.config import DataConfig
from headway.data.image_decoding import Pixels
from headway.data.tokenizers import Tokenizer
from headway.errors import ConfigError, HeadwayError
from headway.models import Model, ModelInputs, ModelOutputs
from headway.models.kernels import attention_kernel
from headway.models.stepper import EncoderInput
from headway.nn.positions import InputPositions

LENGTHS = (1, 6, 11)  # of random inputs, beside one of as many as fit
MAX_GIVEN = 8  # lines or images of the user's
NOISE_IMAGES = 4
PASSAGE_CHARACTERS = 8  # of a text for each token of a passage, which is cut to what fits
Named = Literal["token", "class"] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSizes:
    """How many inputs there are, and how long they may be, so that what is done with them takes seconds."""

    own: int  # lines or images of the run's validation data
    tokens: int  # most of an input
    greedy: int = 0  # tokens that a generating model goes on for, each the likeliest
    drawn: int = 0  # tokens that a generating model goes on for after a made-up input, drawn at random
    passages: bool = False  # text in passages, not lines; made-up inputs begin with real text, not random tokens


VERIFICATION = InputSizes(own=2, tokens=256, greedy=16)  # a cache is filled token by token
CALIBRATION = InputSizes(own=16, tokens=48, drawn=24, passages=True)


@dataclass(frozen=True, slots=True)
class Example:
    """One input: a batch of one, nothing padded.

    The tokens after the first `given` are the model's own greedy choice; a model that does not generate has none.
    """

    inputs: ModelInputs
    given: int = 0
    places: int = (
        1  # outputs of an input without tokens: one of an image, one a moment of a sound or query of a detector
    )

    @property
    def tokens(self) -> Tensor:
        """(T,); zeros for the elements of a set, and one for each output of an image or a sound alone."""
        if self.inputs.tokens is not None:
            return self.inputs.tokens[0]
        vectors = self.inputs.vectors
        return torch.zeros(self.places if vectors is None else vectors.shape[1], dtype=torch.long)

    @property
    def image(self) -> Tensor | None:
        """(C, height, width), if it has one."""
        return None if self.inputs.images is None else self.inputs.images[0]

    def to(self, device: torch.device) -> Example:
        """The same on a device."""
        moved = {each.name: getattr(self.inputs, each.name) for each in fields(self.inputs)}
        moved = {name: None if part is None else part.to(device) for name, part in moved.items()}
        return replace(self, inputs=ModelInputs(**moved))


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationInputs:
    """The examples a model is verified on, and what `verify` must know of its outputs."""

    examples: Sequence[Example]
    generates: bool = False  # writes tokens, each of which sees only those before it, and has a KV cache
    pads: bool = True  # inputs differ in length
    names: Named = "token"  # what the largest logit of a place stands for; None: the outputs are vectors or maps
    vocabulary: int = 1  # an id below this is one in every vocabulary of the model
    spell: Callable[[int], str] = str  # the token or class of an id, for a reader
    notes: tuple[str, ...] = ()  # for the user


def compared(outputs: ModelOutputs, inputs: ModelInputs) -> Tensor:
    """The output that is compared, (B, T, V): logits of tokens or moments, else vectors, else of the whole input.

    The logits of a text's class stand at every token, those of a set at every element; those of an image, and heat
    maps, are one place. A detector's queries are a place each, with the logits of their classes and their box.
    """
    for per_token in (outputs.tokens, outputs.alignment, outputs.vectors):
        if per_token is not None:
            return per_token
    if outputs.classes is not None:
        logits, places = outputs.classes.unsqueeze(1), inputs.tokens if inputs.vectors is None else inputs.vectors
        return logits if places is None else logits.expand(-1, places.shape[1], -1)
    if outputs.objects is not None and outputs.boxes is not None:
        return torch.cat([outputs.objects, outputs.boxes], -1)
    if outputs.heatmaps is None:
        raise ConfigError(
            f"verify compares logits, vectors, boxes or heat maps; the model gives {', '.join(outputs.present)}"
        )
    return outputs.heatmaps.flatten(1).unsqueeze(1)


# --- text -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLayout:
    """How a task makes one model input of token ids."""

    max_length: int  # tokens of an input that the model was trained for
    tokenizer: Tokenizer
    arrange: Callable[[Sequence[int], Sequence[int] | None], Example]  # ids, and those of the source
    encode: Callable[[str], tuple[list[int], list[int] | None]]  # a line -> ids, and those of the source
    source_tokenizer: Tokenizer | None = None
    generates: bool = False

    @property
    def vocabulary(self) -> int:
        """An id below this is one in both vocabularies."""
        both = (self.tokenizer, self.source_tokenizer)
        return min(each.size for each in both if each is not None)

    @property
    def around(self) -> tuple[int, int]:
        """The number of special tokens around a text, and around a source."""
        empty = self.arrange([], []).inputs
        return empty.need("tokens").shape[1], 0 if empty.source is None else empty.source.shape[1]


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """How many tokens an input may have, and how many more are generated after it."""

    given: int
    greedy: int

    @classmethod
    def of(cls, layout: TextLayout, model: Model, sizes: InputSizes = VERIFICATION) -> TokenBudget:
        """The most that the task, the tables of learned positions and a few seconds allow."""
        tables = [
            part.context for part in model.modules() if isinstance(part, InputPositions) and part.table is not None
        ]
        longest = min(sizes.tokens, layout.max_length, *tables)
        greedy = min(sizes.greedy, longest // 2) if layout.generates else 0
        return cls(longest - greedy, greedy)


def text_inputs(
    model: Model,
    layout: TextLayout,
    given: Sequence[str],
    own: Callable[[], Iterable[str]] | None,
    spell: Callable[[int], str],
    *,
    names: Named = "token",
    sizes: InputSizes = VERIFICATION,
) -> VerificationInputs:
    """Inputs of a model of text: the given lines, else `own` (the first lines of the run's data) and made-up ones."""
    budget = TokenBudget.of(layout, model, sizes)
    notes: list[str] = []
    if given:
        examples = line_examples(layout, given[:MAX_GIVEN], budget)
    else:
        examples, notes = own_examples("lines", own, lambda lines: line_examples(layout, lines[: sizes.own], budget))
        if sizes.passages:
            examples = examples or passage_examples(model, layout, budget, sizes)
        else:
            examples += random_examples(layout, budget)
    if not sizes.passages and len({len(each.tokens) for each in examples}) < 2:  # a batch of one length has no padding
        examples += random_examples(layout, budget)[:2]
    return VerificationInputs(
        examples=continued(model, examples, budget),
        generates=layout.generates,
        names=names,
        vocabulary=layout.vocabulary,
        spell=spell,
        notes=tuple(notes),
    )


def own_examples(
    what: str, read: Callable[[], Iterable[str]] | None, make: Callable[[Sequence[str]], list[Example]]
) -> tuple[list[Example], list[str]]:
    """Examples of a run's own data, and notes for the user; none where it cannot be read any more."""
    if read is None:
        return [], []
    try:
        return make(list(read())), []
    except HeadwayError as error:
        return [], [missing_data(what, error)]


def missing_data(what: str, error: HeadwayError) -> str:
    """The note that a run's own data cannot be read."""
    return f"no {what} of the run's own data ({error}): made-up inputs only"


def random_examples(layout: TextLayout, budget: TokenBudget, seed: int = 0) -> list[Example]:
    """Random tokens in inputs of different lengths: one token, a few, as many as fit."""
    generator = torch.Generator().manual_seed(seed)
    lengths = sorted({min(length, budget.given) for length in (*LENGTHS, budget.given)})
    around, around_source = layout.around

    def draw(tokenizer: Tokenizer, count: int) -> list[int]:
        ids = _text_ids(tokenizer)
        return [ids[n] for n in torch.randint(len(ids), (max(count, 0),), generator=generator).tolist()]

    def drawn_source(count: int) -> list[int] | None:
        return None if layout.source_tokenizer is None else draw(layout.source_tokenizer, count)

    return [
        layout.arrange(draw(layout.tokenizer, length - around), drawn_source(other - around_source))
        for length, other in zip(lengths, reversed(lengths), strict=True)  # a short target of a long source, too
    ]


def passage_examples(model: Model, layout: TextLayout, budget: TokenBudget, sizes: InputSizes) -> list[Example]:
    """Passages of `headway.tasks.passages`, which a generating model continues by tokens drawn from its distribution.

    Whatever the vocabulary is of, so some of the input is what the model itself writes.
    """
    from headway.decoding.limits import SequenceLimits
    from headway.decoding.sampling import sample
    from headway.tasks.passages import PASSAGES

    drawn = min(sizes.drawn, budget.given // 2) if layout.generates else 0
    begun = line_examples(layout, PASSAGES, TokenBudget(max(budget.given - drawn, 1), 0))
    if not drawn:
        return begun
    prompts = [each.tokens[: max(budget.given - drawn, 1)] for each in begun]
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    limits = SequenceLimits(
        start=pad_sequence(prompts, batch_first=True), stop=-1, max_tokens=drawn, prompt_lengths=lengths
    )
    sources = [each.inputs.source[0] for each in begun if each.inputs.source is not None]
    source = None
    if sources:
        source = EncoderInput(pad_sequence(sources, batch_first=True), torch.tensor([len(each) for each in sources]))
    written = sample(model, limits, source=source)  # type: ignore[arg-type]
    return [
        replace(each, inputs=replace(each.inputs, tokens=torch.cat([prompt, torch.tensor(tokens)])[None]))
        for each, prompt, tokens in zip(begun, prompts, written, strict=True)
    ]


def _text_ids(tokenizer: Tokenizer) -> list[int]:
    """The ids that are not special: a model may count positions by its padding id, as Longformer does."""
    special = {*tokenizer.specials, tokenizer.marks.pad if tokenizer.marks else None}
    return [index for index in range(tokenizer.size) if index not in special] or list(range(tokenizer.size))


def line_examples(layout: TextLayout, lines: Sequence[str], budget: TokenBudget) -> list[Example]:
    """Lines as inputs, cut to what fits; a line without a token is left out."""
    around, around_source = layout.around
    examples = []
    for line in lines:
        ids, source = layout.encode(line)
        if ids or source:
            fitting = None if source is None else source[: budget.given - around_source]
            examples.append(layout.arrange(ids[: budget.given - around], fitting))
    return examples


@torch.no_grad()
def continued(model: Model, examples: Sequence[Example], budget: TokenBudget) -> list[Example]:
    """The examples with the tokens the model chooses greedily after them, each step on the whole text so far."""
    device = next(iter(model.parameters())).device
    result = []
    with attention_kernel(model, "reference"):
        for example in examples:
            example = example.to(device)
            for _ in range(budget.greedy):
                logits = model.run(example.inputs).tokens
                assert logits is not None
                longer = torch.cat([example.inputs.need("tokens"), logits[:, -1:].argmax(-1)], 1)
                example = replace(example, inputs=replace(example.inputs, tokens=longer))
            result.append(example)
    return result


def first_lines(
    data: DataConfig, sizes: InputSizes = VERIFICATION, *, beginning: Callable[[], str | None] = lambda: None
) -> Callable[[], list[str]] | None:
    """Reads the first lines or passages of a text's validation split; None for an imported run, which has no data.

    `beginning` gives the beginning of a split that is no text any more.
    """

    def own() -> list[str]:
        from headway.data.datasets import load_text

        chunk = beginning()
        if chunk is None:
            chunk = next(load_text(data.spec, errors=data.errors, column=data.text).chunks("val"), "")
        if not sizes.passages:
            return [line for line in chunk.splitlines() if line.strip()][: sizes.own]
        length = PASSAGE_CHARACTERS * sizes.tokens
        return [chunk[begin : begin + length] for begin in range(0, min(len(chunk), sizes.own * length), length)]

    return own if data.spec else None


def encoder_layout(tokenizer: Tokenizer, max_length: int, *, two: bool) -> TextLayout:
    """A text between special tokens; `two` has a second sentence from the middle on, so its embedding is compared."""

    def arrange(ids: Sequence[int], source: Sequence[int] | None) -> Example:
        before, after = tokenizer.around
        tokens = torch.tensor([[*before, *ids, *after]])
        count = tokens.shape[1]
        segments = (torch.arange(count) > count // 2).long()[None] if two else None
        return Example(ModelInputs(tokens=tokens, segments=segments))

    def encode(line: str) -> tuple[list[int], None]:
        return tokenizer.encode(line), None

    return TextLayout(max_length=max_length, tokenizer=tokenizer, arrange=arrange, encode=encode)


def token_names(tokenizer: Tokenizer) -> Callable[[int], str]:
    """The token of an id, quoted."""
    return lambda index: repr(tokenizer.token(index)) if index < tokenizer.size else f"id {index}"


def class_names(classes: Sequence[str]) -> Callable[[int], str]:
    """The class of an index, quoted."""
    return lambda index: repr(classes[index]) if index < len(classes) else f"class {index}"


# --- images ---------------------------------------------------------------------------------------------------------


def noise_images(channels: int, size: tuple[int, int], seed: int = 0) -> list[Tensor]:
    """Images (C, height, width) of seeded noise, as large as normalised ones."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(channels, *size, generator=generator) for _ in range(NOISE_IMAGES)]


def normalised_images(images: Sequence[Pixels], mean: Sequence[float], std: Sequence[float]) -> list[Tensor]:
    """Decoded images (3, H, W), normalised as a task says."""
    known = constants(tuple(mean), tuple(std), torch.device("cpu"))
    return [known.normalised(torch.tensor(image)[None])[0] for image in images[:MAX_GIVEN]]


def image_examples(images: Sequence[Tensor], device: torch.device, *, places: int = 1) -> list[Example]:
    """An example for each image (C, height, width), with this number of outputs."""
    return [Example(ModelInputs(images=image[None]), places=places).to(device) for image in images]


def caption_examples(images: Sequence[Tensor], captions: Sequence[Example]) -> list[Example]:
    """Every image and every caption in an example, the fewer of them repeated."""
    count = max(len(images), len(captions))
    pairs = ((captions[n % len(captions)], images[n % len(images)]) for n in range(count))
    return [replace(caption, inputs=replace(caption.inputs, images=image[None])) for caption, image in pairs]


# --- sounds ---------------------------------------------------------------------------------------------------------


def sound_examples(sounds: Sequence[Example], texts: Sequence[Example]) -> list[Example]:
    """Every sound and every text in an example, the fewer of them repeated."""
    pairs = ((texts[n % len(texts)], sounds[n % len(sounds)].inputs) for n in range(max(len(sounds), len(texts))))
    return [
        replace(text, inputs=replace(text.inputs, frames=sound.frames, frame_lengths=sound.frame_lengths))
        for text, sound in pairs
    ]
