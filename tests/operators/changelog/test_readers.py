"""Differential: each reader against its slow twin, on logs with sense and nonsense in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gapless.kernels.keys import Ids, Mask
from gapless.operators.changelog import OpenClose, Retractions, Revisions, Upserts
from gapless.operators.changelog import revisions as revisions_module
from gapless.operators.changelog.log import Log
from gapless.protocol.changelog import Changes
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import DecodeError, MemoryLimit, Misuse, SchemaError
from gapless.protocol.frame import Times
from gapless.protocol.schema import StreamSchema
from tests.operators.changelog.logs import (
    ROWS,
    SCHEMA,
    Batch,
    agree,
    batches,
    changes,
    goes_on_the_same,
    in_order,
    plain_changes,
    timed,
    times,
)
from tests.operators.changelog.twins import (
    TwinOpenClose,
    TwinRetractions,
    TwinRevisions,
    TwinUpserts,
)


def upserts(**settings: Any) -> Upserts:
    return Upserts(SCHEMA, ["k"], **settings)


def retractions() -> Retractions:
    return Retractions(SCHEMA)


def open_close() -> OpenClose:
    return OpenClose(SCHEMA)


def absent_ignored() -> TwinUpserts:
    twin = TwinUpserts(SCHEMA, "move")
    twin.absent = "ignore"
    return twin


def opened() -> st.SearchStrategy[Any]:
    return st.tuples(st.sampled_from(["+I", "-D"]), times(), st.sampled_from(ROWS[:2]))


def lifetimes() -> st.SearchStrategy[Any]:
    """Their ends are lengths, until they are `lives`."""
    kinds = st.sampled_from(["+I", "+U", "-U", "-D"])
    return st.tuples(kinds, times(), st.sampled_from([1, 2, 4, INF]), st.sampled_from(ROWS[:2]))


class OfLengths(TwinRevisions):
    """Takes lengths for ends."""

    def push(self, batch: list[Any], watermark: int | None = None) -> None:
        super().push(lives(batch), watermark)


def lives(said: list[Any]) -> list[Any]:
    return [(kind, vs, min(INF, vs + length), row) for kind, vs, length, row in said]


def of_lengths(said: list[Any]) -> Changes:
    return timed(lives(said))


RETRACTED = batches(plain_changes(), TwinRetractions(SCHEMA))
MOVED = batches(plain_changes(), TwinRetractions(SCHEMA, "move"))
UPSERTED = batches(plain_changes(), TwinUpserts(SCHEMA))
MISSED = batches(plain_changes(), absent_ignored())
OPENED = batches(opened(), TwinOpenClose(SCHEMA))
REVISED = batches(lifetimes(), OfLengths(SCHEMA))


# -- the twins agree ------------------------------------------------------------------------------


@given(RETRACTED)
def test_retractions_are_what_their_twin_says(told: list[Batch]) -> None:
    agree(Retractions(SCHEMA), TwinRetractions(SCHEMA), told)


@given(in_order())
def test_retractions_in_order_are_what_their_twin_says(told: list[Batch]) -> None:
    agree(Retractions(SCHEMA), TwinRetractions(SCHEMA), told)


@given(MOVED)
def test_late_ones_count_from_the_stable_on_where_that_is_asked_for(told: list[Batch]) -> None:
    agree(Retractions(SCHEMA, late="move"), TwinRetractions(SCHEMA, "move"), told)


@given(UPSERTED)
def test_upserts_are_what_their_twin_says(told: list[Batch]) -> None:
    agree(upserts(), TwinUpserts(SCHEMA), told)


@given(MISSED)
def test_upserts_whose_deletes_may_miss_are_what_their_twin_says(told: list[Batch]) -> None:
    agree(upserts(absent="ignore", late="move"), absent_ignored(), told)


@given(OPENED)
def test_opens_and_closes_are_what_their_twin_says(told: list[Batch]) -> None:
    agree(OpenClose(SCHEMA), TwinOpenClose(SCHEMA), told)


@given(REVISED)
def test_revisions_are_what_their_twin_says(told: list[Batch]) -> None:
    agree(Revisions(SCHEMA), OfLengths(SCHEMA), told, of_lengths)


# -- snapshots ------------------------------------------------------------------------------------


@given(RETRACTED, UPSERTED, st.integers(0, 9))
def test_restored_readers_go_on_the_same(
    retracted: list[Batch], upserted: list[Batch], at: int
) -> None:
    goes_on_the_same(retractions, retracted, at)
    goes_on_the_same(upserts, upserted, at)


@given(OPENED, REVISED, st.integers(0, 9))
def test_so_do_those_of_opens_and_of_lifetimes(
    opened: list[Batch], revised: list[Batch], at: int
) -> None:
    goes_on_the_same(open_close, opened, at)
    goes_on_the_same(lambda: Revisions(SCHEMA), revised, at, of_lengths)


@pytest.mark.parametrize("make", [retractions, upserts, open_close])
def test_the_state_of_another_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(DecodeError):
        make().restore(Revisions(SCHEMA).snapshot())


def test_a_snapshot_whose_events_overlap_is_refused() -> None:
    reader = OpenClose(SCHEMA)
    reader.push(changes([("+I", 1, ("A", 1)), ("-D", 3, ("A", 1)), ("+I", 5, ("A", 1))]))
    state = dict(reader.snapshot())
    events = state["events"]
    ends = events.column(1).to_numpy().copy()
    ends[:] = INF
    state["events"] = events.set_column(1, events.schema.field(1), ends)
    with pytest.raises(DecodeError, match="overlap"):
        OpenClose(SCHEMA).restore(state)


# -- what is kept ---------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [retractions, upserts, open_close])
def test_what_is_kept_are_the_rows_that_live(make: Callable[[], Any]) -> None:
    reader, sizes = make(), []
    reader.push(changes([("+I", 0, ("old", 0))]), 0)
    for t in range(1, 600):
        said = [("+I", 10 * t, (f"new {t}", t)), ("-D", 10 * t + 5, (f"new {t}", t))]
        reader.push(changes(said), 10 * t + 8)
        assert len(reader) == 1
        sizes.append(reader.nbytes)
    assert max(sizes[100:]) <= 1.1 * max(sizes[:100])
    reader.push(changes([]), INF)
    assert len(reader) == 0


def test_revisions_keep_what_is_not_settled() -> None:
    reader = Revisions(SCHEMA)
    for t in range(600):
        reader.push(timed([("+I", t, t + 2, (f"new {t}", t))]), t)
        assert len(reader) <= 3
    assert reader.nbytes < 50_000


def test_a_reader_without_watermarks_stops_before_it_has_taken_all_memory() -> None:
    for reader in (Retractions(SCHEMA, live_max=5), upserts(live_max=5)):
        reader.push(changes([("+I", 1, ("A", 1)), ("+I", 1, ("B", 1))]))
        with pytest.raises(MemoryLimit, match="live_max 5"):
            reader.push(changes([("+I", t, ("A", 2)) for t in range(2, 6)]))
        reader.push(changes([("+I", 2, ("A", 2))]))
        reader.validate()


# -- misuse ---------------------------------------------------------------------------------------


def test_times_at_the_edges_of_int64_are_in_order_too() -> None:
    told: list[Batch] = [
        ([("+I", BEGIN + 1, ("A", 1)), ("+I", INF - 1, ("A", 2)), ("+I", 0, ("B", 1))], BEGIN + 1),
        ([("+U", 5, ("A", 3)), ("-D", INF - 1, ("B", 1))], 6),
    ]
    agree(upserts(), TwinUpserts(SCHEMA), told)
    told[1] = ([("-D", 5, ("A", 1)), ("-D", INF - 1, ("B", 1))], 6)
    agree(retractions(), TwinRetractions(SCHEMA), told)


def test_what_does_not_fit_is_the_callers_mistake() -> None:
    other = StreamSchema({"k": "string"})
    with pytest.raises(SchemaError):
        Retractions(other).push(changes([]))
    with pytest.raises(Misuse, match="Revisions"):
        Retractions(SCHEMA).push(timed([]))
    with pytest.raises(Misuse, match="ends"):
        Revisions(SCHEMA).push(changes([]))
    with pytest.raises(SchemaError, match="'x'"):
        Upserts(SCHEMA, ["x"])
    for key in ("k", ()):
        with pytest.raises(Misuse, match="list"):
            Upserts(SCHEMA, key)
    with pytest.raises(Misuse, match="absent"):
        Upserts(SCHEMA, ["k"], absent="what")
    with pytest.raises(Misuse, match="late"):
        Retractions(SCHEMA, late="what")  # type: ignore[arg-type]  # the mistake
    with pytest.raises(Misuse, match="live_max"):
        Retractions(SCHEMA, live_max=0)


# -- planted faults -------------------------------------------------------------------------------


class TakesAnyNextForPlain(Retractions):
    """Broken: looks whether a payload comes or goes in turn, and not when."""

    def _are_plain(self, payload: Ids, time: Times, plus: Mask, first: Mask) -> Mask:
        is_open = self._open.values[payload] < INF
        is_open[1:] = np.where(first[1:], is_open[1:], plus[:-1])
        plain: Mask = (plus != is_open) & (self._tangled.values[payload] == 0)
        return plain


class ForgetsTooEarly(Upserts):
    """Broken: takes the version before one at the stable for settled."""

    def _settle(self, t: int) -> None:
        super()._settle(t + 1 if BEGIN < t < INF else t)


class LooksInTheLogNever(Upserts):
    """Broken: knows the last entry of each key alone."""

    def _held(self, keys: Ids, times: Times) -> Any:
        log, self._before = self._before, Log(5)
        try:
            return super()._held(keys, times)
        finally:
            self._before = log


class ClosesTheFirst(OpenClose):
    """Broken: a close is about the first event of its payload."""

    def _closed(self, changes: Any, payloads: Ids, closes: Ids, payload: Ids, vs: Times) -> Ids:
        super()._closed(changes, payloads, closes, payload, vs)
        return np.array([int((payload == who).argmax()) for who in payloads[closes]], np.int64)


class NetsNothing(Revisions):
    """Broken: what was there is removed, what is there is inserted."""


def _not_netted(_: Ids, vs: Times, ve: Times, plus: Mask) -> tuple[Ids, Times, Times]:
    row = np.concatenate([(~plus).nonzero()[0], plus.nonzero()[0]])
    was = np.where(plus[row], BEGIN, ve[row])
    return row, was, np.where(plus[row], ve[row], vs[row])


FAULTS: dict[str, tuple[Any, Any, Any, Any]] = {
    "times": (lambda: TakesAnyNextForPlain(SCHEMA), TwinRetractions, RETRACTED, changes),
    "settling": (lambda: ForgetsTooEarly(SCHEMA, ["k"]), TwinUpserts, UPSERTED, changes),
    "log": (lambda: LooksInTheLogNever(SCHEMA, ["k"]), TwinUpserts, UPSERTED, changes),
    "closes": (lambda: ClosesTheFirst(SCHEMA), TwinOpenClose, OPENED, changes),
    "netting": (lambda: NetsNothing(SCHEMA), OfLengths, REVISED, of_lengths),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, twin, logs, to_changes = FAULTS[fault]
    if fault == "netting":
        monkeypatch.setattr(revisions_module, "_netted", _not_netted)

    @settings(phases=[Phase.generate])  # that it is found is all: none is made smaller
    @given(logs)
    def holds(told: list[Batch]) -> None:
        agree(make(), twin(SCHEMA), told, to_changes)

    with pytest.raises(Exception):  # noqa: B017, PT011  # a difference, a Bug, an illegal stream
        holds()
