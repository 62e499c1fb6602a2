"""The paper's workload: legal streams, all of one table, with the shares that were asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.bench.lmerge_workload import (
    NUMBER_MAX,
    REVISIONS_MAX,
    TEXT_BYTES,
    Ints,
    Table,
    Workload,
    interleave,
)
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.tdb import Event, Tdb

MANY = Workload(events=20_000, live=1_000)
"""Enough events for shares to be met within a few percent."""

workloads = st.builds(
    Workload,
    events=st.integers(1, 60),
    payload=st.sampled_from(["narrow", "wide"]),
    strict=st.booleans(),
    disorder=st.sampled_from([0.0, 0.2, 0.5, 1.0]),
    revisions=st.sampled_from([0.0, 0.5625, 3.0, 10.0]),
    stable_freq=st.sampled_from([0.0, 0.01, 0.3, 1.0]),
    live=st.integers(20, 200),
    gap_max=st.integers(10, 40),
    frame_rows=st.integers(1, 20),
    seed=st.integers(0, 1_000_000),
)


def folded(frames: list[Frame]) -> Tdb:
    tdb = Tdb(frames[0].schema)
    for frame in frames:
        tdb.fold(frame)
    return tdb


def events_of(table: Table) -> Tdb:
    texts: list[tuple[object, ...]] = [()] * len(table.vs)
    if table.text is not None:
        texts = [(row.tobytes().decode(),) for row in table.text]
    payloads = [(int(n), *text) for n, text in zip(table.number, texts, strict=True)]
    times = zip(table.vs.tolist(), table.ve.tolist(), strict=True)
    events = [Event(p, vs, ve) for p, (vs, ve) in zip(payloads, times, strict=True)]
    return Tdb(table.workload.schema, events)


def columns_of(frames: list[Frame]) -> tuple[Ints, Ints, Ints]:
    vs, ve, was = (
        np.concatenate([getattr(f, name) for f in frames]) for name in ("vs", "ve", "was")
    )
    return vs, ve, was


@given(workload=workloads)
def test_every_input_is_legal_and_tells_the_same_table(workload: Workload) -> None:
    table = Table(workload)
    expected = events_of(table)
    for frames in table.streams(3):
        told = folded(frames)
        assert told == expected, told.difference(expected)
        assert told.stable == INF


@given(workload=workloads)
def test_start_and_payload_are_a_key(workload: Workload) -> None:
    table = Table(replace(workload, gap_max=1, live=200, strict=False))  # ties everywhere
    assert len(set(zip(table.vs.tolist(), table.number.tolist(), strict=True))) == len(table.vs)
    assert table.number.min() >= 0
    assert table.number.max() <= NUMBER_MAX


@given(workload=workloads)
def test_a_frame_has_the_rows_that_were_asked_for_and_the_last_one_the_rest(
    workload: Workload,
) -> None:
    *full, last = Table(workload).stream(0)
    assert {len(frame) for frame in full} <= {workload.frame_rows}
    assert 1 <= len(last) <= workload.frame_rows


@given(workload=workloads)
def test_a_stable_promises_all_that_later_elements_allow(workload: Workload) -> None:
    frames = Table(replace(workload, stable_freq=1.0, frame_rows=1)).stream(0)
    vs, ve, was = columns_of(frames)
    floor = np.where(was == BEGIN, vs, np.minimum(was, ve))
    for i, frame in enumerate(frames[:-1]):
        assert frame.stable == floor[i + 1 :].min()


@given(workload=workloads)
def test_a_stream_without_disorder_and_revisions_is_in_order(workload: Workload) -> None:
    ordered = replace(workload, disorder=0.0, revisions=0.0)
    table = Table(ordered)
    for frames in table.streams(2):
        vs, _, was = columns_of(frames)
        assert (vs == table.vs).all()
        assert (was == BEGIN).all()
        if workload.strict:
            assert (np.diff(vs) > 0).all()


def test_ties_are_there_where_starts_need_not_rise_strictly() -> None:
    # otherwise `strict` above would hold of every workload
    assert (np.diff(Table(Workload(events=500, gap_max=3, live=500)).vs) == 0).any()


@pytest.mark.parametrize("disorder", [0.1, 0.2, 0.5])
def test_the_share_of_late_elements_is_what_was_asked_for(disorder: float) -> None:
    vs, _, _ = columns_of(Table(replace(MANY, disorder=disorder)).stream(0))
    late = vs < np.maximum.accumulate(vs)
    assert late.mean() == pytest.approx(disorder, abs=0.02)


@pytest.mark.parametrize("share", [0.1, 0.36, 0.8])
def test_the_share_of_adjusts_is_what_was_asked_for(share: float) -> None:
    workload = replace(MANY, disorder=0.5, revisions=share / (1 - share))
    _, _, was = columns_of(Table(workload).stream(0))
    assert (was != BEGIN).mean() == pytest.approx(share, abs=0.02)


def test_as_many_events_are_live_as_was_asked_for() -> None:
    table = Table(MANY)
    moments = table.vs[2_000::100]  # the stream has run for longer than any lifetime
    live = [int(((table.vs <= t) & (t < table.ve)).sum()) for t in moments]
    assert np.mean(live) == pytest.approx(MANY.live, rel=0.05)


@pytest.mark.parametrize("stable_freq", [0.001, 0.01, 0.3])
def test_stables_are_as_frequent_as_was_asked_for(stable_freq: float) -> None:
    frames = Table(replace(MANY, stable_freq=stable_freq, frame_rows=1)).stream(0)
    share = np.mean([frame.stable is not None for frame in frames])
    assert share == pytest.approx(stable_freq, rel=0.5, abs=0.001)


def test_inputs_differ_in_order_in_revisions_and_in_stables() -> None:
    a, b = Table(replace(MANY, revisions=1.0)).streams(2)
    vs_a, ve_a, _ = columns_of(a)
    vs_b, ve_b, _ = columns_of(b)
    n = min(len(vs_a), len(vs_b))
    assert (vs_a[:n] != vs_b[:n]).any()
    assert (ve_a[:n] != ve_b[:n]).any()
    assert [f.stable for f in a] != [f.stable for f in b]


def test_the_same_seed_draws_the_same_streams_and_another_one_others() -> None:
    small = Workload(events=50, live=100, frame_rows=7)
    assert Table(small).stream(1) == Table(small).stream(1)
    assert Table(small).stream(1) != Table(replace(small, seed=2)).stream(1)


def test_texts_are_of_1000_bytes_and_all_different() -> None:
    table = Table(Workload(events=200, payload="wide"))
    texts = {text for f in table.stream(0) for text in f.payload.column(1).to_pylist()}
    assert len(texts) == 200
    assert {len(text.encode()) for text in texts} == {TEXT_BYTES}


def test_an_event_is_revised_so_early_that_its_end_is_still_to_come() -> None:
    # else a stable could not pass what is about to be revised, and would wait for it
    workload = replace(MANY, disorder=1.0, revisions=float(REVISIONS_MAX))
    vs, ve, was = columns_of(Table(workload).stream(0))
    assert (np.minimum(ve, np.where(was == BEGIN, INF, was)) > vs + workload.lateness_max * 2).all()


def test_inputs_take_turns_and_a_lagging_one_comes_later() -> None:
    streams = Table(Workload(events=4, live=100, frame_rows=2)).streams(2)
    a, b = streams
    assert interleave(streams) == [(0, a[0]), (1, b[0]), (0, a[1]), (1, b[1])]
    assert interleave(streams, (1, 0)) == [(1, b[0]), (0, a[0]), (1, b[1]), (0, a[1])]


@pytest.mark.parametrize(
    "wrong",
    [{"disorder": 1.5}, {"stable_freq": -0.1}, {"revisions": 11.0}, {"events": 0}, {"live": 0}],
)
def test_a_workload_that_cannot_be_drawn_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(Misuse):
        Workload(**wrong)  # type: ignore[arg-type]  # mypy cannot tell which field each is
