"""The listings are those of the slides, letter by letter."""

from __future__ import annotations

import inspect
import re

import pytest

from headway.cli import main
from headway.labs import deck_listings

PRINTED = {
    "PrintedTransformerBlock": """\
class TransformerBlock(nn.Module):
    def __init__(self):
        self.attn = Attention()
        self.mlp = Sequential(
            Linear(d_h, d_h), LeakyReLU(), Linear(d_h, d_h))
        self.norm1 = nn.LayerNorm(d_h)
        self.norm2 = nn.LayerNorm(d_h)

    def forward(self, x):
        x = self.norm1(self.attn(x) + x)
        x = self.norm2(self.mlp(x) + x)
        return x
""",
    "PrintedTransformer": """\
class Transformer(nn.Module):
    def __init__(self):
        self.block1 = TransformerBlock()
        self.block2 = TransformerBlock()
        self.block3 = TransformerBlock()

    def forward(self, x):
        x = self.block1(x)
        x = self.block2(x)
        x = self.block3(x)
        return x
""",
    "PrintedFinalTransformer": """\
class Transformer(nn.Module):
    def __init__(self):
        self.position_embedding = nn.Embedding(d_x)
        self.block1 = TransformerBlock()
        self.block2 = TransformerBlock()

    def forward(self, x):
        x = x + embedding(torch.arange(x.shape[0]))
        x = self.block1(x)
        x = self.block2(x)
        return x
""",
}


@pytest.mark.parametrize("name", PRINTED)
def test_a_printed_class_is_that_of_the_slide_but_for_its_name(name):
    source = inspect.getsource(getattr(deck_listings, name))
    plain = re.sub(r"  # (type: ignore|noqa|fmt).*", "", source)
    assert plain.replace("PrintedFinal", "").replace("Printed", "") == PRINTED[name]


@pytest.mark.parametrize("listing", deck_listings.LISTINGS, ids=lambda each: each.name)
def test_a_listing_fails_as_printed_and_runs_corrected(listing):
    with pytest.raises(listing.error):
        listing.run()
    listing.corrected_run()


def test_the_preset_of_the_deck_trains_and_gives_vectors(tmp_path, capsys):
    (tmp_path / "text.txt").write_text("I like dogs\nJohn likes movies\nMary likes movies\n" * 40)
    sizes = ["--model.width", "16", "--model.context", "16", "--task.length", "16", "--train.batch_tokens", "128"]
    steps = ["--train.steps", "4", "--train.evaluate_every", "2", "--train.save_every", "2", "--train.device", "cpu"]
    out = str(tmp_path / "run")
    assert main(["train", "deck", "--data", str(tmp_path / "text.txt"), "--out", out, *sizes, *steps]) == 0
    assert main(["evaluate", out, "--split", "val", "--json"]) == 0
    capsys.readouterr()
    assert main(["embed", out, "I like movies", "--device", "cpu"]) == 0
    assert len(capsys.readouterr().out.split()) >= 16
    assert (
        main(["train", "deck", "--data", str(tmp_path / "text.txt"), "--out", out + "2", "--task.rows", "pairs"]) == 2
    )
    assert "task.rows=pairs with this model, allowed: running" in capsys.readouterr().err
