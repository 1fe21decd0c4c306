"""What Marian and BART have in common: the names of an encoder-decoder's tensors, its sizes, its shared matrices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headway.errors import BadModelError, ConfigError
from headway.interop.config_json import ACTIVATIONS, FILE, ConfigFields, expect, written_activation
from headway.interop.family import GenerationTokens, Names, WeightMapping, map_weights
from headway.models import EncoderDecoderConfig
from headway.nn.norms import LayerNorm
from headway.tasks.translation.config import Translation

EPS = 1e-5  # of every norm; no field says so
ENCODER, DECODER = "model.encoder.embed_tokens", "model.decoder.embed_tokens"


def _stack(side: str) -> Names:
    ours, theirs = f"{side}.blocks.{{i}}.", f"model.{side}.layers.{{i}}."
    return {
        f"{side}.input_positions.table": (f"model.{side}.embed_positions.weight",),
        f"{side}.input_norm": (f"model.{side}.layernorm_embedding",),
        ours + "attention.qkv": tuple(f"{theirs}self_attn.{x}_proj" for x in "qkv"),
        ours + "attention.out": (theirs + "self_attn.out_proj",),
        ours + "attention_norm": (theirs + "self_attn_layer_norm",),
        ours + "feedforward.up": (theirs + "fc1",),
        ours + "feedforward.down": (theirs + "fc2",),
        ours + "feedforward_norm": (theirs + "final_layer_norm",),
    }


_CROSS = "model.decoder.layers.{i}.encoder_attn"
NAMES: Names = {
    **_stack("encoder"),
    **_stack("decoder"),
    "decoder.blocks.{i}.cross.q": (_CROSS + ".q_proj",),
    "decoder.blocks.{i}.cross.kv": (_CROSS + ".k_proj", _CROSS + ".v_proj"),
    "decoder.blocks.{i}.cross.out": (_CROSS + ".out_proj",),
    "decoder.blocks.{i}.cross_norm": (_CROSS + "_layer_norm",),
    "head.weight": ("lm_head.weight",),
    "head.bias": ("final_logits_bias",),
}


def mappings(model: EncoderDecoderConfig) -> list[WeightMapping]:
    """The weights. One matrix for both texts and the output is `shared`; else each has its own."""
    one = model.source_vocab is None
    if one and model.tied:
        tables: Names = {"target_embedding": ("model.shared",)}
    elif one:  # transformers ties all matrices or none
        tables = {"target_embedding": (DECODER, ENCODER)}
    else:
        tables = {"target_embedding": (DECODER,), "source_embedding": (ENCODER,)}
    found = []
    for mapping in map_weights(model, {**NAMES, **tables}):
        duplicated = mapping.name == "target_embedding.weight" and len(mapping.hf_names) > 1
        found.append(replace(mapping, unit_axes=int(mapping.name == "head.bias"), duplicated=duplicated))
    return found


def copies(model: EncoderDecoderConfig) -> dict[str, str]:
    """The file may hold a shared or tied matrix under its other names, too."""
    if not model.tied:
        return {}
    if model.source_vocab is None:
        return {f"{name}.weight": "model.shared.weight" for name in (ENCODER, DECODER, "lm_head")}
    return {"lm_head.weight": f"{DECODER}.weight"}


def canonical(name: str, model: EncoderDecoderConfig) -> str:
    """A file of the model without its head leaves `model.` out."""
    return name if name.startswith(("model.", "lm_head.", "final_logits_bias")) else f"model.{name}"


def with_all_biases(model: EncoderDecoderConfig) -> EncoderDecoderConfig:
    """Hugging Face's norms, linear layers and output always have a bias."""
    assert isinstance(model.norm, LayerNorm)
    return replace(model, norm=replace(model.norm, bias=True), bias=True, output_bias=True)


