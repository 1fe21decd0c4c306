"""What `headway evaluate` shows people: tables and samples that read as well in a pipe as in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from headway.metrics.accuracy_by_position import PositionReport, first_divergence
from headway.metrics.translation import TranslationReport
from headway.metrics.world import WorldReport, calibration_error

MARK = "‖"  # where two lines part; it shows without colours too
NONE = "–"
AROUND = 60  # characters of a running text shown on either side of the mark
LOOKS_TOKENIZED = (
    "references look tokenised: bleu is not comparable to sacreBLEU of plain text; compare bleu_tokenized_lower"
)

Lines = Iterable[tuple[str, Text]]


def facts(rows: Mapping[str, str]) -> RenderableType:
    """Names and values side by side; no value is read as markup."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(Text(name), Text(value))
    return table


def section(title: str, body: RenderableType) -> RenderableType:
    """A part of the report under its name."""
    return Group(Text(), Text(title, style="bold"), Padding(body, (0, 0, 0, 2), expand=False))


def note(text: str, style: str = "") -> RenderableType:
    """A line below or between the tables."""
    return Text(f"\n{text}", style=style)


def figures(header: list[str], rows: Iterable[list[str]]) -> Table:
    """Columns of numbers, flush right; the first names the row."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for number, name in enumerate(header):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def translation_figures(report: TranslationReport, loss: float, perplexity: float) -> RenderableType:
    """The main figures under the names they have in JSON, and what must be said about them."""
    interval = f"95 % interval {report.bleu_low:.2f} to {report.bleu_high:.2f}"
    table = facts(
        {
            "bleu": f"{report.bleu:.2f}  {interval}",
            "bleu_signature": report.bleu_signature,
            "bleu_tokenized_lower": str(report.tokenized_lower),
            "chrf": f"{report.chrf:.2f}",
            "exact_match": f"{report.exact_match:.1%}",
            "length_ratio": f"{report.length_ratio:.3f}",
            "loss": f"{loss:.4f}",
            "perplexity": f"{perplexity:.4g}",
        }
    )
    told = "bleu is sacreBLEU on the text as it is; bleu_tokenized_lower is what papers of 2014-2018 report."
    warning = [note(f"warning: {LOOKS_TOKENIZED}", "yellow")] if report.looks_tokenized else []
    return Group(Text(), table, note(told, "dim"), *warning)


def by_length(report: TranslationReport) -> RenderableType:
    """How translations fare by the length of their source."""
    rows = (
        [
            each.label,
            f"{each.sentences:,}",
            NONE if each.bleu is None else f"{each.bleu:.2f}",
            f"{each.exact_match:.1%}",
        ]
        for each in report.by_length
    )
    return section("by length of the source", figures(["words", "sentences", "bleu", "exact match"], rows))


def by_position(report: PositionReport) -> RenderableType:
    """Accuracy after the gold prefix beside accuracy in the model's own output, from the first token on."""
    rows = [
        [each.label, f"{each.forced:.1%}", f"{each.free:.1%}", f"{each.forced - each.free:+.1%}", f"{each.tokens:,}"]
        for each in report.ranges()
    ]
    forced, free = report.forced_accuracy, report.free_accuracy
    rows.append(["all", f"{forced:.1%}", f"{free:.1%}", f"{forced - free:+.1%}", f"{sum(report.counts):,}"])
    differing = [index for index in report.divergence if index is not None]
    told = f"{len(report.divergence) - len(differing):,} of {len(report.divergence):,} free runs are right throughout"
    if report.mean_divergence is not None:
        told += f"; the others for {report.mean_divergence:.1f} tokens"
    body = Group(figures(["position", "forced", "free", "gap", "tokens"], rows), Text(f"{told}.", style="dim"))
    return section("right tokens by position: teacher-forced beside free-running (greedy)", body)


def samples(title: str, blocks: Iterable[Lines]) -> RenderableType:
    """Named lines in blocks, a blank line between them."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for number, lines in enumerate(blocks):
        if number:
            table.add_row()
        for name, text in lines:
            table.add_row(Text(name), text)
    return section(title, table)


def sentence_lines(source: str, reference: str, output: str) -> Lines:
    """A translation beside its reference, both marked at the first word that differs."""
    spaced = " " in f"{reference}{output}"  # without words, as Chinese is written, by character
    right, own = (line.split() if spaced else list(line) for line in (reference, output))
    at, space = first_divergence(right, own), " " if spaced else ""
    yield "source", Text(source)
    for name, units in (("reference", right), ("output", own)):
        if at is None:
            yield name, Text(space.join(units))
        else:
            yield name, marked(space.join([*units[:at], ""]), space.join(["", *units[at:]]))


def running_lines(prompt: str, gold: tuple[str, str], free: tuple[str, str]) -> Lines:
    """A continuation beside the text, each as what comes before they part and what after."""
    yield "prompt", Text(_one_line(_end(prompt)))
    same = not gold[1] and not free[1]
    for name, (before, after) in (("text", gold), ("output", free)):
        before, after = _one_line(_end(before)), _one_line(after if len(after) <= AROUND else f"{after[:AROUND]}…")
        yield name, Text(before) if same else marked(before, after)


def marked(before: str, after: str) -> Text:
    """A line with the place from which on it differs."""
    return Text.assemble(before, (f"{MARK}{after}", "bold"))


def _end(text: str) -> str:
    return text if len(text) <= AROUND else f"…{text[-AROUND:]}"


def _one_line(text: str) -> str:
    return text.replace("\r", "").replace("\n", "⏎").replace("\t", " ")


def world_figures(report: WorldReport) -> list[RenderableType]:
    """A world model: its score and what it cost, how far its dreams stray, whether its chances come true."""
    rows = {
        "loss": f"{report.loss:.4f}  -log p of the next observation and of the end, with the reward's error, a step",
        "mean_return": f"{report.real}  of {report.real.episodes:,} fresh episodes, {report.taken:,} environment steps",
        "imagined_return": f"{report.imagined}  what the model says the same policy earns",
        **{name: f"{value:.4f}" for name, value in report.tables.items()},
    }
    header = ["steps ahead", "error", "repeating the last", "dreams"]
    ahead = [[str(x.k), f"{x.error:.5f}", f"{x.repeated:.5f}", f"{x.count:,}"] for x in report.by_horizon]
    parts: list[RenderableType] = [Text(), facts(rows), section("open-loop error", figures(header, ahead))]
    for name, bins in (("ends", report.ends), ("rewards", report.rewards)):
        lines = [[f"{x.predicted:.4f}", f"{x.happened:.4f}", f"{x.count:,}"] for x in bins]
        title = f"{name}: calibration error {calibration_error(bins):.4f}"
        parts.append(section(title, figures(["predicted", "happened", "steps"], lines)))
    return parts
