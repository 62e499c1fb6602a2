"""The answer without any fault: each plan of a user's, run once over all rows in one go.

    plan a        A [0,10)   B [3,12)        the answer, where nothing is expected
    plan b        A [0,10)   B [3,15)        not equivalent: WrongAnswer
    expected      A [0,10)                   only this finds plans that are wrong in the same way

It is what the output under faults is held against, so it has to be one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from gapless.chaos.failed import WrongAnswer, told_suspects
from gapless.chaos.judge.answer import compare
from gapless.chaos.sim.user_memory import Memories
from gapless.chaos.sim.workloads.given_rows import Events, Expected, expected_rows
from gapless.engine.documents import has_functions
from gapless.engine.execute import Execution
from gapless.engine.plan import Plan
from gapless.failover.table import LiveTable
from gapless.protocol.elements import INF
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Frame


def agreed(
    plans: Mapping[str, Plan],
    rows: Mapping[str, pa.RecordBatch],
    memories: Memories,
    expected: Expected | None,
    events: Events,
    events_max: int,
) -> Frame:
    """The one table that is expected and that each plan gives, as inserts. Raises `WrongAnswer`
    where they differ, `Misuse` where it has more than `events_max` events.
    """
    schema = next(iter(plans.values())).query.schema
    answer, whose = None, "what is expected"
    if expected is not None:
        answer = expected_rows(schema, expected, events)
    for name, plan in plans.items():
        with memories.fresh():
            found = _evaluated(plan, rows, events_max)
        if answer is None:
            answer, whose = found, f"the answer of {name}"
        _check_same(f"{name}, run once without any fault", found, whose, answer)
    if answer is None:
        raise Misuse("plans: one is the least")
    if not len(answer):
        raise Misuse("\n".join(_nothing(plans)))
    return answer


def _nothing(plans: Mapping[str, Plan]) -> Iterator[str]:
    yield "the answer has no events, so nothing could be wrong with it: give other rows"
    if any(has_functions(plan.query) for plan in plans.values()):
        yield "or else a function has kept something since this process began, from a test before:"
        yield from list(told_suspects(plans))[1:]


def _evaluated(plan: Plan, rows: Mapping[str, pa.RecordBatch], events_max: int) -> Frame:
    table = LiveTable(plan.query.schema)
    for frame in Execution(plan, rows):
        table.change(frame)
        if len(table) > events_max:
            raise Misuse(
                f"the answer has more than {events_max:,} events: give fewer rows, or slide further"
            )
    return table.rows(table.ids())


def _check_same(who: str, found: Frame, whose: str, answer: Frame) -> None:
    compared = compare(who, found, answer, INF)
    if not compared.is_right:
        shown = "".join(f"\n  {example}" for example in compared.examples)
        raise WrongAnswer(
            f"{who}, does not give {whose}: of {compared.rows} events {compared.lost} are lost, "
            f"{compared.duplicated} duplicated, {compared.contradicting} contradict it:{shown}"
        )
