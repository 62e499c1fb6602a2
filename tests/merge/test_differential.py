"""The fast cases against the slow twin: the same pushes, joins and leaves, also of inputs that lie.

After every push both must have put out the same elements, be stable at the same time, have lost the
same inputs and have counted the same divergences.
"""

import math
import random
from collections import Counter

import pytest

from gapless.chaos.trials import Merging, draw_table, draw_telling
from gapless.kernels import ends
from gapless.merge.choose import CaseName
from gapless.merge.lmerge import LMerge
from gapless.merge.policy import Policy
from gapless.merge.reference import ReferenceMerge
from gapless.protocol.elements import BEGIN, INF, Adjust, Element, Insert, Payload, Stable
from gapless.protocol.errors import SchemaError, StreamViolation
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.text import DEFAULT_SCHEMA, format
from gapless.protocol.variants import tell
from tests.effort import cases
from tests.merge.helpers import EVERY_POLICY, LONG, POLICY_NAMES

SEEDS = 200 if LONG else cases(6)
"""Runs of each case under each policy."""

OTHER_SCHEMA = StreamSchema({"q": "int8"})
LIST_SCHEMA = StreamSchema(
    {"l": "list<list<double>>", "s": "list<struct<x: string, y: list<int8>>>"}
)
LISTS: dict[object, Payload] = {
    "A": (None, ((None, ()), ("a", None))),
    "B": ((), (("a", None), (None, ()))),
    "C": (((math.nan, None), None, ()), (None,)),
}
"""What the letters of tables are where payloads are lists: alike, but not the same."""
LISTS_EVERY = 3
"""Of so many seeds one is run with lists."""


class Pair:
    """A fast merger and its twin, driven alike."""

    def __init__(self, case: CaseName, policy: Policy, schema: StreamSchema) -> None:
        self.fast = LMerge(schema, case, policy)
        self.slow = ReferenceMerge(schema, case, policy)
        self.output = Tdb(schema)
        self.trace: list[str] = []

    def attach(self, join_at: int) -> int:
        self.trace.append(f"attach join {join_at}")
        number = self.slow.attach(join_at)
        assert self.fast.attach(join_at) == number
        return number

    def detach(self, number: int) -> None:
        self.trace.append(f"detach {number}")
        self.fast.detach(number)
        self.slow.detach(number)
        self.compare()

    def feedback(self, number: int) -> None:
        self.trace.append(f"feedback {number}")
        assert self.fast.feedback(number) == self.slow.feedback(number)

    def push(self, number: int, frame: Frame) -> None:
        self.trace.append(f"{number}: {format(frame.elements())}")
        said = self.slow.push(number, frame)
        out = self.fast.push(number, frame)
        assert Counter(out.elements()) == Counter(said.elements())
        assert out.stable == said.stable
        self.output.fold(out)  # legal, whatever the inputs say
        self.compare()

    def compare(self) -> None:
        self.fast.validate()
        self.slow.validate()
        assert view(self.fast) == view(self.slow)


def view(merge: Merging) -> tuple[object, ...]:
    """What a caller can see."""
    reasons = {n: kind(reason) for n, reason in merge.detached.items()}
    waits = getattr(merge, "waiting_for") is not None  # noqa: B009  # only these two have it
    return merge.stable, reasons, int(merge.divergences), waits


def kind(reason: object) -> str:
    """Why an input left: on request, for another schema, for what it said."""
    for error in (SchemaError, StreamViolation):
        if isinstance(reason, error):
            return error.__name__
    return "request" if reason is None else repr(reason)


