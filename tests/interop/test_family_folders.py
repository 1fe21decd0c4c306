"""A whole folder of each family, model and tokenizer: imported, verified, exported, loaded by transformers again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import nn

import headway
from headway.interop.export_proof import auto_class
from headway.runs.import_folder import import_folder
from tests.interop.peers import BERT, LLAMA, SOME_SLIDE, hf, unsettle
from tests.interop.runs import bugs
from tests.interop.test_tokenizer_import import strings

TEXT = ["the quick brown fox jumps over the lazy dog", "a man is sleeping on the couch and two dogs run to one lake"]
BYTES = [f"<0x{n:02X}>" for n in range(256)]
VOCAB = 320


def byte_pairs(*specials: str) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """A byte-level vocabulary with special tokens in front, and its merges."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=list(specials), initial_alphabet=alphabet, show_progress=False
    )
    trained.train_from_iterator(TEXT, trainer)
    return trained.get_vocab(), merges_of(trained.get_vocab(), alphabet)


def merges_of(vocab: dict[str, int], alphabet: list[str]) -> list[tuple[str, str]]:
    """The first division of each piece, in the order of their ids, that is made of pieces before it."""
    known, merges = set(alphabet), []
    for piece in sorted(vocab, key=vocab.__getitem__):
        cut = next((n for n in range(1, len(piece)) if piece[:n] in known and piece[n:] in known), None)
        if cut is not None and not piece.startswith(("<", "[")):
            merges.append((piece[:cut], piece[cut:]))
            known.add(piece)
    return merges


def fallback(*specials: str) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """SentencePiece's kind of vocabulary: characters, a few merges, and bytes for everything else."""
    letters = sorted(set("".join(TEXT).replace(" ", "▁")))
    merges = [("▁", "t"), ("h", "e"), ("▁t", "he"), ("o", "n"), ("▁", "d")]
    pieces = [*specials, *BYTES, *letters, *(a + b for a, b in merges)]
    return {piece: n for n, piece in enumerate(pieces)}, merges


