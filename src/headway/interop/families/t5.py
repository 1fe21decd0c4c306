"""T5 (Raffel et al. 2020): an encoder-decoder with learned biases by distance, RMSNorm before each part, no biases.

Version 1.1 gates its feed-forward network and has an output matrix of its own. A tied output reads the decoder's
vectors divided by √D; headway has that factor in the gain of the decoder's last norm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headway.errors import BadModelError, ConfigError
from headway.interop.config_json import FILE, ConfigFields, expect
from headway.interop.families import seq2seq
from headway.interop.family import Family, GenerationTokens, Imported, Names, Shape, WeightMapping, map_weights
from headway.models import EncoderDecoderConfig
from headway.nn import positions
from headway.nn.feedforward import Activation
from headway.nn.norms import RMSNorm

ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "silu": "silu", "gated-gelu": "geglu_tanh",
    "gated-gelu_new": "geglu_tanh", "gated-silu": "swiglu",
}  # fmt: skip
WRITTEN = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
GATED = ("geglu_tanh", "swiglu")


def _names(activation: Activation) -> Names:
    names: dict[str, tuple[str, ...]] = {"target_embedding": ("shared",), "head": ("lm_head",)}
    for side, last in (("encoder", 1), ("decoder", 2)):
        ours, theirs = f"{side}.blocks.{{i}}.", f"{side}.block.{{i}}."
        inner = f"{theirs}layer.{last}.DenseReluDense."
        bias = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        names |= {
            f"{side}.attention_positions.table": (bias,),
            f"{ours}attention.qkv": tuple(f"{theirs}layer.0.SelfAttention.{x}" for x in "qkv"),
            f"{ours}attention.out": (f"{theirs}layer.0.SelfAttention.o",),
            f"{ours}attention_norm": (f"{theirs}layer.0.layer_norm",),
            f"{ours}feedforward.up": (f"{inner}wi_0", f"{inner}wi_1") if activation in GATED else (f"{inner}wi",),
            f"{ours}feedforward.down": (f"{inner}wo",),
            f"{ours}feedforward_norm": (f"{theirs}layer.{last}.layer_norm",),
            f"{side}.output_norm": (f"{side}.final_layer_norm",),
        }
    cross = "decoder.block.{i}.layer.1."
    return names | {
        "decoder.blocks.{i}.cross.q": (f"{cross}EncDecAttention.q",),
        "decoder.blocks.{i}.cross.kv": (f"{cross}EncDecAttention.k", f"{cross}EncDecAttention.v"),
        "decoder.blocks.{i}.cross.out": (f"{cross}EncDecAttention.o",),
        "decoder.blocks.{i}.cross_norm": (f"{cross}layer_norm",),
    }


def read(config: Mapping[str, Any], shapes: Mapping[str, Shape]) -> Imported:
    """T5's config.json as an encoder-decoder."""
    fields = ConfigFields(config)
    fields.only(is_encoder_decoder=True, is_decoder=False)
    vocab, width, heads = fields.size("vocab_size", 32128), fields.size("d_model", 512), fields.size("num_heads", 8)
    head_dim, layers = fields.size("d_kv", 64), fields.layers("num_layers", 6)
    both, rate = fields.present("num_decoder_layers"), fields.probability("dropout_rate", 0.1)
    rates: dict[str, Any] = dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), rate)
    # Version 1.1 says tie_word_embeddings=false; recent files always say true, and this beside it.
    tied = fields.flag("scale_decoder_outputs", fields.flag("tie_word_embeddings", True))
    if not tied and "lm_head.weight" not in shapes:
        raise BadModelError(f"{FILE}: scale_decoder_outputs=false without lm_head.weight has no equivalent here")
    model = EncoderDecoderConfig(
        vocab=vocab,
        context=fields.size("n_positions", 512),  # tokens it was trained on; its positions have no end
        width=width,
        encoder_layers=layers,
        decoder_layers=fields.layers("num_decoder_layers", layers) if both else layers,
        heads=heads,
        head_dim=None if heads * head_dim == width else head_dim,
        inner=fields.size("d_ff", 2048),
        position=positions.T5(
            buckets=fields.size("relative_attention_num_buckets", 32, most=2**16),
            distance=fields.size("relative_attention_max_distance", 128, most=2**16),
        ),
        norm=RMSNorm(eps=fields.number("layer_norm_epsilon", 1e-6, above=0)),
        place="pre",
        scale=1.0,
        activation=fields.choice("feed_forward_proj", "relu", ACTIVATIONS),
        bias=False,
        **rates,
        tied=tied,
        scaled=False,
    )
    tokens = seq2seq.read_tokens(fields, vocab, pad=0, start=0, stop=1)
    return Imported(model=model, task=seq2seq.read_task(fields, model.context), tokens=tokens)


