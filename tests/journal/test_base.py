"""A base stands for what came before it, is made when enough has, and is never written over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gapless.journal.disk import Disk
from gapless.journal.layout import Layout
from gapless.journal.reader import Reader
from gapless.journal.writer import Writer
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.tdb import Tdb
from tests.journal.journals import SCHEMA, batch, memory, writer


def frames_writer(disk: Disk, **options: Any) -> Any:
    return writer(disk, shape=Layout(SCHEMA), **options)


def test_a_base_stands_for_everything_before_it(disk: Disk) -> None:
    out = frames_writer(disk)
    rows = batch([(1, "a", 1), (2, "b", 2)])
    whole = Tdb(SCHEMA)

    def frame(vs: list[int], ve: list[int], stable: int) -> Frame:
        return Frame.from_columns(SCHEMA, np.array(vs), np.array(ve), rows, stable=stable)

    first = frame([1, 2], [3, 20], 5)
    out.append(first)
    live = first.take(first.ve >= 5, stable=5)
    out.seal(base=live)
    second = frame([6, 7], [8, 9], 7)
    out.append(second)
    whole.fold(live)
    whole.fold(second)
    reader = Reader(disk, start="base")
    rebuilt = Tdb(SCHEMA)
    while (got := reader.read()) is not None:
        rebuilt.fold(got)
    assert rebuilt == whole
    assert reader.position == {0: 4}
    with pytest.raises(Misuse, match="a base as of 6"):
        out.seal(base=live.with_stable(6))


def test_a_base_is_wanted_once_enough_has_come_since_the_last(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def append(out: Writer, i: int) -> None:
        at = np.array([i])
        out.append(Frame.from_columns(SCHEMA, at, at + 9, batch([(i, "a", i)]), stable=i))

    alone, out, wanted = memory(), frames_writer(disk), []
    append(frames_writer(alone), 1)
    each = sum(alone.size(f"segments/{name}") for name in alone.list("segments"))
    monkeypatch.setattr("gapless.journal.writer.BASE_BYTES", 3 * each)
    for i in range(1, 12):
        if i in (5, 9):  # a writer after another knows what was appended before
            out = frames_writer(disk, token=f"w{i}")
        append(out, i)
        wanted.append(out.wants_base)
        if out.wants_base:
            out.seal(base=Frame.empty(SCHEMA).with_stable(i))
    assert wanted == [i % 3 == 0 for i in range(1, 12)]


def test_a_base_of_adjusts_is_none(disk: Disk) -> None:
    out = frames_writer(disk)
    rows = batch([(1, "a", 1)])
    adjust = Frame.from_columns(SCHEMA, np.array([1]), np.array([5]), rows, np.array([9]), 3)
    out.append(Frame.empty(SCHEMA, 3))
    with pytest.raises(Misuse, match="a base has adjusts"):
        out.seal(base=adjust)
