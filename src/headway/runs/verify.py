"""`headway verify` on a run: its inputs from the pipeline, its other precisions, its export."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headway import display
from headway.counts import counted
from headway.interop.exporter import round_trip
from headway.interop.hf_reference import REFERENCE
from headway.models import Model
from headway.storage.run_manifest import RunFiles
from headway.tasks.base import ignore
from headway.tasks.export_request import ExportRequest
from headway.tasks.verification_inputs import VerificationInputs
from headway.verification.checks import VerificationSubject
from headway.verification.verify import Baseline, Finding, Token, measure_baseline, verify

if TYPE_CHECKING:
    from headway.runs.run import Run


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """What each check found, and the baseline it was measured against."""

    steps: tuple[int, ...]  # of the checkpoints the model is made of
    subject: VerificationSubject
    findings: Sequence[Finding]
    baseline: Baseline

    @property
    def bugs(self) -> list[str]:
        """The names of the checks that found a bug."""
        return [finding.check.name for finding in self.findings if finding.verdict == "bug"]

    @property
    def checked(self) -> int:
        """How many checks ran and gave a verdict."""
        return sum(finding.verdict in ("rounding", "bug") for finding in self.findings)

    def __repr__(self) -> str:
        found = f"bugs: {', '.join(self.bugs)}" if self.bugs else "no bugs"
        return f"VerificationReport({counted(self.checked, 'check')}, {found})"

    def _repr_html_(self) -> str:
        """For notebooks: what each check found."""
        rows = []
        for each in self.findings:
            measured = ["" if x is None else f"{x:.1e}" for x in (each.difference, each.bound)]
            rows.append([each.check.name, each.verdict, *measured, each.note])
        return display.figures(["check", "verdict", "difference", "bound", "note"], rows, repr(self))

    def to_json(self) -> dict[str, Any]:
        """One flat object: the verdict of each check under its name, and its figures beside it."""
        values: dict[str, Any] = {
            "verdict": "bug" if self.bugs else "rounding",
            "bugs": ", ".join(self.bugs),
            "checks": self.checked,
            "inputs": len(self.subject.examples),
            "steps": ",".join(map(str, self.steps)),
            "float64_distance": self.baseline.distance,
            "largest_logit": self.baseline.largest,
        }
        for finding in self.findings:
            name = re.sub(r"\W+", "_", finding.check.name.lower())
            values[name] = finding.verdict
            if finding.verdict in ("rounding", "bug"):
                values[f"{name}_difference"] = finding.difference
                values[f"{name}_bound"] = finding.bound
                token = finding.token
                values[f"{name}_token"] = None if token is None else spelled(self.subject.inputs, token)
            if finding.cosine is not None:
                values |= {f"{name}_cosine": finding.cosine, f"{name}_same_argmax": finding.same}
            if finding.note:
                values[f"{name}_note"] = finding.note
        return {key: None if isinstance(x, float) and not math.isfinite(x) else x for key, x in values.items()}


def spelled(inputs: VerificationInputs, token: Token) -> str:
    """The first greedy token that differs, and both choices."""
    place = f", token {token.place + 1}" if inputs.pads else ""
    return f"input {token.example + 1}{place}: {inputs.spell(token.expected)} → {inputs.spell(token.found)}"


def verify_run(
    run: Run, given: Sequence[str] = (), *, compiled: bool = False, on_check: Callable[[str], None] = ignore
) -> VerificationReport:
    """Run every check on a run; `on_check` is called with the name of each as it begins."""
    subject = verification_subject(run, given, compiled=compiled)
    on_check("float64")
    baseline = measure_baseline(subject)
    findings = list(verify(subject, baseline, lambda check: on_check(check.name)))
    return VerificationReport(tuple(run.steps), subject, findings, baseline)


def verification_subject(run: Run, given: Sequence[str] = (), *, compiled: bool = False) -> VerificationSubject:
    """A run with its inputs and the other forms of its model. Raises ConfigError for a run that is not verified."""
    pipeline, reference = run.pipeline, run.folder / REFERENCE
    if reference.exists():
        RunFiles(run.folder).read(REFERENCE, "document-bytes")  # for the error it raises

    def precise(precision: str) -> Model:
        return type(run)(
            run.folder,
            device=run.device.type,
            average=run.average,
            precision=precision,  # type: ignore[arg-type]
        ).model

    def export() -> Any:
        exports = "export" in pipeline.can()
        return round_trip(
            pipeline.export_request() if exports else ExportRequest(model=run.model, config=run.config.model)
        )

    return VerificationSubject(
        model=run.model,
        inputs=pipeline.verification(given),
        precise=precise,
        round_trip=export,
        reference=reference,
        compiled=compiled,
    )
