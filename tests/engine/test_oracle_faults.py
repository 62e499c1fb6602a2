"""Every oracle can fail: operators that are broken on purpose are caught, each by its check.

A fault is what an engineer gets wrong: a boundary, a row let go of one tick early, a pane that is
not subtracted, a promise that comes too soon, a part of the state that is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gapless.engine import compile as compiling
from gapless.engine import known, nodes, plain_operators, properties, verdicts
from gapless.merge.choose import StreamProperties
from gapless.operators import (
    hopping_aggregate,
    join,
    latest,
    meld,
    normalise,
    per_snapshot,
    rank_order,
    session_state,
    settle,
    top_k,
    windows,
)
from gapless.operators.aggregates import parts
from gapless.protocol.errors import GaplessError
from gapless.protocol.frame import Frame
from tests.engine.oracles.checks import (
    Check,
    check_claims,
    check_inexact_answers,
    check_late_rows,
    check_merge,
    check_orders,
    check_restored,
    check_skipping,
    check_snapshots,
    check_starting_late,
    check_table,
)
from tests.engine.oracles.cuts import check_cuts
from tests.engine.oracles.sql_text import CannotSay

SEEDS_MAX = 400
"""Cases after which a fault counts as missed; the tests of the oracles take about as many."""

SEEN_AT = {
    "a_row_at_the_end_of_its_last_window_is_left_out": 199,
    "only_one_implementation_leaves_it_out": 66,
    "a_row_lives_one_tick_longer_than_its_window": 30,
    "windows_are_answered_one_slide_too_soon": 17,
    "answers_are_promised_one_slide_too_soon": 17,
    "a_row_that_comes_exactly_the_gap_after_another_begins_a_session": 30,
    "a_session_ends_although_the_open_pane_goes_on_with_it": 51,
    "panes_that_leave_are_not_subtracted": 119,
    "a_join_lets_go_of_rows_one_tick_early": 111,
    "top_k_takes_one_row_too_many": 25,
    "top_k_breaks_ties_by_arrival": 66,
    "distinct_passes_its_input_on": 57,
    "an_end_that_moves_is_lost": 93,
    "the_latest_row_is_the_one_that_came_last": 135,
    "events_that_may_go_again_are_taken_for_settled": 127,
    "k_late_looks_back_one_row_less": 28,
    "one_window_too_many_is_skipped": 29,
    "what_holds_at_an_instant_is_asked_to_begin_at_any": 176,
    "a_window_reaches_no_further_than_its_range": 99,
    "what_is_held_back_is_not_in_the_snapshot": 80,
    "a_union_that_is_taken_up_has_heard_nothing": 309,
    "an_instant_is_answered_when_a_frame_ends_whatever_was_promised": 12,
}
"""A case that shows the fault today, where the search begins: a stale one costs time only."""

Patch = pytest.MonkeyPatch
FAULTS: list[tuple[Check, Callable[[Patch], None]]] = []


def caught_by(check: Check) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Registers a fault with the check that is to see it."""

    def register(fault: Callable[[Patch], None]) -> Callable[[Patch], None]:
        FAULTS.append((check, fault))
        return fault

    return register


def wrap(patch: Patch, owner: Any, name: str, change: Callable[..., Any]) -> None:
    """Replaces a method: `change` gets the old one, then its arguments."""
    old = getattr(owner, name)
    patch.setattr(owner, name, lambda *args, **kwargs: change(old, *args, **kwargs))


# -- boundaries -----------------------------------------------------------------------------------


@caught_by(check_table)
def a_row_at_the_end_of_its_last_window_is_left_out(patch: Patch) -> None:
    wrap(patch, windows.Hopping, "last", lambda old, w, ts: old(w, ts - 1))


@caught_by(check_orders)
def only_one_implementation_leaves_it_out(patch: Patch) -> None:
    wrap(patch, windows.Hopping, "last", lambda old, w, ts: old(w, ts - 1))


@caught_by(check_snapshots)
def a_row_lives_one_tick_longer_than_its_window(patch: Patch) -> None:
    def lifetimes(old: Any, w: Any, ts: Any) -> Any:
        vs, ve = old(w, ts)
        return vs, ve + 1

    wrap(patch, windows.Sliding, "lifetimes", lifetimes)


