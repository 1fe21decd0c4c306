"""Aho–Corasick automaton (Aho and Corasick 1975) over required and banned phrases, with distances to acceptance.

A state is a trie node and the set of required phrases met so far. For each state the smallest number of further tokens
is known after which every required phrase is met without a banned one: a search that never lets it exceed the tokens
left cannot fail.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from headway.limits import expect_within

OTHER = 0  # the class of every token that occurs in no phrase


@dataclass(frozen=True, slots=True)
class Automaton:
    """Transitions by token class: `after[state][class]` is the next state, None if it completes a banned phrase.

    `left[state]` is the distance to acceptance in tokens, None if no accepting state can be reached.
    """

    kinds: dict[int, int]  # token -> its class; all other tokens are OTHER
    after: list[list[int | None]]
    left: list[int | None]

    def walk(self, tokens: Sequence[int], state: int | None = 0) -> int | None:
        """The state after these tokens; None if they contain a banned phrase."""
        for token in tokens:
            if state is None:
                return None
            state = self.after[state][self.kinds.get(token, OTHER)]
        return state


@dataclass(slots=True)
class _Node:
    next: dict[int, int]
    fail: int = 0
    met: int = 0  # bit mask of the required phrases that end here
    bad: bool = False  # a banned phrase ends here


def automaton(must: Sequence[Sequence[int]], banned: Sequence[Sequence[int]], *, other: bool) -> Automaton:
    """The automaton of these phrases; `other`: whether a token that occurs in none of them may be generated.

    Raises ConfigError if its table, a row of token classes for each state, would be too large.
    """
    kinds = {token: n for n, token in enumerate(dict.fromkeys(t for p in (*must, *banned) for t in p), OTHER + 1)}
    nodes = [_Node({})]
    for bit, phrase in enumerate(must):
        nodes[_insert(nodes, phrase)].met |= 1 << bit
    for phrase in banned:
        nodes[_insert(nodes, phrase)].bad = True
    _expect_size(len(nodes), kinds)
    steps = _transitions(nodes, kinds)
    full = (1 << len(must)) - 1
    found = {(0, 0): 0}
    after: list[list[int | None]] = []
    todo = deque(found)
    while todo:
        at, met = todo.popleft()
        row: list[int | None] = []
        for kind in range(len(kinds) + 1):
            node = steps[at][kind]
            if nodes[node].bad or (kind == OTHER and not other):
                row.append(None)
                continue
            key = (node, met | nodes[node].met)
            if key not in found:
                found[key] = len(found)
                todo.append(key)
                _expect_size(len(found), kinds)
            row.append(found[key])
        after.append(row)
    return Automaton(kinds, after, _distances(after, [n for (_, met), n in found.items() if met == full]))


def _expect_size(states: int, kinds: dict[int, int]) -> None:
    expect_within("constraints", states * (len(kinds) + 1), "required and banned phrases")


def _insert(nodes: list[_Node], phrase: Sequence[int]) -> int:
    """Add a phrase to the trie and return its last node."""
    at = 0
    for token in phrase:
        if token not in nodes[at].next:
            nodes[at].next[token] = len(nodes)
            nodes.append(_Node({}))
        at = nodes[at].next[token]
    return at


def _transitions(nodes: list[_Node], kinds: dict[int, int]) -> list[list[int]]:
    """The goto function: the next node for each node and token class.

    Nodes are visited breadth first, so that a failure link always points to a node whose row is complete. A phrase
    that ends at the failure link (the longest proper suffix in the trie) ends at the node too.
    """
    steps = [[0] * (len(kinds) + 1) for _ in nodes]
    todo = deque([0])
    while todo:
        at = todo.popleft()
        node = nodes[at]
        for token, kind in kinds.items():
            back = steps[node.fail][kind] if at else 0
            child = node.next.get(token)
            steps[at][kind] = back if child is None else child
            if child is not None:
                nodes[child].fail = back
                nodes[child].met |= nodes[back].met
                nodes[child].bad |= nodes[back].bad
                todo.append(child)
    return steps


def _distances(after: list[list[int | None]], ends: list[int]) -> list[int | None]:
    """The number of tokens from each state to the nearest of `ends`, by breadth-first search backwards."""
    before: list[set[int]] = [set() for _ in after]
    for state, row in enumerate(after):
        for target in row:
            if target is not None:
                before[target].add(state)
    left: list[int | None] = [None] * len(after)
    todo = deque((state, 0) for state in ends)
    while todo:
        state, count = todo.popleft()
        if left[state] is None:
            left[state] = count
            todo.extend((earlier, count + 1) for earlier in before[state])
    return left
