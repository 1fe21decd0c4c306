"""Small data sets in every format that training reads, and how each of their files is damaged."""

from __future__ import annotations

import gzip
import io
import json
import wave
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from headway.data.synthetic import drawing, robots, scattered, shapes, spoken_digits, stick_figures
from headway.reliability.binary_files import (
    damage_gzip,
    damage_idx,
    damage_jpeg,
    damage_npz,
    damage_parquet,
    damage_png,
    damage_wav,
)
from headway.reliability.damage import Damage
from headway.reliability.document_damage import damage_json, damage_json_lines, damage_lines, or_bytes
from headway.reliability.runs import TINY, write_wav

PAIRS = 40
IMAGES = 6  # of each of two classes


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSample:
    """A data set: how its files are written and damaged, and what trains on it."""

    name: str
    write: Callable[[Path], None]  # into an empty folder
    damage: Mapping[str, Damage]  # of the files of a name or ending
    task: str  # of the run that is trained on it
    more: Mapping[str, object] | None = None  # config keys beside those of that task's tiny run
    file: str = ""  # the data set is this file; "": the folder
    preset: str = ""  # "": that of the tiny run
    needs: str | None = None  # an optional module

    @property
    def available(self) -> bool:
        """Whether what it needs is installed."""
        return all(name is None or find_spec(name) is not None for name in (self.needs, TINY[self.task].needs))

    def words(self, folder: Path, cache: Path, out: Path) -> list[str]:
        """`headway train` on the data set in a folder, for one step."""
        tiny = TINY[self.task]
        settings = {
            **tiny.changes, "train.steps": 1, "train.evaluate_every": 1, "train.save_every": 1, "train.device": "cpu",
            "data.cache": cache, **(self.more or {}),
        }  # fmt: skip
        data = folder / self.file if self.file else folder
        words = ["train", self.preset or tiny.preset or "", "--data", str(data), "--out", str(out)]
        return [*words, *(f"--{key}={value}" for key, value in settings.items())]

    def damage_of(self, file: Path) -> Damage:
        """How a file of the set is damaged: by its name, or its ending."""
        return self.damage.get(file.name) or self.damage[file.suffix]


def _text(folder: Path) -> None:
    (folder / "book.txt").write_text("I like dogs.\nYou like cats.\n" * PAIRS)


def _zipped_text(folder: Path) -> None:
    (folder / "book.txt.gz").write_bytes(gzip.compress(("I like dogs.\nYou like cats.\n" * PAIRS).encode(), mtime=0))


def _sentences() -> list[tuple[str, str]]:
    return [(f"{n} 1 2 {n + 3}", f"{n + 3} 2 1 {n}") for n in range(PAIRS)]


def _parallel_files(folder: Path) -> None:
    for split, part in (("train", _sentences()), ("val", _sentences()[:6])):
        (folder / f"{split}.en").write_text("".join(f"{one}\n" for one, _ in part))
        (folder / f"{split}.de").write_text("".join(f"{two}\n" for _, two in part))


def _tsv(folder: Path) -> None:
    (folder / "pairs.tsv").write_text("en\tde\n" + "".join(f"{one}\t{two}\n" for one, two in _sentences()))


def _jsonl(folder: Path) -> None:
    rows = ({"en": one, "de": two} for one, two in _sentences())
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _parquet(folder: Path) -> None:
    _write_parquet(folder / "pairs.parquet", {"en": [a for a, _ in _sentences()], "de": [b for _, b in _sentences()]})


def _write_parquet(path: Path, columns: Mapping[str, Sequence[object]]) -> None:
    pyarrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    parquet.write_table(pyarrow.table(dict(columns)), path)


def _labelled(folder: Path) -> None:
    lines = (f"{'cat' if n % 2 else 'dog'}\tword{n % 7} and word{n % 5}\n" for n in range(PAIRS))
    (folder / "labelled.tsv").write_text("label\ttext\n" + "".join(lines))


def _pictures(count: int) -> list[Image.Image]:
    return [Image.fromarray(pixels.transpose(1, 2, 0)) for pixels in shapes.scenes(count, size=20, seed=3).pixels]


