"""The input files of the golden record: small, made from fixed seeds with the standard library alone."""

from __future__ import annotations

import array
import json
import math
import random
import string
import struct
import sys
import wave
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

NOUNS = {"cat": "chat", "dog": "chien", "horse": "cheval", "puppy": "chiot", "bird": "oiseau"}
VERBS = {"sleeps": "dort", "eats": "mange", "runs": "court", "waits": "attend"}
PLACES = {"in the garden": "dans le jardin", "at home": "à la maison", "under the tree": "sous l'arbre"}
KEYPOINTS = 17  # COCO's
Shape = tuple[int, ...]


def write_all(folder: Path) -> None:
    """Every file that a case of the record reads, below `folder`."""
    parallel(folder / "corpus")
    (folder / "book.txt").write_text(book(60), encoding="utf-8")
    (folder / "other.txt").write_text(book(20, seed=9), encoding="utf-8")
    (folder / "reviews.tsv").write_text("good\ta fine film\nbad\ta poor film\ngood\tfine , fine\n" * 14)
    (folder / "lines.txt").write_text("the cat sleeps\nthe old dog runs at home\n\nthe bird eats\n")
    (folder / "bad-bytes.txt").write_bytes(b"the cat sleeps\nthe \xff dog\n")
    (folder / "bad-book.txt").write_bytes(book(30).encode() + b"\xff\n" + book(30).encode())
    (folder / "empty.txt").write_text("")
    photographs(folder / "photos")
    described(folder / "described")
    people(folder / "people")
    sounds(folder / "sounds")
    png(folder / "photo.png", 40, 36, shape("disc", random.Random(50), 40, 36))
    png(folder / "figure.png", 48, 48, shape("cross", random.Random(51), 48, 48))
    (folder / "not-an-image.png").write_bytes(b"\x89PNG but not really")
    wav(folder / "sound.wav", tone(440.0, 8000, 0.5), 8000)
    gpt2(folder / "gpt2")
    sentence_encoder(folder / "encoder")
    (folder / "settings.yaml").write_text("train:\n  steps: 4\n  seed: 3\nmodel:\n  position:\n    type: rotary\n")
    (folder / "broken.yaml").write_text("train: [1, 2\n")
    (folder / "list.yaml").write_text("- 1\n- 2\n")
    (folder / "unknown.yaml").write_text("train:\n  stepz: 4\n")


# --- texts ---------------------------------------------------------------------------------------------------------


def parallel(folder: Path) -> None:
    """English and French in train, val and test."""
    folder.mkdir(parents=True)
    drawn = random.Random(1)
    for split, count in (("train", 48), ("val", 8), ("test", 10)):
        pairs = [_pair(drawn) for _ in range(count)]
        for side, ending in enumerate(("en", "fr")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / f"{split}.{ending}").write_text(text, encoding="utf-8")


def _pair(drawn: random.Random) -> tuple[str, str]:
    noun, verb, place = (drawn.choice(sorted(words)) for words in (NOUNS, VERBS, PLACES))
    if drawn.random() < 0.4:
        return f"the {noun} {verb}", f"le {NOUNS[noun]} {VERBS[verb]}"
    return f"the old {noun} {verb} {place}", f"le vieux {NOUNS[noun]} {VERBS[verb]} {PLACES[place]}"


def book(paragraphs: int, *, seed: int = 2) -> str:
    """Paragraphs of two to four sentences."""
    drawn = random.Random(seed)
    made = []
    for _ in range(paragraphs):
        sentences = [f"{_pair(drawn)[0].capitalize()}." for _ in range(drawn.randint(2, 4))]
        made.append(" ".join(sentences[:2]) + "\n" + "".join(f"{each}\n" for each in sentences[2:]))
    return "\n".join(made)


# --- images and sounds ---------------------------------------------------------------------------------------------

Pixel = tuple[int, int, int]


def png(path: Path, width: int, height: int, pixels: Sequence[Pixel]) -> None:
    """Write an image of 8-bit RGB."""
    rows = b"".join(
        b"\0" + bytes(part for pixel in pixels[y * width : (y + 1) * width] for part in pixel) for y in range(height)
    )

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + data)


