"""Nothing that was promised is left in the machine, in whatever order processes end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from secrets import token_hex

import psutil
import pytest

from gapless.actors.local_keeper import MARK, marked
from gapless.chaos.drill.means import cgroups, janitor_process, small_disk
from gapless.chaos.drill.means.cgroups import Group
from gapless.chaos.drill.means.janitor import Janitor, Kind
from gapless.chaos.drill.means.janitor_process import Promises, taken_away
from gapless.chaos.drill.means.mounts import is_mounted, mount_tmpfs, unmount
from gapless.chaos.drill.means.small_disk import SmallDisk
from gapless.protocol.errors import JobError, Misuse
from tests.chaos.drill.means.eventually import WAIT_S, eventually

MARK_OF_A_TEST = "a-mark-of-a-test"

OWNER = """
import json, os, signal, subprocess, sys, time
from pathlib import Path
from gapless.actors.local_keeper import MARK
from gapless.chaos.drill.means import cgroups, small_disk
from gapless.chaos.drill.means.janitor import Janitor

where, mark, how = Path(sys.argv[1]), sys.argv[2], sys.argv[3]

class NoJanitor(Janitor):
    def promise(self, kind, what):
        return 0

with (NoJanitor if how == "without a janitor" else Janitor)() as janitor:
    janitor.promise("remove", str(where))
    where.mkdir()
    (where / "file").write_text("x")
    janitor.promise("kill", mark + "/")
    sleeper = ["sleep", "1000"]
    pids = [subprocess.Popen(sleeper, env={**os.environ, MARK: mark + "/n1"}).pid]
    groups = []
    for version in (1, 2):
        if cgroups.why_not("freezer", version) is None:
            group = cgroups.Group("freezer", janitor, version=version)
            pids.append(subprocess.Popen(sleeper).pid)
            group.add(pids[-1:])
            group.freeze()
            groups.append(str(group.path))
    if small_disk.why_not() is None:
        disk = small_disk.SmallDisk(where / "disk", 1, janitor)
        pids.append(subprocess.Popen(sleeper, cwd=disk.at).pid)
        disk.fill()
    if how == "with a child that has its pipe" and os.fork() == 0:
        os.closerange(0, 3)
        while os.getppid() != 1:
            time.sleep(0.1)
        time.sleep(5)
        os._exit(0)
    print(json.dumps([janitor.pid, pids, groups]), flush=True)
    if how == "exits":
        os._exit(0)
    sys.stdin.read()
"""


def ended(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


class Owner:
    """A process that owns a janitor, and what it has made."""

    def __init__(self, where: Path, how: str) -> None:
        self.where, self.mark = where / "run", token_hex(8)
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWNER, str(self.where), self.mark, how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.janitor, self.pids, self.groups = json.loads(self.process.stdout.readline())

    @property
    def left(self) -> list[str]:
        """Of all that it has made, what is there."""
        there = [group for group in self.groups if Path(group).exists()]
        there += [str(self.where)] if self.where.exists() else []
        there += ["a mount"] if is_mounted(self.where / "disk") else []
        held = [self.pids[0], *self.pids[1 : 1 + len(self.groups)]]
        return there + [f"process {pid}" for pid in held if not ended(pid)]

    def end(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        self.process.wait(WAIT_S)

    def close(self) -> None:
        """Whatever went wrong: nothing is left by a test."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(WAIT_S)
        eventually(lambda: ended(self.janitor), "the janitor has not ended")
        for group in self.groups:
            taken_away("cgroup", group)
        for pid in self.pids:
            if not ended(pid):
                os.kill(pid, signal.SIGKILL)
        taken_away("unmount", str(self.where / "disk"))
        taken_away("remove", str(self.where))


@pytest.fixture
def owner(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Owner]:
    it = Owner(tmp_path, request.param)
    try:
        yield it
    finally:
        it.close()


@pytest.fixture
def janitor() -> Iterator[Janitor]:
    with Janitor() as it:
        yield it


