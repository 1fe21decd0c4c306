"""Searches against their definitions: greedy, exhaustive, one row at a time, without a cache."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import pytest
import torch

from headway.decoding.beam import length_penalty
from headway.decoding.sampling import GREEDY
from headway.limits import raised
from headway.models import EncoderInput, build_model
from tests.decoding.calls import draw, search
from tests.models.tiny import GENERATING, GPT, SEQ2SEQ, TRANSLATOR, Text, build, outputs, text

START, STOP = 2, 3
TIE = 1e-4
# One of each class of model.
ONE_OF_EACH = (
    "gpt-learned",
    "rnn-lm-lstm-tied",
    "transformer-sinusoidal",
    "seq2seq-context-all",
)  # every class of model


def asked(batch: Text) -> EncoderInput | None:
    return None if batch.source is None else EncoderInput(batch.source, batch.source_lengths)


def mixed(name: str, rows: int, seed: int = 0) -> Text:
    """Sources, or prompts, of one to seven tokens; a translator's prompt is the start token."""
    batch = text(name, rows=rows, length=7, padded=True, seed=seed)
    if batch.source is None:
        return batch
    return Text(torch.full((rows, 1), START), None, batch.source, batch.source_lengths)


def searched(model, batch: Text, stop: int = STOP, **settings) -> list[list]:
    tokens = batch.tokens if batch.lengths is None else batch.tokens[:, : int(batch.lengths.max())]
    return search(model, asked(batch), start=tokens, prompt_lengths=batch.lengths, stop=stop, **settings)


@pytest.mark.parametrize("name", GENERATING)
def test_beam_one_is_greedy(name):
    model, batch = build(name), mixed(name, 20)
    found = searched(model, batch, beam=1, max_tokens=15)
    greedy = draw(
        model,
        batch.tokens,
        prompt_lengths=batch.lengths,
        stop=STOP,
        max_tokens=15,
        source=asked(batch),
        sampling=GREEDY,
    )
    assert [lines[0].tokens for lines in found] == greedy


@pytest.mark.parametrize("name", GENERATING)
def test_greedy_with_its_cache_is_greedy_without(name):
    """Every token again by the parallel forward over all before it."""
    model, batch = build(name), text(name, rows=6, length=3)
    lines = draw(model, batch.tokens, stop=-1, max_tokens=10, source=asked(batch), sampling=GREEDY)
    whole = torch.cat([batch.tokens, torch.tensor(lines)], 1)
    with torch.no_grad():
        logits = outputs(model, replace(batch, tokens=whole[:, :-1]))[0][:, 2:]
    said = whole[:, 3:]
    gap = logits.amax(-1) - logits.gather(-1, said.unsqueeze(-1)).squeeze(-1)
    assert gap.max() <= TIE


def exhaustive(
    model, batch: Text, longest: int, vocab: int, alpha: float, penalty: str
) -> list[tuple[float, list[int]]]:
    """Every sequence, best first, scored by the parallel forward pass."""
    words = [word for word in range(vocab) if word != STOP]
    lines = [[*line, STOP] for n in range(longest) for line in itertools.product(words, repeat=n)]
    lines += [list(line) for line in itertools.product(words, repeat=longest)]
    padded = torch.tensor([line + [0] * (longest - len(line)) for line in lines])
    inputs = torch.cat([batch.tokens.expand(len(lines), -1), padded[:, :-1]], 1)
    source = None if batch.source is None else batch.source.expand(len(lines), -1)
    with torch.no_grad():
        nats = outputs(model, Text(inputs, None, source))[0][:, batch.tokens.shape[1] - 1 :].log_softmax(-1)
    each = nats.gather(-1, padded.unsqueeze(-1)).squeeze(-1)
    scored = [
        (float(row[: len(line)].sum()) / length_penalty(len(line), alpha, penalty), line)
        for line, row in zip(lines, each, strict=True)
    ]
    return sorted(scored, reverse=True)


@pytest.mark.parametrize("kind", ["transformer", "gpt", "seq2seq"])
@pytest.mark.parametrize(("alpha", "penalty"), [(0.0, "gnmt"), (0.6, "gnmt"), (1.0, "mean"), (1.7, "mean")])
def test_a_beam_as_wide_as_the_search_space_is_exhaustive(kind, alpha, penalty):
    """All lines of up to four tokens over five words and the stop token, the ten best of them."""
    vocab, longest = 6, 4
    with raised({"beam": vocab**longest}):
        expect_exhaustive(kind, alpha, penalty, vocab, longest)


def expect_exhaustive(kind, alpha, penalty, vocab, longest):
    config = {"transformer": TRANSLATOR, "gpt": GPT, "seq2seq": SEQ2SEQ}[kind]
    model = build_model(replace(config, vocab=vocab), seed=3).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        source = None if kind == "gpt" else torch.randint(0, vocab, (1, 3), generator=generator)
        prompt = torch.tensor([[START]]) if source is not None else torch.randint(0, vocab, (1, 3), generator=generator)
        batch = Text(prompt, None, source)
        every = exhaustive(model, batch, longest, vocab, alpha, penalty)[:10]
        found = searched(
            model,
            batch,
            beam=vocab**longest,
            n_best=10,
            max_tokens=longest,
            alpha=alpha,
            penalty=penalty,
            stop_rule="best",
        )[0]
        assert [line.score for line in found] == pytest.approx([score for score, _ in every], abs=1e-5)
        best = [*found[0].tokens, STOP] if found[0].stopped else found[0].tokens
        assert best == every[0][1] or every[0][0] - every[1][0] < TIE


def lively(name: str) -> torch.nn.Module:
    """A tiny model that says different words to different inputs: larger weights, smaller ones repeat themselves."""
    model, generator = build(name), torch.Generator().manual_seed(5)
    scale = 0.6 if name.startswith(("rnn", "seq2seq")) else 0.1
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += scale * torch.randn(parameter.shape, generator=generator)
    return model


def a_word_it_likes(model, batch: Text) -> int:
    """What the model often says after a few words: as its stop token it ends lines at many lengths."""
    lines = draw(
        model, batch.tokens, prompt_lengths=batch.lengths, stop=-1, max_tokens=6, source=asked(batch), sampling=GREEDY
    )
    after = Counter(word for line in lines for word in set(line[1:]) - set(line[:1]))
    return after.most_common(1)[0][0] if after else STOP


def differences(name: str, rows: int) -> int:
    """How many of these inputs of mixed length come out otherwise alone than in batches of 64; ties every one."""
    model, batch, found = lively(name), mixed(name, rows), 0
    settings = {"beam": 2, "max_tokens": 6, "stop": a_word_it_likes(model, batch)}
    parts = torch.arange(rows).split(64)
    together = [lines[0] for part in parts for lines in searched(model, batch.rows(part), **settings)]
    assert len({len(line.tokens) for line in together}) > 1 or name not in ONE_OF_EACH
    for row, line in enumerate(together):
        one = batch.rows(torch.tensor([row]))
        if one.source is not None:
            one = Text(one.tokens, None, one.source[:, : int(one.source_lengths)])
        else:
            one = Text(one.tokens[:, : int(one.lengths)])
        alone = searched(model, one, **settings)[0][0]
        if alone.tokens != line.tokens:
            assert abs(alone.score - line.score) <= TIE
            found += 1
    return found


@pytest.mark.parametrize("name", GENERATING)
def test_a_batch_is_one_at_a_time(name):
    assert differences(name, 208 if name in ONE_OF_EACH else 16) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("name", GENERATING)
def test_a_batch_of_64_is_one_at_a_time(name):
    assert differences(name, 208) <= 2
