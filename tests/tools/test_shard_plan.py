"""The plan of sharded models: counted by the code that cuts them."""

from __future__ import annotations

from headway.reliability.process import start
from tools.shard_plan import GIB, SHAPES, held


def counted() -> int:
    one, eight = held(SHAPES["gpt2"], 1), held(SHAPES["gpt2"], 8)
    assert one.parameters == 124_439_808  # of GPT-2 with its 1,024 positions and a tied head
    assert one.state == 16 * one.parameters
    assert one.state / 8 <= eight.state < 1.001 * one.state / 8  # rows that 8 does not divide
    assert one.gathered == 0
    assert 0 < eight.gathered < GIB
    return 0


def test_a_rank_has_its_share_of_every_tensor():
    ended = start(counted).wait()  # of its own: it makes a process group
    assert ended.code == 0, ended.err
