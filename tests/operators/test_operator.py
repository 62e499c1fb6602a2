"""What every operator does alike with a frame that is not of its input."""

from collections.abc import Callable

import pytest

from gapless.operators.aggregates.calls import count
from gapless.operators.cleanse import Cleanse
from gapless.operators.filter import Filter
from gapless.operators.hopping_aggregate import HoppingAggregate
from gapless.operators.latest import LatestBy
from gapless.operators.lifetimes import SetLifetimes
from gapless.operators.meld import Meld
from gapless.operators.normalise import Normalise
from gapless.operators.operator import Operator
from gapless.operators.select import Select
from gapless.operators.settle import Settle
from gapless.operators.windows import Hopping, Sliding
from gapless.protocol.elements import INF, Insert
from gapless.protocol.errors import SchemaError
from gapless.protocol.expr import col
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import parse

SCHEMA = StreamSchema({"p": "string"})
OTHERS = [StreamSchema({"n": "int64"}), StreamSchema({"p": "string"}, "ns")]
OPERATORS: dict[str, Callable[[], Operator]] = {
    "filter": lambda: Filter(SCHEMA, col("p") != "x"),
    "count": lambda: HoppingAggregate(SCHEMA, Hopping(5, 5), ["p"], [("count", count())]),
    "cleanse": lambda: Cleanse(SCHEMA),
    "normalise": lambda: Normalise(SCHEMA),
    "select": lambda: Select(SCHEMA, [("q", col("p"))]),
    "lifetimes": lambda: SetLifetimes(SCHEMA, Sliding(5)),
    "latest": lambda: LatestBy(SCHEMA, ["p"]),
    "meld": lambda: Meld(SCHEMA, 1),
    "settle": lambda: Settle(SCHEMA),
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("other", OTHERS, ids=["columns", "unit"])
def test_a_frame_of_another_schema_is_refused_and_changes_nothing(
    name: str, other: StreamSchema
) -> None:
    operator = OPERATORS[name]()
    payload = (1,) if other.names == ["n"] else ("A",)
    with pytest.raises(SchemaError, match="the operator takes"):
        operator.push(0, Frame.from_elements(other, [Insert(payload, 1, 2)]))
    operator.validate()
    assert operator.push(0, Frame.empty(SCHEMA, INF)).frame == Frame.empty(operator.schema, INF)


@pytest.mark.parametrize("name", ["cleanse"])
def test_a_release_that_fails_loses_nothing_and_can_be_asked_for_again(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> Frame:
        raise MemoryError

    operator, untroubled = OPERATORS[name](), OPERATORS[name]()
    for each in (operator, untroubled):
        each.push(0, Frame.from_elements(SCHEMA, parse("ins(A,1,2) ins(B,3,40)")))
    with monkeypatch.context() as patch:
        patch.setattr(Frame, "from_columns", fails)
        with pytest.raises(MemoryError):
            operator.push(0, Frame.empty(SCHEMA, 20))
    operator.validate()
    for stable in (20, INF):
        frame = Frame.empty(SCHEMA, stable)
        assert operator.push(0, frame).frame == untroubled.push(0, frame).frame
