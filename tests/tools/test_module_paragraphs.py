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
    found = module_paragraphs.without(module_paragraphs.shipped(), [TEST])
    assert found == ["Sockets.\nA widget of tkinter is drawn.\n", "Numbers are exact.\n"] * 2


def test_the_documentation_is_read_from_all_of_its_folders(tmp_path):
    for folder, said in (("library", "The first¶"), ("reference", "The <em>second</em>")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "page.html").write_text(f"<p>{said}\n page.</p><p>And more.</p>")
    found = list(module_paragraphs.documentation(tmp_path / "library"))
    assert found == [["The first page.", "And more."], ["The second page.", "And more."]]


def test_val_is_held_out_of_tuning_and_of_both_texts(tmp_path, shipped, monkeypatch):
    monkeypatch.setattr(module_paragraphs, "TEST", 1)
    monkeypatch.setattr(module_paragraphs, "SIZES", (2, 4))
    monkeypatch.setattr(module_paragraphs, "VAL", 1)
    monkeypatch.setattr(module_paragraphs, "docstrings", lambda module: iter(()))
    (tmp_path / "library").mkdir()
    for module in module_paragraphs.MODULES:
        said = (f"{letter}{module[1:]} is what paragraph {letter} of {module[1:]} tells about" for letter in "abcdef")
        text = "".join(f"<p>{each}</p>" for each in said)
        (tmp_path / "library" / f"{module}.html").write_text(text)
    monkeypatch.setattr("sys.argv", ["module_paragraphs", str(tmp_path / "library"), str(tmp_path / "out")])
    module_paragraphs.main()
    rows = {path.stem: path.read_text().splitlines()[1:] for path in (tmp_path / "out").glob("*.csv")}
    assert {len(rows[name]) for name in ("test", "val")} == {11}
    assert sorted(rows["tune"] + rows["val"]) == sorted(rows["train-4"])
    assert not set(rows["val"]) & set(rows["train-2"])
    text = (tmp_path / "out" / "documentation.txt").read_text()
    held_out = [row.rsplit(",", 1)[0].strip('"') for row in rows["test"] + rows["val"]]
    assert not any(each in text for each in held_out)
    assert "is what paragraph" in text


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
