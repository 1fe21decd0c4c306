"""Marian: the encoder-decoder of Vaswani et al. 2017 with all sines before all cosines.

transformers computes the sinusoids itself, in that order. A headway model with the paper's order (sine and cosine
interleaved) is exported with the dimensions of its residual stream permuted: matrices that read the stream have their
columns permuted, those that write to it their rows. Only the order of additions changes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch

from headway.errors import ConfigError
from headway.interop.config_json import ConfigFields, expect
from headway.interop.families import seq2seq
from headway.interop.family import Family, GenerationTokens, Imported, Shape, WeightMapping, reordered
from headway.models import EncoderDecoderConfig
from headway.nn.positions import Learned, Sinusoidal, SinusoidalHalves


def read(config: Mapping[str, Any], shapes: Mapping[str, Shape]) -> Imported:
    """Marian's config.json as an encoder-decoder."""
    fields = ConfigFields(config)
    fields.only(
        normalize_before=False, normalize_embedding=False, add_final_layer_norm=False, static_position_embeddings=True
    )
    sizes = seq2seq.read_sizes(fields)
    source, tied = fields.size("vocab_size", 58101), fields.flag("tie_word_embeddings", True)
    shared = fields.flag("share_encoder_decoder_embeddings", True)
    own = config.get("decoder_vocab_size") is not None and not (shared and tied)
    vocab = fields.size("decoder_vocab_size", source) if own else source
    model = EncoderDecoderConfig(
        **sizes,
        vocab=vocab,
        source_vocab=None if shared and tied else source,
        tied=tied,
        position=SinusoidalHalves(),
        output_bias="final_logits_bias" in shapes,
    )
    tokens = seq2seq.read_tokens(fields, vocab, pad=58100, start=58100, stop=0)
    return Imported(model=model, task=seq2seq.read_task(fields, model.context), tokens=tokens)


def write(model: EncoderDecoderConfig, tokens: GenerationTokens) -> dict[str, Any]:
    """Marian's config.json for an encoder-decoder with the paper's parts."""
    if model.position not in (Sinusoidal(), SinusoidalHalves()):
        raise ConfigError(f"Marian has no equivalent of position={model.position!r}, only of {Sinusoidal()!r}")
    expect("Marian", input_norm=(model.input_norm, False))
    return {
        "architectures": ["MarianMTModel"],
        "vocab_size": model.vocab if model.source_vocab is None else model.source_vocab,
        "decoder_vocab_size": model.vocab,
        "share_encoder_decoder_embeddings": model.source_vocab is None and model.tied,
        **seq2seq.write_sizes("Marian", model, tokens),
    }


def mappings(model: EncoderDecoderConfig) -> list[WeightMapping]:
    """The weights, if needed with the residual stream's dimensions in Marian's order."""
    found = seq2seq.mappings(model)
    if model.position != Sinusoidal():
        return found
    order = torch.cat([torch.arange(0, model.width, 2), torch.arange(1, model.width, 2)])
    return reordered(found, order, _axes)


def _axes(name: str) -> tuple[bool, bool]:
    """Whether the rows and the columns of a tensor of headway's are the residual stream's dimensions."""
    writes = re.search(r"norm\.|\.out\.|\.down\.", name) is not None
    reads = re.search(r"embedding\.|head\.weight|\.(qkv|q|kv|up)\.weight", name) is not None
    return writes, reads


def ignored(name: str) -> bool:
    """The sinusoids, which transformers stores as tensors, and a shared matrix that nothing is tied to."""
    return name.endswith("embed_positions.weight") or name == "model.shared.weight"


MARIAN = Family(
    name="marian",
    configs=(EncoderDecoderConfig,),
    exports=lambda model: not isinstance(model.position, Learned),
    generates=True,
    architectures=("MarianMTModel", "MarianModel"),
    read=read,
    write=write,
    mappings=mappings,
    canonical=seq2seq.canonical,
    ignored=ignored,
    copies=seq2seq.copies,
    with_all_biases=seq2seq.with_all_biases,
)
