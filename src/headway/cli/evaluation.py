"""The evaluation of a run, task by task, and what `headway evaluate` prints of it."""

from __future__ import annotations

import json
import math
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console, RenderableType
from rich.text import Text

from headway.cli import report as show
from headway.cli.lengths import lengths_of
from headway.cli.outcome import Outcome
from headway.errors import ConfigError, DataError
from headway.metrics.accuracy_by_position import PositionReport
from headway.metrics.loss_by_length import parse_lengths
from headway.metrics.translation import TranslationReport, paired_bootstrap, translation_report
from headway.plots.curves import plot_positions
from headway.plots.images import plot_confusion
from headway.runs import Run, load
from headway.storage.commit import commit_file
from headway.tasks.captioning.training import Captioning, CaptioningTask
from headway.tasks.decision_transformer.training import Deciding, DecidingTask
from headway.tasks.image_classification.training import Classification, ClassificationTask
from headway.tasks.language_modelling.training import Continuations, Language, LanguageTask
from headway.tasks.masked_lm.training import Masked, MaskedTask
from headway.tasks.pose.training import PoseEstimation, PoseTask
from headway.tasks.sentence_embedding.embed import Embedding
from headway.tasks.text_classification.training import TextClassification, TextClassificationTask
from headway.tasks.training_task import usual_split
from headway.tasks.translation.training import Translation, TranslationTask
from headway.tasks.world_model.evaluation import report as world_report
from headway.tasks.world_model.training import WorldModel, WorldTask

