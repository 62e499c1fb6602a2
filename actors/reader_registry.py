"""The readers that a job registers in its sources: retention keeps what one of them may still need
(journal/readers.py).

    talkers-5f0c9a12.r0.1             a replica: where it reads, as of a round before
    talkers-5f0c9a12.ckpt.0-a-1-17    a checkpoint: where a replica that starts from it reads on

A replica that joins reads on where a live one was a moment ago, so what a replica keeps lags by one
round. Until there is a checkpoint of its shard and plan a new replica could only replay: then a
replica keeps what it began with.

Where the journals began when the job did lies in the job's directory, in `began`: rows trimmed
before were never a part of its answer, rows trimmed since may be (failover/replica/sources.py).

Sources may lie where nothing can be written. That stops nothing: it is said once. Those who trim
them have to know what the job needs.
"""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Callable, Collection, Mapping

from gapless.actors.hands import Hands
from gapless.actors.pump import Pump
from gapless.actors.setup import JobDir
from gapless.failover.job.files import write
from gapless.failover.job.state import SlotState
from gapless.failover.replica import checkpoint
from gapless.failover.replica.effects import Position
from gapless.failover.replica.snapshots import GIVEN
from gapless.journal import readers
from gapless.journal.commit import Commits
from gapless.journal.disk import Disk
from gapless.journal.layout import FORMAT, NOBODY, opened
from gapless.journal.partition import PARTITIONS_MAX
from gapless.protocol.documents import Document, Fields
from gapless.protocol.elements import INF
from gapless.protocol.envelope import decode_document, encode_document
from gapless.protocol.errors import DecodeError, GaplessError, JobError

REGISTER_MS = 5000
"""Between two rounds of a replica: what is kept in vain is a few seconds of rows; a replica
that joins has opened its sources within that."""
SWEEP_MS = 30_000
"""Between two looks of the root for what is registered and needed by nobody."""
GIVEN_SWEEPS = 4
"""Sweeps that see a snapshot on its way by the disk until the next one drops it: minutes, and its
peer opens it within seconds."""
BEGAN = "began"
"""The file, in the job's directory, that says where the sources began."""
READER_CHARS_MAX = 100
"""Of a reader's name, as journals have it."""
JOB_CHARS_MAX = 40
"""Of the job's, in that of its readers."""


class ReaderRegistry:
    """The readers of one job in its sources. One thread's, as its disks are."""

    @staticmethod
    def of(job_dir: JobDir, on_alarm: Callable[[str], None]) -> ReaderRegistry:
        """Those of a job."""
        name, path = job_dir.job.record.name, str(job_dir.path)
        return ReaderRegistry(name, path, job_dir.sources(), now_ms, on_alarm)

    def __init__(
        self,
        job: str,
        job_dir: str,
        sources: Mapping[str, Disk],
        now_ms: Callable[[], int],
        on_alarm: Callable[[str], None],
    ) -> None:
        """`job`: its name; `job_dir`: where it lies, as jobs of other clusters may have one name.
        `now_ms`: since 1970. `on_alarm`: is told once of a source that cannot be written.
        """
        self._prefix = f"{job[:JOB_CHARS_MAX]}-{zlib.crc32(job_dir.encode()):08x}"
        self._sources = dict(sources)
        self._now_ms = now_ms
        self._on_alarm = on_alarm
        self._alarmed: set[str] = set()
        self._unwanted: set[tuple[str, str]] = set()  # in the sweep before

    def keep(self, who: str, positions: Mapping[str, Position]) -> None:
        """Keeps from now on what somebody at these positions still needs, and no more what it kept
        of sources that are none of them.
        """
        name = self.reader(who)
        for source, disk in self._sources.items():
            position = positions.get(source)
            try:
                if position is None:
                    _unregister(disk, name)
                    continue
                readers.register(disk, name, position, self._now_ms())
                disk.close(_path(name))  # unregistering takes the file away
            except OSError as e:
                self._alarm(source, e)

    def drop(self, who: str) -> None:
        """Keeps nothing for somebody any more."""
        self._drop({self.reader(who)})

    def drop_all(self) -> None:
        """Keeps nothing for the job any more: it is over."""
        for source, disk in self._sources.items():
            try:
                for name in self._registered(disk):
                    _unregister(disk, name)
            except OSError as e:
                self._alarm(source, e)

    def sweep(self, wanted: Collection[str]) -> None:
        """Drops what is there for none of these, if that was so the last time: one that registers
        may be ahead of those who know of it.
        """
        names = {self.reader(who) for who in wanted}
        unwanted: set[tuple[str, str]] = set()
        for source, disk in self._sources.items():
            try:
                unwanted |= {(source, name) for name in self._registered(disk) if name not in names}
                for name in sorted(n for s, n in unwanted & self._unwanted if s == source):
                    _unregister(disk, name)
            except OSError as e:
                self._alarm(source, e)
        self._unwanted = unwanted - self._unwanted

    def reader(self, who: str) -> str:
        """What a reader of the job is called in the journals: a name that they take."""
        asked = f"{self._prefix}.{who}"
        name = re.sub(r"[^A-Za-z0-9._-]", "-", asked)
        if name == asked and len(name) <= READER_CHARS_MAX:
            return name
        mark = f"-{zlib.crc32(asked.encode()):08x}"  # two that are cut alike stay two
        return name[: READER_CHARS_MAX - len(mark)] + mark

    def _registered(self, disk: Disk) -> list[str]:
        return [name for name in disk.list(readers.FOLDER) if name.startswith(f"{self._prefix}.")]

    def _drop(self, names: Collection[str]) -> None:
        for source, disk in self._sources.items():
            try:
                for name in names:
                    _unregister(disk, name)
            except OSError as e:
                self._alarm(source, e)

    def _alarm(self, source: str, error: OSError) -> None:
        if source not in self._alarmed:
            self._alarmed.add(source)
            self._on_alarm(
                f"source {source}: {self._sources[source]}: nothing can be registered there "
                f"({error}): those who trim it do not know what this job needs"
            )


