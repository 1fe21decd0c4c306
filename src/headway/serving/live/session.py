"""The run behind a live page: looks at inputs with and without changes, and writes token by token."""

from __future__ import annotations

import contextlib
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from headway.data.unknown_tokens import uncounted
from headway.decoding.rng import UniformStreams
from headway.decoding.sampling import Sampling, choose
from headway.errors import ConfigError, HeadwayError, one_line
from headway.inspection.interventions import Interventions, patched_values
from headway.inspection.page.change import output_change
from headway.inspection.page.html import document
from headway.inspection.page.kept_looks import Look, looks_of, looks_over
from headway.inspection.page.number_origin import NumberChoice, origin_entry
from headway.inspection.page.outputs import TOP
from headway.inspection.page.payload import FILE_BYTES, PageOptions, other_entry, payload, run_facts
from headway.serving.api_errors import ApiError, invalid
from headway.serving.live.fields import LookRequest
from headway.tasks.base import Pipeline
from headway.tasks.explanation import Explanation
from headway.tasks.token_writer import TokenWriter
from headway.training.checkpoints import Checkpoints

KEPT = 16  # looks that can still be saved, and numbers of each that were followed back


@dataclass(frozen=True, slots=True)
class _KeptLook:
    """A look that was shown, and the pass that it is of."""

    payload: dict[str, Any]
    explanation: Explanation
    interventions: Interventions
    origins: OrderedDict[NumberChoice, dict[str, Any]] = field(default_factory=OrderedDict)


