"""Any well-formed message, in any order, at any time: a subscriber keeps its invariants."""

import random
from typing import Any

import pytest

from gapless.failover.effects import Send, Start, Tick
from gapless.failover.messages import Declined, Delivery, Fetch, Open, Opened, Token
from gapless.failover.subscriber.effects import Emit, SubscriberEffect, SubscriberEvent
from gapless.failover.subscriber.machine import Subscriber
from gapless.failover.table import Received
from gapless.protocol.elements import BEGIN, INF, Adjust, Element, Insert, Stable
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import DEFAULT_SCHEMA

ONE = {"0": ("m0.0",)}
BOTH = {"0": ("m0.0", "m0.1")}
SHARDS = {"0": ("m0.0",), "1": ("m1.0",)}

Question = Open | Fetch


def asked(effects: list[SubscriberEffect]) -> list[Question]:
    sends = [e.message for e in effects if isinstance(e, Send)]
    return [m for m in sends if isinstance(m, Open | Fetch)]


def a_time(rng: random.Random) -> int:
    return rng.choice([BEGIN + 1, -3, 0, 2, 5, 9, INF - 1, INF])


def a_frame(rng: random.Random) -> Frame:
    if rng.random() < 0.02:
        return Frame.from_elements(StreamSchema({"n": "int8"}), [Insert((1,), 1, 2)])
    elements: list[Element] = []
    for _ in range(rng.randrange(4)):
        payload, vs = (rng.choice("AB"),), rng.choice([BEGIN + 1, 0, 1, 2, 7, INF - 1])
        ends = [vs + 1, INF]
        if rng.random() < 0.9:
            elements.append(Insert(payload, vs, rng.choice(ends)))
        else:
            elements.append(Adjust(payload, vs, rng.choice(ends), rng.choice([vs, *ends])))
    if rng.random() < 0.5:
        elements.append(Stable(a_time(rng)))
    return Frame.from_elements(DEFAULT_SCHEMA, elements)


def a_message(rng: random.Random, questions: list[Question]) -> SubscriberEvent:
    merger, rows, after = rng.choice(["m0.0", "m0.1", "m1.0"]), a_frame(rng), rng.choice([0, 0, 1])
    question = rng.choice(questions)
    attempt = question.attempt if isinstance(question, Open) else rng.randrange(9)
    since = question.since if isinstance(question, Open) and question.since else a_time(rng)
    token = question.token if isinstance(question, Fetch) else Token(merger, 1, after, 5)
    whys: Any = rng.choice(["trimmed", "future", "elsewhere"])
    at = rng.choice([after, token.offset])
    messages: list[SubscriberEvent] = [
        Delivery(at, rows, Token(merger, rng.randrange(3), at + len(rows), a_time(rng))),
        Opened(
            attempt, since, rows.inserts.with_stable(a_time(rng)), token._replace(merger=merger)
        ),
        Opened(
            attempt, since, Frame.empty(DEFAULT_SCHEMA, max(since, 0)), Token(merger, 1, at, since)
        ),
        Tick(),
    ]
    if rng.random() < 0.1:
        asked_for: Token | int = token if rng.random() < 0.5 else attempt
        messages.append(Declined(merger, asked_for, whys, "no"))
    return rng.choice(messages)


@pytest.mark.parametrize("deliver", ["changes", "final"])
@pytest.mark.parametrize("mergers", [ONE, BOTH, SHARDS], ids=["one", "both", "shards"])
def test_no_message_breaks_it_and_its_stable_never_goes_back(
    mergers: dict[str, tuple[str, ...]], deliver: Any
) -> None:
    handed_out = 0
    for seed in range(60):
        rng = random.Random(f"{deliver} {len(mergers)} {seed}")
        start: Any = rng.choice(
            ["now", "earliest", 5, dict.fromkeys(mergers, Token("m0.0", 1, 0, 2))]
        )
        machine = Subscriber(
            "s",
            mergers,
            DEFAULT_SCHEMA,
            deliver=deliver,
            start=start,
            insert_only=rng.random() < 0.5,
        )
        stable = BEGIN
        questions: list[Question] = [Open("s", 1, None)]
        received = Received(DEFAULT_SCHEMA, deliver)
        for now in range(0, 3000, 50):
            event = a_message(rng, questions[-4:]) if now else Start()
            effects = machine.on(event, now)
            machine.validate()
            questions += asked(effects)
            for emit in (e for e in effects if isinstance(e, Emit)):
                handed_out += 1
                if emit.frame.stable is not None:
                    assert emit.frame.stable >= stable
                    stable = emit.frame.stable
                if len(mergers["0"]) > 1 and deliver == "changes":
                    received.take(emit)  # merged, it is a stream whatever the mergers say
    assert handed_out > 20
