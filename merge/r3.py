"""LMerge, case R3: inserts, adjusts and stables in any order; (vs, payload) is a key.

The paper's Algorithm R3 (section IV-B) keeps an index in2t: a node for each (vs, payload), and in
it the current end that each input gives the event, and the end that was put out. Here the node is
an id of a `KeyTable` and each of those ends is a row over ids, in one table `Ends`:

      id   key           output   input 0   input 1       input 0: ins(A,6,20) adj(A,6,20,30)
       0   (6, A)          20       30        25          input 1: ins(A,6,25) ins(B,7,14)
       1   (7, B)          14        7        14          output:  ins(A,6,20) ins(B,7,14)

An end equal to the start says "no such event" (as an adjust does, and as line 20 of the algorithm
does), so input 0 above lacks B. Free ids start and end at INF and never take part.

  Insert  (5-14)   new keys get an id, and go out as they came; ends are written to the input's row.
                   A key below the output's stable that has no node is settled: dropped.
  Adjust  (15-18)  written to the input's row; nothing goes out (policy `at_stable`).
  Stable  (19-31)  from the acting input (the one whose stable advances the output's): one sweep
                   over the table. Where its end and the output's differ and one of them lies
                   below t, the output would freeze wrong: an adjust (or insert, or removal) puts
                   it right. What is then settled (out < t) is forgotten.

What is done for every element is the kernel's: `Ends.take` and `Ends.sweep`. The acting input may
only ask for what the output can still say: both ends at or above the old stable. Anything else
contradicts what another input had already frozen: a divergence. It is counted and the output keeps
what it promised. An adjust names the output's *current* end as `was`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gapless.kernels.ends import INPUTS, OUTPUT, STARTS, Ends, Misfit
from gapless.kernels.ends import Taken as Told
from gapless.merge.case import Case, Favour, Taken, case_violation, violation
from gapless.merge.divergence import Divergences, OpenQuestions, odd_ones
from gapless.merge.keys import Keys, positions
from gapless.merge.policy import Policy, Quorum
from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.errors import Bug, StreamViolation
from gapless.protocol.frame import Frame, Mask
from gapless.protocol.schema import StreamSchema

Ids = npt.NDArray[np.int64]


class R3(Case):
    """One event a key; a row of ends for each input and for the output."""

    name = "r3"

    def __init__(self, schema: StreamSchema, policy: Policy, divergences: Divergences) -> None:
        super().__init__(schema, policy, divergences)
        self._keys = Keys(schema)
        self._ends = Ends()
        self._row: dict[int, int] = {}  # of each input, in `_ends`
        self._quorum = policy.insert.k if isinstance(policy.insert, Quorum) else 1
        self._follows = policy.adjust == "leading"
        self._questions = OpenQuestions(self._keys.schema, divergences)
        self._promised: dict[int, int] = {}

    # -- inputs -------------------------------------------------------------------------------

    def attach(self, number: int) -> None:
        """Opens a row in which no event is there."""
        self._row[number] = self._ends.add_row()
        self._promised[number] = BEGIN

    def detach(self, number: int) -> None:
        """Frees the row."""
        row = self._row.pop(number)
        self._ends.drop_row(row)
        last = len(self._ends.values)  # the row that took its place
        rows = {row if its == last else its: other for other, its in self._row.items()}
        self._row = {rows[its]: its for its in sorted(rows)}
        del self._promised[number]
        self._questions.detach(number)

    def take(self, number: int, frame: Frame, favour: Favour) -> Taken:
        """Writes the rows down as the input's; what goes out follows the policy."""
        ids, first = self._intern(frame, self.stable)
        taken = self._ends.take(
            self._row[number],
            ids,
            first,
            frame.vs,
            frame.ve,
            frame.was,
            self.stable,
            min(self._quorum, len(self._row)) if favour.insert else 0,
            favour.adjust,
        )
        if isinstance(taken, Misfit):
            self._release(ids[first])
            raise _misfit(number, frame, taken)
        settled = len(taken.settled)
        if settled and len(self._questions):
            late = frame.take(taken.settled)
            self._questions.heard(number, self._keys.of(late), late.ve)
        return Taken(self._put_out(frame, taken, favour), settled)

    def _intern(self, frame: Frame, stable: int) -> tuple[Ids, Mask]:
        """The id of each row, below 0 where its key is settled; new ids have their place."""
        ids, first = self._keys.intern(frame, stable)
        self._ends.fit(self._keys.capacity)
        return ids, first

    def _put_out(self, frame: Frame, taken: Told, favour: Favour) -> list[Frame]:
        """The rows that go out: as they came, or as adjusts of what the output had."""
        if not len(taken.chosen):
            return []
        picked = self._keys.pick(frame, taken.chosen)
        if not favour.adjust:
            return [picked]
        return [Frame.from_columns(self.schema, picked.vs, picked.ve, picked.payload, taken.was)]

    # -- freezing -----------------------------------------------------------------------------

    def half_froze(self, number: int, stable: int) -> list[Frame]:
        """Rows for what the input has and the output lacks, between both stables."""
        vs, out, mine = self._rows(number)
        missing = (out == vs) & (mine != vs) & (vs >= self.stable) & (vs < stable)
        return self._set_out(number, positions(missing))

    def limit(self, number: int, stable: int) -> int:
        """The smallest start of what the input holds that is half frozen, or `stable`."""
        vs, _, mine = self._rows(number)
        half = (vs < stable) & (mine != vs) & (mine >= stable)
        if stable == INF or not half.any():
            return stable
        return int(vs[half].min())

    def freeze(self, number: int, t: int, promised: int) -> list[Frame]:
        """One sweep: puts right what t would freeze wrong, forgets what it settles."""
        frames = []
        if self.policy.insert == "fully_frozen":
            frames += self._put_out_frozen(number, promised)
        wrong, gone, contested = self._ends.sweep(
            self._keys.capacity, self._row[number], t, self.stable, self._follows
        )
        if len(wrong):
            frames += self._put_right(number, wrong)
        if contested:
            self._compare(number, gone)
        if len(gone):
            self._ends.clear(gone)
            self._release(gone)
        self.stable = t
        return frames

    def _rows(self, number: int) -> tuple[Ids, Ids, Ids]:
        """Starts, the output's ends, an input's ends, over all ids."""
        ends = self._ends.values
        return ends[STARTS], ends[OUTPUT], ends[self._row[number]]

    def _put_right(self, number: int, wrong: Ids) -> list[Frame]:
        """Gives the output the input's ends, where it can still say them."""
        _, out, mine = self._rows(number)
        can = np.minimum(mine[wrong], out[wrong]) >= self.stable
        if not can.all():
            never = wrong[~can]
            keys, odd = self._keys.rows(never), self._odd_ones(number, never)
            self.divergences.record(number, keys, mine[never], out[never], odd)
        return self._set_out(number, wrong[can])

    def _put_out_frozen(self, number: int, promised: int) -> list[Frame]:
        """Policy fully_frozen: what the input has for good and the output lacks."""
        vs, out, mine = self._rows(number)
        missing = (out == vs) & (mine != vs) & (vs >= self.stable)
        missing &= (vs < promised) if promised == INF else (mine < promised)
        return self._set_out(number, positions(missing))

    def _set_out(self, number: int, ids: Ids) -> list[Frame]:
        """Gives the output an input's ends; the rows that say so."""
        if not len(ids):
            return []
        vs, out, mine = self._rows(number)
        starts, ends, now = vs[ids], mine[ids], out[ids]
        was = np.where(now == starts, BEGIN, now)
        payload = self._keys.rows(ids).columns[1:]
        out[ids] = ends
        self._ends.changed(ids)
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
        starts, ours = self._ends.values[:INPUTS, gone]
        odd: Ids | None = None
        for number, row in self._row.items():
            if number == acting:
                continue
            theirs = self._ends.values[row, gone]
            other = (theirs != ours) & (theirs != starts)
            if np.count_nonzero(other):
                if odd is None:
                    odd = self._odd_ones(acting, gone)
                keys = self._keys.rows(gone[other])
                self._questions.ask(number, keys, theirs[other], ours[other], odd[other])
                self._questions.promised(number, self._promised[number])

    def _odd_ones(self, acting: int, ids: Ids) -> Ids:
        """Of each key the input that is alone against others that agree. An input without any
        version of a key may only be slow, except for the acting one: its table is what it says.
        """
        starts, said = self._ends.values[STARTS, ids], self._ends.values[INPUTS:, ids]
        has_told = said != starts
        has_told[self._row[acting] - INPUTS] = True
        return odd_ones(list(self._row), said, has_told)

    def _release(self, ids: Ids) -> None:
        """Lets go of keys whose columns are free."""
        self._keys.release(ids)
        self._ends.fit(self._keys.capacity)

    # -- the state as tables ------------------------------------------------------------------

    def live(self) -> Frame:
        """The output's events that are not settled."""
        return self._tell(OUTPUT)

    def told(self, number: int) -> Frame:
        """An input's events whose keys are live."""
        return self._tell(self._row[number])

    def _tell(self, row: int) -> Frame:
        starts, ends = self._ends.values[STARTS], self._ends.values[row]
        ids = positions(ends != starts)
        payload = self._keys.rows(ids).columns[1:]
        return Frame.from_columns(self.schema, starts[ids], ends[ids], payload)

    def adopt_output(self, live: Frame) -> None:
        """Takes over an output."""
        self._adopt(OUTPUT, live)

    def adopt_input(self, number: int, told: Frame) -> None:
        """Takes over what an input has said."""
        self._adopt(self._row[number], told)

    def _adopt(self, row: int, table: Frame) -> None:
        ids, first = self._intern(table, BEGIN)  # no row of a live table is settled
        if len(ids) and int(np.bincount(ids).max()) > 1:
            self._release(ids[first])
            raise case_violation(
                table, 0, "(vs, payload) is a key; two events of the table share one"
            )
        self._ends.values[:, ids[first]] = table.vs[first]
        self._ends.values[row, ids] = table.ve
        self._ends.changed(ids)

    # -- looking at it ------------------------------------------------------------------------

    def unfrozen(self, number: int) -> int:
        """Events of an input that start at or after the output's stable."""
        vs, _, mine = self._rows(number)
        unfrozen: Mask = (mine != vs) & (vs >= self.stable)
        return int(unfrozen.sum())

    @property
    def inputs(self) -> set[int]:
        """The inputs that have a row."""
        return set(self._row)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        return self._keys.nbytes + self._ends.nbytes + self._questions.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        starts = self._ends.values[STARTS]
        self._keys.validate(starts)
        if list(self._row.values()) != list(range(INPUTS, len(self._ends.values))):
            raise Bug(f"inputs are in the rows {self._row}, of {len(self._ends.values)}")
        rows = {"output": OUTPUT, **{f"input {n}": row for n, row in self._row.items()}}
        for name, row in rows.items():
            ends = self._ends.values[row]
            if (ends < starts).any():
                raise Bug(f"{name}: an end before its start")
            if (ends[starts == INF] != INF).any():
                raise Bug(f"{name}: a free id holds an end")
        if (self._ends.values[OUTPUT] < self.stable).any():
            raise Bug("a settled event was not forgotten")


def _misfit(number: int, frame: Frame, bad: Misfit) -> StreamViolation:
    """The error for a row that does not fit what its input has said."""
    held = format_time(bad.held)
    if frame.is_insert[bad.row]:
        rule = f"(vs, payload) is a key, and input {number} has it with end {held}"
        return case_violation(frame, bad.row, rule)
    there = "no such event" if bad.held == frame.vs[bad.row] else f"one that ends at {held}"
    return violation(frame, bad.row, f"an adjust is of what is there; input {number} has {there}")
