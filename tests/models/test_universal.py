"""The Universal Transformer: its loop against its definition, its limits, and how long its tokens think."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from headway.errors import ConfigError
from headway.models import EncoderInput, UniversalConfig, build_model
from headway.models.universal import Offsets
from headway.nn.adaptive_computation import Adaptive, Fixed
from headway.nn.attention import AttentionConfig
from headway.nn.block import BlockConfig
from headway.nn.feedforward import FeedForwardConfig
from headway.nn.stack import StackConfig
from headway.nn.universal_stack import LoopConfig, record_steps
from headway.ops import Causal, Lengths, Window, sinusoids
from tests.models.tiny import UNIVERSAL, UNIVERSAL_BERT, VOCAB, build, text

WIDTH, STEPS = 16, 5
BLOCK = BlockConfig(attention=AttentionConfig(width=WIDTH, heads=4), feedforward=FeedForwardConfig(inner=24))
READINGS = [(halted, mixture) for halted in ("copied", "transformed") for mixture in ("interpolated", "accumulated")]


def loop(halting, seed: int = 0):
    torch.manual_seed(seed)
    return LoopConfig(block=BLOCK, halting=halting).build().eval()


def inputs(rows: int = 3, length: int = 11):
    return torch.randn(rows, length, WIDTH, generator=torch.Generator().manual_seed(3))


def told(x, step: int):
    """What the block reads at a step, counted from 0."""
    return x + sinusoids(torch.arange(x.shape[1]), WIDTH) + sinusoids(torch.tensor(step + 1), WIDTH)


def sure(model, p: float):
    """The loop with every token's p set to this."""
    with torch.no_grad():
        model.halt.weight.zero_()
        model.halt.bias.fill_(torch.logit(torch.tensor(p)))
    return model


def test_fixed_steps_apply_the_block_with_both_coordinates():
    model, x = loop(Fixed(steps=3)), inputs()
    expected = x
    for step in range(3):
        expected = model.blocks[0](told(expected, step))
    torch.testing.assert_close(model(x), expected)


@pytest.mark.parametrize(("halted", "mixture"), READINGS)
def test_adaptive_steps_as_defined_token_by_token(halted, mixture):
    model, x = loop(Adaptive(steps=STEPS, bias=-1.0, halted=halted, mixture=mixture)), inputs()
    with record_steps(model) as records:
        found = model(x)
    h, n, r = (torch.zeros(x.shape[:2]) for _ in range(3))
    state, out, over = x, torch.zeros_like(x), torch.zeros(x.shape[:2], dtype=torch.bool)
    for step in range(STEPS):
        p = (told(state, step) @ model.halt.weight + model.halt.bias).sigmoid()
        after = model.blocks[0](told(state, step))
        before = state
        state = after.clone()
        for row, at in torch.cartesian_prod(torch.arange(x.shape[0]), torch.arange(x.shape[1])).tolist():
            if over[row, at]:
                if halted == "copied":
                    state[row, at] = before[row, at]
                continue
            n[row, at] += 1
            if h[row, at] + p[row, at] > 0.99 or step + 1 == STEPS:
                u = r[row, at] = 1 - h[row, at]
                over[row, at] = True
            else:
                u = p[row, at]
                h[row, at] += u
            kept = 1 if mixture == "accumulated" else 1 - u
            out[row, at] = kept * out[row, at] + u * after[row, at]
    torch.testing.assert_close(found, out)
    ((_, steps, cost),) = records
    assert torch.equal(steps, n.long())
    assert len(steps.unique()) > 2  # or nothing was tested
    torch.testing.assert_close(cost, n + r)


def test_the_two_readings_of_a_halted_state_differ_only_once_one_has_halted():
    copied, moving = (loop(Adaptive(steps=STEPS, bias=-1.0, halted=halted)) for halted in ("copied", "transformed"))
    x = inputs()
    with record_steps(copied) as records:
        a, b = copied(x), moving(x)
    first = records[0][1].amin(1, keepdim=True)
    same = (a - b).abs().amax(-1) < 1e-6
    assert same[records[0][1] == first].all()
    assert not same.all()


