"""A run's model as a folder that transformers loads with no code of ours, proven before it appears."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headway.data.tokenizers import Tokenizer
from headway.errors import ConfigError, VerificationError
from headway.interop.families import nearest
from headway.interop.families.bert import encoder_of
from headway.interop.family import Family, Tokens, given
from headway.interop.proof import Ours, Proof, compare, questions, reload, texts_agree, versions, with_transformers
from headway.interop.safetensors_writer import chunks_of
from headway.interop.tokenizer_export import AnyTask, Frame, frame_of, tokenizer_files
from headway.models import EncoderDecoderConfig, GptConfig, ModelConfig
from headway.storage import Draft, committing, discard
from headway.tasks.translation import Translation

WEIGHTS = "model.safetensors"
MOST_NEW = 256  # tokens of a translation, unless told otherwise there


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporting:
    """What is handed out: a model with its config, its task, and its tokenizers by the names of a run's files."""

    model: nn.Module
    config: ModelConfig
    task: AnyTask
    tokenizers: Mapping[str, Tokenizer]

    @property
    def source(self) -> Tokenizer:
        """The tokenizer of what the model reads."""
        return self.tokenizers.get("tokenizer-source.json") or self.tokenizers["tokenizer.json"]

    @property
    def target(self) -> Tokenizer:
        """The tokenizer of what it writes."""
        return self.tokenizers.get("tokenizer-target.json") or self.tokenizers["tokenizer.json"]


def export(what: Exporting, out: Path) -> Proof:
    """Write the folder, load it again, compare, and only then let it appear.

    Raises ConfigError naming the part that has no equivalent there, or an `out` that is not empty; VerificationError
    where what was loaded again says something else.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} exists already and is not empty; --out goes elsewhere")
    family = nearest(what.config)
    frame = replace(frame_of(what.source, what.task), tokens=frame_of(what.target, what.task).tokens)
    config = {"model_type": family.name, **family.write(what.config, frame.tokens), "dtype": "float32"}
    weights = given(family, what.config, what.model.state_dict())
    discard(out)
    with committing(out, needs=sum(x.nbytes for x in weights.values())) as draft:
        draft.json("config.json", config)
        draft.json("generation_config.json", generation_config(what, frame.tokens))
        _write_weights(draft, weights)
        for name, text in tokenizer_files(what.source, frame, what.task, _context(what.config)).items():
            draft.text(name, text)
        if what.target is not what.source:
            draft.text("tokenizer-target.json", what.target.to_json())
        proof = prove(what, family, frame, draft.folder, weights)
        draft.json("PROOF.json", proof.to_json())
        if not proof.holds:
            raise VerificationError(
                f"{out}: loaded again by {proof.reloaded_with} the model differs by {proof.largest_difference:.3g} "
                f"(allowed: {proof.bound:.3g}), tokens identical: {proof.tokens_identical}, "
                f"texts identical: {proof.texts_identical}; nothing was written"
            )
    return proof


def _write_weights(draft: Draft, weights: Mapping[str, Tensor]) -> None:
    shapes = {name: tuple(x.shape) for name, x in weights.items()}
    chunks = chunks_of(shapes, torch.float32, lambda name: weights[name].detach().cpu(), metadata={"format": "pt"})
    draft.stream(WEIGHTS, chunks)


def generation_config(what: Exporting, tokens: Tokens) -> dict[str, Any]:
    """How the model generates there unless told otherwise; a GNMT length penalty has no equivalent and is left out."""
    found: dict[str, Any] = {"bos_token_id": None, "eos_token_id": tokens.written_stop, "pad_token_id": tokens.pad}
    if isinstance(what.task, Translation):
        found |= {"decoder_start_token_id": tokens.start, "num_beams": what.task.beam, "early_stopping": True}
        found |= {"max_new_tokens": min(MOST_NEW, _context(what.config) - 1)}
        if what.task.penalty == "mean":
            found["length_penalty"] = what.task.length_penalty
    elif isinstance(what.config, GptConfig):
        found["bos_token_id"] = tokens.start
    if tokens.banned:
        found["bad_words_ids"] = [[index] for index in tokens.banned]
    return found


def prove(what: Exporting, family: Family, frame: Frame, folder: Path, weights: Mapping[str, Tensor]) -> Proof:
    """Load a folder again and ask both models the same."""
    vocab, source, segments = _vocabularies(what.config)
    asked = questions(vocab, source, _context(what.config), segments, frame.tokens)
    ours, theirs = Ours(what.model), reload(folder)
    left_out = [name for name in what.model.state_dict() if name.startswith(family.left_out(what.config))]
    figures = compare(ours, theirs, asked, some_left_out=bool(left_out))
    texts, identical = texts_agree(folder, what.source, (frame.before, frame.after))
    known, own = versions(), {name for part in family.parts(what.config) for name in part.theirs}
    by = "transformers" if with_transformers() else "headway"
    return Proof(
        family=family.name,
        reloaded_with=f"{by} {known.get(by, '')}".strip(),
        versions=known,
        compared=f"every head on a padded batch of lengths {asked.lengths.tolist()}; greedy tokens of full rows",
        texts_compared=texts,
        texts_identical=identical,
        left_out=left_out,
        zeros=len(weights.keys() - family.constants(what.config).keys() - own),
        **figures,
    )


def _context(config: ModelConfig) -> int:
    if isinstance(config, GptConfig | EncoderDecoderConfig):
        return config.context
    return encoder_of(config).context


def _vocabularies(config: ModelConfig) -> tuple[int, int, int]:
    """Of the target, of the source, and how many segments there are."""
    if isinstance(config, EncoderDecoderConfig):
        return config.vocab, config.vocab if config.source_vocab is None else config.source_vocab, 1
    if isinstance(config, GptConfig):
        return config.vocab, config.vocab, 1
    encoder = encoder_of(config)
    return encoder.vocab, encoder.vocab, encoder.segments
