"""Search by embeddings: an index of a corpus made by a run's encoder, and the passages nearest to a query."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway import config as configs
from headway.data.files import Errors
from headway.data.search_passages import Corpus, SplitBy
from headway.data.token_store import fingerprint
from headway.data.unknown_tokens import uncounted
from headway.data.vector_index import BuildFacts, IndexPlace, Stored, VectorIndex, build_index
from headway.errors import ConfigError, DataError
from headway.interop.adapter import adapter_digest
from headway.tasks.base import ignore
from headway.tasks.capabilities import Classifies, Embeds
from headway.training.checkpoints import Checkpoints

if TYPE_CHECKING:
    from headway.runs.run import Run
    from headway.tasks.classifier import Prediction

EVERY_CLASS = 1 << 16
RELEVANT = ("1", "true", "yes", "relevant", "positive", "match", "duplicate", "paraphrase", "entailment")


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found: its score, its row in the index, its text and its place.

    The score is the cosine similarity to the query or, re-ranked, what the other run says of the pair.
    """

    score: float
    similarity: float  # cosine
    number: int
    text: str
    file: str
    line: int

    def to_json(self) -> dict[str, Any]:
        """The fields for machines."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class QueryTimes:
    """Milliseconds a query took: its own embedding, and the comparison with all passages."""

    embedding: float
    search: float


class Index:
    """The passages of a corpus with the vectors of a run's encoder, ready to be searched."""

    def __init__(self, run: Run, vectors: VectorIndex, built: BuildFacts) -> None:
        self.run, self.vectors, self.built = run, vectors, built

    def __len__(self) -> int:
        return len(self.vectors)

    def __repr__(self) -> str:
        shape = f"{len(self):,} passages, {self.vectors.width} numbers each in {self.vectors.stored}"
        return f"<Index of {shape}; {self.run.folder}>"

    def search(
        self,
        queries: Iterable[str],
        *,
        top: int = 5,
        rerank: Run | None = None,
        candidates: int = 100,
        relevant: str | None = None,
    ) -> list[list[Hit]]:
        """The nearest passages of each query, best first; a string is one query.

        With `rerank`, a run that classifies pairs of texts or gives them a number, the best of the nearest `candidates`
        by that run: by its number, or by the probability of the class `relevant`.
        """
        asked = [queries] if isinstance(queries, str) else list(queries)
        if rerank is None:
            return self.timed(asked, top)[0]
        judge = Reranker(rerank, relevant)
        found, _ = self.timed(asked, max(top, candidates))
        return [judge.rerank(query, hits)[:top] for query, hits in zip(asked, found, strict=True)]

    def timed(self, queries: list[str], top: int) -> tuple[list[list[Hit]], QueryTimes]:
        """The nearest passages of each query, and the mean time a query took."""
        if top < 1:
            raise ConfigError(f"top={top}, allowed: 1 and above")
        if not queries:
            return [], QueryTimes(0.0, 0.0)
        if empty := [number for number, query in enumerate(queries, start=1) if not query.strip()]:
            raise DataError(f"query {empty[0]:,} is empty, expected text to search for")
        begin = time.perf_counter()
        vectors = self.run.embed(queries)
        embedded = time.perf_counter()
        scores, rows = self.vectors.search(vectors, top)
        times = QueryTimes(
            1000 * (embedded - begin) / len(queries), 1000 * (time.perf_counter() - embedded) / len(queries)
        )
        hits = [
            [self._hit(score, row) for score, row in zip(*pair, strict=True)]
            for pair in zip(scores.tolist(), rows.tolist(), strict=True)
        ]
        return hits, times

    def _hit(self, score: float, row: int) -> Hit:
        passage = self.vectors.passage(row)
        return Hit(score, score, row, passage.text, passage.file, passage.line)


class Reranker:
    """A classifier or a regression model of pairs of texts that judges whether a passage answers a query.

    It is given lines of the query, a tab and the passage, as `headway classify` reads pairs.
    """

    def __init__(self, run: Run, relevant: str | None = None) -> None:
        """Raises ConfigError for a run that does not classify texts, or whose classes do not say which is relevant."""
        self.run, self.classifier, self.relevant = run, run.require(Classifies), relevant
        if self.classifier.reads != "text":
            raise ConfigError(f"rerank: {run.folder} classifies {self.classifier.reads}s, expected pairs of texts")
        if not self.classifier.reads_pairs:
            advice = "" if run.config.data.spec else "; if the model was trained on pairs, import it with --pairs"
            raise ConfigError(f"rerank: {run.folder} classifies single texts, expected pairs of texts{advice}")

    def rerank(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """The same passages by their relevance, of equal ones the more similar first."""
        lines = [f"{' '.join(query.split())}\t{' '.join(hit.text.split())}" for hit in hits]
        said = self.classifier.classify(lines, top=EVERY_CLASS)
        judged = [replace(hit, score=self._score(each)) for hit, each in zip(hits, said, strict=True)]
        return sorted(judged, key=lambda hit: (-hit.score, -hit.similarity, hit.number))

    def _score(self, said: Prediction) -> float:
        """The number that is predicted, or the probability of the relevant class."""
        number: float | None = getattr(said, "number", None)
        if number is not None:
            return number
        shares = dict(said.top)
        names = [self.relevant] if self.relevant else [name for name in shares if name.casefold() in RELEVANT]
        if len(names) != 1 or names[0] not in shares:
            there = ", ".join(sorted(shares))
            wanted = "name the one that means relevant (--relevant CLASS)"
            raise ConfigError(f"rerank: {self.run.folder} has the classes {there}; {wanted}")
        return shares[names[0]]


def open_index(
    run: Run,
    corpus: str | Path,
    *,
    text: str = "text",
    by: SplitBy | None = None,
    index: str | Path | None = None,
    store: Stored = "float32",
    rebuild: bool = False,
    errors: Errors = "strict",
    progress: Callable[[str, int, int], None] = ignore,
) -> Index:
    """The index of a file or folder by a run, made or brought up to date where that is necessary.

    Raises ConfigError for a run that does not embed or an `index` made with other weights, DataError for a corpus that
    cannot be read.
    """
    embeds = run.require(Embeds)
    found = Corpus(path=Path(corpus).expanduser(), text=text, by=by, errors=errors)
    weights = encoder_digest(run)
    if index is None:
        key = fingerprint([str(found.path.resolve()), text, str(by), weights])
        place = IndexPlace(cache=Path(run.config.data.cache).expanduser(), key=key, own=False)
    else:
        place = IndexPlace(cache=Path(index).expanduser(), key="own", own=True)
        if place.cache.exists() and not place.cache.is_dir():
            raise ConfigError(f"--index {place.cache} is a file, expected a folder")
    with uncounted():  # unknown tokens of queries are reported, those of a corpus are not
        vectors, built = build_index(
            found,
            embeds.embed,
            place,
            weights=weights,
            run=str(run.folder),
            stored=store,
            rebuild=rebuild,
            progress=progress,
        )
    return Index(run, vectors, built)


def encoder_digest(run: Run) -> str:
    """A digest of all that decides a run's vectors: weights with their adapter, precision, model, task, tokenizers."""
    weights = Checkpoints(run.folder).key_of(list(run.steps))
    if run.adapter is not None:
        weights += adapter_digest(run.adapter)
    sections = [repr(configs.plain(section)) for section in (run.config.model, run.config.task)]
    tokenizers = [f"{name} {run.tokenizers[name].content_hash}" for name in sorted(run.tokenizers)]
    return fingerprint([weights, run.precision, *sections, *tokenizers])
