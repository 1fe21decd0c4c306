"""The documentation site: it is built without a warning, every link leads somewhere, and nothing is fetched."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tools import site

pytest.importorskip("sphinx")
pytest.importorskip("furo")
pytest.importorskip("myst_parser")


class _Page(HTMLParser):
    """The addresses, fetched files and anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("id"):
            self.anchors.add(given["id"] or "")
        if tag == "a" and given.get("href"):
            self.links.append(given["href"] or "")
        if tag in ("script", "img", "iframe", "source") and given.get("src"):
            self.fetched.append(given["src"] or "")
        if tag == "link" and given.get("rel") != "canonical" and given.get("href"):
            self.fetched.append(given["href"] or "")


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    site.assemble(folder / "source")
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q"]
    done = subprocess.run([*command, str(folder / "source"), str(folder / "site")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "site"


def test_every_link_leads_to_a_page_and_a_heading(built):
    pages = {path: _Page(path) for path in built.rglob("*.html") if "_static" not in path.parts}
    assert len(pages) > 30
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or path.name in ("genindex.html", "search.html") or "pages" in path.parts:
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            assert target.exists(), f"{path.name}: {link}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].anchors, f"{path.name}: {link}"


def test_nothing_is_fetched_from_elsewhere(built):
    for path in built.rglob("*.html"):
        for address in _Page(path).fetched:
            assert not urlsplit(address).netloc, f"{path.name}: {address}"


def test_the_search_knows_the_tutorials(built):
    index = (built / "searchindex.js").read_text()
    assert all(name in index for name in ("tutorials/first-hour", "tutorials/own-text", "reliability"))


def test_a_document_in_no_chapter_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setitem(site.CHAPTERS, "Project", ("CHANGELOG", "CONTRIBUTING", "SECURITY"))
    with pytest.raises(ValueError, match="release"):
        site.assemble(tmp_path / "source")


def test_links_to_the_root_become_links_beside():
    assert (
        site.LINK.sub(site._to_root, "[a](../SECURITY.md#x) [b](../../CHANGELOG.md)")
        == "[a](SECURITY.md#x) [b](../CHANGELOG.md)"
    )
    assert site.LINK.sub(site._from_root, "[a](docs/look.md) [b](README.md)") == "[a](look.md) [b](index.md)"
