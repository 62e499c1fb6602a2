"""A plan at work on a told input, watched: every output is folded, every step validated.

    running = Running(plan)
    for item in told: running.take(item)
    running.finish()
    running.tdb                      raises StreamViolation where the output broke a promise

The intake and the graph are the product's own; only the order in which sources are read is told.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pyarrow as pa

from gapless.engine.intake import Intake
from gapless.engine.nodes import Source
from gapless.engine.plan import Plan
from gapless.operators.aside import Aside
from gapless.operators.operator import Marks
from gapless.operators.state import State
from gapless.protocol.frame import Frame
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from gapless.protocol.values import from_values
from tests.engine.oracles.layouts import laid_out
from tests.engine.oracles.random_streams import Batch, Mark, Row, Told

Push = tuple[str, Frame, Marks]
"""What goes into a graph at once."""


class Running:
    """One instance of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.aside = Aside("aside")
        self.graph = plan.compile(self.aside)
        self.intakes = {
            name: Intake(source, self.aside, self.graph.grids[name])
            for name, source in plan.query.sources.items()
        }
        self.tdb = Tdb(self.graph.schema)
        self.pushed: list[Push] = []
        self.frames: list[Frame] = []
        self.unwanted: Mapping[str, int] = {}
        """Rows of a source whose lifetimes end before this time are left out."""

    def take(self, item: Batch | Mark) -> None:
        """What comes in next."""
        intake = self.intakes[item.source]
        wanted = self.unwanted.get(item.source)
        for frame, marks in intake.take(given_of(intake.source, item)):
            left = frame if wanted is None else frame.take(frame.ve >= wanted, frame.stable)
            self.push((item.source, left, marks))

    def push(self, push: Push) -> Frame:
        """A frame of a source, then its marks; what goes out for it."""
        out = self.graph.push(*push)
        self.pushed.append(push)
        self.frames.append(out)
        self.tdb.fold(out)
        self.graph.validate()
        return out

    def finish(self) -> None:
        """The end of all sources."""
        for name, intake in self.intakes.items():
            self.push((name, intake.finish(), ()))


def run(plan: Plan, told: Told) -> Running:
    """A plan that has read all of its input."""
    running = Running(plan)
    for item in told:
        running.take(item)
    running.finish()
    return running


def given_of(source: Source, item: Batch | Mark) -> pa.RecordBatch | Punctuation:
    """What a source's intake is given."""
    match item:
        case Batch(_, rows):
            return batch_of(source.schema, rows)
        case Mark(_, t, group):
            return Punctuation.of(dict(group), **{source.time: t})


def batch_of(schema: StreamSchema, rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as a batch, in a layout that they decide."""
    rng = random.Random(f"layout of {rows!r:.200}")
    columns = [
        laid_out(rng, from_values([row[i] for row in rows], field.type))
        for i, field in enumerate(schema.payload)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema.payload)


def stored(state: State) -> State:
    """A snapshot as it comes back from a file."""
    back = {}
    for name, batch in state.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        with pa.ipc.open_stream(sink.getvalue()) as reader:
            back[name] = reader.read_next_batch()
    return back
