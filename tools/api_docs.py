"""Writes docs/api.md, the public Python API, from signatures, docstrings and the comments behind fields.

`--check` only compares. `RUN_COMMANDS` and `OTHER_COMMANDS` say what each command of the shell is in Python;
tests/tools/test_api_docs.py holds them to the parsers and to the signatures of `Run`.
"""

from __future__ import annotations

import ast
import inspect
import sys
from argparse import Action, ArgumentParser
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from importlib import import_module
from typing import Any

import headway
from headway.cli import commands
from headway.config_help import meaning
from tools.generated import DOCS, write_or_check

PAGE = DOCS / "api.md"
WIDTH = 110  # of a signature; a longer one has a line for each parameter
HEAD = """# Python API

`import headway` gives the names that begin with `headway.` and have no module between; the others are imported from the
module they are listed with. What is not on this page may change without notice. Dimensions have the same letters
everywhere: B batch, T query, S key, D width, H heads, G key/value heads, E head width, W value width, F inner,
V vocabulary.

```python
import headway

run = headway.load("runs/en-de", precision="auto")
run.can()  # ("translate", "score", "evaluate", "look", "verify", "export")
run.translate(["a man is sleeping ."], beam=6)
run.evaluate(split="test").values["bleu"]
```

This page is written by `make api-docs` from the source.
"""
COMMANDS_HEAD = """## The commands in Python

A command that works on a run is a method of [`Run`](#headwayrunsrun), and its options are the method's parameters.
RUN, `--device`, `--precision` and `--average` are parameters of [`headway.load`](#headwayload). What an option prints
or draws is in what the method returns.
"""
RUN_TABLE = ("command", "method", "parameters", "options that print or draw")
OTHER_HEAD = "The other commands:"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommand:
    """A command that works on a run: the parameters of its method, and its options about output."""

    method: str
    renamed: Mapping[str, str] = field(default_factory=dict)  # option or argument -> parameter, where names differ
    outputs: Mapping[str, str] = field(default_factory=dict)  # option -> what gives the same in Python


