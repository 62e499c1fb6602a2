"""Select: other payload columns, computed of those that are there.

    select(src, x=len * 2)        ins((A,3),1,5)   adj((A,3),1,5,6)
                                  ins((A,6),1,5)   adj((A,6),1,5,6)

Times stay as they are. What is computed of a payload is the same for an insert and its adjusts, so
an adjust still finds its event. Two payloads may become one: then an event is there twice, and
(vs, payload) no key. A column that only gets another name is not copied.

A mark speaks of columns: it passes, under the new names, where all of them are still there. What
marks say of the greatest or least of columns is told in `extremes.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from gapless.operators.aside import Aside
from gapless.operators.evaluation import Computed, evaluate_rows
from gapless.operators.extremes import Extreme, ExtremeMarks
from gapless.operators.operator import Marks, Operator, Out, check_schema
from gapless.operators.state import (
    FACTS,
    State,
    check_names,
    check_no_state,
    facts,
    read_facts,
)
from gapless.protocol.columns import take
from gapless.protocol.errors import SchemaError
from gapless.protocol.expr import Column
from gapless.protocol.frame import Frame
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import VS, StreamSchema


class Select(Operator):
    """Exactly these columns, in this order, each under its name."""

    def __init__(
        self,
        schema: StreamSchema,
        columns: Sequence[tuple[str, Computed]],
        aside: Aside | None = None,
        what: str = "select",
        extremes: Sequence[Extreme] = (),
    ) -> None:
        """`what`: the step that rows which go aside are said to be of. `extremes`: columns of which
        marks are asked.
        """
        self._extremes = ExtremeMarks(extremes) if extremes else None
        self._input = schema
        self._columns = [_Column(schema, name, computed, what) for name, computed in columns]
        self.schema = StreamSchema(pa.schema([c.field for c in self._columns]), schema.time_unit)
        self._aside = aside or Aside()
        self._nothing = Frame.empty(self.schema)
        self._names = {VS: VS}
        for c in reversed(self._columns):  # of several copies of a column the first speaks for it
            if isinstance(c.computed, Column):
                self._names[c.computed.name] = c.field.name

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """The rows with their new payloads, and the stable."""
        check_schema(frame, self._input)
        passed = self._passed(marks) if marks else ()
        if not len(frame):
            return Out(self._nothing.with_stable(frame.stable), passed)
        columns: list[pa.Array] = []
        for c in self._columns:
            if c.place is not None:
                columns.append(frame.batch.column(c.place))
                continue
            values, left = evaluate_rows(c.computed, frame.batch, self._aside, c.where)
            if left is not None:
                frame = frame.take(left, frame.stable)
                columns = [take(column, pa.array(left)) for column in columns]
            columns.append(values)
        return Out(frame.with_payload(self.schema, columns), passed)

    def _passed(self, marks: Marks) -> Marks:
        passed = tuple(filter(None, map(self._renamed, marks)))
        return passed if self._extremes is None else (*passed, *self._extremes.hear(marks))

    def _renamed(self, mark: Punctuation) -> Punctuation | None:
        """The mark in the words of the output; None where that has none for it."""
        names = self._names
        if not all(name in names for name, _ in (*mark.bounds, *mark.group)):
            return None
        return Punctuation(
            tuple((names[name], t) for name, t in mark.bounds),
            tuple((names[name], value) for name, value in mark.group),
        )

    def fast_forward(self, t: int) -> int:
        """Keeps nothing, so asks its input for what is asked of it."""
        return t

    def snapshot(self) -> State:
        """What was promised of the extremes."""
        return {} if self._extremes is None else {FACTS: facts(**self._extremes.snapshot())}

    def restore(self, state: State) -> None:
        """Takes it back."""
        if self._extremes is None:
            check_no_state(state)
            return
        check_names(state, FACTS)
        self._extremes.restore(read_facts(state, *self._extremes.snapshot()))

    def validate(self) -> None:
        """Keeps nothing that could be wrong."""


class _Column:
    """One output column."""

    def __init__(self, schema: StreamSchema, name: str, computed: Computed, what: str) -> None:
        self.computed = computed
        self.where = f"{what} {name} = {computed}"
        self.place: int | None = None
        """Where in a frame's batch the values are, if they need not be computed."""
        result = computed.type(schema.payload)
        self.field = pa.field(name, result)
        if isinstance(computed, Column):
            payload = schema.payload.field(computed.name)
            self.field = payload.with_name(name)
            self.place = schema.arrow.get_field_index(computed.name)
        if pa.types.is_null(result):
            raise SchemaError(f"{self.where}: the column has no type; lit(None, type) gives it one")
