"""A finished captioner at work: it captions images, shows where it attended, is evaluated and explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from headway.data.image_decoding import Pixels
from headway.tasks.base import EvaluateRequest, Pipeline, RunParts, Task, split_of
from headway.tasks.capabilities import Captions
from headway.tasks.captioning.config import Captioning
from headway.tasks.captioning.search import CaptionSearch
from headway.tasks.image_batches import read_files

if TYPE_CHECKING:
    from headway.tasks.captioning.attention_maps import AttentionMap
    from headway.tasks.captioning.training import CaptioningTraining
    from headway.tasks.explanation import Explanation
    from headway.tasks.report import Report, Section
    from headway.tasks.verification_inputs import VerificationInputs

WORDS = "words"


@dataclass(frozen=True, slots=True)
class Caption:
    """A sentence about an image with its log-probability in nats, and the image as the model read it."""

    image: str
    text: str
    log_probability: float
    pixels: Pixels  # (3, H, W)
    tokens: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """What `headway caption --json` prints of an image."""
        return {"image": self.image, "caption": self.text, "log_probability": self.log_probability}


class CaptioningPipeline(Pipeline, Captions):
    """Image files in, sentences out."""

    reads_files = True

    evaluate_options = frozenset({"beam", "out"})

    def __init__(self, task: Task, parts: RunParts) -> None:
        super().__init__(task, parts)
        assert isinstance(task, Captioning)
        self.config = task

    @cached_property
    def search(self) -> CaptionSearch:
        """Beam search with the task's settings and the run's tokenizer."""
        return CaptionSearch(self.config, self.tokenizer)

    def caption(self, images: Sequence[str | Path], *, beam: int | None = None) -> list[Caption]:
        """A caption for each image file."""
        if not images:
            return []
        pixels = read_files(images, self.config.size)
        found = self.search.search(self.model, self.device, np.stack(pixels), beam=beam)
        best = [hypotheses[0] for hypotheses in found]
        return [
            Caption(str(file), self.tokenizer.decode(one.tokens), one.log_probability, read, tuple(one.tokens))
            for file, one, read in zip(images, best, pixels, strict=True)
        ]

    def attention_maps(self, captions: Sequence[Caption]) -> list[AttentionMap]:
        """Where the model attended for each token of its captions. Raises ConfigError for one without attention."""
        from headway.tasks.captioning.attention_maps import AttentionMap, attention_weights

        made = []
        for caption in captions:
            tokens_1T = torch.tensor([[self.tokenizer.start, *caption.tokens[:-1]]], device=self.device)
            image = self.search.normalised(self.model, self.device, caption.pixels[None])
            weights = attention_weights(self.model, image, tokens_1T)
            made.append(AttentionMap(tuple(map(self.tokenizer.token, caption.tokens)), weights))
        return made

    def evaluate(self, request: EvaluateRequest) -> Report:
        """BLEU-4, CIDEr-D and exact matches of the captions of a split, and the loss of its references."""
        from headway.tasks.report import Facts, Report, Sample, Samples, spread

        training: CaptioningTraining = self.read(request.data)  # type: ignore[assignment]
        split = split_of(training.splits, request.split)
        outputs = training.captions(self.model, self.device, split, beam=request.beam)
        report, forced = training.report(outputs, split), training.forced(self.model, self.device, split)
        rows = {
            "bleu4": f"{report.bleu4:.2f}",
            "cider": f"{report.cider:.3f}  CIDEr-D, 0 to 10",
            "exact_match": f"{report.exact_match:.1%}  one of the references, word by word",
            "sentences": f"{report.sentences:,}",
            "loss": f"{forced.loss:.4f}  nats a token",
        }
        blocks = []
        for n in spread(len(outputs)):
            references = training.splits[split].captions[n]
            lines = [Sample("" if number else "reference", text) for number, text in enumerate(references)]
            blocks.append([*lines, Sample("output", outputs[n])])
        values = {**report.to_json(), "loss": forced.loss, "perplexity": forced.perplexity, "tokens": forced.tokens}
        sections: list[Section] = [Facts(rows), Samples("samples", blocks)]
        return Report(split=split, values=values, sections=sections, outputs=outputs)

    def verification(self, given: Sequence[str]) -> VerificationInputs:
        """Images with the beginning of a random caption, of which each next token is predicted."""
        from headway.data.datasets import sample_captioned_images
        from headway.errors import HeadwayError
        from headway.models import ModelInputs
        from headway.tasks.verification_inputs import (
            MAX_GIVEN,
            VERIFICATION,
            Example,
            TextLayout,
            TokenBudget,
            VerificationInputs,
            caption_examples,
            continued,
            missing_data,
            noise_images,
            normalised_images,
            random_examples,
            token_names,
        )

        sizes = self.parts.inputs or VERIFICATION
        task, data, tokenizer = self.config, self.parts.data, self.tokenizer
        notes: list[str] = []
        images = normalised_images(read_files(given[:MAX_GIVEN], task.size), task.mean, task.std) if given else []
        if not given and data.spec:
            try:
                some = sample_captioned_images(data.spec, count=sizes.own, size=task.size)
                images = normalised_images(some, task.mean, task.std)
            except HeadwayError as error:
                notes.append(missing_data("images", error))
        if len(images) < 2 or not given:
            images += noise_images(cast(Any, self.parts.config).channels, (task.size, task.size))

        def arrange(ids: Sequence[int], source: Sequence[int] | None) -> Example:
            tokens = torch.tensor([[tokenizer.start, *ids]])
            return Example(ModelInputs(tokens=tokens), tokens.shape[1])

        layout = TextLayout(
            max_length=task.max_length,
            tokenizer=tokenizer,
            arrange=arrange,
            encode=lambda line: (tokenizer.encode(line), None),
            generates=True,
        )
        budget = TokenBudget.of(layout, self.model, sizes)
        examples = caption_examples(images, random_examples(layout, budget))
        return VerificationInputs(
            examples=continued(self.model, examples, budget),
            generates=True,
            vocabulary=layout.vocabulary,
            spell=token_names(tokenizer),
            notes=tuple(notes),
        )

    @torch.no_grad()
    def explain(self, given: str) -> Explanation:
        """An image, the best caption the search found, where each of its tokens attended, and the search."""
        from headway.decoding.beam import BeamSettings
        from headway.decoding.trace import lines
        from headway.models.stepper import EncoderInput
        from headway.tasks.explanation import Explanation, ImageView, Output, StackDescription, token_sequence
        from headway.tasks.patch_sequence import PATCHES, patch_sequence
        from headway.tasks.search_trace import search_trace

        model: Any = self.model
        config, tokenizer = self.config, self.tokenizer
        (pixels,) = read_files([given], config.size)
        # Stacked, the pixels are contiguous by channel, as in a batch: the layout decides the last bits of the sums.
        image = self.search.normalised(self.model, self.device, np.stack([pixels]))
        patches = patch_sequence(model.grid, own=False, label="Patches")
        settings = BeamSettings(width=config.beam, alpha=config.length_penalty, penalty=config.penalty)
        start = torch.tensor([[tokenizer.start]], device=self.device)
        source, most = EncoderInput.of_images(image), config.max_length
        trace = search_trace(model, source, start, tokenizer, settings, most, patches["tokens"])
        best = lines(trace)[0]
        written = [*best.tokens, *([tokenizer.stop] if best.stopped else [])]
        read = [tokenizer.start, *written[:-1]]

        def forward() -> Tensor:
            logits: Tensor = model(image, torch.tensor([read], device=self.device))
            return logits[0]

        words = token_sequence(tokenizer, read, label="Caption", start=min(1, len(read) - 1), written=written)
        encoder = StackDescription(label="Encoder", sequence=PATCHES, positions=model.patch_positions)
        decoder = StackDescription(label="Decoder", sequence=WORDS, memory=PATCHES)
        return Explanation(
            kind="caption",
            given=Path(given).name,
            said=best.text,
            forward=forward,
            reads={"encoder": encoder, "decoder": decoder, "attention": decoder},
            sequences={PATCHES: patches, WORDS: words},
            output=Output(
                name=tokenizer.display, label="What is written next", sequence=WORDS, targets=written, drawn=True
            ),
            image=ImageView(pixels=pixels, sequence=PATCHES, mean=config.mean),
            trace=trace,
        )
