"""A merger that is no more, as its journal answers for it: the end of a stopped job's output.

    Fetch(token)    the rows behind it, until there are none: then all of it was delivered
    Open(since)     the table, if the output got that far

Nobody writes to the journal of a stopped job any more, so whoever sees the job's directory can read
what no merger is left to deliver.
"""

from __future__ import annotations

from pathlib import Path

from gapless.actors.setup import JobDir
from gapless.failover.messages import Declined, Delivery, Fetch, Message, Open, Opened, Token
from gapless.failover.output import OutputReader
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import GaplessError
from gapless.protocol.schema import StreamSchema


class StoredMerger:
    """The output of one merger."""

    def __init__(self, job_dir: Path, slot: str, schema: StreamSchema) -> None:
        self._slot = slot
        self._reader = OutputReader(JobDir(job_dir).output(slot), schema)
        self.is_read = False
        """Whether there was nothing more the last time."""

    @staticmethod
    def is_stopped(job_dir: Path) -> bool:
        """Whether the job is, as its directory says; raises where that cannot be read."""
        return JobDir(job_dir).job.desired().state == "stopped"

    def answer(self, question: Message) -> Message | None:
        """What the merger would say; None where it would wait for more."""
        try:
            match question:
                case Fetch(_, token):
                    return self._fetched(token)
                case Open(_, attempt, since):
                    return self._opened(attempt, since)
        except GaplessError as e:
            asked = question.token if isinstance(question, Fetch) else 0
            if isinstance(question, Open):
                asked = question.attempt
            self.is_read = True
            return Declined(self._slot, asked, OutputReader.why(e), str(e))
        return None

    def _fetched(self, token: Token) -> Message | None:
        frame = self._reader.read(token)
        if frame is None:
            self.is_read = True
            return None
        stable = token.stable if frame.stable is None else max(token.stable, frame.stable)
        after = Token(self._slot, token.epoch, token.offset + len(frame), stable)
        return Delivery(token.offset, frame, after)

    def _opened(self, attempt: int, since: int | None) -> Message:
        frame, offset = self._reader.table(BEGIN if since is None else since)
        stable = BEGIN if frame.stable is None else frame.stable
        from_when = stable if since is None else since
        if since is None:
            frame = frame.take(frame.ve >= from_when, frame.stable)
        return Opened(attempt, from_when, frame, Token(self._slot, 0, offset, stable))
