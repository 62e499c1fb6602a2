"""How a job is, for people and for programs: what `run`, `status` and `cutover` show of it.

talkers runs in jobs/talkers: 2 of 3 replicas, 2 of 2 mergers; root r/4.0 on head, up 81 s
table    replicas: where each is, how far, who leads, how its last life came back
table    mergers: how far the output is, and is durable
lines    alarms, the newest last
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gapless.commands.fitted_tables import Column, FittedTable
from gapless.engine.durations import text as duration_text
from gapless.protocol.elements import BEGIN, INF

if TYPE_CHECKING:
    from gapless.actors.views import JobView
    from gapless.failover.job.state import SlotState

ALARMS_SHOWN_MAX = 8
"""For people, the newest: a window has some thirty lines."""


# -- for programs ---------------------------------------------------------------------------------


def described(view: JobView, unit: str) -> dict[str, Any]:
    """One document: times are ISO texts (UTC), None where there is none."""
    state, desired = view.state, view.desired
    return {
        "job": view.name,
        "dir": view.job_dir,
        "state": desired.state,
        "ending": state.ending,
        "ended_because": state.ended_because,
        "cutover": state.cutover,
        "whole": is_whole(view),
        "desired": {
            "replicas": desired.replicas,
            "mergers": desired.mergers,
            "shards": desired.shards,
            "plans": list(desired.plans),
        },
        "running": {"replicas": running(view, "r"), "mergers": running(view, "m")},
        "cluster": view.cluster,
        "root": {
            "life": str(view.root.life),
            "node": node_name(view, view.root.node),
            "pid": view.root.pid,
        },
        "standby": None
        if view.standby is None
        else {"node": node_name(view, view.standby.node), "pid": view.standby.pid},
        "uptime_ms": view.uptime_ms,
        "nodes": dict(view.nodes),
        "replicas": [_replica(view, slot, unit) for slot in _slots(view, "r")],
        "mergers": [_merger(view, slot, unit) for slot in _slots(view, "m")],
        "divergences": [sample.text for sample in state.samples],
        "alarms": [
            {"at": time_text(alarm.at_ms, "ms"), "who": alarm.who, "what": alarm.what}
            for alarm in view.alarms
        ],
    }


def _slot(view: JobView, slot: SlotState, unit: str) -> dict[str, Any]:
    return {
        "slot": slot.slot,
        "life": None if slot.life is None else str(slot.life),
        "successor": None if slot.successor is None else str(slot.successor),
        "state": slot.state,
        "reason": slot.reason,
        "node": node_name(view, slot.node),
        "pid": view.pid_of(slot.life),
        "heard_ms": slot.heard_ms,
        "stable": time_text(slot.stable, unit),
    }


def _replica(view: JobView, slot: SlotState, unit: str) -> dict[str, Any]:
    back = slot.rejoin
    return {
        **_slot(view, slot, unit),
        "plan": slot.plan,
        "lag": duration_text(slot.lag, unit),
        "lead_share": round(slot.lead_share, 4),
        "jumped_ms": slot.jumped_ms,
        "aside_rows": slot.aside_rows,
        "rejoin": {
            "from": slot.origin,
            "state_ms": back.state_ms,
            "read_ms": back.read_ms,
            "attached_ms": back.caught_up_ms,
            "qualified_ms": slot.qualified_ms,
        },
    }


def _merger(view: JobView, slot: SlotState, unit: str) -> dict[str, Any]:
    return {
        **_slot(view, slot, unit),
        "durable": time_text(slot.durable_stable, unit),
        "inputs": slot.inputs,
        "epoch": slot.epoch,
        "divergences": slot.divergences,
        "waiting_for": slot.waiting_for,
    }


# -- what both stand on ---------------------------------------------------------------------------


def running(view: JobView, role: str) -> int:
    """How many replicas ("r") or mergers ("m") run, of all shards."""
    return sum(slot.state == "running" for slot in _slots(view, role))


def wanted(view: JobView, role: str) -> int:
    """How many should."""
    desired = view.desired
    return desired.shards * (desired.replicas if role == "r" else desired.mergers)


def is_whole(view: JobView) -> bool:
    """Whether all that should run does; what has stopped, as it should, is whole."""
    if view.desired.state == "stopped":
        return True
    return all(running(view, role) >= wanted(view, role) for role in "rm")


def durable(view: JobView, unit: str) -> str | None:
    """Up to when the whole output is durable; None where nobody knows yet."""
    stables = [slot.durable_stable for slot in _slots(view, "m") if slot.life is not None]
    return time_text(min(stables), unit) if stables else None


def time_text(t: int, unit: str) -> str | None:
    """A time of a stream; None before its begin."""
    if t == BEGIN:
        return None
    return "end" if t == INF else str(np.array(t, np.int64).view(f"datetime64[{unit}]"))


def node_name(view: JobView, node: str) -> str:
    """What a node is called; of one that is gone, the first letters of its id."""
    return view.nodes.get(node, node[:8])


def _slots(view: JobView, role: str) -> list[SlotState]:
    return [slot for slot in view.state.slots if slot.slot.startswith(role)]


# -- for people -----------------------------------------------------------------------------------


def summary(view: JobView, unit: str) -> str:
    """The job in one line."""
    counts = ", ".join(
        f"{running(view, role)} of {wanted(view, role)} {what}"
        for role, what in (("r", "replicas"), ("m", "mergers"))
    )
    upto = durable(view, unit)
    ending = "" if view.state.ending == "running" else f"; {view.state.ending}"
    cutover = f"; cutover: {view.state.cutover}" if view.state.cutover else ""
    return f"{view.name}: {counts}; output durable up to {upto or 'nothing yet'}{ending}{cutover}"


def shown(view: JobView, unit: str) -> Iterator[str | FittedTable]:
    """The job as lines and tables."""
    yield summary(view, unit)
    root, other = view.root, view.standby
    standby = (
        "" if other is None else f", pid {other.pid} on {node_name(view, other.node)} stands by"
    )
    yield (
        f"dir {view.job_dir}; root {root.life} on {node_name(view, root.node)}, pid {root.pid}, "
        f"up {view.uptime_ms // 1000} s{standby}; in the Ray cluster at {view.cluster}"
    )
    yield _replicas(view, unit)
    yield _mergers(view, unit)
    for text in dict.fromkeys(sample.text for sample in view.state.samples):
        yield f"divergence: {text}"
    hidden = len(view.alarms) - ALARMS_SHOWN_MAX
    if hidden > 0:
        yield f"{hidden} alarms before these: see --json"
    for alarm in view.alarms[-ALARMS_SHOWN_MAX:]:
        yield f"alarm {time_text(alarm.at_ms, 'ms')} {alarm.who}: {alarm.what}"


def _replicas(view: JobView, unit: str) -> FittedTable:
    """Back: milliseconds from the start of its life to state, first rows, attached, qualified."""
    slots = _slots(view, "r")
    return FittedTable(
        (
            *_head(view, slots, "replica"),
            Column("plan", tuple(slot.plan or "-" for slot in slots), 5),
            Column("stable", tuple(time_text(slot.stable, unit) or "-" for slot in slots), 1),
            Column("lag", tuple(_span(slot.lag, unit) for slot in slots), 2),
            Column("leads", tuple(f"{slot.lead_share:.0%}" for slot in slots), 4),
            Column("jumped", tuple(_span(slot.jumped_ms, "ms") for slot in slots), 8),
            Column("from", tuple(slot.origin or "-" for slot in slots), 7, folds=True),
            Column("back: state/read/attached/qualified ms", tuple(map(_phases, slots)), 9),
        )
    )


def _phases(slot: SlotState) -> str:
    back = slot.rejoin
    phases = (back.state_ms, back.read_ms, back.caught_up_ms, slot.qualified_ms)
    return "/".join("-" if ms < 0 else str(ms) for ms in phases)


def _span(count: int, unit: str) -> str:
    return duration_text(count, unit) if count else "-"


def _mergers(view: JobView, unit: str) -> FittedTable:
    slots = _slots(view, "m")
    return FittedTable(
        (
            *_head(view, slots, "merger"),
            Column("inputs", tuple(str(slot.inputs) for slot in slots), 4),
            Column("stable", tuple(time_text(slot.stable, unit) or "-" for slot in slots), 7),
            Column("durable", tuple(time_text(s.durable_stable, unit) or "-" for s in slots), 1),
            Column("epoch", tuple(str(slot.epoch) for slot in slots), 8),
            Column("diverged", tuple(str(slot.divergences) for slot in slots), 5),
            Column("waits for", tuple(slot.waiting_for or "-" for slot in slots), 2, folds=True),
        )
    )


def _head(view: JobView, slots: Sequence[SlotState], what: str) -> tuple[Column, ...]:
    states = (f"{slot.state}: {slot.reason}" if slot.reason else slot.state for slot in slots)
    return (
        Column(what, tuple(slot.slot for slot in slots), 0),
        Column("life", tuple(map(_life, slots)), 6),
        Column("state", tuple(states), 0, folds=True),
        Column("node", tuple(node_name(view, slot.node) or "-" for slot in slots), 3),
        Column("pid", tuple(str(view.pid_of(slot.life) or "-") for slot in slots), 0),
    )


def _life(slot: SlotState) -> str:
    beside = f" (then {slot.successor})" if slot.successor is not None else ""
    return "-" if slot.life is None else f"{slot.life}{beside}"


def listed(views: Sequence[tuple[str, str, JobView | str]]) -> FittedTable:
    """Jobs: the cluster of each, its name, how it is; a text where one does not answer."""
    rows: list[tuple[str, ...]] = []
    for cluster, name, view in views:
        if isinstance(view, str):
            rows.append((name, view, "-", "-", cluster, "-"))
            continue
        counts = (f"{running(view, role)}/{wanted(view, role)}" for role in "rm")
        rows.append((name, view.state.ending, *counts, cluster, view.job_dir))
    names = ("job", "state", "replicas", "mergers", "cluster", "dir")
    worths = (0, 0, 1, 2, 0, 3)
    cells = zip(*rows, strict=True)
    return FittedTable(
        tuple(
            Column(name, column, worth, folds=name in ("state", "dir"))
            for name, column, worth in zip(names, cells, worths, strict=True)
        )
    )
