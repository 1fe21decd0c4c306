"""The rich console of all commands."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from headway.cli.terminal import escaped, plain_stream


class SafeConsole(Console):
    """A console for texts of any origin: their control characters are shown, its own styles work."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(file=plain_stream(sys.stderr if stderr else sys.stdout), stderr=stderr, highlight=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of something to print; rich marks those that are control codes of its own."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=escaped(segment.text))

    def on_broken_pipe(self) -> None:
        """Leave it to the top level; rich would end the process with exit code 1."""
        raise BrokenPipeError
