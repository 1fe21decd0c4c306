"""What `headway verify` prints for people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from headway.cli import render as show
from headway.counts import counted
from headway.runs.verify import VerificationReport, spelled
from headway.tasks.verification_inputs import VerificationInputs
from headway.verification.checks import PRECISIONS, VerificationSubject
from headway.verification.verify import FACTOR, FLOOR, Finding

STYLES = {"rounding": "green", "bug": "bold red"}  # by verdict; a check that did not run has its reason, and no row


def verify_parts(folder: Path, report: VerificationReport) -> list[RenderableType]:
    """The tables for people."""
    subject, findings = report.subject, report.findings
    image = subject.examples[0].image
    lengths = ", ".join(str(len(each.tokens)) for each in subject.examples)
    facts = {
        "run": f"{folder}, step {','.join(map(str, report.steps))}",
        "inputs": f"{len(subject.examples)}, of {lengths} tokens",
        "baseline": "one input at a time, no cache, no padding, reference kernel, float32",
    }
    if image is not None:
        facts["inputs"] = f"{counted(len(subject.examples), 'image')} of {image.shape[1]} x {image.shape[2]} pixels"
        if subject.inputs.pads:
            facts["inputs"] += f", with captions of {lengths} tokens"
        else:
            facts["baseline"] = "one image at a time, reference kernel, float32"
    sounds = [each.inputs.frames.shape[1] for each in subject.examples if each.inputs.frames is not None]
    if sounds:
        facts["inputs"] = f"{len(sounds)} sounds of {', '.join(map(str, sounds))} frames"
        if subject.inputs.generates:
            facts["inputs"] += f", with texts of {lengths} tokens"
    bugs = {finding.check.name: _told(finding, subject) for finding in findings if finding.verdict == "bug"}
    checked = [finding for finding in findings if finding.verdict in STYLES]
    left: dict[str, list[str]] = {}
    for finding in findings:
        if finding not in checked:
            left.setdefault(finding.note, []).append(finding.check.name)
    closer = [show.section("bugs", show.facts(bugs))] if bugs else []
    closer += [show.section("not applicable or skipped, and why", _reasons(left))] if left else []
    return [show.facts(facts), Text(), _table(checked, subject.inputs), *closer, _footer(report)]


def _table(findings: Sequence[Finding], inputs: VerificationInputs) -> Table:
    """A row for each check that ran; the last column is for what has a best token or class at each place."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    different = [f"first different {inputs.names}"] if inputs.names else []
    columns = ["check", "difference", "bound", "verdict", *different]
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number in (1, 2) else "left", no_wrap=number < 4, overflow="fold")
    for finding in findings:
        other = show.NONE if finding.at is None else "none"
        other = other if finding.token is None else spelled(inputs, finding.token)
        figures = [show.NONE if x is None else f"{x:.1e}" if x else "0" for x in (finding.difference, finding.bound)]
        verdict = Text(finding.verdict, style=STYLES[finding.verdict])
        row = [Text(finding.check.name), *map(Text, figures), verdict, Text(other)]
        table.add_row(*row[: len(columns)])
    return table


def _reasons(left: dict[str, list[str]]) -> RenderableType:
    return Text("\n".join(f"{'; '.join(names)}: {reason}" for reason, names in left.items()))


def _told(finding: Finding, subject: VerificationSubject) -> str:
    """What differs and where, or what was raised."""
    if finding.at is None:
        return f"{finding.check.differs}: {finding.note or 'more than its bound'}"
    example, place = finding.at
    where = f"input {example + 1}" + (f", place {place + 1}" if subject.inputs.pads else "")
    return f"{finding.check.differs}: {where}, logits {finding.difference:.2g} apart"


def _footer(report: VerificationReport) -> RenderableType:
    level, bugs = report.baseline, len(report.bugs)
    shares = ", ".join(f"{allowed.share:g} for {precision}" for precision, allowed in PRECISIONS.items())
    told = (
        f"{counted(report.checked, 'check')}, {counted(bugs, 'bug') if bugs else 'no bugs'}. "
        f"Rounding is up to {FACTOR} × {level.distance:.1e}, the baseline's distance from float64, "
        f"and at least {FLOOR:g} × max(1, {level.largest:.3g}), the largest logit. "
        f"For another precision it is a share of the largest centred logit, {level.spread:.3g}: {shares} (bf16: or "
        f"{PRECISIONS['bf16'].rounding:.1e} times that distance; int8: or what rounding the inputs of its layers does)."
    )
    return show.note(told, "dim")
