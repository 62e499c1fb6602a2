"""Whose a process is, is told by its mark, also where its name was written over that."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from secrets import token_hex

import psutil
import pytest

from gapless.actors.local_keeper import MARK, end, marked

WAIT_S = 20.0
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE)
print(child.pid, flush=True)
sys.stdin.read()
"""
RENAMED = """
import sys
fields = open("/proc/self/stat").read().rpartition(")")[2].split()
begin, size = int(fields[47]), int(fields[48]) - int(fields[47])
with open("/proc/self/mem", "r+b", 0) as memory:
    memory.seek(begin)
    memory.write(bytes(size))
sys.stderr.write("renamed\\n")
sys.stdin.read()
"""
"""As `setproctitle` does, of which a long title takes the place of the environment."""

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="nothing is written over where there is no /proc"
)


@pytest.fixture
def family() -> Iterator[tuple[str, set[int]]]:
    """A mark; a process that carries it, and its child, which has lost it."""
    mark = token_hex(8)
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, RENAMED],
        env={**os.environ, MARK: f"{mark}/n2"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    assert parent.stderr is not None
    child = int(parent.stdout.readline())
    assert parent.stderr.readline() == "renamed\n"
    try:
        yield mark, {parent.pid, child}
    finally:
        parent.kill()
        parent.communicate(timeout=WAIT_S)


def pids(mark: str) -> set[int]:
    return {process.pid for process in marked(mark)}


def test_who_has_lost_its_mark_counts_as_who_has_started_it(family: tuple[str, set[int]]) -> None:
    mark, both = family
    assert any(MARK not in psutil.Process(pid).environ() for pid in both), "this test can fail"
    assert pids(f"{mark}/") == pids(f"{mark}/n2") == both
    assert pids(f"{mark}/n1") == pids(mark) == set()


def test_all_of_a_node_are_killed_with_it(family: tuple[str, set[int]]) -> None:
    mark, both = family
    assert end(f"{mark}/n2") == []
    assert not any(psutil.pid_exists(pid) and _lives(pid) for pid in both)


def _lives(pid: int) -> bool:
    return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)


def test_who_never_had_a_mark_is_not_taken_for_one(family: tuple[str, set[int]]) -> None:
    mark, both = family
    assert os.getpid() not in pids(f"{mark}/")
    environ = {name: value for name, value in os.environ.items() if name != MARK}
    stranger = subprocess.Popen(
        [sys.executable, "-c", "input()"], env=environ, stdin=subprocess.PIPE
    )
    try:
        assert pids(f"{mark}/") == both
    finally:
        stranger.communicate(b"\n", timeout=WAIT_S)
