"""The mergers of a job as its directory gives them: a caller reads their journals, no process.

    Fetch, Open --> Readers ---- ReadOutput, ReadTable ----> OutputReads: the journal
                       |    <--- OutputRead, TableRead -----
                       '--> Delivery, Opened, Declined

Both parts are those of a merger that runs (failover/merger/readers.py and
failover/io/output_reads.py), so a stored output answers as a live one does. Here is only what
differs: nobody tells how far a journal goes. Its end is looked up where a table is asked for; where
rows are, the journal itself says whether there are more.

What a reader of a journal sees is durable and lies before every cut, whether its writer is alive or
gone. Of a job that is stopped nobody writes any more: once all questions found nothing, all of its
output was delivered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from gapless.actors.setup import JobDir
from gapless.actors.subscriber_start import explained
from gapless.failover.effects import Send
from gapless.failover.io.output_reads import OutputReads, ReadEffect
from gapless.failover.merger.effects import OutputLost
from gapless.failover.merger.output_journal import newest_epoch
from gapless.failover.merger.output_reader import OutputReader
from gapless.failover.merger.readers import UNSEEN, ReaderEvent, Readers
from gapless.failover.merger.scan import end_of
from gapless.failover.messages import Declined, Fetch, Message, Open, Token
from gapless.journal.disk import Disk
from gapless.journal.layout import layout_of
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug, GaplessError, JobError
from gapless.protocol.schema import StreamSchema


class StoredMergers:
    """The outputs of a job's mergers, by slot."""

    def __init__(self, job_dir: Path, slots: Iterable[str], schema: StreamSchema) -> None:
        """Opens the directory: raises `Misuse` and `JobError` where it holds no job."""
        self._dir = JobDir(job_dir)
        self._mergers = {slot: StoredMerger(slot, self._dir.output(slot), schema) for slot in slots}

    def is_stopped(self) -> bool:
        """Whether the job is, as its directory says; raises where that cannot be read."""
        return self._dir.job.desired().state == "stopped"

    def answer(self, slot: str, question: Message, now: int) -> list[Message]:
        """What the merger says to this, and to what it was asked before; nothing where it would
        wait for more. `now`: of any clock that never goes back. Raises `JobError` where its disk
        does not read.
        """
        return self._mergers[slot].answer(question, now)


class StoredMerger:
    """The output of one merger, answered for as the merger itself would."""

    def __init__(self, slot: str, disk: Disk, schema: StreamSchema) -> None:
        self._slot = slot
        self._disk = disk
        self._io = OutputReads(
            lambda: OutputReader(disk, schema),
            lambda error: OutputLost(str(error)),
            partial(explained, slot),
        )
        self._readers: Readers | None = None  # once it has begun to write

    def answer(self, question: Message, now: int) -> list[Message]:
        """As `StoredMergers.answer`."""
        if not isinstance(question, Fetch | Open):
            return []
        try:
            readers = self._begun()
            if readers is None:
                return []
            stable = end_of(self._disk)[1] if isinstance(question, Open) else BEGIN
        except GaplessError as e:
            asked = question.token if isinstance(question, Fetch) else question.attempt
            return [Declined(self._slot, asked, OutputReader.why(e), explained(self._slot, e))]
        return self._answers(readers, question, stable, now)

    def goes_on(self, token: Token) -> bool:
        """Whether a reader can go on behind a token, or is told that there never was such a place:
        what it was trimmed of, or is damaged here, another merger may have.
        """
        answers = self.answer(Fetch("", token), 0)
        is_gone = any(isinstance(each, Declined) and each.why == "trimmed" for each in answers)
        return self._readers is not None and not is_gone

    def _begun(self) -> Readers | None:
        """Its readers; None as long as it has not begun to write."""
        if self._readers is None and layout_of(self._disk) is not None:
            self._readers = Readers(self._slot, newest_epoch(self._disk))
        return self._readers

    def _answers(
        self, readers: Readers, question: Fetch | Open, stable: int, now: int
    ) -> list[Message]:
        """What follows from a question, to its end: whatever the journal is asked it answers at
        once.
        """
        effects = deque(readers.go_on(stable, now))  # tables that have waited for this end
        events: deque[ReaderEvent] = deque([question])
        answers: list[Message] = []
        while effects or events:
            if not effects:
                effects.extend(readers.on(events.popleft(), UNSEEN, stable, now))
                continue
            effect = effects.popleft()
            if isinstance(effect, Send):
                answers.append(effect.message)
                continue
            if not isinstance(effect, ReadEffect):
                raise Bug(f"nobody writes the output of {self._slot}, and it asks for {effect}")
            read = self._io.do(effect)
            if isinstance(read, OutputLost):
                raise JobError(f"the output of {self._slot} does not read: {read.reason}")
            if isinstance(read, ReaderEvent):
                events.append(read)
        return answers
