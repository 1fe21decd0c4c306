"""Translation: one pass gives loss and forced guesses; greedy outputs are set beside them."""

from __future__ import annotations

import pytest
import torch

from headway.data.config import DataConfig
from headway.data.tokenizers import SpecialTokens, Word
from headway.errors import DataError
from headway.models import EncoderDecoderConfig, build_model
from headway.tasks.training_task import cross_entropy
from headway.tasks.translation.training import Translation, TranslationTraining
from tests.pipelines import prepared

CPU = torch.device("cpu")
PAIRS = {
    "train": [(f"the {word} {n} sleeps", f"le {word} {n} dort") for n in range(8) for word in ("chat", "chien")],
    "val": [("the chat 1 sleeps", "le chat 1 dort"), ("sleeps", "dort"), ("the chien", "le chien dort 3")],
    "odd": [("the chat", "le"), ("", "le chat"), ("sleeps", "")],
}


@pytest.fixture
def task(tmp_path) -> TranslationTraining:
    for split, pairs in PAIRS.items():
        for side, ending in enumerate(("en", "fr")):
            (tmp_path / f"{split}.{ending}").write_text("".join(f"{pair[side]}\n" for pair in pairs))
    data = DataConfig(spec=str(tmp_path), tokenizer=Word(), cache=str(tmp_path / "cache"))
    return prepared(Translation(max_extra=5), data, batch_tokens=64).training


def trained(task: TranslationTraining, steps: int = 30) -> torch.nn.Module:
    sizes = {"width": 16, "inner": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    model = build_model(EncoderDecoderConfig(vocab=task.target_tokenizer.size, **sizes), seed=0)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(steps):
        batch = task.batch(task.order.epoch(step)[0])
        optimiser.zero_grad()
        (task.loss(model, batch)["next_token"].total / batch.count).backward()
        optimiser.step()
    return model.eval()


def by_hand(task: TranslationTraining, model: torch.nn.Module, split: str) -> tuple[float, list[list[int]]]:
    """One line at a time, without padding."""
    nats, guesses = 0.0, []
    pairs, tokenizer = task.splits[split], task.target_tokenizer
    for n in range(len(pairs.source)):
        source = torch.tensor([[*pairs.source[n].tolist(), tokenizer.stop]])
        target = torch.tensor([[*pairs.target[n].tolist(), tokenizer.stop]])
        with torch.no_grad():
            logits = model(source, torch.cat([torch.tensor([[tokenizer.start]]), target[:, :-1]], 1))
        nats += float(cross_entropy(logits, target))
        guesses.append(logits.argmax(-1)[0].tolist())
    return nats, guesses


@pytest.mark.parametrize("split", ["val", "odd"])
def test_forced_guesses_and_loss_come_in_the_order_of_the_lines(task, split):
    model = trained(task)
    forced = task.forced(model, CPU, split)
    nats, guesses = by_hand(task, model, split)
    assert forced.score.nats == pytest.approx(nats, rel=1e-5)
    assert forced.guesses == guesses
    target, stop = task.splits[split].target, task.target_tokenizer.stop
    assert forced.gold == [[*target[n].tolist(), stop] for n in range(3)]
    assert forced.score.tokens == sum(map(len, forced.gold))


def test_the_model_runs_once_over_the_split(task):
    model, calls = trained(task, 1), []
    model.register_forward_hook(lambda *_: calls.append(1))
    task.forced(model, CPU, "val")
    assert len(calls) == 1
    assert task.validate(model, CPU) == task.forced(model, CPU, "val").score.loss


def test_free_runs_agree_with_forced_guesses_until_they_part(task):
    model = trained(task)
    forced = task.forced(model, CPU, "val")
    greedy = task.outputs(model, CPU, [source for source, _ in PAIRS["val"]], beam=1)
    report = forced.beside(greedy)
    assert report.forced[0] == report.free[0]
    for guesses, free, index in zip(forced.guesses, greedy, report.divergence, strict=True):
        end = len(guesses) if index is None else index + 1
        assert guesses[:end] == [*free, task.target_tokenizer.stop][:end]


def test_an_empty_source_says_nothing_and_an_empty_target_is_its_stop_token(task):
    model, stop = trained(task, 1), task.target_tokenizer.stop
    outputs = task.outputs(model, CPU, [source for source, _ in PAIRS["odd"]], beam=1)
    assert outputs[1] == []
    assert task.translate(model, CPU, [""]) == [""]
    forced = task.forced(model, CPU, "odd")
    assert forced.gold[2] == [stop]
    right = forced.beside([line[:-1] for line in forced.gold])
    assert right.free_accuracy == 1
    assert right.mean_divergence is None
    silent = forced.beside([[], [], []])
    assert silent.divergence == (0, 0, None)


def test_an_unknown_split_is_named(task):
    with pytest.raises(DataError, match="no split 'exam', there are odd, train, val"):
        task.forced(torch.nn.Identity(), CPU, "exam")


def test_marks_put_tokens_in_front_of_every_source_of_a_new_run(task, tmp_path):
    marks = SpecialTokens(pad=0, unk=1, start=2, stop=3, before=(2,))
    data = DataConfig(spec=str(tmp_path), tokenizer=Word(), cache=str(tmp_path / "cache"), marks=marks)
    found = prepared(Translation(), data, batch_tokens=64)
    marked = found.training
    assert {tokenizer.marks for tokenizer in found.tokenizers.values()} == {marks}
    assert (marked.source_tokenizer.start, marked.source_tokenizer.stop) == (task.source_tokenizer.start, 3)
    for split in PAIRS:
        for n in range(len(PAIRS[split])):
            assert marked.splits[split].source[n].tolist() == [2, *task.splits[split].source[n].tolist()]
            assert marked.splits[split].target[n].tolist() == task.splits[split].target[n].tolist()
