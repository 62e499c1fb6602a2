"""Normalise: one table for all tables that say the same at every instant.

Relational rewrites keep what holds at each instant, not how lifetimes are cut: one plan puts out
A [0,10) and A [10,20), another A [0,20). The two are snapshot-equivalent and unequal as tables, and
a merger needs equal ones. So plans that differ in this race only behind this operator.

The normal form, for each payload alone: gather all starts and all ends, with repeats. Where a start
and an end meet, both go. Sort both; the i-th start is paired with the i-th end.

    A [0,10)   A [5,15)   A [10,20)        starts 0 5 10      ends 10 15 20
                                            without the pair at 10:
    A [0,15)   A [5,20)                    starts 0 5         ends 15 20

At each instant as many events are alive as before: that number rises at starts, falls at ends, and
an end that meets a start changes nothing. And it has no other choice: after cancelling, the starts
are where the number of copies rises and the ends are where it falls, so they, and with them their
pairs, are decided by the snapshots alone. Where no instant has a payload twice, lifetimes come out
as long as they can be and (vs, payload) is a key.

What it keeps is therefore one number a payload and time, starts minus ends (`normal_form.py`):

    ins(A,0,10)        A: +1 at 0, -1 at 10         an insert adds one at vs, takes one at ve
    ins(A,10,20)       A: +1 at 0,  0 at 10, -1 at 20
    adj(A,10,20,25)    A: +1 at 0, -1 at 25         an adjust adds one at was, takes one at ve

Sums know no order, so neither arrival nor the way of telling shows.

Its stable is its input's: at stable t no sum below t can change. More cannot be promised, for the
input may still insert at t.
"""

from __future__ import annotations

import numpy as np

from gapless.operators.memory import Memory
from gapless.operators.normal_form import NormalForm
from gapless.operators.operator import Marks, Operator, Out, check_schema
from gapless.operators.payloads import Payloads
from gapless.operators.state import FACTS, State, check_names, facts, read_facts
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, DecodeError, StreamViolation
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import format_element


class Normalise(Operator):
    """The normal form of its input's table, revised with it.

    Its input is a legal stream; of its promises, only that an adjust changes what is there is
    checked, and that as far as the snapshots show it: a frame after which some payload would be
    alive less than no times raises `StreamViolation` and changes nothing.
    """

    reach = INF  # a piece that ended long ago may be what a piece at t continues

    def __init__(self, schema: StreamSchema) -> None:
        self.schema = schema
        self._payloads = Payloads(schema.payload)
        self._form = NormalForm(schema, self._payloads)
        self._stable = BEGIN
        self._wanted = BEGIN  # events that end before it need not be put out

    def limited(self, memory: Memory) -> None:
        """Rows are asked for, too."""
        super().limited(memory)
        self._payloads.memory = memory

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """Takes the rows in and gives what they change; passes the stable on."""
        check_schema(frame, self.schema)
        stable = frame.stable
        out = self._revise(frame) if len(frame) else Frame.empty(self.schema)
        if stable is not None and stable > self._stable:
            self._stable = stable
            self._form.settle(stable)
        return Out(out.with_stable(stable))

    def _revise(self, frame: Frame) -> Frame:
        up = np.where(frame.is_insert, frame.vs, frame.was)
        settled = BEGIN if frame.stable is None else frame.stable
        payloads = self._payloads.intern(frame.payload)
        out = self._form.revise(payloads, up, frame.ve, unwanted_below=min(settled, self._wanted))
        if out is None:
            raise _violation(frame)
        return out

    def fast_forward(self, t: int) -> int:
        """Asks nothing of its input, as a skipped early piece would change a later event's start.

        Spares only the output: events that come and are settled in one frame, and end before t.
        """
        self._wanted = max(self._wanted, t)
        return BEGIN

    def snapshot(self) -> State:
        """The payloads and their boundaries."""
        rows, places = self._payloads.snapshot()
        return {
            FACTS: facts(stable=self._stable, wanted=self._wanted),
            "payloads": rows,
            **self._form.snapshot(places),
        }

    def restore(self, state: State) -> None:
        """Takes them back; raises `DecodeError` where they are no normal form's."""
        check_names(state, FACTS, "payloads", "boundaries")
        self._stable, self._wanted = read_facts(state, "stable", "wanted")
        self._form.restore(state, self._payloads.restore(state, "payloads"))
        try:
            self.validate()
        except Bug as e:
            raise DecodeError("snapshot", str(e), "the state of a normalise") from None

    def __len__(self) -> int:
        """Boundaries held."""
        return len(self._form)

    @property
    def nbytes(self) -> int:
        """Bytes of the payloads and boundaries."""
        return self._payloads.nbytes + self._form.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._payloads.validate(self._form.used)
        self._form.validate(self._stable)


def _violation(frame: Frame) -> StreamViolation:
    """Names the first adjust; which one it was cannot be told from sums."""
    adjusts = (~frame.is_insert).nonzero()[0]
    element = frame.slice(int(adjusts[0]), 1).elements()[0]
    return StreamViolation(
        format_element(element),
        "an adjust changes an event that is there; after this one, or one that follows it in "
        "its frame, a payload ends more often than it has started",
    )
