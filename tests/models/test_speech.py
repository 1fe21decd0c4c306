"""The contract of the models that read sounds, and Whisper's encoder as the reference of theirs."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.config import parse, plain
from headway.errors import ConfigError, DataError, ShapeError, TooLongError
from headway.models import EncoderInput, ModelInputs, SpeechCtcConfig, SpeechTransformerConfig, build_model
from headway.nn.positions import SinusoidalTensor2Tensor
from tests.decoding.calls import search
from tests.models.tiny import SPEECH, VOCAB, build, sounds
from tests.weights import load_weights, save_weights

everything = pytest.mark.parametrize("name", SPEECH)
writing = pytest.mark.parametrize("name", [name for name in SPEECH if "transformer" in name])
aligning = pytest.mark.parametrize("name", [name for name in SPEECH if "ctc" in name])


def words(rows: int = 3, length: int = 9, *, seed: int = 0) -> Tensor:
    return torch.randint(0, VOCAB, (rows, length), generator=torch.Generator().manual_seed(seed))


def called(model, frames: Tensor, lengths: Tensor | None = None) -> Tensor:
    """Logits, of a model with a decoder after the same tokens."""
    inputs = ModelInputs(frames=frames, frame_lengths=lengths, tokens=words(len(frames)))
    outputs = model.run(inputs)
    (logits,) = outputs.present.values()
    return logits


@everything
def test_shapes_and_gradients(name):
    model = build(name).train()
    logits = called(model, sounds())
    moments = SPEECH[name].moments(13)
    assert logits.shape == ((3, 9, VOCAB) if "transformer" in name else (3, moments, VOCAB + 1))
    (logits**2).sum().backward()
    unreached = [key for key, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not unreached


@everything
@torch.no_grad()
def test_padding_and_batch_mates_change_nothing(name):
    model, frames, lengths = build(name), sounds(5, 13), torch.tensor([13, 12, 7, 2, 1])
    together = called(model, frames, lengths)
    junk = torch.where((torch.arange(13) < lengths[:, None])[..., None], frames, 1e3)
    torch.testing.assert_close(called(model, junk, lengths), together, atol=0, rtol=0)
    for row, length in enumerate(lengths.tolist()):
        alone = model.run(ModelInputs(frames=frames[[row], :length], tokens=words(5)[[row]])).present
        (logits,) = alone.values()
        torch.testing.assert_close(together[[row], : logits.shape[1]], logits, atol=1e-5, rtol=0)


@everything
@torch.no_grad()
def test_moments_are_counted_as_the_model_has_them(name):
    model, config = build(name), SPEECH[name]
    for frames in range(1, 20):
        sound = model.encoder(sounds(1, frames), torch.tensor([frames]))
        assert sound.vectors.shape[1] == int(sound.lengths) == config.moments(frames)


@everything
def test_every_frame_counts(name):
    model, frames = build(name), sounds().requires_grad_()
    (gradient,) = torch.autograd.grad(called(model, frames)[:, -1].square().sum(), frames)
    assert (gradient.abs().sum(-1) > 0).all()


@writing
@pytest.mark.parametrize("pieces", [[1] * 9, [4, 1, 3, 1], [9]])
def test_cached_stepping_equals_the_parallel_forward(name, pieces):
    model, tokens, lengths = build(name), words(), torch.tensor([13, 5, 9])
    state, seen = model.start(EncoderInput.of_frames(sounds(), lengths), capacity=2), []
    for piece in tokens.split(pieces, 1):
        logits, state = model.extend(piece, state)
        seen.append(logits)
    torch.testing.assert_close(torch.cat(seen, 1), model(sounds(), tokens, lengths), atol=1e-5, rtol=0)


@writing
def test_rows_reselected_as_a_beam_would(name):
    model, frames, tokens, lengths = build(name), sounds(4), words(4, 3), torch.tensor([13, 5, 9, 2])
    state = model.start(EncoderInput.of_frames(frames, lengths), capacity=2)
    _, state = model.extend(tokens, state)
    for step, rows in enumerate([[1, 1, 3, 0], [2, 0, 2, 2], [3, 1], [1, 0], [0, 0, 1]]):
        chosen = torch.tensor(rows)
        state, frames, lengths = model.select(state, chosen), frames[chosen], lengths[chosen]
        tokens = torch.cat([tokens[chosen], words(len(rows), 1, seed=10 + step)], 1)
        logits, state = model.extend(tokens[:, -1:], state)
        torch.testing.assert_close(logits[:, 0], model(frames, tokens, lengths)[:, -1], atol=1e-5, rtol=0)


@writing
@pytest.mark.parametrize("beam", [1, 3])
def test_a_search_finds_the_same_alone_and_in_a_batch(name, beam):
    model, frames, lengths = build(name), sounds(3), torch.tensor([13, 4, 8])

    def said(rows: list[int]) -> list[list[int]]:
        source = EncoderInput.of_frames(frames, lengths).rows(torch.tensor(rows))
        return [found[0].tokens for found in search(model, source, start=1, stop=2, beam=beam, max_tokens=6)]

    first, second, third = said([0, 1, 2])
    assert said([2, 1, 0]) == [third, second, first]
    assert said([1]) == [second]


@aligning
@torch.no_grad()
def test_the_loss_of_a_text_is_torch_s_with_the_last_output_as_blank(name):
    model = build(name)
    assert model.blank == VOCAB
    sound = model.encode(sounds(), torch.tensor([13, 13, 13]))
    torch.testing.assert_close(model.read(sound.vectors), model(sounds()), atol=1e-5, rtol=0)
    log_probs = model(sounds()).log_softmax(-1).transpose(0, 1)
    targets, counts = words(3, 2), torch.tensor([2, 2, 2])
    loss = F.ctc_loss(log_probs, targets, sound.lengths, counts, blank=model.blank, reduction="none")
    assert (loss > 0).all()


@everything
def test_it_starts_and_is_kept_like_any_model(name, tmp_path):
    assert parse(type(SPEECH[name]), plain(SPEECH[name])) == SPEECH[name]
    first, again, other = (build_model(SPEECH[name], seed=seed).eval() for seed in (3, 3, 4))
    logits = called(first, sounds())
    assert torch.equal(logits, called(again, sounds()))
    assert not torch.equal(logits, called(other, sounds()))
    save_weights(first, tmp_path / "model.safetensors")
    load_weights(other, tmp_path / "model.safetensors")
    assert torch.equal(logits, called(other, sounds()))


@torch.no_grad()
def test_the_encoder_is_whisper_s():
    """The same weights in transformers' Whisper, whose keys have no bias and whose positions are in halves."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    settings = transformers.WhisperConfig(
        num_mel_bins=6, d_model=16, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=24,
        max_source_positions=10, dropout=0.0, attention_dropout=0.0, activation_dropout=0.0,
    )  # fmt: skip
    theirs = transformers.models.whisper.modeling_whisper.WhisperEncoder(settings).eval()
    for parameter in theirs.parameters():
        parameter += 0.1 * torch.randn_like(parameter)
    config = SpeechCtcConfig(
        vocab=5, bands=6, width=16, encoder_layers=2, heads=4, inner=24, position=SinusoidalTensor2Tensor()
    )
    codes = SinusoidalTensor2Tensor().codes(torch.arange(10), 16, 10)
    theirs.embed_positions.weight.copy_(codes)  # it makes the same ones, learned from there
    ours = build_model(config).encoder.eval()
    given = {f"convolutions.layers.{n}.{part}": getattr(getattr(theirs, f"conv{n + 1}"), part)
             for n in (0, 1) for part in ("weight", "bias")}  # fmt: skip
    for n, layer in enumerate(theirs.layers):
        block, attention = f"stack.blocks.{n}", layer.self_attn
        projections = (attention.q_proj, attention.k_proj, attention.v_proj)
        given[f"{block}.attention.qkv.weight"] = torch.cat([each.weight for each in projections])
        given[f"{block}.attention.qkv.bias"] = torch.cat(
            [attention.q_proj.bias, torch.zeros(16), attention.v_proj.bias]
        )
        for name, part in {
            "attention.out": attention.out_proj, "attention_norm": layer.self_attn_layer_norm,
            "feedforward.up": layer.fc1, "feedforward.down": layer.fc2, "feedforward_norm": layer.final_layer_norm,
        }.items():  # fmt: skip
            given |= {f"{block}.{name}.{kind}": getattr(part, kind) for kind in ("weight", "bias")}
    given |= {f"stack.output_norm.{kind}": getattr(theirs.layer_norm, kind) for kind in ("weight", "bias")}
    ours.load_state_dict(given)
    frames = sounds(2, 20)
    expected = theirs(frames.mT).last_hidden_state
    torch.testing.assert_close(ours(frames, None).vectors, expected, atol=1e-5, rtol=1e-5)


