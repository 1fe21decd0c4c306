"""A model folder becomes a run like any other, whole or not at all."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor

import headway
from headway.cli import main
from headway.errors import BadModelError, ConfigError
from headway.runs.import_folder import import_folder
from headway.storage.manifest import problems
from headway.training.checkpoints import Checkpoints
from tests.interop import peers
from tests.interop.folders import CONFIG, characters, gpt2_tensors, write_gpt2

COMMANDS = ("generate --prompt ab --max-tokens 3 --temperature 0", "score ab,c", "evaluate --data {text} --json")


def weights(run: Path) -> Path:
    return Checkpoints(run).path(0) / "model.safetensors"


def test_an_imported_run_is_a_run(tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["import", str(write_gpt2(tmp_path / "a")), "--out", str(run)]) == 0
    assert "self-check: finite" in capsys.readouterr().err
    assert problems(Checkpoints(run).path(0)) == []
    assert sorted(path.name for path in run.iterdir()) == [
        "MANIFEST.json",
        "checkpoints",
        "config.yaml",
        "latest.json",
        "tokenizer.json",
    ]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    text = tmp_path / "text.txt"
    text.write_text("abc, def.\n" * 60)
    for command in COMMANDS:
        name, *rest = command.format(text=text).split()
        assert main([name, str(run), *rest]) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert said.startswith("ab")
    assert "loss" in json.loads(said.splitlines()[-1])
    assert main(["evaluate", str(run)]) == 2
    assert "--data" in capsys.readouterr().err


NAMES = (
    "gpt2", "bert", "bert-pretraining", "bert-masked", "roformer", "longformer", "longformer-masked", "marian", "bart",
    "llama", "vit",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_what_transformers_saves_computes_the_same_here(name, tmp_path):
    torch.manual_seed(0)
    theirs = peers.TINY[name]().eval()
    peers.unsettle(theirs, 0.2)
    theirs.save_pretrained(tmp_path / "a")
    (tmp_path / "a" / "tokenizer.json").write_text(json.dumps(characters()))
    import_folder(tmp_path / "a", tmp_path / "run")
    run = headway.load(tmp_path / "run", device="cpu")
    inputs = peers.inputs(peers.VOCAB)
    for got, expected in zip(peers.our_outputs(run.model, *inputs), peers.their_outputs(theirs, *inputs), strict=True):
        assert float((got - expected).abs().max()) <= 1e-5 * max(1.0, float(expected.abs().max()))


def test_several_files_give_the_run_one_gives(tmp_path):
    for shards in (1, 3):
        import_folder(write_gpt2(tmp_path / f"a{shards}", shards=shards), tmp_path / f"run{shards}")
    one, other = (sorted((tmp_path / f"run{n}").rglob("*.*")) for n in (1, 3))
    assert [path.name for path in one] == [path.name for path in other]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(one, other, strict=True) if a.is_file())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_half_precision_stays_on_disk_and_computes_in_float32(tmp_path, dtype):
    path = write_gpt2(tmp_path / "a")
    save_file({name: x.to(dtype) for name, x in gpt2_tensors().items()}, path / "model.safetensors")
    import_folder(path, tmp_path / "run")
    kept = {x.dtype for x in load_file(weights(tmp_path / "run")).values()}
    assert kept == {torch.float32 if dtype is torch.float64 else dtype}
    model = headway.load(tmp_path / "run", device="cpu").model
    assert {x.dtype for x in model.parameters()} == {torch.float32}
    expected = gpt2_tensors()["transformer.wte.weight"].to(dtype).float()
    assert torch.equal(model.state_dict()["embedding.weight"], expected)


def test_mixed_precision_becomes_float32(tmp_path):
    path = write_gpt2(tmp_path / "a")
    mixed = {name: x.half() if x.ndim == 2 else x for name, x in gpt2_tensors().items()}
    save_file(mixed, path / "model.safetensors")
    import_folder(path, tmp_path / "run")
    assert {x.dtype for x in load_file(weights(tmp_path / "run")).values()} == {torch.float32}


def refused(tmp_path: Path, tensors: dict[str, Tensor]) -> str:
    path = tmp_path / "a"
    shutil.rmtree(path, ignore_errors=True)
    write_gpt2(path)
    save_file({name: x.contiguous() for name, x in tensors.items()}, path / "model.safetensors")
    with pytest.raises(BadModelError) as error:
        import_folder(path, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    return str(error.value)


@pytest.mark.parametrize("name", gpt2_tensors())
def test_every_tensor_that_is_wrong_is_named(tmp_path, name):
    tensors = gpt2_tensors()
    value = tensors.pop(name)
    assert f"1 wrong: {name} is missing" in refused(tmp_path, tensors)
    assert f"'{name}.new' is not part of the model" in refused(tmp_path, tensors | {f"{name}.new": value})
    turned = value.mT if value.ndim == 2 and value.shape[0] != value.shape[1] else value[:-1]
    assert f"'{name}' has shape {tuple(turned.shape)}" in refused(tmp_path, tensors | {name: turned})
    assert f"'{name}' is I32, expected floats" in refused(tmp_path, tensors | {name: value.int()})
    broken = value.clone()
    broken.view(-1)[0] = float("nan")
    assert f"'{name}' is not finite" in refused(tmp_path, tensors | {name: broken})


def test_a_long_list_of_wrong_tensors_is_counted(tmp_path):
    assert "28 wrong: " in (said := refused(tmp_path, {"x": torch.zeros(1), **dict(list(gpt2_tensors().items())[:1])}))
    assert said.endswith("; and 18 more")


def test_a_tied_matrix_must_be_the_same_both_times(tmp_path):
    tensors = gpt2_tensors()
    path = write_gpt2(tmp_path / "good")
    save_file(tensors | {"lm_head.weight": tensors["transformer.wte.weight"].clone()}, path / "model.safetensors")
    import_folder(path, tmp_path / "run")
    shutil.rmtree(tmp_path / "run")
    said = refused(tmp_path, tensors | {"lm_head.weight": tensors["transformer.wte.weight"] + 1})
    assert "tied and differ" in said


def test_a_run_that_is_there_stays(tmp_path, capsys):
    path, run = write_gpt2(tmp_path / "a"), tmp_path / "run"
    run.mkdir()
    import_folder(path, run)  # an empty folder is no run
    before = {file: file.stat().st_mtime_ns for file in run.rglob("*")}
    with pytest.raises(ConfigError, match="exists already"):
        import_folder(path, run)
    assert main(["import", str(path), "--out", str(run)]) == 2
    assert {file: file.stat().st_mtime_ns for file in run.rglob("*")} == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "run"]


def test_an_interrupt_leaves_nothing(tmp_path):
    def interrupted(done: int, all: int) -> None:
        raise KeyboardInterrupt

    path = write_gpt2(tmp_path / "a")
    with pytest.raises(KeyboardInterrupt):
        import_folder(path, tmp_path / "run", interrupted)
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_stop_tokens_come_from_the_config(tmp_path, capsys):
    path = write_gpt2(tmp_path / "a")
    (path / "generation_config.json").write_text(json.dumps({"eos_token_id": [3, 59], "bos_token_id": 58}))
    import_folder(path, tmp_path / "run")
    marks = headway.load(tmp_path / "run", device="cpu").tokenizer.marks
    assert marks is not None
    assert (marks.start, marks.stops, marks.before) == (58, (3, 59), ())
    tensors = gpt2_tensors()
    tensors["transformer.ln_f.weight"].zero_()
    tensors["transformer.ln_f.bias"] = 100 * tensors["transformer.wte.weight"][3]  # it says token 3 and nothing else
    shutil.rmtree(tmp_path / "run")
    save_file(tensors, path / "model.safetensors")
    import_folder(path, tmp_path / "run")
    assert main(["generate", str(tmp_path / "run"), "--prompt", "ab", "--temperature", "0"]) == 0
    assert capsys.readouterr().out == "ab\n"


def test_a_marian_folder_translates(tmp_path, capsys):
    torch.manual_seed(0)
    theirs = peers.hf.MarianMTModel(
        peers.hf.MarianConfig(**{**peers.SEQ2SEQ, "eos_token_id": 0, "bad_words_ids": None})
    )
    theirs.save_pretrained(tmp_path / "a")
    config = json.loads((tmp_path / "a/generation_config.json").read_text()) | {"bad_words_ids": [[peers.VOCAB - 1]]}
    (tmp_path / "a/generation_config.json").write_text(json.dumps(config))
    (tmp_path / "a/tokenizer.json").write_text(json.dumps(characters()))
    assert main(["import", str(tmp_path / "a"), "--out", str(tmp_path / "run")]) == 0
    run = headway.load(tmp_path / "run", device="cpu")
    assert run.tokenizer.start == run.tokenizer.pad == peers.VOCAB - 1
    assert run.tokenizer.stop == 0
    assert run.tokenizer.marks.banned == (peers.VOCAB - 1,)
    tokens = run.pipeline.search.outputs(run.model, run.device, ["a cat."], beam=2)
    assert peers.VOCAB - 1 not in tokens[0]
    assert main(["translate", str(tmp_path / "run"), "a cat.", "--max-extra", "3"]) == 0
    assert main(["score", str(tmp_path / "run"), "a cat.\tb"]) == 0
    assert capsys.readouterr().err.count("Traceback") == 0


@pytest.mark.parametrize("change", [{"model_type": "mine"}, {"architectures": ["GPT2DoubleHeadsModel"]}])
def test_what_is_not_known_is_refused_by_name(tmp_path, change):
    path = write_gpt2(tmp_path / "a")
    (path / "config.json").write_text(json.dumps(CONFIG | change))
    with pytest.raises(BadModelError, match=r"there are (gpt2|GPT2)"):
        import_folder(path, tmp_path / "run")


def test_a_folder_without_a_tokenizer_is_refused(tmp_path):
    path = write_gpt2(tmp_path / "a")
    (path / "tokenizer.json").unlink()
    with pytest.raises(BadModelError, match="no tokenizer"):
        import_folder(path, tmp_path / "run")


def picture(path: Path, size: int) -> str:
    Image.effect_noise((size, size), 50).convert("RGB").save(path)
    return str(path)


def test_a_vision_transformer_classifies(tmp_path, capsys):
    torch.manual_seed(0)
    theirs = peers.TINY["vit"]().eval()
    peers.unsettle(theirs, 0.2)
    theirs.save_pretrained(tmp_path / "a")
    scaled = {"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.25, 0.3], "size": {"height": 16, "width": 16}}
    (tmp_path / "a/preprocessor_config.json").write_text(json.dumps(scaled))
    assert main(["import", str(tmp_path / "a"), "--out", str(tmp_path / "run")]) == 0
    run = headway.load(tmp_path / "run", device="cpu")
    assert (run.config.task.mean, run.config.task.std) == ((0.4, 0.5, 0.6), (0.2, 0.25, 0.3))
    image = picture(tmp_path / "x.png", run.config.task.size)
    assert main(["classify", str(tmp_path / "run"), image, "--json", "--top", "7"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["predictions"][0]["top"]
    pixels = torch.from_numpy(np.asarray(Image.open(image)).copy()).permute(2, 0, 1).float() / 255
    mean, std = (torch.tensor(scaled[key]).view(3, 1, 1) for key in ("image_mean", "image_std"))
    with torch.no_grad():
        expected = theirs(((pixels - mean) / std).unsqueeze(0)).logits.softmax(-1)[0]
    assert found == pytest.approx(
        {theirs.config.id2label[n]: expected[n].item() for n in range(len(expected))}, abs=1e-5
    )


def test_timms_own_folder_is_read(tmp_path):
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    theirs = timm.create_model("vit_tiny_patch16_224", img_size=32, num_classes=5, depth=2).eval()
    (tmp_path / "a").mkdir()
    save_file(theirs.state_dict(), tmp_path / "a/model.safetensors")
    given = {"input_size": [3, 32, 32], "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}
    config = {"architecture": "vit_tiny_patch16_224", "num_classes": 5, "global_pool": "token", "pretrained_cfg": given}
    (tmp_path / "a/config.json").write_text(json.dumps(config))
    import_folder(tmp_path / "a", tmp_path / "run")
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        got, expected = headway.load(tmp_path / "run", device="cpu").model(images), theirs(images)
    assert float((got - expected).abs().max()) <= 1e-5 * max(1.0, float(expected.abs().max()))


IMPORT = """
import sys
from pathlib import Path
from headway.runs.import_folder import import_folder
found = import_folder(Path(sys.argv[1]), Path(sys.argv[2]))
# The process's own peak: the one of getrusage is at least what its parent had in memory.
print(int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024)
"""


@pytest.mark.slow  # writes a gigabyte
def test_memory_stays_near_the_files_size(tmp_path):
    from headway.bench.importing import _write

    _write(tmp_path / "a")
    command = [sys.executable, "-c", IMPORT, str(tmp_path / "a"), str(tmp_path / "run")]
    peak = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert peak <= (tmp_path / "a/model.safetensors").stat().st_size * 1.1 + 300 * 2**20


def framed() -> dict:
    """A tokenizer.json of letters that puts its special token around a text."""
    found, mark = characters(), {"SpecialToken": {"id": "<|end|>", "type_id": 0}}
    text = [{"Sequence": {"id": "A", "type_id": 0}}]
    special = {"<|end|>": {"id": "<|end|>", "ids": [59], "tokens": ["<|end|>"]}}
    pair = [mark, *text, mark, {"Sequence": {"id": "B", "type_id": 1}}, mark]
    template = {"type": "TemplateProcessing", "single": [mark, *text, mark], "pair": pair, "special_tokens": special}
    return found | {"post_processor": template}


def test_a_masked_longformer_is_a_run_and_says_what_it_does_not_do(tmp_path, capsys):
    torch.manual_seed(0)
    theirs = peers.TINY["longformer-masked"]().eval()
    peers.unsettle(theirs, 0.2)
    theirs.save_pretrained(tmp_path / "a")
    (tmp_path / "a/tokenizer.json").write_text(json.dumps(framed()))
    run = str(tmp_path / "run")
    assert main(["import", str(tmp_path / "a"), "--out", run]) == 0
    capsys.readouterr()
    assert main(["embed", run, "ab", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["vectors"][0]) == 32
    assert main(["verify", run]) == 0, capsys.readouterr().out
    assert main(["export", run, "--out", str(tmp_path / "b")]) == 0
    assert hf_type(tmp_path / "b") == "LongformerForMaskedLM"
    capsys.readouterr()
    for command in ("score RUN ab", "generate RUN", "translate RUN ab", "classify RUN x.png"):
        assert main(command.replace("RUN", run).split()) == 2, command
        said = capsys.readouterr().err
        assert len(said.splitlines()) == 1
        assert "sentence encoder" in said or "does not classify" in said


def hf_type(folder: Path) -> str:
    return json.loads((folder / "config.json").read_text())["architectures"][0]
