"""A spare boots with a low priority where it may have the usual one later, and only there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gapless.actors import priority


class Tasks:
    """The folder of a process's threads, in the order of their numbers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def iterdir(self) -> list[Path]:
        return sorted(self._folder.iterdir())


SPARE = """
import os, threading
from gapless.actors.priority import lift
threading.Thread(target=threading.Event().wait, daemon=True).start()
before = {os.getpriority(os.PRIO_PROCESS, int(task)) for task in os.listdir("/proc/self/task")}
is_lifted = lift()
after = {os.getpriority(os.PRIO_PROCESS, int(task)) for task in os.listdir("/proc/self/task")}
print(sorted(before), is_lifted, sorted(after))
"""

needs_the_right = pytest.mark.skipif(
    not priority.may_lift(), reason="this process may not raise a priority again"
)


def spare(*command: str) -> str:
    ran = subprocess.run(
        [*command, sys.executable, "-c", SPARE], capture_output=True, text=True, check=True
    )
    return ran.stdout.strip()


@needs_the_right
def test_all_threads_of_a_spare_have_the_usual_priority_once_it_is_a_life() -> None:
    assert spare("nice", "-n", str(priority.SPARE_NICENESS)) == "[10] True [0]"


def test_a_thread_that_ends_meanwhile_keeps_no_other_from_the_usual_priority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    niceness = {1: 10, 2: 10, 3: 10}
    for thread in niceness:
        (tmp_path / str(thread)).touch()

    def lifted(_: int, thread: int, to: int) -> None:
        if thread == 2:
            niceness.pop(2, None)
            raise ProcessLookupError
        niceness[thread] = to
        niceness[0] = to  # whoever asks is one of them

    monkeypatch.setattr(priority, "_TASKS", Tasks(tmp_path))
    monkeypatch.setattr("gapless.actors.priority.os.getpriority", lambda *_: niceness.get(0, 10))
    monkeypatch.setattr("gapless.actors.priority.os.setpriority", lifted)
    assert priority.lift()
    assert niceness == {0: 0, 1: 0, 3: 0}


def test_a_process_that_is_not_niced_is_left_as_it_is() -> None:
    assert spare() == "[0] True [0]"


def test_who_may_not_raise_it_again_boots_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "may_lift", lambda: False)
    assert priority.calm({"env_vars": {"A": "b"}}) == {"env_vars": {"A": "b"}}


@pytest.mark.parametrize("key", priority.OWN_INTERPRETER)
def test_processes_that_run_by_another_interpreter_keep_it(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(priority, "may_lift", lambda: True)
    assert priority.calm({key: "theirs"}) == {key: "theirs"}
    assert priority.calm({"env_vars": {}})["py_executable"].endswith(sys.executable)


def test_without_the_right_nothing_may_be_lifted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless.actors.priority.resource.getrlimit", lambda _: (0, 0))
    monkeypatch.setattr(priority, "_capabilities", lambda: 0)
    assert not priority.may_lift()
    monkeypatch.setattr(priority, "_capabilities", lambda: 1 << priority.CAP_SYS_NICE)
    assert priority.may_lift()
