"""The models by the name their config has in config.yaml, and how one is built.

To add a model, write its file (a config dataclass with `build` and `text`, and a `Model`) and one line here. Another
package registers the config as an entry point of the group `headway.models` instead.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch
from torch import nn

from headway.config import Choice, expect_within_limits, kind
from headway.errors import ConfigError, shown
from headway.limits import expect_within

if TYPE_CHECKING:
    from headway.models.inputs import Model, TextSizes

MODELS = Choice(
    {
        "bert": "headway.models.bert:BertConfig",
        "bert-pretraining": "headway.models.bert:BertPretrainingConfig",
        "captioner-rnn": "headway.models.captioner_rnn:CaptionerRnnConfig",
        "captioner-vit": "headway.models.captioner_vit:CaptionerVitConfig",
        "convnet": "headway.models.convnet:ConvnetConfig",
        "decision": "headway.models.decision_transformer:DecisionConfig",
        "deck": "headway.models.deck:DeckConfig",
        "detr": "headway.models.detr:DetrConfig",
        "encoder-decoder": "headway.models.encoder_decoder:EncoderDecoderConfig",
        "gpt": "headway.models.gpt:GptConfig",
        "longformer": "headway.models.longformer:LongformerConfig",
        "longformer-masked": "headway.models.longformer:LongformerMaskedConfig",
        "pose": "headway.models.pose:PoseConfig",
        "rnn-lm": "headway.models.rnn_lm:RnnLmConfig",
        "rnn-seq2seq": "headway.models.rnn_seq2seq:RnnSeq2SeqConfig",
        "speech-ctc": "headway.models.speech_ctc:SpeechCtcConfig",
        "speech-transformer": "headway.models.speech_transformer:SpeechTransformerConfig",
        "text-classifier": "headway.models.text_classifier:TextClassifierConfig",
        "token-classifier": "headway.models.token_classifier:TokenClassifierConfig",
        "universal-bert": "headway.models.universal:UniversalBertConfig",
        "universal-bert-pretraining": "headway.models.universal:UniversalBertPretrainingConfig",
        "universal": "headway.models.universal:UniversalConfig",
        "vector-transformer": "headway.models.vector_transformer:VectorTransformerConfig",
        "vit": "headway.models.vit:VitConfig",
        "world": "headway.models.world:WorldConfig",
    },
    group="headway.models",
)

if TYPE_CHECKING:

    class ModelConfig(Protocol):
        """The settings of a model: a frozen dataclass that builds it. When a config is read, the registry itself."""

        __dataclass_fields__: ClassVar[dict[str, Any]]

        def build(self) -> Model:
            """The model of these settings, its parameters drawn from torch's generator."""
            ...

        @property
        def text(self) -> TextSizes | None:
            """The sizes of the text it reads or writes; None for a model without a vocabulary."""
            ...

else:
    ModelConfig = MODELS


def smaller_model(config: ModelConfig) -> ModelConfig | None:
    """The next smaller model, by the config's method `smaller`; None for the smallest, or without the method."""
    smaller: Callable[[], ModelConfig | None] | None = getattr(config, "smaller", None)
    return None if smaller is None else smaller()


def build_model(config: ModelConfig, *, seed: int = 0, device: torch.device | str = "cpu") -> Model:
    """The model of a config, its parameters drawn from `seed` alone; device "meta" allocates nothing.

    Raises ConfigError for what is not the config of a registered model, and before anything is allocated for one that
    is larger than the limits (`headway.limits`).
    """
    if MODELS.get(kind(type(config))) is not type(config):  # another package may have a BertConfig, too
        raise ConfigError(
            f"{shown(config)} is not a registered model config; headway.build builds a preset by its name"
        )
    expect_within_limits(config)
    with _without_initialisers(), torch.device("meta"):
        sketch = config.build()
    count = sum(tensor.numel() for tensor in chain(sketch.parameters(), sketch.buffers()))
    expect_within("parameters", count, f"{kind(type(config))} of these sizes")
    if torch.device(device).type == "meta":
        return sketch
    needed, there = 4 * count, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        sizes = f"{count:,} parameters take {needed / 1e9:,.0f} GB, this machine has {there / 1e9:,.0f} GB"
        raise ConfigError(f"{kind(type(config))} of these sizes: {sizes}")
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):  # drawn there, so that every device starts alike
        torch.default_generator.manual_seed(seed)  # not torch.manual_seed, which would seed every GPU
        model = config.build()
    return model.to(device)


def sketch_model(config: ModelConfig) -> Model:
    """The model of a config with parameters that are not drawn, for a FakeTensorMode: they have shapes and no values.

    Raises ConfigError for sizes beyond the limits, but for the number of parameters.
    """
    expect_within_limits(config)
    with _without_initialisers(), torch.device("cpu"):
        return config.build()


@contextlib.contextmanager
def _without_initialisers() -> Iterator[None]:
    """Make the functions of torch.nn.init do nothing: meta tensors have no values, but checking that takes seconds."""
    names = [name for name in dir(nn.init) if name.endswith("_") and not name.startswith("_")]
    originals = {name: getattr(nn.init, name) for name in names}
    for name in names:
        setattr(nn.init, name, lambda tensor, *rest, **more: tensor)
    try:
        yield
    finally:
        for name, function in originals.items():
            setattr(nn.init, name, function)
