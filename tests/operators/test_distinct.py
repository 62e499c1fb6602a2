"""Distinct: each payload once, lifetimes as long as they can be, whatever the order."""

import random
from collections import Counter

import pytest

from gapless.kernels.keys import Ids
from gapless.operators.distinct import Distinct
from gapless.operators.open_pieces import OpenPieces
from gapless.operators.pieces import Lifetimes, Pieces, Rows, Spans
from gapless.protocol.elements import BEGIN, INF, Insert
from gapless.protocol.errors import DecodeError, GaplessError
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.text import DEFAULT_SCHEMA, format
from gapless.protocol.variants import random_tdb
from tests.effort import cases
from tests.operators.instants import (
    Alive,
    by_instant,
    frame_of,
    run,
    run_tight,
    run_with_snapshot,
    say,
    told,
)

PAYLOADS: list[tuple[object, ...]] = [("A",), ("B",), ("C",)]


def once_each(alive: list[Alive]) -> Alive:
    return Counter(dict.fromkeys(alive[0], 1))


def drawn(seed: int) -> tuple[random.Random, Tdb]:
    rng = random.Random(seed)
    return rng, random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS, 20, 50, duplicates=bool(seed % 3))


def test_the_example_of_the_header() -> None:
    distinct = Distinct(DEFAULT_SCHEMA)
    out = say(distinct, "ins(A,0,5) ins(A,3,9) ins(B,4,6) stable(7)")
    assert format(out) == "ins(A,0,9) ins(B,4,6) stable(7)"
    assert format(say(distinct, "ins(A,9,12) stable(20)")) == "adj(A,0,9,12) stable(20)"
    assert len(distinct) == 0


def test_any_telling_of_a_table_gives_the_set_at_each_instant_tightly() -> None:
    for seed in range(cases(60)):
        rng, tdb = drawn(seed)
        wanted = by_instant(once_each, [tdb], DEFAULT_SCHEMA)
        for variant in range(2):
            steps = told([tdb], rng, 10 * seed + variant)
            out = run_tight(Distinct(DEFAULT_SCHEMA), once_each, steps)
            assert out == wanted, f"seed {seed}\n{out.difference(wanted)}"
            assert out.stable == INF


def test_payload_and_start_are_a_key_of_what_comes_out() -> None:
    for seed in range(cases(20)):
        rng, tdb = drawn(seed)
        keys = [
            (e.payload, e.vs) for e in run(Distinct(DEFAULT_SCHEMA), told([tdb], rng, 0)).events
        ]
        assert len(set(keys)) == len(keys)


def test_what_is_distinct_already_comes_out_as_it_went_in() -> None:
    for seed in range(cases(20)):
        rng, tdb = drawn(seed)
        wanted = by_instant(once_each, [tdb], DEFAULT_SCHEMA)
        assert run(Distinct(DEFAULT_SCHEMA), told([wanted], rng, seed)) == wanted


def test_distinct_of_two_rows_is_the_same_before_and_after_a_join() -> None:
    """Its lifetimes are maximal, or these two would differ."""
    a = Tdb(DEFAULT_SCHEMA, [Event(("A",), 0, 6), Event(("A",), 4, 9)])
    b = Tdb(DEFAULT_SCHEMA, [Event(("A",), 2, 8)])

    def joined(x: Tdb, y: Tdb) -> Tdb:
        pairs = [(max(e.vs, f.vs), min(e.ve, f.ve)) for e in x.events for f in y.events]
        return Tdb(DEFAULT_SCHEMA, [Event(("A",), vs, ve) for vs, ve in pairs if vs < ve])

    def distinct(x: Tdb) -> Tdb:
        return run(Distinct(DEFAULT_SCHEMA), told([x], random.Random(0), 0))

    assert distinct(joined(a, b)) == joined(distinct(a), distinct(b))


def test_a_snapshot_at_any_frame_gives_the_same_output_from_then_on() -> None:
    for seed in range(cases(40)):
        rng, tdb = drawn(seed)
        steps = told([tdb], rng, seed)
        run_with_snapshot(lambda: Distinct(DEFAULT_SCHEMA), steps, rng.randint(0, len(steps)))


