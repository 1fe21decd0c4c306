"""Capture while text is generated: the steps of a hypothesis, through every reordering of the beam, are one matrix."""

from __future__ import annotations

import pytest
import torch

import headway
from headway.decoding.cuda_graph import GraphDecoder
from headway.decoding.ensemble import Ensemble
from headway.decoding.sampling import GREEDY, Sampling, stream
from headway.errors import ConfigError
from headway.inspection import taps
from headway.models import EncoderInput
from tests.decoding.calls import draw, search
from tests.models.tiny import CAPTIONING, GENERATING, LANGUAGE, TRANSLATION, VOCAB, build, text

STOP = 3
KINDS = ("weights", "scores", "q", "k", "v", "heads", "residual", "states", "hidden", "logits")
ATTENTIVE = [
    name
    for name in (*GENERATING, *CAPTIONING)
    if not name.startswith(("rnn-lm", "seq2seq-gru", "seq2seq-reversed", "captioner-rnn-state"))
]


def kinds_of(model) -> list[str]:
    return [kind for kind in KINDS if any(tap.kind == kind for tap in taps(model))]


def source_of(name: str, batch) -> EncoderInput | None:
    if name in CAPTIONING:
        return EncoderInput.of_images(torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(1)))
    return None if name in LANGUAGE else EncoderInput(batch.source, batch.source_lengths)


def prompted(name: str, batch) -> int | torch.Tensor:
    return batch.tokens[:, :3] if name in LANGUAGE else 0


def forced(name: str, model, line, source: EncoderInput | None):
    """A forward pass over the hypothesis."""
    read, row = torch.tensor([line.read]), slice(line.source, line.source + 1)
    if name in CAPTIONING:
        return model(source.images[row], read)
    if source is None:
        return model(read)
    lengths = None if source.lengths is None else source.lengths[row]
    return model(source.tokens[row], read, lengths)


def assert_as_forced(name: str, model, line, source: EncoderInput | None) -> None:
    with headway.capture(model, what=kinds_of(model)) as whole:
        forced(name, model, line, source)
    assert set(whole) <= set(line._pass)  # a loop takes all its steps while a text is written
    for key, value in whole.items():
        torch.testing.assert_close(
            line[key], value[0], atol=2e-5, rtol=1e-4, msg=lambda text, key=key: f"{key}: {text}"
        )


@torch.no_grad()
@pytest.mark.parametrize("name", ATTENTIVE)
def test_hypotheses_of_a_beam_equal_a_forward_pass_over_them(name):
    model, batch = build(name), text(name, padded=True)
    source, start = source_of(name, batch), prompted(name, batch)
    settings = {"start": start, "stop": STOP, "beam": 3, "max_tokens": 6, "n_best": 2}
    plain = search(model, source, **settings)
    with headway.capture(model, what=kinds_of(model)) as seen:
        found = search(model, source, **settings)
    assert found == plain
    assert len(seen.passes) == 1
    lines = seen.hypotheses
    assert [list(line.chosen) for line in lines] == [each.tokens for row in found for each in row]
    for line in lines[::2]:
        assert_as_forced(name, model, line, source)


@torch.no_grad()
@pytest.mark.parametrize(
    "name", ["transformer-sinusoidal", "transformer-rotary", "seq2seq-context-input", "captioner-vit"]
)
def test_groups_of_a_diverse_beam(name):
    model, batch = build(name), text(name)
    source = source_of(name, batch)
    with headway.capture(model, what=kinds_of(model)) as seen:
        search(model, source, start=0, stop=STOP, beam=4, groups=2, max_tokens=5, n_best=3)
    for line in seen.hypotheses:
        assert_as_forced(name, model, line, source)


@torch.no_grad()
@pytest.mark.parametrize("name", ["gpt-rotary", "gpt-alibi", "gpt-llama", "gpt-windows", "gpt-shaw"])
@pytest.mark.parametrize("sampling", [GREEDY, Sampling(temperature=1.5)])
def test_samples_from_prompts_of_unequal_length(name, sampling):
    model, prompts = build(name), text(name, rows=4).tokens[:, :5]
    settings = {
        "stop": STOP,
        "max_tokens": 7,
        "prompt_lengths": torch.tensor([5, 2, 4, 1]),
        "sampling": sampling,
        "seed": 2,
    }
    plain = draw(model, prompts, **settings)
    with headway.capture(model, what=kinds_of(model)) as seen:
        drawn = draw(model, prompts, **settings)
    assert drawn == plain
    assert [list(line.chosen) for line in seen.hypotheses] == drawn
    for line, count in zip(seen.hypotheses, (5, 2, 4, 1), strict=True):
        assert line.read[:count] == tuple(prompts[line.source, :count].tolist())
        assert_as_forced(name, model, line, None)
    with headway.capture(model, what=("weights", "residual"), rows=[2, 5, 6]) as some:
        draw(model, prompts, **settings)
    for line, whole in zip(some.hypotheses, seen.hypotheses, strict=True):
        rows = [row for row in (2, 5, 6) if row < len(whole.read)]
        for key in some:
            axis = 1 if key.endswith("weights") else 0
            torch.testing.assert_close(
                line[key], whole[key].index_select(axis, torch.tensor(rows, dtype=torch.long)), atol=1e-6, rtol=0
            )