# What `--input` takes: a job over a large file, by any number of processes.
JOB = dict.fromkeys(
    ("input_file", "out", "unit", "shard", "lease", "join", "json"),
    "jobs are of the shell; in Python a loop over the lines of a file, or `headway.runs.jobs.open_job`",
)
LOADED = ("run", "device", "precision", "average", "adapter")  # parameters of headway.load
RUN_COMMANDS: dict[str, RunCommand] = {
    "info": RunCommand(method="info", outputs={"json": "the dictionary it returns"}),
    "evaluate": RunCommand(
        method="evaluate",
        outputs={
            "out": "`report.outputs`, one line for each example",
            "plot": '`report.plot("title")`, a PNG',
            "json": "`report.values`",
        },
    ),
    "translate": RunCommand(method="translate", renamed={"text": "lines"}, outputs=JOB),
    "generate": RunCommand(
        method="generate",
        renamed={"num": "number", "text": "prompt"},
        outputs={**JOB, "no_echo": "the pieces it yields, which leave the prompt out"},
    ),
    "chat": RunCommand(
        method="chat", renamed={"text": "messages"}, outputs={"json": "the pieces it yields, joined: the content"}
    ),
    "score": RunCommand(method="score", outputs={**JOB, "tokens": "the list it returns"}),
    "classify": RunCommand(
        method="classify",
        renamed={"input": "inputs"},
        outputs={
            **JOB,
            "text": "the cells of the column, as a list",
            "words": "`run.pipeline.word_changes(text)`",
            "out": '`prediction.to_json("text")`, or `headway.plots.images.plot_predictions`',
            "patches": "`run.pipeline.patches(pixels)` and `headway.plots.attention.plot_patches`",
            "json": "the fields of `Prediction`",
        },
    ),
    "tag": RunCommand(
        method="tag",
        renamed={"text": "texts"},
        outputs={"columns": "`words`, `tags` and `probabilities` of `TagPrediction`", "json": "`prediction.to_json()`"},
    ),
    "answer": RunCommand(method="answer", outputs={"json": "`prediction.to_json()`"}),
    "caption": RunCommand(
        method="caption",
        renamed={"image": "images"},
        outputs={
            **JOB,
            "out": "`headway.plots.images.plot_captions`",
            "attention": "`run.pipeline.attention_maps(captions)` and `headway.plots.attention.plot_attention`",
            "json": "the fields of `Caption`",
        },
    ),
    "transcribe": RunCommand(
        method="transcribe", renamed={"sound": "sounds"}, outputs={"json": "the fields of `Transcript`"}
    ),
    "pose": RunCommand(
        method="pose",
        renamed={"image": "images"},
        outputs={
            "out": "`headway.plots.poses.plot_poses`",
            "json": "the fields of `EstimatedPose`; `run.pipeline.keypoint_names`",
        },
    ),
    "detect": RunCommand(
        method="detect",
        renamed={"image": "images"},
        outputs={
            "out": "`headway.plots.detections.plot_objects`",
            "json": "the fields of `DetectedObjects`",
        },
    ),
    "play": RunCommand(
        method="play",
        outputs={
            "more": "`result.over_runs({name: result, …})`, with the results of all runs",
            "render": '`result.render(".gif")`',
            "plot": '`result.plot("png", title)`',
            "json": "`result.to_json()`",
        },
    ),
    "embed": RunCommand(
        method="embed",
        renamed={"text": "texts"},
        outputs={**JOB, "out": "`numpy.save`", "json": "the array it returns"},
    ),
    "search": RunCommand(
        method="search",
        outputs={"json": "the fields of `Hit`; `Run.index` has the index, `index.timed` the times"},
    ),
    "export": RunCommand(method="export"),
    "verify": RunCommand(
        method="verify",
        renamed={"text": "given", "input": "given"},
        outputs={"json": "`report.to_json()`", "ranks": "`headway.cli.rank_check.check_ranks`, which starts processes"},
    ),
    "look": RunCommand(
        method="look",
        renamed={"input": "given"},
        outputs={
            "live": "`headway.serving.live`, a server",
            "port": "a server's port",
            "no_browser": "nothing: Python opens no browser",
        },
    ),
}
OTHER_COMMANDS: dict[str, str] = {
    "train": "`headway.runs.train_run` with a `headway.runs.config.RunConfig`, for instance "
    '`headway.runs.with_settings(headway.presets.preset("gpt-char").recipe(), {"data.spec": "book.txt"})`; '
    "`--dry-run` is `headway.runs.plan_run`",
    "prepare": "`headway.data.store_writer.prepare_store`",
    "estimate": "`headway.estimate.plan.estimate`",
    "import": "`headway.runs.import_folder.import_folder`",
    "trace": "`headway.decoding.trace.format.read_traces`, `headway.decoding.trace.tree`, "
    "`headway.plots.beam.plot_beam`",
    "presets": "`headway.presets.PRESETS`, a mapping; `headway.presets.preset` and `headway.build` take a name",
    "lab": "the modules of `headway.labs`",
    "deck": "`headway.labs.slide_index`",
    "bench": "`headway.bench.BENCHES`",
    "seal": "`headway.runs.seal.seal_run`, since a run with damaged files cannot be loaded",
    "reliability": "`headway.reliability.campaign.run_campaign`",
    "serve": "`headway.serving.server.serve` with a `headway.serving.server.ServerSettings`",
    "runs": "`headway.runs.listing.find_runs` and `run_row`, `headway.runs.compare.compare_runs`, "
    "`headway.runs.clean.clean_run`",
    "cache": "`headway.data.cache.cache_entries` and `clean_cache`",
    "completion": "`headway.cli.completion.script`",
    "demo": "a sequence of `train`, `evaluate`, `translate` and `look`",
}

