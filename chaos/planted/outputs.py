"""Outputs that break one rule each: of the cut, of what is durable, of what is read back."""

from __future__ import annotations

from typing import Any

from gapless.chaos.sim.network_disk import ClientView
from gapless.failover.merger.effects import Appended
from gapless.failover.merger.output_journal import OutputJournal
from gapless.journal.disk import Disk
from gapless.protocol.errors import DiskFull, Fenced, JournalError
from gapless.protocol.frame import Frame


class WritesPastTheCut(OutputJournal):
    """Goes on when another life has taken the journal over."""

    def sync(self) -> Appended:
        """Takes being fenced for success."""
        try:
            return super().sync()
        except Fenced:
            return self._said(wants_base=False)


class LooksBeforeItWrites(OutputJournal):
    """Looks whether another life has the journal, then writes: right as long as nothing stops it
    between the two.
    """

    def append(self, frame: Frame) -> None:
        """Keeps it for the next sync."""
        self._kept = [*getattr(self, "_kept", ()), frame]

    def sync(self) -> Appended:
        """Looks first, and not again."""
        self.watch()
        kept, self._kept = getattr(self, "_kept", []), []
        try:
            for frame in kept:
                super().append(frame)
            return super().sync()
        except DiskFull as e:
            raise JournalError(str(e)) from None
        except Fenced:
            return self._said(wants_base=False)


class DisownsItsLinks(OutputJournal):
    """Does not look whose a name is that is taken, though the answer to its own link was lost."""

    def __init__(self, disk: Disk, *args: Any, **options: Any) -> None:
        super().__init__(_over(disk, _Credulous), *args, **options)


class _Credulous(ClientView):
    def is_asked_again(self, name: str) -> None:
        raise FileExistsError(name)


def _over(disk: Disk, kind: type[ClientView]) -> Disk:
    return kind(disk.client, disk.prefix) if isinstance(disk, ClientView) else disk


class ShowsWhatIsNotDurable(OutputJournal):
    """Lets subscribers read what was appended and not synced."""

    def append(self, frame: Frame) -> None:
        """Appends, and shows it."""
        super().append(frame)
        self._show()


class SyncsNothing(OutputJournal):
    """Says that appends are durable, and leaves them in the machine's memory."""

    def sync(self) -> Appended:
        """Only says so."""
        self._show()
        return self._said(wants_base=False)


class LosesWhatTheDiskRefuses(OutputJournal):
    """Takes a full disk for a full success."""

    def append(self, frame: Frame) -> None:
        """Drops a frame for which there is no room."""
        try:
            super().append(frame)
        except DiskFull:
            self._unsynced.clear()


class ForgetsItsLiveTable(OutputJournal):
    """Reads back where the output stands, and not what may still change of it."""

    def recover(self) -> tuple[Frame, int]:
        """The stable, the offset, and no rows."""
        live, offset = super().recover()
        return live.slice(0, 0, live.stable), offset


class MakesEmptyBases(OutputJournal):
    """Seals with a base that has the stable and no rows."""

    def seal(self, base: Frame | None) -> None:
        """Without what is live."""
        super().seal(None if base is None else base.slice(0, 0, base.stable))
