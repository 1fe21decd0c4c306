"""An index of vectors on disk: memory-mapped, checked by a manifest, updated by content, searched exactly in blocks.

An index is one committed folder, named by a digest of its passages. Building one goes through the passages twice: those
whose text has no vector yet are embedded and committed in parts, so that a process that is killed loses one part at
most; then the new folder is written from the old one and the parts, which are removed. Vectors have length 1, so that
their product with a query's is the cosine similarity.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headway.data.search_passages import Passage
from headway.documents import read_json
from headway.errors import ConfigError, DataError
from headway.storage.commit import commit_folder, discard
from headway.storage.manifest import DamagedError, problems, read_manifest

Stored = Literal["float32", "float16", "int8"]
Vectors = NDArray[np.float32]
Keys = NDArray[np.bytes_]  # (N,) of 16 bytes each: the digest of a text
Embedder = Callable[[Sequence[str]], Vectors]
FORMAT = 1
PART = 1024  # passages embedded before they are committed
BLOCK_BYTES = 1 << 25  # of the matrix that one product reads
MAX_SCORES = 1 << 22  # that one product makes
TYPES: dict[str, type[np.generic]] = {"float32": np.float32, "float16": np.float16, "int8": np.int8}


@dataclass(frozen=True, slots=True)
class BuildFacts:
    """What building an index took: passages embedded anew, vectors used again, passages no longer there."""

    embedded: int
    reused: int
    dropped: int


class VectorIndex:
    """The passages of a corpus and their vectors (N, D), mapped from a committed folder."""

    def __init__(self, folder: Path) -> None:
        """Open a folder that `build_index` committed. Raises DataError if it is damaged."""
        wrong = problems(folder)
        if wrong:
            raise DataError(f"{folder}: the index is damaged ({wrong[0]}); --rebuild makes it again")
        facts = read_manifest(folder).facts
        self.folder, self.count, self.width = folder, int(facts["passages"]), int(facts["width"])
        self.stored: Stored = facts["stored"]
        shape = (self.count, self.width)
        self.vectors: NDArray[Any] = np.memmap(folder / "vectors.bin", TYPES[self.stored], "r", shape=shape)
        self.scales = np.memmap(folder / "scales.f32", np.float32, "r") if self.stored == "int8" else None
        self.keys: Keys = np.fromfile(folder / "keys.bin", "S16")
        self.bytes = np.memmap(folder / "texts.utf8", np.uint8, "r")
        self.starts = np.memmap(folder / "starts.i64", np.int64, "r")
        self.places = np.memmap(folder / "places.i64", np.int64, "r", shape=(self.count, 2))  # file and line
        self.files: list[str] = read_json(folder / "files.json", most="document-bytes")

    def __len__(self) -> int:
        return self.count

    def passage(self, row: int) -> Passage:
        """The passage of a row."""
        text = self.bytes[self.starts[row] : self.starts[row + 1]].tobytes().decode("utf-8", "surrogatepass")
        file, line = self.places[row].tolist()
        return Passage(text, self.files[file], line)

    def rows(self, first: int, last: int) -> Vectors:
        """The vectors of rows `first` to `last` in float32; those stored so are not copied."""
        found = np.asarray(self.vectors[first:last]).astype(np.float32, copy=False)
        return found if self.scales is None else found * self.scales[first:last, None]

    def gather(self, rows: NDArray[np.int64]) -> Vectors:
        """The vectors of any rows in float32."""
        found = np.asarray(self.vectors[rows]).astype(np.float32, copy=False)
        return found if self.scales is None else found * self.scales[rows, None]

    def search(self, queries_QD: Vectors, top: int) -> tuple[Vectors, NDArray[np.int64]]:
        """The `top` passages with the highest cosine similarity to each query: scores and rows (Q, K), best first.

        Exact: every vector is compared, a block of rows at a time; of equal scores the first passage comes first.
        """
        queries = unit(queries_QD)
        best = [(np.zeros(0, np.float32), np.zeros(0, np.int64))] * len(queries)
        size = max(min(BLOCK_BYTES // (4 * self.width), MAX_SCORES // max(len(queries), 1)), 1)
        for first in range(0, self.count, size):
            scores_QN = queries @ self.rows(first, min(first + size, self.count)).T
            for n, row in enumerate(scores_QN):
                best[n] = _merged(best[n], row, first, top)
        return np.stack([scores for scores, _ in best]), np.stack([rows for _, rows in best])


def _merged(
    best: tuple[Vectors, NDArray[np.int64]], scores_N: Vectors, first: int, top: int
) -> tuple[Vectors, NDArray[np.int64]]:
    """The best `top` of those so far and of a block whose first row is `first`."""
    if top < len(scores_N):
        least = np.partition(scores_N, len(scores_N) - top)[len(scores_N) - top]
        rows = np.flatnonzero(scores_N >= least)  # all that tie for the last place: the first of them is kept
    else:
        rows = np.arange(len(scores_N))
    scores, places = np.concatenate([best[0], scores_N[rows]]), np.concatenate([best[1], rows + first])
    order = np.lexsort([places, -scores])[:top]
    return scores[order], places[order]


def unit(vectors_ND: Vectors) -> Vectors:
    """Vectors of length 1; one of zeros stays as it is."""
    norms = np.linalg.norm(vectors_ND, axis=1, keepdims=True)
    unit_ND: Vectors = vectors_ND / np.maximum(norms, 1e-12)
    return unit_ND


def text_key(text: str) -> bytes:
    """The digest of a text by which its vector is found again."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


