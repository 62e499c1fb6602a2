"""Join: rows of two inputs that are equal in some columns and alive at the same time (OA-Join).

    left    ins((k,1),0,10)                      stable(12)
    right                     ins((k,x),5,20)                 adj((k,x),5,20,9)
    inner                     ins((k,1,x),5,10)               adj((k,1,x),5,10,9)
    left's null rows                             ins((k,1,null),0,5) ...

The result of a pair lives in the intersection of the two lifetimes, so a band join is a join of
`[ts, ts+r)` and a tumbling one of hopping windows; there is no other rule about time here. Chapter
7 of the thesis, on lifetimes:

- **A row** (fig. 7-1, ProcessTuple) meets the rows of the other side that have its key and are
  alive with it, and is then stored, unless it can meet nobody any more. An adjust changes the pairs
  that its event is in: each is inserted, adjusted or removed, or stays as it was.
- **A stable** (ProcessPunctuation) of one side lets go those rows of the other whose end it has
  reached, once they are final themselves: their ends never change, or are below their own input's
  stable. What is due is found by time; nothing else is looked at.
- **Marks** are in `join_marks.py`.

Unmatched rows. A part of a row's lifetime in which it meets nobody is a null row. It is known as
soon as the other side's stable T is beyond its start: nobody new begins before T, and no end below
T changes. So at T the parts that start below T go out with the ends that they have now, and a later
row or adjust that shortens, lengthens or splits one adjusts it. What a change does to such parts is
found by cutting out the lifetimes of the rows concerned before and after it (`join_nulls.py`).

    left row  [0,30)    right rows [4,9) [12,15)        T = 10:   [0,4) [9,12)
    then ins [11,13)                                    adj [9,12) to [9,11)

The rows that cover a part must be there when it is cut out again. They may go once both stables are
beyond their end, as then what lies before that end is settled; `settled` keeps it, one time a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.kernels.live_rows import EVER
from gapless.kernels.pick import Picker
from gapless.operators.aside import Aside
from gapless.operators.join_changes import Changes, changes_of
from gapless.operators.join_columns import How, JoinColumns
from gapless.operators.join_condition import Condition
from gapless.operators.join_keys import JoinKeys
from gapless.operators.join_marks import JoinMarks, JoinProgress
from gapless.operators.join_nulls import NO_PIECES, Revised, revised
from gapless.operators.join_pairs import JoinRows, Pairs
from gapless.operators.join_side import ALL, KeysOf, Side, Touched
from gapless.operators.join_unmatched import Unmatched, judged
from gapless.operators.operator import Marks, Operator, Out, check_schema, joined
from gapless.operators.state import State, check_names, facts, read_facts
from gapless.protocol.columns import take_rows
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, Misuse, StreamViolation
from gapless.protocol.expr import Expr
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import format_element


class Join(Operator):
    """Pairs of rows of input 0, the left, and input 1, the right.

    `on` are pairs of columns that have to be equal, left and right; `where` is evaluated over the
    output's columns. `final_ends` says of each input whether its events are never adjusted,
    `longest` how long they live at most.

    A frame that adjusts what is not there raises `StreamViolation` and changes nothing.
    """

    inputs = 2

    def __init__(
        self,
        left: StreamSchema,
        right: StreamSchema,
        on: Sequence[tuple[str, str]],
        where: Expr | None = None,
        how: How = "inner",
        aside: Aside | None = None,
        progressing: Sequence[JoinProgress] = (),
        final_ends: tuple[bool, bool] = (False, False),
        longest: tuple[int, int] = (INF, INF),
    ) -> None:
        if min(longest) < 1:
            raise Misuse(f"longest lifetimes {longest}: each is at least 1")
        self._columns = JoinColumns(left, right, on, how)
        self.schema = self._columns.schema
        self._outer = any(self._columns.keeps)
        self.reach = min(INF, sum(longest)) if self._outer else 0
        self._where = None if where is None else Condition(where, self._columns, aside or Aside())
        self._keys = JoinKeys(self._columns, left.payload)
        self._marks = JoinMarks(progressing, self._columns, (left, right))
        self._sides = tuple(
            Side(schema, final, keeps, None if self._outer else (names, self._keys.values))
            for schema, final, keeps, names in zip(
                (left, right), final_ends, self._columns.keeps, self._columns.on, strict=True
            )
        )
        self._unmatched = Unmatched(self._sides, self._where)
        self._pickers = Picker(left.payload), Picker(right.payload)
        self._stable = BEGIN
        self._wanted = BEGIN  # results that end before it need not be put out

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """What the rows form and change, then what the stable settles."""
        return joined(self.schema, self.parts(source, frame, marks))

    def parts(self, source: int, frame: Frame, marks: Marks = ()) -> Iterator[Out]:
        """The same, a bounded number of pairs at a time; the state is as it was up to the last."""
        mine = self._sides[source]
        check_schema(frame, mine.schema)
        out = JoinRows(self.schema, self.memory)
        steps = self._take(source, frame, out) if len(frame) else iter(())
        for _ in chain(steps, self._advance(source, frame.stable, out)):
            if out.is_full:
                yield Out(out.frame())
        self._purge()
        stables = self._stables
        self._marks.hear(source, marks)
        promised = min(stables) if min(stables) > self._stable else None
        self._stable = min(stables)
        yield Out(out.frame(promised), self._marks.tell(stables))

    @property
    def _stables(self) -> tuple[int, int]:
        left, right = self._sides
        return left.stable, right.stable

    # -- rows ---------------------------------------------------------------------------------

    def _changes(self, source: int, frame: Frame) -> Changes:
        if self._sides[source].final and not frame.insert_only:
            first = frame.slice(int((~frame.is_insert).argmax()), 1).elements()[0]
            rule = "this input of the join was said to have ends that never change"
            raise StreamViolation(format_element(first), rule)
        return changes_of(frame)

    def _take(self, source: int, frame: Frame, out: JoinRows) -> Iterator[None]:
        """Takes a frame of one side in. Nothing has changed where this raises."""
        mine, other = self._sides[source], self._sides[1 - source]
        changes = self._changes(source, frame)
        keys, nowhere = self._keys.of(source, changes.payload, changes.vs)
        if nowhere is not None:
            rows = (~nowhere).nonzero()[0]
            changes, keys = changes.part(rows), keys[rows]
        ids = mine.find(keys, changes) if changes.old else keys[:0]
        touched = Touched(other.rows.capacity)
        yield from self._meet(source, ids, keys, changes, touched, out)
        if other.keeps:
            stored = touched.ids
            for lost in self._unmatched.revised_by(
                source, (ids, keys, changes), stored, self.memory
            ):
                yield from self._put_alone(1 - source, stored, lost, out)
        since = EVER if self._outer else self._bound(source)
        if since < ALL:
            mine.change(ids, keys, changes, since, other.stable)

    def _meet(
        self, source: int, ids: Ids, keys: Ids, changes: Changes, touched: Touched, out: JoinRows
    ) -> Iterator[None]:
        """Puts out what the changes form and change, and this side's null rows; `touched` gets the
        ids on the other side whose null rows may change, too.
        """
        mine, other = self._sides[source], self._sides[1 - source]
        alive = np.maximum(changes.was, changes.ve) if changes.old else changes.ve
        row_bytes = mine.row_bytes.of(changes.payload)
        for start, end, met in other.meet(keys, changes.vs, alive, self.memory):
            pairs = self._satisfying(source, changes, Pairs.of(changes, met), row_bytes)
            if mine.keeps:
                lost = self._unmatched.of_changes(source, changes, slice(start, end), ids, pairs)
                for part in out.cuts(row_bytes[lost.owner]):
                    payload = self._pick(source, changes.payload, lost.owner[part])
                    out.revise(lost.part(part), self._columns.alone(source, payload))
                    yield
                pairs = pairs.changing()
            for part in out.cuts(self._pair_bytes(source, row_bytes, pairs)):
                some = pairs.part(part)
                columns = self._columns.joined(*self._pair_rows(source, changes, some))
                out.add(some.vs, some.was if changes.old else None, some.ve, columns)
                yield
            if other.keeps:
                touched.add(pairs.id)

    def _satisfying(self, source: int, changes: Changes, pairs: Pairs, row_bytes: Ids) -> Pairs:
        """The pairs for which `where` holds, of those that change; of all where this side's
        unmatched rows come out.
        """
        all_of_them = self._sides[source].keeps
        if not all_of_them:
            pairs = pairs.changing()
        if self._where is None or not len(pairs.id):
            return pairs
        formed = None
        if changes.old or all_of_them:
            formed = (pairs.was == pairs.vs) & (pairs.ve > pairs.vs)
        holds = np.empty(len(pairs.id), np.bool_)
        for part in judged(self._pair_bytes(source, row_bytes, pairs), self.memory):
            left, right = self._pair_rows(source, changes, pairs.part(part))
            some = None if formed is None else formed[part]
            holds[part] = self._where.holds(left, right, some)
        return pairs.pick(holds)

    def _pair_bytes(self, source: int, row_bytes: Ids, pairs: Pairs) -> Ids:
        return row_bytes[pairs.asked] + self._sides[1 - source].bytes_of(pairs.id)

    def _pair_rows(
        self, source: int, changes: Changes, pairs: Pairs
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        mine = self._pick(source, changes.payload, pairs.asked)
        on = [mine.column(name) for name in self._columns.on[source]]
        theirs = self._sides[1 - source].payloads(pairs.id, on)
        return (theirs, mine) if source else (mine, theirs)

    def _pick(self, source: int, payload: pa.RecordBatch, rows: Ids) -> pa.RecordBatch:
        picked = self._pickers[source].take(payload, rows)
        return take_rows(payload, rows) if picked is None else picked

    # -- progress -----------------------------------------------------------------------------

    def _advance(self, source: int, t: int | None, out: JoinRows) -> Iterator[None]:
        """A stable of one side: parts of the other's lifetimes that start below it are known."""
        mine, other = self._sides[source], self._sides[1 - source]
        if t is None or t <= mine.stable:
            return
        was, mine.stable = mine.stable, t
        if not other.keeps:
            return
        # A part starts where its row does, or where a match ends.
        ended = mine.ending(was, t)
        found = Touched(other.rows.capacity)
        found.add(other.starting(t))
        if len(ended):
            for _, _, met in other.meet(*mine.rows.lives(ended), self.memory):
                found.add(met.id)
        ids = found.ids
        for pieces in self._unmatched.of_stored(1 - source, ids, t, self.memory):
            new = pieces.pick(pieces.vs >= was)
            yield from self._put_alone(1 - source, ids, revised(NO_PIECES, new), out)

    def _put_alone(self, side: int, ids: Ids, lost: Revised, out: JoinRows) -> Iterator[None]:
        mine = self._sides[side]
        for part in out.cuts(mine.bytes_of(ids[lost.owner])):
            some = lost.part(part)
            out.revise(some, self._columns.alone(side, mine.payloads(ids[some.owner])))
            yield

    def _bound(self, side: int) -> int:
        """Rows of a side that end below this one can go."""
        mine, other = self._sides[side], self._sides[1 - side]
        theirs = ALL if other.stable == INF else other.stable + 1
        own = ALL if mine.stable == INF else mine.stable
        bound = theirs if mine.final and not other.keeps else min(theirs, own)
        if self._outer:
            return bound
        return max(bound, self._wanted if mine.final else min(self._wanted, own))

    def _purge(self) -> None:
        for number, mine in enumerate(self._sides):
            other = self._sides[1 - number]
            ids = mine.due(self._bound(number))
            if not len(ids):
                continue
            if other.keeps:
                self._settle(number, ids)
            mine.release(ids)
        live = sum(len(side.rows) for side in self._sides)
        if self._keys.is_large(live):
            used = [side.rows.lives(side.rows.ids).keys for side in self._sides]
            self._keys.forget_but(np.concatenate(used))

    def _settle(self, side: int, ids: Ids) -> None:
        """Rows go: those that they have covered remember until when."""
        mine, other = self._sides[side], self._sides[1 - side]
        lives = mine.rows.lives(ids)
        for _, _, met in other.meet(*lives, self.memory):
            left = self._unmatched.matching(side, ids, met, other, self.memory)
            other.settle(left.id, np.minimum(lives.ve[left.asked], left.ve))

    def fast_forward(self, t: int) -> int:
        """Inner: rows that end before t give nothing that is wanted. Outer: all are needed."""
        if self._outer:
            return BEGIN
        self._wanted = max(self._wanted, t)
        self._purge()
        return t

    # -- state --------------------------------------------------------------------------------

    def snapshot(self) -> State:
        """Both sides' rows with their lifetimes, the stables, and what marks have said."""
        left, right = self._sides
        numbers = {"stable": self._stable, "wanted": self._wanted, **self._marks.snapshot()}
        return {
            "facts": facts(left=left.stable, right=right.stable, **numbers),
            "left": left.snapshot(),
            "right": right.snapshot(),
        }

    def restore(self, state: State) -> None:
        """Takes both sides' rows in again; who meets whom follows from that."""
        check_names(state, "facts", "left", "right")
        names = ("left", "right", "stable", "wanted", *self._marks.snapshot())
        left, right, self._stable, self._wanted, *said = read_facts(state, *names)
        self._marks.restore(said)
        for source, stable in enumerate((left, right)):
            self._sides[source].stable = stable
        for source, name in enumerate(("left", "right")):
            frontier = self._sides[1 - source].stable
            self._sides[source].restore(state, name, self._keys_of(source), frontier)

    def _keys_of(self, source: int) -> KeysOf:
        return lambda payload, vs: self._keys.of(source, payload, vs)[0]

    @property
    def nbytes(self) -> int:
        """Bytes of both sides and the keys."""
        return self._keys.nbytes + sum(side.nbytes for side in self._sides)

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._keys.validate()
        for source, mine in enumerate(self._sides):
            mine.validate(self._keys_of(source), self._sides[1 - source].stable)
            ids = mine.rows.ids
            if len(ids) and int(mine.rows.lives(ids).ve.min()) < self._bound(source):
                raise Bug("a row is kept that can meet nobody any more")
        if self._stable != min(self._stables):
            raise Bug(f"promised {self._stable} of stables {self._stables}")
