"""Two sides that are asked the same: a model of ours, and what transformers made of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from headway.interop.family import Tokens
from headway.models import (
    Bert,
    EncoderDecoder,
    Longformer,
    LongformerMasked,
    ModelConfig,
    Source,
    VitConfig,
)
from headway.models.bert import PretrainingLogits

ROWS, LONGEST, NEW = 3, 12, 32  # rows of a padded batch, tokens of its longest row, tokens that are generated


@dataclass(frozen=True, slots=True)
class Questions:
    """What both sides are asked: padded rows of token ids, or images, and what generation has to heed."""

    source: Tensor  # (B, S)
    target: Tensor  # (B, S), a decoder's input
    segments: Tensor  # (B, S)
    lengths: Tensor  # (B,), of all three
    tokens: Tokens
    new: int
    images: Tensor | None = None  # (B, C, height, width)

    @property
    def real(self) -> Tensor:
        """(B, S), True where a token is not padding."""
        return torch.arange(self.source.shape[1]) < self.lengths.unsqueeze(1)

    @property
    def first(self) -> Tensor:
        """(B, S), True at the first token, which is the global one where a model has such."""
        return (torch.arange(self.source.shape[1]) == 0).expand(self.source.shape)


def questions(config: ModelConfig, tokens: Tokens) -> Questions:
    """Three rows of different lengths, always the same, that leave room to go on; or three images."""
    random = torch.Generator().manual_seed(0)
    if isinstance(config, VitConfig):
        images, none = torch.randn(ROWS, config.channels, *config.size, generator=random), torch.zeros(ROWS, 1).long()
        return Questions(none, none, none, torch.ones(ROWS).long(), tokens, 0, images)
    vocab, source_vocab, segments = vocabularies(config)
    context = context_of(config)
    longest = max(min(LONGEST, context // 2), 1)

    def rows(size: int) -> Tensor:
        drawn = torch.randint(size, (ROWS, longest), generator=random)
        return drawn if tokens.pad is None else drawn.masked_fill(drawn == tokens.pad, (tokens.pad + 1) % size)

    lengths = torch.tensor([longest, max(longest // 2, 1), max(longest - 1, 1)])
    new = min(NEW, context - longest)
    which = torch.randint(segments, (ROWS, longest), generator=random)
    return Questions(rows(source_vocab), rows(vocab), which, lengths, tokens, new)


def context_of(config: ModelConfig) -> int:
    """The longest text a model is made for; an image is one."""
    sized: Any = getattr(config, "bert", getattr(config, "longformer", config))
    return int(getattr(sized, "context", 1))


def vocabularies(config: ModelConfig) -> tuple[int, int, int]:
    """Of what a model writes, of what it reads, and how many segments there are."""
    sized: Any = getattr(config, "bert", getattr(config, "longformer", config))
    source = getattr(sized, "source_vocab", None)
    return sized.vocab, sized.vocab if source is None else source, getattr(sized, "segments", 1)


def pooled_by(model: nn.Module) -> Callable[[Tensor], Tensor] | None:
    """An encoder's pooler, (B, T, D) -> (B, D); None where it has none."""
    return model.pool if isinstance(model, Bert | Longformer) and model.pooler is not None else None


class Side(Protocol):
    """A model that can be asked."""

    def logits(self, asked: Questions) -> list[Tensor]:
        """What each of its heads says of the padded rows, padding left out."""
        ...

    def words(self, asked: Questions) -> Tensor | None:
        """The greedy continuation of each row, whole rows, never stopping (B, N); None where it does not generate."""
        ...