def qwen_tokenizer() -> object:
    vocab, merges = byte_pairs("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    return hf.Qwen2Tokenizer(vocab=vocab, merges=merges, extra_special_tokens=["<|im_start|>", "<|im_end|>"])


def roberta_tokenizer() -> object:
    vocab, merges = byte_pairs("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    return hf.RobertaTokenizer(vocab=vocab, merges=merges)


def modernbert_tokenizer() -> object:
    vocab, merges = byte_pairs("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    library = Tokenizer(models.BPE(vocab, merges))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.normalizer, library.decoder = normalizers.NFC(), decoders.ByteLevel()
    library.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    named = {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}
    return hf.PreTrainedTokenizerFast(tokenizer_object=library, mask_token="[MASK]", **named)


def distilbert_tokenizer() -> object:
    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *"abcdefghijklmnopqrstuvwxyz.,'",
        "the",
        "dog",
        "##s",
        "##o",
    ]
    return hf.BertTokenizer(vocab={piece: n for n, piece in enumerate(pieces)})


def sentence_pieces(kind: str, *specials: str) -> object:
    vocab, merges = fallback(*specials)
    return getattr(hf, kind)(vocab=vocab, merges=merges)


SMALL = {**LLAMA, "vocab_size": VOCAB, "num_key_value_heads": 2, "eos_token_id": 2}
LOCAL = {"head_dim": 12, "sliding_window": 6, "layer_types": SOME_SLIDE}
MASKED = {**BERT, "vocab_size": VOCAB}
FOLDERS = {
    "llama": (
        "LlamaForCausalLM", lambda: hf.LlamaConfig(**SMALL, attention_bias=True),
        lambda: sentence_pieces("LlamaTokenizer", "<unk>", "<s>", "</s>"),
    ),
    "mistral": (
        "MistralForCausalLM", lambda: hf.MistralConfig(**SMALL, sliding_window=6),
        lambda: sentence_pieces("LlamaTokenizer", "<unk>", "<s>", "</s>"),
    ),
    "qwen2": ("Qwen2ForCausalLM", lambda: hf.Qwen2Config(**SMALL), qwen_tokenizer),
    "qwen3": ("Qwen3ForCausalLM", lambda: hf.Qwen3Config(**SMALL, head_dim=12), qwen_tokenizer),
    "gemma": (
        "GemmaForCausalLM", lambda: hf.GemmaConfig(**SMALL, head_dim=12),
        lambda: sentence_pieces("GemmaTokenizer", "<pad>", "<eos>", "<bos>", "<unk>", "<mask>"),
    ),
    "gemma3_text": (
        "Gemma3ForCausalLM", lambda: hf.Gemma3TextConfig(**SMALL, **LOCAL),
        lambda: sentence_pieces("GemmaTokenizer", "<pad>", "<eos>", "<bos>", "<unk>", "<mask>"),
    ),
    "roberta": ("RobertaForMaskedLM", lambda: hf.RobertaConfig(**MASKED, type_vocab_size=1), roberta_tokenizer),
    "distilbert": (
        "DistilBertForMaskedLM",
        lambda: hf.DistilBertConfig(vocab_size=VOCAB, dim=32, n_layers=2, n_heads=4, hidden_dim=52),
        distilbert_tokenizer,
    ),
    "modernbert": (
        "ModernBertForMaskedLM",
        lambda: hf.ModernBertConfig(**MASKED, pad_token_id=0, local_attention=6, cls_token_id=2, sep_token_id=3),
        modernbert_tokenizer,
    ),
}  # fmt: skip


# The others have no part that these have not, and verifying a decoder takes seconds.
VERIFIED = [
    name
    if name in ("qwen3", "gemma3_text", "roberta", "distilbert", "modernbert")
    else pytest.param(name, marks=pytest.mark.slow)
    for name in FOLDERS
]


def imported(name: str, folder: Path) -> nn.Module:
    """Write a random model of a family with its tokenizer, and import it with a reference as `run`."""
    kind, config, make = FOLDERS[name]
    torch.manual_seed(0)
    theirs, tokenizer = getattr(hf, kind)(config()).eval(), make()
    unsettle(theirs, 0.1)
    theirs.save_pretrained(folder / "theirs")
    tokenizer.save_pretrained(folder / "theirs")
    assert import_folder(folder / "theirs", folder / "run", with_reference=True).family == name
    return theirs


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_is_imported_and_exported(name: str, tmp_path: Path) -> None:
    theirs = imported(name, tmp_path)
    run = headway.load(tmp_path / "run", device="cpu")
    original = hf.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    texts = [*TEXT, *strings(50)]
    ids = [run.tokenizer.encode(text) for text in texts]
    assert ids == original(texts, add_special_tokens=False)["input_ids"]
    marks = run.tokenizer.marks
    around = [[*marks.before, *each, *marks.after] for each in ids]
    assert around == original(texts)["input_ids"]
    proof = run.export(tmp_path / "out")
    assert (proof.family, proof.holds, proof.texts_identical) == (name, True, True)
    again = getattr(hf, auto_class(FOLDERS[name][0])).from_pretrained(tmp_path / "out").eval()
    prompt = torch.tensor([ids[0][:20]])
    with torch.no_grad():
        torch.testing.assert_close(again(prompt).logits, theirs(prompt).logits, atol=1e-5, rtol=1e-5)
    exported = hf.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert exported(texts)["input_ids"] == around
    if marks.after:  # of a model that reads pairs, too
        pair = exported(*TEXT, return_tensors="pt")
        assert pair["input_ids"].tolist() == [original(*TEXT)["input_ids"]]
        with torch.no_grad():
            torch.testing.assert_close(again(**pair).logits, theirs(**pair).logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", VERIFIED)
def test_verify_finds_no_bug_in_an_imported_run(name: str, tmp_path: Path) -> None:
    imported(name, tmp_path)
    assert bugs(tmp_path / "run") == set()


def test_the_vocabulary_of_roberta_alone_brings_its_special_tokens(tmp_path: Path) -> None:
    imported("roberta", tmp_path)
    library = json.loads((tmp_path / "theirs/tokenizer.json").read_text())["model"]
    (tmp_path / "theirs/vocab.json").write_text(json.dumps(library["vocab"]))
    pairs = "\n".join(pair if isinstance(pair, str) else " ".join(pair) for pair in library["merges"])
    (tmp_path / "theirs/merges.txt").write_text(f"#version: 0.2\n{pairs}\n")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "theirs" / name).unlink()
    import_folder(tmp_path / "theirs", tmp_path / "again")
    one, other = (headway.load(tmp_path / name, device="cpu").tokenizer for name in ("run", "again"))
    assert other.marks == one.marks
    assert [other.encode(text) for text in TEXT] == [one.encode(text) for text in TEXT]
