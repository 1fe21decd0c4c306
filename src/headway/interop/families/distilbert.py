"""DistilBERT (Sanh et al. 2019): half of BERT's layers, without segments and pooler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.errors import ConfigError
from headway.interop.config_json import ACTIVATIONS, ConfigFields, expect, written_activation
from headway.interop.families import bert
from headway.interop.families.masked_encoder import AnyBert, EncoderNames, masked_model
from headway.interop.family import Family, GenerationTokens, Imported, Shape
from headway.models import BertConfig, BertPretrainingConfig
from headway.nn.norms import LayerNorm
from headway.nn.positions import Learned

EPS = 1e-12  # of every norm; no field says so
_OURS, _THEIRS = "stack.blocks.{i}.", "transformer.layer.{i}."
NAMES = EncoderNames(
    prefix="distilbert.",
    pooler=False,
    encoder={
        "embedding": ("embeddings.word_embeddings",),
        "stack.input_positions.table": ("embeddings.position_embeddings.weight",),
        "stack.input_norm": ("embeddings.LayerNorm",),
        _OURS + "attention.qkv": tuple(f"{_THEIRS}attention.{x}_lin" for x in "qkv"),
        _OURS + "attention.out": (_THEIRS + "attention.out_lin",),
        _OURS + "attention_norm": (_THEIRS + "sa_layer_norm",),
        _OURS + "feedforward.up": (_THEIRS + "ffn.lin1",),
        _OURS + "feedforward.down": (_THEIRS + "ffn.lin2",),
        _OURS + "feedforward_norm": (_THEIRS + "output_layer_norm",),
    },
    head={
        "transform": ("vocab_transform",),
        "transform_norm": ("vocab_layer_norm",),
        "token_head.weight": ("vocab_projector.weight",),
        "token_head.bias": ("vocab_projector.bias",),
    },
)


def read(config: Mapping[str, Any], shapes: Mapping[str, Shape]) -> Imported:
    """DistilBERT's config.json as an encoder, with the masked-token head if it is there."""
    fields = ConfigFields(config)
    fields.only(chunk_size_feed_forward=0)
    width = fields.size("dim", 768)
    encoder = BertConfig(
        vocab=fields.size("vocab_size", 30522),
        context=fields.size("max_position_embeddings", 512),  # sinusoids are stored as a table, too
        width=width,
        layers=fields.layers("n_layers", 6),
        heads=fields.heads("n_heads", 12, width, "dim"),
        inner=fields.size("hidden_dim", 3072),
        segments=0,
        norm=LayerNorm(eps=EPS),
        activation=fields.choice("activation", "gelu", ACTIVATIONS),
        dropout=fields.probability("dropout", 0.1),
        pooler=False,
    )
    tokens = GenerationTokens(pad=fields.id("pad_token_id", 0, encoder.vocab))
    if not NAMES.has_head(shapes):
        return Imported(model=encoder, task=None, tokens=tokens, encoder=True)
    return masked_model(encoder, fields, tokens)


def write(model: AnyBert, tokens: GenerationTokens) -> dict[str, Any]:
    """DistilBERT's config.json."""
    encoder, masked = bert.encoder_of(model), isinstance(model, BertPretrainingConfig)
    if not isinstance(encoder.norm, LayerNorm):
        raise ConfigError(f"DistilBERT has no equivalent of norm={encoder.norm!r}, only of LayerNorm")
    bert.expect_plain("DistilBERT", encoder)
    expect("DistilBERT", position=(encoder.position, Learned()), **{"norm.eps": (encoder.norm.eps, EPS)})
    return {
        "architectures": ["DistilBertForMaskedLM" if masked else "DistilBertModel"],
        "vocab_size": encoder.vocab,
        "max_position_embeddings": encoder.context,
        "dim": encoder.width,
        "n_layers": encoder.layers,
        "n_heads": encoder.heads,
        "hidden_dim": encoder.inner,
        "activation": written_activation("DistilBERT", encoder.activation),
        "dropout": encoder.dropout,
        "attention_dropout": encoder.dropout,
        "initializer_range": encoder.init_std,
        "tie_word_embeddings": not isinstance(model, BertPretrainingConfig) or model.tied,
        "pad_token_id": tokens.pad,
    }


DISTILBERT: Family[AnyBert] = Family(
    name="distilbert",
    configs=bert.BERT.configs,
    exports=lambda model: bert.encoder_of(model).segments == 0 and bert.encoder_of(model).place == "post",
    architectures=("DistilBertModel", "DistilBertForMaskedLM"),
    read=read,
    write=write,
    mappings=NAMES.mappings,
    canonical=NAMES.canonical,
    ignored=bert.ignored,
    copies=NAMES.copies,
    with_all_biases=bert.with_all_biases,
    left_out=NAMES.left_out,
)