# Sections: title, one line, and the names in it. A name of a class covers its public methods and fields.
RESULTS = "What methods of `Run` return."
SECTIONS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "headway",
        "Loading and building, attention with its masks and biases, and recording what a model computes.",
        tuple(f"headway.{name}" for name in ("load", "build", "attend", "attention_weights", "capture", "taps")),
    ),
    (
        "Masks and biases",
        "Values that say which query may attend to which key, and what is added to the scores "
        "([attention](attention.md)).",
        (
            "headway.Mask", "headway.Causal", "headway.Window", "headway.Lengths", "headway.Packed", "headway.Prefix",
            "headway.Global", "headway.NotSelf", "headway.ops.Table", "headway.ops.Listed", "headway.ops.Bias",
            "headway.Alibi", "headway.Relative",
        ),
    ),
    ("Runs", "A run folder, loaded.", ("headway.runs.Run",)),
    (
        "Results",
        RESULTS,
        (
            "headway.tasks.report.Report", "headway.tasks.report.Facts", "headway.tasks.report.Figures",
            "headway.tasks.report.Note", "headway.tasks.report.Sample", "headway.tasks.report.Samples",
            "headway.runs.verify.VerificationReport", "headway.interop.export_proof.ExportProof",
            "headway.interop.onnx_export.OnnxProof", "headway.tasks.translation.translator.ScoredText",
            "headway.decoding.trace.Trace", "headway.tasks.translation.ponder_steps.PonderSteps",
            "headway.tasks.classifier.Prediction", "headway.tasks.captioning.pipeline.Caption",
            "headway.tasks.captioning.attention_maps.AttentionMap", "headway.tasks.pose.pipeline.EstimatedPose",
            "headway.tasks.detection.pipeline.DetectedObjects",
            "headway.tasks.transcription.pipeline.Transcript", "headway.tasks.capabilities.PlayResult",
            "headway.runs.search.Index", "headway.runs.search.Hit",
        ),
    ),
    (
        "Training and import",
        "What makes run folders.",
        (
            "headway.runs.train_run", "headway.runs.plan_run", "headway.runs.plan.TrainingPlan",
            "headway.runs.with_settings", "headway.runs.config.RunConfig", "headway.training.callbacks.Callback",
            "headway.training.callbacks.PlanCallback",
            "headway.runs.read_config", "headway.config.override", "headway.runs.import_folder.import_folder",
            "headway.runs.import_folder.ImportReport",
        ),
    ),
    (
        "Tasks",
        "A task prepares data for training and makes the pipeline of a finished run "
        "([add a task](extending.md#a-task)).",
        (
            "headway.tasks.base.Task", "headway.tasks.base.DataRequest", "headway.tasks.base.Prepared",
            "headway.tasks.training_task.TrainingTask", "headway.tasks.training_task.Batch",
            "headway.tasks.training_task.Term", "headway.tasks.training_task.Validated",
            "headway.tasks.base.RunParts", "headway.tasks.base.Pipeline", "headway.tasks.base.EvaluateRequest",
            "headway.tasks.explanation.Explanation", "headway.tasks.explanation.StackDescription",
            "headway.tasks.explanation.Output", "headway.tasks.explanation.EmbeddingTable",
            "headway.tasks.explanation.EncodedWords", "headway.tasks.explanation.ImageView",
            "headway.tasks.verification_inputs.VerificationInputs", "headway.tasks.verification_inputs.Example",
            "headway.tasks.export_request.ExportRequest", "headway.tasks.export_request.TextExport",
            "headway.tasks.export_request.ImageScaling", "headway.tasks.export_request.BeamDefaults",
        ),
    ),
    (
        "Capabilities",
        "What a pipeline can do beyond `evaluate`, `explain`, `verification` and `export_request`: it inherits one "
        "class for each command.",
        tuple(
            f"headway.tasks.capabilities.{name}"
            for name in ("Capability", "Translates", "Generates", "Scores", "Classifies", "Captions", "Transcribes",
                         "EstimatesPose", "Detects", "Embeds", "Plays")
        ),
    ),
    (
        "Models",
        "What all models share ([add a model](extending.md#a-model)); the settings of each are in "
        "[config keys](config.md).",
        tuple(
            f"headway.models.{name}"
            for name in ("Model", "ModelInputs", "ModelOutputs", "TextSizes", "Stepper", "EncoderInput", "build_model")
        ),
    ),
    (
        "Presets and data sets",
        "Named models with their recipes, and named data.",
        ("headway.presets.Preset", "headway.presets.preset", "headway.data.datasets.Dataset"),
    ),
    (
        "Inspection",
        "Beside `headway.capture` and `headway.taps` ([capture](capture.md)).",
        tuple(
            f"headway.inspection.{name}"
            for name in ("CaptureResult", "Pass", "DecodedHypothesis", "TapPoint", "ablate", "head_effects", "patch",
                         "patch_effects", "logit_lens", "HeadStatistics", "head_statistics", "Link", "links",
                         "rollout", "picture_rollout", "Neighbour", "nearest", "neighbours")
        ),
    ),
    (
        "Kernels",
        "What an implementation of attention is given and provides ([add a kernel](extending.md#a-kernel)).",
        ("headway.ops.kernels.base.Kernel", "headway.ops.kernels.base.AttentionInputs"),
    ),
    (
        "Errors",
        "All are `HeadwayError`; a command that ends with one prints its line and returns its exit code "
        "([exit codes](commands.md#exit-codes)).",
        tuple(
            f"headway.errors.{name}"
            for name in ("HeadwayError", "ConfigError", "ShapeError", "KernelError", "DataError", "TooLongError",
                         "VerificationError", "NoRunError", "StorageError", "NonFiniteError", "BadModelError",
                         "AdviceWarning")
        ),
    ),
)  # fmt: skip
WITH_HEADINGS = ("headway.runs.Run",)  # classes whose methods have a heading each


