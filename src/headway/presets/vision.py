"""Vision transformers (Dosovitskiy et al. 2021; for small data Lee et al. 2021), captioners and a ConvNet."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from headway.models import CaptionerRnnConfig, CaptionerVitConfig, ConvnetConfig, VitConfig
from headway.nn.dropout import StochasticDepth
from headway.nn.norms import LayerNorm
from headway.nn.patches import Hybrid, Patches, Shifted
from headway.nn.recurrent import RecurrentConfig
from headway.nn.rnn_attention import AlignmentConfig
from headway.presets import recipes_vision as recipes
from headway.presets.preset import Preset
from headway.training.optimisers import AdamW, Muon


def vit(*, patch: int, layers: int, width: int, heads: int) -> VitConfig:
    """ViT at a given size, for ImageNet's 1,000 classes at 224 pixels."""
    return VitConfig(classes=1000, patch=patch, layers=layers, width=width, heads=heads, inner=4 * width)


def small_data(patches: Patches | Shifted, *, local: bool) -> VitConfig:
    """The ViT of Lee et al. 2021 for CIFAR-10: its baseline, or with shifted patches, local attention or both."""
    return VitConfig(
        classes=10,
        image=32,
        patch=4,
        patches=patches,
        width=192,
        layers=9,
        heads=12,
        inner=384,
        local=local,
        norm=LayerNorm(),
        qkv_bias=False,
        stochastic_depth=StochasticDepth(rate=0.1, growth="constant"),
        start="small-data",
    )


def shapes_vit() -> VitConfig:
    """SL-ViT small enough to learn `shapes` on two cores."""
    small = small_data(Shifted(), local=True)
    return replace(small, classes=8, width=64, heads=4, inner=128, layers=4, stochastic_depth=StochasticDepth())


def captioner_rnn() -> CaptionerRnnConfig:
    """Three residual blocks, a GRU of 128 and additive attention over the map, for scenes of `shapes`."""
    return CaptionerRnnConfig(
        vocab=27,
        image=48,
        widths=(24, 48, 96),
        width=64,
        decoder=RecurrentConfig(cell="gru", hidden=128),
        attention=AlignmentConfig(kind="additive", width=64),
    )


def captioner_vit() -> CaptionerVitConfig:
    """Three residual blocks and a layer that look, two layers that tell, for scenes of `shapes`."""
    return CaptionerVitConfig(
        vocab=27,
        image=48,
        patch=8,
        patches=Hybrid(widths=(24, 48, 96)),
        width=96,
        encoder_layers=1,
        decoder_layers=2,
        heads=4,
        inner=192,
        dropout=0.0,
    )


_VIT = "Dosovitskiy et al. 2021, An Image is Worth 16x16 Words"
_DEIT = "Touvron et al. 2021, DeiT (the size); the model of " + _VIT
_VIT_DEPARTURES = (
    "GELU by the error function as in the paper; the authors' code has the tanh approximation",
    "no hidden layer in the head, which the paper has while it pretrains on larger data",
    "no dropout: it belongs to a recipe",
    "trained by the paper's fine-tuning recipe at 224 pixels, not 384; flips, and no crops of another scale",
)
_SMALL = "Lee et al. 2021, Vision Transformer for Small-Size Datasets; sizes and start of its official code"
_RECIPE_DEPARTURES = (
    "a rectangle to erase that is longer than the image is cut to it, not drawn anew",
    "what is erased has the mean colour; the official code has that colour's numbers after normalisation",
    "AutoAugment takes the nearest pixel and fills with grey",
    "validated on a tenth of train unless `--data.val test`, which is what the paper reports the best epoch of",
)
_SMALL_DEPARTURES = (
    "10 classes at 32 pixels, CIFAR-10's; other data have another head and position grid",
    *_RECIPE_DEPARTURES,
)


