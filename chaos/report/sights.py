"""What a record shows, as its report draws it: lanes of states, lines, output and its pauses.

    slot rows     ->  lanes: who was how, from when to when
                      progress: stream seconds a second, of sources and replicas
                      lag behind the sources, of replicas and mergers
    output rows   ->  frames with rows of each recording, and the pauses between them
    process rows  ->  memory, descriptors

All of it by columns: a run of half an hour has a hundred thousand rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.chaos.report.lines import Floats, Ints, Line
from gapless.failover.messages import Life

WINDOW_MS = 1_000
"""Progress is how far a replica came in the last so many."""
UNSEEN_MS, UNSEEN_TIMES = 1_500, 5
"""A look that comes later than this, and than so many times the usual, leaves a gap: nobody knows
what was in between."""
PAUSE_MS, PAUSE_TIMES = 200, 3
"""A pause is a gap between frames with rows that is longer than this, and than so many times the
usual gap."""
ENDLESS = 2.0**62
"""Times beyond are "never" and "not yet", and no places in a stream."""
BEFORE_SHARE, BEFORE_MS = 0.1, 2_000
"""Of what was seen before the job was whole, the last part is drawn: this share of the rest, or
this."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A slot in one state."""

    state: str
    said: str
    """The life that is in it; of an empty one, why it is empty."""
    begin_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class Lane:
    """One slot."""

    who: str
    stretches: tuple[Stretch, ...]

    @property
    def lives(self) -> dict[str, int]:
        """Who was in it, and since when."""
        found: dict[str, int] = {}
        for each in self.stretches:
            if Life.parse(each.said) is not None:
                found.setdefault(each.said, each.begin_ms)
        return found

    def lives_since(self, begin_ms: int) -> int:
        """How many were in it from then on, those that were there then included."""
        later = {each.said for each in self.stretches if each.end_ms > begin_ms}
        return len(later & self.lives.keys())

    def share(self, state: str, begin_ms: int) -> float | None:
        """Of the time from then on in which it was looked at, how much it was in a state; None
        where nobody looked.
        """
        spent_ms = {state: 0}
        for each in self.stretches:
            ms = max(0, each.end_ms - max(each.begin_ms, begin_ms))
            spent_ms[each.state] = spent_ms.get(each.state, 0) + ms
        seen_ms = sum(spent_ms.values())
        return spent_ms[state] / seen_ms if seen_ms else None


@dataclass(frozen=True, slots=True)
class Pause:
    """No rows from one frame to the next."""

    who: str
    begin_ms: int
    end_ms: int
    is_over: bool = True
    """Whether there was a next: else the output had not come to its end, and nobody saw more."""

    @property
    def ms(self) -> int:
        """How long."""
        return self.end_ms - self.begin_ms


@dataclass(frozen=True)
class Output:
    """What one recording was handed: its frames with rows."""

    who: str
    at_ms: Ints
    rows: Ints
    pauses: tuple[Pause, ...]
    usual_ms: float
    """Between two frames."""

    def rates(self, edges_ms: Ints) -> Floats:
        """Rows a second, from each edge to the next."""
        sums, _ = np.histogram(self.at_ms, bins=edges_ms, weights=self.rows)
        found: Floats = sums * 1000 / np.diff(edges_ms)
        return found


@dataclass(frozen=True, slots=True)
class Note:
    """Something that was said."""

    at_ms: int
    who: str
    text: str


@dataclass(frozen=True)
class Sights:
    """All that is drawn."""

    begin_ms: int
    end_ms: int
    lanes: tuple[Lane, ...] = ()
    progress: Mapping[str, Line] = field(default_factory=dict)
    lag: Mapping[str, Line] = field(default_factory=dict)
    outputs: tuple[Output, ...] = ()
    memory: Mapping[str, Line] = field(default_factory=dict)
    descriptors: Mapping[str, Line] = field(default_factory=dict)
    wholes_ms: tuple[int, ...] = ()
    was_whole: bool = True
    """Whether moments count from when the job was whole; else from when it was looked at first."""
    notes: tuple[Note, ...] = ()

    @property
    def pauses(self) -> list[Pause]:
        """Of all recordings, the longest first."""
        found = [pause for output in self.outputs for pause in output.pauses]
        return sorted(found, key=lambda pause: (-pause.ms, pause.begin_ms, pause.who))

    @property
    def since(self) -> str:
        """From when moments count, in words."""
        return "the job was whole" if self.was_whole else "the run began: the job was never whole"

    @property
    def is_empty(self) -> bool:
        """Whether nothing was seen that has a length of time."""
        return self.end_ms <= self.begin_ms


