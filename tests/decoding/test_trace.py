"""A trace reproduces its search: tokens, scores to the bit, hypotheses under any penalty; from a file the same."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headway.decoding.beam import BeamStep, Hypothesis, length_penalty
from headway.decoding.trace import Trace, alignment, finished, hypotheses, replay, rerank, tree
from headway.decoding.trace.format import _compact, _sum, from_json, read_traces, to_json
from headway.decoding.trace.recorder import TraceRecorder, added, quantised
from headway.errors import ConfigError, DataError, ShapeError
from headway.models import EncoderInput, build_model
from headway.nn.rnn_attention import AlignmentConfig
from tests.decoding.calls import search
from tests.models.tiny import ATTENTIVE, TRANSLATION, VOCAB, build

START, STOP = 2, 3
FEW = ["transformer-sinusoidal", "seq2seq-context-all", "seq2seq-gru"]


def sources(rows: int, longest: int = 6, seed: int = 0) -> EncoderInput:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, VOCAB, (rows, longest), generator=generator)
    return EncoderInput(tokens, torch.randint(1, longest + 1, (rows,), generator=generator))


def as_trace(recorder: TraceRecorder, row: int, words: list[int], **settings) -> Trace:
    """With made-up texts: a word is called by its number."""
    trace = Trace(
        source=" ".join(map(str, words)),
        source_pieces=tuple(map(str, words)),
        pieces={word: f"w{word}" for word in range(VOCAB)},
        texts=(),
        start=START,
        stop=STOP,
        model_steps=(7,),
        steps=recorder.steps(row),
        **settings,
    )
    return replace(trace, texts=tuple(" ".join(map(str, line.tokens)) for line in finished(trace)))


def traced(model, read: EncoderInput, *, beam=4, n_best=None, alpha=0.6, penalty="gnmt", max_tokens=12):
    """What a search gives while it is recorded, and its traces."""
    settings = {"beam": beam, "n_best": beam if n_best is None else n_best, "alpha": alpha, "penalty": penalty}
    with TraceRecorder(model, read.lengths.tolist()) as recorder:
        found = search(
            model, read, start=START, stop=STOP, max_tokens=max_tokens, recorder=recorder, **settings
        )  # fmt: skip
    rows = (read.tokens[row, : read.lengths[row]].tolist() for row in range(len(read.tokens)))
    return found, [as_trace(recorder, row, words, **settings) for row, words in enumerate(rows)]


@cache
def one(name: str = "transformer-sinusoidal", row: int = 0, max_tokens: int = 12) -> Trace:
    return traced(build(name), sources(4), max_tokens=max_tokens)[1][row]


@pytest.mark.parametrize("name", TRANSLATION)
def test_replay_is_the_search(name):
    model, read = build(name), sources(30)
    for beam, alpha, penalty in ((1, 0.6, "gnmt"), (3, 0.0, "gnmt"), (5, 1.0, "mean"), (4, 0.6, "gnmt")):
        settings = {"beam": beam, "alpha": alpha, "penalty": penalty, "max_tokens": 9}
        found, traces = traced(model, read, **settings)
        assert [replay(trace) for trace in traces] == found  # floats by ==: to the bit
        assert [replay(from_json(to_json(trace))) for trace in traces] == found
        assert search(model, read, start=START, stop=STOP, n_best=beam, **settings) == found  # without a recorder


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("beam", [1, 2, 5])
def test_every_score_adds_up_again(name, beam):
    _, traces = traced(build(name), sources(30, seed=1), beam=beam)
    for trace in traces:
        found = tree(trace)
        assert len(found.hypotheses) >= beam
        for line in found.hypotheses:
            total = np.float32(0)
            for index in line.nodes:
                total = np.float32(total + np.float32(found.nodes[index].nats))
            assert float(total) == line.log_probability
            assert line.score == line.log_probability / length_penalty(line.length, trace.alpha, trace.penalty)


def test_a_difference_is_found_for_every_sum():
    random = np.random.default_rng(0)
    for scale in 10.0 ** np.arange(-6, 4):
        before, nats = -random.exponential(10, 20_000).astype(np.float32), -random.exponential(scale, 20_000)
        totals = before + nats.astype(np.float32)
        assert (before + added(before, totals) == totals).all()
    lost = np.array([-np.inf, -np.inf], np.float32)
    assert (added(np.array([-1, -np.inf], np.float32), lost) == -np.inf).all()


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize(("alpha", "penalty"), [(0.0, "gnmt"), (1.4, "gnmt"), (0.7, "mean")])
def test_a_rerank_is_a_fresh_search_with_that_penalty(name, alpha, penalty):
    model, read = build(name), sources(20)
    _, traces = traced(model, read)
    fresh, others = traced(model, read, alpha=alpha, penalty=penalty)
    for trace, other, found in zip(traces, others, fresh, strict=True):
        again = rerank(trace, alpha, penalty)
        assert again[: trace.beam] == found
        assert again == [Hypothesis(list(x.tokens), x.log_probability, x.score, x.stopped) for x in hypotheses(other)]
        assert rerank(trace, trace.alpha, trace.penalty)[: trace.n_best] == replay(trace)


def test_only_the_best_asked_for_are_replayed_and_all_finished_ones_ranked():
    found, traces = traced(build(FEW[0]), sources(5), n_best=2)
    assert [replay(trace) for trace in traces] == found
    assert all(len(hypotheses(trace)) >= 4 for trace in traces)


@pytest.mark.parametrize(("alpha", "penalty"), [(1e9, "gnmt"), (float("nan"), "mean"), (-1e9, "mean"), (1.0, "x")])
def test_an_invalid_penalty_is_rejected(alpha, penalty):
    with pytest.raises(ConfigError, match="allowed"):
        rerank(one(), alpha, penalty)


def test_the_tree_holds_every_candidate_with_what_became_of_it():
    trace = one()
    found = tree(trace)
    assert {node.status for node in found.nodes} >= {"kept", "pruned", "won"}
    assert [n for n, node in enumerate(found.nodes) if node.status == "won"] == list(found.hypotheses[0].nodes)
    for node in found.nodes:
        before = 0.0 if node.parent is None else found.nodes[node.parent].total
        assert node.total == float(np.float32(before) + np.float32(node.nats))
        assert node.step == (0 if node.parent is None else found.nodes[node.parent].step + 1)
        if node.parent is not None:
            assert found.nodes[node.parent].status in ("kept", "won")
    assert [line.text for line in found.hypotheses] == [" ".join(map(str, line.tokens)) for line in found.hypotheses]


def test_a_beam_wider_than_the_vocabulary_leaves_no_ghosts():
    found, traces = traced(build(FEW[0]), sources(6), beam=VOCAB + 5, max_tokens=3)
    for trace, best in zip(traces, found, strict=True):
        assert replay(from_json(to_json(trace))) == best
        ends = {line.nodes[-1] for line in hypotheses(trace)}
        for index, node in enumerate(tree(trace).nodes):
            assert (node.status in ("ended", "won")) == (index in ends or node.status == "won")
            assert np.isfinite(node.total)


def test_another_penalty_may_have_another_best_hypothesis():
    long = next(
        trace for trace in traced(build(FEW[0]), sources(60), max_tokens=9)[1]
        if hypotheses(trace, 0.0)[0].nodes != hypotheses(trace, 3.0)[0].nodes
    )  # fmt: skip
    for alpha in (0.0, 3.0):
        found = tree(long, alpha)
        assert [n for n, node in enumerate(found.nodes) if node.status == "won"] == sorted(found.hypotheses[0].nodes)


def by_hand(*steps: BeamStep) -> Trace:
    recorder = TraceRecorder(torch.nn.Module(), [2])
    for step in steps:
        recorder.step(step)
    return as_trace(recorder, 0, [5, 6], beam=2, n_best=2, alpha=0.0, penalty="gnmt")


def by_hand_step(length: int, totals, parents, words, ended, kept) -> BeamStep:
    whole = [torch.tensor([part], dtype=torch.long) for part in (parents, words)]
    kept = torch.tensor([kept], dtype=torch.long)
    return BeamStep(torch.tensor([0]), length, torch.tensor([totals]), *whole, torch.tensor([ended]), kept, 1.0)


def test_hypotheses_may_be_cut_in_a_step_of_their_own_or_in_the_last_one():
    first = by_hand_step(1, [-1.0, -2.0, -3.0], [0, 0, 0], [8, 9, STOP], [False, False, False], [0, 1])
    words = ([-1.5, -2.5, -2.6], [0, 1, 0], [4, STOP, 7])
    own = by_hand(
        first,
        by_hand_step(2, *words, [False, True, False], [0, 2]),
        by_hand_step(2, [-1.5, -2.6], [0, 1], [4, 7], [True, True], []),
    )
    last = by_hand(first, by_hand_step(2, *words, [True, True, True], [0, 2]))
    expected = [([8, 4], -1.5), ([9], -2.5), ([8, 7], -2.6)]
    for trace in (own, from_json(to_json(own)), last, from_json(to_json(last))):
        assert [(list(line.tokens), round(line.score, 6)) for line in hypotheses(trace)] == expected
        assert [node.status for node in tree(trace).nodes] == ["won", "kept", "pruned", "won", "ended", "ended"]


# --- attention -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TRANSLATION)
def test_attention_is_over_the_real_source_and_sums_to_one(name):
    model, read = build(name), sources(6)
    _, traces = traced(model, read, max_tokens=6)
    for trace, length in zip(traces, read.lengths.tolist(), strict=True):
        for n, step in enumerate(trace.steps):
            if model.source_attention() is None:
                assert step.attention is None
                continue
            closing = n > 0 and step.length == trace.steps[n - 1].length
            slots = len(trace.steps[n - 1].kept) if n else 1
            assert step.attention.shape == (0 if closing else slots, length)
            off = length * step.scales / 255 / 2 + 1e-5  # half a level each
            assert (np.abs(step.attention.sum(1) - 1) <= off).all()
        seen = alignment(trace, hypotheses(trace)[0])
        assert (seen is None) == (model.source_attention() is None)
        assert seen is None or seen.shape == (len(hypotheses(trace)[0].nodes), length)


@pytest.mark.parametrize(("kind", "reverse"), [("transformer", False), ("recurrent", False), ("recurrent", True)])
def test_attention_is_that_of_a_forward_pass_over_the_hypothesis(kind, reverse):
    if kind == "transformer":
        model = build("transformer-sinusoidal")
    else:
        config = replace(ATTENTIVE, reverse_source=reverse, attention=AlignmentConfig(width=6, kind="additive"))
        model = build_model(config, seed=3).eval()
    read = sources(5)
    _, traces = traced(model, read)
    for row, trace in enumerate(traces):
        best = hypotheses(trace)[1]
        fed = torch.tensor([[START, *best.tokens]])[:, : len(best.nodes)]
        kept: list[torch.Tensor] = []
        hook = model.source_attention().tap.register_forward_hook(
            lambda _m, _i, weights, kept=kept: kept.append(weights)
        )
        with torch.no_grad():
            model(read.tokens[[row], : read.lengths[row]], fed)
        hook.remove()
        weights = kept[-1].mean(1)[0] if kept[-1].ndim == 4 else kept[-1][0]
        weights = weights.flip(-1) if reverse else weights
        np.testing.assert_allclose(alignment(trace, best), weights.numpy(), atol=0.5 / 255 + 1e-4)


def test_levels_are_off_by_half_a_level_at_most():
    weights = torch.randn(50, 40).softmax(-1).numpy()
    levels, scales = quantised(weights)
    assert (np.abs(levels * scales[:, None] / 255 - weights) <= scales[:, None] / 509).all()
    assert quantised(np.zeros((2, 3), np.float32))[0].sum() == 0


def test_the_hook_is_removed_when_the_search_ends_or_fails():
    model = build(FEW[0])
    heard = []

    def fail():
        with TraceRecorder(model, [1]):
            heard.append(model.source_attention().tap.observed)
            raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        fail()
    assert heard == [True]
    assert not model.source_attention().tap.observed


def test_attention_of_another_batch_is_noticed():
    model, read = build(FEW[0]), sources(3)
    with TraceRecorder(model, read.lengths.tolist()) as recorder:
        recorder._on_attention(model, (), torch.ones(4, 2, 1, 6))
        with pytest.raises(ShapeError, match="attention of 4 hypotheses for 3 rows"):
            recorder._attention(3)


# --- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FEW)
def test_a_line_of_json_gives_the_same_trace(name):
    for trace in traced(build(name), sources(8))[1]:
        line = to_json(trace)
        again = from_json(line)
        assert to_json(again) == line
        assert "\n" not in line
        for ours, theirs in zip(trace.steps, again.steps, strict=True):
            for part in ("totals", "nats", "parents", "words", "ended", "kept", "levels", "scales"):
                one, other = getattr(ours, part), getattr(theirs, part)
                assert (one is None) == (other is None)
                assert one is None or (one.dtype == other.dtype and np.array_equal(one, other))
            assert (ours.length, ours.norm) == (theirs.length, theirs.norm)
        assert tree(again) == tree(trace)


def test_thirty_tokens_with_a_beam_of_five_are_small():
    model, read = build("seq2seq-additive"), EncoderInput(torch.randint(0, VOCAB, (1, 30)), torch.tensor([30]))
    with torch.no_grad():
        model.head.bias[STOP] = -1000  # it never ends by itself
    found, (trace,) = traced(model, read, beam=5, max_tokens=30)
    assert len(trace.steps) == 31  # the last one cuts
    assert replay(from_json(to_json(trace))) == found[0]
    assert {(len(line.tokens), line.stopped) for line in hypotheses(trace)} == {(30, False)}
    assert len(to_json(trace).encode()) < 20_000


def test_an_empty_source_has_a_trace_without_steps():
    empty = replace(one(), source="", source_pieces=(), steps=(), texts=())
    assert replay(from_json(to_json(empty))) == []
    assert tree(empty).nodes == ()


def test_texts_of_any_kind_survive():
    odd = 'a "b" \\ \n\t\u2028 é 中 \x00 ‮'
    trace = replace(one(), source=odd)
    assert from_json(to_json(trace)).source == odd
    assert "\n" not in to_json(trace)


def resealed(line: str, **changed) -> str:
    """The line with other fields, with the checksum of the new content, as if written so."""
    fields = {**json.loads(line), **changed}
    fields = {name: value for name, value in fields.items() if value is not ... and name != "crc32"}
    return _compact({**fields, "crc32": _sum(fields)})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"headway_trace": 2}, "headway_trace: version 2, this headway reads version 1"),
        ({"headway_trace": ...}, "headway_trace: missing"),
        ({"beam": ...}, "beam: missing"),
        ({"beam": True}, "beam=True, expected a whole number"),
        ({"beam": 0}, "beam=0, expected a whole number from 1"),
        ({"n_best": 9}, "n_best: 9, expected at most the beam"),
        ({"penalty": "none"}, "penalty='none', expected gnmt or mean"),
        ({"alpha": "much"}, "alpha='much', expected a finite number"),
        ({"alpha": 0.7}, r"norms\[0\]|norms\[1\]"),
        ({"alpha": 1e6}, "alpha: length penalty"),
        ({"source": 3}, "source=3, expected a string"),
        ({"source": "\ud800"}, "source=.*lone surrogate"),
        ({"source_pieces": ["a"]}, "attention: |attending: "),
        ({"source_pieces": []}, "attention: |attending: "),
        ({"pieces": ["a"]}, "pieces: 1 entry,"),
        ({"vocabulary": [], "pieces": []}, "start: 2 is not in the vocabulary"),
        ({"texts": []}, "texts: 0 entries"),
        ({"lengths": {}}, "lengths={}, expected a list"),
        ({"norms": [1]}, "norms: 1 entry,"),
        ({"totals": "AAAA"}, "totals: 3 bytes, expected"),
        ({"totals": "é"}, "totals: not base64"),
        ({"totals": 1}, "totals=1, expected a string"),
        ({"attending": None}, "attending: null, but there is attention"),
        ({"more": 1}, "'more': unknown field"),
    ],
)
def test_an_invalid_field_is_named(changed, message):
    with pytest.raises(DataError, match=message):
        from_json(resealed(to_json(one()), **changed))


@pytest.mark.parametrize(
    ("part", "step", "value", "message"),
    [
        ("parents", 0, 1, "parents: 1 at step 0"),
        ("parents", 3, 99, "parents: 99 at step 3"),
        ("kept", 2, 999, "kept: at step 2"),
        ("words", 1, 5000, "words: 5000 at step 1"),
        ("totals", 2, -1.0, "nats: at step 2"),
        ("totals", 2, np.nan, "totals: not a log-probability at step 2"),
        ("nats", 1, np.inf, "totals: not a log-probability at step 1"),
        ("scales", 1, 9.0, "attention_scales: not an attention weight at step 1"),
    ],
)
def test_indices_and_sums_are_not_trusted(part, step, value, message):
    trace = one()
    array = getattr(trace.steps[step], part).copy()
    array[0] = value
    steps = [*trace.steps]
    steps[step] = replace(steps[step], **{part: array})
    with pytest.raises(DataError, match=message):
        from_json(to_json(replace(trace, steps=tuple(steps))))


def test_steps_out_of_order_are_noticed():
    trace = one()
    with pytest.raises(DataError, match=r"lengths\[0\]: 2, expected 1"):
        from_json(to_json(replace(trace, steps=trace.steps[1:], texts=trace.texts)))


def read_or_refuse(line: str | bytes) -> None:
    try:
        trace = from_json(line)
    except DataError:
        return
    replay(trace), tree(trace), rerank(trace, 1.0, "mean")


@given(st.integers(0, 10**9), st.integers(0, 7))
def test_a_flipped_bit_is_noticed(at, bit):
    data = bytearray(to_json(one()).encode())
    data[at % len(data)] ^= 1 << bit
    try:
        same = to_json(from_json(bytes(data))) == to_json(one())
    except DataError:
        return
    assert same  # 1e5 and 1E5 are one number


@given(st.integers(0, 10**9))
def test_a_truncated_line_is_rejected(at):
    data = to_json(one()).encode()
    with pytest.raises(DataError):
        from_json(data[: at % len(data)])


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


FIELDS = (
    "headway_trace", "source", "source_pieces", "beam", "n_best", "penalty", "alpha", "start", "stop", "model_steps",
    "vocabulary", "pieces", "texts", "lengths", "norms", "candidates", "open", "totals", "nats", "parents", "words",
    "ended", "kept", "attending", "attention", "attention_scales", "crc32",
)  # fmt: skip


def test_these_are_the_fields():
    assert tuple(json.loads(to_json(one()))) == FIELDS


@given(st.sampled_from(FIELDS), ANYTHING)
def test_a_field_of_any_other_type_is_rejected_or_read(name, value):
    fields = {**json.loads(to_json(one())), name: value}
    del fields["crc32"]
    try:
        line = _compact({**fields, "crc32": _sum(fields)})
    except ValueError:  # NaN is not valid JSON
        line = json.dumps({**fields, "crc32": 0})
    read_or_refuse(line)


@given(
    st.sampled_from(["totals", "nats", "parents", "words", "ended", "kept", "attention", "attention_scales"]),
    st.integers(0, 10**9),
    st.integers(0, 63),
)
def test_arrays_with_a_right_sum_and_wrong_numbers_do_no_harm(name, at, digit):
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    text = json.loads(to_json(one()))[name]
    at %= len(text.rstrip("="))
    read_or_refuse(resealed(to_json(one()), **{name: text[:at] + letters[digit] + text[at + 1 :]}))


@pytest.mark.parametrize("line", ["", "[]", "null", "[" * 100_000, '{"headway_trace":1}', "9" * 5000, b"\xff\xfe", "{"])
def test_a_line_that_is_not_a_trace_is_rejected(line):
    with pytest.raises(DataError):
        from_json(line)


def test_a_file_is_read_line_by_line_and_names_the_bad_one(tmp_path):
    path = tmp_path / "beam.jsonl"
    path.write_text(f"{to_json(one())}\n{to_json(one(row=1))}\n{{}}\n")
    assert [trace.source for trace in islice(read_traces(path), 2)] == [one().source, one(row=1).source]
    with pytest.raises(DataError, match=r"beam\.jsonl: line 3: headway_trace: missing"):
        list(read_traces(path))
    with pytest.raises(DataError, match=r"none\.jsonl: cannot be read"):
        list(read_traces(tmp_path / "none.jsonl"))
    with pytest.raises(DataError, match="cannot be read"):
        list(read_traces(tmp_path))
