"""While a job runs in the foreground: looks at it, shows it, and hears Ctrl-C.

    signals    own cluster                  cluster of others
    first      drain: answer what is there  go; the job goes on
    second     stop at once
    third      do not wait for that either

A drain is asked for on a thread of its own, so that the job is still shown meanwhile.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live

from gapless.commands.job_views import shown, summary
from gapless.commands.stop import DRAIN_S
from gapless.commands.terminal import is_watched
from gapless.protocol.errors import GaplessError

if TYPE_CHECKING:
    from gapless.actors.handle import Job
    from gapless.actors.views import JobView

LOOK_S = 0.5
"""Between two looks, and so until a signal is heard."""
LINE_S = 10.0
"""Between two lines where no person watches."""
STOP_S = 60.0
"""How long a stop at once may take."""
SIGNALS_MAX = 3
"""With so many the command ends whatever goes on."""


@dataclass(frozen=True)
class Seen:
    """How it ended, as the one who looked saw it."""

    view: JobView
    """The last look."""
    state: str
    """ "running" where the job goes on, "stopped" where it does not."""
    seconds: float
    asked: bool
    """Whether it ended because it was to."""

    @property
    def is_problem(self) -> bool:
        """Whether replicas disagreed, or the job ended though nobody asked it to."""
        because = self.view.state.ended_because
        by_itself = self.state == "stopped" and not self.asked and not because.startswith(ASKED)
        return bool(self.view.state.samples) or (by_itself and bool(because))


ASKED = "it was asked to"
"""How the reason of an end begins that somebody wanted (failover/supervisor/machine.py)."""


def attend(job: Job, *, drains: bool = False, owns: bool = False) -> Seen:
    """Looks at a job until it has ended, or a signal says to go. `drains`: it is to end once the
    input that is there is answered. `owns`: its cluster ends with this command, so a signal ends
    the job.
    """
    began, answered = time.monotonic(), 0
    view, endings = job.status(), _Endings(job)
    if drains:
        endings.ask(drain=True)
    with _signals() as heard, _display(job.schema.time_unit) as show:
        while not endings.are_over:
            show(view)
            time.sleep(LOOK_S)
            if heard() > answered:
                answered = heard()
                if answered >= SIGNALS_MAX:
                    raise KeyboardInterrupt
                if not owns:
                    break
                endings.ask(drain=answered == 1 and not drains)
            try:
                view = job.status()
            except GaplessError:  # a root that is on its way out answers as it likes
                if job.is_running:
                    raise
                endings.wait()
                break
    state = "running" if job.is_running else "stopped"
    return Seen(view, state, round(time.monotonic() - began, 3), endings.asked)


class _Endings:
    """What was asked of the job, to have it end: a drain, then maybe a stop."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._threads: list[threading.Thread] = []
        self._errors: list[Exception] = []

    @property
    def asked(self) -> bool:
        """Whether anything was."""
        return bool(self._threads)

    @property
    def are_over(self) -> bool:
        """Whether all that was asked for has been done. Raises what went wrong, where the job did
        not end by another of them.
        """
        if not self._threads or any(thread.is_alive() for thread in self._threads):
            return False
        if self._errors and self._job.is_running:
            raise self._errors[-1]
        return True

    def ask(self, drain: bool) -> None:
        """Asks for the end."""

        def end() -> None:
            try:
                self._job.stop(drain=drain, timeout_s=DRAIN_S if drain else STOP_S)
            except GaplessError as e:
                self._errors.append(e)

        thread = threading.Thread(target=end, name="end of the job", daemon=True)
        self._threads.append(thread)
        thread.start()

    def wait(self) -> None:
        """Until those who wait for the end have seen it."""
        for thread in self._threads:
            thread.join(STOP_S)


@contextmanager
def _signals() -> Iterator[Callable[[], int]]:
    """While inside, Ctrl-C and SIGTERM are counted; yields what says how many there were."""
    count = 0

    def hear(_number: int, _frame: FrameType | None) -> None:
        nonlocal count
        count += 1

    before = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: count
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _display(unit: str) -> Iterator[Callable[[JobView], None]]:
    """Shows the job: tables where a person watches, else a line now and then. On stderr: only the
    end is a result.
    """
    if is_watched():
        with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
            yield lambda view: live.update(Group(*shown(view, unit)), refresh=True)
        return
    said_at = time.monotonic()

    def say(view: JobView) -> None:
        nonlocal said_at
        if time.monotonic() - said_at >= LINE_S:
            said_at = time.monotonic()
            sys.stderr.write(f"{summary(view, unit)}\n")
            sys.stderr.flush()

    yield say