def _unregister(disk: Disk, name: str) -> None:
    if disk.exists(_path(name)):  # nothing is written, maybe nothing may be, where there is none
        disk.unlink(_path(name))


def _path(name: str) -> str:
    return f"{readers.FOLDER}/{name}"


def now_ms() -> int:
    """Since 1970: what a journal says of its readers is for people."""
    return time.time_ns() // 1_000_000


class ReaderKeeper:
    """The root's part: it notes where the sources began, and drops what is no longer needed, on a
    thread of its own, as sources may be slow.
    """

    def __init__(
        self,
        job_dir: JobDir,
        token: str,
        on_alarm: Callable[[str], None],
        broken: Callable[[Exception], None],
    ) -> None:
        """Before any replica is started: they go by where the sources began."""
        self._job_dir = job_dir
        self._on_alarm = on_alarm
        self._registry = ReaderRegistry.of(job_dir, on_alarm)
        self._given: dict[str, int] = {}  # snapshots by the disk, and how many sweeps saw them
        self._hands = Hands("registered readers", broken)
        try:
            note_begin(job_dir.disk, job_dir.sources(), token)
        except (GaplessError, OSError) as e:
            on_alarm(f"where the sources began cannot be written down: {e}")

    def drop_checkpoint(self, name: str) -> None:
        """A checkpoint is gone."""
        self._hands.do(lambda: self._registry.drop(of_checkpoint(name)))

    def sweep_on(self, pump: Pump, slots: Callable[[], Collection[SlotState]]) -> None:
        """Sweeps now and then, as long as a pump turns. `slots` is called by it."""

        def again() -> None:
            self.sweep(slots())
            pump.later(SWEEP_MS, again)

        pump.do(lambda: pump.later(SWEEP_MS, again))

    def sweep(self, slots: Collection[SlotState]) -> None:
        """Drops what none of these slots, and no checkpoint, needs."""

        def look() -> None:
            try:
                self._drop_given()
                needed = wanted(slots, self._job_dir.disk)
            except OSError as e:
                self._on_alarm(f"the job's directory does not say which checkpoints there are: {e}")
            else:
                self._registry.sweep(needed)

        self._hands.do(look)

    def _drop_given(self) -> None:
        """Drops snapshots whose peer, and maybe whose giver, died before it had read them: they
        would keep rows of the sources for ever.
        """
        disk = self._job_dir.disk
        names = [name for name in disk.list(checkpoint.FOLDER) if name.startswith(GIVEN)]
        self._given = {name: self._given.get(name, 0) + 1 for name in names}
        for name, sweeps in self._given.items():
            if sweeps > GIVEN_SWEEPS:
                checkpoint.drop(disk, name)

    def end(self) -> None:
        """The job is over: nothing is kept for it."""
        self._hands.end()
        ReaderRegistry.of(self._job_dir, self._on_alarm).drop_all()


# -- who needs what -------------------------------------------------------------------------------


def of_checkpoint(name: str) -> str:
    """Who a checkpoint is."""
    return f"ckpt.{name}"


def has_checkpoint(job_disk: Disk, shard: int, plan: str) -> bool:
    """Whether a new replica of a shard and plan can start from one."""
    name = re.compile(rf"{shard}-{re.escape(plan)}-\d+-\d+")
    return any(map(name.fullmatch, job_disk.list(checkpoint.FOLDER)))


def wanted(slots: Collection[SlotState], job_disk: Disk) -> set[str]:
    """All that a job needs to be registered: its replicas, except for those that were given up, and
    its checkpoints.
    """
    replicas = {s.slot for s in slots if s.slot.startswith("r") and s.state != "failed"}
    return replicas | {of_checkpoint(name) for name in job_disk.list(checkpoint.FOLDER)}


# -- where the sources began ----------------------------------------------------------------------


def note_begin(job_disk: Disk, sources: Mapping[str, Disk], token: str) -> None:
    """Writes down where the sources begin now, unless that was done. Raises `JournalError` where
    one cannot be read.
    """
    if job_disk.exists(BEGAN):
        return
    document: Document = {
        "format": FORMAT,
        "sources": {
            name: list(Commits(disk, opened(disk)).head.first) for name, disk in sources.items()
        },
    }
    try:
        write(job_disk, BEGAN, encode_document(document, NOBODY, 0), token)
    except FileExistsError:
        return  # another root was faster: that counts


def began(job_disk: Disk) -> dict[str, Position]:
    """By source, the first row of each partition when the job began; nothing where that was not
    written down: of a job that was launched before this was done. Raises `JobError`.
    """
    if not job_disk.exists(BEGAN):
        return {}
    try:
        data = job_disk.read(BEGAN, 0, job_disk.size(BEGAN))
        fields = Fields(decode_document(data).document, BEGAN)
        fields.take_int("format", FORMAT, FORMAT)
        sources = fields.take("sources", dict)
        fields.done()
        return {name: _position(name, first) for name, first in sources.items()}
    except (GaplessError, OSError) as e:
        raise JobError(
            f"{job_disk}: file {BEGAN}: {e}; take it from a copy of the job's directory"
        ) from None


def _position(source: str, first: object) -> Position:
    rows = first if isinstance(first, list) else []
    is_whole = all(type(row) is int and 0 <= row <= INF for row in rows)
    if not 1 <= len(rows) <= PARTITIONS_MAX or not is_whole:
        raise DecodeError(f"{BEGAN}.{source}", repr(first)[:100], "a row for each partition")
    return dict(enumerate(rows))
