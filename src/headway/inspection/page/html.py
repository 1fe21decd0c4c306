"""The HTML document: it loads nothing, and its data is a JSON block that no text in it can end early."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib.resources import files
from typing import Any

# Nothing may be loaded, and only the script with this digest may run: not one injected by a text.
_POLICY = "default-src 'none'; script-src 'sha256-{script}'; style-src 'unsafe-inline'; img-src data: blob:"
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript>This page computes and draws what it shows, and needs JavaScript for it. It loads nothing.</noscript>
<script type="application/json" id="payload">{payload}</script>
<script>{script}</script>
</body>
</html>
"""


def document(payload: dict[str, Any]) -> str:
    """The page of a payload."""
    package = files("headway.inspection.page")
    script, style = (package.joinpath(name).read_text(encoding="utf-8") for name in ("bundle.js", "page.css"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return _PAGE.format(
        policy=_POLICY.format(script=digest),
        title=html.escape(str(payload["title"])),
        style=style,
        payload=json_block(payload),
        script=script,
    )


def json_block(payload: dict[str, Any]) -> str:
    """JSON for a script element: characters that could end it or start a comment are escaped."""
    text = json.dumps(payload, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
