"""The page at `/`: what is served, with a form to try it. It has nothing of the runs in it: its script asks."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from headway.serving.http import Headers

_POLICY = "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; connect-src 'self'"


@cache
def start_page() -> tuple[str, Headers]:
    """The document and its headers."""
    place = files("headway.serving")
    style, script = ((place / name).read_text(encoding="utf-8") for name in ("start.css", "start.js"))
    text = (place / "start.html").read_text(encoding="utf-8")
    headers = [
        ("content-security-policy", _POLICY.format(script=_digest(script), style=_digest(style))),
        ("referrer-policy", "no-referrer"),
        ("x-frame-options", "DENY"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ]
    return text.replace("STYLE", style).replace("SCRIPT", script), headers


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
