"""The tensors of an encoder that may have a masked-token head: their names in a file, with the head and without."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from headway.interop.config_json import ConfigFields
from headway.interop.family import GenerationTokens, Imported, Names, WeightMapping, map_weights
from headway.models import BertConfig, BertPretrainingConfig
from headway.tasks.masked_lm.config import Masked

AnyBert = BertConfig | BertPretrainingConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderNames:
    """How a family names its tensors; an encoder alone has no prefix."""

    prefix: str
    encoder: Names
    head: Names
    unused_rows: int = 0  # of the position table, before position 0
    pooler: bool = True  # whether an encoder without a head has a pooler in the file
    words: str = "embeddings.word_embeddings.weight"  # the token embedding, to which the head may be tied

    def full(self, name: str) -> str:
        """A tensor's name as it is in a model with a head."""
        return name if name.startswith(self.prefix) or self._in_head(name) else self.prefix + name

    def _in_head(self, name: str) -> bool:
        return any(name.startswith(each) for names in self.head.values() for each in names)

    def has_head(self, names: Iterable[str]) -> bool:
        """Whether a file has the masked-token head."""
        return f"{self.head['transform'][0]}.weight" in names

    def canonical(self, name: str, model: AnyBert) -> str:
        """The name in `mappings`."""
        full = self.full(name)
        return full if isinstance(model, BertPretrainingConfig) else full.removeprefix(self.prefix)

    def left_out(self, model: AnyBert) -> tuple[str, ...]:
        """A pooler for which the file has no place, and the head that reads it."""
        if isinstance(model, BertPretrainingConfig):
            return "bert.pooler.", "follows."
        return () if self.pooler else ("pooler.",)

    def mappings(self, model: AnyBert) -> list[WeightMapping]:
        """The weights; a head's bias may have two names in the file."""
        names = self.encoder
        if isinstance(model, BertPretrainingConfig):
            names = {f"bert.{ours}": tuple(self.prefix + x for x in theirs) for ours, theirs in self.encoder.items()}
            names |= self.head
        found = []
        for mapping in map_weights(model, names, left_out=self.left_out(model)):
            unused = self.unused_rows if mapping.name.endswith("input_positions.table") else 0
            twice = mapping.name == "token_head.bias" and len(mapping.hf_names) > 1
            found.append(replace(mapping, unused_rows=unused, duplicated=twice))
        return found

    def copies(self, model: AnyBert) -> dict[str, str]:
        """The file may hold the token head's tied matrix twice."""
        tied = isinstance(model, BertPretrainingConfig) and model.tied
        return {self.head["token_head.weight"][0]: self.prefix + self.words} if tied else {}


def masked_model(encoder: BertConfig, fields: ConfigFields, tokens: GenerationTokens) -> Imported:
    """An encoder with its masked-token head, as it is imported."""
    model = BertPretrainingConfig(bert=encoder, follows=False, tied=fields.flag("tie_word_embeddings", True))
    task = Masked(length=min(encoder.context, 128), rows="running")
    return Imported(model=model, task=task, tokens=tokens, encoder=True)
