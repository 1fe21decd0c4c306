"""Images with captions as a captioning task: read, train a tokenizer if the run has none."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path

from headway.config import kind
from headway.counts import counted
from headway.data.captions import CaptionDataset
from headway.data.config import DataConfig
from headway.data.datasets import load_captions
from headway.data.digests import check_digests
from headway.data.images import ImageReading, Progress
from headway.data.tokenizers import Tokenizer
from headway.tasks.base import ONE_TOKENIZER, DataRequest, Prepared
from headway.tasks.captioning.config import Captioning
from headway.tasks.captioning.training import CaptioningTraining


def prepare(config: Captioning, request: DataRequest) -> Prepared:
    """Images with captions, their tokenizer (the run's, else one trained on them) and their digests by split."""
    captions = _read_captions(config, request.data, request.progress, to_train=True)
    check_digests(captions.contents, request.expected)
    tokenizer = request.tokenizer
    if tokenizer is None:
        tokenizer = Tokenizer.train(request.data.tokenizer, chain.from_iterable(captions.splits["train"].captions))
    facts = {
        "images": ", ".join(
            f"{name} {len(store):,} with {sum(map(len, store.captions)):,} captions"
            for name, store in captions.splits.items()
        ),
        "vocabulary": f"{tokenizer.size:,} tokens ({kind(type(request.data.tokenizer))})",
    }
    if captions.left_out:
        facts["left out"] = f"{counted(captions.left_out, 'image')}, missing or not readable"
    return Prepared(
        training=_training(config, request, tokenizer, captions),
        tokenizers={ONE_TOKENIZER: tokenizer},
        model_overrides={"vocab": tokenizer.size},
        digests=captions.contents,
        facts=facts,
    )


def read(config: Captioning, request: DataRequest) -> CaptioningTraining:
    """The data of a finished run, of the same splits as in training; of other data all, as one split."""
    if request.own_data:
        return prepare(config, request).training  # type: ignore[return-value]
    captions = _read_captions(config, replace(request.data, val=""), request.progress, to_train=False)
    return _training(config, request, request.tokenizers[ONE_TOKENIZER], captions)


def _read_captions(config: Captioning, data: DataConfig, progress: Progress, *, to_train: bool) -> CaptionDataset:
    reading = ImageReading(
        size=config.size,
        val=data.val,
        skip_bad=data.skip_bad,
        to_train=to_train,
        cache=Path(data.cache).expanduser(),
    )
    return load_captions(data.spec, reading, progress)


def _training(
    config: Captioning, request: DataRequest, tokenizer: Tokenizer, captions: CaptionDataset
) -> CaptioningTraining:
    return CaptioningTraining(
        config,
        tokenizer,
        captions.splits,
        batch_tokens=request.batch_tokens,
        seed=request.seed,
        compiled=request.compiled,
    )
