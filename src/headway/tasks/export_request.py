"""What `headway export` is to write, as a value: a task says it, headway.interop writes it.

Everything here is data of a finished run; no field names a task. A field that is None belongs to another kind of model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from headway.data.chat_template import ChatTemplate
from headway.data.tokenizers import Tokenizer
from headway.models import Model, ModelConfig

# The special tokens around a text, unless the tokenizer's own special tokens say otherwise.
Around = Literal["none", "stop", "start-stop"]

Head = Literal["span", "choice"]  # the start and the end of an answer, for each token; the score of a choice


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageScaling:
    """How images become numbers: resized and cropped, scaled to 0 … 1, less the mean, by the deviation of a channel."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def to_json(self, size: tuple[int, int]) -> dict[str, Any]:
        """A preprocessor_config.json; ViT's own processor would squeeze an image instead of cropping its centre."""
        return {
            "image_processor_type": "CLIPImageProcessor",
            "do_convert_rgb": True,
            "do_resize": True,
            "size": {"shortest_edge": max(size)},
            "resample": 3,  # bicubic
            "do_center_crop": True,
            "crop_size": {"height": size[0], "width": size[1]},
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": True,
            "image_mean": list(self.mean),
            "image_std": list(self.std),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamDefaults:
    """The default decoding settings of an encoder-decoder."""

    beam: int
    length_penalty: float | None = None  # the power of the length; None: another formula, which transformers lacks


@dataclass(frozen=True, slots=True, kw_only=True)
class SentencePooling:
    """How a sentence encoder makes one vector of those of its tokens."""

    mode: Literal["mean", "cls", "max"]
    normalise: bool  # to length 1
    max_length: int  # tokens, the special ones included; longer texts are cut


@dataclass(frozen=True, slots=True, kw_only=True)
class TextExport:
    """The tokenizers of a text model, and how it reads and writes text."""

    tokenizer: Tokenizer  # of what the model reads
    target: Tokenizer | None = None  # of what it writes, if that is another one
    around: Around = "none"  # "start-stop" reads a text as a whole: [CLS] and [SEP]
    beam: BeamDefaults | None = None  # of an encoder-decoder
    starts: bool = False  # generates from a beginning-of-text token, where the tokenizer has one
    sentence: SentencePooling | None = None  # of a sentence encoder: the folder is one of sentence-transformers too
    chat: ChatTemplate | None = None  # of a chat model
    pool: Callable[[Tensor, Tensor], Tensor] | None = None  # vectors (B, T, D), lengths (B,) -> sentence vectors (B, D)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """A model with its config and what a folder of Hugging Face's says beside the weights."""

    model: Model  # in float32
    config: ModelConfig
    text: TextExport | None = None
    images: ImageScaling | None = None
    classes: tuple[str, ...] = ()  # names of a classifier's classes
    pairs: bool = False  # a text classifier whose inputs are pairs of texts
    problem_type: str | None = None  # of a text classifier: what kind of labels it has, as transformers calls it
    head: Head | None = None  # of a classifier: what its outputs are, if they are not classes