def run(case: CaseName, policy: Policy, seed: int) -> Pair:
    rng = random.Random(f"differential {seed}")
    key = case in ("r0", "r3") or (case != "r4" and rng.random() < 0.5)
    table = draw_table(rng, case, key)
    lists = seed % LISTS_EVERY == LISTS_EVERY - 1
    if lists:
        events = [Event(LISTS[e.payload[0]], e.vs, e.ve) for e in table.events]
        table = Tdb(LIST_SCHEMA, events)
    pair = Pair(case, policy, table.schema)
    left: dict[int, list[Frame]] = {}

    def join(join_at: int) -> None:
        told = table if rng.random() < 0.7 else mistaken(rng, table)
        telling = draw_telling(rng, case, None if join_at == BEGIN else join_at)
        left[pair.attach(join_at)] = tell(told, telling, rng.getrandbits(32))[::-1]

    try:
        for _ in range(3):
            join(BEGIN)
        while left:
            number = rng.choice(list(left))
            chance = rng.random()
            if chance < 0.04 and pair.fast.stable < INF and len(pair.slow.detached) < 12:
                join(rng.choice((rng.randrange(40), max(0, pair.fast.stable))))
            elif chance < 0.06:
                pair.detach(number)
            elif chance < 0.10:
                pair.feedback(number)
            elif chance < 0.13:
                pair.push(number, junk(rng, lists))
            elif left[number]:
                pair.push(number, left[number].pop())
            else:
                del left[number]
            left = {n: frames for n, frames in left.items() if n not in pair.slow.detached}
    except AssertionError as difference:
        difference.add_note(f"seed {seed}\n" + "\n".join(pair.trace))
        raise
    return pair


def mistaken(rng: random.Random, table: Tdb) -> Tdb:
    """Nearly the same table: some events end elsewhere, some are missing."""
    events = []
    for e in table.events:
        chance = rng.random()
        if chance < 0.15:
            events.append(Event(e.payload, e.vs, e.vs + rng.randint(1, 25)))
        elif chance < 0.9:
            events.append(e)
    return Tdb(table.schema, events)


def junk(rng: random.Random, lists: bool = False) -> Frame:
    """What no telling says: anything, now and then in another schema."""
    if rng.random() < 0.1:
        return Frame.empty(OTHER_SCHEMA, 5)
    elements: list[Element] = []
    for _ in range(rng.randint(0, 3)):
        letter, vs = rng.choice("ABC"), rng.randrange(40)
        payload = LISTS[letter] if lists else (letter,)
        ve = vs + rng.randint(1, 20)
        if rng.random() < 0.6:
            elements.append(Insert(payload, vs, ve))
        else:
            elements.append(Adjust(payload, vs, ve, vs + rng.randint(0, 20)))
    if rng.random() < 0.5:
        elements.append(Stable(rng.randrange(60)))
    return Frame.from_elements(LIST_SCHEMA if lists else DEFAULT_SCHEMA, elements)


@pytest.mark.parametrize(("case", "policy"), EVERY_POLICY, ids=POLICY_NAMES)
def test_differential_the_fast_case_puts_out_what_its_twin_does(
    case: CaseName, policy: Policy
) -> None:
    for seed in range(SEEDS):
        run(case, policy, seed)


@pytest.mark.parametrize("case", ["r0", "r1", "r2", "r3", "r4"])
def test_differential_runs_hold_lies_divergence_and_late_joins(case: CaseName) -> None:
    pairs = [run(case, Policy(), seed) for seed in range(20)]
    kinds = {kind(r) for pair in pairs for r in pair.fast.detached.values()}
    assert kinds == {"request", "SchemaError", "StreamViolation"}
    assert any(pair.fast.stable == INF for pair in pairs)
    if case >= "r3":
        assert any(int(pair.fast.divergences) for pair in pairs)


def test_differential_a_table_that_is_swept_by_pages_puts_out_what_its_twin_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ends, "PAGED_IDS_MIN", 0)
    monkeypatch.setattr(ends, "PAGE_BITS", 1)
    monkeypatch.setattr(ends, "PAGES_MAX", 4)
    for case, policy in EVERY_POLICY:
        for seed in range(SEEDS if case == "r3" else 0):
            run(case, policy, 1000 + seed)


def test_differential_sees_a_page_that_was_written_to_and_is_not_swept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ends, "PAGED_IDS_MIN", 0)
    monkeypatch.setattr(ends, "PAGE_BITS", 1)
    monkeypatch.setattr(ends.Ends, "changed", lambda self, ids: None)
    with pytest.raises(AssertionError):
        [run("r3", Policy(), 1000 + seed) for seed in range(50)]
