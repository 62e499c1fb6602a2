"""Processes in a group stand still, starve and die as the group says, and leave it as they came."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from gapless.chaos.drill.means import cgroups
from gapless.chaos.drill.means.cgroups import Controller, Group, Tree, Version, why_not
from gapless.chaos.drill.means.janitor import Janitor
from gapless.protocol.errors import JobError, Misuse
from tests.chaos.drill.means.eventually import WAIT_S, eventually

BUSY = "while True: pass"
FORKING = "import os, time\nwhile True:\n if os.fork() == 0: os._exit(0)\n os.wait()"
PARENT = "import subprocess, sys\nsys.stdin.readline()\nsubprocess.run(['sleep', '1000'])"
HUNGRY = """
import sys
held = bytearray()
for line in sys.stdin:
    held += b"x" * (int(line) << 20)
    print(len(held), flush=True)
"""
MB = 1 << 20

Start = Callable[[str], "subprocess.Popen[str]"]


def needs(controller: Controller, version: Version | None = None) -> pytest.MarkDecorator:
    why = why_not(controller, version)
    return pytest.mark.skipif(why is not None, reason=str(why))


freezers = pytest.mark.parametrize(
    "version",
    [pytest.param(1, marks=needs("freezer", 1)), pytest.param(2, marks=needs("freezer", 2))],
)


@pytest.fixture
def janitor() -> Iterator[Janitor]:
    with Janitor() as it:
        yield it


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def start(program: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=WAIT_S)


def ran_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def groups_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text()


def tell(process: subprocess.Popen[str], line: str) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return process.stdout.readline()


# -- freezing -------------------------------------------------------------------------------------


@freezers
def test_frozen_processes_stand_still_and_go_on_when_thawed(
    version: Version, janitor: Janitor, start: Start
) -> None:
    process = start(BUSY)
    group = Group("freezer", janitor, version=version)
    group.add([process.pid])
    eventually(lambda: ran_s(process.pid) > 0.05, "it does not run")
    group.freeze()
    assert group.is_frozen()
    before = ran_s(process.pid)
    clock = start(BUSY)  # as long as this one takes
    eventually(lambda: ran_s(clock.pid) > 0.2, "the other one does not run")
    assert ran_s(process.pid) == before
    group.thaw()
    assert not group.is_frozen()
    eventually(lambda: ran_s(process.pid) > before, "it does not go on")


@freezers
def test_what_a_process_starts_is_in_its_group(
    version: Version, janitor: Janitor, start: Start
) -> None:
    process = start(PARENT)
    group = Group("freezer", janitor, version=version)
    group.add([process.pid])
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    eventually(lambda: len(group.pids) == 2, "no child in the group")
    janitor.close()
    assert process.wait(WAIT_S) == -signal.SIGKILL
    assert group.pids == []


@freezers
def test_released_processes_live_where_they_were(
    version: Version, janitor: Janitor, start: Start
) -> None:
    process, forking = start(BUSY), start(FORKING)
    before = groups_of(process.pid)
    group = Group("freezer", janitor, version=version)
    group.add([process.pid, forking.pid])
    group.freeze()
    assert groups_of(process.pid) != before
    group.release()
    assert not group.path.exists()
    assert groups_of(process.pid) == groups_of(forking.pid) == before
    ran = ran_s(process.pid)
    eventually(lambda: ran_s(process.pid) > ran, "it does not run")
    assert forking.poll() is None
    group.release()


@freezers
def test_a_process_that_has_ended_is_passed_over(
    version: Version, janitor: Janitor, start: Start
) -> None:
    process = start("")
    process.communicate(timeout=WAIT_S)
    group = Group("freezer", janitor, version=version)
    group.add([process.pid])
    assert group.pids == []
    group.freeze()
    group.release()


@freezers
def test_a_group_that_does_not_freeze_is_let_go(
    version: Version, janitor: Janitor, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = start(BUSY)
    group = Group("freezer", janitor, version=version)
    group.add([process.pid])
    monkeypatch.setattr(cgroups, "FREEZE_S", 0.05)
    monkeypatch.setattr(Group, "is_frozen", lambda _: False)
    with pytest.raises(JobError, match="does not freeze within"):
        group.freeze()
    before = ran_s(process.pid)
    eventually(lambda: ran_s(process.pid) > before, "it is still frozen")


# -- memory, processors ---------------------------------------------------------------------------


@needs("memory")
def test_who_needs_more_memory_than_the_group_has_is_killed(janitor: Janitor, start: Start) -> None:
    process, other = start(HUNGRY), start(HUNGRY)
    group = Group("memory", janitor)
    group.add([process.pid])
    tell(process, "30")
    assert 30 * MB <= group.memory_used() < 60 * MB
    group.limit_memory(100 * MB)
    assert tell(process, "10") == f"{40 * MB}\n"
    assert tell(process, "200") == ""
    assert process.wait(WAIT_S) == -signal.SIGKILL
    assert tell(other, "200") == f"{200 * MB}\n"
    group.release()


@needs("memory")
def test_a_limit_below_what_is_in_use_is_said_and_changes_nothing(
    janitor: Janitor, start: Start
) -> None:
    if Path("/proc/swaps").read_text().count("\n") > 1:
        pytest.skip("there is swap here, where the kernel puts what is too much")
    process = start(HUNGRY)
    group = Group("memory", janitor)
    group.add([process.pid])
    tell(process, "30")
    with pytest.raises(JobError, match=r"bytes are in use.*choose more"):
        group.limit_memory(10 * MB)
    assert tell(process, "30") == f"{60 * MB}\n"
    with pytest.raises(Misuse, match="1 or more"):
        group.limit_memory(0)


@needs("cpu")
def test_a_starved_process_waits_for_its_share(janitor: Janitor, start: Start) -> None:
    process = start(BUSY)
    group = Group("cpu", janitor)
    group.add([process.pid])
    group.limit_cpu(0.1)

    def throttled() -> int:
        stat = dict(line.split() for line in (group.path / "cpu.stat").read_text().splitlines())
        return int(stat["nr_throttled"])

    eventually(lambda: throttled() > 2, "it is not throttled")
    for share in (0.0, 0.001, float("nan"), 1e6):
        with pytest.raises(Misuse, match="a share of"):
            group.limit_cpu(share)
    group.release()
    assert process.poll() is None


@needs("cpu", 1)
def test_a_share_that_the_group_above_does_not_have_is_said(janitor: Janitor) -> None:
    above = Group("cpu", janitor, version=1)
    above.limit_cpu(0.1)
    group = Group("cpu", janitor, version=1)
    group._path = above.path / "below"
    group._path.mkdir()
    with pytest.raises(JobError, match="the group above it has less: choose a smaller share"):
        group.limit_cpu(0.5)
    group.limit_cpu(0.05)


# -- what cannot be -------------------------------------------------------------------------------


@needs("freezer")
def test_what_makes_no_sense_is_refused(janitor: Janitor) -> None:
    group = Group("freezer", janitor)
    for own in (os.getpid(), janitor.pid):
        with pytest.raises(Misuse, match="who would end it"):
            group.add([own])
    with pytest.raises(Misuse, match="make one of memory"):
        group.memory_used()
    with pytest.raises(Misuse, match="make one of cpu"):
        group.limit_cpu(0.5)
    group.release()
    with pytest.raises(Misuse, match="is released"):
        group.freeze()
    with pytest.raises(Misuse, match="is released"):
        group.add([1 << 22])
    assert group.pids == []


@needs("freezer", 1)
def test_a_process_that_cannot_be_moved_is_named(janitor: Janitor) -> None:
    kernels = [p.pid for p in psutil.process_iter() if p.pid == 2 and p.name() == "kthreadd"]
    if not kernels:
        pytest.skip("no thread of the kernel is seen here")
    group = Group("freezer", janitor, version=1)
    with pytest.raises(JobError, match=r"process 2 cannot be moved to .*: \w+"):
        group.add(kernels)


def test_a_controller_that_is_not_there_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "mounts", lambda: ())
    monkeypatch.setattr(cgroups, "_usable", cgroups._usable.__wrapped__)
    assert "mount -t cgroup2" in (why_not("memory") or "")
    with Janitor() as janitor, pytest.raises(Misuse, match="mount -t cgroup2"):
        Group("memory", janitor)


def test_who_may_make_no_group_is_told_why_and_what_to_do(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    said = cgroups._why_not_in.__wrapped__(missing, ())
    assert said is not None
    assert said.startswith(f"no control group can be made in {missing}: No such file")
    assert "run as root" in said


def test_a_kernel_without_what_is_needed_is_told_and_no_group_is_left(tmp_path: Path) -> None:
    said = cgroups._why_not_in.__wrapped__(tmp_path, ("memory.max",))
    assert said == f"a control group in {tmp_path} has no cgroup.procs: this kernel lacks it"
    assert list(tmp_path.iterdir()) == []


# -- version 2, where controllers are handed down -------------------------------------------------


def tree_of_2(tmp_path: Path, controller: Controller, hands_down: dict[str, str]) -> Tree:
    own = tmp_path / "session" / "shell"
    own.mkdir(parents=True)
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    for each in (own, *own.parents[:2]):
        (each / "cgroup.subtree_control").write_text(hands_down.get(each.name, ""))
    return Tree(controller, 2, tmp_path, own)


@pytest.mark.parametrize(
    ("hands_down", "nearest"),
    [
        ({"top": "cpu memory"}, ""),
        ({"top": "cpu memory", "session": "memory"}, "session"),
        ({"top": "cpu memory", "session": "cpu"}, ""),
        ({"top": "memory", "session": "memory", "shell": "memory"}, "session/shell"),
    ],
)
def test_a_group_is_made_in_the_nearest_one_that_hands_its_controller_down(
    tmp_path: Path, hands_down: dict[str, str], nearest: str
) -> None:
    top = tmp_path / "top"
    top.mkdir()
    tree = tree_of_2(top, "memory", hands_down)
    assert next(tree.parents()) == top / nearest
    freezer = Tree("freezer", 2, tree.top, tree.own)
    assert next(freezer.parents()) == tree.own


def test_where_nobody_hands_a_controller_down_it_is_said_how_to(tmp_path: Path) -> None:
    tree = tree_of_2(tmp_path, "memory", {})
    assert f"echo +memory > {tmp_path}/cgroup.subtree_control" in (tree.why_not() or "")
    (tmp_path / "cgroup.controllers").write_text("cpu\n")
    assert tree.why_not() == f"groups of version 2 at {tmp_path} have no memory controller"


class Noting:
    """In a janitor's place, where no group is real."""

    pid = 0

    def promise(self, kind: str, what: str) -> int:
        assert (kind, Path(what).exists()) == ("cgroup", False)
        return 1


def group_of_2(controller: Controller, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> Group:
    monkeypatch.setattr(cgroups, "_usable", lambda *_: (tree, ""))
    monkeypatch.setattr(cgroups, "_why_not_in", lambda *_: None)
    janitor: Any = Noting()
    return Group(controller, cast(Janitor, janitor))


def test_version_2_is_told_in_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tree_of_2(tmp_path, "cpu", {"shell": "cpu memory"})
    group = group_of_2("cpu", tree, monkeypatch)
    group.limit_cpu(0.25)
    assert (group.path / "cpu.max").read_text() == "25000 100000"
    tree = Tree("memory", 2, tree.top, tree.own)
    group = group_of_2("memory", tree, monkeypatch)
    (group.path / "memory.current").write_text("5000\n")
    group.limit_memory(6000)
    assert (group.path / "memory.max").read_text() == "6000"
    with pytest.raises(JobError, match="5000 bytes are in use"):
        group.limit_memory(4000)
    assert (group.path / "memory.max").read_text() == "6000"