def _imagenet(name: str, source: str, parameters: int, *, patch: int, layers: int, width: int, heads: int) -> Preset:
    return Preset(
        name=name,
        task="classification",
        source=source,
        parameters=parameters,
        departures=_VIT_DEPARTURES,
        config=lambda: vit(patch=patch, layers=layers, width=width, heads=heads),
        run=recipes.fine_tuning,
    )


VISION = (
    _imagenet("vit-b16", _VIT, 86_567_656, patch=16, layers=12, width=768, heads=12),
    _imagenet("vit-b32", _VIT, 88_224_232, patch=32, layers=12, width=768, heads=12),
    _imagenet("vit-l16", _VIT, 304_326_632, patch=16, layers=24, width=1024, heads=16),
    _imagenet("vit-h14", _VIT, 632_045_800, patch=14, layers=32, width=1280, heads=16),
    _imagenet("vit-s16", _DEIT, 22_050_664, patch=16, layers=12, width=384, heads=6),
    _imagenet("vit-ti16", _DEIT, 5_717_416, patch=16, layers=12, width=192, heads=3),
    Preset(
        name="vit-small-data",
        task="classification",
        source=_SMALL + " (its baseline)",
        parameters=2_692_426,
        departures=_SMALL_DEPARTURES,
        config=lambda: small_data(Patches(), local=False),
        run=recipes.small_data,
    ),
    Preset(
        name="sl-vit",
        task="classification",
        source=_SMALL,
        parameters=2_729_878,
        departures=(
            *_SMALL_DEPARTURES,
            "a token's look at itself is left out of the softmax; the official code gives it the score -987654321",
        ),
        config=lambda: small_data(Shifted(), local=True),
        run=recipes.small_data,
    ),
    Preset(
        name="sl-vit-tiny",
        task="classification",
        source=_SMALL + ", at a size for a laptop",
        parameters=153_912,
        departures=("the size is ours, for the built-in `shapes` in minutes on two cores",),
        config=shapes_vit,
        run=recipes.shapes,
    ),
    Preset(
        name="convnet",
        task="classification",
        source="He et al. 2016, Deep Residual Learning: the blocks of ResNet-18",
        parameters=2_777_674,
        departures=(
            "three stages, not four: about as many parameters as vit-small-data, but about twice its arithmetic",
            "a 3 x 3 stem without pooling, for small images",
            "1 x 1 projections where the shape changes (the paper's option B)",
            "trained by the recipe of Lee et al. 2021, for a comparison with vit-small-data",
            *_RECIPE_DEPARTURES,
        ),
        config=lambda: ConvnetConfig(classes=10),
        run=recipes.small_data,
    ),
    Preset(
        name="captioner-rnn",
        task="captioning",
        source="Xu et al. 2015, Show, Attend and Tell; the first state is the deck's h_0 = W·CNN(image)",
        parameters=737_051,
        departures=(
            "the size is ours, for the built-in `shapes` in minutes on two cores",
            "a small residual network trained from the start, not VGG with its weights kept",
            "a GRU, not an LSTM; what a word attends to enters its output, not the next step",
            "each place of the map has a learned vector, so that attention knows where it looks",
        ),
        config=captioner_rnn,
        run=partial(recipes.captions, steps=4000, learning_rate=4e-3, optimiser=AdamW(beta2=0.98, decay=0.05)),
    ),
    Preset(
        name="captioner-vit",
        task="captioning",
        source="Cornia et al. 2020, Meshed-Memory Transformer, without mesh and memory; the hybrid encoder of " + _VIT,
        parameters=483_168,
        departures=(
            "the size is ours, for the built-in `shapes` in minutes on two cores",
            "the encoder sees the map of three residual blocks, trained with it, not regions that a detector found",
            "the output layer is the word embedding",
        ),
        config=captioner_vit,
        run=partial(recipes.captions, steps=2600, learning_rate=0.01, optimiser=Muon(adam_share=0.4)),
    ),
)
