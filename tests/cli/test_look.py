"""`headway look`: which runs have a page, and what is said of those that have none."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from headway.cli.commands.look import payload
from headway.errors import ConfigError, DataError
from headway.inspection.page.masked import text_ids
from headway.models import ConvnetConfig, build_model
from headway.tasks.image_classification.training import Classification
from tests.inspection.page.subjects import words


def test_a_run_without_attention_says_so():
    model = build_model(ConvnetConfig(classes=2, widths=(4,), blocks=1))
    run = SimpleNamespace(config=SimpleNamespace(task=Classification(size=32)), model=model, folder="runs/x", steps=[1])
    with pytest.raises(ConfigError, match="runs/x: a Convnet has no attention to look at"):
        payload(run, "photo.png")  # type: ignore[arg-type]


def test_an_empty_text_says_so():
    with pytest.raises(DataError, match="the text is empty"):
        text_ids(words(), "")