def read_sizes(fields: ConfigFields) -> dict[str, Any]:
    """The settings both config.json have alike; both sides of the model must agree."""
    fields.only(is_encoder_decoder=True, is_decoder=False, add_bias_logits=False, extra_pos_embeddings=None)
    width = fields.size("d_model", 1024)
    found: dict[str, Any] = {
        "width": width,
        "encoder_layers": fields.layers("encoder_layers", 12),
        "decoder_layers": fields.layers("decoder_layers", 12),
        "heads": fields.heads("encoder_attention_heads", 16, width, "d_model"),
        "inner": fields.size("encoder_ffn_dim", 4096),
        "context": fields.size("max_position_embeddings", 1024),
        "activation": fields.choice("activation_function", "gelu", ACTIVATIONS),
        "norm": LayerNorm(eps=EPS),
        "scaled": fields.flag("scale_embedding", False),
        "dropout": fields.probability("dropout", 0.1),
        "attention_dropout": fields.probability("attention_dropout", 0.0),
        "activation_dropout": fields.probability("activation_dropout", 0.0),
    }
    for ours, name, default in (("heads", "decoder_attention_heads", 16), ("inner", "decoder_ffn_dim", 4096)):
        if fields.size(name, default) != found[ours]:
            other = name.replace("decoder", "encoder")
            raise BadModelError(
                f"{FILE}: {name}={fields.size(name, default)} beside {other}={found[ours]}: only equal ones here"
            )
    return found


def read_tokens(fields: ConfigFields, vocab: int, *, pad: int, start: int, stop: int) -> GenerationTokens:
    """The ids that steer generation, beginning with their defaults; padding is never written where a file bans it."""
    padding = fields.id("pad_token_id", pad if pad < vocab else None, vocab)
    banned = fields.config.get("bad_words_ids") or []
    if not isinstance(banned, list) or not all(isinstance(words, list) and len(words) == 1 for words in banned):
        raise BadModelError(f"{FILE}: bad_words_ids={banned!r}, expected a list of lists of one id")
    return GenerationTokens(
        start=fields.id("decoder_start_token_id", start if start < vocab else None, vocab),
        stop=fields.ids("eos_token_id", stop if stop < vocab else None, vocab),
        pad=padding,
        banned=tuple(ConfigFields({"bad_words_ids": words}).ids("bad_words_ids", None, vocab)[0] for words in banned),
    )


def read_task(fields: ConfigFields, context: int) -> Translation:
    """The default decoding settings of the model; scores are divided by length to a power, as in fairseq."""
    beam, power = fields.size("num_beams", 1, most=1024), fields.number("length_penalty", 1.0)
    return Translation(max_length=context, beam=beam, length_penalty=power, penalty="mean")


def write_sizes(family: str, model: EncoderDecoderConfig, tokens: GenerationTokens) -> dict[str, Any]:
    """The settings both config.json have alike."""
    if not isinstance(model.norm, LayerNorm):
        raise ConfigError(f"{family} has no equivalent of norm={model.norm!r}, only of LayerNorm")
    expect(
        family,
        place=(model.place, "post"),
        head_dim=(model.head_dim, None),
        scale=(model.scale, None),
        **{"norm.eps": (model.norm.eps, EPS)},
    )
    return {
        "d_model": model.width,
        "encoder_layers": model.encoder_layers,
        "decoder_layers": model.decoder_layers,
        "encoder_attention_heads": model.heads,
        "decoder_attention_heads": model.heads,
        "encoder_ffn_dim": model.inner,
        "decoder_ffn_dim": model.inner,
        "max_position_embeddings": model.context,
        "activation_function": written_activation(family, model.activation),
        "scale_embedding": model.scaled,
        "dropout": model.dropout,
        "attention_dropout": model.attention_dropout,
        "activation_dropout": model.activation_dropout,
        "is_encoder_decoder": True,
        "tie_word_embeddings": model.tied,
        "decoder_start_token_id": tokens.start,
        "bos_token_id": None,
        "eos_token_id": tokens.eos_token_id,
        "forced_eos_token_id": None,
        "pad_token_id": tokens.pad,
    }
