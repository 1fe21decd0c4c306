"""Numbers and names in messages: "1 step", "8,000 steps", "micro F1". This module imports nothing of headway."""

from __future__ import annotations


def counted(count: float, thing: str, things: str | None = None) -> str:
    """A number of things: "1 step", "0.72 epochs", "8,000 steps"; `things` is a plural that is not formed with s."""
    number = f"{count:,.0f}" if count >= 10 or count == round(count) else f"{count:.2g}"
    return f"{number} {thing if number == '1' else things or thing + 's'}"


def figure_name(name: str) -> str:
    """The name of a logged validation figure for people: "val_accuracy" is "accuracy", "val_micro_f1" is "micro F1"."""
    return " ".join("F1" if word == "f1" else word for word in name.removeprefix("val_").split("_"))
