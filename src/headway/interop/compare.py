"""A headway model and a Hugging Face model, called in the same way with the same inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from headway.interop.family import Family, GenerationTokens
from headway.models import Model, ModelConfig, ModelInputs, ModelOutputs

BATCH, MAX_LENGTH, NEW_TOKENS = 3, 12, 32  # rows, tokens of the longest row, tokens that are generated
OFFSET = ("longformer", "roberta")  # types whose positions begin after the padding id
LOGIT_NAMES = ("prediction_logits", "logits")  # of token logits in transformers' outputs


@dataclass(frozen=True, slots=True)
class Probe:
    """Inputs that two models are compared on: padded rows of token ids, or images."""

    inputs: ModelInputs
    tokens: GenerationTokens
    new_tokens: int = 0  # to generate; 0: the model does not generate

    @property
    def prompt(self) -> Tensor:
        """(B, S): the source of an encoder-decoder, else the tokens."""
        return self.inputs.need("tokens" if self.inputs.source is None else "source")

    @property
    def real(self) -> Tensor:
        """(B, T), True where a token is not padding."""
        return padding_mask(self.inputs.need("tokens"), self.inputs.lengths)


def padding_mask(tokens: Tensor, lengths: Tensor | None) -> Tensor:
    """(B, T) and lengths (B,) -> (B, T), True where a token is not padding."""
    if lengths is None:
        return torch.ones_like(tokens, dtype=torch.bool)
    return torch.arange(tokens.shape[1], device=tokens.device) < lengths.unsqueeze(1)


def probe(family: Family[Any], config: ModelConfig, reads: frozenset[str], tokens: GenerationTokens) -> Probe:
    """Three images, or three rows of different lengths that leave room to generate; always the same ones.

    `reads` names the inputs of the model; no token is the padding id. In a Longformer the first token is global.
    """
    random = torch.Generator().manual_seed(0)
    if family.image_shape is not None:
        images = torch.randn(BATCH, *family.image_shape(config), generator=random)
        return Probe(ModelInputs(images=images), tokens)
    text = config.text
    assert text is not None
    context = text.context or 1
    longest = max(min(MAX_LENGTH, context // 2), 1)

    def rows(vocab: int) -> Tensor:
        drawn = torch.randint(vocab, (BATCH, longest), generator=random)
        return drawn if tokens.pad is None else drawn.masked_fill(drawn == tokens.pad, (tokens.pad + 1) % vocab)

    lengths = torch.tensor([longest, max(longest // 2, 1), max(longest - 1, 1)])
    segments = torch.randint(text.segments, (BATCH, longest), generator=random)
    source, target = rows(text.vocab if text.source_vocab is None else text.source_vocab), rows(text.vocab)
    first = (torch.arange(longest) == 0).expand(BATCH, longest)
    two = "source" in reads
    inputs = ModelInputs(
        tokens=target if two else source,
        lengths=lengths,
        source=source if two else None,
        source_lengths=lengths if two else None,
        segments=segments if "segments" in reads else None,
        global_tokens=first if "global_tokens" in reads else None,
    )
    return Probe(inputs, tokens, min(NEW_TOKENS, context - longest) if family.generates else 0)


@dataclass(frozen=True, slots=True)
class Continuation:
    """Greedy continuations of a probe's prompts, never stopping."""

    tokens: Tensor  # (B, N)
    logits: tuple[Tensor, ...] = ()  # (B, V) of each token, where known


class ComparedModel(Protocol):
    """A model of either library."""

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        """The outputs of one forward pass."""
        ...

    def generate(self, probe: Probe) -> Continuation | None:
        """Continue the unpadded prompts greedily; None if the model does not generate."""
        ...


