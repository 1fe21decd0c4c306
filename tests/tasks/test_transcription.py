"""Transcripts learned on a few sounds, by both objectives: what a batch is, what the loss sees, what is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import headway
from headway.config import override
from headway.data.config import DataConfig
from headway.data.log_mel import LogMel
from headway.data.speech import TranscribedSounds
from headway.data.synthetic.spoken_digits import spoken_digits
from headway.data.tokenizers import SPECIALS, Characters, Tokenizer
from headway.errors import ConfigError, DataError, UnknownTokensWarning
from headway.models import GptConfig, SpeechCtcConfig, SpeechTransformerConfig, build_model
from headway.presets import PRESETS
from headway.reliability.runs import TINY
from headway.reliability.runs import make as make_run
from headway.runs.config import RunConfig
from headway.runs.train import train_run
from headway.tasks.proposal import recognise
from headway.tasks.training_task import IGNORED
from headway.tasks.transcription import Transcription
from headway.tasks.transcription.objectives import objective_of
from headway.tasks.transcription.search import like_lengths
from headway.tasks.transcription.training import TranscriptionTraining
from headway.training.checkpoints import Checkpoints
from headway.training.config import TrainConfig
from tests.spoken import write_speech, write_table
from tests.tasks.tiny_runs import make_in_two_sittings

CPU = torch.device("cpu")
SOUND = LogMel(rate=8000, window=256, hop=128, bands=20)
TASK = Transcription(sound=SOUND, max_length=60, beam=3)
SIZES = {"vocab": 20, "bands": 20, "width": 32, "encoder_layers": 1, "heads": 2, "inner": 64}
MODELS = {
    "ctc": SpeechCtcConfig(**SIZES),
    "next-token": SpeechTransformerConfig(**SIZES, decoder_layers=1, strides=(2, 2)),
}
objectives = pytest.mark.parametrize("name", MODELS)


def drawn(count: int, seed: int, words: int = 6) -> TranscribedSounds:
    found = spoken_digits(8 * count, seed=seed)
    pairs = [(w, t) for w, t in zip(found.waves, found.texts, strict=True) if len(t.split()) <= words][:count]
    frames = [SOUND.frames(wave, "x") for wave, _ in pairs]
    starts = np.cumsum([0, *map(len, frames)])
    places = tuple(f"sound {n + 1}" for n in range(count))
    return TranscribedSounds(np.concatenate(frames), starts, tuple(text for _, text in pairs), places)


def make(name: str, sounds: TranscribedSounds, task: Transcription = TASK, **more: object) -> TranscriptionTraining:
    tokenizer = Tokenizer.train(Characters(), sounds.texts)
    model = replace(MODELS[name], vocab=tokenizer.size, **more)
    splits = {"train": sounds, "val": sounds}
    objective = objective_of(task, tokenizer, model)
    return TranscriptionTraining(task, tokenizer, objective, splits, batch_tokens=400, seed=0)


@pytest.fixture(scope="module", params=MODELS)
def learned(request):
    """A task of eight sounds and a model that knows them by heart."""
    torch.manual_seed(0)
    training = make(request.param, drawn(8, 0, words=2))
    model = build_model(training.objective.model_config).train()
    optimiser = torch.optim.Adam(model.parameters(), 4e-3, betas=(0.9, 0.98))
    batch = training.batch(np.arange(8))
    for _ in range(350):
        (term,) = training.loss(model, batch).values()
        optimiser.zero_grad()
        (term.total / term.count).backward()
        optimiser.step()
    return training, model.eval()


def test_it_learns_by_heart_and_both_searches_agree(learned):
    training, model = learned
    validated = training.validate(model, CPU)
    assert validated.loss < 0.1
    assert validated.beside == {"val_wer": 0.0, "val_exact_match": 1.0}
    assert training.transcripts(model, CPU, "val", beam=4) == list(training.splits["val"].texts)
    assert training.samples(model, CPU)[0].split(" → ")[0] == training.splits["val"].texts[0]


def test_a_batch_gives_the_texts_of_each_sound_alone(learned):
    training, model = learned
    sounds = [training.splits["val"][n] for n in range(8)]
    for beam in (1, 3):
        together = training.search(model, CPU, sounds, beam=beam)
        alone = [training.search(model, CPU, [each], beam=beam)[0] for each in sounds]
        assert [found[0].tokens for found in together] == [found[0].tokens for found in alone]
        nats = [[found[0].log_probability for found in some] for some in (together, alone)]
        np.testing.assert_allclose(*nats, atol=1e-3)


def test_the_log_probability_of_a_text_is_the_loss_of_it(learned):
    """The loss of a text that was found, as if it were the reference; the stop token included with a decoder."""
    training, model = learned
    found = training.search(model, CPU, [training.splits["val"][n] for n in range(8)], beam=1)
    loss = training.forced(model, CPU, "val")
    assert -sum(each[0].log_probability for each in found) == pytest.approx(loss.loss * loss.tokens, rel=1e-3)


def test_a_batch_of_next_tokens():
    training = make("next-token", drawn(5, 1))
    tokenizer = training.tokenizer
    batch = training.batch(np.asarray([3, 1]))
    frames, tokens, lengths, counts = batch.inputs
    assert lengths.tolist() == [len(training.splits["train"][n]) for n in (3, 1)]
    assert frames.shape == (2, int(lengths.max()), 20)
    for row, n in enumerate((3, 1)):
        ids = tokenizer.encode(training.splits["train"].texts[n])
        count = len(ids) + 1
        assert tokens[row, :count].tolist() == [tokenizer.start, *ids]
        assert batch.targets[row, :count].tolist() == [*ids, tokenizer.stop]
        assert (batch.targets[row, count:] == IGNORED).all()
    assert batch.count == int(counts.sum()) == int((batch.targets != IGNORED).sum())


def test_a_batch_of_ctc_and_its_loss_by_rows():
    training = make("ctc", drawn(5, 1))
    model = build_model(training.objective.model_config).eval()
    rows = np.arange(5)
    batch = training.batch(rows)
    assert len(batch.inputs) == 2
    ids = [training.tokenizer.encode(text) for text in training.splits["train"].texts]
    assert [row[row != IGNORED].tolist() for row in batch.targets] == ids
    assert batch.count == sum(map(len, ids))
    whole = training.loss(model, batch)["ctc"].total
    alone = sum(training.loss(model, training.batch(rows[n : n + 1]))["ctc"].total for n in range(5))
    torch.testing.assert_close(whole, alone, rtol=1e-4, atol=1e-3)


def test_batches_of_like_lengths_have_every_sound_once():
    lengths = np.random.default_rng(0).integers(1, 90, 50)
    batches = list(like_lengths(lengths, most=200))
    assert sorted(np.concatenate(batches)) == list(range(50))
    assert all(len(rows) == 1 or len(rows) * lengths[rows].max() <= 200 for rows in batches)
    assert len(batches) < 50
    assert not list(like_lengths(lengths[:0]))


class Certain(torch.nn.Module):
    """Writes 30 tokens, each almost certain, with a little probability of stopping at any of them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self.stop, self.size = tokenizer.stop, tokenizer.size

    def start(self, source, *, capacity=64):
        return torch.zeros(len(source.tokens), dtype=torch.long)

    def extend(self, tokens, state, counts=None):
        shares = torch.full((len(state), self.size), 1e-4)
        shares[:, self.stop] = torch.where(state < 30, 5e-3, 0.99)
        shares[state < 30, -1] = 0.99
        return shares.log()[:, None], state + 1

    def select(self, state, rows):
        return state[rows]