@caught_by(check_table)
def windows_are_answered_one_slide_too_soon(patch: Patch) -> None:
    wrap(patch, windows.Hopping, "complete_below", lambda old, w, t: old(w, t) + (t < 2**62))


@caught_by(check_table)
def answers_are_promised_one_slide_too_soon(patch: Patch) -> None:
    wrap(
        patch,
        windows.Hopping,
        "stable",
        lambda old, w, t: min(old(w, t) + w.slide, old(w, 2**63 - 1)),
    )


@caught_by(check_table)
def a_row_that_comes_exactly_the_gap_after_another_begins_a_session(patch: Patch) -> None:
    def shorter(old: Any, partitions: Any, earliest: Any, latest: Any, gap: int) -> Any:
        found = old(partitions, earliest, latest, gap - 1)
        return found._replace(ends=found.ends + 1)

    wrap(patch, session_state, "sessions_of", shorter)


@caught_by(check_table)
def a_session_ends_although_the_open_pane_goes_on_with_it(patch: Patch) -> None:
    patch.setattr(session_state.SessionState, "_look_at", lambda *_: None)


# -- rows -----------------------------------------------------------------------------------------


@caught_by(check_table)
def panes_that_leave_are_not_subtracted(patch: Patch) -> None:
    patch.setattr(parts.OfParts, "unmerge", lambda *_: None)


@caught_by(check_table)
def a_join_lets_go_of_rows_one_tick_early(patch: Patch) -> None:
    wrap(patch, join.Join, "_bound", lambda old, j, side: min(old(j, side) + 1, 2**63 - 1))


@caught_by(check_table)
def a_join_forgets_its_condition(patch: Patch) -> None:
    def without(old: Any, j: Any, left: Any, right: Any, on: Any, where: Any, *rest: Any) -> None:
        del where
        old(j, left, right, on, None, *rest)

    wrap(patch, join.Join, "__init__", without)


@caught_by(check_snapshots)
def top_k_takes_one_row_too_many(patch: Patch) -> None:
    def more(old: Any, t: Any, schema: Any, k: int, *rest: Any) -> None:
        old(t, schema, k + 1, *rest)

    wrap(patch, top_k.TopK, "__init__", more)


@caught_by(check_table)
def top_k_breaks_ties_by_arrival(patch: Patch) -> None:
    patch.setattr(
        rank_order,
        "by_time_and_payload",
        lambda vs, ve, _: pa.array(np.lexsort((ve, vs))).to_numpy().astype(np.uint64),
    )


@caught_by(check_table)
def distinct_passes_its_input_on(patch: Patch) -> None:
    patch.setattr(plain_operators, "Distinct", normalise.Normalise)


@caught_by(check_table)
def an_end_that_moves_is_lost(patch: Patch) -> None:
    def parts(old: Any, op: Any, source: int, frame: Frame, marks: Any = ()) -> Any:
        return old(
            op, source, frame.take(frame.is_insert | (frame.ve == frame.vs), frame.stable), marks
        )

    wrap(patch, per_snapshot.PerSnapshot, "parts", parts)


@caught_by(check_orders)
def the_latest_row_is_the_one_that_came_last(patch: Patch) -> None:
    patch.setattr(
        latest,
        "by_time_and_payload",
        lambda vs, _ve, _payload: np.arange(len(vs)).astype(np.uint64),
    )


@caught_by(check_inexact_answers)
def a_sum_forgets_a_row_of_each_frame(patch: Patch) -> None:
    wrap(
        patch,
        hopping_aggregate.HoppingAggregate,
        "parts",
        lambda old, op, s, f, marks=(): old(op, s, f.slice(min(1, len(f)), None, f.stable), marks),
    )


@caught_by(check_table)
def events_that_may_go_again_are_taken_for_settled(patch: Patch) -> None:
    patch.setattr(compiling.Compiler, "_settled", lambda _self, _node, below: below)


# -- lateness, properties, merging ----------------------------------------------------------------


