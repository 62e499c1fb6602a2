"""Errors, grouped by the party at fault.

The first question about an error is whose mistake it is. So there is one base class, with one class
below it for each answer:

    GaplessError
      Misuse           the caller: fix the call and try again
        SchemaError        a schema or column that is not supported
        FrameError         rows that break a frame's rules (vs < ve, no nulls, ...)
        ParseError         text notation that does not parse
        ExpressionError    an expression that is malformed or does not fit its input
        SqlError           SQL that cannot be a query: names the line and the column, and shows it
        TokenError         an invalid subscriber's token: start anew, or pass it back unchanged
        NotEquivalent      a plan that cannot replace another: says what differs
      BadData          a peer, a file, a stream: drop it, detach it, repair it
        DecodeError        invalid bytes: names the field and the bound
          Truncated          valid bytes that end too early: a torn tail
        StreamViolation    an element that breaks a promise of its stream: names element and rule
        RowError           a row that a query cannot process: shows the row and the reason
        ChangeError        a row of a changelog that contradicts earlier ones
        JournalError       a journal that cannot be read back
          Trimmed            rows that retention has removed: read from the earliest that are left
        CheckpointError    a checkpoint that cannot be read back: use another, or replay
        JobError           a job's directory that cannot be read back, or has another version
        RecordError        a flight record that cannot be read back, or cannot be replayed
      Fenced           nobody: another writer has taken over the journal or the job
      DiskFull         nobody: a journal needs more space than its disk has
      MemoryLimit      nobody: a query needs more memory than its limit
      Bug              us: a broken invariant; report it

A message says what is wrong, names the value and the bound, and says what to do next unless that is
obvious.
"""

from __future__ import annotations


class GaplessError(Exception):
    """Every error that Gapless raises on purpose."""


class Misuse(GaplessError):
    """The caller asked for something invalid. Nothing was changed."""


class BadData(GaplessError):
    """Data from outside is invalid. None of it was applied."""


class Bug(GaplessError):
    """An internal invariant is broken. Please report it with the message."""


class SchemaError(Misuse):
    """A schema, or one of its columns, that streams cannot carry."""


class FrameError(Misuse):
    """Rows that cannot form a frame."""


class ParseError(Misuse):
    """Text notation that does not parse: names the place and what was expected."""


class ExpressionError(Misuse):
    """An expression that is malformed or does not fit its rows."""


class SqlError(Misuse):
    """SQL that cannot be a query. `line` and `column`, from 1, say where in the text."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.line = line
        self.column = column

    def __reduce__(self) -> tuple[type[SqlError], tuple[str, int, int]]:
        return type(self), (str(self), self.line, self.column)


class TokenError(Misuse):
    """An invalid subscriber's token, or one of another output."""


class NotEquivalent(Misuse):
    """A plan that cannot replace another one: the message says what differs."""


class DecodeError(BadData):
    """Bytes that are not a valid envelope, frame or document.

    `field` is the part that is wrong, `bound` the expected value or limit.
    """

    def __init__(self, field: str, problem: str, bound: object = None) -> None:
        limit = "" if bound is None else f" (expected: {bound})"
        super().__init__(f"{field}: {problem}{limit}")
        self.field = field
        self.bound = bound


class Truncated(DecodeError):
    """Bytes that end too early: a torn tail at the end of a file, corruption anywhere else."""


class StreamViolation(BadData):
    """A stream broke one of its own promises.

    `element` is the element in text notation, `rule` the promise that it breaks.
    """

    def __init__(self, element: str, rule: str) -> None:
        super().__init__(f"{element} breaks the rule: {rule}")
        self.element = element
        self.rule = rule


class RowError(BadData):
    """A row that a query with `on_error("stop")` cannot process.

    `where` is the step, `row` the row as text, `reason` what is wrong with it.
    """

    def __init__(self, where: str, row: str, reason: str, advice: str) -> None:
        super().__init__(f"{where}: {reason}; the row: {row}. ({advice})")
        self.where = where
        self.row = row
        self.reason = reason


class ChangeError(BadData):
    """A row of a changelog that contradicts earlier ones. Its batch was not applied.

    `row` is its index in the batch, from 0; `reason` says what is wrong, `advice` what to do.
    """

    def __init__(self, row: int, reason: str, advice: str) -> None:
        super().__init__(f"row {row}: {reason} ({advice})")
        self.row = row
        self.reason = reason
        self.advice = advice


class JournalError(BadData):
    """A journal file that cannot be read back as written."""


class Trimmed(JournalError):
    """The requested rows are gone: retention has trimmed them."""


class CheckpointError(BadData):
    """A checkpoint that is incomplete or invalid.

    Nothing is lost: a replica that wanted to start from it tries another origin.
    """


class JobError(BadData):
    """A job's directory that cannot be read back as written, or has another format."""


class RecordError(BadData):
    """A flight record that cannot be read back, or holds too little to be replayed."""


class Fenced(GaplessError):
    """A later writer has taken over the journal or the job; nothing more from this one will
    appear in it.
    """


class DiskFull(GaplessError):
    """The disk has too little space left. The last write was not made; everything before it is
    intact.
    """


class MemoryLimit(GaplessError):
    """A query's state has outgrown its `memory_limit`, and the query was stopped."""
