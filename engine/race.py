"""Race: plans that give the same table run side by side, and each event counts once (LMerge).

    plan 0    ins(A,6,7)  stable(4)              adj(A,6,7,12)  stable(11)
    plan 1                           ins(A,6,12) stable(9)
    output    ins(A,6,7)  stable(4)  adj(A,6,7,12) stable(9)    stable(11)

Whichever plan is ahead gives the answer, so the output is as early as the earliest of them at each
moment. This is LMerge as an operator: a plan is an input of it, attached for good, and what is
known of all plans decides which of its cases serves.

Plans are ours, so one that breaks its own promises is a fault to be seen: it is let go, `detached`
says why, and the race goes on without it. When the last one goes, its reason is raised.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from gapless.merge.choose import CaseName, StreamProperties
from gapless.merge.lmerge import LMerge
from gapless.merge.policy import Policy
from gapless.merge.snapshot import Snapshot
from gapless.operators.operator import Marks, Operator, Out, check_schema
from gapless.operators.state import State, table
from gapless.protocol.documents import pack, unpack
from gapless.protocol.errors import DecodeError, GaplessError, Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

_DOCUMENT = "document"
_DOCUMENT_SCHEMA = pa.schema([pa.field("msgpack", pa.binary(), nullable=False)])
_MISS_NOTHING: frozenset[CaseName] = frozenset(("r0", "r2"))
"""Cases in which what one plan skips is no word about it: they only ever add."""


class Race(Operator):
    """One stream of the table that all its inputs tell, as early as any of them tells it."""

    def __init__(
        self,
        schema: StreamSchema,
        properties: Sequence[StreamProperties],
        policy: Policy | None = None,
    ) -> None:
        """`properties` is what is known of each input; as many inputs there are."""
        if not properties:
            raise Misuse("race: needs one plan at least")
        self.schema = schema
        self.inputs = len(properties)
        self._merge = LMerge(schema, policy=policy, properties=list(properties))
        for known in properties:
            self._merge.attach(properties=known)
        self._nothing = Out(Frame.empty(schema))

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """What a plan's frame adds to what the others have said."""
        del marks  # one plan's: what the output still gives of the others' rows they do not say
        check_schema(frame, self.schema)
        if source in self._merge.detached:
            return self._nothing
        out = self._merge.push(source, frame)
        if not self._merge.inputs:
            reason = self._merge.detached[source]
            raise GaplessError("race: no plan is left") if reason is None else reason
        return Out(out)

    def fast_forward(self, t: int) -> int:
        """Asks the plans to skip what the output has settled.

        What it has not, one plan must not skip while another has told it: that would look as if
        the first had no such event. Only cases that never take back let plans skip up to t.
        """
        for number in self._merge.inputs:
            self._merge.feedback(number, t)
        return t if self._merge.case in _MISS_NOTHING else min(t, self._merge.stable)

    # -- looking at it ------------------------------------------------------------------------

    @property
    def case(self) -> CaseName:
        """The case of LMerge in use."""
        return self._merge.case

    @property
    def detached(self) -> dict[int, GaplessError | None]:
        """The plans that have been let go, and why."""
        return self._merge.detached

    @property
    def divergences(self) -> int:
        """Events of which two plans had different versions that neither can take back."""
        return self._merge.divergences.count

    @property
    def nbytes(self) -> int:
        """Bytes of the merger."""
        return self._merge.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._merge.validate()

    # -- the state as data --------------------------------------------------------------------

    def snapshot(self) -> State:
        """The merger's own snapshot: its tables, and its document in one row."""
        taken = self._merge.snapshot()
        document = pa.array([pack(taken.document)], pa.binary())
        return {
            **taken.tables,
            _DOCUMENT: pa.RecordBatch.from_arrays([document], schema=_DOCUMENT_SCHEMA),
        }

    def restore(self, state: State) -> None:
        """Takes it back."""
        rows = table(state, _DOCUMENT, _DOCUMENT_SCHEMA)
        if rows.num_rows != 1 or rows.column(0).null_count:
            raise DecodeError(
                f"snapshot.{_DOCUMENT}", f"{rows.num_rows} rows, or a null", "one row"
            )
        document = unpack(rows.column(0)[0].as_py())
        if not isinstance(document, dict):
            raise DecodeError(f"snapshot.{_DOCUMENT}", "is not a dict", "a merger's document")
        tables = {name: batch for name, batch in state.items() if name != _DOCUMENT}
        merge = LMerge.restore(self.schema, Snapshot(document, tables))
        if {*merge.inputs, *merge.detached} != set(range(self.inputs)):
            known = sorted((*merge.inputs, *merge.detached))
            raise DecodeError(f"snapshot.{_DOCUMENT}", f"inputs {known}", f"0 to {self.inputs - 1}")
        self._merge = merge
