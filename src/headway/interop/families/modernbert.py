"""ModernBERT (Warner et al. 2024): pre-norm, rotary positions, geglu, windows in two of three layers, no biases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.errors import ConfigError
from headway.interop.config_json import ConfigFields, expect
from headway.interop.families import bert
from headway.interop.families.layer_types import read_bases, read_types, slides_of, windows_of, write_bases, write_types
from headway.interop.families.masked_encoder import AnyBert, EncoderNames, masked_model
from headway.interop.family import Family, GenerationTokens, Imported, Shape
from headway.models import BertConfig, BertPretrainingConfig
from headway.nn.feedforward import Activation
from headway.nn.norms import LayerNorm
from headway.nn.positions import Rotary

PAD = 50283
LOCAL_BASE, GLOBAL_BASE = 10_000.0, 160_000.0
GATES: dict[str, Activation] = {
    "gelu": "geglu", "gelu_pytorch_tanh": "geglu_tanh", "gelu_new": "geglu_tanh", "silu": "swiglu",
}  # fmt: skip
WRITTEN = {"geglu": "gelu", "geglu_tanh": "gelu_pytorch_tanh", "swiglu": "silu"}
_OURS, _THEIRS = "stack.blocks.{i}.", "layers.{i}."
NAMES = EncoderNames(
    prefix="model.",
    pooler=False,
    words="embeddings.tok_embeddings.weight",
    encoder={
        "embedding": ("embeddings.tok_embeddings",),
        "stack.input_norm": ("embeddings.norm",),
        _OURS + "attention_norm": (_THEIRS + "attn_norm",),
        _OURS + "attention.qkv": (_THEIRS + "attn.Wqkv",),
        _OURS + "attention.out": (_THEIRS + "attn.Wo",),
        _OURS + "feedforward_norm": (_THEIRS + "mlp_norm",),
        _OURS + "feedforward.up": (_THEIRS + "mlp.Wi",),
        _OURS + "feedforward.down": (_THEIRS + "mlp.Wo",),
        "stack.output_norm": ("final_norm",),
    },
    head={
        "transform": ("head.dense",),
        "transform_norm": ("head.norm",),
        "token_head.weight": ("decoder.weight",),
        "token_head.bias": ("decoder.bias",),
    },
)


def read(config: Mapping[str, Any], shapes: Mapping[str, Shape]) -> Imported:
    """ModernBERT's config.json as an encoder, with the masked-token head if it is there."""
    fields = ConfigFields({"rope_theta": GLOBAL_BASE, **config})
    width, layers = fields.size("hidden_size", 768), fields.layers("num_hidden_layers", 22)
    every, local = fields.size("global_attn_every_n_layers", 3), fields.size("local_attention", 128)
    slides = read_types(fields, [layer % every > 0 for layer in range(layers)])
    bias = fields.flag("attention_bias", False)
    fields.only(mlp_bias=bias)
    if any(slides) and local < 2:
        fields.reject("local_attention", local, "2 or more")
    encoder = BertConfig(
        vocab=fields.size("vocab_size", 50368),
        context=fields.size("max_position_embeddings", 8192),
        width=width,
        layers=layers,
        heads=fields.heads("num_attention_heads", 12, width, "hidden_size"),
        inner=fields.size("intermediate_size", 1152),
        segments=0,
        position=Rotary(base=read_bases(fields, slides, LOCAL_BASE), layout="halves"),
        windows=windows_of(slides, local // 2),
        norm=LayerNorm(eps=fields.number("norm_eps", 1e-5, above=0), bias=fields.flag("norm_bias", False)),
        place="pre",
        activation=fields.choice("hidden_activation", "gelu", GATES),
        bias=bias,
        dropout=fields.probability("attention_dropout", 0.0),
        pooler=False,
    )
    tokens = GenerationTokens(pad=fields.id("pad_token_id", PAD if encoder.vocab > PAD else None, encoder.vocab))
    if not NAMES.has_head(shapes):
        return Imported(model=encoder, task=None, tokens=tokens, encoder=True)
    fields.only(
        classifier_bias=bias, decoder_bias=True, classifier_activation=fields.value("hidden_activation", "gelu")
    )
    return masked_model(encoder, fields, tokens)


def write(model: AnyBert, tokens: GenerationTokens) -> dict[str, Any]:
    """ModernBERT's config.json."""
    encoder, masked = bert.encoder_of(model), isinstance(model, BertPretrainingConfig)
    if not isinstance(encoder.norm, LayerNorm) or not isinstance(encoder.position, Rotary):
        raise ConfigError("ModernBERT has no equivalent of other norms than LayerNorm and other positions than Rotary")
    expect("ModernBERT", **{"position.layout": (encoder.position.layout, "halves")})
    if encoder.activation not in WRITTEN:
        raise ConfigError(
            f"ModernBERT has no equivalent of activation={encoder.activation!r}, only of {', '.join(WRITTEN)}"
        )
    slides, radius = slides_of("ModernBERT", encoder.windows, encoder.layers)
    return {
        "architectures": ["ModernBertForMaskedLM" if masked else "ModernBertModel"],
        "vocab_size": encoder.vocab,
        "max_position_embeddings": encoder.context,
        "hidden_size": encoder.width,
        "num_hidden_layers": encoder.layers,
        "num_attention_heads": encoder.heads,
        "intermediate_size": encoder.inner,
        "hidden_activation": WRITTEN[encoder.activation],
        "classifier_activation": WRITTEN[encoder.activation],
        "norm_eps": encoder.norm.eps,
        "norm_bias": encoder.norm.bias,
        **dict.fromkeys(("attention_bias", "mlp_bias", "classifier_bias"), encoder.bias),
        **write_bases("ModernBERT", encoder.position, slides, LOCAL_BASE),
        "layer_types": write_types(slides),
        "local_attention": 2 * radius or 128,
        **dict.fromkeys(("attention_dropout", "embedding_dropout", "mlp_dropout"), encoder.dropout),
        "initializer_range": encoder.init_std,
        "tie_word_embeddings": not isinstance(model, BertPretrainingConfig) or model.tied,
        **dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")),
        "pad_token_id": tokens.pad,
    }


MODERNBERT: Family[AnyBert] = Family(
    name="modernbert",
    configs=bert.BERT.configs,
    exports=lambda model: bert.encoder_of(model).segments == 0 and bert.encoder_of(model).place == "pre",
    architectures=("ModernBertModel", "ModernBertForMaskedLM"),
    read=read,
    write=write,
    mappings=NAMES.mappings,
    canonical=NAMES.canonical,
    copies=NAMES.copies,
    left_out=NAMES.left_out,
)