class Ours:
    """A model of headway's."""

    def __init__(self, model: nn.Module) -> None:
        self.model: Any = model
        self.heard: list[Tensor] = []  # the logits (B, V) each word was the best of

    @torch.no_grad()
    def logits(self, asked: Questions) -> list[Tensor]:
        real = asked.real
        if asked.images is not None:
            return [self.model(asked.images)]
        if isinstance(self.model, EncoderDecoder):
            return [self.model(asked.source, asked.target, asked.lengths, asked.lengths)[real]]
        if hasattr(self.model, "extend"):
            return [self.model(asked.source, asked.lengths)[real]]
        first = {"global_BT": asked.first} if isinstance(self.model, Longformer | LongformerMasked) else {}
        found = self.model(asked.source, asked.lengths, segments_BT=asked.segments, **first)
        if isinstance(found, PretrainingLogits):
            return [found.tokens[real]] + ([] if found.follows is None else [found.follows])
        pooler = pooled_by(self.model)
        return [found[real]] + ([] if pooler is None else [pooler(found)])

    @torch.no_grad()
    def words(self, asked: Questions) -> Tensor | None:
        if not hasattr(self.model, "extend"):
            return None
        if isinstance(self.model, EncoderDecoder):
            state: Any = self.model.start(Source(asked.source, None))
            fed = torch.full((len(asked.source), 1), asked.tokens.start or 0)
        else:
            state, fed = self.model.start(), asked.source
        said, never = [], [*asked.tokens.stop, *asked.tokens.banned]
        for _ in range(asked.new):
            logits, state = self.model.extend(fed, state)
            last = logits[:, -1].clone()
            last[:, never] = -torch.inf
            self.heard.append(last)
            fed = last.argmax(-1, keepdim=True)
            said.append(fed)
        return torch.cat(said, 1)


class Theirs:
    """A model of transformers'."""

    def __init__(self, model: Any) -> None:
        self.model = model

    @torch.no_grad()
    def logits(self, asked: Questions) -> list[Tensor]:
        real, mask = asked.real, asked.real.long()
        if asked.images is not None:
            return [self.model(pixel_values=asked.images).logits]
        if self.model.config.is_encoder_decoder:
            target = {"decoder_input_ids": asked.target, "decoder_attention_mask": mask}
            return [self.model(asked.source, attention_mask=mask, **target).logits[real]]
        if self.model.can_generate():
            return [self.model(asked.source, attention_mask=mask).logits[real]]
        windowed = self.model.config.model_type == "longformer"
        first = {"global_attention_mask": asked.first.long()} if windowed else {}
        found = self.model(asked.source, attention_mask=mask, token_type_ids=asked.segments, **first)
        heads = ("prediction_logits", "seq_relationship_logits", "logits", "last_hidden_state", "pooler_output")
        outputs = [getattr(found, name) for name in heads if getattr(found, name, None) is not None]
        return [outputs[0][real], *outputs[1:]]

    @torch.no_grad()
    def words(self, asked: Questions) -> Tensor | None:
        if not self.model.can_generate():
            return None
        self.model.generation_config.forced_eos_token_id = None
        self.model.generation_config.max_length = None
        mask = torch.ones_like(asked.source)
        settings = {"do_sample": False, "num_beams": 1, "max_new_tokens": asked.new, "min_new_tokens": asked.new}
        said: Tensor = self.model.generate(asked.source, attention_mask=mask, **settings)
        return said[:, -asked.new :]


def as_ours(side: Ours | Theirs) -> Callable[..., Any]:
    """A side's model to be called as ours is, with rows that are not padded; of several heads the first answers."""
    if isinstance(side, Ours):
        ours: Callable[..., Any] = side.model
        return ours
    model = side.model

    def picture(images: Tensor) -> Tensor:
        logits: Tensor = model(pixel_values=images).logits
        return logits

    def pair(source_BS: Tensor, target_BT: Tensor) -> Tensor:
        logits: Tensor = model(source_BS, attention_mask=torch.ones_like(source_BS), decoder_input_ids=target_BT).logits
        return logits

    def row(
        tokens_BT: Tensor,
        lengths_B: None = None,
        *,
        segments_BT: Tensor | None = None,
        global_BT: Tensor | None = None,
    ) -> Tensor:
        kinds = {} if segments_BT is None else {"token_type_ids": segments_BT}
        kinds |= {} if global_BT is None else {"global_attention_mask": global_BT.long()}
        if model.config.model_type == "longformer":  # would count only tokens that are not its padding id
            first = model.config.pad_token_id + 1
            kinds["position_ids"] = (torch.arange(tokens_BT.shape[1]) + first).expand_as(tokens_BT).to(tokens_BT.device)
        found = model(tokens_BT, attention_mask=torch.ones_like(tokens_BT), **kinds)
        said: Tensor = found.prediction_logits if hasattr(found, "prediction_logits") else found[0]
        return said

    if model.main_input_name == "pixel_values":
        return picture
    return pair if model.config.is_encoder_decoder else row
