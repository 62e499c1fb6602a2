"""Any well-formed message, in any order, at any time: no machine breaks or loses its invariants."""

import random
from collections.abc import Callable

import pytest

from gapless.failover.merger import Merger
from gapless.failover.messages import (
    Ack,
    Append,
    Appended,
    Attach,
    Data,
    Delivery,
    Emit,
    Event,
    Fetch,
    ReadOutput,
    ReadSource,
    Refused,
    Session,
    SourceRead,
    Start,
    Tick,
    Token,
)
from gapless.failover.replica import Replica
from gapless.failover.subscriber import Subscriber
from gapless.merge.choose import CaseName
from gapless.merge.lmerge import LMerge
from gapless.operators.aggregates.calls import count
from gapless.operators.cleanse import Cleanse
from gapless.operators.hopping import HoppingAggregate
from gapless.operators.operator import Operator
from gapless.operators.windows import Hopping
from gapless.protocol.elements import BEGIN, INF, Adjust, Element, Insert, Stable
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import BadData
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA

RECORD = 64
"""Bytes of every record of the output, so that offsets are guessed often enough."""
STRANGE = Frame.from_elements(StreamSchema({"n": "int8"}), [Insert((1,), 1, 2)])
CASES: list[CaseName] = ["r0", "r1", "r2", "r3", "r4"]
PLANS: list[Callable[[], Operator]] = [
    lambda: Cleanse(DEFAULT_SCHEMA),
    lambda: HoppingAggregate(DEFAULT_SCHEMA, Hopping(10, 5), ["p"], [("count", count())]),
]


def a_time(rng: random.Random) -> int:
    return rng.choice([BEGIN + 1, -3, 0, 2, 5, 9, INF - 1, INF])


def a_frame(rng: random.Random) -> Frame:
    if rng.random() < 0.05:
        return STRANGE
    elements: list[Element] = []
    for _ in range(rng.randrange(4)):
        payload, vs = (rng.choice("AB"),), rng.choice([BEGIN + 1, 0, 1, 2, 7, INF - 1])
        ends = [vs + 1, INF]
        if rng.random() < 0.7:
            elements.append(Insert(payload, vs, rng.choice(ends)))
        else:
            elements.append(Adjust(payload, vs, rng.choice(ends), rng.choice([vs, *ends])))
    if rng.random() < 0.5:
        elements.append(Stable(a_time(rng)))
    return Frame.from_elements(DEFAULT_SCHEMA, elements)


def a_message(rng: random.Random, replica: Session) -> Event:
    others = Session(rng.choice(["r1", "r2"]), Incarnation(0, rng.randrange(3)), rng.randrange(3))
    session = rng.choice([replica, others])
    at = rng.choice([0, 0, RECORD, RECORD + 1, 2**50])
    token = Token(rng.choice(["m1", "m1", "m2"]), rng.randrange(3), at, a_time(rng))
    behind = token._replace(offset=at + RECORD)
    messages: list[Event] = [
        Attach(session, a_time(rng), a_frame(rng)),
        Data(session, rng.choice([1, 2, 3, 2**70]), a_frame(rng)),
        Ack(session, rng.randrange(3), rng.randint(-1, 4), a_time(rng), a_time(rng)),
        Refused(session, rng.randrange(3), "no"),
        Fetch(rng.choice("st"), token),
        Delivery(at, a_frame(rng), behind),
        Tick(),
    ]
    return rng.choice(messages)


@pytest.mark.parametrize("case", CASES)
def test_a_merger_stays_whole_and_reads_only_what_is_written(case: CaseName) -> None:
    for seed in range(60):
        rng = random.Random(f"{case} {seed}")
        merge = LMerge(DEFAULT_SCHEMA, case)
        machine = Merger("m1", 1, merge, Frame.empty(DEFAULT_SCHEMA), 0)
        output, written = Tdb(DEFAULT_SCHEMA), 0
        for now in range(0, 3000, 50):
            effects = machine.on(a_message(rng, Session("r1", Incarnation(0, 1), 1)), now)
            merge.validate()
            for effect in effects:
                if isinstance(effect, Append):
                    output.fold(effect.frame)
                    written += RECORD
                    effects = [*effects, *machine.on(Appended(written, effect.stable), now)]
            assert all(0 <= e.after < written for e in effects if isinstance(e, ReadOutput))


@pytest.mark.parametrize("plan", PLANS, ids=["cleanse", "count"])
def test_a_replica_raises_nothing_but_what_its_rows_deserve(plan: Callable[[], Operator]) -> None:
    for seed in range(60):
        rng = random.Random(seed)
        machine = Replica("r1", Incarnation(0, 1), plan(), "m1", rng.choice([BEGIN, BEGIN + 1, 5]))
        effects = machine.on(Start(), 0)
        for now in range(0, 3000, 50):
            if any(isinstance(e, ReadSource) for e in effects):
                rows = a_frame(rng).inserts if rng.random() < 0.9 else None
                try:
                    machine.on(SourceRead(rows if rows != STRANGE else None, now), now)
                except BadData:
                    break
            effects = machine.on(a_message(rng, machine.session), now)


def test_a_subscriber_never_sees_an_offset_twice() -> None:
    for seed in range(60):
        rng = random.Random(seed)
        machine, seen = Subscriber("s1", "m1"), [0]
        for now in range(0, 3000, 50):
            for effect in machine.on(a_message(rng, Session("r1", Incarnation(0, 1), 1)), now):
                if isinstance(effect, Emit):
                    assert effect.token.offset > seen[-1]
                    assert effect.token.merger == "m1"
                    seen.append(effect.token.offset)
