"""Longformer (Beltagy et al. 2020): BERT's encoder with windows and global projections, RoBERTa's head and offset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headway.errors import BadModelError, ConfigError
from headway.interop.config_json import ACTIVATIONS, FILE, ConfigFields, expect, written_activation
from headway.interop.families.bert import ENCODER, spelled
from headway.interop.family import Family, GenerationTokens, Imported, Names, Shape, WeightMapping, map_weights
from headway.models import LongformerConfig, LongformerMaskedConfig
from headway.nn.longformer_attention import Windows
from headway.nn.norms import LayerNorm

AnyLongformer = LongformerConfig | LongformerMaskedConfig
PREFIX = "longformer."
UNUSED = 2  # rows of the file's position table before position 0: the padding id, plus one
PAD = 1
_SELF = "encoder.layer.{i}.attention.self."
NAMES: Names = {
    **ENCODER,
    "stack.blocks.{i}.attention.global_q": (_SELF + "query_global",),
    "stack.blocks.{i}.attention.global_kv": (_SELF + "key_global", _SELF + "value_global"),
}
HEAD: Names = {
    "transform": ("lm_head.dense",),
    "transform_norm": ("lm_head.layer_norm",),
    "token_head.bias": ("lm_head.bias", "lm_head.decoder.bias"),
}
MASKED: Names = {
    f"longformer.{ours}": tuple(PREFIX + name for name in theirs) for ours, theirs in NAMES.items()
} | dict(HEAD)


def read(config: Mapping[str, Any], shapes: Mapping[str, Shape]) -> Imported:
    """Longformer's config.json as an encoder, with its masked-token head if that is there."""
    fields = ConfigFields(config)
    fields.only(is_decoder=False, add_cross_attention=False, position_embedding_type="absolute", pad_token_id=PAD)
    width, layers = fields.size("hidden_size", 768), fields.layers("num_hidden_layers", 12)
    names = {spelled(name, PREFIX) for name in shapes if not name.startswith("lm_head.")} | set(shapes)
    encoder = LongformerConfig(
        vocab=fields.size("vocab_size", 30522),
        windows=_windows(config, layers),
        context=fields.size("max_position_embeddings", 512) - UNUSED,
        width=width,
        layers=layers,
        heads=fields.heads("num_attention_heads", 12, width, "hidden_size"),
        inner=fields.size("intermediate_size", 3072),
        segments=fields.size("type_vocab_size", 2),
        norm=LayerNorm(eps=fields.number("layer_norm_eps", 1e-12, above=0)),
        activation=fields.choice("hidden_act", "gelu", ACTIVATIONS),
        dropout=fields.probability("hidden_dropout_prob", 0.1),
        pooler=f"{PREFIX}pooler.dense.weight" in names,
    )
    if encoder.context < 1:
        raise BadModelError(
            f"{FILE}: max_position_embeddings={encoder.context + UNUSED}, expected {UNUSED + 1} or more"
        )
    if "lm_head.dense.weight" not in names:
        return Imported(model=encoder, task=None, tokens=GenerationTokens(pad=PAD), encoder=True)
    fields.only(tie_word_embeddings=True, hidden_act="gelu")  # transformers fixes that head's activation
    model = LongformerMaskedConfig(longformer=encoder)
    return Imported(model=model, task=None, tokens=GenerationTokens(pad=PAD), encoder=True)


