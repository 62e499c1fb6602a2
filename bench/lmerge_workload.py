"""The paper's workload (section VI-B): one table of events, told by n physically different streams.

A table is drawn once. Starts follow each other at gaps uniform in [0, MaxGap]; lifetimes are such
that about 10,000 events are live at any time; the payload is an integer in [0, 400], with a random
string of 1,000 bytes (`wide`) or alone (`narrow`). (vs, payload) is a key by construction: events
that share a start have different integers.

Each input tells that table in its own way, drawn from the seed and the input's number:

    disorder     that share of the events comes late, by up to a tenth of a lifetime: what the
                 paper's "moving Vs values back" looks like to a reader of the stream
    revisions    so many adjusts an event, on average. The model is the paper's sub-query, a count
                 that sets a lifetime: each row that the window had to wait for moves the end one
                 step up, so the insert and all adjusts but the last carry provisional ends
    stables      behind each element with probability `stable_freq`, as large as is legal there: a
                 running minimum, from the end, of what later elements still change. A frame holds
                 one stable at most, so of several that fall into a frame the last one counts

Everything is numpy over whole streams; a million elements take a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

Ints = npt.NDArray[np.int64]

NUMBER_MAX = 400
"""The integer of a payload lies in [0, 400]."""
TEXT_BYTES = 1_000
LATENESS_SHARE = 10
"""An element comes late by at most 1/10 of the mean lifetime (1,000 events of 10,000 that are
live), so that disorder never holds back what lifetimes let go."""
REVISIONS_MAX = 10
"""Rows that a window of the sub-query can have to wait for: most adjusts of one event."""
REVISION_SHARE = 100
"""An adjust moves an end by 1/100 of the mean lifetime, so provisional ends stay in the future."""


@dataclass(frozen=True)
class Workload:
    """What to draw. The defaults are the paper's."""

    events: int = 200_000
    payload: Literal["narrow", "wide"] = "narrow"
    strict: bool = False
    """Starts rise strictly: no two events share one."""
    disorder: float = 0.2
    """Share of the events that come late; 0: in order of their starts, ties in a fixed order."""
    revisions: float = 0.0
    """Adjusts an event, on average; they come within the same bound as late events do."""
    stable_freq: float = 0.01
    """Probability that a stable follows an element."""
    live: int = 10_000
    """Events live at any time, on average, once the stream has run for a lifetime."""
    gap_max: int = 20_000
    """The largest time between the starts of two events: 20 s, at milliseconds."""
    time_unit: str = "ms"
    frame_rows: int = 1_000
    seed: int = 1

    def __post_init__(self) -> None:
        shares = (self.disorder, self.stable_freq, self.revisions / REVISIONS_MAX)
        if not all(0 <= share <= 1 for share in shares):
            raise Misuse(f"shares lie in [0, 1], revisions in [0, {REVISIONS_MAX}]")
        if min(self.events, self.gap_max, self.frame_rows) < 1:
            raise Misuse("events, gap_max and frame_rows are 1 or more")
        if self.lifetime_mean < REVISION_SHARE:
            raise Misuse(f"live * gap_max / 2 is {self.lifetime_mean}: needs {REVISION_SHARE}")

    @property
    def lifetime_mean(self) -> int:
        """Mean lifetime of an event."""
        return self.live * self.gap_max // 2

    @property
    def lateness_max(self) -> int:
        """How late, in event time, an element comes at most."""
        return self.lifetime_mean // LATENESS_SHARE

    @cached_property
    def schema(self) -> StreamSchema:
        """Of every stream of this workload."""
        fields: dict[str, pa.DataType | str] = {"number": pa.int64()}
        if self.payload == "wide":
            fields["text"] = pa.string()
        return StreamSchema(fields, self.time_unit)


