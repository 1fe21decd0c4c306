"""Accept the files of a run as they are: a new manifest over them."""

from __future__ import annotations

from pathlib import Path

from headway.errors import ConfigError, NoRunError
from headway.interop.hf_reference import REFERENCE
from headway.runs.folder import CONFIG, DATA, TOKENIZERS, no_such_run, read_config, read_tokenizers
from headway.storage.locks import locked
from headway.storage.manifest import data_fingerprint
from headway.storage.run_manifest import RunFiles, commit_run_files, read_run_manifest, run_id
from headway.training.checkpoints import Checkpoints


def seal_run(folder: Path) -> list[str]:
    """Write the manifest of a run anew, over its files as they are -> the files that changed since the last one.

    The config and the tokenizers must be readable, and all checkpoints of one run. Raises NoRunError, ConfigError if
    they are not, or while the run is being trained.
    """
    if not (folder / CONFIG).is_file():
        raise NoRunError(no_such_run(folder))
    with locked(folder):
        files = RunFiles(folder, checked=False)
        config = read_config(folder, files)
        read_tokenizers(folder, config.data.marks, files)
        names = [name for pattern in (CONFIG, DATA, TOKENIZERS, REFERENCE) for name in files.names(pattern)]
        content = {name: files.read(name, "document-bytes") for name in names}
        checkpoints = Checkpoints(folder)
        runs, adopted = checkpoints.runs(), checkpoints.without_run()
        if len(runs) > 1:
            raise ConfigError(
                f"{checkpoints.folder}: checkpoints of {len(runs)} runs; remove those that do not belong to this run"
            )
        before = _known(folder)
        commit_run_files(folder, content, run=next(iter(runs), run_id(content, adopted)), adopted=adopted)
        return [name for name, data in content.items() if before.get(name) != data_fingerprint(data)]


def _known(folder: Path) -> dict[str, object]:
    try:
        found = read_run_manifest(folder)
    except NoRunError:  # damaged: to be replaced
        return {}
    return {} if found is None else dict(found.files)
