"""Changelogs for tests: small ones in which everything meets, and ways to read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from gapless.operators.changelog import ChangelogReader
from gapless.protocol.changelog import Changes
from gapless.protocol.elements import INF, Stable
from gapless.protocol.errors import ChangeError
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from tests.operators.changelog.twins import Change, Refused, Twin

SCHEMA = StreamSchema({"k": "string", "v": "int32"})
ROWS: list[tuple[Any, ...]] = [(k, v) for k in ("A", "B") for v in (1, 2, None)]

Batch = tuple[list[Any], int | None]
"""Changes, and the watermark behind them."""


def changes(said: list[Change], schema: StreamSchema = SCHEMA) -> Changes:
    """Changes from (kind, time, row)."""
    columns: dict[str, pa.Array] = {
        "op": pa.array([kind for kind, _, _ in said], pa.string()),
        "ts": pa.array([time for _, time, _ in said], pa.int64()),
    }
    for i, field in enumerate(schema.payload):
        columns[field.name] = pa.array([row[i] for _, _, row in said], field.type)
    return Changes.of(pa.RecordBatch.from_pydict(columns), schema)


def timed(said: list[tuple[str, int, int, Any]], schema: StreamSchema = SCHEMA) -> Changes:
    """Timed changes from (kind, vs, ve, row)."""
    plain = changes([(kind, vs, row) for kind, vs, _, row in said], schema)
    ends = np.array([ve for _, _, ve, _ in said], np.int64)
    return Changes(schema, plain.kinds, plain.times, plain.payload, ends)


def times() -> st.SearchStrategy[int]:
    """Times as `batches` takes them: after what is stable."""
    return st.integers(0, 6)


@st.composite
def batches(draw: st.DrawFn, change: st.SearchStrategy[Any], twin: Twin) -> list[Batch]:
    """A changelog that `twin` takes, except for a batch now and then. Times are near the stable."""
    twin = deepcopy(twin)
    told: list[Batch] = []
    for drawn in draw(st.lists(st.lists(change, max_size=7), max_size=10)):
        stable = max(twin.stable, 0)
        near = [(kind, stable + time, *rest) for kind, time, *rest in drawn]
        said: list[Any] = near
        if draw(st.integers(0, 9)):
            said = []
            for change_ in near:
                if _takes(twin, [*said, change_]):
                    said.append(change_)
        elif draw(st.booleans()):
            said = [(kind, time - 3, *rest) for kind, time, *rest in near]
        ahead = draw(st.sampled_from([None, None, -1, 0, 1, 2, 3, 5, 8]))
        told.append((said, None if ahead is None else stable + ahead))
        if _takes(twin, said):
            twin.push(*told[-1])
    if draw(st.booleans()):
        told.append(([], INF))
        told.append((draw(st.lists(change, max_size=2)), None))
    return told


def _takes(twin: Twin, said: list[Any]) -> bool:
    try:
        deepcopy(twin).push(said)
    except Refused:
        return False
    return True


def plain_changes() -> st.SearchStrategy[Change]:
    kinds = st.sampled_from(["+I", "+I", "+U", "-D", "-U"])
    return st.tuples(kinds, times(), st.sampled_from(ROWS))


@st.composite
def in_order(draw: st.DrawFn, rows: list[tuple[Any, ...]] = ROWS) -> list[Batch]:
    """A changelog that makes sense, in order of time: rows come and go, sometimes at one time."""
    there: Counter[tuple[Any, ...]] = Counter()
    log: list[Change] = []
    time = 0
    for row in draw(st.lists(st.sampled_from(rows), max_size=30)):
        time += draw(st.integers(0, 2))
        goes = there[row] and draw(st.booleans())
        there[row] += -1 if goes else 1
        log.append(("-D" if goes else "+I", time, row))
    told: list[Batch] = []
    while log:
        size = draw(st.integers(1, 8))
        part, log = log[:size], log[size:]
        latest = log[0][1] if log else INF
        told.append((part, draw(st.none() | st.just(latest) | st.integers(0, min(latest, 60)))))
    return told


def agree(
    reader: ChangelogReader,
    twin: Twin,
    told: list[Batch],
    make: Callable[[list[Any]], Changes] = changes,
) -> Tdb:
    """Reader and twin take the same batches and refuse the same; whenever they have taken one they
    have the same table, told by a legal stream.
    """
    out = Tdb(reader.schema)
    for said, watermark in told:
        try:
            twin.push(said, watermark)
            refused = False
        except Refused:
            refused = True
        if refused:
            with pytest.raises(ChangeError) as caught:
                reader.push(make(said), watermark)
            assert 0 <= caught.value.row < len(said)
        else:
            frame = reader.push(make(said), watermark)
            before = out.stable
            out.fold(frame)
            assert frame.stable is None or frame.stable > before
        reader.validate()
        assert out == twin.table, out.difference(twin.table)
        assert out.stable == twin.stable
    return out


def goes_on_the_same(
    make: Callable[[], ChangelogReader],
    told: list[Batch],
    at: int,
    to_changes: Callable[[list[Any]], Changes] = changes,
) -> None:
    """A reader restored from a snapshot says what the one goes on to say that it was taken of."""
    old, new = make(), make()
    for i, (said, watermark) in enumerate(told):
        if i == at:
            state = old.snapshot()
            new.restore(state)
            assert (new.stable, len(new)) == (old.stable, len(old))
        heard: list[tuple[Any, int]] = []
        for reader in (old, new) if i >= at else (old,):
            try:
                elements = reader.push(to_changes(said), watermark).elements()
                rows = Counter(e for e in elements if not isinstance(e, Stable))
                heard.append((rows, reader.stable))
            except ChangeError as e:
                heard.append((str(e), reader.stable))
            reader.validate()
        assert len(heard) == 1 or heard[0] == heard[1]
