"""Hostile changes to a model folder: code to be run, ways out of the folder, lies about sizes, bombs, damage.

Each change is a function of the folder, of what lies outside it, and of a random generator. `Outside` has what must
not happen: a canary file that any code run from the folder makes, and bait that any way out of it leads to.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from headway.documents import parse_json
from headway.reliability.binary_files import damage_safetensors, safetensors_parts, with_header
from headway.reliability.damage import damaged
from headway.reliability.document_damage import ODD_VALUES, change_tree, damage_json, damage_lines
from headway.reliability.model_folders import characters, pieces, sentencepiece_model

TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt", "spiece.model")
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
LARGEST = 10**7  # bytes of a file that is read or changed
MARKER = "bait-7c1f"  # in every file of the bait: it must not be seen anywhere else


@dataclass(frozen=True, slots=True)
class Outside:
    """What lies outside of the folder."""

    canary: Path  # is made by any code that runs
    bait: Path  # a folder with a copy of the model's files, each with MARKER where its format allows it


Change = Callable[[Path, Outside, Random], None]


def make_bait(folder: Path, outside: Outside) -> None:
    """Copy a model folder to the bait, so that a way out of the folder that is taken leads to a model that works."""
    shutil.copytree(folder, outside.bait)
    (outside.bait / "secret.txt").write_text(f"{MARKER}\n")


# A second change may meet what a first one left: links out of the folder, pipes, files of terabytes. None of them is
# followed, waited for or read, as the campaign may run as root: the change is given up with a ValueError.


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and path.stat().st_size <= LARGEST


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if _is_plain(path)]


def _read(path: Path) -> bytes:
    if not _is_plain(path):
        raise ValueError(f"{path}: not a plain file")
    return path.read_bytes()


def _write(path: Path, data: bytes) -> None:
    if path.is_symlink() or (path.exists() and not path.is_file()) or path.parent.is_symlink():
        raise ValueError(f"{path}: not a plain file")
    path.write_bytes(data)


def _weights(folder: Path, chance: Random) -> Path:
    return chance.choice([path for path in _files(folder) if path.suffix == ".safetensors"])


def _settings(folder: Path, chance: Random) -> Path:
    """One of the JSON files, or one that the folder does not have and that would be read if it had."""
    more = ("generation_config.json", "tokenizer_config.json", "special_tokens_map.json", "preprocessor_config.json")
    return chance.choice(
        [*(path for path in _files(folder) if path.suffix == ".json"), *(folder / name for name in more)]
    )


def _tree(path: Path) -> Any:
    return parse_json(_read(path), str(path)) if os.path.lexists(path) else {}


def _put(path: Path, tree: Any) -> None:
    _write(path, json.dumps(tree).encode())


def _code(outside: Outside) -> str:
    return f"open({str(outside.canary)!r}, 'w').close()\n"


def _calling_pickle(module: str, function: str, argument: str) -> bytes:
    """A pickle that calls a function when it is loaded; written by hand, so that no module for pickles is needed."""
    return f"c{module}\n{function}\n(V{argument}\ntR.".encode()


def pickled_code(folder: Path, outside: Outside, chance: Random) -> None:
    """A pickle that makes the canary, plain or in torch's zip, under any of the names that loaders look for."""
    calls = (
        ("os", "system", f"touch {outside.canary}"), ("builtins", "exec", _code(outside).strip()),
        ("os", "mkdir", str(outside.canary)), ("posix", "system", f"touch {outside.canary}"),
    )  # fmt: skip
    data = chance.choice((b"", b"\x80\x02", b"\x80\x04")) + _calling_pickle(*chance.choice(calls))
    if chance.random() < 0.5:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("archive/data.pkl", data)
            archive.writestr("archive/version", "3\n")
        data = packed.getvalue()
    names = (
        "pytorch_model.bin", "model.pt", "model.pth", "last.ckpt", "model.pkl", "training_args.bin", "tokenizer.pkl",
        WEIGHTS, "model.npy", "optimizer.pt", "tf_model.h5", "rust_model.ot", "model.gguf",
    )  # fmt: skip
    name = chance.choice(names)
    _write(folder / name, data)
    if chance.random() < 0.5:  # and no other weights
        for path in folder.glob("*.safetensors*"):
            if path.name != name:
                path.unlink()
        if chance.random() < 0.3:
            _put(folder / INDEX, {"weight_map": {"transformer.wte.weight": name}})


