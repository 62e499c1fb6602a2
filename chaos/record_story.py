"""A replayed flight record in lines that a person reads: what came, what followed, and why.

     90112 r0.1/1.4 <- SourceRead of flows to {0: 812}: 40 rows stable(119000)
           -> m0.0: Data r0.1/1.4 (1) #71: 12 rows stable(119000)
           -> ReadSource source flows

The chain of causes leads from a step back to what asked for its event: the read that was asked for,
the append, the message that is acked. It ends where something came from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gapless.chaos.sim.story import told, told_step
from gapless.failover.effects import Send
from gapless.failover.merger import effects as ask
from gapless.failover.messages import (
    Ack,
    Attach,
    Data,
    Refused,
    SnapshotReply,
    SnapshotRequest,
)
from gapless.failover.recorder.record import Record
from gapless.failover.recorder.replay import Step
from gapless.failover.replica.effects import (
    CheckpointLoaded,
    CheckpointWritten,
    Done,
    LoadCheckpoint,
    OpenSources,
    ReadSource,
    SourceFailed,
    SourceRead,
    Work,
    WriteCheckpoint,
)
from gapless.failover.supervisor.effects import Died, Kill, Spawn

CAUSES_MAX = 20
"""Steps of a chain that are told: what led to them in turn is a run of its own."""

Asked = Callable[[Any, Any], bool]
"""Whether an effect asks for an event."""


def _asks(kind: type | tuple[type, ...], *same: str) -> Asked:
    """An effect of some kind whose fields of these names are the event's."""
    return lambda effect, event: (
        isinstance(effect, kind)
        and all(getattr(effect, name) == getattr(event, name) for name in same)
    )


def _says(kind: type | tuple[type, ...], *same: str) -> Asked:
    """The same, of a message that was sent."""
    in_message = _asks(kind, *same)
    return lambda effect, event: isinstance(effect, Send) and in_message(effect.message, event)


ASKED_BY: dict[type, Asked] = {
    SourceRead: _asks(ReadSource, "source"),
    SourceFailed: _asks((ReadSource, OpenSources)),
    CheckpointWritten: _asks(WriteCheckpoint, "name"),
    CheckpointLoaded: _asks(LoadCheckpoint, "name"),
    Done: _asks(Work, "number"),
    ask.Appended: _asks(ask.Append),
    ask.AppendRefused: _asks(ask.Append),
    ask.OutputLost: _asks((ask.Append, ask.Seal, ask.MakeBase, ask.WatchOutput)),
    ask.Sealed: _asks(ask.Seal),
    ask.BaseMade: _asks(ask.MakeBase),
    ask.OutputRead: _asks(ask.ReadOutput, "subscriber"),
    ask.TableRead: _asks(ask.ReadTable, "subscriber", "attempt"),
    ask.ReadRefused: _asks((ask.ReadOutput, ask.ReadTable), "subscriber"),
    ask.PeerRead: _asks(ask.ReadPeer, "peer"),
    Ack: _says((Attach, Data), "session"),
    Refused: _says((Attach, Data), "session"),
    SnapshotReply: _says(SnapshotRequest),
    Died: _asks((Spawn, Kill), "life"),
}
"""By event, which effect asked for it; all others come from outside."""


def header(record: Record) -> str:
    """What a record is, in a line."""
    events = record.events
    span_s = (events[-1][1] - events[0][1]) / 1000 if events else 0
    return (
        f"{record.life}, a {record.machine}: {len(events)} events of {span_s:.1f} s; written by "
        f"release {record.release} because of {record.reason}"
    )


def told_events(record: Record) -> Iterator[str]:
    """The events alone."""
    return (told_step(now, record.life, event) for event, now in record.events)


def told_replayed(life: str, step: Step) -> list[str]:
    """One step: its event, and what followed."""
    lines = [told_step(step.now, life, step.event)]
    lines += (f"{'':>6} -> {told_effect(effect)}" for effect in step.effects)
    if step.refused:
        lines.append(f"{'':>6} refused: {step.refused}")
    if step.error is not None:
        lines.append(f"{'':>6} raises {type(step.error).__name__}: {step.error}")
    return lines


def told_effect(effect: Any) -> str:
    """An effect as a few words."""
    match effect:
        case Send(to, message):
            return f"{to}: {told(message)}"
        case Work(number, what):
            return f"Work {number}: {what}"
        case _:
            return told(effect)


def causes(steps: Sequence[Step]) -> list[Step]:
    """The chain that leads to the last step, the first of them first."""
    chain = list(steps[-1:])
    at = len(steps) - 1
    while chain and len(chain) < CAUSES_MAX:
        at = _cause(steps, at)
        if at < 0:
            break
        chain.append(steps[at])
    return chain[::-1]


def _cause(steps: Sequence[Step], at: int) -> int:
    """The last step before one whose effects ask for its event; -1 where it came from outside."""
    event = steps[at].event
    asked = ASKED_BY.get(type(event))
    if asked is None:
        return -1
    behind = (i for i in range(at - 1, -1, -1) if any(asked(e, event) for e in steps[i].effects))
    return next(behind, -1)
