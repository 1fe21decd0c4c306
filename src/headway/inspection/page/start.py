"""What a page shows first: two tokens that were asked for, or the head that the output needs most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headway.data.tokenizers import JOINED
from headway.errors import DataError
from headway.inspection.page.attention import attention_rows
from headway.inspection.page.record import ForwardRecord
from headway.tasks.explanation import Output


def start_entry(
    recording: ForwardRecord,
    attentions: Sequence[dict[str, Any]],
    sequences: Mapping[str, Any],
    wanted: str | None,
) -> dict[str, int]:
    """The state that opens QUERY or QUERY:KEY; empty if nothing is wanted.

    Of several places with these tokens and of all heads, those with the largest weight. Raises DataError for a token
    that is not there.
    """
    if not wanted:
        return {}
    query, _, key = wanted.partition(":")
    places = {name: _places(sequence["tokens"], query) for name, sequence in sequences.items()}
    if not any(places.values()):
        raise _unknown(query, wanted, sequences)
    if not key:
        name = next(name for name, found in places.items() if found)
        return {f"at.{name}": places[name][0]}
    best, state = -1.0, dict[str, int]()
    for n, entry in enumerate(attentions):
        columns = _places(sequences[entry["keys"]]["tokens"], key)
        for i in places[entry["queries"]] if columns else []:
            weights_HS = attention_rows(recording.attention[entry["name"]], [i], "weights")[:, 0]
            for j in columns:
                weight, head = (part.item() for part in weights_HS[:, j].max(0))
                if weight > best:
                    best = weight
                    state = {"attention": n, "head": int(head), f"at.{entry['queries']}": i, "key": j}
    if not state:
        raise _unknown(key, wanted, sequences)
    return state


def most_needed(
    ablation: Mapping[str, Any] | None,
    attentions: Sequence[dict[str, Any]],
    sequences: Mapping[str, Any],
    output: Output | None,
) -> dict[str, int]:
    """The state that opens the head without which the output is least likely.

    Where the text has no place to start at by itself, that is where the head is missed most.
    """
    if ablation is None or output is None:
        return {}
    needed = ablation["needed"]
    chosen = ablation["heads"][needed["head"]]
    state = {"attention": chosen["attention"], "head": chosen["head"]}
    name = output.sequence
    if name is not None and attentions[chosen["attention"]]["queries"] == name and "start" not in sequences[name]:
        state[f"at.{name}"] = needed["place"]
    return state


def _places(tokens: Sequence[str], wanted: str) -> list[int]:
    return [n for n, token in enumerate(tokens) if token.strip().removeprefix(JOINED).lower() == wanted.strip().lower()]


def _unknown(token: str, wanted: str, sequences: Mapping[str, Any]) -> DataError:
    known = "; ".join(
        f"{name}: {' '.join(str(each).strip() for each in part['tokens'][:40])}" for name, part in sequences.items()
    )
    return DataError(f"--open {wanted}: no token {token!r}; the page has {known}")