@pytest.mark.parametrize("beam", [1, 2, 4, 8])
def test_a_wide_beam_does_not_end_with_texts_that_stop_too_early(beam):
    """With the rule "first" a beam of 4 had 91.3 % of the strings where greedy search had 99.6 %."""
    training = make("next-token", drawn(2, 1))
    found = training.objective.search(
        Certain(training.tokenizer), torch.zeros(2, 9, 20), torch.tensor([9, 4]), beam=beam
    )
    assert [len(each[0].tokens) for each in found] == [30, 30]


# --- refused --------------------------------------------------------------------------------------------------------


def test_a_sound_too_short_for_its_text_under_ctc():
    sounds = replace(drawn(2, 1), texts=("one", "one " * 12 + "one"))
    moments = MODELS["ctc"].moments(int(sounds.lengths[1]))
    training = make("ctc", sounds)
    seconds = f"{sounds.lengths[1] * 128 / 8000:.2f}"
    with pytest.raises(DataError) as caught:
        training.tokens("train")
    assert str(caught.value) == (
        f"sound 2: a sound of {seconds} s has {moments} outputs, its text needs 51 (CTC: one a token and one between "
        "equal tokens); a smaller task.sound.hop or smaller model.strides give more"
    )
    make("next-token", sounds).tokens("train")  # a decoder may write as much as it likes


