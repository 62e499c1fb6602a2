"""Whether two queries say the same, step by step, and where they first do not.

    window range 30 s, slide 10 s        the old query
    window range 60 s, slide 10 s        the new one: written differently

Queries that say the same have one answer. Of others nothing follows: two conditions that are
written differently may mean the same, and a function of a user's says nothing about itself.
"""

from __future__ import annotations

from collections.abc import Hashable

import msgpack

from gapless.engine.documents import content_of, kind_of, user_functions
from gapless.engine.nodes import Node
from gapless.engine.query import Query
from gapless.engine.words import node_text

SHOWN_CHARS_MAX = 200
"""Of one step, in a sentence: a select may have a thousand columns."""


def same_query(a: Query, b: Query) -> bool:
    """Whether both say the same step by step; which nodes are shared does not matter."""
    return first_difference(a, b) is None


def first_difference(old: Query, new: Query) -> str | None:
    """Where they first differ, looking from the sources on, in words; None where they do not."""
    if old.on_error_mode != new.on_error_mode:
        return _told(f"on error: {old.on_error_mode}", f"on error: {new.on_error_mode}")
    met: dict[Hashable, int] = {}
    mine, theirs = _numbers(old, met), _numbers(new, met)
    here, there = old.root, new.root
    if mine[here] == theirs[there]:
        return None
    while _kind(here) == _kind(there):  # down to a step whose inputs are the same
        below = zip(here.inputs, there.inputs, strict=True)
        parted = next(((a, b) for a, b in below if mine[a] != theirs[b]), None)
        if parted is None:
            return _of_one_kind(here, there)
        if _kind(parted[0]) != _kind(parted[1]) and node_text(here) != node_text(there):
            break
        here, there = parted
    return _told(node_text(here), node_text(there))


def _numbers(query: Query, met: dict[Hashable, int]) -> dict[Node, int]:
    """By node: nodes of one content, above nodes of one number, have one number."""
    numbers: dict[Node, int] = {}
    for node in query.derived:
        said = msgpack.packb([kind_of(node), content_of(node)])
        key = said, _code(node), tuple(numbers[below] for below in node.inputs)
        numbers[node] = met.setdefault(key, len(met))
    return numbers


def _kind(node: Node) -> tuple[str, int]:
    return kind_of(node), len(node.inputs)


def _code(node: Node) -> tuple[int, ...]:
    """Which functions of users it calls: two of one name may be two."""
    return tuple(id(function) for _, function in user_functions(node))


def _of_one_kind(old: Node, new: Node) -> str:
    """What differs in two steps of one kind over the same inputs."""
    if node_text(old) != node_text(new):
        return _told(node_text(old), node_text(new))
    before, after = content_of(old), content_of(new)
    for name, value in before.items():
        if msgpack.packb(value) != msgpack.packb(after[name]):
            return f"{node_text(old)}: {_told(f'{name} is {value!r}', repr(after[name]))}"
    names = ", ".join(name for name, _ in user_functions(new))
    return f"{node_text(old)[:SHOWN_CHARS_MAX]}: {names} is another function in the new plan"


def _told(old: str, new: str) -> str:
    shown = [t if len(t) <= SHOWN_CHARS_MAX else f"{t[:SHOWN_CHARS_MAX]}..." for t in (old, new)]
    return f"{shown[0]} in the old plan, {shown[1]} in the new one"