@pytest.mark.parametrize(("halted", "mixture"), READINGS)
def test_limits(halted, mixture):
    """p → 1: one step, its state. p → 0: all of them, the last one's state, as with a fixed number."""
    x = inputs()
    for p, steps in ((1 - 1e-6, 1), (1e-12, STEPS)):
        model = sure(loop(Adaptive(steps=STEPS, halted=halted, mixture=mixture)), p)
        fixed = loop(Fixed(steps=steps))
        with record_steps(model) as records:
            torch.testing.assert_close(model(x), fixed(x))
        assert (records[0][1] == steps).all()


def test_a_halted_token_s_output_is_frozen_whatever_the_cap():
    x, causal = inputs(), Causal()
    short, long = (loop(Adaptive(steps=steps, bias=-1.0)) for steps in (STEPS, STEPS + 4))
    with record_steps(short) as records:
        a, b = short(x, mask=causal), long(x, mask=causal)
    halted = records[0][1] < STEPS
    assert 0 < halted.sum() < halted.numel()
    assert torch.equal(a[halted], b[halted])
    assert not torch.equal(a, b)


def test_steps_end_with_the_last_token_that_thinks():
    model, calls = sure(loop(Adaptive(steps=STEPS)), 0.6), []
    model.blocks[0].register_forward_hook(lambda *_: calls.append(1))
    model(inputs())
    assert len(calls) == 2
    model(inputs(length=1), cache=model.empty_cache(4))
    assert len(calls) == 2 + STEPS  # a cache holds every step: a later token may look at them


def test_padding_takes_no_steps_and_changes_nothing():
    model, x = loop(Adaptive(steps=STEPS, bias=-1.0)), inputs()
    lengths = torch.tensor([11, 4, 7])
    with record_steps(model) as records:
        together = model(x, mask=Lengths(lengths), lengths_B=lengths)
    for row, length in enumerate(lengths.tolist()):
        with record_steps(model) as alone:
            torch.testing.assert_close(together[[row], :length], model(x[[row], :length]))
        assert torch.equal(records[0][1][[row], :length], alone[0][1])
        assert (records[0][1][row, length:] == 0).all()


def test_parameters_do_not_depend_on_steps():
    def count(halting) -> int:
        model = build_model(replace(UNIVERSAL, halting=halting), device="meta")
        return sum(parameter.numel() for parameter in model.parameters())

    assert count(Adaptive(steps=2)) == count(Adaptive(steps=50))
    assert count(Fixed(steps=1)) == count(Fixed(steps=50)) == count(Adaptive()) - 2 * (UNIVERSAL.width + 1)


def test_positions_begin_anywhere_in_training_and_at_0_after_it():
    model = build_model(replace(UNIVERSAL, dropout=0.0, offsets=Offsets(most=1000))).eval()
    batch = text("universal")
    torch.testing.assert_close(model(batch.source, batch.tokens), model(batch.source, batch.tokens), rtol=0, atol=0)
    still = model(batch.source, batch.tokens)
    model.train()
    torch.manual_seed(0)
    moved = [model(batch.source, batch.tokens) for _ in range(2)]
    assert not torch.allclose(moved[0], moved[1])
    assert not torch.allclose(moved[0], still)
    unmoved = build_model(replace(UNIVERSAL, dropout=0.0, offsets=None)).train()
    torch.testing.assert_close(unmoved(batch.source, batch.tokens), still)


def test_both_sides_begin_at_the_same_place():
    """A copy is told by the difference of positions between the two sides: that must not move."""
    model = build_model(replace(UNIVERSAL, dropout=0.0, halting=Fixed(steps=1), offsets=Offsets(most=50))).train()
    seen = []
    for side in (model.encoder, model.decoder):
        side.blocks[0].tap_resid_in.register_forward_hook(lambda _, __, x: seen.append(x))
    tokens = torch.zeros(4, 6, dtype=torch.long)
    model(tokens, tokens)
    torch.testing.assert_close(seen[0], seen[1])
    assert not torch.allclose(seen[0][0], seen[0][1])  # and rows differ


