"""Contrastive training of a sentence encoder: the loss, the batches, the data forms, export."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import headway
from headway.cli import main
from headway.config import override
from headway.errors import ConfigError, DataError
from headway.presets import PRESETS
from headway.runs.train import train_run
from headway.tasks.proposal import recognise
from headway.tasks.sentence_embedding import Embedding
from headway.tasks.sentence_embedding.contrastive import DistinctBatches, contrastive_loss, numbered_texts

WORDS = ("red", "green", "blue", "old", "new", "cat", "dog", "boat", "tree", "house")
SMALL = {
    "model.width": 16, "model.inner": 32, "model.heads": 2, "model.layers": 1, "model.context": 16,
    "task.max_length": 16, "data.tokenizer": "word", "train.batch_tokens": 16, "train.device": "cpu",
    "train.steps": 2, "train.evaluate_every": 2, "train.save_every": 2,
}  # fmt: skip


def pairs(count: int) -> list[tuple[str, str]]:
    random = np.random.default_rng(0)
    drawn = [" ".join(random.choice(WORDS, 5)) for _ in range(count)]
    return [(text, " ".join(word[::-1] for word in text.split())) for text in drawn]


def config(spec, cache, **changes):
    fixed = {"data.spec": str(spec), "data.cache": str(cache)}
    return override(PRESETS["sentence-encoder"].recipe(), {**SMALL, **fixed, **changes})


@pytest.fixture
def table(tmp_path):
    file = tmp_path / "pairs.csv"
    file.write_text("anchor,positive,negative\n" + "".join(f"{a},{b},{c} ?\n" for a, b, c in _triplets()))
    return file


def _triplets():
    found = pairs(60)
    return [(a, b, other) for (a, b), (other, _) in zip(found, [*found[1:], found[0]], strict=True)]


# --- the loss -------------------------------------------------------------------------------------------------------


def vectors(sides: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(7, 12, generator=generator) for _ in range(sides)]


@pytest.mark.parametrize("sides", [2, 3, 4])
@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_the_loss_is_that_of_sentence_transformers(sides, scale):
    losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    given = vectors(sides)
    expected = losses.MultipleNegativesRankingLoss(None, scale=scale).compute_loss_from_embeddings(given, None)
    assert float(contrastive_loss(tuple(given), scale=scale)) / 7 == pytest.approx(float(expected), abs=1e-5)


def test_the_symmetric_loss_is_that_of_sentence_transformers():
    losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    left, right = vectors(2)
    theirs = losses.MultipleNegativesSymmetricRankingLoss(lambda features: {"sentence_embedding": features["x"]})
    expected = theirs([{"x": left}, {"x": right}], None)
    assert float(contrastive_loss((left, right), scale=20.0, symmetric=True)) / 7 == pytest.approx(
        float(expected), abs=1e-5
    )


def test_the_loss_is_the_formula_of_the_paper():
    """-log exp(s·cos(a_i, b_i)) / Σ_j exp(s·cos(a_i, b_j)), in double precision."""
    left, right = vectors(2)
    cosines = torch.cosine_similarity(left.double()[:, None], right.double()[None], dim=-1)
    expected = -(20 * cosines).log_softmax(1).diagonal().sum()
    assert float(contrastive_loss((left, right), scale=20.0)) == pytest.approx(float(expected), rel=1e-5)


# --- batches --------------------------------------------------------------------------------------------------------


def test_no_text_is_in_two_pairs_of_a_batch_and_every_pair_comes_once():
    random = np.random.default_rng(1)
    texts = np.stack(
        [random.integers(0, 40, 300), 40 + random.integers(0, 200, 300)], 1
    )  # each first text about 7 times
    order = DistinctBatches(texts, 16, seed=3)
    for epoch in (0, 1):
        batches = order.epoch(epoch)
        for batch in batches:
            used = [set(row) for row in texts[batch].tolist()]
            assert sum(map(len, used)) == len(set().union(*used))
            assert 2 <= len(batch) <= 16
        every = np.concatenate(batches)
        assert len(set(every.tolist())) == len(every) >= 295  # the last ones may be alone in their batch
    assert [batch.tolist() for batch in order.epoch(1)] == [batch.tolist() for batch in order.epoch(1)]
    assert [batch.tolist() for batch in order.epoch(0)] != [batch.tolist() for batch in order.epoch(1)]


def test_a_text_that_is_first_here_and_second_there_is_the_same_text():
    numbers = numbered_texts(([b"a", b"b"], [b"b", b"c"]))
    assert numbers.tolist() == [[0, 1], [1, 2]]
    with pytest.raises(DataError, match="of 2 pairs no two have different texts"):
        DistinctBatches(numbers, 8, seed=0)


def test_texts_are_the_same_if_the_model_reads_the_same_tokens(tmp_path):
    """Cut to task.max_length, these first texts are equal: no batch may have two of them."""
    begin = " ".join(WORDS)
    for name in ("train", "val"):
        rows = [f"{begin} {n}\tsecond {n}\n" for n in range(8)]
        (tmp_path / f"{name}.tsv").write_text("".join(rows) + ("other\tone\n" if name == "val" else ""))
    made = config(tmp_path, tmp_path / "cache", **{"task.max_length": 8})
    with pytest.raises(DataError, match="split train: of 8 pairs no two have different texts"):
        train_run(made, tmp_path / "run")
    train_run(override(made, {"task.max_length": 16}), tmp_path / "run")


def test_an_epoch_of_the_run_has_no_false_negatives(tmp_path):
    file = tmp_path / "questions.tsv"
    file.write_text("".join(f"question {n % 5}\tanswer {n % 23} {n % 7}\n" for n in range(80)))
    task = train_run(config(file, tmp_path / "cache"), tmp_path / "run").task
    for indices in task.order.epoch(0):
        for side in (0, 1):
            texts = [tuple(task.splits["train"].ids(side, n)) for n in indices]
            assert len(set(texts)) == len(texts) <= 5


# --- data and runs --------------------------------------------------------------------------------------------------


def test_training_lowers_the_loss_and_finds_pairs(tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{a}\t{b}\n" for a, b in pairs(400)))
    changes = {
        "train.steps": 120,
        "train.evaluate_every": 60,
        "train.learning_rate": 3e-3,
    }
    made = config(file, tmp_path / "cache", **changes)
    train_run(override(made, {"train.steps": 1, "train.learning_rate": 0.0}), tmp_path / "untrained")
    train_run(made, tmp_path / "run")
    before, after = (headway.load(tmp_path / name, device="cpu").evaluate() for name in ("untrained", "run"))
    assert after.values["loss"] < 0.5 * before.values["loss"]
    assert after.values["recall_at_1"] > before.values["recall_at_1"] + 0.1
    assert after.values["pairs"] == 40


def test_hard_negatives_come_from_a_column(table, tmp_path):
    changes = {"data.source": "anchor", "data.target": "positive", "task.negative": "negative", "task.symmetric": False}
    rows = table.read_text().splitlines()
    own = rows[1].split(",")
    table.write_text("\n".join([rows[0], f"{own[0]},{own[1]},{own[1]}", *rows[2:]]) + "\n")  # its own negative
    run = train_run(config(table, tmp_path / "cache", **changes), tmp_path / "run")
    task = run.task
    assert len(task.splits["train"].sides) == 3
    assert len(task.splits["train"]) == 53  # 54, less the one whose negative is its own
    batch = task.batch(task.order.epoch(0)[0])
    assert len(batch.inputs[0]) == 3 * batch.count
    values = headway.load(tmp_path / "run", device="cpu").evaluate().values
    assert values["candidates"] == values["pairs"] == 6


def test_plain_text_is_trained_on_with_dropout(tmp_path):
    file = tmp_path / "plain.txt"
    file.write_text("".join(f"{a}\n\n" for a, _ in pairs(80)))
    made = config(file, tmp_path / "cache", **{"task.positives": "dropout", "task.symmetric": False})
    task = train_run(made, tmp_path / "run").task
    batch = task.batch(task.order.epoch(0)[0])
    first, second = batch.inputs[0].chunk(2)
    assert torch.equal(first, second)
    run = headway.load(tmp_path / "run", device="cpu")
    report, again = run.evaluate(), run.evaluate()
    assert 0 < report.values["alignment"] < 1  # two views differ
    assert report.values == again.values
    assert not run.model.training
    with pytest.raises(ConfigError, match=r"needs a model\.dropout above 0"):
        train_run(override(made, {"model.dropout": 0.0}), tmp_path / "still")


def test_other_tables_are_read_by_their_own_columns(table, tmp_path, capsys):
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{a}\t{b}\n" for a, b in pairs(40)))
    train_run(config(file, tmp_path / "cache"), tmp_path / "run")
    assert main(["evaluate", str(tmp_path / "run"), "--data", str(table), "--json", "--device", "cpu"]) == 0
    assert json.loads(capsys.readouterr().out)["pairs"] == 6


def test_named_columns_are_recognised_and_trained_on(table, tmp_path, capsys, monkeypatch):
    found = recognise(str(table))
    assert (found.preset, found.settings["task.negative"]) == ("sentence-encoder", "negative")
    monkeypatch.setenv("HOME", str(tmp_path))
    words = [part for key, value in SMALL.items() for part in (f"--{key}", str(value))]
    assert main(["train", "--data", str(table), "--out", str(tmp_path / "run"), *words]) == 0
    said = capsys.readouterr().err
    assert "pairs of texts that belong together" in said
    assert "columns anchor and positive" in said
    other = tmp_path / "other.csv"
    other.write_text(table.read_text().replace("anchor,positive,negative", "source,target,extra"))
    assert recognise(str(other)).preset == "transformer-tiny"
    other.write_text("sentence1,sentence2\n" + "".join(f"{a},{b}\n" for a, b in pairs(30)))
    assert recognise(str(other)).preset == "sentence-encoder"
    other.write_text(
        "sentence1,sentence2,s\n" + "".join(f"{a},{b},{n / 7:.3f}\n" for n, (a, b) in enumerate(pairs(30)))
    )
    assert recognise(str(other)).preset != "sentence-encoder"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"task.scale": 0.0}, "task.scale=0.0, allowed: above 0"),
        ({"task.negative": "negative", "task.positives": "dropout"}, "task.negative=negative is for pairs"),
        ({"task.max_length": 99}, "task.max_length=99, allowed: up to 16, the positions"),
        (
            {
                "model": "gpt",
                "model.vocab": 9,
                "model.context": 16,
                "model.width": 8,
                "model.layers": 1,
                "model.heads": 1,
            },
            "model=gpt, allowed for a sentence encoder: bert, longformer",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(table, tmp_path, changes, told):
    kept = {key: value for key, value in SMALL.items() if "model" not in changes or not key.startswith("model.")}
    fixed = {"data.spec": str(table), "data.source": "anchor", "data.target": "positive", "data.cache": str(tmp_path)}
    with pytest.raises(ConfigError, match=told):
        train_run(override(PRESETS["sentence-encoder"].recipe(), {**kept, **fixed, **changes}), tmp_path / "run")


def test_a_pair_without_text_is_left_out(tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_text(
        "".join(f"{a}\t{b}\n" for a, b in pairs(30)) + "\tno first\nno second\t\n" + "a\tb\nc\td\ne\tf\n" * 2
    )
    task = train_run(config(file, tmp_path / "cache"), tmp_path / "run").task
    assert len(task.splits["train"]) == 33  # of 38 rows 3 are val, and 2 have no text
    assert len(task.splits["val"]) == 3


# --- export ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pooling", "normalise"), [("mean", True), ("cls", False), ("max", True)])
def test_sentence_transformers_loads_the_export_with_the_same_vectors(tmp_path, pooling, normalise):
    library = pytest.importorskip("sentence_transformers")
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{a}\t{b}\n" for a, b in pairs(40)))
    changes = {"task.pooling": pooling, "task.normalise": normalise}
    train_run(config(file, tmp_path / "cache", **changes), tmp_path / "run")
    run = headway.load(tmp_path / "run", device="cpu")
    run.export(tmp_path / "folder")
    texts = ["red boat", "old", "new tree " * 30, "unknown words here", ""]
    theirs = library.SentenceTransformer(str(tmp_path / "folder"), device="cpu")
    assert theirs.max_seq_length == 16
    assert np.abs(theirs.encode(texts) - run.embed(texts)).max() < 1e-5
    assert main(["import", str(tmp_path / "folder"), "--out", str(tmp_path / "again")]) == 0
    again = headway.load(tmp_path / "again", device="cpu")
    assert again.task == Embedding(pooling=pooling, normalise=normalise, max_length=16)
    assert np.abs(again.embed(texts) - run.embed(texts)).max() < 1e-5


SCORED = [
    ("a red cat", "a red dog", 4.25), ("old boat", "new house", 0.5), ("green tree", "green tree", 5.0),
    ("blue house", "red cat", 0.5), ("new dog", "old dog", 3.0), ("cat", "boat", 1.0),
]  # fmt: skip


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    desk = tmp_path_factory.mktemp("encoder")
    (desk / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs(40)))
    train_run(config(desk / "pairs.tsv", desk / "cache", **{"data.source": "1", "data.target": "2"}), desk / "run")
    return desk / "run"


def scored_file(folder, form):
    """SCORED as a file of this form."""
    if form == "jsonl":
        rows = [json.dumps({"sentence1": a, "sentence2": b, "label": score}) for a, b, score in SCORED]
        text = "\n".join(rows) + "\n"
    elif form == "glue.tsv":
        head = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
        rows = [f"{n}\tnews\tx\t2012\t1\tnone\tnone\t{a}\t{b}\t{s}\n" for n, (a, b, s) in enumerate(SCORED)]
        text = head + "".join(rows)
    elif form == "stsb.tsv":
        more = ["", "\tsource\tother"] * 3  # some lines of the original name their sources
        rows = [f"news\tx\t2012\t{n:04}\t{s:.3f}\t{a}\t{b}{more[n]}\n" for n, (a, b, s) in enumerate(SCORED)]
        text = "".join(rows)
    elif form == "bare.csv":
        text = "".join(f"{a},{b},{score}\n" for a, b, score in SCORED)
    elif form == "first.tsv":
        text = "".join(f"{score}\t{a}\t{b}\n" for a, b, score in SCORED)
    else:
        text = "similarity_score,Text1,Text2\n" + "".join(f'{score},"{a}","{b}"\n' for a, b, score in SCORED)
    file = folder / (form if "." in form else f"pairs.{form}")
    file.write_text(text)
    return file


@pytest.mark.parametrize("form", ["jsonl", "glue.tsv", "stsb.tsv", "bare.csv", "first.tsv", "csv"])
def test_scores_of_pairs_are_compared_as_scipy_does(encoder, form, tmp_path, capsys):
    stats = pytest.importorskip("scipy.stats")
    run = headway.load(encoder, device="cpu")
    first, second = (run.embed([pair[side] for pair in SCORED]).astype(float) for side in (0, 1))
    cosine = (first * second).sum(1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    scores = [score for _, _, score in SCORED]
    file = scored_file(tmp_path, form)
    assert main(["evaluate", str(encoder), "--data", str(file), "--json", "--device", "cpu"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["pearson"] == pytest.approx(stats.pearsonr(scores, cosine).statistic, abs=1e-6)
    assert found["spearman"] == pytest.approx(stats.spearmanr(scores, cosine).statistic, abs=1e-6)
    assert (found["pairs"], found["split"]) == (6, "test")
    assert "recall_at_1" not in found


def test_scores_of_a_folder_go_by_split_and_pairs_without_scores_are_found_as_before(encoder, tmp_path):
    (tmp_path / "sts").mkdir()
    text = scored_file(tmp_path, "csv").read_text()
    for split in ("train", "val"):
        (tmp_path / "sts" / f"{split}.csv").write_text(text)
    run = headway.load(encoder, device="cpu")
    assert run.evaluate(str(tmp_path / "sts"), split="val").values["pairs"] == 6
    (tmp_path / "plain.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs(40)))
    assert "recall_at_1" in run.evaluate(str(tmp_path / "plain.tsv")).values


def test_sentence_transformers_reports_the_same_correlations(encoder, tmp_path):
    pytest.importorskip("sentence_transformers")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.evaluation import EmbeddingSimilarityEvaluator

    run = headway.load(encoder, device="cpu")
    run.export(tmp_path / "hf")
    first, second, scores = (list(side) for side in zip(*SCORED, strict=True))
    judge = EmbeddingSimilarityEvaluator(first, second, scores, main_similarity="cosine", write_csv=False)
    theirs = judge(SentenceTransformer(str(tmp_path / "hf"), device="cpu"))
    ours = run.evaluate(str(scored_file(tmp_path, "csv"))).values
    for name in ("pearson", "spearman"):
        assert ours[name] == pytest.approx(theirs[f"{name}_cosine"], abs=1e-5)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (["a,b,high"], "line 3: 'high' as score, expected a number"),
        (["a,b,nan"], "line 3: 'nan' as score, expected a number"),
        (["a,b,"], "line 3: '' as score, expected a number"),
        (["a, ,2"], "line 3: an empty text in column sentence2"),
        (["a,b"], "line 3 has 2 columns, expected 3"),
        (["a,c,1"], "all 2 scores are 1, expected at least two different ones for a correlation"),
    ],
)
def test_a_score_that_is_none_is_told_in_one_line(encoder, rows, told, tmp_path, capsys):
    (tmp_path / "sts.csv").write_text("\n".join(["sentence1,sentence2,score", "a,b,1", *rows]) + "\n")
    assert main(["evaluate", str(encoder), "--data", str(tmp_path / "sts.csv"), "--device", "cpu"]) == 3
    said = capsys.readouterr()
    assert f"{tmp_path / 'sts.csv'}: {told}" in said.err
    assert said.err.count("\n") == 1
