"""The one contract that every registered model meets."""

from __future__ import annotations

import pytest
import torch

from headway.errors import DataError
from headway.models import (
    MODELS,
    DecisionConfig,
    DetrConfig,
    EncoderInput,
    PoseConfig,
    SpeechCtcConfig,
    SpeechTransformerConfig,
    TextClassifierConfig,
    VectorTransformerConfig,
    WorldConfig,
    build_model,
)
from tests.models.tiny import ALL, CAPTIONING, ENCODER, GENERATING, LANGUAGE, VISION, VOCAB, Text, build, outputs, text
from tests.weights import load_weights, save_weights

everything = pytest.mark.parametrize("name", ALL)
generating = pytest.mark.parametrize("name", GENERATING)


def start(model, batch: Text):
    return model.start(None if batch.source is None else EncoderInput(batch.source, batch.source_lengths), capacity=2)


def test_every_registered_model_is_under_contract():
    # Maps, not logits: test_pose.py. Logits of a whole text: test_text_classifier.py. What acts: test_world.py. Sounds:
    # test_speech.py.
    elsewhere = {
        PoseConfig,
        DetrConfig,  # test_detr.py
        TextClassifierConfig,
        WorldConfig,
        DecisionConfig,
        SpeechCtcConfig,
        SpeechTransformerConfig,
        VectorTransformerConfig,  # test_vector_transformer.py
    }
    found = {type(config) for config in (*ALL.values(), *VISION.values(), *CAPTIONING.values())}
    assert found | elsewhere == set(MODELS.values())


@everything
def test_shapes(name):
    batch = text(name, rows=3, length=5)
    first, *rest = outputs(build(name), batch)
    width = first.shape[-1]
    assert first.shape == (3, 5, width)
    encoder = name.startswith(("bert", "roformer", "longformer")) and not name.endswith(("-pretraining", "-masked"))
    assert width == (16 if encoder else VOCAB)
    assert all(len(part) == 3 for part in rest)


