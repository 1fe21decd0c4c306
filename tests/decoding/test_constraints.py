from __future__ import annotations

import hypothesis
import pytest
import torch
from hypothesis import strategies as st

from headway.decoding.automaton import automaton
from headway.decoding.constraint_state import repeats
from headway.decoding.constraints import Constraints
from headway.decoding.sampling import GREEDY, Sampling
from headway.errors import ConfigError
from headway.models import EncoderInput
from tests.decoding.calls import draw, search
from tests.models.tiny import VOCAB, build

START, STOP = 2, 3
MODEL = build("transformer-sinusoidal")
WORDS = [word for word in range(VOCAB) if word != STOP]
phrase = st.lists(st.sampled_from(WORDS[:6]), min_size=1, max_size=3).map(tuple)


def source(rows: int, seed: int) -> EncoderInput:
    generator = torch.Generator().manual_seed(seed)
    return EncoderInput(torch.randint(0, VOCAB, (rows, 5), generator=generator))


def holds(part: tuple[int, ...], line: list[int]) -> bool:
    return any(tuple(line[n : n + len(part)]) == part for n in range(len(line) - len(part) + 1))


def check(line: list[int], wanted: Constraints) -> None:
    assert tuple(line[: len(wanted.prefix)]) == wanted.prefix
    assert all(holds(part, line) for part in wanted.must)
    assert not any(holds(part, line) for part in wanted.banned)
    if wanted.no_repeat:
        size, seen = wanted.no_repeat, set()
        exempt = {token for part in wanted.must for token in part}
        for n in range(len(line) - size + 1):
            run = tuple(line[n : n + size])
            parting = bool(wanted.must and wanted.banned)  # any token may be what keeps two phrases apart
            assert run not in seen or n + size <= len(wanted.prefix) or run[-1] in exempt or parting
            seen.add(run)


@st.composite
def constraints(draw: st.DrawFn) -> Constraints:
    try:
        return Constraints(
            prefix=draw(st.lists(st.sampled_from(WORDS), max_size=3).map(tuple)),
            must=tuple(draw(st.lists(phrase, max_size=3))),
            banned=tuple(draw(st.lists(phrase, max_size=3))),
            no_repeat=draw(st.integers(0, 3)),
        )
    except ConfigError:
        hypothesis.reject()


@hypothesis.settings(max_examples=150, deadline=None)
@hypothesis.given(wanted=constraints(), seed=st.integers(0, 99), beam=st.integers(1, 4), limit=st.integers(1, 14))
def test_constraints_always_hold(wanted, seed, beam, limit):
    asked = source(2, seed)
    searching = {"start": START, "stop": STOP, "beam": beam, "n_best": beam, "max_tokens": limit, "constraints": wanted}
    prompt = torch.full((2, 1), START)
    drawing = {"stop": STOP, "max_tokens": limit, "source": asked, "constraints": wanted, "seed": seed}
    try:
        found = search(MODEL, asked, **searching)
    except ConfigError:  # every kind of search raises "impossible"
        with pytest.raises(ConfigError, match="impossible"):
            draw(MODEL, prompt, **drawing)
        return
    for lines in found:
        assert lines
        for line in lines:
            assert line.log_probability > -float("inf")
            assert len(line.tokens) + line.stopped <= limit
            check(line.tokens, wanted)
    diverse = search(MODEL, asked, **{**searching, "beam": 2 * beam, "groups": 2, "stop_rule": "best"})
    for lines in diverse:
        for line in lines:
            check(line.tokens, wanted)
    for sampling in (GREEDY, Sampling(temperature=1.5, top_k=3)):
        for line in draw(MODEL, prompt, sampling=sampling, **drawing):
            assert len(line) <= limit
            check(line, wanted)
    greedy = draw(MODEL, prompt, sampling=GREEDY, **drawing)
    narrow = search(MODEL, asked, **{**searching, "beam": 1, "n_best": 1})
    assert [lines[0].tokens for lines in narrow] == greedy


@hypothesis.settings(max_examples=100, deadline=None)
@hypothesis.given(
    must=st.lists(phrase, max_size=3), banned=st.lists(phrase, max_size=3),
    line=st.lists(st.sampled_from(WORDS[:8]), max_size=12),
)  # fmt: skip
def test_the_automaton_knows_which_phrases_occur(must, banned, line):
    plan = automaton(must, banned, other=True)
    state = plan.walk(line)
    assert (state is None) == any(holds(part, line) for part in banned)
    if state is not None:
        assert (plan.left[state] == 0) == all(holds(part, line) for part in must)


def test_phrases_that_overlap_take_no_more_room_than_they_need():
    wanted = Constraints(must=((4, 5, 6), (5, 6, 7), (6,)))
    for line in search(
        MODEL, source(3, 0), start=START, stop=STOP, max_tokens=4, beam=2, constraints=wanted
    ):  # the only sequence of four tokens
        assert line[0].tokens == [4, 5, 6, 7]
        assert not line[0].stopped
    with pytest.raises(ConfigError, match="take 4 tokens, max_tokens=3"):
        search(MODEL, source(1, 0), start=START, stop=STOP, max_tokens=3, constraints=wanted)


