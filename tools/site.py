"""Builds the documentation site into build/site from docs/ and the pages of the root (`make site`).

Sphinx with MyST and furo: the documents stay the Markdown that GitHub shows, warnings are errors, and the search works
in files that are opened from a folder. Material for MkDocs was the alternative; its support ends in May 2027.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE, SITE = ROOT / "build" / "site-source", ROOT / "build" / "site"
PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
HTML = re.compile(r"\[([^]]+)\]\((pages/[\w-]+\.html)\)")  # pages that headway wrote: copied, not translated
CODE = re.compile(r"\[([^]]+)\]\((?:\.\./)?((?:tests|web)/[^)\s]+|[\w-]+\.py)\)")  # files that are not part of the site

# What the reader wants to do, and the documents for it, in the order of the side bar.
CHAPTERS = {
    "Tutorials": (
        "tutorials/first-hour", "tutorials/own-text", "tutorials/own-images", "tutorials/fine-tune",
        "tutorials/look-inside", "tutorials/teaching",
    ),
    "How to": (
        "training", "data", "estimate", "scale", "finetuning", "tasks", "decoding", "jobs", "vision", "world",
        "serving", "interop", "verify", "look", "capture", "parts", "extending",
    ),
    "Reference": ("commands", "config", "api", "attention", "glossary"),
    "Explanation": ("decks", "architecture", "reliability", "variants", "universal", "flash", "results", "experiments"),
    "Project": ("CHANGELOG", "CONTRIBUTING", "SECURITY", "release"),
}  # fmt: skip

CONF = """
project = "headway"
extensions = ["myst_parser", "sphinx_copybutton"]
myst_heading_anchors = 4
myst_enable_extensions = []
html_theme = "furo"
html_title = "headway"
html_extra_path = ["extra"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
copybutton_exclude = ".linenos, .gp, .go"
highlight_language = "none"  # of a block without a language: commands
pygments_style = "friendly"
pygments_dark_style = "monokai"
suppress_warnings = ["misc.highlighting_failure"]  # an ellipsis stands for a default that has no short form
"""


def assemble(source: Path) -> None:
    """Write everything that Sphinx reads into an empty folder. Raises ValueError for a document that no chapter has."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "docs", source, ignore=shutil.ignore_patterns("*.py", "pages"))
    shutil.copytree(ROOT / "docs" / "pages", source / "extra" / "pages")
    for name in PAGES:
        (source / name).write_text(LINK.sub(_from_root, CODE.sub(r"\1 (`\2`)", (ROOT / name).read_text())))
    for page in source.rglob("*.md"):
        text = HTML.sub(r'<a href="\2">\1</a>', CODE.sub(r"\1 (`\2`)", page.read_text()))
        page.write_text(LINK.sub(_to_root, text))
    found = {str(page.relative_to(source).with_suffix("")) for page in source.rglob("*.md")} - {"index"}
    listed = [page for pages in CHAPTERS.values() for page in pages]
    if sorted(listed) != sorted(found):
        raise ValueError(f"in no chapter, or not there: {', '.join(sorted(found ^ set(listed)))}")
    index = source / "index.md"
    trees = (
        f"```{{toctree}}\n:hidden:\n:caption: {name}\n\n" + "\n".join(pages) + "\n```"
        for name, pages in CHAPTERS.items()
    )
    index.write_text("\n\n".join([index.read_text(), *trees]) + "\n")
    (source / "conf.py").write_text(CONF)


def build(source: Path, site: Path) -> None:
    """Assemble and build; exits with Sphinx's code if it warns."""
    assemble(source)
    shutil.rmtree(site, ignore_errors=True)
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", str(source), str(site)]
    done = subprocess.run(command)
    if done.returncode:
        sys.exit(done.returncode)


def _from_root(link: re.Match[str]) -> str:
    """A link of a page of the root, as seen from the documents' folder."""
    target = link[2].removeprefix("docs/")
    return f"{link[1]}{re.sub('^README.md', 'index.md', target)}{link[3]}"


def _to_root(link: re.Match[str]) -> str:
    """A link to a page of the root, which is beside the documents in the site."""
    target = re.sub(rf"^((?:\.\./)*)\.\./({'|'.join(map(re.escape, PAGES))})", r"\1\2", link[2])
    return f"{link[1]}{target}{link[3]}"


if __name__ == "__main__":
    build(SOURCE, SITE)
    print(f"{SITE.relative_to(ROOT)}/index.html")
