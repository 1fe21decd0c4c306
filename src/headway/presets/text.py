"""The text models of the lecture decks, as their papers have them; each preset names its source."""

from __future__ import annotations

from headway.models import (
    BertConfig,
    DeckConfig,
    EncoderDecoderConfig,
    GptConfig,
    LongformerConfig,
    RnnLmConfig,
    RnnSeq2SeqConfig,
    TextClassifierConfig,
)
from headway.nn.longformer_attention import Windows
from headway.nn.norms import LayerNorm, RMSNorm
from headway.nn.positions import Rotary
from headway.nn.recurrent import RecurrentConfig
from headway.nn.rnn_attention import AlignmentConfig
from headway.presets import recipes
from headway.presets.preset import Preset


def transformer(*, vocab: int, width: int, inner: int, heads: int, layers: int, dropout: float) -> EncoderDecoderConfig:
    """The 2017 encoder-decoder at a given size."""
    return EncoderDecoderConfig(
        vocab=vocab,
        width=width,
        inner=inner,
        heads=heads,
        encoder_layers=layers,
        decoder_layers=layers,
        dropout=dropout,
    )


def gpt2(*, layers: int, width: int, heads: int) -> GptConfig:
    """GPT-2 at a given size."""
    return GptConfig(vocab=50257, context=1024, width=width, layers=layers, heads=heads, dropout=0.1)


def gpt_char(*, context: int, width: int, layers: int, heads: int, dropout: float) -> GptConfig:
    """nanoGPT's character model on the 65 symbols of tiny Shakespeare: no biases, erf GELU."""
    return GptConfig(
        vocab=65,
        context=context,
        width=width,
        layers=layers,
        heads=heads,
        dropout=dropout,
        norm=LayerNorm(bias=False),
        activation="gelu",
        bias=False,
    )


def gpt_chat() -> GptConfig:
    """LLaMA's parts at a size that learns short conversations in minutes."""
    return GptConfig(
        vocab=340,
        context=256,
        width=128,
        layers=4,
        heads=4,
        inner=344,
        position=Rotary(layout="halves"),
        norm=RMSNorm(eps=1e-5),
        activation="swiglu",
        bias=False,
        init_std=0.08,
    )


def bert(*, layers: int, width: int, heads: int) -> BertConfig:
    """BERT at a given size, uncased vocabulary, with its pooler."""
    return BertConfig(vocab=30522, width=width, layers=layers, heads=heads, inner=4 * width)


def roformer() -> BertConfig:
    """BERT with rotary positions in every layer and none at the input."""
    return BertConfig(vocab=50000, context=1536, position=Rotary(layout="interleaved"), pooler=False)


def longformer_char() -> GptConfig:
    """A causal character model whose windows double from layer to layer, at gpt-char's size."""
    return GptConfig(
        vocab=65,
        context=512,
        width=128,
        layers=4,
        heads=4,
        position=Rotary(layout="interleaved"),
        windows=Windows(radius=(16, 32, 64, 128), dilation=(1, 1, 2, 2), dilated_heads=1),
        norm=LayerNorm(bias=False),
        activation="gelu",
        bias=False,
    )


def longformer_needle() -> TextClassifierConfig:
    """A small Longformer over 4,096 tokens that names one of two classes; its first token is global."""
    encoder = LongformerConfig(
        vocab=70,
        windows=Windows(radius=32),
        context=4096,
        width=128,
        layers=3,
        heads=4,
        inner=256,
        dropout=0.0,
        init_std=0.09,  # 1/√width: the paper's 0.02 is for a width of 768
    )
    return TextClassifierConfig(encoder=encoder, classes=2, global_tokens=1)


def llama_tiny() -> GptConfig:
    """LLaMA's parts at a size for a laptop."""
    return GptConfig(
        vocab=32000,
        context=1024,
        width=288,
        layers=6,
        heads=6,
        kv_heads=2,
        inner=768,
        position=Rotary(layout="halves"),
        norm=RMSNorm(eps=1e-5),
        activation="swiglu",
        bias=False,
        tied=False,
    )


def rnn_lm() -> RnnLmConfig:
    """Two LSTM layers over Penn Treebank's 10,000 words, output tied to input."""
    return RnnLmConfig(
        vocab=10000,
        width=200,
        recurrent=RecurrentConfig(cell="lstm", hidden=200, layers=2, dropout=0.2),
        tied=True,
        dropout=0.2,
    )


def rnn_seq2seq() -> RnnSeq2SeqConfig:
    """A bidirectional GRU encoder and a GRU decoder with additive attention, at Multi30k's German-English sizes."""
    return RnnSeq2SeqConfig(
        vocab=5893,
        source_vocab=7853,
        width=256,
        encoder=RecurrentConfig(cell="gru", hidden=512, bidirectional=True),
        decoder=RecurrentConfig(cell="gru", hidden=512),
        attention=AlignmentConfig(kind="additive", width=512),
        context=("input", "readout"),
        dropout=0.5,
    )


