"""The mergers' answers as their journals give them: a caller reads a job's directory, no process.

    Fetch(token)    the rows behind it; nothing where there are none yet
    Open(since)     the table, once the output got that far

What a reader of a journal sees is durable and lies before every cut, whether its writer is alive or
gone. Of a job that is stopped nobody writes any more: once all questions found nothing, all of its
output was delivered.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gapless.actors.setup import JobDir
from gapless.failover.merger.output_journal import OutputReader
from gapless.failover.merger.scan import BeyondEnd
from gapless.failover.messages import Declined, Delivery, Fetch, Message, Open, Opened, Token
from gapless.journal.layout import layout_of
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import GaplessError
from gapless.protocol.schema import StreamSchema


class StoredMergers:
    """The outputs of a job's mergers, by slot."""

    def __init__(self, job_dir: Path, slots: Iterable[str], schema: StreamSchema) -> None:
        """Opens the directory: raises `Misuse` and `JobError` where it holds no job."""
        self._dir = JobDir(job_dir)
        self._schema = schema
        self._mergers = {slot: _StoredMerger(self._dir, slot, schema) for slot in slots}

    def is_stopped(self) -> bool:
        """Whether the job is, as its directory says; raises where that cannot be read."""
        return self._dir.job.desired().state == "stopped"

    def answer(self, slot: str, question: Message) -> Message | None:
        """What the merger would say; None where it would wait for more."""
        return self._mergers[slot].answer(question)


class _StoredMerger:
    """The output of one merger."""

    def __init__(self, job_dir: JobDir, slot: str, schema: StreamSchema) -> None:
        self._slot = slot
        self._disk = job_dir.output(slot)
        self._reader = OutputReader(self._disk, schema)

    def answer(self, question: Message) -> Message | None:
        if not isinstance(question, Fetch | Open):
            return None
        try:
            if layout_of(self._disk) is None:
                return None  # it has not begun to write
            if isinstance(question, Open):
                return self._opened(question.attempt, question.since)
            return self._fetched(question.token)
        except GaplessError as e:
            asked = question.token if isinstance(question, Fetch) else question.attempt
            return Declined(self._slot, asked, OutputReader.why(e), str(e))

    def _fetched(self, token: Token) -> Message | None:
        if token.merger != self._slot:
            reason = f"the token is of {token.merger or 'no merger'}, and this is {self._slot}"
            return Declined(self._slot, token, "elsewhere", reason)
        frame = self._reader.read(token)
        if frame is None:
            return None
        stable = token.stable if frame.stable is None else max(token.stable, frame.stable)
        after = Token(self._slot, token.epoch, token.offset + len(frame), stable)
        return Delivery(token.offset, frame, after)

    def _opened(self, attempt: int, since: int | None) -> Message | None:
        try:
            frame, offset = self._reader.scan(since).run()
        except BeyondEnd:
            return None  # it may get there
        stable = BEGIN if frame.stable is None else frame.stable
        from_when = stable if since is None else since
        return Opened(attempt, from_when, frame, Token(self._slot, 0, offset, stable))
