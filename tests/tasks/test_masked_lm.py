"""BERT's pretraining task: what is hidden, what is asked, and that it can be learned and resumed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from headway.data.config import DataConfig
from headway.data.tokenizers import MASK, SPECIALS, ByteBpe, Tokenizer, Word
from headway.errors import ConfigError, DataError
from headway.models import BertConfig, BertPretrainingConfig, LongformerConfig, LongformerMaskedConfig, build_model
from headway.presets import preset
from headway.runs import load, train_run
from headway.runs.config import RunConfig
from headway.tasks.masked_lm.data import _in_sentences
from headway.tasks.masked_lm.training import FOLLOWS, RANDOM, Masked, MaskedTraining
from headway.tasks.training_task import IGNORED, Batch
from headway.training.config import TrainConfig
from headway.training.trainer import Trainer
from tests.pipelines import prepared
from tests.training.small import Silent, losses, state_hash

BERT = BertConfig(vocab=1, context=32, width=32, layers=2, heads=2, inner=64, dropout=0.1)
TRAIN = TrainConfig(
    steps=8, batch_tokens=64, accumulate=2, learning_rate=0.01, evaluate_every=4, save_every=2, device="cpu"
)
CPU = torch.device("cpu")


def numbered(sentences: int, per_document: int, words: int = 6) -> str:
    """Sentences whose every word says where it stands, so that a row can be traced back to the text."""
    lines = []
    for n in range(sentences):
        lines.append(" ".join(f"{n // per_document}.{n % per_document}.{word}" for word in range(words)))
        if (n + 1) % per_document == 0:
            lines.append("")
    return "\n".join(lines) + "\n"


@pytest.fixture
def data(tmp_path) -> DataConfig:
    folder = tmp_path / "text"
    folder.mkdir()
    (folder / "train.txt").write_text(numbered(60, 6))
    (folder / "val.txt").write_text(numbered(24, 6))
    return DataConfig(spec=str(folder), tokenizer=Word(), cache=str(tmp_path / "cache"))


def task_of(data: DataConfig, config: Masked | None = None, *, batch_tokens: int = 64, seed: int = 0) -> MaskedTraining:
    model = BertPretrainingConfig(bert=BERT)
    return prepared(config or Masked(length=16), data, model, batch_tokens=batch_tokens, seed=seed).training


def model_of(task: MaskedTraining, bert: BertConfig = BERT) -> torch.nn.Module:
    return build_model(BertPretrainingConfig(bert=replace(bert, vocab=task.tokenizer.size)), seed=0)


def follows(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    tokens, lengths, segments = batch.inputs
    return model(tokens, lengths, segments_BT=segments).follows


def whole(row: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The row before it was corrupted."""
    tokens = torch.where(targets == IGNORED, row, targets)
    tokens[0] = row[0]
    return tokens


def test_corruption_rates_and_specials_over_many_tokens(data):
    task = task_of(data, Masked(length=43))
    names = {token: task.tokenizer.id(token) for token in (*SPECIALS, MASK)}
    seen = chosen = masked = kept = 0
    for number in range(80):
        for indices in task.order.epoch(number):
            batch = task.batch(indices)
            shown, lengths, _ = batch.inputs
            inside = torch.arange(shown.shape[1]) < lengths[:, None]
            targets = batch.targets.clone()
            targets[:, 0] = IGNORED
            at = targets != IGNORED
            assert not torch.isin(targets[at], torch.tensor(list(names.values()))).any()
            special = torch.isin(shown, torch.tensor([names["<pad>"], names["<s>"], names["</s>"]]))
            assert not (special & at).any()  # nothing becomes special by chance either
            seen += int((inside & ~special).sum())
            chosen += int(at.sum())
            masked += int((shown[at] == names[MASK]).sum())
            kept += int((shown[at] == targets[at]).sum())
            assert torch.equal(shown[:, 0], torch.full_like(shown[:, 0], names["<s>"]))
            assert (special & inside).sum() == 3 * len(shown)
            assert (shown[~inside] == names["<pad>"]).all()
            assert batch.count == int(at.sum())
    assert seen > 100_000
    assert chosen / seen == pytest.approx(0.15, abs=0.01)  # rounded row by row
    assert masked / chosen == pytest.approx(0.8, abs=0.01)
    assert kept / chosen == pytest.approx(0.1, abs=0.01)


