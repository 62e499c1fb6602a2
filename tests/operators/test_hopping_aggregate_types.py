"""Windowed aggregates over columns for which Arrow lacks functions."""

import numpy as np
import pyarrow as pa
import pytest

from gapless.operators.aggregates.calls import min_, sum_
from gapless.operators.aggregates.function import AggregateFunction
from gapless.operators.hopping_aggregate import HoppingAggregate, Implementation
from gapless.operators.windows import Hopping
from gapless.protocol.elements import INF, Insert
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema


@pytest.mark.parametrize("implementation", ["paned", "wid"])
@pytest.mark.parametrize("early", [None, INF])
@pytest.mark.parametrize("window", [Hopping(10, 5), Hopping(2, 7)], ids=["overlapping", "apart"])
def test_columns_that_arrow_does_not_take_are_grouped_by_too(
    window: Hopping, early: int | None, implementation: Implementation
) -> None:
    def answers(word: str) -> list[tuple[object, ...]]:
        schema = StreamSchema({"word": word, "n": "int64"})
        times = np.array([1, 7, 3, 14, 30])
        columns = [pa.array(list("abaca")).cast(word), pa.array([1, 2, 3, 4, 5])]
        aggregates: list[tuple[str, AggregateFunction]] = [
            ("n", sum_("n")),
            ("first", min_("word")),
        ]
        operator = HoppingAggregate(
            schema, window, ["word"], aggregates, implementation, early=early
        )
        out = operator.push(0, Frame.from_columns(schema, times, times + 1, columns, stable=INF))
        return sorted(e.payload for e in out.frame.elements() if isinstance(e, Insert))

    assert answers("string_view") == answers("string")
