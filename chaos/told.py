"""What happens in a simulation, in lines that a person reads.

        95 m1.1 Data r2/0.0/1 #4: ins(A,120,180) stable(110)
       101 r2.1 Ack r2/0.0/1 #4, epoch 1: durable to 60, settled to 60
       133 lost on the way from r2.1 to m1: Data r2/0.0/1 #5: ins(B,130,190)

A session is written as replica/life/attachment. A frame with more rows than a line has room for is
told by their number: the same seed shows them all to a debugger.
"""

from __future__ import annotations

from gapless.failover.messages import (
    Ack,
    Appended,
    Attach,
    Data,
    Delivery,
    Event,
    Fetch,
    Message,
    OutputRead,
    Refused,
    Session,
    SourceRead,
    Start,
    Tick,
)
from gapless.protocol.elements import BEGIN, format_time
from gapless.protocol.frame import Frame
from gapless.protocol.text import format

HEADER = (
    "milliseconds, who, and what reaches it: m1 is the merger, r1 and r2 are replicas, s1 is the "
    "subscriber; m1.2 is the second life of m1; r2/0.1/3 is the third session of r2's life 0.1"
)
ROWS_SHOWN_MAX = 4
"""Rows of a frame that a line has room for."""


def told(event: Event) -> str:
    """An event as a few words."""
    match event:
        case Start():
            return "starts"
        case Tick():
            return "time passes"
        case SourceRead(frame, position):
            if frame is None:
                return f"SourceRead: nothing yet at byte {position}"
            return f"SourceRead to byte {position}: {_frame(frame)}"
        case Appended(offset, stable):
            return f"Appended to byte {offset}: durable to {format_time(stable)}"
        case OutputRead(subscriber, after, frame, offset):
            return f"OutputRead for {subscriber}, bytes {after} to {offset}: {_frame(frame)}"
        case _:
            return _message(event)


def _message(message: Message) -> str:
    match message:
        case Attach(session, join_at, tail):
            return f"Attach {told_session(session)}{_join(join_at)}: {_frame(tail)}"
        case Data(session, sequence, frame):
            return f"Data {told_session(session)} #{sequence}: {_frame(frame)}"
        case Ack(session, epoch, sequence, durable, feedback):
            far = f"durable to {format_time(durable)}, settled to {format_time(feedback)}"
            return f"Ack {told_session(session)} #{sequence}, epoch {epoch}: {far}"
        case Refused(session, epoch, reason):
            return f"Refused {told_session(session)}, epoch {epoch}: {reason}"
        case Fetch(subscriber, token):
            return f"Fetch by {subscriber} from byte {token.offset} of epoch {token.epoch}"
        case Delivery(after, frame, token):
            return f"Delivery of bytes {after} to {token.offset}: {_frame(frame)}"


def told_session(session: Session) -> str:
    """A session as replica/life/attachment."""
    life = session.incarnation
    return f"{session.replica}/{life.term}.{life.counter}/{session.attempt}"


def _join(join_at: int) -> str:
    return "" if join_at == BEGIN else f" join {format_time(join_at)}"


def _frame(frame: Frame) -> str:
    if len(frame) <= ROWS_SHOWN_MAX:
        return format(frame.elements()) or "nothing"
    stable = "" if frame.stable is None else f" stable({format_time(frame.stable)})"
    return f"{len(frame)} rows{stable}"
