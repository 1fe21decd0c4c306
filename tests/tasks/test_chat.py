"""Chat: loss on answers only, long conversations cut and counted, answers with a KV cache as without one."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

import headway
from headway.config import override
from headway.data.chat_template import ChatEncoder, Chatml
from headway.data.chats import ChatDataset, Conversation, Message
from headway.data.token_store import TokenStore
from headway.data.tokenizers import Characters, Tokenizer
from headway.decoding.sampling import GREEDY, Sampling, stream
from headway.errors import DataError, TooLongError
from headway.models import GptConfig, build_model
from headway.nn.positions import Rotary
from headway.presets import PRESETS
from headway.reliability.runs import TINY, make
from headway.runs.train import train_run
from headway.tasks.chat import Chat
from headway.tasks.chat.session import ChatSession, fitted
from headway.tasks.chat.training import LEARNT, ChatTraining
from headway.tasks.proposal import recognise
from headway.tasks.training_task import IGNORED

CPU = torch.device("cpu")
LETTERS = "abcdefghijklmnopqrstuvwxyz +?01234\n"
TALKS: tuple[Conversation, ...] = (
    (Message("user", "ab"), Message("assistant", "ba")),
    (
        Message("system", "be kind"),
        Message("user", "a"),
        Message("assistant", "b"),
        Message("user", "c"),
        Message("assistant", "d"),
    ),
    (Message("user", "abc?"), Message("assistant", "cba")),
    (Message("user", "a" * 30), Message("assistant", "ok"), Message("user", "more")),
)


def encoder() -> ChatEncoder:
    return ChatEncoder(Chatml(), Tokenizer.train(Characters(), [LETTERS], specials=Chatml().special))


def training(talks: tuple[Conversation, ...] = TALKS, *, context: int = 64, batch_tokens: int = 4096) -> ChatTraining:
    made = encoder()
    rows = []
    for messages in talks:
        found = made.encode(messages)
        rows.append([index | (LEARNT if learnt else 0) for index, learnt in zip(found.ids, found.learnt, strict=True)])
    starts = np.cumsum([0, *map(len, rows)])
    store = TokenStore(np.asarray([index for row in rows for index in row], np.uint32), starts)
    chats = ChatDataset(name="talks", splits={"train": talks, "val": talks})
    splits = {"train": store, "val": store}
    return ChatTraining(made, splits, chats, task=Chat(), context=context, batch_tokens=batch_tokens, seed=0)


def model_of(made: ChatEncoder, *, context: int = 256, seed: int = 0) -> torch.nn.Module:
    config = GptConfig(
        vocab=made.tokenizer.size, context=context, width=16, layers=2, heads=2, position=Rotary(), init_std=0.3
    )
    return build_model(config, seed=seed).eval()


# --- training -------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_the_loss_is_that_of_the_answers_and_their_ends():
    task = training()
    model = model_of(task.encoder)
    nats, count = 0.0, 0
    for messages in TALKS:
        found = task.encoder.encode(messages)
        logits = model(torch.tensor([found.ids[:-1]])).log_softmax(-1)[0]
        for place, (index, learnt) in enumerate(zip(found.ids[1:], found.learnt[1:], strict=True)):
            if learnt:
                nats, count = nats - float(logits[place, index]), count + 1
    report = task.evaluate(model, CPU, "val")
    assert report.tokens == count == sum(len(m.content) + 1 for talk in TALKS for m in talk if m.role == "assistant")
    assert report.nats == pytest.approx(nats, rel=1e-5)
    whole = task.batch(np.arange(len(TALKS)))
    assert whole.count == count == int((whole.targets != IGNORED).sum())
    assert float(task.loss(model, whole)["next_token"].total) == pytest.approx(nats, rel=1e-5)


@torch.no_grad()
def test_padding_and_the_order_of_batches_change_nothing():
    model = model_of(encoder())
    alone, together = training(batch_tokens=1), training()
    assert len(alone.order.epoch(0)) == len(TALKS)
    parts = [alone.loss(model, alone.batch(rows))["next_token"] for rows in alone.order.epoch(0)]
    whole = together.loss(model, together.batch(np.arange(len(TALKS))))["next_token"]
    assert sum(part.count for part in parts) == whole.count
    assert sum(float(part.total) for part in parts) == pytest.approx(float(whole.total), rel=1e-5)


def test_what_the_user_says_has_no_target():
    task = training(TALKS[:1])
    batch = task.batch(np.arange(1))
    said = [task.tokenizer.token(index) for index in batch.targets[0].tolist() if index != IGNORED]
    assert said == ["b", "a", "<|im_end|>"]


def test_long_conversations_are_cut_or_left_out_and_counted():
    task = training(context=40)
    lengths = [len(task.encoder.encode(messages).ids) for messages in TALKS]
    assert [length > 41 for length in lengths] == [False, True, False, True]
    assert task.cut("train") == (2, 1)  # the last one has its first answer after more than 40 tokens
    told = "train: 2 of 4 conversations are cut after 40 tokens, 1 of them left out: no answer begins before that"
    assert task.cut_note("train") == told
    assert sorted(row for rows in task.order.epoch(0) for row in rows) == [0, 1, 2]
    assert max(batch.inputs[0].shape[1] for batch in map(task.batch, task.order.epoch(0))) == 40
    assert training().cut_note("train") == ""
    with pytest.raises(DataError, match=r"no answer begins within 5 tokens: raise task\.context and model\.context"):
        training(context=5).order  # noqa: B018


def test_a_model_that_learnt_its_answers_by_heart_is_right():
    task = training(TALKS[:3])
    model = model_of(task.encoder)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    assert sum(each.exact for each in task.answered(model, CPU, "val")) < 3
    for _ in range(80):
        batch = task.batch(np.arange(3))
        optimiser.zero_grad()
        (task.loss(model, batch)["next_token"].total / batch.count).backward()
        optimiser.step()
    found = task.answered(model, CPU, "val")
    assert [(each.reference, each.output) for each in found] == [("ba", "ba"), ("d", "d"), ("cba", "cba")]
    assert task.samples(model, CPU) == ["ab → ba", "c → d", "abc? → cba"]


def test_an_answer_that_goes_on_is_not_exact():
    """An output is cut a token after the reference's length: it must not pass for the reference there."""
    task = training(((Message("user", "a"), Message("assistant", "b")),) * 2)

    class Repeats(torch.nn.Module):
        def start(self, source=None, *, capacity=64):
            return 0

        def extend(self, tokens, state, counts=None):
            logits = torch.zeros(*tokens.shape, task.tokenizer.size)
            logits[..., task.tokenizer.id("b")] = 1
            return logits, state

        def select(self, state, rows):
            return state

    found = task.answered(Repeats(), CPU, "val")
    assert [each.output for each in found] == ["bb", "bb"]
    assert not any(each.exact for each in found)