@objectives
def test_a_text_of_too_many_tokens(name):
    with pytest.raises(DataError, match=r"^sound 1: a text of \d+ tokens, allowed: up to 5 \(task.max_length=6 with"):
        make(name, drawn(2, 1), replace(TASK, max_length=6)).tokens("train")


@objectives
def test_characters_outside_a_vocabulary_without_unknown_tokens(name):
    sounds = drawn(3, 1)
    known = [each for each in SPECIALS if each != "<unk>"]
    tokenizer = Tokenizer.train(Characters(), sounds.texts, specials=known)
    sounds = replace(sounds, texts=("one", "öne", "two"))
    objective = objective_of(TASK, tokenizer, MODELS[name])
    training = TranscriptionTraining(TASK, tokenizer, objective, {"test": sounds}, batch_tokens=400, seed=0)
    with pytest.raises(DataError, match=r"^sound 2: character 'ö' \(U\+00F6\) is not among the \d+ of this vocab"):
        training.tokens("test")


def test_an_unknown_split():
    with pytest.raises(DataError, match="no split 'dev', there are train, val"):
        make("ctc", drawn(2, 1)).tokens("dev")


def test_label_smoothing_is_not_for_ctc():
    training = make("ctc", drawn(2, 1))
    model = build_model(training.objective.model_config)
    with pytest.raises(ConfigError, match=r"train.label_smoothing=0.1, allowed with CTC: 0"):
        training.loss(model, training.batch(np.arange(2)), smoothing=0.1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"seconds": 0}, "task.seconds=0"), ({"beam": 0}, "task.beam=0"), ({"length_penalty": 99}, "length_penalty=99")],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(ConfigError, match=message):
        Transcription(**settings)


def test_a_model_that_does_not_fit():
    with pytest.raises(ConfigError, match="model=gpt, allowed for a transcriber: speech-ctc, speech-transformer"):
        TASK.check_model(GptConfig(vocab=5, context=4, width=4, layers=1, heads=1))
    with pytest.raises(ConfigError, match=r"task.sound.bands=20, model.bands=80: expected the same"):
        TASK.check_model(SpeechCtcConfig(vocab=5))


# --- runs -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=MODELS)
def run(request, tmp_path_factory):
    """A run on a folder of files, of either model."""
    desk = tmp_path_factory.mktemp(request.param)
    data = write_speech(desk / "speech", 12)
    config = RunConfig(
        task=TASK,
        data=DataConfig(spec=str(data), tokenizer=Characters(), cache=str(desk / "cache")),
        model=MODELS[request.param],
        train=TrainConfig(steps=2, batch_tokens=400, evaluate_every=1, save_every=1, device="cpu"),
    )
    train_run(config, desk / "run")
    return headway.load(desk / "run", device="cpu")


def test_evaluate_on_other_data(run, tmp_path):
    other = write_speech(tmp_path / "other", 3, seed=9)
    report = run.evaluate(str(other), beam=1)
    assert (report.split, report.values["sounds"]) == ("train", 3)
    assert math.isfinite(report.values["loss"])
    write_table(other / "metadata.csv", [("0.wav", "one"), ("1.wav", "NEUN")])
    with pytest.warns(UnknownTokensWarning, match=r"^4 tokens in 1 line are not in the vocabulary: read as <unk> "):
        report = run.evaluate(str(other))
    assert report.values["wer"] >= 0.5  # the references stay as they are: what cannot be written is wrong


