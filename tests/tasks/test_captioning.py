"""Captions learned on a few scenes: what a batch is, what the loss sees, what the figures say."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headway.data.augment import Augmentation
from headway.data.captions import CaptionedImages
from headway.data.synthetic.shapes import captions
from headway.data.tokenizers import Tokenizer, Word
from headway.errors import ConfigError, DataError
from headway.metrics.captions import caption_report
from headway.models import CaptionerRnnConfig, build_model
from headway.nn.recurrent import RecurrentConfig
from headway.nn.rnn_attention import AlignmentConfig
from headway.tasks.captioning import Captioning
from headway.tasks.captioning.training import CaptioningTraining

CPU = torch.device("cpu")


def drawn(count: int, seed: int) -> CaptionedImages:
    pixels, said = captions(count, size=16, seed=seed)
    return CaptionedImages(pixels, tuple((text,) for text in said))


def make(splits: dict[str, CaptionedImages], config: Captioning | None = None) -> CaptioningTraining:
    tokenizer = Tokenizer.train(Word(), (text for said in splits["train"].captions for text in said))
    return CaptioningTraining(config or Captioning(size=16), tokenizer, splits, batch_tokens=8, seed=0)


@pytest.fixture(scope="module")
def learned():
    """A task of sixteen scenes and a model that knows them by heart."""
    scenes = drawn(16, 0)
    task = make({"train": scenes, "val": scenes})
    config = CaptionerRnnConfig(
        vocab=task.tokenizer.size,
        image=16,
        widths=(16, 32),
        width=32,
        decoder=RecurrentConfig(hidden=64),
        attention=AlignmentConfig(kind="additive", width=16),
    )
    model = build_model(config).train()
    optimiser = torch.optim.Adam(model.parameters(), 5e-3)
    batch = task.batch(np.arange(16))
    for _ in range(150):
        term = task.loss(model, batch)["next_token"]
        optimiser.zero_grad()
        (term.total / term.count).backward()
        optimiser.step()
    with torch.no_grad():  # what BatchNorm keeps for later has to catch up
        for _ in range(60):
            task.loss(model, batch)
    return task, model.eval()


def test_a_batch_has_start_words_stop(learned):
    task, _ = learned
    batch = task.batch(np.array([3, 1]))
    rows, tokens, lengths = batch.inputs
    assert rows.tolist() == [3, 1]
    own = task.tokenizer.encode(task.splits["train"].captions[3][0])
    assert tokens[0, : lengths[0]].tolist() == [task.tokenizer.start, *own]
    assert batch.targets[0, : lengths[0]].tolist() == [*own, task.tokenizer.stop]
    assert batch.count == int(lengths.sum()) == int((batch.targets >= 0).sum())


def test_scenes_are_learned_by_heart_greedily_and_by_beam(learned):
    task, model = learned
    for beam in (1, 3):
        report = task.report(task.captions(model, CPU, "val", beam=beam), "val")
        assert report.to_json() == {"bleu4": pytest.approx(100), "cider": pytest.approx(10), "exact_match": 1.0,
                                    "sentences": 16}  # fmt: skip
    checked = task.validate(model, CPU)
    assert checked.loss < 0.1
    assert checked.beside == {"val_exact_match": 1.0}
    assert all(line.split(" → ")[0] == line.split(" → ")[1] for line in task.samples(model, CPU))


def test_swapping_images_swaps_captions(learned):
    task, model = learned
    pixels = task.splits["val"].pixels
    order = np.random.default_rng(0).permutation(16)
    said = task.describe(model, CPU, pixels)
    assert task.describe(model, CPU, pixels[order]) == [said[n] for n in order]


def test_shuffled_pairs_raise_the_loss(learned):
    task, model = learned
    scenes = task.splits["val"]
    wrong = CaptionedImages(scenes.pixels, (*scenes.captions[1:], scenes.captions[0]))
    shuffled = CaptioningTraining(task.config, task.tokenizer, {"val": wrong}, batch_tokens=8, seed=0)
    assert shuffled.forced(model, CPU, "val").loss > 10 * task.forced(model, CPU, "val").loss


def test_the_first_convolution_gets_a_gradient(learned):
    task, model = learned
    task.loss(model, task.batch(np.arange(4)))["next_token"].total.backward()
    first = next(module for module in model.modules() if isinstance(module, torch.nn.Conv2d))
    assert first.weight.grad.abs().sum() > 0
    model.zero_grad()


def test_several_captions_of_an_image_are_several_pairs():
    scenes = CaptionedImages(drawn(3, 0).pixels, (("a dog", "one dog"), ("a cat",), ("a b c d e f",)))
    task = make({"train": scenes, "val": scenes}, Captioning(size=16, max_length=4))
    batch = task.batch(np.array([1, 2, 3]))
    assert batch.inputs[0].tolist() == [0, 1, 2]
    assert batch.inputs[2].tolist() == [3, 3, 4]  # the long one is cut, its stop token included


def test_augmentation_depends_on_the_step_alone():
    scenes = drawn(16, 0)
    config = Captioning(size=16, augment=Augmentation(flip=False, crop=2))
    first, again = make({"train": scenes}, config), make({"train": scenes}, config)
    rows = torch.arange(4)
    one, two = (task.images.prepared(rows, 3).images for task in (first, again))
    assert torch.equal(one, two)
    assert not torch.equal(one, first.images.prepared(rows, 4).images)


def test_bad_settings_and_inputs_are_refused():
    with pytest.raises(ConfigError, match="two images mixed have no caption"):
        Captioning(augment=Augmentation(mix=0.5))
    with pytest.raises(ConfigError, match=r"task\.std"):
        Captioning(std=(0.5, 0.0, 0.5))
    task = make({"train": drawn(4, 0)})
    with pytest.raises(DataError, match="no split 'test', there are train"):
        task.captions(torch.nn.Identity(), CPU, "test")


def test_a_report_takes_any_of_several_references():
    references = [["A dog runs on the beach.", "a brown dog on sand"], ["two cats sleep on a mat"]]
    report = caption_report(["a brown dog on sand", "two cats sleep on the mat"], references)
    assert report.exact_match == 0.5
    assert 0 < report.bleu4 < 100
    assert 0 < report.cider < 10
    assert caption_report(["a dog runs on the beach", "Two cats sleep on a mat!"], references).bleu4 == pytest.approx(
        100
    )
    with pytest.raises(DataError, match="1 captions for 2 images"):
        caption_report(["a"], references)
