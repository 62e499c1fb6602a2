"""Folds of large tails are made beside the pump: none of its events folds more than a piece."""

from __future__ import annotations

import pytest

from gapless.failover import fold as fold_module
from gapless.failover.replica.effects import Done, Work
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from tests.failover.replica.large import (
    ack,
    keys,
    small,
    started,
    works,
)


def test_no_event_has_a_pump_fold_more_rows_than_a_piece_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    touched: list[int] = []
    real = fold_module.folded

    def counts(schema: StreamSchema, frames: list[Frame]) -> Frame:
        touched.append(sum(map(len, frames)))
        return real(schema, frames)

    monkeypatch.setattr(fold_module, "folded", counts)
    monkeypatch.setattr("gapless.failover.replica.tail.folded", counts)
    monkeypatch.setattr("gapless.failover.replica.tail.FOLD_ROWS_MIN", 4)
    with small(8):
        machine = started()
        machine.on(ack(machine, 0), 0)
        asked: list[Work] = []
        for i in range(1, 60):
            effects = machine.on(keys(5 * (i % 9), 5, i), i)
            effects += machine.on(ack(machine, i, i), i)
            asked += works(effects)
            assert max(touched, default=0) <= 8
            while asked and i % 3 == 0:
                work = asked.pop(0)
                done = work.do()
                touched.clear()
                machine.on(Done(work.number, done), i)
            machine.validate()
        assert len(machine.output.tail) <= 4 * 45