def shape(kind: str, drawn: random.Random, width: int, height: int) -> list[Pixel]:
    """A disc, a square or a cross of one colour on noise of another."""
    colour, ground = ([drawn.randint(0, 255) for _ in range(3)] for _ in range(2))
    x0, y0 = width * drawn.uniform(0.4, 0.6), height * drawn.uniform(0.4, 0.6)
    size = min(width, height) * drawn.uniform(0.2, 0.35)
    inside: Callable[[float, float], bool] = {
        "disc": lambda x, y: math.hypot(x, y) < size,
        "square": lambda x, y: max(abs(x), abs(y)) < size,
        "cross": lambda x, y: min(abs(x), abs(y)) < size / 3 and max(abs(x), abs(y)) < size,
    }[kind]
    made = []
    for y in range(height):
        for x in range(width):
            base = colour if inside(x - x0, y - y0) else ground
            made.append(tuple(max(0, min(255, part + drawn.randint(-12, 12))) for part in base))
    return made  # type: ignore[return-value]


def photographs(folder: Path) -> None:
    """A folder of images for each of two classes."""
    for number, kind in enumerate(("disc", "square")):
        (folder / kind).mkdir(parents=True)
        for n in range(10):
            png(folder / kind / f"{n}.png", 22, 20, shape(kind, random.Random(100 * number + n), 22, 20))


def described(folder: Path) -> None:
    """Images with a captions file in the layout of Flickr8k."""
    folder.mkdir(parents=True)
    lines = []
    for n in range(24):
        kind = ("disc", "square", "cross")[n % 3]
        png(folder / f"{n}.png", 20, 20, shape(kind, random.Random(200 + n), 20, 20))
        size = ("small", "large")[n % 2]
        lines += [f"{n}.png#0\ta {size} {kind} on a wall\n", f"{n}.png#1\tthere is a {kind}\n"]
    (folder / "captions.txt").write_text("".join(lines))


def people(folder: Path) -> None:
    """Images with COCO's keypoints, a JSON file a split."""
    folder.mkdir(parents=True)
    drawn = random.Random(3)
    for split, count in (("train", 12), ("val", 4), ("test", 5)):
        images, annotations = [], []
        for n in range(count):
            name = f"{split}-{n}.png"
            png(folder / name, 48, 48, shape("cross", drawn, 48, 48))
            points = []
            for k in range(KEYPOINTS):
                seen = 0 if k in (3, 4) else 2
                points += [drawn.randint(6, 42) * bool(seen), drawn.randint(6, 42) * bool(seen), seen]
            images.append({"id": n, "file_name": name})
            annotations.append(
                {"image_id": n, "iscrowd": 0, "keypoints": points, "bbox": [5, 4, 38, 40], "area": 1000 + 40 * n}
            )
        (folder / f"{split}.json").write_text(json.dumps({"images": images, "annotations": annotations}))


def tone(pitch: float, rate: int, seconds: float) -> list[float]:
    """A sine with one overtone."""
    steps = (2 * math.pi * pitch * n / rate for n in range(int(rate * seconds)))
    return [0.6 * math.sin(step) + 0.3 * math.sin(2 * step) for step in steps]


def wav(path: Path, samples: Sequence[float], rate: int) -> None:
    """Write 16-bit mono."""
    numbers = array.array("h", (round(32000 * each) for each in samples))
    if sys.byteorder == "big":
        numbers.byteswap()
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(numbers.tobytes())


def sounds(folder: Path) -> None:
    """A folder of WAV files for each of two classes."""
    for kind, pitch in (("high", 1400.0), ("low", 220.0)):
        (folder / kind).mkdir(parents=True)
        for n in range(6):
            wav(folder / kind / f"{n}.wav", tone(pitch * (1 + n / 20), 8000, 0.5), 8000)


# --- model folders as Hugging Face writes them ---------------------------------------------------------------------


def safetensors(path: Path, shapes: Mapping[str, Shape], *, seed: int) -> None:
    """Write float32 tensors of these shapes: gains near 1, everything else near 0."""
    drawn = random.Random(seed)
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = bytearray()
    for name, size in shapes.items():
        gain = 1.0 if name.lower().endswith(("norm.weight", "ln_1.weight", "ln_2.weight", "ln_f.weight")) else 0.0
        numbers = array.array("f", (gain + drawn.gauss(0, 0.15) for _ in range(math.prod(size))))
        if sys.byteorder == "big":
            numbers.byteswap()
        header[name] = {"dtype": "F32", "shape": list(size), "data_offsets": [len(data), len(data) + 4 * len(numbers)]}
        data += numbers.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def _special(index: int, content: str) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": index, "content": content, **flags}


