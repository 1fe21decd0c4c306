"""Models, one file each. `registry` lists them; `inputs` has what they share.

Importing this package imports no model: the names below are imported when they are first used. A new model need not be
named here; import it from its own module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway._lazy import on_demand
from headway.models.inputs import Model, ModelInputs, ModelOutputs, TextSizes
from headway.models.registry import MODELS, ModelConfig, build_model
from headway.models.stepper import EncoderInput, Source, Stepper

__all__ = [
    "MODELS",
    "EncoderInput",
    "Model",
    "ModelConfig",
    "ModelInputs",
    "ModelOutputs",
    "Source",
    "Stepper",
    "TextSizes",
    "build_model",
]

if TYPE_CHECKING:  # `X as X` exports a name to type checkers
    from headway.models.bert import Bert as Bert
    from headway.models.bert import BertConfig as BertConfig
    from headway.models.bert import BertPretraining as BertPretraining
    from headway.models.bert import BertPretrainingConfig as BertPretrainingConfig
    from headway.models.captioner_rnn import CaptionerRnn as CaptionerRnn
    from headway.models.captioner_rnn import CaptionerRnnConfig as CaptionerRnnConfig
    from headway.models.captioner_vit import CaptionerVit as CaptionerVit
    from headway.models.captioner_vit import CaptionerVitConfig as CaptionerVitConfig
    from headway.models.convnet import Convnet as Convnet
    from headway.models.convnet import ConvnetConfig as ConvnetConfig
    from headway.models.decision_transformer import Decision as Decision
    from headway.models.decision_transformer import DecisionConfig as DecisionConfig
    from headway.models.deck import Deck as Deck
    from headway.models.deck import DeckConfig as DeckConfig
    from headway.models.detr import Detr as Detr
    from headway.models.detr import DetrConfig as DetrConfig
    from headway.models.encoder_decoder import EncoderDecoder as EncoderDecoder
    from headway.models.encoder_decoder import EncoderDecoderConfig as EncoderDecoderConfig
    from headway.models.gpt import Gpt as Gpt
    from headway.models.gpt import GptConfig as GptConfig
    from headway.models.longformer import Longformer as Longformer
    from headway.models.longformer import LongformerConfig as LongformerConfig
    from headway.models.longformer import LongformerMasked as LongformerMasked
    from headway.models.longformer import LongformerMaskedConfig as LongformerMaskedConfig
    from headway.models.pose import Pose as Pose
    from headway.models.pose import PoseConfig as PoseConfig
    from headway.models.rnn_lm import RnnLm as RnnLm
    from headway.models.rnn_lm import RnnLmConfig as RnnLmConfig
    from headway.models.rnn_seq2seq import RnnSeq2Seq as RnnSeq2Seq
    from headway.models.rnn_seq2seq import RnnSeq2SeqConfig as RnnSeq2SeqConfig
    from headway.models.speech_ctc import SpeechCtc as SpeechCtc
    from headway.models.speech_ctc import SpeechCtcConfig as SpeechCtcConfig
    from headway.models.speech_transformer import SpeechTransformer as SpeechTransformer
    from headway.models.speech_transformer import SpeechTransformerConfig as SpeechTransformerConfig
    from headway.models.text_classifier import TextClassifier as TextClassifier
    from headway.models.text_classifier import TextClassifierConfig as TextClassifierConfig
    from headway.models.token_classifier import TokenClassifier as TokenClassifier
    from headway.models.token_classifier import TokenClassifierConfig as TokenClassifierConfig
    from headway.models.universal import Universal as Universal
    from headway.models.universal import UniversalBertConfig as UniversalBertConfig
    from headway.models.universal import UniversalBertPretrainingConfig as UniversalBertPretrainingConfig
    from headway.models.universal import UniversalConfig as UniversalConfig
    from headway.models.vector_transformer import VectorTransformer as VectorTransformer
    from headway.models.vector_transformer import VectorTransformerConfig as VectorTransformerConfig
    from headway.models.vit import Vit as Vit
    from headway.models.vit import VitConfig as VitConfig
    from headway.models.world import World as World
    from headway.models.world import WorldConfig as WorldConfig
else:
    # Each built-in config, and the model beside it of the same name without "Config"; a BERT in a loop is a Bert.
    _HOMES: dict[str, list[str]] = {}
    for _home in MODELS.homes.values():
        _module, _, _name = _home.partition(":")
        _offered = [_name] if _name.startswith("UniversalBert") else [_name, _name.removesuffix("Config")]
        _HOMES.setdefault(_module, []).extend(_offered)
    __getattr__ = on_demand(__name__, _HOMES)  # hidden from type checkers, for which it would define every name
    __all__ += [name for names in _HOMES.values() for name in names]