@everything
def test_backward_reaches_every_parameter(name):
    model = build(name).train()
    sum((part**2).sum() for part in outputs(model, text(name))).backward()
    unreached = [key for key, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not unreached


@generating
def test_the_future_cannot_change_the_past(name):
    model, batch = build(name), text(name)
    changed = batch.tokens.clone()
    changed[:, 6:] = (changed[:, 6:] + 1) % VOCAB
    before = outputs(model, batch)[0]
    after = outputs(model, Text(changed, batch.lengths, batch.source, batch.source_lengths))[0]
    assert torch.equal(before[:, :6], after[:, :6])
    assert not torch.equal(before[:, 6:], after[:, 6:])


@pytest.mark.parametrize("name", ENCODER)
def test_an_encoder_sees_the_future(name):
    model, batch = build(name), text(name)
    changed = batch.tokens.clone()
    changed[:, -1] = (changed[:, -1] + 1) % VOCAB
    assert (outputs(model, batch)[0] - outputs(model, Text(changed))[0])[:, 0].abs().max() > 1e-6


@everything
def test_padding_and_batch_mates_change_nothing(name):
    model, batch = build(name), text(name, rows=4, padded=True)
    assert batch.lengths is not None
    together = outputs(model, batch)
    for row, length in enumerate(batch.lengths.tolist()):
        source = None if batch.source is None else batch.source[[row], : batch.source_lengths[row]]
        alone = outputs(model, Text(batch.tokens[[row], :length], None, source))
        torch.testing.assert_close(together[0][[row], :length], alone[0], atol=1e-5, rtol=0)
        for part, single in zip(together[1:], alone[1:], strict=True):
            torch.testing.assert_close(part[[row]], single, atol=1e-5, rtol=0)


@everything
def test_the_content_of_padding_changes_nothing(name):
    model, batch = build(name), text(name, rows=4, padded=True)
    tokens = batch.tokens.clone()
    real = torch.arange(tokens.shape[1]) < batch.lengths.unsqueeze(-1)
    tokens[~real] = (tokens[~real] + 5) % VOCAB
    before = outputs(model, batch)[0]
    after = outputs(model, Text(tokens, batch.lengths, batch.source, batch.source_lengths))[0]
    torch.testing.assert_close(before[real], after[real], atol=1e-6, rtol=0)


@generating
@pytest.mark.parametrize("pieces", [[1] * 9, [4, 1, 3, 1], [9]])
def test_cached_stepping_equals_the_parallel_forward(name, pieces):
    model, batch = build(name), text(name)
    state, seen = start(model, batch), []
    for piece in batch.tokens.split(pieces, 1):
        logits, state = model.extend(piece, state)
        seen.append(logits)
    torch.testing.assert_close(torch.cat(seen, 1), outputs(model, batch)[0], atol=1e-5, rtol=0)


@generating
def test_cached_stepping_with_rows_reselected_as_a_beam_would(name):
    model, batch = build(name), text(name, rows=4, padded=name not in LANGUAGE)
    batch = Text(batch.tokens, None, batch.source, batch.source_lengths)
    state = start(model, batch)
    _, state = model.extend(batch.tokens[:, :3], state)
    for step, rows in enumerate([[1, 1, 3, 0], [2, 0, 2, 2], [3, 1], [1, 0], [0, 0, 1]]):
        rows = torch.tensor(rows)
        state = model.select(state, rows)
        batch = batch.rows(rows)
        fresh = text(name, rows=len(rows), length=1, seed=10 + step).tokens
        prefix = batch.tokens[:, : 3 + step]
        batch = Text(torch.cat([prefix, fresh], 1), None, batch.source, batch.source_lengths)
        logits, state = model.extend(fresh, state)
        torch.testing.assert_close(logits[:, 0], outputs(model, batch)[0][:, -1], atol=1e-5, rtol=0)


@generating
def test_prompts_of_unequal_length_step_as_if_alone(name):
    model, batch = build(name), text(name, rows=4, length=6, padded=True)
    state = start(model, batch)
    lengths = batch.lengths
    first, state = model.extend(batch.tokens, state, lengths)
    more = text(name, rows=4, length=3, seed=5).tokens
    then = []
    for step in range(3):
        if step == 1:  # a beam may reorder ragged rows too
            rows = torch.tensor([2, 0, 0, 3])
            state, batch, lengths, first, more = (
                model.select(state, rows), batch.rows(rows), lengths[rows], first[rows], more[rows],
            )  # fmt: skip
            then = [logits[rows] for logits in then]
        logits, state = model.extend(more[:, [step]], state)
        then.append(logits)
    for row, length in enumerate(lengths.tolist()):
        tokens = torch.cat([batch.tokens[[row], :length], more[[row]]], 1)
        source = None if batch.source is None else batch.source[[row], : batch.source_lengths[row]]
        alone = outputs(model, Text(tokens, None, source))[0][0]
        torch.testing.assert_close(first[row, :length], alone[:length], atol=1e-5, rtol=0)
        torch.testing.assert_close(torch.cat(then, 1)[row], alone[length:], atol=1e-5, rtol=0)


@everything
def test_same_seed_same_result_bitwise(name):
    batch = text(name)
    outer = torch.get_rng_state()
    first, again, other = (build_model(ALL[name], seed=seed).eval() for seed in (3, 3, 4))
    assert torch.equal(outer, torch.get_rng_state())  # building draws from its own stream
    assert all(map(torch.equal, outputs(first, batch), outputs(again, batch)))
    assert not torch.equal(outputs(first, batch)[0], outputs(other, batch)[0])


@everything
def test_weights_survive_save_and_load(name, tmp_path):
    model, batch = build(name), text(name)
    save_weights(model, tmp_path / "model.safetensors")
    save_weights(model, tmp_path / "again.safetensors")
    assert (tmp_path / "model.safetensors").read_bytes() == (tmp_path / "again.safetensors").read_bytes()
    fresh = build_model(ALL[name], seed=9).eval()
    load_weights(fresh, tmp_path / "model.safetensors")
    assert all(map(torch.equal, outputs(model, batch), outputs(fresh, batch)))


def test_weights_of_another_model_are_refused_by_name(tmp_path):
    save_weights(build("gpt-learned"), tmp_path / "model.safetensors")
    with pytest.raises(DataError, match=r"head\.weight is missing.*input_positions\.table is not part of the model"):
        load_weights(build("gpt-llama"), tmp_path / "model.safetensors")
    (tmp_path / "broken.safetensors").write_bytes(b"not weights")
    with pytest.raises(DataError, match=r"broken\.safetensors"):
        load_weights(build("gpt-llama"), tmp_path / "broken.safetensors")


@generating
def test_a_new_model_is_not_sure_of_itself(name):
    """Whatever the initialisation, the loss begins near ln V."""
    logits = outputs(build_model(GENERATING[name]).eval(), text(name))[0]
    assert -logits.log_softmax(-1).mean() < 2 * torch.tensor(VOCAB).log()
