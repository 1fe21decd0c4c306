"""`headway translate`."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.cli.lines import LineCounter, blocks, is_terminal, stdin_lines, write_lines
from headway.errors import ConfigError
from headway.models import Stepper
from headway.runs import Run, load
from headway.storage.commit import commit_stream

if TYPE_CHECKING:
    from headway.decoding.trace import Trace
    from headway.tasks.translation.training import Decoding
    from headway.tasks.translation.translator import Said

LINES_AT_ONCE = 512  # enough to sort by length inside; a stdin of any size streams through


def run(arguments: Namespace) -> None:
    """One output line for each input line, in their order."""
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

    with commit_stream(Path(arguments.trace)) as file:
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
