"""What a subscriber of a real job was handed, and when: frames with the moment they came.

    with Recording(job.subscribe(start="earliest")) as recording:
        recording.wait_for_stable(60_000, timeout_s=30)
        ...                                       kill something at moment t
    recording.longest_pause_s()                   no results for so long
    recording.pause_around_s(t)                   the pause in which t lies, or the next one

A thread takes what the subscription hands out as soon as it does, so that times are those of the
output and not of its observer. Moments are those of `time.monotonic`. A recording may continue
in another subscription, from the token of the last frame (`go_on`), as a program that died does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import TracebackType
from typing import Literal, Protocol, Self

from gapless.failover.messages import Token
from gapless.failover.subscriber.effects import Emit
from gapless.failover.subscriber.tokens import decode, encode
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import GaplessError, JobError, Misuse

LOOK_S = 0.1
"""How long the thread waits for a frame, until it looks whether it is to stop."""
END_S = 10.0
"""How long `stop` waits for the thread: it never waits longer than LOOK_S itself."""
ROWS_MAX = 50_000_000
"""Rows that are kept: some GB. Of a longer run parts are judged."""


class Output(Protocol):
    """What is recorded: a `Subscription`, or what a test plays instead."""

    def next_emit(self, timeout_s: float | None = None) -> Emit | None:
        """The next frame; None after so long without one. Raises `StopIteration` at the end."""

    def close(self) -> None:
        """Subscribes no more."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A frame that was handed out."""

    at_s: float
    """When, by `time.monotonic`."""
    emit: Emit


@dataclass(slots=True)
class ProgramRun:
    """What a program was handed from its subscription on, until it stopped."""

    resumed: dict[str, Token] | None
    """The tokens that it began with; None where it began anew."""
    arrivals: list[Arrived] = field(default_factory=list)
    """What it was handed, in order."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A time without results."""

    from_s: float
    to_s: float

    @property
    def length_s(self) -> float:
        """How long."""
        return self.to_s - self.from_s