class LiveSession:
    """One run. Its model is used by one request at a time: the application sees to that."""

    def __init__(self, pipeline: Pipeline, given: str = "") -> None:
        best = Checkpoints(pipeline.folder).best()
        self.pipeline, self.first = pipeline, given
        self.facts = run_facts(pipeline, "" if best is None else f"best {best.described}")
        self._plain: OrderedDict[tuple[Any, ...], Explanation] = OrderedDict()
        self._looks: OrderedDict[str, _KeptLook] = OrderedDict()
        self._count = 0
        self._looks_given, self._kept_looks = "", list[Look]()

    @property
    def own_steps(self) -> tuple[int, ...]:
        """The step of the checkpoint that its model is; nothing for the mean of several."""
        steps = self.pipeline.parts.steps
        return steps if len(steps) == 1 else ()

    def checkpoints(self) -> list[int]:
        """The steps that have a checkpoint."""
        return Checkpoints(self.pipeline.folder).steps()

    def described(self) -> dict[str, Any]:
        """What the page has to know before its first look."""
        return {
            "run": self.facts.folder,
            "task": self.facts.task,
            "input": self.first,
            "fixed": self.pipeline.reads_files,  # a page may not choose files of this machine
        }

    @torch.no_grad()
    def look(
        self,
        request: LookRequest,
        *,
        every_head: bool = False,
        beside: LiveSession | None = None,
        over: Sequence[LiveSession] = (),
    ) -> dict[str, Any]:
        """The payload of a page, with `look`, the name to save it by.

        With a second model, what that computes; with sessions of several checkpoints, what attention is in each.

        Raises ApiError.

        With interventions the model also decodes again, unless the tokens are given or values are patched in: these
        belong to places of the output as it was.
        """
        with _told(), uncounted():
            given = self._allowed(request.given)
            before = given if request.edited_from is None else self._allowed(request.edited_from)
            plain = self._explained(before, request.compare or request.written, request.search)
            interventions = self._interventions(request)
            options = PageOptions(quick=not every_head, models=1 if beside is None else 2)
            looks = looks_over([each.pipeline for each in over], given) if over else self._kept(given)
            found, changed = self._payload(plain, request, interventions, options, looks)
            if beside is not None:
                read = plain if before == given else self._explained(given, request.written, request.search)
                found["other"] = other_entry(self.pipeline, beside.pipeline, read, options, request.written)
            writer = self.pipeline.token_writer(given)
        self._count += 1
        found |= {"look": str(self._count), "writer": None if writer is None else _writer_entry(writer)}
        self._looks[found["look"]] = _KeptLook(found, changed, interventions)
        while len(self._looks) > KEPT:
            self._looks.popitem(last=False)
        return found

    def _payload(
        self,
        plain: Explanation,
        request: LookRequest,
        interventions: Interventions,
        options: PageOptions,
        looks: Sequence[Look],
    ) -> tuple[dict[str, Any], Explanation]:
        """The payload, and the pass that it is of."""
        model, given = self.pipeline.model, self._allowed(request.given)
        edited = None
        if request.edited_from is not None:
            edited = self._with_output_of(plain, given)
        elif not interventions:
            return payload(model, plain, self.facts, options, looks=looks), plain
        changed = edited or plain
        decodes = request.written is None or request.compare not in (None, request.written)
        if (decodes or edited is not None) and not interventions.of_one_pass:
            with interventions.applied(model):
                changed = self._fresh(given, request.written, request.search)
        note = "" if request.patch is None else f"patched from {request.patch.given!r}"
        change = output_change(model, plain, changed, interventions, note, edited)
        with interventions.applied(model):
            return payload(model, changed, self.facts, options, change.entry, looks), changed

    def _kept(self, given: str) -> list[Look]:
        """What training kept of this input."""
        if self._looks_given != given:
            self._looks_given, self._kept_looks = given, looks_of(self.pipeline.folder, given)
        return self._kept_looks

    def _with_output_of(self, plain: Explanation, given: str) -> Explanation:
        """Another input, with the output of `plain` where that is written after it, so that both have its places."""
        writer = self.pipeline.token_writer(given)
        if writer is None or writer.source is None or plain.output is None:
            return self._explained(given, None)
        return writer.explain([target for target in plain.output.targets if target is not None])

    def write(self, request: LookRequest, sampling: Sampling, seed: int, count: int) -> Iterator[dict[str, Any]]:
        """Up to `count` tokens after those that are written, each with what else was likely, until a stop token.

        Temperature 0 takes the likeliest. Raises ApiError for a run that writes no text.
        """
        with _told():
            with uncounted():
                writer = self.pipeline.token_writer(self._allowed(request.given))
            if writer is None:
                raise invalid("this run does not write text token by token", "input", "unsupported_model")
            interventions = self._interventions(request)
            written = list(writer.prompt if request.written is None else request.written)
            uniforms = UniformStreams(seed, [0], writer.device) if sampling.temperature else None
            with interventions.applied(self.pipeline.model):
                began = time.perf_counter()
                logits_V, state = writer.begun(written, count)
                for step in range(count):
                    uniform = None if uniforms is None else uniforms.at(step + len(written))
                    token = int(choose(logits_V.unsqueeze(0), sampling, uniform))
                    chunk = _chunk(writer, logits_V, token)
                    yield chunk | {"ms": round(1000 * (time.perf_counter() - began), 2)}
                    if token in writer.stops:
                        return
                    began = time.perf_counter()
                    if step + 1 < count:
                        logits_V, state = writer.extended(token, state)

    def origin(self, look: str, number: NumberChoice) -> dict[str, Any]:
        """The products that give one number of a look that was shown; a file that is saved of it has them as well.

        Raises ApiError for a look too long ago, and for a number that is not a product with weights.
        """
        kept = self._kept_look(look)
        if number not in kept.origins:
            with _told(), kept.interventions.applied(self.pipeline.model):
                found = origin_entry(self.pipeline.model, kept.explanation.forward, number)
            kept.origins[number] = {"number": asdict(number), **found}
        kept.origins.move_to_end(number)
        while len(kept.origins) > KEPT:
            kept.origins.popitem(last=False)
        return kept.origins[number]

    def saved(self, look: str, state: dict[str, Any]) -> str:
        """The look as one file that opens offline, at what is chosen now. Raises ApiError for one too long ago."""
        kept = self._kept_look(look)
        start = {name: value for name, value in state.items() if isinstance(value, int | float | str)}
        found = {name: value for name, value in kept.payload.items() if name not in ("look", "writer")}
        found["start"] = {**found["start"], **start}
        origins = list(kept.origins.values())
        text = document({**found, "origins": origins} if origins else found)
        while origins and len(text) > FILE_BYTES:  # the page alone may be as large as a file may be
            origins = origins[1:]
            text = document({**found, "origins": origins})
        return text

    def _kept_look(self, look: str) -> _KeptLook:
        if look not in self._looks:
            raise ApiError(404, "this view is not kept any more: run it again", code="look_not_found")
        return self._looks[look]

    def _allowed(self, given: str) -> str:
        """The input of a page; where inputs are files, that of the command line alone."""
        return self.first if self.pipeline.reads_files else given

    def _explained(self, given: str, written: Sequence[int] | None, search: bool = True) -> Explanation:
        """With nothing changed; the last ones are kept, as every change is compared with one."""
        key = (given, None if written is None else tuple(written), search)
        if key not in self._plain:
            self._plain[key] = self._fresh(given, written, search)
            while len(self._plain) > KEPT:
                self._plain.popitem(last=False)
        self._plain.move_to_end(key)
        return self._plain[key]

    def _fresh(self, given: str, written: Sequence[int] | None, search: bool = True) -> Explanation:
        if written is None:
            writer = None if search else self.pipeline.token_writer(given)
            if writer is None or writer.source is not None:  # what a decoder reads is what a search has found
                return self.pipeline.explain(given)
            return replace(writer.explain(writer.prompt), said="")
        writer = self.pipeline.token_writer(given)
        if writer is None:
            raise invalid("this run does not write text token by token", "written", "unsupported_model")
        size = writer.tokenizer.size
        if any(index >= size for index in written):
            raise invalid(f"written has a token id beyond the vocabulary of {size:,}", "written")
        return writer.explain(written)

    def _interventions(self, request: LookRequest) -> Interventions:
        patched: dict[str, Tensor] = {}
        if request.patch is not None:
            other = self.pipeline.explain(self._allowed(request.patch.given))
            one_head = request.patch.head is not None
            patched = patched_values(self.pipeline.model, request.patch.parts, other.forward, of_heads=one_head)
        heads = None if request.patch is None or request.patch.head is None else (request.patch.head,)
        return Interventions(ablated=request.ablated, patched=patched, patched_heads=heads)


def _writer_entry(writer: TokenWriter) -> dict[str, Any]:
    return {"sequence": writer.sequence, "begin": len(writer.begin), "stops": sorted(writer.stops)}


def _chunk(writer: TokenWriter, logits_V: Tensor, token: int) -> dict[str, Any]:
    """A token that was written, and the likeliest ones at its place with their logits."""
    spell = writer.tokenizer.display
    best, ids = logits_V.topk(min(TOP, len(logits_V)))
    shares = logits_V.log_softmax(-1)
    return {
        "id": token,
        "piece": spell(token),
        "share": float(shares[token].exp()),
        "top": [[n, spell(n), value] for n, value in zip(ids.tolist(), best.tolist(), strict=True)],
        "log_z": float(logits_V.logsumexp(-1)),
        "entropy": float(-(shares.exp() * shares).nan_to_num().sum()),
        "ends": token in writer.stops,
    }


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """An error of headway is an answer that says it."""
    try:
        yield
    except ConfigError as error:
        raise invalid(one_line(error), code="unsupported") from None
    except HeadwayError as error:
        raise invalid(one_line(error), "input") from None
