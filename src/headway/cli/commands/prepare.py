"""`headway prepare`."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli import options
from headway.cli.terminal import tell
from headway.counts import counted
from headway.errors import ConfigError, DataError

if TYPE_CHECKING:
    from headway.data.config import DataConfig
    from headway.data.store_writer import PreparedReport
    from headway.data.tokenizers import Tokenizer

HELP = "tokenise a large text once, in parallel, into a store that `headway train --data STORE` starts from at once"
EXAMPLES = (
    "headway prepare books --out store --workers 8",
    "headway prepare books --out ours --tokenizer runs/gpt2    with the tokenizer of a run",
    "headway prepare rows.jsonl --out rows --data.text body --tokenizer store --deduplicate --data.skip_bad true",
    "headway prepare store --verify    read all of a store and name what is damaged",
)
KEYS = ("data.text", "data.errors", "data.skip_bad", "data.tokenizer")  # of the config, as `train` has them


def add_arguments(parser: ArgumentParser) -> None:
    """What is read, where the store goes, and how."""
    parser.add_argument(
        "spec", metavar="SPEC", help="a text, a table (jsonl, parquet, tsv, csv), plain or .gz, or a folder of them"
    )
    parser.add_argument("--out", metavar="STORE", help="the folder to make, or to go on with after an interruption")
    parser.add_argument(
        "--workers", type=options.positive, metavar="N", help="processes that tokenise (default: one a processor)"
    )
    parser.add_argument(
        "--tokenizer",
        metavar="FILE|RUN|STORE",
        help="a tokenizer.json, or the run or store to take it from; else one is trained, as --data.tokenizer says",
    )
    parser.add_argument(
        "--deduplicate", action="store_true", help="keep the first of equal documents: rows of a table, or files"
    )
    parser.add_argument("--verify", action="store_true", help="read what is there, and make damaged parts again")
    options.add_json(parser)


def execute(arguments: Namespace) -> None:
    """Prepare, with a bar on stderr; the store's name, or a report as JSON, goes to stdout."""
    from headway.data.prepared_store import is_store

    spec = Path(arguments.spec).expanduser()
    if arguments.out is None:
        if not (arguments.verify and is_store(spec)):
            raise ConfigError(
                "no --out: the folder for the store; without it, only a STORE can be given, with --verify"
            )
        _verify(spec, as_json=arguments.json)
        return
    if is_store(spec):
        raise ConfigError(f"{spec} is a prepared store already; `headway train --data {spec}` reads it")
    report = _prepared(arguments, spec)
    for name in report.left_out:
        tell(f"not read: {name}, which is neither text nor a table")
    for example in report.examples:
        tell(f"skipped: {example}")
    values = _values(report)
    tokens = ", ".join(f"{name} {counted(count, 'token')}" for name, count in report.index.tokens.items())
    parts = counted(report.parts, "part")
    tell(f"{report.folder}: {tokens} in {parts}; {_counts(values)}; {report.seconds:.1f} s")
    print(json.dumps(values) if arguments.json else report.folder)


def _prepared(arguments: Namespace, spec: Path) -> PreparedReport:
    from headway.cli.outputs import expect_folder
    from headway.cli.prepare_bar import PrepareBar
    from headway.cores import cores
    from headway.data.store_documents import InputReading
    from headway.data.store_units import StoreSettings
    from headway.data.store_writer import prepare_store

    data = _data(arguments)
    expect_folder(arguments.out)
    settings = StoreSettings(
        reading=InputReading(column=data.text, errors=data.errors, skip_bad=data.skip_bad),
        tokenizer=data.tokenizer,
        deduplicate=arguments.deduplicate,
    )
    with PrepareBar(spec.name) as bar:
        return prepare_store(
            spec,
            Path(arguments.out).expanduser(),
            settings,
            tokenizer=None if arguments.tokenizer is None else _tokenizer(Path(arguments.tokenizer).expanduser()),
            workers=arguments.workers or cores(),
            verify=arguments.verify,
            watcher=bar,
        )


def _data(arguments: Namespace) -> DataConfig:
    """The config keys `data.*`. Raises ConfigError for others, and for those of other kinds of data."""
    from headway.config import override
    from headway.data.config import DataConfig
    from headway.data.store_units import StoreSettings

    changes = options.overrides_of(arguments.overrides)
    for key in changes:
        if key not in KEYS and not key.startswith("data.tokenizer."):
            raise ConfigError(f"--{key}: not a setting of prepare; allowed: {', '.join(f'--{each}' for each in KEYS)}")
    own = {key.removeprefix("data."): value for key, value in changes.items()}
    return override(DataConfig(spec=arguments.spec, tokenizer=StoreSettings().tokenizer), own)


def _tokenizer(path: Path) -> Tokenizer:
    """The tokenizer in a file, or of a run or store. Raises ConfigError, DataError, NoRunError."""
    from headway.data.prepared_store import TOKENIZER, is_store
    from headway.data.tokenizers import Tokenizer
    from headway.documents import read_within
    from headway.runs.folder import read_config, read_tokenizers
    from headway.tasks.base import ONE_TOKENIZER

    if is_store(path):
        path = path / TOKENIZER
    if path.is_file():
        return Tokenizer.from_json(read_within(path, "tokenizer-bytes").decode("utf-8", "replace"), where=str(path))
    config = read_config(path)
    tokenizers = read_tokenizers(path, config.data.marks)
    if ONE_TOKENIZER not in tokenizers:
        raise ConfigError(
            f"--tokenizer {path}: a run without {ONE_TOKENIZER}; it has: {', '.join(tokenizers) or 'none'}"
        )
    return tokenizers[ONE_TOKENIZER]


def _verify(store: Path, *, as_json: bool) -> None:
    from headway.data.prepared_store import read_index
    from headway.data.store_writer import verify_store

    wrong, index = verify_store(store), read_index(store)
    parts = sum(map(len, index.splits.values()))
    if as_json:
        print(json.dumps({"store": str(store), "digest": index.digest, "parts": parts, "damaged": wrong}))
    if wrong:
        raise DataError(wrong[0] if len(wrong) == 1 else f"{wrong[0]} (and {counted(len(wrong) - 1, 'part')} more)")
    tell(f"{store}: {counted(parts, 'part')} intact")
    if not as_json:
        print(store)


def _values(report: PreparedReport) -> dict[str, object]:
    facts, tokens = report.index.facts, report.index.tokens
    return {
        "store": str(report.folder),
        "digest": report.index.digest,
        "parts": report.parts,
        "parts_made": report.made,
        "tokens": sum(tokens.values()),
        **{f"{name}_tokens": count for name, count in tokens.items()},
        "vocabulary": report.vocabulary,
        **{name: facts.get(name, 0) for name in ("bytes", "documents", "duplicates", "empty", "bad", "unknown")},
        "left_out": list(report.left_out),
        "seconds": round(report.seconds, 3),
    }


def _counts(values: dict[str, object]) -> str:
    """What was read and what was skipped, in words."""
    words = {
        "documents": "documents read", "duplicates": "equal to one before", "empty": "empty", "bad": "unreadable",
        "unknown": "unknown tokens",
    }  # fmt: skip
    return ", ".join(f"{values[key]:,} {word}" for key, word in words.items() if values[key] or key == "documents")
