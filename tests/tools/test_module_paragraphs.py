"""The labelled paragraphs of Python's documentation, and the text to pretrain on beside them."""

from __future__ import annotations

import pytest

from headway.data.text_files import PlainText
from tools import module_paragraphs

TEST = "A widget of tkinter is drawn again when its parent window changes its size."


@pytest.fixture
def shipped(monkeypatch):
    """What ships with Python: two documents, of which one has a part of a test paragraph."""
    leak = "Note: a widget of Tkinter is drawn again when\nits parent window changes."
    documents = (f"Sockets.\n\n{leak}\n\nA widget of tkinter is drawn.\n\n", "Numbers\nare exact.\n\n")
    text = PlainText(name="shipped", splits={"train": documents[:1], "val": documents[1:]})
    monkeypatch.setattr(module_paragraphs, "load_text", lambda name: text)


def test_what_is_in_a_test_paragraph_is_not_pretrained_on(shipped):
    found = list(module_paragraphs.unlabelled([TEST]))
    assert found == ["Sockets.\nA widget of tkinter is drawn.\n", "Numbers are exact.\n"] * 2


def test_names_of_classes_do_not_hide_a_test_paragraph():
    assert module_paragraphs.runs(TEST) == module_paragraphs.runs(TEST.replace("tkinter", "module"))
    assert module_paragraphs.runs("seven words in a row are few") == set()


def test_a_page_gives_paragraphs_without_the_names_of_classes(tmp_path, monkeypatch):
    monkeypatch.setattr(module_paragraphs, "docstrings", lambda module: iter(()))
    said = "The <code>logging</code> module has handlers, filters and formatters, as one says¶"
    (tmp_path / "logging.handlers.html").write_text(f"<h1>Title</h1><p>{said}</p><p>Too short.</p>")
    found = module_paragraphs.collect(tmp_path)
    assert found["logging"] == ["The module module has handlers, filters and formatters, as one says"]
    assert not any(texts for module, texts in found.items() if module != "logging")


def test_neighbours_are_of_one_document():
    documents = ["".join(f"{name} says number {n} of many\n" for n in range(12)) + "short\n" for name in ("one", "two")]
    found = module_paragraphs.neighbours(documents)
    assert len(found) == 22
    distances = [int(second.split()[3]) - int(first.split()[3]) for first, second in found]
    assert all(1 <= distance <= module_paragraphs.NEAR for distance in distances)
    assert all(first.split()[0] == second.split()[0] for first, second in found)
