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
    return _page(str(payload["title"]), json_block(payload), _policy())


def live_document() -> tuple[str, str]:
    """The page without data, which asks a server on this machine for it, and its content security policy.

    The policy belongs in the header as well: only there may it forbid other pages to embed this one.
    """
    policy = f"{_policy()}; connect-src 'self'; form-action 'none'; base-uri 'none'"
    return _page("headway look", "", policy), f"{policy}; frame-ancestors 'none'"


def _policy() -> str:
    digest = base64.b64encode(hashlib.sha256(_part("bundle.js").encode()).digest()).decode()
    return _POLICY.format(script=digest)


def _part(name: str) -> str:
    return files("headway.inspection.page").joinpath(name).read_text(encoding="utf-8")


def _page(title: str, payload: str, policy: str) -> str:
    return _PAGE.format(
        policy=policy, title=html.escape(title), style=_part("page.css"), payload=payload, script=_part("bundle.js")
    )


def json_block(payload: dict[str, Any]) -> str:
    """JSON for a script element: characters that could end it or start a comment are escaped."""
    text = json.dumps(payload, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
