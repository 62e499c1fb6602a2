"""LMerge, case R4: no restrictions; the table is a multiset.

The paper's in3t (section IV-C): in2t with, for each input and the output, an index of ends with
their counts. Here a second `KeyTable` holds pairs (key, end), and counts are columns over pairs:

      key   vs  payload     pair  key  end   n[0]  n[1]  out
       0     6  A             0     0   20      1     1    1     input 0: ins(A,6,20) ins(A,6,25)
                              1     0   25      1     0    1     input 1: ins(A,6,20)
                       events of key 0:         2     1    2

  Insert   counts (key, end) up; goes out while its input has more events of the key than the
           output.
  Adjust   one down at `was`, one up at `ve` (line 15, where the printed names are the same).
  Stable   for keys with vs < t, over ends >= the old stable: first the output gets as many events
           as the acting input has (AdjustOutputCount), then surplus ends that t would freeze wrong
           are turned into missing ones (AdjustOutput). Ends below the old stable are history:
           comparing them would ask for what nobody can say any more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.columns import ROOM_MIN, Column
from gapless.merge.case import Case, Favour, Taken, violation
from gapless.merge.divergence import Divergences, odd_ones
from gapless.merge.keys import positions
from gapless.merge.policy import Policy, Quorum
from gapless.merge.rows import Rows, StartedKeys
from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame, Times
from gapless.protocol.schema import StreamSchema

Ids = npt.NDArray[np.int64]

NO_PAIR = -1

_PAIR = pa.schema([pa.field(n, pa.int64(), nullable=False) for n in ("key", "end")])


class Counts:
    """How many events one input, or the output, has: by key and by pair."""

    __slots__ = ("keys", "pairs")

    def __init__(self, keys: int = ROOM_MIN, pairs: int = ROOM_MIN) -> None:
        self.keys = Column(0, keys)
        self.pairs = Column(0, pairs)

    def add(self, keys: Ids, pairs: Ids, by: int) -> None:
        """Counts events up or down; the same key or pair may stand there several times."""
        np.add.at(self.keys.values, keys, by)
        np.add.at(self.pairs.values, pairs, by)

    @property
    def nbytes(self) -> int:
        """Bytes of both columns."""
        return self.keys.nbytes + self.pairs.nbytes


@dataclass(slots=True)
class _Units:
    """Single events, by key and ascending end."""

    keys: Ids
    pairs: Ids

    def __getitem__(self, rows: Ids) -> _Units:
        return _Units(self.keys[rows], self.pairs[rows])

    def ranks(self) -> Ids:
        """The place of each among those of its key."""
        starts = positions(np.r_[True, self.keys[1:] != self.keys[:-1]])
        sizes = np.diff(np.r_[starts, len(self.keys)])
        return np.arange(len(self.keys)) - np.repeat(starts, sizes)


class R4(Case):
    """Any number of events a key, with any ends."""

    name = "r4"

    def __init__(self, schema: StreamSchema, policy: Policy, divergences: Divergences) -> None:
        super().__init__(schema, policy, divergences)
        self._keys = StartedKeys(schema)
        self._pairs = KeyTable(_PAIR)
        self._key = Column(NO_PAIR)  # of a pair
        self._end = Column(INF)
        self._start = Column(INF)
        self._room = 0, 0  # capacity of keys and of pairs that the columns were last fitted to
        self._out = Counts()
        self._in: dict[int, Counts] = {}

    # -- inputs -------------------------------------------------------------------------------

    def attach(self, number: int) -> None:
        """Opens counts of nothing, as long as all others are."""
        out = self._out
        self._in[number] = Counts(len(out.keys.values), len(out.pairs.values))

    def detach(self, number: int) -> None:
        """Frees the counts."""
        del self._in[number]

    def _counts(self) -> list[Counts]:
        return [self._out, *self._in.values()]

    def _make_room(self) -> None:
        keys, pairs = self._keys.capacity, self._pairs.capacity
        if (keys, pairs) == self._room:
            return
        self._room = keys, pairs
        for counts in self._counts():
            counts.keys.fit(keys)
            counts.pairs.fit(pairs)
        for column in (self._key, self._end, self._start):
            column.fit(pairs)

    def _pair(self, keys: Ids, ends: Times, starts: Times) -> tuple[Ids, Ids]:
        """Ids of the pairs, and those of them that are new."""
        batch = pa.RecordBatch.from_arrays([pa.array(keys), pa.array(ends)], schema=_PAIR)
        pairs, first = self._pairs.intern(batch)
        new = pairs[first]
        self._make_room()
        self._key.values[new] = keys[first]
        self._end.values[new] = ends[first]
        self._start.values[new] = starts[first]
        return pairs, new

    def take(self, number: int, frame: Frame, favour: Favour) -> Taken:
        """Counts the rows; what goes out follows the policy."""
        rows = self._keys.rows_of(frame, self.stable)
        if not len(rows):
            return Taken([], len(frame))
        if frame.insert_only:
            up, _ = self._pair(rows.ids, rows.ve, rows.vs)
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
        pairs, new = self._pair(
            np.r_[rows.ids, rows.ids[adjusts]],
            np.r_[rows.ve, rows.was[adjusts]],
            np.r_[rows.vs, rows.vs[adjusts]],
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
        have = self._in[number].pairs.values[down[adjusts]]
        if rows.repeats:
            have = have + self._earlier(rows, up, down, adjusts)
        bad = have < 1
        if not bad.any():
            return
        row = int(adjusts[int(bad.argmax())])
        place = int(rows.places(np.array([row]))[0])
        was = format_time(int(rows.was[row]))
        self._release_pairs(new)
        self._keys.release(rows.ids[rows.new])
        self._make_room()
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
        mine, out = self._in[number], self._out
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
                goes &= self._holders(rows.ids) >= min(self.policy.insert.k, len(self._in))
            chosen = positions(goes)
            if len(chosen):
                out.keys.values[rows.ids[chosen]] += 1
                out.pairs.values[up[chosen]] += 1
                frames.append(self._keys.pick(frame, rows.places(chosen)))
        if favour.adjust and down is not None:
            at = positions(~rows.is_insert)
            if len(at):
                frames += self._follow(mine, frame, rows[at], up[at], down[at])
        return frames

    def _holders(self, ids: Ids) -> Ids:
        """How many inputs have more of each key than the output."""
        have = self._out.keys.values[ids]
        holders = np.zeros(len(ids), np.int64)
        for counts in self._in.values():
            holders += counts.keys.values[ids] > have
        return holders

    def _follow(self, mine: Counts, frame: Frame, rows: Rows, up: Ids, down: Ids) -> list[Frame]:
        """Policy at_once: adjusts that bring the output nearer to the input go out."""
        ids, vs, ve, was = rows.ids, rows.vs, rows.ve, rows.was
        out, removes = self._out, ve == vs
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
        return [self._keys.pick(frame, rows.places(chosen))]

    # -- freezing -----------------------------------------------------------------------------

    def half_froze(self, number: int, stable: int) -> list[Frame]:
        """Rows for what the input has more of, between both stables."""
        deficits, _ = self._differences(number, stable)
        open_keys = self._keys.vs.values[deficits.keys] >= self.stable
        deficits = deficits[positions(open_keys)]
        return self._insert(self._lacking(number, deficits))

    def limit(self, number: int, stable: int) -> int:
        """The smallest start of what the input holds that is half frozen, or `stable`."""
        start, end = self._start.values, self._end.values
        half = (self._in[number].pairs.values > 0) & (start < stable) & (end >= stable)
        if stable == INF or not half.any():
            return stable
        return int(start[half].min())

    def freeze(self, number: int, t: int, promised: int) -> list[Frame]:
        """Counts first, then ends; forgets what t settles."""
        frames = []
        if self.policy.insert == "fully_frozen":
            frames += self._put_out_frozen(number, promised)
        deficits, surplus = self._differences(number, t)
        if len(deficits.keys) or len(surplus.keys):
            frames += self._put_right(number, t, deficits, surplus)
        self._forget(t)
        self.stable = t
        return frames

    def _differences(self, number: int, t: int) -> tuple[_Units, _Units]:
        """Of keys with `vs < t`, over ends from the old stable on: what the input has more often
        than the output, and the output more often than the input.
        """
        diff = self._in[number].pairs.values - self._out.pairs.values
        active = (diff != 0) & (self._start.values < t) & (self._end.values >= self.stable)
        pairs = positions(active)
        keys, ends = self._key.values[pairs], self._end.values[pairs]
        order = np.lexsort((ends, keys))
        pairs, keys = pairs[order], keys[order]
        by = diff[pairs]
        more, less = np.maximum(by, 0), np.maximum(-by, 0)
        return (
            _Units(np.repeat(keys, more), np.repeat(pairs, more)),
            _Units(np.repeat(keys, less), np.repeat(pairs, less)),
        )

    def _lacking(self, number: int, deficits: _Units) -> _Units:
        """The first deficits of each key, as many as the input has more events in all."""
        more = self._in[number].keys.values - self._out.keys.values
        return deficits[positions(deficits.ranks() < more[deficits.keys])]

    def _put_right(self, number: int, t: int, deficits: _Units, surplus: _Units) -> list[Frame]:
        n = self._keys.capacity
        more = np.bincount(deficits.keys, minlength=n) - np.bincount(surplus.keys, minlength=n)
        open_keys = self._keys.vs.values[:n] >= self.stable
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

    def _turn(self, t: int, source: _Units, to: _Units) -> list[Frame]:
        """Adjusts from surplus ends to missing ones, where t would freeze one of the two."""
        was, ve = self._end.values[source.pairs], self._end.values[to.pairs]
        needed = positions(np.minimum(was, ve) < t if t != INF else was != ve)
        if not len(needed):
            return []
        np.add.at(self._out.pairs.values, source.pairs[needed], -1)
        np.add.at(self._out.pairs.values, to.pairs[needed], 1)
        return self._rows(to.keys[needed], ve[needed], was[needed])

    def _insert(self, units: _Units) -> list[Frame]:
        """Events that the output lacks."""
        if not len(units.keys):
            return []
        self._out.add(units.keys, units.pairs, 1)
        ends = self._end.values[units.pairs]
        return self._rows(units.keys, ends, np.full(len(ends), BEGIN))

    def _remove(self, units: _Units) -> list[Frame]:
        """Events that the output has too many."""
        if not len(units.keys):
            return []
        self._out.add(units.keys, units.pairs, -1)
        starts = self._keys.vs.values[units.keys]
        return self._rows(units.keys, starts, self._end.values[units.pairs])

    def _rows(self, keys: Ids, ve: Times, was: Times) -> list[Frame]:
        rows = self._keys.rows(keys)
        starts = rows.column(0).to_numpy()
        return [Frame.from_columns(self.schema, starts, ve, rows.columns[1:], was)]

    def _put_out_frozen(self, number: int, promised: int) -> list[Frame]:
        """Policy fully_frozen: what the input has for good, more often than the output."""
        deficits, _ = self._differences(number, promised)
        frozen = self._keys.vs.values[deficits.keys] >= self.stable
        if promised != INF:
            frozen &= self._end.values[deficits.pairs] < promised
        return self._insert(deficits[positions(frozen)])

    def _diverge(self, number: int, more: Ids) -> None:
        """Counts events that can no longer be inserted or removed, one by one."""
        keys = np.repeat(np.arange(len(more)), np.abs(more))
        if not len(keys):
            return
        rows = self._keys.rows(keys)
        starts = rows.column(0).to_numpy()
        there = np.full(len(keys), INF)
        has = more[keys] > 0
        # how many events of the key each has told: one without any may only be slow
        said = np.array([counts.keys.values[keys] for counts in self._in.values()])
        has_told = said > 0
        has_told[list(self._in).index(number)] = True
        self.divergences.record(
            number,
            rows,
            np.where(has, there, starts),
            np.where(has, starts, there),
            odd_ones(list(self._in), said, has_told),
        )

    def _forget(self, t: int) -> None:
        """Frees keys that t settles, with all their pairs."""
        n = self._keys.capacity
        gone = self._keys.vs.values[:n] < t
        if t != INF:
            past = positions(self._end.values < t)  # a free pair ends at INF
            left = self._out.keys.values[:n].copy()
            np.subtract.at(left, self._key.values[past], self._out.pairs.values[past])
            gone &= left == 0
        ids = positions(gone)
        if not len(ids):
            return
        self._release_pairs(positions(np.append(gone, False)[self._key.values]))  # NO_PAIR is last
        for counts in self._counts():
            counts.keys.values[ids] = 0
        self._keys.release(ids)
        self._make_room()

    def _release_pairs(self, pairs: Ids) -> None:
        if not len(pairs):
            return
        self._pairs.release(pairs)
        self._key.values[pairs] = NO_PAIR
        self._end.values[pairs] = INF
        self._start.values[pairs] = INF
        for counts in self._counts():
            counts.pairs.values[pairs] = 0

    # -- the state as tables ------------------------------------------------------------------

    def live(self) -> Frame:
        """The output's events whose keys are live."""
        return self._tell(self._out)

    def told(self, number: int) -> Frame:
        """An input's events whose keys are live."""
        return self._tell(self._in[number])

    def _tell(self, counts: Counts) -> Frame:
        held = positions(counts.pairs.values > 0)
        pairs = np.repeat(held, counts.pairs.values[held])
        if not len(pairs):
            return Frame.empty(self.schema)
        keys, ends = self._key.values[pairs], self._end.values[pairs]
        return self._rows(keys, ends, np.full(len(ends), BEGIN))[0]

    def adopt_output(self, live: Frame) -> None:
        """Takes over an output."""
        self._adopt(self._out, live)

    def adopt_input(self, number: int, told: Frame) -> None:
        """Takes over what an input has said."""
        self._adopt(self._in[number], told)

    def _adopt(self, counts: Counts, table: Frame) -> None:
        rows = self._keys.rows_of(table, BEGIN)  # no row of a live table is settled
        pairs, _ = self._pair(rows.ids, rows.ve, rows.vs)
        counts.add(rows.ids, pairs, 1)

    # -- looking at it ------------------------------------------------------------------------

    def unfrozen(self, number: int) -> int:
        """Events of an input that start at or after the output's stable."""
        n = self._keys.capacity
        starts = self._keys.vs.values[:n]
        unfrozen = (starts >= self.stable) & (starts < INF)
        return int(self._in[number].keys.values[:n][unfrozen].sum())

    @property
    def inputs(self) -> set[int]:
        """The inputs that have counts."""
        return set(self._in)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        columns = self._key.nbytes + self._end.nbytes + self._start.nbytes
        counts = sum(c.nbytes for c in self._counts())
        return self._keys.nbytes + int(self._pairs.nbytes) + columns + counts

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._keys.validate(self._keys.vs.values)
        self._pairs.validate()
        key, live = self._key.values, self._key.values != NO_PAIR
        if int(live.sum()) != len(self._pairs):
            raise Bug(f"{int(live.sum())} pairs have a key, {len(self._pairs)} are live")
        if (self._keys.vs.values[key[live]] != self._start.values[live]).any():
            raise Bug("a pair of a key that is not live")
        for name, counts in [
            ("output", self._out),
            *((f"input {n}", c) for n, c in self._in.items()),
        ]:
            if (counts.pairs.values < 0).any():
                raise Bug(f"{name}: a negative count")
            by_key = np.zeros(len(counts.keys.values), np.int64)
            np.add.at(by_key, key[live], counts.pairs.values[live])
            if (by_key != counts.keys.values).any():
                raise Bug(f"{name}: events of a key do not add up to those of its pairs")
            if counts.pairs.values[~live].any():
                raise Bug(f"{name}: a free pair has events")
