from __future__ import annotations

import json
import logging
import math
import time
from collections import Counter

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.errors import ConfigError, DataError
from headway.metrics.bleu import bleu_from_counts, bleu_interval, resampled_bleu, sentence_counts
from headway.metrics.translation import paired_bootstrap, translation_report

REFERENCES = [
    "The dog bit the man.",
    "It wasn't unexpected.",
    "The man bit him first, didn't he?",
    "Un chiot mignon dort sur le tapis rouge.",
    "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
]
HYPOTHESES = [
    "The dog bit the man.",
    "It was not surprising.",
    "The man had just bitten him , did he?",
    "Un chiot dort sur le Tapis rouge.",
    "Zwei junge Männer sind draußen in der Nähe von Büschen.",
]


def corpus(sentences: int, seed: int = 0, error: float = 0.15) -> tuple[list[str], list[str]]:
    """Random sentences, and the same with some words replaced or lost."""
    random = np.random.default_rng(seed)
    references, hypotheses = [], []
    for _ in range(sentences):
        words = [f"w{number}" for number in random.zipf(1.3, size=random.integers(4, 30)) % 500]
        kept = [word if random.random() > error else "other" for word in words if random.random() > error / 3]
        references.append(" ".join(words))
        hypotheses.append(" ".join(kept))
    return hypotheses, references


def multi_bleu(hypotheses: list[str], references: list[str]) -> tuple[float, list[float], float, int, int]:
    """multi-bleu.perl -lc with one reference, line by line."""
    correct, total, length, target = [0] * 4, [0] * 4, 0, 0
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        words, gold = hypothesis.lower().split(), reference.lower().split()
        length, target = length + len(words), target + len(gold)
        for n in range(1, 5):
            own = Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
            allowed = Counter(tuple(gold[i : i + n]) for i in range(len(gold) - n + 1))
            correct[n - 1] += (own & allowed).total()
            total[n - 1] += own.total()
    precisions = [c / t if t else 0.0 for c, t in zip(correct, total, strict=True)]
    penalty = math.exp(1 - target / length) if length < target else 1.0
    score = penalty * math.exp(sum(map(math.log, precisions)) / 4) if all(precisions) else 0.0
    return 100 * score, [100 * each for each in precisions], penalty, length, target


@pytest.mark.parametrize(("hypotheses", "references"), [(HYPOTHESES, REFERENCES), corpus(200)])
def test_figures_are_those_of_sacrebleu(hypotheses, references):
    report = translation_report(hypotheses, references)
    expected = sacrebleu.corpus_bleu(hypotheses, [references])
    assert report.bleu == pytest.approx(expected.score, abs=1e-9)
    assert report.length_ratio == pytest.approx(expected.sys_len / expected.ref_len, abs=1e-12)
    assert report.chrf == pytest.approx(sacrebleu.corpus_chrf(hypotheses, [references]).score, abs=1e-9)
    signature = f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    assert report.bleu_signature == signature


@pytest.mark.parametrize(("hypotheses", "references"), [(HYPOTHESES, REFERENCES), corpus(200), corpus(50, error=0.9)])
def test_the_tokenized_score_is_multi_bleus(hypotheses, references):
    found = translation_report(hypotheses, references).tokenized_lower
    score, precisions, penalty, length, target = multi_bleu(hypotheses, references)
    assert found.score == pytest.approx(score, abs=1e-9)
    assert found.precisions == pytest.approx(precisions, abs=1e-9)
    assert found.brevity_penalty == pytest.approx(penalty, abs=1e-12)
    assert found.lengths == f"{length}/{target}"


def test_the_tokenized_score_ignores_case_and_keeps_tokens_as_they_are():
    references = ["a man , in a red hat .", "two dogs run over the grass ."]
    shouted = [line.upper() for line in references]
    report = translation_report(shouted, references)
    assert report.bleu_tokenized_lower == pytest.approx(100)
    assert report.bleu < 50
    glued = [line.replace(" ,", ",").replace(" .", ".") for line in references]
    report = translation_report(glued, references)
    assert report.bleu == pytest.approx(100)
    assert report.bleu_tokenized_lower < 90


def test_the_tokenized_score_prints_as_papers_do():
    report = translation_report(["a b c d e f", "a b c d"], ["a b c d e f", "a b c d x"])
    assert str(report.tokenized_lower) == "90.48 (100.0/100.0/100.0/100.0, BP 0.905, 10/11)"


