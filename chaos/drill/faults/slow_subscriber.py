"""A subscriber takes long for each frame."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from gapless.chaos.drill.faults.fault import Fault, Hit
from gapless.chaos.judge.recording import Output, Recording
from gapless.failover.subscriber.effects import Emit

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


class SlowSubscriber(Fault):
    """It lags in the journal and holds nobody up; later it catches up, and lacks nothing."""

    name = "slow subscriber"
    about = "A program more subscribes, and takes long for each frame, for a while."
    lasts = 4.0
    settings = {"ms": 700.0}  # noqa: RUF012  # the class says that it does not change
    _slow: _Slow
    _lagged: bool

    def inject(self, stage: Stage) -> Hit:
        """Subscribes."""

        def through(output: Output) -> Output:
            self._slow = _Slow(output, self.number("ms") / 1000)
            return self._slow

        name = f"slow {len(stage.recordings)}"
        self._recording: Recording = stage.follow(name, through=through)
        return Hit(name, f"{self.number('ms'):g} ms a frame")

    def heal(self, stage: Stage) -> None:
        """Lets it go as fast as it can."""
        self._lagged = self._recording.stable < stage.recordings[0].stable
        self._slow.hurry()

    def struck(self, stage: Stage) -> str | None:  # noqa: ARG002  # it has looked itself
        """Whether it has lagged."""
        return None if self._lagged else "slow subscriber: it has kept up"


class _Slow:
    """A subscription that is read slowly."""

    def __init__(self, output: Output, each_s: float) -> None:
        self._output = output
        self._each_s = each_s
        self._hurries = threading.Event()

    def next_emit(self, timeout_s: float | None = None) -> Emit | None:
        """The next frame, after a while."""
        emit = self._output.next_emit(timeout_s)
        if emit is not None:
            self._hurries.wait(self._each_s)
        return emit

    def close(self) -> None:
        """Subscribes no more."""
        self._output.close()

    def hurry(self) -> None:
        """From now on it waits no more."""
        self._hurries.set()