def test_verify_finds_no_bug(run):
    report = run.verify()
    assert report.bugs == []
    names = {finding.check.name for finding in report.findings if finding.verdict == "rounding"}
    assert {"batch, right padding", "padding content", "other rows", "precision bf16", "precision int8"} <= names
    assert ("cache" in names) is (run.config.model.objective == "next-token")


def test_look_has_the_moments_of_the_sound(run):
    file = f"{run.config.data.spec}/0.wav"
    explanation = run.pipeline.explain(file)
    moments = explanation.sequences["moments"]
    (frames,) = run.pipeline._read([file])
    assert moments["grid"] == [1, run.config.model.moments(len(frames))]
    assert len(moments["tokens"]) == moments["grid"][1]
    assert explanation.image.pixels.shape == (1, 20, len(frames))
    assert len(explanation.forward()) == len(explanation.output.targets)
    assert "<html" in run.look(file)


def test_transcribe_in_int8_and_with_a_beam(run):
    files = [f"{run.config.data.spec}/{n}.wav" for n in range(3)]
    found = run.transcribe(files, beam=2)
    assert [each.sound for each in found] == files
    assert all(each.log_probability <= 0 and each.seconds > 0 for each in found)
    assert run.transcribe([]) == []
    with pytest.raises(DataError, match=r"nothing.wav: no such file"):
        run.transcribe(["nothing.wav"])


def test_two_sittings_of_ctc_are_one(tmp_path):
    whole = TINY["transcription"]
    changes = {key: value for key, value in whole.changes.items() if "decoder" not in key and "strides" not in key}
    tiny = replace(whole, preset="speech-ctc", changes=changes)
    with tiny.short():
        folders = [
            make_run(tiny, tmp_path / "whole", tmp_path / "cache"),
            make_in_two_sittings(tiny, tmp_path / "resumed", tmp_path / "cache"),
        ]
    files = [Checkpoints(folder).path(tiny.steps) / "model.safetensors" for folder in folders]
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize(("data", "sign"), [("table", "file and text of metadata.csv"), ("libri", "a.trans.txt")])
def test_sounds_with_texts_are_recognised(tmp_path, data, sign):
    folder = write_speech(tmp_path / "speech" / "84" / "1", 3)
    if data == "libri":
        (folder / "metadata.csv").unlink()
        (folder / "a.trans.txt").write_text("0 one\n1 two\n2 two\n")
    found = recognise(str(tmp_path / "speech" if data == "libri" else folder))
    assert (found.preset, found.found) == ("speech-ctc", "sounds with texts")
    assert sign in found.sign
    assert recognise("spoken-digits").preset == "speech-ctc"


def test_splits_in_folders_are_not_classes(tmp_path):
    for split in ("train", "dev"):
        write_speech(tmp_path / "speech" / split, 3)
    assert recognise(str(tmp_path / "speech")).found == "sounds with texts"


def test_a_table_of_other_files_is_not_recognised(tmp_path):
    (tmp_path / "a.csv").write_text(
        "file,text,label\na.txt,one dog,x\nb.txt,two dogs,y\nc.txt,a dog,x\nd.txt,no dog,y\n"
    )
    assert recognise(str(tmp_path / "a.csv")).found != "sounds with texts"


@pytest.mark.parametrize("name", ["speech-ctc", "speech-transformer"])
def test_the_presets_fit_their_data(name):
    recipe = PRESETS[name].recipe()
    recipe.task.check_model(recipe.model)
    tokenizer = Tokenizer.train(Characters(), spoken_digits(300, seed=0).texts)
    assert recipe.model.vocab == tokenizer.size


@pytest.mark.slow  # a minute or two each, and a few seconds to make 7,500 sounds
@pytest.mark.parametrize("name", ["speech-ctc", "speech-transformer"])
def test_a_preset_learns_to_write_down_digits(name, tmp_path):
    config = override(PRESETS[name].recipe(), {"data.cache": str(tmp_path / "cache"), "train.device": "cpu"})
    train_run(config, tmp_path / "run")
    report = headway.load(tmp_path / "run", device="cpu").evaluate(split="test")
    assert report.values["sounds"] == 1000
    assert report.values["exact_match"] >= 0.98
