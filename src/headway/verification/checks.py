"""The checks of `headway verify`: each compares two sets of logits that should be the same."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path as File
from typing import Any

import torch

from headway._compile import compiler_missing
from headway.decoding.company import row_difference, search_difference
from headway.decoding.row_batch import joins_rows, prepare
from headway.errors import AdviceWarning, KernelError
from headway.interop.hf_reference import REFERENCE, stored_inputs
from headway.models import Model, ModelInputs
from headway.models.kernels import attention_kernel, attention_modules
from headway.nn.int8.layers import linear_layers
from headway.nn.positions import InputPositions
from headway.ops import KERNELS
from headway.storage.tensors import read_tensors
from headway.tasks.verification_inputs import Example, VerificationInputs
from headway.verification import formulas, paths
from headway.verification.int8_layers import inputs_in_8_bits, int8_layers
from headway.verification.paths import Logits, Run


@dataclass(frozen=True, slots=True)
class Allowance:
    """How far a precision may be from float32: the largest of three bounds; docs/verify.md has what was measured."""

    share: float  # of the largest centred logit
    rounding: float  # times the distance of float32 from float64
    measured: float = 0.0  # what rounding to this precision does to this model

    def bound(self, spread: float, distance: float) -> float:
        """The largest difference that is rounding."""
        return max(self.share * spread, self.rounding * distance, self.measured)


# bfloat16 rounds 2^16 times as coarsely as float32, so that a model's rounding grows by about as much.
PRECISIONS = {"bf16": Allowance(0.05, 4 * 2.0**16), "int8": Allowance(0.25, 0.0)}
COMPANY_ROWS = 6  # that step together, and each alone
INT8_ROUNDING = 4.0  # times what rounding the inputs of all layers to 8 bits does: weights are rounded as well


class NotApplicableError(Exception):
    """A check that does not apply to this model or machine; `skipped` is one that must be requested."""

    def __init__(self, reason: str, *, skipped: bool = False) -> None:
        super().__init__(reason)
        self.skipped = skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationSubject:
    """A checkpoint to be verified, its inputs, and the other forms of its model."""

    model: Model  # in float32, in evaluation mode
    inputs: VerificationInputs
    precise: Callable[[str], Model]  # the same weights in "bf16" or "int8"
    round_trip: Callable[[], Run | str]  # the `run` of the model exported and loaded again; or why it is not exported
    reference: File  # may be missing
    compiled: bool = False

    @property
    def examples(self) -> Sequence[Example]:
        """The inputs, with the tokens the model chose greedily."""
        return self.inputs.examples

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self.model.parameters()).device


@dataclass(frozen=True, slots=True)
class LogitPair:
    """Logits that should agree, and by how much more than rounding in float32 they may differ."""

    expected: Logits
    found: Logits
    allowance: Allowance | None = None  # of another precision
    own: Sequence[Example] | None = None  # the inputs, if they are not the subject's


@dataclass(frozen=True, slots=True)
class Formula:
    """The largest difference from what a formula gives, and the largest allowed."""

    difference: float
    bound: float
    note: str = ""  # where it is


@dataclass(frozen=True, slots=True)
class Check:
    """A comparison; `run` takes a subject and the baseline's logits, and may raise NotApplicableError."""

    name: str
    differs: str  # from the baseline, in what
    run: Callable[[VerificationSubject, Logits], LogitPair | Formula]


def baseline_logits(model: Model, examples: Sequence[Example]) -> Logits:
    """One sequence at a time, no cache, no padding, the reference kernel."""
    with attention_kernel(model, "reference"):
        return paths.alone(model, examples)


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
    yield Check("int8 layers", "each linear layer beside its dequantised weights", _int8_layers)
    yield Check("compiled", "torch.compile, in a batch", _compiled)
    yield Check("exported and reloaded", "written for others and read again", _exported)
    yield Check("stored reference", "logits of another program, kept in the run", _reference)
    yield Check("future", "other tokens in the second half, looked at in the first", _future)
    yield Check("padding content", "other tokens in the padding", _padding)
    yield Check("other rows", "other inputs in the rest of the batch", _others)
    yield Check("company", "rows and searches of a server, each alone, in fp32, bf16 and int8", _company)
    for name, differs, formula in (
        ("position by distance", "queries and keys moved on together", formulas.by_distance),
        ("rotary formula", "each pair's turn from the published one", formulas.rotary_turns),
        ("ALiBi slopes", "each head's slope from the published one", formulas.alibi_slopes),
    ):
        yield Check(name, differs, partial(_formula, formula=formula))


def _path(subject: VerificationSubject, base: Logits, *, path: paths.Path) -> LogitPair:
    with attention_kernel(subject.model, "reference"):
        return LogitPair(base, path(subject.model, subject.examples))


