"""Clients as they are published, unchanged, against a server in a process; one that is not installed is skipped.

OpenAI's own client is in test_server as well. None of the others is a dependency of headway: the packages are
langchain-openai, lm_eval with its extra `api`, and libretranslatepy.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai")
pytest.importorskip("uvicorn")

from headway.reliability.runs import TINY
from headway.runs import load
from headway.runs.train import train_run
from tests.serving.test_server import Served

QUESTION = "What is 2 + 3?"
RUNS = {"talk": "chat", "pair": "translation", "vectors": "embedding", "ear": "transcription"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("clients")
    for name, task in RUNS.items():
        tiny = TINY[task]
        with tiny.short():
            train_run(tiny.config(folder / "cache", {}), folder / name)
    return {name: folder / name for name in RUNS}


@pytest.fixture(scope="module")
def served(runs: dict[str, Path]) -> Iterator[Served]:
    made = Served(*map(str, runs.values()), log=runs["talk"].parent / "log.txt")
    made.until("/ready", 200)
    yield made
    made.process.kill()
    made.process.wait()


def chat(served: Served, **fields: Any) -> Any:
    asked = {"model": "talk", "messages": [{"role": "user", "content": QUESTION}], "max_tokens": 8, "temperature": 0}
    return served.client.chat.completions.create(**{**asked, **fields})


def test_openai(served: Served) -> None:
    assert [each.id for each in served.client.models.list()] == list(RUNS)
    whole = chat(served, logprobs=True, top_logprobs=2, n=2).choices
    assert whole[0].message.role == "assistant"
    assert whole[0].logprobs.content[0].token in whole[0].message.content
    chunks = list(chat(served, stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == whole[0].message.content
    assert chunks[-1].usage.completion_tokens == len(whole[0].logprobs.content)
    found = served.client.embeddings.create(model="vectors", input=["3 1 2", "1"])  # asked for in base64
    expected = load(str(served.log.parent / "vectors")).embed(["3 1 2", "1"])
    assert found.data[0].embedding == pytest.approx(expected[0].tolist(), abs=1e-6)
    assert found.usage.prompt_tokens == found.usage.total_tokens == 4


def test_openai_sends_sounds(served: Served, runs: dict[str, Path]) -> None:
    sound = Path(TINY["transcription"].file(served.log.parent))  # type: ignore[misc]
    expected = load(str(runs["ear"])).transcribe([sound])[0].text
    with sound.open("rb") as file:
        assert served.client.audio.transcriptions.create(model="ear", file=file).text == expected
    as_text = served.client.audio.transcriptions.create(model="ear", file=sound, response_format="text")
    assert as_text == f"{expected}\n"


def test_langchain(served: Served) -> None:
    langchain = pytest.importorskip("langchain_openai")
    to = {"base_url": f"http://127.0.0.1:{served.port}/v1", "api_key": "none", "max_retries": 0}
    model = langchain.ChatOpenAI(model="talk", temperature=0, max_tokens=8, **to)
    expected = chat(served).choices[0].message.content
    answer = model.invoke(QUESTION)
    assert answer.content == expected
    assert answer.usage_metadata["output_tokens"] >= len(expected) > 0
    assert "".join(piece.content for piece in model.stream(QUESTION)) == expected
    assert [each.content for each in model.batch([QUESTION, QUESTION])] == [expected] * 2
    plain = langchain.OpenAI(model="talk", temperature=0, max_tokens=5, **to)
    completion = served.client.completions.create(model="talk", prompt="What", temperature=0, max_tokens=5)
    assert plain.invoke("What") == completion.choices[0].text
    assert plain.generate(["What", "is"]).generations[0][0].text == completion.choices[0].text
    # By default this class sends ids of another vocabulary, which are refused.
    vectors = langchain.OpenAIEmbeddings(model="vectors", check_embedding_ctx_length=False, **to)
    assert len(vectors.embed_documents(["3 1 2", "1"])) == 2
    assert vectors.embed_query("1") == pytest.approx(vectors.embed_documents(["3 1 2", "1"])[1], abs=1e-5)


def test_lm_eval(served: Served, runs: dict[str, Path]) -> None:
    """The class behind `--model local-completions`, with the tokenizer of the server."""
    for needed in ("requests", "aiohttp", "tenacity", "tqdm", "lm_eval"):
        pytest.importorskip(needed)
    from lm_eval.api.instance import Instance
    from lm_eval.models.openai_completions import LocalCompletionsAPI

    url = f"http://127.0.0.1:{served.port}/v1/completions"
    with pytest.raises(RuntimeError):  # of three runs one has to be named, which these paths cannot be told
        LocalCompletionsAPI(base_url=url, model="talk", tokenizer_backend="remote", max_length=128)
    alone = Served(str(runs["talk"]), log=served.log.parent / "log-alone.txt")
    try:
        alone.until("/ready", 200)
        url = f"http://127.0.0.1:{alone.port}/v1/completions"
        model = LocalCompletionsAPI(base_url=url, model="talk", max_length=128, max_retries=1)
        assert model.tokenizer_backend == "remote"  # found by itself
        pairs = [("What is", " 2"), ("What is 2", " + 3?")]
        found = model.loglikelihood([Instance("loglikelihood", {}, pair, n) for n, pair in enumerate(pairs)])
        for (context, continuation), (nats, greedy) in zip(pairs, found, strict=True):
            scored = load(str(runs["talk"])).score(context + continuation)
            expected = sum(value for _, value in scored[-len(model.tok_encode(continuation)) :])
            assert nats == pytest.approx(expected, abs=1e-4)
            assert greedy in (True, False)
        wanted = {"until": ["?"], "max_gen_toks": 6}
        (text,) = model.generate_until([Instance("generate_until", {}, ("What", wanted), 0)])
        answer = alone.client.completions.create(model="talk", prompt="What", max_tokens=6, temperature=0, stop=["?"])
        assert text == answer.choices[0].text
    finally:
        alone.process.kill()
        alone.process.wait()


def test_libretranslate(served: Served, runs: dict[str, Path]) -> None:
    LibreTranslateAPI = pytest.importorskip("libretranslatepy").LibreTranslateAPI
    client = LibreTranslateAPI(f"http://127.0.0.1:{served.port}/", api_key="any")
    run = load(str(runs["pair"]))
    source, target = run.config.data.source, run.config.data.target
    assert client.translate("3 1 2", source, target) == run.translate(["3 1 2"])[0]
    assert client.languages() == [{"code": source, "name": source, "targets": [target]}]
    assert client.detect("3 1 2") == [{"confidence": 100, "language": source}]
