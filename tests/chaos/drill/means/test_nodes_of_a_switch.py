"""Nodes of Ray that are hosts of a switch: they see each other by it alone, and can be parted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.exceptions import ActorDiedError, GetTimeoutError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from gapless.actors import cluster
from gapless.actors.local_nodes import LocalNodes
from gapless.chaos.drill.means.rules import Rule
from gapless.chaos.drill.means.switch import NetworkSwitch, why_not
from gapless.protocol.errors import Misuse

pytestmark = [
    pytest.mark.ray,
    pytest.mark.cluster,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]

WAIT_S = 20.0
HANGS_S = 0.5
DEAD_S = 4.0
"""HEALTH's three misses are a second, and a second it takes to be told."""


class Talker:
    """An actor that calls others."""

    def address(self) -> str:
        return str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]  # Ray has no types for it

    def ask(self, other: Any) -> str:
        return str(ray.get(other.address.remote(), timeout=WAIT_S))

    def many(self, size: int) -> bytes:
        return bytes(size)

    def fetch(self, other: Any, size: int) -> int:
        return len(ray.get(other.many.remote(size), timeout=WAIT_S))


@contextmanager
def started(hosts: int, count: int) -> Iterator[tuple[NetworkSwitch, LocalNodes]]:
    with NetworkSwitch(hosts) as switch, LocalNodes(count, network=switch) as nodes:
        cluster.connect(nodes.address, **nodes.driver_settings)
        try:
            yield switch, nodes
        finally:
            ray.shutdown()
            everything = nodes.processes()
            nodes.close()
            namespaces = [f"/proc/{p.pid}/ns/net" for p in everything]
            assert not any(p.is_running() for p in everything)
            assert not any(Path(each).exists() for each in namespaces)


def talkers(nodes: LocalNodes) -> list[Any]:
    made: Any = ray.remote(num_cpus=0)(Talker)
    return [
        made.options(scheduling_strategy=NodeAffinitySchedulingStrategy(id, soft=False)).remote()
        for id in nodes.ids.values()
    ]


def alive() -> set[str]:
    found: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]  # Ray has no types for it
    return {node["NodeName"] for node in found if node["Alive"]}


def test_nodes_talk_through_the_switch_and_a_silent_partition_parts_one() -> None:
    with started(4, 3) as (switch, nodes):
        addresses = [switch.address(host) for host in (1, 2, 3)]
        actors = talkers(nodes)
        assert ray.get([a.address.remote() for a in actors], timeout=WAIT_S) == addresses
        for one in actors:
            for other, address in zip(actors, addresses, strict=True):
                if other is not one:
                    assert ray.get(one.ask.remote(other), timeout=WAIT_S) == address
        before = switch.counts()[3, 2].passed
        assert ray.get(actors[1].fetch.remote(actors[2], 8 << 20), timeout=WAIT_S) == 8 << 20
        counts = switch.counts()
        assert counts[3, 2].passed - before >= (8 << 20) / 65_000, "by the switch, and no other way"

        parted_s = time.monotonic()
        for host in (1, 2):
            switch.rule(host, 3, Rule(drop=True))
            switch.rule(3, host, Rule(drop=True))
        call = actors[2].address.remote()
        with pytest.raises(GetTimeoutError):
            ray.get(call, timeout=HANGS_S)
        with pytest.raises(ActorDiedError, match="health check"):
            ray.get(call, timeout=WAIT_S)
        assert alive() == {"n1", "n2"}
        assert time.monotonic() - parted_s < DEAD_S
        assert nodes.processes("n3") != [], "it runs, and does not know"
        assert ray.get(actors[0].ask.remote(actors[1]), timeout=WAIT_S) == addresses[1]

        assert nodes.add() == "n4"
        assert alive() == {"n1", "n2", "n4"}
        with pytest.raises(Misuse, match="there are 1 to 4"):
            nodes.add()
        assert "n5" not in nodes.names


def test_a_driver_needs_no_settings_where_nodes_share_this_machines_network() -> None:
    assert LocalNodes(1).driver_settings == {}