# --- building ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPlace:
    """Where an index is kept: a folder, and what begins the names of its parts in it."""

    cache: Path
    key: str  # of the corpus and the run in a folder of many indexes; the same for all in a folder of its own
    own: bool  # a folder that the user named, for one index

    def index(self, content: str) -> Path:
        """The committed index of some passages."""
        cache = self.cache
        return cache / f"index-{self.key}-{content}"

    def part(self, content: str) -> Path:
        """The committed vectors of some texts, while an index is being built."""
        cache = self.cache
        return cache / f"part-{self.key}-{content}"

    def there(self, kind: Literal["index", "part"]) -> list[Path]:
        """What is there of a kind, by name."""
        return sorted(self.cache.glob(f"{kind}-{self.key}-*")) if self.cache.is_dir() else []


def build_index(
    corpus: Iterable[Passage],
    embed: Embedder,
    place: IndexPlace,
    *,
    weights: str,
    run: str,
    stored: Stored = "float32",
    rebuild: bool = False,
    progress: Callable[[str, int, int], None],
) -> tuple[VectorIndex, BuildFacts]:
    """The index of a corpus, opened if it is there, else made from what is there and what `embed` gives (N, D).

    `weights` is a digest of the model that embeds and `run` its name, for messages. Raises DataError for a corpus
    without passages or one that changes meanwhile, ConfigError for an index of other weights in the user's own folder.
    """
    if rebuild:
        for old in (*place.there("index"), *place.there("part")):
            discard(old)
    keys, content = _survey(corpus)
    target = place.index(f"{content}-{stored}")
    earlier = _earlier(place, weights, run)
    if target in earlier and not problems(target):
        return VectorIndex(target), BuildFacts(0, len(keys), 0)
    sources = _Sources([*_opened(earlier, stored), *_parts(place, weights)])
    had = sources.has(keys)
    dropped = sum(int((~np.isin(each.keys, keys)).sum()) for each in sources.each if isinstance(each, VectorIndex))
    _embed_missing(corpus, keys, sources, embed, place, weights, progress)
    if target.exists():
        discard(target)  # damaged
    _write(target, corpus, keys, sources, stored, {"format": FORMAT, "weights": weights, "run": run})
    for old in (*(each for each in earlier if each != target), *place.there("part")):
        discard(old)
    return VectorIndex(target), BuildFacts(int((~had).sum()), int(had.sum()), dropped)


