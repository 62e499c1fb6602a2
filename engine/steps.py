"""The steps of a graph: what each is, what it has done so far, and who reads what it puts out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gapless.operators.operator import Operator
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Misuse
from gapless.protocol.schema import StreamSchema


@dataclass(frozen=True, slots=True)
class Step:
    """An operator and where its inputs come from."""

    operator: Operator
    inputs: tuple[str | int, ...]
    """For each of the operator's inputs a source's name or the number of an earlier step."""
    title: str = ""
    """What a person knows it by; the operator's class by default."""


@dataclass(frozen=True, slots=True)
class Counters:
    """What one step has done so far."""

    step: int
    name: str
    frames: int
    rows_in: int
    rows_out: int
    busy_ns: int
    """Time inside the operator; 0 where the graph has no clock."""
    state_bytes: int
    stable: int
    """The last that it put out."""


class Node:
    """A step at work. Its fields are read and written for every frame: slots, no properties."""

    __slots__ = (
        "busy_ns",
        "consumers",
        "cuts",
        "frames",
        "has_state",
        "name",
        "operator",
        "push",
        "rows_in",
        "rows_out",
        "stable",
    )

    def __init__(self, step: Step) -> None:
        self.operator = step.operator
        self.name = step.title or type(step.operator).__name__
        self.push = step.operator.push
        self.cuts = type(step.operator).parts is not Operator.parts
        self.has_state = type(step.operator).nbytes is not Operator.nbytes
        self.consumers: tuple[Edge, ...] = ()
        self.frames = 0
        self.rows_in = 0
        self.rows_out = 0
        self.busy_ns = 0
        self.stable = BEGIN


Edge = tuple[Node, int]  # a consumer, and which of its inputs this is


def connect(
    sources: Mapping[str, StreamSchema], steps: Sequence[Step], nodes: Sequence[Node]
) -> dict[str, tuple[Edge, ...]]:
    """Gives each node its consumers; those of each source. Raises where steps make no graph."""
    consumers: dict[str | int, list[Edge]] = {name: [] for name in sources}
    for number, step in enumerate(steps):
        if len(step.inputs) != step.operator.inputs:
            raise Misuse(
                f"step {number}, {nodes[number].name}: has {step.operator.inputs} inputs, "
                f"{len(step.inputs)} are connected"
            )
        for port, origin in enumerate(step.inputs):
            if origin not in consumers:
                raise Misuse(
                    f"step {number}, {nodes[number].name}: reads {origin!r}, which is not a source "
                    "and no earlier step"
                )
            consumers[origin].append((nodes[number], port))
        consumers[number] = []
    last = len(steps) - 1
    unread = [origin for origin, edges in consumers.items() if not edges and origin != last]
    if unread and (steps or len(sources) > 1):
        raise Misuse(f"nothing reads {unread[0]!r}")
    for number, node in enumerate(nodes):
        node.consumers = tuple(consumers[number])
    return {name: tuple(consumers[name]) for name in sources}
