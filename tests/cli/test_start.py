"""What a command waits for before it does its work: nothing that only other commands need."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import headway
from headway import models
from headway.config import kind
from headway.models import EncoderDecoderConfig
from headway.runs import load
from headway.runs.config import TaskConfig
from tests.interop.runs import write_run

HEAVY = (
    "PIL", "gymnasium", "lxml", "matplotlib", "pyarrow", "rich", "sacrebleu", "sympy", "torch._dynamo",
    "torch._inductor", "triton", "headway.data.datasets", "headway.metrics", "headway.models.vit",
    "headway.ops.fused_gelu", "headway.decoding.constraint_state",
    "headway.ops.kernels.triton_flash.launch", "headway.ops.kernels.triton_small.launch",
    "headway.tasks.captioning.training",
    "headway.tasks.language_modelling.training", "headway.training.trainer",
)  # fmt: skip
START = """
import json, sys
from headway.cli import main
code = main(sys.argv[1:])
print(json.dumps({"code": code, "modules": sorted(sys.modules)}))
"""


def test_a_translation_in_eight_bits_starts_without_what_it_does_not_use(tmp_path):
    folder = write_run(tmp_path / "run", EncoderDecoderConfig(vocab=1))
    said = load(folder, precision="int8", device="cpu").translate(["the cat"], beam=1)  # and keeps the copy
    command = ["translate", str(folder), "the cat", "--precision", "int8", "--beam", "1", "--device", "cpu"]
    done = subprocess.run([sys.executable, "-c", START, *command], capture_output=True, text=True, check=True)
    line, told = done.stdout.splitlines()
    found = json.loads(told)
    assert (found["code"], line) == (0, said[0])
    assert "headway.models.encoder_decoder" in found["modules"]
    assert [name for name in HEAVY if name in found["modules"]] == []


def test_help_waits_for_nothing_but_the_command_line():
    """A quarter of its time was `dataclasses`, which one command used; torch would be fifty times as much."""
    plain = subprocess.run([sys.executable, "-c", "import sys; print(*sys.modules)"], capture_output=True, text=True)
    start = START.replace(
        "code = main",
        "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()), "
        "contextlib.suppress(SystemExit):\n    code = main",
    ).replace('"code": code', '"code": 0')
    done = subprocess.run([sys.executable, "-c", start, "--help"], capture_output=True, text=True, check=True)
    loaded = {*json.loads(done.stdout)["modules"]} - {*plain.stdout.split()}
    allowed_packages = {"headway", "headway.cli", "headway.training"}
    heavy = {"dataclasses", "inspect", "platform", "torch", "numpy", "rich", "yaml", "importlib.metadata", "traceback"}
    assert not loaded & heavy
    own = {name for name in loaded if name.startswith("headway.") and not name.startswith("headway.cli")}
    assert own <= {"headway._lazy", "headway.counts", "headway.errors", "headway.limits", "headway.suggestions",
                   "headway.training.quantities", *allowed_packages}  # fmt: skip


def test_an_eight_bit_copy_can_be_made_ready_before_attention_is_imported():
    """Packing its weights takes a thread as long as the rest of the imports take; it must have begun before them."""
    ask = "import sys, headway.runs.int8_copy; print('headway.ops' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("package", [headway, models])
def test_every_name_a_package_offers_is_there(package):
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        package.nonsense  # noqa: B018


def test_every_config_goes_by_the_name_of_its_class():
    assert models.ModelConfig is models.MODELS
    for choice in (models.MODELS, TaskConfig):
        for name, home in choice.homes.items():
            module, _, wanted = home.partition(":")
            assert (kind(choice[name]), choice[name].__name__) == (name, wanted)
            assert choice[name].__module__.startswith(module)