def test_ponder_returns_the_steps_of_each_token():
    model, batch = build("universal"), text("universal", padded=True)
    steps = model.ponder(batch.source, batch.tokens, batch.source_lengths, batch.lengths)
    assert steps.source.shape == batch.source.shape
    assert steps.target.shape == batch.tokens.shape
    for found, lengths in ((steps.source, batch.source_lengths), (steps.target, batch.lengths)):
        real = torch.arange(found.shape[1]) < lengths.unsqueeze(-1)
        assert torch.equal(found > 0, real)
        assert int(found.max()) <= 5
    assert len(torch.cat([steps.source, steps.target], 1).unique()) > 3


def test_a_later_token_that_thinks_longer_sees_earlier_ones_at_its_depth():
    model, batch = build("universal"), text("universal", rows=6, length=12)
    steps = model.ponder(batch.source, batch.tokens).target
    deeper = (steps[:, 1:] > steps[:, :-1].cummax(1).values).any(1)
    assert deeper.any()
    state, seen = model.start(EncoderInput(batch.source)), []
    for token in batch.tokens.split(1, 1):
        logits, state = model.extend(token, state)
        seen.append(logits)
    assert len(state.cache.layers) == 5
    whole = model(batch.source, batch.tokens)
    torch.testing.assert_close(torch.cat(seen, 1)[deeper], whole[deeper], atol=1e-5, rtol=0)


def test_the_encoder_alone_ponders_too():
    model = build("bert-universal")
    tokens = torch.arange(12).view(2, 6)
    with record_steps(model) as records:
        model(tokens, torch.tensor([6, 2]))
    ((_, steps, cost),) = records
    assert torch.equal(steps > 0, torch.arange(6) < torch.tensor([[6], [2]]))
    assert (cost[steps > 0] > 1).all()
    assert UNIVERSAL_BERT.vocab == VOCAB


def test_a_fifth_of_the_rows_begins_at_0_and_the_sides_may_part():
    device = torch.device("cpu")
    torch.manual_seed(0)
    (source,), (target,) = Offsets(most=400).draw(20_000, 3, 2, device)
    assert source.shape == (20_000, 3)
    assert torch.equal(source[:, :2], target)
    assert torch.equal(source[:, :1].expand(-1, 3), source)
    assert 0.18 < (source == 0).float().mean() < 0.22
    assert (int(source.max()), len(source.unique())) == (400, 401)
    source, target = Offsets(most=400, sides="apart").draw(1000, 3, 3, device)
    assert not torch.equal(source, target)


def test_positions_may_move_before_every_step():
    device = torch.device("cpu")
    assert Offsets(most=50).draw(6, 3, 2, device, steps=4)[0].shape == (1, 6, 3)
    torch.manual_seed(0)
    source, target = Offsets(most=50, drawn="every-step").draw(6, 3, 2, device, steps=4)
    assert source.shape == (4, 6, 3)
    assert torch.equal(source[..., :2], target)
    assert len(source[:, 0, 0].unique()) > 1
    model = loop(Fixed(steps=3))
    x, shift = inputs(), torch.randint(0, 50, (3, 3, 11))
    expected = x
    for step in range(3):
        places = sinusoids(torch.arange(11) + shift[step], WIDTH)
        expected = model.blocks[0](expected + places + sinusoids(torch.tensor(step + 1), WIDTH))
    torch.testing.assert_close(model(x, shift_NBT=shift), expected)
    torch.testing.assert_close(model(x, shift_NBT=shift[:1]), model(x, shift_NBT=shift[:1].expand(3, -1, -1)))


