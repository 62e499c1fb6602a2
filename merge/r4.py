"""LMerge, case R4: no restrictions; the table is a multiset.

The state is the index `in3t` (see in3t.py): how often each event, a key with an end, is there in
each input and in the output.

  Insert   counts (key, end) up; goes out while its input has more events of the key than the
           output.
  Adjust   one down at `was`, one up at `ve` (line 15, where the printed names are the same).
  Stable   for keys with vs < t, over ends >= the old stable: first the output gets as many events
           as the acting input has (AdjustOutputCount), then surplus ends that t would freeze wrong
           are turned into missing ones (AdjustOutput). Ends below the old stable are history:
           comparing them would ask for what nobody can say any more.

      in the index                  stable(22) of input 0; the output's stable is 5
      A   end      20  25  30       one event of A too few: the first that is missing goes out,
          input 0   1   1   0           ins(A,6,20)
          out       0   0   1       surplus 30, missing 25: both are open at 22, and may wait
"""

from __future__ import annotations

import numpy as np

from gapless.merge.case import Case, Favour, Taken, violation
from gapless.merge.divergence import Divergences, odd_ones
from gapless.merge.in3t import NO_PAIR, Counts, Ids, In3t, Units
from gapless.merge.keys import positions
from gapless.merge.policy import Policy, Quorum
from gapless.merge.rows import Rows
from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema


class R4(Case):
    """Any number of events a key, with any ends."""

    name = "r4"

    def __init__(self, schema: StreamSchema, policy: Policy, divergences: Divergences) -> None:
        super().__init__(schema, policy, divergences)
        self._index = In3t(schema)

    # -- inputs -------------------------------------------------------------------------------

    def attach(self, number: int) -> None:
        """Opens counts of nothing."""
        self._index.attach(number)

    def detach(self, number: int) -> None:
        """Frees the counts."""
        self._index.detach(number)

    def take(self, number: int, frame: Frame, favour: Favour) -> Taken:
        """Counts the rows; what goes out follows the policy."""
        rows = self._index.keys.rows_of(frame, self.stable)
        if not len(rows):
            return Taken([], len(frame))
        if frame.insert_only:
            up, _ = self._index.pair(rows.ids, rows.ve, rows.vs)
            down = None
        else:
            up, down = self._pairs_of_adjusts(number, frame, rows)
        if not rows.repeats:
            out = self._take_round(number, frame, rows, up, down, favour)
        else:
            out = []
            for some in rows.rounds():
                from_pair = None if down is None else down[some]
                out += self._take_round(number, frame, rows[some], up[some], from_pair, favour)
        return Taken(out, len(rows.settled))

    def _pairs_of_adjusts(self, number: int, frame: Frame, rows: Rows) -> tuple[Ids, Ids]:
        """The pair that each row adds to, and the one that an adjust takes from."""
        adjusts = positions(~rows.is_insert)
        n = len(rows)
        # An adjust that removes needs no pair for its end, but a pair for vs does no harm: its
        # count stays 0, and it goes with its key.
        pairs, new = self._index.pair(
            np.concatenate((rows.ids, rows.ids[adjusts])),
            np.concatenate((rows.ve, rows.was[adjusts])),
            np.concatenate((rows.vs, rows.vs[adjusts])),
        )
        up, down = pairs[:n], np.full(n, NO_PAIR)
        down[adjusts] = pairs[n:]
        self._check(number, frame, rows, up, down, new)
        return up, down

    def _check(self, number: int, frame: Frame, rows: Rows, up: Ids, down: Ids, new: Ids) -> None:
        """Raises, and undoes the interning, where an adjust finds no event with its `was`."""
        adjusts = positions(down != NO_PAIR)
        if not len(adjusts):
            return
        have = self._index.inputs[number].pairs.values[down[adjusts]]
        if rows.repeats:
            have = have + self._earlier(rows, up, down, adjusts)
        bad = have < 1
        if not bad.any():
            return
        row = int(adjusts[int(bad.argmax())])
        place = int(rows.places(np.array([row]))[0])
        was = format_time(int(rows.was[row]))
        self._index.undo(rows, new)
        raise violation(frame, place, f"an adjust is of what is there; input {number} has no {was}")

    @staticmethod
    def _earlier(rows: Rows, up: Ids, down: Ids, adjusts: Ids) -> Ids:
        """What the rows before each adjust have added to the pair that it takes from."""
        n = len(rows)
        adds = positions(rows.ve != rows.vs)
        pairs = np.r_[up[adds], down[adjusts]]
        by = np.r_[np.ones(len(adds), np.int64), -np.ones(len(adjusts), np.int64)]
        when = np.r_[2 * adds + 1, 2 * adjusts]
        order = np.lexsort((when, pairs))
        total = np.cumsum(by[order]) - by[order]
        grouped = pairs[order]
        starts = positions(np.r_[True, grouped[1:] != grouped[:-1]])
        base = np.repeat(total[starts], np.diff(np.r_[starts, len(grouped)]))
        before = np.zeros(n, np.int64)
        take = order >= len(adds)
        before[adjusts[order[take] - len(adds)]] = (total - base)[take]
        return before[adjusts]

    def _take_round(
        self, number: int, frame: Frame, rows: Rows, up: Ids, down: Ids | None, favour: Favour
    ) -> list[Frame]:
        """Rows of which no two have one key; `down` is None where all are inserts."""
        mine, out = self._index.inputs[number], self._index.out
        have = mine.keys.values[rows.ids]
        if down is None:
            have += 1
            mine.keys.values[rows.ids] = have
            mine.pairs.values[up] += 1
        else:
            removes = rows.ve == rows.vs
            have += rows.is_insert
            have -= removes
            mine.keys.values[rows.ids] = have
            mine.pairs.values[down[~rows.is_insert]] -= 1
            mine.pairs.values[up[~removes]] += 1
        frames = []
        if favour.insert:
            goes = have > out.keys.values[rows.ids]
            goes &= rows.vs >= self.stable
            if down is not None:
                goes &= rows.is_insert
            if isinstance(self.policy.insert, Quorum) and goes.any():
                least = min(self.policy.insert.k, len(self._index.inputs))
                goes &= self._index.holders(rows.ids) >= least
            chosen = positions(goes)
            if len(chosen):
                out.keys.values[rows.ids[chosen]] += 1
                out.pairs.values[up[chosen]] += 1
                frames.append(self._index.keys.pick(frame, rows.places(chosen)))
        if favour.adjust and down is not None:
            at = positions(~rows.is_insert)
            if len(at):
                frames += self._follow(mine, frame, rows[at], up[at], down[at])
        return frames

    def _follow(self, mine: Counts, frame: Frame, rows: Rows, up: Ids, down: Ids) -> list[Frame]:
        """Policy at_once: adjusts that bring the output nearer to the input go out."""
        ids, vs, ve, was = rows.ids, rows.vs, rows.ve, rows.was
        out, removes = self._index.out, ve == vs
        goes = out.pairs.values[down] > mine.pairs.values[down]
        goes &= removes | (out.pairs.values[up] < mine.pairs.values[up])
        goes &= np.minimum(was, ve) >= self.stable
        chosen = positions(goes)
        if not len(chosen):
            return []
        out.pairs.values[down[chosen]] -= 1
        kept, gone = chosen[~removes[chosen]], chosen[removes[chosen]]
        out.pairs.values[up[kept]] += 1
        out.keys.values[ids[gone]] -= 1
        return [self._index.keys.pick(frame, rows.places(chosen))]

    # -- freezing -----------------------------------------------------------------------------

    def half_froze(self, number: int, stable: int) -> list[Frame]:
        """Rows for what the input has more of, between both stables."""
        deficits, _ = self._index.differences(number, self.stable, stable)
        open_keys = self._index.keys.vs.values[deficits.keys] >= self.stable
        deficits = deficits[positions(open_keys)]
        return self._insert(self._index.lacking(number, deficits))

    def limit(self, number: int, stable: int) -> int:
        """The smallest start of what the input holds that is half frozen, or `stable`."""
        start, end = self._index.start.values, self._index.end.values
        half = (self._index.inputs[number].pairs.values > 0) & (start < stable) & (end >= stable)
        if stable == INF or not half.any():
            return stable
        return int(start[half].min())

    def freeze(self, number: int, t: int, promised: int) -> list[Frame]:
        """Counts first, then ends; forgets what t settles."""
        frames = []
        if self.policy.insert == "fully_frozen":
            frames += self._put_out_frozen(number, promised)
        deficits, surplus = self._index.differences(number, self.stable, t)
        if len(deficits) or len(surplus):
            frames += self._put_right(number, t, deficits, surplus)
        self._index.forget(t)
        self.stable = t
        return frames

    def _put_right(self, number: int, t: int, deficits: Units, surplus: Units) -> list[Frame]:
        n = self._index.keys.capacity
        more = np.bincount(deficits.keys, minlength=n) - np.bincount(surplus.keys, minlength=n)
        open_keys = self._index.keys.vs.values[:n] >= self.stable
        lacking = np.where(open_keys, np.maximum(more, 0), 0)
        cancelled = np.where(open_keys, np.maximum(-more, 0), 0)
        deficit_rank, surplus_rank = deficits.ranks(), surplus.ranks()
        new = deficit_rank < lacking[deficits.keys]
        gone = surplus_rank < cancelled[surplus.keys]
        frames = self._insert(deficits[positions(new)])
        frames += self._remove(surplus[positions(gone)])
        pairs = np.minimum(
            np.bincount(deficits.keys, minlength=n) - lacking,
            np.bincount(surplus.keys, minlength=n) - cancelled,
        )
        to = deficits[
            positions(~new & (deficit_rank - lacking[deficits.keys] < pairs[deficits.keys]))
        ]
        source = surplus[
            positions(~gone & (surplus_rank - cancelled[surplus.keys] < pairs[surplus.keys]))
        ]
        frames += self._turn(t, source, to)
        self._diverge(number, np.where(open_keys, 0, more))
        return frames

    def _turn(self, t: int, source: Units, to: Units) -> list[Frame]:
        """Adjusts from surplus ends to missing ones, where t would freeze one of the two."""
        was, ve = self._index.end.values[source.pairs], self._index.end.values[to.pairs]
        needed = positions(np.minimum(was, ve) < t if t != INF else was != ve)
        if not len(needed):
            return []
        np.add.at(self._index.out.pairs.values, source.pairs[needed], -1)
        np.add.at(self._index.out.pairs.values, to.pairs[needed], 1)
        return [self._index.rows(to.keys[needed], ve[needed], was[needed])]

    def _insert(self, units: Units) -> list[Frame]:
        """Events that the output lacks."""
        if not len(units):
            return []
        self._index.out.add(units.keys, units.pairs, 1)
        ends = self._index.end.values[units.pairs]
        return [self._index.rows(units.keys, ends, np.full(len(ends), BEGIN))]

    def _remove(self, units: Units) -> list[Frame]:
        """Events that the output has too many."""
        if not len(units):
            return []
        self._index.out.add(units.keys, units.pairs, -1)
        starts = self._index.keys.vs.values[units.keys]
        return [self._index.rows(units.keys, starts, self._index.end.values[units.pairs])]

    def _put_out_frozen(self, number: int, promised: int) -> list[Frame]:
        """Policy fully_frozen: what the input has for good, more often than the output."""
        deficits, _ = self._index.differences(number, self.stable, promised)
        frozen = self._index.keys.vs.values[deficits.keys] >= self.stable
        if promised != INF:
            frozen &= self._index.end.values[deficits.pairs] < promised
        return self._insert(deficits[positions(frozen)])

    def _diverge(self, number: int, more: Ids) -> None:
        """Counts events that can no longer be inserted or removed, one by one."""
        keys = np.repeat(np.arange(len(more)), np.abs(more))
        if not len(keys):
            return
        rows = self._index.keys.rows(keys)
        starts = rows.column(0).to_numpy()
        there = np.full(len(keys), INF)
        has = more[keys] > 0
        # how many events of the key each has told: one without any may only be slow
        said = np.array([counts.keys.values[keys] for counts in self._index.inputs.values()])
        has_told = said > 0
        has_told[list(self._index.inputs).index(number)] = True
        self.divergences.record(
            number,
            rows,
            np.where(has, there, starts),
            np.where(has, starts, there),
            odd_ones(list(self._index.inputs), said, has_told),
        )

    # -- the state as tables ------------------------------------------------------------------

    def live(self) -> Frame:
        """The output's events whose keys are live."""
        return self._index.table(self._index.out)

    def told(self, number: int) -> Frame:
        """An input's events whose keys are live."""
        return self._index.table(self._index.inputs[number])

    def adopt_output(self, live: Frame) -> None:
        """Takes over an output."""
        self._index.adopt(self._index.out, live)

    def adopt_input(self, number: int, told: Frame) -> None:
        """Takes over what an input has said."""
        self._index.adopt(self._index.inputs[number], told)

    # -- looking at it ------------------------------------------------------------------------

    def unfrozen(self, number: int) -> int:
        """Events of an input that start at or after the output's stable."""
        starts = self._index.starts
        unfrozen = (starts >= self.stable) & (starts < INF)
        return int(self._index.inputs[number].keys.values[: len(starts)][unfrozen].sum())

    @property
    def inputs(self) -> set[int]:
        """The inputs that have counts."""
        return set(self._index.inputs)

    def __len__(self) -> int:
        return len(self._index)

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        return self._index.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._index.validate()
