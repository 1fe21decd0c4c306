"""How threads wait for each other on a machine that other processes use too."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from headway import cores


@pytest.mark.parametrize(
    ("load", "given", "expected"),
    [
        (0.1, {}, None),  # an idle machine: torch waits as it does by itself
        (1.2, {}, cores.SPINS),
        (1.2, {"GOMP_SPINCOUNT": "7"}, "7"),  # what the user chose stays
        (1.2, {"OMP_WAIT_POLICY": "ACTIVE"}, None),
    ],
)
def test_threads_sleep_early_where_other_processes_compute(monkeypatch, load, given, expected):
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    cores.let_threads_sleep()
    assert os.environ.get("GOMP_SPINCOUNT") == expected


def test_a_command_sets_it_before_torch_is_imported(tmp_path):
    code = (
        "import os, sys\n"
        "os.getloadavg = lambda: (9.0, 9.0, 9.0)\n"
        "import headway.cli\n"
        "assert 'torch' not in sys.modules\n"
        "headway.cli.import_module = lambda name: print(os.environ['GOMP_SPINCOUNT'], 'torch' in sys.modules)\n"
        "headway.cli._import_torch()\n"
    )
    environment = {
        name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    }
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == [cores.SPINS, "False"]