# --- answers --------------------------------------------------------------------------------------------------------


def answers(session: ChatSession, prompt: list[int], sampling: Sampling, number: int = 0, **more: object) -> list[int]:
    settings = {"max_tokens": 12, "seed": 3, "stops": frozenset(), "note": lambda text: None, **more}
    return list(session.answer(prompt, sampling, number=number, **settings))


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(), Sampling(top_k=5, repetition_penalty=1.3)], ids=str)
def test_the_kept_cache_gives_the_tokens_of_reading_all_again(sampling):
    made = encoder()
    model = model_of(made)
    kept = ChatSession(model, CPU, context=256)  # type: ignore[arg-type]
    messages: list[Message] = []
    reused = []
    for turn, text in enumerate(("ab?", "more", "and 1 + 2")):
        messages.append(Message("user", text))
        prompt = made.prompt(messages)
        found = answers(kept, prompt, sampling, turn)
        assert found == answers(ChatSession(model, CPU, context=256), prompt, sampling, turn)  # type: ignore[arg-type]
        plain = stream(model, torch.tensor([prompt]), max_tokens=12, sampling=sampling, seed=3, number=turn)  # type: ignore[arg-type]
        assert found == list(plain)
        reused.append(kept.reused)
        letters = [index for index in found if index not in made.ids.values()]
        messages.append(Message("assistant", made.tokenizer.decode(letters) or "a"))
    assert reused[0] == 0