def page() -> str:
    """The whole page."""
    lines = [HEAD, *_commands()]
    for title, about, names in SECTIONS:
        lines += [f"## {title}", "", about, ""]
        for name in names:
            lines += _entry(name)
    return "\n".join(lines).rstrip() + "\n"


def resolved(name: str) -> Any:
    """The object of a dotted name. Raises ImportError."""
    module, _, last = name.rpartition(".")
    found = import_module(module)
    return getattr(found, last) if hasattr(found, last) else import_module(name)


def public_methods(owner: type) -> list[str]:
    """The public methods and properties that a class itself defines, in their order."""
    return [node.name for node in _public_methods(_class(owner))]


def _commands() -> Iterator[str]:
    yield from (COMMANDS_HEAD, _row(RUN_TABLE), _row(["---"] * len(RUN_TABLE)))
    for name, command in RUN_COMMANDS.items():
        parameters = ", ".join(_with_option(name, command, each) for each in _parameters(command.method))
        known = actions(name)
        drawn = "; ".join(f"`{_written(known[option])}`: {how}" for option, how in command.outputs.items())
        yield _row([f"`headway {name}`", f"`Run.{command.method}`", parameters, drawn])
    yield from ("", OTHER_HEAD, "", _row(["command", "in Python"]), _row(["---", "---"]))
    for name, how in OTHER_COMMANDS.items():
        yield _row([f"`headway {name}`", how])
    yield ""


def _written(action: Action) -> str:
    """An option as it is typed, an argument by its placeholder."""
    return action.option_strings[-1] if action.option_strings else str(action.metavar)


def actions(command: str) -> dict[str, Action]:
    """The arguments and options of a command, by the name of their value."""
    parser = ArgumentParser(add_help=False)
    commands.command(command).add_arguments(parser)
    return {each.dest: each for each in parser._actions if each.dest != "help"}


def _with_option(name: str, command: RunCommand, parameter: str) -> str:
    """A parameter, and in brackets the argument or option it stands for if that is called otherwise."""
    given = actions(name)
    others = [given[each] for each, to in command.renamed.items() if to == parameter]
    shown = [f"`{each.option_strings[-1]}`" if each.option_strings else str(each.metavar) for each in others]
    return f"`{parameter}`" + (f" ({', '.join(shown)})" if shown else "")


def _parameters(method: str) -> list[str]:
    from headway.runs import Run

    return [name for name in inspect.signature(getattr(Run, method)).parameters if name != "self"]


def _entry(name: str) -> Iterator[str]:
    found = resolved(name)
    yield from (f"### `{name}`", "")
    if isinstance(found, type):
        yield from _class_entry(name, found)
    else:
        node = _function(found)
        yield from _code(_signature(node))
        yield from (*_prose(node), "")


def _class_entry(name: str, owner: type) -> Iterator[str]:
    node = _class(owner)
    made = next((each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
    if made is not None:
        yield from _code(_signature(made, called=owner.__name__, result=False))
    elif is_dataclass(owner) and fields(owner):
        yield from _code(_constructor(owner))
    yield from (*_prose(node), "")
    if (base := _public_base(owner)) is not None:
        yield from (f"Base: `{base.__name__}`.", "")
    yield from _fields(node, owner)
    methods = [each for each in _public_methods(node) if _prose(each) and not _prose(each)[0].startswith("Older name")]
    for each in methods:
        if name in WITH_HEADINGS:
            yield from (f"#### `{owner.__name__}.{each.name}`", "")
            yield from _code(_shown(each))
            yield from (*_prose(each), "")
        else:
            yield f"- `{_shown(each, width=10_000)}`: {' '.join(line for line in _prose(each) if line)}"
    if methods and name not in WITH_HEADINGS:
        yield ""


def _public_base(owner: type) -> type | None:
    """The nearest public class of headway that a class inherits from."""
    bases = (each for each in owner.__mro__[1:] if each.__module__.startswith("headway."))
    return next((each for each in bases if not each.__name__.startswith("_")), None)


def _constructor(owner: type) -> str:
    """A dataclass called, its keyword-only fields after a star; the types are in the table below it."""
    parts, starred = [], False
    for each in sorted(
        (each for each in fields(owner) if each.init and each.name[0] != "_"), key=lambda each: each.kw_only
    ):
        default = _annotated(owner)[each.name].value
        if each.kw_only and not starred:
            parts, starred = [*parts, "*"], True
        parts.append(each.name if default is None else f"{each.name}={_default(default)}")
    line = f"{owner.__name__}({', '.join(parts)})"
    return line if len(line) <= WIDTH else "\n".join([f"{owner.__name__}(", *(f"    {each}," for each in parts), ")"])


def _annotated(owner: type) -> dict[str, ast.AnnAssign]:
    """The annotated attributes of a class and its bases, the bases' first."""
    found: dict[str, ast.AnnAssign] = {}
    for each in reversed([each for each in owner.__mro__ if each.__module__.startswith("headway.")]):
        for node in _class(each).body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found[node.target.id] = node
    return found


def _public_methods(node: ast.ClassDef) -> list[ast.FunctionDef]:
    """The public methods; of one with overloads, the implementation, which has every parameter."""
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef) and not each.name.startswith("_")]
    return [each for each in methods if "overload" not in map(_text, each.decorator_list)]