def named_code(folder: Path, outside: Outside, chance: Random) -> None:
    """A key that asks for code of the folder, and the code."""
    for name in ("modeling_mine.py", "tokenization_mine.py", "configuration_mine.py", "__init__.py", "custom.py"):
        _write(folder / name, _code(outside).encode())
    keys: list[tuple[str, Any]] = [
        ("auto_map", {"AutoModel": "modeling_mine.Mine", "AutoConfig": "configuration_mine.Mine"}),
        ("auto_map", {"AutoTokenizer": ["tokenization_mine.Mine", None]}),
        ("auto_map", "modeling_mine.Mine"), ("auto_map", ["modeling_mine.py"]),
        ("custom_pipelines", {"mine": {"impl": "modeling_mine.Mine", "pt": ["AutoModel"]}}),
        ("trust_remote_code", True), ("trust_remote_code", 1), ("custom_generate", "modeling_mine"),
        ("tokenizer_class", "tokenization_mine.Mine"), ("tokenizer_class", "../tokenization_mine"),
        ("model_type", "modeling_mine"), ("model_type", "../custom"), ("architectures", ["modeling_mine.Mine"]),
        ("_name_or_path", str(folder)), ("transformers_version", "__import__('os').system('x')"),
        ("chat_template", "{{ ''.__class__.__mro__[1].__subclasses__() }}"), ("dtype", "modeling_mine"),
        ("torch_dtype", "os.system"), ("activation_function", "os.system"), ("hidden_act", "eval"),
        ("processor_class", "custom.Mine"), ("feature_extractor_type", "custom.Mine"),
        ("type", "custom.Mine"), ("_target_", "os.system"), ("code", _code(outside)),
    ]  # fmt: skip
    path, (key, value) = _settings(folder, chance), chance.choice(keys)
    tree = _tree(path)
    branch = tree
    while isinstance(branch, list) and branch:
        branch = branch[-1]
    if not isinstance(branch, dict):
        tree = branch = {}
    if chance.random() < 0.3:
        branch["nested"] = {"deeper": [{key: value}]}
    else:
        branch[key] = value
    _put(path, tree)


def shadowing_modules(folder: Path, outside: Outside, chance: Random) -> None:
    """Files with the names of modules, which an import that looks into the folder would take."""
    for name in (
        "json.py",
        "torch.py",
        "tokenizers.py",
        "safetensors.py",
        "sitecustomize.py",
        "numpy.py",
        "conftest.py",
    ):
        _write(folder / name, _code(outside).encode())
    (folder / "headway").mkdir()
    _write(folder / "headway" / "__init__.py", _code(outside).encode())


def link_out(folder: Path, outside: Outside, chance: Random) -> None:
    """A file that is a link to the bait, to a file of the system, to itself, or to a folder."""
    path = chance.choice(_files(folder))
    bait = outside.bait / path.relative_to(folder)
    path.unlink()
    target = chance.choice((
        str(bait), os.path.relpath(bait, path.parent), "/proc/self/environ", "/dev/zero", path.name, "..",
        "/proc/self/fd/0", str(outside.bait / "secret.txt"),
    ))  # fmt: skip
    path.symlink_to(target)


def linked_folder(folder: Path, outside: Outside, chance: Random) -> None:
    """A folder within the folder that is a link to the bait, and names that lead through it."""
    (folder / "sub").symlink_to(outside.bait, target_is_directory=True)
    if (folder / INDEX).exists():
        index = _tree(folder / INDEX)
        index["weight_map"] = {name: f"sub/{shard}" for name, shard in index["weight_map"].items()}
        _put(folder / INDEX, index)
    elif (folder / "1_Pooling").exists():
        shutil.rmtree(folder / "1_Pooling")
        (folder / "1_Pooling").symlink_to(outside.bait / "1_Pooling", target_is_directory=True)
    else:
        (folder / WEIGHTS).unlink()
        (folder / WEIGHTS).symlink_to(Path("sub") / WEIGHTS)


