"""Every registered model at a size for tests, in the variants that change its arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from headway.models import (
    Bert,
    BertConfig,
    BertPretrainingConfig,
    CaptionerRnnConfig,
    CaptionerVitConfig,
    ConvnetConfig,
    DeckConfig,
    EncoderDecoderConfig,
    GptConfig,
    Longformer,
    LongformerConfig,
    LongformerMasked,
    LongformerMaskedConfig,
    ModelConfig,
    RnnLmConfig,
    RnnSeq2SeqConfig,
    SpeechCtcConfig,
    SpeechTransformerConfig,
    TokenClassifierConfig,
    UniversalBertConfig,
    UniversalBertPretrainingConfig,
    UniversalConfig,
    VitConfig,
    build_model,
)
from headway.models.recurrent_encoder import RecurrentEncoderConfig
from headway.models.universal import Offsets
from headway.nn.adaptive_computation import Adaptive, Fixed
from headway.nn.dropout import StochasticDepth
from headway.nn.longformer_attention import Windows
from headway.nn.norms import LayerNorm, RMSNorm
from headway.nn.patches import Hybrid, Shifted
from headway.nn.positions import (
    T5,
    AlibiBias,
    Fraction,
    Learned,
    RawIndex,
    Rotary,
    Saturating,
    Shaw,
    Sine,
    SineCosine,
    Sinusoidal,
    SinusoidalHalves,
    SinusoidalTensor2Tensor,
)
from headway.nn.recurrent import RecurrentConfig
from headway.nn.rnn_attention import AlignmentConfig

VOCAB = 23
GPT = GptConfig(vocab=VOCAB, context=32, width=16, layers=2, heads=4)
TRANSLATOR = EncoderDecoderConfig(
    vocab=VOCAB, context=32, width=16, inner=32, heads=4, encoder_layers=2, decoder_layers=2, dropout=0.1
)
BERT = BertConfig(vocab=VOCAB, context=32, width=16, layers=2, heads=4, inner=32)
GRU = RecurrentConfig(cell="gru", hidden=12)
SEQ2SEQ = RnnSeq2SeqConfig(vocab=VOCAB, width=8, encoder=GRU, decoder=GRU)
ATTENTIVE = replace(SEQ2SEQ, attention=AlignmentConfig(width=6))
UNIVERSAL = UniversalConfig(
    vocab=VOCAB, width=16, inner=32, heads=4, halting=Adaptive(steps=5, bias=-3.0), offsets=Offsets(most=9)
)
UNIVERSAL_BERT = UniversalBertConfig(vocab=VOCAB, width=16, inner=32, heads=4, halting=Adaptive(steps=4, bias=-3.0))

CAUSAL_POSITIONS = {
    "none": None,
    "raw-index": RawIndex(),
    "saturating": Saturating(),
    "sine": Sine(),
    "sine-cosine": SineCosine(),
    "sinusoidal": Sinusoidal(),
    "sinusoidal-halves": SinusoidalHalves(),
    "sinusoidal-tensor2tensor": SinusoidalTensor2Tensor(),
    "sinusoidal-concat": Sinusoidal(concat=4),
    "learned": Learned(),
    "learned-concat": Learned(concat=3),
    "rotary": Rotary(),
    "rotary-halves": Rotary(layout="halves"),
    "alibi": AlibiBias(),
    "t5": T5(buckets=8, distance=10),
    "shaw": Shaw(reach=3),
    "shaw-keys": Shaw(reach=3, values=False),
}
LONGFORMER = LongformerConfig(
    vocab=VOCAB, windows=Windows(radius=(1, 2)), context=32, width=16, layers=2, heads=4, inner=32
)

LANGUAGE: dict[str, ModelConfig] = {
    **{f"gpt-{name}": replace(GPT, position=position) for name, position in CAUSAL_POSITIONS.items()},
    "gpt-nano": replace(GPT, norm=LayerNorm(bias=False), bias=False, activation="gelu"),
    "gpt-llama": replace(
        GPT,
        kv_heads=2,
        inner=24,
        position=Rotary(layout="halves"),
        norm=RMSNorm(),
        activation="swiglu",
        bias=False,
        tied=False,
    ),
    "gpt-windows": replace(GPT, position=Rotary(), windows=Windows(radius=(1, 3), dilation=(1, 2), dilated_heads=1)),
    "gpt-scaled": replace(GPT, position=Sinusoidal(), scaled=True),
    "gpt-reference-kernel": replace(GPT, kernel="reference"),
    "rnn-lm-gru-one-hot": RnnLmConfig(vocab=VOCAB, recurrent=GRU, input="one-hot"),
    "rnn-lm-lstm-tied": RnnLmConfig(
        vocab=VOCAB, width=12, recurrent=RecurrentConfig(cell="lstm", hidden=12, layers=2), tied=True, dropout=0.1
    ),
    "rnn-lm-rnn": RnnLmConfig(vocab=VOCAB, width=8, recurrent=RecurrentConfig(cell="rnn", hidden=12, layers=2)),
}

TRANSLATION: dict[str, ModelConfig] = {
    **{f"transformer-{name}": replace(TRANSLATOR, position=position) for name, position in CAUSAL_POSITIONS.items()},
    "transformer-pre-norm": replace(TRANSLATOR, place="pre", activation="gelu"),
    "transformer-untied": replace(TRANSLATOR, tied=False, source_vocab=VOCAB + 4),
    "universal": UNIVERSAL,
    "universal-transformed": replace(UNIVERSAL, halting=Adaptive(steps=5, bias=-3.0, halted="transformed")),
    "universal-accumulated": replace(UNIVERSAL, halting=Adaptive(steps=5, bias=-3.0, mixture="accumulated")),
    "universal-neighbours": replace(UNIVERSAL, neighbours=1),
    "universal-window": replace(UNIVERSAL, window=2),
    "universal-fixed": replace(UNIVERSAL, halting=Fixed(steps=3), source_vocab=VOCAB + 4, tied=False),
    "seq2seq-gru": SEQ2SEQ,
    "seq2seq-reversed": replace(SEQ2SEQ, reverse_source=True),
    "seq2seq-lstm-bridged": replace(
        SEQ2SEQ,
        encoder=RecurrentConfig(cell="lstm", hidden=10, layers=2, bidirectional=True),
        decoder=RecurrentConfig(cell="lstm", hidden=12, layers=3),
        attention=AlignmentConfig(kind="additive", width=6),
    ),
    **{
        f"seq2seq-{kind}": replace(ATTENTIVE, attention=AlignmentConfig(kind=kind, width=6))
        for kind in ("identity", "multiplicative", "bilinear", "learned", "additive")
    },
    "seq2seq-context-input": replace(ATTENTIVE, context=("input",)),
    "seq2seq-context-input-readout": replace(ATTENTIVE, context=("input", "readout")),
    "seq2seq-context-next-layer": replace(ATTENTIVE, context=("next_layer",), decoder=replace(GRU, layers=2)),
    "seq2seq-context-all": replace(
        ATTENTIVE, context=("readout", "next_layer", "input"), decoder=replace(GRU, layers=3)
    ),
}

ENCODER: dict[str, ModelConfig] = {
    "bert": BERT,
    "bert-fraction": replace(BERT, position=Fraction()),
    "bert-fraction-concat": replace(BERT, position=Fraction(concat=1)),
    "bert-alibi": replace(BERT, position=AlibiBias()),
    "bert-t5": replace(BERT, position=T5(buckets=8, distance=10)),
    "bert-shaw": replace(BERT, position=Shaw(reach=3)),
    "roformer": replace(BERT, position=Rotary(), pooler=False),
    "bert-pretraining": BertPretrainingConfig(bert=BERT),
    "longformer": LONGFORMER,
    "longformer-dilated": replace(LONGFORMER, windows=Windows(radius=2, dilation=(1, 2), dilated_heads=2)),
    "longformer-masked": LongformerMaskedConfig(longformer=replace(LONGFORMER, pooler=False, kernel="banded")),
    "bert-universal": UNIVERSAL_BERT,
    "bert-universal-fixed": replace(UNIVERSAL_BERT, halting=Fixed(steps=2)),
    "bert-universal-pretraining": UniversalBertPretrainingConfig(bert=UNIVERSAL_BERT),
    "token-classifier": TokenClassifierConfig(encoder=replace(BERT, pooler=False), classes=VOCAB),
    "token-classifier-longformer": TokenClassifierConfig(
        encoder=replace(LONGFORMER, pooler=False), classes=VOCAB, global_tokens=1
    ),
    "token-classifier-recurrent": TokenClassifierConfig(
        encoder=RecurrentEncoderConfig(
            vocab=VOCAB, width=8, recurrent=RecurrentConfig(cell="lstm", hidden=8, layers=2, bidirectional=True)
        ),
        classes=VOCAB,
    ),
    "deck": DeckConfig(vocab=VOCAB, context=32, width=16),
}

VIT = VitConfig(classes=5, image=(8, 12), patch=4, width=16, layers=2, heads=4, inner=24)
VISION: dict[str, ModelConfig] = {
    "vit": VIT,
    "vit-mean": replace(VIT, pool="mean"),
    "vit-shifted": replace(VIT, patches=Shifted()),
    "vit-hybrid": replace(VIT, patches=Hybrid(widths=(6, 8))),
    "vit-local": replace(VIT, local=True),
    "vit-small": replace(VIT, patches=Shifted(), local=True, qkv_bias=False, start="small-data"),
    "vit-noisy": replace(VIT, dropout=0.1, stochastic_depth=StochasticDepth(rate=0.1)),
    "vit-rms": replace(VIT, norm=RMSNorm(), activation="swiglu"),
    "convnet": ConvnetConfig(classes=5, widths=(6, 8), blocks=2),
}

CAPTIONER_RNN = CaptionerRnnConfig(vocab=VOCAB, image=8, widths=(6, 8), width=8, decoder=GRU)
CAPTIONER_VIT = CaptionerVitConfig(
    vocab=VOCAB, context=32, image=8, patch=4, width=16, encoder_layers=2, decoder_layers=2, heads=4, inner=24
)
CAPTIONING: dict[str, ModelConfig] = {
    "captioner-rnn-state": CAPTIONER_RNN,
    "captioner-rnn-additive": replace(CAPTIONER_RNN, attention=AlignmentConfig(kind="additive", width=6)),
    "captioner-rnn-lstm": replace(
        CAPTIONER_RNN,
        decoder=RecurrentConfig(cell="lstm", hidden=12, layers=2),
        attention=AlignmentConfig(width=6),
        dropout=0.1,
    ),
    "captioner-vit": CAPTIONER_VIT,
    "captioner-vit-shifted": replace(CAPTIONER_VIT, patches=Shifted(), position=Learned()),
    "captioner-vit-hybrid": replace(CAPTIONER_VIT, patches=Hybrid(widths=(6, 8))),
    "captioner-vit-rotary": replace(CAPTIONER_VIT, position=Rotary(), norm=RMSNorm(), activation="swiglu"),
}

SPEECH_CTC = SpeechCtcConfig(vocab=VOCAB, bands=6, width=16, encoder_layers=2, heads=4, inner=24)
SPEECH_TRANSFORMER = SpeechTransformerConfig(
    vocab=VOCAB, bands=6, width=16, encoder_layers=2, decoder_layers=2, heads=4, inner=24
)
SPEECH: dict[str, ModelConfig] = {
    "speech-ctc": SPEECH_CTC,
    "speech-ctc-strides": replace(SPEECH_CTC, strides=(2, 3, 1), position=Rotary()),
    "speech-transformer": SPEECH_TRANSFORMER,
    "speech-transformer-learned": replace(SPEECH_TRANSFORMER, position=Learned(), context=40, strides=(3,)),
    "speech-transformer-rotary": replace(SPEECH_TRANSFORMER, position=Rotary(), norm=RMSNorm(), activation="swiglu"),
}

ALL = {**LANGUAGE, **TRANSLATION, **ENCODER}
GENERATING = {**LANGUAGE, **TRANSLATION}


@dataclass(frozen=True)
class Text:
    """A batch: what the model writes or reads, and for a translator the source it reads first."""

    tokens: Tensor
    lengths: Tensor | None = None
    source: Tensor | None = None
    source_lengths: Tensor | None = None

    def rows(self, rows: Tensor) -> Text:
        return Text(*(None if part is None else part[rows] for part in self.parts))  # type: ignore[arg-type]

    @property
    def parts(self) -> tuple[Tensor | None, ...]:
        return self.tokens, self.lengths, self.source, self.source_lengths


def text(name: str, rows: int = 3, length: int = 9, *, padded: bool = False, seed: int = 0) -> Text:
    generator = torch.Generator().manual_seed(seed)

    def draw(high: int, size: tuple[int, ...], low: int = 0) -> Tensor:
        return torch.randint(low, high, size, generator=generator)

    tokens = draw(VOCAB, (rows, length))
    lengths = draw(length, (rows,), 1) if padded else None
    if name not in TRANSLATION:
        return Text(tokens, lengths)
    return Text(tokens, lengths, draw(VOCAB, (rows, 7)), draw(7, (rows,), 1) if padded else None)


def sounds(rows: int = 3, frames: int = 13, *, seed: int = 0) -> Tensor:
    """Frames (rows, frames, 6) for the models of SPEECH."""
    return torch.randn(rows, frames, 6, generator=torch.Generator().manual_seed(seed))


def outputs(model: nn.Module, batch: Text) -> tuple[Tensor, ...]:
    """What the model says of a batch: per-token outputs first, then anything it says of the whole sequence."""
    if batch.source is not None:
        return (model(batch.source, batch.tokens, batch.source_lengths, batch.lengths),)
    if isinstance(model, Longformer | LongformerMasked):
        first = torch.arange(batch.tokens.shape[1]) < 1
        out = model(batch.tokens, batch.lengths, global_BT=first.expand(batch.tokens.shape))
    else:
        out = model(batch.tokens, batch.lengths)
    if isinstance(model, Bert | Longformer):
        return (out, model.pool(out)) if model.pooler is not None else (out,)
    return out if isinstance(out, tuple) else (out,)


def build(name: str, *, seed: int = 1, stir: bool = True) -> nn.Module:
    """The model in evaluation mode; `stir` moves tables that start at zero, so that they matter."""
    model = build_model({**ALL, **VISION, **CAPTIONING, **SPEECH}[name], seed=seed).eval()
    if stir:
        generator = torch.Generator().manual_seed(2)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return model
