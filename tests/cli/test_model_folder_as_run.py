"""A Hugging Face model folder where a run is expected: the message has the command that makes a run of it."""

from __future__ import annotations

import pytest

from headway.cli import main
from tests.interop.folders import write_gpt2


@pytest.mark.parametrize("exported", [False, True])
@pytest.mark.parametrize("command", [["info"], ["evaluate"], ["score"], ["seal"]], ids=lambda words: words[0])
def test_a_model_folder_is_not_a_run_and_import_makes_one(tmp_path, capsys, command, exported):
    folder = tmp_path / "model"
    write_gpt2(folder)
    if exported:  # its manifest is that of a folder, not of a run
        (folder / "MANIFEST.json").write_text('{"files": {}}')
    assert main([*command, str(folder)]) == 4
    said = capsys.readouterr().err
    assert f"headway import {folder}" in said
    assert "Hugging Face model folder" in said
    assert "seal" not in said