def sleeper(**settings: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "1000"], env={**os.environ, **settings})


needs_disk = pytest.mark.skipif(small_disk.why_not() is not None, reason=str(small_disk.why_not()))
needs_freezer = pytest.mark.skipif(
    cgroups.why_not("freezer") is not None, reason=str(cgroups.why_not("freezer"))
)
needs_freezer_1 = pytest.mark.skipif(
    cgroups.why_not("freezer", 1) is not None, reason=str(cgroups.why_not("freezer", 1))
)


# -- its owner ends -------------------------------------------------------------------------------


@pytest.mark.parametrize("owner", ["waits", "with a child that has its pipe"], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_when_the_owner_is_killed(owner: Owner, number: signal.Signals) -> None:
    assert len(owner.left) >= 2
    owner.end(number)
    eventually(lambda: not owner.left, f"left is {owner.left}")
    eventually(lambda: ended(owner.janitor), "the janitor has not ended")


@pytest.mark.parametrize("owner", ["exits"], indirect=True)
def test_nothing_is_left_when_the_owner_exits_in_the_middle(owner: Owner) -> None:
    eventually(lambda: not owner.left, f"left is {owner.left}")


@pytest.mark.parametrize("owner", ["waits"], indirect=True)
def test_signals_that_end_programs_do_not_end_the_janitor(owner: Owner) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(owner.janitor, number)
    owner.end(signal.SIGKILL)
    eventually(lambda: not owner.left, f"left is {owner.left}")


@pytest.mark.parametrize("owner", ["without a janitor"], indirect=True)
def test_without_a_janitor_all_of_it_is_left(owner: Owner) -> None:
    there = owner.left
    owner.end(signal.SIGKILL)
    eventually(lambda: ended(owner.janitor), "the janitor has not ended")
    assert owner.left == there


# -- promises -------------------------------------------------------------------------------------


def test_a_promise_is_kept_when_asked_and_at_the_end(tmp_path: Path) -> None:
    now, later = tmp_path / "now", tmp_path / "later"
    with Janitor() as janitor:
        promise = janitor.promise("remove", str(now))
        janitor.promise("remove", str(later))
        now.mkdir()
        (later / "deep").mkdir(parents=True)
        janitor.keep(promise)
        assert not now.exists()
        assert later.exists()
        janitor.keep(promise)
    assert not later.exists()


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("remove", "{tmp}/nothing"),
        ("unmount", "{tmp}/nothing"),
        ("kill", MARK_OF_A_TEST),
        pytest.param("cgroup", "{group}/gapless-nothing", marks=needs_freezer),
    ],
)
def test_what_is_not_there_is_fine(kind: Kind, what: str, tmp_path: Path) -> None:
    top = str(cgroups.trees("freezer")[0].top) if kind == "cgroup" else ""
    what = what.format(tmp=tmp_path, group=top)
    with Janitor() as janitor:
        janitor.keep(janitor.promise(kind, what))
        janitor.promise(kind, what)


@pytest.mark.parametrize(
    ("kind", "what", "why"),
    [
        ("remove", "here", "absolute"),
        ("remove", "/var/../etc/x", "absolute"),
        ("remove", "/etc", "place of the system"),
        ("remove", "/", "place of the system"),
        ("unmount", "/", "place of the system"),
        ("cgroup", "/sys/fs/cgroup/freezer", "is named gapless-"),
        ("cgroup", "/gapless-x", "no place for a control group"),
        ("kill", "", "letters at least"),
        ("kill", "/", "letters at least"),
        ("burn", "/var/x", "no kind 'burn'"),
    ],
)
def test_what_could_be_anybodys_is_refused(
    janitor: Janitor, kind: Kind, what: str, why: str
) -> None:
    with pytest.raises(Misuse, match=why):
        janitor.promise(kind, what)


