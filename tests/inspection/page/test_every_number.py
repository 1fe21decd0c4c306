"""Every table behind the figures of a page of every kind: each number within its last figure of what PyTorch computed.

A figure whose numbers are compared with nothing fails the test.
"""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.decoding.beam import length_penalty
from headway.decoding.trace import alignment, tree
from headway.errors import ConfigError
from headway.inspection.ablation import ablate
from headway.inspection.logit_lens import logit_lens
from headway.inspection.page.block_steps import PARTS as NORMS
from headway.inspection.page.block_steps import _block
from headway.inspection.page.number_origin import NumberChoice, origin_entry
from headway.inspection.page.record import ForwardRecord, record_forward
from headway.inspection.tap_names import taps
from headway.tasks.explanation import EmbeddingTable, Explanation
from tests.inspection.page import subjects
from tests.inspection.page.subjects import KINDS
from tests.inspection.page.test_truth import number, off
from tests.pages import until

Rows = list[list[str]]
Pairs = Iterator[tuple[str, float]]  # what is printed, and the truth
PARTS = {"attention": "self.out", "cross-attention": "cross.out", "network": "feedforward.out"}


@dataclass
class Truth:
    """One forward pass as PyTorch computed it, and what is chosen on the page."""

    payload: dict[str, Any]
    model: nn.Module
    explanation: Explanation
    recording: ForwardRecord
    logits: Tensor
    chosen: dict[str, Any]

    def place(self, sequence: str, count: int) -> int:
        return min(self.chosen[f"at.{sequence}"], count - 1)

    @property
    def output_place(self) -> int:
        sequence = self.payload["output"]["sequence"]
        return self.place(sequence, len(self.logits)) if sequence else 0

    def stack(self, label: str) -> dict[str, Any]:
        (found,) = (stack for stack in self.payload["stacks"] if stack["label"] == label)
        return found

    def value(self, stack: str, name: str) -> Tensor:
        found = self.recording.value(f"{stack}.{name}" if stack else name)
        assert found is not None, name
        return found.double()

    def weights(self, index: int) -> Tensor:
        """(H, T, S) of an attention."""
        return torch.cat([look.weights()[0] for look in self.looks(index)], 1).double()

    def looks(self, index: int) -> list[Any]:
        return self.recording.attention[self.payload["attentions"][index]["name"]]

    def query(self) -> tuple[int, int, int]:
        """The attention, head and place that are chosen."""
        index = self.chosen["attention"]
        entry = self.payload["attentions"][index]
        return index, self.chosen["head"], self.place(entry["queries"], self.weights(index).shape[1])

    def of_query(self, what: str) -> Tensor:
        """The row of scores, head outputs, query vectors or position terms of the chosen query."""
        index, head, i = self.query()
        parts = [getattr(look, what)() for look in self.looks(index)]
        return torch.cat([part.expand(1, *part.shape[1:])[0] for part in parts], 1)[head, i].double()

    def keys(self) -> Tensor:
        """(S, E) that the chosen query is multiplied with."""
        index, head, i = self.query()
        look = self.looks(index)[0]
        tokens = look.global_tokens
        if tokens is not None and i in tokens.marked.index[0].tolist():
            return tokens.k[0, head].double()
        return look.k[0, head // (look.q.shape[1] // look.k.shape[1])].double()


def what_goes_in(truth: Truth, rows: Rows, header: list[str], label: str) -> Pairs:
    stack = truth.stack(label)
    name = stack["name"]
    embedded = truth.value(name, "embedding")
    together = truth.recording.with_positions.get(name, embedded.float()).double()
    codes = truth.explanation.reads[name].positions
    if codes is None:
        codes = truth.recording.position_codes.get(name, together - embedded)
    position = codes.double()
    found = {"embedding": embedded, "together": together, "position": position, "patches": embedded - position}
    if "what the first block reads" in header:
        found["what the first block reads"] = truth.value(name, "layers.0.input")
    at = truth.place(stack["sequence"], len(embedded))
    for n, column in enumerate(header[1:], 1):
        values = found[column].reshape(-1, *embedded.shape)[0][at]
        yield from zip([row[n] for row in rows], values.tolist(), strict=True)


def the_stream(truth: Truth, rows: Rows, header: list[str], label: str) -> Pairs:
    stack = truth.stack(label)
    for n, column in enumerate(header[1:], 1):
        block = re.fullmatch(r"after block (\d+)", column)
        kind = "states" if not stack["layers"][0]["added"] else "residual"
        name = f"layers.{int(block[1]) - 1}.{kind}" if block else "hidden"
        values = truth.value(stack["name"], name)
        values = values[truth.place(stack["sequence"], len(values))].tolist()
        yield from zip([row[n] for row in rows], values, strict=True)


def what_blocks_add(truth: Truth, rows: Rows, header: list[str], label: str) -> Pairs:
    stack = truth.stack(label)
    for layer, row in enumerate(rows):
        for cell, part in zip(row[1:], header[1:], strict=True):
            values = truth.value(stack["name"], f"layers.{layer}.{PARTS[part]}")
            yield cell, values[truth.place(stack["sequence"], len(values))].norm().item()


def through_a_block(truth: Truth, rows: Rows, header: list[str], label: str) -> Pairs:
    """The last block with steps, part by part, with PyTorch's own addition and norm in 32 bits."""
    stack = truth.stack(label)
    last = max(n for n, layer in enumerate(stack["layers"]) if layer["steps"])
    prefix = f"{stack['name']}.layers.{last}" if stack["name"] else f"layers.{last}"
    (point,) = (p for p in taps(truth.model) if p.name == f"{prefix}.residual")
    block = _block(truth.model, point.module)

    def value(name: str) -> Tensor:
        return truth.value(stack["name"], f"layers.{last}.{name}").float()

    stream, columns = value("input"), [value("input")]
    at = truth.place(stack["sequence"], len(stream))
    for part, norm in NORMS.items():
        if f"{part}.out" in ("self.out", "feedforward.out") or "+ cross-attention" in header:
            columns += [value(f"{part}.out"), stream := stream + value(f"{part}.out")]
            if "norm" in header:
                with torch.no_grad():
                    columns.append(stream := getattr(block, norm)(stream, None))
    columns.append(value("residual"))
    assert len(columns) == len(header) - 1
    for n, column in enumerate(columns, 1):
        yield from zip([row[n] for row in rows], column[at].tolist(), strict=True)


def every_head(truth: Truth, rows: Rows, header: list[str]) -> Pairs:
    lines = iter(rows)
    for index, entry in enumerate(truth.payload["attentions"]):
        for weights in truth.weights(index):
            cells = dict(zip(header, next(lines), strict=True))
            kept = weights[entry["rows"]]
            place = torch.tensor(entry["rows"]).unsqueeze(1)
            distance = (place - torch.arange(kept.shape[1])).abs()
            yield cells["entropy (nats)"], torch.special.entr(kept).sum(1).mean().item()
            yield cells["on the first key"], kept[:, 0].mean().item()
            yield cells["on the last key"], kept[:, -1].mean().item()
            if cells["mean distance"] != "–":
                yield cells["mean distance"], (kept * distance).sum(1).mean().item()
                yield cells["on itself"], kept.gather(1, place).mean().item()
                before = kept.gather(1, place.sub(1).clamp(min=0)) * place.gt(0)
                yield cells["on the token before"], before.mean().item()
            else:
                yield cells["coverage of the keys"], len(set(kept.argmax(1).tolist())) / kept.shape[1]
    assert next(lines, None) is None


def one_head(truth: Truth, rows: Rows, header: list[str]) -> Pairs:
    index, head, i = truth.query()
    yield from zip([row[1] for row in rows], truth.weights(index)[head, i].tolist(), strict=True)


def heads_that_look(truth: Truth, rows: Rows, header: list[str]) -> Pairs:
    index, _, i = truth.query()
    own = truth.payload["attentions"][index]
    for name, weight in rows:
        unit, layer, head = re.fullmatch(r"(\w+) (\d+), head (\d+)", name).groups()  # type: ignore[union-attr]
        (there,) = (
            n for n, entry in enumerate(truth.payload["attentions"])
            if (entry["unit"], entry["layer"] + 1) == (unit, int(layer)) and entry["stack"] == own["stack"]
            and entry["kind"] == own["kind"]
        )  # fmt: skip
        yield weight, truth.weights(there)[int(head) - 1, i, truth.chosen["key"]].item()


def products_to_weights(truth: Truth, rows: Rows, header: list[str]) -> Pairs:
    index, head, i = truth.query()
    scores, weights = truth.of_query("scores"), truth.weights(index)[head, i]
    scale = truth.payload["attentions"][index]["scale"][head]
    term = position_term(truth)
    additive = truth.payload["attentions"][index]["energy"] is not None
    dots = scores / scale if additive else truth.keys() @ truth.of_query("query_vectors")
    for j, row in enumerate(rows):
        cells = dict(zip(header, row, strict=True))
        yield cells["q·k"], dots[j].item()
        yield cells["times scale"], scale * dots[j].item()
        yield cells["position"], term[j].item()
        allowed = scores[j].isfinite().item()
        assert cells["allowed"] == ("yes" if allowed else "no")
        if allowed:
            yield cells["score"], scores[j].item()
        yield cells["weight"], weights[j].item()


def position_term(truth: Truth) -> Tensor:
    index, _, _ = truth.query()
    if truth.looks(index)[0].bias is None:
        return torch.zeros(truth.weights(index).shape[-1], dtype=torch.double)
    return truth.of_query("position_term")


def where_they_stand(truth: Truth, rows: Rows, header: list[str]) -> Pairs:
    yield from zip([row[2] for row in rows], position_term(truth).tolist(), strict=True)


def one_product(truth: Truth, rows: Rows, header: list[str]) -> Pairs:
    index, _, _ = truth.query()
    q, k = truth.of_query("query_vectors"), truth.keys()[truth.chosen["key"]]
    yield from zip([row[1] for row in rows], q.tolist(), strict=True)
    yield from zip([row[2] for row in rows], k.tolist(), strict=True)
    energy = truth.payload["attentions"][index]["energy"]
    if energy is None:
        yield from zip([row[3] for row in rows], (q * k).tolist(), strict=True)
    else:  # the terms of an additive energy add up to the score
        values = [number(row[3]) for row in rows]
        score = truth.of_query("scores")[truth.chosen["key"]].item()
        scale = truth.payload["attentions"][index]["scale"][truth.chosen["head"]]
        assert abs(scale * sum(value for value, _ in values) - score) <= sum(unit for _, unit in values)


def a_component(truth: Truth, rows: Rows, header: list[str]) -> Pairs:
    index, head, _ = truth.query()
    look, part, dim = truth.looks(index)[0], truth.chosen["of"], truth.chosen["dim"]
    if part == "v":
        value = look.v[0, head // (look.q.shape[1] // look.v.shape[1])][truth.chosen["key"]].double()
    else:
        value = truth.of_query("query_vectors") if part == "q" else truth.keys()[truth.chosen["key"]]
    yield from products_with_weights(truth, rows, part, value[dim].item())


def a_logit(truth: Truth, rows: Rows, header: list[str]) -> Pairs:
    value = truth.logits[truth.output_place, truth.chosen["logit"]].item()
    yield from products_with_weights(truth, rows, "logit", value)


def products_with_weights(truth: Truth, rows: Rows, part: str, value: float) -> Pairs:
    """The products, and the sums: the last two numbers are the one that is followed, computed here and PyTorch's."""
    if not rows:
        assert part not in truth.chosen["followed"]
        return
    entry = next(each for each in truth.payload["origins"] if each["number"] == truth.chosen["followed"][part])
    parameters, lines = dict(truth.model.named_parameters()), iter(rows)
    for row in entry["rows"]:
        weights = parameters[entry["weight"]][row["row"]].detach().double()
        x = numbers_of(entry["tensors"][row["x"]])
        for n, weight in enumerate(weights.tolist()):
            label, *cells = next(lines)
            assert label.endswith(f"dimension {n + 1}")
            yield from zip(cells, (x[n], weight, x[n] * weight), strict=True)
        for label, told in (("bias", row["bias"]), ("sum", row["out"]), ("PyTorch", row["out"])):
            if told is not None:
                line = next(lines)
                assert line[0] == label
                yield line[3], told
    for line in lines:
        yield line[3], value
    yield rows[-2][3], value
    yield rows[-1][3], value


def numbers_of(kept: dict[str, Any]) -> list[float]:
    found: list[float] = np.frombuffer(base64.b64decode(kept["data"]), "<f4").astype(float).tolist()
    return found


def follow(payload: dict[str, Any], model: nn.Module, explanation: Explanation, chosen: dict[str, Any]) -> None:
    """Follow a component and a logit of this selection, where the model has such numbers; the page then shows them."""
    found: dict[str, Any] = {}
    if payload["attentions"]:
        entry = payload["attentions"][chosen["attention"]]
        query = chosen[f"at.{entry['queries']}"]
        token = query if chosen["of"] == "q" else chosen["key"]
        found[chosen["of"]] = NumberChoice(
            part=chosen["of"],
            token=token,
            index=chosen["dim"],
            attention=entry["name"],
            head=chosen["head"],
            query=query,
        )
    if payload["output"]:
        sequence, places = payload["output"]["sequence"], len(payload["output"]["ids"])
        place = min(chosen[f"at.{sequence}"], places - 1) if sequence else 0
        chosen["logit"] = payload["output"]["ids"][place][0]
        found["logit"] = NumberChoice(part="logit", token=place, index=chosen["logit"])
    chosen["followed"] = {}
    for part, choice in found.items():
        with contextlib.suppress(ConfigError):
            origin = {"number": asdict(choice), **origin_entry(model, explanation.forward, choice)}
            payload.setdefault("origins", []).append(origin)
            chosen["followed"][part] = origin["number"]


def weighted_values(truth: Truth, rows: Rows, header: list[str]) -> Pairs:
    out = truth.of_query("head_outputs").tolist()
    yield from zip([row[1] for row in rows], out, strict=True)
    yield from ((row[2], value) for row, value in zip(rows, out, strict=True) if row[2] != "not kept")


def what_comes(truth: Truth, rows: Rows, header: list[str]) -> Pairs:
    logits = truth.logits[truth.output_place].double()
    ids = {word: int(n) for n, word in truth.payload["output"]["words"].items()}
    for row in rows:
        index = next(n for word, n in ids.items() if shown(word) == row[0])
        cells = dict(zip(header, row, strict=True))
        yield cells["logit"], logits[index].item()
        for column in header[2:]:
            if column != "kept":
                yield cells[column], logits.softmax(-1)[index].item()


def after_each_block(truth: Truth, rows: Rows, header: list[str]) -> Pairs:
    found = logit_lens(truth.model, truth.recording.captured)
    for row, logits in zip(rows, found.values(), strict=True):
        shares = logits.double()[0].reshape(-1, logits.shape[-1])
        best = shares[min(truth.output_place, len(shares) - 1)].softmax(-1).topk(min(2, shares.shape[-1])).values
        yield from zip([row[2], row[4]], best.tolist(), strict=False)


def head_off(truth: Truth, rows: Rows, header: list[str]) -> Pairs:
    plain = truth.logits.log_softmax(-1)
    best = plain.argmax(-1)
    targets = truth.payload["output"]["targets"]
    came = torch.tensor([b if t is None else t for b, t in zip(best.tolist(), targets, strict=True)]).unsqueeze(1)
    for row, head in zip(rows, truth.payload["ablation"]["heads"], strict=True):
        tap = truth.payload["attentions"][head["attention"]]["tap"]
        with torch.no_grad(), ablate(truth.model, heads={tap: [head["head"]]}):
            without = truth.explanation.forward().float().log_softmax(-1)
        yield row[1], (without - plain).gather(1, came).double().sum().item()
        yield row[2], without.argmax(-1).ne(best).sum().item()


def the_search(truth: Truth, rows: Rows, header: list[str]) -> Pairs:
    found, trace = tree(truth.explanation.trace), truth.explanation.trace
    if header[0] == "rank":
        for row, line in zip(rows, found.lines, strict=True):
            yield row[1], line.log_probability / length_penalty(line.length, trace.alpha, trace.penalty)
            yield row[2], line.log_probability
            assert int(row[3]) == line.length
    else:
        for row, node in zip(rows, found.nodes, strict=True):
            yield row[3], node.nats
            yield row[4], node.total


def tokens_looked_at(truth: Truth, rows: Rows, header: list[str]) -> Pairs:
    look = alignment(truth.explanation.trace, tree(truth.explanation.trace).lines[0])
    for row, weights in zip(rows, np.asarray(look, dtype=float), strict=True):
        yield from zip(row[1:], weights.tolist(), strict=True)


def ponder_time(truth: Truth, rows: Rows, header: list[str], label: str) -> Pairs:
    stack = truth.stack(label)["name"]
    for column, name in ((1, "steps"), (2, "cost")):
        yield from zip([row[column] for row in rows], truth.value(stack, name).tolist(), strict=True)


def on_the_picture(truth: Truth, rows: Rows, header: list[str]) -> Pairs:
    index, head, i = truth.query()
    yield from zip([row[1] for row in rows], truth.weights(index)[head, i, -len(rows) :].tolist(), strict=True)


def words_on_the_picture(truth: Truth, rows: Rows, header: list[str]) -> Pairs:
    sequence = truth.payload["image"]["sequence"]
    last = max(
        n for n, entry in enumerate(truth.payload["attentions"])
        if entry["kind"] == "cross" and entry["keys"] == sequence
    )  # fmt: skip
    before = truth.payload["sequences"][sequence]["before"]
    best = truth.weights(last).mean(0)[:, before:].max(1).values
    yield from zip([row[2] for row in rows], best.tolist(), strict=False)


def neighbours(truth: Truth, rows: Rows, header: list[str], label: str) -> Pairs:
    (name,) = (name for name, each in truth.payload["sequences"].items() if each["label"] == label)
    table = truth.explanation.tables[name]
    assert isinstance(table, EmbeddingTable)
    own = table.ids[truth.place(name, len(table.ids))]
    ids = {table.tokenizer.display(n): n for n in range(len(table.vectors))}
    for word, cosine in rows:
        yield cosine, F.cosine_similarity(*table.vectors[[own, ids[word]]].detach().double(), dim=0).item()


def map_of_vectors(truth: Truth, rows: Rows, header: list[str], label: str) -> Pairs:
    (name,) = (name for name, each in truth.payload["sequences"].items() if each["label"] == label)
    table = truth.explanation.tables[name]
    assert isinstance(table, EmbeddingTable)
    ids = {shown(table.tokenizer.display(n)): n for n in range(len(table.vectors))}
    vectors = table.vectors[[ids[row[0]] for row in rows]].detach().double()
    centred = vectors - vectors.mean(0)
    directions = torch.linalg.eigh(centred.mT @ centred).eigenvectors[:, [-1, -2]]
    places = centred @ (directions * directions.sum(0).sign())
    for row, place in zip(rows, places.tolist(), strict=True):
        yield from zip(row[1:], place, strict=True)


def patch_places(truth: Truth, rows: Rows, header: list[str]) -> Pairs:
    _, columns = truth.payload["sequences"][truth.payload["image"]["sequence"]]["grid"]
    for n, row in enumerate(rows):
        yield from zip(row[1:], (n // columns + 1, n % columns + 1), strict=True)


def shifts(truth: Truth, rows: Rows, header: list[str]) -> Pairs:
    by = truth.payload["image"]["shift"]
    for row in rows:
        for cell in row[1:]:
            yield cell, by * np.sign(number(cell)[0])


TRUTHS: dict[str, Callable[..., Pairs]] = {
    r"(.+): what goes in": what_goes_in,
    r"(.+): neighbours in the embedding table": neighbours,
    r"(.+): a map of its vectors": map_of_vectors,
    r"Every head|The head": every_head,
    r"(?:\w+) (?:layer|step|cross-attention) \d+, head \d+": one_head,
    r"Which heads attend there": heads_that_look,
    r"From products to weights": products_to_weights,
    r"One product, dimension by dimension": one_product,
    r"Where they stand": where_they_stand,
    r"Where a component comes from": a_component,
    r"Where a logit comes from": a_logit,
    r"Weighted values, added up": weighted_values,
    r"(.+): what each block adds": what_blocks_add,
    r"(.+): one token through a block": through_a_block,
    r"(.+): the stream": the_stream,
    r"What (?:comes next|is written next|is written at this moment)": what_comes,
    r"What (?:might stand here|it is|each query finds)": what_comes,
    r"Where the (?:keypoint is: .+|answer is)": what_comes,
    r"What a draw chooses from": what_comes,
    r"After each block": after_each_block,
    r"With one head switched off": head_off,
    r"The search": the_search,
    r"What each token attended to": tokens_looked_at,
    r"(.+): how long each token was thought about": ponder_time,
    r"On the picture": on_the_picture,
    r"The region that each token attended to": words_on_the_picture,
    r"The picture and its patches": patch_places,
    r"Shifted copies": shifts,
}  # fmt: skip
TABLES = """() => [...document.querySelectorAll('figure')].filter((figure) => !figure.hidden).flatMap((figure) => {
    const button = figure.querySelector('button.numbers');
    if (button && button.getAttribute('aria-expanded') === 'false') button.click();
    const cells = (row) => [...row.cells].map((cell) => cell.textContent);
    return [...figure.querySelectorAll('.behind table')].map((table) => [figure.querySelector('figcaption').textContent,
        cells(table.tHead.rows[0]), [...table.tBodies[0].rows].map(cells)]); })"""


def shown(piece: str) -> str:
    """A token as the page shows it."""
    return re.sub(r"(?<!\S) | (?!\S)", "␣", piece.removeprefix(" ")) or "∅"


def beside(printed: str, truth: float) -> float:
    """How far a number is from the truth, in units of its last figure."""
    if printed == "<0.1%":
        return 1e3 * truth
    if printed.endswith("%"):
        return off(printed[:-1], 100 * truth)
    return off(printed, truth)


def selections(payload: dict[str, Any]) -> list[dict[str, Any]]:
    """What is chosen on the page, three times: places, heads and keys from all over it."""
    found = []
    for turn in range(3):
        chosen = {f"at.{name}": turn * (len(each["tokens"]) - 1) // 2 for name, each in payload["sequences"].items()}
        if payload["attentions"]:
            index = turn * (len(payload["attentions"]) - 1) // 2
            entry = payload["attentions"][index]
            keys = len(payload["sequences"][entry["keys"]]["tokens"])
            chosen |= {"attention": index, "head": turn % entry["heads"], "key": min(turn, keys - 1)}
            chosen |= {"of": "qkv"[turn], "dim": turn}
        found.append(chosen)
    return found


@pytest.mark.parametrize("precision", ["float32", "int16"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_number_is_pytorchs_to_its_last_figure(kind, precision, show, monkeypatch):
    if precision == "int16":
        monkeypatch.setattr("headway.inspection.page.payload.EXACT", 0)
    made, runs = subjects.payload, []

    def recorded(model: nn.Module, explanation: Explanation, *rest: Any) -> dict[str, Any]:
        with torch.no_grad(), record_forward(model) as recording:
            logits = explanation.forward()
        runs.append((model, explanation, recording, logits))
        return made(model, explanation, *rest)

    monkeypatch.setattr(subjects, "payload", recorded)
    payload = KINDS[kind]()
    seen, every = None, selections(payload)
    for chosen in every:
        follow(payload, *runs[0][:2], chosen)
    for chosen in every:
        address = "#" + "&".join(f"{key}={value}" for key, value in chosen.items() if key != "followed")
        if seen is None:
            seen = show(payload, hash=address)
        else:
            seen.page.evaluate("(address) => { location.hash = address }", address)
            until(seen.page, "() => !document.documentElement.dataset.late")
        truth = Truth(payload, *runs[0], chosen)
        wrong = []
        for title, header, rows in seen.page.evaluate(TABLES):
            pattern = next((each for each in TRUTHS if re.fullmatch(each, title)), None)
            assert pattern, f"nothing compares the numbers of “{title}”"
            groups = re.fullmatch(pattern, title).groups()  # type: ignore[union-attr]
            for printed, value in TRUTHS[pattern](truth, rows, header, *groups):
                if beside(printed, value) > 1:
                    wrong.append(f"{title}: {printed} for {value:.9g}")
        assert not wrong, f"{chosen}: {len(wrong)} numbers, such as {wrong[:6]}"
    assert not seen.faults
