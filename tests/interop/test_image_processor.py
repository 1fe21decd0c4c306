"""Vision transformers come in, classify, are judged on folders by their own class names, and go out again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor

import headway
from headway.cli import main
from headway.data.config import DataConfig
from headway.models import VitConfig, build_model
from headway.nn.patches import Shifted
from headway.runs.config import RunConfig
from headway.runs.folder import write_run_files
from headway.tasks.image_classification import Classification
from headway.training.checkpoints import Checkpoints
from headway.training.config import TrainConfig

hf = pytest.importorskip("transformers")

NAMES = ("cats", "dogs", "fish")
SIZES = {"hidden_size": 32, "intermediate_size": 52, "num_hidden_layers": 2, "num_attention_heads": 4}
MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)


def write_theirs(folder: Path) -> Path:
    """A folder as transformers saves it."""
    torch.manual_seed(0)
    named = {"id2label": dict(enumerate(NAMES)), "label2id": {name: n for n, name in enumerate(NAMES)}}
    hf.ViTForImageClassification(hf.ViTConfig(**SIZES, image_size=12, patch_size=4, **named)).save_pretrained(folder)
    hf.ViTImageProcessor(size={"height": 12, "width": 12}, image_mean=MEAN, image_std=STD).save_pretrained(folder)
    return folder


def photos(folder: Path, names: tuple[str, ...]) -> str:
    for name in names:
        (folder / name).mkdir(parents=True)
        for n in range(3):
            Image.effect_noise((20, 14), 20 + n).save(folder / name / f"{n}.png")
    return str(folder)


def write_run(folder: Path, model: VitConfig) -> Path:
    """A run of stirred weights, as training leaves one."""
    torch.manual_seed(0)
    built = build_model(model)
    weights = {name: x + 0.1 * torch.randn_like(x) for name, x in built.state_dict().items()}
    task, data = Classification(size=model.size[0], mean=MEAN, std=STD), DataConfig(classes=NAMES)
    config = RunConfig(task=task, data=data, model=model, train=TrainConfig())
    write_run_files(folder, config, {})
    Checkpoints(folder).save(1, weights, {}, {"step": 1})
    return folder


def test_an_imported_model_is_judged_by_its_own_class_names(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    run = str(tmp_path / "run")
    assert main(["import", str(write_theirs(tmp_path / "a")), "--out", run]) == 0
    capsys.readouterr()
    assert main(["evaluate", run, "--data", photos(tmp_path / "some", NAMES[1:]), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["images"] == 6
    assert main(["evaluate", run, "--data", photos(tmp_path / "other", ("cars", "trucks"))]) == 3
    said = capsys.readouterr().err
    assert "no folder has the name of a class; folders: cars, trucks; classes: cats, dogs, fish" in said


def test_what_came_in_goes_out_with_its_scaling_and_names(tmp_path):
    assert main(["import", str(write_theirs(tmp_path / "a")), "--out", str(tmp_path / "run")]) == 0
    assert main(["export", str(tmp_path / "run"), "--out", str(tmp_path / "out")]) == 0
    model = hf.AutoModelForImageClassification.from_pretrained(tmp_path / "out")
    assert tuple(model.config.id2label[n] for n in range(3)) == NAMES
    assert json.loads((tmp_path / "out/PROOF.json").read_text())["holds"]
    image = Image.linear_gradient("L").resize((40, 24)).convert("RGB")
    image.save(tmp_path / "x.png")
    pixels = hf.AutoImageProcessor.from_pretrained(tmp_path / "out")(image, return_tensors="pt")
    with torch.no_grad():
        theirs = model(**pixels).logits.softmax(-1)[0]
    ours = dict(headway.load(tmp_path / "run", device="cpu").classify([tmp_path / "x.png"])[0].top)
    # They resize to whole pixels before they cut, headway cuts and resizes at once.
    assert ours == pytest.approx({name: float(theirs[n]) for n, name in enumerate(NAMES)}, abs=5e-3)


def test_a_trained_run_goes_out_and_a_part_without_equivalent_is_named(tmp_path, capsys):
    sizes = {"classes": 3, "image": 12, "patch": 4, "width": 16, "layers": 2, "heads": 4, "inner": 24}
    run = write_run(tmp_path / "plain", VitConfig(**sizes, qkv_bias=False, start="small-data"))
    assert main(["export", str(run), "--out", str(tmp_path / "out")]) == 0
    assert hf.AutoModelForImageClassification.from_pretrained(tmp_path / "out").config.qkv_bias is False
    capsys.readouterr()
    for name, parts in (("patches", {"patches": Shifted()}), ("local", {"local": True})):
        run = write_run(tmp_path / name, VitConfig(**sizes, **parts))
        assert main(["export", str(run), "--out", str(tmp_path / "none")]) == 2
        assert name in capsys.readouterr().err
        assert not (tmp_path / "none").exists()


def timm_tensors(width: int, inner: int, tokens: int) -> dict[str, Tensor]:
    """The tensors of timm's vit_tiny with patches of 4 and two layers."""
    drawn = torch.Generator().manual_seed(0)
    shapes = {
        "cls_token": (1, 1, width), "pos_embed": (1, tokens, width), "patch_embed.proj.weight": (width, 3, 4, 4),
        "patch_embed.proj.bias": (width,), "norm.weight": (width,), "norm.bias": (width,), "head.weight": (3, width),
        "head.bias": (3,),
    }  # fmt: skip
    for i in range(2):
        for name, rows, columns in (
            ("attn.qkv", 3 * width, width), ("attn.proj", width, width), ("mlp.fc1", inner, width),
            ("mlp.fc2", width, inner),
        ):  # fmt: skip
            shapes |= {f"blocks.{i}.{name}.weight": (rows, columns), f"blocks.{i}.{name}.bias": (rows,)}
        for name in ("norm1", "norm2"):
            shapes |= {f"blocks.{i}.{name}.weight": (width,), f"blocks.{i}.{name}.bias": (width,)}
    return {name: torch.randn(shape, generator=drawn) * 0.2 for name, shape in shapes.items()}