def write(model: EncoderDecoderConfig, tokens: GenerationTokens) -> dict[str, Any]:
    """T5's config.json for an encoder-decoder with T5's parts."""
    if not isinstance(model.position, positions.T5) or not isinstance(model.norm, RMSNorm):
        raise ConfigError(f"T5 has no equivalent of norm={model.norm!r}, only of RMSNorm")
    if model.activation not in WRITTEN:
        raise ConfigError(f"T5 has no equivalent of activation={model.activation!r}, only of {', '.join(WRITTEN)}")
    wanted = {"place": "pre", "scale": 1.0, "source_vocab": None}
    wanted |= dict.fromkeys(("bias", "scaled", "input_norm", "output_bias"), False)
    expect("T5", **{name: (getattr(model, name), value) for name, value in wanted.items()})
    expect("T5", **{"norm.centred": (model.norm.centred, False)})
    return {
        "architectures": ["T5ForConditionalGeneration"],
        "vocab_size": model.vocab,
        **{"d_model": model.width, "d_ff": model.inner, "n_positions": model.context},
        "d_kv": model.encoder.block.attention.head_width,
        **{"num_layers": model.encoder_layers, "num_decoder_layers": model.decoder_layers, "num_heads": model.heads},
        "relative_attention_num_buckets": model.position.buckets,
        "relative_attention_max_distance": model.position.distance,
        "layer_norm_epsilon": model.norm.eps,
        "feed_forward_proj": WRITTEN[model.activation],
        "dropout_rate": model.dropout,
        "is_encoder_decoder": True,
        **dict.fromkeys(("tie_word_embeddings", "scale_decoder_outputs"), model.tied),
        "decoder_start_token_id": tokens.start,
        "eos_token_id": tokens.eos_token_id,
        "pad_token_id": tokens.pad,
    }


def mappings(model: EncoderDecoderConfig) -> list[WeightMapping]:
    """The weights: tables of biases transposed, and √D in the decoder's last norm where the output is tied."""
    found = []
    for mapping in map_weights(model, _names(model.activation), transposed=lambda name: "attention_bias" in name):
        scaled = model.tied and mapping.name == "decoder.output_norm.weight"
        found.append(replace(mapping, factor=model.width**-0.5) if scaled else mapping)
    return found


def copies(model: EncoderDecoderConfig) -> dict[str, str]:
    """The file may hold the shared matrix under its other names, too."""
    names = ("encoder.embed_tokens", "decoder.embed_tokens", *(["lm_head"] if model.tied else []))
    return {f"{name}.weight": "shared.weight" for name in names}


T5 = Family(
    name="t5",
    configs=(EncoderDecoderConfig,),
    exports=lambda model: isinstance(model.position, positions.T5),
    generates=True,
    architectures=("T5ForConditionalGeneration", "T5Model"),
    read=read,
    write=write,
    mappings=mappings,
    # A table that early files have and no layer uses.
    ignored=lambda name: name.endswith("EncDecAttention.relative_attention_bias.weight"),
    copies=copies,
)
