"""The systems of the decks, one file each, and the table that finds a model for its config."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import nn

from headway.errors import ConfigError
from headway.models.bert import Bert, BertConfig, BertPretraining, BertPretrainingConfig
from headway.models.captioner_rnn import CaptionerRnn, CaptionerRnnConfig
from headway.models.captioner_vit import CaptionerVit, CaptionerVitConfig
from headway.models.convnet import Convnet, ConvnetConfig
from headway.models.deck import Deck, DeckConfig
from headway.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from headway.models.gpt import Gpt, GptConfig
from headway.models.longformer import Longformer, LongformerConfig, LongformerMasked, LongformerMaskedConfig
from headway.models.pose import Pose, PoseConfig
from headway.models.rnn_lm import RnnLm, RnnLmConfig
from headway.models.rnn_seq2seq import RnnSeq2Seq, RnnSeq2SeqConfig
from headway.models.stepper import Source, Stepper
from headway.models.universal import (
    Universal,
    UniversalBertConfig,
    UniversalBertPretrainingConfig,
    UniversalConfig,
)
from headway.models.vit import Vit, VitConfig

ModelConfig = (
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
    | UniversalConfig
    | UniversalBertConfig
    | UniversalBertPretrainingConfig
)

MODELS: dict[type, type[nn.Module]] = {
    RnnLmConfig: RnnLm,
    RnnSeq2SeqConfig: RnnSeq2Seq,
    EncoderDecoderConfig: EncoderDecoder,
    GptConfig: Gpt,
    BertConfig: Bert,
    BertPretrainingConfig: BertPretraining,
    LongformerConfig: Longformer,
    LongformerMaskedConfig: LongformerMasked,
    DeckConfig: Deck,
    VitConfig: Vit,
    ConvnetConfig: Convnet,
    CaptionerRnnConfig: CaptionerRnn,
    CaptionerVitConfig: CaptionerVit,
    PoseConfig: Pose,
    UniversalConfig: Universal,
    UniversalBertConfig: Bert,
    UniversalBertPretrainingConfig: BertPretraining,
}


def build_model(config: ModelConfig, *, seed: int = 0, device: torch.device | str = "cpu") -> nn.Module:
    """The model a config describes, its parameters drawn from `seed` alone; device "meta" allocates nothing."""
    if type(config) not in MODELS:
        raise ConfigError(f"{config!r} is no model config; a preset is built by its name with headway.build")
    if torch.device(device).type == "meta":
        with _nothing_drawn(), torch.device("meta"):
            return MODELS[type(config)](config)
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):  # drawn there, so that every device starts alike
        torch.default_generator.manual_seed(seed)  # not torch.manual_seed, which would reach for every GPU
        model = MODELS[type(config)](config)
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
    "Deck",
    "DeckConfig",
    "EncoderDecoder",
    "EncoderDecoderConfig",
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
    "Universal",
    "UniversalBertConfig",
    "UniversalBertPretrainingConfig",
    "UniversalConfig",
    "Vit",
    "VitConfig",
    "build_model",
]
