"""What `headway look` wrote, read back."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any


def payload_of(page: Path) -> dict[str, Any]:
    """The data of a page."""
    found = re.search(r'id="payload">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    payload: dict[str, Any] = json.loads(found[1])
    return payload


def until(page: Any, condition: str, argument: Any = None, seconds: float = 20.0) -> None:
    """Wait for a condition in a page; playwright's own wait evaluates text there, which the page's policy forbids."""
    end = time.monotonic() + seconds
    while not page.evaluate(condition, argument):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(20)
