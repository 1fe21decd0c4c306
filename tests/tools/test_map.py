"""The map of the packages and the table in docs/architecture.md are current, and the files that page names exist."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from tools import map as rooms_map

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "headway"


def page() -> str:
    return rooms_map.PAGE.read_text()


def test_the_picture_is_current():
    assert rooms_map.PICTURE.read_text() == rooms_map.picture(), "run `make map`"


def test_the_table_is_current():
    assert page() == rooms_map.written(page()), "run `make map`"


def test_every_package_has_a_place_and_a_line():
    packages = {each.parent.name for each in SOURCE.glob("*/__init__.py")}
    assert packages | {rooms_map.FOUNDATION} == set(rooms_map.rooms())
    assert all(room.about.endswith((".", "?")) for room in rooms_map.rooms().values())


def test_every_import_goes_down():
    assert rooms_map.upward() == []


def test_an_import_is_found_wherever_it_stands():
    source = (
        "from typing import TYPE_CHECKING\nimport headway.ops.masks\nfrom headway import config, __version__\n"
        "if TYPE_CHECKING:\n    from headway.nn import block\nelse:\n    from headway.data import wav\n"
        "def f():\n    from headway.storage.commit import commit_file\n"
    )
    assert rooms_map.imported(source) == {
        "headway.ops.masks", "headway.config", "headway.data", "headway.storage.commit"
    }  # fmt: skip
    assert rooms_map.room_of("headway.storage.commit") == "storage"
    assert rooms_map.room_of("headway.config") == rooms_map.FOUNDATION


def test_the_rooms_of_the_picture_do_not_overlap_and_hold_their_text():
    root = ElementTree.fromstring(rooms_map.picture())
    space = "{http://www.w3.org/2000/svg}"
    boxes = [
        tuple(float(each.get(key)) for key in ("x", "y", "width", "height"))
        for each in root.findall(f"{space}rect")
        if each.get("rx")
    ]
    assert len(boxes) == len(rooms_map.rooms())
    for n, (x, y, width, height) in enumerate(boxes):
        for left, top, wide, tall in boxes[n + 1 :]:
            assert x + width <= left or left + wide <= x or y + height <= top or top + tall <= y
    for text in root.findall(f"{space}text")[2:]:  # after the heading
        at_x, at_y = float(text.get("x")), float(text.get("y"))
        assert any(x < at_x < x + width and y < at_y < y + height for x, y, width, height in boxes), text.text


def test_every_file_the_page_names_exists():
    paths = set(re.findall(r"`([\w/]+(?:\.py|/))`", page()))
    assert len(paths) > 50
    for path in paths:
        assert (SOURCE / path).exists() or (ROOT / path).exists(), path


def test_every_name_beside_a_file_is_defined_in_it():
    named = re.findall(r"`([\w/]+\.py)` \(`(\w+)`\)", page())
    assert len(named) > 20
    for path, name in named:
        defined = rf"^\s*(?:class|def) {name}\b|^{name}\b.* = "
        assert re.search(defined, (SOURCE / path).read_text(), re.MULTILINE), (path, name)