def no_plain_file(folder: Path, outside: Outside, chance: Random) -> None:
    """A pipe, a folder or nothing where a file should be."""
    path = chance.choice(_files(folder))
    path.unlink()
    kind = chance.randrange(4)
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.mkdir()
    elif kind == 2:
        path.touch(mode=0)


def names_leading_out(folder: Path, outside: Outside, chance: Random) -> None:
    """Names of files, in an index or a list of modules, that lead to the bait."""
    up = os.path.relpath(outside.bait, folder)
    ways = (
        f"{up}/", f"{outside.bait}/", "./", "..\\", "sub/../", f"a/../{up}/", "//", "~/", "%2e%2e/", "C:", "\0",
        "/proc/self/cwd/", "\u2024\u2024/", f"file://{outside.bait}/", "\\\\host\\share\\", f"{up}/\0", "\u2215",
    )  # fmt: skip
    way = chance.choice(ways)
    if (folder / "modules.json").exists():
        modules = _tree(folder / "modules.json")
        modules[chance.randrange(len(modules))]["path"] = chance.choice((way, f"{way}1_Pooling", way.rstrip("/")))
        _put(folder / "modules.json", modules)
        return
    if not (folder / INDEX).exists():
        header, _ = safetensors_parts(_read(folder / WEIGHTS))
        _put(folder / INDEX, {"weight_map": {name: WEIGHTS for name in header if name != "__metadata__"}})
        (folder / WEIGHTS).unlink()
    index = _tree(folder / INDEX)
    places = index["weight_map"]
    for name in list(places) if chance.random() < 0.5 else [chance.choice(list(places))]:
        places[name] = way + places[name]
    _put(folder / INDEX, index)


def lying_header(folder: Path, outside: Outside, chance: Random) -> None:
    """Weights whose header does not fit its bytes."""
    path = _weights(folder, chance)
    _write(path, damage_safetensors(_read(path), chance))


def damaged_weights(folder: Path, outside: Outside, chance: Random) -> None:
    """Damage to the bytes of the weights."""
    path = _weights(folder, chance)
    _write(path, damaged(_read(path), chance)[1])


def overlapping_tensors(folder: Path, outside: Outside, chance: Random) -> None:
    """A tensor in the place of another."""
    path = _weights(folder, chance)
    header, body = safetensors_parts(_read(path))
    one, other = chance.sample([key for key in header if key != "__metadata__"], 2)
    header[one] = {
        **header[one],
        **{key: header[other][key] for key in chance.choice((("data_offsets",), ("data_offsets", "shape")))},
    }
    _write(path, with_header(header, body))


