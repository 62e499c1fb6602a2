"""Which nodes a cluster has: a root hears about each change, and nothing while nobody answers."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import ray
from ray.exceptions import GetTimeoutError

from gapless.actors import node_watch
from gapless.actors.node_watch import NodeWatch

WAIT_S = 20.0


class Cluster:
    """What the cluster says of its nodes, in turn; the last of it again and again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *said: Any) -> None:
        self.said = list(said)
        monkeypatch.setattr(ray, "nodes", self.nodes)

    def nodes(self) -> list[dict[str, Any]]:
        said = self.said.pop(0) if len(self.said) > 1 else self.said[0]
        if isinstance(said, Exception):
            raise said
        known = [{"NodeID": each, "NodeName": f"{each}.lan", "Alive": True} for each in said]
        return [*known, {"NodeID": "dead", "NodeName": "dead.lan", "Alive": False}]


def test_only_nodes_that_can_be_used_count(monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(monkeypatch, ["n1", "n2"])
    watch = NodeWatch()
    assert watch.names == {"n1": "n1.lan", "n2": "n2.lan"}
    assert watch.name_of("n1") == "n1.lan"
    assert watch.name_of("0123456789abcdef") == "01234567", "one that is gone is told by its id"


def test_a_change_is_told_once_and_silence_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(monkeypatch, ["n1"], ["n1"], GetTimeoutError("it is away"), ["n1", "n2"], ["n1", "n2"])
    watch, told = NodeWatch(), list[set[str]]()
    for _ in range(4):
        watch.look(lambda: told.append({*watch.names}))
    assert told == [{"n1", "n2"}]


def test_a_thread_looks_until_the_root_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_watch, "NODES_MS", 1)
    Cluster(monkeypatch, ["n1"], ["n2"])
    changed = threading.Event()
    before = set(threading.enumerate())
    watch = NodeWatch()
    watch.start(changed.set)
    assert changed.wait(WAIT_S)
    watch.end()
    for thread in set(threading.enumerate()) - before:
        thread.join(WAIT_S)
    assert set(threading.enumerate()) <= before