class HeadwayModel:
    """A model of headway's."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @torch.no_grad()
    def run(self, inputs: ModelInputs) -> ModelOutputs:
        return self.model.run(inputs)

    @torch.no_grad()
    def generate(self, probe: Probe) -> Continuation | None:
        if not probe.new_tokens:
            return None
        stepper: Any = self.model
        prompt = probe.prompt
        if probe.inputs.source is None:
            state, step = stepper.start(), prompt
        else:
            state = stepper.start(ModelInputs(source=prompt).encoder_input)
            step = torch.full((len(prompt), 1), probe.tokens.start or 0)
        chosen, scores, never = [], [], [*probe.tokens.stop, *probe.tokens.banned]
        for _ in range(probe.new_tokens):
            logits, state = stepper.extend(step, state)
            last = logits[:, -1].clone()
            last[:, never] = -torch.inf
            scores.append(last)
            step = last.argmax(-1, keepdim=True)
            chosen.append(step)
        return Continuation(torch.cat(chosen, 1), tuple(scores))


class HfModel:
    """A model of the transformers library."""

    def __init__(self, model: Any) -> None:
        self.model = model

    @torch.no_grad()
    def run(self, inputs: ModelInputs) -> ModelOutputs:
        if inputs.images is not None:
            return ModelOutputs(classes=self.model(pixel_values=inputs.images).logits)
        tokens = inputs.need("tokens")
        if inputs.source is not None:
            more: dict[str, Tensor] = {"decoder_input_ids": tokens}
            if inputs.lengths is not None:
                more["decoder_attention_mask"] = padding_mask(tokens, inputs.lengths).long()
            mask = padding_mask(inputs.source, inputs.source_lengths).long()
            return ModelOutputs(tokens=self.model(inputs.source, attention_mask=mask, **more).logits)
        real = padding_mask(tokens, inputs.lengths)
        pad = getattr(self.model.config, "pad_token_id", None)
        if pad is not None:  # a classifier over a GPT takes the last token that is not this one
            tokens = tokens.masked_fill(~real, pad)
        given = {"input_ids": tokens, "attention_mask": real.long(), **self._extra(inputs)}
        if type(self.model).__name__.endswith("ForMultipleChoice"):  # reads (B, K, T): here each row is a choice
            given = {name: part.unsqueeze(1) for name, part in given.items()}
        found = self.model(**given)
        if hasattr(found, "start_logits"):
            return ModelOutputs(tokens=torch.stack([found.start_logits, found.end_logits], -1))
        logits = next((each for name in LOGIT_NAMES if (each := getattr(found, name, None)) is not None), None)
        if logits is not None and logits.ndim == 2:  # of a text, not of its tokens
            return ModelOutputs(classes=logits)
        return ModelOutputs(
            tokens=logits,
            vectors=getattr(found, "last_hidden_state", None),
            pooled=getattr(found, "pooler_output", None),
            next_sentence=getattr(found, "seq_relationship_logits", None),
        )

    def _extra(self, inputs: ModelInputs) -> dict[str, Tensor]:
        """The inputs that only some encoders take."""
        extra = {}
        if inputs.segments is not None:
            extra["token_type_ids"] = inputs.segments
        if inputs.global_tokens is not None:
            extra["global_attention_mask"] = inputs.global_tokens.long()
        if self.model.config.model_type in OFFSET:  # otherwise it counts only tokens that are not the padding id
            tokens, first = inputs.need("tokens"), self.model.config.pad_token_id + 1
            positions = torch.arange(tokens.shape[1], device=tokens.device) + first
            extra["position_ids"] = positions.expand_as(tokens)
        return extra

    @torch.no_grad()
    def generate(self, probe: Probe) -> Continuation | None:
        if not probe.new_tokens:
            return None
        self.model.generation_config.forced_eos_token_id = None
        self.model.generation_config.max_length = None
        count = probe.new_tokens
        settings = {"do_sample": False, "num_beams": 1, "max_new_tokens": count, "min_new_tokens": count}
        written = self.model.generate(probe.prompt, attention_mask=torch.ones_like(probe.prompt), **settings)
        return Continuation(written[:, -count:])
