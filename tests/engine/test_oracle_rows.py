"""Oracle: the table of a query is what docs/engine.md says, computed row by row from the whole."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations

from gapless.engine import nodes
from gapless.engine.known import Properties
from gapless.engine.properties import properties_of
from gapless.protocol.elements import INF
from gapless.protocol.tdb import Tdb
from tests.engine.oracles.aggregate_oracle import near
from tests.engine.oracles.cases import Case, seeds
from tests.engine.oracles.random_queries import random_inexact_query
from tests.engine.oracles.random_streams import Told, interleave, late, random_rows, tell
from tests.engine.oracles.running import Running, run


def test_a_table_is_what_its_definition_says() -> None:
    for seed in seeds(600):
        assert wrong_table(seed) == ""


def wrong_table(seed: int) -> str:
    """What is wrong with the table of a seed. Raises where the output breaks its own promises."""
    case = Case.draw(seed)
    running = run(case.plan(), case.told())
    assert running.tdb.stable == INF, f"seed {seed}: the end was not promised"
    return case.difference(running.tdb.events)


def test_sketches_and_sums_of_floats_are_as_near_as_they_say() -> None:
    for seed in seeds(60):
        rng = random.Random(f"inexact {seed}")
        query = random_inexact_query(rng)
        [source] = query.sources.values()
        case = Case(seed, query, {source.name: random_rows(rng, source.schema, "ts", 40)})
        got = run(case.plan(), case.told()).tdb.events
        node = query.root
        assert isinstance(node, nodes.Aggregate)
        groups = len(node.group_by)
        exact = {
            (e.vs, e.ve, e.payload[:groups]): e.payload[groups:] for e in case.oracle.table(node)
        }
        assert {(e.vs, e.ve, e.payload[:groups]) for e in got} == exact.keys(), f"seed {seed}"
        for e in got:
            wanted = exact[e.vs, e.ve, e.payload[:groups]]
            for (_, f), a, b in zip(node.aggregates, e.payload[groups:], wanted, strict=True):
                assert near(f, a, b), f"seed {seed}: {f} of {e}: exact is {b}"


# -- rows that come too late ----------------------------------------------------------------------


def test_rows_beyond_the_bound_are_aside_and_counted_and_the_table_is_that_of_the_others() -> None:
    late_ones = 0
    for seed in seeds(150, start=40_000):
        case = Case.draw(seed)
        told, left, missed = told_with_late_rows(case)
        running = run(case.plan(), told)
        aside = Counter[str]()
        for each in running.aside.take():
            if each.reason.startswith("late"):
                aside[each.where] += each.rows.num_rows
        for name, count in missed.items():
            late_ones += count
            assert running.intakes[name].late == count == aside[f"source {name}"], f"seed {seed}"
        assert Case(seed, case.query, left).difference(running.tdb.events) == ""
    assert late_ones > 500


def told_with_late_rows(
    case: Case,
) -> tuple[Told, dict[str, list[tuple[object, ...]]], dict[str, int]]:
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


# -- what plans derive ----------------------------------------------------------------------------


def test_what_is_claimed_of_a_stream_is_true_of_it() -> None:
    for seed in seeds(200, start=50_000):
        case = Case.draw(seed)
        running = Running(case.plan())
        claimed = properties_of(case.query.root)
        for item in case.told():
            running.take(item)
            if claimed.key:
                assert has_key(running.tdb), f"seed {seed}: {case.outline()}"
        running.finish()
        false = false_claims(claimed, running)
        assert not false, f"seed {seed}: {false}: {case.outline()}"
        assert claimed.reach == running.graph.reach, f"seed {seed}: {case.outline()}"


def has_key(tdb: Tdb) -> bool:
    """Whether (vs, payload) tells events apart."""
    starts = Counter((e.vs, e.payload) for e in tdb.events)
    return all(n == 1 for n in starts.values())


def false_claims(claimed: Properties, running: Running) -> list[str]:
    """The claims that a whole output does not bear out."""
    events = running.tdb.events
    starts = [int(t) for f in running.frames for t in f.inserts.vs]
    ends: dict[int, set[int]] = {}
    for e in events:
        ends.setdefault(e.vs, set()).add(e.ve)
    stables = [f.stable for f in running.frames if f.stable not in (None, INF)]
    names = running.tdb.schema.names
    times = [t for e in events for t in (e.vs, e.ve) if t != INF]
    claims = {
        "insert_only": all(f.insert_only for f in running.frames),
        "ordered": starts == sorted(starts),
        "strictly_ordered": starts == sorted(set(starts)),
        "key": has_key(running.tdb),
        "ve_of_vs": all(len(each) == 1 for each in ends.values()),
        "longest": all(min(e.ve - e.vs, INF) <= claimed.longest for e in events),
        "lasts": all(e.ve - e.vs == claimed.lasts for e in events if e.ve < INF),
        "starts": all(e.payload[names.index(n)] == e.vs for e in events for n in claimed.starts),
        "grain": all(t % claimed.grain == 0 for t in (*times, *stables) if t is not None),
    }
    if claimed.unique is not None:
        at = [names.index(n) for n in claimed.unique]
        claims["unique"] = not any(
            a.vs < b.ve and b.vs < a.ve and all(a.payload[i] == b.payload[i] for i in at)
            for a, b in combinations(events, 2)
        )
    made = {name for name in claims if getattr(claimed, name) not in (None, False)}
    return [name for name in sorted(made) if not claims[name]]
