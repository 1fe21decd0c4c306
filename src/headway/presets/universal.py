"""The Universal Transformer (Dehghani et al. 2019) in the sizes of its code and in small ones, and a plain rival."""

from __future__ import annotations

from headway.models import EncoderDecoderConfig, UniversalBertConfig, UniversalConfig
from headway.models.universal import Offsets
from headway.nn.adaptive_computation import Adaptive, Fixed
from headway.presets import recipes
from headway.presets.preset import Preset


def universal_digits() -> UniversalConfig:
    """For sequences of digits: what it learns at 40 of them holds at 400, whose positions it meets in training.

    A token sees only few of its own side: it cannot count them, and must tell where it is by what stands around it.
    """
    return UniversalConfig(
        vocab=14,
        width=64,
        heads=4,
        inner=256,
        dropout=0.0,
        halting=Fixed(steps=2),
        window=4,
        offsets=Offsets(most=400),
    )


def transformer_digits() -> EncoderDecoderConfig:
    """The 2017 model with the parameters of universal-digits: its blocks, once."""
    return EncoderDecoderConfig(vocab=14, width=64, heads=4, inner=256, dropout=0.0, encoder_layers=1, decoder_layers=1)


def universal_tiny() -> UniversalConfig:
    """For generated sequences: transformer-tiny's block, halting by itself within eight steps."""
    return UniversalConfig(vocab=14, width=128, heads=4, inner=256, dropout=0.0, halting=Adaptive(steps=8))


_DEHGHANI = "Dehghani et al. 2019, Universal Transformers"
_DEPARTURES = (
    "step coordinates are the paper's sinusoids; tensor2tensor adds a learned vector a step",
    "a token that has not halted at the last step spends what is left there; in tensor2tensor it would lose it",
    "interpolated states, tensor2tensor's and the default, do not weigh their halting weights; `accumulated` ones do",
    "normalised after each part as the paper's formulas say; tensor2tensor normalises before",
)

UNIVERSAL = (
    Preset(
        name="universal",
        task="translation",
        source=_DEHGHANI + "; sizes of tensor2tensor's base",
        parameters=67_282_946,
        departures=(*_DEPARTURES, "the vocabulary and the recipe are the 2017 transformer's for English-German"),
        config=lambda: UniversalConfig(vocab=37000),
        run=lambda model: recipes.paper_translation(model, width=1024, steps=100_000, average=5),
    ),
    Preset(
        name="universal-tiny",
        task="translation",
        source=_DEHGHANI,
        parameters=333_314,
        departures=("size and recipe are ours, the block is transformer-tiny's", *_DEPARTURES),
        config=universal_tiny,
        run=recipes.sequences,
    ),
    Preset(
        name="universal-digits",
        task="translation",
        source=_DEHGHANI + "; its length tests",
        parameters=117_632,
        departures=(
            "size and recipe are ours: the paper gives none for these tests",
            "a token sees four tokens to each side of its own text, all of the other; in the paper all of both",
            "random positions are drawn once for both sides; in tensor2tensor for each side and anew at every step",
            *_DEPARTURES[:1],
            _DEPARTURES[3],
        ),
        config=universal_digits,
        run=recipes.digits,
    ),
    Preset(
        name="universal-bert",
        task="masked",
        source=_DEHGHANI + "; an encoder alone, with the block and the recipe of Devlin et al. 2019, BERT",
        parameters=31_121_665,
        departures=("no such model is published: the size is ours", *_DEPARTURES),
        config=lambda: UniversalBertConfig(vocab=30522),
        run=recipes.universal_masked,
    ),
    Preset(
        name="transformer-digits",
        task="translation",
        source="Vaswani et al. 2017, Attention Is All You Need; the rival of universal-digits",
        parameters=117_632,
        departures=("size and recipe are ours: the parameters and the budget of universal-digits",),
        config=transformer_digits,
        run=recipes.digits,
    ),
)
