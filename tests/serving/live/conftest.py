"""Live pages of tiny seeded models, and a server for one."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest
import torch

pytest.importorskip("uvicorn")

from headway.models import EncoderDecoderConfig, GptConfig, build_model
from headway.serving.live.runs import LiveRuns
from headway.serving.live.server import HOST, live_server
from headway.serving.live.session import LiveSession
from headway.serving.server import bound
from headway.tasks.base import Pipeline
from headway.tasks.language_modelling import Language
from headway.tasks.translation import Translation
from tests.inspection.page.subjects import LINE, spread, words
from tests.pipelines import pipeline_of

KEY = "canary-4711"


def translator() -> Pipeline:
    tokenizer = words()
    config = EncoderDecoderConfig(vocab=1, context=64, width=32, inner=32, heads=4, encoder_layers=2, decoder_layers=2)
    model = spread(build_model(replace(config, vocab=tokenizer.size)))
    return pipeline_of(Translation(max_extra=1, beam=3), model, tokenizer)


def writer() -> Pipeline:
    tokenizer = words()
    model = build_model(GptConfig(vocab=tokenizer.size, context=64, width=32, layers=2, heads=4))
    return pipeline_of(Language(), spread(model), tokenizer, steps=(10,))


@dataclass(frozen=True)
class Live:
    session: LiveSession
    port: int

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}/#key={KEY}"


@contextlib.contextmanager
def running(pipeline: Pipeline, given: str = LINE) -> Iterator[Live]:
    session, listener = LiveSession(pipeline, given), bound(HOST, 0)
    port = listener.getsockname()[1]
    server = live_server(LiveRuns(session), port, KEY)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True)
    thread.start()
    try:
        yield Live(session, port)
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()


@pytest.fixture
def live() -> Iterator[Callable[..., Live]]:
    with contextlib.ExitStack() as stack:
        yield lambda *given: stack.enter_context(running(*given))


@functools.cache
def copier() -> Pipeline:
    """A tiny translator that has learned to write its source again: its cross-attention aligns, and has to."""
    tokenizer = words()
    ids = torch.tensor([tokenizer.encode(word)[0] for word in LINE.split()])
    config = EncoderDecoderConfig(vocab=tokenizer.size, context=64, width=32, inner=64, heads=2, encoder_layers=1,
                                  decoder_layers=1, dropout=0.0)  # fmt: skip
    model = build_model(config).train()
    generator, optimizer = torch.Generator().manual_seed(0), torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(200):
        length = int(torch.randint(3, 9, (1,), generator=generator))
        text = ids[torch.randint(0, len(ids), (32, length), generator=generator)]
        stop, start = (torch.full((32, 1), special) for special in (tokenizer.stop, tokenizer.start))
        wanted = torch.cat((text, stop), 1)
        logits = model(wanted, torch.cat((start, text), 1))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten()).backward()
        optimizer.step()
    return pipeline_of(Translation(max_extra=1, beam=3), model, tokenizer)
