"""A hold: rows go on, and no stable beyond it is promised until it is lifted."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from gapless.failover.messages import Hold
from gapless.failover.replica.executor import Executor
from gapless.failover.replica.output_sender import OutputSender
from gapless.failover.replica.promise_limit import PromiseLimit
from gapless.failover.timing import Timing
from gapless.protocol.elements import INF
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from tests.failover.replicas import LIFE, MERGERS, passing, rows


@dataclass
class AtTime:
    """A plan that is stable up to where a test says."""

    schema: StreamSchema
    stable: int = 0


def held(at: int = INF) -> tuple[AtTime, OutputSender, PromiseLimit]:
    plan = AtTime(Executor("plan", passing()).schema)
    output = OutputSender(LIFE, MERGERS, plan.schema, Timing())
    executor: Any = plan  # all that it is asked for
    return plan, output, PromiseLimit(executor, output, at)


def stable(of: OutputSender, t: int) -> Frame:
    return Frame.empty(of.schema, t)


def test_a_stable_beyond_the_hold_is_cut_to_it_and_comes_once() -> None:
    executor, output, limit = held(40)
    for t, promised in ((30, 30), (50, 40), (60, 40)):
        executor.stable = t
        limit.put_out(stable(output, t))
        assert output.tail.stable == promised
    assert output.tail.end == 2, "what says nothing is not put out"
    assert limit.is_reached


def test_what_was_kept_back_is_promised_once_the_hold_is_lifted() -> None:
    executor, output, limit = held(40)
    executor.stable = 50
    limit.put_out(stable(output, 50))
    limit.promise()
    assert output.tail.stable == 40
    assert limit.obey(Hold(3, INF, 2))
    limit.promise()
    assert (output.tail.stable, limit.is_reached) == (50, False)


def test_of_two_orders_the_later_counts_in_whatever_order_they_come() -> None:
    _, _, limit = held()
    assert limit.obey(Hold(3, 40, 2))
    assert not limit.obey(Hold(3, 30, 1))
    assert not limit.obey(Hold(2, 30, 9))
    assert (limit.held_at, limit.hold) == (40, (3, 2))
    assert limit.obey(Hold(4, 30, 0))


def test_rows_go_on_while_it_holds() -> None:
    executor, output, limit = held(5)
    executor.stable = 9
    limit.put_out(rows(executor.schema, [7, 8], random.Random(1)).with_stable(9))
    assert (len(output.tail), output.tail.stable) == (2, 5)
