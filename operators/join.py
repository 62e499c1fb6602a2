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

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.kernels.live_rows import EVER, Met
from gapless.kernels.pick import Picker
from gapless.operators.aside import Aside
from gapless.operators.join_changes import Changes, changes_of
from gapless.operators.join_columns import How, JoinColumns
from gapless.operators.join_condition import Condition
from gapless.operators.join_keys import JoinKeys
from gapless.operators.join_marks import JoinMarks, Progressing
from gapless.operators.join_nulls import NO_PIECES, Pieces, Revised, revised, uncovered
from gapless.operators.join_pairs import JoinRows, Pairs
from gapless.operators.join_side import ALL, KeysOf, Side, distinct
from gapless.operators.operator import Marks, Operator, Out, check_schema
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
        progressing: Sequence[Progressing] = (),
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
            Side(schema, final, keeps)
            for schema, final, keeps in zip(
                (left, right), final_ends, self._columns.keeps, strict=True
            )
        )
        self._pickers = Picker(left.payload), Picker(right.payload)
        self._stable = BEGIN
        self._wanted = BEGIN  # results that end before it need not be put out

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """What the rows form and change, then what the stable settles."""
        mine = self._sides[source]
        check_schema(frame, mine.schema)
        out = JoinRows(self.schema)
        if len(frame):
            self._take(source, self._changes(source, frame), out)
        if frame.stable is not None and frame.stable > mine.stable:
            self._advance(source, frame.stable, out)
        self._purge()
        stables = self._stables
        self._marks.hear(source, marks)
        promised = min(stables) if min(stables) > self._stable else None
        self._stable = min(stables)
        return Out(out.frame(promised), self._marks.tell(stables))

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

    def _take(self, source: int, changes: Changes, out: JoinRows) -> None:
        """Takes changes of one side in. Nothing has changed where this raises."""
        mine, other = self._sides[source], self._sides[1 - source]
        keys, nowhere = self._keys.of(source, changes.payload, changes.vs)
        if nowhere is not None:
            rows = (~nowhere).nonzero()[0]
            changes, keys = changes.part(rows), keys[rows]
        ids = mine.find(keys, changes) if changes.old else keys[:0]
        touched = self._meet(source, ids, keys, changes, out)
        before = self._unmatched(1 - source, touched, mine.stable)
        since = EVER if self._outer else self._bound(source)
        if since < ALL:
            mine.change(ids, keys, changes, since, other.stable)
        if len(touched):
            after = self._unmatched(1 - source, touched, mine.stable)
            self._put_stored_alone(1 - source, touched, revised(before, after), out)

    def _meet(self, source: int, ids: Ids, keys: Ids, changes: Changes, out: JoinRows) -> Ids:
        """Puts out what the changes form and change, and this side's null rows.

        Returns the ids on the other side whose null rows may change, too.
        """
        mine, other = self._sides[source], self._sides[1 - source]
        touched = []
        alive = np.maximum(changes.was, changes.ve) if changes.old else changes.ve
        for start, end, met in other.meet(keys, changes.vs, alive):
            pairs = Pairs.of(changes, met)
            pairs = self._satisfying(source, changes, pairs, mine.keeps)
            if mine.keeps:
                lost = self._alone(changes, slice(start, end), ids, mine, pairs, other.stable)
                if len(lost.owner):
                    payload = self._pick(source, changes.payload, lost.owner)
                    out.revise(lost, self._columns.alone(source, payload))
                pairs = pairs.changing()
            self._put_pairs(source, changes, pairs, out)
            if other.keeps:
                touched.append(pairs.id)
        return distinct(touched, other.rows.capacity)

    def _satisfying(self, source: int, changes: Changes, pairs: Pairs, all_of_them: bool) -> Pairs:
        """The pairs for which `where` holds, of those that change or of all."""
        if not all_of_them:
            pairs = pairs.changing()
        if self._where is None or not len(pairs.id):
            return pairs
        formed = None
        if changes.old or all_of_them:
            formed = (pairs.was == pairs.vs) & (pairs.ve > pairs.vs)
        left, right = self._pair_rows(source, changes, pairs)
        return pairs.pick(self._where.holds(left, right, formed))

    def _put_pairs(self, source: int, changes: Changes, pairs: Pairs, out: JoinRows) -> None:
        if not len(pairs.id):
            return
        columns = self._columns.joined(*self._pair_rows(source, changes, pairs))
        out.add(pairs.vs, pairs.was if changes.old else None, pairs.ve, columns)

    def _pair_rows(
        self, source: int, changes: Changes, pairs: Pairs
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        mine = self._pick(source, changes.payload, pairs.asked)
        theirs = self._sides[1 - source].rows.rows(pairs.id)
        return (theirs, mine) if source else (mine, theirs)

    def _pick(self, source: int, payload: pa.RecordBatch, rows: Ids) -> pa.RecordBatch:
        picked = self._pickers[source].take(payload, rows)
        return take_rows(payload, rows) if picked is None else picked

    # -- unmatched rows -----------------------------------------------------------------------

    def _alone(
        self,
        changes: Changes,
        part: slice,
        ids: Ids,
        mine: Side,
        pairs: Pairs,
        frontier: int,
    ) -> Revised:
        """How the null rows of changed events change; `part` are those that `pairs` tell of."""
        low = changes.vs.copy()
        low[: changes.old] = mine.settled.values[ids]
        pieces = [NO_PIECES, NO_PIECES]
        for i, (end, ends) in enumerate(((changes.was, pairs.was), (changes.ve, pairs.ve))):
            if i or changes.old:
                high = changes.vs.copy()
                high[part] = end[part]
                pieces[i] = uncovered(low, high, (pairs.asked, pairs.vs, ends), frontier)
        return revised(*pieces)

    def _unmatched(self, side: int, ids: Ids, frontier: int) -> Pieces:
        """The null rows of stored events, as far as they are known at `frontier`."""
        mine, other = self._sides[side], self._sides[1 - side]
        if not len(ids):
            return NO_PIECES
        keys, vs, ve = mine.rows.lives(ids)
        low = mine.settled.values[ids]
        found = []
        for start, end, met in other.meet(keys, vs, ve):
            by = self._matching(side, ids, met)
            intervals = by.asked - start, by.vs, by.ve
            cut = uncovered(low[start:end], ve[start:end], intervals, frontier)
            found.append(cut._replace(owner=cut.owner + start))
        return Pieces.all_of(found)

    def _matching(self, side: int, ids: Ids, met: Met) -> Met:
        """Of the stored rows that stored rows of a side meet, those for which `where` holds."""
        if self._where is None or not len(met.id):
            return met
        left = self._sides[side].rows.rows(ids[met.asked])
        right = self._sides[1 - side].rows.rows(met.id)
        if side:
            left, right = right, left
        holds = self._where.holds(left, right, np.zeros(len(met.id), np.bool_))
        return Met(*(column[holds] for column in met))

    def _put_stored_alone(self, side: int, ids: Ids, lost: Revised, out: JoinRows) -> None:
        if len(lost.owner):
            rows = self._sides[side].rows.rows(ids[lost.owner])
            out.revise(lost, self._columns.alone(side, rows))

    # -- progress -----------------------------------------------------------------------------

    def _advance(self, source: int, t: int, out: JoinRows) -> None:
        """A stable of one side: parts of the other's lifetimes that start below it are known."""
        mine, other = self._sides[source], self._sides[1 - source]
        was, mine.stable = mine.stable, t
        if not other.keeps:
            return
        # A part starts where its row does, or where a match ends.
        ended = mine.ending(was, t)
        found = [other.starting(t)]
        if len(ended):
            found += [met.id for _, _, met in other.meet(*mine.rows.lives(ended))]
        ids = distinct(found, other.rows.capacity)
        pieces = self._unmatched(1 - source, ids, t)
        pieces = pieces.pick(pieces.vs >= was)
        self._put_stored_alone(1 - source, ids, revised(NO_PIECES, pieces), out)

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
        for _, _, met in other.meet(*lives):
            left = self._matching(side, ids, met)
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
