"""A process is killed only while it is the one that was meant."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from gapless.actors import own_process
from gapless.actors.host import Host
from gapless.actors.own_process import slay, started

WAIT_S = 20.0


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits for its input to end."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


@pytest.fixture(params=["by a descriptor", "by its number"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has descriptors of processes, and where it has none."""
    if request.param == "by its number":
        monkeypatch.delattr(os, "pidfd_open", raising=False)


@pytest.mark.usefixtures("way")
def test_the_process_that_was_meant_is_killed(other: subprocess.Popen[bytes]) -> None:
    assert slay(other.pid, started(other.pid))
    assert other.wait(WAIT_S) == -9


@pytest.mark.usefixtures("way")
def test_another_process_with_its_pid_is_left_alone(other: subprocess.Popen[bytes]) -> None:
    """As the host's own method does it, too."""
    earlier = started(other.pid) - 1
    assert not slay(other.pid, earlier)
    assert not Host.slay(object.__new__(Host), other.pid, earlier)
    assert other.poll() is None


@pytest.mark.usefixtures("way")
def test_a_process_that_is_gone_is_nobody(other: subprocess.Popen[bytes]) -> None:
    at = started(other.pid)
    other.kill()
    other.wait(WAIT_S)
    assert started(other.pid) == 0
    assert not slay(other.pid, at)


def test_a_start_is_known_without_proc(
    other: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_process, "_PROC", own_process._PROC / "nothing")
    assert started(other.pid) == started(other.pid) > 0
    other.kill()
    other.wait(WAIT_S)
    assert started(other.pid) == 0
