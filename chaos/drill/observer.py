"""Looks at a run while it plays, and writes down what it sees: slots, sources, output, processes.

One thread asks the job's root some times a second, which costs the job next to nothing; while the
root is away it sees nothing, and says so. What subscribers were handed is taken from recordings at
the end.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

import psutil
from ray.exceptions import RayError

from gapless.actors.views import Alarm, JobView
from gapless.chaos.drill.stage import Stage
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import GaplessError, JobError

LOOK_S = 0.25
"""Between two looks at the job."""
PROCESSES_EVERY = 4
"""Looks from one at memory and descriptors to the next: reading them takes a millisecond each."""
END_S = 60.0
"""How long a look may take, at the end: a root that is away is waited for."""


class Observer:
    """Sees a stage's job. A context, while the job runs."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._record = stage.record
        self._stops = threading.Event()
        self._told: set[Alarm] = set()
        self._was_whole = False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._stops.set()
        if isinstance(error, KeyboardInterrupt):
            return  # it ends with the process
        self._thread.join(END_S)
        if error is None and (self._thread.is_alive() or self._error is not None):
            why = f"after {END_S:g} s a look is not over" if self._error is None else self._error
            raise JobError(f"what was seen of the run is not all: {why}")

    def _run(self) -> None:
        try:
            self._look_on()
        except Exception as e:  # noqa: BLE001  # whatever it is, the run is not seen any more
            self._error = e

    def _look_on(self) -> None:
        looks, answers = 0, True
        while not self._stops.wait(LOOK_S):
            looks += 1
            try:
                view = self._stage.view()
                self._see(view)
                if looks % PROCESSES_EVERY == 0:
                    self._see_processes(view)
                answers = True
            except (GaplessError, RayError) as e:
                if answers and not self._stops.is_set():  # once for as long as it is away
                    self._record.see("note", "root", text=f"it does not answer: {e}")
                answers = False

    def _see(self, view: JobView) -> None:
        record, promised = self._record, self._stage.feeder.stable
        record.see("source", "rows", stable=promised, rows=self._stage.feeder.rows)
        for slot in view.state.slots:
            at = slot.durable_stable if slot.slot[0] == "m" else slot.stable
            record.see(
                "slot",
                slot.slot,
                state=slot.state,
                stable=None if at == BEGIN else at,
                lag_ms=None if at == BEGIN else max(0, promised - at),
                text=str(slot.life) if slot.life else slot.reason,
            )
        for alarm in view.alarms:
            if alarm not in self._told:
                self._told.add(alarm)
                record.see("note", alarm.who, text=alarm.what)
        if view.is_whole and not self._was_whole:
            record.see("whole", "job")
        self._was_whole = view.is_whole

    def _see_processes(self, view: JobView) -> None:
        pids = {life.slot: about.pid for life, about in sorted(view.hosts.items())}
        for who, pid in {**pids, "root": view.root.pid}.items():
            try:
                process = psutil.Process(pid)
                rss, fds = process.memory_info().rss, process.num_fds()
            except (psutil.Error, ValueError):
                continue  # it has just died, or nobody knows which it is
            self._record.see("process", who, rss=rss, fds=fds, text=str(pid))


def add_output(stage: Stage) -> None:
    """What the subscribers were handed, frame by frame."""
    for recording in stage.recordings:
        for arrival in recording.arrivals:
            frame = arrival.emit.frame
            stage.record.see(
                "output",
                recording.name,
                at_ms=stage.record.at_ms(arrival.at_s),
                rows=len(frame),
                stable=frame.stable,
                state="reset" if arrival.emit.reset else None,
            )