_VASWANI = "Vaswani et al. 2017, Attention Is All You Need"
_SMOOTH = (
    "the published parameter count is rounded; this is the exact one with biases everywhere and one shared "
    "37,000-word matrix",
)
_GPT2 = "Radford et al. 2019, Language Models are Unsupervised Multitask Learners; sizes as released"
_GPT2_DEPARTURES = ("dropout 0.1 as in the released config; the paper gives none",)
_NANO = "Karpathy, nanoGPT, character-level Shakespeare"
_LONGFORMER = "Beltagy et al. 2020, Longformer"
_BERT = "Devlin et al. 2019, BERT"
_MASKED_DEPARTURES = (
    "trained on rows of 128 tokens throughout; the paper's last tenth of steps has 512",
    "trained with byte-pair pieces, not WordPiece, and Adam's bias correction, which BERT's own optimiser leaves out",
)
_BERT_DEPARTURES = (
    "initial weights from a normal distribution, not a truncated one",
    "counted with the pooler and without the two pretraining heads, which `BertPretraining` adds",
    *_MASKED_DEPARTURES,
)


TEXT = (
    Preset(
        name="transformer-tiny",
        task="translation",
        source="Wu et al. 2021, Good for Misconceived Reasons (Multi30k); the model of " + _VASWANI,
        parameters=2_568_192,
        departures=("vocabulary 9,712 as for Multi30k En-De with 10,000 joint merges; other data have another",),
        config=lambda: transformer(vocab=9712, width=128, inner=256, heads=4, layers=4, dropout=0.3),
        run=recipes.tiny_translation,
    ),
    Preset(
        name="transformer-base",
        task="translation",
        source=_VASWANI,
        parameters=63_082_496,
        departures=_SMOOTH,
        config=lambda: transformer(vocab=37000, width=512, inner=2048, heads=8, layers=6, dropout=0.1),
        run=lambda model: recipes.paper_translation(model, width=512, steps=100_000, average=5),
    ),
    Preset(
        name="transformer-big",
        task="translation",
        source=_VASWANI,
        parameters=214_245_376,
        departures=(*_SMOOTH, "dropout 0.3 is the English-German setting; English-French has 0.1"),
        config=lambda: transformer(vocab=37000, width=1024, inner=4096, heads=16, layers=6, dropout=0.3),
        run=lambda model: recipes.paper_translation(model, width=1024, steps=300_000, average=20),
    ),
    Preset(
        name="gpt2",
        task="language",
        source=_GPT2,
        parameters=124_439_808,
        departures=_GPT2_DEPARTURES,
        config=lambda: gpt2(layers=12, width=768, heads=12),
        run=recipes.gpt2_language,
    ),
    Preset(
        name="gpt2-medium",
        task="language",
        source=_GPT2,
        parameters=354_823_168,
        departures=_GPT2_DEPARTURES,
        config=lambda: gpt2(layers=24, width=1024, heads=16),
        run=recipes.gpt2_language,
    ),
    Preset(
        name="gpt2-large",
        task="language",
        source=_GPT2,
        parameters=774_030_080,
        departures=_GPT2_DEPARTURES,
        config=lambda: gpt2(layers=36, width=1280, heads=20),
        run=recipes.gpt2_language,
    ),
    Preset(
        name="gpt2-xl",
        task="language",
        source=_GPT2,
        parameters=1_557_611_200,
        departures=_GPT2_DEPARTURES,
        config=lambda: gpt2(layers=48, width=1600, heads=25),
        run=recipes.gpt2_language,
    ),
    Preset(
        name="gpt-char",
        task="language",
        source=_NANO + " (the CPU size)",
        parameters=804_096,
        departures=(),
        config=lambda: gpt_char(context=64, width=128, layers=4, heads=4, dropout=0.0),
        run=lambda model: recipes.char_language(model, context=64, rows=12, steps=2000, every=250),
    ),
    Preset(
        name="gpt-char-large",
        task="language",
        source=_NANO + " (the GPU size)",
        parameters=10_745_088,
        departures=(),
        config=lambda: gpt_char(context=256, width=384, layers=6, heads=6, dropout=0.2),
        run=lambda model: recipes.char_language(model, context=256, rows=64, steps=5000, every=250),
    ),
    Preset(
        name="gpt-chat",
        task="chat",
        source="Ouyang et al. 2022, InstructGPT, section 3.5: supervised fine-tuning; LLaMA's parts",
        parameters=835_200,
        departures=(
            "from scratch on generated conversations unless --init names a run; published models begin pretrained",
            "the loss is of the assistant's tokens only",
        ),
        config=gpt_chat,
        run=recipes.chat,
    ),
    Preset(
        name="llama-tiny",
        task="language",
        source="Touvron et al. 2023, LLaMA; grouped heads as in Llama 2",
        parameters=23_744_160,
        departures=("the size is ours: the published models begin at 7 billion parameters",),
        config=llama_tiny,
        run=recipes.gpt2_language,
    ),
    Preset(
        name="bert-base",
        task="masked",
        source=_BERT,
        parameters=109_482_240,
        departures=_BERT_DEPARTURES,
        config=lambda: bert(layers=12, width=768, heads=12),
        run=recipes.masked,
    ),
    Preset(
        name="bert-large",
        task="masked",
        source=_BERT,
        parameters=335_141_888,
        departures=_BERT_DEPARTURES,
        config=lambda: bert(layers=24, width=1024, heads=16),
        run=recipes.masked,
    ),
    Preset(
        name="roformer",
        task="masked",
        source="Su et al. 2021, RoFormer; base size, Chinese vocabulary as released",
        parameters=123_457_536,
        departures=(
            "initial weights from a normal distribution, not a truncated one",
            "rotation angles are computed, not stored: a count with a fixed 1,536 × 64 table of them gives 123,555,840",
            "no pooler, as in the released model; `headway train` adds one, which next-sentence training reads",
            "`headway train` uses BERT's recipe, next sentence included, not the paper's own",
            *_MASKED_DEPARTURES,
        ),
        config=roformer,
        run=recipes.masked,
    ),
    Preset(
        name="longformer",
        task="masked",
        source=_LONGFORMER + "; longformer-base-4096 as released",
        parameters=148_657_920,
        departures=(
            "4,096 position rows: the released table has two more that belong to no position (148,659,456 in all)",
            "windows are one-sided radii: 256 here is the released attention_window of 512",
            "counted with the pooler and without the masked-token head, which `LongformerMasked` adds",
            "initial weights from a normal distribution; the paper starts from RoBERTa, its 512 positions copied eight "
            "times",
            "without a `global_BT` no token is global, as in the released code",
            "`headway train` begins with random weights at 1e-4, falling linearly; the paper at 3e-5 with a cubic fall",
        ),
        config=lambda: LongformerConfig(vocab=50265),
        run=recipes.masked_longformer,
    ),
    Preset(
        name="longformer-needle",
        task="text-classification",
        source=_LONGFORMER + "; its classifier, with a global first token, at a size for the built-in `needle`",
        parameters=1_096_450,
        departures=(
            "the size is ours, and so is the task: the paper classifies reviews and news with its base model",
            "no dropout, since every document is new",
        ),
        config=longformer_needle,
        run=recipes.needle,
    ),
    Preset(
        name="longformer-char",
        task="language",
        source=_LONGFORMER + "; its character models at the size of gpt-char",
        parameters=795_904,
        departures=(
            "the size is ours: the paper has 12 layers of width 512, with windows of up to 8,192",
            "rotary positions; the paper has Transformer-XL's sinusoidal relative ones",
            "one head of four is dilated in the upper half; the paper dilates two of eight in layers 6 to 11",
            "trained at one length; the paper's stages double the length, up to 23,040",
            "a causal window of r sees r characters back; there are no global tokens, which would tell of the future",
        ),
        config=longformer_char,
        run=lambda model: recipes.char_language(model, context=512, rows=4, steps=2000, every=250),
    ),
    Preset(
        name="rnn-lm",
        task="language",
        source="deck 002; size and dropout of PyTorch's word language model example on Penn Treebank",
        parameters=2_653_200,
        departures=("the deck leaves cell and sizes open",),
        config=rnn_lm,
        run=recipes.rnn_language,
    ),
    Preset(
        name="rnn-seq2seq",
        task="translation",
        source="deck 002; Bahdanau et al. 2015 at the sizes of bentrevett's Multi30k tutorial (20.5M parameters there)",
        parameters=13_761_797,
        departures=(
            "readout is a linear layer on tanh(W[s; a]) (Luong); the tutorial's reads [s; a; x] directly",
            "the context is looked up from the top layer's state as the deck has it: found at step l-1, used at step l",
            "encoder and decoder states are joined by one linear layer and tanh",
        ),
        config=rnn_seq2seq,
        run=recipes.rnn_translation,
    ),
    Preset(
        name="deck",
        task="masked",
        source="deck 001, the block as printed: one head, d→d LeakyReLU network, post-norm, learned positions",
        parameters=183_528,
        departures=(
            "LayerNorm in its corrected form: the printed one multiplies by d where it should divide",
            "the printed position table has no length, and tokens no embedding: both are added, with a linear readout",
            "sizes are ours: the slides leave them open",
            "it is trained to guess hidden tokens: the slides have no loss",
        ),
        config=lambda: DeckConfig(vocab=1000),
        run=recipes.deck,
    ),
)