@pytest.mark.parametrize("place", ["cwd", "home", "python"])
def test_where_this_program_lives_is_not_taken_away(janitor: Janitor, place: str) -> None:
    path = {"cwd": Path.cwd(), "home": Path.home(), "python": Path(sys.prefix)}[place]
    for above in (path, *path.parents):
        with pytest.raises(Misuse, match=r"is in there|place of the system"):
            janitor.promise("remove", str(above))


def test_all_that_carry_a_mark_are_killed_and_nobody_else(janitor: Janitor) -> None:
    mark = token_hex(8)
    promise = janitor.promise("kill", f"{mark}/")
    ours = [sleeper(**{MARK: f"{mark}/{name}"}) for name in ("n1", "n2")]
    other = sleeper(**{MARK: f"{token_hex(8)}/n1"})
    try:
        eventually(lambda: len(marked(f"{mark}/")) == 2, "they have not started")
        janitor.keep(promise)
        assert [each.wait(WAIT_S) for each in ours] == [-signal.SIGKILL] * 2
        assert other.poll() is None
    finally:
        other.kill()
        other.wait(WAIT_S)


def test_a_janitor_carries_no_mark_of_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MARK, MARK_OF_A_TEST)
    with Janitor() as janitor:
        janitor.keep(janitor.promise("kill", MARK_OF_A_TEST))
        assert not ended(janitor.pid)


def test_a_link_is_removed_and_not_what_it_leads_to(janitor: Janitor, tmp_path: Path) -> None:
    there, link = tmp_path / "there", tmp_path / "link"
    there.mkdir()
    link.symlink_to(there)
    janitor.keep(janitor.promise("remove", str(link)))
    assert there.exists()
    assert not link.is_symlink()


def test_several_threads_may_promise(tmp_path: Path) -> None:
    places = [tmp_path / f"{n}" for n in range(40)]

    def promised(janitor: Janitor, place: Path) -> int:
        promise = janitor.promise("remove", str(place))
        place.mkdir()
        if int(place.name) % 2:
            janitor.keep(promise)
        return promise

    with Janitor() as janitor, ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(partial(promised, janitor), places))) == len(places)
        assert {place.exists() for place in places[1::2]} == {False}
        assert {place.exists() for place in places[::2]} == {True}
    assert list(tmp_path.iterdir()) == []


def test_an_answer_nobody_has_waited_for_is_passed_over(janitor: Janitor, tmp_path: Path) -> None:
    place = tmp_path / "it"
    place.mkdir()
    promise = janitor.promise("remove", str(place))
    pipe = janitor._running().stdin
    assert pipe is not None
    for n in (-1, -2):  # an owner that was interrupted twice while it waited
        pipe.write(json.dumps({"n": n, "do": "keep", "id": -1}).encode() + b"\n")
    janitor.keep(promise)
    assert not place.exists()


# -- what goes wrong ------------------------------------------------------------------------------


def test_a_janitor_that_is_not_there_is_said() -> None:
    with pytest.raises(Misuse, match="with Janitor"):
        Janitor().promise("kill", MARK_OF_A_TEST)
    janitor = Janitor()
    with janitor:
        promise = janitor.promise("kill", MARK_OF_A_TEST)
    janitor.close()
    with pytest.raises(Misuse, match="with Janitor"):
        janitor.keep(promise)


def test_the_owner_of_a_killed_janitor_keeps_its_promises(tmp_path: Path) -> None:
    it = tmp_path / "it"
    janitor = Janitor()
    with janitor:
        janitor.promise("remove", str(it))
        it.mkdir()
        os.kill(janitor.pid, signal.SIGKILL)
        eventually(lambda: ended(janitor.pid), "it is not killed")
        with pytest.raises(JobError, match="make another one"):
            janitor.promise("remove", str(tmp_path / "more"))
        assert it.exists()
    assert not it.exists()


