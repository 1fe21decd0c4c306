"""The systems of the decks, one file each, and the table that finds a model for its config."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import nn

from headway._lazy import on_demand
from headway.config import Choice, _kind
from headway.errors import ConfigError
from headway.models.stepper import EncoderInput, Source, Stepper

if TYPE_CHECKING:
    from headway.models.bert import Bert, BertConfig, BertPretraining, BertPretrainingConfig
    from headway.models.captioner_rnn import CaptionerRnn, CaptionerRnnConfig
    from headway.models.captioner_vit import CaptionerVit, CaptionerVitConfig
    from headway.models.convnet import Convnet, ConvnetConfig
    from headway.models.decision_transformer import Decision, DecisionConfig
    from headway.models.deck import Deck, DeckConfig
    from headway.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
    from headway.models.gpt import Gpt, GptConfig
    from headway.models.longformer import Longformer, LongformerConfig, LongformerMasked, LongformerMaskedConfig
    from headway.models.pose import Pose, PoseConfig
    from headway.models.rnn_lm import RnnLm, RnnLmConfig
    from headway.models.rnn_seq2seq import RnnSeq2Seq, RnnSeq2SeqConfig
    from headway.models.text_classifier import TextClassifier, TextClassifierConfig
    from headway.models.universal import (
        Universal,
        UniversalBertConfig,
        UniversalBertPretrainingConfig,
        UniversalConfig,
    )
    from headway.models.vit import Vit, VitConfig
    from headway.models.world import World, WorldConfig

# A system's file is imported when one of its names is first asked for: most programs need one system.
_FILES = {
    "headway.models.bert": ("Bert", "BertConfig", "BertPretraining", "BertPretrainingConfig"),
    "headway.models.captioner_rnn": ("CaptionerRnn", "CaptionerRnnConfig"),
    "headway.models.captioner_vit": ("CaptionerVit", "CaptionerVitConfig"),
    "headway.models.convnet": ("Convnet", "ConvnetConfig"),
    "headway.models.decision_transformer": ("Decision", "DecisionConfig"),
    "headway.models.deck": ("Deck", "DeckConfig"),
    "headway.models.encoder_decoder": ("EncoderDecoder", "EncoderDecoderConfig"),
    "headway.models.gpt": ("Gpt", "GptConfig"),
    "headway.models.longformer": ("Longformer", "LongformerConfig", "LongformerMasked", "LongformerMaskedConfig"),
    "headway.models.pose": ("Pose", "PoseConfig"),
    "headway.models.rnn_lm": ("RnnLm", "RnnLmConfig"),
    "headway.models.rnn_seq2seq": ("RnnSeq2Seq", "RnnSeq2SeqConfig"),
    "headway.models.text_classifier": ("TextClassifier", "TextClassifierConfig"),
    "headway.models.universal": (
        "Universal",
        "UniversalBertConfig",
        "UniversalBertPretrainingConfig",
        "UniversalConfig",
    ),
    "headway.models.vit": ("Vit", "VitConfig"),
    "headway.models.world": ("World", "WorldConfig"),
}
# The model that each config describes.
MODELS = {
    "RnnLmConfig": "RnnLm",
    "RnnSeq2SeqConfig": "RnnSeq2Seq",
    "EncoderDecoderConfig": "EncoderDecoder",
    "GptConfig": "Gpt",
    "BertConfig": "Bert",
    "BertPretrainingConfig": "BertPretraining",
    "LongformerConfig": "Longformer",
    "LongformerMaskedConfig": "LongformerMasked",
    "DeckConfig": "Deck",
    "VitConfig": "Vit",
    "ConvnetConfig": "Convnet",
    "CaptionerRnnConfig": "CaptionerRnn",
    "CaptionerVitConfig": "CaptionerVit",
    "PoseConfig": "Pose",
    "TextClassifierConfig": "TextClassifier",
    "UniversalConfig": "Universal",
    "UniversalBertConfig": "Bert",
    "UniversalBertPretrainingConfig": "BertPretraining",
    "WorldConfig": "World",
    "DecisionConfig": "Decision",
}
_named = on_demand(__name__, _FILES)

if TYPE_CHECKING:
    ModelConfig: TypeAlias = (
        RnnLmConfig
        | RnnSeq2SeqConfig
        | EncoderDecoderConfig
        | GptConfig
        | BertConfig
        | BertPretrainingConfig
        | LongformerConfig
        | LongformerMaskedConfig
        | DeckConfig
        | VitConfig
        | ConvnetConfig
        | CaptionerRnnConfig
        | CaptionerVitConfig
        | PoseConfig
        | TextClassifierConfig
        | UniversalConfig
        | UniversalBertConfig
        | UniversalBertPretrainingConfig
        | WorldConfig
        | DecisionConfig
    )
else:
    __getattr__ = _named  # unseen by a type checker, to which it would promise every name
    ModelConfig = Choice(
        {_kind(name): f"{file}:{name}" for file, names in _FILES.items() for name in names if name in MODELS},
        group="headway.models",
    )


def build_model(config: ModelConfig, *, seed: int = 0, device: torch.device | str = "cpu") -> nn.Module:
    """The model a config describes, its parameters drawn from `seed` alone; device "meta" allocates nothing."""
    name = type(config).__name__
    made = MODELS.get(name)
    if made is None or type(config) is not _named(name):  # others have a BertConfig, too
        raise ConfigError(f"{config!r} is no model config; a preset is built by its name with headway.build")
    kind: type[nn.Module] = _named(made)
    if torch.device(device).type == "meta":
        with _nothing_drawn(), torch.device("meta"):
            return kind(config)
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):  # drawn there, so that every device starts alike
        torch.default_generator.manual_seed(seed)  # not torch.manual_seed, which would reach for every GPU
        model = kind(config)
    return model.to(device)


@contextlib.contextmanager
def _nothing_drawn() -> Iterator[None]:
    """Initialisers that do nothing: on "meta" there is nothing to fill, which torch takes two seconds to find out."""
    names = [name for name in dir(nn.init) if name.endswith("_") and not name.startswith("_")]
    kept = {name: getattr(nn.init, name) for name in names}
    for name in names:
        setattr(nn.init, name, lambda tensor, *rest, **more: tensor)
    try:
        yield
    finally:
        for name, function in kept.items():
            setattr(nn.init, name, function)


__all__ = [
    "MODELS",
    "Bert",
    "BertConfig",
    "BertPretraining",
    "BertPretrainingConfig",
    "CaptionerRnn",
    "CaptionerRnnConfig",
    "CaptionerVit",
    "CaptionerVitConfig",
    "Convnet",
    "ConvnetConfig",
    "Decision",
    "DecisionConfig",
    "Deck",
    "DeckConfig",
    "EncoderDecoder",
    "EncoderDecoderConfig",
    "EncoderInput",
    "Gpt",
    "GptConfig",
    "Longformer",
    "LongformerConfig",
    "LongformerMasked",
    "LongformerMaskedConfig",
    "ModelConfig",
    "Pose",
    "PoseConfig",
    "RnnLm",
    "RnnLmConfig",
    "RnnSeq2Seq",
    "RnnSeq2SeqConfig",
    "Source",
    "Stepper",
    "TextClassifier",
    "TextClassifierConfig",
    "Universal",
    "UniversalBertConfig",
    "UniversalBertPretrainingConfig",
    "UniversalConfig",
    "Vit",
    "VitConfig",
    "World",
    "WorldConfig",
    "build_model",
]