def _survey(corpus: Iterable[Passage]) -> tuple[Keys, str]:
    """The key of each passage, and a digest of all with their places. Raises DataError without passages."""
    keys, digest = bytearray(), hashlib.sha256()
    for passage in corpus:
        key = text_key(passage.text)
        keys += key
        digest.update(key + f"{passage.file}\0{passage.line}\0".encode("utf-8", "surrogatepass"))
    if not keys:
        raise DataError(f"{getattr(corpus, 'path', 'the corpus')}: no passage, expected at least 1 line of text")
    return np.frombuffer(bytes(keys), "S16"), digest.hexdigest()[:20]


def _earlier(place: IndexPlace, weights: str, run: str) -> list[Path]:
    """The indexes of these weights that are there. Raises ConfigError for one of others in the user's own folder."""
    found = []
    for folder in place.there("index"):
        try:
            facts = read_manifest(folder).facts
        except DamagedError:
            discard(folder)
            continue
        if facts.get("format") == FORMAT and facts.get("weights") == weights:
            found.append(folder)
        elif place.own:
            other = f"{place.cache} holds an index made by {facts.get('run', 'another version')} with other weights"
            raise ConfigError(f"{other} than those of {run}; --rebuild replaces it, another --index keeps it")
    return found


def _opened(folders: Iterable[Path], stored: Stored) -> Iterator[VectorIndex]:
    """The intact ones whose vectors are as exact as those wanted."""
    for folder in folders:
        if read_manifest(folder).facts["stored"] in ("float32", stored) and not problems(folder):
            yield VectorIndex(folder)


@dataclass(frozen=True, slots=True)
class VectorPart:
    """Vectors of some texts by key, embedded before a process was killed."""

    keys: Keys
    vectors: Vectors

    def gather(self, rows: NDArray[np.int64]) -> Vectors:
        """The vectors of any rows."""
        return np.asarray(self.vectors[rows])


def _parts(place: IndexPlace, weights: str) -> Iterator[VectorPart]:
    for folder in place.there("part"):
        if not problems(folder) and read_manifest(folder).facts.get("weights") == weights:
            keys = np.fromfile(folder / "keys.bin", "S16")
            yield VectorPart(keys, np.memmap(folder / "vectors.f32", np.float32, "r").reshape(len(keys), -1))


class _Sources:
    """Where the vector of a text is: the sorted keys of all sources, each with its source and row."""

    def __init__(self, each: Sequence[VectorIndex | VectorPart]) -> None:
        self.each: list[VectorIndex | VectorPart] = list(each)
        self._sort()

    def _sort(self) -> None:
        keys = np.concatenate([np.zeros(0, "S16"), *(source.keys for source in self.each)])
        order = np.argsort(keys, kind="stable")
        self.keys = keys[order]
        numbers = [np.full(len(source.keys), n, np.int32) for n, source in enumerate(self.each)]
        rows = [np.arange(len(source.keys)) for source in self.each]
        self.number = np.concatenate([np.zeros(0, np.int32), *numbers])[order]
        self.row = np.concatenate([np.zeros(0, np.int64), *rows])[order]

    def add(self, parts: Iterable[VectorPart]) -> None:
        """Further sources."""
        self.each += parts
        self._sort()

    def has(self, keys: Keys) -> NDArray[np.bool_]:
        """Whether there is a vector, for each key."""
        if not len(self.keys):
            return np.zeros(len(keys), bool)
        at = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        return np.asarray(self.keys[at] == keys)

    def vectors(self, keys: Keys) -> Vectors:
        """The vectors (N, D) of keys that are all there."""
        at = np.searchsorted(self.keys, keys)
        numbers, rows = self.number[at], self.row[at]
        width = self.each[0].vectors.shape[1]
        out = np.zeros((len(keys), width), np.float32)
        for number in np.unique(numbers):
            chosen = numbers == number
            out[chosen] = self.each[number].gather(rows[chosen])
        return out


