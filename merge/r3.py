"""LMerge, case R3: inserts, adjusts and stables in any order; (vs, payload) is a key.

The paper's Algorithm R3 (section IV-B) keeps an index in2t: a node for each (vs, payload), and in
it the current end that each input gives the event, and the end that was put out. Here the node is
an id of a `KeyTable` and each of those ends is a column over ids:

      id   key           ve[0]  ve[1]  out           input 0: ins(A,6,20) adj(A,6,20,30)
       0   (6, A)          30     25    20           input 1: ins(A,6,25) ins(B,7,14)
       1   (7, B)           7     14    14           output:  ins(A,6,20) ins(B,7,14)

An end equal to the start says "no such event" (as an adjust does, and as line 20 of the algorithm
does), so input 0 above lacks B. Free ids have vs = INF and never take part.

  Insert  (5-14)   new keys get an id, and go out as they came; ends are scattered into ve[r].
                   A key below the output's stable that has no node is settled: dropped.
  Adjust  (15-18)  scattered into ve[r]; nothing goes out.
  Stable  (19-31)  from the acting input (the one whose stable advances the output's): one sweep
                   over the columns. Where its end and the output's differ and one of them lies
                   below t, the output would freeze wrong: an adjust (or insert, or removal) puts
                   it right. What is then settled (out < t) is forgotten.

The acting input may only ask for what the output can still say: both ends at or above the old
stable. Anything else contradicts what another input had already frozen: a divergence. It is
counted and the output keeps what it promised. An adjust names the output's *current* end as `was`.

Bad content (an input that breaks its own stable, adjusts what it did not insert, inserts a key
twice) detaches that input before any of the frame counts; `detached[input]` says why.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.columns import Column
from gapless.merge.membership import Input, Membership
from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.errors import Bug, GaplessError, Misuse, SchemaError, StreamViolation
from gapless.protocol.frame import Frame, Mask, Times
from gapless.protocol.schema import VS, StreamSchema
from gapless.protocol.text import format_element

Ids = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Rows:
    """The rows of a frame that matter, and the ids of their keys."""

    ids: Ids
    first: Mask
    vs: Times
    ve: Times
    was: Times
    position: Ids
    """Where in the frame each row stands."""
    repeated: bool
    """Does some key stand here more than once?"""


class R3:
    """Merges physically different streams of one table into one. Not thread-safe."""

    def __init__(self, schema: StreamSchema) -> None:
        self.schema = schema
        self.stable = BEGIN
        """The output's stable."""
        self.divergences = 0
        """How often an acting input contradicted what the output had already promised."""
        self._members = Membership()
        key = pa.schema([schema.arrow.field(VS), *schema.payload])
        self._table = KeyTable(key)
        self._vs = Column(INF)
        self._out = Column(INF)
        self._ve: dict[int, Column] = {}

    # -- membership ---------------------------------------------------------------------------

    def attach(self, join_at: int = BEGIN) -> int:
        """A new input that holds every event with `ve >= join_at`; its number."""
        number = self._members.attach(join_at).number
        column = Column(INF, len(self._vs.values))
        column.values[:] = self._vs.values
        self._ve[number] = column
        return number

    def detach(self, number: int, reason: GaplessError | None = None) -> None:
        """Lets an input go. Its column is freed, its number never used again."""
        self._members.detach(number, reason)
        del self._ve[number]

    @property
    def inputs(self) -> list[int]:
        """The attached inputs."""
        return list(self._members.attached)

    @property
    def detached(self) -> dict[int, GaplessError | None]:
        """Who left, and why: None where the caller asked for it."""
        return dict(self._members.detached)

    @property
    def waiting_for(self) -> str | None:
        """Why the output cannot advance, where no attached input may act; else None."""
        return self._members.waiting_for(self.stable)

    def input_stable(self, number: int) -> int:
        """The last stable that an attached input promised."""
        return self._members.get(number).stable

    def feedback(self, number: int) -> int:
        """Events with `ve` below this time are settled: the input need not send them."""
        self._members.get(number)
        return self.stable

    def resume(self, live: Frame) -> None:
        """Takes up an output where it was left: its events with `ve >= stable`, and its stable.

        Only for a merger that has put out nothing yet.
        """
        if self.stable != BEGIN or len(self._table):
            raise Misuse("resume comes before any input")
        if not live.is_insert.all():
            raise Misuse("resume takes the live table as inserts")
        stable = BEGIN if live.stable is None else live.stable
        if stable < INF:
            rows = self._intern(live.take(live.ve >= stable))
            if rows.repeated:
                self._forget(rows.ids[rows.first])
                raise Misuse("resume: the table has two events with one (vs, payload)")
            self._out.values[rows.ids] = rows.ve
        self.stable = stable

    # -- merging ------------------------------------------------------------------------------

    def push(self, number: int, frame: Frame) -> Frame:
        """Takes a frame of one input; returns what it adds to the output, maybe nothing.

        A frame with bad content counts not at all and detaches its input; only a caller's misuse
        (an unknown or detached number) raises.
        """
        entry = self._members.get(number)
        try:
            self._check(entry, frame)
            rows = self._take_in(entry, frame) if len(frame) else None
        except (StreamViolation, SchemaError) as reason:
            self.detach(number, reason)
            return Frame.empty(self.schema)
        out = [] if rows is None else self._put_out(frame, rows)
        if frame.stable is not None:
            entry.stable = frame.stable
        stable = None
        while (acting := self._acting()) is not None:
            out += self._freeze(acting)
            stable = acting.stable
        if not out:
            return Frame.empty(self.schema, stable)
        return (out[0] if len(out) == 1 else Frame.concat(out)).with_stable(stable)

    def _acting(self) -> Input | None:
        """The input whose stable may advance the output's."""
        return self._members.acting(self.stable)

    def _check(self, entry: Input, frame: Frame) -> None:
        """Raises where a frame breaks what its own input has promised."""
        if frame.schema != self.schema:
            raise SchemaError(f"input {entry.number} sends {frame.schema}, expected {self.schema}")
        stable, promised = entry.stable, format_time(entry.stable)
        if frame.stable is not None and frame.stable < stable:
            raise StreamViolation(
                f"stable({format_time(frame.stable)})",
                f"stables never go back, and input {entry.number} promised {promised}",
            )
        if stable == BEGIN or not len(frame):
            return
        floor = np.where(frame.is_insert, frame.vs, np.minimum(frame.was, frame.ve))
        bad = floor < stable
        if bad.any():
            rule = f"input {entry.number} promised stable({promised})"
            raise _violation(frame, int(bad.argmax()), rule)

    def _intern(self, frame: Frame) -> _Rows:
        """Ids for the rows of a frame; rows of settled keys are left out."""
        columns = frame.batch.columns
        keys = pa.RecordBatch.from_arrays([columns[0], *columns[3:]], schema=self._table.schema)
        vs = frame.vs
        late = vs < self.stable
        position = np.arange(len(vs))
        if late.any():
            ids = self._table.find(keys)
            first = np.zeros(len(ids), np.bool_)
            fresh = np.flatnonzero((ids < 0) & ~late)
            if len(fresh):
                ids[fresh], first[fresh] = self._table.intern(keys.take(pa.array(fresh)))
            live = np.flatnonzero(ids >= 0)
            rows = _Rows(
                ids[live], first[live], vs[live], frame.ve[live], frame.was[live], live, False
            )
        else:
            ids, first = self._table.intern(keys)
            rows = _Rows(ids, first, vs, frame.ve, frame.was, position, False)
        if not rows.first.all():
            seen = np.empty(self._table.capacity, np.int64)
            seen[rows.ids] = rows.position
            rows.repeated = bool((seen[rows.ids] != rows.position).any())
        self._make_room(rows)
        return rows

    def _make_room(self, rows: _Rows) -> None:
        """Opens the columns of new ids: no input has the event, nor has the output."""
        capacity = self._table.capacity
        new, starts = rows.ids[rows.first], rows.vs[rows.first]
        for column in (self._vs, self._out, *self._ve.values()):
            column.fit(capacity)[new] = starts

    def _take_in(self, entry: Input, frame: Frame) -> _Rows:
        """Scatters the rows into the input's column; raises before anything if they are bad."""
        rows = self._intern(frame)
        column = self._ve[entry.number].values
        before = column[rows.ids]
        if rows.repeated:
            order = np.argsort(rows.ids, kind="stable")
            follows = np.flatnonzero(rows.ids[order][1:] == rows.ids[order][:-1])
            before[order[follows + 1]] = rows.ve[order[follows]]
        bad = before != np.where(rows.was == BEGIN, rows.vs, rows.was)
        if bad.any():
            self._forget(rows.ids[rows.first])
            i = int(rows.position[int(bad.argmax())])
            held = int(before[int(bad.argmax())])
            has = "no such event" if held == int(frame.vs[i]) else f"it ends at {format_time(held)}"
            rule = f"an insert is of a new key, an adjust of what is there; here there is {has}"
            raise _violation(frame, i, rule)
        column[rows.ids] = rows.ve  # of a repeated key, numpy keeps the last
        return rows

    def _put_out(self, frame: Frame, rows: _Rows) -> list[Frame]:
        """Policy `first`: an event goes out with the first insert of it that comes."""
        out = self._out.values
        absent = (rows.was == BEGIN) & (out[rows.ids] == rows.vs) & (rows.vs >= self.stable)
        chosen = np.flatnonzero(absent)
        if rows.repeated:
            chosen = np.sort(chosen[np.unique(rows.ids[chosen], return_index=True)[1]])
        if not len(chosen):
            return []
        out[rows.ids[chosen]] = rows.ve[chosen]
        if len(chosen) == len(frame):
            return [frame.with_stable(None)]
        return [frame.take(rows.position[chosen])]

    def _freeze(self, acting: Input) -> list[Frame]:
        """Makes the output agree with the acting input wherever its stable freezes it."""
        t, old = acting.stable, self.stable
        n = self._table.capacity
        vs, out, mine = (
            self._vs.values[:n],
            self._out.values[:n],
            self._ve[acting.number].values[:n],
        )
        live = vs < t
        lower = np.minimum(mine, out)
        differs = (mine != out) & live
        if t != INF:
            differs &= lower < t
        ids = np.flatnonzero(differs)
        can = lower[ids] >= old
        self.divergences += int(len(ids) - can.sum())
        ids = ids[can]
        frames = []
        if len(ids):
            was, ends = out[ids], mine[ids]
            rows = self._table.rows(ids)
            frames.append(
                Frame.from_columns(
                    self.schema,
                    vs[ids],
                    ends,
                    rows.columns[1:],
                    np.where(was == vs[ids], BEGIN, was),
                )
            )
            out[ids] = ends
        self._forget(np.flatnonzero(live if t == INF else live & (out < t)))
        self.stable = t
        return frames

    def _forget(self, ids: Ids) -> None:
        """Frees the ids of settled keys."""
        if not len(ids):
            return
        self._table.release(ids)
        capacity = self._table.capacity
        for column in (self._vs, self._out, *self._ve.values()):
            column.values[ids] = INF
            column.fit(capacity)

    # -- looking at it ------------------------------------------------------------------------

    def __len__(self) -> int:
        """Live keys."""
        return len(self._table)

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        columns = (self._vs, self._out, *self._ve.values())
        return int(self._table.nbytes) + sum(c.nbytes for c in columns)

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._table.validate()
        vs, out = self._vs.values, self._out.values
        live = vs < INF
        if int(live.sum()) != len(self._table):
            raise Bug(f"{int(live.sum())} live starts, {len(self._table)} live keys")
        for name, column in [
            ("output", out),
            *((f"input {n}", c.values) for n, c in self._ve.items()),
        ]:
            if len(column) != len(vs):
                raise Bug(f"{name}: {len(column)} ends for {len(vs)} starts")
            if (column < vs).any():
                raise Bug(f"{name}: an end before its start")
            if (column[~live] != INF).any():
                raise Bug(f"{name}: a free id holds an end")
        if (live & (out < self.stable)).any():
            raise Bug("a settled event was not forgotten")
        if set(self._ve) != set(self._members.attached):
            raise Bug("columns and attached inputs differ")


def _violation(frame: Frame, row: int, rule: str) -> StreamViolation:
    return StreamViolation(format_element(frame.slice(row, 1).elements()[0]), rule)
