"""What the questions of an output's readers do: of an output that is written, and of a stored one.

    ReadOutput   read                 OutputRead | ReadRefused | OutputLost
    ReadTable    scan, scan, ...      TableRead | ReadRefused | OutputLost; nothing once dropped
    DropTable    scan                 nothing

    GaplessError                      the subscriber is refused: that part is gone, or not there yet
    OSError                           the own disk has failed: the output is lost

Subscribers at the end of an output that is written here are answered from memory (`recent`); only
those that lag have a reader of their own. Of a stored output nothing is in memory, and everybody
lags.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import assert_never, get_args

from gapless.failover.io.steps import Outcome, Step
from gapless.failover.merger.effects import (
    DropTable,
    MergerEvent,
    OutputLost,
    OutputRead,
    ReadOutput,
    ReadRefused,
    ReadTable,
)
from gapless.failover.merger.output_reader import OutputReader
from gapless.failover.merger.scan import Scans
from gapless.failover.messages import Token
from gapless.protocol.errors import GaplessError

READERS_MAX = 64
"""Places in the output that are kept open, one for each subscriber that lags; the one that was used
least lately is closed."""

ReadEffect = ReadOutput | ReadTable | DropTable
"""What is interpreted here."""
EFFECTS: tuple[type[ReadEffect], ...] = get_args(ReadEffect)
"""The same, as classes."""


class OutputReads:
    """Interprets what the readers of one output ask of its journal."""

    def __init__(
        self,
        open_reader: Callable[[], OutputReader],
        lost: Callable[[Exception], OutputLost],
        explain: Callable[[GaplessError], str],
    ) -> None:
        """`lost`: what becomes of the output where its disk fails. `explain`: what a subscriber is
        told about an error.
        """
        self._open_reader = open_reader
        self._lost = lost
        self._explain = explain
        self._nearest = open_reader()
        self._readers: OrderedDict[str, OutputReader] = OrderedDict()
        self._scans = Scans(open_reader().open_table)

    def step(self, effect: ReadEffect) -> Step[MergerEvent]:
        """The first step of an effect."""
        match effect:
            case ReadOutput():
                return Step("read", partial(self._read, effect))
            case ReadTable():
                return Step("scan", partial(self._begin_table, effect))
            case DropTable():
                return Step("scan", partial(self._scans.drop, effect))
        assert_never(effect)

    def do(self, effect: ReadEffect) -> MergerEvent | None:
        """All that an effect does, on one thread."""
        return self.step(effect).finish()

    # -- cursors ------------------------------------------------------------------------------

    def recent(self, effect: ReadOutput) -> OutputRead | None:
        """The answer, where it was written so lately that it is in memory: no disk is asked. For
        any thread.
        """
        token = effect.token
        is_known, frame = self._nearest.read_recent(token)
        if not is_known:
            return None
        self._readers.pop(effect.subscriber, None)  # at the end of the output it needs no place
        return OutputRead(effect.subscriber, token.offset, frame)

    def forget(self, subscriber: str) -> None:
        """It reads no more. For any thread."""
        self._readers.pop(subscriber, None)

    def _read(self, effect: ReadOutput) -> MergerEvent:
        if (known := self.recent(effect)) is not None:
            return known
        try:
            frame = self._reader(effect.subscriber).read(effect.token)
        except GaplessError as e:
            self.forget(effect.subscriber)
            return self._refused(effect.subscriber, effect.token, e)
        except OSError as e:
            return self._lost(e)
        return OutputRead(effect.subscriber, effect.token.offset, frame)

    def _reader(self, subscriber: str) -> OutputReader:
        reader = self._readers.pop(subscriber, None) or self._open_reader()
        self._readers[subscriber] = reader
        if len(self._readers) > READERS_MAX:
            self._readers.popitem(last=False)
        return reader

    # -- tables -------------------------------------------------------------------------------

    def _begin_table(self, effect: ReadTable) -> Outcome[MergerEvent]:
        self._scans.begin(effect)
        return self._scan(effect)

    def _scan(self, effect: ReadTable) -> Outcome[MergerEvent]:
        """Reads a slice; the next one waits for those of other subscribers."""
        if not self._scans.wants(effect.subscriber, effect.attempt):
            return None
        try:
            done = self._scans.step(effect)
        except GaplessError as e:
            return self._refused(effect.subscriber, effect.attempt, e)
        except OSError as e:
            return self._lost(e)
        return Step("scan", partial(self._scan, effect)) if done is None else done

    def _refused(self, subscriber: str, asked: Token | int, error: GaplessError) -> ReadRefused:
        return ReadRefused(subscriber, asked, OutputReader.why(error), self._explain(error))
