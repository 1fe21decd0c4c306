"""The page of the course in a real browser: narrow and wide, light and dark, without a network."""

from __future__ import annotations

from itertools import pairwise

import pytest

from headway.labs.course import run_course

LABS = ("party", "tokens", "deck")  # the last has the widest tables


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("course")
    run_course(folder, quick=True, labs=LABS)
    return folder / "index.html"


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_the_page_is_accessible_fits_and_asks_for_nothing(browser, page, width, scheme):
    axe = pytest.importorskip("axe_core_python.sync_playwright").Axe()
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
    opened, asked = context.new_page(), []
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(page.as_uri())
    assert [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in axe.run(opened)["violations"]] == []
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert opened.locator("article").count() == len(LABS)
    for part in ("Questions that the decks ask", "Words that the labs use"):
        opened.locator("summary").filter(has_text=part).click()
    assert [each["id"] for each in axe.run(opened)["violations"]] == []
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    targets = opened.eval_on_selector_all("details a", "found => found.map(each => each.getAttribute('href'))")
    assert "#deck" in targets
    assert {*targets} <= {f"#{name}" for name in LABS}
    levels = opened.eval_on_selector_all("h1, h2, h3, h4", "found => found.map(each => Number(each.tagName[1]))")
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))
    context.close()
