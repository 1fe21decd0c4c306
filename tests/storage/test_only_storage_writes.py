"""Only `headway.storage` changes files: every other place that could is listed here, with its reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src/headway"
DRAFTS = "fills a file of a draft folder, by `StagedFolder.write`"
MEMORY = "writes into memory"
# Packages that write no file of a user's.
EXEMPT = {
    "storage": "the one place",
    "bench": "measures in temporary folders of its own",
    "reliability": "damages copies in temporary folders of its own",
}
ALLOWED = {
    ("cli/commands/embed.py", "save"): MEMORY,
    ("cli/commands/lab.py", "save"): "the files of a lab, which `labs.course.save` commits",
    ("cli/launching.py", "TemporaryDirectory"): "a private folder, where ranks find each other",
    ("cli/launching.py", "open"): "in that folder, what a rank says on stderr",
    ("cli/rank_check.py", "TemporaryDirectory"): "a private folder, for runs that are compared and not kept",
    ("cli/trackers/tensorboard.py", "SummaryWriter"): "TensorBoard writes them itself, into a folder that is no link",
    ("cli/terminal.py", "write_bytes"): "stdout",
    ("cli/terminal.py", "open"): "the null device",
    ("data/line_files.py", "os.fdopen"): "opens to read",
    ("data/line_files.py", "os.open"): "opens to read",
    ("documents.py", "os.open"): "opens to read",
    ("estimate/fake_step.py", "TemporaryDirectory"): "a private folder, for a step that allocates nothing",
    ("estimate/here.py", "TemporaryDirectory"): "a private folder, for steps that are measured",
    ("interop/exporter.py", "TemporaryDirectory"): "a private folder, for a model that is exported and loaded again",
    ("interop/onnx_export.py", "save"): DRAFTS,
    ("labs/course.py", "save"): "the files of a lab, which it commits",
    ("labs/positions.py", "TemporaryDirectory"): "a private folder, for runs that are not kept",
    ("labs/world.py", "TemporaryDirectory"): "a private folder, for runs that are not kept",
    ("plots/curves.py", "savefig"): MEMORY,
    ("plots/worlds.py", "save"): MEMORY,
    ("runs/budget.py", "TemporaryDirectory"): "a private folder, for a throwaway copy of the model that is measured",
    ("runs/import_folder.py", "save"): MEMORY,
    ("runs/jobs.py", "tofile"): DRAFTS,
    ("runs/train.py", "TemporaryDirectory"): "a private folder, for the cache of a dry run",
    ("runs/train.py", "mkdir"): "in that folder",
    ("runs/train.py", "symlink_to"): "in that folder",
    ("serving/verbs.py", "TemporaryDirectory"): "a private folder, for the files of one request",
    ("serving/verbs.py", "write_bytes"): "in that folder",
    ("training/checkpoint_writer.py", "save"): "a checkpoint, which `Checkpoints.save` commits",
    ("training/ranks.py", "touch"): "a mark for the launcher, in its private folder",
    ("training/shards.py", "open"): DRAFTS,
    ("training/shards.py", "os.pwrite"): DRAFTS,
    ("training/trainer.py", "save"): "a checkpoint, which `Checkpoints.save` commits",
}

OF_OS = (
    "open", "fdopen", "mkdir", "makedirs", "mkfifo", "mknod", "rename", "renames", "replace", "remove",
    "unlink", "rmdir", "removedirs", "symlink", "link", "truncate", "ftruncate", "chmod", "fchmod", "lchmod",
    "chown", "fchown", "lchown", "utime", "write", "pwrite", "copy_file_range", "sendfile",
)  # fmt: skip
OF_SHUTIL = (
    "copy", "copy2", "copyfile", "copyfileobj", "copymode", "copystat", "copytree", "move", "rmtree", "chown",
    "make_archive", "unpack_archive",
)  # fmt: skip
METHODS = (
    "write_text", "write_bytes", "tofile", "mkdir", "unlink", "rmdir", "touch", "symlink_to", "hardlink_to",
    "chmod", "lchmod", "savefig", "save", "savez", "savetxt", "save_file", "save_pretrained", "to_csv",
    "to_parquet", "extractall", "extract", "open_memmap", "SummaryWriter", "FileWriter", "mkstemp", "mkdtemp",
    "NamedTemporaryFile", "TemporaryFile", "TemporaryDirectory", "SpooledTemporaryFile",
)  # fmt: skip
ONE_ARGUMENT = ("rename", "replace")  # of a path; a text's `replace` has two


def called(node: ast.Call) -> tuple[str, str]:
    """What a call is of, and its name: ("os", "rename"), ("", "open")."""
    if isinstance(node.func, ast.Attribute):
        return (node.func.value.id if isinstance(node.func.value, ast.Name) else "?"), node.func.attr
    return "", node.func.id if isinstance(node.func, ast.Name) else ""


def may_write(node: ast.Call) -> str:
    """The name of a call that could change a file, else an empty text."""
    owner, name = called(node)
    if node.args and isinstance(node.args[0], ast.Attribute) and node.args[0].attr == "devnull":
        return ""
    if owner in ("os", "shutil"):
        return f"{owner}.{name}" if name in (OF_OS if owner == "os" else OF_SHUTIL) else ""
    if name in METHODS:
        return name
    if name in ONE_ARGUMENT:
        return name if owner and len(node.args) == 1 and not node.keywords else ""
    if name in ("open", "FileIO", "memmap"):
        modes = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        modes = [mode for mode in modes if re.fullmatch(r"[rwaxbtc+]{1,3}", mode)]
        modes += [
            str(each.value.value) if isinstance(each.value, ast.Constant) else "?"
            for each in node.keywords
            if each.arg == "mode"
        ]
        default = "r+" if name == "memmap" else "r"
        return name if any(letter in (modes or [default])[0] for letter in "wax+c?") else ""
    return ""


def writers(text: str) -> Iterator[tuple[str, int]]:
    """Each call that could change a file, with its line; also one that is only handed on, as `array.tofile`."""
    tree = ast.parse(text)
    functions = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (name := may_write(node)):
            yield name, node.lineno
        elif isinstance(node, ast.Attribute) and node.attr in METHODS and id(node) not in functions:
            yield node.attr, node.lineno


def test_only_storage_changes_files():
    found: dict[tuple[str, str], int] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        if place.split("/")[0] not in EXEMPT:
            found |= {(place, name): line for name, line in writers(path.read_text())}
    unknown = [f"{place}:{line}: {name}" for (place, name), line in found.items() if (place, name) not in ALLOWED]
    assert unknown == [], "use headway.storage.commit, or say in ALLOWED why not"
    assert sorted(set(ALLOWED) - set(found)) == [], "an exception that no code needs any more"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("open(p, 'w')", "open"),
        ("p.open('ab')", "open"),
        ("p.open(mode='x')", "open"),
        ("p.open(mode=how)", "open"),
        ("open(p)", None),
        ("p.open('rb')", None),
        ("gzip.open(p, 'rb')", None),
        ("Image.open(file, formats=FORMATS)", None),
        ("p.write_text(t)", "write_text"),
        ("draft.write(name, array.tofile)", "tofile"),
        ("os.replace(a, b)", "os.replace"),
        ("p.replace(q)", "replace"),
        ("text.replace('a', 'b')", None),
        ("replace(config, steps=2)", None),
        ("np.memmap(p, np.uint8)", "memmap"),
        ("np.memmap(p, np.uint8, 'r')", None),
        ("np.memmap(p, mode='r')", None),
        ("shutil.rmtree(p)", "shutil.rmtree"),
        ("names.remove(n)", None),
        ("os.open(os.devnull, os.O_WRONLY)", None),
        ("tempfile.mkdtemp()", "mkdtemp"),
    ],
)
def test_a_call_that_could_write_is_noticed(text, name):
    assert next((found for found, _ in writers(text)), None) == name