WORDS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=9).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5))
def test_the_counts_give_the_score_of_sacrebleu_on_any_corpus(pairs):
    hypotheses, references = [list(lines) for lines in zip(*pairs, strict=True)]
    mine = bleu_from_counts(sentence_counts(hypotheses, references).sum(0))
    assert mine == pytest.approx(sacrebleu.corpus_bleu(hypotheses, [references]).score, abs=1e-9)


def test_a_resample_scores_its_sentences():
    hypotheses, references = corpus(40)
    counts = sentence_counts(hypotheses, references)
    scores = resampled_bleu([counts], seed=5, resamples=3)[0]
    weights = np.random.default_rng(5).multinomial(40, np.full(40, 1 / 40), size=3)
    for score, weight in zip(scores, weights, strict=True):
        drawn = np.repeat(np.arange(40), weight)
        lines = [[text[index] for index in drawn] for text in (hypotheses, references)]
        assert len(drawn) == 40
        assert score == pytest.approx(sacrebleu.corpus_bleu(lines[0], [lines[1]]).score, abs=1e-9)


def test_chunks_do_not_change_the_resamples(monkeypatch):
    counts = sentence_counts(*corpus(30))
    whole = resampled_bleu([counts], seed=1, resamples=50)
    monkeypatch.setattr("headway.metrics.bleu.CHUNK", 200)
    np.testing.assert_allclose(resampled_bleu([counts], seed=1, resamples=50), whole, rtol=1e-12)


def test_the_interval_holds_the_score_repeats_by_seed_and_shrinks_with_more_sentences():
    widths = []
    for sentences in (50, 800):
        report = translation_report(*corpus(sentences))
        assert report.bleu_low < report.bleu < report.bleu_high
        widths.append(report.bleu_high - report.bleu_low)
    assert widths[1] < widths[0] / 2
    first, again, other = (translation_report(*corpus(50), seed=seed) for seed in (3, 3, 4))
    assert first == again
    assert (first.bleu_low, first.bleu_high) != (other.bleu_low, other.bleu_high)
    assert first.bleu == other.bleu


def test_the_interval_covers_the_score_of_the_whole_population():
    hypotheses, references = corpus(3000)
    truth = sacrebleu.corpus_bleu(hypotheses, [references]).score
    counts = sentence_counts(hypotheses, references)
    inside = 0
    for number in range(40):
        sample = counts[np.random.default_rng(number).integers(0, 3000, size=100)]
        low, high = bleu_interval(sample, number, 200)
        inside += low <= truth <= high
    assert inside >= 34  # 38 expected
    low, high = bleu_interval(counts[:200], 0, 2000)
    spread = resampled_bleu([counts[:200]], 1, 2000).std()
    assert high - low == pytest.approx(2 * 1.96 * spread, rel=0.1)  # as wide as a normal one, and no wider


@pytest.mark.slow
def test_a_thousand_resamples_of_a_thousand_sentences_take_less_than_a_second():
    counts = sentence_counts(*corpus(1000))
    began = time.process_time()
    assert resampled_bleu([counts], 0, 1000).shape == (1, 1000)
    assert time.process_time() - began < 1


def test_identical_text_is_a_hundred_everywhere():
    report = translation_report(REFERENCES, REFERENCES)
    figures = [report.bleu, report.bleu_low, report.bleu_high, report.bleu_tokenized_lower, report.chrf]
    assert figures == pytest.approx([100] * 5)
    assert max(figures[:4]) <= 100
    assert report.exact_match == report.length_ratio == 1


def test_exact_match_is_by_words():
    report = translation_report(["un chiot  mignon ", "Un chat", ""], ["un chiot mignon", "un chat", "x"])
    assert report.exact_match == pytest.approx(1 / 3)


def test_buckets_share_out_all_sentences():
    hypotheses, references = corpus(300)
    sources = [" ".join("x" * (1 + number % 60)) for number in range(300)]
    for lines in (None, sources):
        report = translation_report(hypotheses, references, lines)
        assert sum(bucket.sentences for bucket in report.by_length) == 300
        whole = sum(bucket.exact_match * bucket.sentences for bucket in report.by_length)
        assert whole == pytest.approx(report.exact_match * 300)
        assert [bucket.low for bucket in report.by_length] == sorted(bucket.low for bucket in report.by_length)
    assert [bucket.label for bucket in report.by_length] == ["1-5", "6-10", "11-15", "16-20", "21-30", "31-40", "41+"]
    assert [bucket.sentences for bucket in report.by_length] == [25, 25, 25, 25, 50, 50, 100]