@needs_disk
def test_the_last_is_taken_away_first_since_it_may_stand_on_others(tmp_path: Path) -> None:
    def promises() -> Promises:
        made = Promises()
        made.add(1, "remove", str(tmp_path / "run"))
        made.add(2, "unmount", str(tmp_path / "run" / "disk"))
        (tmp_path / "run" / "disk").mkdir(parents=True, exist_ok=True)
        assert mount_tmpfs(tmp_path / "run" / "disk", "size=1m") is None
        return made

    assert promises().keep_all() == []
    assert not (tmp_path / "run").exists()
    wrong = promises()
    left = [line for id in (1, 2) for line in wrong.keep(id)]
    assert "something is mounted" in left[0]
    assert wrong.keep_all() == []


@needs_disk
def test_what_cannot_be_taken_away_is_named_and_all_else_is_taken(tmp_path: Path) -> None:
    stuck, other = tmp_path / "stuck", tmp_path / "other"
    inside = stuck / "with a space"
    janitor = Janitor()
    with janitor:
        janitor.promise("remove", str(other))
        promise = janitor.promise("remove", str(stuck))
        other.mkdir()
        inside.mkdir(parents=True)
        assert mount_tmpfs(inside, "size=1m") is None
        try:
            (inside / "file").write_text("somebody's")
            with pytest.raises(JobError, match=f"remove {stuck}: something is mounted: {inside}"):
                janitor.keep(promise)
            with pytest.raises(JobError, match=f"remove {stuck}: something is mounted: {inside}"):
                janitor.close()
            assert not other.exists()
            assert (inside / "file").exists()
        finally:
            assert unmount(inside) is None


@needs_disk
def test_what_could_not_be_taken_away_is_tried_again_at_the_end(tmp_path: Path) -> None:
    stuck = tmp_path / "stuck"
    with Janitor() as janitor:
        promise = janitor.promise("remove", str(stuck))
        stuck.mkdir()
        assert mount_tmpfs(stuck, "size=1m") is None
        with pytest.raises(JobError, match="something is mounted"):
            janitor.keep(promise)
        assert unmount(stuck) is None
    assert not stuck.exists()


@needs_disk
def test_a_disk_that_somebody_uses_is_taken_off_even_so(janitor: Janitor, tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path / "disk", 1, janitor)
    user = subprocess.Popen(["sleep", "1000"], cwd=disk.at)
    try:
        disk.close()
        assert user.poll() is None
        assert not is_mounted(disk.at)
        assert not disk.at.exists()
    finally:
        user.kill()
        user.wait(WAIT_S)


@needs_disk
def test_all_that_is_mounted_on_one_place_is_taken_off(janitor: Janitor, tmp_path: Path) -> None:
    promise = janitor.promise("unmount", str(tmp_path))
    for _ in range(3):
        assert mount_tmpfs(tmp_path, "size=1m") is None
    janitor.keep(promise)
    assert not is_mounted(tmp_path)


@needs_freezer
@pytest.mark.parametrize("version", [1, 2])
def test_groups_below_a_frozen_one_are_disbanded_too(
    janitor: Janitor, version: cgroups.Version
) -> None:
    if why := cgroups.why_not("freezer", version):
        pytest.skip(why)
    group = Group("freezer", janitor, version=version)
    below = group.path / "below"
    below.mkdir()
    process = sleeper()
    (below / "cgroup.procs").write_text(str(process.pid))
    group.freeze()
    janitor.close()
    assert not group.path.exists()
    assert process.wait(WAIT_S) == -signal.SIGKILL


@needs_freezer_1
def test_one_that_forgets_to_thaw_says_who_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    with Janitor() as janitor:
        group = Group("freezer", janitor, version=1)
        process = sleeper()
        group.add([process.pid])
        group.freeze()
        with monkeypatch.context() as broken:
            broken.setattr(janitor_process, "LIFTS", ())
            broken.setattr(janitor_process, "TRIES", 5)
            left = taken_away("cgroup", str(group.path))
        assert f"in it: {process.pid} (disk-sleep)" in (left or "")
    assert process.wait(WAIT_S) == -signal.SIGKILL
    assert not group.path.exists()