def not_finite(folder: Path, outside: Outside, chance: Random) -> None:
    """A weight that is NaN or infinite."""
    path = _weights(folder, chance)
    header, body = safetensors_parts(_read(path))
    at = 4 * chance.randrange(len(body) // 4)
    number = chance.choice((b"\0\0\xc0\x7f", b"\0\0\x80\x7f", b"\0\0\x80\xff", b"\1\0\x80\x7f"))
    _write(path, with_header(header, body[:at] + number + body[at + 4 :]))


def many_tensors(folder: Path, outside: Outside, chance: Random) -> None:
    """Thousands of tensors without a byte."""
    path = _weights(folder, chance)
    header, body = safetensors_parts(_read(path))
    end = len(body)
    count = chance.choice((1_000, 20_000))
    header |= {f"junk.{n}": {"dtype": "F32", "shape": [0], "data_offsets": [end, end]} for n in range(count)}
    _write(path, with_header(header, body))


def large_holes(folder: Path, outside: Outside, chance: Random) -> None:
    """A file that claims far more bytes than it has on disk."""
    path = chance.choice(_files(folder))
    with path.open("r+b") as file:
        if chance.random() < 0.5:
            file.write((100_000_001).to_bytes(8, "little"))
        file.truncate(chance.choice((2 * 10**8, 10**10, 10**12)))


def changed_settings(folder: Path, outside: Outside, chance: Random) -> None:
    """One value in a JSON file, or another document in its place."""
    path = _settings(folder, chance)
    _write(path, damage_json(_read(path) if os.path.lexists(path) else b"{}", chance))


def changed_size(folder: Path, outside: Outside, chance: Random) -> None:
    """A size in config.json that the tensors do not have, up to what could not be allocated."""
    config = _tree(folder / "config.json")
    key = chance.choice([key for key, value in config.items() if type(value) is int])
    config[key] = chance.choice(
        (config[key] - 1, config[key] + 1, config[key] * 2, 10**6, 10**9, 2**31, 2**62, 10**30, 0, -5)
    )
    _put(folder / "config.json", config)


def changed_index(folder: Path, outside: Outside, chance: Random) -> None:
    """Shards that are missing, or named for another tensor; a folder without an index gets one."""
    if not (folder / INDEX).exists():
        _put(folder / INDEX, {"weight_map": chance.choice(({}, {"x": "model.safetensors"}, *ODD_VALUES))})
        if chance.random() < 0.5:
            (folder / WEIGHTS).unlink()
        return
    index = _tree(folder / INDEX)
    places = index["weight_map"]
    name = chance.choice(list(places))
    kind = chance.randrange(5)
    if kind == 0:
        places[name] = chance.choice((*ODD_VALUES, *places.values()))
    elif kind == 1:
        del places[name]
    elif kind == 2:
        places[chance.choice(("more", "", "a\nb", name.upper()))] = places[name]
    elif kind == 3:
        index["weight_map"] = chance.choice((*ODD_VALUES, {f"t{n}": f"s{n}.safetensors" for n in range(3000)}))
    else:
        _weights(folder, chance).unlink()
    _put(folder / INDEX, index)


def changed_tokenizer(folder: Path, outside: Outside, chance: Random) -> None:
    """One value or line anywhere in the files of the tokenizer, or one piece of a SentencePiece model."""
    files = [path for path in _files(folder) if path.name in TOKENIZERS]
    path = chance.choice(files or [folder / "tokenizer.json"])
    if path.suffix == ".txt":
        _write(path, damage_lines(_read(path), chance))
    elif path.suffix == ".model":
        _write(path, _changed_pieces(_read(path), chance))
    else:
        _put(path, change_tree(_tree(path), chance))


def _changed_pieces(data: bytes, chance: Random) -> bytes:
    if chance.random() < 0.4:
        return damaged(data, chance)[1]
    found = pieces()
    at = chance.randrange(len(found))
    piece, score, kind = found[at]
    found[at] = chance.choice((
        (piece, float("nan"), kind), (piece, float("inf"), kind), (piece, -3e38, kind), (piece, score, 2**40),
        (piece, score, 0), (piece, score, 6), ("", score, kind), ("a", score, kind), ("\ud800", score, kind),
        ("x" * 100_000, score, kind), ("\0", score, kind), ("<0xFF>", score, 6), (piece * 2, score, 4),
    ))  # fmt: skip
    many = [(f"p{n}", -1.0, 1) for n in range(chance.choice((0, 0, 0, 100, 20_000)))]
    return sentencepiece_model([*found, *many], algorithm=chance.choice((1, 1, 2, 3, 0, 2**63)))


def _replace(pattern: Any, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def tokenizer_bomb(folder: Path, outside: Outside, chance: Random) -> None:
    """A tokenizer that makes a text a million times longer, that searches without end, or that is nested too deep."""
    # Each of these is valid to the library that reads it: only its work is out of proportion.
    longer = [_replace({"String": letter}, letter * 1000) for letter in "aaaa"]
    regex = chance.choice(
        ("(a+)+$", "(a|aa)+$", "(.*a){25}", "(x+x+)+y", "a{1,1000}{1,1000}", "(?=(a+))a*b", "\\w*" * 30)
    )
    bombs: tuple[dict[str, Any], ...] = (
        {"normalizer": {"type": "Sequence", "normalizers": longer}},
        {"decoder": {"type": "Sequence", "decoders": longer}},
        {"normalizer": _replace({"Regex": ""}, "a" * 10_000)},
        {"normalizer": _replace({"Regex": regex}, "")},
        {"decoder": _replace({"Regex": regex}, "b")},
        {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}},
        {"normalizer": {"type": "Prepend", "prepend": "a" * 1_000_000}},
        {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "ab" * 50_000}] * 20}},
        {"pre_tokenizer": {"type": "Metaspace", "replacement": "a", "prepend_scheme": "always", "split": True}},
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}] * 5_000}},
        {"normalizer": _nested({"type": "Lowercase"}, "normalizers", 300)},
        {"decoder": {"type": "Strip", "content": "a", "start": 2**62, "stop": 2**62}},
        {"decoder": {"type": "CTC", "pad_token": "a", "word_delimiter_token": "a", "cleanup": True}},
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA" * 1000}},
        {"truncation": {"max_length": 2**62, "strategy": "LongestFirst", "stride": 2**61, "direction": "Right"}},
        {"padding": {"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": 10**9, "pad_id": 0,
                     "pad_type_id": 0, "pad_token": "a"}},
        {"post_processor": {"type": "TemplateProcessing", "single": [
                                *[{"SpecialToken": {"id": "a", "type_id": 0}}] * 10**5,
                                {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
                            "special_tokens": {"a": {"id": "a", "ids": [0] * 100, "tokens": ["a"] * 100}}}},
        {"added_tokens": [{"id": 59 + n, "content": f"<{n}>", "single_word": False, "lstrip": True, "rstrip": True,
                           "normalized": False, "special": bool(n % 2)} for n in range(5_000)]},
        {"model": {"type": "Unigram", "unk_id": 0, "byte_fallback": False,
                   "vocab": [["<unk>", 0.0], *([letter, chance.choice((-1e308, 1e308, 0.0))]
                                               for letter in "abcdefghij")]}},
        {"model": {"type": "WordPiece", "unk_token": "a", "continuing_subword_prefix": "", "vocab": {"a": 0},
                   "max_input_chars_per_word": 2**62}},
    )  # fmt: skip
    tree = characters()
    tree |= chance.choice(bombs)
    for path in folder.glob("vocab.txt"):
        path.unlink()
    _put(folder / "tokenizer.json", tree)


def _nested(inner: dict[str, Any], key: str, depth: int) -> dict[str, Any]:
    for _ in range(depth):
        inner = {"type": "Sequence", key: [inner]}
    return inner


def extra_files(folder: Path, outside: Outside, chance: Random) -> None:
    """Files beside those that are read, with names that are hard to show and contents that must not be read."""
    names = (
        "a\nb.json",
        "\x1b[31mred.safetensors",
        "x" * 250,
        " .json",
        "\u202egnp.txt",
        "$(touch canary)",
        "model.onnx",
    )
    for name in chance.sample(names, 3):
        _write(folder / name, chance.choice((b"", b"\x80\x04N.", b"[" * 10_000, chance.randbytes(100))))
    if chance.random() < 0.5:
        (folder / "loop").symlink_to(".", target_is_directory=True)


CHANGES: tuple[Change, ...] = (
    pickled_code, named_code, named_code, shadowing_modules, link_out, link_out, linked_folder, no_plain_file,
    names_leading_out, names_leading_out, lying_header, lying_header, lying_header, damaged_weights,
    overlapping_tensors,
    not_finite, many_tensors, large_holes, changed_settings, changed_settings, changed_settings, changed_size,
    changed_index, changed_tokenizer, changed_tokenizer, tokenizer_bomb, tokenizer_bomb, tokenizer_bomb, extra_files,
)  # fmt: skip
