"""Marian: the 2017 encoder-decoder with its sines before its cosines.

transformers computes the sinusoids itself, in that order. A model of ours that has them in the paper's order, sine
beside cosine, is handed out with the dimensions of its stream in another order: every matrix that reads the stream has
its columns moved, every one that writes to it its rows. Only the order of additions changes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch

from headway.errors import ConfigError
from headway.interop.families import seq2seq
from headway.interop.family import Family, Imported, Part, Shape, Tokens, reordered
from headway.interop.fields import Fields, expect
from headway.models import EncoderDecoderConfig, ModelConfig
from headway.nn.positions import Sinusoidal, SinusoidalHalves


def read(config: Mapping[str, Any], shapes: Mapping[str, Shape]) -> Imported:
    """Marian's config.json as an encoder-decoder."""
    fields = Fields(config)
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


def write(model: ModelConfig, tokens: Tokens) -> dict[str, Any]:
    """Marian's config.json for an encoder-decoder with the paper's parts."""
    assert isinstance(model, EncoderDecoderConfig)
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


def parts(model: ModelConfig) -> list[Part]:
    """Every tensor of the model, where needed with the stream's dimensions in Marian's order."""
    assert isinstance(model, EncoderDecoderConfig)
    found = seq2seq.parts(model)
    if model.position != Sinusoidal():
        return found
    order = torch.cat([torch.arange(0, model.width, 2), torch.arange(1, model.width, 2)])
    return reordered(found, order, _axes)


def _axes(name: str) -> tuple[bool, bool]:
    """Whether the rows and the columns of a tensor of ours are the stream's dimensions."""
    writes = re.search(r"norm\.|\.out\.|\.down\.", name) is not None
    reads = re.search(r"embedding\.|head\.weight|\.(qkv|q|kv|up)\.weight", name) is not None
    return writes, reads


def ignored(name: str) -> bool:
    """The sinusoids, which transformers keeps as tensors, and a shared matrix that nothing is tied to."""
    return name.endswith("embed_positions.weight") or name == "model.shared.weight"


MARIAN = Family(
    name="marian",
    architectures=("MarianMTModel", "MarianModel"),
    read=read,
    write=write,
    parts=parts,
    canonical=seq2seq.canonical,
    ignored=ignored,
    copies=seq2seq.copies,
    full=seq2seq.full,
)
