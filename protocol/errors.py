"""Errors, grouped by the party at fault.

Code that catches an error wants to know one thing first: whose mistake is it? So there is one base
class and four kinds below it:

    GaplessError
      Misuse           the caller: fix the call and try again
        SchemaError        a schema, or a column, that the product cannot hold
        FrameError         rows that break a frame's own rules (vs < ve, no nulls, ...)
        ParseError         text notation that does not parse
        ExpressionError    an expression that is malformed or does not fit its input
        TokenError         a subscriber's token that is bad: start anew, or hand back a whole one
        NotEquivalent      a plan that cannot take the place of another: says what differs
      BadData          a peer, a file, a stream: drop it, detach it, repair it
        DecodeError        bytes that are not what they claim to be: names the field and the bound
          Truncated          bytes that are right as far as they go, and too few: a torn tail
        StreamViolation    an element that breaks a promise the stream made: names element and rule
        RowError           a row that a query cannot process: shows the row and the reason
        ChangeError        a row of a changelog that makes no sense after those before it
        JournalError       a journal that does not read back
          Trimmed            a part of it that retention has taken away: read from where it begins
        CheckpointError    a checkpoint that does not read back: start from another, or replay
        JobError           a job's directory that does not read back, or is of another version
      Fenced           nobody: another writer has taken the journal, or the job, over
      DiskFull         nobody: a journal needs more room than its disk has
      MemoryLimit      nobody: a query needs more memory than it was given
      Bug              us: a broken invariant; report it

A message says what is wrong, names the value and the bound, and says what to do next where that
is not obvious from the first two.
"""

from __future__ import annotations


class GaplessError(Exception):
    """Every error that Gapless raises on purpose."""


class Misuse(GaplessError):
    """The caller asked for something that has no meaning. Nothing was changed."""


class BadData(GaplessError):
    """Data from outside is not what it should be. Nothing of it was applied."""


class Bug(GaplessError):
    """An invariant of ours is broken. Please report it with the message."""


class SchemaError(Misuse):
    """A schema, or a column of it, that streams cannot carry."""


class FrameError(Misuse):
    """Rows that cannot be a frame."""


class ParseError(Misuse):
    """Text notation that does not parse: says where and what was expected."""


class ExpressionError(Misuse):
    """An expression that is malformed, or does not fit the rows that it was given."""


class TokenError(Misuse):
    """What was handed back as a subscriber's token is none, or is of another output."""


class NotEquivalent(Misuse):
    """A plan that cannot take the place of another one: the message says what differs."""


class DecodeError(BadData):
    """Bytes that are not a valid envelope, frame or document.

    `field` is the part that was wrong, `bound` the limit or the value that was expected of it.
    """

    def __init__(self, field: str, problem: str, bound: object = None) -> None:
        limit = "" if bound is None else f" (expected: {bound})"
        super().__init__(f"{field}: {problem}{limit}")
        self.field = field
        self.bound = bound


class Truncated(DecodeError):
    """Bytes that end too early: a torn tail where a file ends, corruption anywhere else."""


class StreamViolation(BadData):
    """A stream broke one of its own promises.

    `element` is the element in text notation, `rule` the promise that it breaks.
    """

    def __init__(self, element: str, rule: str) -> None:
        super().__init__(f"{element} breaks the rule: {rule}")
        self.element = element
        self.rule = rule


class RowError(BadData):
    """A row that a query cannot process, where the query says to stop.

    `where` is the step, `row` the row as text, `reason` what was wrong with it.
    """

    def __init__(self, where: str, row: str, reason: str, advice: str) -> None:
        super().__init__(f"{where}: {reason}; the row: {row}. ({advice})")
        self.where = where
        self.row = row
        self.reason = reason


class ChangeError(BadData):
    """A row of a changelog that does not fit what was said before. Its batch was not applied.

    `row` is its place in the batch, from 0; `reason` what is wrong with it, `advice` what to do.
    """

    def __init__(self, row: int, reason: str, advice: str) -> None:
        super().__init__(f"row {row}: {reason} ({advice})")
        self.row = row
        self.reason = reason
        self.advice = advice


class JournalError(BadData):
    """A journal file that does not read back as it was written."""


class Trimmed(JournalError):
    """Rows that were asked for are gone: retention has trimmed them, as it was told to."""


class CheckpointError(BadData):
    """A checkpoint that is not there whole, or is not what it claims to be.

    Nothing is lost: a replica that starts from it tries its next origin.
    """


class JobError(BadData):
    """A job's directory that does not read back as it was written, or whose format is another."""


class Fenced(GaplessError):
    """A later writer has taken the journal, or the job, over; nothing more of this one will show
    in it.
    """


class DiskFull(GaplessError):
    """The disk has too little room left. What was to be written is not there, all else is."""


class MemoryLimit(GaplessError):
    """A query's state has outgrown its `memory_limit`: it stopped before the machine suffers."""
