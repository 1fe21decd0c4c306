"""RoFormer (Su et al. 2021): BERT with interleaved rotary positions, without a pooler or next-sentence head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from headway.interop.config_json import ConfigFields, expect
from headway.interop.families import bert
from headway.interop.families.masked_encoder import AnyBert
from headway.interop.family import Family, GenerationTokens, Imported, Shape, WeightMapping
from headway.models import BertConfig, BertPretrainingConfig
from headway.nn.positions import Rotary
from headway.ops.positions import sinusoids

POSITION = Rotary(layout="interleaved")
PREFIX = "roformer."


def read(config: Mapping[str, Any], shapes: Mapping[str, Shape]) -> Imported:
    """RoFormer's config.json as an encoder, with the masked-token head if it is there."""
    fields = ConfigFields(config)
    fields.only(rotary_value=False, embedding_size=fields.size("hidden_size", 768))
    encoder = bert.read_encoder(fields, vocab=50000, context=1536, position=POSITION, pooler=False)
    return bert.imported(fields, encoder, {bert.spelled(name, PREFIX) for name in shapes}, follows=False)


def write(model: AnyBert, tokens: GenerationTokens) -> dict[str, Any]:
    """RoFormer's config.json."""
    encoder = bert.encoder_of(model)
    expect("RoFormer", position=(encoder.position, POSITION))
    written = {
        **bert.write_encoder("RoFormer", encoder, tokens),
        "embedding_size": encoder.width,
        "rotary_value": False,
    }
    if not isinstance(model, BertPretrainingConfig):
        return {"architectures": ["RoFormerModel"], **written}
    return {"architectures": ["RoFormerForMaskedLM"], **written, "tie_word_embeddings": model.tied}


def mappings(model: AnyBert) -> list[WeightMapping]:
    """The weights but those RoFormer has no place for."""
    return bert.mappings_under(PREFIX, model, left_out(model))


def left_out(model: AnyBert) -> tuple[str, ...]:
    """The pooler and the head that reads it."""
    return ("bert.pooler.", "follows.") if isinstance(model, BertPretrainingConfig) else ("pooler.",)


def canonical(name: str, model: AnyBert) -> str:
    """Today's spelling; an encoder alone has no prefix."""
    full_name = bert.spelled(name, PREFIX)
    return full_name if isinstance(model, BertPretrainingConfig) else full_name.removeprefix(PREFIX)


def ignored(name: str) -> bool:
    """The sines and cosines of the angles."""
    return name.endswith("encoder.embed_positions.weight")


def constants(model: AnyBert) -> dict[str, Tensor]:
    """The sines and cosines of the angles (T, E)."""
    encoder = bert.encoder_of(model)
    table = sinusoids(torch.arange(encoder.context), encoder.width // encoder.heads, "halves")
    prefix = PREFIX if isinstance(model, BertPretrainingConfig) else ""
    return {f"{prefix}encoder.embed_positions.weight": table}


def copies(model: AnyBert) -> dict[str, str]:
    """The file may hold the token head's tied matrix twice."""
    return bert.head_copies(model, PREFIX)


ROFORMER: Family[AnyBert] = Family(
    name="roformer",
    configs=(BertConfig, BertPretrainingConfig),
    exports=lambda model: isinstance(bert.encoder_of(model).position, Rotary) and bert.encoder_of(model).segments > 0,
    architectures=("RoFormerModel", "RoFormerForMaskedLM"),
    read=read,
    write=write,
    mappings=mappings,
    canonical=canonical,
    ignored=ignored,
    copies=copies,
    with_all_biases=bert.with_all_biases,
    constants=constants,
    left_out=left_out,
)
