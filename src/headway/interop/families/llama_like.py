"""What Llama, Mistral, Qwen and Gemma have in common; a `Dialect` is a table of what is different in one of them.

They are decoders with RMSNorm, rotary positions in halves, a gated feed-forward network and grouped keys and values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from headway.errors import ConfigError
from headway.interop.config_json import ConfigFields, expect
from headway.interop.families.layer_types import read_bases, slides_of, windows_of, write_bases
from headway.interop.families.llama_weights import canonical, mappings
from headway.interop.family import Family, GenerationTokens, Imported
from headway.models import GptConfig
from headway.nn.feedforward import Activation
from headway.nn.norms import RMSNorm
from headway.nn.positions import Rotary
from headway.tasks.language_modelling.config import Language

BIASES = ("qkv_bias", "out_bias", "bias")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The names, defaults and parts of one family; those here are Llama's."""

    name: str  # config.json's model_type
    title: str  # in messages
    architectures: tuple[str, ...]
    exports: Callable[[GptConfig], bool]
    defaults: Mapping[str, Any]  # of config.json's fields, as transformers has them
    activation: Activation = "swiglu"
    activation_names: tuple[str, ...] = ("silu",)  # of the gate in config.json; the first is written
    activation_field: str = "hidden_act"
    biases: tuple[str | bool, str | bool, str | bool] = (
        "attention_bias",
        "attention_bias",
        "mlp_bias",
    )  # qkv, out, mlp
    # Which layers, given their number, have a window of `sliding_window` tokens, by config.json; None: no layer.
    slides: Callable[[ConfigFields, int], list[bool]] | None = None
    write_slides: Callable[[list[bool]], dict[str, Any]] = lambda slides: {}
    local_base: float | None = None  # default rotary base of layers with a window; None: that of the others
    centred: bool = False  # norms multiply by 1 + weight
    scaled: bool = False  # embeddings are multiplied by √D
    qk_norm: bool = False
    place: Literal["pre", "sandwich"] = "pre"
    scale_field: str | None = (
        None  # of the number whose inverse root multiplies the scores; None: the features of a head
    )
    only: Mapping[str, Any] = field(default_factory=dict)  # fields that change the computation -> the value supported


def family(dialect: Dialect) -> Family[GptConfig]:
    """The family of a dialect."""
    return Family(
        name=dialect.name,
        configs=(GptConfig,),
        exports=lambda model: isinstance(model.position, Rotary) and dialect.exports(model),
        generates=True,
        architectures=dialect.architectures,
        read=lambda config, shapes: _read(dialect, config),
        write=lambda model, tokens: _write(dialect, model, tokens),
        mappings=mappings,
        canonical=canonical,
        ignored=lambda name: name.endswith(".rotary_emb.inv_freq"),  # which older files store
        copies=lambda model: {"lm_head.weight": "model.embed_tokens.weight"} if model.tied else {},
    )


def _read(dialect: Dialect, config: Mapping[str, Any]) -> Imported:
    fields = ConfigFields({**dialect.defaults, **config})
    fields.only(**dialect.only)
    fields.choice(dialect.activation_field, dialect.activation_names[0], dict.fromkeys(dialect.activation_names))
    qkv, out, mlp = (fields.flag(each, False) if isinstance(each, str) else each for each in dialect.biases)
    vocab, width, heads = (fields.size(name) for name in ("vocab_size", "hidden_size", "num_attention_heads"))
    free = fields.present("head_dim")
    head_dim = (
        fields.size("head_dim") if free else width // fields.heads("num_attention_heads", 1, width, "hidden_size")
    )
    grouped = fields.present("num_key_value_heads")
    groups = fields.heads("num_key_value_heads", 1, heads, "num_attention_heads") if grouped else heads
    context, layers = fields.size("max_position_embeddings"), fields.layers("num_hidden_layers")
    slides = [False] * layers if dialect.slides is None else dialect.slides(fields, layers)
    radius = fields.integer("sliding_window", least=2) - 1 if any(slides) else 0  # a token counts itself there
    scalar = head_dim if dialect.scale_field is None else fields.number(dialect.scale_field, above=0)
    model = GptConfig(
        vocab=vocab,
        context=context,
        width=width,
        layers=layers,
        heads=heads,
        kv_heads=None if groups == heads else groups,
        head_dim=None if head_dim * heads == width else head_dim,
        inner=fields.size("intermediate_size"),
        position=Rotary(base=read_bases(fields, slides, dialect.local_base), layout="halves"),
        windows=windows_of(slides, radius),
        norm=RMSNorm(eps=fields.number("rms_norm_eps", 1e-6, above=0), centred=dialect.centred),
        place=dialect.place,
        qk_norm=dialect.qk_norm,
        scale=None if scalar == head_dim else scalar**-0.5,
        activation=dialect.activation,
        bias=mlp,
        qkv_bias=None if qkv == mlp else qkv,
        out_bias=None if out == mlp else out,
        tied=fields.flag("tie_word_embeddings", False),
        scaled=dialect.scaled,
    )
    tokens = GenerationTokens(
        start=fields.id("bos_token_id", None, vocab),
        stop=fields.ids("eos_token_id", None, vocab),
        pad=fields.id("pad_token_id", None, vocab),
    )
    return Imported(model=model, task=Language(context=context), tokens=tokens)


def _write(dialect: Dialect, model: GptConfig, tokens: GenerationTokens) -> dict[str, Any]:
    """The config.json of a decoder that has this dialect's parts. Raises ConfigError for any other part."""
    title, attention = dialect.title, model.stack.block.attention
    slides, radius = slides_of(title, model.windows, model.layers)
    if not isinstance(model.position, Rotary) or not isinstance(model.norm, RMSNorm):
        raise ConfigError(f"{title} has no equivalent of norm={model.norm!r}, only of RMSNorm")
    if dialect.slides is None:
        expect(title, windows=(model.windows, None))
    for name in ("activation", "scaled", "place", "qk_norm"):
        expect(title, **{name: (getattr(model, name), getattr(dialect, name))})
    expect(title, **{"norm.centred": (model.norm.centred, dialect.centred)})
    biases: dict[str, bool] = {}
    for name, known in zip(BIASES, dialect.biases, strict=True):
        given = model.bias if getattr(model, name) is None else getattr(model, name)
        expect(title, **{name: (given, biases.setdefault(known, given) if isinstance(known, str) else known)})
    scalar = attention.head_width if model.scale is None else model.scale**-2
    expect(title, scale=(model.scale, None if dialect.scale_field is None else round(scalar) ** -0.5))
    return {
        "architectures": [dialect.architectures[0]],
        "vocab_size": model.vocab,
        "hidden_size": model.width,
        "intermediate_size": 4 * model.width if model.inner is None else model.inner,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": attention.groups,
        "head_dim": attention.head_width,
        dialect.activation_field: dialect.activation_names[0],
        "max_position_embeddings": model.context,
        "initializer_range": model.init_std,
        "rms_norm_eps": model.norm.eps,
        **write_bases(title, model.position, slides, dialect.local_base),
        **({"sliding_window": radius + 1} if any(slides) else {}),
        **dialect.write_slides(slides),
        **biases,
        **({} if dialect.scale_field is None else {dialect.scale_field: round(scalar)}),
        "attention_dropout": model.dropout,
        "tie_word_embeddings": model.tied,
        "bos_token_id": tokens.start,
        "eos_token_id": tokens.eos_token_id,
        "pad_token_id": tokens.pad,
    }
