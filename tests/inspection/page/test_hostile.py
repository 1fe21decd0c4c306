"""Text from a model or a user never becomes markup: hostile strings as tokens, titles, classes and names."""

from __future__ import annotations

import json
import re

from headway.data.tokenizers import Tokenizer
from headway.inspection.page.html import document, json_block
from tests.inspection.page.subjects import language, translation, vit

RUN = "window.hacked=(window.hacked||0)+1"
SHAPES = (
    "<script>{}</script>", "</script><script>{}</script>", "<img src=x onerror={}>", "<svg onload={}>",
    '"><img src=x onerror={}>', "'><svg/onload={}>", "<iframe srcdoc='<script>parent.{}</script>'>",
    "javascript:{}", "<a href='javascript:{}'>x</a>", "<body onload={}>", "<!--<script>{}</script>-->",
    "]]><script>{}</script>",
    "<style>@import 'javascript:{}'</style>", "<details open ontoggle={}>", "<math><mi xlink:href='javascript:{}'>",
    "&lt;script&gt;{}&lt;/script&gt;", "\u2028{}\u2029", "${{{}}}", "`{}`",
    "\\u003cscript\\u003e{}\\u003c/script\\u003e",
)  # fmt: skip
STRINGS = [f"{shape.format(RUN)}{'' if not n else f'<i n={n}>'}" for n in range(10) for shape in SHAPES]


def test_there_are_two_hundred_of_them():
    assert len(set(STRINGS)) == 200


def test_nothing_in_the_payload_can_end_its_block():
    block = json_block({"title": "x", "tokens": STRINGS, "odd": "\ud800 \u2028 <!-- --> &amp;"})
    assert not re.search(r"[<>&\u2028\u2029]", block)
    assert json.loads(block)["tokens"] == STRINGS


def test_two_hundred_hostile_strings_run_nothing(show, monkeypatch):
    taken = iter(STRINGS * 40)
    monkeypatch.setattr(Tokenizer, "token", lambda *_: next(taken))
    payload = translation()
    payload |= {"title": STRINGS[1], "given": STRINGS[1], "said": STRINGS[2], "run": STRINGS[3], "model": STRINGS[4]}
    payload["sequences"]["source"]["tokens"] = STRINGS[: len(payload["sequences"]["source"]["tokens"])]
    payload["sequences"]["all"] = {"label": STRINGS[6], "tokens": STRINGS}
    payload["trace"]["lines"][0]["text"] = STRINGS[7]
    seen = show(payload)
    seen.difference()
    page = seen.page
    for n in range(page.locator("button.numbers").count()):
        page.locator("button.numbers").nth(n).evaluate("(each) => each.click()")
    assert page.locator(".behind table").count() >= 10
    page.hover(".token >> nth=2")
    page.click(".token >> nth=30")
    assert page.locator("body").evaluate("() => window.hacked === undefined")
    assert page.locator("main img, main iframe, main script, main style, h1 img").count() == 0
    assert page.locator(".tokens .token", has_text="window.hacked").count() >= 200
    assert not seen.faults


def test_the_policy_lets_no_other_script_run(show):
    seen = show(vit())
    added = (
        "const one = document.createElement('script'); one.textContent = 'window.hacked = 1'; document.body.append(one)"
    )
    seen.page.evaluate(f"() => {{ {added} }}")
    assert seen.page.evaluate("window.hacked === undefined")
    assert any("Content Security Policy" in fault for fault in seen.faults)
    assert "default-src 'none'" in document(language())
