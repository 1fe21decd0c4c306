"""BART: an encoder-decoder with learned positions, whose table has two rows in front that no token reaches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headway.interop.families import seq2seq
from headway.interop.family import Family, Imported, Part, Shape, Tokens
from headway.interop.fields import Fields, expect
from headway.models import EncoderDecoderConfig, ModelConfig
from headway.nn.positions import Learned

OFFSET = 2  # rows of the position table before position 0


def read(config: Mapping[str, Any], shapes: Mapping[str, Shape]) -> Imported:
    """BART's config.json as an encoder-decoder."""
    fields = Fields(config)
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


def write(model: ModelConfig, tokens: Tokens) -> dict[str, Any]:
    """BART's config.json for an encoder-decoder with BART's parts."""
    assert isinstance(model, EncoderDecoderConfig)
    one = model.vocab if model.source_vocab is None else model.source_vocab
    expect(
        "BART",
        position=(model.position, Learned()),
        input_norm=(model.input_norm, True),
        source_vocab=(one, model.vocab),
    )
    if model.source_vocab is not None:  # theirs ties all or nothing
        expect("BART", tied=(model.tied, False))
    return {"architectures": ["BartForConditionalGeneration"], "vocab_size": model.vocab} | seq2seq.write_sizes(
        "BART", model, tokens
    )


def parts(model: ModelConfig) -> list[Part]:
    """Every tensor of the model; theirs has a shared matrix even where nothing is tied to it."""
    found = []
    for part in seq2seq.parts(model):
        if part.ours.endswith("input_positions.table"):
            part = replace(part, leading=OFFSET)
        elif f"{seq2seq.ENCODER}.weight" in part.theirs:
            theirs = (*part.theirs, "model.shared.weight")
            part = replace(part, theirs=theirs, rows=part.rows[:1] * len(theirs), repeated=True)
        found.append(part)
    return found


BART = Family(
    name="bart",
    architectures=("BartForConditionalGeneration", "BartModel"),
    read=read,
    write=write,
    parts=parts,
    canonical=seq2seq.canonical,
    ignored=lambda name: name == "model.shared.weight",
    copies=seq2seq.copies,
    full=seq2seq.full,
)
