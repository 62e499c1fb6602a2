"""Refusals: why a call ends without what was asked for, as a status code and a sentence.

    UNAVAILABLE           try again: here in a moment, or at another sidecar
    FAILED_PRECONDITION   a later incarnation of the producer has attached: this one is over
    RESOURCE_EXHAUSTED    a bound is reached: streams, peers, bytes
    DATA_LOSS             a checksum does not fit: send it again
    OUT_OF_RANGE          that part of the output has been trimmed, or never was
    INVALID_ARGUMENT      what was sent has no meaning: a schema, a frame, a promise broken
    NOT_FOUND             there is no such stream
    UNAUTHENTICATED       the caller is unknown
    PERMISSION_DENIED     the caller is known, and may not do this
    INTERNAL              our mistake

The sentence says what to do next. Codes are kept as words, so that what decides needs no gRPC.
"""

from __future__ import annotations

from typing import Literal

from gapless.protocol.errors import (
    BadData,
    DiskFull,
    Fenced,
    GaplessError,
    JournalError,
    Misuse,
    Trimmed,
)

Code = Literal[
    "UNAVAILABLE",
    "FAILED_PRECONDITION",
    "RESOURCE_EXHAUSTED",
    "DATA_LOSS",
    "OUT_OF_RANGE",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "UNAUTHENTICATED",
    "PERMISSION_DENIED",
    "INTERNAL",
]

SENTENCE_CHARS_MAX = 1000
"""Of the sentence at a call's end: it travels in a header, and headers are bounded."""


class Refusal(GaplessError):
    """A call ends with this code and this sentence."""

    def __init__(self, code: Code, sentence: str) -> None:
        super().__init__(sentence[:SENTENCE_CHARS_MAX])
        self.code = code

    @property
    def sentence(self) -> str:
        """What the peer reads."""
        return str(self)


def refusal_of(error: GaplessError) -> Refusal:
    """The refusal that an error of ours means for the peer whose call met it."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, Trimmed):
        return Refusal("OUT_OF_RANGE", str(error))
    if isinstance(error, JournalError | Fenced | DiskFull):
        return Refusal("UNAVAILABLE", str(error))
    if isinstance(error, Misuse | BadData):
        return Refusal("INVALID_ARGUMENT", str(error))
    return Refusal("INTERNAL", f"{type(error).__name__}: {error}")
