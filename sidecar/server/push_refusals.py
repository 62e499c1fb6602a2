"""Why a push call ends: a refusal, with the reason that `Detached` gives a producer for it.

    FAILED_PRECONDITION   WHY_FENCED, WHY_ABSENT        a later incarnation; away for too long
    RESOURCE_EXHAUSTED    WHY_FULL                      no place, or no room
    NOT_FOUND             WHY_REMOVED                   the stream, or the producer, was removed
    DATA_LOSS             WHY_DAMAGED                   a frame came damaged
    INVALID_ARGUMENT      WHY_BAD_CONTENT               a frame breaks a promise of the stream
    UNAVAILABLE           WHY_LOST, WHY_DRAINING        come again: here, or to another sidecar

The code says to any client whether it may try again; the reason says to ours what to do first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gapless.failover.messages import Refused
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.server.refusals import Refusal

Why = pb.Detached.Why


class PushRefusal(Refusal):
    """A refusal with such a reason."""

    def __init__(self, refusal: Refusal, why: Why) -> None:
        super().__init__(refusal.code, refusal.sentence)
        self.why = why

    @property
    def blames_a_frame(self) -> bool:
        """Whether it is for what one frame holds."""
        return self.why in (pb.Detached.WHY_BAD_CONTENT, pb.Detached.WHY_DAMAGED)


@contextmanager
def refused_as(why: Why) -> Iterator[None]:
    """Gives a refusal this reason."""
    try:
        yield
    except Refusal as e:
        raise PushRefusal(e, why) from None


def of_frame(refusal: Refusal) -> PushRefusal:
    """Of a frame that does not read, or comes where it does not belong."""
    whys: dict[str, Why] = {
        "DATA_LOSS": pb.Detached.WHY_DAMAGED,
        "INVALID_ARGUMENT": pb.Detached.WHY_BAD_CONTENT,
    }
    return PushRefusal(refusal, whys.get(refusal.code, pb.Detached.WHY_UNKNOWN))


def of_stream(refusal: Refusal, *, is_draining: bool) -> PushRefusal:
    """Of a stream, or an attachment of it, that is over."""
    if refusal.code == "FAILED_PRECONDITION":
        return PushRefusal(refusal, pb.Detached.WHY_FENCED)
    if refusal.code == "NOT_FOUND":
        return PushRefusal(refusal, pb.Detached.WHY_REMOVED)
    return PushRefusal(refusal, pb.Detached.WHY_DRAINING if is_draining else pb.Detached.WHY_LOST)


def of_merger(message: Refused, *, is_attached: bool) -> PushRefusal:
    """Of a session that the merger ends."""
    producer, reason = message.session.life.slot, message.reason
    if message.fenced:
        refusal = Refusal(
            "FAILED_PRECONDITION", f"producer {producer}: {reason}: this incarnation is over"
        )
        return PushRefusal(refusal, pb.Detached.WHY_FENCED)
    if not is_attached:
        refusal = Refusal("RESOURCE_EXHAUSTED", f"producer {producer}: {reason}")
        return PushRefusal(refusal, pb.Detached.WHY_FULL)
    refusal = Refusal("INVALID_ARGUMENT", f"producer {producer} is not believed any more: {reason}")
    return PushRefusal(refusal, pb.Detached.WHY_BAD_CONTENT)