@torch.no_grad()
@pytest.mark.parametrize("name", ["gpt-rotary", "transformer-t5", "seq2seq-context-all"])
def test_rows_are_positions_of_the_text_also_while_it_is_written(name):
    model, batch = build(name), text(name)
    source, rows = source_of(name, batch), [1, 4, 5]
    settings = {"start": prompted(name, batch), "stop": -1, "beam": 2, "max_tokens": 6}
    with headway.capture(model, what="weights") as whole:
        search(model, source, **settings)
    with headway.capture(model, what="weights", rows=rows) as some:
        search(model, source, **settings)
    steps = len(some.last.calls[1:])
    assert steps == 5
    for line, full in zip(some.hypotheses, whole.hypotheses, strict=True):
        for key in some:
            torch.testing.assert_close(line[key], full[key][:, rows], atol=1e-6, rtol=0)


@torch.no_grad()
def test_the_best_hypotheses_are_one_padded_batch():
    model, batch = build("transformer-sinusoidal"), text("transformer-sinusoidal")
    with headway.capture(model) as seen:
        found = search(model, EncoderInput(batch.source), start=0, stop=STOP, beam=4, max_tokens=8)
    stopped = [len(row[0].tokens) + row[0].stopped for row in found]
    assert len(set(stopped)) > 1  # hypotheses differ in length, or nothing is padded
    weights = seen.weights[1]
    assert weights.shape == (3, 4, max(stopped), 7)
    for row, length in enumerate(stopped):
        assert torch.equal(weights[row, :, :length], seen.hypotheses[row]["decoder.layers.1.cross.weights"])
        assert not weights[row, :, length:].any()
    assert seen["encoder.layers.0.self.weights"].shape == (3, 4, 7, 7)


@torch.no_grad()
def test_any_open_hypothesis_of_the_search_is_accessible():
    model, batch = build("transformer-learned"), text("transformer-learned")
    with headway.capture(model) as seen:
        search(model, EncoderInput(batch.source), start=0, stop=-1, beam=3, max_tokens=4)
    call = seen.last.calls[1]
    row = call.parents.tolist().index(0)
    word = int(call.tokens[row, 0])
    line = seen.last.hypothesis([word], row=0)
    assert line.read == (0, word)
    with pytest.raises(ConfigError, match="no hypothesis of row 0 began with"):
        seen.last.hypothesis([*line.chosen, VOCAB + 1, VOCAB + 2])


@torch.no_grad()
def test_each_model_of_an_ensemble_gets_the_hypotheses():
    models = [build("transformer-learned", seed=seed) for seed in (1, 2)]
    batch = text("transformer-learned")
    with headway.capture(models[1], layers=[0]) as seen:
        found = search(Ensemble(models), EncoderInput(batch.source), start=0, stop=STOP, beam=2, max_tokens=5)
    assert [list(line.chosen) for line in seen.hypotheses] == [row[0].tokens for row in found]


@torch.no_grad()
def test_a_model_that_is_not_fed_its_own_output():
    model = build("gpt-learned")
    with headway.capture(model) as seen:
        drawn = draw(model, torch.tensor([[5, 2]]), stop=-1, max_tokens=4, sampling=GREEDY, feed_back=False)
    assert len(drawn[0]) == 4
    assert seen.hypotheses[0].read == (5, 2, 2, 2, 2)


def test_every_translator_and_captioner_is_here():
    assert (TRANSLATION.keys() | CAPTIONING.keys()) - set(ATTENTIVE) == {
        "seq2seq-gru", "seq2seq-reversed", "captioner-rnn-state",
    }  # fmt: skip


@torch.no_grad()
def test_a_decoder_of_fixed_shapes_is_captured_text_by_text():
    model = build("gpt-rotary")
    decoder = GraphDecoder(model, rows=2, capacity=12)
    with headway.capture(model, what=kinds_of(model)) as seen:
        decoder.write(torch.tensor([[5, 2], [1, 7]]), 4)
        decoder.write(torch.tensor([[3], [4]]), 3)
    assert [len(line.read) for each in seen.passes for line in each.hypotheses] == [5, 5, 3, 3]
    for line in seen.hypotheses:
        assert_as_forced("gpt-rotary", model, line, None)


@torch.no_grad()
def test_a_text_that_streams_and_outgrows_its_context():
    model = build("gpt-learned")
    with headway.capture(model) as seen:
        said = list(stream(model, torch.tensor([[5, 2, 7]]), max_tokens=9, context=8, sampling=GREEDY))
    first, second = (each.hypotheses[0] for each in seen.passes)
    assert first.read == (5, 2, 7, *said[:5])
    assert second.read == (*said[2:6], *said[6:8])
    for line in (first, second):
        with headway.capture(model) as whole:
            model(torch.tensor([line.read]))
        torch.testing.assert_close(line["layers.1.self.weights"], whole.weights[1][0], atol=1e-5, rtol=0)


@torch.no_grad()
def test_the_older_names_still_work():
    assert headway.inspection.Seen is headway.inspection.CaptureResult
    assert headway.inspection.Line is headway.inspection.DecodedHypothesis
    model = build("gpt-learned")
    with headway.capture(model) as seen:
        draw(model, torch.tensor([[5, 2]]), stop=-1, max_tokens=3, sampling=GREEDY)
    (found,) = seen.lines
    assert found == seen.hypotheses[0]
    assert seen.last.lines == seen.last.hypotheses
    assert seen.last.line(found.chosen) == seen.last.hypothesis(found.chosen)
