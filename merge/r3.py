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
  Adjust  (15-18)  scattered into ve[r]; nothing goes out (policy `at_stable`).
  Stable  (19-31)  from the acting input (the one whose stable advances the output's): one sweep
                   over the columns. Where its end and the output's differ and one of them lies
                   below t, the output would freeze wrong: an adjust (or insert, or removal) puts
                   it right. What is then settled (out < t) is forgotten.

The acting input may only ask for what the output can still say: both ends at or above the old
stable. Anything else contradicts what another input had already frozen: a divergence. It is
counted and the output keeps what it promised. An adjust names the output's *current* end as `was`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gapless.kernels.columns import Column
from gapless.merge.case import Case, Favour, Taken, case_violation, violation
from gapless.merge.divergence import Divergences, OpenQuestions
from gapless.merge.keys import Keys, Rows, positions
from gapless.merge.policy import Policy, Quorum
from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame, Mask
from gapless.protocol.schema import StreamSchema

Ids = npt.NDArray[np.int64]


class R3(Case):
    """One event a key; a column of ends for each input and for the output."""

    name = "r3"

    def __init__(self, schema: StreamSchema, policy: Policy, divergences: Divergences) -> None:
        super().__init__(schema, policy, divergences)
        self._keys = Keys(schema)
        self._out = Column(INF)
        self._ve: dict[int, Column] = {}
        self._questions = OpenQuestions(self._keys.schema, divergences)
        self._promised: dict[int, int] = {}

    # -- inputs -------------------------------------------------------------------------------

    def attach(self, number: int) -> None:
        """Opens a column in which no event is there."""
        starts = self._keys.vs.values
        column = Column(INF, len(starts))
        column.values[:] = starts
        self._ve[number] = column
        self._promised[number] = BEGIN

    def detach(self, number: int) -> None:
        """Frees the column."""
        del self._ve[number], self._promised[number]
        self._questions.detach(number)

    def take(self, number: int, frame: Frame, favour: Favour) -> Taken:
        """Scatters the rows into the input's column; what goes out follows the policy."""
        rows = self._intern(frame, self.stable)
        column = self._ve[number].values
        self._check(number, frame, rows, column)
        out = self._put_out(number, frame, rows, favour)
        column[rows.ids] = rows.ve  # of a repeated key, numpy keeps the last
        if len(self._questions) and len(rows.settled):
            late = frame.take(rows.settled)
            self._questions.heard(number, self._keys.of(late), late.ve)
        return Taken(out, len(rows.settled))

    def _intern(self, frame: Frame, stable: int) -> Rows:
        """Ids for the rows; in the columns of a new one, no event is there."""
        rows = self._keys.intern(frame, stable)
        if len(rows.new):
            capacity = self._keys.capacity
            new, starts = rows.ids[rows.new], rows.vs[rows.new]
            for column in (self._out, *self._ve.values()):
                column.fit(capacity)[new] = starts
        return rows

    def _check(self, number: int, frame: Frame, rows: Rows, column: Ids) -> None:
        """Raises, and undoes the interning, where a row does not fit what its input has said."""
        before = column[rows.ids]
        if rows.repeats:
            order = np.argsort(rows.ids, kind="stable")
            grouped = rows.ids[order]
            follows = positions(grouped[1:] == grouped[:-1])
            before[order[follows + 1]] = rows.ve[order[follows]]
        expected = rows.vs if frame.insert_only else np.where(rows.is_insert, rows.vs, rows.was)
        bad = before != expected
        if not np.count_nonzero(bad):
            return
        row = int(bad.argmax())
        place = int(rows.places(np.array([row]))[0])
        held = int(before[row])
        self._forget(rows.ids[rows.new])
        if rows.is_insert[row]:
            rule = f"(vs, payload) is a key, and input {number} has it with end {format_time(held)}"
            raise case_violation(frame, place, rule)
        there = "no such event" if held == rows.vs[row] else f"one that ends at {format_time(held)}"
        raise violation(frame, place, f"an adjust is of what is there; input {number} has {there}")

    # -- output on arrival --------------------------------------------------------------------

    def _put_out(self, number: int, frame: Frame, rows: Rows, favour: Favour) -> list[Frame]:
        """What of a checked frame goes out at once."""
        if not (favour.insert or favour.adjust):
            return []
        frames = []
        for some in rows.rounds():
            frames += self._put_out_round(number, frame, rows, some, favour)
        return frames

    def _put_out_round(
        self, number: int, frame: Frame, rows: Rows, some: Ids, favour: Favour
    ) -> list[Frame]:
        """The same for rows of which no two have one key."""
        out = self._out.values
        whole = len(some) == len(rows)
        ids, vs, ve, is_insert = (
            (rows.ids, rows.vs, rows.ve, rows.is_insert)
            if whole
            else (rows.ids[some], rows.vs[some], rows.ve[some], rows.is_insert[some])
        )
        now = out[ids]
        absent = now == vs
        if not (favour.adjust or np.count_nonzero(absent)):
            return []
        goes = absent & is_insert & (vs >= self.stable)
        if not favour.insert:
            goes[:] = False
        elif isinstance(self.policy.insert, Quorum) and goes.any():
            goes &= self._holders(number, ids, vs) >= min(self.policy.insert.k, len(self._ve))
        if favour.adjust:
            goes |= ~absent & (ve != now) & (np.minimum(now, ve) >= self.stable)
        chosen = positions(goes)
        if not len(chosen):
            return []
        out[ids[chosen]] = ve[chosen]
        if len(chosen) == len(frame) and not favour.adjust:
            return [frame.with_stable(None)]
        places = rows.places(some[chosen])
        if places[-1] - places[0] == len(places) - 1:
            picked = frame.slice(int(places[0]), len(places))
        else:
            picked = frame.take(places)
        if not favour.adjust:
            return [picked]
        was = np.where(absent[chosen], BEGIN, now[chosen])
        return [Frame.from_columns(self.schema, picked.vs, picked.ve, picked.payload, was)]

    def _holders(self, number: int, ids: Ids, vs: Ids) -> Ids:
        """How many inputs hold each key, `number` included."""
        holders = np.ones(len(ids), np.int64)
        for other, column in self._ve.items():
            if other != number:
                holders += column.values[ids] != vs
        return holders

    # -- freezing -----------------------------------------------------------------------------

    def half_froze(self, number: int, stable: int) -> list[Frame]:
        """Rows for what the input has and the output lacks, between both stables."""
        vs, out, mine = self._columns(number)
        missing = (out == vs) & (mine != vs) & (vs >= self.stable) & (vs < stable)
        return self._set_out(number, positions(missing))

    def limit(self, number: int, stable: int) -> int:
        """The smallest start of what the input holds that is half frozen, or `stable`."""
        vs, _, mine = self._columns(number)
        half = (vs < stable) & (mine != vs) & (mine >= stable)
        if stable == INF or not half.any():
            return stable
        return int(vs[half].min())

    def freeze(self, number: int, t: int, promised: int) -> list[Frame]:
        """One sweep: puts right what t would freeze wrong, forgets what it settles."""
        frames = []
        if self.policy.insert == "fully_frozen":
            frames += self._put_out_frozen(number, promised)
        ids = self._wrong(number, t)
        if len(ids):
            _, out, mine = self._columns(number)
            can = np.minimum(mine[ids], out[ids]) >= self.stable
            if np.count_nonzero(can) < len(ids):
                wrong = ids[~can]
                self.divergences.record(number, self._keys.rows(wrong), mine[wrong], out[wrong])
                ids = ids[can]
            frames += self._set_out(number, ids)
        vs, out, _ = self._columns(number)
        # A missing event ends where it starts, a free id at INF: so out < t says it all below INF.
        gone = positions(vs < t if t == INF else out < t)
        if len(gone):
            self._compare(number, gone)
            self._forget(gone)
        self.stable = t
        return frames

    def _wrong(self, number: int, t: int) -> Ids:
        """Live keys whose ends differ so that t would freeze the output wrong."""
        vs, out, mine = self._columns(number)
        ids = positions(mine != out)
        vs, out, mine = vs[ids], out[ids], mine[ids]
        lower = np.minimum(mine, out)
        wrong = vs < t if t == INF else (vs < t) & (lower < t)
        if self.policy.adjust == "leading":
            wrong |= (mine != vs) & (out != vs) & (lower >= self.stable)
        return ids[wrong]

    def _columns(self, number: int) -> tuple[Ids, Ids, Ids]:
        """Starts, the output's ends, an input's ends, over all ids."""
        n = self._keys.capacity
        return self._keys.vs.values[:n], self._out.values[:n], self._ve[number].values[:n]

    def _put_out_frozen(self, number: int, promised: int) -> list[Frame]:
        """Policy fully_frozen: what the input has for good and the output lacks."""
        vs, out, mine = self._columns(number)
        missing = (out == vs) & (mine != vs) & (vs >= self.stable)
        missing &= (vs < promised) if promised == INF else (mine < promised)
        return self._set_out(number, positions(missing))

    def _set_out(self, number: int, ids: Ids) -> list[Frame]:
        """Gives the output an input's ends; the rows that say so."""
        if not len(ids):
            return []
        vs, out, mine = self._columns(number)
        starts, ends, now = vs[ids], mine[ids], out[ids]
        was = np.where(now == starts, BEGIN, now)
        payload = self._keys.rows(ids).columns[1:]
        out[ids] = ends
        return [Frame.from_columns(self.schema, starts, ends, payload, was)]

    # -- settling -----------------------------------------------------------------------------

    def promised(self, number: int, stable: int) -> None:
        """What the input said and `stable` freezes is its last word."""
        self._promised[number] = stable
        if len(self._questions):
            self._questions.promised(number, stable)

    def settles(self, number: int, before: int) -> None:
        """It may stop in the middle of what is settled: questions about that have no answer."""
        if len(self._questions):
            self._questions.close(number, before)

    def _compare(self, acting: int, gone: Ids) -> None:
        """Asks the other inputs that had told a settled key otherwise."""
        ours, starts = self._out.values[gone], self._keys.vs.values[gone]
        for number, column in self._ve.items():
            if number == acting:
                continue
            theirs = column.values[gone]
            other = (theirs != ours) & (theirs != starts)
            if np.count_nonzero(other):
                ids = gone[other]
                self._questions.ask(number, self._keys.rows(ids), theirs[other], ours[other])
                self._questions.promised(number, self._promised[number])

    def _forget(self, ids: Ids) -> None:
        """Frees the ids of settled keys."""
        if not len(ids):
            return
        columns = (self._out, *self._ve.values())
        for column in columns:
            column.values[ids] = INF
        self._keys.release(ids)
        capacity = self._keys.capacity
        for column in columns:
            column.fit(capacity)

    # -- the state as tables ------------------------------------------------------------------

    def live(self) -> Frame:
        """The output's events that are not settled."""
        return self._tell(self._out)

    def told(self, number: int) -> Frame:
        """An input's events whose keys are live."""
        return self._tell(self._ve[number])

    def _tell(self, column: Column) -> Frame:
        n = self._keys.capacity
        ids = positions(column.values[:n] != self._keys.vs.values[:n])
        rows = self._keys.rows(ids)
        starts = rows.column(0).to_numpy()
        return Frame.from_columns(self.schema, starts, column.values[ids], rows.columns[1:])

    def adopt_output(self, live: Frame) -> None:
        """Takes over an output."""
        rows = self._adopt(live)
        self._out.values[rows.ids] = rows.ve

    def adopt_input(self, number: int, told: Frame) -> None:
        """Takes over what an input has said."""
        rows = self._adopt(told)
        self._ve[number].values[rows.ids] = rows.ve

    def _adopt(self, table: Frame) -> Rows:
        rows = self._intern(table, BEGIN)  # no row of a live table is settled
        if rows.repeats:
            raise case_violation(
                table, 0, "(vs, payload) is a key; two events of the table share one"
            )
        return rows

    # -- looking at it ------------------------------------------------------------------------

    def unfrozen(self, number: int) -> int:
        """Events of an input that start at or after the output's stable."""
        vs, _, mine = self._columns(number)
        unfrozen: Mask = (mine != vs) & (vs >= self.stable)
        return int(unfrozen.sum())

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        columns = (self._out, *self._ve.values())
        return self._keys.nbytes + sum(c.nbytes for c in columns) + self._questions.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._keys.validate()
        vs = self._keys.vs.values
        live = vs < INF
        columns = {"output": self._out, **{f"input {n}": c for n, c in self._ve.items()}}
        for name, column in columns.items():
            ends = column.values
            if len(ends) != len(vs):
                raise Bug(f"{name}: {len(ends)} ends for {len(vs)} starts")
            if (ends < vs).any():
                raise Bug(f"{name}: an end before its start")
            if (ends[~live] != INF).any():
                raise Bug(f"{name}: a free id holds an end")
        if (live & (self._out.values < self.stable)).any():
            raise Bug("a settled event was not forgotten")
