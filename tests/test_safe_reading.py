"""Nothing in the source runs code from a file, and every JSON or YAML file is read by `headway.documents` (I1)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src/headway"
FILES = sorted(SOURCE.rglob("*.py"))
CODE = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "jsonpickle", "runpy"}
CALLS = {
    "eval", "exec", "__import__", "torch.load", "torch.jit.load", "torch.package", "yaml.load", "yaml.load_all",
    "yaml.full_load", "yaml.unsafe_load", "os.system", "os.popen", "os.execv", "os.path.expandvars", "expandvars",
    "numpy.load", "np.load", "string.Template", "sys.setrecursionlimit", "sys.set_int_max_str_digits",
    "importlib.machinery.SourceFileLoader", "importlib.util.spec_from_file_location", "importlib.util.spec_from_loader",
    "importlib.util.module_from_spec", "spec.loader.exec_module",
}  # fmt: skip
SWITCHES = ("shell", "allow_pickle", "trust_remote_code")  # keywords that may only be False
READS = {"json.load", "json.loads", "json.JSONDecoder", "yaml.safe_load", "yaml.safe_load_all", "yaml.parse"}
READ_ELSEWHERE = {
    "documents.py": "the reader itself",
    "bench/servers/llama_cpp.py": "run where headway is not installed, on files that the benchmark wrote",
    "data/tokenizers.py": "what the tokenizers library writes of a tokenizer in memory",
    "data/vocabularies.py": "what the tokenizers library writes of a tokenizer in memory",
    "interop/tokenizer_import.py": "what the tokenizers library writes of a tokenizer in memory",
    "storage/manifest.py": "compared byte for byte with what headway would have written",
}


def area(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def named(node: ast.AST) -> str:
    """The dotted name of `a.b.c`, "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = named(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def uses(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that is imported or named, with the names of `from x import y` resolved."""
    imported: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                imported[each.asname or each.name.partition(".")[0]] = (
                    each.name if each.asname else each.name.partition(".")[0]
                )
                yield node.lineno, each.name
        elif isinstance(node, ast.ImportFrom):
            for each in node.names:
                imported[each.asname or each.name] = f"{node.module}.{each.name}"
                yield node.lineno, f"{node.module}.{each.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and (name := named(node)):
            first, dot, rest = name.partition(".")
            yield node.lineno, f"{imported.get(first, first)}{dot}{rest}"
        elif isinstance(node, ast.keyword) and node.arg in SWITCHES:
            if not (isinstance(node.value, ast.Constant) and node.value.value is False):
                yield node.value.lineno, f"{node.arg}=True"
        elif isinstance(node, ast.Call) and named(node.func).endswith("import_module"):
            yield from ((node.lineno, str(each.value)) for each in node.args if isinstance(each, ast.Constant))


def runs_code(name: str) -> bool:
    return name in CALLS or name.partition(".")[0] in CODE or name.endswith("=True")


def found(wanted) -> list[tuple[str, int, str]]:
    return [
        (area(path), line, name) for path in FILES for line, name in uses(ast.parse(path.read_text())) if wanted(name)
    ]


def test_nothing_in_the_source_can_run_what_a_file_says():
    allowed = {("reliability/process.py", "os.execv")}  # Python itself, for the trials that start cold
    loads = ("machinery.SourceFileLoader", "util.spec_from_loader", "util.module_from_spec")
    allowed |= {("labs/exercise_check.py", f"importlib.{each}") for each in loads}  # `lab check`: the user's own code
    allowed |= {("labs/exercise_check.py", "spec.loader.exec_module")}
    wrong = [each for each in found(runs_code) if (each[0], each[2]) not in allowed]
    assert [f"{path}:{line}: {name}" for path, line, name in wrong] == []


def test_every_json_and_yaml_is_read_by_the_one_reader():
    reads = found(READS.__contains__)
    assert [f"{path}:{line}: {name}" for path, line, name in reads if path not in READ_ELSEWHERE] == []
    assert {path for path, _, _ in reads} == set(READ_ELSEWHERE), "an exception that no code needs any more"


@pytest.mark.parametrize(
    "code",
    [
        "import pickle", "from pickle import loads", "import dill as d", "import torch\nx = torch.load('a')",
        "from torch import load\nload('a')", "import torch as t\nt.load('a')", "eval('1')", "exec('1')",
        "import yaml\nyaml.load(x)", "from yaml import unsafe_load", "import subprocess\nsubprocess.run(x, shell=True)",
        "import os\nos.path.expandvars(x)", "from os.path import expandvars\nexpandvars(x)", "f(trust_remote_code=y)",
        "import importlib\nimportlib.import_module('pickle')", "import numpy as np\nnp.load(x)",
        "from importlib.util import spec_from_file_location", "import importlib.machinery as m\nm.SourceFileLoader",
    ],
)  # fmt: skip
def test_the_gate_sees_each_way(code):
    assert any(runs_code(name) for _, name in uses(ast.parse(code)))


@pytest.mark.parametrize("code", ["model.eval()", "import json\njson.dumps(x)", "run(shell=False)", "load('run')"])
def test_the_gate_lets_the_rest_through(code):
    assert not any(runs_code(name) or name in READS for _, name in uses(ast.parse(code)))
