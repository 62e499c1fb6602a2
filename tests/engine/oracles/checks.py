"""What must hold of each case: every check takes a seed, raises `AssertionError` where it does not.

They are functions and not tests so that two tests can call them: the one that says that they hold,
and the one that breaks an operator and sees them fail (`test_oracle_faults.py`).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import combinations

from gapless.engine import nodes
from gapless.engine.known import Properties
from gapless.engine.plan import Plan
from gapless.engine.properties import properties_of
from gapless.merge.choose import CaseName
from gapless.merge.lmerge import LMerge
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.frame import Frame
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import format_element
from tests.engine.oracles.aggregate_oracle import near
from tests.engine.oracles.cases import IMPLEMENTATIONS, Case
from tests.engine.oracles.duckdb_oracle import DuckdbOracle
from tests.engine.oracles.random_queries import Taste, random_inexact_query
from tests.engine.oracles.random_streams import (
    SPAN,
    Row,
    Told,
    World,
    interleave,
    late,
    random_rows,
    tell,
)
from tests.engine.oracles.running import Running, run, stored

Check = Callable[[int], object]


# -- the whole table ------------------------------------------------------------------------------


def check_table(seed: int) -> None:
    """The table is what its definition says, the output legal, the end promised."""
    case = Case.draw(seed)
    running = run(case.plan(), case.told())
    assert running.tdb.stable == INF, f"seed {seed}: the end was not promised"
    unlike = case.difference(running.tdb.events)
    assert not unlike, unlike


def check_inexact_answers(seed: int) -> None:
    """Sketches and sums of floats are as near to the exact answers as they say."""
    rng = random.Random(f"inexact {seed}")
    query = random_inexact_query(rng)
    [source] = query.sources.values()
    case = Case(seed, query, {source.name: random_rows(rng, source.schema, "ts", 40, World())})
    got = run(case.plan(), case.told()).tdb.events
    node = query.root
    assert isinstance(node, nodes.Aggregate)
    groups = len(node.group_by)
    exact = {(e.vs, e.ve, e.payload[:groups]): e.payload[groups:] for e in case.oracle.table(node)}
    assert {(e.vs, e.ve, e.payload[:groups]) for e in got} == exact.keys(), f"seed {seed}"
    for e in got:
        wanted = exact[e.vs, e.ve, e.payload[:groups]]
        for (_, f), a, b in zip(node.aggregates, e.payload[groups:], wanted, strict=True):
            assert near(f, a, b), f"seed {seed}: {f} of {e}: exact is {b}"


INSTANTS = 3
"""At which DuckDB is asked of each table."""


def check_snapshots(seed: int) -> set[type]:
    """At any instant DuckDB says the same of the whole input; which nodes it was asked of.

    Raises `CannotSay` where SQL cannot be asked.
    """
    case = Case.draw(seed, Taste(odd=False))
    tdb = run(case.plan(), case.told()).tdb
    schemas = {name: source.schema for name, source in case.query.sources.items()}
    with DuckdbOracle(schemas, case.rows) as duckdb:
        for at in _instants(case, tdb):
            got, wanted = tdb.snapshot(at), duckdb.snapshot(case.query.root, at)
            assert got == wanted, (
                f"seed {seed} at {at}: too much {got - wanted}, missing {wanted - got}"
                f"{case.outline()}"
            )
    return {type(node) for node in nodes.walk(case.query.root)}


def _instants(case: Case, tdb: Tdb) -> list[int]:
    """Some near the times of rows, some where events start or end."""
    rng = random.Random(f"instants {case.seed}")
    times = [row[0] + d for rows in case.rows.values() for row in rows for d in (0, 1, 5)]
    times += [t for e in tdb.events for t in (e.vs, e.vs - 1, e.ve, e.ve - 1)]
    return rng.choices([t for t in times or [0] if t < INF - 1], k=INSTANTS)


# -- orders ---------------------------------------------------------------------------------------

TELLINGS = 3
"""Ways in which each case is told to each implementation."""


def check_orders(seed: int) -> None:
    """No order of arrival, no cut into batches and no implementation shows."""
    case = Case.draw(seed)
    tables = [
        Counter(run(Plan(case.query, how), case.told(n)).tdb.events)
        for n in range(TELLINGS)
        for how in IMPLEMENTATIONS[:3]
    ]
    assert all(table == tables[0] for table in tables), f"seed {seed}: {case.outline()}"


def check_late_rows(seed: int) -> int:
    """Rows beyond the bound are aside and counted, and the table is that of the others; how many
    were late.
    """
    case = Case.draw(seed)
    told, left, missed = _told_with_late_rows(case)
    running = run(case.plan(), told)
    aside = Counter[str]()
    for each in running.aside.take():
        if each.reason.startswith("late"):
            aside[each.where] += each.rows.num_rows
    for name, count in missed.items():
        assert running.intakes[name].late == count == aside[f"source {name}"], f"seed {seed}"
    unlike = Case(seed, case.query, left).difference(running.tdb.events)
    assert not unlike, unlike
    return sum(missed.values())


def _told_with_late_rows(case: Case) -> tuple[Told, dict[str, list[Row]], dict[str, int]]:
    """Rows in any order; those that are in time, and how many are not, by source."""
    rng = random.Random(f"late {case.seed}")
    streams, left, missed = [], {}, {}
    for name, source in case.query.sources.items():
        arrived = rng.sample(case.rows[name], len(case.rows[name]))
        beyond = late(arrived, 0, source.lateness)
        missed[name] = len(beyond)
        left[name] = list((Counter(arrived) - Counter(beyond)).elements())
        streams.append(tell(rng, name, arrived, 0, source.lateness))
    return interleave(rng, streams), left, missed


def check_merge(seed: int) -> CaseName | None:
    """Two runs that are told differently merge into the table, in the case that is chosen."""
    case = Case.draw(seed)
    merger, merged = _merged_runs(case)
    assert not merger.detached, f"seed {seed}: {merger.detached}: {case.outline()}"
    assert merger.divergences.count == 0, f"seed {seed}: {case.outline()}"
    assert merged.stable == INF, f"seed {seed}: {merger.waiting_for}"
    unlike = case.difference(merged.events)
    assert not unlike, unlike
    return merger.case


def _merged_runs(case: Case) -> tuple[LMerge, Tdb]:
    """Two runs, merged as their frames come."""
    rng = random.Random(f"merge {case.seed}")
    known = properties_of(case.query.root).merge
    merger = LMerge(case.query.schema, properties=[known, known])
    merged = Tdb(case.query.schema)
    runs = [Running(case.plan(n)) for n in range(2)]
    waiting = [[*case.told(n), None] for n in range(2)]
    numbers = [merger.attach(properties=known) for _ in runs]
    while any(waiting):
        n = rng.choice([i for i in range(2) if waiting[i]])
        said = len(runs[n].frames)
        item = waiting[n].pop(0)
        if item is None:
            runs[n].finish()
        else:
            runs[n].take(item)
        for frame in runs[n].frames[said:]:
            if numbers[n] not in merger.detached:
                merged.fold(merger.push(numbers[n], frame))
                merger.validate()
    return merger, merged


# -- going on, and skipping -----------------------------------------------------------------------


def check_restored(seed: int) -> None:
    """A graph restored from a snapshot puts out what the old one puts out from there on."""
    case = Case.draw(seed)
    told = case.told()
    moment = random.Random(f"moment {seed}").randint(0, len(told))
    old = Running(case.plan())
    for item in told[:moment]:
        old.take(item)
    state, so_far = old.graph.snapshot(), len(old.pushed)
    for item in told[moment:]:
        old.take(item)
    old.finish()
    new = Running(case.plan())
    new.graph.restore(stored(state))
    new.graph.validate()
    for frame in old.frames[:so_far]:
        new.tdb.fold(frame)
    for push, was in zip(old.pushed[so_far:], old.frames[so_far:], strict=True):
        assert _said(new.push(push)) == _said(was), f"seed {seed}: {case.outline()}"
    unlike = case.difference(new.tdb.events)
    assert not unlike, unlike


def _said(frame: Frame) -> tuple[list[str], int | None]:
    """What a frame says, whatever the order of its rows."""
    return sorted(map(format_element, frame.with_stable(None).elements())), frame.stable


def check_skipping(seed: int) -> None:
    """A fast-forward to t at any moment changes no event with `ve >= t`, and then the rows that end
    before what it answered are not missed.
    """
    case = Case.draw(seed)
    rng = random.Random(f"skip {seed}")
    told = case.told()
    running = Running(case.plan())
    moments = {rng.randint(0, len(told) // 2), rng.randint(0, len(told))}
    t = _a_time(rng, case)
    for at, item in enumerate(told):
        if at in moments:
            t = max(t, rng.choice((t, t, running.tdb.stable, _a_time(rng, case))))
            running.unwanted = running.graph.fast_forward(t)
            running.graph.validate()
        running.take(item)
    running.finish()
    unlike = case.difference(running.tdb.events, since=t)
    assert not unlike, unlike


def check_starting_late(seed: int) -> bool:
    """A start at t less reach gives every event with `ve >= t`; whether there is a reach."""
    case = Case.draw(seed, Taste(finite_reach=True))
    running = Running(case.plan())
    reach = running.graph.reach
    if max(reach.values()) == INF:
        return False
    rng = random.Random(f"start {seed}")
    t = _a_time(rng, case)
    running.unwanted = {name: max(BEGIN, t - reach[name]) for name in reach}
    if rng.random() < 0.5:
        running.graph.fast_forward(t)
    for item in case.told():
        running.take(item)
    running.finish()
    unlike = case.difference(running.tdb.events, since=t)
    assert not unlike, unlike
    return True


def _a_time(rng: random.Random, case: Case) -> int:
    """One that some event is alive at, or one near the times of rows, or beyond all of them."""
    events = case.oracle.table(case.query.root)
    if events and rng.random() < 0.7:
        e = rng.choice(events)
        return rng.randint(e.vs + 1, min(e.ve, e.vs + SPAN))
    times: list[int] = [row[0] for rows in case.rows.values() for row in rows] or [0]
    at: int = rng.choice((*times, max(times) + SPAN, INF))
    return at + rng.choice((0, -1, -5))


# -- what is derived ------------------------------------------------------------------------------


def check_claims(seed: int) -> None:
    """What is claimed of a stream is true of it."""
    case = Case.draw(seed)
    running = Running(case.plan())
    claimed = properties_of(case.query.root)
    for item in case.told():
        running.take(item)
        if claimed.key:
            assert _has_key(running.tdb), f"seed {seed}: no key: {case.outline()}"
    running.finish()
    false = _false_claims(claimed, running)
    assert not false, f"seed {seed}: {false}: {case.outline()}"
    assert claimed.reach == running.graph.reach, f"seed {seed}: {case.outline()}"


def _has_key(tdb: Tdb) -> bool:
    """Whether (vs, payload) tells events apart."""
    starts = Counter((e.vs, e.payload) for e in tdb.events)
    return all(n == 1 for n in starts.values())


def _false_claims(claimed: Properties, running: Running) -> list[str]:
    """The claims that a whole output does not bear out."""
    events = running.tdb.events
    starts = [int(t) for f in running.frames for t in f.inserts.vs]
    ends: dict[int, set[int]] = {}
    for e in events:
        ends.setdefault(e.vs, set()).add(e.ve)
    names = running.tdb.schema.names
    times = [t for e in events for t in (e.vs, e.ve)]
    times += [f.stable for f in running.frames if f.stable is not None]
    claims = {
        "insert_only": all(f.insert_only for f in running.frames),
        "ordered": starts == sorted(starts),
        "strictly_ordered": starts == sorted(set(starts)),
        "key": _has_key(running.tdb),
        "ve_of_vs": all(len(each) == 1 for each in ends.values()),
        "longest": all(min(e.ve - e.vs, INF) <= claimed.longest for e in events),
        "lasts": all(e.ve - e.vs == claimed.lasts for e in events if e.ve < INF),
        "starts": all(e.payload[names.index(n)] == e.vs for e in events for n in claimed.starts),
        "apart": not any(
            a.vs < b.ve and b.vs < a.ve and (a.vs, a.ve) != (b.vs, b.ve)
            for a, b in combinations(events, 2)
        ),
        "grain": all(t % claimed.grain == 0 for t in times if t != INF),
    }
    if claimed.unique is not None:
        at = [names.index(n) for n in claimed.unique]
        claims["unique"] = not any(
            a.vs < b.ve and b.vs < a.ve and all(a.payload[i] == b.payload[i] for i in at)
            for a, b in combinations(events, 2)
        )
    made = {name for name in claims if getattr(claimed, name) not in (None, False)}
    return [name for name in sorted(made) if not claims[name]]
