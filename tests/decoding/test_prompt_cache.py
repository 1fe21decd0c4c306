"""Prompts that begin alike are read once, and what follows has the bits that it has without."""

from __future__ import annotations

from typing import Any

import torch

from headway.decoding.prompt_cache import PromptCache
from headway.decoding.row_batch import Prefill
from tests.serving.companions import model_of

CHUNK = 4


def read(model: Any, prompt: tuple[int, ...], known: tuple[int, Any] | None = None) -> tuple[Any, torch.Tensor]:
    prefill: Prefill[Any] = Prefill(model, prompt, CHUNK, known)
    logits = None
    while not prefill.done:
        logits = prefill.advance()
    assert logits is not None
    return prefill.state, logits


def test_the_rest_of_a_prompt_has_the_same_bits() -> None:
    model: Any = model_of("gpt-llama")
    cache: PromptCache[Any] = PromptCache(model, 100, CHUNK)
    first, other = (1, 2, 3, 4, 5, 6, 7, 8, 9), (1, 2, 3, 4, 5, 6, 7, 8, 3, 2)
    cache.add("a", first, *read(model, first))
    known = cache.find("a", other)
    assert known is not None
    assert (known.read, known.logits) == (8, None)
    state, logits = read(model, other, (known.read, known.state))
    expected, wanted = read(model, other)
    assert torch.equal(logits, wanted)
    for mine, theirs in zip(state.layers, expected.layers, strict=True):
        assert torch.equal(mine.k, theirs.k)
        assert torch.equal(mine.v, theirs.v)


def test_a_whole_prompt_is_known_with_its_logits_and_not_to_another_owner() -> None:
    model: Any = model_of("gpt-learned")
    cache: PromptCache[Any] = PromptCache(model, 100, CHUNK)
    prompt = (3, 1, 4, 1, 5)
    state, logits = read(model, prompt)
    cache.add("a", prompt, state, logits)
    known = cache.find("a", prompt)
    assert known is not None
    assert known.read == 5
    assert torch.equal(known.logits, logits)  # type: ignore[arg-type]
    assert cache.find("b", prompt) is None
    assert cache.find("a", (3, 1, 4)) is None  # less than a chunk
    assert cache.find("a", (3, 1, 4, 1)) is None  # a whole prompt needs the logits after its last token


def test_the_oldest_is_forgotten_and_models_without_prefixes_read_all() -> None:
    model: Any = model_of("gpt-learned")
    cache: PromptCache[Any] = PromptCache(model, 12, CHUNK)
    prompts = [(n, 2, 3, 4, 5) for n in range(3)]
    for prompt in prompts[:2]:
        cache.add("a", prompt, *read(model, prompt))
    assert cache.find("a", prompts[0]) is not None  # and is the youngest now
    cache.add("a", prompts[2], *read(model, prompts[2]))
    assert cache.tokens == 10
    assert [cache.find("a", prompt) is not None for prompt in prompts] == [True, False, True]
    assert cache.find("a", (1, 2, 3, 4, 6, 7)) is None
    recurrent: Any = model_of("rnn-lm-lstm-tied")
    none: PromptCache[Any] = PromptCache(recurrent, 100, CHUNK)
    none.add("a", (1, 2, 3, 4), *read(recurrent, (1, 2, 3, 4)))
    assert none.find("a", (1, 2, 3, 4)) is None