def _shown(node: ast.FunctionDef, width: int = WIDTH) -> str:
    """A method's signature; of a property, its name and type."""
    if any(_text(each) in ("property", "cached_property") for each in node.decorator_list):
        return f"{node.name}: {_text(node.returns)}" if node.returns else node.name
    return _signature(node, width=width)


def _fields(node: ast.ClassDef, owner: type) -> Iterator[str]:
    """A table of the annotated attributes, of a dataclass the inherited ones too, and of constants of the class."""
    own = {
        each.target.id for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
    wanted = own | ({each.name for each in fields(owner)} if is_dataclass(owner) else set())
    rows = []
    for name, each in _annotated(owner).items():
        if name in wanted and not name.startswith("_"):
            kind = _text(each.annotation)
            if kind.startswith("ClassVar["):
                kind = f"{kind.removeprefix('ClassVar[').removesuffix(']')} (class)"
            rows.append((name, kind, "" if each.value is None else _default(each.value), meaning(owner, name)))
    for each in node.body:
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name) and each.targets[0].id[0] != "_":
            rows.append((each.targets[0].id, "(class)", _default(each.value), ""))
    if not rows:
        return
    yield from (_row(["field", "type", "default", "meaning"]), _row(["---"] * 4))
    for name, kind, default, about in rows:
        yield _row([f"`{name}`", *(f"`{each}`" if each else "" for each in (kind, default)), about])
    yield ""


def _default(value: ast.expr) -> str:
    """A default; of a field with a factory, what the factory makes."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "field":
        given = {each.arg: _text(each.value) for each in value.keywords}
        made = given.get("default_factory", "")
        return given.get("default") or {"dict": "{}", "tuple": "()", "list": "[]"}.get(made, "…")
    return _text(value)


def _signature(node: ast.FunctionDef, *, called: str = "", result: bool = True, width: int = WIDTH) -> str:
    """The parameters with types and defaults, `self` left out."""
    arguments = node.args
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    parts = [_parameter(each, value) for each, value in zip(plain, defaults, strict=True)]
    if parts and parts[0] in ("self", "cls"):
        parts = parts[1:]
    if arguments.vararg is not None:
        parts.append(f"*{_parameter(arguments.vararg, None)}")
    elif arguments.kwonlyargs:
        parts.append("*")
    parts += [_parameter(each, value) for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    end = f") -> {_text(node.returns)}" if result and node.returns is not None else ")"
    start = f"{called or node.name}("
    line = f"{start}{', '.join(parts)}{end}"
    return line if len(line) <= width else "\n".join([start, *(f"    {part}," for part in parts), end])


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    text = argument.arg if argument.annotation is None else f"{argument.arg}: {_text(argument.annotation)}"
    if default is None:
        return text
    return f"{text} = {_text(default)}" if argument.annotation is not None else f"{text}={_text(default)}"


def _prose(node: ast.FunctionDef | ast.ClassDef) -> list[str]:
    return (ast.get_docstring(node) or "").splitlines()


def _text(node: ast.expr) -> str:
    """An expression as code, its strings in double quotes."""
    text = ast.unparse(node)
    return text.replace("'", '"') if '"' not in text else text


def _code(text: str) -> tuple[str, ...]:
    return ("```python", text, "```", "")


def _row(cells: Any) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(import_module(module)))


def _class(owner: type) -> ast.ClassDef:
    return next(x for x in _tree(owner.__module__).body if isinstance(x, ast.ClassDef) and x.name == owner.__name__)


def _function(found: Any) -> ast.FunctionDef:
    found = inspect.unwrap(found)
    body = _tree(found.__module__).body
    return next(x for x in body if isinstance(x, ast.FunctionDef) and x.name == found.__name__)


def names() -> list[str]:
    """Every name the page has an entry for."""
    return [name for _, _, names in SECTIONS for name in names]


if __name__ == "__main__":
    assert {f"headway.{name}" for name in headway.__all__} <= set(names())
    sys.exit(write_or_check({PAGE: page()}, "make api-docs"))
