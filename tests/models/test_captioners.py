"""The contract of every model that describes images."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from headway.config import parse, plain
from headway.errors import ConfigError, DataError, ShapeError
from headway.models import CaptionerRnnConfig, EncoderInput, build_model
from headway.nn.recurrent import RecurrentConfig
from tests.decoding.calls import search
from tests.models.tiny import CAPTIONING, VOCAB, build
from tests.weights import load_weights, save_weights

everything = pytest.mark.parametrize("name", CAPTIONING)


def images(rows: int = 3, *, seed: int = 0) -> Tensor:
    return torch.randn(rows, 3, 8, 8, generator=torch.Generator().manual_seed(seed))


def words(rows: int = 3, length: int = 9, *, seed: int = 0) -> Tensor:
    return torch.randint(0, VOCAB, (rows, length), generator=torch.Generator().manual_seed(seed))


@everything
def test_shapes_and_the_output_layer(name):
    model = build(name)
    logits = model(images(), words())
    assert logits.shape == (3, 9, VOCAB)
    matrix, bias = model.output()
    made = torch.nn.functional.linear(model.features(images(), words()), matrix, bias)
    torch.testing.assert_close(made, logits)


@everything
def test_backward_reaches_every_parameter(name):
    model = build(name).train()
    (model(images(4), words(4)) ** 2).sum().backward()
    unreached = [key for key, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not unreached


@everything
def test_the_future_cannot_change_the_past_and_every_pixel_counts(name):
    model, tokens = build(name), words()
    changed = tokens.clone()
    changed[:, 6:] = (changed[:, 6:] + 1) % VOCAB
    assert torch.equal(model(images(), tokens)[:, :6], model(images(), changed)[:, :6])
    pixels = images().requires_grad_()
    (gradient,) = torch.autograd.grad(model(pixels, tokens)[:, -1].square().sum(), pixels)
    assert (gradient.abs().sum(1) > 0).all()


@everything
@pytest.mark.parametrize("pieces", [[1] * 9, [4, 1, 3, 1], [9]])
def test_cached_stepping_equals_the_parallel_forward(name, pieces):
    model, tokens = build(name), words()
    state, seen = model.start(EncoderInput.of_images(images()), capacity=2), []
    for piece in tokens.split(pieces, 1):
        logits, state = model.extend(piece, state)
        seen.append(logits)
    torch.testing.assert_close(torch.cat(seen, 1), model(images(), tokens), atol=1e-5, rtol=0)


@everything
def test_rows_reselected_as_a_beam_would(name):
    model, pixels, tokens = build(name), images(4), words(4, 3)
    state = model.start(EncoderInput.of_images(pixels), capacity=2)
    _, state = model.extend(tokens, state)
    for step, rows in enumerate([[1, 1, 3, 0], [2, 0, 2, 2], [3, 1], [1, 0], [0, 0, 1]]):
        chosen = torch.tensor(rows)
        state, pixels = model.select(state, chosen), pixels[chosen]
        tokens = torch.cat([tokens[chosen], words(len(rows), 1, seed=10 + step)], 1)
        logits, state = model.extend(tokens[:, -1:], state)
        torch.testing.assert_close(logits[:, 0], model(pixels, tokens)[:, -1], atol=1e-5, rtol=0)


@everything
def test_padding_and_batch_mates_change_nothing(name):
    model, pixels, tokens = build(name), images(4), words(4)
    lengths = torch.tensor([9, 2, 5, 1])
    together = model(pixels, tokens, lengths)
    ragged, state = model.extend(tokens, model.start(EncoderInput.of_images(pixels)), lengths)
    more, _ = model.extend(words(4, 1, seed=3), state)
    for row, length in enumerate(lengths.tolist()):
        alone = model(pixels[[row]], torch.cat([tokens[[row], :length], words(4, 1, seed=3)[[row]]], 1))
        for found in (together, ragged):
            torch.testing.assert_close(found[[row], :length], alone[:, :-1], atol=1e-5, rtol=0)
        torch.testing.assert_close(more[[row]], alone[:, -1:], atol=1e-5, rtol=0)


@everything
def test_swapping_images_swaps_captions(name):
    model, pixels = build(name), images(2)

    def said(given: Tensor) -> list[list[int]]:
        found = search(model, EncoderInput.of_images(given), start=1, stop=2, beam=3, max_tokens=6)
        return [lines[0].tokens for lines in found]

    first, second = said(pixels)
    assert said(pixels.flip(0)) == [second, first]
    assert said(pixels[:1]) == [first]


@everything
def test_it_starts_and_is_kept_like_any_model(name, tmp_path):
    assert parse(type(CAPTIONING[name]), plain(CAPTIONING[name])) == CAPTIONING[name]
    first, again, other = (build_model(CAPTIONING[name], seed=seed).eval() for seed in (3, 3, 4))
    logits = first(images(), words())
    assert torch.equal(logits, again(images(), words()))
    assert not torch.equal(logits, other(images(), words()))
    assert -logits.log_softmax(-1).mean() < 2 * torch.tensor(VOCAB).log()
    save_weights(first, tmp_path / "model.safetensors")
    load_weights(other, tmp_path / "model.safetensors")
    assert torch.equal(logits, other(images(), words()))


@everything
def test_bad_input(name):
    model = build(name)
    with pytest.raises(ConfigError, match="needs images to start from, got no source"):
        model.start()
    with pytest.raises(ConfigError, match="got tokens"):
        model.start(EncoderInput(words()))
    with pytest.raises(ShapeError, match=r"expected \(B, 3, height, width\)"):
        model(torch.zeros(3, 1, 8, 8), words())
    with pytest.raises(DataError, match="16 x 8 pixels, this model reads 8 x 8"):
        model(torch.zeros(3, 3, 16, 8), words())


def test_settings_that_make_no_model():
    gru = RecurrentConfig(hidden=4)
    with pytest.raises(ConfigError, match=r"widths=\(\)"):
        CaptionerRnnConfig(vocab=5, widths=(), decoder=gru)
    with pytest.raises(ConfigError, match="must not read what it predicts"):
        CaptionerRnnConfig(vocab=5, decoder=RecurrentConfig(hidden=4, bidirectional=True))