def test_the_cache_is_used_where_a_conversation_goes_on_and_only_there():
    made = encoder()
    model = model_of(made)
    session = ChatSession(model, CPU, context=256)  # type: ignore[arg-type]
    asked = [Message("user", "ab?")]
    prompt = made.prompt(asked)
    stops = frozenset(made.ids.values())
    text = made.tokenizer.decode(answers(session, prompt, GREEDY, stops=stops))
    following = made.prompt([*asked, Message("assistant", text), Message("user", "c")])
    answers(session, following, GREEDY, stops=stops)
    assert session.reused >= len(prompt)
    answers(session, made.prompt([Message("user", "other")]), GREEDY)
    assert session.reused == 0


def test_an_answer_that_is_stopped_leaves_a_session_that_goes_on():
    made = encoder()
    model = model_of(made)
    session, fresh = (ChatSession(model, CPU, context=256) for _ in range(2))  # type: ignore[arg-type]
    prompt = made.prompt([Message("user", "ab?")])
    settings = {"max_tokens": 12, "seed": 0, "number": 0, "stops": frozenset(), "note": lambda text: None}
    begun = session.answer(prompt, GREEDY, **settings)
    some = [next(begun), next(begun)]
    begun.close()  # type: ignore[attr-defined]
    longer = [*prompt, *some]
    assert answers(session, longer, GREEDY) == answers(fresh, longer, GREEDY)
    assert session.reused == len(prompt) + 1  # the last token was drawn, and not read yet


def test_an_interrupt_while_a_prompt_is_read_keeps_no_half_of_a_cache(monkeypatch):
    made = encoder()
    model = model_of(made)
    session = ChatSession(model, CPU, context=256)  # type: ignore[arg-type]
    prompt = made.prompt([Message("user", "ab?")])
    expected = answers(session, prompt, GREEDY)
    extend = type(model).extend

    def interrupted(*arguments: object) -> None:
        extend(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(model), "extend", interrupted)
        with pytest.raises(KeyboardInterrupt):
            answers(session, [*prompt, *expected], GREEDY)
    assert session.held is None
    assert answers(session, prompt, GREEDY) == expected


def test_an_answer_ends_at_the_context_with_a_note():
    made = encoder()
    session, told = ChatSession(model_of(made, context=32), CPU, context=32), []  # type: ignore[arg-type]
    prompt = made.prompt([Message("user", "a")])
    found = answers(session, prompt, GREEDY, max_tokens=100, note=told.append)
    assert len(prompt) + len(found) == 33  # the last token is not read any more
    assert told == ["the answer ends at the model's context of 32 tokens"]


# --- the context ----------------------------------------------------------------------------------------------------


def test_the_oldest_turns_are_left_out_with_a_note_and_the_system_message_stays():
    made, told = encoder(), []
    turns = [Message(role, text) for n in range(5) for role, text in (("user", f"ask {n}"), ("assistant", "yes"))]
    messages = (Message("system", "be kind"), *turns[:8], Message("user", "last"))
    whole = len(made.prompt(messages))
    prompt = fitted(made, messages, context=128, max_tokens=20, note=told.append)
    expected = (messages[0], *messages[-5:])
    assert prompt == made.prompt(expected)
    assert told == [
        f"the 4 oldest messages left out: the conversation has {whole} tokens, the model reads 128, "
        "of which 20 are for the answer"
    ]
    assert fitted(made, messages, context=None, max_tokens=20, note=told.append) == made.prompt(messages)
    assert len(told) == 1


def test_a_message_that_is_too_long_alone_is_refused():
    with pytest.raises(
        TooLongError, match=r"the message has 119 tokens with its template, and the model reads 64, of wh"
    ):
        fitted(encoder(), (Message("user", "a" * 100),), context=64, max_tokens=200, note=print)


# --- runs -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    desk = tmp_path_factory.mktemp("chat")
    with TINY["chat"].short():
        yield headway.load(make(TINY["chat"], desk / "run", desk / "cache"), device="cpu")


def test_run_chat_takes_a_question_or_messages(run):
    asked = "What is 2 + 3?"
    said = "".join(run.chat(asked, max_tokens=8, temperature=0))
    assert said == "".join(run.chat([{"role": "user", "content": asked}], max_tokens=8, temperature=0))
    assert said == "".join(run.chat([Message("user", asked)], max_tokens=8, temperature=0))
    kind = "".join(run.chat(asked, system="Answer briefly.", max_tokens=8, temperature=0))
    listed = [{"role": "system", "content": "Answer briefly."}, {"role": "user", "content": asked}]
    assert kind == "".join(run.chat(listed, max_tokens=8, temperature=0))
    with pytest.raises(DataError, match="chat: message 1: role 'bot', allowed: system, user, assistant"):
        run.chat([{"role": "bot", "content": "x"}])
    with pytest.raises(DataError, match="chat: message 1: the content is empty"):
        run.chat(" ")


