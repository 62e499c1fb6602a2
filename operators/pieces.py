"""Lifetimes laid out as pieces between which nothing changes.

    A [0,10)   |---------|
    B    [4,14)    |---------|
    pieces     |---|-----|---|        0: [0,4) A     1: [4,10) A and B     2: [10,14) B
    spans      A covers pieces 0 to 1, B covers 1 to 2

Pieces are cut group by group at every start and end of the group's own events, and numbered
through all groups. So what an event covers is a run of pieces, and to say what holds in each piece
one need not lay out all pairs of a piece and an event that covers it, of which there may be n
squared: `nodes` cuts each run into at most 2 log n nodes of a binary tree over the pieces,

    level 2    [0 . . . . . . 3]       a run from 1 to 6 is   node 1 of level 0
    level 1    [0 . 1] [2 . . 3]                              node 1 of level 1
    level 0    0  1  2  3  ...                                node 2 of level 1, node 6 of level 0

and what is known of a node is handed down to both of its children, level by level.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gapless.kernels.keys import Ids, Mask
from gapless.operators.numbers import sorting
from gapless.protocol.elements import INF
from gapless.protocol.frame import Times


@dataclass(slots=True)
class Pieces:
    """Stretches of time, by group and start. In each, the same events of the group are alive."""

    start: Times
    end: Times
    group: Ids
    begins: Mask
    """False for a piece that continues one from before the layout began."""

    def __len__(self) -> int:
        return len(self.start)

    def part(self, first: int, last: int) -> Pieces:
        """Those from `first` on and before `last`."""
        at = slice(first, last)
        return Pieces(self.start[at], self.end[at], self.group[at], self.begins[at])


@dataclass(slots=True)
class Spans:
    """Which run of pieces each event covers: those from `first` on and before `last`."""

    event: Ids
    first: Ids
    last: Ids

    def part(self, first: int, last: int) -> Spans:
        """What is covered of the pieces from `first` on and before `last`, counted from there."""
        here = ((self.first < last) & (self.last > first)).nonzero()[0]
        return Spans(
            self.event[here],
            np.maximum(self.first[here], first) - first,
            np.minimum(self.last[here], last) - first,
        )

    def repeated(self, copies: Ids) -> Spans:
        """Each as often as `copies` says."""
        if len(copies) and int(copies.max()) == 1 == int(copies.min()):
            return self
        return Spans(*(np.repeat(column, copies) for column in (self.event, self.first, self.last)))

    def covered(self, pieces: int, by: Ids | None = None) -> Ids:
        """How many events cover each of so many pieces; or what `by`, one for each, adds up to."""
        one = np.ones(len(self.first), np.int64) if by is None else by
        rise = np.zeros(pieces + 1, np.int64)
        np.add.at(rise, self.first, one)
        np.subtract.at(rise, self.last, one)
        return np.cumsum(rise)[:-1]

    def nodes(self) -> Iterator[tuple[Ids, Ids]]:
        """Level by level from 0 on, which nodes of the tree are in which spans.

        Yields pairs (node, place among the spans). The nodes of a span are disjoint and cover it.
        """
        place = (self.first < self.last).nonzero()[0]
        first, last = self.first[place], self.last[place]
        while len(place):
            left, right = (first & 1).nonzero()[0], (last & 1).nonzero()[0]
            yield (
                np.concatenate([first[left], last[right] - 1]),
                np.concatenate([place[left], place[right]]),
            )
            first, last = (first + 1) >> 1, last >> 1
            more = (first < last).nonzero()[0]
            place, first, last = place[more], first[more], last[more]


class Rows(NamedTuple):
    """What holds in pieces: a payload of the output, maybe several times."""

    piece: Ids
    payload: Ids
    copies: Ids


class Lifetimes(NamedTuple):
    """Each payload is there `copies` times more from `up` on, and less from `down` on."""

    payload: Ids
    up: Times
    down: Times
    copies: Ids


class Layout(NamedTuple):
    """Some groups' lifetimes from one time on, up to another."""

    pieces: Pieces
    spans: Spans
    next: Times
    """By group, its first boundary that starts no piece; INF where there is none."""


def lay_out(
    groups: Ids, position: Ids, event: Ids, vs: Times, ve: Times, since: int, until: int
) -> Layout:
    """The pieces from `since` on that start before `until`, and what each event covers of them.

    Event i is of `groups[position[i]]`, lives in `[vs[i], ve[i])` and ends at `since` or later.
    Pieces that no event covers are among them.
    """
    n = len(event)
    if until == INF:  # nothing starts there, so a time that is nearer and easier to sort will do
        until = int(np.max(np.where(ve < INF, ve, vs), initial=since)) + 1
    later = (ve >= until).nonzero()[0]
    after = np.full(len(groups), INF)
    np.minimum.at(after, position[later], np.where(vs >= until, vs, ve)[later])

    owner = np.concatenate([position, position])
    time = np.minimum(np.concatenate([np.maximum(vs, since), ve]), until)
    order = sorting(owner, time)
    owner, time = owner[order], time[order]
    first = np.ones(2 * n, np.bool_)
    first[1:] = (owner[1:] != owner[:-1]) | (time[1:] != time[:-1])
    boundary = np.empty(2 * n, np.int64)  # of each start and end, the number of its boundary
    boundary[order] = np.cumsum(first) - 1
    start, owner = time[first], owner[first]
    begins = np.zeros(len(start), np.bool_)
    begins[boundary[n:]] = True
    begins[boundary[:n][vs >= since]] = True
    end = np.append(start[1:], start[-1:])  # a group's last boundary starts what none covers
    end = np.where(end == until, after[owner], end)
    kept = (start < until).nonzero()[0]
    before: Ids = np.cumsum(start < until) - (start < until)  # of each, how many kept ones are
    pieces = Pieces(start[kept], end[kept], groups[owner[kept]], begins[kept])
    return Layout(pieces, Spans(event, before[boundary[:n]], before[boundary[n:]]), after)


def by_payload_and_piece(rows: Rows, pieces: int) -> Rows:
    """Rows of so many pieces in this order, each payload once a piece."""
    if not len(rows.piece):
        return rows
    key = rows.payload * pieces + rows.piece
    order = np.argsort(key)
    key, copies = key[order], rows.copies[order]
    first = np.ones(len(key), np.bool_)
    first[1:] = key[1:] != key[:-1]
    begins = first.nonzero()[0]
    if len(begins) < len(key):
        key, copies = key[begins], np.add.reduceat(copies, begins)
    return Rows(key % pieces, key // pieces, copies)


def lifetimes(pieces: Pieces, rows: Rows) -> Lifetimes:
    """One for pieces that follow each other with a payload as often there.

    The rows are in the order of `by_payload_and_piece`.
    """
    piece, payload, copies = rows
    start, end = pieces.start[piece], pieces.end[piece]
    if not len(piece):
        return Lifetimes(payload, start, end, copies)
    breaks = np.ones(len(piece) + 1, np.bool_)
    breaks[1:-1] = (payload[1:] != payload[:-1]) | (copies[1:] != copies[:-1])
    breaks[1:-1] |= start[1:] != end[:-1]
    first, last = breaks[:-1].nonzero()[0], breaks[1:].nonzero()[0]
    return Lifetimes(payload[first], start[first], end[last], copies[first])