def by_hand(tensors: dict[str, Tensor], images: Tensor, heads: int) -> Tensor:
    """timm's forward pass, written from its description: pre-norm, an eps of 1e-6, the class token's head."""
    F = torch.nn.functional

    def norm(x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], tensors[f"{name}.weight"], tensors[f"{name}.bias"], 1e-6)

    def linear(x: Tensor, name: str) -> Tensor:
        return F.linear(x, tensors[f"{name}.weight"], tensors[f"{name}.bias"])

    x = F.conv2d(images, tensors["patch_embed.proj.weight"], tensors["patch_embed.proj.bias"], stride=4)
    x = torch.cat([tensors["cls_token"].expand(len(x), -1, -1), x.flatten(2).mT], 1) + tensors["pos_embed"]
    for i in range(2):
        q, k, v = linear(norm(x, f"blocks.{i}.norm1"), f"blocks.{i}.attn.qkv").chunk(3, -1)
        q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in (q, k, v))
        seen = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
        x = x + linear(seen.transpose(1, 2).flatten(2), f"blocks.{i}.attn.proj")
        x = x + linear(F.gelu(linear(norm(x, f"blocks.{i}.norm2"), f"blocks.{i}.mlp.fc1")), f"blocks.{i}.mlp.fc2")
    return linear(norm(x, "norm")[:, 0], "head")


def test_timms_names_are_known(tmp_path, capsys):
    tensors = timm_tensors(12, 20, 10)
    (tmp_path / "a").mkdir()
    save_file(tensors, tmp_path / "a/model.safetensors")
    given = {"input_size": [3, 12, 12], "mean": list(MEAN), "std": list(STD)}
    config = {"architecture": "vit_tiny_patch4_12", "num_classes": 3, "global_pool": "token", "pretrained_cfg": given}
    (tmp_path / "a/config.json").write_text(json.dumps(config))
    assert main(["import", str(tmp_path / "a"), "--out", str(tmp_path / "run")]) == 0
    run = headway.load(tmp_path / "run", device="cpu")
    assert run.config.task.mean == MEAN
    images = torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        torch.testing.assert_close(run.model(images), by_hand(tensors, images, 3), atol=1e-5, rtol=1e-5)
    image = Path(photos(tmp_path / "b", ("cats",))) / "cats/0.png"
    capsys.readouterr()
    assert main(["classify", str(tmp_path / "run"), str(image), "--top", "1"]) == 0
    assert capsys.readouterr().out.startswith(f"{image}\t")
    assert main(["export", str(tmp_path / "run"), "--out", str(tmp_path / "out")]) == 0
