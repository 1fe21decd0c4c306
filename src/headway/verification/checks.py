"""The checks of `headway verify`: each a name, what it differs in, and two sets of logits that should be the same."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path as File

import torch
from torch import nn

from headway._compile import compiler_missing
from headway.errors import AdviceWarning, KernelError
from headway.interop.hf_reference import REFERENCE
from headway.models import Gpt
from headway.ops import KERNELS
from headway.storage.commit import read_tensors
from headway.verification import formulas, paths
from headway.verification.kinds import Example, Forward, Kind, Rows
from headway.verification.paths import Logits


@dataclass(frozen=True, slots=True)
class Allowance:
    """How far a precision may be from float32, the larger of two bounds; docs/verify.md has what honest models need."""

    share: float  # of the largest centred logit
    rounding: float  # times the distance of float32 from float64

    def bound(self, spread: float, distance: float) -> float:
        """The largest difference that is rounding."""
        return max(self.share * spread, self.rounding * distance)


# bfloat16 rounds 2^16 times as coarsely as float32, so that a model's rounding grows by about as much.
PRECISIONS = {"bf16": Allowance(0.05, 4 * 2.0**16), "int8": Allowance(0.25, 0.0)}


class LeftOutError(Exception):
    """A check that says nothing about this model here; skipped is one that was not asked for."""

    def __init__(self, reason: str, *, skipped: bool = False) -> None:
        super().__init__(reason)
        self.skipped = skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A checkpoint to be verified, its inputs, and the other forms it can be had in."""

    model: nn.Module  # in float32, in evaluation mode
    kind: Kind
    examples: Sequence[Example]  # with the baseline's greedy tokens
    precise: Callable[[str], nn.Module]  # the same weights in "bf16" or "int8"
    round_trip: Callable[[], Forward | str]  # what was exported and loaded again, called as the model is; or why not
    reference: File  # may be missing
    compiled: bool = False

    @property
    def vocabulary(self) -> int:
        """An id below this is one in every vocabulary of the model."""
        return min((each.size for each in self.kind.vocabularies if each is not None), default=1)


@dataclass(frozen=True, slots=True)
class Pair:
    """Logits that should agree, and what else they may differ by than rounding in float32 explains."""

    expected: Logits
    found: Logits
    allowance: Allowance | None = None  # of another precision
    own: Sequence[Example] | None = None  # the inputs, where they are not the subject's


@dataclass(frozen=True, slots=True)
class Formula:
    """The largest difference from a published formula, and the largest allowed."""

    difference: float
    bound: float


@dataclass(frozen=True, slots=True)
class Check:
    """Run it with a subject and the baseline's logits: a pair, a formula's difference, or LeftOutError is raised."""

    name: str
    differs: str  # in what, from what
    run: Callable[[Subject, Logits], Pair | Formula]


def baseline(model: nn.Module, kind: Kind, examples: Sequence[Example]) -> Logits:
    """One sequence at a time, no cache, no padding, the reference kernel."""
    with paths.kernel(model, "reference"):
        return paths.alone(model, kind, examples)


def checks() -> Iterator[Check]:
    """All of them, in the order they are shown."""
    for name, path, differs in (
        ("cache", paths.stepped, "token by token through a cache"),
        ("cache in chunks", paths.chunked, "1, 3 and 5 tokens at once through a cache"),
        ("cached batch", paths.ragged, "prompts of unequal length in one batch, then token by token"),
        ("cached batch reordered", paths.reordered, "the same, rows moved as a beam moves them"),
    ):
        yield Check(name, differs, partial(_generating, path=path))
    yield Check("batch", "beside another input of the same length", _beside)
    yield Check("batch, right padding", "all inputs in one batch", _right_padding)
    yield Check("batch, left padding", "the input behind five other tokens", _left_padding)
    for name in ("auto", *(name for name in KERNELS if name != "reference")):
        yield Check(f"kernel {name}", "another kernel, in a batch", partial(_kernel, name=name, path=paths.together))
        cached = partial(_kernel, name=name, path=paths.ragged)
        yield Check(f"kernel {name}, cached batch", "another kernel, in a batch through a cache", cached)
    for precision in PRECISIONS:
        yield Check(f"precision {precision}", "weights in fewer bits", partial(_precision, precision=precision))
    yield Check("compiled", "torch.compile, in a batch", _compiled)
    yield Check("exported and reloaded", "written for others and read again", _exported)
    yield Check("stored reference", "logits of another program, kept in the run", _reference)
    yield Check("future", "other tokens in the second half, looked at in the first", _future)
    yield Check("padding content", "other tokens in the padding", _padding)
    yield Check("other rows", "other inputs in the rest of the batch", _others)
    for name, differs, formula in (
        ("position by distance", "queries and keys moved on together", formulas.by_distance),
        ("rotary formula", "each pair's turn from the published one", formulas.rotary_turns),
        ("ALiBi slopes", "each head's slope from the published one", formulas.alibi_slopes),
    ):
        yield Check(name, differs, partial(_formula, formula=formula))


