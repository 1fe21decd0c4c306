"""The documents, and what they name: code, commands, flags."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from argparse import ArgumentParser
from pathlib import Path

import pytest

from headway.cli.parser import build_parser
from headway.labs.frame import flag
from headway.labs.registry import LABS

ROOT = Path(__file__).parents[1]
DOCUMENTS = (
    "README.md", "CONTRIBUTING.md", "docs/commands.md", "docs/training.md", "docs/attention.md", "docs/architecture.md",
    "docs/decoding.md", "docs/capture.md", "docs/verify.md", "docs/vision.md", "docs/interop.md", "docs/variants.md",
    "docs/look.md", "docs/universal.md", "docs/world.md", "docs/glossary.md", "docs/reliability.md",
    "docs/serving.md", "docs/scale.md", "docs/data.md", "docs/estimate.md", "docs/jobs.md", "SECURITY.md",
    "docs/tasks.md", "docs/finetuning.md", "docs/index.md", *(f"docs/tutorials/{name}.md" for name in (
        "first-hour", "own-text", "own-images", "fine-tune", "look-inside", "teaching",
    )),
)  # fmt: skip
RESULTS = "docs/results.md"  # hours of training: its commands are parsed, not run


def read(document: str) -> str:
    return (ROOT / document).read_text()


def fences(text: str) -> list[tuple[str, str]]:
    """The fenced blocks of a document: language and body."""
    return re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def spans(text: str) -> list[str]:
    """Code within the lines of a document."""
    without = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return [" ".join(span.replace("\\|", "|").split()) for span in re.findall(r"`([^`]+)`", without)]


def subparsers() -> dict[str, ArgumentParser]:
    return build_parser()._subparsers._group_actions[0].choices


def flags_of(parser: ArgumentParser) -> set[str]:
    return {flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")}


def flags_of_labs() -> set[str]:
    """The flags that single labs have: fields of their parameters."""
    return {f"--{flag(key.path)}" for name in LABS for key in LABS[name].flags()}


def flags_in(text: str) -> set[str]:
    return set(re.findall(r"--[a-z][\w-]*(?![\w.-])", text))


def would_do(target: str) -> list[str]:
    """The headway commands a make target would run."""
    if not shutil.which("make"):
        pytest.skip("make is not installed")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"make {target}: {done.stderr}"
    return [f"headway {words}" for words in re.findall(r"\.venv/bin/headway (.*)", done.stdout)]
