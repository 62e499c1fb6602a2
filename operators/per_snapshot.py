"""The common machine of operators that say what holds at each instant, from the rows alive then.

    count()            ins(A,0,9) ins(A,4,inf) stable(6)      adj(A,4,inf,7) stable(20)

    pieces of A        [0,4) 1   [4,9) 2                      [6,7) 2   [7,9) 1
    said so far        nothing                                2 in [6,9), which ends by provision
    comes out          ins((A,1),0,4) ins((A,2),4,9)          adj((A,2),4,9,7) ins((A,1),7,9)

What is alive at an instant t' < t cannot change after stable t. So rows are only folded in as they
come (`live_events.py`), and at a stable the groups are evaluated whose answers up to it are not out
yet: those touched since the last stable T, and those with a start or an end between T and t. Their
lifetimes from T on are cut into pieces (`pieces.py`); the subclass says which rows hold in each
piece, `_answer`. Pieces that start at t or later wait. The last one may reach over t: the end that
it is given is a provisional one.

So of each group one piece at most has been said of what comes after T. It is taken back, in
the sums of `normal_form.py`, and the new pieces are added; what meets cancels, and the net
difference goes out in normal form. Nothing below T is ever touched, so stable t is true, and as all
that starts below t is out, no larger one would be: an input may still insert at t.

Then events with `ve < t` are forgotten, and groups without events. A group's *wake* is the first of
its boundaries at t or later: until a stable passes that, there is no work for the group.

A punctuation that forbids every later row of a group says that all its pieces are final: they
go out at once, before the stable gets there, and the group is forgotten (window-queries, 7.2).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.operators.live_events import LiveEvents
from gapless.operators.memory import Memory
from gapless.operators.normal_form import NormalForm
from gapless.operators.numbers import at_places, numbers, read_numbers
from gapless.operators.open_pieces import OpenPieces
from gapless.operators.operator import (
    ANSWER_ROWS_MAX,
    Marks,
    Operator,
    Out,
    check_schema,
    joined,
    one_frame,
)
from gapless.operators.payloads import Payloads
from gapless.operators.pieces import (
    Lifetimes,
    Pieces,
    Rows,
    Spans,
    by_payload_and_piece,
    lay_out,
    lifetimes,
)
from gapless.operators.row_bytes import cuts
from gapless.operators.state import FACTS, State, check_names, facts, read_facts
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, DecodeError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

ENTRIES_MAX = 1 << 20
"""What is laid out at once for answers, in the subclass's measure: tens of megabytes."""


EVENT_BYTES = 200
"""Of an event of a group that is evaluated: its start and end among the others, and what it covers.
"""


class _Work(NamedTuple):
    """What an evaluation leaves to be done."""

    groups: Ids
    said: list[Lifetimes]
    done: Ids
    """Events that are not needed any more."""