SAMPLES = 3
EPISODES = 100  # a world model's policy plays
KINDS = {
    Language: "language model",
    Masked: "masked model",
    Translation: "translation model",
    Classification: "image classifier",
    TextClassification: "text classifier",
    Captioning: "captioner",
    Embedding: "sentence encoder",
    PoseEstimation: "pose model",
    WorldModel: "world model",
    Deciding: "decision transformer",
}
# Options that say nothing about some runs are refused there: ignored, they would seem to have been heeded.
MEANT_FOR = {
    "lengths": ("language model", "masked model"),
    "stride": ("language model",),
    "compare": ("translation model",),
    "beam": ("translation model", "captioner"),
    "out": ("translation model", "image classifier", "text classifier", "captioner"),
    "plot": ("language model", "translation model", "image classifier", "text classifier"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """A split as it is written, what a run made of it, and what that is worth."""

    sources: list[str]
    references: list[str]
    said: list[str]
    tokens: list[list[int]]
    report: TranslationReport


def evaluate(arguments: Namespace) -> None:
    """Print the metrics of a split."""
    found = load(arguments.run, device=arguments.device, average=arguments.average, precision=arguments.precision)
    _check(arguments, _kind(found))
    task = found.task(arguments.data)
    split = arguments.split or usual_split(task.splits)
    if split not in task.splits:
        raise DataError(f"no split {split!r}, there are {', '.join(task.splits)}")
    if arguments.lengths is not None:
        assert isinstance(task, LanguageTask | MaskedTask)
        outcome = lengths_of(found, task, split, parse_lengths(arguments.lengths), stride=arguments.stride)
    elif isinstance(task, LanguageTask):
        outcome = _language(found, task, split, stride=arguments.stride)
    elif isinstance(task, MaskedTask):
        outcome = _masked(found, task, split)
    elif isinstance(task, ClassificationTask | TextClassificationTask):
        outcome = _classification(found, task, split)
    elif isinstance(task, CaptioningTask):
        outcome = _captioning(found, task, split, beam=arguments.beam)
    elif isinstance(task, PoseTask):
        outcome = _pose(found, task, split)
    elif isinstance(task, WorldTask):
        outcome = _world(found, split)
    elif isinstance(task, DecidingTask):
        outcome = _deciding(found, task, split)
    else:
        outcome = _translation(found, task, split, arguments)
    _write(outcome, arguments, title=f"{Path(arguments.run).name}, {split}")
    steps = ",".join(map(str, found.steps))
    if arguments.json:
        print(json.dumps(_strict({"split": split, "steps": steps, **outcome.values}), allow_nan=False))
        return
    mean = f"the mean of steps {steps}" if len(found.steps) > 1 else f"step {steps}"
    console = Console(highlight=False)
    console.print(show.facts({"run": f"{arguments.run} ({_kind(found)})", "split": split, "checkpoint": mean}))
    console.print(*outcome.shown, sep="\n")


def translate_split(found: Run, split: str, *, spec: str | None = None, beam: int | None = None) -> Translated:
    """Translate a split of the run's data, or of other data, and compare it with its references."""
    sources, references = found.pairs(split, spec)
    task = found.translator()
    tokens = task.outputs(found.model, found.device, sources, beam=beam)
    said = [task.target_tokenizer.decode(line) for line in tokens]
    report = translation_report(said, references, sources)
    return Translated(sources=sources, references=references, said=said, tokens=tokens, report=report)


def _translation(found: Run, task: TranslationTask, split: str, arguments: Namespace) -> Outcome:
    rival = None if arguments.compare is None else _rival(found, split, arguments)
    done = translate_split(found, split, spec=arguments.data, beam=arguments.beam)
    forced = task.forced(found.model, found.device, split)
    greedy = done.tokens
    if (arguments.beam or task.config.beam) > 1:
        greedy = task.outputs(found.model, found.device, done.sources, beam=1)
    positions = forced.beside(greedy)
    score = forced.score
    values = {"loss": score.loss, "perplexity": score.perplexity, "tokens": score.tokens, **done.report.to_json()}
    values |= forced.steps
    shown = [show.translation_figures(done.report, score.loss, score.perplexity)]
    if forced.steps:
        shown.append(show.facts({key: f"{value:.2f}" for key, value in forced.steps.items()}))
    if rival is not None:
        compared, part = _compare(
            done, translate_split(rival, split, spec=arguments.data, beam=arguments.beam), arguments
        )
        values |= compared
        shown.append(part)
    lines = [show.sentence_lines(done.sources[n], done.references[n], done.said[n]) for n in _spread(len(done.sources))]
    shown += [show.by_length(done.report), show.by_position(positions), show.samples("samples", lines)]
    picture = _positions_picture(positions)
    return Outcome(values={**values, **positions.to_json()}, shown=shown, picture=picture, said=done.said)


def _rival(found: Run, split: str, arguments: Namespace) -> Run:
    """The run to compare with. Raises ConfigError unless it translates the same references."""
    rival = load(arguments.compare, device=arguments.device, average=arguments.average)
    named = f"--compare {arguments.compare}"
    if _kind(rival) != _kind(found):
        raise ConfigError(f"{named}: a {_kind(rival)}, expected another translation model")
    try:
        same = rival.pairs(split, arguments.data)[1] == found.pairs(split, arguments.data)[1]
    except DataError as error:
        raise ConfigError(f"{named}: no references to compare on ({error})") from error
    if not same:
        whose = " and ".join(
            f"{each.config.data.spec if arguments.data is None else arguments.data} ({each.config.data.target})"
            for each in (found, rival)
        )
        raise ConfigError(f"{named}: other references on split {split!r}, {whose}; expected the same data and target")
    return rival


def _compare(first: Translated, second: Translated, arguments: Namespace) -> tuple[dict[str, Any], RenderableType]:
    """Paired bootstrap of two runs on the same sentences: values and a table."""
    delta, p = paired_bootstrap(first.said, second.said, first.references)
    values = {"bleu_compared": second.report.bleu, "bleu_delta": delta, "bleu_p": p}
    rows = {
        str(arguments.run): f"{first.report.bleu:.2f}",
        str(arguments.compare): f"{second.report.bleu:.2f}  {delta:+.2f}, p = {p:.3f}",
    }
    return values, show.section("bleu compared (paired bootstrap, 1,000 resamples)", show.facts(rows))


def _language(found: Run, task: LanguageTask, split: str, *, stride: int | None) -> Outcome:
    stride = max(task.config.context // 2, 1) if stride is None else stride
    sliding = task.evaluate(found.model, found.device, split, stride=stride)
    blocks = task.evaluate(found.model, found.device, split)
    continued = task.continuations(found.model, found.device, split)
    positions = continued.report
    named = {f"sliding_{key}": value for key, value in sliding.to_json().items() if key != "tokens"}
    values = {**blocks.to_json(), **named, "sliding_stride": stride, **positions.to_json()}
    header = ["", f"blocks of {task.config.context}", f"sliding by {stride}"]
    rows = [
        [key, *(show.NONE if value is None else f"{value:.4f}" for value in (values[key], values[f"sliding_{key}"]))]
        for key in ("loss", "perplexity", "bits_per_byte")
    ]
    told = f"{blocks.tokens:,} tokens. Blocks do not overlap; sliding windows do."
    tables = [Text(), show.figures(header, rows), show.note(told, "dim"), show.by_position(positions)]
    shown = [*tables, _continued(task, continued)]
    return Outcome(values=values, shown=shown, picture=_positions_picture(positions))


def _positions_picture(positions: PositionReport) -> Callable[[str], bytes]:
    return lambda title: plot_positions(positions, f"{title}: right tokens by position")


def _continued(task: LanguageTask, found: Continuations) -> RenderableType:
    decode = task.tokenizer.decode
    divergence = found.report.divergence
    blocks = []
    for n in _spread(len(found.gold)):
        at = len(found.gold[n]) if divergence[n] is None else divergence[n]
        gold, free = ((decode(line[:at]), decode(line[at:])) for line in (found.gold[n], found.free[n]))
        blocks.append(show.running_lines(decode(found.prompts[n]), gold, free))
    return show.samples(f"samples, {show.MARK} where the greedy output leaves the text", blocks)


def _masked(found: Run, task: MaskedTask, split: str) -> Outcome:
    values = task.evaluate(found.model, found.device, split)
    rows = {
        "loss": f"{values['loss']:.4f}  nats a hidden token",
        "perplexity": f"{values['perplexity']:.4g}",
        "tokens": f"{values['tokens']:,}  hidden",
        "unigram_entropy": f"{values['unigram_entropy']:.4f}  the loss of knowing frequencies alone",
    }
    if "next_sentence_accuracy" in values:
        rows["next_sentence_accuracy"] = f"{values['next_sentence_accuracy']:.1%}"
    halves = (line.rpartition(" | ") for line in values["samples"])
    lines = [[("text", Text(text)), ("guesses", Text(guesses))] for text, _, guesses in halves]
    return Outcome(values=values, shown=[Text(), show.facts(rows), show.samples("samples: token → guess", lines)])


def _classification(found: Run, task: ClassificationTask | TextClassificationTask, split: str) -> Outcome:
    guesses = task.guesses(found.model, found.device, split)
    report = task.report(guesses)
    values, names = report.to_json(), task.classes
    last, last_step = found.last()
    values |= {"last_accuracy": task.evaluate(last, found.device, split).accuracy, "last_step": last_step}
    rows = zip(guesses.labels.tolist(), guesses.probabilities.max(1).values.tolist(), guesses.predicted, strict=True)
    said = [f"{names[label]}\t{names[int(guess)]}\t{chance:.6f}" for label, chance, guess in rows]
    shown = show.classification_figures(report, values["last_accuracy"], last_step)
    return Outcome(
        values=values, shown=shown, picture=lambda title: plot_confusion(report, f"{title}: classes"), said=said
    )


def _captioning(found: Run, task: CaptioningTask, split: str, *, beam: int | None) -> Outcome:
    said = task.said(found.model, found.device, split, beam=beam)
    report, forced = task.report(said, split), task.forced(found.model, found.device, split)
    captions = task.splits[split].captions
    rows = {
        "bleu4": f"{report.bleu4:.2f}",
        "cider": f"{report.cider:.3f}  CIDEr-D, 0 to 10",
        "exact_match": f"{report.exact_match:.1%}  one of the references, word by word",
        "sentences": f"{report.sentences:,}",
        "loss": f"{forced.loss:.4f}  nats a token",
    }
    lines = [list(show.caption_lines(captions[n], said[n])) for n in _spread(len(said))]
    values = {**report.to_json(), "loss": forced.loss, "perplexity": forced.perplexity, "tokens": forced.tokens}
    return Outcome(values=values, shown=[Text(), show.facts(rows), show.samples("samples", lines)], said=said)


def _pose(found: Run, task: PoseTask, split: str) -> Outcome:
    posed = task.posed(found.model, found.device, split)
    report = task.report(posed, split)
    values = {**report.to_json(), "loss": posed.loss / len(task.splits[split])}
    return Outcome(values=values, shown=show.keypoint_figures(report))


def _world(found: Run, split: str) -> Outcome:
    model, task = found.world()
    report = world_report(model, task, split, found.device, episodes=EPISODES, seed=0)
    return Outcome(values=report.to_json(), shown=show.world_figures(report))


def _deciding(found: Run, task: DecidingTask, split: str) -> Outcome:
    loss = task.evaluate(found.model, found.device, split)
    values = {"loss": loss, "perplexity": math.exp(loss), "environment_steps": task.episodes.taken}
    rows = {"loss": f"{loss:.4f}  nats an action", "environment_steps": f"{task.episodes.taken:,}  of the log"}
    return Outcome(values=values, shown=[Text(), show.facts(rows), show.note("`headway play` asks for returns", "dim")])


def _check(arguments: Namespace, kind: str) -> None:
    """Raise ConfigError for an option that this kind of run cannot heed."""
    for name, kinds in MEANT_FOR.items():
        by_length = name == "plot" and arguments.lengths is not None  # whatever has lengths can draw them
        if getattr(arguments, name) is not None and kind not in kinds and not by_length:
            raise ConfigError(f"--{name} is for a {' or a '.join(kinds)}, {arguments.run} is a {kind}")
    if arguments.lengths is not None:
        parse_lengths(arguments.lengths)  # before anything is read
    if arguments.plot is not None and Path(arguments.plot).suffix.lower() != ".png":
        raise ConfigError(f"--plot {arguments.plot}, allowed: a name that ends in .png")


def _kind(found: Run) -> str:
    return KINDS[type(found.config.task)]


def _write(outcome: Outcome, arguments: Namespace, *, title: str) -> None:
    """The files that were asked for; what was written is said on stderr."""
    if arguments.out is not None:
        # splitlines knows more line ends than a scorer does; each hypothesis must stay one line for all of them.
        commit_file(Path(arguments.out), "".join(" ".join(line.splitlines()) + "\n" for line in outcome.said))
        print(f"headway: {len(outcome.said):,} lines in {arguments.out}", file=sys.stderr)
    if arguments.plot is not None and outcome.picture is not None:
        commit_file(Path(arguments.plot), outcome.picture(title))
        print(f"headway: a picture in {arguments.plot}", file=sys.stderr)


def _spread(count: int) -> list[int]:
    """A few indices, evenly spaced."""
    return sorted({int(n) for n in np.linspace(0, count - 1, min(SAMPLES, count))})


def _strict(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same with null for what JSON has no number for."""
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in values.items()
    }
