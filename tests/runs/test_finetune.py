"""A run that begins with another one: its weights, its tokenizer, what is new, and which pairs do not fit."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import headway
from headway.cli import main
from headway.config import override
from headway.data.chat_template import RoleNames
from headway.data.config import DataConfig
from headway.data.tokenizers import Bpe, ByteBpe, Characters, SpecialTokens, Tokenizer, Word
from headway.errors import ConfigError
from headway.models import (
    BertConfig,
    BertPretrainingConfig,
    CaptionerVitConfig,
    GptConfig,
    LongformerConfig,
    LongformerMaskedConfig,
    TextClassifierConfig,
    VitConfig,
    build_model,
)
from headway.models.backbone import backbone_of, begin_with
from headway.nn.longformer_attention import Windows
from headway.nn.patches import resize_grid
from headway.nn.positions import Rotary
from headway.presets import preset
from headway.reliability.runs import TINY, TinyRun, make, write_encoder
from headway.runs import read_config
from headway.runs.config import RunConfig
from headway.runs.finetune import fine_tuned
from headway.runs.folder import write_run_files
from headway.runs.train import plan_run, train_run
from headway.tasks.base import ONE_TOKENIZER, Task
from headway.tasks.initial_weights import NOISE
from headway.tasks.masked_lm import Masked
from headway.tasks.text_classification import TextClassification
from headway.training.checkpoints import Checkpoints
from headway.training.config import TrainConfig
from tests.interop.folders import write_gpt2
from tests.training.small import Silent

STILL = {"train.learning_rate": 1e-12, "train.steps": 1, "train.evaluate_every": 1, "train.save_every": 1}
FEW = {**STILL, "train.device": "cpu", "train.batch_tokens": 128}
SMALL = {"context": 24, "width": 16, "layers": 1, "heads": 2, "inner": 32}
ENCODERS = {
    "bert": BertPretrainingConfig(bert=BertConfig(vocab=1, **SMALL)),
    "roformer": BertPretrainingConfig(
        bert=BertConfig(vocab=1, **SMALL, position=Rotary(layout="interleaved"), pooler=False), follows=False
    ),
    "modernbert": BertPretrainingConfig(
        bert=BertConfig(
            vocab=1, **SMALL, place="pre", bias=False, segments=0, pooler=False, position=Rotary(layout="halves"),
            windows=Windows(radius=4),
        ),
        follows=False,
    ),
    "longformer": LongformerMaskedConfig(
        longformer=LongformerConfig(vocab=1, **SMALL, windows=Windows(radius=4), pooler=False)
    ),
}  # fmt: skip
TABLE = "text,label\n" + "".join(
    f"I {verb} dogs,{'good' if verb == 'like' else 'bad'}\n" for verb in ["like", "fear"] * 9
)


def write_source(
    folder: Path, task: Task, model: object, tokenizer: Tokenizer, data: DataConfig | None = None, seed: int = 3
) -> Path:
    """A finished run with drawn weights."""
    sized = override(model, {model.text.vocab_key: tokenizer.size})
    config = RunConfig(task=task, data=data or DataConfig(tokenizer=Word()), model=sized, train=TrainConfig())
    write_run_files(folder, config, {ONE_TOKENIZER: tokenizer.to_json()})
    weights = build_model(sized, seed=seed).state_dict()
    Checkpoints(folder).save(1, {name: tensor.contiguous() for name, tensor in weights.items()}, {}, {})
    return folder


def encoder_run(folder: Path, kind: str) -> Path:
    model = ENCODERS[kind]
    rows = "pairs" if getattr(model, "follows", False) else "running"
    words = Tokenizer.train(
        Word(), ["I like dogs", "I fear cats"], specials=("<pad>", "<unk>", "<s>", "</s>", "<mask>")
    )
    return write_source(folder, Masked(length=24, rows=rows), model, words)


def tune(name: str, source: Path, out: Path, changes: Mapping[str, object]) -> Silent:
    """Train a preset from a run -> its notes."""
    watcher = Silent()
    recipe = fine_tuned(preset(name).recipe(), read_config(source), source)
    fixed = {**FEW, "data.cache": str(out.parent / "cache"), "train.precision": "fp32", "train.accumulate": 1}
    train_run(override(recipe, {**fixed, **changes}), out, watcher, init=source)
    return watcher


def table(folder: Path, text: str = TABLE) -> str:
    (folder / "reviews.csv").write_text(text)
    return str(folder / "reviews.csv")


def weights(run: Path) -> dict[str, torch.Tensor]:
    found = Checkpoints(run).weights(average=read_config(run).train.average)[0]
    return {name: tensor for name, tensor in found.items() if "num_batches" not in name and "running_" not in name}


def assert_taken(old: Mapping[str, torch.Tensor], new: Mapping[str, torch.Tensor], names: Mapping[str, str]) -> None:
    assert names
    for before, after in names.items():
        torch.testing.assert_close(new[after], old[before], atol=1e-6, rtol=0, msg=before)


@pytest.mark.parametrize("kind", ENCODERS)
def test_a_masked_encoder_becomes_a_classifier(kind, tmp_path):
    source = encoder_run(tmp_path / "source", kind)
    notes = tune("longformer-needle", source, tmp_path / "out", {"data.spec": table(tmp_path)}).notes
    old, new = weights(source), weights(tmp_path / "out")
    prefix = backbone_of(ENCODERS[kind]).prefix
    body = {name: f"encoder.{name.removeprefix(prefix)}" for name in old if name.startswith(prefix)}
    assert_taken(old, new, body)
    fresh = {"head.weight", "head.bias", *({"encoder.pooler.weight", "encoder.pooler.bias"} - set(body.values()))}
    assert new.keys() - set(body.values()) == fresh
    config = read_config(tmp_path / "out")
    assert config.task.length == 24  # not the preset's 4,096: there are 24 positions
    assert (tmp_path / "out" / ONE_TOKENIZER).read_bytes() == (source / ONE_TOKENIZER).read_bytes()
    told = "\n".join(notes)
    assert f"begins with: {source}: {len(body)} of {len(new)} tensors" in told
    assert "new: " in told
    assert "head" in told
    assert "token_head, transform, transform_norm" in told.partition("dropped: ")[2]
    run = headway.load(tmp_path / "out", device="cpu")
    assert {name for name, _ in run.classify(["I like cats"])[0].top} == {"bad", "good"}


def test_an_imported_encoder_keeps_its_special_tokens(tmp_path):
    library = Tokenizer.train(
        Word(lower=True), ["i like dogs and fear cats"], specials=("[PAD]", "[CLS]", "[SEP]", "<unk>")
    )
    marks = SpecialTokens(pad=0, start=1, stop=2, unk=3, before=(1,), after=(2,))
    bert = BertConfig(vocab=library.size, **SMALL)
    source = write_encoder(tmp_path / "source")
    task = read_config(source).task
    imported = write_source(tmp_path / "imported", task, bert, library, DataConfig(marks=marks))
    tune("longformer-needle", imported, tmp_path / "out", {"data.spec": table(tmp_path)})
    run = headway.load(tmp_path / "out", device="cpu")
    assert run.config.data.marks == marks
    assert run.pipeline.encoded(["I LIKE dogs"])[0] == [[1, *library.encode("i like dogs"), 2]]
    again = tmp_path / "again"
    tune("longformer-needle", tmp_path / "out", again, {"data.spec": table(tmp_path)})  # a classifier, with its head
    assert_taken(weights(tmp_path / "out"), weights(again), {name: name for name in weights(again)})
    other = table(tmp_path, TABLE.replace("bad", "awful"))
    notes = tune("longformer-needle", tmp_path / "out", tmp_path / "other", {"data.spec": other, "train.seed": 1}).notes
    assert "new: head" in notes  # as many classes, but others
    assert not torch.allclose(weights(tmp_path / "other")["head.weight"], weights(again)["head.weight"])


@pytest.mark.parametrize("tied", [True, False])
def test_a_gpt_that_was_not_trained_further_has_the_logits_of_its_source(tied, tmp_path):
    characters = Tokenizer.train(Characters(), ["I like dogs. You fear cats!\n"], specials=())
    gpt = GptConfig(vocab=1, context=16, width=16, layers=2, heads=2, tied=tied)
    task = preset("gpt-char").recipe().task
    source = write_source(tmp_path / "source", task, gpt, characters, DataConfig(tokenizer=Characters()))
    (tmp_path / "text.txt").write_text("You like cats. I fear dogs!\n" * 20)
    tune("gpt-char", source, tmp_path / "out", {"data.spec": str(tmp_path / "text.txt")})
    before, after = (headway.load(run, device="cpu") for run in (source, tmp_path / "out"))
    assert after.config.task.context == 16
    tokens = torch.tensor([characters.encode("I like cats")])
    with torch.no_grad():
        torch.testing.assert_close(after.model(tokens), before.model(tokens), atol=1e-5, rtol=0)


def test_an_imported_gpt2_is_trained_further(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    write_gpt2(tmp_path / "gpt2")
    assert main(["import", "gpt2", "--out", "runs/gpt2"]) == 0
    source = read_config(Path("runs/gpt2"))
    known = headway.load("runs/gpt2", device="cpu").tokenizer
    text = known.decode(range(known.size - 1)).replace("\ufffd", "")
    Path("book.txt").write_text(f"{text}\n" * 40)
    short = "--train.device cpu --train.steps 2 --train.evaluate_every 2 --train.accumulate 1 --train.batch_tokens 64"
    words = f"train gpt-char --init runs/gpt2 --data book.txt --out runs/tuned {short}".split()
    assert main([*words, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert f"task.context={source.model.context}" not in shown
    assert "begins with" in shown
    assert main(words) == 0
    tuned = read_config(Path("runs/tuned"))
    assert (tuned.model, tuned.data.marks) == (source.model, source.data.marks)
    assert main([*words, "--resume", "--train.steps", "3"]) == 0


OF_ITS_OWN = (
    "language", "masked", "translation", "captioning", "classification", "pose", "detection", "chat",
    "text-classification", "tagging", "question-answering", "multiple-choice", "embedding", "transcription", "vectors",
)  # fmt: skip


@pytest.mark.parametrize("task", OF_ITS_OWN)
def test_every_task_goes_on_with_a_run_of_its_own(task, tmp_path):
    tiny: TinyRun = TINY[task]
    with tiny.short():
        source = make(tiny, tmp_path / "source", tmp_path / "cache")
        recipe = fine_tuned(preset(tiny.preset).recipe(), read_config(source), source)
        own = {
            **tiny.changes,
            **STILL,
            "train.device": "cpu",
            "data.spec": tiny.data,
            "data.cache": str(tmp_path / "cache"),
        }
        kept = {key: value for key, value in own.items() if not key.startswith(("model.", "data.tokenizer"))}
        train_run(override(recipe, kept), tmp_path / "out", Silent(), init=source)
    assert_taken(weights(source), weights(tmp_path / "out"), {name: name for name in weights(source)})


def made(task: str, folder: Path, **changes: object) -> Path:
    """The tiny run of a task, with other settings."""
    tiny = TINY[task]
    with tiny.short():
        train_run(override(tiny.config(folder.parent / "cache"), changes), folder, Silent())
    return folder


def test_a_classifier_that_begins_with_a_model_of_numbers_has_plain_logits(tmp_path):
    words = Tokenizer.train(Word(), ["I like dogs", "I fear cats"], specials=("<pad>", "<unk>", "<s>", "</s>"))
    numbers = TextClassifierConfig(encoder=BertConfig(vocab=1, **SMALL), classes=1, centre=50.0, scale=9.0)
    task = TextClassification(length=24, labels="number")
    source = write_source(tmp_path / "source", task, numbers, words)
    tune("bert-classifier", source, tmp_path / "out", {"data.spec": table(tmp_path)})
    config = read_config(tmp_path / "out")
    assert (config.model.classes, config.model.centre, config.model.scale) == (2, 0.0, 1.0)


def test_adapters_of_a_model_of_numbers_are_not_exported_alone(tmp_path):
    source = encoder_run(tmp_path / "source", "bert")
    numbers = "text,label\n" + "".join(f"I like dogs,{n / 3}\n" for n in range(12))
    changes = {"data.spec": table(tmp_path, numbers), "task.labels": "number", "train.lora": "lora"}
    tune("bert-classifier", source, tmp_path / "out", changes)
    run = headway.load(tmp_path / "out", device="cpu")
    with pytest.raises(ConfigError, match="predicts numbers, whose mean and deviation are part of the exported output"):
        run.export(tmp_path / "adapter", adapter=True)


def test_a_vector_model_of_classes_begins_with_one_of_numbers(tmp_path):
    random = np.random.default_rng(0)
    for name, y in (("number", random.normal(50.0, 9.0, 40)), ("class", random.integers(0, 2, 40))):
        np.savez(tmp_path / f"{name}.npz", x=random.normal(size=(40, 3, 2)), y=y)
    small = {"model.width": 16, "model.heads": 2, "model.inner": 32, "model.layers": 1}
    recipe = override(
        preset("vectors").recipe(),
        {**FEW, **small, "data.spec": str(tmp_path / "number.npz"), "task.predicts": "number"},
    )
    train_run(recipe, tmp_path / "source", Silent())
    assert read_config(tmp_path / "source").model.deviation > 5
    tune("vectors", tmp_path / "source", tmp_path / "out", {"data.spec": str(tmp_path / "class.npz")})
    config = read_config(tmp_path / "out")
    assert (config.model.outputs, config.model.mean, config.model.deviation) == (2, 0.0, 1.0)


def test_a_question_answerer_begins_with_a_tagger_and_keeps_the_outputs_of_its_own_kind(tmp_path):
    tagger = made("tagging", tmp_path / "tagger")
    tiny = TINY["question-answering"]
    own = {key: value for key, value in tiny.changes.items() if key.startswith("task.")}
    own |= {"data.spec": tiny.data, "task.length": read_config(tagger).model.text.context}
    own |= {"task.question": 8, "task.stride": 8}
    with tiny.short():
        notes = tune("bert-reader", tagger, tmp_path / "reader", own).notes
        assert "new: head" in notes
        assert read_config(tmp_path / "reader").model.classes == 2
        config = read_config(tmp_path / "reader")
        assert config.data.classes
        plain = replace(config, data=replace(config.data, classes=()))  # as an imported one, which has no classes
        reader = tmp_path / "imported"
        write_run_files(reader, plain, {ONE_TOKENIZER: (tmp_path / "reader" / ONE_TOKENIZER).read_text()})
        Checkpoints(reader).save(1, weights(tmp_path / "reader"), {}, {})
        notes = tune("bert-reader", reader, tmp_path / "again", {**own, "train.seed": 5}).notes
    assert not any(note.startswith("new:") for note in notes)
    assert_taken(weights(reader), weights(tmp_path / "again"), {"head.weight": "head.weight"})


def test_a_language_model_gets_the_special_tokens_of_a_chat_template(tmp_path):
    known = "What is 2 + 3? user assistant 05|<>_im\n"
    letters = Tokenizer.train(Characters(), [known, "end"], specials=())
    gpt = GptConfig(vocab=1, context=64, width=16, layers=1, heads=2)
    task = preset("gpt-char").recipe().task
    source = write_source(tmp_path / "source", task, gpt, letters, DataConfig(tokenizer=Characters()))
    lines = '{"messages": [{"role": "user", "content": "2 + 3?"}, {"role": "assistant", "content": "5"}]}\n' * 20
    (tmp_path / "chats.jsonl").write_text(lines)
    notes = tune("gpt-chat", source, tmp_path / "out", {"data.spec": str(tmp_path / "chats.jsonl")}).notes
    assert "embedding.weight has 2 new rows" in "\n".join(notes)
    run = headway.load(tmp_path / "out", device="cpu")
    added = [run.tokenizer.id(token) for token in ("<|im_start|>", "<|im_end|>")]
    assert added == [letters.size, letters.size + 1]
    assert not set(added) & set(run.tokenizer.encode("<|im_end|>"))  # a message cannot spell one


def test_inputs_are_read_as_the_source_reads_them(tmp_path):
    speech, chat = (preset(name).recipe() for name in ("speech-ctc", "gpt-chat"))
    other = override(speech, {"task.sound.hop": 64})
    assert other.task.sound != speech.task.sound
    assert fine_tuned(speech, other, tmp_path).task.sound == other.task.sound
    talks = replace(chat, task=replace(chat.task, template=RoleNames()))
    assert fine_tuned(chat, talks, tmp_path).task.template == RoleNames()


def test_a_vision_transformer_becomes_the_encoder_of_a_captioner(tmp_path):
    tiny = TINY["captioning"]
    vit = VitConfig(classes=3, image=24, patch=8, width=16, layers=1, heads=2, inner=24)
    task = replace(preset("vit-ti16").recipe().task, size=24, mean=(0.4, 0.5, 0.6))
    data = DataConfig(classes=("a", "b", "c"))
    config = RunConfig(task=task, data=data, model=vit, train=TrainConfig())
    source = tmp_path / "source"
    write_run_files(source, config, {})
    Checkpoints(source).save(1, build_model(vit, seed=2).state_dict(), {}, {})
    with tiny.short():
        tune(
            "captioner-vit",
            source,
            tmp_path / "out",
            {"data.spec": "shapes", "task.max_length": 12, "train.batch_tokens": 4},
        )
    old, new, after = weights(source), weights(tmp_path / "out"), read_config(tmp_path / "out")
    shared = {name: f"encoder.{name}" for name in old if name.startswith(("stack.", "patches."))}
    assert_taken(old, new, shared)
    torch.testing.assert_close(new["encoder.positions"], old["positions"][1:], atol=1e-6, rtol=0)
    assert (after.task.size, after.task.mean, after.model.image) == (24, (0.4, 0.5, 0.6), 24)
    with pytest.raises(ConfigError, match="vision transformer with local=True, allowed for a captioner: False"):
        begin_with(CaptionerVitConfig(vocab=4), replace(vit, local=True), "run")
    larger = override(vit, {"image": 32})
    assert resize_grid(old["positions"], vit.grid, larger.grid).shape == (17, 16)


def test_new_tokens_are_the_mean_of_the_others_in_the_embedding_and_the_head(tmp_path):
    characters = Tokenizer.train(Characters(), ["I like dogs.\n"], specials=())
    gpt = GptConfig(vocab=1, context=16, width=16, layers=1, heads=2, tied=False)
    task = preset("gpt-char").recipe().task
    source = write_source(tmp_path / "source", task, gpt, characters, DataConfig(tokenizer=Characters()))
    (tmp_path / "text.txt").write_text("I like zebras, dogs.\n" * 20)
    with pytest.raises(headway.errors.DataError, match=r"character 'z' .* as --data\.new_tokens"):
        tune("gpt-char", source, tmp_path / "none", {"data.spec": str(tmp_path / "text.txt")})
    added = {"data.spec": str(tmp_path / "text.txt"), "data.new_tokens": ["zebras", ","]}
    notes = tune("gpt-char", source, tmp_path / "out", added).notes
    assert "embedding.weight has 2 new rows" in "\n".join(notes)
    run, count = headway.load(tmp_path / "out", device="cpu"), characters.size
    assert run.tokenizer.size == run.config.model.vocab == count + 2
    ids = run.tokenizer.encode("I zebras,")
    assert ids == [*characters.encode("I "), count, count + 1]
    assert run.tokenizer.decode(ids) == "I zebras,"
    for name in ("embedding.weight", "head.weight"):
        old, new = weights(source)[name], weights(tmp_path / "out")[name]
        torch.testing.assert_close(new[:count], old, atol=1e-6, rtol=0)
        apart = new[count:] - old.mean(0)
        assert 0.3 * NOISE < float(apart.std() / old.std()) < 3 * NOISE
    before = headway.load(source, device="cpu")
    tokens = torch.tensor([characters.encode("I like")])
    with torch.no_grad():  # the logits of the tokens there were are what they were
        torch.testing.assert_close(run.model(tokens)[..., :count], before.model(tokens), atol=1e-5, rtol=0)
    train_run(run.config, tmp_path / "out", Silent(), resume=True)


@pytest.mark.parametrize("config", [Word(lower=True), ByteBpe(vocab=270, fit=True), Bpe(vocab=40, fit=True)])
def test_a_vocabulary_grows_at_its_end(config):
    plain = Tokenizer.train(config, ["the dog sees the cat"])
    grown = plain.extended(["zebra"])
    assert grown.size == plain.size + 1
    assert plain.size in grown.encode("the zebra sees")
    assert plain.size not in grown.encode("the zebras")
    assert grown.encode("the dog") == plain.encode("the dog")
    assert plain.extended([], special=("pad", "start")) is plain
    masked = plain.extended([], special=("mask",))
    assert masked.mask == plain.size
    assert plain.size not in masked.encode("<mask>")  # text never becomes a special token
    for wrong in ([""], ["the", "the"]):
        with pytest.raises(ConfigError, match=r"data\.new_tokens: "):
            plain.extended(wrong)
    marked = Tokenizer.from_json(plain.to_json(), SpecialTokens(start=2))
    assert marked.extended([], special=("pad", "mask")).marks == SpecialTokens(start=2, pad=0, mask=plain.size)


def test_pairs_that_do_not_fit_are_refused_with_what_does(tmp_path):
    bert, gpt = BertConfig(vocab=5), GptConfig(vocab=5, context=8, width=8, layers=1, heads=1)
    classifier = TextClassifierConfig(encoder=bert, classes=2)
    with pytest.raises(
        ConfigError, match="--init runs/x has a model gpt, which a model bert-pretraining cannot begin with"
    ):
        begin_with(BertPretrainingConfig(bert=bert), gpt, "runs/x")
    message = (
        "model text-classifier around a bert, which a model gpt cannot .* allowed: a run with a gpt, alone or inside"
    )
    with pytest.raises(ConfigError, match=message):
        begin_with(gpt, classifier, "runs/x")
    with pytest.raises(ConfigError, match="a run with a bert or longformer"):
        begin_with(classifier, VitConfig(classes=2), "runs/x")
    assert begin_with(BertPretrainingConfig(bert=bert), replace(bert, segments=1), "runs/x").follows is False


def test_wrong_settings_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    source = encoder_run(tmp_path / "source", "bert")
    spec = table(tmp_path)
    words = ["train", "longformer-needle", "--init", str(source), "--data", spec, "--out", "out"]
    for more, message in (
        (["--data.tokenizer", "bpe"], "--data.tokenizer with --init: text is tokenised as in"),
        (["--task.length", "100"], "task.length=100, allowed: up to 24"),
        (["--task.length", "100", "--model.encoder.context", "100"], "has 24 positions; allowed: up to 24"),
        (["--model.encoder.width", "32"], "leave out options that change the model's sizes"),
        (["--data.new_tokens", "dogs"], "in the vocabulary of"),
        (["--model.encoder.windos", "3"], "did you mean windows"),
    ):
        assert main([*words, *more]) == 2
        assert message in capsys.readouterr().err, more
        assert not Path("out").exists()
    assert main(["train", "gpt-char", "--data", spec, "--data.new_tokens", "x", "--out", "out"]) == 2
    assert "pass --init RUN with it" in capsys.readouterr().err


def test_a_plan_names_what_is_taken_and_writes_nothing(tmp_path):
    source = encoder_run(tmp_path / "source", "bert")
    recipe = fine_tuned(preset("longformer-needle").recipe(), read_config(source), source)
    changes = {**FEW, "data.spec": table(tmp_path), "data.cache": str(tmp_path / "cache")}
    plan = plan_run(override(recipe, changes), tmp_path / "out", Silent(), init=source)
    assert plan.facts["begins with"].startswith(f"{source}: ")
    assert plan.facts["new"] == "head"
    assert not (tmp_path / "out").exists()


def test_data_alone_chooses_the_recipe_and_the_command_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    source = encoder_run(tmp_path / "source", "bert")
    table(tmp_path)
    short = "--train.steps 2 --train.evaluate_every 2 --train.save_every 2 --train.device cpu"
    words = f"train --data reviews.csv --init {source} --out out {short}".split()
    assert main([*words, "--print-config"]) == 0
    proposed = capsys.readouterr()
    told = next(line for line in proposed.err.splitlines() if "the same as: " in line).partition("headway ")[2]
    assert f"--init {source}" in told
    assert "tokenizer" not in told
    assert main([*told.split(), "--print-config"]) == 0
    assert capsys.readouterr().out == proposed.out


def test_adapters_of_a_run_train_with_its_new_head_and_are_merged_when_it_is_used(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    source = encoder_run(tmp_path / "source", "roformer")
    table(tmp_path)
    short = "--train.evaluate_every 2 --train.save_every 2 --train.device cpu --train.batch_tokens 128 --train.keep 9"
    adapters = "--train.lora lora --train.lora.rank 2"
    words = f"train longformer-needle --init {source} --data reviews.csv {adapters} {short}".split()
    assert main([*words, "--out", "whole", "--train.steps", "4"]) == 0
    assert "with adapters on 4 layers" in capsys.readouterr().err
    config = read_config(Path("whole"))
    assert set(config.train.lora.also) == {"head.weight", "head.bias", "encoder.pooler.weight", "encoder.pooler.bias"}
    old, new = weights(source), Checkpoints(Path("whole")).weights(merged=False)[0]
    for name in old:
        if name.startswith("bert."):
            assert torch.equal(new[f"encoder.{name.removeprefix('bert.')}"], old[name]), name
    assert weights(Path("whole")).keys() == build_model(config.model).state_dict().keys()
    run = headway.load("whole", device="cpu")
    assert run.classify(["I like dogs"])[0].top
    assert run.verify().bugs == []
    shutil.copytree("whole", "parts")
    for step in ("step-00000004",):
        shutil.rmtree(Path("parts/checkpoints") / step)
    recipe = override(fine_tuned(preset("longformer-needle").recipe(), read_config(source), source), {})
    assert replace(recipe.train, lora=config.train.lora) != config.train  # `also` is known to the run alone
    assert main(["train", "--out", "parts", "--resume"]) == 0
    ends = [Checkpoints(Path(name)).read(4) for name in ("whole", "parts")]
    for tensors in range(2):
        assert all(torch.equal(ends[0][tensors][name], ends[1][tensors][name]) for name in ends[0][tensors])
    again = tmp_path / "again"
    tune("longformer-needle", Path("whole"), again, {"data.spec": str(tmp_path / "reviews.csv")})
    assert_taken(weights(Path("whole")), weights(again), {name: name for name in weights(again)})


def test_a_new_head_trains_beside_parameters_that_are_named(tmp_path, monkeypatch):
    """Patterns of train.lora.also replaced the new parameters, so that a new head kept its random values."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    source = encoder_run(tmp_path / "source", "bert")
    table(tmp_path)
    short = "--train.steps 2 --train.evaluate_every 2 --train.save_every 1 --train.device cpu --train.batch_tokens 128"
    words = f"train bert-classifier --init {source} --data reviews.csv --train.lora lora {short} --out out".split()
    words += ["--train.lora.also", "*input_norm*,*embedding*"]
    assert main(words) == 0
    also = read_config(Path("out")).train.lora.also
    assert also[:2] == ("*input_norm*", "*embedding*")
    assert {"head.weight", "head.bias"} <= set(also)
    assert main([*words, "--resume"]) == 0  # the same command, which does not name the head
    assert read_config(Path("out")).train.lora.also == also


def test_adapters_need_a_run_to_adapt(tmp_path, capsys):
    (tmp_path / "text.txt").write_text("I like dogs.\n" * 20)
    words = [
        "train",
        "gpt-char",
        "--data",
        str(tmp_path / "text.txt"),
        "--train.lora",
        "lora",
        "--out",
        str(tmp_path / "out"),
    ]
    assert main(words) == 2
    assert "train.lora is for a run that begins with another one: pass --init RUN" in capsys.readouterr().err