def test_two_answers_at_once_do_not_disturb_each_other(run):
    settings = {"max_tokens": 8, "temperature": 0}
    alone = ["".join(run.chat(text, **settings)) for text in ("What is 2 + 3?", "Spell abc backwards.")]
    both = [run.chat(text, **settings) for text in ("What is 2 + 3?", "Spell abc backwards.")]
    found = ["", ""]
    for _ in range(8):
        for n, pieces in enumerate(both):
            found[n] += next(pieces, "")
    assert found == alone


def test_evaluate_counts_what_was_cut(run, tmp_path):
    path = tmp_path / "long.jsonl"
    short = {"messages": [{"role": "user", "content": "What is 2 + 3?"}, {"role": "assistant", "content": "5"}]}
    asked = {"role": "user", "content": "What is 2 + 3?" * 20}
    long = {"messages": [asked, {"role": "assistant", "content": "5"}]}
    path.write_text("".join(f"{json.dumps(each)}\n" for each in (short, short, long)))
    report = run.evaluate(str(path))
    assert (report.split, report.values["cut"], report.values["left_out"]) == ("test", 1, 1)
    assert (report.values["conversations"], report.values["answers"], report.values["tokens"]) == (3, 2, 4)
    assert math.isclose(report.values["perplexity"], math.exp(report.values["loss"]))
    note = "test: 1 of 3 conversations are cut after 128 tokens, 1 of them left out: no answer begins before that"
    assert any(getattr(section, "text", "") == note for section in report.sections)


def test_conversations_are_recognised(tmp_path):
    path = tmp_path / "chats.jsonl"
    row = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}
    path.write_text(f"{json.dumps(row)}\n" * 3)
    found = recognise(str(path))
    assert (found.preset, found.found) == ("gpt-chat", "conversations")
    assert found.sign == "the messages of chats.jsonl, each with a role and a content"
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "train.jsonl").write_text(path.read_text())
    assert recognise(str(tmp_path / "folder")).preset == "gpt-chat"
    assert recognise("arithmetic-chat").preset == "gpt-chat"
    path.write_text('{"messages": "none", "text": "a b c"}\n' * 3)
    assert recognise(str(path)).preset != "gpt-chat"


def test_the_words_of_the_template_count_as_often_as_they_occur(tmp_path):
    """One token each for `user` and `assistant`, which stand in every conversation, and no merge of rarer letters."""
    path = tmp_path / "chats.jsonl"
    chats = [
        [{"role": "user", "content": a}, {"role": "assistant", "content": b}] for a, b in pairwise("bcdfghjklmpqvwxz")
    ]
    path.write_text("".join(f"{json.dumps({'messages': turns})}\n" for turns in chats))
    changes = {"data.spec": str(path), "data.cache": str(tmp_path / "cache"), "train.device": "cpu", "train.steps": 1}
    changes |= {"train.schedule.warmup": 0, "train.evaluate_every": 1, "train.save_every": 1}
    train_run(override(PRESETS["gpt-chat"].recipe(), changes), tmp_path / "run")
    encoder = headway.load(tmp_path / "run", device="cpu").pipeline.encoder
    pieces = [encoder.tokenizer.token(index) for index in encoder.prompt([Message("user", "bc")])]
    assert pieces == ["<|im_start|>", "user", "Ċ", "b", "c", "<|im_end|>", "Ċ", "<|im_start|>", "assistant", "Ċ"]


def test_a_character_that_train_lacks_is_named(tmp_path):
    path = tmp_path / "chats.jsonl"
    rows = [{"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "a"}]} for text in "aaΩ"]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    changes = {"data.spec": str(path), "data.cache": str(tmp_path / "cache"), "train.device": "cpu"}
    changes["data.tokenizer"] = "characters"
    with pytest.raises(
        DataError, match=r"val split: character 'Ω' \(U\+03A9\) does not occur in the training split; add"
    ):
        train_run(override(PRESETS["gpt-chat"].recipe(), changes), Path(tmp_path / "run"))
