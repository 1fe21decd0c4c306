"""`headway look`: which runs have a page, and the message for those without one."""

from __future__ import annotations

import pytest

from headway.errors import ConfigError, DataError
from headway.models import ConvnetConfig, build_model
from headway.tasks.encoder_explanation import text_ids
from headway.tasks.image_classification import Classification
from tests.inspection.page.subjects import words
from tests.pipelines import pipeline_of


def test_a_run_without_attention_says_so():
    model = build_model(ConvnetConfig(classes=2, widths=(4,), blocks=1))
    pipeline = pipeline_of(Classification(size=32), model, classes=("a", "b"), folder="runs/x")
    with pytest.raises(ConfigError, match="runs/x: look needs attention; a Convnet has no attention layers"):
        pipeline.explain("photo.png")


def test_an_empty_text_says_so():
    with pytest.raises(DataError, match="the text is empty"):
        text_ids(words(), "")
