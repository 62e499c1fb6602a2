"""LatestBy: a row lives until the next row of its key, whatever order they come in."""

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gapless as gl
from gapless.engine.plan import Plan
from gapless.kernels import columns
from gapless.kernels.keys import Ids
from gapless.operators import latest as module
from gapless.operators.latest import LatestBy
from gapless.operators.operator import Operator
from gapless.operators.state import read_facts
from gapless.protocol import frame as frames
from gapless.protocol.elements import BEGIN, INF, Insert, Stable
from gapless.protocol.errors import DecodeError, GaplessError, Misuse, SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.text import format, parse
from gapless.protocol.variants import random_tdb
from tests.operators import laws

SCHEMA = StreamSchema({"host": "string", "load": "int32"})
ROWS: list[tuple[object, ...]] = [(h, n) for h in ("A", "B", None) for n in (1, 2, None)]


def latest(tdb: Tdb) -> Tdb:
    """The oracle: for each key its times in order, at each the largest payload, null last."""
    chains: dict[object, dict[int, object]] = {}
    for (host, load), vs, _ in tdb.events:
        times = chains.setdefault(host, {})
        here = times.get(vs, load)
        times[vs] = None if None in (here, load) else max(here, load)
    events = []
    for host, times in chains.items():
        starts = sorted(times)
        for vs, ve in zip(starts, [*starts[1:], INF], strict=True):
            events.append(Event((host, times[vs]), vs, ve))
    return Tdb(SCHEMA, events)


def drawn(seed: int) -> tuple[random.Random, Tdb]:
    rng = random.Random(seed)
    return rng, random_tdb(rng, SCHEMA, ROWS, 40, 50, duplicates=bool(seed % 2))


def make() -> LatestBy:
    return LatestBy(SCHEMA, ["host"])


def say(operator: Operator, text: str) -> str:
    frame = Frame.from_elements(SCHEMA, parse(text, SCHEMA))
    return format(operator.push(0, frame).frame.elements())


def test_the_example_of_the_header() -> None:
    by_host = make()
    assert say(by_host, "ins((A,1),1,2)") == "ins((A,1),1,inf)"
    assert say(by_host, "ins((A,2),9,10)") == "adj((A,1),1,inf,9) ins((A,2),9,inf)"
    assert say(by_host, "ins((A,3),5,6)") == "adj((A,1),1,9,5) ins((A,3),5,9)"


def test_of_rows_at_one_time_the_largest_is_there() -> None:
    by_host = make()
    assert say(by_host, "ins((A,2),1,2) ins((A,1),1,2)") == "ins((A,2),1,inf)"
    assert say(by_host, "ins((A,2),1,2) ins((A,1),1,3)") == ""
    assert say(by_host, "ins((A,7),1,2) ins((A,1),8,9)") == (
        "adj((A,2),1,inf,1) ins((A,7),1,8) ins((A,1),8,inf)"
    )
    assert say(by_host, "ins((A,null),8,9)") == "adj((A,1),8,inf,8) ins((A,null),8,inf)"


def test_whatever_the_order_and_the_cut_the_same_table_comes_out_at_each_prefix() -> None:
    for seed in range(60):
        rng, tdb = drawn(seed)
        told = [(0, f) for f in laws.tellings(tdb, seed, inserts=True)]
        for cut in (told, laws.recut(rng, told)):
            by_host, said, out = make(), Tdb(SCHEMA), Tdb(SCHEMA)
            for _, frame in cut:
                said.fold(frame)
                laws.follow(by_host, out, 0, frame)
                assert out == latest(said), f"seed {seed}\n{out.difference(latest(said))}"
                assert out.stable == said.stable
            assert len(by_host) == 0
        laws.holds_that_a_restored_one_goes_on_the_same(make, told, rng.randrange(len(told)))


def test_payload_and_start_are_a_key_of_what_comes_out() -> None:
    for seed in range(30):
        _, tdb = drawn(seed)
        starts = [(e.payload[0], e.vs) for e in latest(tdb).events]
        assert len(set(starts)) == len(starts)
        told = [(0, f) for f in laws.tellings(tdb, seed, inserts=True)]
        assert laws.runs(make(), told) == latest(tdb)


def test_it_asks_nothing_of_its_input() -> None:
    for seed in range(20):
        rng, tdb = drawn(seed)
        told = [(0, f) for f in laws.tellings(tdb, seed, inserts=True)]
        laws.holds_that_fast_forward_spares_only_what_ends_before(make, told, latest(tdb), rng)
    assert make().fast_forward(7) == BEGIN
    assert make().reach == INF


def test_no_later_stable_than_the_inputs_would_be_true() -> None:
    by_host, out = make(), Tdb(SCHEMA)
    frame = Frame.from_elements(SCHEMA, parse("ins((A,1),1,2) stable(7)", SCHEMA))
    laws.follow(by_host, out, 0, frame)
    assert out.stable == 7
    late = Frame.from_elements(SCHEMA, parse("ins((A,1),7,8)", SCHEMA))
    adjust = by_host.push(0, late).frame.elements()[0]
    assert format([adjust]) == "adj((A,1),1,inf,7)"  # breaks stable(8)