def role_of(who: str) -> str:
    """What a slot or process is."""
    role = re.match(r"([rm])\d", who)
    return "other" if role is None else {"r": "replica", "m": "merger"}[role[1]]


def sights(seen: pa.Table, until_ms: int = 0) -> Sights:
    """What a record's table shows; the time ends with it, or with `until_ms`."""
    if not seen.num_rows:
        return Sights(0, max(0, until_ms))
    at = _ints(seen, "at_ms")
    first, end = int(at.min()), max(int(at.max()), until_ms)
    before = max(round(BEFORE_SHARE * max(end, 0)), BEFORE_MS) if end > 0 else -first
    lanes: list[Lane] = []
    progress: dict[str, Line] = {}
    lag: dict[str, Line] = {}
    sources = _by_who(seen, "source")
    for who, rows in sources.items():
        name = "sources" if len(sources) == 1 else f"source {who}"
        progress[name] = _progress(_line(rows, "stable", ""))
    for who, rows in _by_who(seen, "slot").items():
        lanes.append(_lane(who, rows))
        lag[who] = _line(rows, "lag_ms", "text")
        if role_of(who) == "replica":
            progress[who] = _progress(_line(rows, "stable", "text"))
    processes = _by_who(seen, "process")
    wholes_ms = tuple(_ints(_of_kind(seen, "whole"), "at_ms").tolist())
    return Sights(
        max(first, -before),
        end,
        tuple(lanes),
        _some(progress),
        _some(lag),
        tuple(_output(who, rows, end) for who, rows in _by_who(seen, "output").items()),
        _some({who: _line(rows, "rss", "text") for who, rows in processes.items()}),
        _some({who: _line(rows, "fds", "text") for who, rows in processes.items()}),
        wholes_ms,
        bool(wholes_ms) or first < 0,
        tuple(
            Note(row["at_ms"], row["who"] or "", row["text"] or "")
            for row in _of_kind(seen, "note").to_pylist()
        ),
    )


# -- columns --------------------------------------------------------------------------------------


def _of_kind(seen: pa.Table, kind: str) -> pa.Table:
    return seen.filter(pc.equal(seen["kind"], kind))


def _by_who(seen: pa.Table, kind: str) -> dict[str, pa.Table]:
    """The rows of a kind, by slot, in the order in which people count."""
    rows = _of_kind(seen, kind)
    names = [name or "" for name in pc.unique(rows["who"]).to_pylist()]
    who = pc.fill_null(rows["who"], "")
    return {name: rows.filter(pc.equal(who, name)) for name in sorted(names, key=_counted)}


def _counted(name: str) -> tuple[int, list[tuple[int, str]]]:
    """Replicas, mergers, others; r0.2 before r0.10."""
    role = ("replica", "merger", "other").index(role_of(name))
    return role, [(int(p), "") if p.isdecimal() else (-1, p) for p in re.split(r"(\d+)", name)]


def _ints(rows: pa.Table, column: str) -> Ints:
    return np.asarray(pc.fill_null(rows[column], 0).to_numpy(), dtype=np.int64)


def _floats(rows: pa.Table, column: str) -> Floats:
    return np.asarray(rows[column].cast("float64", safe=False).to_numpy(), dtype=np.float64)


def _codes(rows: pa.Table, column: str) -> tuple[Ints, list[str]]:
    """The texts of a column as numbers, and what these mean."""
    coded = pc.fill_null(rows[column], "").combine_chunks().dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    return np.asarray(coded.indices.to_numpy(), dtype=np.int64), coded.dictionary.to_pylist()