class Recording:
    """Records one subscriber. `stop` it, or use it as a context, before it is judged."""

    def __init__(
        self,
        subscription: Output,
        name: str = "subscriber",
        *,
        deliver: Literal["changes", "final"] = "changes",
        since: int | None = BEGIN,
        resumed: str | None = None,
    ) -> None:
        """`deliver`: as was asked of the subscription. `since`: it was to start with what may still
        change from here on; None of a start "now". `resumed`: the token that it began with.
        """
        self.name = name
        self.deliver = deliver
        self.since = since
        self.runs = [ProgramRun(None if resumed is None else decode(resumed))]
        """One more than there were resumes."""
        self.error: GaplessError | None = None
        """What the subscription has raised."""
        self.has_ended = False
        """Whether the output has come to its end."""
        self._rows = 0
        self._stable = BEGIN
        self._changed = threading.Condition()
        self._stops = threading.Event()
        self._subscription = subscription
        self._thread = self._started()

    # -- recording ----------------------------------------------------------------------------

    def _started(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, name=f"recording {self.name}", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        subscription, arrivals = self._subscription, self.runs[-1].arrivals
        while not self._stops.is_set():
            try:
                emit = subscription.next_emit(LOOK_S)
                if emit is not None and self._rows + len(emit.frame) > ROWS_MAX:
                    raise JobError(f"a recording of more than {ROWS_MAX} rows: judge parts of it")
            except StopIteration:
                with self._changed:
                    self.has_ended = True
                    self._changed.notify_all()
                return
            except GaplessError as e:
                with self._changed:
                    self.error = e
                    self._changed.notify_all()
                return
            if emit is None:
                continue
            at_s = time.monotonic()
            with self._changed:
                arrivals.append(Arrived(at_s, emit))
                self._rows += len(emit.frame)
                if emit.frame.stable is not None:
                    self._stable = max(self._stable, emit.frame.stable)
                self._changed.notify_all()

    def stop(self) -> None:
        """Takes no more; the subscription is closed. Raises what it has raised."""
        self._stops.set()
        self._thread.join(END_S)
        self._subscription.close()
        if self._thread.is_alive():
            raise JobError(f"{self.name}: the subscription does not answer after {END_S:g} s")
        if self.error is not None:
            raise self.error

    def abandon(self) -> None:
        """Takes no more, whatever the subscription says of it: its cluster is lost. `go_on` with
        one to another may follow.
        """
        self._stops.set()
        self._thread.join(END_S)
        self._subscription.close()
        self.error = None

    @property
    def token(self) -> str:
        """Goes on behind the last frame that was recorded; empty where there is none."""
        arrivals = self.arrivals
        return encode(arrivals[-1].emit.tokens) if arrivals else ""

    def go_on(self, subscription: Output, *, dropped: int = 0) -> None:
        """Records on, with a subscription that began with the token of the last frame; `dropped`: a
        frame so much earlier, as its program has died with the later ones.
        """
        if self._thread.is_alive():
            raise Misuse(f"{self.name} is being recorded: stop it first")
        kept = self.arrivals[: len(self.arrivals) - dropped]
        self.runs.append(ProgramRun(dict(kept[-1].emit.tokens) if kept else None))
        self._stops = threading.Event()
        self.has_ended = False
        self._subscription = subscription
        self._thread = self._started()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stop()

    # -- waiting ------------------------------------------------------------------------------

    def wait_for(self, until: Callable[[], bool], timeout_s: float) -> bool:
        """Waits until something holds of this recording, looked at with every frame; whether it
        does. Ends early where nothing more can come.
        """
        end_s = time.monotonic() + timeout_s
        with self._changed:
            while not until():
                left_s = end_s - time.monotonic()
                if left_s <= 0 or self.error is not None or self.has_ended:
                    return until()
                self._changed.wait(left_s)
            return True

    def wait_for_stable(self, stable: int, timeout_s: float) -> bool:
        """Waits until so much is promised."""
        return self.wait_for(lambda: self._stable >= stable, timeout_s)

    def wait_for_end(self, timeout_s: float) -> bool:
        """Waits until the output has come to its end."""
        return self.wait_for(lambda: self.has_ended, timeout_s)

    # -- looking ------------------------------------------------------------------------------

    @property
    def rows(self) -> int:
        """Rows so far."""
        return self._rows

    @property
    def stable(self) -> int:
        """The largest stable so far."""
        return self._stable

    @property
    def arrivals(self) -> list[Arrived]:
        """All that was handed out so far, over all of its runs."""
        with self._changed:
            return [arrival for run in self.runs for arrival in run.arrivals]

    def longest_pause_s(self, from_s: float | None = None, to_s: float | None = None) -> float:
        """The longest time without results; within a span of time, where it is given. 0 where
        nothing came twice.
        """
        return max((p.length_s for p in pauses(self.arrivals, from_s, to_s)), default=0.0)

    def pause_around_s(self, moment_s: float, within_s: float = 5.0) -> float:
        """The longest pause that a thing which happened at a moment has brought: of those that it
        lies in, or that begin within a while after it.
        """
        return max(
            (
                p.length_s
                for p in pauses(self.arrivals)
                if p.to_s >= moment_s and p.from_s <= moment_s + within_s
            ),
            default=0.0,
        )


def pauses(
    arrivals: Sequence[Arrived], from_s: float | None = None, to_s: float | None = None
) -> list[Pause]:
    """The times from each frame with rows to the next; those that end in a span of time."""
    moments = [arrival.at_s for arrival in arrivals if len(arrival.emit.frame)]
    found = [Pause(a, b) for a, b in pairwise(moments)]
    low, high = from_s if from_s is not None else 0.0, to_s if to_s is not None else float(INF)
    return [pause for pause in found if low <= pause.to_s and pause.from_s <= high]