def test_a_snapshot_that_is_none_is_refused() -> None:
    distinct = Distinct(DEFAULT_SCHEMA)
    say(distinct, "ins(A,0,10) ins(B,5,15) stable(7)")
    state = dict(distinct.snapshot())
    for name, rows in state.items():
        without = {n: t for n, t in state.items() if n != name}
        for broken in (without, *[{**without, name: rows.slice(1)}] * (rows.num_rows > 0)):
            with pytest.raises(DecodeError):
                Distinct(DEFAULT_SCHEMA).restore(broken)


def test_a_mark_closes_its_payloads_and_goes_on() -> None:
    distinct = Distinct(DEFAULT_SCHEMA)
    say(distinct, "ins(A,0,10) ins(A,12,15) ins(B,5,15) stable(3)")
    mark = Punctuation.of({"p": "A"})
    out = distinct.push(0, frame_of(DEFAULT_SCHEMA, "ins(A,2,11)"), (mark,))
    assert format(out.frame.elements()) == "adj(A,0,10,11) ins(A,12,15)"
    assert out.marks == (mark,)
    assert len(distinct) == 1


def test_columns_of_every_layout_pass() -> None:
    schema = StreamSchema({"word": "string_view", "x": "float16"})
    distinct = Distinct(schema)
    assert format(
        say(distinct, "ins((x,-0.0),1,2) ins((a,nan),1,3) ins((x,0.0),2,4) stable(9)")
    ) == ("ins((a,nan),1,3) ins((x,0.0),1,4) stable(9)")


def test_state_goes_back_after_a_peak() -> None:
    distinct = Distinct(DEFAULT_SCHEMA)
    empty = distinct.nbytes
    many = " ".join(f"ins(payload{i},{i},{i + 2})" for i in range(5000))
    say(distinct, many)
    peak = distinct.nbytes
    assert len(say(distinct, "stable(9000)")) == 5001
    assert peak > 50 * empty
    assert distinct.nbytes < peak / 20


class PutsOutPieces(Distinct):
    """Broken: reports each piece alone, as they are no pieces of one payload."""

    def _answer(self, pieces: Pieces, spans: Spans) -> Rows:
        pieces.end = pieces.start + 1
        return super()._answer(pieces, spans)


class CountsEach(Distinct):
    """Broken: a multiset, not a set."""

    def _answer(self, pieces: Pieces, spans: Spans) -> Rows:
        rows = super()._answer(pieces, spans)
        return Rows(rows.piece, rows.payload, spans.covered(len(pieces))[rows.piece])


class StandByWhatTheySaid(OpenPieces):
    """Broken: what has been said beyond a stable stays said."""

    def take_back(self, groups: Ids, stable: int) -> Lifetimes:
        said = super().take_back(groups, stable)
        return Lifetimes(*(column[:0] for column in said))


class TakesNothingBack(Distinct):
    """Broken by its open pieces."""

    def __init__(self, schema: StreamSchema) -> None:
        super().__init__(schema)
        self._open = StandByWhatTheySaid(self._events.groups, self._payloads)


class Sleeps(Distinct):
    """Broken: looks at those groups only that have new rows."""

    def _due(self, stable: int) -> Ids:
        touched: Ids = (self._wake.values == BEGIN).nonzero()[0]
        return touched


@pytest.mark.parametrize("broken", [PutsOutPieces, CountsEach, TakesNothingBack, Sleeps])
def test_the_checks_of_this_file_catch_a_broken_one(broken: type[Distinct]) -> None:
    def caught(seed: int) -> bool:
        rng, tdb = drawn(seed)
        try:
            out = run_tight(broken(DEFAULT_SCHEMA), once_each, told([tdb], rng, seed))
            return out != by_instant(once_each, [tdb], DEFAULT_SCHEMA)
        except (GaplessError, AssertionError, ValueError):
            return True

    assert any(caught(seed) for seed in range(30))


def test_a_long_stream_of_touching_pieces_keeps_a_small_state() -> None:
    distinct = Distinct(DEFAULT_SCHEMA)
    started: list[Insert] = []
    sizes = set()
    for i in range(300):
        out = say(distinct, f"ins(A,{10 * i},{10 * i + 10}) stable({10 * i + 10})")
        started += [e for e in out if isinstance(e, Insert)]
        sizes.add(distinct.nbytes)
    assert started == [Insert(("A",), 0, 10)]
    assert max(sizes) <= 1.5 * min(sizes)
