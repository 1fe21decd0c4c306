"""docs/parts.md: its code is run from top to bottom, and its assertions hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import headway.nn
import headway.ops

PAGE = Path(__file__).parents[1] / "docs" / "parts.md"


def test_the_page_runs():
    text = PAGE.read_text()
    blocks = list(re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    assert len(blocks) >= 5
    namespace: dict[str, object] = {"__name__": "page"}
    for block in blocks:
        line = text[: block.start()].count("\n") + 1
        exec(compile("\n" * line + block[1], "docs/parts.md", "exec"), namespace)


@pytest.mark.parametrize("package", [headway.nn, headway.ops])
def test_every_public_name_is_there(package):
    """TRIALS B: `dir(headway.nn)` was empty."""
    assert package.__all__ == sorted(package.__all__, key=lambda name: (not name.isupper(), name))
    for name in package.__all__:
        assert getattr(package, name).__doc__ or name.isupper(), name
    assert set(package.__all__) <= set(dir(package))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Blok'"):
        headway.nn.Blok  # noqa: B018