def test_a_banned_bridge_is_walked_round():
    wanted = Constraints(must=((4, 5), (6, 7)), banned=((5, 6), (7, 4)))
    lines = search(MODEL, source(5, 1), start=START, stop=STOP, max_tokens=5, beam=3, constraints=wanted)
    for found in lines:
        check(found[0].tokens, wanted)
        assert len(found[0].tokens) == 5
    with pytest.raises(ConfigError, match="take 5 tokens, max_tokens=4"):
        search(MODEL, source(1, 1), start=START, stop=STOP, max_tokens=4, constraints=wanted)


def test_a_required_phrase_costs_less_in_a_wide_beam():
    """Banks keep lines that have begun a phrase: it need not wait for the end of the room."""
    wanted = Constraints(must=((9, 10),))
    settings = {"start": START, "stop": STOP, "max_tokens": 12, "alpha": 0.0, "constraints": wanted}
    narrow, wide = (search(MODEL, source(30, 2), beam=beam, **settings) for beam in (1, 6))
    gain = [w[0].score - n[0].score for n, w in zip(narrow, wide, strict=True)]
    assert sum(gain) > 0
    assert sum(each > 0 for each in gain) > 20


def test_a_constraint_that_holds_anyway_changes_nothing():
    """A constraint that the best hypothesis meets anyway changes nothing."""
    asked = source(20, 4)
    settings = {"start": START, "stop": STOP, "max_tokens": 9, "beam": 3}
    free = search(MODEL, asked, **settings)
    banned = Constraints(banned=tuple((word, word, word, word, word) for word in WORDS))
    held = search(MODEL, asked, constraints=banned, **settings)
    same = [a == b for a, b in zip(free, held, strict=True) if not any(holds((w,) * 5, a[0].tokens) for w in WORDS)]
    assert same
    assert sum(same) >= 0.9 * len(same)
    assert search(MODEL, asked, constraints=Constraints(), **settings) == free


def test_a_sequence_without_allowed_tokens_ends():
    prompt = torch.full((2, 1), START)
    model = build("gpt-none")
    lines = draw(model, prompt, stop=-1, max_tokens=60, constraints=Constraints(no_repeat=1), sampling=GREEDY)
    assert [sorted(line) for line in lines] == [list(range(VOCAB))] * 2
    silent = Constraints(banned=tuple((word,) for word in range(VOCAB)))
    assert draw(model, prompt, stop=-1, max_tokens=9, constraints=silent) == [[], []]
    mute = Constraints(banned=tuple((word,) for word in WORDS))
    found = search(MODEL, source(2, 0), start=START, stop=STOP, constraints=mute)
    assert [lines[0].tokens for lines in found] == [[], []]


def test_repeated_n_grams():
    written = torch.tensor([[1, 2, 1, 3, 1], [2, 2, 2, 2, 2]])
    assert [row.nonzero().squeeze(1).tolist() for row in repeats(written, 2, 5)] == [[2, 3], [2]]
    assert [row.nonzero().squeeze(1).tolist() for row in repeats(written, 1, 5)] == [[1, 2, 3], [2]]
    assert not repeats(written, 6, 5).any()


def test_two_joined_are_both():
    first, second = (
        Constraints(prefix=(4,), must=((5,),), no_repeat=3),
        Constraints(prefix=(4, 6), banned=((7,),), no_repeat=2),
    )
    assert first & second == Constraints(prefix=(4, 6), must=((5,),), banned=((7,),), no_repeat=2)
    assert not Constraints()
    with pytest.raises(ConfigError, match=r"prefixes \[4\] and \[5 6\] differ"):
        first & Constraints(prefix=(5, 6))
    with pytest.raises(ConfigError, match=r"required \[5\] contains banned \[5\]"):
        first & Constraints(banned=((5,),))


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"must": ((4, 5),), "banned": ((5,),)}, r"impossible: required \[4 5\] contains banned \[5\]"),
        ({"prefix": (4, 5, 6), "banned": ((5, 6),)}, r"impossible: required \[4 5 6\] contains"),
        ({"must": ((4,) * 9,)}, "impossible: prefix and required phrases take 9 tokens, max_tokens=8"),
        ({"must": ((4,), (5, 6, 7)), "prefix": (8,) * 5}, "take 9 tokens, max_tokens=8"),
        ({"must": ((4, STOP),)}, "impossible: must .* contains the stop token 3: nothing can follow it"),
        ({"banned": ((STOP,),)}, "impossible: banned .* contains the stop token 3: no hypothesis could end"),
        ({"must": ((VOCAB,),)}, "expected tokens from 0 to 22"),
        ({"must": ((),)}, "must contains an empty phrase"),
        ({"no_repeat": -1}, "no_repeat=-1"),
        ({"must": tuple((n,) for n in range(4, 15))}, "11 required phrases, allowed: up to 10"),
        (
            {"must": ((4,), (5,)), "banned": (*((w, 4) for w in WORDS), *((w, 5) for w in WORDS))},
            "cannot be generated without a banned one",
        ),
    ],
)
def test_impossible_constraints_are_rejected(wanted, message):
    with pytest.raises(ConfigError, match=message):
        search(MODEL, source(1, 0), start=START, stop=STOP, max_tokens=8, constraints=Constraints(**wanted))
