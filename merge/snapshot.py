"""An LMerge as data, and back: plain values, and tables of events as Arrow batches.

    document    the case, its facts, the policy, who takes part and what each promised, counts
    tables      output       what the output still holds, as inserts
                input 3      what input 3 has said of that, as inserts
                held 3       rows of input 3 that wait until it qualifies
                rescued      rows that a step has put out and no push has given yet

Not in it: samples of divergences and open questions, which only tell, and never change the output.
A snapshot may come from a file: whatever is wrong with it is one kind of error, and nothing of it
is used.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gapless.merge.adapt import Declarations, Step
from gapless.merge.history import History
from gapless.merge.membership import Membership
from gapless.merge.policy import Policy
from gapless.merge.stats import OutputCounts
from gapless.protocol.elements import BEGIN, check_stable
from gapless.protocol.errors import DecodeError, GaplessError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

if TYPE_CHECKING:
    from gapless.merge.lmerge import LMerge


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All of a merger as data."""

    document: dict[str, Any]
    tables: dict[str, pa.RecordBatch]


def take(merge: LMerge) -> Snapshot:
    """The snapshot of a merger."""
    source = merge._history or merge._case
    tables = {"output": source.live().batch}
    if merge._rescued:
        tables["rescued"] = Frame.concat(merge._rescued).batch
    for number in merge.inputs:
        tables[f"input {number}"] = source.told(number).batch
        if held := merge._case.held(number):
            tables[f"held {number}"] = Frame.concat(held).batch
    out = merge._put_out
    document = {
        "case": merge.case,
        "adapts": merge._adapts,
        "declared": merge._declared.to_plain(),
        "stable": merge.stable,
        "policy": merge.policy.to_plain(),
        "facts": merge._case.facts(),
        "members": merge._members.to_plain(),
        "divergences": merge.divergences.count,
        "output": [out.inserts, out.adjusts, out.stables, out.freezes],
        "steps": [[s.before, s.after, s.why] for s in merge.steps],
    }
    return Snapshot(document, tables)


def restore(make: type[LMerge], schema: StreamSchema, snapshot: Snapshot) -> LMerge:
    """The merger that a snapshot describes; raises `DecodeError` where it describes none."""
    try:
        merge = _restored(make, schema, snapshot)
        merge.validate()
    except (GaplessError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as e:
        raise DecodeError("snapshot of a merger", f"{type(e).__name__}: {e}") from e
    return merge


def _restored(make: type[LMerge], schema: StreamSchema, snapshot: Snapshot) -> LMerge:
    d = snapshot.document
    tables = {name: Frame(batch, None, schema) for name, batch in snapshot.tables.items()}
    merge = make(schema, d["case"], Policy.from_plain(d["policy"]))
    merge._adapts = d["adapts"]
    merge._declared = Declarations.from_plain(d["declared"])
    merge._members = Membership.from_plain(d["members"])
    merge._rescued = [tables["rescued"]] if "rescued" in tables else []
    merge.divergences.count = operator.index(d["divergences"])
    merge._put_out = OutputCounts(*map(operator.index, d["output"]))
    merge.steps = [Step(*step) for step in d["steps"]]
    _fill(merge, tables, d["stable"] if d["stable"] == BEGIN else check_stable(d["stable"]))
    merge._case.adopt_facts(d["facts"])
    if merge._adapts and merge.case < "r3":
        merge._history = _history(merge, tables)
    return merge


def _fill(merge: LMerge, tables: dict[str, Frame], stable: int) -> None:
    """Gives the case what it held."""
    case, entries = merge._case, merge._members.attached
    case.stable = stable
    case.adopt_output(tables["output"])
    for number, entry in entries.items():
        case.attach(number)
        case.promised(number, entry.stable)
    for number in entries:
        case.adopt_input(number, tables[f"input {number}"])
        if f"held {number}" in tables:
            case.hold(number, tables[f"held {number}"])


def _history(merge: LMerge, tables: dict[str, Frame]) -> History:
    history = History(merge.schema)
    history.put_out([tables["output"]])
    for number in merge.inputs:
        history.attach(number)
        history.said(number, tables[f"input {number}"])
    history.settle(merge.stable)
    return history