@caught_by(check_late_rows)
def a_row_exactly_at_its_bound_is_late(patch: Patch) -> None:
    wrap(patch, verdicts.OutOfBound, "__init__", lambda old, v, bound: old(v, max(bound - 1, 0)))


@caught_by(check_late_rows)
def k_late_looks_back_one_row_less(patch: Patch) -> None:
    wrap(patch, verdicts.OutOfPlace, "__init__", lambda old, v, rows: old(v, max(rows - 1, 0)))


@caught_by(check_claims)
def every_stream_is_claimed_to_have_a_key(patch: Patch) -> None:
    patch.setitem(properties._RULES, nodes.Union, _claiming_a_key)


def _claiming_a_key(node: Any, *below: Any) -> Any:
    return known.passed(below[0], key=True, unique=None, hop=None) if node else None


@caught_by(check_merge)
def every_stream_is_merged_as_if_it_had_a_key(patch: Patch) -> None:
    always = property(lambda _: StreamProperties(key=True))
    patch.setattr(properties.Properties, "merge", always)


# -- skipping and restarting ----------------------------------------------------------------------


@caught_by(check_skipping)
def one_window_too_many_is_skipped(patch: Patch) -> None:
    wrap(patch, windows.Hopping, "first_wanted", lambda old, w, t: old(w, t) + 1)


@caught_by(check_skipping)
def what_holds_at_an_instant_is_asked_to_begin_at_any(patch: Patch) -> None:
    patch.setattr(per_snapshot.PerSnapshot, "fast_forward", lambda _self, t: t)


@caught_by(check_starting_late)
def a_window_reaches_no_further_than_its_range(patch: Patch) -> None:
    wrap(patch, hopping_aggregate.HoppingAggregate, "__init__", _with_short_reach)


def _with_short_reach(old: Any, op: Any, schema: Any, window: Any, *args: Any, **kw: Any) -> None:
    old(op, schema, window, *args, **kw)
    op.reach = window.range


@caught_by(check_restored)
def a_join_restores_one_side(patch: Patch) -> None:
    def restore(old: Any, op: Any, state: Any) -> None:
        old(op, {n: b.slice(0, 0) if n.startswith("right") else b for n, b in state.items()})

    wrap(patch, join.Join, "restore", restore)


def _restores_nothing(op: Any, state: Any) -> None:
    """Of an operator that comes back as if it had just been made."""
    del op, state


@caught_by(check_restored)
def what_is_held_back_is_not_in_the_snapshot(patch: Patch) -> None:
    patch.setattr(settle.Settle, "restore", _restores_nothing)


@caught_by(check_cuts)
def a_part_of_what_a_join_puts_out_is_lost(patch: Patch) -> None:
    def parts(old: Any, op: Any, *given: Any) -> Iterator[Any]:
        for number, out in enumerate(old(op, *given)):
            lost = number == 1
            yield out._replace(frame=out.frame.slice(0, 0, out.frame.stable)) if lost else out

    wrap(patch, join.Join, "parts", parts)


@caught_by(check_cuts)
def a_union_that_is_taken_up_has_heard_nothing(patch: Patch) -> None:
    patch.setattr(meld.Meld, "restore", _restores_nothing)


@caught_by(check_cuts)
def an_instant_is_answered_when_a_frame_ends_whatever_was_promised(patch: Patch) -> None:
    def parts(old: Any, op: Any, source: int, frame: Frame, marks: Any = ()) -> Any:
        upto = int(frame.vs.max()) if len(frame) else None
        return old(op, source, frame.with_stable(frame.stable or upto), marks)

    wrap(patch, per_snapshot.PerSnapshot, "parts", parts)


# -- the test -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("check", "fault"), FAULTS, ids=[f.__name__ for _, f in FAULTS])
def test_a_broken_operator_is_caught(
    check: Check, fault: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    fault(monkeypatch)
    first = SEEN_AT.get(fault.__name__, 0)
    for seed in range(first, first + SEEDS_MAX):
        try:
            check(seed)
        except CannotSay:
            continue
        except (AssertionError, GaplessError, ValueError, IndexError):
            return
    pytest.fail(f"{fault.__name__}: no case of {SEEDS_MAX} saw it")
