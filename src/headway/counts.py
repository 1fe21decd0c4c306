"""Numbers of things in messages: "1 step", "8,000 steps". This module imports nothing of headway."""

from __future__ import annotations


def counted(count: float, thing: str, things: str | None = None) -> str:
    """A number of things: "1 step", "0.72 epochs", "8,000 steps"; `things` is a plural that is not formed with s."""
    number = f"{count:,.0f}" if count >= 10 or count == round(count) else f"{count:.2g}"
    return f"{number} {thing if number == '1' else things or thing + 's'}"