def _generating(subject: VerificationSubject, base: Logits, *, path: paths.Path) -> LogitPair:
    if not subject.inputs.generates:
        raise NotApplicableError("the model generates nothing and has no cache")
    return _path(subject, base, path=path)


def _beside(subject: VerificationSubject, base: Logits) -> LogitPair:
    """Each input in a batch of two, nothing padded."""
    pairs = [[each, _other(each, subject.inputs.vocabulary)] for each in subject.examples]
    with attention_kernel(subject.model, "reference"):
        return LogitPair(base, [paths.together(subject.model, two)[0] for two in pairs])


def _right_padding(subject: VerificationSubject, base: Logits) -> LogitPair:
    _must_pad(subject)
    return _path(subject, base, path=paths.together)


def _must_pad(subject: VerificationSubject) -> None:
    if not subject.inputs.pads:
        raise NotApplicableError("images are of one size, so that no image is padded")


def _left_padding(subject: VerificationSubject, base: Logits) -> LogitPair:
    """Tokens before the text, as another document: only a model that reads `documents` can tell them apart."""
    model = subject.model
    _must_pad(subject)
    if "documents" not in model.reads:
        raise NotApplicableError("the model takes padding on the right only, with lengths")
    if any(isinstance(part, InputPositions) for part in model.modules()):
        raise NotApplicableError("positions joined to the input count from the row's start: padding goes to the right")
    before = torch.arange(5, device=subject.device) % subject.inputs.vocabulary
    found = []
    with attention_kernel(model, "reference"):
        for each in subject.examples:
            tokens = torch.cat([before, each.tokens])
            documents = (torch.arange(len(tokens), device=tokens.device) >= len(before)).long()
            inputs = ModelInputs(tokens=tokens[None], documents=documents[None])
            found.append(paths.forward(model, inputs)[0, len(before) :])
    return LogitPair(base, found)


def _kernel(subject: VerificationSubject, base: Logits, *, name: str, path: paths.Path) -> LogitPair:
    if not attention_modules(subject.model):
        raise NotApplicableError("the model has no attention that a kernel serves")
    if path is paths.ragged and not subject.inputs.generates:
        raise NotApplicableError("the model generates nothing and has no cache")
    if name == "flex":
        _must_compile(subject)
        if subject.device.type == "cuda":
            raise NotApplicableError("on a GPU flex multiplies float32 in tf32: it is for 16 bits there")
    try:
        with attention_kernel(subject.model, name), warnings.catch_warnings():
            warnings.simplefilter("error", AdviceWarning)  # one that falls back to another was not checked
            return LogitPair(base, path(subject.model, subject.examples))
    except (KernelError, AdviceWarning) as error:
        raise NotApplicableError(str(error)) from error


def _must_compile(subject: VerificationSubject) -> None:
    missing = compiler_missing(subject.device.type)
    if missing is not None:
        raise NotApplicableError(missing)
    if not subject.compiled:
        raise NotApplicableError("takes a compiler and a minute: --compiled runs it", skipped=True)


def _precision(subject: VerificationSubject, base: Logits, *, precision: str) -> LogitPair:
    if precision == "int8" and subject.device.type != "cpu":
        raise NotApplicableError("int8 is for a CPU")
    allowance = PRECISIONS[precision]
    if precision == "int8":
        with inputs_in_8_bits(subject.model):
            rounded = paths.alone(subject.model, subject.examples)
        largest = max(
            float((paths.centred(x) - paths.centred(y)).abs().max()) for x, y in zip(base, rounded, strict=True)
        )
        allowance = replace(allowance, measured=INT8_ROUNDING * largest)
    return LogitPair(base, paths.alone(subject.precise(precision), subject.examples), allowance)


def _int8_layers(subject: VerificationSubject, base: Logits) -> Formula:
    if subject.device.type != "cpu":
        raise NotApplicableError("int8 is for a CPU")
    if not linear_layers(subject.model):
        raise NotApplicableError("the model has no linear layer")
    error, worst = int8_layers(subject.model, subject.precise("int8"))
    return Formula(error, 1.0, f"largest in {worst}" if error > 1 else "")


def _compiled(subject: VerificationSubject, base: Logits) -> LogitPair:
    _must_compile(subject)
    # `run` calls its `self`: here the compiled module, which has the attributes of the model.
    compiled: Any = torch.compile(subject.model, dynamic=True)
    return LogitPair(base, paths.together(partial(type(subject.model).run, compiled), subject.examples))


def _exported(subject: VerificationSubject, base: Logits) -> LogitPair:
    again = subject.round_trip()
    if isinstance(again, str):
        raise NotApplicableError(again)
    return LogitPair(base, paths.alone(again, subject.examples))