def test_rows_hold_the_pair_they_say_with_segments_to_match(data):
    task = task_of(data, Masked(length=19))
    stop, labels = task.tokenizer.stop, []
    for number in range(40):
        for indices in task.order.epoch(number):
            batch = task.batch(indices)
            shown, lengths, segments = batch.inputs
            for n, length in enumerate(lengths.tolist()):
                tokens = whole(shown[n], batch.targets[n])[:length]
                first, second = (int(at) for at in torch.nonzero(tokens == stop).flatten())
                assert second == length - 1 <= 18
                assert segments[n, :length].tolist() == [0] * (first + 1) + [1] * (second - first)
                words = [[task.tokenizer.token(int(t)).split(".") for t in part] for part in
                         (tokens[1:first], tokens[first + 1 : second])]  # fmt: skip
                (document, sentence, word), (other, start, begun) = words[0][-1], words[1][0]
                assert (word, begun) == ("5", "0")  # A ends with a sentence, B begins with one
                assert len({w[0] for w in words[0]}) == len({w[0] for w in words[1]}) == 1  # each in one document
                follows = other == document and int(start) == int(sentence) + 1
                assert int(batch.targets[n, 0]) == (FOLLOWS if follows else RANDOM)
                assert start != "0"  # a B that opens a document would give itself away
                labels.append(follows)
    assert np.mean(labels) == pytest.approx(0.5, abs=0.04)


def test_blank_lines_may_be_mere_layout(data):
    paragraphs, one = task_of(data), task_of(data, Masked(length=16, documents="files"))
    assert len(paragraphs.sentences["train"].places) == 50
    assert len(one.sentences["train"].places) == 59


def test_long_lines_are_divided_at_sentence_ends():
    line = "One is here. " * 20 + "Is it? Yes"
    texts = [["short one. same line\n\n", line + "\n"], ["another file\n"]]
    divided = [*[" One is here."] * 20, " Is it?", " Yes", "", " another file", ""]
    assert list(_in_sentences(texts, paragraphs=True)) == [" short one. same line", "", *divided]
    assert list(_in_sentences(texts, paragraphs=False)) == [" short one. same line", *divided]


def test_words_keep_apart_where_a_line_breaks(tmp_path):
    folder = tmp_path / "text"
    folder.mkdir()
    for name in ("train", "val"):
        (folder / f"{name}.txt").write_text("a text whose\nlines break\n   here and\nthere\n")
    tokenizer = ByteBpe(vocab=270)
    task = task_of(DataConfig(spec=str(folder), tokenizer=tokenizer, cache=str(tmp_path / "cache")))
    assert task.tokenizer.decode(task.splits["train"].ids.tolist()) == " a text whose lines break    here and there"
    assert task.splits["train"][3].tolist() == task.tokenizer.encode(" there")  # as it would be within a line


def lengths_of(task: MaskedTraining, indices: np.ndarray) -> np.ndarray:
    """Tokens in A, tokens in B and the label of each training row (rows, 3)."""
    rows = [task._row("train", int(place), int(number)) for place, number in indices]
    seconds = [int(row.segments.sum()) for row in rows]
    return np.array([(len(r.shown) - n - 2, n - 1, r.targets[0]) for r, n in zip(rows, seconds, strict=True)])


def test_lengths_do_not_tell_whether_b_follows(data):
    (Path(data.spec) / "train.txt").write_text(numbered(2000, 20))
    task = task_of(data, Masked(length=43))
    found = lengths_of(task, np.concatenate([batch for number in range(4) for batch in task.order.epoch(number)]))
    true, other = (found[found[:, 2] == label] for label in (FOLLOWS, RANDOM))
    for part in (0, 1):
        assert true[:, part].mean() == pytest.approx(other[:, part].mean(), rel=0.02)
        assert true[:, part].std() == pytest.approx(other[:, part].std(), rel=0.05)


def test_a_place_gives_another_pair_every_time(data):
    (Path(data.spec) / "train.txt").write_text(numbered(60, 60))
    task = task_of(data, Masked(length=43))
    found = lengths_of(task, np.stack([np.full(400, 30), np.arange(400) * 2], 1))  # all true pairs in mid-document
    full = found[found[:, :2].sum(1) == 40]
    assert len(full) / len(found) == pytest.approx(0.9, abs=0.05)
    assert set(full[:, 0].tolist()) == set(range(10, 31))


@pytest.mark.parametrize("length", range(5, 12))
def test_the_shortest_rows_have_room_for_both(data, length):
    task = task_of(data, Masked(length=length))
    for number in range(100):
        row = task._row("train", 7, number)
        assert 5 <= len(row.shown) <= length
        assert 2 <= int(row.segments.sum()) <= length - 3


def test_only_chosen_positions_and_the_first_token_give_the_heads_a_gradient(data):
    task = task_of(data)
    batch = task.batch(task.order.epoch(0)[0])
    model, seen = model_of(task).eval(), []
    features = model.features

    def watched(*inputs, **named):
        x, follows = features(*inputs, **named)
        x.retain_grad()
        seen.append(x)
        return x, follows

    model.features = watched
    terms = task.loss(model, batch)
    sum(term.total for term in terms.values()).backward()
    chosen = batch.targets != IGNORED
    chosen[:, 0] = False
    gradient = seen[0].grad.abs().sum(-1)
    assert (gradient[~chosen] == 0).all()
    assert (gradient[chosen] > 0).all()


