"""What happens in a simulation, in lines that a person reads.

        95 m0.1/1.2 <- Data r0.2/1.5 (1) #4: ins(A,120,180) stable(110)
       101 r0.2/1.5 <- Ack r0.2/1.5 (1) by m0.1 #4, epoch 1: durable to 60, settled to 60
       133 lost: from r0.2/1.5 to m0.1: Data r0.2/1.5 (1) #5: ins(B,130,190)

A life is written as slot/incarnation, a session as a life and which attachment of it. A frame with
more rows than a line has room for is told by their number: the same seed shows them all to a
debugger.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from gapless.failover.effects import Start, Tick
from gapless.failover.merger.effects import Appended, OutputRead, PeerRead, TableRead
from gapless.failover.messages import (
    Ack,
    Attach,
    Data,
    Delivery,
    Fetch,
    Life,
    Opened,
    Refused,
    Session,
    SnapshotReply,
    Token,
)
from gapless.failover.replica.effects import CheckpointLoaded, SourceRead
from gapless.failover.statuses import MergerStatus, ReplicaStatus
from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.frame import Frame
from gapless.protocol.text import format

HEADER = (
    "milliseconds, who <- what reaches it: r0.2 is replica 2 of shard 0, m0.1 a merger of it; "
    "r0.2/1.5 is the fifth life that the supervisor of term 1 has started, in the slot r0.2"
)
ROWS_SHOWN_MAX = 4
"""Rows of a frame that a line has room for."""
VALUE_CHARS_MAX = 60
"""Of any other value: more is for a debugger."""


def told_step(now: int, name: str, event: Any) -> str:
    """A step as a line."""
    if isinstance(event, str):
        return f"{now:>6} {event}"
    if isinstance(event, tuple) and type(event) is tuple:
        why, sender, to, message = event
        return f"{now:>6} {why} from {sender} to {to}: {told(message)}"
    return f"{now:>6} {name} <- {told(event)}"


def told(event: Any) -> str:
    """An event as a few words."""
    match event:
        case Start():
            return "starts"
        case Tick():
            return "time passes"
        case Attach(session, join_at, tail):
            return f"Attach {_session(session)}{_join(join_at)}: {_frame(tail)}"
        case Data(session, sequence, frame):
            return f"Data {_session(session)} #{sequence}: {_frame(frame)}"
        case Ack(session, epoch, sequence, durable, feedback, throttled):
            far = f"durable to {format_time(durable)}, settled to {format_time(feedback)}"
            waits = ", throttled" if throttled else ""
            by = f"by {session.merger} #{sequence}, epoch {epoch}"
            return f"Ack {_session(session)} {by}: {far}{waits}"
        case Refused(session, epoch, reason):
            return f"Refused {_session(session)} by {session.merger}, epoch {epoch}: {reason}"
        case ReplicaStatus() | MergerStatus():
            return f"status of {event.life}: stable {format_time(event.stable)}"
        case Fetch() | Delivery() | Opened() | OutputRead() | TableRead():
            return _serving(event)
        case _:
            return _reading(event)


def _reading(event: Any) -> str:
    """What a replica, or a merger without replicas, has asked for."""
    match event:
        case SourceRead(source, frame, position, more):
            read = "nothing yet" if frame is None else _frame(frame)
            return f"SourceRead of {source} to {dict(position)}: {read}{', and more' * more}"
        case Appended(offset, stable):
            return f"Appended to row {offset}: durable to {format_time(stable)}"
        case PeerRead(peer, frame, join_at):
            read = "nothing yet" if frame is None else _frame(frame)
            return f"PeerRead of {peer}{_join(join_at)}: {read}"
        case SnapshotReply(life, None, reason, stored, is_coming):
            made = f"stored as {stored}" if stored else "is being made" * is_coming
            return f"SnapshotReply of {life}: {reason or made or 'none'}"
        case SnapshotReply(life, checkpoint):
            return f"SnapshotReply of {life}: {_checkpoint(checkpoint)}"
        case CheckpointLoaded(name, checkpoint, reason):
            return f"CheckpointLoaded {name}: {reason or _checkpoint(checkpoint)}"
        case _:
            return _plain(event)


def _serving(event: Any) -> str:
    """What goes on between a merger and a subscriber."""
    match event:
        case OutputRead(subscriber, after, frame):
            read = "nothing yet" if frame is None else _frame(frame)
            return f"OutputRead for {subscriber} behind row {after}: {read}"
        case TableRead(subscriber, attempt, since, frame, offset):
            table = f"events to row {offset}, with ve from {format_time(since)} on"
            return f"TableRead for {subscriber} ({attempt}): {table}: {_frame(frame)}"
        case Fetch(subscriber, token):
            return f"Fetch by {subscriber} from {_value(token)}"
        case Delivery(after, frame, token):
            return f"Delivery behind row {after} to {_value(token)}: {_frame(frame)}"
        case Opened(attempt, since, frame, token):
            until = f"since {format_time(since)}, to {_value(token)}"
            return f"Opened ({attempt}) {until}: {_frame(frame)}"
        case _:
            return _plain(event)


def _plain(event: Any) -> str:
    """Any other event: its name and its fields."""
    values = [f"{f.name} {_value(getattr(event, f.name))}" for f in fields(event)]
    return f"{type(event).__name__} {', '.join(values)}".rstrip()


def _value(value: Any) -> str:
    if isinstance(value, Life):
        return str(value)
    if isinstance(value, Session):
        return _session(value)
    if isinstance(value, Token):
        where = f"row {value.offset} of {value.merger}, " if value.merger else ""
        return f"{where}stable {format_time(value.stable)}"
    if isinstance(value, Frame):
        return _frame(value)
    if value in (BEGIN, INF):
        return format_time(value)
    text = str(value)
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[:VALUE_CHARS_MAX]} ..."


def _session(session: Session) -> str:
    return f"{session.life} ({session.attempt})"


def _join(join_at: int) -> str:
    return "" if join_at == BEGIN else f" join {format_time(join_at)}"


def _checkpoint(checkpoint: Any) -> str:
    return f"joins at {format_time(checkpoint.since)}, stable {format_time(checkpoint.stable)}"


def _frame(frame: Frame) -> str:
    if len(frame) <= ROWS_SHOWN_MAX:
        return format(frame.elements()) or "nothing"
    stable = "" if frame.stable is None else f" stable({format_time(frame.stable)})"
    return f"{len(frame)} rows{stable}"
