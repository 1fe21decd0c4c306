"""Runs that read images and sounds, and runs that act."""

from __future__ import annotations

from golden_cases.common import DECISION, LAKE, ONCE, SHORT, VIT, captured, export, group, resumed, train, verbs
from golden_cases.recorder import Recorder


@group
def images(rec: Recorder) -> None:
    """Image and sound classifiers, and fine-tuning."""
    photos = "--data photos --task.size 16"
    vit = f"sl-vit {photos} {VIT} --model.image 16"
    for run, words in {
        "vit": vit,
        "vit-plain": f"vit-ti16 {photos} {VIT} --model.image 16 --model.patch 4",
        "convnet": f"convnet {photos} --model.widths 4,6 --model.blocks 1 --train.batch_tokens 8",
        "audio": f"audio-vit --data sounds {VIT} --model.image 32 --model.patch 8 --task.size 32 "
        "--task.sound.rate 8000 --task.sound.seconds 0.5",
    }.items():
        folder = train(rec, run, words)
        given = "sound.wav" if run == "audio" else "photo.png"
        verbs(rec, run, folder, given=given)
        file = "sound.wav" if run == "audio" else "photos/disc/0.png photo.png"
        rec.command(f"{run}/classify-lines", f"classify {folder} {file} --top 1")
        rec.command(f"{run}/classify-top", f"classify {folder} {file} --top 2 --json --out {run}-out.png")
        rec.file(f"{run}/classified.png", f"{run}-out.png")
        for precision in ("int8", "bf16"):
            rec.command(f"{run}/classify-{precision}", f"classify {folder} {file} --precision {precision} --json")
        rec.command(f"{run}/classify-patches", f"classify {folder} {file} --patches {run}-patches.png")
        rec.file(f"{run}/patches.png", f"{run}-patches.png")
        rec.command(f"{run}/evaluate-files", f"evaluate {folder} --split val --out {run}.txt --plot {run}.png --json")
        rec.file(f"{run}/said.txt", f"{run}.txt")
        rec.file(f"{run}/confusion.png", f"{run}.png")
        rec.command(f"{run}/verify-file", f"verify {folder} {file.split()[0]} --json")
        captured(rec, run, folder, lambda loaded, given=given: loaded.classify([given]))
    resumed(rec, "vit", vit)
    train(rec, "vit-tuned", f"vit-ti16 --init runs/vit-plain {photos} --task.size 20 --train.batch_tokens 8")
    train(rec, "vit-kept", f"vit-ti16 --init runs/vit-plain {photos} --train.batch_tokens 8", settings=ONCE)
    rec.command("vit/verify-report", "verify runs/vit", kind="report")
    rec.command("vit/evaluate-photos", "evaluate runs/vit --data photos --json")
    export(rec, "vit-plain/export-onnx", "runs/vit-plain", "--onnx")


@group
def captions(rec: Recorder) -> None:
    """Captioners, recurrent and transformer."""
    where = "--data described --task.size 16 --model.image 16 --train.batch_tokens 8"
    models = {
        "captioner-rnn": "--model.widths 4,8 --model.width 8 --model.decoder.hidden 8 --model.attention.width 4",
        "captioner-vit": "--model.patch 8 --model.patches.widths 4,6,8 --model.width 16 --model.inner 16 "
        "--model.heads 2 --model.encoder_layers 1 --model.decoder_layers 1",
    }
    for run, sizes in models.items():
        words = f"{run} {where} {sizes}"
        folder = train(rec, run, words)
        verbs(rec, run, folder, given="photo.png")
        resumed(rec, run, words)
        files = "described/0.png photo.png"
        rec.command(f"{run}/caption-lines", f"caption {folder} {files} --beam 1")
        rec.command(f"{run}/caption-beam", f"caption {folder} {files} --beam 4 --json --out {run}-out.png")
        rec.file(f"{run}/captioned.png", f"{run}-out.png")
        rec.command(f"{run}/caption-int8", f"caption {folder} {files} --precision int8 --json")
        rec.command(f"{run}/caption-attention", f"caption {folder} {files} --attention {run}-attention.png")
        rec.file(f"{run}/attention.png", f"{run}-attention.png")
        rec.command(f"{run}/evaluate-files", f"evaluate {folder} --split train --beam 2 --out {run}.txt --json")
        rec.file(f"{run}/said.txt", f"{run}.txt")
        rec.command(f"{run}/verify-file", f"verify {folder} described/0.png --json")
        captured(rec, run, folder, lambda loaded: loaded.caption(["photo.png"], beam=2))


@group
def pose(rec: Recorder) -> None:
    """Keypoints, from a folder in COCO's layout."""
    words = f"pose --data people --task.size 32 --model.image 32 {VIT} --model.head.width 8"
    run = train(rec, "pose", words)
    verbs(rec, "pose", run, given="figure.png")
    resumed(rec, "pose", words)
    rec.command("pose/pose-lines", f"pose {run} figure.png photo.png --out skeleton.png")
    rec.file("pose/skeleton.png", "skeleton.png")
    rec.command("pose/pose-int8", f"pose {run} figure.png --precision int8 --json")
    rec.command("pose/evaluate-val", f"evaluate {run} --split val --json")
    rec.command("pose/verify-file", f"verify {run} figure.png --json")
    rec.command("pose/verify-missing", f"verify {run} missing.png --json")
    captured(rec, "pose", run, lambda loaded: loaded.pose(["figure.png"]))
    train(rec, "pose-simple", words.replace("--model.head.width 8", "--model.head simple-head"), settings=ONCE)


@group
def world(rec: Recorder) -> None:
    """World models: a lake, a pole and pixels."""
    lake = f"world-frozenlake {LAKE}"
    run = train(rec, "world-frozenlake", lake)
    verbs(rec, "world-frozenlake", run)
    resumed(rec, "world-frozenlake", lake)
    rec.command("world-frozenlake/play-report", f"play {run} --episodes 3 --seed 5 --render lake.gif", kind="report")
    rec.file("world-frozenlake/played.gif", "lake.gif")
    rec.command("world-frozenlake/evaluate-other", f"evaluate {run} --data CartPole-v1 --json")


@group
def worlds(rec: Recorder) -> None:
    """The other environments, without the commands that every run is asked."""
    train(rec, "world-cartpole", f"world-cartpole {LAKE}")
    rec.command("world-cartpole/evaluate", "evaluate runs/world-cartpole --json")
    pixels = f"world-minigrid-pixels {LAKE} --task.round.code 1 --task.round.world 1 --task.length 4"
    train(rec, "world-pixels", pixels, settings=f"{SHORT} --train.steps 3", kept=False)
    train(rec, "world-minigrid", f"world-minigrid {LAKE} --task.length 4", settings=f"{SHORT} --train.steps 3")
    train(rec, "decision-of-world", f"decision-cartpole --data runs/world-cartpole {DECISION}", settings=ONCE)


@group
def decision(rec: Recorder) -> None:
    """A decision transformer."""
    words = f"decision-cartpole {DECISION} --task.targets 10,30"
    run = train(rec, "decision-cartpole", words)
    verbs(rec, "decision-cartpole", run)
    resumed(rec, "decision-cartpole", words)
    rec.command("decision-cartpole/play-report", f"play {run} --episodes 2", kind="report")
    rec.command("decision-cartpole/play-render", f"play {run} --episodes 1 --render a.gif")
