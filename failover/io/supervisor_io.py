"""What the effects of a supervisor do, to the job's directory and to the processes of its lives.

    Desire           the directory     nothing, or Retire
    DropCheckpoint   the directory     nothing, or Retire
    Spawn, Kill      `Processes`       nothing, or Retire; Died, later, from the processes

A root whose term is over starts, ends and removes nothing any more: before each of these the
directory is asked whether another root has the job (decision 0023). The shell asks as well, now and
then (`look`). A desired state needs no such look: the directory itself refuses it.

    another root has the job          Retire
    writing what is desired
        Fenced                        Retire: another root has the job
        any other error of a disk     an alarm, and Retire: nothing that follows from it may happen.
                                      The root that comes next goes by what was written last
    looking
        any error of a disk           an alarm, and Retire, for the same reason
    removing a checkpoint
        any error of a disk           an alarm: it takes room until the job is resumed

So all that can go wrong for a supervisor ends its life, by an order that its machine obeys; there
is always another one. The effects are done in the order in which they are asked for, each before
the next, on the thread that runs the machine: nothing that follows from a desired state may happen
before it is durable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, assert_never, get_args

from gapless.failover.job.desired import Desired
from gapless.failover.job.directory import Job, RootStart
from gapless.failover.life_start import Start
from gapless.failover.messages import SUPERVISOR, Life, Retire
from gapless.failover.replica.effects import DropCheckpoint
from gapless.failover.supervisor.effects import Desire, Kill, Spawn, SupervisorEvent
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import DiskFull, Fenced, JournalError

JobEffect = Desire | DropCheckpoint | Spawn | Kill
"""What is interpreted here."""
EFFECTS: tuple[type[JobEffect], ...] = get_args(JobEffect)
"""The same, as classes."""
_FAILS = (DiskFull, JournalError, OSError)


class Processes(Protocol):
    """What starts and ends the processes of lives: a cluster's, or a simulated one's. Neither call
    waits, and neither raises: a life that cannot be started has died.
    """

    def spawn(self, life: Life, node: str, start: Start) -> None:
        """Starts a life on a node."""

    def kill(self, life: Life) -> None:
        """Ends a life by force; it may be dead already, or out of reach."""


class SupervisorIO:
    """Interprets the effects of one life of a supervisor."""

    def __init__(
        self,
        job: Job,
        resumed: RootStart,
        processes: Processes,
        on_alarm: Callable[[str], None],
        *,
        is_over: Callable[[], bool] | None = None,
        on_drop: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`resumed`: what `job` has given to this life. `on_alarm`: is told what a person should
        know. `is_over`: whether this process can see that another root has the job, where that is
        not what `job.is_over` says. `on_drop`: is given the name of each checkpoint that is gone.
        """
        self._job = job
        self._life = Life(SUPERVISOR, Incarnation(resumed.term, 0))
        self._processes = processes
        self._on_alarm = on_alarm
        self._is_over = is_over or (lambda: job.is_over)
        self._on_drop = on_drop
        self.desired: Desired = resumed.desired
        """What was written last."""
        self.unwritten = ""
        """Why what was to be desired behind that is not; empty as long as all of it is."""

    def do(self, effect: JobEffect) -> SupervisorEvent | None:
        """All that an effect does."""
        match effect:
            case Desire(desired):
                return self._desire(desired)
            case Spawn(life, node, start):
                return self._while_its_term_lasts(lambda: self._processes.spawn(life, node, start))
            case Kill(life):
                return self._while_its_term_lasts(lambda: self._processes.kill(life))
            case DropCheckpoint(name):
                return self._while_its_term_lasts(lambda: self._drop(name))
        assert_never(effect)

    def _while_its_term_lasts(self, act: Callable[[], None]) -> Retire | None:
        """Acts for the job, unless another root has it."""
        if (over := self.look()) is None:
            act()
        return over

    def look(self) -> Retire | None:
        """Looks whether another root has the job: this life ends then."""
        try:
            is_over = self._is_over()
        except _FAILS as e:
            return self._fails(f"cannot read whether another root has the job: {e}")
        return self._retire("another root has the job") if is_over else None

    def _desire(self, desired: Desired) -> Retire | None:
        try:
            self._job.write_desired(desired)
        except (Fenced, *_FAILS) as e:
            self.unwritten = f"what is desired cannot be written: {e}"
            return self._fails(self.unwritten)
        self.desired = desired
        return None

    def _drop(self, name: str) -> None:
        if dropped(self._job, name, self._on_alarm):
            self._on_drop(name)

    def _fails(self, why: str) -> Retire:
        self._on_alarm(why)
        return self._retire(why)

    def _retire(self, why: str) -> Retire:
        return Retire(self._life.incarnation.term, self._life, why)


def drop_unreadable(job: Job, resumed: RootStart, on_alarm: Callable[[str], None]) -> None:
    """Removes the checkpoints that are of no use to the root that has resumed the job."""
    for name, why in resumed.unreadable.items():
        on_alarm(f"checkpoint {name} is dropped: {why}")
        dropped(job, name, on_alarm)


def dropped(job: Job, name: str, on_alarm: Callable[[str], None]) -> bool:
    """Removes a checkpoint that nobody needs; whether it is gone."""
    try:
        job.drop_checkpoint(name)
    except _FAILS as e:
        on_alarm(f"checkpoint {name} is not dropped: {e}")
        return False
    return True