def _path(subject: Subject, base: Logits, *, path: paths.Path) -> Pair:
    with paths.kernel(subject.model, "reference"):
        return Pair(base, path(subject.model, subject.kind, subject.examples))


def _generating(subject: Subject, base: Logits, *, path: paths.Path) -> Pair:
    if not subject.kind.generates:
        raise LeftOutError("the model generates nothing and has no cache")
    return _path(subject, base, path=path)


def _beside(subject: Subject, base: Logits) -> Pair:
    """Each input in a batch of two, nothing padded."""
    pairs = [[each, _other(each, subject.vocabulary)] for each in subject.examples]
    with paths.kernel(subject.model, "reference"):
        return Pair(base, [paths.together(subject.model, subject.kind, two)[0] for two in pairs])


def _right_padding(subject: Subject, base: Logits) -> Pair:
    _must_pad(subject)
    return _path(subject, base, path=paths.together)


def _must_pad(subject: Subject) -> None:
    if not subject.kind.pads:
        raise LeftOutError("images are of one size: none is padded")


def _left_padding(subject: Subject, base: Logits) -> Pair:
    """Only a GPT can be told that a row's first tokens are not its text's: they are another segment."""
    model = subject.model
    _must_pad(subject)
    if not isinstance(model, Gpt):
        raise LeftOutError("the model takes padding on the right only, with lengths")
    if model.stack.input_positions is not None:
        raise LeftOutError("positions joined to the input count from the row's start: padding goes to the right")
    before = torch.arange(5, device=subject.examples[0].tokens.device) % subject.vocabulary
    found = []
    with paths.kernel(model, "reference"):
        for each in subject.examples:
            tokens = torch.cat([before, each.tokens])
            segments = (torch.arange(len(tokens), device=tokens.device) >= len(before)).long()
            found.append(model(tokens[None], segments_BT=segments[None])[0, len(before) :])
    return Pair(base, found)


def _kernel(subject: Subject, base: Logits, *, name: str, path: paths.Path) -> Pair:
    if not paths.attentions(subject.model):
        raise LeftOutError("the model has no attention that a kernel serves")
    if path is paths.ragged and not subject.kind.generates:
        raise LeftOutError("the model generates nothing and has no cache")
    if name == "flex":
        _must_compile(subject)
        if subject.examples[0].tokens.is_cuda:
            raise LeftOutError("on a GPU flex multiplies float32 in tf32: it is for 16 bits there")
    try:
        with paths.kernel(subject.model, name), warnings.catch_warnings():
            warnings.simplefilter(
                "error", AdviceWarning
            )  # a kernel that steps aside for another has not been looked at
            return Pair(base, path(subject.model, subject.kind, subject.examples))
    except (KernelError, AdviceWarning) as error:
        raise LeftOutError(str(error)) from error


def _must_compile(subject: Subject) -> None:
    missing = compiler_missing(subject.examples[0].tokens.device.type)
    if missing is not None:
        raise LeftOutError(missing)
    if not subject.compiled:
        raise LeftOutError("takes a compiler and a minute: --compiled runs it", skipped=True)


