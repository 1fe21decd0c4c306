"""What `headway verify` prints: one flat object for machines, tables for people."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from headway.cli import render as show
from headway.runs import Run
from headway.tasks.verification_inputs import VerificationInputs
from headway.verification.checks import PRECISIONS, VerificationSubject
from headway.verification.verify import FACTOR, FLOOR, Baseline, Finding, Token

STYLES = {"rounding": "green", "bug": "bold red", "not applicable": "dim", "skipped": "dim"}


def checked(findings: Sequence[Finding]) -> int:
    """How many checks ran and gave a verdict."""
    return sum(finding.verdict in ("rounding", "bug") for finding in findings)


def verify_values(
    found: Run, findings: Sequence[Finding], level: Baseline, subject: VerificationSubject
) -> dict[str, Any]:
    """One flat object: the verdict of each check under its name, and its figures beside it."""
    bugs = [finding.check.name for finding in findings if finding.verdict == "bug"]
    values: dict[str, Any] = {
        "verdict": "bug" if bugs else "rounding",
        "bugs": ", ".join(bugs),
        "checks": checked(findings),
        "inputs": len(subject.examples),
        "steps": ",".join(map(str, found.steps)),
        "float64_distance": level.distance,
        "largest_logit": level.largest,
    }
    for finding in findings:
        name = re.sub(r"\W+", "_", finding.check.name.lower())
        values[name] = finding.verdict
        if finding.verdict in ("rounding", "bug"):
            values[f"{name}_difference"] = finding.difference
            values[f"{name}_bound"] = finding.bound
            values[f"{name}_token"] = None if finding.token is None else _token(subject.inputs, finding.token)
        if finding.cosine is not None:
            values |= {f"{name}_cosine": finding.cosine, f"{name}_same_argmax": finding.same}
        if finding.note:
            values[f"{name}_note"] = finding.note
    return {key: None if isinstance(x, float) and not math.isfinite(x) else x for key, x in values.items()}


def verify_parts(
    found: Run, findings: Sequence[Finding], level: Baseline, subject: VerificationSubject
) -> list[RenderableType]:
    """The tables for people."""
    image = subject.examples[0].image
    lengths = ", ".join(str(len(each.tokens)) for each in subject.examples)
    facts = {
        "run": f"{found.folder}, step {','.join(map(str, found.steps))}",
        "inputs": f"{len(subject.examples)}, of {lengths} tokens",
        "baseline": "one input at a time, no cache, no padding, reference kernel, float32",
    }
    if image is not None:
        facts["inputs"] = f"{len(subject.examples)} images of {image.shape[1]} x {image.shape[2]} pixels"
        if subject.inputs.pads:
            facts["inputs"] += f", with captions of {lengths} tokens"
        else:
            facts["baseline"] = "one image at a time, reference kernel, float32"
    bugs = {finding.check.name: _told(finding, subject) for finding in findings if finding.verdict == "bug"}
    left: dict[str, list[str]] = {}
    for finding in findings:
        if finding.verdict in ("not applicable", "skipped"):
            left.setdefault(finding.note, []).append(finding.check.name)
    closer = [show.section("bugs", show.facts(bugs))] if bugs else []
    closer += [show.section("not looked at, and why", _reasons(left))] if left else []
    return [show.facts(facts), Text(), _table(findings, subject.inputs), *closer, _footer(findings, level)]


def _table(findings: Sequence[Finding], inputs: VerificationInputs) -> Table:
    """A row a check; the last column is for what has a best token or class at each place."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    columns = ["check", "difference", "bound", "verdict", *([f"first other {inputs.names}"] if inputs.names else [])]
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number in (1, 2) else "left", no_wrap=number < 4, overflow="fold")
    for finding in findings:
        other = show.NONE if finding.at is None else "all the same"
        other = other if finding.token is None else _token(inputs, finding.token)
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


def _token(inputs: VerificationInputs, token: Token) -> str:
    """The first greedy token that differs, and both choices."""
    place = f", token {token.place + 1}" if inputs.pads else ""
    return f"input {token.example + 1}{place}: {inputs.spell(token.expected)} → {inputs.spell(token.found)}"


def _footer(findings: Sequence[Finding], level: Baseline) -> RenderableType:
    shares = ", ".join(f"{allowed.share:g} for {precision}" for precision, allowed in PRECISIONS.items())
    bugs = sum(finding.verdict == "bug" for finding in findings)
    told = (
        f"{checked(findings)} checks, {bugs or 'no'} bug{'' if bugs == 1 else 's'}. "
        f"Rounding is up to {FACTOR} × {level.distance:.1e}, the baseline's distance from float64, "
        f"and at least {FLOOR:g} × max(1, {level.largest:.3g}), the largest logit. "
        f"For another precision it is a share of the largest centred logit, {level.spread:.3g}: {shares} (bf16: or "
        f"{PRECISIONS['bf16'].rounding:.1e} times that distance)."
    )
    return show.note(told, "dim")