def test_the_last_of_each_key_is_all_that_stays() -> None:
    by_host = make()
    sizes = []
    for i in range(150):
        rows = [Insert((f"host {n}", i), 10 * i + n, 10 * i + n + 1) for n in range(8)]
        frame = Frame.from_elements(SCHEMA, [*rows, Stable(10 * i + 10)])
        by_host.push(0, frame)
        assert len(by_host) == 8
        sizes.append(by_host.nbytes)
    assert max(sizes[20:]) < 1.1 * sizes[20]


def test_an_adjust_is_refused_and_so_is_a_key_that_is_not_there() -> None:
    with pytest.raises(Misuse, match="settled"):
        say(make(), "ins((A,1),1,2) adj((A,1),1,2,3)")
    with pytest.raises(SchemaError, match="'port'"):
        LatestBy(SCHEMA, ["port"])
    with pytest.raises(Misuse):
        LatestBy(SCHEMA, [])


def test_only_marks_on_the_key_pass_for_a_row_moves_the_end_of_the_one_before() -> None:
    marks = (Punctuation.of({"host": "A"}), Punctuation.of(load=4), Punctuation.of(_vs=4))
    assert make().push(0, Frame.empty(SCHEMA), marks).marks == marks[:1]


@pytest.mark.parametrize("text", ["ins((A,1),1,9)", "ins((A,1),1,inf) ins((A,2),5,inf)"])
def test_a_snapshot_that_is_none_is_refused(text: str) -> None:
    state = dict(make().snapshot())
    state["events"] = Frame.from_elements(SCHEMA, parse(text, SCHEMA)).batch
    with pytest.raises(DecodeError):
        make().restore(state)


def is_state(events: list[Event], stable: int) -> bool:
    """The oracle: of each key, each ends where the next one starts, after the stable, and the last
    one never.
    """
    chains: dict[object, list[Event]] = {}
    for event in events:
        chains.setdefault(event.payload[0], []).append(event)
    for chain in chains.values():
        chain.sort(key=lambda event: event.vs)
        nexts = [*(event.vs for event in chain[1:]), INF]
        if [event.ve for event in chain] != nexts or min(nexts) < stable:
            return False
    return True


def test_restore_alone_refuses_what_it_cannot_have_had() -> None:
    taken, refused = 0, 0
    for seed in range(150):
        rng = random.Random(seed)
        by_host = make()
        for frame in laws.tellings(drawn(seed)[1], seed, inserts=True)[: rng.randint(1, 4)]:
            by_host.push(0, frame)
        state = dict(by_host.snapshot())
        held = Tdb(SCHEMA)
        held.fold(Frame(state["events"]))
        events = held.events
        for _ in range(rng.randrange(3)):  # as if somebody had changed a cell, or lost a row
            if not events:
                break
            at = rng.randrange(len(events))
            odd = events.pop(at)
            if rng.random() < 0.7:
                ve = rng.choice([INF, odd.vs + 1, *(e.vs for e in events if e.vs > odd.vs)])
                events.append(Event(rng.choice([odd.payload, ("A", 1)]), odd.vs, ve))
        state["events"] = Tdb(SCHEMA, events).to_frame().batch
        (stable,) = read_facts(state, "stable")
        again = make()
        if is_state(events, stable):
            again.restore(state)
            again.validate()
            taken += 1
        else:
            with pytest.raises(DecodeError):
                again.restore(state)
            refused += 1
    assert taken > 30
    assert refused > 30


def test_what_restore_has_checked_is_not_validated_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = gl.source("rows", {"at": "int64", "host": "string"}, time="at").latest_by("host")
    state = Plan(plan, "paned").compile().snapshot()
    validated: list[type] = []
    monkeypatch.setattr(LatestBy, "validate", lambda self: validated.append(type(self)))
    monkeypatch.setattr(frames, "CHECKS_MADE", False)
    Plan(plan, "paned").compile().restore(state)
    assert not validated
    monkeypatch.setattr(LatestBy, "restores_checked", False)
    Plan(plan, "paned").compile().restore(state)
    assert validated == [LatestBy]


