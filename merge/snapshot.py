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
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gapless.merge.adapt import Declarations, Step
from gapless.merge.case_in_use import CaseInUse
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


@dataclass(frozen=True, slots=True)
class MergeParts:
    """What a merger is made of."""

    in_use: CaseInUse
    members: Membership
    put_out: OutputCounts


def take(parts: MergeParts) -> Snapshot:
    """The snapshot of a merger that is made of these."""
    in_use, out = parts.in_use, parts.put_out
    case, source = in_use.case, in_use.source
    tables = {"output": source.live().batch}
    if in_use.rescued:
        tables["rescued"] = Frame.concat(in_use.rescued).batch
    for number in parts.members.attached:
        tables[f"input {number}"] = source.told(number).batch
        if held := case.held(number):
            tables[f"held {number}"] = Frame.concat(held).batch
    document = {
        "case": case.name,
        "adapts": in_use.adapts,
        "declared": in_use.declared.to_plain(),
        "stable": case.stable,
        "policy": in_use.policy.to_plain(),
        "facts": case.facts(),
        "members": parts.members.to_plain(),
        "divergences": in_use.divergences.count,
        "output": [out.inserts, out.adjusts, out.stables, out.freezes],
        "steps": [[s.before, s.after, s.why] for s in in_use.steps],
    }
    return Snapshot(document, tables)


def restore(
    make: Callable[[MergeParts], LMerge], schema: StreamSchema, snapshot: Snapshot
) -> LMerge:
    """The merger that a snapshot describes; raises `DecodeError` where it describes none."""
    try:
        merge = make(_parts(schema, snapshot))
        merge.validate()
    except (GaplessError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as e:
        raise DecodeError("snapshot of a merger", f"{type(e).__name__}: {e}") from e
    return merge


def _parts(schema: StreamSchema, snapshot: Snapshot) -> MergeParts:
    d = snapshot.document
    tables = {name: Frame(batch, None, schema) for name, batch in snapshot.tables.items()}
    members = Membership.from_plain(d["members"])
    policy = Policy.from_plain(d["policy"])
    in_use = CaseInUse(schema, d["case"], policy, members, adapts=d["adapts"])
    in_use.declared = Declarations.from_plain(d["declared"])
    in_use.rescued = [tables["rescued"]] if "rescued" in tables else []
    in_use.divergences.count = operator.index(d["divergences"])
    in_use.steps = [Step(*step) for step in d["steps"]]
    stable = d["stable"] if d["stable"] == BEGIN else check_stable(d["stable"])
    _fill(in_use, tables, stable)
    in_use.case.adopt_facts(d["facts"])
    if in_use.history is not None:
        in_use.history = _history(in_use, tables)
    return MergeParts(in_use, members, OutputCounts(*map(operator.index, d["output"])))


def _fill(in_use: CaseInUse, tables: dict[str, Frame], stable: int) -> None:
    """Gives the case what it held."""
    case, entries = in_use.case, in_use.members.attached
    case.stable = stable
    case.adopt_output(tables["output"])
    for number, entry in entries.items():
        case.attach(number)
        case.promised(number, entry.stable)
    for number in entries:
        case.adopt_input(number, tables[f"input {number}"])
        if f"held {number}" in tables:
            case.hold(number, tables[f"held {number}"])


def _history(in_use: CaseInUse, tables: dict[str, Frame]) -> History:
    history = History(in_use.schema)
    history.put_out([tables["output"]])
    for number in in_use.members.attached:
        history.attach(number)
        history.said(number, tables[f"input {number}"])
    history.settle(in_use.case.stable)
    return history
