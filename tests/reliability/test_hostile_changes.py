"""Hostile folders: every change is one, and the traps in them would catch who falls for them."""

from __future__ import annotations

import contextlib
import json
import pickle
import random
import runpy
import shutil
import zipfile

import pytest

from headway.errors import HeadwayError
from headway.reliability.answers import copy
from headway.reliability.hostile_changes import CHANGES, MARKER, Outside, make_bait, pickled_code
from headway.reliability.model_folders import write_gpt2, write_sentence_encoder, write_tokenizer, write_vit


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    home = tmp_path_factory.mktemp("folders")
    return [
        write_gpt2(home / "one"), write_gpt2(home / "two", shards=2), write_sentence_encoder(home / "encoder"),
        write_tokenizer(write_gpt2(home / "pieces"), "pieces"), write_vit(home / "vit"),
    ]  # fmt: skip


def state(folder) -> dict[str, object]:
    found = {}
    for path in sorted(folder.rglob("*")):
        kind = path.readlink() if path.is_symlink() else path.stat().st_size
        content = path.read_bytes() if path.is_file() and not path.is_symlink() and path.stat().st_size < 10**6 else b""
        found[str(path.relative_to(folder))] = (path.lstat().st_mode, kind, content)
    return found


@pytest.mark.parametrize("change", dict.fromkeys(CHANGES), ids=lambda each: each.__name__)
def test_every_change_changes_every_folder_and_nothing_else(change, folders, tmp_path):
    for number, good in enumerate(folders):
        place = tmp_path / str(number)
        outside = Outside(canary=place / "canary", bait=place / "bait")
        place.mkdir()
        copy(good, place / "model")
        make_bait(place / "model", outside)
        before, bait = state(place / "model"), state(outside.bait)
        assert any(_differs(change, place, good, outside, before, seed) for seed in range(4))
        assert state(outside.bait) == bait
        assert not outside.canary.exists()
        assert MARKER in (outside.bait / "secret.txt").read_text()


def _differs(change, place, good, outside, before, seed) -> bool:
    shutil.rmtree(place / "model")
    copy(good, place / "model")
    change(place / "model", outside, random.Random(seed))
    return state(place / "model") != before


def test_the_pickles_would_run(tmp_path):
    """Loaded as pickles, they make the canary: it would be found if anything loaded them."""
    made = 0
    for seed in range(12):
        folder, outside = tmp_path / str(seed), Outside(canary=tmp_path / f"canary-{seed}", bait=tmp_path)
        write_gpt2(folder)
        before = state(folder)
        pickled_code(folder, outside, random.Random(seed))
        name = next(name for name, each in state(folder).items() if each != before.get(name) and ".index" not in name)
        data = (folder / name).read_bytes()
        if zipfile.is_zipfile(folder / name):
            data = zipfile.ZipFile(folder / name).read("archive/data.pkl")
        pickle.loads(data)
        assert outside.canary.exists()
        made += 1
    assert made == 12


def test_the_code_would_run(tmp_path):
    from headway.reliability.hostile_changes import named_code

    outside = Outside(canary=tmp_path / "canary", bait=tmp_path)
    folder = write_gpt2(tmp_path / "a")
    named_code(folder, outside, random.Random(0))
    runpy.run_path(str(folder / "modeling_mine.py"))
    assert outside.canary.exists()
    assert any(json.loads(path.read_text()) for path in folder.glob("*.json"))


def test_two_changes_never_write_outside_the_folder_and_never_wait(folders, tmp_path):
    """Trials may run as root: the second change must not follow the link that the first one made."""
    for seed in range(40):
        chance = random.Random(seed)
        place = tmp_path / str(seed)
        place.mkdir()
        outside = Outside(canary=place / "canary", bait=place / "bait")
        copy(folders[seed % len(folders)], place / "model")
        make_bait(place / "model", outside)
        bait = state(outside.bait)
        for change in chance.sample(CHANGES, 3):
            with contextlib.suppress(OSError, ValueError, LookupError, TypeError, HeadwayError):
                change(place / "model", outside, chance)
        assert state(outside.bait) == bait, seed
        assert sorted(path.name for path in place.iterdir()) == ["bait", "model"]
        shutil.rmtree(place)