def _windows(config: Mapping[str, Any], layers: int) -> Windows:
    """The radius of each layer's window; attention_window counts both sides."""
    given = config.get("attention_window", 512)
    values = given if isinstance(given, list) else [given] * layers
    if len(values) != layers or any(type(value) is not int or value < 2 or value % 2 for value in values):
        raise BadModelError(f"{FILE}: attention_window={given!r}, expected an even number, or one for each layer")
    radii = tuple(value // 2 for value in values)
    return Windows(radius=radii[0] if len(set(radii)) == 1 else radii)


def encoder_of(model: AnyLongformer) -> LongformerConfig:
    """The encoder of a model with or without its head."""
    return model.longformer if isinstance(model, LongformerMaskedConfig) else model


def write(model: AnyLongformer, tokens: GenerationTokens) -> dict[str, Any]:
    """Longformer's config.json."""
    encoder, masked = encoder_of(model), isinstance(model, LongformerMaskedConfig)
    windows = encoder.windows
    expect("Longformer", **{"windows.dilation": (windows.dilation, 1)})
    if masked:
        expect("Longformer's head", activation=(encoder.activation, "gelu"))
    if tokens.pad not in (None, PAD):
        raise ConfigError(
            f"Longformer counts positions from the padding id, which must be {PAD}: here it is {tokens.pad}"
        )
    radii = windows.radius if isinstance(windows.radius, tuple) else (windows.radius,) * encoder.layers
    return {
        "architectures": ["LongformerForMaskedLM" if masked else "LongformerModel"],
        "attention_window": [2 * radius for radius in radii if radius is not None],
        "vocab_size": encoder.vocab,
        "max_position_embeddings": encoder.context + UNUSED,
        "hidden_size": encoder.width,
        "num_hidden_layers": encoder.layers,
        "num_attention_heads": encoder.heads,
        "intermediate_size": encoder.inner,
        "type_vocab_size": encoder.segments,
        "layer_norm_eps": encoder.norm.eps,
        "hidden_act": written_activation("Longformer", encoder.activation),
        "hidden_dropout_prob": encoder.dropout,
        "attention_probs_dropout_prob": encoder.dropout,
        "initializer_range": encoder.init_std,
        "pad_token_id": PAD,
        "bos_token_id": None,
        "eos_token_id": None,
        "sep_token_id": None,
    }


def mappings(model: AnyLongformer) -> list[WeightMapping]:
    """The weights; LongformerForMaskedLM has no pooler."""
    names = MASKED if isinstance(model, LongformerMaskedConfig) else NAMES
    found = []
    for mapping in map_weights(model, names, left_out=left_out(model)):
        unused = UNUSED if mapping.name.endswith("input_positions.table") else 0
        found.append(replace(mapping, unused_rows=unused, duplicated=mapping.name == "token_head.bias"))
    return found


def left_out(model: AnyLongformer) -> tuple[str, ...]:
    """A pooler that no head reads."""
    return ("longformer.pooler.",) if isinstance(model, LongformerMaskedConfig) else ()


def canonical(name: str, model: AnyLongformer) -> str:
    """Today's spelling; an encoder alone has no prefix."""
    if name.startswith("lm_head."):
        return name
    full_name = spelled(name, PREFIX)
    return full_name if isinstance(model, LongformerMaskedConfig) else full_name.removeprefix(PREFIX)


def ignored(name: str) -> bool:
    """Position ids."""
    return name.endswith("embeddings.position_ids")


def copies(model: AnyLongformer) -> dict[str, str]:
    """The file may hold the token head's tied matrix twice."""
    tied = isinstance(model, LongformerMaskedConfig)
    return {"lm_head.decoder.weight": f"{PREFIX}embeddings.word_embeddings.weight"} if tied else {}


def with_all_biases(model: AnyLongformer) -> AnyLongformer:
    """Hugging Face's norms always have a bias."""
    encoder = encoder_of(model)
    shifted = replace(encoder, norm=replace(encoder.norm, bias=True))
    return replace(model, longformer=shifted) if isinstance(model, LongformerMaskedConfig) else shifted


LONGFORMER: Family[AnyLongformer] = Family(
    name="longformer",
    configs=(LongformerConfig, LongformerMaskedConfig),
    architectures=("LongformerModel", "LongformerForMaskedLM"),
    read=read,
    write=write,
    mappings=mappings,
    canonical=canonical,
    ignored=ignored,
    copies=copies,
    with_all_biases=with_all_biases,
    left_out=left_out,
)
