"""One instance of a plan, run here and now over iterators: the embedded engine without its files.

    for frame in Execution(plan, {"flows": batches}):      frames of the answer's table
        ...

Nothing runs by itself: asking for the next frame reads as much input as it takes to make one. Of
several sources the one that is least far in time is read, so that a join holds no more of one side
than it must; ties go to the source that the query names first, so the same inputs give the same
frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Self

import pyarrow as pa

from gapless.engine.graph import Graph
from gapless.engine.intake import FRAME_ROWS, Intake, Item
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.engine.steps import Counters
from gapless.operators.aside import Aside, SetAside
from gapless.operators.operator import Marks
from gapless.protocol.elements import INF
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tables import html_text, time_text

Given = Any
"""A table, a record batch, a reader, or an iterable of record batches and punctuations; whatever
speaks Arrow's stream protocol counts as a reader."""


OnAside = Callable[[list[SetAside], int], object]
"""Takes rows that were set aside, and how many there were: some may not have been kept."""


class Execution(Iterator[Frame]):
    """The frames that a plan puts out over its inputs; the last one ends with stable(INF).

    An error ends it for good: whatever follows would lack what was lost.
    """

    def __init__(
        self,
        plan: Plan,
        inputs: Mapping[str, Given],
        *,
        clock: Callable[[], int] | None = None,
        memory_limit: int | None = None,
        frame_rows: int = FRAME_ROWS,
        on_aside: OnAside | None = None,
    ) -> None:
        """`on_aside` is given, after each step, the rows that it has set aside, and told how many
        there were in all; without it they wait to be taken.
        """
        self.plan = plan
        self.on_aside = on_aside
        self._drained = 0  # of the rows aside, those that `on_aside` was told
        self._aside = Aside(plan.query.on_error_mode)
        self._aside.on_full = self._drain  # rows that are all late end no step
        self.graph: Graph = plan.compile(self._aside, clock=clock, memory_limit=memory_limit)
        self._intakes = {
            name: Intake(source, self._aside, self.graph.grids[name], frame_rows)
            for name, source in plan.query.sources.items()
        }
        _check_names(inputs, self._intakes)
        self._inputs = {name: items(inputs[name], frame_rows) for name in self._intakes}
        self._frames = self._run()
        self._failure: str | None = None
        self.begun = False
        """Whether a frame was asked for, or it was closed: the first frames come only once."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Frame:
        if self._failure is not None:
            raise Misuse(f"this execution {self._failure}")
        self.begun = True
        try:
            return next(self._frames)
        except StopIteration:
            raise
        except BaseException as e:
            self._failure = f"failed before; the first error was {type(e).__name__}: {e}"
            raise

    def _run(self) -> Iterator[Frame]:
        """Frames that say something, until all inputs have ended."""
        graph, intakes = self.graph, self._intakes
        feeds = {name: _feed(intakes[name], given) for name, given in self._inputs.items()}
        while feeds:
            name = min(feeds, key=lambda source: intakes[source].progress)
            for frame, marks in feeds[name]:
                for part in graph.parts(name, frame, marks):
                    self._drain()
                    yield part
                self._drain()
                if len(feeds) > 1:
                    break
            else:
                del feeds[name]
            self._drain()

    def _drain(self) -> None:
        """Hands on what is aside."""
        if self.on_aside is not None and (count := self._aside.count) > self._drained:
            self.on_aside(self._aside.take(), count - self._drained)
            self._drained = count

    # -- looking at it ------------------------------------------------------------------------

    @property
    def schema(self) -> StreamSchema:
        """Of the frames."""
        return self.graph.schema

    @property
    def stable(self) -> int:
        """How far the answer is final."""
        return self.graph.stable

    @property
    def rows(self) -> dict[str, int]:
        """Rows read so far, by source."""
        return {name: intake.rows for name, intake in self._intakes.items()}

    @property
    def late(self) -> dict[str, int]:
        """Rows that came too late, by source: they are aside, and in no answer. Of a journal there
        are none: what was late when it was written is among its rejects.
        """
        return {name: intake.late for name, intake in self._intakes.items()}

    @property
    def aside(self) -> Aside:
        """Rows that could not be processed: those that wait to be taken, and how many there are."""
        return self._aside

    @property
    def counters(self) -> list[Counters]:
        """What each step of the graph has done so far."""
        return self.graph.counters

    def __repr__(self) -> str:
        return f"Execution{self._said()}"

    def _repr_html_(self) -> str:
        return html_text(f"{self._said()}\n\n{self.plan.explain()}")

    def _said(self) -> str:
        read = ", ".join(f"{rows} rows of {name}" for name, rows in self.rows.items())
        late = sum(self.late.values())
        told = f"; {late} too late" if late else ""
        failed = f"; it {self._failure}" if self._failure is not None else ""
        upto = time_text(self.stable, self.schema.time_unit)
        return f"({', '.join(self.schema.names)}): {read} read{told}; final up to {upto}{failed}"

    # -- ending it ----------------------------------------------------------------------------

    def close(self) -> None:
        """Lets go of the inputs; no frame comes any more."""
        if self._failure is None and self.graph.stable < INF:
            self._failure = "was closed before its end"
        self.begun = True
        self._frames = iter(())
        for given in self._inputs.values():
            close = getattr(given, "close", None)
            if close is not None:
                close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _feed(intake: Intake, given: Iterator[Item]) -> Iterator[tuple[Frame, Marks]]:
    """What goes into the graph of one source, with its end."""
    for item in given:
        yield from intake.take(item)
    yield intake.finish(), ()


def by_source(query: Query, inputs: Mapping[str, Given] | Given) -> Mapping[str, Given]:
    """Inputs by the name of their source; an input alone is that of the only source."""
    if isinstance(inputs, Mapping):
        return inputs
    if len(query.sources) != 1:
        raise Misuse(
            f"the query reads {', '.join(query.sources)}: say which input is whose, as in "
            f"{{{next(iter(query.sources))!r}: ...}}"
        )
    return dict.fromkeys(query.sources, inputs)


def _check_names(inputs: Mapping[str, Given], sources: Iterable[str]) -> None:
    known = list(sources)
    missing = [name for name in known if name not in inputs]
    if missing:
        raise Misuse(f"no input for source {missing[0]!r}: the query reads {', '.join(known)}")
    unknown = [name for name in inputs if name not in known]
    if unknown:
        raise Misuse(f"an input for {unknown[0]!r}: the query reads {', '.join(known)}")


def items(given: Given, rows_max: int) -> Iterator[Item]:
    """An input as an iterator of batches and punctuations."""
    if isinstance(given, pa.Table):
        return chain(_none_of(given.schema), given.to_batches(max_chunksize=rows_max))
    if isinstance(given, pa.RecordBatch):
        return iter((given,))
    if hasattr(given, "__arrow_c_stream__"):  # first: a data frame iterates over its columns' names
        reader = pa.RecordBatchReader.from_stream(given)
        return chain(_none_of(reader.schema), reader)
    if isinstance(given, str | bytes):
        raise Misuse(f"an input is {given!r}: gapless.execute opens files, this one reads batches")
    if not isinstance(given, Iterable) or isinstance(given, Mapping):
        raise Misuse(
            f"an input is a {type(given).__name__}: it is to be a table, a record batch, a reader, "
            "or an iterable of record batches and punctuations"
        )
    return iter(given)


def _none_of(schema: pa.Schema) -> list[pa.RecordBatch]:
    """No rows, which show the columns: also an input without any is to have the right ones."""
    return schema.empty_table().to_batches() or [pa.RecordBatch.from_pylist([], schema=schema)]


__all__ = ["Execution", "Given", "SetAside", "by_source", "items"]
