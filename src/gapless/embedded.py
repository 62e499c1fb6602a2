"""The embedded engine: one instance of a query in this process, over files, tables and iterators.

    for frame in gl.execute(talkers, "flows.parquet"):        changes, as they become known
        print(frame.to_pandas())

    gl.execute(talkers, "flows.parquet").to_parquet("talkers.parquet")
    gl.execute(talkers, "flows.parquet").to_pandas()          every event once, with its lifetime
    gl.table(talkers, "flows.parquet")                        the newest answer, as an Arrow table

An input is a path or a list of paths (Parquet, Arrow, CSV, JSON lines), the path of a journal, a
pyarrow dataset, a table, a record batch, a reader, any other object with Arrow's stream protocol,
or an iterable of record batches and punctuations. A query with several sources takes a mapping from
their names to inputs.

A journal is read up to its present end, which is the end of the input, as with a file.

Memory does not grow with the length of the input, only with what the query has to remember.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from gapless.engine import execute as pure
from gapless.engine.answer import answer, instant, last_answer
from gapless.engine.intake import FRAME_ROWS
from gapless.engine.nodes import Source
from gapless.engine.plan import Choice, Plan, plan_of
from gapless.engine.query import Query
from gapless.io.input_files import batches_of, is_file_input, is_journal, journal_rows
from gapless.io.reject_file import RejectFile
from gapless.journal.rejects import aside_text
from gapless.operators.cleanse import Cleanse
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.lines.formats import check_encoding
from gapless.protocol.lines.line_format import UTF8
from gapless.protocol.schema import WAS
from gapless.protocol.tables import readable

_NAME_A_FILE = "rejects=FILE keeps them"

Inputs = Mapping[str, Any] | Any
"""Inputs by source, or one input for a query with one source."""


class Execution(pure.Execution):
    """The output of a query: its frames, or all events as a table or a file."""

    def to_parquet(self, path: str | Path, **options: Any) -> int:
        """Runs to the end and writes every event once, when it is final; returns their number.

        `_vs`, `_ve` and the payload become columns; `options` are pyarrow's (`compression=`, ...).
        If the plan revises its answers, events are held back until they can no longer change, and
        then written in order of time. No frame may have been read before. After an error there is
        no file. Rows that are set aside go to `PATH.rejects.jsonl`, unless `rejects=` names another
        file.
        """
        from gapless.io.parquet_sink import ParquetSink

        self._check_new("to_parquet")
        if self.on_aside is None and self.aside.mode == "aside":
            self.on_aside = RejectFile(f"{path}.rejects.jsonl").take
        with self, ParquetSink(path, self.schema, **options) as sink:
            for frame in self._final():
                sink.write(frame)
            return sink.rows

    def to_arrow(self) -> pa.Table:
        """Runs to the end and returns every event once, as `to_parquet` writes them.

        The whole result is in memory. No frame may have been read before.
        """
        return self._table("to_arrow")

    def to_pandas(self) -> Any:
        """Like `to_arrow`, as a pandas DataFrame: times are timestamps, NaT if an event never
        ends.
        """
        return readable(self._table("to_pandas"), self.schema.time_unit).to_pandas()

    def _table(self, what: str) -> pa.Table:
        self._check_new(what)
        arrow = self.schema.arrow
        fields = [field for field in arrow if field.name != WAS]
        with self:
            batches = [frame.batch.drop_columns([WAS]) for frame in self._final() if len(frame)]
        return pa.Table.from_batches(batches, schema=pa.schema(fields, arrow.metadata))

    def _final(self) -> Iterator[Frame]:
        """Frames of final events."""
        cleanse = None if self.plan.insert_only else Cleanse(self.schema)
        for frame in self:
            yield frame if cleanse is None else cleanse.push(0, frame).frame

    def _check_new(self, what: str) -> None:
        if self.begun:
            raise Misuse(
                f"{what}: frames have been read already, or it is closed; execute the query again"
            )


def execute(
    query: Query | Plan,
    inputs: Inputs,
    *,
    implementation: Choice | None = None,
    memory_limit: int | None = None,
    frame_rows: int = FRAME_ROWS,
    encoding: str = UTF8,
    rejects: str | Path | None = None,
) -> Execution:
    """Runs a query over its inputs, as far as its frames are consumed.

    `implementation`: how windowed aggregates are computed, "paned" (the default), "auto", "wid",
    "adaptive" or `two_level(...)`, or a choice for each, as in `Plan`. `memory_limit`: bytes of
    state of all operators together; beyond it the query stops with `MemoryLimit`. `frame_rows`:
    rows that go through the plan at once; fewer give earlier answers at a higher cost.
    `encoding`: of text files. `rejects`: a JSON lines file to write the rows to that
    `on_error("aside")` sets aside; without it the first 100,000 wait for `execution.aside.take()`.
    """
    plan = plan_of(query, implementation)
    named = pure.by_source(plan.query, inputs)
    opened = {
        name: _opened(given, plan.query.sources[name], frame_rows, check_encoding(encoding))
        if name in plan.query.sources
        else given
        for name, given in named.items()
    }
    return Execution(
        plan,
        opened,
        clock=time.perf_counter_ns,
        memory_limit=memory_limit,
        frame_rows=frame_rows,
        on_aside=None if rejects is None else RejectFile(rejects).take,
    )


def _opened(given: Any, source: Source, frame_rows: int, encoding: str) -> Any:
    """Opens an input that is a path or a dataset; returns any other unchanged."""
    if is_journal(given):
        return journal_rows(given, source, frame_rows)
    return batches_of(given, source, encoding) if is_file_input(given) else given


def table(
    query: Query | Plan,
    inputs: Inputs,
    at: Any = None,
    *,
    implementation: Choice | None = None,
    memory_limit: int | None = None,
    encoding: str = UTF8,
    rejects: str | Path | None = None,
) -> pa.Table:
    """The answer at a time: the payloads of the events alive at `at`, in a fixed order.

    `at` is an int in the stream's time unit, a datetime (UTC if it has no zone), a date, or an
    Arrow scalar; no more input is read than needed. None is the newest answer: that of the last
    instant at which anything is alive, after all input. (With a slide that is the last window with
    rows; with rows that never end, all of these.)

    Rows that are set aside go to the file `rejects`; without one they are counted, and a warning is
    logged.
    """
    plan = plan_of(query, implementation)
    t = None if at is None else instant(at, plan.query.schema.time_unit)
    opened = execute(plan, inputs, memory_limit=memory_limit, encoding=encoding, rejects=rejects)
    with opened as execution:
        if t is None:
            found = last_answer(execution, execution.schema, plan.insert_only)
        else:
            found = answer(execution, execution.schema, t)
    if rejects is None and execution.aside.count:
        last = execution.aside.take()[-1]
        said = aside_text(execution.aside.count, f"{last.where}: {last.reason}", _NAME_A_FILE, 0)
        logging.getLogger("gapless").warning(said)
    return found


__all__ = ["Execution", "execute", "table"]
