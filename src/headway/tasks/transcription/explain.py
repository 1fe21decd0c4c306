"""What the page of `headway look` shows of a transcriber: the moments of a sound, and what was written for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headway.data.image_decoding import Pixels
from headway.data.log_mel import Frames
from headway.data.tokenizers import Tokenizer
from headway.decoding.ctc import collapsed
from headway.tasks.explanation import Explanation, ImageView, Output, StackDescription, token_sequence
from headway.tasks.transcription.objectives import beam_settings
from headway.tasks.transcription.search import TranscriptSearch

MOMENTS, TEXT = "moments", "text"
BLANK = "∅"  # CTC's


@torch.no_grad()
def explain_sound(
    model: nn.Module, search: TranscriptSearch, frames: Frames, given: str, device: torch.device
) -> Explanation:
    """A sound (T, bands): with a decoder its text and the search, with CTC what is written at each moment."""
    sound, lengths = search.tensors(model, device, [frames])
    moments = model.encoder(sound, lengths).vectors.shape[1]  # type: ignore[operator]
    rate = search.config.sound.frames_per_second
    times = [f"{n * len(frames) / moments / rate:.2f} s" for n in range(moments)]
    sequence = {"label": "Sound", "tokens": times, "grid": [1, moments], "before": 0, "start": 0}
    image = ImageView(pixels=picture(frames), sequence=MOMENTS, mean=(0.0,))
    explain = _written if hasattr(model, "extend") else _aligned
    return explain(model, search, sound, lengths, Path(given).name, sequence, image)


def picture(frames: Frames) -> Pixels:
    """Frames (T, bands) as an image (1, bands, T): low bands at the bottom, from the quietest to the loudest."""
    low, high = float(frames.min()), float(frames.max())
    shown = np.round(255 * (frames - low) / max(high - low, 1e-6)).astype(np.uint8)
    pixels: Pixels = np.ascontiguousarray(shown.T[::-1])[None]
    return pixels


def _written(
    model: nn.Module,
    search: TranscriptSearch,
    sound: Tensor,
    lengths: Tensor,
    name: str,
    sequence: dict[str, Any],
    image: ImageView,
) -> Explanation:
    """The best text that the search found, where each of its tokens attended, and the search."""
    from headway.decoding.trace import lines
    from headway.models.stepper import EncoderInput
    from headway.tasks.search_trace import search_trace

    config, tokenizer = search.config, search.tokenizer
    settings = beam_settings(config, config.beam)
    start = torch.tensor([[tokenizer.start]], device=sound.device)
    source = EncoderInput.of_frames(sound, lengths)
    trace = search_trace(model, source, start, tokenizer, settings, config.max_length, sequence["tokens"])
    best = lines(trace)[0]
    written = [*best.tokens, *([tokenizer.stop] if best.stopped else [])]
    read = [tokenizer.start, *written[:-1]]

    def forward() -> Tensor:
        logits: Tensor = model(sound, torch.tensor([read], device=sound.device))
        return logits[0]

    words = token_sequence(tokenizer, read, start=min(1, len(read) - 1), written=written)
    return Explanation(
        kind="transcript",
        given=name,
        said=best.text,
        forward=forward,
        reads={
            "encoder": StackDescription(label="Encoder", sequence=MOMENTS),
            "decoder": StackDescription(label="Decoder", sequence=TEXT, memory=MOMENTS),
        },
        sequences={MOMENTS: sequence, TEXT: words},
        output=Output(name=tokenizer.display, label="What is written next", sequence=TEXT, targets=written, drawn=True),
        image=image,
        trace=trace,
    )


def _aligned(
    model: nn.Module,
    search: TranscriptSearch,
    sound: Tensor,
    lengths: Tensor,
    name: str,
    sequence: dict[str, Any],
    image: ImageView,
) -> Explanation:
    """What the model writes at each moment; the text is that of the best path."""
    transcriber: Any = model
    tokenizer, blank = search.tokenizer, int(transcriber.blank)

    def forward() -> Tensor:
        logits: Tensor = transcriber(sound)
        return logits[0]

    path: list[int] = forward().argmax(-1).tolist()
    return Explanation(
        kind="transcript",
        given=name,
        said=tokenizer.decode(collapsed(path, blank)),
        forward=forward,
        reads={"encoder": StackDescription(label="Encoder", sequence=MOMENTS)},
        sequences={MOMENTS: sequence},
        output=Output(
            name=_named(tokenizer, blank), label="What is written at this moment", sequence=MOMENTS, targets=path
        ),
        image=image,
    )


def _named(tokenizer: Tokenizer, blank: int) -> Any:
    return lambda index: BLANK if index == blank else tokenizer.display(index)
