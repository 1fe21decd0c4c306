"""Renews the pages of docs/pages.

`python web/pages.py` puts the current script and style into them: their numbers stay. `python web/pages.py RUNS` looks
at the runs in that folder again (those that are there), so that their numbers are renewed as well.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import headway
from headway.inspection.page.html import document
from headway.inspection.page.payload import VERSION

FOLDER = Path(__file__).parents[1] / "docs/pages"
PAGES = {  # the run, its input, and the tokens at which the page opens
    "puppy": ("demo", "a cute puppy", None),
    "it": ("minilm", "the animal did not cross the street because it was too tired", "it:animal"),
    "special": ("minilm", "that was a special meal in an extraordinary place", "special:extraordinary"),
    "digit": ("digits-vit", "digit.png", None),
}


def renew(path: Path, runs: Path | None) -> None:
    """Write a page again: from its run if that is there, else from the data in it."""
    run, given, start = PAGES[path.stem]
    if runs is not None and (runs / run).is_dir():
        given = str(runs / given) if given.endswith(".png") else given
        loaded = headway.load(runs / run, device="cpu")
        text = loaded.look(given, open=start).replace(json.dumps(str(runs / run)), json.dumps(f"runs/{run}"))
    else:
        found = re.search(r'id="payload">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)
        assert found is not None, f"{path} is not a page of headway"
        payload = json.loads(found[1])
        assert payload["headway"] == VERSION, f"{path}: of version {payload['headway']}; needs its run, {run}"
        text = document(payload)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for name in PAGES:
        renew(FOLDER / f"{name}.html", Path(sys.argv[1]) if len(sys.argv) > 1 else None)
