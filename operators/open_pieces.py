"""The pieces that reach over the stable: what has been said of the time beyond it, group by group.

    stable 6    group A   said: 2 in [4,9)        the piece is open: its end is a provisional one
    stable 20   group A   taken back: 2 from 6    once it is known that 2 holds until 7 only
                          said anew: 2 in [6,7), 1 in [7,9)

Of each group one piece at most is open, with all the rows that hold in it. Taking it back cancels
what was said of it beyond the stable; what meets a piece said anew goes out as nothing (see
`normal_form.py`).
"""

from __future__ import annotations

import numpy as np

from gapless.kernels import Chains
from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.operators.normal_form import NormalForm
from gapless.operators.numbers import unique
from gapless.operators.payloads import Payloads
from gapless.operators.pieces import Lifetimes, Pieces, Rows
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug, DecodeError
from gapless.protocol.frame import Times


class OpenPieces:
    """At most one piece of each group, and its rows."""

    def __init__(self, groups: Payloads, payloads: Payloads) -> None:
        self._groups = groups
        self._payloads = payloads
        self._rows = Chains()  # group -> payloads of its piece
        self._copies = Column(0)  # by payload, how often it is there in that piece
        self._until = Column(BEGIN)  # by group: where its piece ends; BEGIN where none is open

    def fit(self) -> None:
        """Makes room for the groups that there are."""
        self._until.fit(self._groups.capacity)

    def take_back(self, groups: Ids, stable: int) -> Lifetimes:
        """What was said of these groups beyond the stable is not so any more."""
        position, payload = self._rows.probe(groups)
        self._rows.remove(payload)
        copies = self._copies.values[payload]
        self._copies.values[payload] = 0
        end = self._until.fit(self._groups.capacity)[groups]
        self._until.values[groups] = BEGIN
        return Lifetimes(payload, end[position], np.full(len(payload), stable), copies)

    def keep(self, pieces: Pieces, rows: Rows, until: int) -> None:
        """Remembers what is said beyond `until`: of each group the rows of one piece at most."""
        over = (pieces.end[rows.piece] > until).nonzero()[0]
        piece, payload = rows.piece[over], rows.payload[over]
        self._rows.add(pieces.group[piece], payload)
        self._copies.fit(self._payloads.capacity)[payload] = rows.copies[over]
        self._until.values[pieces.group[piece]] = pieces.end[piece]

    def give_room_back(self) -> None:
        """Frees room that no group and no payload needs any more."""
        self._until.fit(self._groups.capacity)
        self._copies.fit(self._payloads.capacity)

    # -- the state as numbers -----------------------------------------------------------------

    def until(self, groups: Ids) -> Times:
        """Where the piece of each group ends; BEGIN where none is open."""
        return self._until.values[groups]

    def rows(self, groups: Ids) -> tuple[Ids, Ids, Ids]:
        """Each row of an open piece: its group's position among `groups`, payload and copies."""
        position, payload = self._rows.probe(groups)
        return position, payload, self._copies.values[payload]

    def restore(self, groups: Ids, until: Times) -> None:
        """Takes back where the pieces end."""
        self._until.fit(self._groups.capacity)[groups] = until

    def restore_rows(self, groups: Ids, payload: Ids, copies: Ids) -> None:
        """Takes back the rows; raises `DecodeError` where they are damaged."""
        if len(unique(payload)) < len(payload):
            raise DecodeError("snapshot.said", "a repeated row", "each once, with its copies")
        self._rows.add(groups, payload)
        self._copies.fit(self._payloads.capacity)[payload] = copies

    # -- looking at it ------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        return int(self._rows.nbytes) + self._copies.nbytes + self._until.nbytes

    def validate(self, groups: Ids, stable: int, form: NormalForm) -> None:
        """Raises `Bug` unless what reaches over the stable is what went out with that end."""
        self._rows.validate()
        absent = np.delete(self._until.values, groups[groups < len(self._until.values)])
        if np.count_nonzero(absent != BEGIN):
            raise Bug("a group that is not there has said something")
        position, payload = self._rows.probe(groups)
        copies = self._copies.values
        if len(payload) != len(self._rows) or not np.array_equal(
            np.sort(payload), copies.nonzero()[0]
        ):
            raise Bug("what has been said is of no group, or no times")
        open_ended = groups[self._until.values[groups] > BEGIN]
        if not np.array_equal(open_ended, groups[unique(position)]):
            raise Bug("a group has said something until no time, or nothing until some")
        end = self._until.values[groups[position]]
        if np.count_nonzero(end < stable):
            raise Bug("what has been said beyond the stable ends before it")
        if np.count_nonzero(form.sums_at(payload, end) != -copies[payload]):
            raise Bug("what has been said is not what went out")
