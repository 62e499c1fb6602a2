"""Where a subscriber starts: which mergers it reads, from which place, and what it is told where it
cannot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from gapless.engine.answer import instant
from gapless.failover.job.desired import Desired
from gapless.failover.job.files import JobRecord
from gapless.failover.messages import Token
from gapless.failover.subscriber.machine import StartAt, Subscriber
from gapless.failover.subscriber.tokens import decode
from gapless.failover.table import Deliver
from gapless.failover.timing import Timing
from gapless.protocol.errors import GaplessError, Misuse, Trimmed
from gapless.protocol.schema import StreamSchema

_DATE = re.compile(r"[0-9]{4}-?[0-9]{2}")
"""How a time begins, and no token does."""
Start = StartAt | str | Mapping[str, Token]
"""As people write it: tokens also as their text, times as ISO 8601 has them."""


def subscriber_of(
    record: JobRecord,
    mergers: Mapping[str, tuple[str, ...]],
    schema: StreamSchema,
    deliver: Deliver,
    start: StartAt,
    timing: Timing,
) -> Subscriber:
    """A new subscriber of a job's output. `mergers`: by shard, those that are read."""
    return Subscriber(
        f"s-{uuid4().hex}",
        mergers,
        schema,
        deliver=deliver,
        insert_only=record.insert_only and record.case == "r3",
        start=start,
        case=record.case,
        timing=timing,
    )


def start_at(start: Start | Any, unit: str) -> StartAt:
    """Where a subscriber begins, from what a person wrote. Raises `Misuse`, `TokenError`."""
    match start:
        case "now" | "earliest" | Mapping():
            return start
        case str() if not _DATE.match(start):
            return decode(start)
        case None:
            raise Misuse('start None: "now", "earliest", a time, or the token of a subscription')
    return instant(start, unit)


def mergers_of(desired: Desired, mergers: Sequence[int] | None) -> dict[str, tuple[str, ...]]:
    """By shard, the slots of its mergers with these indexes; of all of them without."""
    given: Any = range(desired.mergers) if mergers is None else mergers
    indexes = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else []
    wrong = [i for i in indexes if type(i) is not int or not 0 <= i < desired.mergers]
    if wrong or not indexes:
        raise Misuse(
            f"mergers={given!r:.100}: a list of indexes, as in mergers=[0]; the job has "
            f"{desired.mergers} a shard, from 0"
        )
    shards = map(str, range(desired.shards))
    return {shard: tuple(f"m{shard}.{i}" for i in indexes) for shard in shards}


def slots_of(mergers: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """All slots, in order."""
    return tuple(slot for slots in mergers.values() for slot in slots)


def explained(slot: str, error: GaplessError) -> str:
    """What a subscriber is told about an error of a merger's output, and what it may do."""
    if not isinstance(error, Trimmed):
        return str(error)
    return (
        f"merger {slot}: that part of the output has been trimmed, as the job's retain= says: "
        'subscribe with start="now", whose first frame is a reset that replaces all you hold '
        f"({error})"
    )