def _reference(subject: VerificationSubject, base: Logits) -> LogitPair:
    if not subject.reference.exists():
        raise NotApplicableError(f"the run has no {REFERENCE}; `headway import --reference` writes one")
    stored = {name: tensor.to(subject.device) for name, tensor in read_tensors(subject.reference).items()}
    logits, inputs = stored["logits"].float(), stored_inputs(stored)
    logits = logits if subject.inputs.pads else logits.flatten(1).unsqueeze(1)  # one place an image
    lengths = [logits.shape[1]] * len(logits) if inputs.lengths is None else inputs.lengths.tolist()
    with attention_kernel(subject.model, "reference"):
        found = paths.forward(subject.model, inputs)
    own = [Example(ModelInputs()) for _ in lengths]
    expected, ours = ([x[row, :length] for row, length in enumerate(lengths)] for x in (logits, found))
    return LogitPair(expected, ours, own=own)


def _future(subject: VerificationSubject, base: Logits) -> LogitPair:
    if not subject.inputs.generates:
        raise NotApplicableError("the model may look at its whole input")
    own = [each for each in subject.examples if len(each.tokens) > 1]
    half = [len(each.tokens) // 2 for each in own]
    other = [_other_after(each, n, subject.inputs.vocabulary) for each, n in zip(own, half, strict=True)]
    cut = [[x[:n] for x, n in zip(baseline_logits(subject.model, some), half, strict=True)] for some in (own, other)]
    return LogitPair(cut[0], cut[1], own=own)


def _other_after(example: Example, place: int, vocabulary: int) -> Example:
    """The example with other tokens from a place on."""
    tokens = example.inputs.need("tokens")
    after = torch.arange(tokens.shape[1], device=tokens.device) >= place
    changed = torch.where(after, (tokens + 1) % vocabulary, tokens)
    return replace(example, inputs=replace(example.inputs, tokens=changed))


def _padding(subject: VerificationSubject, base: Logits) -> LogitPair:
    _must_pad(subject)
    with attention_kernel(subject.model, "reference"):
        first, second = (
            paths.together(subject.model, subject.examples, fill) for fill in (0, subject.inputs.vocabulary - 1)
        )
    return LogitPair(first, second)


def _others(subject: VerificationSubject, base: Logits) -> LogitPair:
    """Every row once beside other neighbours: first the odd ones are changed, then the even ones."""
    if len(subject.examples) < 2:
        raise NotApplicableError("there is one input only")
    found: Logits = [*base]
    with attention_kernel(subject.model, "reference"):
        expected = paths.together(subject.model, subject.examples)
        for parity in (0, 1):
            changed = [
                _other(e, subject.inputs.vocabulary) if n % 2 == parity else e for n, e in enumerate(subject.examples)
            ]
            said = paths.together(subject.model, changed)
            found[1 - parity :: 2] = said[1 - parity :: 2]
    return LogitPair(expected, found)


def _other(example: Example, vocabulary: int) -> Example:
    """Other tokens, another source, a negated image, negated frames and vectors, of the same sizes."""
    inputs = example.inputs
    changed = replace(
        inputs,
        tokens=None if inputs.tokens is None else (inputs.tokens + 1) % vocabulary,
        source=None if inputs.source is None else (inputs.source + 1) % vocabulary,
        images=None if inputs.images is None else -inputs.images,
        frames=None if inputs.frames is None else -inputs.frames,
        vectors=None if inputs.vectors is None else -inputs.vectors,
    )
    return replace(example, inputs=changed)


def _company(subject: VerificationSubject, base: Logits) -> Formula:
    """A server's promise: among others a row has the bits that it has alone."""
    if not subject.inputs.generates:
        raise NotApplicableError("the model generates nothing and has no cache")
    if subject.device.type != "cpu":
        raise NotApplicableError("a server computes on a CPU")
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", AdviceWarning
        )  # how far a precision is from float32 is another check's question
        forms = {"fp32": subject.model, **{name: subject.precise(name) for name in PRECISIONS}}
    found = {name: _company_difference(copy.deepcopy(model), subject) for name, model in forms.items()}
    worst = max(found, key=found.__getitem__)
    return Formula(found[worst], 0.0, f"in {worst}" if found[worst] else "")


def _company_difference(model: Any, subject: VerificationSubject) -> float:
    prepare(model)
    sources = [paths.as_weights(model, each.inputs).encoder_input for each in subject.examples]
    if joins_rows(model):
        longest = max(len(each.tokens) for each in subject.examples)
        return row_difference(model, vocab=subject.inputs.vocabulary, context=longest, rows=COMPANY_ROWS)
    there = [source for source in sources if source is not None][:COMPANY_ROWS]
    if not there:
        raise NotApplicableError("rows of this model neither join nor read a source")
    return search_difference(model, there)


def _formula(subject: VerificationSubject, base: Logits, *, formula: formulas.Difference) -> Formula:
    difference = formula(subject.model)
    if isinstance(difference, str):
        raise NotApplicableError(difference)
    return Formula(difference if math.isfinite(difference) else math.inf, formulas.TOLERANCE)