def _precision(subject: Subject, base: Logits, *, precision: str) -> Pair:
    if precision == "int8" and subject.examples[0].tokens.device.type != "cpu":
        raise LeftOutError("int8 is for a CPU")
    model = subject.precise(precision)
    return Pair(base, paths.alone(model, subject.kind, subject.examples), PRECISIONS[precision])


def _compiled(subject: Subject, base: Logits) -> Pair:
    _must_compile(subject)
    compiled: Forward = torch.compile(subject.model, dynamic=True)
    return Pair(base, paths.together(compiled, subject.kind, subject.examples))


def _exported(subject: Subject, base: Logits) -> Pair:
    again = subject.round_trip()
    if isinstance(again, str):
        raise LeftOutError(again)
    return Pair(base, paths.alone(again, subject.kind, subject.examples))


def _reference(subject: Subject, base: Logits) -> Pair:
    if not subject.reference.exists():
        raise LeftOutError(f"the run has no {REFERENCE}; `headway import --reference` writes one")
    device = subject.examples[0].tokens.device
    kept = {name: tensor.to(device) for name, tensor in read_tensors(subject.reference).items()}
    logits = kept.pop("logits").float()
    rows = Rows.kept(kept)
    logits = logits if subject.kind.pads else logits.flatten(1).unsqueeze(1)  # one place an image
    whole = logits.shape[1]
    lengths = [whole] * len(logits) if rows.lengths is None else rows.lengths.tolist()
    with paths.kernel(subject.model, "reference"):
        found = subject.kind.forward(subject.model, rows)
    own = [Example(tokens[:length], 0) for tokens, length in zip(rows.tokens, lengths, strict=True)]
    expected, said = ([x[row, :length] for row, length in enumerate(lengths)] for x in (logits, found))
    return Pair(expected, said, own=own)


def _future(subject: Subject, base: Logits) -> Pair:
    if not subject.kind.generates:
        raise LeftOutError("the model may look at its whole input")
    own = [each for each in subject.examples if len(each.tokens) > 1]
    half = [len(each.tokens) // 2 for each in own]
    later = [torch.arange(len(each.tokens), device=each.tokens.device) >= n for each, n in zip(own, half, strict=True)]
    other = [
        replace(each, tokens=torch.where(after, (each.tokens + 1) % subject.vocabulary, each.tokens))
        for each, after in zip(own, later, strict=True)
    ]
    cut = [
        [x[:n] for x, n in zip(baseline(subject.model, subject.kind, some), half, strict=True)] for some in (own, other)
    ]
    return Pair(cut[0], cut[1], own=own)


def _padding(subject: Subject, base: Logits) -> Pair:
    _must_pad(subject)
    with paths.kernel(subject.model, "reference"):
        first, second = (
            paths.together(subject.model, subject.kind, subject.examples, fill) for fill in (0, subject.vocabulary - 1)
        )
    return Pair(first, second)


def _others(subject: Subject, base: Logits) -> Pair:
    """Every row once beside other neighbours: first the odd ones are changed, then the even ones."""
    if len(subject.examples) < 2:
        raise LeftOutError("there is one input only")
    found: Logits = [*base]
    with paths.kernel(subject.model, "reference"):
        expected = paths.together(subject.model, subject.kind, subject.examples)
        for parity in (0, 1):
            changed = [_other(e, subject.vocabulary) if n % 2 == parity else e for n, e in enumerate(subject.examples)]
            said = paths.together(subject.model, subject.kind, changed)
            found[1 - parity :: 2] = said[1 - parity :: 2]
    return Pair(expected, found)


def _other(example: Example, vocabulary: int) -> Example:
    source = None if example.source is None else (example.source + 1) % vocabulary
    image = None if example.image is None else -example.image
    return replace(example, tokens=(example.tokens + 1) % vocabulary, source=source, image=image)


def _formula(subject: Subject, base: Logits, *, formula: formulas.Difference) -> Formula:
    difference = formula(subject.model)
    if isinstance(difference, str):
        raise LeftOutError(difference)
    return Formula(difference if math.isfinite(difference) else math.inf, formulas.TOLERANCE)
