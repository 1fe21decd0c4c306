"""What `headway look` wrote, read back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any


def payload_of(page: Path) -> dict[str, Any]:
    """The data of a page."""
    found = re.search(r'id="payload">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    payload: dict[str, Any] = json.loads(found[1])
    return payload