def test_a_window_grows_with_the_steps_and_leaves_the_source_open():
    """A token sees its direct neighbours, after two steps theirs; across the sides every token sees all."""
    config = replace(UNIVERSAL, window=1, halting=Fixed(steps=2), dropout=0.0, offsets=None)
    model = build_model(config, seed=0).eval()
    source, target = torch.arange(10).repeat(2, 1), torch.arange(8).repeat(2, 1)
    source[1, 5] = target[1, 3] = 20
    encoded, moved = model.encoder(model.target_embedding(source), mask=Window(1))
    assert ((encoded - moved).abs().amax(-1) > 1e-6).nonzero().flatten().tolist() == [3, 4, 5, 6, 7]
    first, second = model(source[:1], target[:1]), model(source[:1], target[1:])
    assert ((first - second).abs().amax(-1)[0] > 1e-6).nonzero().flatten().tolist() == [3, 4, 5]
    assert ((first - model(source[1:], target[:1])).abs().amax(-1)[0] > 1e-6).all()
    wide = build_model(replace(config, window=10), seed=0).eval()
    every = build_model(replace(config, window=None), seed=0).eval()
    torch.testing.assert_close(wide(source, target), every(source, target))


def test_positions_that_jump_keep_their_order_and_mostly_their_neighbours():
    torch.manual_seed(0)
    (source,), (target,) = Offsets(most=400, jumps=0.1).draw(1000, 41, 38, torch.device("cpu"))
    assert torch.equal(source[:, :38], target)
    steps = source.diff(dim=1)
    assert 0.88 < (steps == 0).float().mean() < 0.92
    assert (int(steps.min()), int(steps.max())) == (0, 100)
    assert source[:, 0].float().mean() > 150


def test_bad_settings_are_refused_by_name():
    with pytest.raises(ConfigError, match=r"offsets\.most=0, allowed: whole numbers from 1"):
        Offsets(most=0)
    with pytest.raises(ConfigError, match=r"offsets\.jumps=1.0, allowed: at least 0 and below 1"):
        Offsets(jumps=1.0)
    with pytest.raises(ConfigError, match=r"offsets\.sides='off', allowed: together, apart"):
        Offsets(sides="off")
    with pytest.raises(ConfigError, match=r"offsets\.drawn='twice', allowed: once, every-step"):
        Offsets(drawn="twice")
    for wrong, said in (
        ({"width": 7, "heads": 1}, "width=7: coordinates are pairs, they need an even width"),
        ({"halting": 6}, "halting=6, allowed: Adaptive, Fixed"),
        ({"window": 0}, "window=0, allowed: whole numbers from 1"),
    ):
        with pytest.raises(ConfigError, match=said):
            build_model(UniversalConfig(**{"vocab": 9, "width": 8, "heads": 2, "inner": 8, **wrong}))


def test_neighbours_reach_one_token_further_and_never_the_decoder():
    config = replace(UNIVERSAL, neighbours=1, halting=Fixed(steps=1), dropout=0.0)
    assert config.encoder.block.feedforward.neighbours == 1
    assert config.decoder.block.feedforward.neighbours == 0
    feedforward = build_model(config, seed=0).encoder.blocks[0].feedforward
    x = inputs()
    moved = x.clone()
    moved[:, 5] += 1
    changed = (feedforward(x) - feedforward(moved)).abs().amax((0, 2)) > 1e-6
    assert changed.nonzero().flatten().tolist() == [4, 5, 6]
    keep = torch.arange(11) < torch.tensor([[11], [6], [5]])
    torch.testing.assert_close(feedforward(x, keep)[1, :6], feedforward(x[:, :6])[1])


def test_neighbours_in_a_decoder_are_refused():
    near = replace(BLOCK, feedforward=FeedForwardConfig(inner=8, neighbours=2))
    with pytest.raises(ConfigError, match="neighbours=2: a decoder must not see later tokens"):
        replace(near, cross=True)
    with pytest.raises(ConfigError, match="neighbours=2: a causal model must not see later tokens"):
        StackConfig(layers=1, block=near, context=8, causal=True)
    with pytest.raises(ConfigError, match="neighbours=-1, allowed: whole numbers from 0"):
        FeedForwardConfig(inner=8, neighbours=-1)


def test_a_window_keeps_nothing_of_the_sources_it_has_read():
    model = build_model(replace(UNIVERSAL, window=2), seed=0).eval()
    for length in (3, 5, 9):
        model.encode(EncoderInput(torch.ones(1, length, dtype=torch.long)))
    assert not model.near.__dict__.get("_forms")
