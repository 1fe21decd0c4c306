"""`headway translate`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.cli import options
from headway.cli.lines import LineCounter, blocks, is_terminal, stdin_lines, write_lines
from headway.errors import ConfigError

if TYPE_CHECKING:
    from headway.decoding.trace import Trace
    from headway.models import Stepper
    from headway.runs import Run
    from headway.tasks.translation.training import Decoding
    from headway.tasks.translation.translator import Said

HELP = "one output line for each input line"
EXAMPLES = ("headway translate runs/demo 'a cute puppy'",)
LINES_AT_ONCE = 512  # enough to sort by length inside; a stdin of any size streams through


def add_arguments(parser: ArgumentParser) -> None:
    """Which texts, how to search, and what the translations must and must not contain."""
    options.add_run(parser)
    parser.add_argument("text", nargs="*", metavar="TEXT", help="without it, lines are read from stdin")
    parser.add_argument("--beam", type=options.positive, help="beam size (default: the recipe's)")
    parser.add_argument("--length-penalty", type=float, metavar="A", help="default: the recipe's")
    parser.add_argument("--n-best", type=options.positive, default=1, metavar="N", help="the best N with their scores")
    parser.add_argument(
        "--stop-rule",
        choices=("first", "best"),
        default="first",
        help="end a search when a beam of hypotheses has finished, or when no open one can win (default: %(default)s)",
    )
    parser.add_argument(
        "--groups", type=options.positive, default=1, metavar="N", help="diverse beam search in N groups"
    )
    parser.add_argument(
        "--diversity", type=float, default=0.5, metavar="D", help="penalty between groups (default: %(default)s)"
    )
    parser.add_argument("--prefix", default="", metavar="TEXT", help="translations begin with this")
    parser.add_argument("--must", action="append", default=[], metavar="TEXT", help="and contain this (repeatable)")
    parser.add_argument("--ban", action="append", default=[], metavar="TEXT", help="and not this (repeatable)")
    parser.add_argument("--no-repeat", type=int, default=0, metavar="N", help="no sequence of N tokens twice")
    parser.add_argument("--ensemble", metavar="RUN2,RUN3", help="the mean of this run and others")
    parser.add_argument(
        "--max-extra", type=int, metavar="N", help="tokens beyond the source's length (default: the recipe's)"
    )
    options.add_precision(parser)
    parser.add_argument("--trace", metavar="FILE", help="keep each step of the search for `headway trace`")


def execute(arguments: Namespace) -> None:
    """One output line for each input line, in their order."""
    from headway.runs import load

    found = load(arguments.run, device=arguments.device, precision=arguments.precision)
    task, model = found.translator(), _model(found, arguments)
    from headway.tasks.translation.translator import Translator  # after the run, whose weights are packed meanwhile

    typed = not arguments.text and is_terminal(sys.stdin)
    lines: Iterable[str] = arguments.text or stdin_lines()
    with LineCounter() as counter, _trace(arguments) as keep:
        decoding = _decoding(found, arguments)
        translator = Translator(task, model, found.device, decoding, counter.note, keep, found.steps)
        for block in blocks(lines, 1 if typed else LINES_AT_ONCE):
            said = translator.translate(block)
            write_lines([line for best in said for line in _shown(best, arguments.n_best)])
            counter.advance(len(block))
        translator.report()


@contextmanager
def _trace(arguments: Namespace) -> Iterator[Callable[[Trace], None] | None]:
    """Where traces go, if they were asked for."""
    if arguments.trace is None:
        yield None
        return
    from headway.decoding.trace.format import to_json
    from headway.storage.commit import growing

    with growing(Path(arguments.trace)) as file:
        yield lambda trace: file.line(to_json(trace))


def _shown(best: list[Said], n_best: int) -> list[str]:
    """The lines for one input line: the translation, or each with rank and score; an empty one for an empty one."""
    if not best or n_best == 1:
        return [best[0].text if best else ""]
    return [f"{rank}\t{each.score:.4f}\t{each.text}" for rank, each in enumerate(best, 1)]


def _decoding(found: Run, arguments: Namespace) -> Decoding:
    from headway.tasks.translation.training import Decoding
    from headway.tasks.translation.translator import text_constraints

    wanted = text_constraints(
        found.tokenizer,
        prefix=arguments.prefix,
        must=arguments.must,
        ban=arguments.ban,
        no_repeat=arguments.no_repeat,
    )
    return Decoding(
        beam=arguments.beam,
        length_penalty=arguments.length_penalty,
        n_best=arguments.n_best,
        stop_rule=arguments.stop_rule,
        groups=arguments.groups,
        diversity=arguments.diversity,
        max_extra=arguments.max_extra,
        constraints=wanted or None,
    )


def _model(found: Run, arguments: Namespace) -> Stepper[Any]:
    """The run's model, or it and others as one. Raises ConfigError for runs that read or write other tokens."""
    from headway.decoding.ensemble import Ensemble
    from headway.runs import load

    others = [name for name in (arguments.ensemble or "").split(",") if name]
    model: Stepper[Any] = found.model  # type: ignore[assignment]
    models = [model]
    for name in others:
        other = load(name, device=arguments.device, precision=arguments.precision)
        other.translator()
        if {n: t.content_hash for n, t in other.tokenizers.items()} != {
            n: t.content_hash for n, t in found.tokenizers.items()
        }:
            raise ConfigError(f"--ensemble {name}: its vocabulary is another than that of {found.folder}")
        models.append(other.model)  # type: ignore[arg-type]
    return Ensemble(models) if others else model