class Table:
    """The events of a workload. `stream(i)` is what input i says of them."""

    def __init__(self, workload: Workload) -> None:
        self.workload = w = workload
        rng = np.random.default_rng(w.seed)
        self.vs: Ints = np.cumsum(rng.integers(int(w.strict), w.gap_max, w.events, endpoint=True))
        mean = w.lifetime_mean
        self.ve: Ints = self.vs + rng.integers(mean // 2, mean + mean // 2, w.events)
        self.number = _numbers(self.vs, rng)
        self.text: npt.NDArray[np.uint8] | None = None
        """A row of bytes for each event."""
        if w.payload == "wide":
            drawn = np.frombuffer(rng.bytes(w.events * TEXT_BYTES), np.uint8)
            text = np.bitwise_and(drawn, np.uint8(63))
            text += np.uint8(48)  # 64 characters of ASCII, from "0" on
            self.text = text.reshape(w.events, TEXT_BYTES)

    def streams(self, inputs: int) -> list[list[Frame]]:
        """The streams of inputs 0, 1, ..."""
        return [self.stream(i) for i in range(inputs)]

    def stream(self, number: int) -> list[Frame]:
        """The frames of one input; the last one carries stable(INF)."""
        w = self.workload
        rng = np.random.default_rng([w.seed, number])
        event, ve, was = self._tell(rng)
        vs = self.vs[event]
        stables = _stables(np.where(was == BEGIN, vs, np.minimum(was, ve)), w, rng)
        frames = []
        for k, stable in enumerate(stables):
            rows = slice(k * w.frame_rows, (k + 1) * w.frame_rows)
            payload = self._payload(event[rows])
            frames.append(
                Frame.from_columns(w.schema, vs[rows], ve[rows], payload, was[rows], stable)
            )
        return frames

    def _tell(self, rng: np.random.Generator) -> tuple[Ints, Ints, Ints]:
        """For each row of a stream, in its order: event, end, previous end."""
        w = self.workload
        late = rng.random(w.events) < w.disorder
        arrival = self.vs + np.where(late, rng.integers(1, w.lateness_max + 1, w.events), 0)
        if not w.revisions:
            order = np.argsort(arrival, kind="stable")
            return order, self.ve[order], np.full(w.events, BEGIN, np.int64)
        adjusts = rng.binomial(REVISIONS_MAX, w.revisions / REVISIONS_MAX, w.events)
        event = np.repeat(np.arange(w.events), adjusts + 1)
        first = np.cumsum(adjusts + 1) - adjusts - 1  # where each event's insert stands
        wait = rng.integers(1, w.lateness_max + 1, len(event))
        wait[first] = 0
        wait = wait[np.lexsort((wait, event))]  # an event's steps come one after the other
        step = np.arange(len(event)) - first[event]
        unit = w.lifetime_mean // REVISION_SHARE
        ve = self.ve[event] - (adjusts[event] - step) * unit
        was = np.where(step == 0, BEGIN, ve - unit)
        order = np.argsort(arrival[event] + wait, kind="stable")
        return event[order], ve[order], was[order]

    def _payload(self, event: Ints) -> list[pa.Array]:
        columns = [pa.array(self.number[event])]
        if self.text is not None:
            offsets = np.arange(0, (len(event) + 1) * TEXT_BYTES, TEXT_BYTES, dtype=np.int32)
            text = pa.py_buffer(self.text[event])
            columns.append(pa.StringArray.from_buffers(len(event), pa.py_buffer(offsets), text))
        return columns


def _numbers(vs: Ints, rng: np.random.Generator) -> Ints:
    """An integer for each event; neighbours that share a start count on from the first of them.

    So they differ, short of 402 consecutive gaps of 0, which no MaxGap above 0 ever draws.
    """
    drawn = rng.integers(0, NUMBER_MAX, len(vs), endpoint=True)
    place = np.arange(len(vs))
    new = np.r_[True, vs[1:] != vs[:-1]]
    first = np.maximum.accumulate(np.where(new, place, 0))
    numbers: Ints = (drawn[first] + place - first) % (NUMBER_MAX + 1)
    return numbers


def _stables(floor: Ints, w: Workload, rng: np.random.Generator) -> list[int | None]:
    """The stable behind each frame. `floor`: the largest that may stand before each row."""
    limit = np.r_[np.minimum.accumulate(floor[::-1])[::-1][1:], INF]
    stables: list[int | None] = [None] * -(-len(floor) // w.frame_rows)
    for row in np.flatnonzero(rng.random(len(floor)) < w.stable_freq).tolist():
        stables[row // w.frame_rows] = int(limit[row])
    stables[-1] = INF
    return stables


def interleave(
    streams: Sequence[Sequence[Frame]], lag_frames: Sequence[int] = ()
) -> list[tuple[int, Frame]]:
    """All frames with their input's number, a frame of each input in turn.

    Input i runs `lag_frames[i]` turns behind; 0 where that is not said.
    """
    lags = [*lag_frames, *[0] * (len(streams) - len(lag_frames))]
    turns = [(k + lags[i], i, k) for i, frames in enumerate(streams) for k in range(len(frames))]
    return [(i, streams[i][k]) for _, i, k in sorted(turns)]
