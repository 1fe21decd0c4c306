"""BART: an encoder-decoder with learned positions, whose table begins with two rows that no token reaches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headway.interop.config_json import ConfigFields, expect
from headway.interop.families import seq2seq
from headway.interop.family import Family, GenerationTokens, Imported, Shape, WeightMapping
from headway.models import EncoderDecoderConfig
from headway.nn.positions import Learned

OFFSET = 2  # rows of the position table before position 0


def read(config: Mapping[str, Any], shapes: Mapping[str, Shape]) -> Imported:
    """BART's config.json as an encoder-decoder."""
    fields = ConfigFields(config)
    fields.only(
        normalize_before=False, normalize_embedding=True, add_final_layer_norm=False, static_position_embeddings=False
    )
    sizes = seq2seq.read_sizes(fields)
    vocab, tied = fields.size("vocab_size", 50265), fields.flag("tie_word_embeddings", True)
    model = EncoderDecoderConfig(
        **sizes,
        vocab=vocab,
        source_vocab=None if tied else vocab,
        tied=tied,
        position=Learned(),
        input_norm=True,
        output_bias="final_logits_bias" in shapes,
    )
    tokens = seq2seq.read_tokens(fields, vocab, pad=1, start=2, stop=2)
    return Imported(model=model, task=seq2seq.read_task(fields, model.context), tokens=tokens)


def write(model: EncoderDecoderConfig, tokens: GenerationTokens) -> dict[str, Any]:
    """BART's config.json for an encoder-decoder with BART's parts."""
    one = model.vocab if model.source_vocab is None else model.source_vocab
    expect(
        "BART",
        position=(model.position, Learned()),
        input_norm=(model.input_norm, True),
        source_vocab=(one, model.vocab),
    )
    if model.source_vocab is not None:  # BART ties all matrices or none
        expect("BART", tied=(model.tied, False))
    return {"architectures": ["BartForConditionalGeneration"], "vocab_size": model.vocab} | seq2seq.write_sizes(
        "BART", model, tokens
    )


def mappings(model: EncoderDecoderConfig) -> list[WeightMapping]:
    """The weights; BART files have a shared matrix even if nothing is tied to it."""
    found = []
    for mapping in seq2seq.mappings(model):
        if mapping.name.endswith("input_positions.table"):
            mapping = replace(mapping, unused_rows=OFFSET)
        elif f"{seq2seq.ENCODER}.weight" in mapping.hf_names:
            names = (*mapping.hf_names, "model.shared.weight")
            mapping = replace(mapping, hf_names=names, rows=mapping.rows[:1] * len(names), duplicated=True)
        found.append(mapping)
    return found


BART = Family(
    name="bart",
    configs=(EncoderDecoderConfig,),
    exports=lambda model: isinstance(model.position, Learned),
    generates=True,
    architectures=("BartForConditionalGeneration", "BartModel"),
    read=read,
    write=write,
    mappings=mappings,
    canonical=seq2seq.canonical,
    ignored=lambda name: name == "model.shared.weight",
    copies=seq2seq.copies,
    with_all_biases=seq2seq.with_all_biases,
)
