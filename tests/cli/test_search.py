"""`headway search` on a small encoder: places, JSON, queries from stdin, the cache, and what is refused."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import headway
from headway.cli import main
from headway.data.config import DataConfig
from headway.errors import ConfigError
from headway.reliability.runs import write_encoder
from headway.runs.search import Hit, Reranker
from headway.tasks.capabilities import Classifies
from tests.interop.folders import write_gpt2


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return write_encoder(tmp_path_factory.mktemp("runs") / "encoder")


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A home of its own, and a folder with texts."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.txt").write_text("two dogs run\n\none lake\nto run\n")
    (notes / "b.md").write_text("dogs\n")
    return tmp_path


def test_the_nearest_passages_with_their_scores_and_places(encoder, desk, capsys):
    assert main(["search", str(encoder), str(desk / "notes"), "two dogs", "--top", "2", "--device", "cpu"]) == 0
    said = capsys.readouterr()
    rows = [line.split("\t") for line in said.out.splitlines()]
    run = headway.load(encoder, device="cpu")
    texts = {"a.txt:1": "two dogs run", "a.txt:3": "one lake\nto run", "b.md:1": "dogs"}
    vectors = dict(zip(texts, run.embed(list(texts.values())), strict=True))
    (query,) = run.embed(["two dogs"])
    exact = {
        place: float(query @ each / np.linalg.norm(query) / np.linalg.norm(each)) for place, each in vectors.items()
    }
    best = sorted(exact, key=lambda place: -exact[place])[:2]
    assert [row[1] for row in rows] == best
    assert [float(row[0]) for row in rows] == pytest.approx([exact[place] for place in best], abs=1e-4)
    assert [row[2] for row in rows] == [" ".join(texts[place].split()) for place in best]
    assert "note: index of 3 passages: 3 passages embedded, 0 used again, 0 dropped" in said.err
    assert [path.name[:6] for path in (desk / "home/.cache/headway").iterdir()] == ["index-"]


def test_json_has_times_and_what_the_index_is(encoder, desk, capsys):
    words = ["search", str(encoder), str(desk / "notes"), "--json", "--by", "lines", "--device", "cpu"]
    assert main([*words, "two dogs", "a lake"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["passages"], found["embedded"], found["reused"], found["width"]) == (4, 4, 0, 16)
    assert [each["query"] for each in found["queries"]] == ["two dogs", "a lake"]
    for each in found["queries"]:
        assert each["embed_milliseconds"] > 0
        assert each["search_milliseconds"] > 0
        assert len(each["hits"]) == 4
        scores = [hit["score"] for hit in each["hits"]]
        assert scores == sorted(scores, reverse=True)
    hits = headway.load(encoder, device="cpu").search(desk / "notes", ["two dogs", "a lake"], by="lines")
    for own, each in zip(hits, found["queries"], strict=True):
        assert [hit.number for hit in own] == [hit["number"] for hit in each["hits"]]
        assert [Hit(**hit).text for hit in each["hits"]] == [hit.text for hit in own]
    assert main([*words, "two dogs"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["embedded"], again["reused"]) == (0, 4)


def test_queries_come_from_stdin_and_have_headings(encoder, desk, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("two dogs\none lake\n"))
    assert main(["search", str(encoder), str(desk / "notes/a.txt"), "--top", "1", "--device", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("# ")] == ["# two dogs", "# one lake"]
    assert len(lines) == 4
    assert lines[3].split("\t")[1:] == ["a.txt:3", "one lake"]


def test_a_folder_for_the_index_belongs_to_one_encoder(encoder, desk, capsys):
    own = str(desk / "index")
    words = ["search", str(encoder), str(desk / "notes"), "dogs", "--index", own, "--device", "cpu"]
    assert main(words) == 0
    assert not (desk / "home").exists()
    other = write_encoder(desk / "other")
    config = (other / "config.yaml").read_text()
    (other / "config.yaml").write_text(config.replace("pooling: mean", "pooling: max"))
    assert main(["seal", str(other)]) == 0
    capsys.readouterr()
    words[1] = str(other)
    assert main(words) == 2
    assert f"{own} holds an index made by {encoder} with other weights" in capsys.readouterr().err
    assert main([*words, "--rebuild"]) == 0


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["missing", "dogs"], 3, "missing: no such file or folder"),
        (["notes", "dogs", "--top", "0"], 2, "must be at least 1"),
        (["notes", "dogs", "--index", "notes/a.txt"], 2, "is a file, expected a folder"),
        (["table.csv", "dogs"], 3, "no column 'text'"),
        (["empty.txt", "dogs"], 3, "no passage, expected at least 1 line of text"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(encoder, desk, capsys, monkeypatch, words, code, told):
    monkeypatch.chdir(desk)
    (desk / "table.csv").write_text("body,n\ndogs,1\n")
    (desk / "empty.txt").write_text("\n")
    try:
        found = main(["search", str(encoder), *words, "--device", "cpu"])
    except SystemExit as stopped:
        found = stopped.code
    assert found == code
    err = capsys.readouterr().err
    assert told in err
    assert err.count("\n") == 1


def test_a_run_that_does_not_embed_says_what_it_can(desk, capsys):
    run = desk / "gpt2"
    assert main(["import", str(write_gpt2(desk / "folder")), "--out", str(run)]) == 0
    capsys.readouterr()
    assert main(["search", str(run), str(desk / "notes"), "dogs", "--device", "cpu"]) == 2
    assert "is a language model: it cannot embed; it can generate" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="top=0, allowed: 1 and above"):
        headway.load(write_encoder(desk / "encoder"), device="cpu").search(desk / "notes", ["dogs"], top=0)


def test_a_process_that_is_killed_leaves_parts_and_the_next_one_goes_on(encoder, desk):
    """SIGKILL, as an out-of-memory killer sends it."""
    corpus = desk / "many.txt"
    corpus.write_text("".join(f"two dogs run {n}\n" for n in range(40_000)))
    words = [sys.executable, "-m", "headway", "search", str(encoder), str(corpus), "dogs", "--index", "index", "--json"]
    there = {**os.environ, "OMP_NUM_THREADS": "1"}
    killed = subprocess.Popen([*words, "--device", "cpu"], cwd=desk, stdout=subprocess.PIPE, env=there)
    folder, limit = Path(desk / "index"), time.monotonic() + 60
    while len(list(folder.glob("part-*"))) < 2 and killed.poll() is None and time.monotonic() < limit:
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    kept = len(list(folder.glob("part-*")))
    assert killed.returncode == -signal.SIGKILL
    assert kept >= 2
    done = subprocess.run([*words, "--device", "cpu"], cwd=desk, capture_output=True, check=True, env=there)
    found = json.loads(done.stdout)
    assert found["passages"] == 40_000
    assert 0 < found["embedded"] <= 40_000 - 1024 * kept
    assert [path.name[:6] for path in folder.iterdir()] == ["index-"]


# --- re-ranking -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    """A classifier of pairs, a query and a passage."""
    folder = tmp_path_factory.mktemp("judge")
    words = ("two", "dogs", "run", "one", "lake")
    rows = [f"{a} {b},{c} {b},{int(a == c)}\n" for a in words for b in words for c in words]
    (folder / "pairs.csv").write_text("text,text2,label\n" + "".join(rows))
    short = "--train.steps 2 --train.evaluate_every 2 --train.save_every 2 --train.batch_tokens 256 --train.device cpu"
    small = {"width": 16, "inner": 16, "heads": 2, "layers": 1, "context": 64}
    sizes = " ".join(f"--model.encoder.{key} {value}" for key, value in small.items())
    more = f"{short} {sizes} --model.encoder.windows.radius 4 --task.length 64 --data.cache {folder / 'cache'}"
    data = ["--data", str(folder / "pairs.csv"), "--data.text2", "text2", "--out", str(folder / "run")]
    assert main(["train", "longformer-needle", *data, *more.split()]) == 0
    return folder / "run"


def test_another_run_orders_the_nearest_passages(encoder, judge, desk, capsys):
    corpus = desk / "notes"
    run, other = headway.load(encoder, device="cpu"), headway.load(judge, device="cpu")
    (nearest,) = run.search(corpus, ["two dogs"], by="lines", top=3)
    shares = {hit.text: dict(other.classify([f"two dogs\t{hit.text}"], top=2)[0].top)["1"] for hit in nearest}
    words = ["search", str(encoder), str(corpus), "two dogs", "--by", "lines", "--rerank", str(judge), "--json"]
    assert main([*words, "--candidates", "3", "--top", "2", "--device", "cpu"]) == 0
    hits = json.loads(capsys.readouterr().out)["queries"][0]["hits"]
    expected = sorted(shares, key=lambda text: -shares[text])[:2]
    assert [hit["text"] for hit in hits] == expected
    assert [hit["score"] for hit in hits] == pytest.approx([shares[text] for text in expected], abs=1e-5)
    similarity = {hit.text: hit.score for hit in nearest}
    assert [hit["similarity"] for hit in hits] == pytest.approx([similarity[text] for text in expected], abs=1e-6)
    (by_method,) = run.search(corpus, ["two dogs"], by="lines", rerank=judge, candidates=3, top=2)
    assert [hit.text for hit in by_method] == expected
    (refused,) = run.search(corpus, ["two dogs"], by="lines", rerank=judge, candidates=3, top=3, relevant="0")
    assert [hit.text for hit in refused] == sorted(shares, key=lambda text: shares[text])


def test_what_cannot_rerank_is_refused(encoder, judge, desk, capsys):
    words = ["search", str(encoder), str(desk / "notes"), "dogs", "--device", "cpu"]
    assert main([*words, "--relevant", "1"]) == 2
    assert "pass that too" in capsys.readouterr().err
    assert main([*words, "--rerank", str(encoder)]) == 2
    assert "is a sentence encoder: it cannot classify" in capsys.readouterr().err
    assert main([*words, "--rerank", str(judge), "--relevant", "2"]) == 2
    assert "has the classes 0, 1; name the one that means relevant (--relevant CLASS)" in capsys.readouterr().err


def test_an_empty_query_is_refused(encoder, desk, capsys, monkeypatch):
    words = ["search", str(encoder), str(desk / "notes"), "--device", "cpu"]
    assert main([*words, " "]) == 3
    assert "query 1 is empty, expected text to search for" in capsys.readouterr().err


def test_a_classifier_of_single_texts_cannot_rerank():
    class Judge(Classifies):
        reads = "text"

        def classify(self, inputs, *, top=5):
            raise AssertionError

    class Loaded:
        folder = "runs/reviews"
        config = SimpleNamespace(data=DataConfig())

        def require(self, capability):
            return Judge()

    with pytest.raises(ConfigError, match=r"single texts, expected pairs of texts; .* import it with --pairs"):
        Reranker(Loaded())


def test_a_number_is_a_score():
    """What a regression model predicts of a pair, in the field `number` of its prediction."""

    class Said:
        top: ClassVar[list] = []
        number = 0.25

    class Judge(Classifies):
        reads = "text"
        reads_pairs = True

        def classify(self, inputs, *, top=5):
            assert all("\t" in line for line in inputs)
            return [Said() for _ in inputs]

    class Loaded:
        folder = "runs/numbers"

        def require(self, capability):
            return Judge()

    hits = [Hit(0.5, 0.5, n, f"text {n}", "a.txt", n) for n in (2, 1)]
    assert [(hit.score, hit.number) for hit in Reranker(Loaded()).rerank("q", hits)] == [(0.25, 1), (0.25, 2)]


def test_an_adapter_has_an_index_of_its_own(encoder, desk, capsys):
    layer, folder = "encoder.layer.0.attention.self.value", desk / "adapter"
    folder.mkdir()
    config = {"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": [layer]}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    width = headway.load(encoder, device="cpu").config.model.width
    drawn = torch.Generator().manual_seed(0)
    parts = {"lora_A": torch.randn(1, width, generator=drawn), "lora_B": 9 * torch.randn(width, 1, generator=drawn)}
    save_file(
        {f"base_model.model.{layer}.{name}.weight": each for name, each in parts.items()},
        folder / "adapter_model.safetensors",
    )
    plain = ["search", str(encoder), str(desk / "notes"), "two dogs", "--device", "cpu"]
    found = []
    for words in (plain, [*plain, "--adapter", str(folder)]):
        assert main(words) == 0
        said = capsys.readouterr()
        assert "3 passages embedded, 0 used again" in said.err
        found.append(said.out)
    assert found[0] != found[1]
    run = headway.load(encoder, device="cpu", adapter=folder)
    (hits,) = run.search(desk / "notes", "two dogs")  # a string is one query
    assert hits[0].score == pytest.approx(float(found[1].split("\t")[0]), abs=1e-4)