def _class_folders(kind: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for n, image in enumerate(_pictures(2 * IMAGES)):
            place = folder / ("one", "two")[n % 2]
            place.mkdir(exist_ok=True)
            image.save(place / f"{n}.{kind}")

    return write


def _image_parquet(folder: Path) -> None:
    files: list[bytes] = []
    for image in _pictures(2 * IMAGES):
        held = io.BytesIO()
        image.save(held, "PNG")
        files.append(held.getvalue())
    _write_parquet(folder / "train.parquet", {"image": files, "label": [n % 2 for n in range(len(files))]})


def _idx(folder: Path) -> None:
    pixels = np.stack([np.asarray(image.convert("L")) for image in _pictures(2 * IMAGES)])
    labels = bytes(n % 2 for n in range(len(pixels)))
    sizes = b"".join(size.to_bytes(4, "big") for size in pixels.shape)
    (folder / "train-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03" + sizes + pixels.tobytes())
    (folder / "train-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01" + len(labels).to_bytes(4, "big") + labels)
    (folder / "classes.txt").write_text("circle\nsquare\n")


def _cifar(folder: Path) -> None:
    pictures = (np.asarray(image.convert("RGB").resize((32, 32))) for image in _pictures(2 * IMAGES))
    records = (bytes([n % 2]) + pixels.transpose(2, 0, 1).tobytes() for n, pixels in enumerate(pictures))
    (folder / "data_batch_1.bin").write_bytes(b"".join(records))
    (folder / "batches.meta.txt").write_text("circle\nsquare\n")


def _sounds(folder: Path) -> None:
    time = np.arange(4000) / 8000
    for n in range(2 * IMAGES):
        place = folder / ("low", "high")[n % 2]
        place.mkdir(exist_ok=True)
        samples = np.sin(2 * np.pi * (200 + 400 * (n % 2) + n) * time)
        with wave.open(str(place / f"{n}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(8000)
            file.writeframes((samples * 30000).astype("<i2").tobytes())


def _speech(folder: Path) -> None:
    drawn = spoken_digits.spoken_digits(2 * IMAGES, seed=5)
    for n, samples in enumerate(drawn.waves):
        write_wav(folder / f"{n}.wav", samples, drawn.rate)
    rows = "".join(f"{n}.wav,{text}\n" for n, text in enumerate(drawn.texts))
    (folder / "metadata.csv").write_text(f"file,text\n{rows}")


def _captions(kind: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        pixels, said = shapes.captions(2 * IMAGES, size=20, seed=5)
        for n, image in enumerate(pixels):
            Image.fromarray(image.transpose(1, 2, 0)).save(folder / f"{n}.png")
        rows = [(f"{n}.png", text) for n, text in enumerate(said)]
        if kind == "json":
            images = [{"id": n, "file_name": name} for n, (name, _) in enumerate(rows)]
            notes = [{"image_id": n, "caption": text} for n, (_, text) in enumerate(rows)]
            (folder / "captions.json").write_text(json.dumps({"images": images, "annotations": notes}))
        elif kind == "csv":
            (folder / "captions.csv").write_text("image,caption\n" + "".join(f"{a},{b}\n" for a, b in rows))
        else:
            (folder / "captions.txt").write_text("".join(f"{a}#0\t{b}\n" for a, b in rows))

    return write


def _keypoints(folder: Path) -> None:
    found = stick_figures.figures(IMAGES, size=40, seed=4)
    images, people = [], []
    for n, pixels in enumerate(found.pixels):
        Image.fromarray(pixels.transpose(1, 2, 0)).save(folder / f"{n}.png")
        images.append({"id": n, "file_name": f"{n}.png"})
        points = [float(value) for value in found.keypoints[n].reshape(-1)]
        people.append({"image_id": n, "keypoints": points, "bbox": [2, 2, 36, 36], "area": 900.0, "iscrowd": 0})
    (folder / "train.json").write_text(json.dumps({"images": images, "annotations": people}))


def _instances(folder: Path) -> None:
    found = scattered.scattered_shapes(IMAGES, size=40, seed=4)
    images, objects = [], []
    for n, pixels in enumerate(found.pixels):
        Image.fromarray(pixels.transpose(1, 2, 0)).save(folder / f"{n}.png")
        images.append({"id": n, "file_name": f"{n}.png"})
        for (left, top, right, bottom), label in zip(found.boxes[n].tolist(), found.classes[n].tolist(), strict=True):
            if label >= 0:
                box = [left, top, right - left, bottom - top]
                objects.append(
                    {"image_id": n, "category_id": label, "bbox": box, "area": box[2] * box[3], "iscrowd": 0}
                )
    categories = [{"id": number, "name": name} for number, name in enumerate(drawing.SHAPES)]
    tree = {"images": images, "annotations": objects, "categories": categories}
    (folder / "train.json").write_text(json.dumps(tree))


def _vectors(folder: Path) -> None:
    made = robots.swarms(PAIRS, seed=7)
    np.savez(folder / "swarms.npz", x=made.vectors, lengths=made.lengths, y=made.labels)


def _vector_table(folder: Path) -> None:
    made = robots.swarms(PAIRS, seed=7)
    lines = [f"swarm,turn,{','.join(robots.FEATURES)}\n"]
    for n, (vectors, length, label) in enumerate(zip(*made, strict=True)):
        lines += [f"s{n},{robots.CLASSES[label]},{','.join(map(str, row))}\n" for row in vectors[:length].tolist()]
    (folder / "swarms.csv").write_text("".join(lines))


def _columns(folder: Path) -> None:
    sentence = "the O\nold B-X\nhorse I-X\nsleeps O\n\n"
    (folder / "tags.conll").write_text(sentence * PAIRS)


def _tagged_lines(folder: Path) -> None:
    row = json.dumps({"tokens": ["the", "old", "horse"], "tags": ["O", "B-X", "I-X"]})
    (folder / "tags.jsonl").write_text(f"{row}\n" * PAIRS)


def _squad(folder: Path) -> None:
    paragraphs = []
    for number in range(8):
        context = f"horse {number} sleeps in the garden , and horse {number + 1} does not ."
        answer = {"text": "the garden", "answer_start": context.index("the garden")}
        asked: list[dict[str, Any]] = [{"id": f"a{number}", "question": "where does it sleep ?", "answers": [answer]}]
        asked.append({"id": f"b{number}", "question": "who sings ?", "answers": [], "is_impossible": True})
        paragraphs.append({"context": context, "qas": asked})
    (folder / "squad.json").write_text(
        json.dumps({"version": "v2.0", "data": [{"title": "x", "paragraphs": paragraphs}]})
    )


def _choice_lines(folder: Path) -> None:
    rows = [
        {"context": f"horse {n} sleeps", "question": "who sleeps ?", "choices": [f"horse {n}", "cow"], "answer": n % 2}
        for n in range(8)
    ]
    (folder / "choices.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _choice_table(folder: Path) -> None:
    rows = [f"horse {n} sleeps,who sleeps ?,horse {n},cow,{'AB'[n % 2]}" for n in range(8)]
    (folder / "choices.csv").write_text("\n".join(["context,question,choice1,choice2,answer", *rows]) + "\n")


PARALLEL = {"data.source": "en", "data.target": "de"}
SIZE_OF_SOUNDS = {
    "model.image": 16, "model.patch": 4, "model.channels": 1, "task.size": 16, "task.sound.rate": 8000,
    "task.sound.seconds": 0.5, "task.sound.window": 256,
}  # fmt: skip
LINES, DOCUMENT = or_bytes(damage_lines), or_bytes(damage_json, share=0.15)
PNG, PACKED, TABLE = or_bytes(damage_png, share=0.4), or_bytes(damage_gzip, share=0.4), or_bytes(damage_parquet)
SAMPLES: tuple[DataSample, ...] = (
    DataSample(name="text", write=_text, file="book.txt", damage={".txt": LINES}, task="language"),
    DataSample(name="gzipped text", write=_zipped_text, file="book.txt.gz", damage={".gz": PACKED}, task="language"),
    DataSample(
        name="parallel text", write=_parallel_files, damage={".en": LINES, ".de": LINES}, task="translation",
        more=PARALLEL
    ),
    DataSample(
        name="TSV", write=_tsv, file="pairs.tsv", damage={".tsv": LINES}, task="translation", more=PARALLEL
    ),
    DataSample(
        name="JSON lines", write=_jsonl, file="pairs.jsonl", damage={".jsonl": or_bytes(damage_json_lines)},
        task="translation", more=PARALLEL,
    ),
    DataSample(
        name="parquet", write=_parquet, file="pairs.parquet", damage={".parquet": TABLE}, task="translation",
        more=PARALLEL, needs="pyarrow",
    ),
    DataSample(
        name="labelled text", write=_labelled, file="labelled.tsv", damage={".tsv": LINES}, task="text-classification",
    ),
    DataSample(
        name="vectors", write=_vectors, file="swarms.npz", damage={".npz": or_bytes(damage_npz)}, task="vectors",
    ),
    DataSample(
        name="table of vectors", write=_vector_table, file="swarms.csv", damage={".csv": LINES}, task="vectors",
        more={"data.group": "swarm", "data.label": "turn"},
    ),
    DataSample(name="CoNLL columns", write=_columns, file="tags.conll", damage={".conll": LINES}, task="tagging"),
    DataSample(
        name="tags as JSON lines", write=_tagged_lines, file="tags.jsonl", task="tagging",
        damage={".jsonl": or_bytes(damage_json_lines)},
    ),
    DataSample(
        name="SQuAD", write=_squad, file="squad.json", damage={".json": DOCUMENT}, task="question-answering",
    ),
    DataSample(
        name="choices as JSON lines", write=_choice_lines, file="choices.jsonl", task="multiple-choice",
        damage={".jsonl": or_bytes(damage_json_lines)},
    ),
    DataSample(
        name="choices as CSV", write=_choice_table, file="choices.csv", damage={".csv": LINES}, task="multiple-choice",
    ),
    DataSample(name="PNG", write=_class_folders("png"), damage={".png": PNG}, task="classification"),
    DataSample(
        name="JPEG", write=_class_folders("jpg"), damage={".jpg": or_bytes(damage_jpeg, share=0.4)},
        task="classification",
    ),
    DataSample(
        name="parquet of images", write=_image_parquet, damage={".parquet": TABLE}, task="classification",
        needs="pyarrow",
    ),
    DataSample(
        name="IDX", write=_idx, damage={"classes.txt": LINES, "": or_bytes(damage_idx, share=0.4)},
        task="classification",
    ),
    DataSample(
        name="CIFAR", write=_cifar, damage={".txt": LINES, ".bin": or_bytes(share=1.0)},
        task="classification",
    ),
    DataSample(
        name="WAV", write=_sounds, damage={".wav": or_bytes(damage_wav, share=0.4)}, task="classification",
        preset="audio-vit", more=SIZE_OF_SOUNDS,
    ),
    DataSample(
        name="captions", write=_captions("txt"), damage={".txt": LINES, ".png": PNG}, task="captioning"
    ),
    DataSample(name="captions as CSV", write=_captions("csv"), damage={".csv": LINES, ".png": PNG}, task="captioning"),
    DataSample(
        name="COCO captions", write=_captions("json"), damage={".json": DOCUMENT, ".png": PNG}, task="captioning"
    ),
    DataSample(
        name="sounds with texts", write=_speech, damage={".csv": LINES, ".wav": or_bytes(damage_wav, share=0.4)},
        task="transcription",
    ),
    DataSample(name="COCO instances", write=_instances, damage={".json": DOCUMENT, ".png": PNG}, task="detection"),
    DataSample(name="COCO keypoints", write=_keypoints, damage={".json": DOCUMENT, ".png": PNG}, task="pose"),
)  # fmt: skip