class PerSnapshot(Operator):
    """A function of the rows alive at each instant, group by group, in normal form.

    group_by: the columns that a group agrees on; None: all. Rows of two groups are different: the
    group's columns are part of them.
    """

    reach = INF  # a piece that ended long ago may be what a piece at t continues

    def __init__(
        self,
        schema: StreamSchema,
        group_by: Sequence[str] | None,
        output: StreamSchema | None = None,
        inputs: int = 1,
    ) -> None:
        self._input = schema
        self.schema = schema if output is None else output
        self.inputs = inputs
        self._events = LiveEvents(schema, group_by)
        own_rows = output is not None  # else it puts out rows of its input
        self._payloads = Payloads(self.schema.payload) if own_rows else self._events.payloads
        self._form = NormalForm(self.schema, self._payloads)
        self._wake = Column(INF)  # by group; BEGIN: touched since it was evaluated
        self._open = OpenPieces(self._events.groups, self._payloads)
        self._input_stables = [BEGIN] * inputs
        self._stable = BEGIN
        self._wanted = BEGIN  # events that end before it need not be put out

    @abstractmethod
    def _answer(self, pieces: Pieces, spans: Spans) -> Rows:
        """The rows that hold in each piece, given the events that cover it; in any order."""

    def _entries(self, pieces: Pieces, spans: Spans) -> Ids:
        """How much room the answer for each piece takes, at the most."""
        return np.ones(len(pieces), np.int64)

    # -- pushing ------------------------------------------------------------------------------

    def limited(self, memory: Memory) -> None:
        """Rows are asked for, too."""
        super().limited(memory)
        for each in (self._events.payloads, self._events.groups, self._payloads):
            each.memory = memory

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """Folds the rows in; what the stable and the marks make final goes out."""
        return joined(self.schema, self.parts(source, frame, marks))

    def parts(self, source: int, frame: Frame, marks: Marks = ()) -> Iterator[Out]:
        """The same, some groups after the others; the stable comes with the last."""
        check_schema(frame, self._input)
        if len(frame):
            touched = self._events.take_in(frame, source)
            self._wake.fit(self._events.groups.capacity)[touched] = BEGIN
            self._open.fit()
        passed = self._closing(marks)
        closed = self._groups_of(passed)
        stable = self._next_stable(source, frame.stable)
        due = np.zeros(0, np.int64) if stable is None else self._due(stable)
        work = (closed, INF), (np.setdiff1d(due, closed) if len(closed) else due, stable or 0)
        frontier = self._stable if stable is None else stable
        out: list[Frame] = []
        for groups, until in work:
            for some in self._some(groups):
                out.append(self._finish(self._evaluate(some, until), min(frontier, self._wanted)))
                if sum(map(len, out)) >= ANSWER_ROWS_MAX:
                    yield Out(one_frame(self.schema, out))
                    out = []
        if stable is not None:
            self._stable = stable
            self._form.settle(stable)
            self._give_room_back()
        yield Out(one_frame(self.schema, out).with_stable(stable), passed)

    def _some(self, groups: Ids) -> Iterator[Ids]:
        """Groups, as many at a time as have so many events that they are laid out together."""
        row_bytes = EVENT_BYTES * self._events.members(groups)
        for part in cuts(row_bytes, len(groups), self.memory.part_bytes):
            self.memory.ask(int(row_bytes[part].sum()), "what is alive at each instant")
            yield groups[part]

    def _next_stable(self, source: int, stable: int | None) -> int | None:
        """What all inputs have promised, where that is more than before."""
        if stable is None:
            return None
        self._input_stables[source] = max(stable, self._input_stables[source])
        least = min(self._input_stables)
        return least if least > self._stable else None

    def _closing(self, marks: Marks) -> Marks:
        """The marks that close whole groups; of several inputs one cannot."""
        if self.inputs > 1:
            return ()
        columns = set(self._events.group_by)
        return tuple(
            mark for mark in marks if columns.issuperset(n for n, _ in (*mark.bounds, *mark.group))
        )

    def _groups_of(self, marks: Marks) -> Ids:
        """The groups of which these forbid every later row."""
        if not marks:
            return np.zeros(0, np.int64)
        groups = self._events.all_groups
        keys = self._events.groups.rows(groups)
        closed: Ids = groups[np.logical_or.reduce([mark.matches(keys) for mark in marks])]
        return closed

    def _due(self, stable: int) -> Ids:
        """The groups of which a stable makes something final that is not out."""
        if stable == INF:
            return self._events.all_groups
        return (self._wake.values < stable).nonzero()[0]

    # -- evaluating ---------------------------------------------------------------------------

    def _evaluate(self, groups: Ids, until: int) -> _Work:
        """Says what groups answer from the stable on, in pieces that start before `until`."""
        position, event = self._events.of(groups)
        vs, ve = self._events.vs.values[event], self._events.ve.values[event]
        said = [self._open.take_back(groups, self._stable)]
        pieces, spans, after = lay_out(groups, position, event, vs, ve, self._stable, until)
        for part, covering in self._parts(pieces, spans):
            rows = by_payload_and_piece(self._answer(part, covering), len(part))
            said.append(lifetimes(part, rows))
            self._open.keep(part, rows, until)
        self._wake.values[groups] = after
        done = event if until == INF else event[ve < until]
        return _Work(groups, said, done)

    def _finish(self, work: _Work, unwanted: int) -> Frame:
        """Puts out what was said, and forgets what is done: not before, as its payloads go too."""
        said = [part for part in work.said if len(part.payload)]
        out = self._revise(said, unwanted) if said else Frame.empty(self.schema)
        self._events.forget(work.done)
        self._events.let_go(self._events.without_events(work.groups))
        return out

    def _revise(self, said: list[Lifetimes], unwanted: int) -> Frame:
        payload, up, down, copies = map(np.concatenate, zip(*said, strict=True))
        out = self._form.revise(payload, up, down, copies, unwanted)
        if out is None:
            raise Bug("more has been taken back than was said")
        return out

    def _parts(self, pieces: Pieces, spans: Spans) -> Iterator[tuple[Pieces, Spans]]:
        """The same in parts of about `ENTRIES_MAX` entries."""
        filled = np.cumsum(self._entries(pieces, spans))
        if not len(pieces):
            return
        if filled[-1] <= ENTRIES_MAX:
            yield pieces, spans
            return
        cuts = np.diff(filled // ENTRIES_MAX).nonzero()[0] + 1
        edges = [0, *cuts.tolist(), len(pieces)]
        for first, last in pairwise(edges):
            yield pieces.part(first, last), spans.part(first, last)

    def _give_room_back(self) -> None:
        self._events.give_room_back()
        self._wake.fit(self._events.groups.capacity)
        self._open.give_room_back()

    def fast_forward(self, t: int) -> int:
        """Asks nothing of its inputs, as a skipped early piece would change a later event's start.

        Spares only the output: events that come and are settled in one frame, and end before t.
        """
        self._wanted = max(self._wanted, t)
        return BEGIN

    # -- snapshots ----------------------------------------------------------------------------

    def snapshot(self) -> State:
        """Events, groups, and what has been said."""
        payloads, places = self._events.payloads.snapshot()
        state = {"payloads": payloads}
        group_places = said_places = places
        if self._events.groups is not self._events.payloads:
            state["group_keys"], group_places = self._events.groups.snapshot()
        if self._payloads is not self._events.payloads:
            state["answers"], said_places = self._payloads.snapshot()
        groups = self._events.all_groups
        position, said, copies = self._open.rows(groups)
        stables = np.array(self._input_stables, np.int64)
        return {
            **state,
            FACTS: facts(stable=self._stable, wanted=self._wanted),
            "inputs": numbers(stable=stables),
            "groups": numbers(
                group=group_places[groups],
                wake=self._wake.values[groups],
                said_until=self._open.until(groups),
            ),
            "said": numbers(
                group=group_places[groups[position]],
                payload=said_places[said],
                copies=copies,
            ),
            **self._events.snapshot(places, group_places),
            **self._form.snapshot(said_places),
        }

    def restore(self, state: State) -> None:
        """Takes them back; raises `DecodeError` where they are damaged."""
        own_groups = self._events.groups is not self._events.payloads
        own_answers = self._payloads is not self._events.payloads
        names = ["payloads", "events", "boundaries", "groups", "said", "inputs", FACTS]
        check_names(state, *names, *["group_keys"] * own_groups, *["answers"] * own_answers)
        payloads = group_ids = answers = self._events.payloads.restore(state, "payloads")
        if own_groups:
            group_ids = self._events.groups.restore(state, "group_keys")
        if own_answers:
            answers = self._payloads.restore(state, "answers")
        self._stable, self._wanted = read_facts(state, "stable", "wanted")
        (stables,) = read_numbers(state, "inputs", "stable")
        self._input_stables = stables.tolist()
        of, wake, said_until = read_numbers(state, "groups", "group", "wake", "said_until")
        groups = at_places(group_ids, of, "groups.group")
        self._events.restore(state, payloads, group_ids, groups)
        self._wake.fit(self._events.groups.capacity)[groups] = wake
        self._open.restore(groups, said_until)
        self._form.restore(state, answers)
        self._restore_said(state, group_ids, answers)
        try:
            self.validate()
        except Bug as e:
            raise DecodeError("snapshot", str(e), "the state of such an operator") from None

    def _restore_said(self, state: State, groups: Ids, answers: Ids) -> None:
        of, at, copies = read_numbers(state, "said", "group", "payload", "copies")
        payload = at_places(answers, at, "said.payload")
        self._open.restore_rows(at_places(groups, of, "said.group"), payload, copies)

    # -- looking at it ------------------------------------------------------------------------

    def __len__(self) -> int:
        """Different events held."""
        return len(self._events)

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        own = 0 if self._payloads is self._events.payloads else self._payloads.nbytes
        held = self._events.nbytes + self._form.nbytes + self._open.nbytes + own
        return held + self._wake.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        if len(self._input_stables) != self.inputs or min(self._input_stables) != self._stable:
            raise Bug(f"the inputs promise {self._input_stables}, the output {self._stable}")
        shared = self._payloads is self._events.payloads
        self._form.validate(self._stable)
        self._events.validate(self._form.used if shared else np.zeros(0, np.int64))
        if not shared:
            self._payloads.validate(self._form.used)
        self._validate_groups()
        self._open.validate(self._events.all_groups, self._stable, self._form)

    def _validate_groups(self) -> None:
        """A group wakes at the first boundary that has not been said whole."""
        groups = self._events.all_groups
        absent = np.delete(self._wake.values, groups[groups < len(self._wake.values)])
        if np.count_nonzero(absent != INF):
            raise Bug("a group that is not there has work to do")
        position, event = self._events.of(groups)
        vs, ve = self._events.vs.values[event], self._events.ve.values[event]
        wake = np.full(len(groups), INF)
        np.minimum.at(wake, position, np.where(vs >= self._stable, vs, ve))
        is_said = self._wake.values[groups] != BEGIN
        if np.count_nonzero(self._wake.values[groups][is_said] != wake[is_said]):
            raise Bug("a group sleeps through one of its boundaries")
        if len(self._events.without_events(groups[is_said])):
            raise Bug("a group without events was not let go")
