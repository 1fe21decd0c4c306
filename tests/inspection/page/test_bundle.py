"""The script in the package is what web/ builds, and no larger than it may be."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

from headway.inspection.page.payload import VERSION, RunFacts, payload
from headway.models import BertConfig, build_model
from headway.tasks.encoder_explanation import explain_text
from tests.inspection.page.subjects import translation, vit, words
from tests.node import WEB, needs_node
from tests.pages import payload_of

ROOT = Path(__file__).parents[3]
BUNDLE = ROOT / "src/headway/inspection/page/bundle.js"


def test_the_bundle_is_built_from_its_sources(tmp_path):
    node = needs_node()
    subprocess.run([node, WEB / "build.mjs", tmp_path / "bundle.js"], check=True, timeout=60)
    assert (tmp_path / "bundle.js").read_bytes() == BUNDLE.read_bytes(), "web/ changed: run `node web/build.mjs`"


def test_the_script_stays_small():
    assert len(gzip.compress(BUNDLE.read_bytes(), 9)) <= 70_000
    assert len(gzip.compress(BUNDLE.with_name("page.css").read_bytes(), 9)) <= 10_000


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
        lapse = {"time_lapse"} if name == "puppy" else set()  # the demo keeps looks while it trains
        assert kept.keys() == fresh.keys() | lapse
        for part in ("attentions", "stacks"):
            assert kept[part][0].keys() == fresh[part][0].keys()
        assert kept["checks"]
        assert kept["start"]


def encoder() -> dict[str, Any]:
    tokenizer = words()
    model = build_model(BertConfig(vocab=tokenizer.size, context=32, width=32, layers=1, heads=2, inner=32))
    explained = explain_text(model, tokenizer, "the small cat", predicts=False)
    return payload(model.eval(), explained, RunFacts(folder="runs/tiny"))


def test_the_lock_names_no_address():
    lock = json.loads((WEB / "package-lock.json").read_text())
    assert all("resolved" not in package for package in lock["packages"].values())
