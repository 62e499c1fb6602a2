"""Interpreters of a merger's effects that break one rule each: of which error is which event."""

from __future__ import annotations

from typing import Any

from gapless.failover.io.merger_io import MergerIO
from gapless.failover.io.steps import Outcome
from gapless.failover.merger.effects import Appended, AppendRefused, MergerEvent, PeerRead, ReadPeer
from gapless.protocol.elements import INF
from gapless.protocol.errors import DiskFull, Fenced
from gapless.protocol.frame import Frame


class RefusesWhatIsAppended(MergerIO):
    """Says of an append which is in the journal that it is not: it comes again."""

    def _sync(self) -> MergerEvent:
        done = super()._sync()
        is_other = isinstance(done, Appended) and done.offset % 7 == 3
        return AppendRefused("it may have failed") if is_other else done


class TakesAFullDiskForDone(MergerIO):
    """Says of an append for which there is no room that it is durable."""

    def _append(self, frame: Frame) -> Outcome[MergerEvent]:
        done = super()._append(frame)
        if isinstance(done, AppendRefused):
            return self._sync()
        return done


class TriesAgainWhenFenced(MergerIO):
    """Takes a journal that another life writes for one that is full."""

    def _lost(self, error: Exception) -> Any:
        if isinstance(error, Fenced | DiskFull):
            return AppendRefused(str(error))
        return super()._lost(error)


class TakesThePeersErrorForItsEnd(MergerIO):
    """Says of a peer's output which does not read that it has come to its end."""

    def _read_peer(self, effect: ReadPeer) -> MergerEvent:
        done = super()._read_peer(effect)
        if effect.peer in self._unread:
            return PeerRead(effect.peer, Frame.empty(self._output.schema, INF))
        return done