def test_the_columns_of_a_snapshot_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, step = 2_048, 32
    monkeypatch.setattr(module, "RESTORE_ROWS", step)
    by_host = make()
    say(by_host, " ".join(f"ins((k{n},1),1,2)" for n in range(rows)))
    state, again, made = by_host.snapshot(), make(), []

    def counted(room: int, *of: Any) -> Any:
        made.append(room)
        return np.full(room, *of) if len(of) > 1 else np.empty(room, *of)

    counting = SimpleNamespace(full=counted, empty=counted, int64=np.int64)
    monkeypatch.setattr(columns, "np", counting)
    again.restore(state)
    assert made.count(rows * 5 // 4) == 4
    steps = len(made)
    made.clear()
    for column in (again._key, again._vs, again._ve, again._payload):
        column.fit(1)  # nothing is reserved any more
    assert made == [columns.ROOM_MIN] * 4
    assert steps < 60, "two others grow step by step"


def test_a_snapshot_is_taken_back_a_few_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RESTORE_ROWS", 2)
    for seed in range(10):
        rng, tdb = drawn(seed)
        told = [(0, f) for f in laws.tellings(tdb, seed, inserts=True)]
        laws.holds_that_a_restored_one_goes_on_the_same(make, told, rng.randrange(len(told)))


class KeepsTies(LatestBy):
    """Broken: the first row of a time stays."""

    def _largest(self, payload, group, at):  # type: ignore[no-untyped-def]  # as in LatestBy
        return payload[at]


class ForgetsTheLast(LatestBy):
    """Broken: takes what started below the stable for settled."""

    def _settle(self, t: int) -> None:
        self._ve.values[(self._vs.values < t).nonzero()[0]] = BEGIN
        super()._settle(t)


@pytest.mark.parametrize("broken", [KeepsTies, ForgetsTheLast])
def test_the_checks_of_this_file_catch_a_broken_one(broken: type[LatestBy]) -> None:
    def caught(seed: int) -> bool:
        _, tdb = drawn(seed)
        told = [(0, f) for f in laws.tellings(tdb, seed, inserts=True)]
        try:
            return laws.runs(broken(SCHEMA, ["host"]), told) != latest(tdb)
        except (GaplessError, AssertionError):
            return True

    assert any(map(caught, range(10)))


class Looked(np.ndarray[tuple[int, ...], np.dtype[np.int64]]):
    """An array that counts what is computed over it."""

    count = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **how: Any) -> Any:
        plain = [np.asarray(x) if isinstance(x, np.ndarray) else x for x in inputs]
        Looked.count += max(np.size(x) for x in plain)
        return getattr(ufunc, method)(*plain, **how)


class LooksAtAll(LatestBy):
    """Looks for what is settled among all that it holds."""

    def _settled(self, t: int) -> Ids:
        return ((self._key.values >= 0) & (self._ve.values <= t)).nonzero()[0]


def looked_at(by_host: LatestBy) -> int:
    """What ten stables, with an update each, look at where a thousand keys live."""
    keys = " ".join(f"ins((k{i},1),1,2)" for i in range(1000))
    say(by_host, f"{keys} stable(2)")
    for column in (by_host._key, by_host._ve):
        column.values = column.values.view(Looked)
    Looked.count = 0
    for t in range(2, 12):
        say(by_host, f"ins((k{t},2),{t},{t + 1}) stable({t + 1})")
    return Looked.count


def test_a_stable_looks_at_what_it_settles_and_not_at_all_that_lives() -> None:
    assert looked_at(make()) < 1000
    assert looked_at(LooksAtAll(SCHEMA, ["host"])) > 10_000


def test_a_row_costs_as_much_on_a_long_chain_as_on_a_short_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of one key, without a stable, in any order: what is sorted for a frame does not grow."""
    by_host, sizes = make(), []
    lexsort = np.lexsort

    def counted(keys: Any) -> Any:
        sizes.append(len(keys[0]))
        return lexsort(keys)

    monkeypatch.setattr(np, "lexsort", counted)
    rng, frames, size = random.Random(7), 64, 32
    times = rng.sample(range(10**6), frames * size)
    sorted_for = []
    for start in range(0, len(times), size):
        sizes.clear()
        say(by_host, " ".join(f"ins((A,{t}),{t},{t + 1})" for t in times[start : start + size]))
        sorted_for.append(sum(sizes))
    assert len(by_host) == frames * size
    # Each entry is merged with others a logarithmic number of times; else the last frame alone
    # sorts all the rows before it.
    assert sum(sorted_for) < 12 * len(times)
    assert sorted(sorted_for)[frames // 2] < 8 * size


def test_events_are_taken_back_without_being_sorted_unless_their_key_has_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_host = make()
    say(by_host, " ".join(f"ins((k{i},1),1,2)" for i in range(500)) + " ins((k7,2),5,6)")
    state, sizes = by_host.snapshot(), []
    lexsort = np.lexsort

    def counted(keys: Any) -> Any:
        sizes.append(len(keys[0]))
        return lexsort(keys)

    monkeypatch.setattr(np, "lexsort", counted)
    again = make()
    again.restore(state)
    assert sorted(sizes) == [1, 2]  # k7 alone has two, of which one has an end
    again.validate()
    assert say(again, "ins((k7,3),3,4) stable(6)") == say(by_host, "ins((k7,3),3,4) stable(6)")
