"""BERT (Devlin et al. 2019): post-norm, learned positions, two segments; alone, or with its pretraining heads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headway.errors import BadModelError, ConfigError
from headway.interop.config_json import ACTIVATIONS, FILE, ConfigFields, expect, written_activation
from headway.interop.families.masked_encoder import AnyBert
from headway.interop.family import Family, GenerationTokens, Imported, Names, Shape, WeightMapping, map_weights
from headway.models import BertConfig, BertPretrainingConfig
from headway.nn.norms import LayerNorm
from headway.nn.positions import EncoderPosition, Learned, Rotary
from headway.tasks.masked_lm.config import Masked

_LAYER = "encoder.layer.{i}."
ENCODER: Names = {
    "embedding": ("embeddings.word_embeddings",),
    "segment_embedding": ("embeddings.token_type_embeddings",),
    "stack.input_norm": ("embeddings.LayerNorm",),
    "stack.blocks.{i}.attention.qkv": tuple(_LAYER + f"attention.self.{x}" for x in ("query", "key", "value")),
    "stack.blocks.{i}.attention.out": (_LAYER + "attention.output.dense",),
    "stack.blocks.{i}.attention_norm": (_LAYER + "attention.output.LayerNorm",),
    "stack.blocks.{i}.feedforward.up": (_LAYER + "intermediate.dense",),
    "stack.blocks.{i}.feedforward.down": (_LAYER + "output.dense",),
    "stack.blocks.{i}.feedforward_norm": (_LAYER + "output.LayerNorm",),
    "stack.input_positions.table": ("embeddings.position_embeddings.weight",),
    "pooler": ("pooler.dense",),
}
HEADS: Names = {
    "transform": ("cls.predictions.transform.dense",),
    "transform_norm": ("cls.predictions.transform.LayerNorm",),
    "token_head.weight": ("cls.predictions.decoder.weight",),
    "token_head.bias": ("cls.predictions.decoder.bias", "cls.predictions.bias"),
    "follows": ("cls.seq_relationship",),
}
OLDER = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def with_heads(prefix: str) -> Names:
    """The names of an encoder under a prefix, and of its heads."""
    encoder = {f"bert.{ours}": tuple(f"{prefix}{name}" for name in theirs) for ours, theirs in ENCODER.items()}
    return encoder | dict(HEADS)


def read_encoder(
    fields: ConfigFields, *, vocab: int, context: int, position: EncoderPosition, pooler: bool
) -> BertConfig:
    """The encoder that BERT's and RoFormer's config.json describe alike; `vocab` and `context` are the defaults."""
    fields.only(is_decoder=False, add_cross_attention=False, chunk_size_feed_forward=0)
    width = fields.size("hidden_size", 768)
    return BertConfig(
        vocab=fields.size("vocab_size", vocab),
        context=fields.size("max_position_embeddings", context),
        width=width,
        layers=fields.layers("num_hidden_layers", 12),
        heads=fields.heads("num_attention_heads", 12, width, "hidden_size"),
        inner=fields.size("intermediate_size", 3072),
        segments=fields.size("type_vocab_size", 2),
        position=position,
        norm=LayerNorm(eps=fields.number("layer_norm_eps", 1e-12, above=0)),
        activation=fields.choice("hidden_act", "gelu", ACTIVATIONS),
        dropout=fields.probability("hidden_dropout_prob", 0.1),
        pooler=pooler,
    )


def read(config: Mapping[str, Any], shapes: Mapping[str, Shape]) -> Imported:
    """BERT's config.json as an encoder, with the heads whose tensors are there."""
    fields = ConfigFields(config)
    fields.only(position_embedding_type="absolute")
    names = {spelled(name, "bert.") for name in shapes}
    pooler, follows = "bert.pooler.dense.weight" in names, "cls.seq_relationship.weight" in names
    encoder = read_encoder(fields, vocab=30522, context=512, position=Learned(), pooler=pooler)
    return imported(fields, encoder, names, follows=follows)


def imported(fields: ConfigFields, encoder: BertConfig, names: set[str], *, follows: bool) -> Imported:
    """The encoder alone, or with the heads that are there."""
    tokens = GenerationTokens(pad=fields.id("pad_token_id", 0, encoder.vocab))
    if "cls.predictions.transform.dense.weight" not in names:
        if follows:
            raise BadModelError(f"{FILE}: a next-sentence head without a masked-token head has no equivalent here")
        return Imported(model=encoder, task=None, tokens=tokens, encoder=True)
    model = BertPretrainingConfig(bert=encoder, follows=follows, tied=fields.flag("tie_word_embeddings", True))
    return Imported(model=model, task=Masked(length=min(encoder.context, 128)), tokens=tokens, encoder=True)


