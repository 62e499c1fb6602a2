"""A drill that is interrupted, in whatever way, leaves nothing.

    the command <-- SIGINT, SIGKILL            while a node is cut off (network
      the drill's process <-- SIGKILL          namespaces), one that is frozen (a control group)
        janitor, keeper, switch, cluster       and a disk that is full (a mount)

All that a run starts inherits a variable of the environment, by which it is found; all that it
makes in files is in a directory that is given to it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory

import psutil
import pytest

from gapless.chaos.drill.faults.all import FAULTS
from gapless.chaos.drill.means.mounts import mounted_below

KINDS = ("partition", "freeze node", "fill disk")
SCENARIO = """
about = "A node is cut off, another one frozen, and the disk is full, until somebody has enough."
nodes = 3
mergers = 2

[[faults]]
fault = "fill disk"
at = 0.2
lasts = 600.0

[[faults]]
fault = "partition"
at = 0.4
target = "n2"
lasts = 600.0

[[faults]]
fault = "freeze node"
at = 0.6
target = "n3"
lasts = 600.0
"""
COMMAND = ("chaos", "run", "mine.toml", "--out", "out")
NAME = "GAPLESS_TEST_RUN"
JANITOR, KEEPER = "chaos.drill.means.janitor_process", "actors.local_keeper"
STRUCK_S = 150.0
"""From the command's start until all three have struck, on a machine with much else to do."""
GONE_S = 90.0
"""From the interrupt until nothing is left."""
LOOK_S = 0.1

missing = [why for kind in KINDS if (why := FAULTS[kind].why_not()) is not None]
pytestmark = [
    pytest.mark.ray,
    pytest.mark.cluster,
    pytest.mark.skipif(bool(missing), reason="; ".join(missing)),
]


def ours(token: str) -> list[psutil.Process]:
    """The processes of a run, under whatever parent by now; no zombies."""
    found = []
    for process in psutil.process_iter():
        try:
            is_ours = process.environ().get(NAME) == token
            if is_ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def network_of(pid: int | str) -> str | None:
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return None  # it has ended


def groups_of(process: psutil.Process) -> set[Path]:
    """The control groups of ours that a process is in."""
    try:
        lines = Path(f"/proc/{process.pid}/cgroup").read_text().splitlines()
    except OSError:
        return set()
    paths = [line.split(":", 2)[2].lstrip("/") for line in lines]
    tops = [Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").iterdir()]
    names = [path for path in paths if "gapless-" in path]
    return {top / path for path in names for top in tops if (top / path).is_dir()}


@dataclass(frozen=True)
class Made:
    """What a run has made in the kernel."""

    networks: frozenset[str]
    others: frozenset[psutil.Process]
    """All that live in those networks, and all that ours have started: Ray's agents write their
    name over our variable. A namespace without a name ends with the last who is in it; its number
    is soon another's.
    """
    groups: frozenset[Path]
    mounts: tuple[Path, ...]


class Run:
    """`gapless chaos run` in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token = token_hex(8)
        (folder / "mine.toml").write_text(SCENARIO)
        self.work = folder / "tmp"
        self.work.mkdir()
        self.said: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from gapless.cli import main; main()", *COMMAND],
            cwd=folder,
            env={**os.environ, NAME: self.token, "TMPDIR": str(self.work)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self.said.append(line.rstrip())

    @property
    def drill(self) -> psutil.Process:
        """The process that plays the scenario."""
        (found,) = [
            process
            for process in ours(self.token)
            if "gapless.chaos.drill.drill_process" in process.cmdline()
        ]
        return found

    def made(self) -> Made:
        own = network_of("self")
        processes = ours(self.token)
        networks = {network_of(process.pid) for process in processes} - {own, None}
        others = {each for each in psutil.process_iter() if network_of(each.pid) in networks}
        others |= set(psutil.Process(self.process.pid).children(recursive=True))
        groups = {group for process in processes for group in groups_of(process)}
        return Made(
            frozenset(name for name in networks if name),
            frozenset(others),
            frozenset(groups),
            mounted_below(self.work),
        )

    def left(self, made: Made) -> list[str]:
        """What is there of it."""
        found = [f"process {each.pid} {each.name()}" for each in ours(self.token)]
        found += [f"mount {each}" for each in mounted_below(self.work)]
        found += [f"control group {each}" for each in made.groups if each.exists()]
        found += [f"process {each.pid}, one of the run's" for each in made.others if lives(each)]
        return found + [f"file {each}" for each in self.work.iterdir()]

    def wait_struck(self) -> None:
        end_s = time.monotonic() + STRUCK_S
        while not all(any(f" s: {kind}: " in line for line in self.said) for kind in KINDS):
            assert self.process.poll() is None, "\n".join(self.said)
            assert time.monotonic() < end_s, "\n".join(self.said)
            time.sleep(LOOK_S)

    def wait_gone(self, made: Made) -> None:
        end_s = time.monotonic() + GONE_S
        while left := self.left(made):
            assert time.monotonic() < end_s, "\n".join(["left:", *left, "said:", *self.said])
            time.sleep(LOOK_S)

    def close(self) -> None:
        """Whatever went wrong: this test leaves nothing. The janitor ends by itself, when it is
        done, and the keeper.
        """
        stays = {f"gapless.{name}" for name in (JANITOR, KEEPER)}
        for process in ours(self.token):
            if not stays & set(process.cmdline()):
                process.kill()
        psutil.wait_procs(ours(self.token), timeout=GONE_S)
        self.process.wait(GONE_S)
        self._reader.join(GONE_S)
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextmanager
def started() -> Iterator[Run]:
    with TemporaryDirectory(prefix="gi", dir="/tmp", ignore_cleanup_errors=True) as folder:
        run = Run(Path(folder))
        try:
            yield run
        finally:
            run.close()


@pytest.mark.parametrize(
    ("whom", "number", "code"),
    [
        pytest.param("the command", signal.SIGINT, 2, id="the command, SIGINT"),
        pytest.param("the command", signal.SIGKILL, -signal.SIGKILL, id="the command, SIGKILL"),
        pytest.param("the drill", signal.SIGKILL, 1, id="the drill, SIGKILL"),
    ],
)
def test_nothing_is_left_of_a_drill_that_is_interrupted(
    whom: str, number: signal.Signals, code: int
) -> None:
    with started() as run:
        run.wait_struck()
        made = run.made()
        assert len(made.networks) >= 2, "hosts have networks of their own"
        assert made.groups, "a node is frozen"
        assert len(made.mounts) == 1, "a small disk is mounted"
        assert run.left(made), "this test can fail"
        os.kill(run.process.pid if whom == "the command" else run.drill.pid, number)
        run.wait_gone(made)
        assert run.process.wait(GONE_S) == code
        if number == signal.SIGINT:
            assert any("interrupted: everything it started has been" in line for line in run.said)