def _embed_missing(
    corpus: Iterable[Passage],
    keys: Keys,
    sources: _Sources,
    embed: Embedder,
    place: IndexPlace,
    weights: str,
    progress: Callable[[str, int, int], None],
) -> None:
    """Embed each text that has no vector, once, and commit a part after every PART of them."""
    missing = np.unique(keys[~sources.has(keys)])
    if not len(missing):
        return
    taken, done = np.zeros(len(missing), bool), 0

    def wanted() -> Iterator[tuple[bytes, str]]:
        for key, passage in zip(keys, _unchanged(corpus, keys), strict=True):
            at = int(np.searchsorted(missing, key))
            if at < len(missing) and missing[at] == key and not taken[at]:
                taken[at] = True
                yield text_key(passage.text), passage.text

    progress("embedding", 0, len(missing))
    texts = wanted()
    while block := list(islice(texts, PART)):
        vectors = unit(embed([text for _, text in block]).astype(np.float32, copy=False))
        joined = b"".join(key for key, _ in block)
        folder = place.part(hashlib.sha256(joined).hexdigest()[:20])
        if folder.exists():  # damaged, or of other weights
            discard(folder)
        with commit_folder(folder, shared=True, facts={"weights": weights}) as draft:
            draft.array("keys.bin", np.frombuffer(joined, "S16"))
            draft.array("vectors.f32", np.ascontiguousarray(vectors))
        done += len(block)
        progress("embedding", done, len(missing))
    sources.each[:] = [each for each in sources.each if isinstance(each, VectorIndex)]
    sources.add(_parts(place, weights))


def _unchanged(corpus: Iterable[Passage], keys: Keys) -> Iterator[Passage]:
    """The passages again. Raises DataError if they are not those of the keys."""
    number = 0
    for number, passage in enumerate(corpus, 1):
        if number > len(keys) or text_key(passage.text).rstrip(b"\0") != keys[number - 1]:
            break
        yield passage
    else:
        if number == len(keys):
            return
    raise DataError(f"{getattr(corpus, 'path', 'the corpus')}: changed while it was read; run the command again")


def _write(
    target: Path, corpus: Iterable[Passage], keys: Keys, sources: _Sources, stored: Stored, facts: dict[str, Any]
) -> None:
    """Commit the index: the matrix in the order of the passages, their texts and their places."""
    width = int(sources.each[0].vectors.shape[1])
    scales = array("f")

    def rows() -> Iterator[bytes]:
        size = max(BLOCK_BYTES // (4 * width), 1)
        for first in range(0, len(keys), size):
            vectors = sources.vectors(keys[first : first + size])
            if stored == "int8":
                scale = np.maximum(np.abs(vectors).max(1), 1e-12) / 127
                scales.frombytes(scale.astype(np.float32).tobytes())
                vectors = np.rint(vectors / scale[:, None])
            yield vectors.astype(TYPES[stored]).tobytes()

    starts, places, files = array("q", [0]), array("q"), dict[str, int]()

    def texts() -> Iterator[bytes]:
        for passage in _unchanged(corpus, keys):
            text = passage.text.encode("utf-8", "surrogatepass")
            starts.append(starts[-1] + len(text))
            places.extend((files.setdefault(passage.file, len(files)), passage.line))
            yield text

    needs = len(keys) * (width * TYPES[stored]().itemsize + 40)
    with commit_folder(
        target, shared=True, needs=needs, facts={**facts, "passages": len(keys), "width": width, "stored": stored}
    ) as draft:
        draft.pieces("vectors.bin", rows())
        draft.pieces("texts.utf8", texts())
        draft.array("keys.bin", keys)
        draft.array("starts.i64", np.asarray(starts, np.int64))
        draft.array("places.i64", np.asarray(places, np.int64))
        if stored == "int8":
            draft.array("scales.f32", np.asarray(scales, np.float32))
        draft.json("files.json", list(files))
