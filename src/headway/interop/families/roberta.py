"""RoBERTa (Liu et al. 2019): BERT without next-sentence prediction, its positions counted from the padding id on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.errors import BadModelError, ConfigError
from headway.interop.config_json import FILE, ConfigFields, expect
from headway.interop.families import bert
from headway.interop.families.masked_encoder import AnyBert, EncoderNames, masked_model
from headway.interop.family import Family, GenerationTokens, Imported, Shape
from headway.models import BertPretrainingConfig
from headway.nn.positions import Learned

PAD = 1
UNUSED = PAD + 1  # rows of the file's position table before position 0
NAMES = EncoderNames(
    prefix="roberta.",
    encoder=bert.ENCODER,
    head={
        "transform": ("lm_head.dense",),
        "transform_norm": ("lm_head.layer_norm",),
        "token_head.weight": ("lm_head.decoder.weight",),
        "token_head.bias": ("lm_head.decoder.bias", "lm_head.bias"),
    },
    unused_rows=UNUSED,
)


def read(config: Mapping[str, Any], shapes: Mapping[str, Shape]) -> Imported:
    """RoBERTa's config.json as an encoder, with the masked-token head if it is there."""
    fields = ConfigFields({"pad_token_id": PAD, **config})
    fields.only(position_embedding_type="absolute", pad_token_id=PAD)
    names = {NAMES.full(name) for name in shapes}
    pooler = "roberta.pooler.dense.weight" in names
    context = fields.size("max_position_embeddings", 512) - UNUSED
    if context < 1:
        raise BadModelError(f"{FILE}: max_position_embeddings={context + UNUSED}, expected {UNUSED + 1} or more")
    fields = ConfigFields({**config, "max_position_embeddings": context})
    encoder = bert.read_encoder(fields, vocab=50265, context=context, position=Learned(), pooler=pooler)
    tokens = GenerationTokens(pad=PAD)
    if not NAMES.has_head(names):
        return Imported(model=encoder, task=None, tokens=tokens, encoder=True)
    fields.only(hidden_act="gelu")  # transformers fixes that head's activation
    return masked_model(encoder, fields, tokens)


def write(model: AnyBert, tokens: GenerationTokens) -> dict[str, Any]:
    """RoBERTa's config.json."""
    encoder, masked = bert.encoder_of(model), isinstance(model, BertPretrainingConfig)
    expect("RoBERTa", position=(encoder.position, Learned()))
    if masked:
        expect("RoBERTa's head", activation=(encoder.activation, "gelu"))
    if tokens.pad not in (None, PAD):
        raise ConfigError(f"RoBERTa counts positions from the padding id, which must be {PAD}: here it is {tokens.pad}")
    return {
        "architectures": ["RobertaForMaskedLM" if masked else "RobertaModel"],
        **bert.write_encoder("RoBERTa", encoder, tokens),
        "max_position_embeddings": encoder.context + UNUSED,
        "tie_word_embeddings": not isinstance(model, BertPretrainingConfig) or model.tied,
        "pad_token_id": PAD,
        "bos_token_id": None,
        "eos_token_id": None,
    }


ROBERTA: Family[AnyBert] = Family(
    name="roberta",
    configs=bert.BERT.configs,
    exports=lambda model: bert.encoder_of(model).segments == 1,
    architectures=("RobertaModel", "RobertaForMaskedLM"),
    read=read,
    write=write,
    mappings=NAMES.mappings,
    canonical=NAMES.canonical,
    ignored=bert.ignored,
    copies=NAMES.copies,
    with_all_biases=bert.with_all_biases,
    left_out=NAMES.left_out,
)