def gpt2(folder: Path) -> None:
    """GPT-2 of two layers over characters."""
    folder.mkdir(parents=True)
    letters = [*string.ascii_letters, " ", ".", ",", "\n", "!", "?", "-"]
    width, vocab = 8, len(letters) + 1
    config = {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": vocab, "n_positions": 16,
        "n_embd": width, "n_layer": 2, "n_head": 2, "n_inner": None, "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True, "bos_token_id": vocab - 1, "eos_token_id": vocab - 1,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    model = {"type": "BPE", "vocab": {letter: n for n, letter in enumerate(letters)}, "merges": []}
    tokenizer = {
        "version": "1.0", "added_tokens": [_special(vocab - 1, "<|end|>")], "normalizer": None, "pre_tokenizer": None,
        "post_processor": None, "decoder": {"type": "Fuse"}, "model": model,
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    shapes: dict[str, Shape] = {"transformer.wte.weight": (vocab, width), "transformer.wpe.weight": (16, width)}
    for i in range(2):
        at = f"transformer.h.{i}."
        shapes |= {f"{at}{norm}.{part}": (width,) for norm in ("ln_1", "ln_2") for part in ("weight", "bias")}
        for name, rows, columns in (
            ("attn.c_attn", width, 3 * width), ("attn.c_proj", width, width),
            ("mlp.c_fc", width, 4 * width), ("mlp.c_proj", 4 * width, width),
        ):  # fmt: skip
            shapes |= {f"{at}{name}.weight": (rows, columns), f"{at}{name}.bias": (columns,)}
    shapes |= {f"transformer.ln_f.{part}": (width,) for part in ("weight", "bias")}
    safetensors(folder / "model.safetensors", shapes, seed=4)


def sentence_encoder(folder: Path) -> None:
    """BERT of two layers as sentence-transformers writes it: mean pooling, normalised."""
    (folder / "1_Pooling").mkdir(parents=True)
    words = sorted({word for pair in (NOUNS, VERBS, PLACES) for key in pair for word in key.split()} | {"old", "a"})
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, *(f"##{letter}" for letter in "abcdefgs")]
    width, inner, context = 16, 32, 24
    config = {
        "architectures": ["BertModel"], "model_type": "bert", "hidden_act": "gelu", "hidden_size": width,
        "intermediate_size": inner, "layer_norm_eps": 1e-12, "max_position_embeddings": context,
        "num_attention_heads": 2, "num_hidden_layers": 2, "pad_token_id": 0, "type_vocab_size": 2,
        "vocab_size": len(tokens),
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    kinds = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    modules = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (path, kind) in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    pooling = {"word_embedding_dimension": width, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 20, "do_lower_case": False}))
    (folder / "tokenizer.json").write_text(json.dumps(_word_pieces(tokens)))
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")}
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", **names}))
    shapes: dict[str, Shape] = {
        "embeddings.word_embeddings.weight": (len(tokens), width),
        "embeddings.position_embeddings.weight": (context, width),
        "embeddings.token_type_embeddings.weight": (2, width),
        "embeddings.LayerNorm.weight": (width,),
        "embeddings.LayerNorm.bias": (width,),
    }
    for i in range(2):
        at = f"encoder.layer.{i}."
        for name, rows, columns in (
            ("attention.self.query", width, width), ("attention.self.key", width, width),
            ("attention.self.value", width, width), ("attention.output.dense", width, width),
            ("intermediate.dense", inner, width), ("output.dense", width, inner),
        ):  # fmt: skip
            shapes |= {f"{at}{name}.weight": (rows, columns), f"{at}{name}.bias": (rows,)}
        for norm in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{at}{norm}.{part}": (width,) for part in ("weight", "bias")}
    shapes |= {"pooler.dense.weight": (width, width), "pooler.dense.bias": (width,)}
    safetensors(folder / "model.safetensors", shapes, seed=5)


def _word_pieces(tokens: Sequence[str]) -> dict[str, Any]:
    ids = {token: n for n, token in enumerate(tokens)}
    special = {name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in ("[CLS]", "[SEP]")}
    single: list[dict[str, Any]] = [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
    ]  # fmt: skip
    pair = [*single, {"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}]
    normalizer = {
        "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
        "lowercase": True,
    }  # fmt: skip
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [_special(ids[name], name) for name in tokens[:5]],
        "normalizer": normalizer, "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": ids,
        },
    }  # fmt: skip
