"""Puts the current script and style into the pages of docs/pages: their numbers stay."""

from __future__ import annotations

import json
import re
from pathlib import Path

from headway.inspection.page.html import document

for path in sorted((Path(__file__).parents[1] / "docs/pages").glob("*.html")):
    found = re.search(r'id="payload">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None, f"{path} is no page of headway's"
    path.write_text(document(json.loads(found[1])), encoding="utf-8")
