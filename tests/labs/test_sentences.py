"""The three-sentence language model."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from headway.labs import sentences


@pytest.fixture(scope="module")
def fed():
    return sentences.train(seed=0)


@pytest.fixture(scope="module")
def deaf():
    return sentences.train(seed=0, feed_back=False)


def test_the_world_is_twelve_words_and_nineteen_targets():
    assert len(sentences.WORDS) - 3 == 12
    assert int((sentences.batch().targets != sentences.IDS[sentences.PAD]).sum()) == 19
    assert pytest.approx(0.1735, abs=5e-5) == sentences.FLOOR


def test_the_loss_comes_down_to_its_floor(fed):
    assert sentences.FLOOR <= fed[1][-1] <= 0.18


def test_samples_are_the_three_sentences_each_about_a_third(fed):
    lines = sentences.samples(fed[0], 1000)
    assert sentences.share_of_sentences(lines) >= 0.99
    counts = Counter(lines)
    assert all(0.25 < counts[sentence] / 1000 < 0.42 for sentence in sentences.SENTENCES)


def test_without_feedback_the_model_is_right_at_every_position_and_talks_nonsense(deaf):
    model, nats = deaf
    data = sentences.batch(feed_back=False)
    with torch.no_grad():
        predicted = model(data.inputs)[0].softmax(-1)
    alive = data.targets != sentences.IDS[sentences.PAD]
    for t in range(4):  # the best a model without feedback can do: the share of each word at position t
        share = torch.bincount(data.targets[alive[:, t], t], minlength=len(sentences.WORDS)) / alive[:, t].sum()
        torch.testing.assert_close(predicted[t], share, atol=0.03, rtol=0)
    assert nats[-1] > 2 * sentences.FLOOR
    assert sentences.share_of_sentences(sentences.samples(model, 1000, feed_back=False)) < 0.15


def test_training_is_bitwise_repeatable():
    first, again = (sentences.train(steps=20, seed=4)[0] for _ in range(2))
    assert all(map(torch.equal, first.parameters(), again.parameters()))
