"""The script in the package is what web/ builds, and d3's licence comes with it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headway.inspection.page.payload import VERSION, RunFacts, payload
from headway.models import BertConfig, build_model
from headway.tasks.encoder_explanation import explain_text
from tests.inspection.page.subjects import translation, vit, words
from tests.pages import payload_of

ROOT = Path(__file__).parents[3]
BUNDLE = ROOT / "src/headway/inspection/page/bundle.js"


def test_the_bundle_is_built_from_its_sources(tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the page's script is not rebuilt")
    subprocess.run([node, ROOT / "web/build.mjs", tmp_path / "bundle.js"], check=True, timeout=60)
    assert (tmp_path / "bundle.js").read_text() == BUNDLE.read_text(), "web/ changed: run `node web/build.mjs`"


def test_the_pages_of_the_documents_hold_the_current_script():
    pages = sorted((ROOT / "docs/pages").glob("*.html"))
    assert len(pages) >= 3
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert BUNDLE.read_text() in text, f"{page.name}: run `python web/pages.py`"
        assert BUNDLE.with_name("page.css").read_text() in text, f"{page.name}: run `python web/pages.py`"


def test_the_pages_of_the_documents_hold_the_current_data():
    """Their numbers are of an earlier run, but what a page holds is what one written today would hold."""
    kinds = {"puppy": translation, "digit": vit, "it": encoder, "special": encoder}
    for name, made in kinds.items():
        kept, fresh = payload_of(ROOT / f"docs/pages/{name}.html"), made()
        assert kept["headway"] == VERSION, f"{name}: run `python web/pages.py RUNS`"
        assert kept.keys() == fresh.keys()
        for part in ("attentions", "stacks"):
            assert kept[part][0].keys() == fresh[part][0].keys()
        assert kept["checks"]
        assert kept["start"]


def encoder() -> dict[str, Any]:
    tokenizer = words()
    model = build_model(BertConfig(vocab=tokenizer.size, context=32, width=32, layers=1, heads=2, inner=32))
    explained = explain_text(model, tokenizer, "the small cat", predicts=False)
    return payload(model.eval(), explained, RunFacts(folder="runs/tiny"))


def test_the_licence_of_d3_is_kept():
    text = BUNDLE.read_text()
    assert "Copyright 2010-" in text
    assert "Permission to use, copy, modify, and/or distribute this software" in text
    assert (ROOT / "web/vendor/LICENSE-d3.txt").read_text().strip() in text


def test_the_lock_names_no_address():
    lock = json.loads((ROOT / "web/package-lock.json").read_text())
    assert all("resolved" not in package for package in lock["packages"].values())
