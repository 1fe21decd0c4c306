"""An index on disk: exact top-k, updated by content, resumed after a kill, checked, tied to its weights."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from headway.data import vector_index
from headway.data.search_passages import Corpus, Passage
from headway.data.vector_index import IndexPlace, VectorIndex, build_index, unit
from headway.errors import ConfigError, DataError

WIDTH = 12


class Embedder:
    """A vector drawn from the hash of a text, and the texts it was asked for."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.texts: list[str] = []
        self.stop_after = stop_after

    def __call__(self, texts):
        if self.stop_after is not None and len(self.texts) >= self.stop_after:
            raise KeyboardInterrupt
        self.texts += texts
        return np.stack([vector(text) for text in texts])


def vector(text: str) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).normal(size=WIDTH).astype(np.float32)


def place(folder: Path, *, own: bool = True) -> IndexPlace:
    return IndexPlace(cache=folder, key="own", own=own)


def build(path: Path, folder: Path, embed: Embedder, **more):
    settings = {"weights": "w", "run": "runs/a", "progress": lambda *_: None, **more}
    return build_index(Corpus(path=path), embed, place(folder), **settings)


@pytest.fixture
def lines(tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("".join(f"line {n % 290}\n" for n in range(300)))  # ten of them twice
    return file


@pytest.mark.parametrize("rows", [7, 64, 1000])
@pytest.mark.parametrize("top", [1, 5, 400])
def test_top_k_is_that_of_the_whole_matrix_whatever_the_blocks(lines, tmp_path, monkeypatch, rows, top):
    monkeypatch.setattr(vector_index, "BLOCK_BYTES", 4 * WIDTH * rows)
    index, _ = build(lines, tmp_path / "index", Embedder())
    queries = np.stack([vector(f"query {n}") for n in range(5)])
    scores, found = index.search(queries, top)
    all_vectors = torch.from_numpy(np.stack([vector(f"line {n % 290}") for n in range(300)]))
    exact = torch.nn.functional.normalize(torch.from_numpy(queries)) @ torch.nn.functional.normalize(all_vectors).T
    expected = exact.topk(min(top, 300))
    assert np.allclose(scores, expected.values, atol=1e-5)
    picked = exact.gather(1, torch.from_numpy(found))
    assert np.allclose(picked, expected.values, atol=1e-5)
    for row in found.tolist():
        assert len(set(row)) == len(row)


def test_results_are_those_of_sentence_transformers(lines, tmp_path):
    util = pytest.importorskip("sentence_transformers.util")
    file = tmp_path / "distinct.txt"
    file.write_text("".join(f"sentence {n}\n" for n in range(500)))
    index, _ = build(file, tmp_path / "index", Embedder())
    queries = np.stack([vector(f"query {n}") for n in range(6)])
    corpus = torch.from_numpy(np.stack([vector(f"sentence {n}") for n in range(500)]))
    expected = util.semantic_search(torch.from_numpy(queries), corpus, top_k=10, corpus_chunk_size=123)
    scores, rows = index.search(queries, 10)
    assert rows.tolist() == [[hit["corpus_id"] for hit in hits] for hits in expected]
    assert np.allclose(scores, [[hit["score"] for hit in hits] for hits in expected], atol=1e-5)


def test_equal_scores_come_in_the_order_of_the_passages(tmp_path, monkeypatch):
    monkeypatch.setattr(vector_index, "BLOCK_BYTES", 4 * WIDTH * 4)
    file = tmp_path / "same.txt"
    file.write_text("same\n" * 11)
    embed = Embedder()
    index, _ = build(file, tmp_path / "index", embed)
    assert embed.texts == ["same"]  # embedded once, found eleven times
    scores, rows = index.search(vector("same")[None], 5)
    assert np.allclose(scores, 1)
    assert rows.tolist() == [[0, 1, 2, 3, 4]]


def test_an_index_that_is_there_embeds_nothing(lines, tmp_path):
    first, _ = build(lines, tmp_path / "index", Embedder())
    embed = Embedder()
    again, built = build(lines, tmp_path / "index", embed)
    assert (embed.texts, built.embedded, built.reused, built.dropped) == ([], 0, 300, 0)
    assert np.array_equal(first.vectors, again.vectors)
    assert [path.name for path in (tmp_path / "index").iterdir()] == [again.folder.name]  # no part is left


def test_only_new_and_changed_passages_are_embedded(lines, tmp_path):
    build(lines, tmp_path / "index", Embedder())
    text = lines.read_text().split("\n")
    lines.write_text("\n".join(["a new line", *text[:5], "a changed line", *text[6:280]]))
    embed = Embedder()
    index, built = build(lines, tmp_path / "index", embed)
    assert embed.texts == ["a new line", "a changed line"]
    fresh, _ = build(lines, tmp_path / "fresh", Embedder())
    assert np.array_equal(index.vectors, fresh.vectors)
    assert built.embedded == 2
    assert built.dropped == 10 + 2  # lines 280 to 289, and both "line 5"
    assert index.passage(0) == Passage("a new line", "lines.txt", 1)
    assert index.passage(6) == Passage("a changed line", "lines.txt", 7)
    assert len(list((tmp_path / "index").iterdir())) == 1


def test_a_killed_build_goes_on_where_it_was(lines, tmp_path, monkeypatch):
    monkeypatch.setattr(vector_index, "PART", 64)
    killed = Embedder(stop_after=128)
    with pytest.raises(KeyboardInterrupt):
        build(lines, tmp_path / "index", killed)
    assert len(killed.texts) == 128
    later = Embedder()
    index, _ = build(lines, tmp_path / "index", later)
    assert len(later.texts) == 290 - 128
    assert not set(later.texts) & set(killed.texts)
    fresh, _ = build(lines, tmp_path / "fresh", Embedder())
    assert np.array_equal(index.vectors, fresh.vectors)


@pytest.mark.parametrize("name", ["vectors.bin", "keys.bin", "texts.utf8", "MANIFEST.json"])
def test_a_damaged_index_is_made_again(lines, tmp_path, name):
    index, _ = build(lines, tmp_path / "index", Embedder())
    expected = np.array(index.vectors)
    damaged = index.folder / name
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    with pytest.raises(DataError, match=r"the index is damaged .*--rebuild makes it again"):
        VectorIndex(index.folder)
    again, built = build(lines, tmp_path / "index", Embedder())
    assert built.embedded == 300
    assert np.array_equal(again.vectors, expected)


def test_an_index_of_other_weights_is_refused_or_rebuilt(lines, tmp_path):
    build(lines, tmp_path / "index", Embedder())
    told = "holds an index made by runs/a with other weights than those of runs/b; --rebuild replaces it"
    with pytest.raises(ConfigError, match=told):
        build(lines, tmp_path / "index", Embedder(), weights="x", run="runs/b")
    embed = Embedder()
    _, built = build(lines, tmp_path / "index", embed, weights="x", run="runs/b", rebuild=True)
    assert (len(embed.texts), built.reused) == (290, 0)
    build(lines, tmp_path / "index", Embedder(stop_after=0), weights="x", run="runs/b")


@pytest.mark.parametrize(("stored", "bound"), [("float16", 1e-3), ("int8", 2e-2)])
def test_smaller_vectors_have_scores_near_the_exact_ones(lines, tmp_path, stored, bound):
    exact, _ = build(lines, tmp_path / "index", Embedder())
    queries = np.stack([vector(f"query {n}") for n in range(5)])
    every = exact.search(queries, 300)
    embed = Embedder(stop_after=0)  # made from the exact one
    small, _ = build(lines, tmp_path / "index", embed, stored=stored)
    scores, rows = small.search(queries, 300)
    by_row = np.take_along_axis(scores, rows.argsort(1), 1)
    assert 0 < np.abs(by_row - np.take_along_axis(every[0], every[1].argsort(1), 1)).max() < bound
    assert small.vectors.nbytes < exact.vectors.nbytes / 1.9
    embed = Embedder()
    build(lines, tmp_path / "index", embed)  # rounded vectors do not become exact ones
    assert len(embed.texts) == 290


def test_a_corpus_that_changes_meanwhile_is_an_error(lines, tmp_path):
    def embed(texts):
        lines.write_text("something else\n")
        return np.stack([vector(text) for text in texts])

    with pytest.raises(DataError, match="changed while it was read; run the command again"):
        build(lines, tmp_path / "index", embed)
    lines.write_text("\n\n")
    with pytest.raises(DataError, match="no passage, expected at least 1 line of text"):
        build(lines, tmp_path / "index", embed)


def test_indexes_in_one_folder_do_not_disturb_each_other(lines, tmp_path):
    settings = {"weights": "w", "run": "runs/a", "progress": lambda *_: None}
    corpus = Corpus(path=lines)
    for key in ("one", "two"):
        build_index(corpus, Embedder(), IndexPlace(cache=tmp_path / "cache", key=key, own=False), **settings)
    lines.write_text("only this\n")
    build_index(corpus, Embedder(), IndexPlace(cache=tmp_path / "cache", key="one", own=False), **settings)
    names = sorted(path.name.split("-")[1] for path in (tmp_path / "cache").iterdir())
    assert names == ["one", "two"]


def test_a_vector_of_zeros_stays_one():
    found = unit(np.array([[0, 0], [3, 4]], np.float32))
    assert np.allclose(found, [[0, 0], [0.6, 0.8]])


@pytest.mark.slow  # reads a clock, and writes 150 MB
def test_a_hundred_thousand_passages_are_searched_in_fifty_milliseconds(tmp_path):
    file = tmp_path / "many.txt"
    file.write_text("".join(f"sentence {n}\n" for n in range(100_000)))
    random = np.random.default_rng(0)
    index, _ = build(file, tmp_path / "index", lambda texts: random.normal(size=(len(texts), 384)).astype(np.float32))
    query = random.normal(size=(1, 384)).astype(np.float32)
    index.search(query, 10)
    times = []
    for _ in range(20):
        begin = time.perf_counter()
        index.search(query, 10)
        times.append(time.perf_counter() - begin)
    assert sorted(times)[10] < 0.05
