"""Optional packages: what each extra installs, and a command that installs it into this environment.

The command depends on how headway was installed, which pip records (PEP 610). From a folder, the extra of that folder
is named. From a wheel or an index, the packages themselves are, as the index that pip asks may not have headway.
"""

from __future__ import annotations

import importlib
import shlex
import shutil
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from headway.documents import parse_json
from headway.errors import ConfigError, DataError, HeadwayError, one_line

EXTRAS = {  # the packages of each extra; pyproject.toml adds their versions
    "hf": ("transformers",),
    "mlflow": ("mlflow",),
    "onnx": ("onnx", "onnxscript", "onnxruntime"),
    "parquet": ("pyarrow",),
    "serve": ("uvicorn", "h11"),
    "tensorboard": ("tensorboard",),
    "wandb": ("wandb",),
    "world": ("gymnasium", "minigrid"),
}


def import_extra(module: str, extra: str, what: str, error: type[HeadwayError] = ConfigError) -> Any:
    """Import a module of an extra for `what`. Raises `error`, with a command that installs the extra, if it cannot."""
    try:
        return importlib.import_module(module)
    except ImportError as failure:
        raise error(missing(extra, what, failure)) from failure


def missing(extra: str, what: str, failure: ImportError | None = None) -> str:
    """One line: what needs which packages of an extra, and a command that installs them."""
    packages = [package for package in EXTRAS[extra] if not _installed(package)]
    if packages or failure is None:
        packages, reason = packages or list(EXTRAS[extra]), ""
    else:  # all are there, and one is damaged or does not fit the others
        packages, reason = list(EXTRAS[extra]), f", whose import fails here ({one_line(failure)})"
    return f"{what} needs {', '.join(packages)}{reason}: {install_command(packages, extra)}"


def install_command(packages: Sequence[str], extra: str = "") -> str:
    """A command that installs packages into this environment, by the extra they belong to where that is possible."""
    folder, editable = _source_folder()
    if folder is None or not extra:
        return f"{_pip_install()} {shlex.join(packages)}"
    return f"{_pip_install()} {'-e ' if editable else ''}{shlex.quote(f'{folder}[{extra}]')}"


def _installed(package: str) -> bool:
    from importlib import metadata

    try:
        metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def _source_folder() -> tuple[Path | None, bool]:
    """The folder headway was installed from, and whether as editable; None if from elsewhere, or if it is gone."""
    from importlib import metadata

    try:
        record = parse_json(metadata.distribution("headway").read_text("direct_url.json") or "{}", "direct_url.json")
        address, editable = urlsplit(record["url"]), bool(record["dir_info"].get("editable"))
    except (metadata.PackageNotFoundError, DataError, ValueError, KeyError, TypeError, AttributeError):
        return None, False
    folder = Path(unquote(address.path))
    if address.scheme != "file" or not (folder / "pyproject.toml").is_file():
        return None, False
    return folder, editable


def _pip_install() -> str:
    """`pip install` for this environment: by name if its pip is the first on PATH, or else by its interpreter."""
    pip, python = shutil.which("pip"), Path(sys.executable)
    if pip is not None and Path(pip).parent == python.parent:
        return "pip install"
    # Not importlib.util.find_spec: setuptools' finder warns about distutils when it is asked for pip.
    if PathFinder.find_spec("pip") is not None:
        return f"{shlex.quote(str(python))} -m pip install"
    return f"uv pip install --python {shlex.quote(str(python))}"  # uv makes environments without pip