def test_a_bucket_scores_its_own_sentences():
    hypotheses, references = corpus(300)
    for bucket in translation_report(hypotheses, references).by_length:
        upper = bucket.high or 10**9
        inside = [n for n, line in enumerate(references) if bucket.low <= len(line.split()) <= upper]
        expected = sacrebleu.corpus_bleu([hypotheses[n] for n in inside], [[references[n] for n in inside]]).score
        assert bucket.bleu == pytest.approx(expected, abs=1e-9)


def test_a_bucket_too_short_for_bleu_has_no_score_but_lost_words_score_zero():
    short, empty = (translation_report([hyp], [ref]) for hyp, ref in (("un chat", "un chat"), ("", "le chat dort ici")))
    assert (short.by_length[0].bleu, short.by_length[0].exact_match) == (None, 1)
    assert empty.by_length[0].bleu == empty.bleu == empty.length_ratio == 0


def test_json_is_flat_and_has_the_promised_keys():
    found = json.loads(json.dumps(translation_report(HYPOTHESES, REFERENCES).to_json(), allow_nan=False))
    promised = {"bleu", "bleu_signature", "bleu_tokenized_lower", "chrf", "exact_match", "sentences"}
    assert set(found) == promised | {"bleu_low", "bleu_high", "length_ratio"}
    assert found["sentences"] == 5
    assert all(isinstance(value, str | int | float) for value in found.values())


def test_tokenized_references_are_noticed_without_a_line_on_standard_error(caplog):
    lines = ["a man walks home ."] * 120
    with caplog.at_level(logging.DEBUG, logger="sacrebleu"):
        assert translation_report(lines, lines, resamples=10).looks_tokenized
    assert not caplog.records
    assert not translation_report(REFERENCES, REFERENCES, resamples=10).looks_tokenized


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((["a"], ["a", "b"]), ["1 hypotheses", "2 references"]),
        ((["a"], ["a"], ["x", "y", "z"]), ["3 sources", "1 references"]),
        (([], []), ["0 hypotheses", "0 references"]),
    ],
)
def test_lists_that_do_not_fit_are_refused_by_number(arguments, words):
    with pytest.raises(DataError) as caught:
        translation_report(*arguments)
    assert all(word in str(caught.value) for word in words)


def test_no_resamples_is_refused():
    with pytest.raises(ConfigError, match="resamples=0"):
        translation_report(["a"], ["a"], resamples=0)


def test_paired_bootstrap_tells_a_better_system_from_an_equal_one():
    worse, references = corpus(300, error=0.3)
    random = np.random.default_rng(0)
    repaired = [ref if random.random() < 0.5 else hyp for hyp, ref in zip(worse, references, strict=True)]
    delta, p = paired_bootstrap(worse, repaired, references)
    scores = [sacrebleu.corpus_bleu(lines, [references]).score for lines in (worse, repaired)]
    assert delta == pytest.approx(scores[1] - scores[0], abs=1e-9)
    assert delta > 5
    assert p == pytest.approx(1 / 1001)
    backwards = paired_bootstrap(repaired, worse, references)
    assert backwards == (-delta, p)
    assert paired_bootstrap(worse, worse, references) == (0, 1)


def test_paired_bootstrap_seldom_finds_a_difference_between_equal_systems():
    _, references = corpus(100)
    random = np.random.default_rng(1)

    def damaged() -> list[str]:
        return [" ".join(word for word in line.split() if random.random() > 0.2) for line in references]

    found = [paired_bootstrap(damaged(), damaged(), references, seed=n, resamples=200)[1] for n in range(20)]
    assert sum(p < 0.05 for p in found) <= 4
    assert max(found) > 0.5


def test_paired_bootstrap_names_the_list_that_is_short():
    with pytest.raises(DataError, match="1 hypotheses of b for 2 references"):
        paired_bootstrap(["a", "b"], ["a"], ["a", "b"])