def _some(lines: Mapping[str, Line]) -> dict[str, Line]:
    return {who: line for who, line in lines.items() if len(line)}


def _usual(gaps: Ints) -> float:
    gaps = gaps[gaps > 0]
    return float(np.median(gaps)) if len(gaps) else 0.0


def _unseen_ms(at: Ints) -> float:
    return max(UNSEEN_MS, UNSEEN_TIMES * _usual(np.diff(at)))


# -- states ---------------------------------------------------------------------------------------


def _lane(who: str, rows: pa.Table) -> Lane:
    """A state lasts until the next look at its slot; where that comes late nobody knows."""
    at = _ints(rows, "at_ms")
    states, state_names = _codes(rows, "state")
    said, said_names = _codes(rows, "text")
    gaps = np.diff(at)
    is_late = gaps > _unseen_ms(at)
    until = np.append(np.where(is_late, at[:-1] + round(_usual(gaps)), at[1:]), at[-1])
    changes = (np.diff(states) != 0) | (np.diff(said) != 0) | is_late
    begins = np.flatnonzero(np.concatenate(([True], changes)))
    ends = np.append(begins[1:] - 1, len(at) - 1)
    return Lane(
        who,
        tuple(
            Stretch(
                state_names[states[b]] or "unknown", said_names[said[b]], int(at[b]), int(until[e])
            )
            for b, e in zip(begins.tolist(), ends.tolist(), strict=True)
        ),
    )


# -- lines ----------------------------------------------------------------------------------------


def _line(rows: pa.Table, column: str, life: str) -> Line:
    """A column over time, in pieces: each life its own, and a new one after a gap."""
    value = _floats(rows, column)
    known = np.flatnonzero(np.isfinite(value) & (np.abs(value) < ENDLESS))
    at = _ints(rows, "at_ms")
    unseen = _unseen_ms(np.unique(at))
    lives = _codes(rows, life)[0][known] if life else np.zeros(len(known), dtype=np.int64)
    at, value = at[known], value[known]
    order = np.lexsort((at, lives))
    at, value, lives = at[order], value[order], lives[order]
    breaks = (np.diff(lives) != 0) | (np.diff(at) > unseen)
    piece = np.concatenate(([0], np.cumsum(breaks))).astype(np.int64)[: len(at)]
    return Line(at, value, piece)


def _progress(stable: Line) -> Line:
    """Stream seconds a second, over the last second; not of a life that is younger than half of
    it: a first step from where it began says nothing.
    """
    at, value, piece = stable.at_ms, stable.value, stable.piece
    if not len(at):
        return stable
    # One ascending key for all pieces, so that a search never leaves its own.
    span = int(at.max() - at.min()) + 2 * WINDOW_MS
    key = (at - at.min()) + piece * span
    begin = np.minimum(np.searchsorted(key, key - WINDOW_MS), np.maximum(np.arange(len(at)) - 1, 0))
    passed = at - at[begin]
    fine = np.flatnonzero((piece[begin] == piece) & (2 * passed >= WINDOW_MS))
    rate = (value[fine] - value[begin[fine]]) / passed[fine]
    return Line(at[fine], rate, piece[fine])


def _output(who: str, rows: pa.Table, end_ms: int) -> Output:
    at, count = _ints(rows, "at_ms"), _ints(rows, "rows")
    has_ended = bool((_ints(rows, "stable") >= ENDLESS).any())
    some = np.flatnonzero(count > 0)
    at, count = at[some], count[some]
    gaps = np.diff(at)
    usual = float(np.median(gaps)) if len(gaps) else 0.0
    bar = max(PAUSE_MS, PAUSE_TIMES * usual)
    pauses = [Pause(who, int(at[i]), int(at[i + 1])) for i in np.flatnonzero(gaps > bar).tolist()]
    if len(at) and not has_ended and end_ms - at[-1] > bar:
        pauses.append(Pause(who, int(at[-1]), end_ms, is_over=False))
    return Output(who, at, count, tuple(pauses), usual)