def test_whisper_s_positions_are_those_of_tensor2tensor():
    transformers = pytest.importorskip("transformers")
    theirs = transformers.models.whisper.modeling_whisper.sinusoids(10, 16)
    torch.testing.assert_close(SinusoidalTensor2Tensor().codes(torch.arange(10), 16, 10), theirs)


@everything
def test_bad_input(name):
    model = build(name)
    with pytest.raises(ShapeError, match=r"frames have shape \(3, 13\), expected \(B, S, bands\)"):
        called(model, sounds()[..., 0])
    with pytest.raises(DataError, match="frames have 5 bands, this model reads 6"):
        called(model, sounds()[..., :5])
    with pytest.raises(DataError, match="sound length 14 in batch row 1: allowed are 1 to 13"):
        called(model, sounds(), torch.tensor([13, 14, 1]))
    with pytest.raises(DataError, match="the sound is empty"):
        called(model, sounds()[:, :0])
    with pytest.raises(ConfigError, match="the model reads frames, which is missing"):
        model.run(ModelInputs(tokens=words()))


@writing
def test_a_transcriber_starts_from_frames(name):
    model = build(name)
    with pytest.raises(ConfigError, match="needs the frames of a sound to start from, got no source"):
        model.start()
    with pytest.raises(ConfigError, match="got no frames"):
        model.start(EncoderInput(words()))


def test_learned_positions_end():
    with pytest.raises(TooLongError, match="up to 50 tokens, the learned positions end at 40"):
        build("speech-transformer-learned")(sounds(1, 150), words(1))


def test_settings_that_make_no_model():
    with pytest.raises(ConfigError, match=r"strides=\(\), allowed: one or more"):
        SpeechCtcConfig(vocab=5, strides=())
    with pytest.raises(ConfigError, match="strides=0, allowed: whole numbers from 1"):
        SpeechTransformerConfig(vocab=5, strides=(1, 0))
    with pytest.raises(ConfigError, match="not divisible by heads=5"):
        SpeechTransformerConfig(vocab=5, width=16, heads=5)