def test_the_step_s_loss_is_the_mean_of_tokens_plus_the_mean_of_rows(data):
    task = task_of(data)
    model, batch = model_of(task).eval(), task.batch(task.order.epoch(0)[0])
    terms = task.loss(model, batch)
    as_trained = sum(term.weight * term.total / batch.count for term in terms.values())
    means = sum(term.total / term.count for term in terms.values())
    torch.testing.assert_close(as_trained, means)
    assert set(terms) == {"masked_token", "next_sentence"}


def test_micro_batches_of_full_rows_equal_one_batch(data):
    task = task_of(data, Masked(length=9, documents="files"))
    model, indices = model_of(task).eval(), task.order.epoch(0)[0][:6]
    indices = indices[(indices[:, 0] > 2) & (indices[:, 0] < 55)][:4]  # away from the text's ends, where rows are short
    parts = [task.batch(indices), task.batch(indices[:2]), task.batch(indices[2:])]
    sums = [sum(term.weight * term.total for term in task.loss(model, part).values()) for part in parts]
    torch.testing.assert_close(sums[0] / parts[0].count, (sums[1] + sums[2]) / (parts[1].count + parts[2].count))


def test_rows_depend_on_seed_and_epoch_alone(data):
    a, b, other = task_of(data), task_of(data), task_of(data, seed=1)
    rows = [task.batch(task.order.epoch(3)[1]) for task in (a, b, other)]
    a.batch(a.order.epoch(0)[0])  # what was drawn before leaves no trace
    rows.append(a.batch(a.order.epoch(3)[1]))
    for same in (rows[1], rows[3]):
        assert all(torch.equal(x, y) for x, y in zip(rows[0].inputs, same.inputs, strict=True))
        assert torch.equal(rows[0].targets, same.targets)
    assert not torch.equal(rows[0].inputs[0], rows[2].inputs[0])
    again = [a.order.epoch(number)[0].tolist() for number in (0, 1)]
    assert again[0] != again[1]


def test_a_resumed_run_equals_an_uninterrupted_one_to_the_bit(data, tmp_path):
    def trainer(folder: str, steps: int) -> Trainer:
        task = task_of(data)
        (tmp_path / folder).mkdir(exist_ok=True)
        return Trainer(model_of(task), task, replace(TRAIN, steps=steps), tmp_path / folder, Silent())

    straight = trainer("straight", 8)
    straight.train()
    trainer("halves", 4).train()
    resumed = trainer("halves", 8)
    assert resumed.resume()
    resumed.train()
    assert state_hash(resumed) == state_hash(straight)
    assert losses(tmp_path / "halves") == losses(tmp_path / "straight")


def test_a_small_text_is_learned_by_heart(data, tmp_path):
    (tmp_path / "text" / "train.txt").write_text(numbered(12, 6))
    task = task_of(data, batch_tokens=160)
    model = model_of(task, replace(BERT, dropout=0.0, init_std=0.2))
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(400):
        rows = np.concatenate([task.order.epoch(2 * step + half)[0] for half in (0, 1)])
        loss = sum(term.total / term.count for term in task.loss(model, task.batch(rows)).values())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    report = task.evaluate(model.eval(), CPU, "train")
    assert report["loss"] < report["unigram_entropy"] - 2
    batches = [task.batch(task.order.epoch(number)[0]) for number in range(1000, 1010)]  # rows it never saw as they are
    right = [follows(model, batch).argmax(-1) == batch.targets[:, 0] for batch in batches]
    assert torch.cat(right).float().mean() > 0.9


def test_an_evaluation_asks_each_place_both_ways(data):
    task = task_of(data)
    rows = np.concatenate(list(task._evaluation("val")))
    assert sorted(rows[:, 0].tolist()) == sorted([*range(20), *range(20)])
    labels = task._batch("val", rows).targets[:, 0].view(-1, 2)
    assert labels.tolist() == [[FOLLOWS, RANDOM]] * 20


def test_evaluation_is_the_same_every_time_and_shows_guesses(data):
    task = task_of(data)
    model = model_of(task).eval()
    first, second = (task.evaluate(model, CPU, "val") for _ in range(2))
    assert first == second
    assert first["loss"] == task.validate(model, CPU)
    assert first["unigram_entropy"] == pytest.approx(np.log(144))
    assert set(first) == {
        "loss", "perplexity", "tokens", "next_sentence_accuracy", "unigram_entropy", "samples"
    }  # fmt: skip
    assert len(first["samples"]) == 3
    assert all(line.startswith("<s> ") and " | " in line for line in first["samples"])


