"""Local nodes live and die as machines do, and nothing of them is left, whatever ends them."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray

from gapless.actors.local_keeper import marked
from gapless.actors.local_nodes import NODES_MAX, LocalNodes
from gapless.protocol.errors import JobError, Misuse

WAIT_S = 20.0

OWNER = """
import sys
from gapless.actors.local_nodes import LocalNodes
with LocalNodes(2) as nodes:
    print(nodes._mark, nodes.dir, flush=True)
    try:
        sys.stdin.read()
    except KeyboardInterrupt:
        pass
"""


def eventually(holds: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < until, what
        time.sleep(0.05)


def alive() -> set[str]:
    return {node["NodeName"] for node in nodes_of_ray() if node["Alive"]}


def nodes_of_ray() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]  # Ray has no types for it
    return found


@pytest.mark.ray
@pytest.mark.cluster
def test_a_node_dies_with_all_its_processes_and_another_comes() -> None:
    before = {name: os.environ.get(name) for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")}
    with LocalNodes(3) as nodes:
        assert os.environ["RAY_AUTH_MODE"] == "token"
        ray.init(address=nodes.address, log_to_driver=False, logging_level=logging.ERROR)
        try:
            assert alive() == {"n1", "n2", "n3"} == set(nodes.names)
            assert {node["NodeID"] for node in nodes_of_ray()} == set(nodes.ids.values())
            of_n2 = nodes.processes("n2")
            assert {process.name() for process in of_n2} >= {"raylet"}
            nodes.kill("n2")
            assert not any(process.is_running() for process in of_n2)
            assert nodes.processes("n2") == []
            assert nodes.processes("n3") != []
            eventually(lambda: alive() == {"n1", "n3"}, "the cluster has not seen it die")
            assert nodes.add() == "n4"
            assert alive() == {"n1", "n3", "n4"}
            with pytest.raises(Misuse, match="holds the cluster's directory"):
                nodes.kill("n1")
            with pytest.raises(Misuse, match="there are n1, n3, n4"):
                nodes.kill("n2")
        finally:
            ray.shutdown()
        everything = nodes.processes()
    assert not any(process.is_running() for process in everything)
    assert nodes.processes() == []
    assert not nodes.dir.exists()
    assert {name: os.environ.get(name) for name in before} == before


def test_a_cluster_is_in_the_session_of_its_owner_and_in_another_process_group() -> None:
    nodes = LocalNodes(1)
    nodes._start_keeper()
    try:
        assert nodes._keeper is not None
        pid = nodes._keeper.pid
        assert os.getsid(pid) == os.getsid(0), "Linux shares cores between sessions first"
        assert os.getpgid(pid) == pid != os.getpgid(0), "Ctrl-C would end it before its owner"
    finally:
        nodes.close()


@pytest.mark.ray
@pytest.mark.cluster
def test_a_frozen_node_is_stopped_and_goes_on_when_thawed() -> None:
    with LocalNodes(2) as nodes:
        nodes.freeze("n2")
        states = {process.status() for process in nodes.processes("n2")}
        assert states == {psutil.STATUS_STOPPED}
        nodes.thaw("n2")
        states = {process.status() for process in nodes.processes("n2")}
        assert psutil.STATUS_STOPPED not in states


@pytest.mark.ray
@pytest.mark.cluster
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_of_nodes_whose_owner_is_ended(number: signal.Signals) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdin is not None
    assert owner.stdout is not None
    with owner.stdin, owner.stdout:
        mark, directory = owner.stdout.readline().split()
        assert marked(f"{mark}/") != []
        owner.send_signal(number)
        owner.wait(WAIT_S)
    eventually(lambda: not marked(f"{mark}/"), "processes are left")
    eventually(lambda: not Path(directory).exists(), "the directory is left")


@pytest.mark.ray
@pytest.mark.cluster
def test_a_cluster_that_cannot_start_says_why_and_leaves_nothing() -> None:
    nodes = LocalNodes(1, object_store_bytes=1)
    with pytest.raises(JobError, match=r"cannot start node n1: \w+"), nodes:
        pass
    assert nodes.processes() == []
    assert not nodes.dir.exists()


def test_what_cannot_be_started_is_refused() -> None:
    with pytest.raises(Misuse, match=f"from 1 to {NODES_MAX}"):
        LocalNodes(0)
    with pytest.raises(Misuse, match="letters at most"):
        LocalNodes(1, temp_dir="x" * 60)
    with pytest.raises(Misuse, match="not started"):
        LocalNodes(1).add()
