"""What a model is called with and what it returns, as values that all models share.

Each model's `forward` keeps its own positional arguments; `Model.run` picks them out of `ModelInputs` by name. Code
that works with any model (import, export, verification) calls `run` and does not ask which model it has.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from torch import Tensor, nn

from headway.errors import ConfigError
from headway.models.stepper import EncoderInput


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInputs:
    """The inputs of one forward pass; a model reads the fields that its `reads` names. Padding is on the right."""

    tokens: Tensor | None = None  # (B, T); of a model with a source, the target prefix
    lengths: Tensor | None = None  # (B,): tokens that are not padding; None: all
    source: Tensor | None = None  # (B, S): tokens of an encoder-decoder's source
    source_lengths: Tensor | None = None  # (B,)
    segments: Tensor | None = None  # (B, T): which sentence a token belongs to, as in BERT
    documents: Tensor | None = None  # (B, T): which of several documents packed in a row a token belongs to
    global_tokens: Tensor | None = None  # (B, T), bool: tokens with global attention, as in Longformer
    images: Tensor | None = None  # (B, C, height, width)
    frames: Tensor | None = None  # (B, S, bands): the spectrograms of sounds
    frame_lengths: Tensor | None = None  # (B,): frames that are not padding; None: all
    vectors: Tensor | None = None  # (B, T, N): rows of N numbers, the elements of a set or a sequence
    states: Tensor | None = None  # (B, T, …): observations of an environment
    actions: Tensor | None = None  # (B, T)
    returns: Tensor | None = None  # (B, T): the return to go
    ages: Tensor | None = None  # (B, T): steps since an episode began

    def need(self, name: str) -> Tensor:
        """The tensor of a field. Raises ConfigError if it is None."""
        value: Tensor | None = getattr(self, name)
        if value is None:
            given = ", ".join(each.name for each in fields(self) if getattr(self, each.name) is not None)
            raise ConfigError(f"the model reads {name}, which is missing from its inputs ({given or 'none'})")
        return value

    @property
    def encoder_input(self) -> EncoderInput | None:
        """What `Stepper.start` takes: source tokens, images, frames, or None for a language model."""
        if self.images is not None:
            return EncoderInput.of_images(self.images)
        if self.frames is not None:
            return EncoderInput.of_frames(self.frames, self.frame_lengths)
        return None if self.source is None else EncoderInput(self.source, self.source_lengths)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOutputs:
    """The outputs of one forward pass; a model fills in those it has."""

    tokens: Tensor | None = None  # (B, T, V) logits
    alignment: Tensor | None = None  # (B, T, V + 1) logits of each moment of a sound, the last one of CTC's blank
    vectors: Tensor | None = None  # (B, T, D): of an encoder without a head
    pooled: Tensor | None = None  # (B, D): an encoder's vector of the whole input
    next_sentence: Tensor | None = None  # (B, 2) logits: whether the second sentence follows the first
    classes: Tensor | None = None  # (B, classes) logits of an image, a text or a set, or (B, 1) a number
    heatmaps: Tensor | None = None  # (B, K, rows, columns): one for each keypoint
    objects: Tensor | None = None  # (B, N, classes + 1) logits of each query, the last one of "no object"
    boxes: Tensor | None = None  # (B, N, 4): centre x, centre y, width, height, as shares of the image's sides
    actions: Tensor | None = None  # (B, T, A) logits
    features: Tensor | None = None  # (B, T, D): what a world model's heads read

    @property
    def present(self) -> dict[str, Tensor]:
        """The outputs that are not None, by name."""
        return {each.name: getattr(self, each.name) for each in fields(self) if getattr(self, each.name) is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSizes:
    """The sizes of the text a model reads or writes, and the config key that sets its vocabulary."""

    vocab: int
    source_vocab: int | None = None  # None: same vocabulary as the target, or no source
    context: int | None = None  # the longest text its positions are made for; None: any length
    segments: int = 1
    vocab_key: str = "vocab"  # for headway.config.override: {config.text.vocab_key: tokenizer.size}

    def under(self, key: str) -> TextSizes:
        """The same, where the config that has these sizes is the field `key` of another one."""
        return replace(self, vocab_key=f"{key}.{self.vocab_key}")


class Model(nn.Module):
    """The base of all models: a network that can be called with `ModelInputs`."""

    title: str = ""  # what people call it
    reads: frozenset[str] = frozenset()  # the fields of ModelInputs that `run` passes on

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        """Call `forward` with the inputs it takes. Raises ConfigError for a required input that is missing."""
        raise NotImplementedError(f"{type(self).__name__} does not implement run")