def test_a_run_from_text_to_evaluation(data, tmp_path):
    config = RunConfig(
        task=Masked(length=16), data=data, model=BertPretrainingConfig(bert=BERT), train=replace(TRAIN, steps=2)
    )
    train_run(config, tmp_path / "run", Silent())
    run = load(tmp_path / "run", device="cpu")
    assert run.config.model.bert.vocab == run.tokenizer.size
    assert run.data().evaluate(run.model, run.device, "val")["tokens"] > 0
    train_run(replace(config, train=replace(TRAIN, steps=4)), tmp_path / "run", Silent(), resume=True)
    for asked in (lambda: run.translate(["a"]), lambda: run.prompt("a"), lambda: run.score("a")):
        with pytest.raises(ConfigError, match="masked model"):
            asked()


@pytest.mark.parametrize("name", ["bert-base", "bert-large", "roformer"])
def test_the_presets_are_trained_by_berts_recipe(name):
    recipe = preset(name).recipe()
    assert isinstance(recipe.task, Masked)
    assert recipe.train.batch_tokens * recipe.train.accumulate == 256 * 128
    assert recipe.model.bert == replace(preset(name).config(), pooler=True)


def test_bad_settings_and_bad_text_get_a_clear_line(data, tmp_path):
    with pytest.raises(ConfigError, match=r"task\.length=4"):
        Masked(length=4)
    with pytest.raises(ConfigError, match=r"task\.mask=1\.0"):
        Masked(mask=1.0)
    with pytest.raises(ConfigError, match="together at most 1"):
        Masked(hidden=0.8, replaced=0.3)
    (tmp_path / "text" / "train.txt").write_text("alone\n\nalone\n\n")
    with pytest.raises(DataError, match="no two sentences in a row"):
        task_of(data)
    plain = Tokenizer.train(Word(), ["a b c"])
    with pytest.raises(DataError, match="no token '<mask>'"):
        prepared(Masked(), data, BertPretrainingConfig(bert=BERT), tokenizers={"tokenizer.json": plain})


# --- running text --------------------------------------------------------------------------------------------------


def test_running_rows_are_one_stretch_of_one_document_and_full_where_it_allows(data):
    task = task_of(data, Masked(length=20, rows="running"))
    lengths = []
    for indices in task.order.epoch(0):
        batch = task.batch(indices)
        shown, sizes, segments = batch.inputs
        assert segments is None
        assert (batch.targets[:, 0] == IGNORED).all()
        for row, targets, size in zip(shown, batch.targets, sizes.tolist(), strict=True):
            tokens = whole(row, targets)[:size]
            words = [task.tokenizer.token(int(index)) for index in tokens]
            assert (words[0], words[-1]) == ("<s>", "</s>")
            places = [tuple(map(int, word.split("."))) for word in words[1:-1]]
            assert len({document for document, _, _ in places}) == 1
            within = [6 * sentence + word for _, sentence, word in places]
            assert within == list(range(within[0], within[0] + len(within)))
            lengths.append(size)
    assert max(lengths) == 20
    assert lengths.count(20) > 0.8 * len(lengths)
    assert min(lengths) >= 6


def test_running_rows_need_no_second_sentence(tmp_path):
    (tmp_path / "one.txt").write_text("one sentence alone and no other\n\n" * 20)
    data = DataConfig(spec=str(tmp_path / "one.txt"), tokenizer=Word(), cache=str(tmp_path / "cache"))
    assert task_of(data, Masked(length=8, rows="running")).batch(np.asarray([[0, 0]])).count >= 1
    with pytest.raises(DataError, match="no two sentences in a row"):
        task_of(data, Masked(length=8))


def test_which_models_go_with_which_rows():
    long = LongformerConfig(vocab=9, width=8, layers=1, heads=1, inner=8)
    Masked(rows="running").check_model(LongformerMaskedConfig(longformer=long))
    Masked().check_model(LongformerMaskedConfig(longformer=replace(long, segments=2)))
    Masked(rows="running").check_model(BertPretrainingConfig(bert=BERT, follows=False))
    with pytest.raises(ConfigError, match=r"task.rows=pairs with this model, allowed: running"):
        Masked().check_model(LongformerMaskedConfig(longformer=long))
    with pytest.raises(ConfigError, match=r"task.rows=running with this model, allowed: pairs"):
        Masked(rows="running").check_model(BertPretrainingConfig(bert=BERT))
    with pytest.raises(ConfigError, match="a masked task with a BertConfig"):
        Masked().check_model(BERT)