def write_encoder(family: str, model: BertConfig, tokens: GenerationTokens) -> dict[str, Any]:
    """What BERT's and RoFormer's config.json have in common."""
    if not isinstance(model.norm, LayerNorm):
        raise ConfigError(f"{family} has no equivalent of norm={model.norm!r}, only of LayerNorm")
    expect_plain(family, model)
    return {
        "vocab_size": model.vocab,
        "max_position_embeddings": model.context,
        "hidden_size": model.width,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "intermediate_size": model.inner,
        "type_vocab_size": model.segments,
        "layer_norm_eps": model.norm.eps,
        "hidden_act": written_activation(family, model.activation),
        "hidden_dropout_prob": model.dropout,
        "attention_probs_dropout_prob": model.dropout,
        "initializer_range": model.init_std,
        "pad_token_id": tokens.pad,
    }


def expect_plain(family: str, model: BertConfig) -> None:
    """Raise ConfigError for parts that only ModernBERT has."""
    expect(family, windows=(model.windows, None), place=(model.place, "post"), bias=(model.bias, True))


def encoder_of(model: AnyBert) -> BertConfig:
    """The encoder of a model with or without heads."""
    return model.bert if isinstance(model, BertPretrainingConfig) else model


def write(model: AnyBert, tokens: GenerationTokens) -> dict[str, Any]:
    """BERT's config.json."""
    encoder = encoder_of(model)
    expect("BERT", position=(encoder.position, Learned()))
    written = write_encoder("BERT", encoder, tokens)
    if not isinstance(model, BertPretrainingConfig):
        return {"architectures": ["BertModel"], **written}
    kind = "BertForPreTraining" if model.follows else "BertForMaskedLM"
    return {"architectures": [kind], **written, "tie_word_embeddings": model.tied}


def mappings(model: AnyBert) -> list[WeightMapping]:
    """The weights; BertForMaskedLM has no place for a pooler that no head reads."""
    return mappings_under("bert.", model, left_out(model))


def mappings_under(prefix: str, model: AnyBert, left_out: tuple[str, ...]) -> list[WeightMapping]:
    """The weights of an encoder, under a prefix if it has heads; the token head's bias has two names in the file."""
    names = with_heads(prefix) if isinstance(model, BertPretrainingConfig) else ENCODER
    found = map_weights(model, names, left_out=left_out)
    return [replace(mapping, duplicated=mapping.name == "token_head.bias") for mapping in found]


def left_out(model: AnyBert) -> tuple[str, ...]:
    """The pooler, where the masked-token head is the only one."""
    return ("bert.pooler.",) if isinstance(model, BertPretrainingConfig) and not model.follows else ()


def spelled(name: str, prefix: str) -> str:
    """A tensor's name in today's spelling, with the prefix of the whole model."""
    for old, new in OLDER.items():
        name = name.replace(old, new)
    return name if name.startswith((prefix, "cls.")) else prefix + name


def canonical(name: str, model: AnyBert) -> str:
    """Today's spelling; an encoder alone has no prefix."""
    full_name = spelled(name, "bert.")
    return full_name if isinstance(model, BertPretrainingConfig) else full_name.removeprefix("bert.")


def ignored(name: str) -> bool:
    """Position ids."""
    return name.endswith("embeddings.position_ids")


def copies(model: AnyBert) -> dict[str, str]:
    """The file may hold the token head's tied matrix twice."""
    return head_copies(model, "bert.")


def head_copies(model: AnyBert, prefix: str) -> dict[str, str]:
    """The copies of a tied masked-token head over an encoder under a prefix."""
    tied = isinstance(model, BertPretrainingConfig) and model.tied
    return {"cls.predictions.decoder.weight": f"{prefix}embeddings.word_embeddings.weight"} if tied else {}


def with_all_biases(model: AnyBert) -> AnyBert:
    """Hugging Face's norms always have a bias."""
    encoder = encoder_of(model)
    assert isinstance(encoder.norm, LayerNorm)
    shifted = replace(encoder, norm=replace(encoder.norm, bias=True))
    return replace(model, bert=shifted) if isinstance(model, BertPretrainingConfig) else shifted


BERT: Family[AnyBert] = Family(
    name="bert",
    configs=(BertConfig, BertPretrainingConfig),
    exports=lambda model: not isinstance(encoder_of(model).position, Rotary) and encoder_of(model).segments > 0,
    architectures=("BertModel", "BertForPreTraining", "BertForMaskedLM"),
    read=read,
    write=write,
    mappings=mappings,
    canonical=canonical,
    ignored=ignored,
    copies=copies,
    with_all_biases=with_all_biases,
    left_out=left_out,
)
